/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/mux.h"

#include "tests/unit/test.h"

#include <errno.h>

/* What came for conns 0 to 9. */
struct seen {
    struct strbuf conn[10];
    size_t pieces;
};

static int feed(struct mux_in *m, struct seen *s, const void *data, size_t n, struct err *e)
{
    const uint8_t *p = data;
    int r;

    for (;;) {
        struct mux_piece piece;

        r = mux_next(m, &p, &n, &piece, e);
        if (r <= 0)
            break;
        assert_true(piece.conn < ARRAY_SIZE(s->conn));
        assert_true(piece.n > 0);
        strbuf_add(&s->conn[piece.conn], piece.data, piece.n);
        s->pieces++;
    }
    if (r == 0)
        assert_int_equal(n, 0);
    return r;
}

static void seen_done(struct seen *s)
{
    for (size_t i = 0; i < ARRAY_SIZE(s->conn); i++)
        strbuf_done(&s->conn[i]);
}

static void test_put(void **state)
{
    static const char golden[] = "\0\0\0\2\0\0\0\3abc";
    _cleanup_(strbuf_done) struct strbuf out = {0};

    (void)state;
    mux_put(&out, 2, "abc", 3);
    assert_int_equal(out.len, sizeof(golden) - 1);
    assert_memory_equal(out.s, golden, sizeof(golden) - 1);
    mux_put(&out, 2, "", 0);
    assert_int_equal(out.len, sizeof(golden) - 1);
}

/* The Go side fails with ENOMEM on a larger frame. */
static void test_put_at_most_4096_a_frame(void **state)
{
    static const struct {
        size_t n;
        size_t frames;
    } cases[] = {{1, 1}, {4095, 1}, {4096, 1}, {4097, 2}, {8192, 2}, {100000, 25}};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(strbuf_done) struct strbuf out = {0};
        _cleanup_free_ char *data = xcalloc(1, cases[i].n);
        size_t frames = 0, total = 0;

        mux_put(&out, 1, data, cases[i].n);
        for (size_t at = 0; at < out.len; frames++) {
            const uint8_t *h = (const uint8_t *)out.s + at;
            size_t len = (size_t)h[6] << 8 | h[7];

            assert_int_equal(h[4] << 8 | h[5], 0);
            assert_true(len > 0 && len <= 4096);
            total += len;
            at += 8 + len;
        }
        assert_int_equal(total, cases[i].n);
        assert_int_equal(frames, cases[i].frames);
    }
}

static void build(struct strbuf *stream)
{
    static const char empty[] = "\0\0\0\2\0\0\0\0";
    char big[5000];

    memset(big, 'B', sizeof(big));
    mux_put(stream, 1, "hello", 5);
    strbuf_add(stream, empty, sizeof(empty) - 1);
    mux_put(stream, 2, "two", 3);
    mux_put(stream, 0, "reserved", 8);
    mux_put(stream, 7, "unknown", 7);
    mux_put(stream, 1, big, sizeof(big));
    mux_put(stream, 2, "end", 3);
}

static void check(const struct seen *s)
{
    assert_int_equal(s->conn[1].len, 5005);
    assert_memory_equal(s->conn[1].s, "helloBBBB", 9);
    assert_string_equal(s->conn[2].s, "twoend");
    assert_string_equal(s->conn[0].s, "reserved");
    assert_string_equal(s->conn[7].s, "unknown");
}

static void test_split_at_every_byte(void **state)
{
    _cleanup_(strbuf_done) struct strbuf stream = {0};

    (void)state;
    build(&stream);
    for (size_t cut = 0; cut <= stream.len; cut++) {
        _cleanup_(seen_done) struct seen s = {0};
        struct mux_in m = {0};

        assert_int_equal(feed(&m, &s, stream.s, cut, NULL), 0);
        assert_int_equal(feed(&m, &s, stream.s + cut, stream.len - cut, NULL), 0);
        check(&s);
    }
}

static void test_byte_by_byte(void **state)
{
    _cleanup_(strbuf_done) struct strbuf stream = {0};
    _cleanup_(seen_done) struct seen s = {0};
    struct mux_in m = {0};

    (void)state;
    build(&stream);
    for (size_t i = 0; i < stream.len; i++)
        assert_int_equal(feed(&m, &s, stream.s + i, 1, NULL), 0);
    check(&s);
}

static void test_limit(void **state)
{
    static const uint8_t full[] = {0, 0, 0, 1, 0, 0x40, 0, 10},
                         over[] = {0, 0, 0, 1, 0, 0x40, 0, 11},
                         most[] = {0, 0, 0, 9, 0xff, 0xff, 0xff, 0xff};
    _cleanup_(seen_done) struct seen s = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    struct mux_in m = {0};

    (void)state;
    assert_int_equal(feed(&m, &s, full, sizeof(full), &e), 0);
    m = (struct mux_in){0};
    assert_int_equal(feed(&m, &s, over, sizeof(over), &e), -EPROTO);
    assert_err_has(&e, "conn 1");
    assert_err_has(&e, "4194315");
    m = (struct mux_in){0};
    assert_int_equal(feed(&m, &s, most, sizeof(most), &e), -EPROTO);
    assert_int_equal(s.pieces, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put),
        cmocka_unit_test(test_put_at_most_4096_a_frame),
        cmocka_unit_test(test_split_at_every_byte),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_limit),
    };

    return cmocka_run_group_tests_name("mux", tests, NULL, NULL);
}
