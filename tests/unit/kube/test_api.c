/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and what comes of them. */
#include "base/str.h"
#include "tests/unit/kube/api_bench.h"
#include "tests/unit/test.h"

#include <errno.h>

#define STATUS(code, reason, message)                                                              \
    "{\"kind\":\"Status\",\"code\":" #code ",\"reason\":\"" reason "\",\"message\":\"" message "\"}"

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
    const char *counted;
} ones[] = {
    {.title = "success",
     .script = {{.status = 200, .body = "{\"kind\":\"Node\"}"}},
     .n = 1,
     .q = {.method = "GET", .path = "/api/v1/nodes/a?x=y"},
     .status = 200,
     .body = "{\"kind\":\"Node\"}",
     .asked = 1,
     .counted = "GET 2xx"},
    {.title = "no content",
     .script = {{.status = 204}},
     .n = 1,
     .q = {.method = "DELETE", .path = "/x"},
     .status = 204,
     .asked = 1,
     .counted = "DELETE 2xx"},
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
     .asked = 1,
     .counted = "PUT 4xx"},
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
     .asked = 1,
     .counted = "PATCH 4xx"},
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
     .asked = 1,
     .counted = "GET 3xx"},
    {.title = "429 then success",
     .script = {{.status = 429, .name = "Retry-After", .value = "1"},
                {.status = 200, .body = "{}"}},
     .n = 2,
     .q = {.method = "POST", .path = "/x", .retries = 1},
     .status = 200,
     .body = "{}",
     .asked = 2,
     .counted = "POST 2xx, POST 4xx"},
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
     .asked = 3,
     .counted = "GET 2xx, GET 5xx, GET 5xx"},
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
     .asked = 2,
     .counted = "GET 0xx, GET 2xx"},
    {.title = "no answer to a POST: it isn't sent again",
     .script = {{.end = END_DROP}, {.status = 200, .body = "{}"}},
     .n = 2,
     .q = {.method = "POST", .path = "/x", .retries = 2},
     .status = 0,
     .code = -ECONNRESET,
     .kind = ERR_TRANSIENT,
     .text = "POST /x: http://127.0.0.1:",
     .asked = 1,
     .counted = "POST 0xx"},
    {.title = "a server that hangs",
     .script = {{.end = END_HANG}, {.end = END_HANG}},
     .n = 2,
     .q = {.method = "GET", .path = "/x", .retries = 1, .timeout_ms = 600},
     .status = 0,
     .code = -ETIMEDOUT,
     .kind = ERR_TRANSIENT,
     .text = "timed out",
     .asked = 2,
     .counted = "GET 0xx, GET 0xx"},
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
     .asked = 1,
     .counted = "GET 2xx"},
    {.title = "a body that just fits, byte by byte",
     .script = {{.status = 200, .body = "[1,2,3,4,5,6,7,8]", .each = 1}},
     .n = 1,
     .q = {.method = "GET", .path = "/x", .max_body = 17},
     .status = 200,
     .body = "[1,2,3,4,5,6,7,8]",
     .asked = 1},
};

/* "GET 0xx, GET 2xx": how the tries were counted. */
static char *counted(const struct api *a)
{
    struct strbuf out = {0};

    for (unsigned v = 0; v < API_VERBS; v++)
        for (unsigned hundreds = 0; hundreds < API_CLASSES; hundreds++)
            for (unsigned long n = api_answers(a, (enum api_verb)v, hundreds); n > 0; n--)
                strbuf_printf(&out, "%s%s %uxx", out.len ? ", " : "",
                              api_verb_text((enum api_verb)v), hundreds);
    return strbuf_take(&out);
}

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
    _cleanup_free_ char *tries = counted(b.api);
    if (t->counted)
        assert_string_equal(tries, t->counted);
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
    (void)api_send(b.api, &q, result_take, &r);
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
        cmocka_unit_test(test_escape),
    };
    struct CMUnitTest tests[ARRAY_SIZE(ones) + ARRAY_SIZE(rest)];

    for (size_t i = 0; i < ARRAY_SIZE(ones); i++)
        tests[i] = (struct CMUnitTest){
            .name = ones[i].title, .test_func = test_one, .initial_state = (void *)&ones[i]};
    memcpy(tests + ARRAY_SIZE(ones), rest, sizeof(rest));
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
