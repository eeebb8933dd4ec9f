/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which devices a node offers: inventory, pools and what was seen of each VF in; devices with their
 * attributes out, each with the slice kind it belongs to. Pure.
 */
#pragma once

#include "driver/contract.h"
#include "driver/verify.h"

struct offer_input {
    const char *driver; /* its name is the domain of the taint and of attributes without one */
    struct contract_input contract;
    const vf_fact_vec *facts; /* a VF without a fact isn't verified yet: not offered */
    bool skip_declared;       /* the node declares DRAOptionalNodeOperations */
    /* What the API server keeps: true until seen not to. */
    bool lists_kept;  /* skipNodeOperations */
    bool taints_kept; /* without, a VF that isn't verified is left out: nothing would mark it */
};

/* The skipNodeOperations of the slice that a device stands in. */
enum skip_list {
    SKIP_NOTHING,   /* no list */
    SKIP_UNPREPARE, /* ["NodeUnprepareResources"] */
    SKIP_ALL,       /* ["*"] */
};

struct device {
    char name[DEVICE_NAME_SIZE];
    enum skip_list skip;
    bool tainted; /* drifted: see `body` */
    json_t *body; /* the slice's device object: name, attributes, taints */
};
typedef VEC(struct device) device_vec;
void device_vec_done(device_vec *v);

/*
 * All devices, sorted by name. A VF that is verified, on a node where lists are honoured, gets its
 * mode's list. Where they aren't the same device goes out without one, `skipHonoured: false`. One
 * that isn't verified, whatever the mode and whether a claim has it or not, is out of every list,
 * tainted <driver>/drifted, `verified: false`. The taint is NoSchedule; NoExecute, which ends the
 * claim's pods, if the pool says so and the VF isn't any more as its claim was given it. The bodies
 * share values: don't change them.
 *
 * Attributes, all in the driver's domain and all on every device, since CEL fails on a missing key:
 *   mode, attach             as in the pool
 *   setupBy, cleanupBy       "Driver", "External"
 *   verified                 Skip: the pool's settings hold now; else: home and at rest
 *   skipHonoured             the device is in a slice with skipNodeOperations
 *   vfIndex, pfInterface, pfPciAddress, pfDriver, driver, vendor, device (ids, "8086")
 *   linkType                 "ethernet", "infiniband", "" unknown
 *   linkSpeedMbps            of the PF now; 0 while it is unknown or down
 *   rdma                     the VF has an RDMA device
 *   vlan, spoofCheck, trust  Skip: what the pool sets; 0 and false promise nothing
 *   mtu                      Skip: the pool's, 0 if it sets none; else: the PF's
 * Only where known: deviceName, vendorName (if there is room below 24), and
 * resource.kubernetes.io/{pcieRoot,pciBusID,numaNode}. Then the pool's own, at most 8.
 */
void offer_devices(const struct offer_input *in, device_vec *ret);
