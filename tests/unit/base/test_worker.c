/* SPDX-License-Identifier: Apache-2.0 */
#include "base/worker.h"

#include "base/str.h"
#include "tests/unit/test.h"

#include <pthread.h>

struct add {
    struct job job;
    int in, out;
    pthread_t ran_on;
};

static int order[8], n_done;

static void run(struct job *j)
{
    struct add *a = container_of(j, struct add, job);

    a->out = a->in + 1;
    a->ran_on = pthread_self();
}

static void done(struct job *j)
{
    order[n_done++] = container_of(j, struct add, job)->out;
}

static void test_jobs_run_in_order_elsewhere(void **state)
{
    _cleanup_(loop_freep) struct loop *l = NULL;
    _cleanup_(worker_freep) struct worker *w = NULL;
    struct add jobs[8];

    (void)state;
    assert_ok(loop_new(clock_system(), &l, NULL), NULL);
    assert_ok(worker_new(l, "test", &w, NULL), NULL);
    for (int i = 0; i < 8; i++) {
        jobs[i] = (struct add){.job = {.run = run, .done = done}, .in = i};
        worker_submit(w, &jobs[i].job);
    }
    assert_int_equal(worker_pending(w), 8);
    while (worker_pending(w))
        assert_ok(loop_once(l, 1000, NULL), NULL);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(order[i], i + 1);
        assert_false(pthread_equal(jobs[i].ran_on, pthread_self()));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_jobs_run_in_order_elsewhere)};

    return cmocka_run_group_tests_name("worker", tests, NULL, NULL);
}
