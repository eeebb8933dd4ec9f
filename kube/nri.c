/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/nri.h"

#include "base/log.h"
#include "kube/nri_link.h"
#include "kube/nri_wire.h"

#include <errno.h>

#define RETRY_MIN_MS       500
#define RETRY_MAX_MS       10000
#define REQUEST_TIMEOUT_MS 2000 /* DefaultPluginRequestTimeout of the runtime's side */

/* Of sockaddr_un's path, without its NUL. */
#define SOCKET_MAX 107

struct nri {
    struct loop *loop;
    struct nri_handlers h;
    char *socket, *name, *index;
    struct timer *retry;
    int64_t retry_ms;

    struct nri_link link;
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

static void disconnect(struct nri *n)
{
    nri_link_close(&n->link);
    n->request_timeout_ms = REQUEST_TIMEOUT_MS;
    nri_pods_done(&n->pods);
    nri_containers_done(&n->containers);
    for (struct nri_call *c = n->calls; c; c = c->next)
        c->lost = true;
}

/* Ends the connection. The state handler comes last, so nothing of the connection is used after. */
static void drop(struct nri *n, const struct err *why)
{
    _cleanup_free_ char *text =
        xasprintf("%s%s", err_text(why),
                  why->code == -ECONNRESET && !n->connected ? " before it configured us" : "");

    disconnect(n);
    timer_set(n->retry, n->retry_ms);
    n->retry_ms = n->retry_ms * 2 < RETRY_MAX_MS ? n->retry_ms * 2 : RETRY_MAX_MS;
    tell(n, false, text);
}

static void answer(struct nri *n, uint32_t stream, const struct strbuf *payload)
{
    _cleanup_(strbuf_done) struct strbuf message = {0};

    ttrpc_put_response(&message, stream, payload->s, payload->len);
    nri_link_send(&n->link, MUX_CONN_PLUGIN, &message);
}

static void refuse(struct nri *n, uint32_t stream, enum ttrpc_code code, const char *text)
{
    _cleanup_(strbuf_done) struct strbuf message = {0};
    _cleanup_free_ char *clean = str_utf8(text);

    ttrpc_put_error(&message, stream, code, clean);
    nri_link_send(&n->link, MUX_CONN_PLUGIN, &message);
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
    int r = ttrpc_read_request(&n->link.plugin, msg, &req, &e);

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
        err_set(&e, ERR_TRANSIENT, -ESHUTDOWN, "the runtime shuts down");
        drop(n, &e);
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

    if (r > 0 && resp.code != 0)
        r = err_set(&e, ERR_PERMANENT, -EACCES, "registration refused: %s (code %d)", resp.message,
                    resp.code);
    if (r < 0)
        drop(n, &e);
}

static void on_io(int fd, uint32_t events, void *data)
{
    struct nri *n = data;
    _cleanup_err_ struct err e = ERR_INIT;
    struct nri_link_msg m;

    (void)fd;
    enter(n);

    int r = nri_link_io(&n->link, events, &e);

    while (r >= 0 && (r = nri_link_next(&n->link, &m, &e)) > 0) {
        if (m.conn == MUX_CONN_PLUGIN)
            plugin_message(n, &m.msg);
        else
            runtime_message(n, &m.msg);
    }
    if (r < 0)
        drop(n, &e);
    leave(n);
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
    if (nri_link_open(&n->link, n->loop, n->socket, on_io, n, &e) < 0) {
        drop(n, &e);
    } else {
        _cleanup_(strbuf_done) struct strbuf payload = {0}, message = {0};

        nri_wire_put_register(&payload, n->name, n->index);
        ttrpc_put_request(&message, 1, NRI_RUNTIME_SERVICE, "RegisterPlugin", payload.s,
                          payload.len);
        nri_link_send(&n->link, MUX_CONN_RUNTIME, &message);
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
    if (!*c->socket || strlen(c->socket) > SOCKET_MAX)
        return err_set(e, ERR_USER, -ENAMETOOLONG, "NRI socket \"%s\": 1 to %d bytes", c->socket,
                       SOCKET_MAX);
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
        .link = {.fd = -1},
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
    disconnect(n);
    n->freed = true;
    if (!n->busy)
        destroy(n);
}
