/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The live claims of this driver and who holds which device. What takes time runs on the worker
 * with a copy of the record; one thing at a time per claim (`busy`). Main thread only.
 */
#pragma once

#include "base/worker.h"
#include "driver/attempts.h"
#include "driver/hands.h"

struct claim {
    struct record *rec;
    bool busy;         /* a job or a wait is under way; only look */
    char *sandbox_id;  /* where its VFs are now, NULL: at home as far as we know */
    char *pod_uid;     /* with sandbox_id */
    char *netns;       /* with sandbox_id */
    char *complete_in; /* as of the last check: where its attachment was completed; NULL: nowhere */
    bool pods_seen;    /* a pod of it was seen here: that there is none now means that they ended */
    bool asked;        /* without: a reading of the claim is under way, to know */
    bool told;         /* its status has its VFs, or a write of that is on its way */
    bool choice_told;  /* which of its alternatives was allocated */
    bool retry_release;    /* a release that failed: repeated when hardware changes, and by time */
    struct attempts tries; /* of a release: those that failed for more than a VF that isn't home */
};

struct claims;

/* After a claim came or went (`gone`); its record is valid during the call. */
typedef void claims_change_fn(const struct record *rec, bool gone, void *data);

/* `hands` belongs to the worker from now on. */
struct claims *claims_new(struct loop *l, struct worker *w, struct hands *hands,
                          claims_change_fn *changed, void *data);
/* No job may be under way. */
void claims_free(struct claims *cs);
DEFINE_CLEANUP(struct claims, claims_free)

/* Waits for VFs end with the next try: the driver is stopping. */
void claims_stop_waiting(struct claims *cs);

/* Takes the record over. Its uid and devices must be free. */
struct claim *claims_add(struct claims *cs, struct record *rec);

struct claim *claims_find(struct claims *cs, const char *uid);
struct claim *claims_holder(struct claims *cs, const char *device);
struct claim *claims_next(struct claims *cs, const struct claim *after); /* NULL: first */
/* The next claim that is known to be this pod's. */
struct claim *claims_next_of_pod(struct claims *cs, const char *pod_uid, const struct claim *after);

/* The result of an operation. `e` is NULL for success. The claim is NULL if it is gone by now. */
typedef void claim_fn(struct claim *c, struct err *e, void *data);
typedef void claim_attach_fn(struct claim *c, struct err *e, const attachment_vec *result,
                             void *data);

/*
 * Acquires (claim_acquire). While a VF isn't home, tries again until `wait_ms` has passed. If it
 * fails the claim is dropped, unless its journal had to stay.
 */
void claims_acquire(struct claims *cs, struct claim *c, int64_t wait_ms, claim_fn *fn, void *data);

/* Releases and drops the claim; the same wait. On failure the claim stays. `fn` may be NULL. */
void claims_release(struct claims *cs, struct claim *c, int64_t wait_ms, claim_fn *fn, void *data);

/* Moves the VFs into a sandbox, and remembers where they are. */
void claims_attach(struct claims *cs, struct claim *c, const char *sandbox_id, const char *pod_uid,
                   const char *netns, claim_attach_fn *fn, void *data);
/* Moves them home from where they are. */
void claims_detach(struct claims *cs, struct claim *c, claim_fn *fn, void *data);
/* Whether they are in that sandbox already, and how; if so, remembers where they are. */
void claims_check(struct claims *cs, struct claim *c, const char *sandbox_id, const char *pod_uid,
                  const char *netns, claim_attach_fn *fn, void *data);
/* Remembers, until the driver ends, that this pod uses the claim too. */
void claims_add_pod(struct claim *c, const char *pod_uid);
/* Forgets where they are: the sandbox is gone. */
void claims_forget_place(struct claim *c);
