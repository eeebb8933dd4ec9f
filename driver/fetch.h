/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GETs of ResourceClaims, one at a time per claim: who asks while one is under way shares its
 * answer. Main thread only.
 */
#pragma once

#include "kube/api.h"

struct fetches;

/* A claim that was read; `claim` NULL: there is none of that name. Called before those who asked.
 */
typedef void fetch_seen_fn(const char *namespace, const char *name, const json_t *claim,
                           void *data);

struct fetches *fetches_new(struct api *a, fetch_seen_fn *seen, void *data);
void fetches_free(struct fetches *f);

/* All who wait, and all who ask from now on, get -ESHUTDOWN. */
void fetches_stop(struct fetches *f);

/*
 * fn gets the object (borrowed), or NULL and the error, which names the claim: -ENOENT if there is
 * none. It is never called from in here, but for -ESHUTDOWN. The time-out of each try and the
 * retries are those of who asked first.
 */
typedef void fetch_fn(const json_t *claim, struct err *e, void *data);
void fetch_claim(struct fetches *f, const char *namespace, const char *name, int timeout_ms,
                 int retries, fetch_fn *fn, void *data);

/* Who asked with this `data` waits no longer: fn isn't called. */
void fetch_forget(struct fetches *f, const void *data);
