/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/offer.h"

#include "tests/unit/driver/slice_rules.h"
#include "tests/unit/test.h"

#include <net/if_arp.h>

/* A node with one PF and as many VFs as a test wants, and one pool with all of them. */
struct node {
    struct inventory inv;
    struct pools pools;
    vf_fact_vec facts;
    device_vec devices;
    bool taints_dropped;
};

static void node_init(struct node *n, unsigned vfs)
{
    *n = (struct node){0};
    struct pf *pf = VEC_PUSH(&n->inv.pfs);

    *pf = (struct pf){
        .address = "0000:01:00.0",
        .vendor_id = 0x8086,
        .device_id = 0x10c9,
        .driver = xstrdup("igb"),
        .netdev = xstrdup("enp1s0"),
        .rdma_dev = xstrdup("mlx5_0"),
        .pcie_root = xstrdup("pci0000:00"),
        .numa_node = 1,
        .speed_mbps = 1000,
        .arp_type = ARPHRD_ETHER,
        .mtu = 1500,
    };
    for (unsigned i = 0; i < vfs; i++) {
        struct vf *vf = VEC_PUSH(&pf->vfs);

        *vf = (struct vf){
            .index = i,
            .vendor_id = 0x8086,
            .device_id = 0x10ca,
            .vendor = xstrdup("Intel Corporation"),
            .device = xstrdup("82576 Virtual Function"),
            .driver = xstrdup("igbvf"),
            .netdev = xasprintf("enp1s0v%u", i),
            .rdma_dev = xstrdup("mlx5_1"),
            .numa_node = -1,
        };
        snprintf(vf->address, sizeof(vf->address), "0000:01:%02x.%x", 16 + i / 8, i % 8);

        struct vf_fact *fact = VEC_PUSH(&n->facts);
        strcpy(fact->vf_address, vf->address);
        fact->verified = true;
    }

    struct pool *pool = VEC_PUSH(&n->pools.pools);
    struct pool_function *f = VEC_PUSH(&pool->functions);
    pool->name = xstrdup("storage");
    strcpy(f->pf_address, "0000:01:00.0");
    f->all_indexes = true;
}

static void node_done(struct node *n)
{
    inventory_done(&n->inv);
    pools_done(&n->pools);
    vf_fact_vec_done(&n->facts);
    device_vec_done(&n->devices);
}

static void offer(struct node *n, bool declared, bool kept)
{
    device_vec_done(&n->devices);
    offer_devices(
        &(struct offer_input){
            .driver = "sriov-dra.dev",
            .contract = {.inv = &n->inv, .pools = &n->pools, .node = "w1", .pool_name = "w1"},
            .facts = &n->facts,
            .skip_declared = declared,
            .lists_kept = kept,
            .taints_kept = !n->taints_dropped,
        },
        &n->devices);
    vec_foreach (d, &n->devices) {
        _cleanup_free_ char *fault = device_fault(d->body);

        if (fault)
            fail_msg("%s: %s", d->name, fault);
    }
}

static struct pool *pool_of(struct node *n)
{
    return &n->pools.pools.v[0];
}

static void add_own(struct node *n, const char *name, json_t *value)
{
    struct pool_attribute *a = VEC_PUSH(&pool_of(n)->attributes);

    a->name = xstrdup(name);
    a->value = value;
}

/* The value of an attribute as text, "-" if it is absent. */
static char *value_of(const struct device *d, const char *name)
{
    json_t *a = json_object_get(json_object_get(d->body, "attributes"), name);

    return a ? json_text(a) : xstrdup("-");
}

static void expect(const struct device *d, const char *name, const char *value)
{
    _cleanup_free_ char *is = value_of(d, name);

    if (!streq(is, value))
        fail_msg("%s: %s is %s, not %s", d->name, name, is, value);
}

static void test_attributes(void **state)
{
    static const struct {
        const char *name, *value;
    } table[] = {
        {"mode", "{\"string\":\"Prepare\"}"},
        {"setupBy", "{\"string\":\"Driver\"}"},
        {"cleanupBy", "{\"string\":\"Driver\"}"},
        {"attach", "{\"string\":\"NRI\"}"},
        {"verified", "{\"bool\":true}"},
        {"skipHonoured", "{\"bool\":false}"},
        {"vfIndex", "{\"int\":1}"},
        {"pfInterface", "{\"string\":\"enp1s0\"}"},
        {"pfPciAddress", "{\"string\":\"0000:01:00.0\"}"},
        {"pfDriver", "{\"string\":\"igb\"}"},
        {"driver", "{\"string\":\"igbvf\"}"},
        {"vendor", "{\"string\":\"8086\"}"},
        {"device", "{\"string\":\"10ca\"}"},
        {"deviceName", "{\"string\":\"82576 Virtual Function\"}"},
        {"linkType", "{\"string\":\"ethernet\"}"},
        {"linkSpeedMbps", "{\"int\":1000}"},
        {"rdma", "{\"bool\":true}"},
        {"vlan", "{\"int\":0}"},
        {"mtu", "{\"int\":1500}"},
        {"spoofCheck", "{\"bool\":false}"},
        {"trust", "{\"bool\":false}"},
        {"resource.kubernetes.io/numaNode", "{\"int\":1}"},
        {"resource.kubernetes.io/pciBusID", "{\"string\":\"0000:01:10.1\"}"},
        {"resource.kubernetes.io/pcieRoot", "{\"string\":\"pci0000:00\"}"},
    };
    struct node n;

    (void)state;
    node_init(&n, 2);
    offer(&n, true, true);
    assert_int_equal(n.devices.n, 2);
    const struct device *d = &n.devices.v[1];

    assert_string_equal(d->name, "0000-01-10-1");
    assert_string_equal(json_str_at(d->body, "name"), d->name);
    assert_false(d->skip || d->tainted);
    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        expect(d, table[i].name, table[i].value);
    assert_int_equal(json_object_size(json_object_get(d->body, "attributes")), ARRAY_SIZE(table));
    node_done(&n);
}

/* What a selector asks is there on a VF of which nothing is known. */
static void test_nothing_known(void **state)
{
    static const char *const always[] = {
        "mode",       "setupBy",     "cleanupBy",
        "attach",     "verified",    "skipHonoured",
        "vfIndex",    "pfInterface", "pfPciAddress",
        "pfDriver",   "driver",      "vendor",
        "device",     "linkType",    "linkSpeedMbps",
        "rdma",       "vlan",        "mtu",
        "spoofCheck", "trust",       "resource.kubernetes.io/pciBusID",
    };
    struct node n;

    (void)state;
    node_init(&n, 1);
    struct pf *pf = &n.inv.pfs.v[0];
    struct vf *vf = &pf->vfs.v[0];

    for (char **s = (char *[]){pf->driver, pf->netdev, pf->rdma_dev, pf->pcie_root, vf->vendor,
                               vf->device, vf->driver, vf->netdev, vf->rdma_dev, NULL};
         *s; s++)
        free(*s);
    pf->driver = pf->netdev = pf->rdma_dev = pf->pcie_root = NULL;
    vf->vendor = vf->device = vf->driver = vf->netdev = vf->rdma_dev = NULL;
    pf->numa_node = -1;
    pf->arp_type = 0;
    pf->speed_mbps = 0;
    offer(&n, true, true);
    for (size_t i = 0; i < ARRAY_SIZE(always); i++) {
        _cleanup_free_ char *value = value_of(&n.devices.v[0], always[i]);

        if (streq(value, "-"))
            fail_msg("%s is absent", always[i]);
    }
    expect(&n.devices.v[0], "driver", "{\"string\":\"\"}");
    expect(&n.devices.v[0], "rdma", "{\"bool\":false}");
    assert_int_equal(json_object_size(json_object_get(n.devices.v[0].body, "attributes")),
                     ARRAY_SIZE(always));
    node_done(&n);
}

static void test_who_does_what(void **state)
{
    static const struct {
        enum mode mode;
        enum provisioner by;
        enum attach attach;
        const char *set_up, *clean_up;
    } table[] = {
        {MODE_PREPARE, PROVISIONED_EXTERNALLY, ATTACH_NRI, "Driver", "Driver"},
        {MODE_PREPARE, PROVISIONED_BY_DRIVER, ATTACH_NRI, "Driver", "Driver"},
        {MODE_PREPARE, PROVISIONED_EXTERNALLY, ATTACH_NONE, "Driver", "Driver"},
        {MODE_DEFER_CLEANUP, PROVISIONED_EXTERNALLY, ATTACH_NRI, "Driver", "Driver"},
        {MODE_SKIP, PROVISIONED_EXTERNALLY, ATTACH_NRI, "External", "Driver"},
        {MODE_SKIP, PROVISIONED_BY_DRIVER, ATTACH_NRI, "Driver", "Driver"},
        {MODE_SKIP, PROVISIONED_EXTERNALLY, ATTACH_NONE, "External", "External"},
        {MODE_SKIP, PROVISIONED_BY_DRIVER, ATTACH_NONE, "Driver", "Driver"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct node n;

        node_init(&n, 1);
        pool_of(&n)->mode = table[i].mode;
        pool_of(&n)->by = table[i].by;
        pool_of(&n)->attach = table[i].attach;
        offer(&n, true, true);
        _cleanup_free_ char *set_up = xasprintf("{\"string\":\"%s\"}", table[i].set_up);
        _cleanup_free_ char *clean_up = xasprintf("{\"string\":\"%s\"}", table[i].clean_up);
        expect(&n.devices.v[0], "setupBy", set_up);
        expect(&n.devices.v[0], "cleanupBy", clean_up);
        node_done(&n);
    }
}

/* The promise: what goes where, and what it says of itself. */
static void test_places(void **state)
{
    static const struct {
        enum mode mode;
        bool verified, in_use, declared, kept;
        enum skip_list skip;
        bool tainted, says_verified;
    } table[] = {
        {MODE_PREPARE, 1, 0, 1, 1, SKIP_NOTHING, 0, 1},
        {MODE_PREPARE, 0, 0, 1, 1, SKIP_NOTHING, 1, 0},
        {MODE_PREPARE, 0, 1, 1, 1, SKIP_NOTHING, 1, 0},
        {MODE_DEFER_CLEANUP, 1, 0, 1, 1, SKIP_UNPREPARE, 0, 1},
        {MODE_DEFER_CLEANUP, 0, 0, 1, 1, SKIP_NOTHING, 1, 0},
        {MODE_DEFER_CLEANUP, 0, 1, 1, 1, SKIP_NOTHING, 1, 0},
        {MODE_DEFER_CLEANUP, 1, 0, 0, 1, SKIP_NOTHING, 0, 1},
        {MODE_DEFER_CLEANUP, 1, 0, 1, 0, SKIP_NOTHING, 0, 1},
        {MODE_SKIP, 1, 0, 1, 1, SKIP_ALL, 0, 1},
        {MODE_SKIP, 0, 0, 1, 1, SKIP_NOTHING, 1, 0},
        {MODE_SKIP, 0, 1, 1, 1, SKIP_NOTHING, 1, 0},
        {MODE_SKIP, 1, 1, 1, 1, SKIP_ALL, 0, 1},
        {MODE_SKIP, 1, 0, 0, 1, SKIP_NOTHING, 0, 1},
        {MODE_SKIP, 1, 0, 1, 0, SKIP_NOTHING, 0, 1},
        {MODE_SKIP, 0, 0, 0, 0, SKIP_NOTHING, 1, 0},
        {MODE_SKIP, 0, 1, 0, 1, SKIP_NOTHING, 1, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct node n;

        node_init(&n, 1);
        pool_of(&n)->mode = table[i].mode;
        n.facts.v[0].verified = table[i].verified;
        n.facts.v[0].in_use = table[i].in_use;
        offer(&n, table[i].declared, table[i].kept);
        const struct device *d = &n.devices.v[0];

        if (d->skip != table[i].skip || d->tainted != table[i].tainted)
            fail_msg("row %zu: skip %d, tainted %d", i, (int)d->skip, d->tainted);
        expect(d, "verified", table[i].says_verified ? "{\"bool\":true}" : "{\"bool\":false}");
        expect(d, "skipHonoured", table[i].skip ? "{\"bool\":true}" : "{\"bool\":false}");
        json_auto_t *taints =
            json_pack("[{s:s, s:s}]", "key", "sriov-dra.dev/drifted", "effect", "NoSchedule");
        const json_t *is = json_object_get(d->body, "taints");
        assert_true(table[i].tainted ? json_equal(is, taints) : !is);
        node_done(&n);
    }
}

/* Where a taint is dropped, what it would mark isn't offered. */
static void test_taints_dropped(void **state)
{
    struct node n;

    (void)state;
    node_init(&n, 3);
    n.taints_dropped = true;
    n.facts.v[1].verified = false;
    offer(&n, true, true);
    assert_int_equal(n.devices.n, 2);
    assert_string_equal(n.devices.v[0].name, "0000-01-10-0");
    assert_string_equal(n.devices.v[1].name, "0000-01-10-2");
    node_done(&n);
}

/* NoExecute ends pods: only where the pool says so, and the VF isn't as its claim got it. */
static void test_taint_effect(void **state)
{
    static const struct {
        enum taint_effect asked;
        bool harmed;
        const char *effect;
    } table[] = {
        {TAINT_NO_SCHEDULE, false, "NoSchedule"},
        {TAINT_NO_SCHEDULE, true, "NoSchedule"},
        {TAINT_NO_EXECUTE, false, "NoSchedule"},
        {TAINT_NO_EXECUTE, true, "NoExecute"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct node n;

        node_init(&n, 1);
        pool_of(&n)->taint_effect = table[i].asked;
        n.facts.v[0].verified = false;
        n.facts.v[0].in_use = n.facts.v[0].harmed = table[i].harmed;
        offer(&n, true, true);
        json_auto_t *taints =
            json_pack("[{s:s, s:s}]", "key", "sriov-dra.dev/drifted", "effect", table[i].effect);
        assert_true(json_equal(json_object_get(n.devices.v[0].body, "taints"), taints));
        node_done(&n);
    }
}

static void test_settings_in_force(void **state)
{
    static const struct vf_settings settings = {
        .set = VF_SET_VLAN | VF_SET_SPOOFCHK | VF_SET_TRUST | VF_SET_MTU,
        .vlan_id = 100,
        .spoofchk = true,
        .trust = true,
        .mtu = 9000,
    };
    struct node n;

    (void)state;
    node_init(&n, 1);
    pool_of(&n)->settings = settings;
    offer(&n, true, true); /* Prepare: defaults, which a claim may change */
    expect(&n.devices.v[0], "vlan", "{\"int\":0}");
    expect(&n.devices.v[0], "trust", "{\"bool\":false}");
    expect(&n.devices.v[0], "mtu", "{\"int\":1500}");
    pool_of(&n)->mode = MODE_SKIP;
    offer(&n, true, true);
    expect(&n.devices.v[0], "vlan", "{\"int\":100}");
    expect(&n.devices.v[0], "spoofCheck", "{\"bool\":true}");
    expect(&n.devices.v[0], "trust", "{\"bool\":true}");
    expect(&n.devices.v[0], "mtu", "{\"int\":9000}");
    pool_of(&n)->settings.set = 0; /* values that the pool doesn't promise */
    offer(&n, true, true);
    expect(&n.devices.v[0], "vlan", "{\"int\":0}");
    expect(&n.devices.v[0], "spoofCheck", "{\"bool\":false}");
    expect(&n.devices.v[0], "trust", "{\"bool\":false}");
    expect(&n.devices.v[0], "mtu", "{\"int\":0}");
    node_done(&n);
}

static void test_fullest_device(void **state)
{
    struct node n;

    (void)state;
    node_init(&n, 1);
    for (int i = 0; i < 9; i++) {
        _cleanup_free_ char *name = xasprintf("own%d", i);

        add_own(&n, name, json_integer(i));
    }
    offer(&n, true, true);
    size_t count = json_object_size(json_object_get(n.devices.v[0].body, "attributes"));
    assert_int_equal(count, 32);
    expect(&n.devices.v[0], "own7", "{\"int\":7}");
    expect(&n.devices.v[0], "own8", "-");
    expect(&n.devices.v[0], "vendorName", "-");

    n.inv.pfs.v[0].numa_node = -1; /* makes room */
    offer(&n, true, true);
    expect(&n.devices.v[0], "vendorName", "{\"string\":\"Intel Corporation\"}");
    node_done(&n);
}

static void test_own_attributes(void **state)
{
    struct node n;

    (void)state;
    node_init(&n, 1);
    add_own(&n, "fabric", json_string("blue"));
    add_own(&n, "example.com/fast", json_true());
    add_own(&n, "sriov-dra.dev/rack", json_integer(7));
    add_own(&n, "sriov-dra.devil/x", json_integer(8));
    add_own(&n, "verified", json_true());
    add_own(&n, "sriov-dra.dev/mode", json_string("Skip"));
    n.facts.v[0].verified = false;
    offer(&n, true, true);
    expect(&n.devices.v[0], "fabric", "{\"string\":\"blue\"}");
    expect(&n.devices.v[0], "example.com/fast", "{\"bool\":true}");
    expect(&n.devices.v[0], "rack", "{\"int\":7}");
    expect(&n.devices.v[0], "sriov-dra.devil/x", "{\"int\":8}");
    expect(&n.devices.v[0], "verified", "{\"bool\":false}");
    expect(&n.devices.v[0], "mode", "{\"string\":\"Prepare\"}");
    expect(&n.devices.v[0], "sriov-dra.dev/mode", "-");
    node_done(&n);
}

/* A value that the API would refuse costs the attribute, not the slice. */
static void test_values_that_do_not_fit(void **state)
{
    static const char long_name[] =
        "A name of more than sixty-four characters, which pci.ids has some of";
    struct node n;

    (void)state;
    assert_true(strlen(long_name) > 64);
    node_init(&n, 1);
    struct vf *vf = &n.inv.pfs.v[0].vfs.v[0];

    free(vf->device);
    vf->device = xstrdup(long_name);
    free(vf->vendor);
    vf->vendor = xstrdup("Fabri\xa9"); /* Latin-1 */
    free(vf->driver);
    vf->driver = xstrdup(long_name);
    offer(&n, true, true);
    assert_int_equal(n.devices.n, 1);
    expect(&n.devices.v[0], "deviceName", "-");
    expect(&n.devices.v[0], "vendorName", "-");
    expect(&n.devices.v[0], "driver", "{\"string\":\"\"}");
    node_done(&n);
}

static void test_long_domain(void **state)
{
    struct node n;

    (void)state;
    node_init(&n, 1);
    strcpy(n.inv.pfs.v[0].vfs.v[0].address, "10000:01:10.0"); /* behind a VMD */
    strcpy(n.facts.v[0].vf_address, "10000:01:10.0");
    offer(&n, true, true);
    assert_string_equal(n.devices.v[0].name, "10000-01-10-0");
    expect(&n.devices.v[0], "resource.kubernetes.io/pciBusID", "-");
    node_done(&n);
}

static void test_what_is_not_offered(void **state)
{
    struct node n;

    (void)state;
    node_init(&n, 4);
    struct pool_function *f = &pool_of(&n)->functions.v[0];

    f->all_indexes = false;
    *VEC_PUSH(&f->indexes) = (struct index_range){0, 2}; /* 3 is in no pool */
    n.facts.v[1].vf_address[0] = '\0';                   /* 1 wasn't looked at yet */
    offer(&n, true, true);
    assert_int_equal(n.devices.n, 2);
    assert_string_equal(n.devices.v[0].name, "0000-01-10-0");
    assert_string_equal(n.devices.v[1].name, "0000-01-10-2");
    node_done(&n);
}

/* Also where PFs and indexes come in another order than the addresses. */
static void test_sorted_by_name(void **state)
{
    struct node n;

    (void)state;
    node_init(&n, 20);
    struct pf *pf = &n.inv.pfs.v[0];

    for (size_t i = 0; i < 10; i++) {
        struct vf swap = pf->vfs.v[i];

        pf->vfs.v[i] = pf->vfs.v[19 - i];
        pf->vfs.v[19 - i] = swap;
    }
    offer(&n, true, true);
    for (size_t i = 1; i < n.devices.n; i++)
        assert_true(strcmp(n.devices.v[i - 1].name, n.devices.v[i].name) < 0);
    assert_int_equal(n.devices.n, 20);
    node_done(&n);
}

/* In use: the VF's RDMA device may be away with it; the attribute stays. */
static void test_in_use_keeps_its_attributes(void **state)
{
    struct node n;

    (void)state;
    node_init(&n, 1);
    offer(&n, true, true);
    json_auto_t *before = json_incref(n.devices.v[0].body);

    struct vf *vf = &n.inv.pfs.v[0].vfs.v[0];
    free(vf->netdev);
    free(vf->rdma_dev);
    vf->netdev = vf->rdma_dev = NULL;
    n.facts.v[0].in_use = true;
    offer(&n, true, true);
    assert_true(json_equal(before, n.devices.v[0].body));
    node_done(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_nothing_known),
        cmocka_unit_test(test_who_does_what),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_taint_effect),
        cmocka_unit_test(test_taints_dropped),
        cmocka_unit_test(test_settings_in_force),
        cmocka_unit_test(test_fullest_device),
        cmocka_unit_test(test_own_attributes),
        cmocka_unit_test(test_values_that_do_not_fit),
        cmocka_unit_test(test_long_domain),
        cmocka_unit_test(test_what_is_not_offered),
        cmocka_unit_test(test_sorted_by_name),
        cmocka_unit_test(test_in_use_keeps_its_attributes),
    };

    return cmocka_run_group_tests_name("offer", tests, NULL, NULL);
}
