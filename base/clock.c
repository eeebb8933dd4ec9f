/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static int64_t read_ms(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int64_t system_now(struct clock *c)
{
    (void)c;
    return read_ms(CLOCK_BOOTTIME);
}

struct clock *clock_system(void)
{
    static struct clock c = {system_now};

    return &c;
}

void clock_pause_ms(unsigned ms)
{
    const struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000L};

    (void)nanosleep(&ts, NULL);
}

int64_t clock_wall_ms(void)
{
    return read_ms(CLOCK_REALTIME);
}

int64_t clock_mono_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

const char *clock_ms_since(int64_t began_us, char buf[static 24])
{
    int64_t us = clock_mono_us() - began_us;

    snprintf(buf, 24, "%" PRId64 ".%d", us / 1000, (int)(us / 100 % 10));
    return buf;
}

void clock_rfc3339(int64_t wall_ms, char buf[static 21])
{
    time_t t = wall_ms / 1000;
    struct tm tm;

    gmtime_r(&t, &tm);
    strftime(buf, 21, "%Y-%m-%dT%H:%M:%SZ", &tm);
}
