/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/live.h"

#include "driver/allocation.h"

#include <errno.h>

static void device_done(struct live_device *d)
{
    free(d->request);
    free(d->pool);
    free(d->device);
    free(d->attach_text);
    json_decref(d->skip);
}

void live_claim_done(struct live_claim *c)
{
    vec_foreach (d, &c->devices)
        device_done(d);
    vec_foreach (r, &c->reserved_for) {
        free(r->resource);
        free(r->name);
        free(r->uid);
    }
    free(c->devices.v);
    free(c->reserved_for.v);
    free(c->namespace);
    free(c->name);
    free(c->uid);
    free(c->created);
    free(c->node);
    *c = (struct live_claim){0};
}

void live_claim_vec_done(live_claim_vec *v)
{
    vec_foreach (c, v)
        live_claim_done(c);
    free(v->v);
    *v = (live_claim_vec){0};
}

/* ---- a claim read */

/* Whether the list has nothing but what we know, and the values make one of the modes. */
static enum frozen frozen_of(const json_t *list)
{
    static const char *const known[] = {"*", "NodePrepareResources", "NodeUnprepareResources"};
    bool prepare, unprepare;
    json_t *v;
    size_t n;

    json_array_foreach (list, n, v) {
        bool found = false;

        for (size_t i = 0; i < ARRAY_SIZE(known); i++)
            found |= streq_null(json_c_str(v), known[i]);
        if (!found)
            return FROZEN_OTHER;
    }
    skip_list_read(list, &prepare, &unprepare);
    if (prepare)
        return unprepare ? FROZEN_SKIP : FROZEN_OTHER;
    return unprepare ? FROZEN_DEFER_CLEANUP : FROZEN_PREPARE;
}

static int need(const json_t *o, const char *key, char **ret, struct err *e)
{
    const char *s = json_str_at(o, key);

    if (!s || !*s)
        return err_set(e, ERR_PERMANENT, -EBADMSG, "no %s in what the API server sent", key);
    *ret = xstrdup(s);
    return 0;
}

static int read_device(const json_t *result, struct live_claim *c, struct err *e)
{
    struct live_device *d = VEC_PUSH(&c->devices);
    json_t *list = json_object_get(result, "skipNodeOperations");
    bool prepare, unprepare;
    int r;

    if ((r = need(result, "request", &d->request, e)) < 0 ||
        (r = need(result, "pool", &d->pool, e)) < 0 ||
        (r = need(result, "device", &d->device, e)) < 0)
        return r;
    if (list && !json_is_null(list) && !json_is_array(list))
        return err_set(e, ERR_PERMANENT, -EBADMSG, "skipNodeOperations is no list");
    d->skip = json_array_size(list) ? json_incref(list) : NULL;
    d->frozen = frozen_of(list);
    skip_list_read(list, &prepare, &unprepare);
    c->calls_prepare |= !prepare;
    c->calls_unprepare |= !unprepare;
    return 0;
}

static int read_devices(const json_t *claim, const char *driver, struct live_claim *c,
                        struct err *e)
{
    json_t *list = json_at(claim, "status.allocation.devices.results"), *v;
    size_t n;

    if (list && !json_is_null(list) && !json_is_array(list))
        return err_set(e, ERR_PERMANENT, -EBADMSG, "results is no list");
    json_array_foreach (list, n, v) {
        const char *of = json_str_at(v, "driver");

        if (!of)
            return err_set(e, ERR_PERMANENT, -EBADMSG,
                           "a device without a driver in what the API server sent");
        int r = streq(of, driver) ? read_device(v, c, e) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

static void read_told(const json_t *claim, const char *driver, struct live_claim *c)
{
    json_t *list = json_at(claim, "status.devices"), *v;
    size_t n;

    json_array_foreach (list, n, v)
        vec_foreach (d, &c->devices)
            d->told |= streq_null(json_str_at(v, "driver"), driver) &&
                       streq_null(json_str_at(v, "pool"), d->pool) &&
                       streq_null(json_str_at(v, "device"), d->device) &&
                       json_is_object(json_object_get(v, "networkData"));
}

static void read_consumers(const json_t *claim, struct live_claim *c)
{
    json_t *list = json_at(claim, "status.reservedFor"), *v;
    size_t n;

    json_array_foreach (list, n, v) {
        const char *resource = json_str_at(v, "resource"), *name = json_str_at(v, "name");

        if (resource && name)
            *VEC_PUSH(&c->reserved_for) = (struct live_consumer){xstrdup(resource), xstrdup(name),
                                                                 xstrdup(json_str_at(v, "uid"))};
    }
}

const char *live_selected_node(const json_t *selector)
{
    const json_t *terms = json_object_get(selector, "nodeSelectorTerms"),
                 *term = json_array_get(terms, 0), *fields = json_object_get(term, "matchFields"),
                 *field = json_array_get(fields, 0), *values = json_object_get(field, "values");

    if (json_array_size(terms) != 1 || json_array_size(fields) != 1 ||
        json_array_size(values) != 1 || !streq_null(json_str_at(field, "key"), "metadata.name") ||
        !streq_null(json_str_at(field, "operator"), "In"))
        return NULL;
    return json_c_str(json_array_get(values, 0));
}

static int read_claim(const json_t *claim, const char *driver, struct live_claim *c, struct err *e)
{
    const json_t *deleted = json_at(claim, "metadata.deletionTimestamp");
    int r;

    if ((r = need(claim, "metadata.namespace", &c->namespace, e)) < 0 ||
        (r = need(claim, "metadata.name", &c->name, e)) < 0 ||
        (r = need(claim, "metadata.uid", &c->uid, e)) < 0 ||
        (r = read_devices(claim, driver, c, e)) < 0)
        return r;
    if (!c->devices.n)
        return 0;
    const char *node = live_selected_node(json_at(claim, "status.allocation.nodeSelector"));

    /* A pool is named after its node. */
    c->node = xstrdup(node ? node : c->devices.v[0].pool);
    c->created = xstrdup(json_str_at(claim, "metadata.creationTimestamp"));
    c->deleted = deleted && !json_is_null(deleted);
    read_told(claim, driver, c);
    read_consumers(claim, c);
    return 1;
}

int live_claim_read(const json_t *claim, const char *driver, struct live_claim *ret, struct err *e)
{
    _cleanup_(live_claim_done) struct live_claim c = {0};
    const json_t *allocation = json_at(claim, "status.allocation");

    if (!allocation || json_is_null(allocation))
        return 0;
    int r = json_is_object(allocation)
                ? read_claim(claim, driver, &c, e)
                : err_set(e, ERR_PERMANENT, -EBADMSG, "status.allocation is no object");
    if (r < 0)
        return err_prefix(e, r, "claim %s/%s", c.namespace ? c.namespace : "?",
                          c.name ? c.name : "?");
    if (r > 0) {
        *ret = c;
        c = (struct live_claim){0};
    }
    return r;
}

bool live_claim_on(const struct live_claim *c, const char *node)
{
    bool on = streq(c->node, node);

    vec_foreach (d, &c->devices)
        on |= streq(d->pool, node);
    return on;
}

char *live_mode_text(const struct live_device *d)
{
    switch (d->frozen) {
    case FROZEN_PREPARE:
        return xstrdup("Prepare");
    case FROZEN_DEFER_CLEANUP:
        return xstrdup("DeferCleanup");
    case FROZEN_SKIP:
        return xstrdup("Skip");
    case FROZEN_OTHER:
        break;
    }
    return json_text(d->skip);
}

char *live_claim_mode_text(const struct live_claim *c)
{
    struct strbuf b = {0};

    for (size_t i = 0; i < c->devices.n; i++) {
        _cleanup_free_ char *mode = live_mode_text(&c->devices.v[i]);
        bool before = false;

        for (size_t k = 0; k < i && !before; k++) {
            _cleanup_free_ char *other = live_mode_text(&c->devices.v[k]);

            before = streq(mode, other);
        }
        if (!before)
            strbuf_printf(&b, "%s%s", b.len ? "+" : "", mode);
    }
    return strbuf_take(&b);
}

/* ---- what else the API says of them */

static int by_place(const void *a, const void *b)
{
    const struct live_claim *x = a, *y = b;
    int r = strcmp(x->node, y->node);

    if (r == 0)
        r = strcmp(x->namespace, y->namespace);
    return r ? r : strcmp(x->name, y->name);
}

static int compare_device(const char *pool, const char *device, const struct live_device *d)
{
    int r = strcmp(pool, d->pool);

    return r ? r : strcmp(device, d->device);
}

static int by_device(const void *a, const void *b)
{
    const struct live_device *x = *(struct live_device *const *)a;

    return compare_device(x->pool, x->device, *(struct live_device *const *)b);
}

void live_index_build(live_claim_vec *claims, struct live_index *ret)
{
    *ret = (struct live_index){.claims = claims};
    if (claims->n)
        qsort(claims->v, claims->n, sizeof(*claims->v), by_place);
    vec_foreach (c, claims)
        vec_foreach (d, &c->devices)
            *VEC_PUSH(&ret->devices) = d;
    if (ret->devices.n)
        qsort(ret->devices.v, ret->devices.n, sizeof(*ret->devices.v), by_device);
}

void live_index_done(struct live_index *ix)
{
    free(ix->devices.v);
    *ix = (struct live_index){0};
}

const json_t *live_attribute(const json_t *device, const char *driver, const char *name)
{
    const json_t *all = json_object_get(device, "attributes"), *v = json_object_get(all, name);

    if (!v) {
        _cleanup_free_ char *whole = xasprintf("%s/%s", driver, name);

        v = json_object_get(all, whole);
    }
    return v ? json_object_iter_value(json_object_iter((json_t *)v)) : NULL;
}

/* In order of who counts where slices differ. */
static int weight(enum live_attach a)
{
    switch (a) {
    case LIVE_ATTACH_UNSEEN:
        return 0;
    case LIVE_ATTACH_OTHERS:
        return 1;
    case LIVE_ATTACH_UNKNOWN:
        return 2;
    case LIVE_ATTACH_DRIVER:
        return 3;
    }
    return 2;
}

static void see_device(struct live_device *d, const char *attach)
{
    enum live_attach now = LIVE_ATTACH_UNKNOWN;

    if (attach && (streq(attach, "CNI") || streq(attach, "None")))
        now = LIVE_ATTACH_OTHERS;
    else if (attach && streq(attach, "NRI"))
        now = LIVE_ATTACH_DRIVER;
    if (weight(now) <= weight(d->attach))
        return;
    d->attach = now;
    free(d->attach_text);
    d->attach_text = xstrdup(now == LIVE_ATTACH_UNKNOWN ? NULL : attach);
}

/* The first of those with this name, or where it would be. */
static size_t find_device(const struct live_index *ix, const char *pool, const char *device)
{
    size_t from = 0, to = ix->devices.n;

    while (from < to) {
        size_t mid = from + (to - from) / 2;

        if (compare_device(pool, device, ix->devices.v[mid]) > 0)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

void live_see_slice(struct live_index *ix, const char *driver, const json_t *slice)
{
    const char *of = json_str_at(slice, "spec.driver"),
               *pool = json_str_at(slice, "spec.pool.name");
    json_t *devices = json_at(slice, "spec.devices"), *device;
    size_t n;

    if (!pool || !streq_null(of, driver))
        return;
    json_array_foreach (devices, n, device) {
        const char *name = json_str_at(device, "name");
        const char *attach = json_c_str(live_attribute(device, driver, "attach"));

        if (!name)
            continue;
        for (size_t i = find_device(ix, pool, name);
             i < ix->devices.n && compare_device(pool, name, ix->devices.v[i]) == 0; i++)
            see_device(ix->devices.v[i], attach);
    }
}

bool live_index_has(const struct live_index *ix, const char *pool, const char *device)
{
    size_t i = find_device(ix, pool, device);

    return i < ix->devices.n && compare_device(pool, device, ix->devices.v[i]) == 0;
}

bool live_node_declares(const json_t *node)
{
    json_t *features = json_at(node, "status.declaredFeatures"), *v;
    size_t n;

    json_array_foreach (features, n, v)
        if (streq_null(json_c_str(v), "DRAOptionalNodeOperations"))
            return true;
    return false;
}

void live_see_node(struct live_index *ix, const json_t *node)
{
    const char *name = json_str_at(node, "metadata.name");
    enum live_node state = live_node_declares(node) ? LIVE_NODE_DECLARES : LIVE_NODE_SILENT;
    size_t from = 0, to = ix->claims->n;

    if (!name)
        return;
    while (from < to) {
        size_t mid = from + (to - from) / 2;

        if (strcmp(name, ix->claims->v[mid].node) > 0)
            from = mid + 1;
        else
            to = mid;
    }
    for (; from < ix->claims->n && streq(ix->claims->v[from].node, name); from++)
        ix->claims->v[from].node_state = state;
}

/* ---- what they need */

bool live_asks_node(const struct live_claim *c)
{
    return !c->calls_prepare || !c->calls_unprepare;
}

static void reason(struct strbuf *why, const char *fmt, ...) _printf_(2, 3);
static void reason(struct strbuf *why, const char *fmt, ...)
{
    va_list ap;

    if (!why)
        return;
    va_start(ap, fmt);
    _cleanup_free_ char *text = xvasprintf(fmt, ap);
    va_end(ap);
    strbuf_printf(why, "%s%s", why->len ? "; " : "", text);
}

static unsigned needs_by_calls(const struct live_claim *c, struct strbuf *why)
{
    unsigned needs = 0;
    bool started = false; /* what is attached was prepared before */

    vec_foreach (d, &c->devices)
        started |= d->told;
    if (c->calls_prepare && !started) {
        needs |= LIVE_NEEDS_PREPARE;
        reason(why, "the kubelet calls NodePrepareResources before its pod starts");
    }
    if (c->calls_unprepare) {
        needs |= LIVE_NEEDS_UNPREPARE;
        reason(why, "the kubelet calls NodeUnprepareResources when its pods are gone");
    }
    return needs;
}

static unsigned needs_by_node(const struct live_claim *c, struct strbuf *why)
{
    if (!live_asks_node(c))
        return 0;
    switch (c->node_state) {
    case LIVE_NODE_DECLARES:
        return 0;
    case LIVE_NODE_SILENT:
        reason(why,
               "node %s doesn't declare DRAOptionalNodeOperations, and a kubelet that doesn't "
               "know the list makes the calls that it skips",
               c->node);
        return LIVE_NEEDS_PREPARE | LIVE_NEEDS_UNPREPARE;
    case LIVE_NODE_UNSEEN:
        break;
    }
    reason(why, "there is no Node object %s, so it isn't known what its kubelet skips", c->node);
    return LIVE_NEEDS_UNKNOWN;
}

static unsigned needs_by_device(const struct live_claim *c, const struct live_device *d,
                                struct strbuf *why)
{
    if (d->told || d->attach == LIVE_ATTACH_DRIVER) {
        reason(why, "the driver moves device %s into the pod%s", d->device,
               d->told ? ", and again when its sandbox is made anew" : "");
        return LIVE_NEEDS_ATTACHMENT;
    }
    if (c->calls_prepare || d->attach == LIVE_ATTACH_OTHERS)
        return 0;
    if (d->attach == LIVE_ATTACH_UNSEEN)
        reason(why,
               "no slice lists device %s of pool %s any more, so the driver may have attached it",
               d->device, d->pool);
    else
        reason(why,
               "the slice of device %s of pool %s doesn't say who attaches it, so the driver may",
               d->device, d->pool);
    return LIVE_NEEDS_UNKNOWN;
}

unsigned live_needs(const struct live_claim *c, struct strbuf *why)
{
    unsigned needs = needs_by_calls(c, why);

    vec_foreach (d, &c->devices)
        needs |= needs_by_device(c, d, why);
    if (!c->calls_unprepare && (c->calls_prepare || needs & LIVE_NEEDS_ATTACHMENT)) {
        needs |= LIVE_NEEDS_CLEANUP;
        reason(why, "the driver puts its VF back when its pods are gone");
    }
    return needs | needs_by_node(c, why);
}

const char *live_need_text(enum live_need bit)
{
    switch (bit) {
    case LIVE_NEEDS_PREPARE:
        return "Prepare";
    case LIVE_NEEDS_UNPREPARE:
        return "Unprepare";
    case LIVE_NEEDS_ATTACHMENT:
        return "Attachment";
    case LIVE_NEEDS_CLEANUP:
        return "CleanUp";
    case LIVE_NEEDS_UNKNOWN:
        return "Unknown";
    }
    return "";
}
