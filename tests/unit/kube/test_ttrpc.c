/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/ttrpc.h"

#include "tests/unit/test.h"

#include <errno.h>

/* Request{service "svc", method "M", payload, timeout 2 s, metadata k=v}, encoded by hand. */
static const char request_bytes[] = "\0\0\0\x1b\0\0\0\1\1\0"
                                    "\x0a\3svc\x12\1M\x1a\3\x0a\1x\x20\x80\xa8\xd6\xb9\7"
                                    "\x2a\6\x0a\1k\x12\1v";

/* Response{status{2, "no VF"}} */
static const char error_bytes[] = "\0\0\0\x0b\0\0\0\3\2\0"
                                  "\x0a\x09\x08\2\x12\5no VF";

static int next(struct ttrpc_in *in, const void *data, size_t n, struct ttrpc_msg *ret,
                struct err *e)
{
    const uint8_t *p = data;

    return ttrpc_next(in, &p, &n, ret, e);
}

static void test_request_golden(void **state)
{
    _cleanup_(ttrpc_in_done) struct ttrpc_in in = {0};
    _cleanup_(ttrpc_request_done) struct ttrpc_request req = {0};
    struct ttrpc_msg msg;

    (void)state;
    assert_int_equal(next(&in, request_bytes, sizeof(request_bytes) - 1, &msg, NULL), 1);
    assert_int_equal(msg.stream, 1);
    assert_int_equal(msg.type, TTRPC_REQUEST);
    assert_int_equal(ttrpc_read_request(&in, &msg, &req, NULL), 1);
    assert_string_equal(req.service, "svc");
    assert_string_equal(req.method, "M");
    assert_int_equal(req.n, 3);
    assert_memory_equal(req.payload, "\x0a\1x", 3);
    assert_int_equal(req.timeout_ns, 2000000000);
}

static void test_put_golden(void **state)
{
    static const char request[] = "\0\0\0\x0d\0\0\0\1\1\0"
                                  "\x0a\3svc\x12\1M\x1a\3\x0a\1x";
    static const char empty[] = "\0\0\0\0\0\0\0\7\2\0";
    static const char payload[] = "\0\0\0\5\0\0\0\7\2\0\x12\3\x0a\1x";
    _cleanup_(strbuf_done) struct strbuf out = {0};

    (void)state;
    ttrpc_put_request(&out, 1, "svc", "M", "\x0a\1x", 3);
    assert_int_equal(out.len, sizeof(request) - 1);
    assert_memory_equal(out.s, request, out.len);
    strbuf_done(&out);
    ttrpc_put_error(&out, 3, TTRPC_UNKNOWN, "no VF");
    assert_int_equal(out.len, sizeof(error_bytes) - 1);
    assert_memory_equal(out.s, error_bytes, out.len);
    strbuf_done(&out);
    ttrpc_put_response(&out, 7, NULL, 0);
    assert_int_equal(out.len, sizeof(empty) - 1);
    assert_memory_equal(out.s, empty, out.len);
    strbuf_done(&out);
    ttrpc_put_response(&out, 7, "\x0a\1x", 3);
    assert_int_equal(out.len, sizeof(payload) - 1);
    assert_memory_equal(out.s, payload, out.len);
}

static void test_response(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        int code;
        const char *message;
        size_t payload;
    } cases[] = {
        {"", 0, 0, NULL, 0},
        {"\x0a\0", 2, 0, NULL, 0}, /* a status of 0 is success */
        {"\x12\1x", 3, 0, NULL, 1},
        {"\x0a\2\x08\x0c", 4, 12, "", 0},
        {"\x0a\x09\x08\2\x12\5no VF", 11, 2, "no VF", 0},
        {"\x0a\4\x08\2\x1a\0", 6, 2, "", 0}, /* details, which we skip */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct ttrpc_msg msg = {.stream = 1,
                                .type = TTRPC_RESPONSE,
                                .payload = (const uint8_t *)cases[i].bytes,
                                .n = cases[i].n};
        _cleanup_(ttrpc_response_done) struct ttrpc_response resp = {0};

        assert_int_equal(ttrpc_read_response(&msg, &resp, NULL), 1);
        assert_int_equal(resp.code, cases[i].code);
        assert_int_equal(resp.n, cases[i].payload);
        if (cases[i].message)
            assert_string_equal(resp.message, cases[i].message);
        else
            assert_null(resp.message);
    }
}

static void test_split_at_every_byte(void **state)
{
    _cleanup_(strbuf_done) struct strbuf stream = {0};

    (void)state;
    strbuf_add(&stream, request_bytes, sizeof(request_bytes) - 1);
    ttrpc_put_response(&stream, 9, NULL, 0);
    strbuf_add(&stream, error_bytes, sizeof(error_bytes) - 1);
    for (size_t cut = 0; cut <= stream.len; cut++) {
        _cleanup_(ttrpc_in_done) struct ttrpc_in in = {0};
        const char *part[] = {stream.s, stream.s + cut};
        size_t len[] = {cut, stream.len - cut};
        uint32_t streams[4] = {0};
        size_t seen = 0, bytes = 0;

        for (size_t i = 0; i < 2; i++) {
            const uint8_t *p = (const uint8_t *)part[i];
            struct ttrpc_msg msg;

            while (ttrpc_next(&in, &p, &len[i], &msg, NULL) == 1) {
                streams[seen++] = msg.stream;
                bytes += msg.n;
            }
            assert_int_equal(len[i], 0);
        }
        assert_int_equal(seen, 3);
        assert_int_equal(streams[0], 1);
        assert_int_equal(streams[1], 9);
        assert_int_equal(streams[2], 3);
        assert_int_equal(bytes, sizeof(request_bytes) - 1 - 10 + sizeof(error_bytes) - 1 - 10);
    }
}

static void test_limit(void **state)
{
    static const uint8_t full[] = {0, 0x40, 0, 0, 0, 0, 0, 5, 1, 0},
                         over[] = {0, 0x40, 0, 1, 0, 0, 0, 5, 1, 0};
    _cleanup_(ttrpc_in_done) struct ttrpc_in in = {0};
    _cleanup_free_ char *body = xcalloc(1, TTRPC_PAYLOAD_MAX);
    _cleanup_err_ struct err e = ERR_INIT;
    struct ttrpc_msg msg;

    (void)state;
    assert_int_equal(next(&in, full, sizeof(full), &msg, &e), 0);
    assert_int_equal(next(&in, body, TTRPC_PAYLOAD_MAX, &msg, &e), 1);
    assert_int_equal(msg.n, TTRPC_PAYLOAD_MAX);
    assert_int_equal(next(&in, over, sizeof(over), &msg, &e), -EPROTO);
    assert_err_has(&e, "stream 5");
    /* a large message isn't kept */
    assert_true(in.buf.cap < TTRPC_PAYLOAD_MAX);
}

/* What ttrpc's own server answers with INVALID_ARGUMENT, or ignores. */
static void test_stream_rules(void **state)
{
    static const struct {
        uint32_t stream;
        uint8_t type;
        const char *bytes;
        int result;
        const char *text;
    } cases[] = {
        {5, TTRPC_REQUEST, "", 1, NULL},
        {5, TTRPC_REQUEST, "", -EINVAL, "comes after stream 5"},
        {3, TTRPC_REQUEST, "", -EINVAL, "comes after stream 5"},
        {6, TTRPC_REQUEST, "", -EINVAL, "odd"},
        {0, TTRPC_REQUEST, "", -EINVAL, "odd"},
        {5, TTRPC_DATA, "", -EINVAL, "isn't active"},
        {7, TTRPC_RESPONSE, "", 0, NULL},
        {7, 99, "", 0, NULL},
        {7, TTRPC_REQUEST, "\x0a\x7f", -EINVAL, "not a ttrpc request"},
        {4294967295, TTRPC_REQUEST, "", 1, NULL},
    };
    _cleanup_(ttrpc_in_done) struct ttrpc_in in = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct ttrpc_msg msg = {.stream = cases[i].stream,
                                .type = cases[i].type,
                                .payload = (const uint8_t *)cases[i].bytes,
                                .n = strlen(cases[i].bytes)};
        _cleanup_(ttrpc_request_done) struct ttrpc_request req = {0};
        _cleanup_err_ struct err e = ERR_INIT;

        assert_int_equal(ttrpc_read_request(&in, &msg, &req, &e), cases[i].result);
        if (cases[i].text)
            assert_err_has(&e, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_golden), cmocka_unit_test(test_put_golden),
        cmocka_unit_test(test_response),       cmocka_unit_test(test_split_at_every_byte),
        cmocka_unit_test(test_limit),          cmocka_unit_test(test_stream_rules),
    };

    return cmocka_run_group_tests_name("ttrpc", tests, NULL, NULL);
}
