/* SPDX-License-Identifier: Apache-2.0 */
#include "sriov/pci.h"

#include <errno.h>
#include <stdio.h>
#include <strings.h>

bool pci_address_parse(const char *text, char ret[static PCI_ADDRESS_SIZE])
{
    unsigned long domain;
    unsigned bus, slot, function;
    size_t digits = strspn(text, "0123456789abcdefABCDEF");
    char canonical[PCI_ADDRESS_SIZE];

    if (digits < 4 || digits > 8 ||
        sscanf(text, "%8lx:%2x:%2x.%1x", &domain, &bus, &slot, &function) != 4 || slot > 0x1f ||
        function > 7)
        return false;
    snprintf(canonical, sizeof(canonical), "%04lx:%02x:%02x.%x", domain, bus, slot, function);
    /* scanf takes white space, signs and fewer digits: the part behind the domain must be equal. */
    if (strcasecmp(strchr(canonical, ':'), text + digits) != 0)
        return false;
    memcpy(ret, canonical, sizeof(canonical));
    return true;
}

/*
 * In switchdev mode the representors of VFs and sub-functions are children of the PF as well. The
 * kernel names their ports "pf0vf3", "c1pf0vf3", "pf0sf1"; an uplink's is "p0", and a NIC without
 * switchdev has no port name (the read fails).
 */
static bool is_representor(const struct sysroot *r, const char *netdev)
{
    _cleanup_free_ char *port = NULL;
    unsigned a, b, c;
    char kind[3];

    if (sysroot_read(r, &port, NULL, "sys/class/net/%s/phys_port_name", netdev) < 0)
        return false;
    return sscanf(port, "pf%u%2[vsf]%u", &a, kind, &b) == 3 ||
           sscanf(port, "c%upf%u%2[vsf]%u", &a, &b, kind, &c) == 4;
}

int pci_netdev(const struct sysroot *r, const char *address, char **ret, struct err *e)
{
    _cleanup_(name_vec_done) name_vec names = {0};
    _cleanup_err_ struct err why = ERR_INIT;
    int64_t best_port = INT64_MAX;
    char *best = NULL;

    int k = sysroot_list(r, &names, &why, "sys/bus/pci/devices/%s/net", address);
    if (k < 0 && k != -ENOENT)
        return err_move(e, &why);
    vec_foreach (name, &names) {
        int64_t port = 0;

        /* The common case: one, which can't be the representor of something without a PF. */
        if (names.n == 1) {
            best = *name;
            break;
        }
        if (is_representor(r, *name))
            continue;
        /* Some NICs have two ports on one function; the attribute is older than all of them. */
        (void)sysroot_read_int(r, &port, NULL, "sys/class/net/%s/dev_port", *name);
        if (port < best_port) {
            best_port = port;
            best = *name;
        }
    }
    *ret = xstrdup(best);
    return 0;
}

uint32_t netdev_speed(const struct sysroot *r, const char *netdev)
{
    int64_t speed;

    if (sysroot_read_int(r, &speed, NULL, "sys/class/net/%s/speed", netdev) < 0)
        return 0;
    return speed > 0 && speed < UINT32_MAX ? (uint32_t)speed : 0;
}
