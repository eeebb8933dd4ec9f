/* SPDX-License-Identifier: Apache-2.0 */
/* Publication to a server that drops, fails, forgets, or is away. */
#include "base/log.h"
#include "tests/unit/driver/publish_bench.h"

/* ---- the list that a server drops ---- */

static void test_dropped_list(void **state)
{
    struct bench *b = *state;

    fake_slices_drop_lists(b->fake, true);
    offer(b, "ppss");
    run_until_published(b, 1);
    assert_int_equal(b->told, 1);
    assert_false(b->kept);
    assert_int_equal(b->slices, 1); /* all of them through Prepare */
    assert_int_equal(b->devices, 4);
    assert_null(fake_slices_get(b->fake, SKIP0));
    /* prepare-00 and skip-00 created; both in prepare-00, anew; skip-00 deleted */
    expect_writes(b, 2, 1, 1);
    run(b, 3600000);
    expect_writes(b, 2, 1, 1);
    assert_int_equal(b->told, 1);
}

/* What nothing can mark isn't published: no slice is written again and again. */
static void test_dropped_taints(void **state)
{
    struct bench *b = *state;

    fake_slices_drop_taints(b->fake);
    offer(b, "ppdd");
    run_until_published(b, 1);
    assert_int_equal(b->told, 1);
    assert_true(b->kept);
    assert_false(b->taints_kept);
    assert_int_equal(b->devices, 2);
    assert_null(fake_slices_get(b->fake, DRIFTED0));
    unsigned long sent = api_requests_sent(b->api);
    run(b, 500000);
    assert_true(api_requests_sent(b->api) <= sent + 4); /* its watch */
}

/* A server with the feature takes over: a new list, more than 10 minutes later. */
static void test_dropped_list_tried_again(void **state)
{
    struct bench *b = *state;

    fake_slices_drop_lists(b->fake, true);
    begin(b, "ss");
    fake_slices_drop_lists(b->fake, false);
    run(b, 60000);
    fake_slices_compact(b->fake); /* too early: it waits */
    run(b, 120000);
    assert_int_equal(b->told, 1);
    run(b, 600000);
    assert_int_equal(b->told, 2);
    assert_true(b->kept);
    assert_true(has_list(b, SKIP0));
    assert_int_equal(b->slices, 1);
    assert_null(fake_slices_fault(b->fake));
}

static void test_dropped_list_after_an_outage(void **state)
{
    struct bench *b = *state;

    fake_slices_drop_lists(b->fake, true);
    begin(b, "ss");
    run(b, 40000);
    fake_slices_down(b->fake, true);
    fake_slices_drop_lists(b->fake, false);
    run(b, 20000);
    assert_int_equal(b->told, 1); /* not while nobody is there */
    fake_slices_down(b->fake, false);
    run(b, 60000);
    assert_int_equal(b->told, 2);
    assert_true(has_list(b, SKIP0));

    /* and back again */
    fake_slices_down(b->fake, true);
    fake_slices_drop_lists(b->fake, true);
    run(b, 20000);
    fake_slices_down(b->fake, false);
    run(b, 60000);
    offer(b, "sss"); /* the stored one has a list, so it is kept (dropDisabledFields) */
    run(b, 5000);
    assert_int_equal(b->told, 2);
    fake_slices_delete_all(b->fake);
    run(b, 5000);
    assert_int_equal(b->told, 3);
    assert_false(b->kept);
    assert_true(is_whole(b, PREPARE0, 3));
}

/* Found at the start without a list, by a driver that takes the server for one that keeps it. */
static void test_list_missing_at_start(void **state)
{
    struct bench *b = *state;

    begin(b, "ss");
    publish_free(b->publish);
    json_t *o = copy_of(b, SKIP0);
    json_object_del(json_object_get(o, "spec"), "skipNodeOperations");
    fake_slices_edit(b->fake, SKIP0, o);
    fake_slices_drop_lists(b->fake, true);
    start_publisher(b);
    offer(b, "ss");
    run_until_published(b, 1);
    assert_int_equal(b->told, 1);
    assert_true(is_whole(b, PREPARE0, 2));
    assert_null(fake_slices_get(b->fake, SKIP0));
}

/* Nothing more is promised, nor tried, until somebody decided what to do about it. */
static void test_dropped_list_and_no_answer(void **state)
{
    struct bench *b = *state;

    b->deaf = true;
    fake_slices_drop_lists(b->fake, true);
    offer(b, "s");
    run(b, 600000);
    assert_int_equal(b->told, 1);
    expect_writes(b, 1, 0, 0);
    assert_int_equal(b->published, 0);
}

/* ---- faults ---- */

static void test_errors_back_off(void **state)
{
    static const enum fake_fault faults[] = {FAULT_500, FAULT_422, FAULT_429, FAULT_CONFLICT};
    struct bench *b = *state;

    begin(b, "p");
    for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
        *fake_slices_counts(b->fake) = (struct fake_counts){0};
        fake_slices_fail(b->fake, faults[i], 1000);
        offer(b, i % 2 ? "p" : "pp");
        run(b, 300000);
        /* 0.5, 1, 2 ... 16, then every 30 s: 16 in five minutes */
        unsigned writes = fake_slices_writes(b->fake);
        if (writes < 10 || writes > 22)
            fail_msg("fault %u: %u writes", faults[i], writes);
        fake_slices_fail(b->fake, FAULT_NONE, 0);
        run(b, 40000);
        assert_true(is_whole(b, PREPARE0, i % 2 ? 1 : 2));
    }
    assert_null(fake_slices_fault(b->fake));
}

static void test_error_then_quick(void **state)
{
    struct bench *b = *state;

    fake_slices_fail(b->fake, FAULT_500, 2);
    offer(b, "pps");
    run(b, 4000);
    assert_int_equal(b->published, 1);
    expect_writes(b, 4, 0, 0);
}

static void test_retry_after_is_obeyed(void **state)
{
    struct bench *b = *state;

    fake_slices_fail(b->fake, FAULT_429, 1);
    offer(b, "p");
    run(b, 2500);
    expect_writes(b, 1, 0, 0);
    run(b, 2000);
    expect_writes(b, 2, 0, 0);
}

/* The server acts and the answer is lost: asked again perhaps, but nothing is done twice. */
static void test_lost_answers(void **state)
{
    static const struct {
        const char *kinds, *what;
        unsigned lost, done;
    } table[] = {
        {"pps", "two creations", .lost = 1, .done = 2},
        {"ppd", "a creation, an update, a deletion", .lost = 3, .done = 3},
        {"pppd", "an update of each", .lost = 2, .done = 2},
        {"ppps", "all kinds again", .lost = 1, .done = 3},
        {"", "deletions", .lost = 2, .done = 2},
    };
    struct bench *b = *state;

    for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
        fake_slices_counts(b->fake)->done = 0;
        fake_slices_fail(b->fake, FAULT_LOST, table[i].lost);
        offer(b, table[i].kinds);
        run_until_published(b, i + 1);
        run(b, 60000);
        if (fake_slices_counts(b->fake)->done != table[i].done)
            fail_msg("%s: %u", table[i].what, fake_slices_counts(b->fake)->done);
        assert_null(fake_slices_fault(b->fake));
    }
}

/* The same with the watch behind, so that it can't tell. */
static void test_lost_answers_and_a_slow_watch(void **state)
{
    struct bench *b = *state;

    begin(b, "p");
    fake_slices_hold_events(b->fake, true);
    fake_slices_fail(b->fake, FAULT_LOST, 1);
    offer(b, "pps");
    run_until_published(b, 2);
    assert_true(is_whole(b, PREPARE0, 2) && is_whole(b, SKIP0, 1));
    assert_true(fake_slices_counts(b->fake)->gets <= 2);
    unsigned writes = fake_slices_writes(b->fake);
    fake_slices_hold_events(b->fake, false);
    run(b, 60000);
    assert_int_equal(fake_slices_writes(b->fake), writes);
    assert_null(fake_slices_fault(b->fake));
}

/* Events of our own writes that come late don't bring back what was before. */
static void test_late_events(void **state)
{
    struct bench *b = *state;

    begin(b, "pp");
    fake_slices_hold_events(b->fake, true);
    offer(b, "ps");
    run_until_published(b, 2);
    offer(b, "pp");
    run_until_published(b, 3);
    offer(b, "ppp");
    run_until_published(b, 4);
    expect_writes(b, 1, 3, 1);
    fake_slices_hold_events(b->fake, false);
    run(b, 60000);
    expect_writes(b, 1, 3, 1);
    assert_int_equal(b->published, 4);
}

static void test_conflict(void **state)
{
    struct bench *b = *state;

    begin(b, "pp");
    fake_slices_hold_events(b->fake, true);
    vandalise(b, PREPARE0); /* which we don't see */
    offer(b, "ppp");
    run_until_published(b, 2);
    expect_writes(b, 0, 2, 0);
    assert_int_equal(fake_slices_counts(b->fake)->gets, 1);
    assert_true(is_whole(b, PREPARE0, 3));

    fake_slices_edit(b->fake, PREPARE0, NULL); /* gone by the time that we look */
    fake_slices_fail(b->fake, FAULT_CONFLICT, 1);
    offer(b, "pp");
    run_until_published(b, 3);
    expect_writes(b, 1, 3, 0);
}

static void test_deleted_behind_our_back(void **state)
{
    struct bench *b = *state;

    begin(b, "pps");
    fake_slices_hold_events(b->fake, true);
    fake_slices_delete_all(b->fake);
    offer(b, "ppp"); /* an update and a deletion, of what isn't there */
    run_until_published(b, 2);
    expect_writes(b, 1, 1, 1);
    assert_true(is_whole(b, PREPARE0, 3));
    fake_slices_hold_events(b->fake, false);
    run(b, 60000);
    expect_writes(b, 1, 1, 1);
}

/* The name belongs to somebody else's slice; ours comes when that goes. */
static void test_name_taken(void **state)
{
    struct bench *b = *state;

    begin(b, "p");
    json_t *o = copy_of(b, PREPARE0);
    json_set_str(json_object_get(o, "metadata"), "name", SKIP0);
    json_set_str(json_object_get(o, "spec"), "driver", "other");
    fake_slices_edit(b->fake, SKIP0, o);
    offer(b, "ps");
    run(b, 60000);
    assert_in_range(fake_slices_counts(b->fake)->posts, 3, 9);
    assert_string_equal(json_str_at(fake_slices_get(b->fake, SKIP0), "spec.driver"), "other");
    fake_slices_edit(b->fake, SKIP0, NULL);
    run(b, 60000);
    assert_true(has_list(b, SKIP0));
}

static void test_server_away_at_start(void **state)
{
    struct bench *b = *state;

    fake_slices_down(b->fake, true);
    offer(b, "ps");
    run(b, 30000);
    assert_int_equal(b->published, 0);
    fake_slices_down(b->fake, false);
    run(b, 60000);
    assert_int_equal(b->published, 1);
    expect_writes(b, 2, 0, 0);
}

static void test_server_away_for_a_while(void **state)
{
    struct bench *b = *state;

    begin(b, "ps");
    fake_slices_down(b->fake, true);
    offer(b, "pps");
    run(b, 60000);
    fake_slices_delete_all(b->fake);
    fake_slices_down(b->fake, false);
    fake_slices_compact(b->fake);
    run(b, 60000);
    assert_true(is_whole(b, PREPARE0, 2) && is_whole(b, SKIP0, 1));
    assert_null(fake_slices_fault(b->fake));
}

/* At any moment, with anything under way: the sanitizers judge. */
static void test_freed_at_any_time(void **state)
{
    struct bench *b = *state;

    for (unsigned turns = 0; turns < 60; turns++) {
        publish_free(b->publish);
        start_publisher(b);
        offer(b, turns % 2 ? "ppss" : "sspd");
        for (unsigned i = 0; i < turns; i++)
            turn(b, 5);
    }
    run(b, 5000);
    assert_null(fake_slices_fault(b->fake));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(test_dropped_list),
        BENCH_TEST(test_dropped_taints),
        BENCH_TEST(test_dropped_list_tried_again),
        BENCH_TEST(test_dropped_list_after_an_outage),
        BENCH_TEST(test_list_missing_at_start),
        BENCH_TEST(test_dropped_list_and_no_answer),
        BENCH_TEST(test_errors_back_off),
        BENCH_TEST(test_error_then_quick),
        BENCH_TEST(test_retry_after_is_obeyed),
        BENCH_TEST(test_lost_answers),
        BENCH_TEST(test_lost_answers_and_a_slow_watch),
        BENCH_TEST(test_late_events),
        BENCH_TEST(test_conflict),
        BENCH_TEST(test_deleted_behind_our_back),
        BENCH_TEST(test_name_taken),
        BENCH_TEST(test_server_away_at_start),
        BENCH_TEST(test_server_away_for_a_while),
        BENCH_TEST(test_freed_at_any_time),
    };

    log_setup(getenv("VERBOSE") ? LOG_DEBUG : LOG_ERROR, LOG_TEXT);
    return cmocka_run_group_tests_name("publish-faults", tests, NULL, NULL);
}
