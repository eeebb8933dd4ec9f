/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include "base/str.h"
#include "tests/unit/test.h"

#include <pthread.h>
#include <sys/epoll.h>

struct hand_clock {
    struct clock clock;
    int64_t now;
};

static int64_t hand_now(struct clock *c)
{
    return container_of(c, struct hand_clock, clock)->now;
}

static struct hand_clock hand = {.clock = {hand_now}};
static struct strbuf seen;

static void note(void *data)
{
    strbuf_puts(&seen, data);
}

static struct loop *start(void)
{
    struct loop *l = NULL;

    hand.now = 1000;
    strbuf_done(&seen);
    strbuf_puts(&seen, "");
    assert_ok(loop_new(&hand.clock, &l, NULL), NULL);
    return l;
}

static void test_timers_in_order(void **state)
{
    _cleanup_(loop_freep) struct loop *l = start();
    struct timer *a = timer_new(l, note, (char[]){"a"}), *b = timer_new(l, note, (char[]){"b"});

    (void)state;
    timer_set(a, 20);
    timer_set(b, 10);
    loop_once(l, 0, NULL);
    assert_string_equal(seen.s, "");
    hand.now += 20;
    loop_once(l, 0, NULL);
    assert_string_equal(seen.s, "ba");
    assert_false(timer_is_set(a));
    timer_set(a, 5);
    timer_cancel(a);
    hand.now += 20;
    loop_once(l, 0, NULL);
    assert_string_equal(seen.s, "ba");
    timer_free(a);
    timer_free(b);
}

static struct timer *again;

static void rearm(void *data)
{
    note(data);
    timer_set(again, 0);
}

static void test_a_timer_fires_once_a_round(void **state)
{
    _cleanup_(loop_freep) struct loop *l = start();

    (void)state;
    again = timer_new(l, rearm, (char[]){"x"});
    timer_set(again, 0);
    loop_once(l, 0, NULL);
    loop_once(l, 0, NULL);
    assert_string_equal(seen.s, "xx");
    timer_free(again);
}

static void *poster(void *data)
{
    static char dot[] = ".";

    for (int i = 0; i < 1000; i++)
        loop_post(data, note, dot);
    return NULL;
}

static void test_posts_from_a_thread(void **state)
{
    _cleanup_(loop_freep) struct loop *l = start();
    pthread_t t;

    (void)state;
    pthread_create(&t, NULL, poster, l);
    for (int i = 0; i < 1000 && seen.len < 1000; i++)
        loop_once(l, 1000, NULL);
    pthread_join(t, NULL);
    assert_int_equal(seen.len, 1000);
}

static struct loop_io *ios[2];

static void free_both(int fd, uint32_t events, void *data)
{
    (void)fd, (void)events;
    note(data);
    for (int i = 0; i < 2; i++) {
        loop_io_free(ios[i]);
        ios[i] = NULL;
    }
}

static void test_io_freed_by_another_handler(void **state)
{
    _cleanup_(loop_freep) struct loop *l = start();
    char one[] = "1";
    int p[2];

    (void)state;
    assert_int_equal(pipe(p), 0);
    int other = dup(p[0]);
    assert_int_equal(write(p[1], "x", 1), 1);
    assert_ok(loop_io_new(l, p[0], EPOLLIN, free_both, one, &ios[0], NULL), NULL);
    assert_ok(loop_io_new(l, other, EPOLLIN, free_both, one, &ios[1], NULL), NULL);
    loop_once(l, 0, NULL);
    loop_once(l, 0, NULL);
    assert_string_equal(seen.s, "1");
    close(p[0]), close(p[1]), close(other);
}

static int group_teardown(void **state)
{
    (void)state;
    strbuf_done(&seen);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timers_in_order),
        cmocka_unit_test(test_a_timer_fires_once_a_round),
        cmocka_unit_test(test_posts_from_a_thread),
        cmocka_unit_test(test_io_freed_by_another_handler),
    };

    return cmocka_run_group_tests_name("loop", tests, NULL, group_teardown);
}
