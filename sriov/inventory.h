/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SR-IOV hardware of a node: PFs and their VFs, from sysfs, with vendor and device names from
 * libpci. A snapshot by value; it changes nothing.
 *
 * A PF is a PCI function of class "network" (0x02) with `sriov_totalvfs`. One that can't be read
 * whole is kept with what could be read and a problem text; it never hides the others.
 */
#pragma once

#include "sriov/pci.h"

#include <stdbool.h>
#include <stdint.h>

struct vf {
    char address[PCI_ADDRESS_SIZE];
    unsigned index; /* N of the PF's virtfnN link: the only place that tells it */
    uint16_t vendor_id, device_id;
    char *vendor, *device; /* names, NULL if unknown */
    char *driver;          /* NULL: none bound */
    char *netdev;          /* name in our network namespace; NULL: no netdev, or away in another */
    bool away;             /* its driver made a netdev, which is in another namespace */
    char *rdma_dev;        /* NULL: none */
    int iommu_group;       /* -1: none */
    int numa_node;         /* -1: unknown */
};

struct pf {
    char address[PCI_ADDRESS_SIZE];
    uint16_t vendor_id, device_id;
    char *vendor, *device;
    char *driver, *netdev; /* NULL: none */
    char *rdma_dev;
    char *pcie_root; /* "pci0000:00", as resource.kubernetes.io/pcieRoot wants it */
    int iommu_group, numa_node;
    unsigned total_vfs, num_vfs;
    bool autoprobe;      /* sriov_drivers_autoprobe */
    uint32_t speed_mbps; /* 0: unknown (link down) */
    uint16_t arp_type;   /* of the netdev: ARPHRD_ETHER, ARPHRD_INFINIBAND; 0 without netdev */
    bool up, carrier;    /* administratively up; link seen */
    uint32_t mtu;
    char *problem;      /* what couldn't be read, for people; NULL if nothing */
    VEC(struct vf) vfs; /* sorted by index */
};

struct inventory {
    VEC(struct pf) pfs; /* sorted by PCI address */
};

/* Blocks (sysfs). Fails only if the PCI bus itself can't be listed. */
int inventory_read(const struct sysroot *r, struct inventory *ret, struct err *e);

/* The same of one PF only; -ENODEV if there is none at this address. */
int inventory_read_pf(const struct sysroot *r, const char *address, struct inventory *ret,
                      struct err *e);

/*
 * Fills vendor and device names that are missing; does nothing where libpci or its list is. Blocks:
 * reading the list takes some 10 ms and 1 MiB, which is freed again.
 */
void inventory_fill_names(struct inventory *inv);

/* Takes names from an earlier snapshot, so that a re-read needs no list. */
void inventory_copy_names(struct inventory *inv, const struct inventory *earlier);

/* Makes an empty `inv` one of nothing but ids, for names to be filled in on another thread. */
void inventory_copy_ids(struct inventory *inv, const struct inventory *from);

void inventory_done(struct inventory *inv);

const struct pf *inventory_find_pf(const struct inventory *inv, const char *address);
/* The VF and, in *ret_pf (may be NULL), its PF. */
const struct vf *inventory_find_vf(const struct inventory *inv, const char *address,
                                   const struct pf **ret_pf);
