/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include "base/str.h"
#include "tests/unit/test.h"

static json_t *parse(const char *text)
{
    _cleanup_err_ struct err e = ERR_INIT;
    json_t *o = NULL;

    assert_ok(json_parse(text, strlen(text), &o, &e), &e);
    return o;
}

static void test_parse_errors(void **state)
{
    static const char *const bad[] = {"", "{", "{\"a\":1,\"a\":2}", "{} x", "{\"a\":\"\\u0000\"}"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        json_t *o = NULL;

        assert_true(json_parse(bad[i], strlen(bad[i]), &o, &e) < 0);
        assert_err_has(&e, "line 1");
        assert_null(o);
    }
}

static void test_nul_from_an_api_server(void **state)
{
    static const char text[] = "{\"a\":\"x\\u0000y\",\"b\":\"z\",\"n\":1}";
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *o = NULL;
    const char *s = NULL;

    (void)state;
    assert_ok(json_parse_api(text, strlen(text), &o, &e), &e);
    assert_null(json_str_at(o, "a"));
    assert_null(json_c_str(json_at(o, "n")));
    assert_string_equal(json_str_at(o, "b"), "z");
    assert_true(json_get_str(o, NULL, "a", &s, &e) < 0);
    assert_err_has(&e, "a: must not contain a NUL character");
}

static void test_at(void **state)
{
    json_auto_t *o = parse("{\"a\":{\"b\":{\"c\":\"x\"},\"n\":7}}");

    (void)state;
    assert_string_equal(json_str_at(o, "a.b.c"), "x");
    assert_int_equal(json_int_at(o, "a.n", 1), 7);
    assert_int_equal(json_int_at(o, "a.m", 1), 1);
    assert_null(json_at(o, "a.b.c.d"));
    assert_null(json_str_at(o, "a.n"));
}

static void test_paths_in_errors(void **state)
{
    static const char *const known[] = {"name", "id", NULL};
    _cleanup_err_ struct err e = ERR_INIT;
    struct jpath spec = {.key = "spec"}, list = {.up = &spec, .key = "functions"},
                 item = {.up = &list, .index = 2};
    json_auto_t *o = parse("{\"name\":1,\"idd\":5,\"id\":-1,\"n\":1.5}");
    const char *s = NULL;
    int64_t n = 0;

    (void)state;
    assert_true(json_only(o, &item, known, &e) < 0);
    assert_err_has(&e, "spec.functions[2].idd: unknown field; known here: name, id");
    assert_true(json_get_str(o, &item, "name", &s, &e) < 0);
    assert_err_has(&e, "spec.functions[2].name: must be a string");
    assert_true(json_get_int(o, &item, "id", 0, 4094, &n, &e) < 0);
    assert_err_has(&e, "from 0 to 4094");
    assert_true(json_get_int(o, &item, "n", 0, 4094, &n, &e) < 0);
    assert_int_equal(json_get_str(o, &item, "absent", &s, &e), 0);
    assert_null(s);
    json_auto_t *array = parse("[]");
    assert_true(json_only(array, NULL, known, &e) < 0);
    assert_err_has(&e, "document: must be an object");
}

static void test_text_is_sorted(void **state)
{
    json_auto_t *o = parse("{\"b\":1,\"a\":[true,null]}");
    _cleanup_free_ char *s = json_text(o);

    (void)state;
    assert_string_equal(s, "{\"a\":[true,null],\"b\":1}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_errors),
        cmocka_unit_test(test_nul_from_an_api_server),
        cmocka_unit_test(test_at),
        cmocka_unit_test(test_paths_in_errors),
        cmocka_unit_test(test_text_is_sorted),
    };

    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
