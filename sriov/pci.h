/* SPDX-License-Identifier: Apache-2.0 */
/* Single facts about one PCI function. Those that take a sysroot block on sysfs. */
#pragma once

#include "sriov/sysroot.h"

#include <stdbool.h>
#include <stdint.h>

#define PCI_ADDRESS_SIZE 24 /* domains can have 8 hex digits */

/*
 * Whether `text` is a PCI address (4 to 8 hex digits of domain): DDDD:BB:DD.F. Writes the lower
 * case form.
 */
bool pci_address_parse(const char *text, char ret[static PCI_ADDRESS_SIZE]);

/*
 * The network interface of a PCI function in the namespace that this sysfs mount shows: its
 * representors of VFs (switchdev) are passed over, and of several ports the lowest is taken.
 * Returns 0 with *ret NULL if it has none here. The caller frees it.
 */
int pci_netdev(const struct sysroot *r, const char *address, char **ret, struct err *e);

/* Mb/s, 0 if unknown: the attribute can't be read while the link is down, or says -1. */
uint32_t netdev_speed(const struct sysroot *r, const char *netdev);
