/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/publish.h"

#include "base/log.h"
#include "tests/unit/driver/fake_slices.h"
#include "tests/unit/test.h"

#define PREPARE0 "w1-sriov-dra.dev-prepare-00"
#define SKIP0    "w1-sriov-dra.dev-skip-00"

/* Time runs ahead of the real one as a test wants, so that pauses pass. */
static int64_t ahead_ms;

static int64_t test_now(struct clock *c)
{
    (void)c;
    return clock_now(clock_system()) + ahead_ms;
}

static struct clock test_clock = {test_now};

/* A publisher, the API it writes to, and the node driver that it reports to. */
struct bench {
    struct loop *loop;
    struct fake_slices *fake;
    struct api *api;
    struct publish *publish;

    const char *kinds; /* what the node offers: see offer() */
    unsigned published, slices, devices;
    int64_t generation;
    unsigned told; /* skip_kept() calls */
    bool kept;
    bool deaf; /* doesn't act on them */
};

/* "p" prepare, "s" skip, "d" drifted; skip goes out without the list where it isn't kept. */
static void offer(struct bench *b, const char *kinds)
{
    device_vec devices = {0};

    b->kinds = kinds;
    for (unsigned i = 0; kinds[i]; i++) {
        struct device *d = VEC_PUSH(&devices);

        snprintf(d->name, sizeof(d->name), "a-%03u", i);
        d->skip = kinds[i] == 's' && b->kept;
        d->tainted = kinds[i] == 'd';
        d->body = json_pack("{s:s, s:{s:{s:b}}}", "name", d->name, "attributes", "skipHonoured",
                            "bool", d->skip);
        if (d->tainted)
            json_object_set_new(
                d->body, "taints",
                json_pack("[{s:s, s:s}]", "key", "sriov-dra.dev/drifted", "effect", "NoSchedule"));
    }
    publish_set(b->publish, "node-uid", &devices);
    device_vec_done(&devices);
}

static void on_published(unsigned slices, unsigned devices, int64_t generation, void *data)
{
    struct bench *b = data;

    b->published++;
    b->slices = slices;
    b->devices = devices;
    b->generation = generation;
}

static void on_skip_kept(bool kept, void *data)
{
    struct bench *b = data;

    b->told++;
    b->kept = kept;
    if (!b->deaf)
        offer(b, b->kinds);
}

static void start_publisher(struct bench *b)
{
    b->published = b->told = 0;
    b->kept = true;
    b->publish = publish_new(b->loop, b->api,
                             &(struct publish_config){.driver = "sriov-dra.dev",
                                                      .node = "w1",
                                                      .skip_kept = on_skip_kept,
                                                      .published = on_published,
                                                      .data = b});
}

static void start_api(struct bench *b)
{
    char name[] = "/tmp/test-publish-XXXXXX";
    int fd = mkstemp(name);
    _cleanup_err_ struct err e = ERR_INIT;

    assert_true(fd >= 0);
    dprintf(fd,
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
            "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
            "clusters: [{name: k, cluster: {server: 'http://127.0.0.1:%u'}}]\n"
            "users: [{name: u, user: {}}]\n",
            fake_slices_port(b->fake));
    close(fd);
    assert_ok(api_new(b->loop, &(struct api_config){.kubeconfig = name}, &b->api, &e), &e);
    unlink(name);
}

static int setup(void **state)
{
    struct bench *b = xnew(struct bench);

    ahead_ms = 0;
    assert_ok(loop_new(&test_clock, &b->loop, NULL), NULL);
    b->fake = fake_slices_new(b->loop);
    start_api(b);
    start_publisher(b);
    *state = b;
    return 0;
}

static int teardown(void **state)
{
    struct bench *b = *state;

    publish_free(b->publish);
    api_free(b->api);
    fake_slices_free(b->fake);
    loop_free(b->loop);
    free(b);
    return 0;
}

static void turn(struct bench *b, int64_t step_ms)
{
    (void)loop_once(b->loop, 0, NULL);
    fake_slices_turn(b->fake);
    ahead_ms += step_ms;
}

/*
 * Lets that much time pass, in steps in which a few requests find the time to be answered: how
 * often something is tried depends on our pauses only, not on the speed of the machine.
 */
static void run(struct bench *b, int64_t ms)
{
    for (int step = 0; step < 200; step++) {
        for (int i = 0; i < 30; i++)
            turn(b, 0);
        ahead_ms += ms / 200;
    }
}

/* Runs until published() has been called `n` times; without pauses of ours that takes no time. */
static void run_until_published(struct bench *b, unsigned n)
{
    int64_t until = test_now(NULL) + 20000;

    while (b->published < n) {
        if (test_now(NULL) > until)
            fail_msg("published %u times, not %u", b->published, n);
        turn(b, 1);
    }
}

static void begin(struct bench *b, const char *kinds)
{
    offer(b, kinds);
    run_until_published(b, 1);
    *fake_slices_counts(b->fake) = (struct fake_counts){0};
}

static void expect_writes(struct bench *b, unsigned posts, unsigned puts, unsigned deletes)
{
    const struct fake_counts *c = fake_slices_counts(b->fake);

    if (c->posts != posts || c->puts != puts || c->deletes != deletes)
        fail_msg("%u creations, %u updates, %u deletions", c->posts, c->puts, c->deletes);
    if (fake_slices_fault(b->fake))
        fail_msg("%s", fake_slices_fault(b->fake));
}

static json_t *copy_of(struct bench *b, const char *name)
{
    json_t *o = fake_slices_get(b->fake, name);

    assert_non_null(o);
    return json_deep_copy(o);
}

static bool has_list(struct bench *b, const char *name)
{
    return json_at(fake_slices_get(b->fake, name), "spec.skipNodeOperations") != NULL;
}

/* Somebody empties a slice of ours. */
static void vandalise(struct bench *b, const char *name)
{
    json_t *o = copy_of(b, name);

    json_array_clear(json_at(o, "spec.devices"));
    fake_slices_edit(b->fake, name, o);
}

static bool is_whole(struct bench *b, const char *name, size_t devices)
{
    json_t *o = fake_slices_get(b->fake, name);

    return o && json_array_size(json_at(o, "spec.devices")) == devices;
}

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
        offer(b, &"ppp"[i % 3]);
        for (int k = 0; k < 30; k++)
            turn(b, 0);
        ahead_ms += 20;
    }
    assert_in_range(fake_slices_counts(b->fake)->puts, 10, 60);
}

/* A change that comes while the one before is under way isn't taken for somebody else's. */
static void test_changed_in_flight(void **state)
{
    struct bench *b = *state;

    begin(b, "p");
    int64_t before = test_now(NULL);
    for (unsigned i = 1; i <= 4; i++) {
        unsigned puts = fake_slices_counts(b->fake)->puts;

        offer(b, i % 2 ? "pp" : "ppp");
        while (fake_slices_counts(b->fake)->puts == puts)
            turn(b, 1);
    }
    run_until_published(b, b->published + 1);
    assert_true(test_now(NULL) - before < 1000);
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
    int64_t before = test_now(NULL);
    fake_slices_delete_all(b->fake);
    run_until_published(b, 2);
    assert_true(test_now(NULL) - before < 1000);
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
    int64_t before = test_now(NULL);
    vandalise(b, PREPARE0);
    run_until_published(b, published + 1);
    assert_true(test_now(NULL) - before < 1000);
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

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_first),
        TEST(test_nothing_to_offer),
        TEST(test_node_not_known_yet),
        TEST(test_restart_writes_nothing),
        TEST(test_no_write_before_the_list),
        TEST(test_changes),
        TEST(test_a_burst_is_one_write),
        TEST(test_a_stream_of_changes),
        TEST(test_changed_in_flight),
        TEST(test_changed_while_writing),
        TEST(test_kubelet_start),
        TEST(test_edits_are_undone),
        TEST(test_strangers_stay),
        TEST(test_a_fight_over_content),
        TEST(test_a_fight_over_existence),
        TEST(test_a_fight_over_two),
        TEST(test_a_fight_over_the_existence_of_two),
        TEST(test_a_change_in_a_fight),
        TEST(test_dropped_list),
        TEST(test_dropped_list_tried_again),
        TEST(test_dropped_list_after_an_outage),
        TEST(test_list_missing_at_start),
        TEST(test_dropped_list_and_no_answer),
        TEST(test_errors_back_off),
        TEST(test_error_then_quick),
        TEST(test_retry_after_is_obeyed),
        TEST(test_lost_answers),
        TEST(test_lost_answers_and_a_slow_watch),
        TEST(test_late_events),
        TEST(test_conflict),
        TEST(test_deleted_behind_our_back),
        TEST(test_name_taken),
        TEST(test_server_away_at_start),
        TEST(test_server_away_for_a_while),
        TEST(test_freed_at_any_time),
    };

    log_setup(getenv("VERBOSE") ? LOG_DEBUG : LOG_ERROR, LOG_TEXT);
    return cmocka_run_group_tests_name("publish", tests, NULL, NULL);
}
