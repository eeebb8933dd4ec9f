/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/attempts.h"

#include "tests/unit/test.h"

static void pauses_grow(void **state)
{
    static const int64_t pauses[] = {5000, 10000, 20000, 40000, 80000, 160000, 160000, 160000};
    struct attempts a = {0};
    int64_t now = 1000;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(pauses); i++) {
        int64_t soonest = 0;

        assert_true(attempts_may(&a, now, &soonest));
        assert_int_equal(soonest, 0);
        attempts_note(&a, now);
        assert_false(attempts_may(&a, now + pauses[i] - 1, &soonest));
        assert_int_equal(soonest, now + pauses[i]);
        soonest = now + 1;
        assert_false(attempts_may(&a, now, &soonest));
        assert_int_equal(soonest, now + 1);
        now += pauses[i];
    }
    /* Right for a moment only: somebody works against us, and the pauses stay. */
    attempts_note(&a, now);
    attempts_right(&a, now + 60000);
    attempts_note(&a, now + 160000);
    assert_int_equal(a.next, now + 320000);
    attempts_right(&a, now + 160000 + 60001);
    attempts_note(&a, now + 900000);
    assert_int_equal(a.next, now + 905000);
}

static void told_once(void **state)
{
    struct attempts a = {0};

    (void)state;
    assert_true(attempts_news(&a, "no"));
    assert_false(attempts_news(&a, "no"));
    assert_true(attempts_news(&a, "not that either"));
    attempts_right(&a, 0);
    assert_true(attempts_news(&a, "not that either"));
    attempts_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pauses_grow),
        cmocka_unit_test(told_once),
    };

    return cmocka_run_group_tests_name("attempts", tests, NULL, NULL);
}
