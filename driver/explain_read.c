/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/explain_read.h"

#include <errno.h>

/* ---- read, or said why not */

static void not_read(struct reader *r, struct explanation *x, const char *what,
                     const struct err *why)
{
    r->forbidden |= why->code == -EACCES;
    explain(x, EXPLAIN_MISSING, "NotRead", "%s can't be read, so this isn't all: %s.", what,
            err_text(why));
}

/* NULL with *ret_gone if there is none of that name, NULL without if it couldn't be read. */
static json_t *get(struct reader *r, struct explanation *x, const char *collection,
                   const char *name, const char *what, bool *ret_gone)
{
    _cleanup_err_ struct err e = ERR_INIT;
    json_t *o = NULL;

    *ret_gone = false;
    if (!r->cluster || cluster_get_named(r->cluster, collection, name, &o, &e) == 0)
        return o;
    *ret_gone = e.code == -ENOENT;
    if (!*ret_gone)
        not_read(r, x, what, &e);
    return NULL;
}

static int keep(const json_t *item, void *data, struct err *e)
{
    (void)e;
    json_array_append(data, (json_t *)item); /* counts a reference */
    return 0;
}

static void keep_again(void *data)
{
    json_array_clear(data);
}

/* The objects of a list, NULL if it couldn't be read. */
static json_t *list(struct reader *r, struct explanation *x, const char *path, const char *query,
                    const char *what)
{
    _cleanup_err_ struct err e = ERR_INIT;
    json_t *items = json_array();
    const struct cluster_list l = {
        .path = path, .query = query, .item = keep, .again = keep_again, .data = items};

    if (r->cluster && cluster_list(r->cluster, &l, &e) == 0)
        return items;
    if (r->cluster)
        not_read(r, x, what, &e);
    json_decref(items);
    return NULL;
}

/* ---- slices of pools */

struct slices {
    json_t *kept;
    const char *pool;
};

static int keep_slice(const json_t *item, void *data, struct err *e)
{
    struct slices *s = data;

    (void)e;
    if (streq_null(json_str_at(item, "spec.pool.name"), s->pool))
        json_array_append(s->kept, (json_t *)item);
    return 0;
}

static void drop_pool(void *data)
{
    struct slices *s = data;

    for (size_t i = json_array_size(s->kept); i-- > 0;)
        if (streq_null(json_str_at(json_array_get(s->kept, i), "spec.pool.name"), s->pool))
            json_array_remove(s->kept, i);
}

/* Appends those of one pool. */
int explain_read_slices(struct reader *r, const char *pool, json_t *kept, struct err *e)
{
    struct slices s = {.kept = kept, .pool = pool};

    return cluster_list_slices(r->cluster, r->driver, pool, keep_slice, drop_pool, &s, e);
}

/* Of all pools that a claim has devices of. */
static json_t *slices_of_claim(struct reader *r, const struct live_claim *c, struct explanation *x)
{
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *kept = json_array();

    for (size_t i = 0; i < c->devices.n; i++) {
        bool before = false;

        for (size_t k = 0; k < i; k++)
            before |= streq(c->devices.v[k].pool, c->devices.v[i].pool);
        if (!before && explain_read_slices(r, c->devices.v[i].pool, kept, &e) < 0) {
            not_read(r, x, "The driver's slices", &e);
            return NULL;
        }
    }
    return json_incref(kept);
}

/* ---- classes and pods of a claim */

static void add_class(struct reader *r, json_t *classes, const char *name, struct explanation *x)
{
    bool gone;
    json_t *class;

    if (!name || json_object_get(classes, name))
        return;
    class = get(r, x, RESOURCE "/deviceclasses/", name, "A DeviceClass", &gone);
    if (class || gone)
        json_object_set_new(classes, name, class ? class : json_null());
}

static json_t *read_classes(struct reader *r, const json_t *claim, struct explanation *x)
{
    json_t *classes = json_object(), *request, *alternative;
    size_t n, k;

    json_array_foreach (json_at(claim, "spec.devices.requests"), n, request) {
        add_class(r, classes, json_str_at(request, "exactly.deviceClassName"), x);
        json_array_foreach (json_object_get(request, "firstAvailable"), k, alternative)
            add_class(r, classes, json_str_at(alternative, "deviceClassName"), x);
    }
    return classes;
}

static char *pods_path(const char *namespace, const char *slash)
{
    _cleanup_free_ char *ns = api_escape(namespace);

    return xasprintf("/api/v1/namespaces/%s/pods%s", ns, slash);
}

static bool names_claim(const json_t *pod, const char *claim)
{
    explain_pod_claim_vec claims;
    bool names = false;

    explain_pod_claims(pod, &claims);
    vec_foreach (c, &claims)
        names |= streq_null(c->name, claim);
    free(claims.v);
    return names;
}

/* NULL if they couldn't be read. */
static json_t *pods_that_name(struct reader *r, struct explanation *x)
{
    _cleanup_free_ char *path = pods_path(x->namespace, "");
    json_t *pods = list(r, x, path, NULL, "The pods of its namespace");

    for (size_t i = json_array_size(pods); i-- > 0;)
        if (!names_claim(json_array_get(pods, i), x->name))
            json_array_remove(pods, i);
    return pods;
}

/* `known` (may be NULL) is one that was read already. */
static json_t *reserved_pods(struct reader *r, const struct live_claim *c, const json_t *known,
                             struct explanation *x)
{
    _cleanup_free_ char *path = pods_path(c->namespace, "/");
    json_t *pods = json_array();
    bool gone;

    vec_foreach (it, &c->reserved_for) {
        json_t *pod = NULL;

        if (it->uid && streq_null(json_str_at(known, "metadata.uid"), it->uid))
            pod = json_incref((json_t *)known); /* only its count is written */
        else if (streq(it->resource, "pods"))
            pod = get(r, x, path, it->name, "A pod", &gone);
        if (pod)
            json_array_append_new(pods, pod);
    }
    return pods;
}

/* ---- what the driver offers to a claim without allocation */

struct market {
    struct reader *r;
    live_claim_vec claims;
    struct live_index taken;
    struct supply supply;
};

static int market_claim(const json_t *item, void *data, struct err *e)
{
    struct market *m = data;
    struct live_claim c;
    int r = live_claim_read(item, m->r->driver, &c, e);

    if (r > 0)
        *VEC_PUSH(&m->claims) = c;
    return r < 0 ? r : 0;
}

static void market_claims_again(void *data)
{
    live_claim_vec_done(&((struct market *)data)->claims);
}

static int market_slice(const json_t *item, void *data, struct err *e)
{
    struct market *m = data;

    (void)e;
    supply_see_slice(&m->supply, &m->taken, m->r->driver, item);
    return 0;
}

static void market_slices_again(void *data)
{
    supply_done(&((struct market *)data)->supply);
}

static int market_node(const json_t *item, void *data, struct err *e)
{
    (void)e;
    supply_see_node(&((struct market *)data)->supply, item);
    return 0;
}

static void market_nodes_again(void *data)
{
    (void)data; /* seen again they say the same, or the newer */
}

static bool read_supply(struct reader *r, struct supply *ret, struct explanation *x)
{
    struct market m = {.r = r};
    _cleanup_err_ struct err e = ERR_INIT;
    const struct cluster_list claims = {.path = RESOURCE "/resourceclaims",
                                        .item = market_claim,
                                        .again = market_claims_again,
                                        .data = &m},
                              nodes = {.path = "/api/v1/nodes",
                                       .item = market_node,
                                       .again = market_nodes_again,
                                       .data = &m};
    int ret_code = cluster_list(r->cluster, &claims, &e);

    live_index_build(&m.claims, &m.taken);
    if (ret_code == 0)
        ret_code = cluster_list_slices(r->cluster, r->driver, NULL, market_slice,
                                       market_slices_again, &m, &e);
    if (ret_code == 0)
        ret_code = cluster_list(r->cluster, &nodes, &e);
    if (ret_code < 0)
        not_read(r, x, "What the driver offers", &e);
    live_index_done(&m.taken);
    live_claim_vec_done(&m.claims);
    *ret = m.supply;
    return ret_code == 0;
}

/* ---- this machine */

void explain_say_limits(struct reader *r, struct explanation *x)
{
    if (r->api_why)
        explain(x, EXPLAIN_MISSING, "NoApi",
                "The API server can't be asked, so only this node's record and kernel speak: %s.",
                r->api_why);
    if (r->local.records_why)
        explain(x, EXPLAIN_MISSING, "NoRecords",
                "The records of this node's driver can't be read: %s. Root can, and --state-dir or "
                "--kubelet-root say where else they are.",
                r->local.records_why);
    vec_foreach (b, &r->local.records.bad)
        explain(x, EXPLAIN_MISSING, "RecordDamaged",
                "A record of this node's driver is damaged, %s: %s.", b->file, b->why);
}

void explain_look(struct reader *r, const char *device, explain_seen_vec *seen)
{
    char address[PCI_ADDRESS_SIZE];

    if (!device_address(device, address))
        return;
    struct explain_seen *s = VEC_PUSH(seen);

    s->device = xstrdup(device);
    local_look(&r->local, address, &s->vf);
}

/* ---- a claim */

/* What this machine knows of a live claim, if it is the claim's node. */
static void look_here(struct reader *r, const struct live_claim *c, struct explain_input *in,
                      explain_seen_vec *seen, struct explanation *x)
{
    in->record = local_record(&r->local, c->uid);
    in->here = in->record || streq(r->this_node, c->node);
    if (!in->here)
        return;
    explain_say_limits(r, x);
    vec_foreach (d, &c->devices)
        explain_look(r, d->device, seen);
}

struct explanation *explain_read_claim(struct reader *r, const json_t *claim, const json_t *pod)
{
    const char *namespace = json_str_at(claim, "metadata.namespace"),
               *name = json_str_at(claim, "metadata.name");
    struct explanation *x =
        explanation_new("ResourceClaim", namespace ? namespace : "?", name ? name : "?");
    json_auto_t *classes = read_classes(r, claim, x), *slices = NULL, *node = NULL, *pods = NULL;
    _cleanup_(explain_seen_vec_done) explain_seen_vec seen = {0};
    _cleanup_(live_claim_done) struct live_claim live = {0};
    _cleanup_(supply_done) struct supply supply = {0};
    struct explain_input in = {.driver = r->driver,
                               .this_node = r->this_node,
                               .claim = claim,
                               .classes = classes,
                               .seen = &seen};
    bool gone;

    if (live_claim_read(claim, r->driver, &live, NULL) > 0) {
        in.slices = slices = slices_of_claim(r, &live, x);
        in.node = node = get(r, x, "/api/v1/nodes/", live.node, "Its node", &gone);
        if (gone)
            explain(x, EXPLAIN_MISSING, "NoNode", "There is no node %s any more.", live.node);
        in.pods = pods = reserved_pods(r, &live, pod, x);
        look_here(r, &live, &in, &seen, x);
    } else if (!json_is_object(json_at(claim, "status.allocation"))) {
        in.pods = pods = pod ? NULL : pods_that_name(r, x);
        in.supply = read_supply(r, &supply, x) ? &supply : NULL;
    }
    explain_claim(&in, x);
    return x;
}

struct explanation *explain_read_record(struct reader *r, const char *namespace, const char *name)
{
    const struct record *rec = local_record_named(&r->local, namespace, name);
    _cleanup_(explain_seen_vec_done) explain_seen_vec seen = {0};

    if (!rec)
        return NULL;
    struct explanation *x = explanation_new("ResourceClaim", namespace, name);
    const struct explain_input in = {
        .driver = r->driver, .this_node = r->this_node, .here = true, .record = rec, .seen = &seen};

    explain_say_limits(r, x);
    vec_foreach (d, &rec->devices)
        explain_look(r, d->grant.device, &seen);
    explain_record(&in, x);
    return x;
}

/* ---- a pod */

static json_t *read_events(struct reader *r, const json_t *pod, struct explanation *x)
{
    const char *uid = json_str_at(pod, "metadata.uid");
    _cleanup_free_ char *ns = api_escape(x->namespace), *of = api_escape(uid ? uid : "");
    _cleanup_free_ char *path = xasprintf("/api/v1/namespaces/%s/events", ns);
    _cleanup_free_ char *query = xasprintf("fieldSelector=involvedObject.uid%%3D%s", of);

    return list(r, x, path, query, "The pod's events");
}

struct explanation *explain_read_pod(struct reader *r, const json_t *pod)
{
    const char *namespace = json_str_at(pod, "metadata.namespace"),
               *name = json_str_at(pod, "metadata.name");
    struct explanation *x = explanation_new("Pod", namespace ? namespace : "?", name ? name : "?");
    bool waits = streq_null(json_str_at(pod, "status.phase"), "Pending") &&
                 json_str_at(pod, "spec.nodeName");
    json_auto_t *events = waits ? read_events(r, pod, x) : NULL;
    _cleanup_free_ char *ns = api_escape(x->namespace);
    _cleanup_free_ char *claims = xasprintf(RESOURCE "/namespaces/%s/resourceclaims/", ns);
    explain_pod_claim_vec names;

    explain_pod(pod, events, x);
    explain_pod_claims(pod, &names);
    vec_foreach (c, &names) {
        bool gone;
        json_auto_t *claim = c->name ? get(r, x, claims, c->name, "A claim", &gone) : NULL;

        if (claim)
            *VEC_PUSH(&x->claims) = explain_read_claim(r, claim, pod);
        else if (c->name && gone)
            explain(x, EXPLAIN_MISSING, "NoClaim", "There is no ResourceClaim \"%s\".", c->name);
    }
    free(names.v);
    return x;
}
