/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/pool.h"

#include "tests/unit/driver/doc.h"

#include <stdio.h>

/* Every field that this version takes. */
static const char full[] = "apiVersion: sriov-dra.dev/v1alpha1\n"
                           "kind: VirtualFunctionPool\n"
                           "metadata: {name: storage}\n"
                           "spec:\n"
                           "  nodeSelector: {matchLabels: {nic: fast}}\n"
                           "  functions:\n"
                           "  - {parent: {interface: enp1s0}, indexes: '0-3,7'}\n"
                           "  - {parent: {pciAddress: '0000:02:00.0'}}\n"
                           "  - {node: worker-1, pciAddress: '0000:3B:02.1'}\n"
                           "  mode: Skip\n"
                           "  provisioning: {by: External}\n"
                           "  settings: {vlan: {id: 100, qos: 3}, spoofCheck: true, trust: false,\n"
                           "             mtu: 9000, maxTxRateMbps: 500}\n"
                           "  bind: Kernel\n"
                           "  attach: NRI\n"
                           "  attributes: {fabric: blue, tier: 2, example.com/fast: true}\n";

static const char least[] = "{apiVersion: sriov-dra.dev/v1alpha1, kind: VirtualFunctionPool,"
                            " metadata: {name: p},"
                            " spec: {functions: [{parent: {interface: enp1s0}}]}}";

static int parse_pool(const json_t *o, struct err *e)
{
    _cleanup_(pool_done) struct pool p = {0};

    return pool_parse(o, &p, e);
}

static void test_full(void **state)
{
    _cleanup_(pool_done) struct pool p = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *o = doc(full);

    (void)state;
    assert_ok(pool_parse(o, &p, &e), &e);
    assert_string_equal(p.name, "storage");
    assert_int_equal(p.node_labels.n, 1);
    assert_string_equal(p.node_labels.v[0].key, "nic");
    assert_string_equal(p.node_labels.v[0].value, "fast");
    assert_int_equal(p.functions.n, 3);
    assert_string_equal(p.functions.v[0].pf_interface, "enp1s0");
    assert_false(p.functions.v[0].all_indexes);
    assert_int_equal(p.functions.v[0].indexes.n, 2);
    assert_int_equal(p.functions.v[0].indexes.v[0].first, 0);
    assert_int_equal(p.functions.v[0].indexes.v[0].last, 3);
    assert_int_equal(p.functions.v[0].indexes.v[1].first, 7);
    assert_string_equal(p.functions.v[1].pf_address, "0000:02:00.0");
    assert_true(p.functions.v[1].all_indexes);
    assert_string_equal(p.functions.v[2].vf_address, "0000:3b:02.1");
    assert_string_equal(p.functions.v[2].node, "worker-1");
    assert_int_equal(p.mode, MODE_SKIP);
    assert_int_equal(p.by, PROVISIONED_EXTERNALLY);
    assert_int_equal(p.settings.set,
                     VF_SET_VLAN | VF_SET_SPOOFCHK | VF_SET_TRUST | VF_SET_MTU | VF_SET_RATE);
    assert_int_equal(p.settings.vlan_id, 100);
    assert_int_equal(p.settings.vlan_qos, 3);
    assert_true(p.settings.spoofchk);
    assert_false(p.settings.trust);
    assert_int_equal(p.settings.mtu, 9000);
    assert_int_equal(p.settings.max_tx_mbps, 500);
    assert_int_equal(p.attach, ATTACH_NRI);
    assert_int_equal(p.attributes.n, 3);
    assert_string_equal(p.attributes.v[2].name, "example.com/fast");
    assert_true(json_is_true(p.attributes.v[2].value));
}

static void test_defaults(void **state)
{
    _cleanup_(pool_done) struct pool p = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *o = doc(least);

    (void)state;
    assert_ok(pool_parse(o, &p, &e), &e);
    assert_int_equal(p.mode, MODE_PREPARE);
    assert_int_equal(p.by, PROVISIONED_EXTERNALLY);
    assert_int_equal(p.attach, ATTACH_NRI);
    assert_int_equal(p.settings.set, 0);
    assert_string_equal(mode_text(MODE_PREPARE), "Prepare");
    assert_string_equal(mode_text(MODE_SKIP), "Skip");
    assert_string_equal(attach_text(ATTACH_NRI), "NRI");
    assert_string_equal(attach_text(ATTACH_NONE), "None");

    enum mode m = MODE_PREPARE;
    assert_int_equal(mode_parse("Skip", &m), 0);
    assert_int_equal(m, MODE_SKIP);
    assert_true(mode_parse("skip", &m) < 0);
    assert_true(mode_parse("CNI", &m) < 0);
    assert_int_equal(m, MODE_SKIP);
    assert_int_equal(mode_parse("DeferCleanup", &m), 0);
    assert_int_equal(m, MODE_DEFER_CLEANUP);
    assert_string_equal(mode_text(m), "DeferCleanup");
}

#define A32 "abcdefghijklmnopqrstuvwxyz_12345"
#define D63 "a23456789012345678901234567890123456789012345678901234567890123"

/* What is put where in the full document; the error's part, or NULL: it is right. */
static const struct {
    const char *path, *yaml, *error;
} changes[] = {
    {"apiVersion", "sriov-dra.dev/v1", "apiVersion: must be sriov-dra.dev/v1alpha1"},
    {"apiVersion", NULL, "apiVersion: must be"},
    {"kind", "VirtualFunctionConfig", "kind: must be VirtualFunctionPool"},
    {"kind", NULL, "kind: must be"},
    {"status", "{x: 1}", NULL},
    {"metadata", NULL, "metadata.name: must be given"},
    {"metadata.name", NULL, "metadata.name: must be given"},
    {"metadata.name", "Storage", "metadata.name: \"Storage\""},
    {"metadata.name", "a.b", "metadata.name: \"a.b\""},
    {"metadata.name", "-a", "metadata.name"},
    {"metadata.name", "a-", "metadata.name"},
    {"metadata.name", "''", "metadata.name"},
    {"metadata.name", D63, NULL},
    {"metadata.name", D63 "a", "metadata.name"},
    {"metadata.labels", "{a: b}", NULL},
    {"metadata.nmae", "a", "metadata.nmae: unknown field"},
    {"spec", NULL, "spec: must be given"},
    {"spec.nodeSelector", NULL, NULL},
    {"spec.nodeSelector.matchLabels", NULL, NULL},
    {"spec.nodeSelector.matchExpressions", "[]", "spec.nodeSelector.matchExpressions"},
    {"spec.nodeSelector.matchLabels.nic", "true", "spec.nodeSelector.matchLabels.nic: must be a s"},
    {"spec.nodeSelector.matchLabels.nic", "a b", "matchLabels.nic: no label can have the value"},
    {"spec.nodeSelector.matchLabels.nic", "a-_.b", NULL},
    {"spec.nodeSelector.matchLabels.nic", "'-a'", "no label can have the value \"-a\""},
    {"spec.nodeSelector.matchLabels.nic", "a.", "no label can have the value \"a.\""},
    {"spec.nodeSelector.matchLabels.nic", D63, NULL},
    {"spec.nodeSelector.matchLabels.nic", D63 "a", "no label can have the value"},
    {"spec.nodeSelector.matchLabels.nic", "''", NULL},
    {"spec.nodeSelector.matchLabels.n+c", "a", "matchLabels.n+c: no label can have this name"},
    {"spec.nodeSelector.matchLabels", "{example.com/nic: a}", NULL},
    {"spec.nodeSelector.matchLabels", "{example.com/: a}", "no label can have this name"},
    {"spec.functions", NULL, "spec.functions: must say"},
    {"spec.functions", "[]", "spec.functions: must say"},
    {"spec.functions[0]", "{}", "spec.functions[0]: must have either parent"},
    {"spec.functions[0].pciAddress", "'0000:02:00.0'", "spec.functions[0]: must have either par"},
    {"spec.functions[0].node", "a", "spec.functions[0].node: goes with pciAddress only"},
    {"spec.functions[0].parent", "{}", "spec.functions[0].parent: must have either interface"},
    {"spec.functions[0].parent.pciAddress", "'0000:02:00.0'", "functions[0].parent: must have"},
    {"spec.functions[0].parent.interface", "enp1s0f0np0v012x", "parent.interface"},
    {"spec.functions[0].parent.interface", "lo", "parent.interface: \"lo\""},
    {"spec.functions[0].indexes", "0-3", NULL},
    {"spec.functions[0].indexes", "'7,0-3,5'", NULL},
    {"spec.functions[0].indexes", "'0-65534'", NULL},
    {"spec.functions[0].indexes", "'65535'", "functions[0].indexes: \"65535\" is no list"},
    {"spec.functions[0].indexes", "'99999999999999999999'", "is no list"},
    {"spec.functions[0].indexes", "3", "spec.functions[0].indexes: must be a string"},
    {"spec.functions[0].indexes", "''", "is no list"},
    {"spec.functions[0].indexes", "'0,'", "is no list"},
    {"spec.functions[0].indexes", "',0'", "is no list"},
    {"spec.functions[0].indexes", "'0-'", "is no list"},
    {"spec.functions[0].indexes", "'-3'", "is no list"},
    {"spec.functions[0].indexes", "'0--3'", "is no list"},
    {"spec.functions[0].indexes", "'0-3-5'", "is no list"},
    {"spec.functions[0].indexes", "'0 - 3'", "is no list"},
    {"spec.functions[0].indexes", "'+1'", "is no list"},
    {"spec.functions[0].indexes", "'01'", "is no list"},
    {"spec.functions[0].indexes", "'0x1'", "is no list"},
    {"spec.functions[0].indexes", "a", "is no list"},
    {"spec.functions[0].indexes", "'3-1'", "the range 3-1 is upside down"},
    {"spec.functions[0].indexes", "'0-3,2'", "has index 2 twice"},
    {"spec.functions[0].indexes", "'5,0-9'", "has index 5 twice"},
    {"spec.functions[0].indexes", "'0-3,3'", "has index 3 twice"},
    {"spec.functions[0].indexes", "'3,0-3'", "has index 3 twice"},
    {"spec.functions[0].indexes", "'3-5,0-3'", "has index 3 twice"},
    {"spec.functions[0].indexes", "'0-65535'", "is no list"},
    {"spec.functions[0].indexes", "'65535-3'", "is no list"},
    {"spec.functions[1].parent.pciAddress", "'02:00.0'", "functions[1].parent.pciAddress: \"02:0"},
    {"spec.functions[1].parent.pciAddress", "'10001:80:05.0'", NULL},
    {"spec.functions[1]", "{parent: {interface: enp1s0}, indexes: '4-6'}", NULL},
    {"spec.functions[1]", "{parent: {interface: enp1s0}, indexes: '7'}", "selects VFs that [0]"},
    {"spec.functions[1]", "{parent: {interface: enp1s0}, indexes: '3-4'}",
     "spec.functions[1]: selects VFs that [0] has already"},
    {"spec.functions[1]", "{parent: {interface: enp1s0}}", "functions[1]: selects VFs that [0]"},
    {"spec.functions[2].indexes", "'0'", "spec.functions[2].indexes: goes with parent only"},
    {"spec.functions[2].pciAddress", "'0000:3b:02.8'", "spec.functions[2].pciAddress"},
    {"spec.functions[2].node", "Worker", "spec.functions[2].node: \"Worker\""},
    {"spec.functions[2].node", "worker-.example.com", "spec.functions[2].node: \"worker-.ex"},
    {"spec.functions[2].node", "worker.-1", "spec.functions[2].node"},
    {"spec.functions[2].node", "worker..1", "spec.functions[2].node"},
    {"spec.functions[2].node", "worker-1.example.com", NULL},
    {"spec.functions[2].node", NULL, NULL},
    {"spec.mode", "Prepare", NULL},
    {"spec.mode", NULL, NULL},
    {"spec.mode", "skip", "spec.mode: must be Prepare or DeferCleanup or Skip, not \"skip\""},
    {"spec.provisioning", NULL, NULL},
    {"spec.provisioning", "{}", NULL},
    {"spec.provisioning.by", "Driver", NULL},
    {"spec.provisioning.by", "driver", "spec.provisioning.by: must be External or Driver"},
    {"spec.provisioning.count", "4", "spec.provisioning.count: goes with by: Driver only"},
    {"spec.provisioning", "{count: 4}", "spec.provisioning.count: goes with by: Driver only"},
    {"spec.provisioning", "{by: Driver, count: 4}",
     "spec.functions[0].indexes: there will be no V"},
    {"spec.provisioning", "{by: Driver, count: 8}", "spec.functions[2]: names one VF by its addre"},
    {"spec.provisioning", "{by: Driver, count: 0}", "spec.provisioning.count: must be a whole num"},
    {"spec.provisioning", "{by: Driver, count: 65536}", "must be a whole number from 1 to 65535"},
    {"spec.provisioning", "{by: Driver, count: '4'}", "spec.provisioning.count: must be a whole"},
    {"spec.settings", NULL, NULL},
    {"spec.settings", "{}", NULL},
    {"spec.settings.macAddress", "'52:54:00:ab:cd:ef'", "spec.settings.macAddress: a pool has man"},
    {"spec.settings.vlan.id", NULL, "spec.settings.vlan.id: must be given"},
    {"spec.settings.vlan.id", "4095", "spec.settings.vlan.id: must be a whole number from 0 to 4"},
    {"spec.settings.vlan.id", "-1", "spec.settings.vlan.id"},
    {"spec.settings.vlan.id", "4094", NULL},
    {"spec.settings.vlan.id", "0", "spec.settings.vlan.qos: a priority needs a VLAN"},
    {"spec.settings.vlan", "{id: 0}", NULL},
    {"spec.settings.vlan.qos", "8", "spec.settings.vlan.qos: must be a whole number from 0 to 7"},
    {"spec.settings.mtu", "67", "spec.settings.mtu: must be a whole number from 68 to 65535"},
    {"spec.settings.mtu", "65536", "spec.settings.mtu"},
    {"spec.settings.maxTxRateMbps", "4294967295", NULL},
    {"spec.settings.maxTxRateMbps", "4294967296", "spec.settings.maxTxRateMbps"},
    {"spec.settings.trust", "'true'", "spec.settings.trust: must be true or false"},
    {"spec.taintEffect", "NoExecute", NULL},
    {"spec.taintEffect", "None", "spec.taintEffect: must be NoSchedule or NoExecute, not \"None\""},
    {"spec.bind", "VFIO", "spec.bind: \"VFIO\" is not supported by this version yet"},
    {"spec.bind", "None", "spec.bind: must be Kernel"},
    {"spec.attach", "None", NULL},
    {"spec.attach", "CNI", "spec.attach: \"CNI\" is not supported by this version yet"},
    {"spec.cni", "{}", "spec.cni: not supported by this version yet"},
    {"spec.attributes", "{a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1}", NULL},
    {"spec.attributes", "{a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1}",
     "spec.attributes: has 9 attributes, 8 at most"},
    {"spec.attributes", "{mode: fast}", "spec.attributes.mode: is a name that the driver keeps"},
    {"spec.attributes", "{vlan: 1}", "spec.attributes.vlan"},
    {"spec.attributes", "{example.com/vlan: 1}", NULL},
    {"spec.attributes", "{sriov-dra.dev/x: 1}", "write it without the domain"},
    {"spec.attributes", "{resource.kubernetes.io/pcieRoot: x}", "belongs to Kubernetes"},
    {"spec.attributes", "{k8s.io/x: x}", "belongs to Kubernetes"},
    {"spec.attributes", "{notk8s.io/x: x}", NULL},
    {"spec.attributes", "{k8s.cni.cncf.io/deviceID: x}", "kept for Multus"},
    {"spec.attributes", "{" A32 ": 1}", NULL},
    {"spec.attributes", "{" A32 "6: 1}", "must be a C identifier of at most 32"},
    {"spec.attributes", "{1a: 1}", "spec.attributes.1a: must be a C identifier"},
    {"spec.attributes", "{a-b: 1}", "must be a C identifier"},
    {"spec.attributes", "{'': 1}", "must be a C identifier"},
    {"spec.attributes", "{/a: 1}", "must be a C identifier"},
    {"spec.attributes", "{a/b/c: 1}", "must be a C identifier"},
    {"spec.attributes", "{example.com/: 1}", "must be a C identifier"},
    {"spec.attributes", "{a: null}", "spec.attributes.a: must be a string, a boolean or a whole"},
    {"spec.attributes", "{a: 1.5}", "spec.attributes.a: must be"},
    {"spec.attributes", "{a: [b]}", "spec.attributes.a: must be"},
    {"spec.attributes", "{a: " D63 "4}", NULL},
    {"spec.attributes", "{a: " D63 "45}", "spec.attributes.a: is longer than the 64 bytes"},
};

static void test_changes(void **state)
{
    json_auto_t *base = doc(full);

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        _cleanup_(pool_done) struct pool p = {0};
        _cleanup_err_ struct err e = ERR_INIT;
        json_auto_t *o = doc_with(base, changes[i].path, changes[i].yaml);
        int r = pool_parse(o, &p, &e);

        if (!changes[i].error) {
            if (r < 0)
                fail_msg("%s: %s: %s", changes[i].path, changes[i].yaml, err_text(&e));
            continue;
        }
        if (r >= 0)
            fail_msg("%s: %s was taken", changes[i].path, changes[i].yaml);
        assert_err_has(&e, changes[i].error);
        assert_int_equal(e.kind, ERR_USER);
        assert_null(p.name);
    }
}

static void test_broken_everywhere(void **state)
{
    static const char *const free_form[] = {"spec.nodeSelector.matchLabels", "spec.attributes",
                                            NULL};
    json_auto_t *o = doc(full);

    (void)state;
    doc_break_everywhere(o, free_form, parse_pool);
}

static void test_too_many_functions(void **state)
{
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *o = doc(least);
    json_t *list = json_array();

    (void)state;
    for (unsigned i = 0; i < 256; i++)
        json_array_append_new(list,
                              json_pack("{s:o}", "pciAddress", json_sprintf("0000:%02x:00.0", i)));
    json_object_set_new(json_object_get(o, "spec"), "functions", list);
    assert_ok(parse_pool(o, &e), &e);
    json_array_append_new(list, doc("{pciAddress: '0001:00:00.0'}"));
    assert_true(parse_pool(o, &e) < 0);
    assert_err_has(&e, "spec.functions: has 257 entries, 256 at most");
}

static void test_by_driver(void **state)
{
    json_auto_t *o = doc(least);
    _cleanup_(pool_done) struct pool p = {0}, q = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    doc_set(o, "spec.provisioning", "{by: Driver}");
    assert_ok(pool_parse(o, &p, &e), &e);
    assert_int_equal(p.by, PROVISIONED_BY_DRIVER);
    assert_int_equal(p.count, 0);
    doc_set(o, "spec.mode", "Skip");
    doc_set(o, "spec.functions", "[{parent: {interface: enp1s0}, indexes: '0-2,3'}]");
    doc_set(o, "spec.provisioning", "{by: Driver, count: 4}");
    assert_ok(pool_parse(o, &q, &e), &e);
    assert_int_equal(q.by, PROVISIONED_BY_DRIVER);
    assert_int_equal(q.count, 4);
}

static struct pool pool_of(const char *spec)
{
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *o = doc(least);
    struct pool p = {0};

    doc_set(o, "spec", spec);
    assert_ok(pool_parse(o, &p, &e), &e);
    return p;
}

static void test_selects(void **state)
{
    static const struct {
        const char *functions;
        const char *node;
        bool want;
    } cases[] = {
        {"[{parent: {interface: enp1s0}}]", "w1", true},
        {"[{parent: {interface: enp2s0}}]", "w1", false},
        {"[{parent: {pciAddress: '0000:01:00.0'}}]", "w1", true},
        {"[{parent: {pciAddress: '0000:01:00.1'}}]", "w1", false},
        {"[{parent: {interface: enp1s0}, indexes: '3'}]", "w1", true},
        {"[{parent: {interface: enp1s0}, indexes: '0-2,4'}]", "w1", false},
        {"[{parent: {interface: enp1s0}, indexes: '0-2,3-9'}]", "w1", true},
        {"[{parent: {interface: a}}, {parent: {interface: enp1s0}}]", "w1", true},
        {"[{pciAddress: '0000:01:10.6'}]", "w1", true},
        {"[{pciAddress: '0000:01:10.4'}]", "w1", false},
        {"[{pciAddress: '0000:01:10.6', node: w1}]", "w1", true},
        {"[{pciAddress: '0000:01:10.6', node: w1}]", "w2", false},
        /* the PF's own address is no VF's */
        {"[{pciAddress: '0000:01:00.0'}]", "w1", false},
    };
    const struct vf vf = {.address = "0000:01:10.6", .index = 3};
    char name[] = "enp1s0";
    const struct pf pf = {.address = "0000:01:00.0", .netdev = name};
    const struct pf without_netdev = {.address = "0000:01:00.0"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char spec[256];
        snprintf(spec, sizeof(spec), "{functions: %s}", cases[i].functions);
        _cleanup_(pool_done) struct pool p = pool_of(spec);

        if (pool_selects(&p, cases[i].node, &pf, &vf) != cases[i].want)
            fail_msg("%s on %s", cases[i].functions, cases[i].node);
    }
    _cleanup_(pool_done) struct pool p = pool_of("{functions: [{parent: {interface: enp1s0}}]}");
    assert_false(pool_selects(&p, "n", &without_netdev, &vf));
    assert_true(pool_names_pf(&p, &pf));
    assert_false(pool_names_pf(&p, &without_netdev));
}

static void test_matches_node(void **state)
{
    static const struct {
        const char *labels; /* NULL: the node has none, or isn't known */
        bool want;
    } cases[] = {
        {"{nic: fast, zone: a}", true},
        {"{nic: slow, zone: a}", false},
        {"{nic: fast}", false},
        {"{}", false},
        {NULL, false},
        {"{nic: 1, zone: a}", false},
    };
    _cleanup_(pool_done) struct pool p = pool_of("{nodeSelector: {matchLabels: {nic: fast, zone: "
                                                 "a}}, functions: [{parent: {interface: a}}]}");
    _cleanup_(pool_done) struct pool any = pool_of("{functions: [{parent: {interface: a}}]}");

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_auto_t *labels = cases[i].labels ? doc(cases[i].labels) : NULL;

        if (pool_matches_node(&p, labels) != cases[i].want)
            fail_msg("%s", cases[i].labels ? cases[i].labels : "no labels");
        assert_true(pool_matches_node(&any, labels));
    }
}

/* A file of that text, and what is read from it. */
static int load(const char *text, struct pools *ret, struct err *e)
{
    char path[] = "/tmp/sriov-dra-test-XXXXXX";
    int fd = mkstemp(path), r;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    r = pools_load(path, ret, e);
    unlink(path);
    return r;
}

#define POOL(name, more)                                                                           \
    "apiVersion: sriov-dra.dev/v1alpha1\nkind: VirtualFunctionPool\nmetadata: {name: " name        \
    "}\nspec: {functions: [{parent: {interface: enp1s0}" more "}]}\n"

static void test_load(void **state)
{
    _cleanup_(pools_done) struct pools ps = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    assert_ok(load(POOL("a", ", indexes: '0-1'") "---\n" POOL(
                       "b", ", bogus: 1") "---\n"
                                          "{kind: x}\n---\n" POOL("c", "") "---\n" POOL("a", ""),
                   &ps, &e),
              &e);
    assert_int_equal(ps.pools.n, 2);
    assert_string_equal(ps.pools.v[0].name, "a");
    assert_int_equal(ps.pools.v[0].functions.v[0].indexes.n, 1);
    assert_string_equal(ps.pools.v[1].name, "c");
    assert_int_equal(ps.problems.n, 3);
    assert_string_equal(ps.problems.v[0].name, "b");
    assert_non_null(strstr(ps.problems.v[0].text, "spec.functions[0].bogus: unknown field"));
    assert_string_equal(ps.problems.v[1].name, "");
    assert_non_null(strstr(ps.problems.v[1].text, "document 3: apiVersion"));
    assert_string_equal(ps.problems.v[2].name, "a");
    assert_non_null(strstr(ps.problems.v[2].text, "document 5 is another pool of this name"));

    const struct pf pf = {.address = "0000:01:00.0", .netdev = (char[]){"enp1s0"}};
    const struct vf first = {.index = 0}, last = {.index = 9};
    assert_ptr_equal(pools_find(&ps, "n", NULL, &pf, &first), &ps.pools.v[0]);
    assert_ptr_equal(pools_find(&ps, "n", NULL, &pf, &last), &ps.pools.v[1]);
    const struct pf other = {.address = "0000:02:00.0"};
    assert_null(pools_find(&ps, "n", NULL, &other, &last));
}

/* Where no VLAN is declared, a Skip pool promises that there is none. */
static void test_skip_without_vlan(void **state)
{
    static const struct {
        const char *mode, *settings;
        bool set;
        unsigned id;
    } cases[] = {
        {"Skip", "{}", true, 0},
        {"Skip", "{mtu: 1500}", true, 0},
        {"Skip", "{vlan: {id: 100}}", true, 100},
        {"Prepare", "{mtu: 1500}", false, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_free_ char *text =
            xasprintf("apiVersion: sriov-dra.dev/v1alpha1\nkind: VirtualFunctionPool\n"
                      "metadata: {name: a}\nspec:\n  functions: [{parent: {interface: p}}]\n"
                      "  mode: %s\n  settings: %s\n",
                      cases[i].mode, cases[i].settings);
        json_auto_t *o = doc(text);
        _cleanup_(pool_done) struct pool p = {0};
        _cleanup_err_ struct err e = ERR_INIT;

        assert_ok(pool_parse(o, &p, &e), &e);
        assert_int_equal(!!(p.settings.set & VF_SET_VLAN), cases[i].set);
        assert_int_equal(p.settings.vlan_id, cases[i].id);
    }
}

static void test_load_json(void **state)
{
    _cleanup_(pools_done) struct pools ps = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    /* a surrogate pair and a tab, which a YAML reader wouldn't take */
    assert_ok(load("\n{\"apiVersion\":\"sriov-dra.dev/v1alpha1\",\"kind\":\"VirtualFunctionPool\","
                   "\t\"metadata\":{\"name\":\"j\"},\"spec\":{\"functions\":[{\"parent\":"
                   "{\"interface\":\"a\"}}],\"attributes\":{\"x\":\"\\ud83d\\ude00\"}}}",
                   &ps, &e),
              &e);
    assert_int_equal(ps.problems.n, 0);
    assert_int_equal(ps.pools.n, 1);
    assert_string_equal(ps.pools.v[0].name, "j");
}

static void test_load_fails(void **state)
{
    _cleanup_(pools_done) struct pools ps = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    assert_true(load("a: [", &ps, &e) < 0);
    assert_err_has(&e, "/tmp/sriov-dra-test-");
    assert_err_has(&e, "line ");
    assert_true(pools_load("/nonexistent/pools.yaml", &ps, &e) < 0);
    assert_err_has(&e, "/nonexistent/pools.yaml");
    assert_int_equal(ps.pools.n + ps.problems.n, 0);
    /* nothing is offered, which is no failure */
    assert_ok(load("", &ps, &e), &e);
    assert_int_equal(ps.pools.n + ps.problems.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_broken_everywhere),
        cmocka_unit_test(test_too_many_functions),
        cmocka_unit_test(test_by_driver),
        cmocka_unit_test(test_skip_without_vlan),
        cmocka_unit_test(test_selects),
        cmocka_unit_test(test_matches_node),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_load_json),
        cmocka_unit_test(test_load_fails),
    };

    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
