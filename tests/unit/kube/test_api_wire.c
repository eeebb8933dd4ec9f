/* SPDX-License-Identifier: Apache-2.0 */
/* Connections, credentials and cancelling. */
#include "base/file.h"
#include "base/str.h"
#include "tests/unit/kube/api_bench.h"
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define STATUS(code, reason, message)                                                              \
    "{\"kind\":\"Status\",\"code\":" #code ",\"reason\":\"" reason "\",\"message\":\"" message "\"}"

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
    (void)api_send(b.api, &q, result_take, &hangs);
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
    api_cancel(api_send(b.api, &q, result_take, &r)); /* before anything was sent */

    struct api_call *c = api_send(b.api, &q, result_take, &r); /* under way */
    while (server_asked(b.server) < 1)
        (void)pump(b.loop, &never, 0, 5);
    api_cancel(c);

    c = api_send(b.api, &q, result_take, &r); /* waiting for the next try */
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
    r.cancel = api_send(b.api, &q, result_take, &r); /* itself */
    assert_true(pump(b.loop, &r.done, 0, 5000));
    assert_int_equal(r.calls, 2);
    assert_string_equal(server_request(b.server, 1)->url, "/second");

    _cleanup_(result_done) struct result third = {0};
    other.cancel = api_send(b.api, &q, result_take, &third); /* another one, under way */
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
        (void)api_send(b.api, &q, result_take, &r);
        while (server_asked(b.server) <= i)
            (void)pump(b.loop, &r.done, 0, 5);
    }
    (void)pump(b.loop, &r.done, 0, 50);
    (void)api_send(b.api, &q, result_take, &r);
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
        (void)api_send(b.api, &(struct api_request){.method = "GET", .path = "/"}, result_take,
                       &r[i]);
    for (size_t i = 0; i < ARRAY_SIZE(r); i++) {
        assert_true(pump(b.loop, &r[i].done, 0, 5000));
        assert_string_equal(r[i].body, "{\"a\":[1,2]}");
        result_done(&r[i]);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_kept_connection_breaks),
        cmocka_unit_test(test_no_handshake),
        cmocka_unit_test(test_one_that_hangs_holds_up_no_other),
        cmocka_unit_test(test_connections_are_kept),
        cmocka_unit_test(test_token_is_read_again),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cancel_in_callbacks),
        cmocka_unit_test(test_free_with_calls_under_way),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_tls),
    };

    return cmocka_run_group_tests_name("api-wire", tests, NULL, NULL);
}
