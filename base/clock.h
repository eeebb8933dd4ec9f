/* SPDX-License-Identifier: Apache-2.0 */
/* Time, injectable so that a test moves it by hand. All values are milliseconds. */
#pragma once

#include <stdint.h>

struct clock {
    int64_t (*now_ms)(struct clock *c); /* monotonic; only differences mean something */
};

/* CLOCK_BOOTTIME of the kernel: goes on while the machine sleeps. Never NULL; shared. */
struct clock *clock_system(void);

static inline int64_t clock_now(struct clock *c)
{
    return c->now_ms(c);
}

/* Sleeps: for threads that wait for the kernel or another program, never on the main loop. */
void clock_pause_ms(unsigned ms);

/* Wall clock in milliseconds since 1970, for texts and API objects only. */
int64_t clock_wall_ms(void);

/* Microseconds, monotonic: how long something took, for texts. Decisions use a clock above. */
int64_t clock_mono_us(void);

/* What passed since `began_us` in milliseconds, "12.3"; the buffer needs 24 bytes. Returns it. */
const char *clock_ms_since(int64_t began_us, char buf[static 24]);

/* `wall_ms` as RFC 3339 in UTC, "2026-01-02T03:04:05Z"; the buffer needs 21 bytes. */
void clock_rfc3339(int64_t wall_ms, char buf[static 21]);
