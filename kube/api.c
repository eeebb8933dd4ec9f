/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/api.h"

#include "base/str.h"
#include "kube/apiconf.h"
#include "kube/http.h"

#include <errno.h>

#define TIMEOUT_MS         10000
#define CONNECT_TIMEOUT_MS 5000
#define MAX_BODY           ((size_t)4 * 1024 * 1024)

/* A token file is read again at least this often: the kubelet replaces it at 80 % of its life. */
#define REFRESH_MS 60000

/* The first repeat comes after half of this to all of it; each further one may take twice as long.
 */
#define BACKOFF_MS     400
#define BACKOFF_MAX_MS 10000
#define ASKED_MAX_MS   60000 /* the longest Retry-After that is obeyed to the letter */

struct api {
    struct loop *loop;
    struct http *http;
    struct apiconf conf;
    int64_t refreshed_ms;
    char *user_agent;
    int timeout_ms;
    unsigned long sent, answers[API_VERBS][API_CLASSES];
    struct api_call *first;
};

struct api_call {
    struct api *api;
    struct api_call *next, **prev;
    struct http_exchange *exchange; /* under way, or NULL: waiting for `timer` to try again */
    struct timer *timer;            /* the next try; of a stream: the end of patience */
    bool ending;                    /* fn is being called */

    char *method, *path, *content_type, *body;
    int retries, tries, timeout_ms, idle_ms;
    size_t max_body;
    bool opened; /* a stream that the server has agreed to */

    api_chunk_fn *chunk;
    api_fn *fn;
    void *data;
};

/* ---- errors */

static void set_status_error(const struct api_call *c, int status, const char *reason,
                             const char *message, struct err *e)
{
    size_t path = strcspn(c->path, "?");
    enum err_kind kind = ERR_PERMANENT;
    int code = -EPROTO;

    if (status == 400 || status == 422)
        code = -EINVAL;
    else if (status == 401)
        code = -EACCES, kind = ERR_TRANSIENT; /* tokens expire and are replaced */
    else if (status == 403)
        code = -EACCES;
    else if (status == 404)
        code = -ENOENT;
    else if (status == 409 && reason && streq(reason, "AlreadyExists"))
        code = -EEXIST;
    else if (status == 409 || status == 410)
        code = -ESTALE, kind = ERR_TRANSIENT;
    else if (status == 429)
        code = -EAGAIN, kind = ERR_TRANSIENT;
    else if (status >= 500)
        code = -EREMOTEIO, kind = ERR_TRANSIENT;
    err_set(e, kind, code, "%s %.*s: HTTP %d%s%s%s%s%s", c->method, (int)path, c->path, status,
            message ? ": " : "", message ? message : "", reason ? " (" : "", reason ? reason : "",
            reason ? ")" : "");
}

/* The first line of an answer that is no JSON, if a person can read it; the caller frees it. */
static char *first_line(const struct http_answer *a)
{
    size_t n = strcspn(a->body, "\r\n");

    if (n > 200)
        n = 200;
    for (size_t i = 0; i < n; i++)
        if (a->body[i] < ' ' || a->body[i] > '~')
            return NULL;
    return n ? xstrndup(a->body, n) : NULL;
}

static void set_error(const struct api_call *c, const struct http_answer *a, const json_t *body,
                      struct err *e)
{
    size_t path = strcspn(c->path, "?");

    if (a->outcome != HTTP_ANSWERED) {
        enum err_kind kind = a->outcome == HTTP_TOO_BIG ? ERR_PERMANENT : ERR_TRANSIENT;

        err_set(e, kind, a->code, "%s %.*s: %s: %s", c->method, (int)path, c->path,
                c->api->conf.server, a->text);
    } else if (a->status < 200 || a->status >= 300) {
        const char *message = json_str_at(body, "message");
        _cleanup_free_ char *line = body ? NULL : first_line(a);

        set_status_error(c, a->status, json_str_at(body, "reason"), message ? message : line, e);
    } else if (a->len && !body) {
        err_set(e, ERR_TRANSIENT, -EBADMSG, "%s %.*s: HTTP %d with a body that is no JSON",
                c->method, (int)path, c->path, a->status);
    }
}

/* ---- counting */

const char *api_verb_text(enum api_verb v)
{
    switch (v) {
    case API_GET:
        return "GET";
    case API_POST:
        return "POST";
    case API_PUT:
        return "PUT";
    case API_PATCH:
        return "PATCH";
    case API_DELETE:
        return "DELETE";
    case API_WATCH:
        return "WATCH";
    }
    return "";
}

static void count(struct api_call *c, int status)
{
    unsigned hundreds = status > 0 ? (unsigned)status / 100 : 0;
    unsigned verb = API_GET;

    while (verb < API_WATCH && !streq(c->method, api_verb_text((enum api_verb)verb)))
        verb++;
    if (c->chunk)
        verb = API_WATCH;
    c->api->answers[verb][hundreds < API_CLASSES ? hundreds : 0]++;
}

unsigned long api_answers(const struct api *a, enum api_verb v, unsigned hundreds)
{
    return a->answers[v][hundreds];
}

/* ---- one call */

static void unlink_call(struct api_call *c)
{
    *c->prev = c->next;
    if (c->next)
        c->next->prev = c->prev;
    http_stop(TAKE_PTR(c->exchange));
    timer_free(TAKE_PTR(c->timer));
}

static void free_call(struct api_call *c)
{
    free(c->method);
    free(c->path);
    free(c->content_type);
    free(c->body);
    free(c);
}

static void finish(struct api_call *c, const struct http_answer *a)
{
    struct api_response r = {.status = a->status, .retry_after_ms = a->retry_after_ms};
    json_auto_t *body = NULL;

    if (a->outcome == HTTP_ANSWERED && a->len)
        (void)json_parse_api(a->body, a->len, &body, NULL);
    r.body = body;
    set_error(c, a, body, &r.err);
    unlink_call(c);
    c->ending = true;
    c->fn(&r, c->data);
    err_clear(&r.err);
    free_call(c);
}

/* Whether the server may be asked again without doing anything twice. */
static bool may_repeat(const struct api_call *c, const struct http_answer *a)
{
    bool post = streq(c->method, "POST");

    switch (a->outcome) {
    case HTTP_ANSWERED:
        return a->status == 429 || (a->status >= 500 && !post);
    case HTTP_UNSENT:
        return true;
    case HTTP_BROKEN:
        return !post;
    case HTTP_TOO_BIG:
        return false;
    }
    return false;
}

static int64_t backoff(int tries, int64_t asked_ms)
{
    int64_t ms = BACKOFF_MS;

    while (--tries > 0 && ms < BACKOFF_MAX_MS)
        ms *= 2;
    if (ms > BACKOFF_MAX_MS)
        ms = BACKOFF_MAX_MS;
    ms -= arc4random_uniform((uint32_t)ms / 2);
    if (asked_ms > ASKED_MAX_MS)
        asked_ms = ASKED_MAX_MS;
    /* never earlier than asked, and all who were asked not at once */
    return asked_ms + ms;
}

static void attempt(struct api_call *c);

static void on_timer(void *data)
{
    struct api_call *c = data;

    if (!c->exchange) {
        attempt(c);
        return;
    }
    struct http_answer silent = {
        .outcome = HTTP_BROKEN, .status = c->opened ? 200 : 0, .code = -ETIMEDOUT, .body = ""};
    if (!c->opened)
        count(c, 0);
    _cleanup_free_ char *text = xasprintf("silent for %d s", c->idle_ms / 1000);
    silent.text = text;
    finish(c, &silent);
}

static struct timer *timer_of(struct api_call *c)
{
    if (!c->timer)
        c->timer = timer_new(c->api->loop, on_timer, c);
    return c->timer;
}

static bool refresh(struct api *a)
{
    a->refreshed_ms = clock_now(loop_clock(a->loop));
    return apiconf_refresh(&a->conf);
}

static void on_answer(const struct http_answer *a, void *data)
{
    struct api_call *c = data;

    c->exchange = NULL;
    if (!c->opened)
        count(c, a->outcome == HTTP_ANSWERED || a->outcome == HTTP_TOO_BIG ? a->status : 0);
    if (a->outcome == HTTP_ANSWERED && a->status == 401 && refresh(c->api)) {
        attempt(c); /* with the other token that was found */
    } else if (c->retries > 0 && may_repeat(c, a)) {
        c->retries--;
        timer_set(timer_of(c), backoff(c->tries, a->retry_after_ms));
    } else {
        finish(c, a);
    }
}

static void on_chunk(const char *bytes, size_t n, void *data)
{
    struct api_call *c = data;

    if (!c->opened)
        count(c, 200);
    c->opened = true;
    timer_set(timer_of(c), c->idle_ms);
    c->chunk(bytes, n, c->data); /* may cancel the call */
}

static void attempt(struct api_call *c)
{
    struct api *a = c->api;
    const char *headers[4] = {"Accept: application/json"};
    size_t n = 1;

    if (clock_now(loop_clock(a->loop)) - a->refreshed_ms >= REFRESH_MS)
        (void)refresh(a);
    _cleanup_free_ char *url = xasprintf("%s%s", a->conf.server, c->path);
    _cleanup_free_ char *type = c->body ? xasprintf("Content-Type: %s", c->content_type) : NULL;
    char *authorization =
        a->conf.token.text ? xasprintf("Authorization: Bearer %s", a->conf.token.text) : NULL;
    if (type)
        headers[n++] = type;
    if (authorization)
        headers[n++] = authorization;

    struct http_request q = {.method = c->method,
                             .url = url,
                             .headers = headers,
                             .body = c->body,
                             .once = streq(c->method, "POST"),
                             .user_agent = a->user_agent,
                             .ca = a->conf.ca.text,
                             .cert = a->conf.cert.text,
                             .key = a->conf.key.text,
                             .timeout_ms = c->timeout_ms,
                             .connect_timeout_ms = CONNECT_TIMEOUT_MS,
                             .max_body = c->max_body};
    a->sent++;
    c->tries++;
    c->exchange = http_start(a->http, &q, c->chunk ? on_chunk : NULL, on_answer, c);
    /*
     * libcurl's own limit for slow transfers would wake us every second. A watch's limit is longer
     * than the minute between two bookmarks, and what it catches is rare: a server that is there
     * and says nothing; a dead connection is found by TCP's keepalive.
     */
    if (c->chunk)
        timer_set(timer_of(c), c->idle_ms);
    if (authorization) {
        explicit_bzero(authorization, strlen(authorization));
        free(authorization);
    }
}

static struct api_call *start(struct api *a, struct api_call init)
{
    struct api_call *c = xnew(struct api_call);

    *c = init;
    c->api = a;
    c->next = a->first;
    c->prev = &a->first;
    if (a->first)
        a->first->prev = &c->next;
    a->first = c;
    attempt(c);
    return c;
}

struct api_call *api_send(struct api *a, const struct api_request *q, api_fn *fn, void *data)
{
    return start(
        a, (struct api_call){
               .method = xstrdup(q->method),
               .path = xstrdup(q->path),
               .content_type = xstrdup(q->content_type ? q->content_type : "application/json"),
               .body = q->body ? json_text(q->body) : NULL,
               .retries = q->retries,
               .timeout_ms = q->timeout_ms ? q->timeout_ms : a->timeout_ms,
               .max_body = q->max_body ? q->max_body : MAX_BODY,
               .fn = fn,
               .data = data,
           });
}

struct api_call *api_stream(struct api *a, const char *path, int idle_ms, api_chunk_fn *chunk,
                            api_fn *fn, void *data)
{
    return start(a, (struct api_call){
                        .method = xstrdup("GET"),
                        .path = xstrdup(path),
                        .idle_ms = idle_ms,
                        .max_body = MAX_BODY,
                        .chunk = chunk,
                        .fn = fn,
                        .data = data,
                    });
}

void api_cancel(struct api_call *c)
{
    if (!c || c->ending)
        return;
    unlink_call(c);
    free_call(c);
}

/* ---- the client */

int api_new(struct loop *l, const struct api_config *conf, struct api **ret, struct err *e)
{
    struct api *a = xnew(struct api);
    int r = conf->kubeconfig ? apiconf_kubeconfig(conf->kubeconfig, &a->conf, e)
                             : apiconf_pod(APICONF_POD_DIR, &a->conf, e);

    if (r == 0)
        r = http_new(l, &a->http, e);
    if (r < 0) {
        apiconf_done(&a->conf);
        free(a);
        return r;
    }
    a->loop = l;
    a->refreshed_ms = clock_now(loop_clock(l));
    a->user_agent = xstrdup(conf->user_agent ? conf->user_agent : "sriov-dra");
    a->timeout_ms = conf->request_timeout_ms ? conf->request_timeout_ms : TIMEOUT_MS;
    *ret = a;
    return 0;
}

void api_free(struct api *a)
{
    if (!a)
        return;
    while (a->first)
        api_cancel(a->first);
    http_free(a->http);
    apiconf_done(&a->conf);
    free(a->user_agent);
    free(a);
}

const char *api_server(const struct api *a)
{
    return a->conf.server;
}

struct loop *api_loop(const struct api *a)
{
    return a->loop;
}

unsigned long api_requests_sent(const struct api *a)
{
    return a->sent;
}

char *api_escape(const char *s)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    struct strbuf b = {0};

    for (; *s; s++) {
        if (strchr(plain, *s))
            strbuf_putc(&b, *s);
        else
            strbuf_printf(&b, "%%%02X", (unsigned char)*s);
    }
    return strbuf_take(&b);
}
