/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine on which a verb runs, looked at and not touched: the records of the node driver, and
 * what the kernel says of a VF on both sides, wherever its interface is. Everything blocks.
 */
#pragma once

#include "driver/store.h"
#include "sriov/attach.h"
#include "sriov/inventory.h"

struct local_netns {
    char *path;
    int fd;
};

struct local {
    struct sysroot root;
    struct nl_transport *nl;
    struct inventory inv;
    struct store_content records;
    char *hardware_why; /* the hardware can't be read: why; NULL: `inv` is good */
    char *records_why;  /* the records can't be; NULL: `records` is good */
    bool has_netns;     /* `netns` was filled */
    VEC(struct local_netns) netns;
};

#define LOCAL_INIT                                                                                 \
    {                                                                                              \
        .root.fd = -1                                                                              \
    }

/* What can't be read is said in the `why` texts. */
void local_open(const char *sysroot, const char *state_dir, struct local *ret);
void local_done(struct local *l);

/* NULL: no (good) record. Borrowed. */
const struct record *local_record(const struct local *l, const char *uid);
const struct record *local_record_named(const struct local *l, const char *namespace,
                                        const char *name);
const struct record *local_record_of_device(const struct local *l, const char *device);

/* What the kernel says of one VF. */
struct local_vf {
    char *why;                   /* can't be read: why; NULL: `state` is good */
    struct vf_state state;       /* with `place`, the own side's MAC and MTU are those in the pod */
    char *place;                 /* the network namespace that has it; NULL: ours, or not found */
    struct attach_result in_pod; /* with `place` */
};
void local_vf_done(struct local_vf *v);

/*
 * Looks at the VF at `address` (a PCI address). A VF that isn't home is looked for in every network
 * namespace that has a name in /run/netns or a process; without root only our own can be seen.
 */
void local_look(struct local *l, const char *address, struct local_vf *ret);
