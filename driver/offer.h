/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which devices a node offers: inventory, pools and what was seen of each VF in; devices with their
 * attributes out, each with the slice kind it belongs to. Pure.
 */
#pragma once

#include "driver/contract.h"

/* What is known of a VF besides the inventory. */
struct vf_fact {
    char vf_address[PCI_ADDRESS_SIZE];
    bool in_use;   /* a live claim has it: its place and attributes stay as they were */
    bool verified; /* free and as it should be (Skip: the pool's settings hold; else rest state) */
    char *why;     /* not verified: what differs, for people; NULL otherwise */
};
typedef VEC(struct vf_fact) vf_fact_vec;
void vf_fact_vec_done(vf_fact_vec *v);

struct offer_input {
    struct contract_input contract;
    const vf_fact_vec *facts; /* a VF without a fact isn't verified yet: not offered */
    bool skip_declared;       /* the node declares DRAOptionalNodeOperations */
    bool skip_kept;           /* the API server keeps skipNodeOperations (true until seen not to) */
};

struct device {
    char name[DEVICE_NAME_SIZE];
    bool skip;    /* into a slice with skipNodeOperations ["*"] */
    bool tainted; /* drifted: see `body` */
    json_t *body; /* the slice's device object: name, attributes, taints */
};
typedef VEC(struct device) device_vec;
void device_vec_done(device_vec *v);

/*
 * All devices, sorted by name. A Skip VF that is verified, or in use, on a node where the list is
 * honoured gets `skip`; one that isn't verified leaves the list, tainted sriov-dra.dev/drifted
 * (NoSchedule), `verified: false`. Where the list isn't honoured the same device goes out without
 * it, `skipHonoured: false`.
 */
void offer_devices(const struct offer_input *in, device_vec *ret);
