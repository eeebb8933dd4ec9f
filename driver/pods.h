/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pods of this node and the claims that they name, from a watch on pods with our nodeName: a
 * driver that the kubelet doesn't call finds its claims so. All claims of a cluster are never
 * watched by every node.
 *
 * A claim is fetched by whoever needs it first: Prepare at once, a sandbox at once, else half a
 * second after its pod was seen, which is before its sandbox starts; so it costs one GET.
 */
#pragma once

#include "driver/record.h"
#include "kube/api.h"

struct pods;

struct pod_claim {
    char *name; /* of the ResourceClaim, in the pod's namespace */
    bool fetched;
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

/*
 * Whether a pod of this node that isn't finished has the record's claim: one that it was reserved
 * for, or that names it, as far as is known with this uid and these devices.
 */
bool pods_need_claim(struct pods *p, const struct record *r);

/*
 * GETs a claim; fn gets the object (borrowed), or NULL and the error. What it says also serves the
 * pods that name the claim.
 */
typedef void pods_claim_fn(const json_t *claim, struct err *e, void *data);
void pods_fetch_claim(struct pods *p, const char *namespace, const char *name, int timeout_ms,
                      int retries, pods_claim_fn *fn, void *data);

/*
 * Makes sure that a pod, and all claims that it names, are known: fetched now where they aren't. fn
 * gets the pod, NULL with `e` NULL if there is no such pod (a static pod), or the error.
 */
typedef void pods_pod_fn(const struct pod *p, struct err *e, void *data);
void pods_resolve(struct pods *p, const char *namespace, const char *name, const char *uid,
                  int timeout_ms, pods_pod_fn *fn, void *data);
