/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <string.h>

static void test_set_and_prefix(void **state)
{
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(err_set(&e, ERR_USER, -EINVAL, "vlan %d", 5000), -EINVAL);
    assert_int_equal(err_prefix(&e, -EIO, "claim %s", "a/b"), -EINVAL);
    assert_string_equal(err_text(&e), "claim a/b: vlan 5000");
    assert_int_equal(e.kind, ERR_USER);
}

static void test_null_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, ERR_USER, -EINVAL, "x"), -EINVAL);
    assert_int_equal(err_prefix(NULL, -EIO, "x"), -EIO);
}

static void test_errno_text_and_kind(void **state)
{
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    err_errno(&e, -EBUSY, "PF %s", "enp1s0");
    assert_string_equal(err_text(&e), "PF enp1s0: Device or resource busy");
    assert_int_equal(e.kind, ERR_TRANSIENT);
    err_errno(&e, -EOPNOTSUPP, "PF");
    assert_int_equal(e.kind, ERR_PERMANENT);
}

static void test_move(void **state)
{
    _cleanup_err_ struct err a = ERR_INIT, b = ERR_INIT;

    (void)state;
    err_set(&a, ERR_BUG, -EPERM, "first");
    assert_int_equal(err_move(&b, &a), -EPERM);
    assert_string_equal(err_text(&b), "first");
    assert_int_equal(a.code, 0);
    assert_null(a.msg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_and_prefix),
        cmocka_unit_test(test_null_is_allowed),
        cmocka_unit_test(test_errno_text_and_kind),
        cmocka_unit_test(test_move),
    };

    return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
