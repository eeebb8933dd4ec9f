/* SPDX-License-Identifier: Apache-2.0 */
/* The verb `explain`: what was asked, done, is in force, is missing, and how it ends. */
#include "driver/cli.h"
#include "driver/explain_read.h"
#include "driver/names.h"
#include "driver/table.h"

#include <errno.h>
#include <getopt.h>

static const char usage[] =
    "usage: sriov-dra explain [-n NAMESPACE] pod/NAME|claim/NAME|vf/ADDRESS [OPTION]...\n"
    "Tells what was asked, which device was given, who is called, what was done, what the kernel\n"
    "says (on the node, as root), what is missing, and what happens at the end. Without pod/, "
    "claim/\n"
    "or vf/ the name must be that of one thing. ADDRESS is a PCI address or a device's name.\n"
    "\n"
    "  -n, --namespace NAME    of the pod or claim (default: default)\n"
    "  -o, --output FORMAT     text (default) or json\n"
    "      --node NAME         of a VF, which every node may have one of\n"
    "      --node-name NAME    the Node object's name of this machine (default: $NODE_NAME, else\n"
    "                          the host's name)\n"
    "      --driver-name NAME  (default: sriov-dra.dev)\n"
    "      --kubeconfig FILE   (default: $KUBECONFIG; in a pod its service account; else\n"
    "                          ~/.kube/config)\n"
    "      --kubelet-root DIR  (default: /var/lib/kubelet)\n"
    "      --state-dir DIR     claim records (default: <kubelet root>/plugins/<driver>/claims)\n"
    "      --sysroot DIR       where /sys is found (default: /)\n"
    "  -h, --help              this text\n"
    "\n"
    "Exit status: 0 nothing is missing; 1 something is missing or not as promised; 2 usage; 3 "
    "failed.\n";

/* What a user needs for it; docs/reference.md has the same. */
static const char rules[] =
    "It needs a ClusterRole with\n"
    "- {apiGroups: [resource.k8s.io], resources: [resourceclaims], verbs: [get, list]}\n"
    "- {apiGroups: [resource.k8s.io], resources: [resourceslices], verbs: [list]}\n"
    "- {apiGroups: [resource.k8s.io], resources: [deviceclasses], verbs: [get]}\n"
    "- {apiGroups: [\"\"], resources: [pods, nodes], verbs: [get, list]}\n"
    "- {apiGroups: [\"\"], resources: [events], verbs: [list]}\n";

enum target { TARGET_ANY, TARGET_POD, TARGET_CLAIM, TARGET_VF };

struct options {
    const char *namespace, *node, *this_node, *driver, *kubeconfig, *kubelet_root, *state_dir,
        *sysroot;
    bool json;
    enum target target;
    const char *name;              /* as given, without what stands before the slash */
    char device[DEVICE_NAME_SIZE]; /* of a VF */
};

/* ---- what is meant */

static bool parse_vf(const char *text, char ret[static DEVICE_NAME_SIZE])
{
    char address[PCI_ADDRESS_SIZE];

    if (!pci_address_parse(text, address) && !device_address(text, address))
        return false;
    device_name(address, ret);
    return true;
}

/* 0, or what is wrong with it. */
static const char *parse_target(const char *text, struct options *o)
{
    static const struct {
        const char *before;
        enum target target;
    } kinds[] = {
        {"pod/", TARGET_POD},
        {"pods/", TARGET_POD},
        {"claim/", TARGET_CLAIM},
        {"resourceclaim/", TARGET_CLAIM},
        {"resourceclaims/", TARGET_CLAIM},
        {"resourceclaim.resource.k8s.io/", TARGET_CLAIM}, /* as kubectl prints it */
        {"vf/", TARGET_VF},
    };

    o->name = text;
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        const char *rest = str_skip(text, kinds[i].before);

        if (rest) {
            o->target = kinds[i].target;
            o->name = rest;
        }
    }
    if (o->target == TARGET_ANY && parse_vf(text, o->device))
        o->target = TARGET_VF;
    if (o->target == TARGET_VF)
        return parse_vf(o->name, o->device)
                   ? NULL
                   : "neither a PCI address (0000:01:10.0) nor a device's name (0000-01-10-0)";
    return is_dns_subdomain(o->name, 253) ? NULL : "no name of a pod, claim or VF";
}

/* ---- reading it */

static int answer(struct reader *r, const struct options *o, struct explanation **ret,
                  struct err *e);

/* An API server that can't be asked is a reason to look at this machine alone. */
static bool is_away(const struct err *e)
{
    return e->kind == ERR_TRANSIENT && e->code != -EACCES;
}

static int without_api(struct reader *r, const struct options *o, struct explanation **ret,
                       struct err *why, struct err *e)
{
    r->api_why = xstrdup(err_text(why));
    if (r->cluster)
        cluster_free(TAKE_PTR(r->cluster));
    _cleanup_err_ struct err local = ERR_INIT;
    int code = answer(r, o, ret, &local);

    if (code == 0)
        return 0;
    return err_move(e, why);
}

static json_t *get_object(struct reader *r, const struct options *o, enum target target,
                          struct err *e)
{
    _cleanup_free_ char *ns = api_escape(o->namespace);
    _cleanup_free_ char *collection =
        target == TARGET_POD ? xasprintf("/api/v1/namespaces/%s/pods/", ns)
                             : xasprintf(RESOURCE "/namespaces/%s/resourceclaims/", ns);
    json_t *object = NULL;

    (void)cluster_get_named(r->cluster, collection, o->name, &object, e);
    return object;
}

static int answer_object(struct reader *r, const struct options *o, enum target target,
                         struct explanation **ret, struct err *e)
{
    json_auto_t *object = get_object(r, o, target, e);

    if (!object)
        return e->code;
    *ret = target == TARGET_POD ? explain_read_pod(r, object) : explain_read_claim(r, object, NULL);
    return 0;
}

static int answer_any(struct reader *r, const struct options *o, struct explanation **ret,
                      struct err *e)
{
    _cleanup_err_ struct err no_pod = ERR_INIT, no_claim = ERR_INIT;
    json_auto_t *pod = get_object(r, o, TARGET_POD, &no_pod);

    if (!pod && no_pod.code != -ENOENT)
        return err_move(e, &no_pod);
    json_auto_t *claim = get_object(r, o, TARGET_CLAIM, &no_claim);

    if (!claim && no_claim.code != -ENOENT)
        return err_move(e, &no_claim);
    if (pod && claim)
        return err_set(e, ERR_USER, -EEXIST,
                       "namespace %s has a pod and a claim of this name: say pod/%s or claim/%s",
                       o->namespace, o->name, o->name);
    if (!pod && !claim)
        return err_set(e, ERR_USER, -ENOENT, "namespace %s has neither a pod nor a claim \"%s\"",
                       o->namespace, o->name);
    *ret = pod ? explain_read_pod(r, pod) : explain_read_claim(r, claim, NULL);
    return 0;
}

static int answer(struct reader *r, const struct options *o, struct explanation **ret,
                  struct err *e)
{
    if (o->target == TARGET_VF)
        return explain_read_vf(r, o->node, o->device, ret, e);
    if (!r->cluster) {
        *ret = o->target == TARGET_POD ? NULL : explain_read_record(r, o->namespace, o->name);
        return *ret ? 0 : err_set(e, ERR_USER, -ENOENT, "no record of it on this node");
    }
    return o->target == TARGET_ANY ? answer_any(r, o, ret, e)
                                   : answer_object(r, o, o->target, ret, e);
}

static int read_all(struct reader *r, const struct options *o, struct explanation **ret,
                    struct err *e)
{
    _cleanup_err_ struct err why = ERR_INIT;
    int code = cluster_new(o->kubeconfig, &r->cluster, &why);

    if (code < 0)
        return without_api(r, o, ret, &why, e);
    if (r->local.records.records.n || !r->local.hardware_why)
        cluster_hurry(r->cluster);
    code = answer(r, o, ret, &why);
    if (code == 0)
        return 0;
    return is_away(&why) ? without_api(r, o, ret, &why, e) : err_move(e, &why);
}

/* ---- shown */

static int show(const struct options *o, const struct explanation *x)
{
    if (o->json) {
        json_auto_t *doc = explanation_json(x);

        json_dumpf(doc, stdout, JSON_INDENT(2));
        putchar('\n');
    } else {
        explanation_print(stdout, x, colour_wanted());
    }
    if (!cli_written("explain"))
        return EXIT_FAILED;
    return explanation_missing(x) ? EXIT_NO : EXIT_OK;
}

static int run(const struct options *o)
{
    _cleanup_(explanation_freep) struct explanation *x = NULL;
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_free_ char *this_node = o->this_node ? NULL : cli_this_node();
    struct reader r = {.driver = o->driver, .this_node = this_node ? this_node : o->this_node};
    int status = EXIT_FAILED;

    local_open(o->sysroot, o->state_dir, &r.local);
    int code = read_all(&r, o, &x, &e);

    if (code == 0) {
        status = show(o, x);
    } else {
        fprintf(stderr, "sriov-dra explain: %s\n", err_text(&e));
        status = code == -EEXIST ? EXIT_USAGE : EXIT_FAILED;
    }
    if (r.forbidden || e.code == -EACCES)
        fputs(rules, stderr);
    if (r.cluster)
        cluster_free(r.cluster);
    local_done(&r.local);
    free(r.api_why);
    return status;
}

static const struct cli cli = {"explain", usage};

int cmd_explain(int argc, char **argv)
{
    enum {
        OPT_NODE = 256,
        OPT_THIS_NODE,
        OPT_DRIVER,
        OPT_KUBECONFIG,
        OPT_ROOT,
        OPT_STATE,
        OPT_SYSROOT
    };
    static const struct option options[] = {
        {"namespace", required_argument, NULL, 'n'},
        {"output", required_argument, NULL, 'o'},
        {"node", required_argument, NULL, OPT_NODE},
        {"node-name", required_argument, NULL, OPT_THIS_NODE},
        {"driver-name", required_argument, NULL, OPT_DRIVER},
        {"kubeconfig", required_argument, NULL, OPT_KUBECONFIG},
        {"kubelet-root", required_argument, NULL, OPT_ROOT},
        {"state-dir", required_argument, NULL, OPT_STATE},
        {"sysroot", required_argument, NULL, OPT_SYSROOT},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct options o = {.namespace = "default",
                        .driver = CLI_DRIVER,
                        .kubelet_root = CLI_KUBELET_ROOT,
                        .sysroot = "/"};

    for (int c; (c = getopt_long(argc, argv, "n:o:h", options, NULL)) != -1;) {
        switch (c) {
        case 'n':
            o.namespace = optarg;
            break;
        case 'o':
            if (cli_text_or_json(&cli, "--output", optarg, &o.json) != 0)
                return EXIT_USAGE;
            break;
        case OPT_NODE:
            o.node = optarg;
            break;
        case OPT_THIS_NODE:
            o.this_node = optarg;
            break;
        case OPT_DRIVER:
            o.driver = optarg;
            break;
        case OPT_KUBECONFIG:
            o.kubeconfig = optarg;
            break;
        case OPT_ROOT:
            o.kubelet_root = optarg;
            break;
        case OPT_STATE:
            o.state_dir = optarg;
            break;
        case OPT_SYSROOT:
            o.sysroot = optarg;
            break;
        default:
            return cli_usage(&cli, c);
        }
    }
    if (optind >= argc)
        return cli_wrong(&cli, "name a pod, claim or VF", NULL);
    if (cli_no_more(&cli, argc, argv, optind + 1) != 0 ||
        cli_node_name(&cli, "--node", o.node) != 0 ||
        cli_node_name(&cli, "--node-name", o.this_node) != 0 ||
        cli_driver_name(&cli, o.driver) != 0)
        return EXIT_USAGE;
    if (!is_dns_label(o.namespace))
        return cli_wrong(&cli, "--namespace must be a namespace's name", o.namespace);
    const char *mistake = parse_target(argv[optind], &o);

    if (mistake)
        return cli_wrong(&cli, mistake, argv[optind]);
    _cleanup_free_ char *state = cli_state_dir(o.kubelet_root, o.driver);
    if (!o.state_dir)
        o.state_dir = state;
    return run(&o);
}
