/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A publisher between a small API server and a node driver that does what it is told, on a clock
 * that runs ahead of the real one as a test wants.
 */
#pragma once

#include "driver/publish.h"
#include "tests/unit/driver/fake_slices.h"
#include "tests/unit/test.h"

#define PREPARE0 "w1-sriov-dra.dev-prepare-00"
#define SKIP0    "w1-sriov-dra.dev-skip-00"
#define DRIFTED0 "w1-sriov-dra.dev-drifted-00"

struct bench {
    struct loop *loop;
    struct fake_slices *fake;
    struct api *api;
    struct publish *publish;

    const char *kinds; /* what the node offers: see offer() */
    unsigned published, slices, devices;
    int64_t generation;
    unsigned told; /* dropped() calls */
    bool kept, taints_kept;
    bool deaf; /* doesn't act on them */
};

/* For cmocka: `*state` is the bench. */
int bench_setup(void **state);
int bench_teardown(void **state);

#define BENCH_TEST(fn) cmocka_unit_test_setup_teardown(fn, bench_setup, bench_teardown)

/* The process starts anew, that is after publish_free(). */
void start_publisher(struct bench *b);

/* "p" prepare, "s" skip, "d" drifted; skip goes out without the list where it isn't kept,
 * drifted not at all where taints aren't. */
void offer(struct bench *b, const char *kinds);

int64_t bench_now(void);

/* From now on time only runs as a test steps. */
void stop_time(void);

/* Handles what is there, and lets time pass. */
void turn(struct bench *b, int64_t step_ms);

/*
 * Lets that much time pass, in steps in which a few requests find the time to be answered: how
 * often something is tried depends on our pauses only, not on the speed of the machine.
 */
void run(struct bench *b, int64_t ms);

/* Runs until published() has been called `n` times, 20 s at most. */
void run_until_published(struct bench *b, unsigned n);

/* Offers, waits until it is published, and counts anew. */
void begin(struct bench *b, const char *kinds);

/* Requests since then; and the pool was sane after each. */
void expect_writes(struct bench *b, unsigned posts, unsigned puts, unsigned deletes);

json_t *copy_of(struct bench *b, const char *name);
bool has_list(struct bench *b, const char *name);
bool is_whole(struct bench *b, const char *name, size_t devices);

/* Somebody empties a slice of ours. */
void vandalise(struct bench *b, const char *name);
