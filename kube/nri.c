/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/nri.h"

#include "base/log.h"
#include "kube/mux.h"
#include "kube/nri_wire.h"
#include "kube/ttrpc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#define RETRY_MIN_MS       500
#define RETRY_MAX_MS       10000
#define REQUEST_TIMEOUT_MS 2000 /* DefaultPluginRequestTimeout of the runtime's side */

/* Answers that the runtime doesn't read: more than all it can have asked. */
#define UNSENT_MAX (16U * 1024 * 1024)

struct nri {
    struct loop *loop;
    struct nri_handlers h;
    char *socket, *name, *index;
    struct timer *retry;
    int64_t retry_ms;

    /* The connection; fd is -1 without one. */
    int fd;
    struct loop_io *io;
    struct mux_in mux;
    struct ttrpc_in plugin, runtime;
    struct strbuf unsent;
    size_t sent;       /* of `unsent` */
    bool blocked;      /* waiting for EPOLLOUT */
    struct err broken; /* why writing failed: the loop drops the connection */
    int request_timeout_ms;
    nri_pod_vec pods; /* of the parts of Synchronize that came */
    nri_container_vec containers;

    /* What the state handler was told last. */
    bool told, connected;
    char *text;

    struct nri_call *calls;
    bool busy, freed; /* in a handler of the loop, so freeing waits for its end */
};

struct nri_call {
    struct nri *n;
    struct nri_call *prev, *next;
    bool lost; /* its connection is gone */
    uint32_t stream;
    struct nri_wire_event ev;
};

static void call_free(struct nri_call *c)
{
    if (c->prev)
        c->prev->next = c->next;
    else
        c->n->calls = c->next;
    if (c->next)
        c->next->prev = c->prev;
    nri_wire_event_done(&c->ev);
    free(c);
}

static void destroy(struct nri *n)
{
    while (n->calls)
        call_free(n->calls);
    free(n->socket);
    free(n->name);
    free(n->index);
    free(n->text);
    free(n);
}

/* Each entry from the loop is between these two; a handler may call nri_free() in between. */
static void enter(struct nri *n)
{
    n->busy = true;
}

static void leave(struct nri *n)
{
    n->busy = false;
    if (n->freed)
        destroy(n);
}

static void tell(struct nri *n, bool connected, const char *text)
{
    if (n->freed || (n->told && n->connected == connected && streq(n->text, text)))
        return;
    free(n->text);
    n->text = xstrdup(text);
    n->told = true;
    n->connected = connected;
    n->h.state(connected, n->text, n->h.data);
}

static void close_link(struct nri *n)
{
    loop_io_free(TAKE_PTR(n->io));
    cleanup_closep(&n->fd);
    n->fd = -1;
    n->mux = (struct mux_in){0};
    ttrpc_in_done(&n->plugin);
    ttrpc_in_done(&n->runtime);
    strbuf_done(&n->unsent);
    n->sent = 0;
    n->blocked = false;
    err_clear(&n->broken);
    n->request_timeout_ms = REQUEST_TIMEOUT_MS;
    nri_pods_done(&n->pods);
    nri_containers_done(&n->containers);
    for (struct nri_call *c = n->calls; c; c = c->next)
        c->lost = true;
}

static void retry_later(struct nri *n)
{
    timer_set(n->retry, n->retry_ms);
    n->retry_ms = n->retry_ms * 2 < RETRY_MAX_MS ? n->retry_ms * 2 : RETRY_MAX_MS;
}

/* Ends the connection. The state handler comes last, so nothing of the connection is used after. */
static void drop(struct nri *n, const char *why)
{
    _cleanup_free_ char *text = xstrdup(why); /* `why` may belong to what is closed here */

    close_link(n);
    retry_later(n);
    tell(n, false, text);
}

/* Not here and now, since the caller of nri_reply() doesn't expect the state handler in it. */
static void break_link(struct nri *n, struct err *e)
{
    if (n->broken.code)
        return;
    err_move(&n->broken, e);
    (void)shutdown(n->fd, SHUT_RDWR);
}

/* The same text however we learn of it: the state handler isn't told one thing twice. */
static const char *hung_up(const struct nri *n)
{
    return n->connected ? "the runtime closed the connection"
                        : "the runtime closed the connection before it configured us";
}

static void flush(struct nri *n)
{
    _cleanup_err_ struct err e = ERR_INIT;

    while (n->sent < n->unsent.len) {
        ssize_t r = send(n->fd, n->unsent.s + n->sent, n->unsent.len - n->sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (r >= 0) {
            n->sent += (size_t)r;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            err_set(&e, ERR_TRANSIENT, -errno, "%s", hung_up(n));
            break_link(n, &e);
            return;
        } else if (errno != EINTR) {
            err_errno(&e, -errno, "writing to %s", n->socket);
            break_link(n, &e);
            return;
        }
    }

    bool blocked = n->sent < n->unsent.len;

    if (!blocked) {
        strbuf_done(&n->unsent);
        n->sent = 0;
    }
    if (blocked == n->blocked)
        return;
    n->blocked = blocked;
    if (loop_io_set(n->io, blocked ? EPOLLIN | EPOLLOUT : EPOLLIN, &e) < 0)
        break_link(n, &e);
}

static void send_message(struct nri *n, enum mux_conn conn, const struct strbuf *message)
{
    if (n->broken.code)
        return;
    mux_put(&n->unsent, conn, message->s, message->len);
    if (n->unsent.len - n->sent > UNSENT_MAX) {
        _cleanup_err_ struct err e = ERR_INIT;

        err_set(&e, ERR_PERMANENT, -ENOBUFS, "the runtime doesn't read its answers");
        break_link(n, &e);
        return;
    }
    if (!n->blocked)
        flush(n);
}

static void answer(struct nri *n, uint32_t stream, const struct strbuf *payload)
{
    _cleanup_(strbuf_done) struct strbuf message = {0};

    ttrpc_put_response(&message, stream, payload->s, payload->len);
    send_message(n, MUX_CONN_PLUGIN, &message);
}

static void refuse(struct nri *n, uint32_t stream, enum ttrpc_code code, const char *text)
{
    _cleanup_(strbuf_done) struct strbuf message = {0};
    _cleanup_free_ char *clean = str_utf8(text);

    ttrpc_put_error(&message, stream, code, clean);
    send_message(n, MUX_CONN_PLUGIN, &message);
}

/* The runtime configures a plugin after it has accepted the registration, so this is the moment. */
static void configure(struct nri *n, uint32_t stream, const struct ttrpc_request *req)
{
    _cleanup_(nri_hello_done) struct nri_hello hello = {0};
    _cleanup_(strbuf_done) struct strbuf payload = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    if (nri_wire_read_configure(req->payload, req->n, &hello, &e) < 0) {
        refuse(n, stream, TTRPC_INVALID_ARGUMENT, err_text(&e));
        return;
    }
    if (hello.request_timeout_ms > 0 && hello.request_timeout_ms <= INT32_MAX)
        n->request_timeout_ms = (int)hello.request_timeout_ms;
    nri_wire_put_configured(&payload);
    answer(n, stream, &payload);

    _cleanup_free_ char *text =
        xasprintf("%s %s, NRI %s", *hello.runtime ? hello.runtime : "a runtime", hello.version,
                  *hello.nri_version ? hello.nri_version : "of unknown version");

    tell(n, true, text);
}

static void synchronize(struct nri *n, uint32_t stream, const struct ttrpc_request *req)
{
    _cleanup_(strbuf_done) struct strbuf payload = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    bool more = false;

    if (nri_wire_read_synchronize(req->payload, req->n, &n->pods, &n->containers, &more, &e) < 0) {
        refuse(n, stream, TTRPC_INVALID_ARGUMENT, err_text(&e));
        return;
    }
    nri_wire_put_synchronized(&payload, more);
    answer(n, stream, &payload);
    if (more)
        return;

    /* Only now: a runtime that takes us in and then closes us each time is tried less often. */
    n->retry_ms = RETRY_MIN_MS;

    _cleanup_(nri_pods_done) nri_pod_vec pods = n->pods;
    _cleanup_(nri_containers_done) nri_container_vec containers = n->containers;

    n->pods = (nri_pod_vec){0};
    n->containers = (nri_container_vec){0};
    n->h.synchronize(&pods, &containers, n->h.data);
}

static void event(struct nri *n, uint32_t stream, const struct ttrpc_request *req)
{
    _cleanup_err_ struct err e = ERR_INIT;
    struct nri_wire_event ev;
    int r = nri_wire_read_event(req->method, req->payload, req->n, &ev, &e);

    if (r < 0) {
        log_debug("NRI request refused", "reason", err_text(&e));
        refuse(n, stream, r == -ENOSYS ? TTRPC_UNIMPLEMENTED : TTRPC_INVALID_ARGUMENT,
               err_text(&e));
        return;
    }
    if (r == 0) {
        answer(n, stream, &(struct strbuf){0});
        return;
    }

    struct nri_call *c = xnew(struct nri_call);

    *c = (struct nri_call){.n = n, .next = n->calls, .stream = stream, .ev = ev};
    if (n->calls)
        n->calls->prev = c;
    n->calls = c;
    n->h.event(c, ev.event, &c->ev.pod, ev.event == NRI_CREATE_CONTAINER ? &c->ev.container : NULL,
               n->h.data);
}

static void plugin_message(struct nri *n, const struct ttrpc_msg *msg)
{
    _cleanup_(ttrpc_request_done) struct ttrpc_request req = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    uint32_t stream = msg->stream;
    int r = ttrpc_read_request(&n->plugin, msg, &req, &e);

    if (r < 0)
        refuse(n, stream, TTRPC_INVALID_ARGUMENT, err_text(&e));
    if (r <= 0)
        return;
    if (!streq(req.service, NRI_PLUGIN_SERVICE)) {
        _cleanup_free_ char *text = xasprintf("service %s", req.service);

        refuse(n, stream, TTRPC_UNIMPLEMENTED, text);
    } else if (streq(req.method, "Configure")) {
        configure(n, stream, &req);
    } else if (streq(req.method, "Synchronize")) {
        synchronize(n, stream, &req);
    } else if (streq(req.method, "Shutdown")) {
        answer(n, stream, &(struct strbuf){0});
        drop(n, "the runtime shuts down");
    } else {
        event(n, stream, &req);
    }
}

/* The only call that we make is RegisterPlugin, on stream 1. */
static void runtime_message(struct nri *n, const struct ttrpc_msg *msg)
{
    _cleanup_(ttrpc_response_done) struct ttrpc_response resp = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    int r = msg->stream == 1 ? ttrpc_read_response(msg, &resp, &e) : 0;

    if (r < 0) {
        drop(n, err_text(&e));
    } else if (r > 0 && resp.code != 0) {
        _cleanup_free_ char *text =
            xasprintf("registration refused: %s (code %d)", resp.message, resp.code);

        drop(n, text);
    }
}

static bool usable(const struct nri *n)
{
    return n->fd >= 0 && !n->broken.code;
}

/* Handlers may end the connection, so it is looked at again after each message. */
static void take(struct nri *n, struct mux_piece piece)
{
    _cleanup_err_ struct err e = ERR_INIT;
    struct ttrpc_in *in;

    if (piece.conn == MUX_CONN_PLUGIN)
        in = &n->plugin;
    else if (piece.conn == MUX_CONN_RUNTIME)
        in = &n->runtime;
    else
        return;
    while (usable(n)) {
        struct ttrpc_msg msg;
        int r = ttrpc_next(in, &piece.data, &piece.n, &msg, &e);

        if (r < 0)
            drop(n, err_text(&e));
        if (r <= 0)
            return;
        if (in == &n->plugin)
            plugin_message(n, &msg);
        else
            runtime_message(n, &msg);
    }
}

static void receive(struct nri *n)
{
    _cleanup_err_ struct err e = ERR_INIT;
    uint8_t buf[16384];
    ssize_t got = recv(n->fd, buf, sizeof(buf), MSG_DONTWAIT);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got == 0 || (got < 0 && errno == ECONNRESET)) {
        drop(n, hung_up(n));
        return;
    }
    if (got < 0) {
        err_errno(&e, -errno, "reading from %s", n->socket);
        drop(n, err_text(&e));
        return;
    }

    const uint8_t *p = buf;
    size_t left = (size_t)got;

    while (usable(n)) {
        struct mux_piece piece;
        int r = mux_next(&n->mux, &p, &left, &piece, &e);

        if (r < 0)
            drop(n, err_text(&e));
        if (r <= 0)
            return;
        take(n, piece);
    }
}

static void on_io(int fd, uint32_t events, void *data)
{
    struct nri *n = data;

    (void)fd;
    enter(n);
    if (events & EPOLLOUT && usable(n))
        flush(n);
    if (events & ~(uint32_t)EPOLLOUT && usable(n))
        receive(n);
    if (n->broken.code)
        drop(n, err_text(&n->broken));
    leave(n);
}

static int dial(struct nri *n, struct err *e)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return err_errno(e, -errno, "socket for %s", n->socket);
    memcpy(addr.sun_path, n->socket, strlen(n->socket) + 1);
    /* A unix socket connects at once, or fails with EAGAIN where the backlog is full. */
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return err_errno(e, -errno, "connecting to %s", n->socket);

    int r = loop_io_new(n->loop, fd, EPOLLIN, on_io, n, &n->io, e);

    if (r < 0)
        return r;
    n->fd = TAKE_FD(fd);
    return 0;
}

/*
 * Without a time limit of our own: the runtime takes plugins in one after the other, so the answer
 * may be due to another plugin's time limits, and it closes us itself if it waits 5 s in vain.
 */
static void on_retry(void *data)
{
    struct nri *n = data;
    _cleanup_err_ struct err e = ERR_INIT;

    enter(n);
    if (dial(n, &e) < 0) {
        drop(n, err_text(&e));
    } else {
        _cleanup_(strbuf_done) struct strbuf payload = {0}, message = {0};

        nri_wire_put_register(&payload, n->name, n->index);
        ttrpc_put_request(&message, 1, NRI_RUNTIME_SERVICE, "RegisterPlugin", payload.s,
                          payload.len);
        send_message(n, MUX_CONN_RUNTIME, &message);
    }
    leave(n);
}

/* What the runtime checks at registration (CheckPluginName, CheckPluginIndex), found at the start.
 */
static int check_config(const struct nri_config *c, struct err *e)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-_.+";

    if (!*c->name || c->name[strspn(c->name, allowed)])
        return err_set(e, ERR_USER, -EINVAL, "NRI plugin name \"%s\": letters, digits and -_.+",
                       c->name);
    if (strlen(c->index) != 2 || strspn(c->index, "0123456789") != 2)
        return err_set(e, ERR_USER, -EINVAL, "NRI plugin index \"%s\": must be two digits",
                       c->index);
    if (!*c->socket || strlen(c->socket) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return err_set(e, ERR_USER, -ENAMETOOLONG, "NRI socket \"%s\": 1 to %zu bytes", c->socket,
                       sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
    return 0;
}

int nri_new(struct loop *l, const struct nri_config *c, const struct nri_handlers *h,
            struct nri **ret, struct err *e)
{
    int r = check_config(c, e);

    if (r < 0)
        return r;

    struct nri *n = xnew(struct nri);

    *n = (struct nri){
        .loop = l,
        .h = *h,
        .socket = xstrdup(c->socket),
        .name = xstrdup(c->name),
        .index = xstrdup(c->index),
        .retry = timer_new(l, on_retry, n),
        .retry_ms = RETRY_MIN_MS,
        .fd = -1,
        .request_timeout_ms = REQUEST_TIMEOUT_MS,
    };
    timer_set(n->retry, 0);
    *ret = n;
    return 0;
}

void nri_reply(struct nri_call *call, const char *error, const struct nri_adjust *adjust)
{
    struct nri *n = call->n;

    if (!call->lost && error) {
        refuse(n, call->stream, TTRPC_UNKNOWN, error);
    } else if (!call->lost) {
        _cleanup_(strbuf_done) struct strbuf payload = {0};

        if (call->ev.event == NRI_CREATE_CONTAINER)
            nri_wire_put_created(&payload, adjust);
        answer(n, call->stream, &payload);
    }
    call_free(call);
}

int nri_request_timeout_ms(const struct nri *n)
{
    return n->request_timeout_ms;
}

bool nri_connected(const struct nri *n)
{
    return n->connected;
}

void nri_free(struct nri *n)
{
    if (!n)
        return;
    timer_free(TAKE_PTR(n->retry));
    close_link(n);
    n->freed = true;
    if (!n->busy)
        destroy(n);
}
