/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gRPC server with a client from the same C core, on its own thread. What a foreign client sees
 * is tested in tests/wire.
 */
#include "kube/grpc.h"

#include "base/str.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* ---- client ---- */

struct client {
    char *path; /* of the socket */
    const char *method;
    const char *request; /* NULL: no message */
    int deadline_ms;
    atomic_bool cancel; /* makes it cancel */

    int code;
    char *text;
    char *answer; /* NULL: none */
    atomic_bool done;
    pthread_t thread;
};

static gpr_timespec in_ms(int ms)
{
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms, GPR_TIMESPAN));
}

static char *slice_text(grpc_slice s)
{
    return xstrndup((const char *)GRPC_SLICE_START_PTR(s), GRPC_SLICE_LENGTH(s));
}

static char *buffer_text(grpc_byte_buffer *b)
{
    grpc_byte_buffer_reader r;

    if (!b || !grpc_byte_buffer_reader_init(&r, b))
        return NULL;
    grpc_slice all = grpc_byte_buffer_reader_readall(&r);
    char *s = slice_text(all);

    grpc_slice_unref(all);
    grpc_byte_buffer_reader_destroy(&r);
    grpc_byte_buffer_destroy(b);
    return s;
}

static void run_call(struct client *c, grpc_channel *channel, grpc_completion_queue *cq)
{
    grpc_slice method = grpc_slice_from_copied_string(c->method);
    grpc_call *call = grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, cq, method,
                                               NULL, in_ms(c->deadline_ms), NULL);
    grpc_metadata_array initial, trailing;
    grpc_byte_buffer *out = NULL, *in = NULL;
    grpc_status_code code;
    grpc_slice details;
    grpc_op ops[6] = {0};
    size_t n = 0;

    grpc_metadata_array_init(&initial);
    grpc_metadata_array_init(&trailing);
    ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (c->request) {
        grpc_slice body = grpc_slice_from_copied_string(c->request);

        out = grpc_raw_byte_buffer_create(&body, 1);
        grpc_slice_unref(body);
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        ops[n++].data.send_message.send_message = out;
    }
    ops[n++].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[n].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[n++].data.recv_initial_metadata.recv_initial_metadata = &initial;
    ops[n].op = GRPC_OP_RECV_MESSAGE;
    ops[n++].data.recv_message.recv_message = &in;
    ops[n].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[n].data.recv_status_on_client.trailing_metadata = &trailing;
    ops[n].data.recv_status_on_client.status = &code;
    ops[n++].data.recv_status_on_client.status_details = &details;
    assert_int_equal(grpc_call_start_batch(call, ops, n, c, NULL), GRPC_CALL_OK);
    while (grpc_completion_queue_next(cq, in_ms(10), NULL).type == GRPC_QUEUE_TIMEOUT)
        if (atomic_load(&c->cancel))
            (void)grpc_call_cancel(call, NULL);
    c->code = (int)code;
    c->text = slice_text(details);
    c->answer = buffer_text(in);
    grpc_slice_unref(details);
    grpc_slice_unref(method);
    if (out)
        grpc_byte_buffer_destroy(out);
    grpc_metadata_array_destroy(&initial);
    grpc_metadata_array_destroy(&trailing);
    grpc_call_unref(call);
}

static void *client_main(void *data)
{
    struct client *c = data;
    _cleanup_free_ char *uri = xasprintf("unix:%s", c->path);
    /* Channels of one target would share a connection, which outlives the server of a test. */
    grpc_arg arg = {.type = GRPC_ARG_INTEGER,
                    .key = (char *)GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
                    .value.integer = 1};
    grpc_channel_args args = {.num_args = 1, .args = &arg};
    grpc_channel_credentials *creds = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create(uri, creds, &args);
    grpc_completion_queue *cq = grpc_completion_queue_create_for_next(NULL);

    grpc_channel_credentials_release(creds);
    run_call(c, channel, cq);
    grpc_channel_destroy(channel);
    grpc_completion_queue_shutdown(cq);
    while (grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
           GRPC_QUEUE_SHUTDOWN)
        ;
    grpc_completion_queue_destroy(cq);
    atomic_store(&c->done, true);
    return NULL;
}

static void client_start(struct client *c, const char *path)
{
    c->path = xstrdup(path);
    if (!c->deadline_ms)
        c->deadline_ms = 10000;
    assert_int_equal(pthread_create(&c->thread, NULL, client_main, c), 0);
}

static void client_join(struct client *c)
{
    assert_int_equal(pthread_join(c->thread, NULL), 0);
    free(c->path);
}

static void client_done(struct client *c)
{
    free(c->text);
    free(c->answer);
}

/* ---- server ---- */

struct fixture {
    char dir[32];
    char *path;
    struct loop *loop;
    struct grpc_srv *srv;
    VEC(struct grpc_srv_call *) held;
};

static void echo(struct grpc_srv_call *c, const void *request, size_t len, void *data)
{
    (void)data;
    grpc_srv_reply(c, GRPC_CODE_OK, NULL, request, len);
}

static void hold(struct grpc_srv_call *c, const void *request, size_t len, void *data)
{
    struct fixture *f = data;

    (void)request;
    (void)len;
    *VEC_PUSH(&f->held) = c;
}

static void refuse(struct grpc_srv_call *c, const void *request, size_t len, void *data)
{
    (void)request;
    (void)len;
    (void)data;
    grpc_srv_reply(c, GRPC_CODE_INTERNAL, "100 % not \xc3\xa4 \"thing\"\n", NULL, 0);
}

static struct grpc_srv_method methods[3];

static int setup(void **state)
{
    struct fixture *f = xnew(struct fixture);
    struct err e = ERR_INIT;

    methods[0] = (struct grpc_srv_method){"/test.S/Echo", echo, f};
    methods[1] = (struct grpc_srv_method){"/test.S/Hold", hold, f};
    methods[2] = (struct grpc_srv_method){"/test.S/Refuse", refuse, f};
    strcpy(f->dir, "/tmp/grpc-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->path = xasprintf("%s/s.sock", f->dir);
    /* The client's library state lives through all servers of a test. */
    grpc_init();
    assert_ok(loop_new(clock_system(), &f->loop, &e), &e);
    assert_ok(grpc_srv_new(f->loop, f->path, methods, ARRAY_SIZE(methods), &f->srv, &e), &e);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    grpc_srv_free(f->srv);
    assert_int_equal(access(f->path, F_OK), -1);
    loop_free(f->loop);
    assert_int_equal(rmdir(f->dir), 0);
    grpc_shutdown();
    free(f->held.v);
    free(f->path);
    free(f);
    return 0;
}

static void loop_until(struct fixture *f, atomic_bool *flag)
{
    struct err e = ERR_INIT;

    while (!atomic_load(flag))
        assert_ok(loop_once(f->loop, 10, &e), &e);
}

static void loop_until_held(struct fixture *f, size_t n)
{
    struct err e = ERR_INIT;

    while (f->held.n < n)
        assert_ok(loop_once(f->loop, 10, &e), &e);
}

/* ---- tests ---- */

static void test_calls(void **state)
{
    static const struct {
        const char *method, *request;
        int code;
        const char *answer, *text;
    } table[] = {
        {"/test.S/Echo", "hello", 0, "hello", ""},
        {"/test.S/Echo", "", 0, "", ""},
        {"/test.S/Echo", NULL, 3, NULL, "the call has no request message"},
        {"/test.S/Refuse", "x", 13, NULL, "100 % not \xc3\xa4 \"thing\"\n"},
        {"/test.S/Other", "x", 12, NULL, "unknown method /test.S/Other"},
        {"/test.S/echo", "x", 12, NULL, "unknown method /test.S/echo"},
        {"nonsense", "x", 12, NULL, "unknown method nonsense"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct client c = {.method = table[i].method, .request = table[i].request};

        client_start(&c, f->path);
        loop_until(f, &c.done);
        client_join(&c);
        assert_int_equal(c.code, table[i].code);
        assert_string_equal(c.text, table[i].text);
        assert_true(streq_null(c.answer, table[i].answer));
        client_done(&c);
        assert_int_equal(grpc_srv_open_calls(f->srv), 0);
    }
}

static void test_late_answers(void **state)
{
    struct fixture *f = *state;
    struct client c[20] = {0};

    for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
        c[i].method = "/test.S/Hold";
        c[i].request = "x";
        client_start(&c[i], f->path);
    }
    loop_until_held(f, ARRAY_SIZE(c));
    assert_int_equal(grpc_srv_open_calls(f->srv), ARRAY_SIZE(c));
    /* In another order than they came. */
    for (size_t i = ARRAY_SIZE(c); i-- > 0;)
        grpc_srv_reply(f->held.v[i], GRPC_CODE_OK, NULL, "late", 4);
    assert_int_equal(grpc_srv_open_calls(f->srv), 0);
    for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
        loop_until(f, &c[i].done);
        client_join(&c[i]);
        assert_int_equal(c[i].code, 0);
        assert_string_equal(c[i].answer, "late");
        client_done(&c[i]);
    }
}

/* The client is gone when the answer comes, or the server ends before there is one. */
static void test_client_gone(void **state)
{
    static const struct {
        int deadline_ms;
        bool cancel;
        int code;
        bool answer;
    } table[] = {
        {10000, true, GRPC_STATUS_CANCELLED, true},
        {10000, true, GRPC_STATUS_CANCELLED, false},
        {500, false, GRPC_STATUS_DEADLINE_EXCEEDED, true},
        {500, false, GRPC_STATUS_DEADLINE_EXCEEDED, false},
    };
    struct fixture *f = *state;
    struct err e = ERR_INIT;

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct client c = {
            .method = "/test.S/Hold",
            .request = "x",
            .deadline_ms = table[i].deadline_ms,
        };

        client_start(&c, f->path);
        loop_until_held(f, i + 1);
        atomic_store(&c.cancel, table[i].cancel);
        loop_until(f, &c.done);
        client_join(&c);
        assert_int_equal(c.code, table[i].code);
        client_done(&c);
        for (int k = 0; k < 5; k++)
            assert_ok(loop_once(f->loop, 20, &e), &e);
        if (table[i].answer)
            grpc_srv_reply(f->held.v[i], GRPC_CODE_OK, NULL, "late", 4);
    }
    assert_int_equal(grpc_srv_open_calls(f->srv), 2);
}

static void test_end_with_open_calls(void **state)
{
    struct fixture *f = *state;
    struct client open = {.method = "/test.S/Hold", .request = "x"};
    struct client answered = {.method = "/test.S/Hold", .request = "x"};
    struct client unseen = {.method = "/test.S/Hold", .request = "x"};
    struct err e = ERR_INIT;

    client_start(&open, f->path);
    loop_until_held(f, 1);
    client_start(&answered, f->path);
    loop_until_held(f, 2);
    client_start(&unseen, f->path);
    usleep(100000); /* the loop doesn't run: it waits in our list */
    grpc_srv_reply(f->held.v[1], GRPC_CODE_OK, NULL, "late", 4);
    int64_t begin = clock_now(clock_system());
    grpc_srv_free(f->srv);
    int64_t took = clock_now(clock_system()) - begin;
    client_join(&open);
    client_join(&answered);
    client_join(&unseen);
    /* The answer that was given arrives, the call that nobody answered ends with an error. */
    assert_int_equal(answered.code, 0);
    assert_string_equal(answered.answer, "late");
    assert_int_not_equal(open.code, 0);
    assert_int_equal(unseen.code, GRPC_STATUS_UNAVAILABLE);
    /* on a machine so busy that it hadn't even connected: that it can't */
    if (!strstr(unseen.text, "failed to connect"))
        assert_string_equal(unseen.text, "the server is ending");
    assert_in_range(took, 0, 1000);
    client_done(&open);
    client_done(&answered);
    client_done(&unseen);
    assert_ok(grpc_srv_new(f->loop, f->path, methods, ARRAY_SIZE(methods), &f->srv, &e), &e);
}

static int mode_of(const char *path)
{
    struct stat st;

    return lstat(path, &st) < 0 ? -1 : (int)(st.st_mode & 07777);
}

static void test_socket_mode(void **state)
{
    struct fixture *f = *state;
    mode_t old = umask(0);

    assert_int_equal(mode_of(f->path), 0600);
    assert_int_equal(umask(old), 0);
}

static void stale_socket(const char *path)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    strcpy(un.sun_path, path);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
}

/* Paths as they come: stale sockets, and what is special in the URI that gRPC takes. */
static void test_paths(void **state)
{
    static const char *const names[] = {"a b", "50%20", "q?x=1#y", "\xc3\xa4", "x:y,z"};
    struct fixture *f = *state;
    struct err e = ERR_INIT;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        _cleanup_free_ char *path = xasprintf("%s/%s", f->dir, names[i]);
        struct grpc_srv *s;

        stale_socket(path);
        assert_ok(grpc_srv_new(f->loop, path, methods, ARRAY_SIZE(methods), &s, &e), &e);
        assert_int_equal(mode_of(path), 0600);
        grpc_srv_free(s);
        assert_int_equal(mode_of(path), -1);
    }
}

static char *long_path(const char *dir, size_t len)
{
    char *s = xcalloc(1, len + 1);

    memset(s, 'x', len);
    memcpy(s, dir, strlen(dir));
    s[strlen(dir)] = '/';
    return s;
}

static void test_bad_paths(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *longest = long_path(f->dir, 107), *longer = long_path(f->dir, 108);
    _cleanup_free_ char *file = xasprintf("%s/file", f->dir), *dir = xasprintf("%s/dir", f->dir);
    const struct {
        const char *path, *text;
        int code;
    } table[] = {
        {file, "a plain file is in its place", -EEXIST},
        {dir, "a directory is in its place", -EEXIST},
        {longer, "the path has 108 bytes, a socket's may have 107", -ENAMETOOLONG},
        {"/dev/null", "a file of another kind is in its place", -EEXIST},
        {"/dev/null/s", "Not a directory", -ENOTDIR},
        {"/nowhere/s", "No such file or directory", -ENOENT},
        {"/proc/s", "No such file or directory", -ENOENT},
    };
    struct grpc_srv *s = NULL;
    struct err e = ERR_INIT;

    assert_int_equal(mknod(file, S_IFREG | 0600, 0), 0);
    assert_int_equal(mkdir(dir, 0700), 0);
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        int r = grpc_srv_new(f->loop, table[i].path, methods, ARRAY_SIZE(methods), &s, &e);

        assert_int_equal(r, table[i].code);
        assert_err_has(&e, table[i].path);
        assert_err_has(&e, table[i].text);
        assert_null(s);
        err_clear(&e);
    }
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(dir), 0);
    assert_ok(grpc_srv_new(f->loop, longest, methods, ARRAY_SIZE(methods), &s, &e), &e);
    grpc_srv_free(s);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_calls),       TEST(test_late_answers),
        TEST(test_client_gone), TEST(test_end_with_open_calls),
        TEST(test_socket_mode), TEST(test_paths),
        TEST(test_bad_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
