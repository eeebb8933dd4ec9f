/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/live.h"

#include "tests/unit/driver/doc.h"

#include <errno.h>

#define DRIVER "sriov-dra.dev"

/* A claim with devices d0, d1 ... of pool node-1, whose lists are given; NULL ends them. */
static json_t *claim(const char *const *lists, bool told)
{
    struct strbuf b = {0};

    strbuf_puts(&b, "metadata: {namespace: default, name: c, uid: u-1,\n"
                    "  creationTimestamp: '2026-01-02T03:04:05Z'}\n"
                    "status:\n"
                    "  reservedFor: [{resource: pods, name: p, uid: u-p}]\n"
                    "  allocation:\n"
                    "    nodeSelector: {nodeSelectorTerms: [{matchFields: [\n"
                    "      {key: metadata.name, operator: In, values: [node-1]}]}]}\n"
                    "    devices:\n"
                    "      results:\n"
                    "      - {request: gpu, driver: gpu.example.com, pool: node-1, device: g}\n");
    for (size_t i = 0; lists[i]; i++) {
        strbuf_printf(&b, "      - {request: vf, driver: %s, pool: node-1, device: d%zu", DRIVER,
                      i);
        if (*lists[i])
            strbuf_printf(&b, ", skipNodeOperations: %s", lists[i]);
        strbuf_puts(&b, "}\n");
    }
    if (told)
        strbuf_printf(&b,
                      "  devices: [{driver: %s, pool: node-1, device: d0, conditions: [],\n"
                      "    networkData: {interfaceName: net1}}]\n",
                      DRIVER);
    json_t *o = doc(b.s);

    strbuf_done(&b);
    return o;
}

static int read_live(const json_t *o, struct live_claim *ret)
{
    _cleanup_err_ struct err e = ERR_INIT;
    int r = live_claim_read(o, DRIVER, ret, &e);

    if (r < 0)
        fail_msg("%s", err_text(&e));
    return r;
}

static json_t *slice(const char *device, const char *attribute)
{
    _cleanup_free_ char *yaml =
        xasprintf("spec: {driver: %s, pool: {name: node-1}, devices: [{name: other},\n"
                  "  {name: %s, attributes: {%s}}]}\n",
                  DRIVER, device, attribute);

    return doc(yaml);
}

static json_t *node(const char *name, const char *features)
{
    _cleanup_free_ char *yaml =
        xasprintf("{metadata: {name: %s}, status: {declaredFeatures: %s}}", name, features);

    return doc(yaml);
}

/* ---- which mode, and which calls */

static const struct {
    const char *lists[4];
    const char *mode;
    bool prepare, unprepare;
} frozen[] = {
    {{""}, "Prepare", true, true},
    {{"[]"}, "Prepare", true, true},
    {{"['*']"}, "Skip", false, false},
    {{"[NodePrepareResources, NodeUnprepareResources]"}, "Skip", false, false},
    {{"['*', NodeUnprepareResources]"}, "Skip", false, false},
    {{"[NodeUnprepareResources]"}, "DeferCleanup", true, false},
    /* The API server refuses it; a kubelet would do as it says. */
    {{"[NodePrepareResources]"}, "[\"NodePrepareResources\"]", false, true},
    /* Unknown values skip nothing, and take nothing away. */
    {{"[Foo]"}, "[\"Foo\"]", true, true},
    {{"[Foo, NodeUnprepareResources]"}, "[\"Foo\",\"NodeUnprepareResources\"]", true, false},
    {{"['*', Foo]"}, "[\"*\",\"Foo\"]", false, false},
    {{"[1]"}, "[1]", true, true},
    /* A call is skipped only if all devices skip it, each by its own way. */
    {{"['*']", ""}, "Skip+Prepare", true, true},
    {{"['*']", "[NodeUnprepareResources]"}, "Skip+DeferCleanup", true, false},
    {{"", "['*']"}, "Prepare+Skip", true, true},
    {{"", "[NodeUnprepareResources]", ""}, "Prepare+DeferCleanup", true, true},
    {{"['*']", "[NodePrepareResources, NodeUnprepareResources]"}, "Skip", false, false},
    {{"['*']", "[Foo]"}, "Skip+[\"Foo\"]", true, true},
};

static void test_frozen(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(frozen); i++) {
        json_auto_t *o = claim(frozen[i].lists, false);
        _cleanup_(live_claim_done) struct live_claim c = {0};

        assert_int_equal(read_live(o, &c), 1);
        _cleanup_free_ char *mode = live_claim_mode_text(&c);
        assert_string_equal(mode, frozen[i].mode);
        if (c.calls_prepare != frozen[i].prepare || c.calls_unprepare != frozen[i].unprepare)
            fail_msg("%s: calls %d and %d", mode, c.calls_prepare, c.calls_unprepare);
    }
}

static void test_read(void **state)
{
    json_auto_t *o = claim((const char *const[]){"['*']", "", NULL}, true);
    _cleanup_(live_claim_done) struct live_claim c = {0};

    (void)state;
    doc_set(o, "status.reservedFor",
            "[{resource: pods, name: p, uid: u-p}, {apiGroup: scheduling.k8s.io, resource: "
            "podgroups, name: g, uid: u-g}]");
    assert_int_equal(read_live(o, &c), 1);
    assert_string_equal(c.namespace, "default");
    assert_string_equal(c.name, "c");
    assert_string_equal(c.uid, "u-1");
    assert_string_equal(c.node, "node-1");
    assert_string_equal(c.created, "2026-01-02T03:04:05Z");
    assert_false(c.deleted);
    assert_int_equal(c.devices.n, 2); /* the GPU isn't ours */
    assert_string_equal(c.devices.v[0].device, "d0");
    assert_true(c.devices.v[0].told);
    assert_int_equal(json_array_size(c.devices.v[0].skip), 1);
    assert_false(c.devices.v[1].told);
    assert_null(c.devices.v[1].skip);
    /* an entry without a network isn't one of a VF that was attached */
    _cleanup_(live_claim_done) struct live_claim bare = {0};
    doc_set(o, "status.devices[0].networkData", NULL);
    assert_int_equal(read_live(o, &bare), 1);
    assert_false(bare.devices.v[0].told);

    assert_int_equal(c.reserved_for.n, 2);
    assert_string_equal(c.reserved_for.v[0].name, "p");
    assert_string_equal(c.reserved_for.v[0].uid, "u-p");
    assert_string_equal(c.reserved_for.v[1].resource, "podgroups");
}

static const struct {
    const char *path, *value; /* NULL: removed */
    int result;
    const char *error;
} others[] = {
    {"status.allocation", NULL, 0, NULL},
    {"status.allocation", "null", 0, NULL},
    {"status", NULL, 0, NULL},
    {"status.allocation.devices.results[1].driver", "other.example.com", 0, NULL},
    {"status.allocation.devices.results", "[]", 0, NULL},
    {"status.allocation.devices.results", NULL, 0, NULL},
    /* What might be a claim of ours must not pass for none. */
    {"status.allocation", "[]", -EBADMSG, "status.allocation is no object"},
    {"status.allocation.devices.results", "{}", -EBADMSG, "claim default/c: results is no list"},
    {"status.allocation.devices.results[1].driver", NULL, -EBADMSG, "without a driver"},
    {"status.allocation.devices.results[1].driver", "7", -EBADMSG, "without a driver"},
    {"status.allocation.devices.results[1].pool", NULL, -EBADMSG, "claim default/c: no pool"},
    {"status.allocation.devices.results[1].device", "''", -EBADMSG, "no device"},
    {"status.allocation.devices.results[1].request", NULL, -EBADMSG, "no request"},
    {"status.allocation.devices.results[1].skipNodeOperations", "'*'", -EBADMSG, "is no list"},
    {"metadata.name", NULL, -EBADMSG, "claim default/?: no metadata.name"},
    {"metadata.uid", NULL, -EBADMSG, "no metadata.uid"},
};

static void test_others(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        json_auto_t *o = claim((const char *const[]){"['*']", NULL}, false);
        _cleanup_(live_claim_done) struct live_claim c = {0};
        _cleanup_err_ struct err e = ERR_INIT;

        doc_set(o, others[i].path, others[i].value);
        int r = live_claim_read(o, DRIVER, &c, &e);
        if (r != others[i].result)
            fail_msg("%s: %s: %d, %s", others[i].path, others[i].value, r, err_text(&e));
        if (r < 0)
            assert_err_has(&e, others[i].error);
        assert_null(c.name);
    }
}

/* ---- which node */

static const struct {
    const char *selector; /* NULL: none */
    const char *node;
} nodes[] = {
    {"{nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n7]}]}]}",
     "n7"},
    {NULL, "node-1"},
    {"{}", "node-1"},
    {"{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}", "node-1"},
    {"{nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [a, b]}]}]}",
     "node-1"},
    {"{nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: NotIn, values: [a]}]}]}",
     "node-1"},
    {"{nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [a]}]},\n"
     " {matchFields: [{key: metadata.name, operator: In, values: [b]}]}]}",
     "node-1"},
};

static void test_node(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
        json_auto_t *o = claim((const char *const[]){"", NULL}, false);
        _cleanup_(live_claim_done) struct live_claim c = {0};

        doc_set(o, "status.allocation.nodeSelector", nodes[i].selector);
        assert_int_equal(read_live(o, &c), 1);
        assert_string_equal(c.node, nodes[i].node);
        /* Where the two differ it may be on either: asked for by node it is never passed over. */
        assert_true(live_claim_on(&c, nodes[i].node) && live_claim_on(&c, "node-1"));
        assert_false(live_claim_on(&c, "node-2"));
    }
}

/* ---- what it needs */

#define P LIVE_NEEDS_PREPARE
#define U LIVE_NEEDS_UNPREPARE
#define A LIVE_NEEDS_ATTACHMENT
#define C LIVE_NEEDS_CLEANUP
#define X LIVE_NEEDS_UNKNOWN

static const struct {
    const char *lists[3];
    bool told;             /* d0 is in status.devices with its network */
    const char *attach[2]; /* of d0 and d1 in a slice; NULL: in none */
    const char *features;  /* of the node; NULL: there is none */
    unsigned needs;
    const char *why; /* a part of it */
} needs[] = {
    {{""}, false, {"NRI"}, "[]", P | U | A, "calls NodePrepareResources before its pod starts; "},
    {{""}, true, {"NRI"}, "[]", U | A, "and again when its sandbox is made anew"},
    {{""}, false, {"None"}, "[]", P | U, "calls NodeUnprepareResources when its pods are gone"},
    {{""}, false, {NULL}, NULL, P | U, NULL},
    {{"[NodeUnprepareResources]"}, false, {"NRI"}, "[DRAOptionalNodeOperations]", P | A | C, NULL},
    {{"[NodeUnprepareResources]"}, true, {"NRI"}, "[DRAOptionalNodeOperations]", A | C, NULL},
    {{"[NodeUnprepareResources]"},
     false,
     {"None"},
     "[DRAOptionalNodeOperations]",
     P | C,
     "the driver puts its VF back when its pods are gone"},
    {{"['*']"},
     false,
     {"NRI"},
     "[DRAOptionalNodeOperations]",
     A | C,
     "the driver moves device d0 into the pod; "},
    {{"['*']"}, true, {"NRI"}, "[DRAOptionalNodeOperations]", A | C, NULL},
    /* The only ones that need nothing. */
    {{"['*']"}, false, {"None"}, "[a, DRAOptionalNodeOperations]", 0, NULL},
    {{"['*']"}, false, {"CNI"}, "[DRAOptionalNodeOperations]", 0, NULL},
    {{"['*']", "['*']"}, false, {"CNI", "None"}, "[DRAOptionalNodeOperations]", 0, NULL},
    /* It was attached by us, whatever its pool says by now. */
    {{"['*']"}, true, {"None"}, "[DRAOptionalNodeOperations]", A | C, NULL},
    {{"['*']"}, true, {NULL}, "[DRAOptionalNodeOperations]", A | C, NULL},
    /* What can't be known counts. */
    {{"['*']"},
     false,
     {NULL},
     "[DRAOptionalNodeOperations]",
     X,
     "no slice lists device d0 of pool node-1 any more"},
    {{"['*']"}, false, {""}, "[DRAOptionalNodeOperations]", X, "doesn't say who attaches it"},
    {{"['*']"}, false, {"Teleport"}, "[DRAOptionalNodeOperations]", X, "doesn't say who"},
    {{"['*']", "['*']"}, false, {"CNI", NULL}, "[DRAOptionalNodeOperations]", X, "device d1"},
    {{"['*']"}, false, {"CNI"}, NULL, X, "there is no Node object node-1"},
    /* One device that needs it is enough. */
    {{"['*']", "['*']"}, false, {"CNI", "NRI"}, "[DRAOptionalNodeOperations]", A | C, "device d1"},
    {{"['*']", ""}, false, {"CNI", "CNI"}, "[DRAOptionalNodeOperations]", P | U, NULL},
    /* A kubelet that doesn't know the list calls in spite of it. */
    {{"['*']"}, false, {"CNI"}, "[]", P | U, "node node-1 doesn't declare DRAOptionalNodeOper"},
    {{"['*']"}, false, {"CNI"}, "null", P | U, NULL},
    {{"[NodeUnprepareResources]"}, false, {"None"}, "[]", P | U | C, NULL},
    /* Unknown values skip nothing. */
    {{"[Foo]"}, false, {"CNI"}, "[DRAOptionalNodeOperations]", P | U, NULL},
};

static void test_needs(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(needs); i++) {
        json_auto_t *o = claim(needs[i].lists, needs[i].told);
        live_claim_vec v = {0};
        struct live_index ix;
        struct strbuf why = {0};

        assert_int_equal(read_live(o, VEC_PUSH(&v)), 1);
        live_index_build(&v, &ix);
        for (size_t d = 0; d < 2 && needs[i].attach[d]; d++) {
            const char *name = d ? "d1" : "d0";
            _cleanup_free_ char *attribute =
                xasprintf("attach: {string: '%s'}", needs[i].attach[d]);
            json_auto_t *s = slice(name, attribute);

            live_see_slice(&ix, DRIVER, s);
        }
        if (needs[i].features) {
            json_auto_t *n = node("node-1", needs[i].features);

            live_see_node(&ix, n);
        }
        unsigned got = live_needs(&v.v[0], &why);
        if (got != needs[i].needs)
            fail_msg("case %zu: needs %#x, not %#x: %s", i, got, needs[i].needs, why.s);
        assert_int_equal(got == 0, why.len == 0);
        if (needs[i].why && !strstr(why.s, needs[i].why))
            fail_msg("case %zu: \"%s\" lacks \"%s\"", i, why.s, needs[i].why);
        assert_int_equal(live_needs(&v.v[0], NULL), got);
        strbuf_done(&why);
        live_index_done(&ix);
        live_claim_vec_done(&v);
    }
}

/* ---- slices and nodes told apart */

/* Of slices that differ, the one counts by which the driver is needed, in any order. */
static void test_slices_differ(void **state)
{
    static const char *const attributes[] = {"attach: {string: CNI}",
                                             "sriov-dra.dev/attach: {string: NRI}"};

    (void)state;
    for (size_t first = 0; first < 2; first++) {
        json_auto_t *o = claim((const char *const[]){"['*']", NULL}, false);
        json_auto_t *a = slice("d0", attributes[first]), *b = slice("d0", attributes[!first]);
        live_claim_vec v = {0};
        struct live_index ix;

        assert_int_equal(read_live(o, VEC_PUSH(&v)), 1);
        live_index_build(&v, &ix);
        live_see_slice(&ix, DRIVER, a);
        live_see_slice(&ix, DRIVER, b);
        assert_int_equal(v.v[0].devices.v[0].attach, LIVE_ATTACH_DRIVER);
        assert_string_equal(v.v[0].devices.v[0].attach_text, "NRI");
        live_index_done(&ix);
        live_claim_vec_done(&v);
    }
}

static void test_not_this_claims(void **state)
{
    json_auto_t *o = claim((const char *const[]){"['*']", NULL}, false);
    json_auto_t *foreign = slice("d0", "attach: {string: CNI}");
    json_auto_t *elsewhere = slice("d0", "attach: {string: CNI}");
    json_auto_t *other = node("node-2", "[DRAOptionalNodeOperations]");
    live_claim_vec v = {0};
    struct live_index ix;

    (void)state;
    doc_set(foreign, "spec.driver", "other.example.com");
    doc_set(elsewhere, "spec.pool.name", "node-2");
    assert_int_equal(read_live(o, VEC_PUSH(&v)), 1);
    live_index_build(&v, &ix);
    live_see_slice(&ix, DRIVER, foreign);
    live_see_slice(&ix, DRIVER, elsewhere);
    live_see_node(&ix, other);
    assert_int_equal(v.v[0].devices.v[0].attach, LIVE_ATTACH_UNSEEN);
    assert_int_equal(v.v[0].node_state, LIVE_NODE_UNSEEN);
    live_index_done(&ix);
    live_claim_vec_done(&v);
}

/* Each of many is found, by name and not by luck. */
static void test_many(void **state)
{
    live_claim_vec v = {0};
    struct live_index ix;

    (void)state;
    for (unsigned i = 0; i < 60; i++) {
        json_auto_t *o = claim((const char *const[]){"['*']", NULL}, false);
        _cleanup_free_ char *name = xasprintf("c%u", i * 7 % 60),
                            *pool = xasprintf("node-%u", i % 3), *device = xasprintf("d%u", i / 3);

        doc_set(o, "metadata.name", name);
        doc_set(o, "status.allocation.nodeSelector", NULL);
        doc_set(o, "status.allocation.devices.results[1].pool", pool);
        doc_set(o, "status.allocation.devices.results[1].device", device);
        assert_int_equal(read_live(o, VEC_PUSH(&v)), 1);
    }
    live_index_build(&v, &ix);
    for (size_t i = 1; i < v.n; i++) {
        int order = strcmp(v.v[i - 1].node, v.v[i].node);

        assert_true(order < 0 || (order == 0 && strcmp(v.v[i - 1].name, v.v[i].name) < 0));
    }
    json_auto_t *s = slice("d19", "attach: {string: None}"), *n = node("node-1", "[]");

    live_see_slice(&ix, DRIVER, s); /* of pool node-1 */
    live_see_node(&ix, n);
    vec_foreach (c, &v) {
        bool on = streq(c->node, "node-1"), it = on && streq(c->devices.v[0].device, "d19");

        assert_int_equal(c->node_state, on ? LIVE_NODE_SILENT : LIVE_NODE_UNSEEN);
        assert_int_equal(c->devices.v[0].attach, it ? LIVE_ATTACH_OTHERS : LIVE_ATTACH_UNSEEN);
    }
    live_index_done(&ix);
    live_claim_vec_done(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frozen),          cmocka_unit_test(test_read),
        cmocka_unit_test(test_others),          cmocka_unit_test(test_node),
        cmocka_unit_test(test_needs),           cmocka_unit_test(test_slices_differ),
        cmocka_unit_test(test_not_this_claims), cmocka_unit_test(test_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
