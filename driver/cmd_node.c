/* SPDX-License-Identifier: Apache-2.0 */
/* The verb `node`: the driver of one node. */
#include "base/log.h"
#include "driver/cli.h"
#include "driver/hook.h"
#include "driver/node.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>

static const char usage[] =
    "usage: sriov-dra node --node-name NAME [OPTION]...\n"
    "Serves the kubelet and the container runtime of one node, and publishes its VFs.\n"
    "\n"
    "  --node-name NAME      the Node object's name (default: $NODE_NAME)\n"
    "  --config FILE         VirtualFunctionPool documents, YAML or JSON; without it nothing is\n"
    "                        offered\n"
    "  --kubeconfig FILE     how to reach the API server (default: the pod's service account)\n"
    "  --driver-name NAME    driver name and attribute domain (default: sriov-dra.dev)\n"
    "  --kubelet-root DIR    (default: /var/lib/kubelet)\n"
    "  --state-dir DIR       claim records (default: <kubelet root>/plugins/<driver>/claims)\n"
    "  --cdi-dir DIR         (default: /var/run/cdi)\n"
    "  --hook FILE           program that keeps containers from starting without their VF\n"
    "                        (default: sriov-dra-hook beside this one); \"\" for none\n"
    "  --hook-dir DIR        where it is installed for the runtime, as the path is on the host\n"
    "                        (default: <kubelet root>/plugins/<driver>)\n"
    "  --nri-socket PATH     (default: /var/run/nri/nri.sock)\n"
    "  --sysroot DIR         where /sys is found (default: /)\n"
    "  --metrics-address A   serve /metrics, /healthz and /readyz at 127.0.0.1:9808, [::1]:9808, "
    "or\n"
    "                        :9808 for all addresses (default: nowhere)\n"
    "  --log-format FORMAT   text or json (default: text)\n"
    "  -v, --verbose         debug messages\n"
    "  -h, --help\n"
    "\n"
    "Exit status: 0 stopped by a signal, 2 usage, 3 failed.\n";

enum {
    OPT_NODE = 256,
    OPT_CONFIG,
    OPT_KUBECONFIG,
    OPT_DRIVER,
    OPT_ROOT,
    OPT_STATE,
    OPT_CDI,
    OPT_HOOK,
    OPT_HOOK_DIR,
    OPT_NRI,
    OPT_SYSROOT,
    OPT_METRICS,
    OPT_LOG
};

static const struct option options[] = {
    {"node-name", required_argument, NULL, OPT_NODE},
    {"config", required_argument, NULL, OPT_CONFIG},
    {"kubeconfig", required_argument, NULL, OPT_KUBECONFIG},
    {"driver-name", required_argument, NULL, OPT_DRIVER},
    {"kubelet-root", required_argument, NULL, OPT_ROOT},
    {"state-dir", required_argument, NULL, OPT_STATE},
    {"cdi-dir", required_argument, NULL, OPT_CDI},
    {"hook", required_argument, NULL, OPT_HOOK},
    {"hook-dir", required_argument, NULL, OPT_HOOK_DIR},
    {"nri-socket", required_argument, NULL, OPT_NRI},
    {"sysroot", required_argument, NULL, OPT_SYSROOT},
    {"metrics-address", required_argument, NULL, OPT_METRICS},
    {"log-format", required_argument, NULL, OPT_LOG},
    {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static void block_signals(void)
{
    sigset_t set;

    /* before any thread is started: all inherit it, gRPC's too */
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static char *hook_beside_us(void)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (n < 0)
        return xstrdup(HOOK_NAME);
    self[n] = '\0';
    return xasprintf("%.*s/" HOOK_NAME, (int)(strrchr(self, '/') - self), self);
}

static const struct cli cli = {"node", usage};

int cmd_node(int argc, char **argv)
{
    struct node_config c = {
        .name = getenv("NODE_NAME"),
        .driver = CLI_DRIVER,
        .kubelet_root = CLI_KUBELET_ROOT,
        .cdi_dir = "/var/run/cdi",
        .nri_socket = "/var/run/nri/nri.sock",
        .sysroot = "/",
        .version = driver_version,
    };
    enum log_level level = LOG_INFO;
    bool json = false;
    _cleanup_err_ struct err e = ERR_INIT;

    for (int o; (o = getopt_long(argc, argv, "vh", options, NULL)) != -1;) {
        switch (o) {
        case OPT_NODE:
            c.name = optarg;
            break;
        case OPT_CONFIG:
            c.pools_file = optarg;
            break;
        case OPT_KUBECONFIG:
            c.kubeconfig = optarg;
            break;
        case OPT_DRIVER:
            c.driver = optarg;
            break;
        case OPT_ROOT:
            c.kubelet_root = optarg;
            break;
        case OPT_STATE:
            c.state_dir = optarg;
            break;
        case OPT_CDI:
            c.cdi_dir = optarg;
            break;
        case OPT_HOOK:
            c.hook = optarg;
            break;
        case OPT_HOOK_DIR:
            c.hook_dir = optarg;
            break;
        case OPT_NRI:
            c.nri_socket = optarg;
            break;
        case OPT_SYSROOT:
            c.sysroot = optarg;
            break;
        case OPT_METRICS:
            c.metrics_address = optarg;
            break;
        case OPT_LOG:
            if (cli_text_or_json(&cli, "--log-format", optarg, &json) != 0)
                return EXIT_USAGE;
            break;
        case 'v':
            level = LOG_DEBUG;
            break;
        default:
            return cli_usage(&cli, o);
        }
    }
    if (cli_no_more(&cli, argc, argv, optind) != 0)
        return EXIT_USAGE;
    if (!c.name || !*c.name)
        return cli_wrong(&cli, "--node-name is missing", NULL);
    if (cli_driver_name(&cli, c.driver) != 0)
        return EXIT_USAGE;
    if (*c.kubelet_root != '/')
        return cli_wrong(&cli, "--kubelet-root must be an absolute path", c.kubelet_root);
    _cleanup_free_ char *plugin = xasprintf("%s/plugins/%s", c.kubelet_root, c.driver);
    _cleanup_free_ char *state = cli_state_dir(c.kubelet_root, c.driver), *hook = hook_beside_us();
    if (!c.state_dir)
        c.state_dir = state;
    if (!c.hook_dir)
        c.hook_dir = plugin;
    if (!c.hook)
        c.hook = hook;
    /* The runtime runs the hook from its own directory, and the hook reads the records. */
    if (*c.state_dir != '/')
        return cli_wrong(&cli, "--state-dir must be an absolute path", c.state_dir);
    if (*c.hook_dir != '/')
        return cli_wrong(&cli, "--hook-dir must be an absolute path", c.hook_dir);

    block_signals();
    log_setup(level, json ? LOG_JSON : LOG_TEXT);
    if (node_run(&c, &e) < 0) {
        log_error_err(&e, "driver can't go on");
        return EXIT_FAILED;
    }
    return EXIT_OK;
}
