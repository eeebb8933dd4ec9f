/* SPDX-License-Identifier: Apache-2.0 */
/* The verb `provision`, for a unit that runs at boot, before the kubelet. */
#include "base/str.h"
#include "driver/cli.h"
#include "driver/names.h"
#include "driver/provision_once.h"

#include <getopt.h>

static const char usage[] =
    "usage: sriov-dra provision --config FILE [--dry-run] [-o text|json] [OPTION]...\n"
    "Makes VFs and sets them up as the pools with provisioning by the driver say, before the "
    "kubelet\n"
    "starts. Needs no API server, touches no VF in use, and writes only what differs.\n"
    "\n"
    "      --config FILE        VirtualFunctionPool documents, YAML or JSON\n"
    "      --dry-run            show what would be done\n"
    "  -o, --output FORMAT      text (default) or json\n"
    "      --node-name NAME     for functions that name a node (default: $NODE_NAME, else the\n"
    "                           host's name)\n"
    "      --node-label K=V     a label of the node, for pools with a nodeSelector; more than "
    "once.\n"
    "                           Without any these pools are passed over, and what they may select\n"
    "      --driver-name NAME   (default: sriov-dra.dev)\n"
    "      --kubelet-root DIR   (default: /var/lib/kubelet)\n"
    "      --state-dir DIR      claim records: which VFs claims hold (default:\n"
    "                           <kubelet root>/plugins/<driver>/claims)\n"
    "      --sysroot DIR        where /sys is found (default: /)\n"
    "  -h, --help\n"
    "\n"
    "Exit status: 0 done, or nothing to do; 1 something is in the way, and named; 2 usage;\n"
    "3 failed. What isn't in the way of anything is done in any case.\n";

static bool add_label(json_t *labels, const char *text)
{
    const char *is = strchr(text, '=');
    _cleanup_free_ char *key = is ? xstrndup(text, (size_t)(is - text)) : NULL;

    if (!is || !is_label_key(key) || !is_label_value(is + 1))
        return false;
    json_set_str(labels, key, is + 1);
    return true;
}

static const struct cli cli = {"provision", usage};

enum {
    OPT_CONFIG = 256,
    OPT_DRY_RUN,
    OPT_NODE,
    OPT_LABEL,
    OPT_DRIVER,
    OPT_ROOT,
    OPT_STATE,
    OPT_SYSROOT,
};

static const struct option options[] = {
    {"config", required_argument, NULL, OPT_CONFIG},
    {"dry-run", no_argument, NULL, OPT_DRY_RUN},
    {"output", required_argument, NULL, 'o'},
    {"node-name", required_argument, NULL, OPT_NODE},
    {"node-label", required_argument, NULL, OPT_LABEL},
    {"driver-name", required_argument, NULL, OPT_DRIVER},
    {"kubelet-root", required_argument, NULL, OPT_ROOT},
    {"state-dir", required_argument, NULL, OPT_STATE},
    {"sysroot", required_argument, NULL, OPT_SYSROOT},
    {"help", no_argument, NULL, 'h'},
    {0},
};

/* -1: go on. */
static int take_option(struct provision_options *o, int c)
{
    switch (c) {
    case OPT_CONFIG:
        o->config = optarg;
        return -1;
    case OPT_DRY_RUN:
        o->dry_run = true;
        return -1;
    case 'o':
        return cli_text_or_json(&cli, "--output", optarg, &o->json) == 0 ? -1 : EXIT_USAGE;
    case OPT_NODE:
        free(o->node);
        o->node = xstrdup(optarg);
        return -1;
    case OPT_LABEL:
        if (!o->labels)
            o->labels = json_object();
        return add_label(o->labels, optarg)
                   ? -1
                   : cli_wrong(&cli, "--node-label must be KEY=VALUE", optarg);
    case OPT_DRIVER:
        o->driver = optarg;
        return cli_driver_name(&cli, optarg) == 0 ? -1 : EXIT_USAGE;
    case OPT_ROOT:
        o->kubelet_root = optarg;
        return -1;
    case OPT_STATE:
        o->state_dir = optarg;
        return -1;
    case OPT_SYSROOT:
        o->sysroot = optarg;
        return -1;
    }
    return cli_usage(&cli, c);
}

static int parse_and_run(struct provision_options *o, int argc, char **argv)
{
    int r = -1;

    for (int c; r < 0 && (c = getopt_long(argc, argv, "o:h", options, NULL)) != -1;)
        r = take_option(o, c);
    if (r >= 0)
        return r;
    if (cli_no_more(&cli, argc, argv, optind) != 0)
        return EXIT_USAGE;
    if (!o->config)
        return cli_wrong(&cli, "--config is missing", NULL);
    _cleanup_free_ char *state = cli_state_dir(o->kubelet_root, o->driver);
    if (!o->state_dir)
        o->state_dir = state;
    return provision_once(o);
}

int cmd_provision(int argc, char **argv)
{
    struct provision_options o = {
        .driver = CLI_DRIVER,
        .kubelet_root = CLI_KUBELET_ROOT,
        .sysroot = "/",
        .node = cli_this_node(),
    };
    int status = parse_and_run(&o, argc, argv);

    free(o.node);
    json_decref(o.labels);
    return status;
}
