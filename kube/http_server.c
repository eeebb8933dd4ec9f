/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/http_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define BACKLOG 64

struct connection {
    struct connection *next, **prev;
    int fd;
    int64_t until_ms;
};

struct http_server {
    struct loop *loop;
    http_server_fn *fn;
    void *data;
    struct MHD_Daemon *daemon;
    struct loop_io *io;
    struct timer *timer;
    unsigned port;
    struct connection *first;
    size_t closed; /* since the last run */
};

/* ---- the address */

/* "HOST:PORT" into both; `host` is "" for ":PORT". */
static int split(const char *address, char host[static INET6_ADDRSTRLEN], uint16_t *ret_port)
{
    const char *colon = strrchr(address, ':');
    uint64_t port;

    if (!colon || colon - address >= INET6_ADDRSTRLEN || !colon[1] ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
        parse_u64(colon + 1, 10, UINT16_MAX, &port) < 0)
        return -EINVAL;
    memcpy(host, address, (size_t)(colon - address));
    host[colon - address] = '\0';
    *ret_port = (uint16_t)port;
    return 0;
}

static bool read_v4(const char *host, uint16_t port, struct sockaddr_storage *ret)
{
    struct sockaddr_in *to = (struct sockaddr_in *)ret;

    to->sin_family = AF_INET;
    to->sin_port = htons(port);
    return inet_pton(AF_INET, host, &to->sin_addr) == 1;
}

/* "[ADDRESS]", or "" for all. */
static bool read_v6(char *host, uint16_t port, struct sockaddr_storage *ret)
{
    struct sockaddr_in6 *to = (struct sockaddr_in6 *)ret;
    size_t n = strlen(host);

    to->sin6_family = AF_INET6;
    to->sin6_port = htons(port);
    if (!n)
        return true; /* in6addr_any */
    if (host[n - 1] != ']')
        return false;
    host[n - 1] = '\0';
    return inet_pton(AF_INET6, host + 1, &to->sin6_addr) == 1;
}

static int read_address(const char *address, struct sockaddr_storage *ret, struct err *e)
{
    char host[INET6_ADDRSTRLEN];
    uint16_t port;

    memset(ret, 0, sizeof(*ret));
    if (split(address, host, &port) == 0 &&
        (!*host || *host == '[' ? read_v6(host, port, ret) : read_v4(host, port, ret)))
        return 0;
    return err_set(e, ERR_USER, -EINVAL,
                   "address \"%s\": must be like 127.0.0.1:9808, [::1]:9808 or :9808", address);
}

static int try_listen(const struct sockaddr_storage *to)
{
    static const int on = 1, off = 0;
    socklen_t len =
        to->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    _cleanup_close_ int fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (to->ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, (const struct sockaddr *)to, len) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return TAKE_FD(fd);
}

static int listen_at(const char *address, struct err *e)
{
    struct sockaddr_storage to;
    int r = read_address(address, &to, e);

    if (r < 0)
        return r;
    r = try_listen(&to);
    if (r == -EAFNOSUPPORT && *address == ':') { /* a kernel without IPv6 */
        uint16_t port = ntohs(((struct sockaddr_in6 *)&to)->sin6_port);

        memset(&to, 0, sizeof(to));
        (void)read_v4("0.0.0.0", port, &to);
        r = try_listen(&to);
    }
    return r < 0 ? err_errno(e, r, "listening on %s", address) : r;
}

static unsigned port_of(int fd)
{
    struct sockaddr_storage ss = {0};
    socklen_t len = sizeof(ss);

    (void)getsockname(fd, (struct sockaddr *)&ss, &len);
    return ntohs(ss.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&ss)->sin6_port
                                          : ((struct sockaddr_in *)&ss)->sin_port);
}

/* ---- a request */

static enum MHD_Result send_reply(struct MHD_Connection *c, struct http_reply *r)
{
    size_t len = r->body.len;
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, strbuf_take(&r->body), MHD_RESPMEM_MUST_FREE);

    if (!response)
        return MHD_NO;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                  r->content_type ? r->content_type : "text/plain; charset=utf-8");
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (r->status == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result result = MHD_queue_response(c, r->status, response);
    MHD_destroy_response(response);
    return result;
}

/* Answered at its first call, so that no body is ever read. */
static enum MHD_Result handle(void *data, struct MHD_Connection *c, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_len, void **state)
{
    struct http_server *s = data;
    struct http_reply r = {0};

    (void)version, (void)upload, (void)upload_len, (void)state;
    if (streq(method, MHD_HTTP_METHOD_GET) || streq(method, MHD_HTTP_METHOD_HEAD))
        s->fn(path, &r, s->data);
    else
        r.status = MHD_HTTP_METHOD_NOT_ALLOWED;
    if (!r.status) {
        r.status = MHD_HTTP_NOT_FOUND;
        strbuf_puts(&r.body, "not found\n");
    }
    return send_reply(c, &r);
}

/* ---- connections */

static void on_connection(void *data, struct MHD_Connection *c, void **state,
                          enum MHD_ConnectionNotificationCode what)
{
    struct http_server *s = data;
    struct connection *x = *state;

    switch (what) {
    case MHD_CONNECTION_NOTIFY_STARTED:
        *state = x = xnew(struct connection);
        *x = (struct connection){
            .next = s->first,
            .prev = &s->first,
            .fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd,
            .until_ms = clock_now(loop_clock(s->loop)) + HTTP_SERVER_LIFE_MS,
        };
        if (s->first)
            s->first->prev = &x->next;
        s->first = x;
        break;
    case MHD_CONNECTION_NOTIFY_CLOSED:
        *x->prev = x->next;
        if (x->next)
            x->next->prev = x->prev;
        free(x);
        s->closed++;
        break;
    }
}

/* libmicrohttpd's own limit is for silence: who sends a byte now and then would stay for ever. */
static int64_t end_old(struct http_server *s)
{
    int64_t now = clock_now(loop_clock(s->loop)), first = INT64_MAX;

    for (struct connection *x = s->first; x; x = x->next) {
        if (x->until_ms <= now)
            (void)shutdown(x->fd, SHUT_RDWR); /* the run sees its end, and closes it */
        else if (x->until_ms - now < first)
            first = x->until_ms - now;
    }
    return first;
}

static void run(struct http_server *s)
{
    MHD_UNSIGNED_LONG_LONG own;
    int64_t left = end_old(s);

    s->closed = 0;
    (void)MHD_run(s->daemon);
    /*
     * One more where a connection went: libmicrohttpd takes its listening socket, which it leaves
     * alone while there are too many, back at the beginning of a run only.
     */
    if (s->closed)
        left = 0;
    if (MHD_get_timeout(s->daemon, &own) == MHD_YES && own < (MHD_UNSIGNED_LONG_LONG)left)
        left = (int64_t)own;
    if (left == INT64_MAX)
        timer_cancel(s->timer);
    else
        timer_set(s->timer, left);
}

static void on_io(int fd, uint32_t events, void *data)
{
    (void)fd, (void)events;
    run(data);
}

static void on_timer(void *data)
{
    run(data);
}

/* ---- the server */

int http_server_new(struct loop *l, const char *address, http_server_fn *fn, void *data,
                    struct http_server **ret, struct err *e)
{
    int fd = listen_at(address, e);

    if (fd < 0)
        return fd;
    _cleanup_(http_server_freep) struct http_server *s = xnew(struct http_server);
    *s = (struct http_server){.loop = l, .fn = fn, .data = data, .port = port_of(fd)};
    s->timer = timer_new(l, on_timer, s);
    s->daemon =
        MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, handle, s, MHD_OPTION_LISTEN_SOCKET, fd,
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)HTTP_SERVER_CONNECTIONS,
                         MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)HTTP_SERVER_PER_ADDRESS,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_SERVER_REQUEST_MAX,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_SERVER_LIFE_MS / 1000,
                         MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION,
                         on_connection, s, MHD_OPTION_END);
    if (!s->daemon) {
        (void)close(fd);
        return err_set(e, ERR_BUG, -EIO, "listening on %s: libmicrohttpd doesn't start", address);
    }
    int epoll = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    int r = loop_io_new(l, epoll, EPOLLIN, on_io, s, &s->io, e);
    if (r < 0)
        return r;
    run(s); /* puts the listening socket into its epoll */
    *ret = TAKE_PTR(s);
    return 0;
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    loop_io_free(s->io); /* before its descriptor is closed */
    if (s->daemon)
        MHD_stop_daemon(s->daemon); /* ends all connections, and the listening socket */
    timer_free(s->timer);
    free(s);
}

unsigned http_server_port(const struct http_server *s)
{
    return s->port;
}
