/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is told as events, and to whom: refusals, repairs, drift, what the cluster doesn't honour.
 * Together with each its metric, where it has one. A good claim makes none. Main thread only.
 *
 * Each may be called before there is a queue (then nothing is told) and as often as a thing
 * happens: the queue sees to repetitions.
 */
#pragma once

#include "driver/node.h"

/* The one that is concerned, by namespace, name and uid. */
struct object_name {
    const char *namespace, *name, *uid;
};

/* A pod's sandbox or container was refused. `claim_uid` NULL: for no claim in particular. */
void events_pod_refused(struct node *n, const struct object_name *pod, const char *claim_uid,
                        const struct err *why);

/* A pod that runs isn't known to have its VFs. */
void events_pod_lacks_vfs(struct node *n, const struct object_name *pod, const char *claim_uid,
                          const struct err *why);

/* A pod had started without its VFs, or with a part of its attachment. */
void events_pod_repaired(struct node *n, const struct object_name *pod);

/*
 * A pod was let go without knowing whether it has a claim of ours. Told of the node: mostly it has
 * none, and one that has is repaired, or told of, when it is known.
 */
void events_pod_unknown(struct node *n);

/* The kubelet's call for a claim failed: told of the claim, and of its pods here. */
void events_call_failed(struct node *n, bool prepare, const struct object_name *claim,
                        const struct err *why);

/* A claim was acquired. Of what it had alternatives for it is told if a later one was allocated. */
void events_acquired(struct node *n, struct claim *c);

/* A PF, a VF or a pool that the driver is to provision, and can't: told of the node. */
void events_not_provisioned(struct node *n, const char *what, const char *why);

/*
 * So many VFs of a pool were found not to be as they should, `f` the first of them, with what is
 * expected and what is found. Told of the node, once for all.
 */
void events_vfs_drifted(struct node *n, const char *pool, const struct vf_fact *f, size_t count);

/* A VF isn't as its live claim was given it: told of the claim and its pods. */
void events_claim_harmed(struct node *n, const struct vf_fact *f);

/* skipNodeOperations is ignored, by the kubelet or else by the API server. */
void events_skip_not_honoured(struct node *n, bool by_kubelet);

/* A claim has no copy of its device's list, for which scheduler or API server are the reason. */
void events_skip_not_copied(struct node *n, const struct allocation *a);

/* The API server drops the taints of devices. */
void events_taints_not_honoured(struct node *n);

/* A pool document that isn't offered. */
void events_pool_invalid(struct node *n, const struct pool_problem *p);

/* A claim's record was set aside. */
void events_record_damaged(struct node *n, const struct store_bad *b);
