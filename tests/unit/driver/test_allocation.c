/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/allocation.h"

#include "tests/unit/driver/doc.h"

#include <errno.h>

#define DRIVER "sriov-dra.dev"
#define UID    "1f2e3d4c-0000-4000-8000-00000000000a"

static const char claim_yaml[] =
    "apiVersion: resource.k8s.io/v1\n"
    "kind: ResourceClaim\n"
    "metadata: {namespace: default, name: c, uid: " UID ", resourceVersion: '7'}\n"
    "spec: {devices: {requests: []}}\n"
    "status:\n"
    "  allocation:\n"
    "    nodeSelector: {}\n"
    "    devices:\n"
    "      results:\n"
    "      - {request: a, driver: sriov-dra.dev, pool: node-1, device: 0000-01-10-0}\n"
    "      - {request: gpu, driver: gpu.example.com, pool: node-1, device: gpu-0}\n"
    "      - {request: b/fast, driver: sriov-dra.dev, pool: node-1, device: 0000-01-10-2,\n"
    "         skipNodeOperations: ['*'], shareID: 0b8f, adminAccess: true}\n"
    "  reservedFor:\n"
    "  - {resource: pods, name: p, uid: uid-p}\n"
    "  - {apiGroup: scheduling.k8s.io, resource: podgroups, name: g, uid: uid-g}\n"
    "  - {resource: services, name: s, uid: uid-s}\n"
    "  - {apiGroup: example.com, resource: pods, name: x, uid: uid-x}\n"
    "  - {resource: pods, name: q, uid: uid-q}\n";

static json_t *claim_with(const char *path, const char *yaml)
{
    json_auto_t *o = doc(claim_yaml);

    return doc_with(o, path, yaml);
}

static void test_read(void **state)
{
    _cleanup_(allocation_done) struct allocation a = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *o = doc(claim_yaml);

    (void)state;
    assert_ok(allocation_read(o, DRIVER, UID, &a, &e), &e);
    assert_string_equal(a.namespace, "default");
    assert_string_equal(a.name, "c");
    assert_string_equal(a.uid, UID);
    assert_false(a.deleted);
    assert_int_equal(a.devices.n, 2);

    const struct allocated_device *d = &a.devices.v[0];
    assert_string_equal(d->request, "a");
    assert_null(d->subrequest);
    assert_string_equal(d->pool, "node-1");
    assert_string_equal(d->device, "0000-01-10-0");
    assert_null(d->share_id);
    assert_false(d->admin_access || d->skip_prepare || d->skip_unprepare);
    d++;
    assert_string_equal(d->request, "b");
    assert_string_equal(d->subrequest, "b/fast");
    assert_string_equal(d->share_id, "0b8f");
    assert_true(d->admin_access && d->skip_prepare && d->skip_unprepare);

    assert_int_equal(a.pods.n, 2);
    assert_string_equal(a.pods.v[0], "uid-p");
    assert_string_equal(a.pods.v[1], "uid-q");
}

static void test_deleted(void **state)
{
    _cleanup_(allocation_done) struct allocation a = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *o = claim_with("metadata.deletionTimestamp", "'2026-01-02T03:04:05Z'");

    (void)state;
    assert_ok(allocation_read(o, DRIVER, NULL, &a, &e), &e);
    assert_true(a.deleted);
}

static void test_skip_lists(void **state)
{
    static const struct {
        const char *list;
        bool prepare, unprepare;
    } cases[] = {
        {"['*']", true, true},
        {"[NodeUnprepareResources]", false, true},
        {"[NodePrepareResources, NodeUnprepareResources]", true, true},
        {"[NodeUnprepareResources, '*']", true, true},
        {"[SomethingNew]", false, false},
        {"[]", false, false},
        {"[1]", false, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(allocation_done) struct allocation a = {0};
        _cleanup_err_ struct err e = ERR_INIT;
        json_auto_t *o =
            claim_with("status.allocation.devices.results[0].skipNodeOperations", cases[i].list);

        assert_ok(allocation_read(o, DRIVER, UID, &a, &e), &e);
        if (a.devices.v[0].skip_prepare != cases[i].prepare ||
            a.devices.v[0].skip_unprepare != cases[i].unprepare)
            fail_msg("%s", cases[i].list);
    }
}

/*
 * The kubelet leaves a call out only if it isn't needed for any of our devices; other drivers'
 * don't count (claiminfo.go, computeDriverStates()).
 */
static void test_skipped_calls(void **state)
{
    static const struct {
        const char *first, *third; /* lists of our two devices */
        bool prepare, unprepare;
    } cases[] = {
        {"['*']", "['*']", true, true},
        {"[NodeUnprepareResources]", "[NodeUnprepareResources]", false, true},
        {"[NodeUnprepareResources]", "['*']", false, true},
        {"[NodePrepareResources, NodeUnprepareResources]", "['*']", true, true},
        {"['*']", "[]", false, false},
        {"[]", "[NodeUnprepareResources]", false, false},
        {"[SomethingNew]", "['*']", false, false},
        {"[SomethingNew]", "[SomethingNew]", false, false},
        {"['*', SomethingNew]", "['*']", true, true},
        {"[NodeUnprepareResources, SomethingNew]", "['*']", false, true},
        {"[NodePrepareResources, NodeUnprepareResources]", "[NodeUnprepareResources]", false, true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(allocation_done) struct allocation a = {0};
        _cleanup_err_ struct err e = ERR_INIT;
        json_auto_t *one =
            claim_with("status.allocation.devices.results[0].skipNodeOperations", cases[i].first);
        json_auto_t *o = doc_with(one, "status.allocation.devices.results[2].skipNodeOperations",
                                  cases[i].third);

        assert_ok(allocation_read(o, DRIVER, UID, &a, &e), &e);
        if (allocation_skips_prepare(&a) != cases[i].prepare ||
            allocation_skips_unprepare(&a) != cases[i].unprepare)
            fail_msg("%s and %s", cases[i].first, cases[i].third);
    }

    _cleanup_(allocation_done) struct allocation none = {0};
    assert_false(allocation_skips_prepare(&none) || allocation_skips_unprepare(&none));
}

/* What can be wrong with the object itself. */
static const struct {
    const char *path, *yaml;
    int code;
    const char *error;
} faults[] = {
    {"metadata.uid", "other", -ESTALE, "claim default/c: its uid is other, but " UID " was asked"},
    {"metadata.uid", "../../etc", -EBADMSG, "metadata.uid: no valid uid"},
    {"metadata.uid", NULL, -EBADMSG, "metadata.uid: missing"},
    {"metadata.name", NULL, -EBADMSG, "metadata.name: missing"},
    {"metadata.namespace", "''", -EBADMSG, "metadata.namespace: missing"},
    {"metadata", NULL, -EBADMSG, "metadata.namespace: missing"},
    {"status", NULL, -ENOENT, "claim default/c is not allocated"},
    {"status.allocation", NULL, -ENOENT, "claim default/c is not allocated"},
    {"status.allocation", "null", -ENOENT, "claim default/c is not allocated"},
    {"status.allocation.devices.results[0].device", NULL, -EBADMSG,
     "claim default/c: status.allocation.devices.results[0]: missing"},
    {"status.allocation.devices.results[2].pool", "1", -EBADMSG, "results[2]: missing"},
    {"status.allocation.devices.results[0].request", "''", -EBADMSG, "results[0]: missing"},
    {"status.allocation.devices.results[1].driver", NULL, -EBADMSG, "results[1]: no driver"},
    {"status.allocation.devices.config", "[{source: FromHell, opaque: {driver: sriov-dra.dev}}]",
     -EBADMSG, "config[0].source: neither FromClass nor FromClaim"},
};

/* Which devices of ours stand in status.devices with their network, as "ab", "a", "b" or "". */
static void test_told(void **state)
{
#define OURS    "driver: sriov-dra.dev, pool: node-1, device: "
#define NETWORK ", networkData: {interfaceName: net1}}"
    static const struct {
        const char *devices, *told;
    } cases[] = {
        {"[{" OURS "0000-01-10-0" NETWORK "]", "a"},
        {"[{" OURS "0000-01-10-2, shareID: 0b8f" NETWORK "]", "b"},
        {"[{" OURS "0000-01-10-0" NETWORK ", {" OURS "0000-01-10-2, shareID: 0b8f" NETWORK "]",
         "ab"},
        {"[{" OURS "0000-01-10-2" NETWORK "]", ""},
        {"[{" OURS "0000-01-10-2, shareID: other" NETWORK "]", ""},
        {"[{" OURS "0000-01-10-0}]", ""},
        {"[{" OURS "0000-01-10-4" NETWORK "]", ""},
        {"[{driver: gpu.example.com, pool: node-1, device: 0000-01-10-0" NETWORK "]", ""},
        {"[{driver: sriov-dra.dev, pool: node-2, device: 0000-01-10-0" NETWORK "]", ""},
        {"[7, {}]", ""},
        {"[]", ""},
    };
#undef OURS
#undef NETWORK

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(allocation_done) struct allocation a = {0};
        _cleanup_err_ struct err e = ERR_INIT;
        json_auto_t *o = claim_with("status.devices", cases[i].devices);
        char told[3] = "";

        assert_ok(allocation_read(o, DRIVER, UID, &a, &e), &e);
        vec_foreach (d, &a.devices)
            if (d->told)
                strcat(told, d->request);
        assert_string_equal(told, cases[i].told);
    }
}

/* The place of request b/fast in its prioritised list. */
static void test_choices(void **state)
{
    static const struct {
        const char *requests;
        unsigned choice, choices;
    } cases[] = {
        {"[{name: b, firstAvailable: [{name: fast}, {name: slow}]}]", 1, 2},
        {"[{name: a, firstAvailable: [{name: fast}]},"
         " {name: b, firstAvailable: [{name: one}, {name: two}, {name: fast}]}]",
         3, 3},
        {"[{name: b, firstAvailable: [{name: fast}]}]", 1, 1},
        /* what a server doesn't send */
        {"[{name: b, firstAvailable: [{name: faster}]}]", 0, 0},
        {"[{name: b, exactly: {}}]", 0, 0},
        {"[{name: c, firstAvailable: [{name: fast}]}]", 0, 0},
        {"[7, {}, {name: b, firstAvailable: 7}, {name: b, firstAvailable: [7, {}]}]", 0, 0},
        {"{}", 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(allocation_done) struct allocation a = {0};
        _cleanup_err_ struct err e = ERR_INIT;
        json_auto_t *o = claim_with("spec.devices.requests", cases[i].requests);

        assert_ok(allocation_read(o, DRIVER, UID, &a, &e), &e);
        if (a.devices.v[1].choice != cases[i].choice || a.devices.v[1].choices != cases[i].choices)
            fail_msg("%s: %u of %u", cases[i].requests, a.devices.v[1].choice,
                     a.devices.v[1].choices);
        assert_int_equal(a.devices.v[0].choices, 0);
    }
}

static void test_faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
        _cleanup_(allocation_done) struct allocation a = {0};
        _cleanup_err_ struct err e = ERR_INIT;
        json_auto_t *o = claim_with(faults[i].path, faults[i].yaml);
        int r = allocation_read(o, DRIVER, UID, &a, &e);

        if (r != faults[i].code)
            fail_msg("%s: %s: %d %s", faults[i].path, faults[i].yaml, r, err_text(&e));
        assert_err_has(&e, faults[i].error);
        assert_int_equal(e.kind, ERR_PERMANENT);
        assert_null(a.name);
        assert_int_equal(a.devices.n, 0);
    }
}

#define CONFIG(source, requests, settings)                                                         \
    "{source: " source ", requests: " requests ", opaque: {driver: sriov-dra.dev, parameters: "    \
    "{apiVersion: sriov-dra.dev/v1alpha1, kind: VirtualFunctionConfig, settings: " settings "}}}"

/* MTU of request a and of request b/fast (0: not asked), or the error. */
static const struct {
    const char *name, *config;
    uint32_t a, b;
    const char *error;
} configs[] = {
    {"none", "[]", 0, 0, NULL},
    {"for all", "[" CONFIG("FromClass", "[]", "{mtu: 100}") "]", 100, 100, NULL},
    {"no list",
     "[{source: FromClaim, opaque: {driver: sriov-dra.dev, parameters: {apiVersion: "
     "sriov-dra.dev/v1alpha1, kind: VirtualFunctionConfig, settings: {mtu: 100}}}}]",
     100, 100, NULL},
    {"for one", "[" CONFIG("FromClass", "[a]", "{mtu: 100}") "]", 100, 0, NULL},
    {"for the main request", "[" CONFIG("FromClass", "[b]", "{mtu: 100}") "]", 0, 100, NULL},
    {"for the subrequest", "[" CONFIG("FromClass", "[b/fast]", "{mtu: 100}") "]", 0, 100, NULL},
    {"for another one", "[" CONFIG("FromClass", "[b/slow, fast, b/]", "{mtu: 100}") "]", 0, 0,
     NULL},
    {"for both", "[" CONFIG("FromClass", "[a, b/fast]", "{mtu: 100}") "]", 100, 100, NULL},
    {"another driver's",
     "[{source: FromClaim, requests: [], opaque: {driver: gpu.example.com, parameters: {x: 1}}}]",
     0, 0, NULL},
    {"of a kind to come", "[{source: FromClaim, requests: [], structured: {}}]", 0, 0, NULL},
    {"the last class counts",
     "[" CONFIG("FromClass", "[]", "{mtu: 100}") ", " CONFIG("FromClass", "[a]", "{mtu: 200}") "]",
     200, 100, NULL},
    {"class first, whatever the order",
     "[" CONFIG("FromClaim", "[]", "{vlan: {id: 1}, mtu: 100}") ", " CONFIG(
         "FromClass", "[]", "{mtu: 100, trust: true}") "]",
     100, 100, NULL},
    {"a claim over its class, whatever the order",
     "[" CONFIG("FromClaim", "[]", "{mtu: 200}") ", " CONFIG("FromClass", "[a]", "{mtu: 100}") "]",
     0, 0,
     "request a: claim default/c: configuration [0] (from the claim): settings.mtu: the claim asks "
     "for 200 and the class has 100"},
    {"a misspelt field",
     "[" CONFIG("FromClass", "[]", "{}") ", " CONFIG("FromClaim", "[a]", "{vlann: 100}") "]", 0, 0,
     "claim default/c: configuration [1] (from the claim): settings.vlann: unknown field"},
    {"a misspelt field for nobody of ours", "[" CONFIG("FromClaim", "[gpu]", "{vlann: 100}") "]", 0,
     0, "settings.vlann: unknown field"},
    {"a class's fault is called the class's", "[" CONFIG("FromClass", "[]", "{mtu: 1}") "]", 0, 0,
     "claim default/c: configuration [0] (from its class): settings.mtu: must be"},
    {"no parameters", "[{source: FromClaim, requests: [], opaque: {driver: sriov-dra.dev}}]", 0, 0,
     "configuration [0] (from the claim): document: must be an object"},
    {"trust from a claim", "[" CONFIG("FromClaim", "[]", "{trust: true}") "]", 0, 0,
     "settings.trust: only a DeviceClass may set it"},
};

static void test_configs(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(configs); i++) {
        _cleanup_(allocation_done) struct allocation a = {0};
        _cleanup_err_ struct err e = ERR_INIT;
        json_auto_t *o = claim_with("status.allocation.devices.config", configs[i].config);
        int r = allocation_read(o, DRIVER, UID, &a, &e);

        if (configs[i].error) {
            if (r >= 0)
                fail_msg("%s was taken", configs[i].name);
            assert_err_has(&e, configs[i].error);
            assert_int_equal(e.kind, ERR_USER);
            assert_null(a.uid);
            continue;
        }
        if (r < 0)
            fail_msg("%s: %s", configs[i].name, err_text(&e));
        if (a.devices.v[0].asked.settings.mtu != configs[i].a ||
            a.devices.v[1].asked.settings.mtu != configs[i].b)
            fail_msg("%s: MTU %u and %u", configs[i].name, a.devices.v[0].asked.settings.mtu,
                     a.devices.v[1].asked.settings.mtu);
    }
}

static void test_nothing_of_ours(void **state)
{
    _cleanup_(allocation_done) struct allocation a = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *o = doc(claim_yaml);

    (void)state;
    assert_ok(allocation_read(o, "other.example.com", NULL, &a, &e), &e);
    assert_int_equal(a.devices.n, 0);
    assert_int_equal(a.pods.n, 2);
}

static void test_uid(void **state)
{
    static const struct {
        const char *uid;
        bool want;
    } cases[] = {
        {UID, true},
        {"a", true},
        {"", false},
        {".", false},
        {"a/b", false},
        {"a.b", false},
        {"a b", false},
        {"a\n", false},
        {"\xc3\xa4", false},
        {"a23456789012345678901234567890123456789012345678901234567890123", true},
        {"a234567890123456789012345678901234567890123456789012345678901234", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        if (uid_is_valid(cases[i].uid) != cases[i].want)
            fail_msg("\"%s\"", cases[i].uid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_deleted),
        cmocka_unit_test(test_skip_lists),
        cmocka_unit_test(test_skipped_calls),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_configs),
        cmocka_unit_test(test_nothing_of_ours),
        cmocka_unit_test(test_uid),
        cmocka_unit_test(test_told),
        cmocka_unit_test(test_choices),
    };

    return cmocka_run_group_tests_name("allocation", tests, NULL, NULL);
}
