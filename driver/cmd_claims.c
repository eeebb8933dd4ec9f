/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verb `claims`: every live claim of the driver, and what it still needs from the node driver.
 *
 * With --need-driver it is the guard that a removal of the driver runs, so its 0 must be true:
 * whatever couldn't be read whole ends it with EXIT_FAILED, and what can't be known counts as
 * needed.
 */
#include "driver/cli.h"
#include "driver/cluster.h"
#include "driver/live.h"
#include "driver/table.h"

#include <errno.h>
#include <getopt.h>
#include <time.h>

static const char usage[] =
    "usage: sriov-dra claims [--need-driver] [--node NAME] [-o text|json] [OPTION]...\n"
    "Lists every live claim of the driver, by node, and what it still needs from the node driver.\n"
    "\n"
    "      --need-driver       only those that need it; exits 1 if there is one, 0 if there is\n"
    "                          none\n"
    "      --node NAME         only those on this node\n"
    "  -o, --output FORMAT     text (default) or json\n"
    "      --driver-name NAME  (default: sriov-dra.dev)\n"
    "      --kubeconfig FILE   (default: $KUBECONFIG; in a pod its service account; else\n"
    "                          ~/.kube/config)\n"
    "  -h, --help              this text\n"
    "\n"
    "Exit status: 0 listed, or none needs the driver; 1 one does; 2 usage; 3 failed, nothing is\n"
    "known.\n";

/* What a user needs for it; docs/reference.md has the same. */
static const char rules[] =
    "It needs a ClusterRole with\n"
    "- {apiGroups: [resource.k8s.io], resources: [resourceclaims, resourceslices], verbs: [list]}\n"
    "- {apiGroups: [\"\"], resources: [nodes], verbs: [list]}\n";

struct options {
    const char *driver, *node, *kubeconfig;
    bool json, need_driver;
    bool driver_named; /* --driver-name was given */
};

/* ---- what there is */

struct view {
    const struct options *o;
    struct cluster *cluster;
    live_claim_vec claims;
    struct live_index index;
    bool node_seen, driver_seen;
};

static void view_done(struct view *v)
{
    live_index_done(&v->index);
    live_claim_vec_done(&v->claims);
    if (v->cluster)
        cluster_free(v->cluster);
}

/* Claims of others, and of other nodes, are dropped at once: there may be tens of thousands. */
static int take_claim(const json_t *item, void *data, struct err *e)
{
    struct view *v = data;
    struct live_claim c;
    int r = live_claim_read(item, v->o->driver, &c, e);

    if (r <= 0)
        return r;
    v->driver_seen = true;
    if (v->o->node && !live_claim_on(&c, v->o->node))
        live_claim_done(&c);
    else
        *VEC_PUSH(&v->claims) = c;
    return 0;
}

static void forget_claims(void *data)
{
    live_claim_vec_done(&((struct view *)data)->claims);
}

static int take_slice(const json_t *item, void *data, struct err *e)
{
    struct view *v = data;

    (void)e;
    v->driver_seen |= streq_null(json_str_at(item, "spec.driver"), v->o->driver);
    live_see_slice(&v->index, v->o->driver, item);
    return 0;
}

static int take_node(const json_t *item, void *data, struct err *e)
{
    struct view *v = data;

    (void)e;
    v->node_seen |= streq_null(json_str_at(item, "metadata.name"), v->o->node);
    live_see_node(&v->index, item);
    return 0;
}

/* What was seen of slices and nodes stays: seen again it is the same, or what needs the driver. */
static void see_again(void *data)
{
    (void)data;
}

static int read_nodes(struct view *v, struct err *e)
{
    _cleanup_free_ char *name = v->o->node ? api_escape(v->o->node) : NULL;
    _cleanup_free_ char *query = name ? xasprintf("fieldSelector=metadata.name%%3D%s", name) : NULL;

    return cluster_list(v->cluster,
                        &(struct cluster_list){.path = "/api/v1/nodes",
                                               .query = query,
                                               .item = take_node,
                                               .again = see_again,
                                               .data = v},
                        e);
}

static bool asks_nodes(const struct view *v)
{
    bool asks = false;

    vec_foreach (c, &v->claims)
        asks |= live_asks_node(c);
    return asks;
}

/*
 * A driver's name with a typing error in it has no claims, and the guard must not say that nothing
 * needs it. The default one may well be gone from the cluster already.
 */
static int check_driver(struct view *v, struct err *e)
{
    int r = 0;

    if (!v->o->need_driver || !v->o->driver_named || v->driver_seen)
        return 0;
    r = cluster_list_slices(v->cluster, v->o->driver, NULL, take_slice, see_again, v, e);
    if (r < 0 || v->driver_seen)
        return r;
    return err_set(
        e, ERR_USER, -ENOENT,
        "nothing in the cluster knows a driver \"%s\": no live claim has a device of it, "
        "and no ResourceSlice is its. Is --driver-name right? (`kubectl get "
        "resourceslices` lists the drivers.)",
        v->o->driver);
}

/* Claims first: what slices and nodes say of them is then no older. */
static int view_read(struct view *v, struct err *e)
{
    const struct cluster_list claims = {.path = "/apis/resource.k8s.io/v1/resourceclaims",
                                        .item = take_claim,
                                        .again = forget_claims,
                                        .data = v};
    int r;

    if ((r = cluster_new(v->o->kubeconfig, &v->cluster, e)) < 0 ||
        (r = cluster_list(v->cluster, &claims, e)) < 0)
        return r;
    live_index_build(&v->claims, &v->index);
    /* A pool is named after its node; a device of another pool isn't seen, and so counts. */
    if (v->claims.n && (r = cluster_list_slices(v->cluster, v->o->driver, v->o->node, take_slice,
                                                see_again, v, e)) < 0)
        return r;
    /* A name with a typing error in it has no claims either. */
    bool is_there = !v->o->node || v->claims.n;
    if ((!is_there || asks_nodes(v)) && (r = read_nodes(v, e)) < 0)
        return r;
    if (!is_there && !v->node_seen)
        return err_set(e, ERR_USER, -ENOENT,
                       "there is no node \"%s\", and no live claim that was on it", v->o->node);
    return check_driver(v, e);
}

/* ---- shown to people */

/* "5m", as kubectl has it; "?" where the API server said nothing that can be read. */
static char *age_text(const char *created)
{
    struct tm tm = {0};
    const char *end = created ? strptime(created, "%Y-%m-%dT%H:%M:%SZ", &tm) : NULL;

    if (!end || *end)
        return xstrdup("?");
    int64_t s = clock_wall_ms() / 1000 - timegm(&tm);

    if (s < 0)
        s = 0; /* the server's clock is ahead */
    if (s < 120)
        return xasprintf("%ds", (int)s);
    if (s < 120 * 60)
        return xasprintf("%dm", (int)(s / 60));
    if (s < 48 * 3600)
        return xasprintf("%dh", (int)(s / 3600));
    return xasprintf("%dd", (int)(s / 86400));
}

static char *consumers_text(const struct live_claim *c)
{
    struct strbuf b = {0};

    vec_foreach (r, &c->reserved_for) {
        bool pod = streq(r->resource, "pods");

        strbuf_printf(&b, "%s%s%s%s", b.len ? "," : "", pod ? "" : r->resource, pod ? "" : "/",
                      r->name);
    }
    return b.len ? strbuf_take(&b) : xstrdup("-");
}

static char *needs_text(unsigned needs)
{
    struct strbuf b = {0};

    for (unsigned bit = 1; bit <= LIVE_NEEDS_LAST; bit <<= 1)
        if (needs & bit)
            strbuf_printf(&b, "%s%s", b.len ? ", " : "", live_need_text(bit));
    return b.len ? strbuf_take(&b) : xstrdup("-");
}

/* One row a device; what is the claim's stands in the first. */
static void add_claim(struct table *t, const struct live_claim *c, unsigned needs)
{
    for (size_t i = 0; i < c->devices.n; i++) {
        const struct live_device *d = &c->devices.v[i];
        bool first = i == 0;

        table_add(t, TINT_PLAIN, xstrdup(first ? c->node : ""));
        table_add(t, TINT_BOLD, first ? xasprintf("%s/%s", c->namespace, c->name) : xstrdup(""));
        table_add(t, d->frozen == FROZEN_OTHER ? TINT_WARN : TINT_PLAIN, live_mode_text(d));
        table_add(t, TINT_PLAIN, xstrdup(d->device));
        table_add(t, TINT_PLAIN, first ? consumers_text(c) : xstrdup(""));
        table_add(t, TINT_PLAIN, first ? age_text(c->created) : xstrdup(""));
        table_add(t, needs & LIVE_NEEDS_UNKNOWN ? TINT_WARN : TINT_PLAIN,
                  first ? needs_text(needs) : xstrdup(""));
    }
}

static void print_text(const struct view *v, size_t needing)
{
    static const char *const headings[] = {"NODE", "CLAIM", "MODE", "DEVICE",
                                           "PODS", "AGE",   "NEEDS"};
    _cleanup_(table_done) struct table t = {.columns = ARRAY_SIZE(headings)};
    _cleanup_free_ char *place = v->o->node ? xasprintf(" on node %s", v->o->node) : xstrdup("");
    bool colour = colour_wanted();

    table_headings(&t, headings);
    vec_foreach (c, &v->claims) {
        unsigned needs = live_needs(c, NULL);

        if (needs || !v->o->need_driver)
            add_claim(&t, c, needs);
    }
    if (t.cells.n > t.columns) {
        table_print(stdout, &t, colour);
        putchar('\n');
    }
    vec_foreach (c, &v->claims) {
        struct strbuf why = {0};

        if (live_needs(c, &why) & LIVE_NEEDS_UNKNOWN)
            printf("%s/%s: %s.\n", c->namespace, c->name, why.s);
        strbuf_done(&why);
    }
    printf("%zu live claim%s of %s%s, %zu need%s the node driver.\n", v->claims.n,
           v->claims.n == 1 ? "" : "s", v->o->driver, place, needing, needing == 1 ? "s" : "");
}

/* ---- shown to programs */

static json_t *text_or_null(const char *s)
{
    return s ? json_string(s) : json_null();
}

static json_t *device_json(const struct live_device *d)
{
    _cleanup_free_ char *mode = live_mode_text(d);
    json_t *o = json_object();

    json_set_str(o, "request", d->request);
    json_set_str(o, "pool", d->pool);
    json_set_str(o, "device", d->device);
    json_set_str(o, "mode", mode);
    if (d->skip)
        json_object_set(o, "skipNodeOperations", d->skip);
    else
        json_object_set_new(o, "skipNodeOperations", json_array());
    json_object_set_new(o, "attach", text_or_null(d->attach_text));
    json_object_set_new(o, "attached", json_boolean(d->told));
    return o;
}

static json_t *claim_json(const struct live_claim *c)
{
    _cleanup_free_ char *mode = live_claim_mode_text(c);
    json_t *o = json_object(), *devices = json_array(), *consumers = json_array(),
           *words = json_array();
    struct strbuf why = {0};
    unsigned needs = live_needs(c, &why);

    vec_foreach (d, &c->devices)
        json_array_append_new(devices, device_json(d));
    vec_foreach (r, &c->reserved_for) {
        json_t *consumer = json_object();

        json_set_str(consumer, "resource", r->resource);
        json_set_str(consumer, "name", r->name);
        json_object_set_new(consumer, "uid", text_or_null(r->uid));
        json_array_append_new(consumers, consumer);
    }
    for (unsigned bit = 1; bit <= LIVE_NEEDS_LAST; bit <<= 1)
        if (needs & bit)
            json_array_append_new(words, json_string(live_need_text(bit)));
    json_set_str(o, "namespace", c->namespace);
    json_set_str(o, "name", c->name);
    json_set_str(o, "uid", c->uid);
    json_set_str(o, "node", c->node);
    json_object_set_new(o, "created", text_or_null(c->created));
    json_object_set_new(o, "beingDeleted", json_boolean(c->deleted));
    json_set_str(o, "mode", mode);
    json_object_set_new(
        o, "calls",
        json_pack("{sbsb}", "prepare", c->calls_prepare, "unprepare", c->calls_unprepare));
    json_object_set_new(o, "devices", devices);
    json_object_set_new(o, "reservedFor", consumers);
    json_object_set_new(o, "needsDriver", json_boolean(needs != 0));
    json_object_set_new(o, "needs", words);
    json_object_set_new(o, "why", text_or_null(why.s));
    strbuf_done(&why);
    return o;
}

/* A claim a line, written as it comes: the whole as one tree would be many times its text. */
static void print_json(const struct view *v, size_t needing)
{
    json_auto_t *driver = json_string(v->o->driver), *node = text_or_null(v->o->node);
    const char *comma = "";

    fputs("{\n  \"driver\": ", stdout);
    json_dumpf(driver, stdout, JSON_ENCODE_ANY);
    fputs(",\n  \"node\": ", stdout);
    json_dumpf(node, stdout, JSON_ENCODE_ANY);
    printf(",\n  \"live\": %zu,\n  \"needDriver\": %zu,\n  \"claims\": [", v->claims.n, needing);
    vec_foreach (c, &v->claims) {
        if (v->o->need_driver && !live_needs(c, NULL))
            continue;
        json_auto_t *o = claim_json(c);

        printf("%s\n    ", comma);
        json_dumpf(o, stdout, 0);
        comma = ",";
    }
    puts("\n  ]\n}");
}

static int failed(const struct err *e)
{
    fprintf(stderr, "sriov-dra claims: %s\n%s", err_text(e), e->code == -EACCES ? rules : "");
    return EXIT_FAILED;
}

static int show(const struct options *o)
{
    _cleanup_(view_done) struct view v = {.o = o};
    _cleanup_err_ struct err e = ERR_INIT;
    size_t needing = 0;

    if (view_read(&v, &e) < 0)
        return failed(&e);
    vec_foreach (c, &v.claims)
        needing += live_needs(c, NULL) != 0;
    if (o->json)
        print_json(&v, needing);
    else
        print_text(&v, needing);
    if (!cli_written("claims"))
        return EXIT_FAILED;
    return o->need_driver && needing ? EXIT_NO : EXIT_OK;
}

static const struct cli cli = {"claims", usage};

int cmd_claims(int argc, char **argv)
{
    enum { OPT_NODE = 256, OPT_NEED, OPT_DRIVER, OPT_KUBECONFIG };
    static const struct option options[] = {
        {"need-driver", no_argument, NULL, OPT_NEED},
        {"node", required_argument, NULL, OPT_NODE},
        {"output", required_argument, NULL, 'o'},
        {"driver-name", required_argument, NULL, OPT_DRIVER},
        {"kubeconfig", required_argument, NULL, OPT_KUBECONFIG},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    struct options o = {.driver = CLI_DRIVER};

    for (int c; (c = getopt_long(argc, argv, "o:h", options, NULL)) != -1;) {
        switch (c) {
        case OPT_NEED:
            o.need_driver = true;
            break;
        case OPT_NODE:
            o.node = optarg;
            break;
        case 'o':
            if (cli_text_or_json(&cli, "--output", optarg, &o.json) != 0)
                return EXIT_USAGE;
            break;
        case OPT_DRIVER:
            o.driver = optarg;
            o.driver_named = true;
            break;
        case OPT_KUBECONFIG:
            o.kubeconfig = optarg;
            break;
        default:
            return cli_usage(&cli, c);
        }
    }
    /* An empty name, of a variable that wasn't set, must not mean every node, nor none. */
    if (cli_no_more(&cli, argc, argv, optind) != 0 || cli_node_name(&cli, "--node", o.node) != 0 ||
        cli_driver_name(&cli, o.driver) != 0)
        return EXIT_USAGE;
    return show(&o);
}
