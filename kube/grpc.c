/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who does what: the queue's thread takes completions from gRPC and puts them on a list; all else,
 * every batch on every call included, happens on the loop's thread, so that no call needs a lock.
 *
 * A completion's tag is a `struct event` inside the call that it belongs to. A call is freed when
 * its answer was given and all its tags came back.
 */
#include "kube/grpc.h"

#include "base/log.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/un.h>

_Static_assert(GRPC_SRV_PATH_MAX == sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1,
               "the kernel's limit");

/* gRPC's default, stated: a request of the kubelet has some hundred bytes a claim. */
#define MAX_MESSAGE (4 * 1024 * 1024)
/* On each connection; what exceeds it waits in the client, not in gRPC's unbounded queue here. */
#define MAX_STREAMS 128
/* Calls of one method that gRPC may hand over before the loop has seen the first. */
#define REQUESTS_PER_METHOD 8
/* How long answers that were given may take to go out before their calls are cancelled. */
#define GRACE_MS 100

enum event_kind {
    EVENT_REQUEST,  /* a call came, or (not ok) won't come any more */
    EVENT_CLOSE,    /* the call is over, whoever ended it */
    EVENT_SENT,     /* the answer went out, or (not ok) nobody wants it */
    EVENT_SHUTDOWN, /* the server has no connection and no call left */
};

struct event {
    enum event_kind kind;
    struct grpc_srv_call *call; /* NULL: of the server */
    bool ok;
    struct event *next;
};

struct grpc_srv_call {
    struct grpc_srv *srv;
    const struct grpc_srv_method *method; /* NULL: one that we don't know */
    void *handle;                         /* gRPC's of the method */

    grpc_call *call;
    grpc_call_details details; /* unknown methods only */
    grpc_metadata_array metadata;
    gpr_timespec deadline;
    grpc_byte_buffer *payload; /* NULL: the client ended its side without a message */
    int cancelled;

    struct event request, close, sent;
    unsigned pending; /* tags that gRPC has */
    bool answered;

    /* In the server's list of calls that a handler owes an answer. */
    struct grpc_srv_call *next_owed, **link;
};

struct grpc_srv {
    struct loop_io *io;

    grpc_completion_queue *cq;
    grpc_server *server;
    pthread_t thread;

    struct grpc_srv_call *owed;
    unsigned open; /* how many those are */
    unsigned live; /* `struct grpc_srv_call`s, waiting ones included */
    bool stopping, shut;
    struct event shutdown;

    /*
     * An eventfd of our own and not loop_post(): a posted call can't be taken back when the server
     * is freed, an io can.
     */
    int wake;
    pthread_mutex_t lock; /* guards the list */
    struct event *first, **last;
};

/* ---- gRPC's log ---- */

/* Where the bind of the current thread collects what gRPC says; its API has no error texts. */
static _Thread_local struct strbuf *captured;

static void log_line(gpr_log_func_args *a)
{
    if (captured) {
        if (captured->len)
            strbuf_puts(captured, "; ");
        strbuf_puts(captured, a->message);
        return;
    }
    _cleanup_free_ char *where = xasprintf("%s:%d", a->file, a->line);

    switch (a->severity) {
    case GPR_LOG_SEVERITY_ERROR:
        log_error("gRPC", "text", a->message, "at", where);
        break;
    case GPR_LOG_SEVERITY_INFO:
    case GPR_LOG_SEVERITY_DEBUG:
        log_debug("gRPC", "text", a->message, "at", where);
        break;
    }
}

/* ---- the queue's thread ---- */

static void enqueue(struct grpc_srv *s, struct event *ev)
{
    uint64_t one = 1;

    ev->next = NULL;
    pthread_mutex_lock(&s->lock);
    bool was_empty = !s->first;
    *s->last = ev;
    s->last = &ev->next;
    pthread_mutex_unlock(&s->lock);
    if (was_empty)
        (void)!write(s->wake, &one, sizeof(one));
}

static void *queue_main(void *data)
{
    struct grpc_srv *s = data;

    for (;;) {
        grpc_event ev =
            grpc_completion_queue_next(s->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);

        if (ev.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        if (ev.type != GRPC_OP_COMPLETE)
            continue;
        struct event *e = ev.tag;
        e->ok = ev.success;
        enqueue(s, e);
    }
}

/* ---- calls, on the loop's thread ---- */

static void start_batch(struct grpc_srv_call *c, const grpc_op *ops, size_t n, struct event *tag)
{
    grpc_call_error err = grpc_call_start_batch(c->call, ops, n, tag, NULL);

    /* All other values say that the caller misused the API. */
    assert(err == GRPC_CALL_OK);
    (void)err;
    c->pending++;
}

static void owe(struct grpc_srv_call *c)
{
    struct grpc_srv *s = c->srv;

    c->next_owed = s->owed;
    c->link = &s->owed;
    if (s->owed)
        s->owed->link = &c->next_owed;
    s->owed = c;
    s->open++;
}

static void owe_no_more(struct grpc_srv_call *c)
{
    *c->link = c->next_owed;
    if (c->next_owed)
        c->next_owed->link = c->link;
    c->link = NULL;
    c->srv->open--;
}

static void call_free(struct grpc_srv_call *c)
{
    if (c->link)
        owe_no_more(c);
    if (c->payload)
        grpc_byte_buffer_destroy(c->payload);
    if (c->call)
        grpc_call_unref(c->call);
    grpc_metadata_array_destroy(&c->metadata);
    grpc_call_details_destroy(&c->details);
    c->srv->live--;
    free(c);
}

/* An answer that is still owed keeps the call, unless the server ends. */
static void call_done_maybe(struct grpc_srv_call *c)
{
    if (c->pending == 0 && (c->answered || c->srv->stopping))
        call_free(c);
}

/* Makes gRPC hand over one more call of `method`. */
static void arm(struct grpc_srv *s, const struct grpc_srv_method *method, void *handle)
{
    struct grpc_srv_call *c = xnew(struct grpc_srv_call);
    grpc_call_error err;

    c->srv = s;
    c->method = method;
    c->handle = handle;
    c->request = (struct event){.kind = EVENT_REQUEST, .call = c};
    c->close = (struct event){.kind = EVENT_CLOSE, .call = c};
    c->sent = (struct event){.kind = EVENT_SENT, .call = c};
    grpc_metadata_array_init(&c->metadata);
    grpc_call_details_init(&c->details);
    s->live++;
    if (method)
        err = grpc_server_request_registered_call(s->server, handle, &c->call, &c->deadline,
                                                  &c->metadata, &c->payload, s->cq, s->cq,
                                                  &c->request);
    else
        err = grpc_server_request_call(s->server, &c->call, &c->details, &c->metadata, s->cq, s->cq,
                                       &c->request);
    assert(err == GRPC_CALL_OK);
    (void)err;
}

static void send_answer(struct grpc_srv_call *c, enum grpc_code code, const char *text,
                        const void *data, size_t len)
{
    grpc_slice details = grpc_slice_from_copied_string(text ? text : "");
    grpc_byte_buffer *message = NULL;
    grpc_op ops[3] = {0};
    size_t n = 0;

    assert(!c->answered);
    c->answered = true;
    ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (code == GRPC_CODE_OK) {
        grpc_slice body = grpc_slice_from_copied_buffer(len ? data : "", len);

        message = grpc_raw_byte_buffer_create(&body, 1);
        grpc_slice_unref(body);
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        ops[n++].data.send_message.send_message = message;
    }
    ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[n].data.send_status_from_server.status = (grpc_status_code)code;
    ops[n++].data.send_status_from_server.status_details = &details;
    start_batch(c, ops, n, &c->sent);
    if (message)
        grpc_byte_buffer_destroy(message);
    grpc_slice_unref(details);
}

static void refuse_unknown(struct grpc_srv_call *c)
{
    char *path = grpc_slice_to_c_string(c->details.method);
    _cleanup_free_ char *text = xasprintf("unknown method %.200s", path);

    gpr_free(path);
    send_answer(c, GRPC_CODE_UNIMPLEMENTED, text, NULL, 0);
}

static void hand_over(struct grpc_srv_call *c)
{
    grpc_byte_buffer_reader reader;

    if (!grpc_byte_buffer_reader_init(&reader, c->payload)) {
        send_answer(c, GRPC_CODE_INTERNAL, "the request message can't be read", NULL, 0);
        return;
    }
    grpc_slice all = grpc_byte_buffer_reader_readall(&reader);

    grpc_byte_buffer_reader_destroy(&reader);
    grpc_byte_buffer_destroy(c->payload);
    c->payload = NULL;
    owe(c);
    c->method->fn(c, GRPC_SLICE_START_PTR(all), GRPC_SLICE_LENGTH(all), c->method->data);
    grpc_slice_unref(all);
}

static void call_came(struct grpc_srv_call *c)
{
    struct grpc_srv *s = c->srv;
    grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};

    if (!s->stopping)
        arm(s, c->method, c->handle);
    /* A batch of its own: later versions refuse it together with SEND_STATUS (gRFC L104). */
    op.data.recv_close_on_server.cancelled = &c->cancelled;
    start_batch(c, &op, 1, &c->close);

    if (s->stopping)
        send_answer(c, GRPC_CODE_UNAVAILABLE, "the server is ending", NULL, 0);
    else if (!c->method)
        refuse_unknown(c);
    else if (!c->payload)
        send_answer(c, GRPC_CODE_INVALID_ARGUMENT, "the call has no request message", NULL, 0);
    else
        hand_over(c);
}

static void handle(struct grpc_srv *s, struct event *ev)
{
    struct grpc_srv_call *c = ev->call;

    switch (ev->kind) {
    case EVENT_REQUEST:
        if (ev->ok)
            call_came(c);
        else
            call_free(c);
        break;
    case EVENT_CLOSE:
    case EVENT_SENT:
        c->pending--;
        call_done_maybe(c);
        break;
    case EVENT_SHUTDOWN:
        s->shut = true;
        break;
    }
}

static void drain(int fd, uint32_t events, void *data)
{
    struct grpc_srv *s = data;
    uint64_t n;

    (void)events;
    (void)!read(fd, &n, sizeof(n));
    pthread_mutex_lock(&s->lock);
    struct event *ev = s->first;
    s->first = NULL;
    s->last = &s->first;
    pthread_mutex_unlock(&s->lock);
    while (ev) {
        struct event *next = ev->next;

        handle(s, ev);
        ev = next;
    }
}

void grpc_srv_reply(struct grpc_srv_call *c, enum grpc_code code, const char *text,
                    const void *data, size_t len)
{
    assert(c->link);
    owe_no_more(c);
    send_answer(c, code, text, data, len);
}

unsigned grpc_srv_open_calls(const struct grpc_srv *s)
{
    return s->open;
}

/* ---- start and end ---- */

/* gRPC takes a URI, so what is special in one is escaped. */
static char *unix_uri(const char *path)
{
    struct strbuf b = {0};

    strbuf_puts(&b, "unix:");
    for (const char *p = path; *p; p++)
        if ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
            strchr("/._-", *p))
            strbuf_putc(&b, *p);
        else
            strbuf_printf(&b, "%%%02X", (unsigned char)*p);
    return strbuf_take(&b);
}

/* What gRPC would refuse without telling us why. */
static int check_path(const char *path, struct err *e)
{
    struct stat st;

    if (strlen(path) > GRPC_SRV_PATH_MAX)
        return err_set(e, ERR_USER, -ENAMETOOLONG,
                       "socket %s: the path has %zu bytes, a socket's may have %d", path,
                       strlen(path), GRPC_SRV_PATH_MAX);
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : err_errno(e, -errno, "socket %s", path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(e, ERR_PERMANENT, -EEXIST, "socket %s: a %s is in its place", path,
                       S_ISDIR(st.st_mode)   ? "directory"
                       : S_ISREG(st.st_mode) ? "plain file"
                                             : "file of another kind");
    return 0;
}

/* `why` is a nest of errors as text, or NULL; where a system call failed it has "errno:2". */
static int bind_failed(const char *path, const char *why, struct err *e)
{
    const char *number = why ? strstr(why, "errno:") : NULL;
    int code = number ? atoi(number + strlen("errno:")) : 0;

    if (code > 0)
        return err_errno(e, -code, "socket %s", path);
    return err_set(e, ERR_PERMANENT, -EADDRNOTAVAIL, "socket %s: %s", path,
                   why ? why : "gRPC can't serve on it and doesn't say why");
}

static int bind_path(grpc_server *server, const char *path, struct err *e)
{
    _cleanup_free_ char *uri = unix_uri(path);
    struct strbuf why = {0};
    int r = check_path(path, e);

    if (r < 0)
        return r;
    grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
    /* A file that another thread makes meanwhile is too private at worst. */
    mode_t old = umask(0177);

    captured = &why;
    int port = grpc_server_add_http2_port(server, uri, creds);
    captured = NULL;
    (void)umask(old);
    grpc_server_credentials_release(creds);
    if (port == 0)
        r = bind_failed(path, why.s, e);
    strbuf_done(&why);
    return r;
}

static grpc_server *make_server(void)
{
    grpc_arg args[] = {
        {.type = GRPC_ARG_INTEGER,
         .key = (char *)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
         .value.integer = MAX_MESSAGE},
        {.type = GRPC_ARG_INTEGER,
         .key = (char *)GRPC_ARG_MAX_CONCURRENT_STREAMS,
         .value.integer = MAX_STREAMS},
        /* Identity only: nobody compresses on a unix socket, and small bytes can't become many. */
        {.type = GRPC_ARG_INTEGER,
         .key = (char *)GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
         .value.integer = 1 << GRPC_COMPRESS_NONE},
        {.type = GRPC_ARG_INTEGER, .key = (char *)GRPC_ARG_ENABLE_CHANNELZ, .value.integer = 0},
    };
    grpc_channel_args all = {.num_args = ARRAY_SIZE(args), .args = args};

    return grpc_server_create(&all, NULL);
}

/* Waits at most `timeout_ms` for completions and handles them. */
static void drain_wait(struct grpc_srv *s, int timeout_ms)
{
    struct pollfd p = {.fd = s->wake, .events = POLLIN};

    if (poll(&p, 1, timeout_ms) > 0)
        drain(s->wake, EPOLLIN, s);
}

/*
 * The only order that gRPC takes: shutdown, its tag and every call's back, then the queue. A batch
 * on a call after the queue's shutdown, or the server's end before its tag, aborts the process.
 */
static void stop_server(struct grpc_srv *s)
{
    int64_t end = clock_now(clock_system()) + GRACE_MS;

    s->stopping = true;
    /* Nothing will come back for those whose client has gone. */
    for (struct grpc_srv_call *c = s->owed, *next; c; c = next) {
        next = c->next_owed;
        call_done_maybe(c);
    }
    s->shutdown = (struct event){.kind = EVENT_SHUTDOWN};
    grpc_server_shutdown_and_notify(s->server, s->cq, &s->shutdown);
    while (!s->shut || s->live > 0) {
        int64_t left = end - clock_now(clock_system());

        if (left <= 0)
            grpc_server_cancel_all_calls(s->server);
        drain_wait(s, left > 0 ? (int)left : GRACE_MS);
    }
}

void grpc_srv_free(struct grpc_srv *s)
{
    if (!s)
        return;
    loop_io_free(s->io);
    if (s->server) {
        stop_server(s);
        grpc_completion_queue_shutdown(s->cq);
        pthread_join(s->thread, NULL);
        grpc_server_destroy(s->server);
        grpc_completion_queue_destroy(s->cq);
        grpc_shutdown();
    }
    pthread_mutex_destroy(&s->lock);
    cleanup_closep(&s->wake);
    free(s);
}

/* The queue, its thread and the server exist together or not at all. */
static int start_core(struct grpc_srv *s, struct err *e)
{
    gpr_set_log_function(log_line);
    grpc_init();
    s->cq = grpc_completion_queue_create_for_next(NULL);
    int r = pthread_create(&s->thread, NULL, queue_main, s);
    if (r) {
        grpc_completion_queue_shutdown(s->cq);
        (void)grpc_completion_queue_next(s->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        grpc_completion_queue_destroy(s->cq);
        grpc_shutdown();
        return err_errno(e, -r, "starting a thread for gRPC");
    }
    (void)pthread_setname_np(s->thread, "grpc-queue");
    s->server = make_server();
    grpc_server_register_completion_queue(s->server, s->cq, NULL);
    return 0;
}

int grpc_srv_new(struct loop *l, const char *path, const struct grpc_srv_method *methods, size_t n,
                 struct grpc_srv **ret, struct err *e)
{
    _cleanup_(grpc_srv_freep) struct grpc_srv *s = xnew(struct grpc_srv);
    _cleanup_free_ void **handles = xcalloc(n, sizeof(*handles));

    s->last = &s->first;
    pthread_mutex_init(&s->lock, NULL);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake < 0)
        return err_errno(e, -errno, "socket %s: eventfd", path);
    int r = loop_io_new(l, s->wake, EPOLLIN, drain, s, &s->io, e);
    if (r < 0)
        return r;
    r = start_core(s, e);
    if (r < 0)
        return r;
    r = bind_path(s->server, path, e);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++)
        handles[i] = grpc_server_register_method(s->server, methods[i].path, NULL,
                                                 GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
    grpc_server_start(s->server);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < REQUESTS_PER_METHOD; k++)
            arm(s, &methods[i], handles[i]);
    /* Calls of other methods would wait for ever if nobody asked for them. */
    arm(s, NULL, NULL);
    *ret = TAKE_PTR(s);
    return 0;
}
