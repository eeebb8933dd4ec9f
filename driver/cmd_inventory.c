/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/cmd_inventory.h"

#include "driver/cli.h"
#include "driver/table.h"

#include <getopt.h>
#include <net/if_arp.h>

/* A table of a PF's VFs. */
static const char *const headings[] = {"VF", "ADDRESS", "INTERFACE", "DRIVER", "IOMMU", "RDMA"};

/* What isn't there is "-", or `absent` where more can be said. */
static void add_or(struct table *t, const char *text, const char *absent)
{
    table_add(t, text ? TINT_PLAIN : TINT_DIM, xstrdup(text ? text : absent ? absent : "-"));
}

static void print_vfs(FILE *f, const struct pf *pf, bool colour)
{
    _cleanup_(table_done) struct table t = {
        .columns = ARRAY_SIZE(headings), .right = 1 << 0, .indent = 2};

    table_headings(&t, headings);
    vec_foreach (vf, &pf->vfs) {
        char group[16] = "";

        if (vf->iommu_group >= 0)
            snprintf(group, sizeof(group), "%d", vf->iommu_group);
        table_add(&t, TINT_PLAIN, xasprintf("%u", vf->index));
        table_add(&t, TINT_PLAIN, xstrdup(vf->address));
        add_or(&t, vf->netdev, vf->away ? "(away)" : NULL);
        add_or(&t, vf->driver, NULL);
        add_or(&t, group[0] ? group : NULL, NULL);
        add_or(&t, vf->rdma_dev, NULL);
    }
    table_print(f, &t, colour);
}

/* "Intel Corporation 82576 Gigabit Network Connection [8086:10c9]" */
static char *model(const char *vendor, const char *device, uint16_t vendor_id, uint16_t device_id)
{
    return xasprintf("%s%s%s%s[%04x:%04x]", vendor ? vendor : "", vendor ? " " : "",
                     device ? device : "", device ? " " : "", vendor_id, device_id);
}

static char *speed_text(uint32_t mbps)
{
    if (mbps < 1000)
        return xasprintf("%u Mb/s", mbps);
    return mbps % 1000 ? xasprintf("%u.%u Gb/s", mbps / 1000, mbps % 1000 / 100)
                       : xasprintf("%u Gb/s", mbps / 1000);
}

static void print_link(FILE *f, const struct pf *pf, bool colour)
{
    enum tint t = pf->up && pf->carrier ? TINT_PLAIN : TINT_WARN;

    if (!pf->netdev)
        return;
    fputs(", ", f);
    if (!pf->up) {
        fprintf(f, "%sdown%s", tint_on(t, colour), tint_off(t, colour));
    } else if (!pf->carrier) {
        fprintf(f, "%sup, no link%s", tint_on(t, colour), tint_off(t, colour));
    } else {
        _cleanup_free_ char *speed = pf->speed_mbps ? speed_text(pf->speed_mbps) : NULL;
        fprintf(f, "up%s%s", speed ? ", " : "", speed ? speed : "");
    }
    fprintf(f, ", MTU %u", pf->mtu);
    if (pf->arp_type == ARPHRD_INFINIBAND)
        fputs(", InfiniBand", f);
}

static void print_pf(FILE *f, const struct pf *pf, bool colour)
{
    _cleanup_free_ char *text = model(pf->vendor, pf->device, pf->vendor_id, pf->device_id);

    fprintf(f, "%s%s%s  %s  %s\n", tint_on(pf->netdev ? TINT_BOLD : TINT_WARN, colour),
            pf->netdev ? pf->netdev : "(no interface)",
            tint_off(pf->netdev ? TINT_BOLD : TINT_WARN, colour), pf->address, text);
    fprintf(f, "  %s", pf->driver ? pf->driver : "no driver");
    print_link(f, pf, colour);
    if (pf->numa_node >= 0)
        fprintf(f, ", NUMA node %d", pf->numa_node);
    if (pf->pcie_root)
        fprintf(f, ", root %s", pf->pcie_root);
    if (pf->rdma_dev)
        fprintf(f, ", RDMA %s", pf->rdma_dev);
    fprintf(f, "\n  %u of %u VFs", pf->num_vfs, pf->total_vfs);
    if (pf->vfs.n) {
        const struct vf *vf = &pf->vfs.v[0];
        _cleanup_free_ char *kind = model(streq_null(vf->vendor, pf->vendor) ? NULL : vf->vendor,
                                          vf->device, vf->vendor_id, vf->device_id);
        fprintf(f, ": %s", kind);
    }
    fprintf(f, "%s\n", pf->autoprobe ? "" : " (autoprobe off)");
    if (pf->problem)
        fprintf(f, "  %s%s%s\n", tint_on(TINT_WARN, colour), pf->problem,
                tint_off(TINT_WARN, colour));
    if (pf->vfs.n) {
        fputc('\n', f);
        print_vfs(f, pf, colour);
    }
}

void inventory_print(FILE *f, const struct inventory *inv, bool colour)
{
    size_t vfs = 0;

    vec_foreach (pf, &inv->pfs) {
        print_pf(f, pf, colour);
        fputc('\n', f);
        vfs += pf->vfs.n;
    }
    if (inv->pfs.n)
        fprintf(f, "%zu PF%s, %zu VF%s\n", inv->pfs.n, inv->pfs.n == 1 ? "" : "s", vfs,
                vfs == 1 ? "" : "s");
    else
        fputs("No network card with SR-IOV here: no PCI function of class 02 has sriov_totalvfs.\n"
              "If there should be one, look at the firmware's settings for SR-IOV and the IOMMU.\n",
              f);
}

static json_t *string_or_null(const char *s)
{
    return s ? json_string(s) : json_null();
}

static json_t *number_or_null(int n)
{
    return n >= 0 ? json_integer(n) : json_null();
}

static json_t *id_text(uint16_t id)
{
    char text[5];

    snprintf(text, sizeof(text), "%04x", id);
    return json_string(text);
}

static json_t *vf_json(const struct vf *vf)
{
    json_t *o = json_object();

    json_object_set_new(o, "index", json_integer(vf->index));
    json_object_set_new(o, "address", json_string(vf->address));
    json_object_set_new(o, "interface", string_or_null(vf->netdev));
    json_object_set_new(o, "away", json_boolean(vf->away));
    json_object_set_new(o, "driver", string_or_null(vf->driver));
    json_object_set_new(o, "vendorId", id_text(vf->vendor_id));
    json_object_set_new(o, "deviceId", id_text(vf->device_id));
    json_object_set_new(o, "vendor", string_or_null(vf->vendor));
    json_object_set_new(o, "device", string_or_null(vf->device));
    json_object_set_new(o, "rdmaDevice", string_or_null(vf->rdma_dev));
    json_object_set_new(o, "iommuGroup", number_or_null(vf->iommu_group));
    json_object_set_new(o, "numaNode", number_or_null(vf->numa_node));
    return o;
}

static json_t *pf_json(const struct pf *pf)
{
    json_t *o = json_object(), *vfs = json_array();

    json_object_set_new(o, "address", json_string(pf->address));
    json_object_set_new(o, "interface", string_or_null(pf->netdev));
    json_object_set_new(o, "driver", string_or_null(pf->driver));
    json_object_set_new(o, "vendorId", id_text(pf->vendor_id));
    json_object_set_new(o, "deviceId", id_text(pf->device_id));
    json_object_set_new(o, "vendor", string_or_null(pf->vendor));
    json_object_set_new(o, "device", string_or_null(pf->device));
    json_object_set_new(o, "up", json_boolean(pf->up));
    json_object_set_new(o, "carrier", json_boolean(pf->carrier));
    json_object_set_new(o, "speedMbps",
                        pf->speed_mbps ? json_integer(pf->speed_mbps) : json_null());
    json_object_set_new(o, "mtu", pf->mtu ? json_integer(pf->mtu) : json_null());
    json_object_set_new(o, "arpType", pf->netdev ? json_integer(pf->arp_type) : json_null());
    json_object_set_new(o, "rdmaDevice", string_or_null(pf->rdma_dev));
    json_object_set_new(o, "iommuGroup", number_or_null(pf->iommu_group));
    json_object_set_new(o, "numaNode", number_or_null(pf->numa_node));
    json_object_set_new(o, "pcieRoot", string_or_null(pf->pcie_root));
    json_object_set_new(o, "totalVfs", json_integer(pf->total_vfs));
    json_object_set_new(o, "numVfs", json_integer(pf->num_vfs));
    json_object_set_new(o, "autoprobe", json_boolean(pf->autoprobe));
    json_object_set_new(o, "problem", string_or_null(pf->problem));
    vec_foreach (vf, &pf->vfs)
        json_array_append_new(vfs, vf_json(vf));
    json_object_set_new(o, "vfs", vfs);
    return o;
}

json_t *inventory_json(const struct inventory *inv)
{
    json_t *pfs = json_array();

    vec_foreach (pf, &inv->pfs)
        json_array_append_new(pfs, pf_json(pf));
    json_t *o = json_object();
    json_object_set_new(o, "pfs", pfs);
    return o;
}

static const char usage[] =
    "usage: sriov-dra inventory [-o text|json] [--sysroot DIR]\n"
    "Shows the network cards of this node that can do SR-IOV, and their virtual functions.\n"
    "\n"
    "  -o, --output FORMAT  text (default) or json\n"
    "      --sysroot DIR    read DIR/sys in place of /sys\n"
    "  -h, --help           this text\n"
    "\n"
    "Exit status: 0 found, 1 no SR-IOV hardware, 2 usage, 3 failed.\n";

static int show(const char *root, bool json)
{
    _cleanup_(inventory_done) struct inventory inv = {0};
    _cleanup_(sysroot_done) struct sysroot r = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    if (sysroot_open(root, &r, &e) < 0 || inventory_read(&r, &inv, &e) < 0) {
        fprintf(stderr, "sriov-dra inventory: %s\n", err_text(&e));
        return EXIT_FAILED;
    }
    inventory_fill_names(&inv);
    if (json) {
        json_t *o = inventory_json(&inv);
        json_dumpf(o, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(o);
    } else {
        inventory_print(stdout, &inv, colour_wanted());
    }
    if (!cli_written("inventory"))
        return EXIT_FAILED;
    return inv.pfs.n ? EXIT_OK : EXIT_NO;
}

static const struct cli cli = {"inventory", usage};

int cmd_inventory(int argc, char **argv)
{
    enum { OPT_SYSROOT = 256 };
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'},
        {"sysroot", required_argument, NULL, OPT_SYSROOT},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    const char *root = "/";
    bool json = false;

    optind = 0; /* whoever parsed the words before the verb left it elsewhere */
    for (int c; (c = getopt_long(argc, argv, "o:h", options, NULL)) != -1;) {
        switch (c) {
        case 'o':
            if (cli_text_or_json(&cli, "--output", optarg, &json) != 0)
                return EXIT_USAGE;
            break;
        case OPT_SYSROOT:
            root = optarg;
            break;
        default:
            return cli_usage(&cli, c);
        }
    }
    if (cli_no_more(&cli, argc, argv, optind) != 0)
        return EXIT_USAGE;
    return show(root, json);
}
