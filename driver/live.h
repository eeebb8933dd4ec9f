/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live claim: a ResourceClaim with devices of this driver allocated to it; which calls the
 * kubelet makes for it, and what it still needs from the node driver. Pure.
 *
 * The calls follow from the list that the scheduler copied into the claim
 * (status.allocation.devices.results[].skipNodeOperations), which no later change of the slices
 * touches. Kubernetes 1.37.2 (pkg/kubelet/cm/dra/claiminfo.go, computeDriverStates): a call is
 * skipped only if every device of the driver in the claim skips it, and by "*" or its own name; a
 * value that the kubelet doesn't know skips nothing.
 */
#pragma once

#include "base/json.h"
#include "base/str.h"

/* What one device's copy of the list means. */
enum frozen {
    FROZEN_PREPARE,       /* no list */
    FROZEN_DEFER_CLEANUP, /* Unprepare alone is skipped */
    FROZEN_SKIP,          /* both are, by "*" or by name */
    FROZEN_OTHER,         /* a value that we don't know, or Prepare alone: shown as it is */
};

/* Who attaches a device, as its slices have it. */
enum live_attach {
    LIVE_ATTACH_UNSEEN, /* no slice lists the device */
    LIVE_ATTACH_DRIVER,
    LIVE_ATTACH_OTHERS,  /* CNI, None */
    LIVE_ATTACH_UNKNOWN, /* a slice lists it, and doesn't say, or says what we don't know */
};

struct live_device {
    char *request, *pool, *device;
    json_t *skip; /* the list, NULL: none */
    enum frozen frozen;
    /* status.devices has its network: the driver did attach it, whatever the slices say by now. */
    bool told;
    enum live_attach attach; /* as live_see_slice() found it */
    char *attach_text;       /* "NRI", "CNI", "None"; NULL: not known */
};

struct live_consumer {
    char *resource; /* "pods" */
    char *name, *uid;
};

/* Of the node of a claim: whether it declares DRAOptionalNodeOperations. */
enum live_node {
    LIVE_NODE_UNSEEN,
    LIVE_NODE_DECLARES,
    LIVE_NODE_SILENT, /* its kubelet doesn't know the list, or its gate is off */
};

struct live_claim {
    char *namespace, *name, *uid;
    char *created; /* RFC 3339; NULL: unknown */
    char *node;
    bool deleted;                           /* deletionTimestamp is set */
    bool calls_prepare, calls_unprepare;    /* the kubelet makes this call */
    VEC(struct live_device) devices;        /* of our driver; never empty */
    VEC(struct live_consumer) reserved_for; /* pods, and what else the scheduler knows */
    enum live_node node_state;              /* as live_see_node() found it */
};
typedef VEC(struct live_claim) live_claim_vec;

void live_claim_done(struct live_claim *c);
void live_claim_vec_done(live_claim_vec *v);

/*
 * Reads a claim. Returns 1 if it is live and has devices of ours, 0 if not (`ret` is untouched).
 * -EBADMSG for one that lacks what the API server makes sure of. Configuration isn't looked at.
 */
int live_claim_read(const json_t *claim, const char *driver, struct live_claim *ret, struct err *e);

/* Whether anything in it says that it is on this node. */
bool live_claim_on(const struct live_claim *c, const char *node);

/* "Prepare", "DeferCleanup", "Skip"; FROZEN_OTHER as its list. The caller frees it. */
char *live_mode_text(const struct live_device *d);
/* The same of a whole claim: "Prepare+Skip" where its devices differ. The caller frees it. */
char *live_claim_mode_text(const struct live_claim *c);

/*
 * What slices of the driver and Node objects say of claims, noted as they are read. Building sorts
 * the claims by node, namespace and name; they mustn't move until live_index_done().
 *
 * Of two slices that differ about a device (a pool that is being rewritten) the one counts by which
 * the driver is needed.
 */
struct live_index {
    live_claim_vec *claims;
    VEC(struct live_device *) devices; /* by pool and name */
};
void live_index_build(live_claim_vec *claims, struct live_index *ret);
void live_index_done(struct live_index *ix);
void live_see_slice(struct live_index *ix, const char *driver, const json_t *slice);
void live_see_node(struct live_index *ix, const json_t *node);

/* Whether one of the claims has the device. */
bool live_index_has(const struct live_index *ix, const char *pool, const char *device);

/* Whether a Node object declares the feature by which its kubelet honours the list. */
bool live_node_declares(const json_t *node);

/* Bits of what a live claim still needs from the node driver. */
enum live_need {
    LIVE_NEEDS_PREPARE = 1 << 0,    /* a NodePrepareResources may still come */
    LIVE_NEEDS_UNPREPARE = 1 << 1,  /* a NodeUnprepareResources will come */
    LIVE_NEEDS_ATTACHMENT = 1 << 2, /* a sandbox that starts, or is made anew */
    LIVE_NEEDS_CLEANUP = 1 << 3,    /* the VF put back when its pods are gone */
    LIVE_NEEDS_UNKNOWN = 1 << 4,    /* it can't be told, so it counts as needed */
};

/* Whether live_needs() depends on what the claim's node declares. */
bool live_asks_node(const struct live_claim *c);

/*
 * What it needs; 0: nothing. `why` (may be NULL) gets a clause a reason, for people. A device or
 * node that wasn't seen counts as gone from the API.
 */
unsigned live_needs(const struct live_claim *c, struct strbuf *why);

/* "Prepare", "Unprepare", "Attachment", "CleanUp", "Unknown". */
const char *live_need_text(enum live_need bit);
/* In order of the bits: for those who go through them. */
#define LIVE_NEEDS_LAST LIVE_NEEDS_UNKNOWN

/* A node selector that names one node (what the scheduler writes for a device of a node), or NULL.
 */
const char *live_selected_node(const json_t *node_selector);

/* The value of a device's attribute in the driver's domain, by either way to write its name. */
const json_t *live_attribute(const json_t *device, const char *driver, const char *name);
