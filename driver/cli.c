/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/cli.h"

#include "base/str.h"
#include "driver/names.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

int cli_wrong(const struct cli *c, const char *what, const char *value)
{
    fprintf(stderr, "sriov-dra %s: %s%s%s\n\n%s", c->verb, what, value ? ": " : "",
            value ? value : "", c->usage);
    return EXIT_USAGE;
}

int cli_usage(const struct cli *c, int option)
{
    fputs(c->usage, option == 'h' ? stdout : stderr);
    return option == 'h' ? EXIT_OK : EXIT_USAGE;
}

int cli_text_or_json(const struct cli *c, const char *option, const char *value, bool *ret_json)
{
    _cleanup_free_ char *what = xasprintf("%s must be text or json", option);

    if (!streq(value, "json") && !streq(value, "text"))
        return cli_wrong(c, what, value);
    *ret_json = streq(value, "json");
    return 0;
}

int cli_driver_name(const struct cli *c, const char *value)
{
    if (is_dns_subdomain(value, 63))
        return 0;
    return cli_wrong(c, "--driver-name must be a DNS subdomain of at most 63 characters", value);
}

int cli_node_name(const struct cli *c, const char *option, const char *value)
{
    _cleanup_free_ char *what = xasprintf("%s must be a node's name", option);

    return !value || is_dns_subdomain(value, 253) ? 0 : cli_wrong(c, what, value);
}

int cli_no_more(const struct cli *c, int argc, char **argv, int next)
{
    return next < argc ? cli_wrong(c, "unexpected argument", argv[next]) : 0;
}

char *cli_state_dir(const char *kubelet_root, const char *driver)
{
    return xasprintf("%s/plugins/%s/claims", kubelet_root, driver);
}

/* Lower case as in GetHostname() of k8s.io/component-helpers/node/util/hostname.go. */
char *cli_this_node(void)
{
    const char *given = getenv("NODE_NAME");
    char host[HOST_NAME_MAX + 1] = "";

    if (given && *given)
        return xstrdup(given);
    (void)gethostname(host, sizeof(host) - 1);
    for (char *c = host; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return xstrdup(host);
}

bool cli_written(const char *verb)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    fprintf(stderr, "sriov-dra %s: standard output: %m\n", verb);
    return false;
}
