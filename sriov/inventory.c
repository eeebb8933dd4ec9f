/* SPDX-License-Identifier: Apache-2.0 */
#include "sriov/inventory.h"

#include "sriov/names.h"
#include "sriov/pci.h"

#include <errno.h>
#include <limits.h>
#include <linux/if.h>
#include <stdio.h>

#define DEVICES           "sys/bus/pci/devices"
#define PCI_CLASS_NETWORK 0x02

/* What couldn't be read goes into the PF's problem text; the first few say enough. */
static void add_problem(struct pf *pf, const char *text)
{
    char *more = pf->problem ? xasprintf("%s; %s", pf->problem, text) : xstrdup(text);

    free(pf->problem);
    pf->problem = more;
}

static int64_t pf_number(const struct sysroot *r, struct pf *pf, const char *attribute, int64_t max)
{
    _cleanup_err_ struct err e = ERR_INIT;
    int64_t value = 0;

    if (sysroot_read_int(r, &value, &e, DEVICES "/%s/%s", pf->address, attribute) < 0) {
        add_problem(pf, err_text(&e));
        return 0;
    }
    if (value < 0 || value > max) {
        _cleanup_free_ char *text = xasprintf("%s: %lld", attribute, (long long)value);
        add_problem(pf, text);
        return 0;
    }
    return value;
}

static int64_t number_or(const struct sysroot *r, int64_t fallback, const char *address,
                         const char *attribute)
{
    int64_t value;

    if (sysroot_read_int(r, &value, NULL, DEVICES "/%s/%s", address, attribute) < 0)
        return fallback;
    return value;
}

/* The name of what `link` of the function points to; NULL if there is no such link. */
static char *linked(const struct sysroot *r, const char *address, const char *link)
{
    char *name = NULL;

    (void)sysroot_link_name(r, &name, NULL, DEVICES "/%s/%s", address, link);
    return name;
}

static int iommu_group(const struct sysroot *r, const char *address)
{
    _cleanup_free_ char *name = linked(r, address, "iommu_group");
    uint64_t group;

    return name && parse_u64(name, 10, INT_MAX, &group) == 0 ? (int)group : -1;
}

static int numa_node(const struct sysroot *r, const char *address)
{
    int64_t node = number_or(r, -1, address, "numa_node");

    return node >= 0 && node <= INT_MAX ? (int)node : -1;
}

static char *rdma_device(const struct sysroot *r, const char *address)
{
    _cleanup_(name_vec_done) name_vec names = {0};

    if (sysroot_list(r, &names, NULL, DEVICES "/%s/infiniband", address) < 0 || names.n == 0)
        return NULL;
    return xstrdup(names.v[0]);
}

/*
 * The host bridge: "pci0000:00" of sys/devices/pci0000:00/0000:00:1c.0/...; where it hangs below a
 * platform device (many ARM machines) it isn't the first component.
 */
static char *pcie_root(const struct sysroot *r, const char *address)
{
    _cleanup_free_ char *path = NULL;
    char *save = NULL;

    if (sysroot_realpath(r, &path, NULL, DEVICES "/%s", address) < 0)
        return NULL;
    for (char *part = strtok_r(path, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
        const char *domain = str_skip(part, "pci");
        size_t digits = domain ? strspn(domain, "0123456789abcdefABCDEF") : 0;

        if (digits >= 4 && domain[digits] == ':')
            return xstrdup(part);
    }
    return NULL;
}

/* False if the VF is gone or is no PCI function: it went while we were looking. */
static bool read_vf(const struct sysroot *r, const char *pf_address, const char *link,
                    unsigned index, struct vf *ret)
{
    _cleanup_free_ char *target = linked(r, pf_address, link);
    int64_t vendor, device;

    *ret = (struct vf){.index = index};
    if (!target || !pci_address_parse(target, ret->address))
        return false;
    vendor = number_or(r, -1, ret->address, "vendor");
    device = number_or(r, -1, ret->address, "device");
    if (vendor < 0 || device < 0)
        return false;
    ret->vendor_id = (uint16_t)vendor;
    ret->device_id = (uint16_t)device;
    ret->driver = linked(r, ret->address, "driver");
    (void)pci_netdev(r, ret->address, &ret->netdev, NULL);
    /* The folder stays when the netdev moves; what is in it is shown to its own namespace only. */
    ret->away = !ret->netdev && sysroot_exists(r, DEVICES "/%s/net", ret->address);
    ret->rdma_dev = rdma_device(r, ret->address);
    ret->iommu_group = iommu_group(r, ret->address);
    ret->numa_node = numa_node(r, ret->address);
    return true;
}

static int by_index(const void *a, const void *b)
{
    const struct vf *x = a, *y = b;

    return (x->index > y->index) - (x->index < y->index);
}

static void read_vfs(const struct sysroot *r, struct pf *pf)
{
    _cleanup_(name_vec_done) name_vec names = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    if (sysroot_list(r, &names, &e, DEVICES "/%s", pf->address) < 0) {
        add_problem(pf, err_text(&e));
        return;
    }
    vec_foreach (name, &names) {
        const char *digits = str_skip(*name, "virtfn");
        uint64_t index;
        struct vf vf;

        if (!digits || parse_u64(digits, 10, UINT16_MAX, &index) < 0)
            continue;
        if (read_vf(r, pf->address, *name, (unsigned)index, &vf))
            *VEC_PUSH(&pf->vfs) = vf;
    }
    if (pf->vfs.n)
        qsort(pf->vfs.v, pf->vfs.n, sizeof(*pf->vfs.v), by_index);
}

static void read_pf_netdev(const struct sysroot *r, struct pf *pf)
{
    _cleanup_err_ struct err e = ERR_INIT;
    int64_t value;

    if (pci_netdev(r, pf->address, &pf->netdev, &e) < 0)
        add_problem(pf, err_text(&e));
    if (!pf->netdev)
        return;
    pf->speed_mbps = netdev_speed(r, pf->netdev);
    if (sysroot_read_int(r, &value, &e, "sys/class/net/%s/type", pf->netdev) < 0)
        add_problem(pf, err_text(&e));
    else
        pf->arp_type = (uint16_t)value;
    if (sysroot_read_int(r, &value, &e, "sys/class/net/%s/mtu", pf->netdev) < 0)
        add_problem(pf, err_text(&e));
    else
        pf->mtu = (uint32_t)value;
    if (sysroot_read_int(r, &value, &e, "sys/class/net/%s/flags", pf->netdev) < 0)
        add_problem(pf, err_text(&e));
    else
        pf->up = value & IFF_UP;
    /* EINVAL while the interface is down. */
    if (sysroot_read_int(r, &value, NULL, "sys/class/net/%s/carrier", pf->netdev) == 0)
        pf->carrier = value == 1;
}

static bool is_pf(const struct sysroot *r, const char *address)
{
    return number_or(r, 0, address, "class") >> 16 == PCI_CLASS_NETWORK &&
           sysroot_exists(r, DEVICES "/%s/sriov_totalvfs", address);
}

static void read_pf(const struct sysroot *r, const char *address, struct pf *pf)
{
    snprintf(pf->address, sizeof(pf->address), "%s", address);
    pf->vendor_id = (uint16_t)pf_number(r, pf, "vendor", UINT16_MAX);
    pf->device_id = (uint16_t)pf_number(r, pf, "device", UINT16_MAX);
    pf->total_vfs = (unsigned)pf_number(r, pf, "sriov_totalvfs", UINT16_MAX);
    pf->num_vfs = (unsigned)pf_number(r, pf, "sriov_numvfs", UINT16_MAX);
    pf->autoprobe = number_or(r, 1, pf->address, "sriov_drivers_autoprobe") != 0;
    pf->driver = linked(r, pf->address, "driver");
    pf->rdma_dev = rdma_device(r, pf->address);
    pf->pcie_root = pcie_root(r, pf->address);
    pf->iommu_group = iommu_group(r, pf->address);
    pf->numa_node = numa_node(r, pf->address);
    read_pf_netdev(r, pf);
    read_vfs(r, pf);
}

/* By number and not by text: a domain of five digits comes after all of four. */
static int by_address(const void *a, const void *b)
{
    const struct pf *x = a, *y = b;
    size_t m = strlen(x->address), n = strlen(y->address);

    return m != n ? (m > n) - (m < n) : strcmp(x->address, y->address);
}

int inventory_read(const struct sysroot *r, struct inventory *ret, struct err *e)
{
    _cleanup_(name_vec_done) name_vec names = {0};
    struct inventory inv = {0};

    int k = sysroot_list(r, &names, e, DEVICES);
    if (k < 0)
        return err_prefix(e, k, "listing PCI devices");
    vec_foreach (name, &names) {
        char address[PCI_ADDRESS_SIZE];

        if (pci_address_parse(*name, address) && is_pf(r, address))
            read_pf(r, address, VEC_PUSH(&inv.pfs));
    }
    if (inv.pfs.n)
        qsort(inv.pfs.v, inv.pfs.n, sizeof(*inv.pfs.v), by_address);
    *ret = inv;
    return 0;
}

int inventory_read_pf(const struct sysroot *r, const char *address, struct inventory *ret,
                      struct err *e)
{
    struct inventory inv = {0};

    if (!is_pf(r, address))
        return err_set(e, ERR_PERMANENT, -ENODEV, "there is no PF at %s (any more)", address);
    read_pf(r, address, VEC_PUSH(&inv.pfs));
    *ret = inv;
    return 0;
}

static void fill(struct pci_names **names, uint16_t vendor_id, uint16_t device_id, char **vendor,
                 char **device)
{
    if (*vendor && *device)
        return;
    if (!*names)
        *names = pci_names_open();
    if (!*vendor)
        *vendor = pci_names_vendor(*names, vendor_id);
    if (!*device)
        *device = pci_names_device(*names, vendor_id, device_id);
}

void inventory_fill_names(struct inventory *inv)
{
    struct pci_names *names = NULL; /* opened by the first that lacks a name */

    vec_foreach (pf, &inv->pfs) {
        fill(&names, pf->vendor_id, pf->device_id, &pf->vendor, &pf->device);
        vec_foreach (vf, &pf->vfs)
            fill(&names, vf->vendor_id, vf->device_id, &vf->vendor, &vf->device);
    }
    pci_names_free(names);
}

static void copy_name(char **to, const char *from)
{
    if (!*to)
        *to = xstrdup(from);
}

/* Looks for the same ids anywhere in `earlier`: the VFs of a PF are all alike. */
static void copy_names(uint16_t vendor_id, uint16_t device_id, char **vendor, char **device,
                       const struct inventory *earlier)
{
    vec_foreach (pf, &earlier->pfs) {
        if (pf->vendor_id == vendor_id)
            copy_name(vendor, pf->vendor);
        if (pf->vendor_id == vendor_id && pf->device_id == device_id)
            copy_name(device, pf->device);
        vec_foreach (vf, &pf->vfs) {
            if (*vendor && *device)
                return;
            if (vf->vendor_id == vendor_id)
                copy_name(vendor, vf->vendor);
            if (vf->vendor_id == vendor_id && vf->device_id == device_id)
                copy_name(device, vf->device);
        }
    }
}

void inventory_copy_names(struct inventory *inv, const struct inventory *earlier)
{
    vec_foreach (pf, &inv->pfs) {
        copy_names(pf->vendor_id, pf->device_id, &pf->vendor, &pf->device, earlier);
        vec_foreach (vf, &pf->vfs)
            copy_names(vf->vendor_id, vf->device_id, &vf->vendor, &vf->device, earlier);
    }
}

void inventory_copy_ids(struct inventory *inv, const struct inventory *from)
{
    vec_foreach (pf, &from->pfs) {
        struct pf *to = VEC_PUSH(&inv->pfs);

        to->vendor_id = pf->vendor_id;
        to->device_id = pf->device_id;
        vec_foreach (vf, &pf->vfs)
            *VEC_PUSH(&to->vfs) =
                (struct vf){.vendor_id = vf->vendor_id, .device_id = vf->device_id};
    }
}

void inventory_done(struct inventory *inv)
{
    vec_foreach (pf, &inv->pfs) {
        vec_foreach (vf, &pf->vfs) {
            free(vf->vendor);
            free(vf->device);
            free(vf->driver);
            free(vf->netdev);
            free(vf->rdma_dev);
        }
        free(pf->vfs.v);
        free(pf->vendor);
        free(pf->device);
        free(pf->driver);
        free(pf->netdev);
        free(pf->rdma_dev);
        free(pf->pcie_root);
        free(pf->problem);
    }
    free(inv->pfs.v);
    *inv = (struct inventory){0};
}

const struct pf *inventory_find_pf(const struct inventory *inv, const char *address)
{
    vec_foreach (pf, &inv->pfs) {
        if (streq(pf->address, address))
            return pf;
    }
    return NULL;
}

const struct vf *inventory_find_vf(const struct inventory *inv, const char *address,
                                   const struct pf **ret_pf)
{
    vec_foreach (pf, &inv->pfs) {
        vec_foreach (vf, &pf->vfs) {
            if (!streq(vf->address, address))
                continue;
            if (ret_pf)
                *ret_pf = pf;
            return vf;
        }
    }
    return NULL;
}
