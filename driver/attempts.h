/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Something that is tried again and again while it fails, with growing pauses, and told once. Times
 * are milliseconds of one clock, which the caller reads. Pure.
 */
#pragma once

#include "base/str.h"

/* Zero-initialised: nothing was tried. */
struct attempts {
    unsigned n;
    int64_t last, next; /* `next`: not again before */
    char *told;
};
void attempts_done(struct attempts *a);

/*
 * Whether it may be tried now. If not, *soonest becomes the time when it may, if that is before
 * what it was, or it was 0.
 */
bool attempts_may(const struct attempts *a, int64_t now, int64_t *soonest);

/* It is tried now; the next time not before 5 s, and twice that each time, 160 s at most. */
void attempts_note(struct attempts *a, int64_t now);

/* It is right, be it by itself: after a minute the next fault is a new one. */
void attempts_right(struct attempts *a, int64_t now);

/* Whether what is to be told differs from what was told last. */
bool attempts_news(struct attempts *a, const char *text);
