/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/attempts.h"

/* Less than between two looks at the hardware (3 minutes): what was mended is right by then. */
#define PAUSE_MIN_MS 5000
#define PAUSE_MAX_MS 160000
#define CALM_MS      60000

void attempts_done(struct attempts *a)
{
    free(a->told);
    *a = (struct attempts){0};
}

bool attempts_may(const struct attempts *a, int64_t now, int64_t *soonest)
{
    if (now >= a->next)
        return true;
    if (!*soonest || a->next < *soonest)
        *soonest = a->next;
    return false;
}

void attempts_note(struct attempts *a, int64_t now)
{
    int64_t pause = PAUSE_MIN_MS;

    for (unsigned i = 0; i < a->n && pause < PAUSE_MAX_MS; i++)
        pause *= 2;
    a->n++;
    a->last = now;
    a->next = now + (pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS);
}

void attempts_right(struct attempts *a, int64_t now)
{
    free(TAKE_PTR(a->told));
    if (now - a->last > CALM_MS)
        a->n = 0;
}

bool attempts_news(struct attempts *a, const char *text)
{
    if (streq_null(a->told, text))
        return false;
    free(a->told);
    a->told = xstrdup(text);
    return true;
}
