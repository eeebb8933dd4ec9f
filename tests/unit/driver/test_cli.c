/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/cli.h"

#include "base/str.h"
#include "tests/unit/test.h"

#include <stdio.h>
#include <unistd.h>

static const struct cli cli = {"verb", "usage: sriov-dra verb\n"};

static const char *host_name;

int __wrap_gethostname(char *name, size_t size);
int __wrap_gethostname(char *name, size_t size)
{
    snprintf(name, size, "%s", host_name);
    return 0;
}

/* What the machine is called is what its kubelet would call it. */
static void this_node(void **state)
{
    static const struct {
        const char *given, *host, *want;
    } cases[] = {
        {NULL, "worker-1", "worker-1"},
        {NULL, "Worker-1.Example.COM", "worker-1.example.com"},
        {"", "Worker-1", "worker-1"},
        {"node-7", "Worker-1", "node-7"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        host_name = cases[i].host;
        if (cases[i].given)
            setenv("NODE_NAME", cases[i].given, 1);
        else
            unsetenv("NODE_NAME");
        _cleanup_free_ char *got = cli_this_node();
        assert_string_equal(got, cases[i].want);
    }
    unsetenv("NODE_NAME");
}

static void state_dir(void **state)
{
    (void)state;
    _cleanup_free_ char *dir = cli_state_dir(CLI_KUBELET_ROOT, CLI_DRIVER);

    assert_string_equal(dir, "/var/lib/kubelet/plugins/sriov-dra.dev/claims");
}

/* stderr goes into `file` until said_end(). */
static int said_begin(FILE *file)
{
    int before = dup(STDERR_FILENO);

    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    return before;
}

static void said_end(FILE *file, int before, char *ret, size_t size)
{
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    ret[fread(ret, 1, size - 1, file)] = '\0';
    fclose(file);
}

enum check { OUTPUT, DRIVER_NAME, NODE_NAME, NO_MORE };

static int run_check(enum check check, const char *value, bool *json)
{
    char *argv[] = {(char *)(uintptr_t)value, NULL};

    switch (check) {
    case OUTPUT:
        return cli_text_or_json(&cli, "--output", value, json);
    case DRIVER_NAME:
        return cli_driver_name(&cli, value);
    case NODE_NAME:
        return cli_node_name(&cli, "--node", value);
    case NO_MORE:
        return cli_no_more(&cli, value ? 1 : 0, argv, 0);
    }
    return -1;
}

/* `said` NULL: it is fine, and nothing is said. */
static void checks(void **state)
{
    static const char long64[] = "a123456789b123456789c123456789d123456789.123456789f123456789g123";
    static const struct {
        enum check check;
        const char *value, *said;
    } cases[] = {
        {OUTPUT, "text", NULL},
        {OUTPUT, "json", NULL},
        {OUTPUT, "JSON", "--output must be text or json: JSON"},
        {DRIVER_NAME, CLI_DRIVER, NULL},
        {DRIVER_NAME, long64 + 1, NULL},
        {DRIVER_NAME, long64, "--driver-name must be a DNS subdomain of at most 63 characters"},
        {DRIVER_NAME, "", "--driver-name must be a DNS subdomain of at most 63 characters: \n"},
        {NODE_NAME, NULL, NULL},
        {NODE_NAME, long64, NULL},
        {NODE_NAME, "", "--node must be a node's name: \n"},
        {NODE_NAME, "a b", "--node must be a node's name: a b"},
        {NO_MORE, NULL, NULL},
        {NO_MORE, "more", "unexpected argument: more\n\nusage: sriov-dra verb\n"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        FILE *file = tmpfile();
        char said[512];
        bool json = false;
        int before = said_begin(file);
        int r = run_check(cases[i].check, cases[i].value, &json);

        said_end(file, before, said, sizeof(said));
        if (r != (cases[i].said ? EXIT_USAGE : 0))
            fail_msg("case %zu: %d", i, r);
        if (cases[i].said ? !strstr(said, cases[i].said) : *said)
            fail_msg("case %zu: said \"%s\"", i, said);
        assert_int_equal(json, cases[i].check == OUTPUT && streq(cases[i].value, "json"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(this_node),
        cmocka_unit_test(state_dir),
        cmocka_unit_test(checks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
