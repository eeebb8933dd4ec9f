/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/json.h"
#include "base/str.h"
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdio.h>

static char line[4096];

/* Runs `statement` with stderr on a pipe and leaves in `line` what it wrote. */
#define CAPTURE(statement)                                                                         \
    do {                                                                                           \
        int p[2], saved = dup(STDERR_FILENO);                                                      \
        assert_int_equal(pipe2(p, O_CLOEXEC | O_NONBLOCK), 0);                                     \
        dup2(p[1], STDERR_FILENO);                                                                 \
        statement;                                                                                 \
        dup2(saved, STDERR_FILENO);                                                                \
        ssize_t n = read(p[0], line, sizeof(line) - 1);                                            \
        line[n < 0 ? 0 : n] = '\0';                                                                \
        close(p[0]), close(p[1]), close(saved);                                                    \
    } while (0)

static void test_json(void **state)
{
    _cleanup_err_ struct err e = ERR_INIT;
    json_t *o = NULL;

    (void)state;
    log_setup(LOG_INFO, LOG_JSON);
    err_set(&e, ERR_USER, -22, "bad \"x\"");
    CAPTURE(log_error_err(&e, "refused", "claim", "a\nb\x01", "vf", (const char *)NULL));
    assert_ok(json_parse(line, strlen(line), &o, &e), &e);
    json_auto_t *doc = o;
    assert_string_equal(json_str_at(doc, "err"), "bad \"x\"");
    assert_string_equal(json_str_at(doc, "claim"), "a\nb\x01");
    assert_string_equal(json_str_at(doc, "level"), "error");
    assert_true(json_is_null(json_at(doc, "vf")));
    assert_true(json_is_real(json_at(doc, "ts")));
}

static void test_text_and_level(void **state)
{
    (void)state;
    log_setup(LOG_INFO, LOG_TEXT);
    CAPTURE(log_info("slice published", "name", "node 1", "n", "3"));
    assert_non_null(strstr(line, "info    slice published name=\"node 1\" n=3\n"));
    CAPTURE(log_debug("not shown"));
    assert_string_equal(line, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_text_and_level),
    };

    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
