/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that does short blocking work (netlink requests, durable writes) for the main loop, one
 * job after another. A job gets all it needs by value: run() never touches what the main thread
 * owns, and done() runs on the main thread with the result.
 */
#pragma once

#include "base/loop.h"

struct worker;

struct job {
    void (*run)(struct job *j);  /* on the worker; must not fail silently: results are in the job */
    void (*done)(struct job *j); /* on the loop's thread; frees the job */
    struct job *next;            /* the worker's */
    struct worker *worker;       /* the worker's */
};

/* `name` shows in ps (15 characters at most). */
int worker_new(struct loop *l, const char *name, struct worker **ret, struct err *e);

/* Queues a job; the caller keeps it alive until done(). */
void worker_submit(struct worker *w, struct job *j);

/* How many jobs were submitted and haven't had their done() yet. */
unsigned worker_pending(const struct worker *w);

/*
 * Waits for the jobs that were submitted, then ends the thread. done() of those that are still to
 * be delivered never runs, so drain with worker_pending() and loop_once() first.
 */
void worker_free(struct worker *w);
DEFINE_CLEANUP(struct worker, worker_free)
