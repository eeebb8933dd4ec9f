/* SPDX-License-Identifier: Apache-2.0 */
/* Clients are sockets of the test itself: what they send, and when, is what the tests are about. */
#include "kube/http_server.h"

#include "tests/unit/kube/server.h"
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#define BIG ((size_t)16 * 1024 * 1024) /* more than the kernel's buffers take */

struct rig {
    struct loop *loop;
    struct http_server *server;
    unsigned asked;
    char path[64];
};

static void serve(const char *path, struct http_reply *ret, void *data)
{
    struct rig *rig = data;

    rig->asked++;
    snprintf(rig->path, sizeof(rig->path), "%s", path);
    if (streq(path, "/metrics")) {
        ret->status = 200;
        ret->content_type = "text/x-test";
        strbuf_puts(&ret->body, "one 1\n");
    } else if (streq(path, "/big")) {
        ret->status = 200;
        for (size_t i = 0; i < BIG; i += 16)
            strbuf_puts(&ret->body, "0123456789abcdef");
    } else if (streq(path, "/readyz")) {
        ret->status = 503;
        strbuf_puts(&ret->body, "not yet\n");
    }
}

static void open_rig(struct rig *rig)
{
    _cleanup_err_ struct err e = ERR_INIT;

    *rig = (struct rig){.loop = fast_loop()};
    assert_ok(http_server_new(rig->loop, "127.0.0.1:0", serve, rig, &rig->server, &e), &e);
}

static void close_rig(struct rig *rig)
{
    http_server_free(rig->server);
    loop_free(rig->loop);
}

/* A client from 127.0.0.`from`, connected: the kernel's queue takes it, the server or not. */
static int client(struct rig *rig, unsigned from)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000000 | from)};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)http_server_port(rig->server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static void put(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Turns the loop for `ms` of real time. */
static void turn(struct rig *rig, int ms)
{
    const bool never = false;

    (void)pump(rig->loop, &never, 0, ms);
}

/*
 * Reads up to the connection's end, which must come within `ms`; "RESET" at the end if it was no
 * orderly one. The caller frees the text.
 */
static char *answer(struct rig *rig, int fd, int ms)
{
    struct strbuf text = {0};

    for (int left = ms; left > 0; left -= 2) {
        char buf[65536];
        ssize_t n;

        turn(rig, 2);
        while ((n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
            strbuf_add(&text, buf, (size_t)n);
        if (n == 0 || errno != EAGAIN) {
            if (n < 0)
                strbuf_puts(&text, "RESET");
            close(fd);
            return strbuf_take(&text);
        }
    }
    fail_msg("the connection still stands; it got \"%.300s\"", text.s ? text.s : "");
    return NULL;
}

static bool is_open(int fd)
{
    char c;

    return recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

static void expect_served(struct rig *rig, unsigned from)
{
    int fd = client(rig, from);

    put(fd, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    _cleanup_free_ char *text = answer(rig, fd, 3000);
    assert_non_null(strstr(text, "one 1\n"));
}

static void test_requests(void **state)
{
    static const struct {
        const char *request, *status, *part, *body;
    } cases[] = {
        {"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n",
         "Content-Type: text/x-test\r\n", "one 1\n"},
        {"GET /metrics HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n", "Connection: close\r\n",
         "one 1\n"},
        {"GET /metrics?a=b HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n", "", "one 1\n"},
        {"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n",
         "Content-Length: 6\r\n", ""},
        {"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 503 Service Unavailable\r\n",
         "Content-Type: text/plain; charset=utf-8\r\n", "not yet\n"},
        {"GET /metrics/ HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 Not Found\r\n", "",
         "not found\n"},
        {"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404 Not Found\r\n", "",
         "not found\n"},
        {"DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 405 Method Not Allowed\r\n",
         "Allow: GET, HEAD\r\n", ""},
        {"GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n", "", NULL},
        {"GET /metrics SPDY/9\r\n\r\n", "HTTP/1.1 ", "", NULL},
    };
    struct rig rig;

    (void)state;
    open_rig(&rig);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int fd = client(&rig, 1);

        put(fd, cases[i].request);
        _cleanup_free_ char *text = answer(&rig, fd, 3000);
        const char *body = strstr(text, "\r\n\r\n");
        if (!str_skip(text, cases[i].status) || !strstr(text, cases[i].part) || !body ||
            (cases[i].body && !streq(body + 4, cases[i].body)))
            fail_msg("\"%s\": \"%s\"", cases[i].request, text);
    }
    close_rig(&rig);
}

/* The head decides, so nobody waits for a body, or keeps one in memory. */
static void test_body_is_not_read(void **state)
{
    struct rig rig;

    (void)state;
    open_rig(&rig);
    int fd = client(&rig, 1);
    put(fd, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n0123");
    _cleanup_free_ char *text = answer(&rig, fd, 3000);
    assert_non_null(str_skip(text, "HTTP/1.1 405 "));
    assert_int_equal(rig.asked, 0);
    fd = client(&rig, 1);
    put(fd, "GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n0123");
    _cleanup_free_ char *other = answer(&rig, fd, 3000);
    assert_non_null(strstr(other, "one 1\n"));
    close_rig(&rig);
}

static void test_one_request_a_connection(void **state)
{
    struct rig rig;

    (void)state;
    open_rig(&rig);
    int fd = client(&rig, 1);
    put(fd, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    free(answer(&rig, fd, 3000));
    assert_int_equal(rig.asked, 1);
    close_rig(&rig);
}

static void test_too_big(void **state)
{
    struct rig rig;
    char line[HTTP_SERVER_REQUEST_MAX];

    (void)state;
    open_rig(&rig);
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    for (int long_path = 0; long_path < 2; long_path++) {
        int fd = client(&rig, 1);

        put(fd, long_path ? "GET /" : "GET /metrics HTTP/1.1\r\nHost: x\r\nPadding: ");
        put(fd, line);
        put(fd, long_path ? " HTTP/1.1\r\nHost: x\r\n\r\n" : "\r\n\r\n");
        _cleanup_free_ char *text = answer(&rig, fd, 3000);
        if (strstr(text, " 200 "))
            fail_msg("%s", text);
    }
    assert_int_equal(rig.asked, 0);
    expect_served(&rig, 1);
    close_rig(&rig);
}

static void test_garbage(void **state)
{
    static const char *const garbage[] = {
        "\x16\x03\x01\x02\x01\x01\xfc\r\n\r\n", /* TLS */
        "\r\n\r\n\r\n\r\n GET",
        "GET\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost x\r\n\r\n",
        "GET /%zz%00 HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    };
    struct rig rig;

    (void)state;
    open_rig(&rig);
    for (size_t i = 0; i < ARRAY_SIZE(garbage); i++) {
        int fd = client(&rig, 1);

        put(fd, garbage[i]);
        shutdown(fd, SHUT_WR);
        turn(&rig, 20);
        fast_forward(HTTP_SERVER_LIFE_MS); /* what isn't refused at once ends by then */
        free(answer(&rig, fd, 3000));
    }
    expect_served(&rig, 1);
    close_rig(&rig);
}

/* Silent, trickling, or not reading: none stays. */
static void test_life_of_a_connection(void **state)
{
    struct rig rig;

    (void)state;
    open_rig(&rig);
    int silent = client(&rig, 1), slow = client(&rig, 1), deaf = client(&rig, 1);
    put(slow, "GET /metrics HTTP/1.1\r\n");
    put(deaf, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
    turn(&rig, 20);
    for (int left = HTTP_SERVER_LIFE_MS; left > 1000; left -= 1000) {
        put(slow, "A: b\r\n");
        fast_forward(900);
        turn(&rig, 10);
    }
    assert_true(is_open(silent) && is_open(slow));
    assert_int_equal(rig.asked, 1);
    fast_forward(2000);
    turn(&rig, 20);
    assert_false(is_open(silent) || is_open(slow));
    _cleanup_free_ char *text = answer(&rig, deaf, 3000);
    assert_true(strlen(text) < BIG);
    close(silent);
    close(slow);
    expect_served(&rig, 1);
    close_rig(&rig);
}

/* One host can't keep others out; and where all places are taken, who waits is served after. */
static void test_limits(void **state)
{
    int fds[HTTP_SERVER_CONNECTIONS];
    struct rig rig;

    (void)state;
    open_rig(&rig);
    for (size_t i = 0; i < HTTP_SERVER_PER_ADDRESS; i++)
        fds[i] = client(&rig, 2);
    turn(&rig, 20);
    int more = client(&rig, 2);
    free(answer(&rig, more, 3000));
    assert_true(is_open(fds[0]));
    expect_served(&rig, 1);

    for (size_t i = HTTP_SERVER_PER_ADDRESS; i < HTTP_SERVER_CONNECTIONS; i++)
        fds[i] = client(&rig, 3);
    turn(&rig, 20);
    int waiting = client(&rig, 1);
    put(waiting, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    turn(&rig, 100);
    assert_true(is_open(waiting));
    assert_int_equal(rig.asked, 1);
    fast_forward(HTTP_SERVER_LIFE_MS);
    _cleanup_free_ char *text = answer(&rig, waiting, 3000);
    assert_non_null(strstr(text, "one 1\n"));
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        close(fds[i]);
    close_rig(&rig);
}

/* A client that goes in the middle, and a server that does. */
static void test_ended_early(void **state)
{
    struct rig rig;

    (void)state;
    open_rig(&rig);
    int fd = client(&rig, 1);
    put(fd, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
    turn(&rig, 20);
    close(fd);
    turn(&rig, 20);
    expect_served(&rig, 1);
    fd = client(&rig, 1);
    put(fd, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
    turn(&rig, 20);
    close_rig(&rig);
    close(fd);
}

static void test_addresses(void **state)
{
    static const struct {
        const char *address;
        int r;
    } cases[] = {
        {"127.0.0.1:0", 0},
        {"[::1]:0", 0},
        {":0", 0},
        {"0.0.0.0:0", 0},
        {"[::]:0", 0},
        {"", -EINVAL},
        {"9808", -EINVAL},
        {"127.0.0.1", -EINVAL},
        {"127.0.0.1:", -EINVAL},
        {"127.0.0.1:x", -EINVAL},
        {":-1", -EINVAL},
        {": 1", -EINVAL},
        {":65536", -EINVAL},
        {"localhost:1", -EINVAL},
        {"::1:9808", -EINVAL},
        {"[::1:9808", -EINVAL},
        {"[]:1", -EINVAL},
        {"[:1", -EINVAL},
        {"[127.0.0.1]:1", -EINVAL},
        {"192.0.2.1:0", -EADDRNOTAVAIL},
        {"[0000:0000:0000:0000:0000:0000:255.255.255.255]:1", -EINVAL},
    };
    struct rig rig = {.loop = fast_loop()};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        _cleanup_(http_server_freep) struct http_server *s = NULL;
        int r = http_server_new(rig.loop, cases[i].address, serve, &rig, &s, &e);

        if (r != cases[i].r)
            fail_msg("\"%s\": %d, %s", cases[i].address, r, err_text(&e));
        if (r < 0)
            assert_err_has(&e, cases[i].address);
        else
            assert_true(http_server_port(s) > 0);
    }
    loop_free(rig.loop);
}

static void test_port_taken(void **state)
{
    _cleanup_err_ struct err e = ERR_INIT;
    struct http_server *second = NULL;
    struct rig rig;

    (void)state;
    open_rig(&rig);
    _cleanup_free_ char *address = xasprintf("127.0.0.1:%u", http_server_port(rig.server));
    _cleanup_free_ char *text = xasprintf("listening on %s: Address already in use", address);
    assert_int_equal(http_server_new(rig.loop, address, serve, &rig, &second, &e), -EADDRINUSE);
    assert_string_equal(err_text(&e), text);
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_body_is_not_read),
        cmocka_unit_test(test_one_request_a_connection),
        cmocka_unit_test(test_too_big),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_life_of_a_connection),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_ended_early),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_port_taken),
    };

    return cmocka_run_group_tests_name("http_server", tests, NULL, NULL);
}
