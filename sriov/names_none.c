/* SPDX-License-Identifier: Apache-2.0 */
#include "sriov/names.h"

#include <stddef.h>

struct pci_names *pci_names_open(void)
{
    return NULL;
}

char *pci_names_vendor(struct pci_names *n, uint16_t vendor)
{
    (void)n, (void)vendor;
    return NULL;
}

char *pci_names_device(struct pci_names *n, uint16_t vendor, uint16_t device)
{
    (void)n, (void)vendor, (void)device;
    return NULL;
}

void pci_names_free(struct pci_names *n)
{
    (void)n;
}
