/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/publish.h"

#include "base/log.h"
#include "driver/metrics.h"
#include "driver/slice_cache.h"
#include "kube/watch.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>

#define SLICES_PATH "/apis/resource.k8s.io/v1/resourceslices"

/* Changes come in bursts: 8 uevents of one numvfs, a kubelet that deletes slice after slice. */
#define SETTLE_MS 50

#define ERROR_MIN_MS 500
#define ERROR_MAX_MS 30000

/* Pauses before what others changed is put back: none, then 1, 2, 4 ... s, none after a rest. */
#define CONTEST_MIN_MS   1000
#define CONTEST_MAX_MS   30000
#define CONTEST_QUIET_MS (5 * 60 * 1000)

/* When a server that dropped the list is tried again: another one may be running now. */
#define RETRY_RESET_MS     (10 * 60 * 1000)
#define RETRY_RECONNECT_MS 30000
#define TROUBLE_POLL_MS    2000

struct publish {
    struct loop *loop;
    struct api *api;
    char *driver, *node;
    struct publish_config config; /* its strings are the two above */

    json_vec wanted;
    bool decided;    /* publish_set() was called with a node's uid */
    unsigned fields; /* of enum slice_field: what the wanted have */
    bool begun;      /* the first of them is out, or was about to go out */
    bool complete;   /* the API has what is wanted, and it was told */
    json_t *written; /* names written since the wanted were set or a contest began */

    struct watch *watch;
    struct slice_cache cache;
    bool synced;

    struct timer *timer; /* step() */
    bool settling;       /* a change waits for the rest of its burst */
    int64_t settled_ms;  /* before these times nothing is written */
    int64_t contest_until_ms;
    int64_t error_until_ms;
    unsigned contests, errors; /* in a row: make the pauses longer */
    int64_t contest_ms;        /* the last one */
    bool unkept_told;

    struct api_call *call;      /* one at a time */
    struct slice_write current; /* what `call` writes, or asks about after a conflict */
    bool outdated;              /* something else is wanted since it was sent */
    bool conflicted;            /* the last write was refused because we were behind */

    unsigned dropped; /* of enum slice_field: what the server doesn't keep */
    int64_t dropped_ms;
    struct timer *retry; /* until it is tried again */
};

static int64_t now(const struct publish *p)
{
    return clock_now(loop_clock(p->loop));
}

static void schedule(struct publish *p)
{
    timer_set(p->timer, 0);
}

/* Waits for the rest of a burst, not longer for each part of it. */
static void settle(struct publish *p)
{
    if (!p->settling)
        p->settled_ms = now(p) + SETTLE_MS;
    p->settling = true;
    schedule(p);
}

static void current_done(struct publish *p)
{
    free(p->current.name);
    free(p->current.uid);
    free(p->current.resource_version);
    json_decref(p->current.body);
    p->current = (struct slice_write){0};
}

/* ---- what a server drops ---- */

static void set_dropped(struct publish *p, unsigned dropped)
{
    unsigned news = dropped & ~p->dropped;

    if (p->dropped == dropped)
        return;
    p->dropped = dropped;
    p->dropped_ms = now(p);
    timer_cancel(p->retry);
    if (news & SLICE_FIELD_LIST)
        log_warn("the API server drops skipNodeOperations: devices go out without it, and the "
                 "kubelet calls us for them",
                 "server", api_server(p->api), "featureGate", "DRAOptionalNodeOperations");
    if (news & SLICE_FIELD_TAINTS)
        log_warn("the API server drops the taints of devices: VFs that aren't as promised are not "
                 "published at all",
                 "server", api_server(p->api), "featureGate", "DRADeviceTaints");
    if (p->config.dropped)
        p->config.dropped(dropped, p->config.data);
    schedule(p);
}

static void try_again_after(struct publish *p, int64_t rest_ms)
{
    int64_t left = p->dropped_ms + rest_ms - now(p);

    timer_set(p->retry, left > 0 ? left : 0);
}

static void on_retry(void *data)
{
    struct publish *p = data;

    if (watch_in_trouble(p->watch))
        timer_set(p->retry, TROUBLE_POLL_MS);
    else
        set_dropped(p, 0);
}

/* ---- errors ---- */

static void back_off(struct publish *p, const struct api_response *r, const char *what)
{
    int64_t ms = ERROR_MIN_MS;

    for (unsigned i = 0; i < p->errors && ms < ERROR_MAX_MS; i++)
        ms *= 2;
    if (ms > ERROR_MAX_MS)
        ms = ERROR_MAX_MS;
    ms -= arc4random_uniform((uint32_t)ms / 4);
    if (ms < r->retry_after_ms)
        ms = r->retry_after_ms;
    if (!p->errors++)
        log_warn_err(&r->err, "can't publish devices; trying on", "slice", what);
    else
        log_debug("publishing failed again", "slice", what, "err", err_text(&r->err));
    p->error_until_ms = now(p) + ms;
    schedule(p);
}

/* ---- requests ---- */

static void request(struct publish *p, const char *method, const char *name, const json_t *body,
                    api_fn *fn)
{
    _cleanup_free_ char *escaped = name ? api_escape(name) : NULL;
    _cleanup_free_ char *path =
        xasprintf("%s%s%s", SLICES_PATH, name ? "/" : "", name ? escaped : "");

    p->call = api_send(p->api, &(struct api_request){.method = method, .path = path, .body = body},
                       fn, p);
}

static bool is_ours(const struct publish *p, const json_t *o)
{
    return streq_null(json_str_at(o, "spec.driver"), p->driver) &&
           streq_null(json_str_at(o, "spec.nodeName"), p->node);
}

/* The slice as it is now, after a write that was refused because we were behind. */
static void on_look(const struct api_response *r, void *data)
{
    struct publish *p = data;

    p->call = NULL;
    if (r->err.code == 0 && is_ours(p, r->body)) {
        (void)slice_cache_put(&p->cache, (json_t *)r->body);
    } else if (r->err.code == 0) {
        _cleanup_err_ struct err e = ERR_INIT;

        err_set(&e, ERR_PERMANENT, -EEXIST, "its name is taken by a slice of driver %s on node %s",
                json_str_at(r->body, "spec.driver"), json_str_at(r->body, "spec.nodeName"));
        back_off(p, &(struct api_response){.err = e}, p->current.name);
    } else if (r->err.code == -ENOENT) {
        slice_cache_gone(&p->cache, p->current.name, NULL);
    } else {
        back_off(p, r, p->current.name);
    }
    current_done(p);
    schedule(p);
}

static void on_conflict(struct publish *p, const struct api_response *r)
{
    /* Once is a race; a second time in a row somebody writes as fast as we do */
    if (p->conflicted)
        back_off(p, r, p->current.name);
    p->conflicted = true;
    request(p, "GET", p->current.name, NULL, on_look);
}

static void on_kept(struct publish *p, const json_t *body)
{
    unsigned dropped;
    bool kept = slice_kept(p->current.body, body, &dropped);

    (void)slice_cache_put(&p->cache, (json_t *)body);
    slice_cache_share(&p->cache, &p->wanted);
    if (dropped) {
        set_dropped(p, p->dropped | dropped);
    } else if (!kept && !p->unkept_told) {
        /* The next plan writes it again; that it must be written again makes the pauses grow */
        p->unkept_told = true;
        log_warn("the API server changes what we publish", "slice", p->current.name);
    }
}

/* Deleting a name and creating it anew is one change, not two of the same. */
static char *written_key(enum slice_verb verb, const char *name)
{
    return xasprintf("%s%s", verb == SLICE_DELETE ? "-" : "", name);
}

static void note_written(struct publish *p)
{
    if (p->outdated)
        return; /* writing that name again is our own doing */
    _cleanup_free_ char *key = written_key(p->current.verb, p->current.name);

    json_object_set_new(p->written, key, json_true());
}

static void on_written(const struct api_response *r, void *data)
{
    struct publish *p = data;
    bool deleting = p->current.verb == SLICE_DELETE;

    p->call = NULL;
    if (r->err.code == -ESTALE || r->err.code == -EEXIST) {
        on_conflict(p, r);
        return;
    }
    if (r->err.code == -ENOENT && p->current.verb != SLICE_CREATE) {
        slice_cache_gone(&p->cache, p->current.name, p->current.uid);
    } else if (r->err.code || (!deleting && !r->body)) {
        back_off(p, r, p->current.name);
        current_done(p);
        return;
    } else if (deleting) {
        slice_cache_gone(&p->cache, p->current.name, p->current.uid);
    } else {
        on_kept(p, r->body);
    }
    note_written(p);
    metrics_count(METRIC_SLICE_WRITTEN);
    p->errors = 0;
    p->conflicted = false;
    current_done(p);
    schedule(p);
}

static void start_write(struct publish *p, struct slice_write *w)
{
    p->current = *w;
    p->outdated = false;
    *w = (struct slice_write){0};
    switch (p->current.verb) {
    case SLICE_CREATE:
        request(p, "POST", NULL, p->current.body, on_written);
        break;
    case SLICE_UPDATE:
        request(p, "PUT", p->current.name, p->current.body, on_written);
        break;
    case SLICE_DELETE: {
        json_auto_t *options = json_pack("{s:s, s:s, s:{s:s?, s:s?}}", "apiVersion", "v1", "kind",
                                         "DeleteOptions", "preconditions", "uid", p->current.uid,
                                         "resourceVersion", p->current.resource_version);

        request(p, "DELETE", p->current.name, options, on_written);
        break;
    }
    }
}

/* ---- the next step ---- */

/*
 * What was as wanted, or what we wrote, isn't any more although nothing else is wanted: others
 * write our slices. A kubelet does so at its start, once; somebody who goes on doing it shall not
 * get an answer each time at once.
 */
static bool contested(struct publish *p, const struct slice_write *next)
{
    _cleanup_free_ char *key = written_key(next->verb, next->name);

    if (!p->complete && !json_object_get(p->written, key))
        return false;
    if (now(p) - p->contest_ms > CONTEST_QUIET_MS)
        p->contests = 0;

    int64_t pause = p->contests ? CONTEST_MIN_MS : 0;
    for (unsigned i = 1; i < p->contests && pause < CONTEST_MAX_MS; i++)
        pause *= 2;
    if (pause > CONTEST_MAX_MS)
        pause = CONTEST_MAX_MS;
    _cleanup_free_ char *text = xasprintf("%" PRId64, pause);
    log_info("others changed our ResourceSlices; putting them back", "slice", next->name, "pauseMs",
             text);
    p->contests++;
    p->contest_ms = now(p);
    p->contest_until_ms = now(p) + pause;
    p->complete = false;
    json_object_clear(p->written);
    return pause > 0;
}

static void tell_published(struct publish *p)
{
    unsigned devices = 0;
    int64_t generation = 0;

    vec_foreach (w, &p->wanted)
        devices += (unsigned)json_array_size(json_at(*w, "spec.devices"));
    vec_foreach (o, &p->cache.slices)
        if (json_int_at(*o, "spec.pool.generation", 0) > generation)
            generation = json_int_at(*o, "spec.pool.generation", 0);
    unsigned slices = (unsigned)p->wanted.n;
    _cleanup_free_ char *s = xasprintf("%u", slices), *d = xasprintf("%u", devices);
    _cleanup_free_ char *g = xasprintf("%" PRId64, generation);

    p->complete = true;
    p->errors = 0;
    p->conflicted = false;
    slice_cache_share(&p->cache, &p->wanted);
    (void)malloc_trim(0); /* what the answers took: some MiB with 256 VFs */
    log_info("published", "slices", s, "devices", d, "generation", g);
    if (p->config.published)
        p->config.published(slices, devices, generation, p->config.data);
}

static int64_t left_to_wait(const struct publish *p)
{
    int64_t until = p->settled_ms;

    if (p->contest_until_ms > until)
        until = p->contest_until_ms;
    if (p->error_until_ms > until)
        until = p->error_until_ms;
    return until - now(p);
}

static void step(void *data)
{
    struct publish *p = data;
    int64_t left = left_to_wait(p);

    if (!p->synced || !p->decided || p->call || (p->config.held && !p->cache.slices.n))
        return;
    if (p->dropped & p->fields)
        return; /* dropped() told; the answer to it is another publish_set() */
    if (left > 0) {
        timer_set(p->timer, left);
        return;
    }
    p->settling = false;
    p->begun = true;

    _cleanup_(slice_write_vec_done) slice_write_vec plan = {0};

    slices_plan(&p->wanted, &p->cache.slices, &plan);
    if (!plan.n) {
        if (!p->complete)
            tell_published(p);
    } else if (contested(p, &plan.v[0])) {
        schedule(p);
    } else {
        p->complete = false;
        start_write(p, &plan.v[0]);
    }
}

/* ---- what is seen ---- */

static void on_event(const struct watch_event *ev, void *data)
{
    struct publish *p = data;

    switch (ev->kind) {
    case WATCH_RESET:
        p->synced = false;
        slice_cache_list_begin(&p->cache);
        if (p->dropped && !timer_is_set(p->retry))
            try_again_after(p, RETRY_RESET_MS);
        break;
    case WATCH_PUT:
        if (slice_cache_put(&p->cache, ev->object) && p->synced)
            settle(p);
        break;
    case WATCH_DELETED:
        if (slice_cache_deleted(&p->cache, ev->object))
            settle(p);
        break;
    case WATCH_SYNCED:
        p->synced = true;
        slice_cache_list_end(&p->cache);
        schedule(p);
        break;
    case WATCH_TROUBLE:
        log_warn_err(ev->err, "our ResourceSlices can't be watched for now: they stay as they are");
        if (p->dropped)
            try_again_after(p, RETRY_RECONNECT_MS);
        break;
    }
}

/* ---- the interface ---- */

static bool same_slices(const json_vec *a, const json_vec *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!json_equal(a->v[i], b->v[i]))
            return false;
    return true;
}

void publish_set(struct publish *p, const char *node_uid, const device_vec *devices)
{
    struct slices_config c = {.driver = p->driver, .node = p->node, .node_uid = node_uid};
    json_vec wanted = {0};

    if (!node_uid) {
        p->decided = false;
        return;
    }
    slices_wanted(&c, devices, &wanted);
    if (p->decided && same_slices(&p->wanted, &wanted)) {
        json_vec_done(&wanted);
        return;
    }
    json_vec_done(&p->wanted);
    p->wanted = wanted;
    p->decided = true;
    p->fields = 0;
    vec_foreach (w, &wanted)
        p->fields |= slice_fields(*w);
    p->complete = false;
    p->contest_until_ms = 0;
    p->outdated = true;
    json_object_clear(p->written);
    if (p->begun)
        settle(p);
    else
        schedule(p); /* what is wanted first is no part of a burst */
}

struct publish *publish_new(struct loop *l, struct api *a, const struct publish_config *c)
{
    struct publish *p = xnew(struct publish);
    _cleanup_free_ char *selector =
        xasprintf("spec.driver=%s,spec.nodeName=%s", c->driver, c->node);
    _cleanup_free_ char *escaped = api_escape(selector);
    _cleanup_free_ char *query = xasprintf("fieldSelector=%s", escaped);

    p->loop = l;
    p->api = a;
    p->driver = xstrdup(c->driver);
    p->node = xstrdup(c->node);
    p->config = *c;
    p->config.driver = p->driver;
    p->config.node = p->node;
    p->written = json_object();
    p->timer = timer_new(l, step, p);
    p->retry = timer_new(l, on_retry, p);
    p->watch = watch_new(a, SLICES_PATH, query, on_event, p);
    return p;
}

void publish_free(struct publish *p)
{
    if (!p)
        return;
    watch_free(p->watch);
    api_cancel(p->call);
    current_done(p);
    timer_free(p->timer);
    timer_free(p->retry);
    slice_cache_done(&p->cache);
    json_vec_done(&p->wanted);
    json_decref(p->written);
    free(p->driver);
    free(p->node);
    free(p);
}

void publish_go(struct publish *p)
{
    if (!p->config.held)
        return;
    p->config.held = false;
    schedule(p);
}
