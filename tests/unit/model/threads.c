/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers without threads, in the place of base/worker.c: a job's run() and its done() are two
 * moments that the model picks, so that what happens on other threads can be put between them.
 */
#include "tests/unit/model/model.h"

#include "base/worker.h"

struct worker {
    bool looks;  /* observe's */
    bool claims; /* the one that works on claims, and on VFs one at a time */
    struct job *queued, **queued_end, *ran, **ran_end;
    unsigned pending;
};

#define WORKERS 6

static struct {
    struct worker *workers[WORKERS];
    struct worker *running; /* whose job is on its thread right now */
    uint64_t look_began, job_began;
    bool look_failed; /* a request of it did */
} t;

int worker_new(struct loop *l, const char *name, struct worker **ret, struct err *e)
{
    struct worker *w = xnew(struct worker);

    (void)l;
    (void)e;
    w->looks = streq(name, "observe");
    w->claims = streq(name, "vf");
    w->queued_end = &w->queued;
    w->ran_end = &w->ran;
    *ret = w;
    for (unsigned i = 0; i < WORKERS; i++)
        if (!t.workers[i]) {
            t.workers[i] = w;
            return 0;
        }
    broken("too many workers");
}

void worker_submit(struct worker *w, struct job *j)
{
    w->pending++;
    j->next = NULL;
    j->worker = w;
    if (w->looks) /* what is held was noted then */
        t.look_began = tick();
    *w->queued_end = j;
    w->queued_end = &j->next;
}

unsigned worker_pending(const struct worker *w)
{
    return w->pending;
}

void worker_free(struct worker *w)
{
    if (w->queued || w->ran)
        broken("a worker is freed with work on it");
    for (unsigned i = 0; i < WORKERS; i++)
        if (t.workers[i] == w)
            t.workers[i] = NULL;
    free(w);
}

static bool run_job(struct worker *w)
{
    struct job *j = w ? w->queued : NULL;

    if (!j || t.running == w)
        return false;
    struct worker *before = t.running;
    w->queued = j->next;
    if (!w->queued)
        w->queued_end = &w->queued;
    if (w->looks)
        t.look_failed = false;
    else if (w->claims)
        t.job_began = tick();
    t.running = w;
    j->run(j);
    t.running = before;
    j->next = NULL;
    *w->ran_end = j;
    w->ran_end = &j->next;
    return true;
}

static bool deliver_job(struct worker *w)
{
    struct job *j = w ? w->ran : NULL;

    if (!j)
        return false;
    w->ran = j->next;
    if (!w->ran)
        w->ran_end = &w->ran;
    w->pending--;
    if (w->looks && t.look_failed)
        oracle_look_failed();
    else if (w->looks)
        oracle_looked(t.look_began);
    j->done(j);
    return true;
}

bool threads_run_some(void)
{
    return run_job(t.workers[below(&m.rng, WORKERS)]);
}

bool threads_deliver_some(void)
{
    return deliver_job(t.workers[below(&m.rng, WORKERS)]);
}

bool threads_deliver_any(void)
{
    for (unsigned i = 0; i < WORKERS; i++)
        if (deliver_job(t.workers[i]))
            return true;
    return false;
}

bool threads_run_any(void)
{
    for (unsigned i = 0; i < WORKERS; i++)
        if (run_job(t.workers[i]))
            return true;
    return false;
}

bool threads_looking(void)
{
    return t.running && t.running->looks;
}

void threads_look_failed(void)
{
    t.look_failed = true;
}

uint64_t threads_job_began(void)
{
    return t.job_began;
}

void threads_reset(void)
{
    memset(&t, 0, sizeof(t));
    t.job_began = tick();
}
