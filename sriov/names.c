/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that includes libpci: what links it is distributed under the GPL, see NOTICE. */
#include "sriov/names.h"

#include "base/str.h"

#include <pci/pci.h>
#include <setjmp.h>
#include <stdio.h>

struct pci_names {
    struct pci_access *access;
    bool failed; /* the list is damaged: don't parse it again */
};

/* libpci's error callback gets no context and must not return. */
static _Thread_local jmp_buf on_error;

static void refuse(char *msg, ...) __attribute__((noreturn, format(printf, 1, 2)));
static void refuse(char *msg, ...)
{
    (void)msg;
    longjmp(on_error, 1);
}

static void be_quiet(char *msg, ...) __attribute__((format(printf, 1, 2)));
static void be_quiet(char *msg, ...)
{
    (void)msg;
}

struct pci_names *pci_names_open(void)
{
    struct pci_names *n = xnew(struct pci_names);

    /* No pci_init(): it looks for hardware, and a look-up of names needs none. */
    n->access = pci_alloc();
    n->access->error = refuse;
    n->access->warning = be_quiet;
    n->access->debug = be_quiet;
    return n;
}

static char *look_up(struct pci_names *n, int what, uint16_t vendor, uint16_t device)
{
    char buf[256];

    if (!n || n->failed)
        return NULL;
    if (setjmp(on_error)) {
        n->failed = true;
        return NULL;
    }
    /* Neither DNS nor udev's database: an inventory must not wait for a network. */
    const char *name =
        pci_lookup_name(n->access, buf, sizeof(buf),
                        what | PCI_LOOKUP_NO_NUMBERS | PCI_LOOKUP_NO_HWDB, vendor, device);
    return xstrdup(name);
}

char *pci_names_vendor(struct pci_names *n, uint16_t vendor)
{
    return look_up(n, PCI_LOOKUP_VENDOR, vendor, 0);
}

char *pci_names_device(struct pci_names *n, uint16_t vendor, uint16_t device)
{
    return look_up(n, PCI_LOOKUP_DEVICE, vendor, device);
}

void pci_names_free(struct pci_names *n)
{
    if (!n)
        return;
    pci_cleanup(n->access);
    free(n);
}
