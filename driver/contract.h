/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may be promised, and what a claim gets: the decisions of the contract as pure functions.
 * Inventory, pools and a claim's allocation in; settings and an attachment per device, or a refusal
 * that a user can act on, out.
 */
#pragma once

#include "driver/allocation.h"
#include "driver/pool.h"

#define DEVICE_NAME_SIZE 64

/* "0000:01:10.0" <-> "0000-01-10-0": one name for a VF whatever its mode. */
void device_name(const char *pci_address, char ret[static DEVICE_NAME_SIZE]);
bool device_address(const char *name, char ret[static PCI_ADDRESS_SIZE]);

/* One device of a claim, decided. By value: it goes to another thread and into the record. */
struct grant {
    char *request; /* the main one, as the kubelet wants it, without "/subrequest" */
    char *pool, *device;
    char *share_id;
    char vf_address[PCI_ADDRESS_SIZE], pf_address[PCI_ADDRESS_SIZE];
    unsigned index;
    char *alternative; /* of a prioritised list: the subrequest's own name; NULL: no such list */
    unsigned choice, choices; /* with it: the 2nd of 3 */
    char *pool_document;      /* name of the VirtualFunctionPool */
    enum provisioner set_up_by;
    enum mode mode; /* who owns the settings, frozen with the claim */
    enum attach attach;
    bool may_raise_pf;
    /* Prepare: what to apply. Skip: what must hold, verified at acquire and restored at release. */
    struct vf_settings settings;
    struct interface_request interface;
};
typedef VEC(struct grant) grant_vec;
void grant_done(struct grant *g);
void grant_vec_done(grant_vec *v);

struct contract_input {
    const struct inventory *inv;
    const struct pools *pools;
    const char *node;
    const char *pool_name; /* of our ResourceSlices: the node's name */
    const json_t *labels;  /* the node's; NULL: none */
};

/* Whether a claim's copy lacks of the list that its device's mode stands in a slice with. */
bool contract_lacks_copy(const struct allocated_device *d, enum mode mode);

/*
 * Decides all devices of an allocation. Errors name claim, device and what to do:
 * - pool not this node's; device unknown or not in any pool (any more);
 * - admin access: refused, since it must not touch hardware that another claim uses;
 * - Skip: a setting that was asked and that the pool doesn't already have: names claim, setting,
 *   VF, and that a class selecting mode "Prepare" would do it;
 * - a claim whose copy of the list skips Prepare, on a VF whose pool sets VFs up by now: what it
 * was promised isn't known any more;
 * - interface name or MAC used twice within the claim (count above 1);
 * - interface.mtu above the settings' MTU where that is known.
 * Who holds a device is not decided here.
 */
int contract_decide(const struct contract_input *in, const struct allocation *a, grant_vec *ret,
                    struct err *e);
