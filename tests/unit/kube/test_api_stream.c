/* SPDX-License-Identifier: Apache-2.0 */
/* Answers without an end. */
#include "base/str.h"
#include "tests/unit/kube/api_bench.h"
#include "tests/unit/test.h"

#include <errno.h>

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
    result_take(r, &((struct stream *)data)->r);
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
        for (unsigned hundreds = 0; hundreds < API_CLASSES; hundreds++)
            assert_int_equal(api_answers(b.api, API_WATCH, hundreds),
                             hundreds == (unsigned)table[i].status / 100);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_each_chunk_begins_the_silence_anew),
        cmocka_unit_test(test_stream_is_cancelled_in_its_chunk),
    };

    return cmocka_run_group_tests_name("api-stream", tests, NULL, NULL);
}
