/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "driver/cmd_inventory.h"
#include "tests/unit/sriov/fake_sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

static struct inventory read_tree(const char *root)
{
    _cleanup_(sysroot_done) struct sysroot r = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    struct inventory inv = {0};

    assert_ok(sysroot_open(root, &r, &e), &e);
    assert_ok(inventory_read(&r, &inv, &e), &e);
    return inv;
}

static struct inventory load(const char *name)
{
    _cleanup_(fake_sysfs_removep) char *root = fake_sysfs_load(name);

    return read_tree(root);
}

static void igb(void **state)
{
    (void)state;
    _cleanup_(inventory_done) struct inventory inv = load("igb-7vf.txt");
    const struct pf *pf;

    assert_int_equal(inv.pfs.n, 2);
    pf = &inv.pfs.v[0];
    assert_string_equal(pf->address, "0000:01:00.0");
    assert_string_equal(pf->netdev, "enp1s0");
    assert_string_equal(pf->driver, "igb");
    assert_string_equal(pf->pcie_root, "pci0000:00");
    assert_int_equal(pf->vendor_id, 0x8086);
    assert_int_equal(pf->device_id, 0x10c9);
    assert_int_equal(pf->total_vfs, 7);
    assert_int_equal(pf->num_vfs, 7);
    assert_int_equal(pf->speed_mbps, 1000);
    assert_int_equal(pf->arp_type, 1);
    assert_int_equal(pf->mtu, 1500);
    assert_int_equal(pf->numa_node, -1);
    assert_int_equal(pf->iommu_group, 7);
    assert_true(pf->up && pf->carrier && pf->autoprobe);
    assert_null(pf->problem);
    assert_null(pf->rdma_dev);

    assert_int_equal(pf->vfs.n, 7);
    for (unsigned i = 0; i < 7; i++)
        assert_int_equal(pf->vfs.v[i].index, i);
    const struct vf *vf = &pf->vfs.v[3];
    assert_string_equal(vf->address, "0000:01:10.6");
    assert_string_equal(vf->driver, "igbvf");
    assert_string_equal(vf->netdev, "enp1s0v3");
    assert_int_equal(vf->device_id, 0x10ca);
    assert_int_equal(vf->iommu_group, 12);
    assert_false(vf->away);
    /* In a pod; on vfio-pci; without driver. */
    assert_true(pf->vfs.v[4].away);
    assert_null(pf->vfs.v[4].netdev);
    assert_false(pf->vfs.v[5].away);
    assert_string_equal(pf->vfs.v[5].driver, "vfio-pci");
    assert_null(pf->vfs.v[5].netdev);
    assert_null(pf->vfs.v[6].driver);

    /* The second port is down: its speed can't be read, and that is no problem. */
    pf = &inv.pfs.v[1];
    assert_false(pf->up || pf->carrier);
    assert_int_equal(pf->speed_mbps, 0);
    assert_null(pf->problem);
    assert_int_equal(pf->vfs.n, 0);
}

static void zoo(void **state)
{
    (void)state;
    _cleanup_(inventory_done) struct inventory inv = load("zoo.txt");
    const struct pf *pf;

    /* In order of address, the long domain last; neither the disk nor the junk is there. */
    static const char *const order[] = {"0000:17:00.0", "0000:18:00.0", "0000:19:00.0",
                                        "0000:1a:00.0", "0000:1b:00.0", "0001:80:05.0",
                                        "10001:80:05.0"};
    assert_int_equal(inv.pfs.n, ARRAY_SIZE(order));
    for (size_t i = 0; i < ARRAY_SIZE(order); i++)
        assert_string_equal(inv.pfs.v[i].address, order[i]);

    pf = inventory_find_pf(&inv, "0000:17:00.0");
    assert_null(pf->netdev);
    assert_int_equal(pf->numa_node, 1);
    assert_null(pf->problem);

    pf = inventory_find_pf(&inv, "0000:18:00.0");
    assert_int_equal(pf->arp_type, 32);
    assert_int_equal(pf->speed_mbps, 0);
    assert_string_equal(pf->rdma_dev, "mlx5_0");
    assert_string_equal(pf->pcie_root, "pci0000:16");

    pf = inventory_find_pf(&inv, "0000:19:00.0");
    assert_string_equal(pf->netdev, "enp25s0np0");
    assert_int_equal(pf->speed_mbps, 100000);
    assert_false(pf->autoprobe);

    pf = inventory_find_pf(&inv, "0000:1b:00.0");
    assert_string_equal(pf->netdev, "enp27s0d1");

    pf = inventory_find_pf(&inv, "0000:1a:00.0");
    assert_int_equal(pf->speed_mbps, 0); /* (unsigned)-1 */
    assert_int_equal(pf->num_vfs, 0);
    assert_non_null(pf->problem);
    assert_non_null(strstr(pf->problem, "sriov_numvfs"));
    assert_int_equal(pf->total_vfs, 8);

    /* A long domain is told from the short one that it starts with. */
    const struct vf *vf = inventory_find_vf(&inv, "10001:80:05.2", &pf);
    assert_non_null(vf);
    assert_int_equal(vf->index, 1);
    assert_string_equal(pf->address, "10001:80:05.0");
    assert_string_equal(pf->pcie_root, "pci0000:7f");
    vf = inventory_find_vf(&inv, "0001:80:05.2", &pf);
    assert_string_equal(pf->address, "0001:80:05.0");
    assert_null(inventory_find_vf(&inv, "0001:80:05.7", NULL));
    assert_null(inventory_find_pf(&inv, "0001:80:05.1"));
}

static void many(void **state)
{
    (void)state;
    _cleanup_(inventory_done) struct inventory inv = load("many.txt");
    const struct pf *pf;
    const struct vf *vf;

    vf = inventory_find_vf(&inv, "0000:3b:04.3", &pf);
    assert_int_equal(vf->index, 19);
    assert_string_equal(vf->netdev, "enp59s0f0v19");
    assert_int_equal(pf->vfs.n, 64);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(pf->vfs.v[i].index, i); /* by number: 2 before 10 */

    vf = inventory_find_vf(&inv, "0000:5f:00.5", &pf);
    assert_int_equal(vf->index, 11);
    assert_string_equal(pf->address, "0000:5e:00.0");

    /* An index that is missing doesn't move the others; its link points to nothing. */
    pf = inventory_find_pf(&inv, "0000:86:00.0");
    assert_int_equal(pf->vfs.n, 3);
    assert_int_equal(pf->vfs.v[2].index, 3);
    assert_string_equal(pf->vfs.v[2].address, "0000:86:01.3");
}

static void one_port(void **state)
{
    _cleanup_(fake_sysfs_removep) char *root = fake_sysfs_load("igb-7vf.txt");
    _cleanup_(inventory_done) struct inventory all = read_tree(root), one = {0}, none = {0};
    _cleanup_(sysroot_done) struct sysroot r = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    assert_ok(sysroot_open(root, &r, &e), &e);
    assert_ok(inventory_read_pf(&r, "0000:01:00.0", &one, &e), &e);
    assert_int_equal(one.pfs.n, 1);
    json_auto_t *want = inventory_json(&all), *is = inventory_json(&one);
    assert_true(json_equal(json_array_get(json_object_get(want, "pfs"), 0),
                           json_array_get(json_object_get(is, "pfs"), 0)));
    /* A VF, another card, nothing at all. */
    assert_int_equal(inventory_read_pf(&r, "0000:01:10.0", &none, &e), -ENODEV);
    assert_int_equal(inventory_read_pf(&r, "0000:00:03.0", &none, &e), -ENODEV);
    assert_int_equal(inventory_read_pf(&r, "0000:09:00.0", &none, &e), -ENODEV);
    assert_err_has(&e, "there is no PF at 0000:09:00.0");
}

static void nothing_there(void **state)
{
    (void)state;
    _cleanup_(fake_sysfs_removep) char *root = fake_sysfs_make("dev 0000:00:00.0 class=0x060000\n");
    _cleanup_(inventory_done) struct inventory inv = read_tree(root);
    _cleanup_(sysroot_done) struct sysroot r = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    assert_int_equal(inv.pfs.n, 0);
    /* No bus at all is a failure, not an empty answer. */
    _cleanup_free_ char *bus = xasprintf("%s/sys/bus", root);
    assert_ok(sysroot_open(bus, &r, &e), &e);
    assert_int_equal(inventory_read(&r, &inv, &e), -ENOENT);
    assert_err_has(&e, "PCI");
}

static void addresses(void **state)
{
    static const struct {
        const char *text, *ret;
    } cases[] = {
        {"0000:01:00.0", "0000:01:00.0"},
        {"0000:3B:1F.7", "0000:3b:1f.7"},
        {"10001:80:05.0", "10001:80:05.0"},
        {"DEADBEEF:80:05.0", "deadbeef:80:05.0"},
        {"00000000:01:00.0", "0000:01:00.0"},
        {"000:01:00.0", NULL},
        {"123456789:01:00.0", NULL},
        {"01:00.0", NULL},
        {"0000:01:20.0", NULL},
        {"0000:01:00.8", NULL},
        {"0000:01:00.0 ", NULL},
        {" 0000:01:00.0", NULL},
        {"0000: 1:00.0", NULL},
        {"0000:+1:00.0", NULL},
        {"0000:1:00.0", NULL},
        {"0000:01:00.00", NULL},
        {"0000:01:00", NULL},
        {"0000-01-00.0", NULL},
        {"0000:01:00.0/../x", NULL},
        {"foo", NULL},
        {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char ret[PCI_ADDRESS_SIZE] = "untouched";
        bool ok = pci_address_parse(cases[i].text, ret);

        if (ok != !!cases[i].ret)
            fail_msg("\"%s\": %s", cases[i].text, ok ? "taken" : "refused");
        assert_string_equal(ret, ok ? cases[i].ret : "untouched");
    }
}

static void names_are_filled_and_copied(void **state)
{
    (void)state;
    _cleanup_(inventory_done) struct inventory a = load("igb-7vf.txt"), b = load("igb-7vf.txt");

    inventory_fill_names(&a);
    if (!a.pfs.v[0].vendor)
        skip(); /* built without libpci, or no list of ids on this machine */
    assert_string_equal(a.pfs.v[0].vendor, "Intel Corporation");
    assert_non_null(strstr(a.pfs.v[0].device, "82576"));
    assert_non_null(strstr(a.pfs.v[0].vfs.v[6].device, "Virtual Function"));
    inventory_copy_names(&b, &a);
    assert_string_equal(b.pfs.v[1].device, a.pfs.v[0].device);
    assert_string_equal(b.pfs.v[0].vfs.v[2].device, a.pfs.v[0].vfs.v[0].device);
    inventory_fill_names(&b); /* nothing missing: must not leak what is there */
}

static char *printed(const struct inventory *inv, bool colour)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    inventory_print(f, inv, colour);
    fclose(f);
    return text;
}

static void table(void **state)
{
    (void)state;
    _cleanup_(inventory_done) struct inventory inv = load("igb-7vf.txt");
    _cleanup_free_ char *plain = printed(&inv, false), *colour = printed(&inv, true);
    static const char want[] = "enp1s0  0000:01:00.0  [8086:10c9]\n"
                               "  igb, up, 1 Gb/s, MTU 1500, root pci0000:00\n"
                               "  7 of 7 VFs: [8086:10ca]\n"
                               "\n"
                               "  VF  ADDRESS       INTERFACE  DRIVER    IOMMU  RDMA\n"
                               "   0  0000:01:10.0  enp1s0v0   igbvf     9      -\n"
                               "   1  0000:01:10.2  enp1s0v1   igbvf     10     -\n"
                               "   2  0000:01:10.4  enp1s0v2   igbvf     11     -\n"
                               "   3  0000:01:10.6  enp1s0v3   igbvf     12     -\n"
                               "   4  0000:01:11.0  (away)     igbvf     13     -\n"
                               "   5  0000:01:11.2  -          vfio-pci  14     -\n"
                               "   6  0000:01:11.4  -          -         15     -\n"
                               "\n"
                               "enp2s0  0000:02:00.0  [8086:10c9]\n"
                               "  igb, down, MTU 1500, root pci0000:00\n"
                               "  0 of 7 VFs\n"
                               "\n"
                               "2 PFs, 7 VFs\n";

    assert_string_equal(plain, want);
    assert_null(strchr(plain, '\033'));
    assert_non_null(strstr(colour, "\033[1menp1s0\033[0m"));
}

static void json(void **state)
{
    (void)state;
    _cleanup_(inventory_done) struct inventory inv = load("igb-7vf.txt");
    json_t *o = inventory_json(&inv);
    _cleanup_free_ char *vf = json_dumps(
        json_array_get(json_object_get(json_array_get(json_object_get(o, "pfs"), 0), "vfs"), 6),
        JSON_COMPACT);
    json_t *down = json_array_get(json_object_get(o, "pfs"), 1);

    assert_string_equal(
        vf, "{\"index\":6,\"address\":\"0000:01:11.4\",\"interface\":null,\"away\":false,"
            "\"driver\":null,\"vendorId\":\"8086\",\"deviceId\":\"10ca\",\"vendor\":null,"
            "\"device\":null,\"rdmaDevice\":null,\"iommuGroup\":15,\"numaNode\":null}");
    assert_true(json_is_null(json_object_get(down, "speedMbps")));
    assert_true(json_is_false(json_object_get(down, "up")));
    assert_int_equal(json_object_size(down), 21);
    json_decref(o);
}

/* The exit code is an answer to a script. */
static void exit_codes(void **state)
{
    (void)state;
    _cleanup_(fake_sysfs_removep) char *full = fake_sysfs_load("igb-7vf.txt");
    _cleanup_(fake_sysfs_removep) char *bare = fake_sysfs_make("dev 0000:00:00.0 class=0x060000\n");
    const struct {
        const char *argv[6];
        int code;
    } cases[] = {
        {{"inventory", "--sysroot", full}, 0},
        {{"inventory", "-o", "json", "--sysroot", full}, 0},
        {{"inventory", "-o", "json", "--sysroot", bare}, 1},
        {{"inventory", "--sysroot", bare}, 1},
        {{"inventory", "--help"}, 0},
        {{"inventory", "-o", "xml", "--sysroot", full}, 2},
        {{"inventory", "--sysroot"}, 2},
        {{"inventory", "extra"}, 2},
        {{"inventory", "--nonsense"}, 2},
        {{"inventory", "--sysroot", "/nonexistent"}, 3},
        {{"inventory", "--sysroot", FIXTURES}, 3},
    };

    /* What it prints isn't TAP. */
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);
    fflush(stdout);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
    int codes[ARRAY_SIZE(cases)];
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        int argc = 0;
        while (argc < 6 && cases[i].argv[argc])
            argc++;
        codes[i] = cmd_inventory(argc, (char **)(uintptr_t)cases[i].argv);
    }
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(null);
    close(out);
    close(err);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        if (codes[i] != cases[i].code)
            fail_msg("case %zu: exit code %d, want %d", i, codes[i], cases[i].code);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(igb),
        cmocka_unit_test(zoo),
        cmocka_unit_test(many),
        cmocka_unit_test(nothing_there),
        cmocka_unit_test(one_port),
        cmocka_unit_test(addresses),
        cmocka_unit_test(names_are_filled_and_copied),
        cmocka_unit_test(table),
        cmocka_unit_test(json),
        cmocka_unit_test(exit_codes),
    };

    return cmocka_run_group_tests_name("inventory", tests, NULL, NULL);
}
