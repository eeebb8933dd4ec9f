/* SPDX-License-Identifier: Apache-2.0 */
/* Publication in ordinary life, and while others write our slices too. */
#include "base/log.h"
#include "tests/unit/driver/publish_bench.h"

/* ---- ordinary life ---- */

static void test_first(void **state)
{
    struct bench *b = *state;

    offer(b, "ppss");
    run_until_published(b, 1);
    expect_writes(b, 2, 0, 0);
    assert_int_equal(b->slices, 2);
    assert_int_equal(b->devices, 4);
    assert_int_equal(b->generation, 1);
    assert_true(has_list(b, SKIP0));
    assert_false(has_list(b, PREPARE0));
    run(b, 60000);
    expect_writes(b, 2, 0, 0);
    assert_int_equal(fake_slices_counts(b->fake)->lists, 1);
    assert_int_equal(b->published, 1);
}

/* A burst is waited for, but not at the start; time stands still. */
static void test_the_first_waits_for_nothing(void **state)
{
    struct bench *b = *state;

    stop_time();
    offer(b, "ppss");
    for (int i = 0; i < 2000 && !b->published; i++) {
        turn(b, 0);
        usleep(100);
    }
    expect_writes(b, 2, 0, 0);
    offer(b, "ppsss");
    for (int i = 0; i < 200; i++)
        turn(b, 0);
    expect_writes(b, 2, 0, 0);
    run_until_published(b, 2);
    expect_writes(b, 2, 1, 0);
}

static void test_nothing_to_offer(void **state)
{
    struct bench *b = *state;

    begin(b, "");
    assert_int_equal(b->slices, 0);
    expect_writes(b, 0, 0, 0);
    offer(b, "p");
    run_until_published(b, 2);
    offer(b, "");
    run_until_published(b, 3);
    expect_writes(b, 1, 0, 1);
}

static void test_node_not_known_yet(void **state)
{
    struct bench *b = *state;
    device_vec none = {0};

    publish_set(b->publish, NULL, &none);
    run(b, 5000);
    expect_writes(b, 0, 0, 0);
    assert_int_equal(b->published, 0);
    offer(b, "p");
    run_until_published(b, 1);
    expect_writes(b, 1, 0, 0);
    publish_set(b->publish, NULL, &none); /* and gone again: what is there stays */
    run(b, 5000);
    expect_writes(b, 1, 0, 0);
}

static void test_restart_writes_nothing(void **state)
{
    struct bench *b = *state;

    begin(b, "ppsd");
    publish_free(b->publish);
    start_publisher(b);
    offer(b, "ppsd");
    run_until_published(b, 1);
    run(b, 5000);
    expect_writes(b, 0, 0, 0);
    assert_int_equal(b->generation, 1);
}

/* What is there already must be known first. */
static void test_no_write_before_the_list(void **state)
{
    struct bench *b = *state;

    begin(b, "ps");
    publish_free(b->publish);
    fake_slices_fail_lists(b->fake, true);
    start_publisher(b);
    offer(b, "ps");
    run(b, 60000);
    expect_writes(b, 0, 0, 0);
    assert_int_equal(b->published, 0);
    fake_slices_fail_lists(b->fake, false);
    run(b, 60000);
    expect_writes(b, 0, 0, 0);
    assert_int_equal(b->published, 1);
}

static void test_changes(void **state)
{
    struct bench *b = *state;

    begin(b, "pppp");
    offer(b, "pppp");
    run(b, 1000);
    expect_writes(b, 0, 0, 0);
    assert_int_equal(b->published, 1);
    offer(b, "ppppp");
    run_until_published(b, 2);
    expect_writes(b, 0, 1, 0);
    offer(b, "pppps");
    run_until_published(b, 3);
    expect_writes(b, 1, 2, 0);
    assert_int_equal(b->generation, 2);
    offer(b, "ppppp");
    run_until_published(b, 4);
    expect_writes(b, 1, 3, 1);
    run(b, 60000); /* the events of our own writes */
    expect_writes(b, 1, 3, 1);
}

static void test_a_burst_is_one_write(void **state)
{
    struct bench *b = *state;

    begin(b, "p");
    offer(b, "pp");
    turn(b, 10);
    offer(b, "ppp");
    turn(b, 10);
    offer(b, "pppp");
    run_until_published(b, 2);
    expect_writes(b, 0, 1, 0);
    assert_true(is_whole(b, PREPARE0, 4));
}

/* Changes that don't end are written all the same, some at a time. */
static void test_a_stream_of_changes(void **state)
{
    struct bench *b = *state;

    begin(b, "p");
    for (unsigned i = 0; i < 100; i++) {
        offer(b, &"ppppppp"[i % 7]);
        for (int k = 0; k < 20; k++)
            turn(b, 1);
    }
    assert_in_range(fake_slices_counts(b->fake)->puts, 10, 60);
}

/* A change that comes while the one before is under way isn't taken for somebody else's. */
static void test_changed_in_flight(void **state)
{
    struct bench *b = *state;

    begin(b, "p");
    int64_t before = bench_now();
    for (unsigned i = 1; i <= 4; i++) {
        unsigned puts = fake_slices_counts(b->fake)->puts;

        offer(b, i % 2 ? "pp" : "ppp");
        while (fake_slices_counts(b->fake)->puts == puts)
            turn(b, 1);
    }
    run_until_published(b, b->published + 1);
    assert_true(bench_now() - before < 1000);
}

/* What is wanted changes while it is written; each state on the way is sane for the scheduler. */
static void test_changed_while_writing(void **state)
{
    struct bench *b = *state;

    begin(b, "ppss");
    for (unsigned i = 0; i < 40; i++) {
        offer(b, i % 2 ? "pssd" : "sspp");
        for (unsigned k = 0; k < i; k++)
            turn(b, 5);
    }
    unsigned before = b->published;
    offer(b, "ppss");
    run_until_published(b, before + 1);
    run(b, 10000);
    assert_null(fake_slices_fault(b->fake));
    assert_int_equal(b->slices, 2);
    assert_int_equal(fake_slices_all(b->fake)->n, 2);
    assert_true(is_whole(b, PREPARE0, 2) && is_whole(b, SKIP0, 2));
}

/* ---- what others do ---- */

static void test_kubelet_start(void **state)
{
    struct bench *b = *state;

    begin(b, "ppssdd");
    int64_t before = bench_now();
    fake_slices_delete_all(b->fake);
    run_until_published(b, 2);
    assert_true(bench_now() - before < 1000);
    expect_writes(b, 3, 0, 0);
}

static void test_edits_are_undone(void **state)
{
    struct bench *b = *state;

    begin(b, "ppss");
    vandalise(b, PREPARE0);
    run_until_published(b, 2);
    expect_writes(b, 0, 1, 0);
    assert_true(is_whole(b, PREPARE0, 2));

    json_t *extra = copy_of(b, PREPARE0);
    json_set_str(json_object_get(extra, "metadata"), "name", "extra");
    fake_slices_edit(b->fake, "extra", extra);
    run_until_published(b, 3);
    expect_writes(b, 0, 1, 1);
    assert_null(fake_slices_get(b->fake, "extra"));
}

/* Slices of other nodes and drivers aren't our business. */
static void test_strangers_stay(void **state)
{
    struct bench *b = *state;

    begin(b, "p");
    json_t *other = copy_of(b, PREPARE0);
    json_set_str(json_object_get(other, "metadata"), "name", "other");
    json_set_str(json_object_get(other, "spec"), "driver", "gpu.example.com");
    fake_slices_edit(b->fake, "other", other);
    run(b, 5000);
    expect_writes(b, 0, 0, 0);
}

struct vandal {
    struct bench *b;
    bool active, deletes;
};

static void on_vandal(const char *name, void *data)
{
    static const char *const ours[] = {PREPARE0, SKIP0};
    struct vandal *v = data;

    (void)name;
    for (size_t i = 0; i < ARRAY_SIZE(ours) && v->active; i++) {
        if (fake_slices_get(v->b->fake, ours[i]) && v->deletes)
            fake_slices_edit(v->b->fake, ours[i], NULL);
        else if (fake_slices_get(v->b->fake, ours[i]))
            vandalise(v->b, ours[i]);
    }
}

/* Somebody undoes each of our writes at once: with two slices before we are through. */
static void fight(struct bench *b, bool deletes, const char *kinds)
{
    struct vandal v = {b, true, deletes};

    begin(b, kinds);
    fake_slices_on_write(b->fake, on_vandal, &v);
    on_vandal(NULL, &v);
    run(b, 600000);
    /* at once, 1, 2, 4, 8, 16, then every 30 s; two slices each time */
    assert_in_range(fake_slices_writes(b->fake), 20, 60);

    v.active = false;
    run(b, 60000);
    assert_true(is_whole(b, PREPARE0, 2));
    unsigned writes = fake_slices_writes(b->fake);
    run(b, 400000);
    assert_int_equal(fake_slices_writes(b->fake), writes);

    unsigned published = b->published; /* after five quiet minutes, at once again */
    int64_t before = bench_now();
    vandalise(b, PREPARE0);
    run_until_published(b, published + 1);
    assert_true(bench_now() - before < 1000);
    fake_slices_on_write(b->fake, NULL, NULL);
}

static void test_a_fight_over_content(void **state)
{
    fight(*state, false, "pp");
}

static void test_a_fight_over_existence(void **state)
{
    fight(*state, true, "pp");
}

static void test_a_fight_over_two(void **state)
{
    fight(*state, false, "ppss");
}

static void test_a_fight_over_the_existence_of_two(void **state)
{
    fight(*state, true, "ppss");
}

/* Our own change doesn't wait for the end of a pause. */
static void test_a_change_in_a_fight(void **state)
{
    struct bench *b = *state;
    struct vandal v = {b, true, false};

    begin(b, "pp");
    fake_slices_on_write(b->fake, on_vandal, &v);
    vandalise(b, PREPARE0);
    run(b, 60000);
    v.active = false;
    offer(b, "ppp");
    run(b, 300);
    assert_true(is_whole(b, PREPARE0, 3));
    fake_slices_on_write(b->fake, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BENCH_TEST(test_first),
        BENCH_TEST(test_the_first_waits_for_nothing),
        BENCH_TEST(test_nothing_to_offer),
        BENCH_TEST(test_node_not_known_yet),
        BENCH_TEST(test_restart_writes_nothing),
        BENCH_TEST(test_no_write_before_the_list),
        BENCH_TEST(test_changes),
        BENCH_TEST(test_a_burst_is_one_write),
        BENCH_TEST(test_a_stream_of_changes),
        BENCH_TEST(test_changed_in_flight),
        BENCH_TEST(test_changed_while_writing),
        BENCH_TEST(test_kubelet_start),
        BENCH_TEST(test_edits_are_undone),
        BENCH_TEST(test_strangers_stay),
        BENCH_TEST(test_a_fight_over_content),
        BENCH_TEST(test_a_fight_over_existence),
        BENCH_TEST(test_a_fight_over_two),
        BENCH_TEST(test_a_fight_over_the_existence_of_two),
        BENCH_TEST(test_a_change_in_a_fight),
    };

    log_setup(getenv("VERBOSE") ? LOG_DEBUG : LOG_ERROR, LOG_TEXT);
    return cmocka_run_group_tests_name("publish", tests, NULL, NULL);
}
