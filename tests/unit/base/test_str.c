/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "tests/unit/test.h"

#include <errno.h>

static void test_parse_u64(void **state)
{
    static const struct {
        const char *text;
        int base;
        uint64_t max;
        int result;
        uint64_t value;
    } cases[] = {
        {"0", 10, 10, 0, 0},
        {"4094", 10, 4094, 0, 4094},
        {"4095", 10, 4094, -ERANGE, 0},
        {"0x10", 0, 255, 0, 16},
        {"ff", 16, 255, 0, 255},
        {"", 10, 9, -EINVAL, 0},
        {" 1", 10, 9, -EINVAL, 0},
        {"-1", 10, UINT64_MAX, -EINVAL, 0},
        {"+1", 10, 9, -EINVAL, 0},
        {"1x", 10, 9, -EINVAL, 0},
        {"99999999999999999999", 10, UINT64_MAX, -ERANGE, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint64_t v = 77;

        assert_int_equal(parse_u64(cases[i].text, cases[i].base, cases[i].max, &v),
                         cases[i].result);
        assert_int_equal(v, cases[i].result ? 77 : cases[i].value);
    }
}

static void test_strbuf(void **state)
{
    struct strbuf b = {0};

    (void)state;
    for (int i = 0; i < 1000; i++)
        strbuf_printf(&b, "%d,", i);
    assert_int_equal(b.len, 3890);
    _cleanup_free_ char *s = strbuf_take(&b);
    assert_null(b.s);
    assert_string_equal(s + 3890 - 8, "998,999,");
    _cleanup_free_ char *empty = strbuf_take(&b);
    assert_string_equal(empty, "");
}

static void test_vec(void **state)
{
    VEC(int) v = {0};
    int sum = 0;

    (void)state;
    for (int i = 0; i < 100; i++)
        *VEC_PUSH(&v) = i;
    vec_foreach (it, &v)
        sum += *it;
    assert_int_equal(sum, 4950);
    free(v.v);
}

static void test_chomp_and_skip(void **state)
{
    char s[] = " a b \n\n";

    (void)state;
    assert_string_equal(str_chomp(s), " a b");
    assert_string_equal(str_skip("virtfn12", "virtfn"), "12");
    assert_null(str_skip("virt", "virtfn"));
}

static void test_utf8(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"\xc2\xa2 \xe2\x82\xac \xf0\x90\x8d\x88", "\xc2\xa2 \xe2\x82\xac \xf0\x90\x8d\x88"},
        {"\xed\x9f\xbf\xf4\x8f\xbf\xbf", "\xed\x9f\xbf\xf4\x8f\xbf\xbf"},
        {"a\x80z", "a?z"},            /* a continuation with no start */
        {"a\xe2\x82", "a??"},         /* cut short by the end */
        {"\xe2\x82z", "??z"},         /* cut short by a letter */
        {"\xc0\xaf", "??"},           /* overlong */
        {"\xe0\x9f\xbf", "???"},      /* overlong */
        {"\xf0\x8f\xbf\xbf", "????"}, /* overlong */
        {"\xed\xa0\x80", "???"},      /* a surrogate */
        {"\xf4\x90\x80\x80", "????"}, /* above U+10FFFF */
        {"\xff\xfe", "??"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_free_ char *s = str_utf8(cases[i].in);

        assert_string_equal(s, cases[i].out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_u64), cmocka_unit_test(test_strbuf),
        cmocka_unit_test(test_vec),       cmocka_unit_test(test_chomp_and_skip),
        cmocka_unit_test(test_utf8),
    };

    return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
