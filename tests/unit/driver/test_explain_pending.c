/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/driver/doc.h"
#include "tests/unit/driver/explain_world.h"

/* A claim of which nothing is allocated, and what is offered to it. */
static const struct {
    const char *what;
    struct change changes[5];
    bool taken;  /* VF is another claim's */
    bool silent; /* the node declares nothing */
    const char *asked, *missing;
    const char *code, *part;
} pending[] = {
    {"free, and not given",
     {{NULL}},
     false,
     false,
     "Request Settings Selector",
     "Scheduler NoneMatches",
     "Offer",
     "in 1 pool: 1 of mode ? (1 free); 1 of mode Prepare (1 free)."},
    {"the newest generation counts, in any order",
     {{"slices[0].spec.pool.generation", "3"}},
     false,
     false,
     "Request Settings Selector",
     "Scheduler NoneMatches",
     "Offer",
     "in 1 pool: 1 of mode ? (1 free)."},
    {"a class that isn't there may be ours",
     {{"classes.vf", "null"}, {"claim.spec.devices.config", NULL}},
     false,
     false,
     "Request",
     "NoClass Scheduler NoneMatches",
     NULL,
     NULL},
    {"what the scheduler says",
     {{NULL}},
     false,
     false,
     "Request Settings Selector",
     "Scheduler NoneMatches",
     "Scheduler",
     "Of pod app the scheduler says: cannot allocate"},
    {"taken",
     {{"slices[1].spec.devices[0]", NULL}},
     true,
     false,
     "Request Settings Selector",
     "Scheduler NoneFree",
     "Offer",
     "1 of mode Prepare (0 free, 1 allocated)."},
    {"tainted",
     {{"slices[1].spec.devices[0]", NULL},
      {DEVICE_0 ".taints", "[{key: sriov-dra.dev/drifted, effect: NoSchedule}]"}},
     false,
     false,
     "Request Settings Selector",
     "Scheduler Tainted NoneFree",
     "Tainted",
     "1 device can't be"},
    {"a taint that does nothing",
     {{"slices[1].spec.devices[0]", NULL},
      {DEVICE_0 ".taints", "[{key: a/b, effect: None}, {key: a/b, effect: Soon}]"}},
     false,
     false,
     "Request Settings Selector",
     "Scheduler NoneMatches",
     NULL,
     NULL},
    {"the scheduler's gate is named",
     {{"slices[1].spec.skipNodeOperations", "['*']"}, {ATTRIBUTES ".mode.string", "Skip"}},
     false,
     false,
     "Request Settings Selector",
     "Scheduler NoneMatches SchedulerGate",
     "SchedulerGate",
     "the scheduler's own gate DRAOptionalNodeOperations, which can't be seen from outside"},
    {"nodes that honour no list",
     {{"slices[1].spec.skipNodeOperations", "['*']"}},
     false,
     true,
     "Request Settings Selector",
     "Scheduler NodesSilent NoneFree",
     "NodesSilent",
     "2 devices in slices with"},
    {"a list that isn't honoured",
     {{ATTRIBUTES ".mode.string", "Skip"}},
     false,
     true,
     "Request Settings Selector",
     "Scheduler NotHonoured NoneMatches",
     "NotHonoured",
     "1 device go out without their mode's list"},
    {"a pool that isn't whole",
     {{"slices[1].spec.pool.resourceSliceCount", "2"}},
     false,
     false,
     "Request Settings Selector",
     "Scheduler PoolIncomplete NoneFree",
     "PoolIncomplete",
     "1 of 2 slices of its generation 2 exist"},
    {"nothing is offered",
     {{"slices", "[]"}},
     false,
     false,
     "Request Settings Selector",
     "Scheduler NothingOffered",
     "NothingOffered",
     "there is no slice of it"},
    {"no pod",
     {{"pods", "[]"}},
     false,
     false,
     "Request Settings Selector",
     "NoPod NoneMatches",
     "NoPod",
     "No pod names it"},
    {"a class that isn't there",
     {{"classes.vf", "null"}},
     false,
     false,
     "Request Settings",
     "NoClass Scheduler NoneMatches",
     "NoClass",
     "\"vf\""},
    {"another driver's",
     {{"classes.vf.spec.selectors", "[]"}, {"claim.spec.devices.config", NULL}},
     false,
     false,
     "Request",
     "OtherDriver",
     "OtherDriver",
     "another driver's to give"},
    {"a mistake in it",
     {{"claim.spec.devices.config[0].opaque.parameters.settings.mtu", "-1"}},
     false,
     false,
     "Request Selector",
     "BadConfig Scheduler NoneMatches",
     "BadConfig",
     "spec.devices.config[0]: settings.mtu"},
};

static void test_pending(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(pending); i++) {
        live_claim_vec taken = {0};
        struct live_index ix;
        struct supply supply = {0};
        json_t *slice;
        struct world w;
        size_t n;

        world_init(&w, NULL, 0);
        if (pending[i].taken)
            assert_int_equal(live_claim_read(w.in.claim, DRIVER, VEC_PUSH(&taken), NULL), 1);
        doc_set(w.doc, "claim.spec.devices.config",
                "[{opaque: {driver: " DRIVER ", parameters: {apiVersion: sriov-dra.dev/v1alpha1,\n"
                "  kind: VirtualFunctionConfig, settings: {mtu: 1400}}}}]");
        doc_set(w.doc, "claim.status", "{}");
        doc_set(w.doc, "pods[0].status",
                "{phase: Pending, conditions: [{type: PodScheduled, status: 'False',\n"
                "  message: cannot allocate all claims}]}");
        for (size_t c = 0; c < 5 && pending[i].changes[c].path; c++)
            doc_set(w.doc, pending[i].changes[c].path, pending[i].changes[c].yaml);
        w.in.slices = json_object_get(w.doc, "slices");
        w.in.pods = json_object_get(w.doc, "pods");
        live_index_build(&taken, &ix);
        json_array_foreach (w.in.slices, n, slice)
            supply_see_slice(&supply, &ix, DRIVER, slice);
        if (!pending[i].silent)
            supply_see_node(&supply, w.in.node);
        w.in.supply = &supply;
        explain_claim(&w.in, w.x);
        _cleanup_free_ char *asked = codes_of(w.x, EXPLAIN_ASKED),
                            *missing = codes_of(w.x, EXPLAIN_MISSING);
        if (!streq(asked, pending[i].asked) || !streq(missing, pending[i].missing))
            fail_msg("%s: \"%s\" and \"%s\"", pending[i].what, asked, missing);
        if (pending[i].code && !strstr(text_of(w.x, pending[i].code), pending[i].part))
            fail_msg("%s: \"%s\" lacks \"%s\"", pending[i].what, text_of(w.x, pending[i].code),
                     pending[i].part);
        supply_done(&supply);
        live_index_done(&ix);
        live_claim_vec_done(&taken);
        world_done(&w);
    }
}

/* ---- pods */

static const char pod_yaml[] =
    "metadata: {namespace: default, name: app, uid: u-app}\n"
    "spec: {nodeName: node-1, resourceClaims: [{name: a, resourceClaimName: net},\n"
    "  {name: b, resourceClaimTemplateName: t}, {name: c, resourceClaimTemplateName: t},\n"
    "  {name: d, resourceClaimTemplateName: t}]}\n"
    "status: {phase: Running, resourceClaimStatuses: [{name: b, resourceClaimName: app-b-x},\n"
    "  {name: c}], extendedResourceClaimStatus: {resourceClaimName: app-ext}}\n";

static void test_pod_claims(void **state)
{
    json_auto_t *pod = doc(pod_yaml);
    explain_pod_claim_vec v;

    (void)state;
    explain_pod_claims(pod, &v);
    assert_int_equal(v.n, 5);
    assert_string_equal(v.v[0].name, "net");
    assert_string_equal(v.v[1].name, "app-b-x");
    assert_null(v.v[2].name);
    assert_true(v.v[2].none);
    assert_null(v.v[3].name);
    assert_false(v.v[3].none);
    assert_string_equal(v.v[4].name, "app-ext");
    free(v.v);
}

static const struct {
    const char *what;
    struct change changes[3];
    const char *codes, *code, *part;
} pods[] = {
    {"runs",
     {{"spec.resourceClaims[3]", NULL}},
     "Claims|||Phase|||",
     "Claims",
     "It names 4 claims: net, app-b-x, app-ext."},
    {"a claim isn't made yet",
     {{NULL}},
     "Claims|||Phase||ClaimNotMade|",
     "ClaimNotMade",
     "Its claim \"d\" hasn't been made"},
    {"waits on its node",
     {{"status.phase", "Pending"}, {"spec.resourceClaims[3]", NULL}},
     "Claims|||Phase||PodWaits Event|",
     "Event",
     "Event FailedPrepareDynamicResources: no such  thing"},
    {"isn't scheduled",
     {{"status.phase", "Pending"},
      {"spec", "{}"},
      {"status.conditions", "[{type: PodScheduled, status: 'False', message: no node}]"}},
     "Claims|||Phase||Scheduler|",
     "Scheduler",
     "The scheduler says: no node"},
    {"is being deleted",
     {{"metadata.deletionTimestamp", "'2026-01-02T03:04:05Z'"}, {"spec.resourceClaims[3]", NULL}},
     "Claims|||Phase|||",
     "Phase",
     "It is Running on node node-1, and being deleted."},
};

static void test_pods(void **state)
{
    json_auto_t *events =
        doc("[{type: Normal, reason: Scheduled, message: x}, {type: Warning,\n"
            "  reason: FailedPrepareDynamicResources, message: \"no such \\x1bthing\"}]");

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(pods); i++) {
        json_auto_t *pod = doc(pod_yaml);
        _cleanup_(explanation_freep) struct explanation *x =
            explanation_new("Pod", "default", "app");

        for (size_t c = 0; c < 3 && pods[i].changes[c].path; c++)
            doc_set(pod, pods[i].changes[c].path, pods[i].changes[c].yaml);
        explain_pod(pod, events, x);
        _cleanup_free_ char *got = codes(x);
        if (!streq(got, pods[i].codes))
            fail_msg("%s: %s", pods[i].what, got);
        if (!strstr(text_of(x, pods[i].code), pods[i].part))
            fail_msg("%s: \"%s\" lacks \"%s\"", pods[i].what, text_of(x, pods[i].code),
                     pods[i].part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pending),
        cmocka_unit_test(test_pod_claims),
        cmocka_unit_test(test_pods),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
