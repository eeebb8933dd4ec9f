/* SPDX-License-Identifier: Apache-2.0 */
/* Ethernet MAC addresses: six bytes, compared as bytes and written one way (lower case, colons). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct mac {
    uint8_t b[6];
};

#define MAC_TEXT_SIZE 18

/* Accepts six two-digit groups with ":" or "-", either case. -EINVAL for anything else. */
int mac_parse(const char *text, struct mac *ret);

/* Writes "52:54:00:ab:cd:ef" into `buf` and returns it. */
const char *mac_text(const struct mac *m, char buf[static MAC_TEXT_SIZE]);

static inline bool mac_equal(const struct mac *a, const struct mac *b)
{
    return memcmp(a->b, b->b, sizeof(a->b)) == 0;
}

static inline bool mac_is_zero(const struct mac *m)
{
    return mac_equal(m, &(struct mac){0});
}

/* Whether an interface can have it: unicast and not all zero. */
static inline bool mac_is_assignable(const struct mac *m)
{
    return !(m->b[0] & 1) && !mac_is_zero(m);
}
