/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/kube/server.h"

#include "base/str.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

struct server {
    const struct reply *script;
    size_t n;
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    bool stop, go;
    struct asked *asked[256];
    size_t n_asked;
};

struct request {
    struct asked *asked;
    struct strbuf body;
};

struct sending {
    struct server *server;
    const struct reply *reply;
};

static size_t body_len(const struct reply *r)
{
    return r->body_len ? r->body_len : r->body ? strlen(r->body) : 0;
}

static void wait_for_stop(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->stop)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static void wait_for_go(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->stop && !s->go)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void server_go(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    s->go = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static ssize_t read_body(void *data, uint64_t pos, char *buf, size_t max)
{
    struct sending *s = data;
    size_t left = body_len(s->reply) - pos, n = left;

    if (!left && s->reply->end == END_HANG)
        wait_for_stop(s->server);
    if (!left)
        return s->reply->end == END_ORDERLY ? MHD_CONTENT_READER_END_OF_STREAM
                                            : MHD_CONTENT_READER_END_WITH_ERROR;
    if (s->reply->each && pos)
        pause_ms(1);
    if (s->reply->each)
        n = s->reply->each < left ? s->reply->each : left;
    if (s->reply->split && pos < s->reply->split)
        n = s->reply->split - pos;
    else if (s->reply->split && pos == s->reply->split && s->reply->gate)
        wait_for_go(s->server);
    else if (s->reply->split && pos == s->reply->split)
        pause_ms(3);
    n = n < max ? n : max;
    memcpy(buf, s->reply->body + pos, n);
    return (ssize_t)n;
}

static enum MHD_Result answer(struct server *s, struct MHD_Connection *connection,
                              const struct reply *r)
{
    struct MHD_Response *response;

    if (!r->status) {
        if (r->end == END_HANG)
            wait_for_stop(s);
        return MHD_NO;
    }
    if (r->split || r->each || r->end != END_ORDERLY) {
        struct sending *sending = xnew(struct sending);

        *sending = (struct sending){s, r};
        response =
            MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 65536, read_body, sending, free);
    } else {
        response = MHD_create_response_from_buffer(body_len(r), (void *)(r->body ? r->body : ""),
                                                   MHD_RESPMEM_PERSISTENT);
    }
    if (r->name)
        (void)MHD_add_response_header(response, r->name, r->value);
    enum MHD_Result result = MHD_queue_response(connection, (unsigned)r->status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result add_argument(void *data, enum MHD_ValueKind kind, const char *key,
                                    const char *value)
{
    struct strbuf *url = data;

    (void)kind;
    strbuf_printf(url, "%c%s=%s", strchr(url->s, '?') ? '&' : '?', key, value ? value : "");
    return MHD_YES;
}

static const char *header(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static unsigned client_port(struct MHD_Connection *c)
{
    const struct sockaddr *from =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;

    return ntohs(((const struct sockaddr_in *)from)->sin_port);
}

static enum MHD_Result handle(void *data, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_len, void **state)
{
    static const struct reply none = {.status = 501, .body = "the script is at its end"};
    struct server *s = data;
    struct request *q = *state;

    (void)version;
    if (!q) {
        struct strbuf url = {0};

        *state = q = xnew(struct request);
        strbuf_puts(&url, path);
        (void)MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add_argument, &url);
        q->asked = xnew(struct asked);
        *q->asked = (struct asked){xstrdup(method),
                                   strbuf_take(&url),
                                   xstrdup(header(connection, "Authorization")),
                                   xstrdup(header(connection, "Content-Type")),
                                   NULL,
                                   client_port(connection)};
        return MHD_YES;
    }
    if (*upload_len) {
        strbuf_add(&q->body, upload, *upload_len);
        *upload_len = 0;
        return MHD_YES;
    }
    q->asked->body = strbuf_take(&q->body);
    pthread_mutex_lock(&s->lock);
    size_t i = s->n_asked;
    if (i < ARRAY_SIZE(s->asked))
        s->asked[s->n_asked++] = TAKE_PTR(q->asked);
    pthread_mutex_unlock(&s->lock);
    return answer(s, connection, i < s->n ? &s->script[i] : &none);
}

static void free_asked(struct asked *a)
{
    if (!a)
        return;
    free(a->method);
    free(a->url);
    free(a->authorization);
    free(a->content_type);
    free(a->body);
    free(a);
}

static void completed(void *data, struct MHD_Connection *connection, void **state,
                      enum MHD_RequestTerminationCode why)
{
    struct request *q = *state;

    (void)data, (void)connection, (void)why;
    if (!q)
        return;
    free_asked(q->asked);
    strbuf_done(&q->body);
    free(q);
}

struct server *server_start(const struct reply *script, size_t n, const char *tls_cert,
                            const char *tls_key)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct server *s = xnew(struct server);
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)tls_cert},
                                   {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)tls_key},
                                   {MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD;

    if (tls_cert)
        flags |= MHD_USE_TLS;
    else
        tls[0].option = MHD_OPTION_END;
    s->script = script;
    s->n = n;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->daemon = MHD_start_daemon(flags, 0, NULL, NULL, handle, s, MHD_OPTION_SOCK_ADDR, &at,
                                 MHD_OPTION_NOTIFY_COMPLETED, completed, NULL, MHD_OPTION_ARRAY,
                                 tls, MHD_OPTION_END);
    if (!s->daemon)
        abort();
    return s;
}

void server_stop(struct server *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    MHD_stop_daemon(s->daemon);
    for (size_t i = 0; i < s->n_asked; i++)
        free_asked(s->asked[i]);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s);
}

unsigned server_port(const struct server *s)
{
    return MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

size_t server_asked(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    size_t n = s->n_asked;
    pthread_mutex_unlock(&s->lock);
    return n;
}

const struct asked *server_request(struct server *s, size_t i)
{
    static char empty[] = "";
    static const struct asked none = {empty, empty, NULL, NULL, empty, 0};

    return i < server_asked(s) ? s->asked[i] : &none;
}

/* ---- time */

static int64_t ahead_ms;

static int64_t fast_now(struct clock *c)
{
    (void)c;
    return clock_now(clock_system()) + ahead_ms;
}

struct loop *fast_loop(void)
{
    static struct clock clock = {fast_now};
    struct loop *l = NULL;

    if (loop_new(&clock, &l, NULL) < 0)
        abort();
    return l;
}

void fast_forward(int64_t ms)
{
    ahead_ms += ms;
}

bool pump(struct loop *l, const bool *done, int64_t step_ms, int real_ms)
{
    int64_t until = clock_now(clock_system()) + real_ms;

    while (!*done) {
        if (clock_now(clock_system()) >= until)
            return false;
        (void)loop_once(l, 2, NULL);
        fast_forward(step_ms);
    }
    return true;
}

/* ---- files */

char *temp_file(const char *text)
{
    char *name = xstrdup("/tmp/test-kube-XXXXXX");
    int fd = mkstemp(name);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        abort();
    close(fd);
    return name;
}

char *temp_kubeconfig(const char *url, const char *cluster, const char *user)
{
    _cleanup_free_ char *text =
        xasprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\n"
                  "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
                  "clusters: [{name: k, cluster: {server: '%s'%s%s}}]\n"
                  "users: [{name: u, user: {%s}}]\n",
                  url, cluster ? ", " : "", cluster ? cluster : "", user ? user : "");

    return temp_file(text);
}
