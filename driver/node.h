/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the verb `node`, as they see each other. Everything in it belongs to the main
 * thread, except `hands`, which is the worker's, and what observe.c keeps for its own thread.
 */
#pragma once

#include "driver/claims.h"
#include "driver/pods.h"
#include "driver/publish.h"
#include "kube/dra.h"
#include "kube/nri.h"

#define HOME_WAIT_MS 20000 /* for a VF in a dead namespace; Prepare has 45 s from the kubelet */

struct event_queue;
struct health;
struct observe;
struct prep;
struct provisioning;
struct sandboxes;
struct statuses;

struct node_config {
    const char *name, *driver, *kubeconfig, *pools_file, *kubelet_root, *cdi_dir, *nri_socket,
        *state_dir, *sysroot, *metrics_address, *version, *hook, *hook_dir; /* hook: "" for none */
};

struct node {
    struct node_config c;
    struct loop *loop;
    struct worker *worker;
    struct hands hands;
    struct pools pools;
    struct inventory inv;
    struct api *api;
    struct watch *node_watch;
    char *uid;          /* of the Node object; NULL until seen */
    json_t *labels;     /* of the Node object */
    bool skip_declared; /* the kubelet's gate, from status.declaredFeatures */
    bool told_not_copied;
    unsigned dropped; /* of enum slice_field: what the API server doesn't keep of our slices */
    bool suspicious;  /* a record was damaged: free VFs must look untouched to be offered */
    bool registered;  /* the kubelet's last verdict */
    bool published;   /* once, since the start */
    bool stopping;
    size_t damaged;           /* records */
    struct timer *hold;       /* until slices are published though the kubelet is silent */
    struct timer *review;     /* runs node_review_claims() again after a release that failed */
    VEC(char *) pending_uids; /* of claims that are on their way into `claims` */
    VEC(struct prep *) preps; /* prepare.c: the kubelet's calls under way, by claim, as they came */
    struct claims *claims;
    struct pods *pods;
    struct publish *publish;
    struct observe *observe;
    struct provisioning *provisioning;
    struct sandboxes *sandboxes;
    struct statuses *statuses;
    struct event_queue *events;
    struct health *health;
    struct dra *dra;
    struct nri *nri;
};

/*
 * The whole life of the verb `node`: takes the node's lock, recovers, publishes, serves, registers,
 * and runs until SIGTERM or SIGINT, which it lets finish what is under way. Blocks. `c` is
 * borrowed. -EWOULDBLOCK if another driver serves this node. The signals must be blocked by now.
 */
int node_run(const struct node_config *c, struct err *e);

/* What contract_decide() needs of the node now. Borrowed. */
struct contract_input node_contract_input(struct node *n);

/* prepare.c: the kubelet's calls; a dra_fn. */
void node_dra_call(struct dra_call *call, void *data);

/*
 * Decides an allocation, frees devices that a finished claim still holds, and acquires. fn gets the
 * claim, or the reason. Used by Prepare, and by sandboxes of claims for which none comes.
 * `by_kubelet`: as in the record. Whoever isn't a Prepare call looks at node_is_pending() first.
 */
void node_acquire(struct node *n, const struct allocation *a, bool by_kubelet, int64_t wait_ms,
                  claim_fn *fn, void *data);

/* Whether a claim is on its way into the table. */
bool node_is_pending(const struct node *n, const char *uid);

/* release.c: whether a pod or a sandbox of this node still has the claim. */
bool node_claim_in_use(struct node *n, const struct claim *c);

/* release.c: releases claims without Unprepare whose pods are gone; safe to call at any time. */
void node_review_claims(struct node *n);
