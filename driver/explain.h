/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is told of a pod, a claim and a VF, decided from what was read of the API, of the node's
 * records and of its kernel. Pure: the same input gives the same sentences.
 */
#pragma once

#include "driver/explanation.h"
#include "driver/live.h"
#include "driver/local.h"
#include "driver/supply.h"

/* What was seen of one device on its own node. */
struct explain_seen {
    char *device;
    struct local_vf vf;
};
typedef VEC(struct explain_seen) explain_seen_vec;
void explain_seen_vec_done(explain_seen_vec *v);

/* All borrowed. What is NULL wasn't read; who didn't manage to says so in the explanation. */
struct explain_input {
    const char *driver;
    const char *this_node; /* what this machine is taken for */
    const json_t *claim;
    const json_t *slices;        /* array: the driver's, of the pools in question */
    const json_t *node;          /* Node object of the claim or VF */
    const json_t *classes;       /* name: DeviceClass, null: there is none of that name */
    const json_t *pods;          /* array: those that the claim is reserved for, or that name it */
    const struct supply *supply; /* of a claim without allocation */
    /* This machine is the node, and what follows is meant. */
    bool here;
    const struct record *record; /* NULL: there is none */
    const explain_seen_vec *seen;
};

/* Everything about a claim. in->claim must be there. */
void explain_claim(const struct explain_input *in, struct explanation *x);

/* A claim of which only the node's record is known. */
void explain_record(const struct explain_input *in, struct explanation *x);

/*
 * A VF as it is offered, and as it is. `held`: a live claim has it, which is explained by itself.
 * `address` is its PCI address, for people.
 */
void explain_vf(const struct explain_input *in, const char *pool, const char *device,
                const char *address, bool held, struct explanation *x);

/* A pod, but for its claims. `events` (array of core/v1 Events of this pod) may be NULL. */
void explain_pod(const json_t *pod, const json_t *events, struct explanation *x);

/*
 * A claim that a pod has by its spec: the entry's name, and the ResourceClaim's, NULL while it
 * isn't made. Borrowed from the pod.
 */
struct explain_pod_claim {
    const char *entry, *name;
    bool none; /* made, and found to need no claim */
};
typedef VEC(struct explain_pod_claim) explain_pod_claim_vec;
void explain_pod_claims(const json_t *pod, explain_pod_claim_vec *ret);

/* ---- parts that the files share */

/* What a claim asks for. */
void explain_asked(const struct explain_input *in, struct explanation *x);

/* "vlan 100, mtu 1400 (by the class)", added to a list. */
void explain_settings(struct strbuf *b, const struct vf_settings *s, unsigned of_class);

/* The PCI address of a device, or its name where that isn't one of ours. */
const char *explain_address(const char *device, char buf[static PCI_ADDRESS_SIZE]);

/* Where the kernel can be asked: `next` is the command there. */
void explain_not_here(const struct explain_input *in, const char *node, const char *next,
                      struct explanation *x);

/* "s", but for one. */
const char *explain_plural(size_t n);

/* The slice of the highest generation that lists the device; *ret_device is the entry in it. */
const json_t *explain_find_device(const json_t *slices, const char *pool, const char *device,
                                  const json_t **ret_device);

/* What a slice says of a device. */
void explain_offered(const struct explain_input *in, const json_t *slice, const json_t *device,
                     const char *address, struct explanation *x);

/* NULL: it wasn't looked at. */
const struct local_vf *explain_seen_of(const struct explain_input *in, const char *device);

/* What the kernel says of a device of a record, against what was set or promised. */
void explain_kernel(const struct explain_input *in, const struct record_device *d,
                    const char *device, const char *address, struct explanation *x);

/* What keeps a claim from being allocated. */
void explain_pending(const struct explain_input *in, struct explanation *x);
