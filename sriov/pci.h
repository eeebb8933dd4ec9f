/* SPDX-License-Identifier: Apache-2.0 */
/* Single facts about one PCI function, for the room itself. All calls block on sysfs. */
#pragma once

#include "sriov/sysroot.h"

/*
 * The network interface of a PCI function in the namespace that this sysfs mount shows: its
 * representors of VFs (switchdev) are passed over, and of several ports the lowest is taken.
 * Returns 0 with *ret NULL if it has none here. The caller frees it.
 */
int pci_netdev(const struct sysroot *r, const char *address, char **ret, struct err *e);

/* Mb/s, 0 if unknown: the attribute can't be read while the link is down, or says -1. */
uint32_t netdev_speed(const struct sysroot *r, const char *netdev);
