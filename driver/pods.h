/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pods of this node and the claims that they name, from a watch on pods with our nodeName: a
 * driver that the kubelet doesn't call finds its claims so. All claims of a cluster are never
 * watched by every node.
 *
 * A pod's claims are fetched as soon as the pod is seen, which is before its sandbox starts. The
 * same GET serves Prepare, so a claim costs one.
 */
#pragma once

#include "driver/fetch.h"
#include "driver/record.h"
#include "kube/api.h"

struct pods;

struct pod_claim {
    char *name; /* of the ResourceClaim, in the pod's namespace */
    bool fetched;
    int64_t fresh_until;        /* for pods_take_fresh(); 0: taken */
    struct allocation *current; /* NULL: not fetched, gone, or not allocated */
    char *problem;              /* our configuration in it is invalid: why; `current` is NULL */
};

struct pod {
    char *uid, *namespace, *name;
    bool host_network;
    bool finished; /* Succeeded or Failed */
    VEC(struct pod_claim) claims;
};

struct pods_config {
    const char *node, *driver;
    /* The pod came, changed, finished (pod->finished) or went (`gone`). */
    void (*changed)(const struct pod *p, bool gone, void *data);
    /* The list is complete (again). */
    void (*synced)(void *data);
    void *data;
};

struct pods *pods_new(struct loop *l, struct api *a, const struct pods_config *c);
void pods_free(struct pods *p);

/* Who waits for a claim gets -ESHUTDOWN; nothing more is fetched. */
void pods_stop(struct pods *p);
DEFINE_CLEANUP(struct pods, pods_free)

/* Whether the list was complete at least once. */
bool pods_synced(const struct pods *p);

const struct pod *pods_find(struct pods *p, const char *uid);

/* The next pod of this node that names the claim and isn't finished; `after` NULL: the first. */
const struct pod *pods_next_of_claim(struct pods *p, const char *namespace, const char *claim,
                                     const struct pod *after);
/* The pod behind `after`, or the first with NULL; NULL: there is none. Until the next event. */
const struct pod *pods_next(struct pods *p, const struct pod *after);

/*
 * Whether a pod of this node that isn't finished has the record's claim: one that it was reserved
 * for, or that names it, as far as is known with this uid and these devices.
 */
bool pods_need_claim(struct pods *p, const struct record *r);

/* fetch_claim(). What the claim says also serves the pods that name it. */
void pods_fetch_claim(struct pods *p, const char *namespace, const char *name, int timeout_ms,
                      int retries, fetch_fn *fn, void *data);

/*
 * What a claim said, read less than 10 s ago because its pod came to this node, where that can
 * stand for another GET; else NULL. An allocation can't change while the claim is reserved for
 * anybody, so it stands while all pods that it was reserved for are seen here and not finished.
 * That our watch lags behind the kubelet's by a pod's deletion and its claim's new allocation is
 * not excluded by that, hence the 10 s, and only one use of each reading. Borrowed until the next
 * event.
 */
const struct allocation *pods_take_fresh(struct pods *p, const char *namespace, const char *name,
                                         const char *uid);

/*
 * Makes sure that a pod, and all claims that it names, are known: fetched now where they aren't. fn
 * gets the pod, NULL with `e` NULL if there is no such pod (a static pod), or the error.
 */
typedef void pods_pod_fn(const struct pod *p, struct err *e, void *data);
void pods_resolve(struct pods *p, const char *namespace, const char *name, const char *uid,
                  int timeout_ms, pods_pod_fn *fn, void *data);
