/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/event_queue.h"

#include "base/log.h"
#include "base/str.h"
#include "driver/metrics.h"

#include <errno.h>
#include <inttypes.h>

#define REMEMBERED   256
#define RETRY_MIN_MS 1000
#define RETRY_MAX_MS 60000
#define NAME_MAX_LEN 220 /* of the object's name in the event's, which may have 253 */
#define INSTANCE_MAX 128

struct waiting {
    json_t *doc;
    char *path;
    int64_t since_ms;
    uint64_t key;
    bool of_node; /* the Node's uid isn't in it yet */
};

struct remembered {
    uint64_t key; /* 0: nothing */
    int64_t at_ms;
};

struct event_queue {
    struct loop *loop;
    struct api *api; /* NULL: not yet */
    char *driver, *node, *node_uid;
    struct timer *timer;
    VEC(struct waiting) waiting;
    struct api_call *call; /* for `sent` */
    struct waiting sent;
    int64_t retry_ms, retry_at_ms; /* after a failure; 0: none */
    unsigned tokens;
    int64_t filled_ms; /* when a token came last */
    bool forbidden_told;
    uint64_t seed;
    struct remembered seen[REMEMBERED];
};

/* ---- the document */

/* At most `max` bytes of whole characters; the caller frees it. */
static char *cut(const char *text, size_t max)
{
    static const char more[] = "...";
    char *s = str_utf8(text ? text : "");
    size_t n = strlen(s);

    if (n <= max)
        return s;
    n = max - strlen(more);
    while (n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80) /* not the first byte of a character */
        n--;
    memcpy(s + n, more, sizeof(more));
    return s;
}

static json_t *reference(const struct event_object *o)
{
    json_t *ref = json_object();

    json_set_str(ref, "apiVersion", o->api_version);
    json_set_str(ref, "kind", o->kind);
    json_set_str(ref, "namespace", o->namespace);
    json_set_str(ref, "name", o->name);
    json_set_str(ref, "uid", o->uid);
    return ref;
}

/* "<object>.<id>", as client-go has it. A part that ends in a '-' or '.' would be no name. */
static char *event_name(const struct event_object *o, uint64_t id)
{
    int n = (int)strnlen(o->name, NAME_MAX_LEN);

    while (n > 0 && strchr("-.", o->name[n - 1]))
        n--;
    return xasprintf("%.*s.%016" PRIx64, n, o->name, id);
}

static const char *namespace_of(const struct event_object *o)
{
    return o->namespace ? o->namespace : "default"; /* where events on cluster objects must be */
}

json_t *event_document(const struct event *ev, const char *driver, const char *node,
                       int64_t wall_ms, uint64_t id)
{
    json_t *doc = json_object(), *meta = json_object();
    _cleanup_free_ char *name = event_name(&ev->regarding, id);
    _cleanup_free_ char *note = cut(ev->note, EVENT_NOTE_MAX);
    _cleanup_free_ char *instance = xstrndup(node, INSTANCE_MAX);
    char second[21];

    clock_rfc3339(wall_ms, second);
    _cleanup_free_ char *time = xasprintf("%.19s.%03d000Z", second, (int)(wall_ms % 1000));
    json_set_str(meta, "namespace", namespace_of(&ev->regarding));
    json_set_str(meta, "name", name);
    json_set_str(doc, "apiVersion", "events.k8s.io/v1");
    json_set_str(doc, "kind", "Event");
    json_object_set_new(doc, "metadata", meta);
    json_set_str(doc, "eventTime", time); /* six digits, no more and no less */
    json_set_str(doc, "reportingController", driver);
    json_set_str(doc, "reportingInstance", instance);
    json_set_str(doc, "action", ev->action);
    json_set_str(doc, "reason", ev->reason);
    json_set_str(doc, "type", ev->warning ? "Warning" : "Normal");
    json_set_str(doc, "note", note);
    json_object_set_new(doc, "regarding", reference(&ev->regarding));
    if (ev->related.kind)
        json_object_set_new(doc, "related", reference(&ev->related));
    return doc;
}

/* ---- what was said already */

/* FNV-1a, from a start that nobody outside knows. */
static void hash(uint64_t *h, const char *s)
{
    for (; s && *s; s++)
        *h = (*h ^ (unsigned char)*s) * 0x100000001b3;
    *h = (*h ^ 0xff) * 0x100000001b3; /* in no UTF-8, so that "ab","c" isn't "a","bc" */
}

static uint64_t key_of(const struct event_queue *q, const struct event *ev)
{
    uint64_t h = q->seed;

    hash(&h, ev->regarding.kind);
    hash(&h, ev->regarding.namespace);
    hash(&h, ev->regarding.name);
    hash(&h, ev->regarding.uid);
    hash(&h, ev->reason);
    hash(&h, ev->note);
    return h ? h : 1;
}

static bool is_remembered(const struct event_queue *q, uint64_t key, int64_t now)
{
    for (size_t i = 0; i < REMEMBERED; i++)
        if (q->seen[i].key == key)
            return now - q->seen[i].at_ms < EVENTS_AGAIN_MS;
    return false;
}

static void forget(struct event_queue *q, uint64_t key)
{
    for (size_t i = 0; i < REMEMBERED; i++)
        if (q->seen[i].key == key)
            q->seen[i] = (struct remembered){0};
}

/* In the place of the oldest. */
static void remember(struct event_queue *q, uint64_t key, int64_t now)
{
    struct remembered *at = &q->seen[0];

    forget(q, key);
    for (size_t i = 0; i < REMEMBERED && at->key; i++)
        if (!q->seen[i].key || q->seen[i].at_ms < at->at_ms)
            at = &q->seen[i];
    *at = (struct remembered){.key = key, .at_ms = now};
}

/* ---- the queue */

static int64_t now_of(const struct event_queue *q)
{
    return clock_now(loop_clock(q->loop));
}

static void waiting_done(struct waiting *w)
{
    json_decref(w->doc);
    free(w->path);
    *w = (struct waiting){0};
}

static void take_out(struct event_queue *q, size_t i)
{
    memmove(&q->waiting.v[i], &q->waiting.v[i + 1], (q->waiting.n - i - 1) * sizeof(*q->waiting.v));
    q->waiting.n--;
}

/* Not written: it is worth saying when it happens next. */
static void drop(struct event_queue *q, struct waiting *w)
{
    metrics_count(METRIC_EVENT_DROPPED);
    forget(q, w->key);
    waiting_done(w);
}

static void drop_old(struct event_queue *q, int64_t now)
{
    for (size_t i = q->waiting.n; i-- > 0;)
        if (now - q->waiting.v[i].since_ms >= EVENTS_AGE_MS) {
            drop(q, &q->waiting.v[i]);
            take_out(q, i);
        }
}

static void fill(struct event_queue *q, int64_t now)
{
    int64_t n = (now - q->filled_ms) / EVENTS_PACE_MS;

    if (n <= 0)
        return;
    q->filled_ms += n * EVENTS_PACE_MS;
    q->tokens = n > EVENTS_BURST - (int64_t)q->tokens ? EVENTS_BURST : q->tokens + (unsigned)n;
}

/* The first that can be sent now; waiting.n: none. */
static size_t first(const struct event_queue *q)
{
    size_t i = 0;

    while (i < q->waiting.n && q->waiting.v[i].of_node && !q->node_uid)
        i++;
    return i;
}

static void written(const struct api_response *r, void *data);

static void step(void *data)
{
    struct event_queue *q = data;
    int64_t now = now_of(q);
    size_t i;

    drop_old(q, now);
    if (q->call || !q->api || (i = first(q)) == q->waiting.n)
        return;
    fill(q, now);
    if (now < q->retry_at_ms) {
        timer_set(q->timer, q->retry_at_ms - now);
        return;
    }
    if (!q->tokens) {
        timer_set(q->timer, q->filled_ms + EVENTS_PACE_MS - now);
        return;
    }
    q->tokens--;
    q->sent = q->waiting.v[i];
    take_out(q, i);
    if (q->sent.of_node)
        json_set_str(json_object_get(q->sent.doc, "regarding"), "uid", q->node_uid);
    q->call = api_send(
        q->api, &(struct api_request){.method = "POST", .path = q->sent.path, .body = q->sent.doc},
        written, q);
}

/* Tried again under the same name: if it was written after all, the server says that it exists. */
static void keep(struct event_queue *q)
{
    q->retry_ms = q->retry_ms ? q->retry_ms * 2 : RETRY_MIN_MS;
    if (q->retry_ms > RETRY_MAX_MS)
        q->retry_ms = RETRY_MAX_MS;
    q->retry_at_ms = now_of(q) + q->retry_ms;
    (void)VEC_PUSH(&q->waiting);
    memmove(&q->waiting.v[1], &q->waiting.v[0], (q->waiting.n - 1) * sizeof(*q->waiting.v));
    q->waiting.v[0] = q->sent;
    q->sent = (struct waiting){0};
}

static void written(const struct api_response *r, void *data)
{
    struct event_queue *q = data;

    q->call = NULL;
    if (r->err.code < 0 && r->err.code != -EEXIST && r->err.kind == ERR_TRANSIENT) {
        keep(q);
    } else if (r->err.code < 0 && r->err.code != -EEXIST) {
        if (r->err.code != -EACCES || !q->forbidden_told)
            log_warn_err(&r->err, "event not written");
        q->forbidden_told |= r->err.code == -EACCES;
        drop(q, &q->sent);
    } else {
        q->retry_ms = q->retry_at_ms = 0;
        metrics_count(METRIC_EVENT_WRITTEN);
        waiting_done(&q->sent);
    }
    step(q);
}

/* ---- the interface */

void event_queue_add(struct event_queue *q, const struct event *ev)
{
    int64_t now = now_of(q);
    uint64_t key = key_of(q, ev), id = (uint64_t)arc4random() << 32 | arc4random();

    if (is_remembered(q, key, now))
        return;
    if (q->waiting.n >= EVENTS_WAITING) {
        metrics_count(METRIC_EVENT_DROPPED);
        return;
    }
    remember(q, key, now);
    _cleanup_free_ char *ns = api_escape(namespace_of(&ev->regarding));
    *VEC_PUSH(&q->waiting) = (struct waiting){
        .doc = event_document(ev, q->driver, q->node, clock_wall_ms(), id),
        .path = xasprintf("/apis/events.k8s.io/v1/namespaces/%s/events", ns),
        .since_ms = now,
        .key = key,
        .of_node = !ev->regarding.uid && streq(ev->regarding.kind, "Node"),
    };
    timer_set(q->timer, 0);
}

void event_queue_go(struct event_queue *q, struct api *a)
{
    q->api = a;
    timer_set(q->timer, 0);
}

void event_queue_set_node_uid(struct event_queue *q, const char *uid)
{
    if (streq_null(q->node_uid, uid))
        return;
    free(q->node_uid);
    q->node_uid = xstrdup(uid);
    timer_set(q->timer, 0);
}

struct event_queue *event_queue_new(struct loop *l, const char *driver, const char *node)
{
    struct event_queue *q = xnew(struct event_queue);

    q->loop = l;
    q->driver = xstrdup(driver);
    q->node = xstrdup(node);
    q->timer = timer_new(l, step, q);
    q->tokens = EVENTS_BURST;
    q->filled_ms = now_of(q);
    q->seed = (uint64_t)arc4random() << 32 | arc4random();
    return q;
}

void event_queue_free(struct event_queue *q)
{
    if (!q)
        return;
    api_cancel(q->call);
    waiting_done(&q->sent);
    vec_foreach (w, &q->waiting)
        waiting_done(w);
    free(q->waiting.v);
    timer_free(q->timer);
    free(q->driver);
    free(q->node);
    free(q->node_uid);
    free(q);
}
