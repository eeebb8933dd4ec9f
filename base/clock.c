/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

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

int64_t clock_wall_ms(void)
{
    return read_ms(CLOCK_REALTIME);
}

void clock_rfc3339(int64_t wall_ms, char buf[static 21])
{
    time_t t = wall_ms / 1000;
    struct tm tm;

    gmtime_r(&t, &tm);
    strftime(buf, 21, "%Y-%m-%dT%H:%M:%SZ", &tm);
}
