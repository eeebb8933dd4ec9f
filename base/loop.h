/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop of the main thread: file descriptors (epoll), timers, and calls posted by other
 * threads. Everything but loop_post() belongs to the thread that runs the loop.
 */
#pragma once

#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_io;
struct timer;

/* `clock` is borrowed and decides when timers fire. */
int loop_new(struct clock *clock, struct loop **ret, struct err *e);

/* Every io and timer must have been removed before. Posted calls that didn't run are dropped. */
void loop_free(struct loop *l);
DEFINE_CLEANUP(struct loop, loop_free)

struct clock *loop_clock(struct loop *l);

/* Runs until loop_stop(). */
int loop_run(struct loop *l, struct err *e);

/* Waits at most `timeout_ms` (-1: no limit) and handles what is there: for tests and shutdown. */
int loop_once(struct loop *l, int timeout_ms, struct err *e);

void loop_stop(struct loop *l);

/*
 * Calls fn(fd, events, data) when `fd` has `events` (EPOLLIN, EPOLLOUT ...). The descriptor stays
 * the caller's, who calls loop_io_free() before closing it. A handler may free any io, its own
 * included.
 */
typedef void loop_io_fn(int fd, uint32_t events, void *data);
int loop_io_new(struct loop *l, int fd, uint32_t events, loop_io_fn *fn, void *data,
                struct loop_io **ret, struct err *e);
int loop_io_set(struct loop_io *io, uint32_t events, struct err *e);
void loop_io_free(struct loop_io *io);
DEFINE_CLEANUP(struct loop_io, loop_io_free)

/* A timer fires once, `delay_ms` after timer_set(); setting again moves it. */
typedef void timer_fn(void *data);
struct timer *timer_new(struct loop *l, timer_fn *fn, void *data);
void timer_set(struct timer *t, int64_t delay_ms);
void timer_cancel(struct timer *t);
bool timer_is_set(const struct timer *t);
void timer_free(struct timer *t);
DEFINE_CLEANUP(struct timer, timer_free)

/* Calls fn(data) soon on the loop's thread, in the order of posting. From any thread. */
void loop_post(struct loop *l, void (*fn)(void *data), void *data);

/*
 * Calls fn(signo, data) for the signals of `set`, which the caller has blocked in every thread
 * (before any was started).
 */
int loop_signals(struct loop *l, const int *signals, size_t n, void (*fn)(int signo, void *data),
                 void *data, struct err *e);
