/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the API has of our ResourceSlices, as far as we know: from the watch, and from the answers
 * to our own writes, which are ahead of it. Never goes back in time: an event that is older than
 * what is known is passed over, so that an own write isn't done twice. Pure.
 */
#pragma once

#include "driver/slices.h"

/* Zero-initialised is empty. */
struct slice_cache {
    json_vec slices;     /* without managedFields */
    json_t *listed;      /* names seen since the list began; NULL: no list is under way */
    VEC(char *) deleted; /* uids whose deletion we know from an answer; events may lag behind */
};

void slice_cache_done(struct slice_cache *c);

/* A list begins, and is complete: what wasn't put in between is gone. */
void slice_cache_list_begin(struct slice_cache *c);
void slice_cache_list_end(struct slice_cache *c);

/*
 * A slice as the server has it. False if that was known already, or is older than what is known.
 * `o` is copied where it is changed; the rest is shared.
 */
bool slice_cache_put(struct slice_cache *c, json_t *o);

/*
 * A slice is gone: `o` is its last state as a watch tells it (its resourceVersion is that of the
 * deletion). False if that was known, or if another one of that name has come since.
 */
bool slice_cache_deleted(struct slice_cache *c, const json_t *o);

/*
 * Our own request found, or left, no slice of that name. With its uid (may be NULL) events about it
 * that are still on their way are passed over.
 */
void slice_cache_gone(struct slice_cache *c, const char *name, const char *uid);

/*
 * Uses the wanted slices' devices in place of equal ones of our own: 256 VFs as the server sends
 * them are 3.5 MiB of JSON objects, and 1 MiB as offer_devices() makes them.
 */
void slice_cache_share(struct slice_cache *c, const json_vec *wanted);
