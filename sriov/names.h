/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of PCI ids. names.c asks libpci, which is GPL-2.0-or-later; names_none.c is built instead
 * where it isn't wanted.
 */
#pragma once

#include <stdint.h>

struct pci_names;

/* NULL if there is no list of ids. Loads the list at the first look-up; free it soon (1 MiB). */
struct pci_names *pci_names_open(void);

/* NULL if unknown; the caller frees it. */
char *pci_names_vendor(struct pci_names *n, uint16_t vendor);
char *pci_names_device(struct pci_names *n, uint16_t vendor, uint16_t device);

void pci_names_free(struct pci_names *n); /* accepts NULL */
