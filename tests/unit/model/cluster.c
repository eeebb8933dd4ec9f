/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API server, in the place of kube/api.c and kube/watch.c: answers the driver's requests from
 * the model's objects, and tells its watches what changed.
 */
#include "tests/unit/model/model.h"

#include "kube/watch.h"

#include <errno.h>

#define LATER_MS 10000 /* a request without a time-out of its own */

struct api {
    struct loop *loop;
};

struct api_call {
    struct api_call *next;
    char *method, *path;
    json_t *body;
    int64_t deadline;
    api_fn *fn;
    void *data;
};

struct event {
    bool deleted;
    json_t *object;
};

struct watch {
    bool pods; /* else the Node */
    watch_fn *fn;
    void *data;
    bool listed, trouble;
    VEC(struct event) events;
};

static struct {
    struct api_call *calls; /* in order */
    struct watch *watches[2];
} c;

/* ---- requests */

int api_new(struct loop *l, const struct api_config *config, struct api **ret, struct err *e)
{
    (void)config;
    (void)e;
    *ret = xnew(struct api);
    (*ret)->loop = l;
    return 0;
}

static void call_free(struct api_call *call)
{
    json_decref(call->body);
    free(call->method);
    free(call->path);
    free(call);
}

void api_free(struct api *a)
{
    while (c.calls) {
        struct api_call *call = c.calls;

        c.calls = call->next;
        call_free(call);
    }
    free(a);
}

struct loop *api_loop(const struct api *a)
{
    return a->loop;
}

const char *api_server(const struct api *a)
{
    (void)a;
    return "model";
}

unsigned long api_requests_sent(const struct api *a)
{
    (void)a;
    return 0;
}

const char *api_verb_text(enum api_verb v)
{
    (void)v;
    return "";
}

unsigned long api_answers(const struct api *a, enum api_verb v, unsigned hundreds)
{
    (void)a, (void)v, (void)hundreds;
    return 0;
}

char *api_escape(const char *s)
{
    return xstrdup(s); /* names here need none */
}

struct api_call *api_send(struct api *a, const struct api_request *q, api_fn *fn, void *data)
{
    struct api_call *call = xnew(struct api_call), **last = &c.calls;

    (void)a;
    m.did.requests++;
    *call = (struct api_call){
        .method = xstrdup(q->method),
        .path = xstrdup(q->path),
        .body = q->body ? json_deep_copy(q->body) : NULL,
        .deadline = m.now + (q->timeout_ms ? q->timeout_ms : LATER_MS),
        .fn = fn,
        .data = data,
    };
    while (*last)
        last = &(*last)->next;
    *last = call;
    return call;
}

static bool take_call(struct api_call *call)
{
    for (struct api_call **at = &c.calls; *at; at = &(*at)->next)
        if (*at == call) {
            *at = call->next;
            return true;
        }
    return false;
}

void api_cancel(struct api_call *call)
{
    if (call && take_call(call))
        call_free(call);
}

struct api_call *api_stream(struct api *a, const char *path, int idle_ms, api_chunk_fn *chunk,
                            api_fn *fn, void *data)
{
    (void)a, (void)path, (void)idle_ms, (void)chunk, (void)fn, (void)data;
    broken("nothing streams here");
}

/* The name behind `collection` in the path, up to the next "/" or "?". */
static bool path_name(const char *path, const char *collection, char ret[static 32])
{
    const char *at = strstr(path, collection);

    if (!at)
        return false;
    at += strlen(collection);
    size_t n = strcspn(at, "/?");
    snprintf(ret, 32, "%.*s", (int)n, at);
    return true;
}

static struct m_claim *claim_named(const char *name)
{
    for (struct m_claim *cl = m.claims; cl < m.claims + CLAIMS; cl++)
        if (cl->used && !cl->deleted && streq(cl->name, name))
            return cl;
    return NULL;
}

/* Status and object of a request that the server answers. */
static int serve(const struct api_call *call, json_t **ret)
{
    char name[32];

    if (path_name(call->path, "/pods/", name)) {
        for (const struct m_pod *p = m.pods; p < m.pods + PODS; p++)
            if (p->used && !p->deleted && streq(p->name, name)) {
                *ret = pod_json(p);
                return 200;
            }
        return 404;
    }
    if (strstr(call->path, "/apis/events.k8s.io/")) {
        *ret = json_incref(call->body);
        return 201;
    }
    if (!path_name(call->path, "/resourceclaims/", name))
        broken("%s %s isn't known to the model", call->method, call->path);
    struct m_claim *cl = claim_named(name);
    if (!cl)
        return 404;
    if (streq(call->method, "PATCH")) {
        if (!streq(json_str_at(call->body, "metadata.uid"), cl->uid))
            return 409;
        json_decref(cl->told);
        cl->told = json_incref(json_at(call->body, "status.devices"));
    }
    *ret = claim_json(cl);
    return 200;
}

static void answer(struct api_call *call)
{
    struct api_response r = {0};
    json_t *body = NULL;

    if (m.api == API_UP) {
        r.status = serve(call, &body);
        r.body = body;
        if (r.status >= 400)
            err_set(&r.err, ERR_PERMANENT, r.status == 404 ? -ENOENT : -ESTALE, "%s %s: %d",
                    call->method, call->path, r.status);
    } else {
        err_set(&r.err, ERR_TRANSIENT, m.api == API_HANGS ? -ETIMEDOUT : -ECONNREFUSED,
                "%s %s: no answer", call->method, call->path);
    }
    call->fn(&r, call->data);
    err_clear(&r.err);
    json_decref(body);
    call_free(call);
}

/* ---- watches */

struct watch *watch_new(struct api *a, const char *path, const char *query, watch_fn *fn,
                        void *data)
{
    struct watch *w = xnew(struct watch);

    (void)a;
    (void)query;
    *w = (struct watch){.pods = streq(path, "/api/v1/pods"), .fn = fn, .data = data};
    c.watches[w->pods] = w;
    return w;
}

static void drop_events(struct watch *w)
{
    vec_foreach (e, &w->events)
        json_decref(e->object);
    free(w->events.v);
    memset(&w->events, 0, sizeof(w->events));
}

void watch_free(struct watch *w)
{
    c.watches[w->pods] = NULL;
    drop_events(w);
    free(w);
}

int64_t watch_last_seen_ms(const struct watch *w)
{
    (void)w;
    return m.now;
}

bool watch_in_trouble(const struct watch *w)
{
    return w->trouble;
}

static void tell(struct watch *w, enum watch_kind kind, json_t *object)
{
    if (w->pods && (kind == WATCH_PUT || kind == WATCH_DELETED))
        for (struct m_pod *p = m.pods; p < m.pods + PODS; p++)
            if (p->used && streq(p->uid, json_str_at(object, "metadata.uid")))
                p->known =
                    kind == WATCH_PUT && !streq(json_str_at(object, "status.phase"), "Succeeded");
    w->fn(&(struct watch_event){.kind = kind, .object = object}, w->data);
}

static void list(struct watch *w)
{
    w->listed = true;
    w->trouble = false;
    drop_events(w);
    tell(w, WATCH_RESET, NULL);
    if (!w->pods) {
        json_auto_t *node = node_json();

        tell(w, WATCH_PUT, node);
    }
    for (struct m_pod *p = m.pods; w->pods && p < m.pods + PODS; p++) {
        if (!p->used)
            continue;
        if (p->deleted) {
            p->known = false;
            continue;
        }
        json_auto_t *o = pod_json(p);

        tell(w, WATCH_PUT, o);
    }
    tell(w, WATCH_SYNCED, NULL);
}

static bool turn_watch(struct watch *w)
{
    if (!w)
        return false;
    if (m.api != API_UP) {
        struct err e = ERR_INIT;

        w->listed = false;
        if (w->trouble)
            return false;
        w->trouble = true;
        err_set(&e, ERR_TRANSIENT, -ECONNREFUSED, "no answer");
        w->fn(&(struct watch_event){.kind = WATCH_TROUBLE, .err = &e}, w->data);
        err_clear(&e);
        return true;
    }
    if (!w->listed) {
        list(w);
        return true;
    }
    if (!w->events.n)
        return false;
    struct event ev = w->events.v[0];

    memmove(&w->events.v[0], &w->events.v[1], --w->events.n * sizeof(ev));
    tell(w, ev.deleted ? WATCH_DELETED : WATCH_PUT, ev.object);
    json_decref(ev.object);
    return true;
}

static void queue(struct watch *w, bool deleted, json_t *object)
{
    if (!w || !w->listed) {
        json_decref(object);
        return;
    }
    *VEC_PUSH(&w->events) = (struct event){deleted, object};
}

void cluster_pod_changed(unsigned pod)
{
    queue(c.watches[1], false, pod_json(&m.pods[pod]));
}

void cluster_pod_deleted(unsigned pod)
{
    queue(c.watches[1], true, pod_json(&m.pods[pod]));
    if (!c.watches[1] || !c.watches[1]->listed)
        m.pods[pod].known = false;
}

void cluster_node_changed(void)
{
    queue(c.watches[0], false, node_json());
}

void cluster_set_api(int api)
{
    say("  API server %s", api == API_UP ? "answers" : api == API_HANGS ? "hangs" : "is away");
    if (api == API_UP && m.api != API_UP)
        m.api_up_since = m.now;
    m.api = api;
}

bool cluster_deliver(void)
{
    if (turn_watch(c.watches[0]) || turn_watch(c.watches[1]))
        return true;
    for (struct api_call *call = c.calls; call; call = call->next) {
        if (m.api == API_HANGS && m.now < call->deadline)
            continue;
        (void)take_call(call);
        answer(call);
        return true;
    }
    if (m.api == API_UP)
        scheduler_deliver();
    return false;
}

int64_t cluster_next(void)
{
    int64_t first = INT64_MAX;

    for (const struct api_call *call = c.calls; call; call = call->next)
        if (m.api == API_HANGS && call->deadline < first)
            first = call->deadline;
    return first;
}

void cluster_reset(void)
{
    for (struct m_claim *cl = m.claims; cl < m.claims + CLAIMS; cl++)
        json_decref(cl->told);
}
