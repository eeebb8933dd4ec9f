/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/http.h"

#include "base/str.h"

#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

struct http {
    struct loop *loop;
    CURLM *multi;
    struct timer *timer;
    struct http_exchange *first;
};

struct http_exchange {
    struct http *http;
    struct http_exchange *next, **prev;
    CURL *easy;
    struct curl_slist *headers;
    char *body;
    size_t body_len, body_sent, max_body;
    bool once;
    http_chunk_fn *chunk;
    http_fn *fn;
    void *data;

    /* Filled inside libcurl's callbacks, handed over by deliver(). */
    struct strbuf in;
    bool opened; /* the headers of a 2xx are there and chunk() hasn't been told */
    bool too_big, ended;
    CURLcode result;
    char error[CURL_ERROR_SIZE];
};

/* ---- descriptors and timers */

static void deliver(struct http *h);

static void drive(struct http *h, curl_socket_t fd, int flags)
{
    struct CURLMsg *m;
    int n;

    (void)curl_multi_socket_action(h->multi, fd, flags, &n);
    while ((m = curl_multi_info_read(h->multi, &n))) {
        struct http_exchange *x = NULL;

        if (m->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &x);
        x->ended = true;
        x->result = m->data.result;
    }
    deliver(h);
}

static void on_timer(void *data)
{
    drive(data, CURL_SOCKET_TIMEOUT, 0);
}

static void on_io(int fd, uint32_t events, void *data)
{
    int flags = 0;

    if (events & EPOLLIN)
        flags |= CURL_CSELECT_IN;
    if (events & EPOLLOUT)
        flags |= CURL_CSELECT_OUT;
    if (events & (EPOLLERR | EPOLLHUP))
        flags |= CURL_CSELECT_ERR;
    drive(data, fd, flags);
}

static int set_timer(CURLM *multi, long ms, void *data)
{
    struct http *h = data;

    (void)multi;
    if (ms < 0)
        timer_cancel(h->timer);
    else
        timer_set(h->timer, ms);
    return 0;
}

static int set_io(CURL *easy, curl_socket_t fd, int what, void *data, void *fd_data)
{
    struct http *h = data;
    struct loop_io *io = fd_data;
    uint32_t events = 0;
    int r = 0;

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        loop_io_free(io);
        (void)curl_multi_assign(h->multi, fd, NULL);
        return 0;
    }
    if (what & CURL_POLL_IN)
        events |= EPOLLIN;
    if (what & CURL_POLL_OUT)
        events |= EPOLLOUT;
    if (io)
        return loop_io_set(io, events, NULL);
    r = loop_io_new(h->loop, fd, events, on_io, h, &io, NULL);
    if (r == 0)
        (void)curl_multi_assign(h->multi, fd, io);
    return r < 0 ? -1 : 0;
}

/* ---- one exchange, inside libcurl */

static size_t take_header(char *line, size_t size, size_t n, void *data)
{
    struct http_exchange *x = data;
    long status = 0;

    if (n * size == 2 && line[0] == '\r') { /* the line that ends the headers */
        (void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
        x->opened = x->chunk && status >= 200 && status < 300;
    }
    return n * size;
}

static size_t take_body(char *bytes, size_t size, size_t n, void *data)
{
    struct http_exchange *x = data;
    long status = 0;

    (void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    bool streamed = x->chunk && status >= 200 && status < 300;
    if (!streamed && x->in.len + n * size > x->max_body) {
        x->too_big = true;
        return 0;
    }
    strbuf_add(&x->in, bytes, n * size);
    return n * size;
}

static size_t give_body(char *buf, size_t size, size_t n, void *data)
{
    struct http_exchange *x = data;
    size_t left = x->body_len - x->body_sent, part = left < size * n ? left : size * n;

    memcpy(buf, x->body + x->body_sent, part);
    x->body_sent += part;
    return part;
}

/*
 * libcurl repeats a request by itself if a kept connection breaks before the answer. The server may
 * have acted by then, so what isn't idempotent mustn't be repeated: refusing to rewind prevents it.
 */
static int rewind_body(void *data, curl_off_t offset, int origin)
{
    struct http_exchange *x = data;

    if (origin != SEEK_SET || offset != 0 || (x->once && x->body_sent))
        return CURL_SEEKFUNC_FAIL;
    x->body_sent = 0;
    return CURL_SEEKFUNC_OK;
}

/* As libcurl's own, which forgets to keep the descriptor from programs that we start. */
static curl_socket_t open_socket(void *data, curlsocktype purpose, struct curl_sockaddr *a)
{
    (void)data, (void)purpose;
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

/*
 * A peer that vanished is noticed within half a minute, whether or not something is being sent: the
 * kernel probes after 15 s of silence, and gives up on probes or data unanswered for 15 s.
 */
static int set_keepalive(void *data, curl_socket_t fd, curlsocktype purpose)
{
    const int idle_s = 15, interval_s = 5, probes = 3;
    const unsigned unanswered_ms = 15000;

    (void)data, (void)purpose;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){1}, sizeof(int));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof(unanswered_ms));
    return CURL_SOCKOPT_OK;
}

/* ---- options */

static void set_blob(CURL *easy, CURLoption option, const char *pem)
{
    struct curl_blob blob = {(void *)pem, strlen(pem), CURL_BLOB_COPY};

    (void)curl_easy_setopt(easy, option, &blob);
}

static void set_tls(CURL *easy, const struct http_request *q)
{
    (void)curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (q->ca) {
        set_blob(easy, CURLOPT_CAINFO_BLOB, q->ca);
        /* Debian's default directory would add the public CAs to the cluster's own */
        (void)curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
    if (q->cert && q->key) {
        set_blob(easy, CURLOPT_SSLCERT_BLOB, q->cert);
        set_blob(easy, CURLOPT_SSLKEY_BLOB, q->key);
    }
}

static void set_request(struct http_exchange *x, const struct http_request *q)
{
    CURL *easy = x->easy;

    (void)curl_easy_setopt(easy, CURLOPT_URL, q->url);
    (void)curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    if (x->body) {
        (void)curl_easy_setopt(easy, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->body_len);
        (void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, give_body);
        (void)curl_easy_setopt(easy, CURLOPT_READDATA, x);
        (void)curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, rewind_body);
        (void)curl_easy_setopt(easy, CURLOPT_SEEKDATA, x);
        /* the least that is allowed, of 64 KiB for each request under way */
        (void)curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 16384L);
    }
    (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, q->method);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT, q->user_agent);
    for (const char *const *line = q->headers; line && *line; line++)
        x->headers = curl_slist_append(x->headers, *line);
    /* a large body would wait a second for "100 Continue" */
    x->headers = curl_slist_append(x->headers, "Expect:");
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, x->headers);
}

static void set_options(struct http_exchange *x, const struct http_request *q)
{
    CURL *easy = x->easy;

    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, x);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, x->error);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https,http");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    /* no proxy that happens to be in the environment: the token would pass it */
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
    /*
     * HTTP/2 where TLS can agree on it: watches and requests share one connection. Five watches and
     * 32 GETs at once left 1.2 MiB of heap and took a quarter of the time, against 3.6 MiB and as
     * many handshakes as requests with HTTP/1.1 (libcurl 7.88, API server 1.37).
     */
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    /* wait for a connection that is being made rather than make another; plain HTTP would wait for
     * its first answer, since only TLS tells early whether requests can share it */
    (void)curl_easy_setopt(easy, CURLOPT_PIPEWAIT, str_skip(q->url, "https:") ? 1L : 0L);
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, set_keepalive);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)q->timeout_ms);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)q->connect_timeout_ms);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, x);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, x);
    set_tls(easy, q);
    set_request(x, q);
}

/* ---- delivery */

static void unlink_exchange(struct http_exchange *x)
{
    *x->prev = x->next;
    if (x->next)
        x->next->prev = x->prev;
    (void)curl_multi_remove_handle(x->http->multi, x->easy);
}

static void free_exchange(struct http_exchange *x)
{
    curl_easy_cleanup(x->easy);
    curl_slist_free_all(x->headers);
    strbuf_done(&x->in);
    free(x->body);
    free(x);
}

/* What libcurl's failures mean to us; those not listed broke an exchange on its way. */
static const struct failure {
    CURLcode curl;
    enum http_outcome outcome;
    int code;
} failures[] = {
    {CURLE_COULDNT_RESOLVE_HOST, HTTP_UNSENT, -EHOSTUNREACH},
    {CURLE_COULDNT_CONNECT, HTTP_UNSENT, -ECONNREFUSED},
    {CURLE_SSL_CONNECT_ERROR, HTTP_UNSENT, -EPROTO},
    {CURLE_PEER_FAILED_VERIFICATION, HTTP_UNSENT, -EKEYREJECTED},
    {CURLE_SSL_CACERT_BADFILE, HTTP_UNSENT, -EINVAL},
    {CURLE_SSL_CERTPROBLEM, HTTP_UNSENT, -EINVAL},
    {CURLE_OPERATION_TIMEDOUT, HTTP_BROKEN, -ETIMEDOUT},
};

static void set_failure(struct http_exchange *x, struct http_answer *a)
{
    curl_off_t sending = 0;

    a->outcome = HTTP_BROKEN;
    a->code = -ECONNRESET;
    a->text = *x->error ? x->error : curl_easy_strerror(x->result);
    for (size_t i = 0; i < ARRAY_SIZE(failures); i++)
        if (failures[i].curl == x->result) {
            a->outcome = failures[i].outcome;
            a->code = failures[i].code;
        }
    /* the time at which it was about to send; 0 if it never came to that */
    (void)curl_easy_getinfo(x->easy, CURLINFO_PRETRANSFER_TIME_T, &sending);
    if (a->outcome == HTTP_BROKEN && !sending)
        a->outcome = HTTP_UNSENT;
    if (x->result == CURLE_SEND_FAIL_REWIND)
        a->text = "the connection broke, and what was sent isn't sent twice";
    if (x->too_big) {
        a->outcome = HTTP_TOO_BIG;
        a->code = -EFBIG;
        a->text = "the answer is too big";
    }
}

static void deliver_end(struct http_exchange *x)
{
    struct http_answer a = {
        .outcome = HTTP_ANSWERED, .body = x->in.s ? x->in.s : "", .len = x->in.len};
    curl_off_t retry_after_s = 0;
    long status = 0;

    (void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(x->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    a.status = (int)status;
    a.retry_after_ms = retry_after_s > 0 ? retry_after_s * 1000 : 0;
    if (x->result != CURLE_OK)
        set_failure(x, &a);
    unlink_exchange(x);
    x->fn(&a, x->data);
    free_exchange(x);
}

/* Calls back what is due for `x`; afterwards `x` and all others may be gone. */
static bool deliver_one(struct http_exchange *x)
{
    if (x->opened) {
        x->opened = false;
        x->chunk("", 0, x->data);
        return true;
    }
    long status = 0;
    (void)curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    if (x->chunk && x->in.len && status >= 200 && status < 300) {
        _cleanup_(strbuf_done) struct strbuf part = x->in;

        x->in = (struct strbuf){0};
        x->chunk(part.s, part.len, x->data);
        return true;
    }
    if (!x->ended)
        return false;
    deliver_end(x);
    return true;
}

static void deliver(struct http *h)
{
    struct http_exchange *x = h->first;

    while (x)
        x = deliver_one(x) ? h->first : x->next;
}

/* ---- the interface */

struct http_exchange *http_start(struct http *h, const struct http_request *q, http_chunk_fn *chunk,
                                 http_fn *fn, void *data)
{
    struct http_exchange *x = xnew(struct http_exchange);

    *x = (struct http_exchange){.http = h,
                                .easy = curl_easy_init(),
                                .body = xstrdup(q->body),
                                .body_len = q->body ? strlen(q->body) : 0,
                                .max_body = q->max_body,
                                .once = q->once,
                                .chunk = chunk,
                                .fn = fn,
                                .data = data,
                                .next = h->first,
                                .prev = &h->first};
    if (h->first)
        h->first->prev = &x->next;
    h->first = x;
    set_options(x, q);
    /* fails only for lack of memory, or if called from inside libcurl */
    if (!x->easy || curl_multi_add_handle(h->multi, x->easy) != CURLM_OK)
        abort();
    return x;
}

void http_stop(struct http_exchange *x)
{
    if (!x)
        return;
    unlink_exchange(x);
    free_exchange(x);
}

int http_new(struct loop *l, struct http **ret, struct err *e)
{
    struct http *h = xnew(struct http);

    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(h->multi = curl_multi_init())) {
        free(h);
        return err_set(e, ERR_PERMANENT, -ENOSYS, "libcurl can't be initialised");
    }
    h->loop = l;
    h->timer = timer_new(l, on_timer, h);
    (void)curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, set_io);
    (void)curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h);
    (void)curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    (void)curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h);
    (void)curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, 4L);
    *ret = h;
    return 0;
}

void http_free(struct http *h)
{
    while (h->first)
        http_stop(h->first);
    (void)curl_multi_cleanup(h->multi);
    timer_free(h->timer);
    curl_global_cleanup();
    free(h);
}
