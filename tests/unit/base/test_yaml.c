/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml.h"

#include "base/str.h"
#include "tests/unit/test.h"

#include <errno.h>

static void test_values(void **state)
{
    static const struct {
        const char *yaml, *json;
    } table[] = {
        {"a: 1\nb: [x, \"2\", '3']\n", "{\"a\":1,\"b\":[\"x\",\"2\",\"3\"]}"},
        {"a:\n- b: true\n  c: null\n- ~\n-\n", "{\"a\":[{\"b\":true,\"c\":null},null,null]}"},
        {"{a: {b: []}, c: {}}", "{\"a\":{\"b\":[]},\"c\":{}}"},
        {"[True, FALSE, Null, tRUE]", "[true,false,null,\"tRUE\"]"},
        {"[0, -1, +7, 0x1F, 0o17, 9223372036854775807]", "[0,-1,7,31,15,9223372036854775807]"},
        {"[1.5, 1e3, .5, 2., -0.25]", "[1.5,1000.0,0.5,2.0,-0.25]"},
        {"[1.2.3, 1e, '-', +, 0x, 0xg, 0o8, .]",
         "[\"1.2.3\",\"1e\",\"-\",\"+\",\"0x\",\"0xg\",\"0o8\",\".\"]"},
        /* what a pool is full of must come out as text */
        {"[0000:3b:02.1, 52:54:00:ab:cd:ef, 192.0.2.1/24, 0-3, 2001:db8::1, 10.0.0.1]",
         "[\"0000:3b:02.1\",\"52:54:00:ab:cd:ef\",\"192.0.2.1/24\",\"0-3\",\"2001:db8::1\","
         "\"10.0.0.1\"]"},
        {"\"yes\": 'no'\n1: on the wire\n", "{\"1\":\"on the wire\",\"yes\":\"no\"}"},
        {"a: |\n  one\n  2\nb: >-\n  x\n  y\nc: |\n  5", "{\"a\":\"one\\n2\\n\",\"b\":\"x y\","
                                                         "\"c\":\"5\"}"},
        {"# nothing\n---\na: 1 # here\n...\n", "{\"a\":1}"},
        {"{\"apiVersion\": \"v1\",\n\t\"n\": [1, 2.5, null, \"\\u00e9\\/\"]}",
         "{\"apiVersion\":\"v1\",\"n\":[1,2.5,null,\"\xc3\xa9/\"]}"},
        {"just text", "\"just text\""},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        json_auto_t *o = NULL;

        assert_ok(yaml_parse(table[i].yaml, strlen(table[i].yaml), &o, &e), &e);
        _cleanup_free_ char *s = json_text(o);
        assert_string_equal(s, table[i].json);
    }
}

static void test_refusals(void **state)
{
    static const struct {
        const char *yaml, *what;
    } table[] = {
        {"a: 1\nb: 2\na: 3\n", "line 3, column 1: key \"a\" is given twice"},
        {"{a: 1, 'a': 2}", "line 1, column 8: key \"a\" is given twice"},
        {"a: &x 1\nb: 2\n", "line 1, column 4: anchors"},
        {"a: &x [1]\n", "anchors"},
        {"a: &x {b: 1}\n", "anchors"},
        {"&x a: 1\n", "anchors"},
        {"a: *x\n", "line 1, column 4: aliases"},
        {"*x : 1\n", "aliases"},
        {"<<: {a: 1}\n", "merge keys"},
        {"a: !!str 1\n", "line 1, column 4: tags"},
        {"a: !x [1]\n", "tags"},
        {"? [a]\n: 1\n", "a key must be"},
        {"a: yes\n", "line 1, column 4: read differently"},
        {"a: Off\n", "read differently"},
        {"a: n\n", "read differently"},
        {"a: 0777\n", "read differently"},
        {"a: -012\n", "read differently"},
        {"a: 0b11\n", "read differently"},
        {"a: 1_000\n", "read differently"},
        {"a: .inf\n", "infinity"},
        {"a: .NaN\n", "not-a-number"},
        {"a: 9223372036854775808\n", "out of range"},
        {"a: 0xffffffffffffffffff\n", "out of range"},
        {"a: 1e999\n", "out of range"},
        {"a: \"x\\0y\"\n", "NUL"},
        {"a: [1\n", "line 2, column 1: "},
        {"a: 'x\n", "line 2, column 1: "},
        {"a: b: c\n", "line 1, column 5: "},
        {"a:\n\t- b\n", "line 2, column 1: "},
        {"a: \xff\n", "byte 3: "},
        {"a: \x01\n", "byte 3: "},
        {"", "0 documents"},
        {"---\na: 1\n---\nb: 1\n", "2 documents"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        json_t *o = NULL;
        int r = yaml_parse(table[i].yaml, strlen(table[i].yaml), &o, &e);

        if (r >= 0)
            fail_msg("accepted: %s", table[i].yaml);
        assert_int_equal(r, -EINVAL);
        assert_int_equal(e.kind, ERR_USER);
        assert_err_has(&e, table[i].what);
        assert_null(o);
    }
}

static void test_many_documents(void **state)
{
    static const char text[] = "---\n---\na: 1\n---\n# none\n---\nb: [2]\n...\n---\n";
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *list = NULL;

    (void)state;
    assert_ok(yaml_parse_all(text, sizeof(text) - 1, &list, &e), &e);
    _cleanup_free_ char *s = json_text(list);
    assert_string_equal(s, "[{\"a\":1},{\"b\":[2]}]");
}

static char *nested(unsigned depth)
{
    struct strbuf b = {0};

    for (unsigned i = 0; i < depth; i++)
        strbuf_putc(&b, '[');
    for (unsigned i = 0; i < depth; i++)
        strbuf_putc(&b, ']');
    return strbuf_take(&b);
}

static void test_depth(void **state)
{
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_free_ char *deep = nested(64), *deeper = nested(65), *deepest = nested(100000);
    json_auto_t *o = NULL;
    json_t *no = NULL;

    (void)state;
    assert_ok(yaml_parse(deep, strlen(deep), &o, &e), &e);
    assert_true(yaml_parse(deeper, strlen(deeper), &no, &e) < 0);
    assert_err_has(&e, "line 1, column 65: nested too deeply");
    assert_true(yaml_parse(deepest, strlen(deepest), &no, &e) < 0);
    assert_err_has(&e, "nested too deeply");
}

static void test_size(void **state)
{
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_free_ char *big = xmalloc(YAML_MAX + 1);
    json_auto_t *o = NULL;
    json_t *no = NULL;

    (void)state;
    memset(big, 'x', YAML_MAX + 1);
    assert_ok(yaml_parse(big, YAML_MAX, &o, &e), &e);
    assert_int_equal(yaml_parse(big, YAML_MAX + 1, &no, &e), -EFBIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),         cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_many_documents), cmocka_unit_test(test_depth),
        cmocka_unit_test(test_size),
    };

    return cmocka_run_group_tests_name("yaml", tests, NULL, NULL);
}
