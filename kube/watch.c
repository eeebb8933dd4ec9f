/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/watch.h"

#include "base/str.h"

#include <errno.h>

#define PAGE_LIMIT 500
#define PAGE_MAX   ((size_t)64 * 1024 * 1024)

/* The longest event. An object has at most 1.5 MiB in etcd, and is somewhat longer as JSON. */
#define EVENT_MAX ((size_t)4 * 1024 * 1024)

/* A bookmark comes every minute; two that stay away mean that the server isn't there any more. */
#define IDLE_MS 150000

/* The server ends a watch after a time between these, so that not all end at once. */
#define WATCH_MIN_S 300
#define WATCH_MAX_S 600

/* A delay is 1 to 2 times the first, which doubles with each failure up to the second. */
#define BACKOFF_MS     800
#define BACKOFF_MAX_MS 15000

/* A stream that was shorter, and empty, counts as a failure: else we would turn round and round. */
#define STREAM_MIN_MS 1000

struct watch {
    struct api *api;
    char *path, *query;
    watch_fn *fn;
    void *data;

    struct api_call *call; /* under way, or NULL: waiting for `timer` */
    struct timer *timer;
    char *version;          /* resource version to watch from; NULL: list first */
    char *next_page;        /* the list's continuation; NULL: its first page */
    struct strbuf line;     /* the part of an event that is here */
    bool stop_reading;      /* something in the stream made us give it up */
    struct err stop_reason; /* set, or code 0: list again at once */
    int64_t opened_ms, seen_ms;
    unsigned failures;
    int trouble; /* what was reported: 0 nothing, HTTP status, or -1 for no answer */

    unsigned busy; /* callbacks on the stack */
    bool dead;     /* freed while busy */
};

static void list(struct watch *w);
static void stream(struct watch *w);

static int64_t now(const struct watch *w)
{
    return clock_now(loop_clock(api_loop(w->api)));
}

/* ---- life */

static void destroy(struct watch *w)
{
    timer_free(w->timer);
    free(w->path);
    free(w->query);
    free(w->version);
    free(w->next_page);
    strbuf_done(&w->line);
    err_clear(&w->stop_reason);
    free(w);
}

static void enter(struct watch *w)
{
    w->busy++;
}

/* False: `w` is no more. */
static bool leave(struct watch *w)
{
    if (--w->busy || !w->dead)
        return true;
    destroy(w);
    return false;
}

/* False: the user has freed the watch, which lives until leave(). */
static bool emit(struct watch *w, enum watch_kind kind, json_t *object, const struct err *err)
{
    struct watch_event ev = {.kind = kind, .object = object, .err = err};

    w->fn(&ev, w->data);
    return !w->dead;
}

static void set_text(char **slot, const char *s)
{
    char *copy = xstrdup(s);

    free(*slot);
    *slot = copy;
}

static void alive(struct watch *w)
{
    w->seen_ms = now(w);
    w->trouble = 0;
}

/* ---- failures */

static void retry(struct watch *w, int64_t asked_ms)
{
    int64_t ms = BACKOFF_MS;

    for (unsigned i = 0; i < w->failures && ms < BACKOFF_MAX_MS; i++)
        ms *= 2;
    if (ms > BACKOFF_MAX_MS)
        ms = BACKOFF_MAX_MS;
    ms += arc4random_uniform((uint32_t)ms);
    w->failures++;
    timer_set(w->timer, ms > asked_ms ? ms : asked_ms);
}

static void fail(struct watch *w, int status, int64_t asked_ms, const struct err *err)
{
    int cause = status ? status : -1;
    bool known = w->trouble == cause;

    retry(w, asked_ms);
    w->trouble = cause;
    if (!known)
        (void)emit(w, WATCH_TROUBLE, NULL, err);
}

/* The history is gone. A server that says so again and again isn't asked without a pause. */
static void list_again(struct watch *w)
{
    free(TAKE_PTR(w->version));
    free(TAKE_PTR(w->next_page));
    if (w->failures)
        retry(w, 0);
    else
        list(w);
    w->failures += !w->failures;
}

static void on_timer(void *data)
{
    struct watch *w = data;

    if (w->version)
        stream(w);
    else
        list(w);
}

/* ---- the list */

/* Gives a page to the user. False: freed meanwhile. */
static bool emit_page(struct watch *w, const json_t *body, bool first)
{
    json_t *item;
    size_t i;

    if (first && !emit(w, WATCH_RESET, NULL, NULL))
        return false;
    json_array_foreach (json_object_get(body, "items"), i, item)
        if (!emit(w, WATCH_PUT, item, NULL))
            return false;
    return true;
}

static void take_page(struct watch *w, const json_t *body)
{
    const char *version = json_str_at(body, "metadata.resourceVersion");
    const char *next = json_str_at(body, "metadata.continue");
    bool first = !w->next_page;

    const json_t *items = json_object_get(body, "items"); /* may be null for an empty list */

    if (!version || !*version || (!json_is_array(items) && !json_is_null(items))) {
        _cleanup_err_ struct err e = ERR_INIT;

        err_set(&e, ERR_TRANSIENT, -EBADMSG, "GET %s: the answer is no list", w->path);
        fail(w, 200, 0, &e);
        return;
    }
    alive(w);
    set_text(&w->next_page, next && *next ? next : NULL);
    if (!emit_page(w, body, first))
        return;
    if (w->next_page) {
        list(w);
        return;
    }
    set_text(&w->version, version);
    if (emit(w, WATCH_SYNCED, NULL, NULL))
        stream(w);
}

static void on_page(const struct api_response *r, void *data)
{
    struct watch *w = data;

    w->call = NULL;
    enter(w);
    if (r->status == 410 && w->next_page)
        list_again(w);
    else if (r->err.code)
        fail(w, r->status, r->retry_after_ms, &r->err);
    else
        take_page(w, r->body);
    (void)leave(w);
}

static void list(struct watch *w)
{
    struct strbuf url = {0};

    strbuf_printf(&url, "%s?limit=%d", w->path, PAGE_LIMIT);
    if (w->query)
        strbuf_printf(&url, "&%s", w->query);
    if (w->next_page) {
        _cleanup_free_ char *token = api_escape(w->next_page);

        strbuf_printf(&url, "&continue=%s", token);
    }
    _cleanup_free_ char *path = strbuf_take(&url);
    struct api_request q = {
        .method = "GET", .path = path, .timeout_ms = 60000, .max_body = PAGE_MAX};
    w->call = api_send(w->api, &q, on_page, w);
}

/* ---- the stream */

/* Nothing more of this stream is read; it is followed by a new list. */
static void give_up(struct watch *w, int code, const char *what)
{
    w->stop_reading = true;
    if (what)
        err_set(&w->stop_reason, ERR_TRANSIENT, code, "watching %s: %s", w->path, what);
}

static void take_error(struct watch *w, const json_t *status)
{
    const char *message = json_str_at(status, "message");
    _cleanup_free_ char *text = NULL;

    if (json_int_at(status, "code", 0) == 410) {
        give_up(w, 0, NULL);
        return;
    }
    text = xasprintf("the server says: %s", message ? message : "error");
    give_up(w, -EREMOTEIO, text);
}

/* False: the stream is given up, or the watch freed. */
static bool take_event(struct watch *w, const char *text, size_t len)
{
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *event = NULL;

    if (json_parse_api(text, len, &event, &e) < 0) {
        give_up(w, -EBADMSG, err_text(&e));
        return false;
    }
    const char *type = json_str_at(event, "type");
    const char *version = json_str_at(event, "object.metadata.resourceVersion");
    json_t *object = json_object_get(event, "object");
    bool put = type && (streq(type, "ADDED") || streq(type, "MODIFIED"));
    bool deleted = type && streq(type, "DELETED");
    bool bookmark = type && streq(type, "BOOKMARK");

    if (type && streq(type, "ERROR")) {
        take_error(w, object);
        return false;
    }
    if (!version || (!put && !deleted && !bookmark)) {
        give_up(w, -EBADMSG, "an event that is none");
        return false;
    }
    w->failures = 0;
    set_text(&w->version, version);
    return bookmark || emit(w, put ? WATCH_PUT : WATCH_DELETED, object, NULL);
}

static void take_bytes(struct watch *w, const char *bytes, size_t n)
{
    while (n) {
        const char *end = memchr(bytes, '\n', n);
        size_t part = end ? (size_t)(end - bytes) : n;

        if (w->line.len + part > EVENT_MAX) {
            give_up(w, -EFBIG, "an event that is too long");
            return;
        }
        if (end && !w->line.len) {
            if (part && !take_event(w, bytes, part))
                return;
        } else {
            strbuf_add(&w->line, bytes, part);
        }
        if (!end)
            return;
        if (w->line.len) {
            _cleanup_(strbuf_done) struct strbuf line = w->line;

            w->line = (struct strbuf){0};
            if (!take_event(w, line.s, line.len))
                return;
        }
        bytes = end + 1;
        n -= part + 1;
    }
}

static void on_chunk(const char *bytes, size_t n, void *data)
{
    struct watch *w = data;

    alive(w);
    enter(w);
    take_bytes(w, bytes, n);
    if (!w->dead && w->stop_reading) {
        _cleanup_err_ struct err why = w->stop_reason;

        w->stop_reason = ERR_INIT;
        api_cancel(TAKE_PTR(w->call));
        if (why.code) {
            free(TAKE_PTR(w->version));
            fail(w, 200, 0, &why);
        } else {
            list_again(w);
        }
    }
    (void)leave(w);
}

static void on_end(const struct api_response *r, void *data)
{
    struct watch *w = data;
    bool lasted = now(w) - w->opened_ms >= STREAM_MIN_MS;

    w->call = NULL;
    if (lasted)
        w->failures = 0;
    enter(w);
    if (r->status == 410)
        list_again(w);
    else if (r->status < 200 || r->status >= 300)
        fail(w, r->status, r->retry_after_ms, &r->err);
    else if (r->err.code || !lasted)
        retry(w, 0); /* broken while it ran: trouble only if it can't be taken up again */
    else
        stream(w);
    (void)leave(w);
}

static void stream(struct watch *w)
{
    _cleanup_free_ char *version = api_escape(w->version);
    unsigned timeout_s = WATCH_MIN_S + arc4random_uniform(WATCH_MAX_S - WATCH_MIN_S);
    _cleanup_free_ char *path =
        xasprintf("%s?watch=true&allowWatchBookmarks=true&timeoutSeconds=%u&resourceVersion=%s%s%s",
                  w->path, timeout_s, version, w->query ? "&" : "", w->query ? w->query : "");

    w->line.len = 0;
    w->stop_reading = false;
    w->opened_ms = now(w);
    w->call = api_stream(w->api, path, IDLE_MS, on_chunk, on_end, w);
}

/* ---- the interface */

struct watch *watch_new(struct api *a, const char *path, const char *query, watch_fn *fn,
                        void *data)
{
    struct watch *w = xnew(struct watch);

    w->api = a;
    w->path = xstrdup(path);
    w->query = xstrdup(query);
    w->fn = fn;
    w->data = data;
    w->timer = timer_new(api_loop(a), on_timer, w);
    w->seen_ms = now(w);
    list(w);
    return w;
}

void watch_free(struct watch *w)
{
    if (!w)
        return;
    api_cancel(TAKE_PTR(w->call));
    timer_cancel(w->timer);
    w->dead = true;
    if (!w->busy)
        destroy(w);
}

int64_t watch_last_seen_ms(const struct watch *w)
{
    return w->seen_ms;
}

bool watch_in_trouble(const struct watch *w)
{
    return w->trouble != 0;
}
