/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/api.h"

#include "base/file.h"
#include "base/str.h"
#include "tests/unit/kube/server.h"
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define STATUS(code, reason, message)                                                              \
    "{\"kind\":\"Status\",\"code\":" #code ",\"reason\":\"" reason "\",\"message\":\"" message "\"}"

/* One test's server, client and loop. */
struct bench {
    struct server *server;
    struct loop *loop;
    struct api *api;
    char *url;
};

/* What a callback saw. */
struct result {
    bool done;
    unsigned calls;
    int status, code;
    enum err_kind kind;
    int64_t retry_after_ms;
    char *text, *body;
    struct api_call *cancel;    /* cancelled in the callback */
    const struct bench *resend; /* another request is sent from the callback */
};

static void result_done(struct result *r)
{
    free(r->text);
    free(r->body);
}

static void bench_open(struct bench *b, const char *cluster, const char *user)
{
    _cleanup_free_ char *file = temp_kubeconfig(b->url, cluster, user);
    struct api_config conf = {.kubeconfig = file, .user_agent = "test/1"};
    _cleanup_err_ struct err e = ERR_INIT;

    b->loop = fast_loop();
    assert_ok(api_new(b->loop, &conf, &b->api, &e), &e);
    unlink(file);
}

static void bench_start(struct bench *b, const struct reply *script, size_t n, const char *user)
{
    b->server = server_start(script, n, NULL, NULL);
    b->url = xasprintf("http://127.0.0.1:%u", server_port(b->server));
    bench_open(b, NULL, user);
}

static void bench_stop(struct bench *b)
{
    api_free(b->api);
    loop_free(b->loop);
    server_stop(b->server);
    free(b->url);
}

static void take(const struct api_response *r, void *data)
{
    struct result *to = data;

    to->done = true;
    to->calls++;
    to->status = r->status;
    to->code = r->err.code;
    to->kind = r->err.kind;
    to->retry_after_ms = r->retry_after_ms;
    free(to->text);
    free(to->body);
    to->text = xstrdup(r->err.code ? err_text(&r->err) : "");
    to->body = r->body ? json_text(r->body) : NULL;
    api_cancel(TAKE_PTR(to->cancel));
    if (to->resend) {
        struct api_request q = {.method = "GET", .path = "/second"};
        struct api *a = to->resend->api;

        to->resend = NULL;
        to->done = false;
        (void)api_send(a, &q, take, to);
    }
}

static void ask(struct bench *b, const struct api_request *q, struct result *r)
{
    (void)api_send(b->api, q, take, r);
    assert_false(r->done); /* never from within api_send() */
    assert_true(pump(b->loop, &r->done, 20, 10000));
    assert_int_equal(r->calls, 1);
}

/* A request against a script, and what must come of it. */
static const struct one {
    const char *title;
    struct reply script[3];
    size_t n;
    struct api_request q;
    int status, code;
    enum err_kind kind;
    const char *text; /* part of the error */
    const char *body; /* all of it */
    size_t asked;     /* requests that the server saw */
} ones[] = {
    {.title = "success",
     .script = {{.status = 200, .body = "{\"kind\":\"Node\"}"}},
     .n = 1,
     .q = {.method = "GET", .path = "/api/v1/nodes/a?x=y"},
     .status = 200,
     .body = "{\"kind\":\"Node\"}",
     .asked = 1},
    {.title = "no content",
     .script = {{.status = 204}},
     .n = 1,
     .q = {.method = "DELETE", .path = "/x"},
     .status = 204,
     .asked = 1},
    {.title = "404 with a Status; the query isn't in the text",
     .script = {{.status = 404, .body = STATUS(404, "NotFound", "nodes \\\"a\\\" not found")}},
     .n = 1,
     .q = {.method = "GET", .path = "/api/v1/nodes/a?limit=1", .retries = 3},
     .status = 404,
     .code = -ENOENT,
     .kind = ERR_PERMANENT,
     .text = "GET /api/v1/nodes/a: HTTP 404: nodes \"a\" not found (NotFound)",
     .asked = 1},
    {.title = "409 conflict",
     .script = {{.status = 409, .body = STATUS(409, "Conflict", "modified")}},
     .n = 1,
     .q = {.method = "PUT", .path = "/x", .retries = 3},
     .status = 409,
     .code = -ESTALE,
     .kind = ERR_TRANSIENT,
     .text = "PUT /x: HTTP 409: modified (Conflict)",
     .asked = 1},
    {.title = "409 already exists",
     .script = {{.status = 409, .body = STATUS(409, "AlreadyExists", "there")}},
     .n = 1,
     .q = {.method = "POST", .path = "/x", .retries = 3},
     .status = 409,
     .code = -EEXIST,
     .kind = ERR_PERMANENT,
     .text = "(AlreadyExists)",
     .asked = 1},
    {.title = "403",
     .script = {{.status = 403, .body = STATUS(403, "Forbidden", "no")}},
     .n = 1,
     .q = {.method = "GET", .path = "/x"},
     .status = 403,
     .code = -EACCES,
     .kind = ERR_PERMANENT,
     .text = "HTTP 403: no (Forbidden)",
     .asked = 1},
    {.title = "422",
     .script = {{.status = 422, .body = STATUS(422, "Invalid", "spec.x")}},
     .n = 1,
     .q = {.method = "PATCH", .path = "/x"},
     .status = 422,
     .code = -EINVAL,
     .kind = ERR_PERMANENT,
     .text = "spec.x",
     .asked = 1},
    {.title = "500 with what no person can read",
     .script = {{.status = 500, .body = "a\x01\xff"}},
     .n = 1,
     .q = {.method = "GET", .path = "/x"},
     .status = 500,
     .code = -EREMOTEIO,
     .kind = ERR_TRANSIENT,
     .text = "GET /x: HTTP 500",
     .asked = 1},
    {.title = "a redirect isn't followed",
     .script = {{.status = 302, .name = "Location", .value = "/y"}},
     .n = 1,
     .q = {.method = "GET", .path = "/x"},
     .status = 302,
     .code = -EPROTO,
     .kind = ERR_PERMANENT,
     .text = "GET /x: HTTP 302",
     .asked = 1},
    {.title = "429 then success",
     .script = {{.status = 429, .name = "Retry-After", .value = "1"},
                {.status = 200, .body = "{}"}},
     .n = 2,
     .q = {.method = "POST", .path = "/x", .retries = 1},
     .status = 200,
     .body = "{}",
     .asked = 2},
    {.title = "429 to the end, plain text",
     .script = {{.status = 429, .body = "Too many requests\nreally"},
                {.status = 429, .body = "Too many requests\nreally"}},
     .n = 2,
     .q = {.method = "GET", .path = "/x", .retries = 1},
     .status = 429,
     .code = -EAGAIN,
     .kind = ERR_TRANSIENT,
     .text = "GET /x: HTTP 429: Too many requests",
     .asked = 2},
    {.title = "500 then success",
     .script = {{.status = 500, .body = "oops"}, {.status = 503}, {.status = 200, .body = "[1]"}},
     .n = 3,
     .q = {.method = "GET", .path = "/x", .retries = 2},
     .status = 200,
     .body = "[1]",
     .asked = 3},
    {.title = "a POST that failed with 500 may have acted",
     .script = {{.status = 500, .body = STATUS(500, "InternalError", "etcd")}},
     .n = 1,
     .q = {.method = "POST", .path = "/x", .retries = 2},
     .status = 500,
     .code = -EREMOTEIO,
     .kind = ERR_TRANSIENT,
     .text = "etcd",
     .asked = 1},
    {.title = "a broken answer is asked for again",
     .script = {{.status = 200, .body = "{\"a\"", .end = END_DROP}, {.status = 200, .body = "{}"}},
     .n = 2,
     .q = {.method = "GET", .path = "/x", .retries = 1},
     .status = 200,
     .body = "{}",
     .asked = 2},
    {.title = "no answer to a POST: it isn't sent again",
     .script = {{.end = END_DROP}, {.status = 200, .body = "{}"}},
     .n = 2,
     .q = {.method = "POST", .path = "/x", .retries = 2},
     .status = 0,
     .code = -ECONNRESET,
     .kind = ERR_TRANSIENT,
     .text = "POST /x: http://127.0.0.1:",
     .asked = 1},
    {.title = "a server that hangs",
     .script = {{.end = END_HANG}, {.end = END_HANG}},
     .n = 2,
     .q = {.method = "GET", .path = "/x", .retries = 1, .timeout_ms = 600},
     .status = 0,
     .code = -ETIMEDOUT,
     .kind = ERR_TRANSIENT,
     .text = "timed out",
     .asked = 2},
    {.title = "a server that hangs in the body",
     .script = {{.status = 200, .body = "{", .end = END_HANG}},
     .n = 1,
     .q = {.method = "GET", .path = "/x", .timeout_ms = 600},
     .status = 200,
     .code = -ETIMEDOUT,
     .kind = ERR_TRANSIENT,
     .text = "timed out",
     .asked = 1},
    {.title = "a body that is no JSON",
     .script = {{.status = 200, .body = "<html>"}},
     .n = 1,
     .q = {.method = "GET", .path = "/x"},
     .status = 200,
     .code = -EBADMSG,
     .kind = ERR_TRANSIENT,
     .text = "GET /x: HTTP 200 with a body that is no JSON",
     .asked = 1},
    {.title = "a body that is too big",
     .script = {{.status = 200, .body = "[1,2,3,4,5,6,7,8]"}},
     .n = 1,
     .q = {.method = "GET", .path = "/x", .max_body = 16, .retries = 3},
     .status = 200,
     .code = -EFBIG,
     .kind = ERR_PERMANENT,
     .text = "too big",
     .asked = 1},
    {.title = "a body that just fits, byte by byte",
     .script = {{.status = 200, .body = "[1,2,3,4,5,6,7,8]", .each = 1}},
     .n = 1,
     .q = {.method = "GET", .path = "/x", .max_body = 17},
     .status = 200,
     .body = "[1,2,3,4,5,6,7,8]",
     .asked = 1},
};

static void test_one(void **state)
{
    const struct one *t = *state;
    _cleanup_(result_done) struct result r = {0};
    _cleanup_(bench_stop) struct bench b = {0};

    bench_start(&b, t->script, t->n, "token: se.cr-et");
    ask(&b, &t->q, &r);
    assert_int_equal(r.status, t->status);
    assert_int_equal(r.code, t->code);
    assert_int_equal(r.kind, t->kind);
    if (t->text && !strstr(r.text, t->text))
        fail_msg("\"%s\" lacks \"%s\"", r.text, t->text);
    assert_null(strstr(r.text, "se.cr-et"));
    for (const char *c = r.text; *c; c++)
        assert_in_range(*c, ' ', '~');
    if (t->body)
        assert_string_equal(r.body, t->body);
    assert_int_equal(server_asked(b.server), t->asked);
    assert_int_equal(api_requests_sent(b.api), t->asked);
    assert_string_equal(server_request(b.server, 0)->method, t->q.method);
    assert_string_equal(server_request(b.server, 0)->url, t->q.path);
    assert_string_equal(server_request(b.server, 0)->authorization, "Bearer se.cr-et");
}

static void test_body_and_type(void **state)
{
    static const struct reply script[] = {
        {.status = 201, .body = "{}"}, {.status = 500}, {.status = 200, .body = "{}"}};
    _cleanup_(result_done) struct result r1 = {0}, r2 = {0};
    _cleanup_(bench_stop) struct bench b = {0};
    json_auto_t *body = json_pack("{s:i, s:s}", "b", 1, "a", "\xc3\xa9");

    (void)state;
    bench_start(&b, script, ARRAY_SIZE(script), NULL);
    ask(&b, &(struct api_request){.method = "POST", .path = "/x", .body = body}, &r1);
    ask(&b,
        &(struct api_request){.method = "PATCH",
                              .path = "/y",
                              .body = body,
                              .content_type = "application/apply-patch+yaml",
                              .retries = 1},
        &r2);
    assert_int_equal(r2.status, 200);
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(server_request(b.server, i)->body, "{\"a\":\"\xc3\xa9\",\"b\":1}");
    assert_string_equal(server_request(b.server, 0)->content_type, "application/json");
    assert_string_equal(server_request(b.server, 2)->content_type, "application/apply-patch+yaml");
    assert_null(server_request(b.server, 0)->authorization);
}

static void test_retry_after_is_obeyed(void **state)
{
    static const struct reply script[] = {
        {.status = 429, .name = "Retry-After", .value = "7"},
        {.status = 503, .name = "Retry-After", .value = "9"},
    };
    _cleanup_(result_done) struct result r = {0};
    _cleanup_(bench_stop) struct bench b = {0};
    struct api_request q = {.method = "GET", .path = "/", .retries = 1};
    bool never = false;

    (void)state;
    bench_start(&b, script, ARRAY_SIZE(script), NULL);
    (void)api_send(b.api, &q, take, &r);
    while (server_asked(b.server) < 1)
        (void)pump(b.loop, &never, 0, 5);
    int64_t first = clock_now(loop_clock(b.loop));
    while (server_asked(b.server) < 2)
        (void)pump(b.loop, &never, 20, 5);
    /* what was asked for and up to 0.4 s more; the rest is this machine's */
    assert_in_range(clock_now(loop_clock(b.loop)) - first, 7000, 12000);
    assert_true(pump(b.loop, &r.done, 0, 5000));
    assert_int_equal(r.retry_after_ms, 9000);
}

static void test_no_server(void **state)
{
    _cleanup_(result_done) struct result r = {0};
    _cleanup_(bench_stop) struct bench b = {.url = xstrdup("http://127.0.0.1:1")};

    (void)state;
    bench_open(&b, NULL, NULL);
    ask(&b, &(struct api_request){.method = "POST", .path = "/x", .retries = 2}, &r);
    assert_int_equal(r.status, 0);
    assert_int_equal(r.code, -ECONNREFUSED);
    assert_int_equal(r.kind, ERR_TRANSIENT);
    assert_non_null(strstr(r.text, "POST /x: http://127.0.0.1:1: Failed to connect"));
    assert_int_equal(api_requests_sent(b.api), 3);
}

/* A kept connection that breaks: libcurl repeats by itself, which a POST must not be. */
static void test_a_kept_connection_breaks(void **state)
{
    static const struct reply script[] = {{.status = 200, .body = "{}"},
                                          {.end = END_DROP},
                                          {.status = 200, .body = "{}"},
                                          {.end = END_DROP},
                                          {.status = 200, .body = "{}"}};
    _cleanup_(result_done) struct result r1 = {0}, r2 = {0}, r3 = {0};
    _cleanup_(bench_stop) struct bench b = {0};
    json_auto_t *body = json_pack("{s:s}", "a", "b");

    (void)state;
    bench_start(&b, script, ARRAY_SIZE(script), NULL);
    ask(&b, &(struct api_request){.method = "GET", .path = "/"}, &r1);
    ask(&b, &(struct api_request){.method = "PUT", .path = "/put", .body = body}, &r2);
    assert_int_equal(r2.status, 200);
    ask(&b, &(struct api_request){.method = "POST", .path = "/post", .body = body, .retries = 3},
        &r3);
    assert_int_equal(r3.status, 0);
    assert_int_equal(r3.kind, ERR_TRANSIENT);
    assert_non_null(strstr(r3.text, "/post: http://127.0.0.1:"));
    assert_non_null(strstr(r3.text, "isn't sent twice"));
    assert_int_equal(server_asked(b.server), 4);
    for (size_t i = 1; i < 4; i++)
        assert_string_equal(server_request(b.server, i)->body, "{\"a\":\"b\"}");
}

/* Waiting for a server that accepts and says nothing: not sent yet, so even a POST is repeated. */
static void test_no_handshake(void **state)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    _cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    _cleanup_(result_done) struct result r = {0};
    _cleanup_(bench_stop) struct bench b = {0};
    socklen_t len = sizeof(at);

    (void)state;
    assert_int_equal(bind(fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    b.url = xasprintf("https://127.0.0.1:%u", ntohs(at.sin_port));
    bench_open(&b, NULL, NULL);
    ask(&b, &(struct api_request){.method = "POST", .path = "/x", .retries = 1, .timeout_ms = 200},
        &r);
    assert_int_equal(r.code, -ETIMEDOUT);
    assert_int_equal(api_requests_sent(b.api), 2);
}

static void test_one_that_hangs_holds_up_no_other(void **state)
{
    static const struct reply script[] = {{.end = END_HANG}, {.status = 200, .body = "{}"}};
    _cleanup_(result_done) struct result hangs = {0}, r = {0};
    _cleanup_(bench_stop) struct bench b = {0};
    struct api_request q = {.method = "GET", .path = "/"};

    (void)state;
    bench_start(&b, script, ARRAY_SIZE(script), NULL);
    (void)api_send(b.api, &q, take, &hangs);
    while (server_asked(b.server) < 1)
        (void)pump(b.loop, &hangs.done, 0, 5);
    ask(&b, &q, &r);
    assert_int_equal(r.status, 200);
    assert_int_equal(hangs.calls, 0);
}

/* How many of our descriptors lead to the port, and none may go to a program that we start. */
static unsigned connections_to(unsigned port)
{
    unsigned n = 0;

    for (int fd = 0; fd < 256; fd++) {
        struct sockaddr_in to = {0};
        socklen_t len = sizeof(to);

        if (getpeername(fd, (struct sockaddr *)&to, &len) < 0 || ntohs(to.sin_port) != port)
            continue;
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        n++;
    }
    return n;
}

static void test_connections_are_kept(void **state)
{
    struct reply script[20];
    _cleanup_(bench_stop) struct bench b = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(script); i++)
        script[i] = (struct reply){.status = 200, .body = "{}"};
    bench_start(&b, script, ARRAY_SIZE(script), NULL);
    for (size_t i = 0; i < ARRAY_SIZE(script); i++) {
        _cleanup_(result_done) struct result r = {0};

        ask(&b, &(struct api_request){.method = "GET", .path = "/"}, &r);
        assert_int_equal(r.status, 200);
        assert_int_equal(server_request(b.server, i)->port, server_request(b.server, 0)->port);
    }
    assert_int_equal(connections_to(server_port(b.server)), 1);
}

static void write_file(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_TRUNC | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void test_token_is_read_again(void **state)
{
    static const struct reply script[] = {
        {.status = 200, .body = "{}"},
        {.status = 401, .body = STATUS(401, "Unauthorized", "Unauthorized")},
        {.status = 200, .body = "{}"},
        {.status = 401},
        {.status = 401},
        {.status = 401},
        {.status = 200, .body = "{}"},
    };
    static const char *const tokens[] = {"one", "one", "two", "two", "two", "three", "four"};
    _cleanup_(bench_stop) struct bench b = {0};
    _cleanup_free_ char *file = temp_file("one\n"), *user = xasprintf("tokenFile: %s", file);
    struct result r[5] = {0};
    struct api_request q = {.method = "POST", .path = "/x"};

    (void)state;
    bench_start(&b, script, ARRAY_SIZE(script), user);
    ask(&b, &q, &r[0]);
    write_file(file, "two\n");
    ask(&b, &q, &r[1]); /* 401, another token is there: asked again */
    assert_int_equal(r[1].status, 200);
    ask(&b, &q, &r[2]); /* 401, and no other token */
    assert_int_equal(r[2].status, 401);
    assert_int_equal(r[2].code, -EACCES);
    assert_int_equal(r[2].kind, ERR_TRANSIENT);
    write_file(file, "three\n");
    ask(&b, &q, &r[3]); /* 401 with both: once only */
    assert_int_equal(r[3].status, 401);
    write_file(file, "four\n");
    fast_forward(61000); /* without any 401, within a minute */
    ask(&b, &q, &r[4]);
    assert_int_equal(r[4].status, 200);
    for (size_t i = 0; i < ARRAY_SIZE(tokens); i++) {
        _cleanup_free_ char *want = xasprintf("Bearer %s", tokens[i]);

        assert_string_equal(server_request(b.server, i)->authorization, want);
    }
    for (size_t i = 0; i < ARRAY_SIZE(r); i++)
        result_done(&r[i]);
    unlink(file);
}

static void test_cancel(void **state)
{
    static const struct reply script[] = {
        {.end = END_HANG}, {.status = 503}, {.status = 200, .body = "{}"}};
    _cleanup_(result_done) struct result r = {0}, last = {0};
    _cleanup_(bench_stop) struct bench b = {0};
    struct api_request q = {.method = "GET", .path = "/x", .retries = 5};
    bool never = false;

    (void)state;
    bench_start(&b, script, ARRAY_SIZE(script), NULL);
    api_cancel(NULL);
    api_cancel(api_send(b.api, &q, take, &r)); /* before anything was sent */

    struct api_call *c = api_send(b.api, &q, take, &r); /* under way */
    while (server_asked(b.server) < 1)
        (void)pump(b.loop, &never, 0, 5);
    api_cancel(c);

    c = api_send(b.api, &q, take, &r); /* waiting for the next try */
    while (server_asked(b.server) < 2)
        (void)pump(b.loop, &never, 0, 5);
    (void)pump(b.loop, &never, 0, 50);
    api_cancel(c);

    fast_forward(60000);
    ask(&b, &q, &last);
    assert_int_equal(last.status, 200);
    assert_int_equal(r.calls, 0);
    assert_int_equal(server_asked(b.server), 3);
}

static void test_cancel_in_callbacks(void **state)
{
    static const struct reply script[] = {
        {.status = 200, .body = "{}"}, {.status = 200}, {.end = END_HANG}};
    _cleanup_(result_done) struct result r = {0}, other = {0};
    _cleanup_(bench_stop) struct bench b = {0};
    struct api_request q = {.method = "GET", .path = "/x"};

    (void)state;
    bench_start(&b, script, ARRAY_SIZE(script), NULL);
    r.resend = &b;
    r.cancel = api_send(b.api, &q, take, &r); /* itself */
    assert_true(pump(b.loop, &r.done, 0, 5000));
    assert_int_equal(r.calls, 2);
    assert_string_equal(server_request(b.server, 1)->url, "/second");

    _cleanup_(result_done) struct result third = {0};
    other.cancel = api_send(b.api, &q, take, &third); /* another one, under way */
    while (server_asked(b.server) < 3)
        (void)pump(b.loop, &third.done, 0, 5);
    ask(&b, &q, &other);
    assert_int_equal(third.calls, 0);
}

static void test_free_with_calls_under_way(void **state)
{
    static const struct reply script[] = {{.end = END_HANG}, {.status = 503}};
    _cleanup_(result_done) struct result r = {0};
    _cleanup_(bench_stop) struct bench b = {0};
    struct api_request q = {.method = "GET", .path = "/x", .retries = 5};

    (void)state;
    bench_start(&b, script, ARRAY_SIZE(script), NULL);
    for (size_t i = 0; i < 2; i++) {
        (void)api_send(b.api, &q, take, &r);
        while (server_asked(b.server) <= i)
            (void)pump(b.loop, &r.done, 0, 5);
    }
    (void)pump(b.loop, &r.done, 0, 50);
    (void)api_send(b.api, &q, take, &r);
    api_free(b.api);
    b.api = NULL;
    assert_int_equal(r.calls, 0);
}

static void test_many_at_once(void **state)
{
    struct reply script[40];
    struct result r[40] = {0};
    _cleanup_(bench_stop) struct bench b = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(script); i++)
        script[i] = (struct reply){.status = 200, .body = "{\"a\":[1,2]}", .split = 1 + i % 9};
    bench_start(&b, script, ARRAY_SIZE(script), NULL);
    for (size_t i = 0; i < ARRAY_SIZE(r); i++)
        (void)api_send(b.api, &(struct api_request){.method = "GET", .path = "/"}, take, &r[i]);
    for (size_t i = 0; i < ARRAY_SIZE(r); i++) {
        assert_true(pump(b.loop, &r[i].done, 0, 5000));
        assert_string_equal(r[i].body, "{\"a\":[1,2]}");
        result_done(&r[i]);
    }
}

/* ---- streams */

struct stream {
    struct result r;
    struct api_call *call;
    struct strbuf got;
    bool opened;
    size_t cancel_at; /* bytes after which take_chunk() cancels */
    bool cancelled;
};

static void take_chunk(const char *bytes, size_t n, void *data)
{
    struct stream *s = data;

    assert_false(s->cancelled);
    assert_int_equal(s->opened, n > 0); /* once with 0, then never again */
    s->opened = true;
    strbuf_add(&s->got, bytes, n);
    if (s->cancel_at && s->got.len >= s->cancel_at) {
        api_cancel(s->call);
        s->cancelled = true;
    }
}

static void take_end(const struct api_response *r, void *data)
{
    take(r, &((struct stream *)data)->r);
}

static void stream_done(struct stream *s)
{
    result_done(&s->r);
    strbuf_done(&s->got);
}

static void test_stream(void **state)
{
    static const struct {
        struct reply reply;
        int64_t step_ms;
        int status, code;
        const char *got, *text;
        bool opened;
    } table[] = {
        {{.status = 200, .body = "abc\ndef", .each = 1}, 0, 200, 0, "abc\ndef", "", true},
        {{.status = 200, .body = "abc", .end = END_DROP}, 0, 200, -ECONNRESET, "abc", "/w: ", true},
        {{.status = 200, .body = "a", .end = END_HANG}, 500, 200, -ETIMEDOUT, "a", "silent", true},
        {{.end = END_HANG}, 500, 0, -ETIMEDOUT, "", "silent for 60 s", false},
        {{.status = 410, .body = "old"}, 0, 410, -ESTALE, "", "GET /w: HTTP 410: old", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        _cleanup_(stream_done) struct stream s = {0};
        _cleanup_(bench_stop) struct bench b = {0};

        bench_start(&b, &table[i].reply, 1, NULL);
        (void)api_stream(b.api, "/w?watch=true", 60000, take_chunk, take_end, &s);
        if (table[i].opened)
            assert_true(pump(b.loop, &s.opened, 0, 5000));
        assert_true(pump(b.loop, &s.r.done, table[i].step_ms, 5000));
        assert_int_equal(s.r.status, table[i].status);
        assert_int_equal(s.r.code, table[i].code);
        assert_non_null(strstr(s.r.text, table[i].text));
        assert_string_equal(s.got.s ? s.got.s : "", table[i].got);
        assert_int_equal(s.opened, table[i].opened);
    }
}

static void test_each_chunk_begins_the_silence_anew(void **state)
{
    static const struct reply script[] = {
        {.status = 200, .body = "ab", .split = 1, .gate = true, .end = END_HANG}};
    _cleanup_(stream_done) struct stream s = {0};
    _cleanup_(bench_stop) struct bench b = {0};

    (void)state;
    bench_start(&b, script, 1, NULL);
    (void)api_stream(b.api, "/w", 60000, take_chunk, take_end, &s);
    while (s.got.len < 1)
        (void)pump(b.loop, &s.r.done, 0, 5);
    fast_forward(50000);
    (void)pump(b.loop, &s.r.done, 0, 20);
    server_go(b.server);
    while (s.got.len < 2)
        (void)pump(b.loop, &s.r.done, 0, 5);
    fast_forward(50000);
    assert_false(pump(b.loop, &s.r.done, 0, 50));
    fast_forward(11000);
    assert_true(pump(b.loop, &s.r.done, 0, 5000));
}

static void test_stream_is_cancelled_in_its_chunk(void **state)
{
    static const struct reply script[] = {{.status = 200, .body = "abcdef", .each = 1}};

    (void)state;
    for (size_t at = 1; at <= 6; at++) {
        _cleanup_(stream_done) struct stream s = {.cancel_at = at};
        _cleanup_(bench_stop) struct bench b = {0};

        bench_start(&b, script, 1, NULL);
        s.call = api_stream(b.api, "/w", 60000, take_chunk, take_end, &s);
        assert_true(pump(b.loop, &s.cancelled, 0, 5000));
        (void)pump(b.loop, &s.r.done, 0, 20);
        assert_int_equal(s.r.calls, 0);
    }
}

/* ---- TLS */

static int run(const char *command)
{
    int status = system(command);

    return status;
}

static void make_certificate(const char *dir, const char *name, const char *san)
{
    _cleanup_free_ char *command =
        xasprintf("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "
                  "%s/%s.key -out %s/%s.crt -days 2 "
                  "-subj /CN=%s -addext subjectAltName=%s 2>/dev/null",
                  dir, name, dir, name, name, san);

    if (run(command) != 0)
        fail_msg("openssl can't make a certificate");
}

static char *slurp(const char *dir, const char *name)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
    char *text = NULL;

    assert_ok(file_read(AT_FDCWD, path, 65536, &text, NULL, NULL), NULL);
    return text;
}

static void test_tls(void **state)
{
    static const struct reply script[] = {{.status = 200, .body = "{}"}};
    static const struct {
        const char *server, *ca;
        int status, code;
        const char *text;
    } table[] = {
        {"good", "good", 200, 0, ""},
        {"good", "other", 0, -EKEYREJECTED, "SSL certificate problem"},
        {"good", NULL, 0, -EKEYREJECTED, "SSL certificate problem"}, /* the system's CAs only */
        {"other", "other", 0, -EKEYREJECTED, "127.0.0.1"},           /* made for another name */
    };
    char dir[] = "/tmp/test-tls-XXXXXX";

    (void)state;
    assert_non_null(mkdtemp(dir));
    make_certificate(dir, "good", "IP:127.0.0.1");
    make_certificate(dir, "other", "DNS:elsewhere.example");
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        _cleanup_free_ char *crt_name = xasprintf("%s.crt", table[i].server);
        _cleanup_free_ char *key_name = xasprintf("%s.key", table[i].server);
        _cleanup_free_ char *crt = slurp(dir, crt_name), *key = slurp(dir, key_name);
        _cleanup_free_ char *cluster =
            table[i].ca ? xasprintf("certificate-authority: %s/%s.crt", dir, table[i].ca) : NULL;
        _cleanup_(result_done) struct result r = {0};
        _cleanup_(bench_stop) struct bench b = {0};

        b.server = server_start(script, 1, crt, key);
        b.url = xasprintf("https://127.0.0.1:%u", server_port(b.server));
        bench_open(&b, cluster, NULL);
        ask(&b, &(struct api_request){.method = "GET", .path = "/x"}, &r);
        assert_int_equal(r.status, table[i].status);
        assert_int_equal(r.code, table[i].code);
        if (!strstr(r.text, table[i].text))
            fail_msg("\"%s\" lacks \"%s\"", r.text, table[i].text);
    }
    _cleanup_free_ char *command = xasprintf("rm -r %s", dir);
    assert_int_equal(run(command), 0);
}

static void test_escape(void **state)
{
    _cleanup_free_ char *s = api_escape("spec.nodeName=a b/c,\xc3\xa9~_-.");

    (void)state;
    assert_string_equal(s, "spec.nodeName%3Da%20b%2Fc%2C%C3%A9~_-.");
}

int main(void)
{
    const struct CMUnitTest rest[] = {
        cmocka_unit_test(test_body_and_type),
        cmocka_unit_test(test_retry_after_is_obeyed),
        cmocka_unit_test(test_no_server),
        cmocka_unit_test(test_a_kept_connection_breaks),
        cmocka_unit_test(test_no_handshake),
        cmocka_unit_test(test_one_that_hangs_holds_up_no_other),
        cmocka_unit_test(test_connections_are_kept),
        cmocka_unit_test(test_token_is_read_again),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cancel_in_callbacks),
        cmocka_unit_test(test_free_with_calls_under_way),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_each_chunk_begins_the_silence_anew),
        cmocka_unit_test(test_stream_is_cancelled_in_its_chunk),
        cmocka_unit_test(test_tls),
        cmocka_unit_test(test_escape),
    };
    struct CMUnitTest tests[ARRAY_SIZE(ones) + ARRAY_SIZE(rest)];

    for (size_t i = 0; i < ARRAY_SIZE(ones); i++)
        tests[i] = (struct CMUnitTest){
            .name = ones[i].title, .test_func = test_one, .initial_state = (void *)&ones[i]};
    memcpy(tests + ARRAY_SIZE(ones), rest, sizeof(rest));
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
