/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver offers in the whole cluster, counted by mode, for a claim that nothing was
 * allocated to. Pure; fed with objects as they are read, it keeps counts and no devices.
 *
 * As the scheduler counts (dynamic-resource-allocation/structured): of a pool the slices of the
 * highest generation, and only if as many of them exist as they say.
 */
#pragma once

#include "driver/live.h"

/* Counts of one mode, as the slices' attribute has it. A device may be in several counts. */
struct supply_count {
    char *mode; /* "?": no such attribute */
    size_t devices;
    size_t allocated;  /* a live claim has it */
    size_t tainted;    /* not allocated, NoSchedule or NoExecute */
    size_t listed;     /* in a slice with skipNodeOperations */
    size_t undeclared; /* listed, where the node doesn't declare DRAOptionalNodeOperations */
    size_t unhonoured; /* of a mode with a list, and it stands in a slice without one */
    size_t free;       /* what the scheduler can give away */
    size_t free_listed;
};
typedef VEC(struct supply_count) supply_count_vec;

struct supply_pool {
    char *name;
    int64_t generation, expected, slices;
    bool declares; /* its node declares DRAOptionalNodeOperations */
    supply_count_vec counts;
};

struct supply {
    VEC(struct supply_pool) pools; /* by name */
};

void supply_done(struct supply *s);

/* Of a slice of the driver; `taken` has the live claims, all of them. */
void supply_see_slice(struct supply *s, const struct live_index *taken, const char *driver,
                      const json_t *slice);
/* After the slices. */
void supply_see_node(struct supply *s, const json_t *node);

/* The sums over all pools that are whole; the caller frees them with supply_count_vec_done(). */
void supply_sum(const struct supply *s, supply_count_vec *ret);
void supply_count_vec_done(supply_count_vec *v);

/* Pools that aren't whole: nothing is allocated from them. */
bool supply_is_whole(const struct supply_pool *p);
