/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/driver/doc.h"
#include "tests/unit/driver/explain_world.h"

/* A VF as the kernel has it at home, settings as the claim asked. */
static struct local_vf vf_at_home(void)
{
    struct local_vf v = {.state = {.pf_up = true, .home = true, .up = true, .mtu = 1400}};

    strcpy(v.state.pf_name, "enp1s0");
    strcpy(v.state.name, "enp1s0v0");
    v.state.mac.b[0] = v.state.admin.mac.b[0] = 2;
    v.state.mac.b[5] = v.state.admin.mac.b[5] = 1;
    v.state.admin.vlan_id = 100;
    v.state.admin.vlan_qos = 3;
    v.state.admin.has = VF_FIELD_TRUST | VF_FIELD_SPOOFCHK;
    v.state.admin.trust = true;
    return v;
}

/* ---- claims that are allocated */

static const struct {
    const char *what;
    struct change changes[5];
    const char *codes;
    const char *code, *part; /* a part of this fact's text */
} claims[] = {
    {"as it should be",
     {{NULL}},
     "Request Settings|Device Mode Verified|Copy NodeDeclares|ReservedFor Condition Network|"
     "NotHere||EndByCall NeedsDriver",
     "Settings",
     "Of VF 0000:01:10.0 for request \"nic\": vlan 100 (qos 3), trust true (by the class), mtu "
     "1400, "
     "interface net1, MTU 1300 in the pod, address 192.0.2.10/24, 1 route."},
    {"the newest slice counts",
     {{NULL}},
     "Request Settings|Device Mode Verified|Copy NodeDeclares|ReservedFor Condition Network|"
     "NotHere||EndByCall NeedsDriver",
     "Device",
     "device " VF " of pool node-1, in slice s-new."},
    {"the newest slice counts, in any order",
     {{"slices[0].spec.pool.generation", "3"}},
     "Request Settings|Device Mode Unverified|Copy NodeDeclares|ReservedFor Condition Network|"
     "NotHere||EndByCall NeedsDriver",
     "Device",
     "in slice s-old."},
    {"deferred",
     {{RESULT ".skipNodeOperations", "[NodeUnprepareResources]"},
      {"slices[1].spec.skipNodeOperations", "[NodeUnprepareResources]"},
      {ATTRIBUTES ".mode.string", "DeferCleanup"}},
     "Request Settings|Device Mode Verified Listed|Copy NodeDeclares|"
     "ReservedFor Condition Network|NotHere||EndDeferred NeedsDriver",
     "Copy",
     "is [\"NodeUnprepareResources\"]: the kubelet calls NodePrepareResources before the pod "
     "starts, and nobody when it is gone."},
    {"skipped, and attached by the driver",
     {{RESULT ".skipNodeOperations", "['*']"},
      {"slices[1].spec.skipNodeOperations", "['*']"},
      {ATTRIBUTES ".mode.string", "Skip"},
      {ATTRIBUTES ".vlan.int", "100"}},
     "Request Settings|Device Mode Promised Verified Listed|Copy NodeDeclares|"
     "ReservedFor Condition Network|NotHere||EndSeen NeedsDriver",
     "Promised",
     "VLAN 100, MTU 1500."},
    {"skipped, and attached by nobody of ours",
     {{RESULT ".skipNodeOperations", "['*']"},
      {"slices[1].spec.skipNodeOperations", "['*']"},
      {"slices[0].spec.devices", "[]"},
      {ATTRIBUTES ".attach.string", "CNI"},
      {"claim.status.devices", NULL}},
     "Request Settings|Device Mode Verified Listed|Copy NodeDeclares|ReservedFor|NotHere||"
     "EndByOthers NeedsNobody",
     "Mode",
     "a CNI plugin moves it into the pod (attach: CNI)."},
    {"an agentless slice verifies nothing",
     {{ATTRIBUTES ".verified.bool", "false"}},
     "Request Settings|Device Mode Unverified|Copy NodeDeclares|ReservedFor Condition Network|"
     "NotHere||EndByCall NeedsDriver",
     "Unverified",
     "(verified: false)"},
    {"drifted",
     {{ATTRIBUTES ".verified.bool", "false"},
      {DEVICE ".taints", "[{key: sriov-dra.dev/drifted, effect: NoSchedule}]"}},
     "Request Settings|Device Mode|Copy NodeDeclares|ReservedFor Condition Network|NotHere|Tainted|"
     "EndByCall NeedsDriver",
     "Tainted",
     "sriov-dra.dev/drifted (NoSchedule)"},
    {"in no slice any more",
     {{"slices", "[]"}},
     "Request Settings||Copy NodeDeclares|ReservedFor Condition Network|NotHere|DeviceGone|"
     "EndByCall NeedsDriver",
     "DeviceGone",
     "No slice lists device " VF " of pool node-1"},
    {"slices weren't read",
     {{"slices", NULL}},
     "Request Settings||Copy NodeDeclares|ReservedFor Condition Network|NotHere||"
     "EndByCall NeedsDriver",
     "EndByCall",
     "stay in Terminating"},
    /* ---- gates and lists */
    {"the list came later, or the scheduler doesn't copy it",
     {{"slices[1].spec.skipNodeOperations", "['*']"},
      {ATTRIBUTES ".mode.string", "Skip"},
      {ATTRIBUTES ".skipHonoured.bool", "true"}},
     "Request Settings|Device Mode Promised Verified Listed|Copy NodeDeclares CopyLacks|"
     "ReservedFor Condition Network|NotHere||EndByCall NeedsDriver",
     "CopyLacks",
     "or by a scheduler whose gate DRAOptionalNodeOperations is off"},
    {"the list went",
     {{RESULT ".skipNodeOperations", "['*']"}},
     "Request Settings|Device Mode Verified|Copy NodeDeclares ListGone|"
     "ReservedFor Condition Network|NotHere||EndSeen NeedsDriver",
     "ListGone",
     "ends as it began"},
    {"the list isn't honoured",
     {{ATTRIBUTES ".mode.string", "Skip"}},
     "Request Settings|Device Mode Promised Verified NotHonoured|Copy NodeDeclares|"
     "ReservedFor Condition Network|NotHere||EndByCall NeedsDriver",
     "NotHonoured",
     "mode Skip"},
    {"the node honours no list",
     {{"node.status.declaredFeatures", NULL}},
     "Request Settings|Device Mode Verified|Copy NodeSilent|ReservedFor Condition Network|NotHere||"
     "EndByCall NeedsDriver",
     "NodeSilent",
     "there every claim is prepared"},
    {"the node honours no list, and the claim has one",
     {{"node.status.declaredFeatures", "[]"}, {RESULT ".skipNodeOperations", "['*']"}},
     "Request Settings|Device Mode Verified|Copy ListGone|ReservedFor Condition Network|NotHere|"
     "NodeSilent|EndSeen NeedsDriver",
     "NodeSilent",
     "whose gate is off starts no pod with it"},
    {"a value that nobody knows",
     {{RESULT ".skipNodeOperations", "[Foo]"}},
     "Request Settings|Device Mode Verified|Copy UnknownValue NodeDeclares ListGone|"
     "ReservedFor Condition Network|NotHere||EndByCall NeedsDriver",
     "UnknownValue",
     "The list [\"Foo\"] of device " VF " isn't one of the modes'."},
    {"devices of several modes",
     {{"claim.status.allocation.devices.results",
       "[{request: nic, driver: " DRIVER ", pool: node-1, device: " VF
       ", skipNodeOperations: ['*']},\n"
       " {request: nic, driver: " DRIVER ", pool: node-1, device: 0000-01-10-2},\n"
       " {request: gpu, driver: gpu.example.com, pool: g, device: g}]"}},
     "Request Settings Settings|Device Mode Verified Device Mode Unverified OtherDrivers|"
     "Copy NodeDeclares ListGone|ReservedFor Condition Network|NotHere||EndByCall NeedsDriver",
     "Copy",
     "(Skip+Prepare). The kubelet leaves a call out only where all"},
    /* ---- what was asked */
    {"a class that is gone",
     {{"classes.vf", "null"}},
     "Request Settings|Device Mode Verified|Copy NodeDeclares|ReservedFor Condition "
     "Network|NotHere|"
     "NoClass|EndByCall NeedsDriver",
     "NoClass",
     "There is no DeviceClass \"vf\"."},
    {"configuration that the driver refuses",
     {{"claim.status.allocation.devices.config[1].opaque.parameters.settings.vlan.id", "5000"}},
     "Request|Device Mode Verified|Copy NodeDeclares|ReservedFor Condition "
     "Network|NotHere|BadConfig|"
     "EndByCall NeedsDriver",
     "BadConfig",
     "settings.vlan.id"},
    {"an alternative",
     {{"claim.spec.devices.requests[0]",
       "{name: nic, firstAvailable: [{name: fast, deviceClassName: vf, count: 2},\n"
       " {name: slow, deviceClassName: vf}]}"},
      {RESULT ".request", "nic/slow"}},
     "Request Alternative Settings|Device Mode Verified|Copy NodeDeclares|"
     "ReservedFor Condition Network|NotHere||EndByCall NeedsDriver",
     "Alternative",
     "It was given slow, its choice number 2."},
    {"selectors and more",
     {{"claim.spec.devices.requests[0].exactly",
       "{deviceClassName: vf, allocationMode: All, selectors: [{cel: {expression: a}}, {cel: "
       "{expression: b}}], tolerations: [{}], adminAccess: true}"},
      {"claim.spec.devices.constraints", "[{matchAttribute: x/y}, {distinctAttribute: x/z}]"}},
     "Request Constraint Constraint Settings|Device Mode Verified|Copy NodeDeclares|"
     "ReservedFor Condition Network|NotHere||EndByCall NeedsDriver",
     "Request",
     "all devices of class vf, where a and b, with tolerations, with admin access."},
    {"nothing is asked of the VF",
     {{"claim.status.allocation.devices.config", "[]"}},
     "Request Settings|Device Mode Verified|Copy NodeDeclares|ReservedFor Condition "
     "Network|NotHere||"
     "EndByCall NeedsDriver",
     "Settings",
     "no settings, and its interface as it is."},
    /* ---- what was done */
    {"the pod runs, and nothing was told",
     {{"claim.status.devices", NULL}},
     "Request Settings|Device Mode Verified|Copy NodeDeclares|ReservedFor|NotHere|NotAttached|"
     "EndByCall NeedsDriver",
     "NotAttached",
     "has moved VF 0000:01:10.0 into it."},
    {"the pod waits, and nothing was told",
     {{"claim.status.devices", NULL}, {"pods[0].status.phase", "Pending"}},
     "Request Settings|Device Mode Verified|Copy NodeDeclares|ReservedFor|NotHere||"
     "EndByCall NeedsDriver",
     "ReservedFor",
     "for pod app, which is Pending."},
    {"a condition that isn't true",
     {{"claim.status.devices[0].conditions[0].status", "'False'"}},
     "Request Settings|Device Mode Verified|Copy NodeDeclares|ReservedFor "
     "Network|NotHere|Condition|"
     "EndByCall NeedsDriver",
     "Condition",
     "Ready is False since 2026-01-02T03:04:05Z (Attached)"},
    {"two pods",
     {{"claim.status.reservedFor",
       "[{resource: pods, name: app, uid: u-app}, {resource: pods, name: b, uid: u-b}]"}},
     "Request Settings|Device Mode Verified|Copy NodeDeclares|"
     "ReservedFor ReservedFor OneAtATime Condition Network|NotHere||EndByCall NeedsDriver",
     "OneAtATime",
     "one pod at a time"},
    {"nobody",
     {{"claim.status.reservedFor", "[]"}, {"pods", "[]"}},
     "Request Settings|Device Mode Verified|Copy NodeDeclares|ReservedFor Condition "
     "Network|NotHere||"
     "EndByCall NeedsDriver",
     "ReservedFor",
     "It is reserved for nobody."},
    {"a pod with hostNetwork",
     {{"pods[0].spec.hostNetwork", "true"}},
     "Request Settings|Device Mode Verified|Copy NodeDeclares|ReservedFor Condition "
     "Network|NotHere|"
     "HostNetwork|EndByCall NeedsDriver",
     "HostNetwork",
     "Pod app has hostNetwork"},
    /* ---- claims that aren't ours, or that can't be read */
    {"another driver's",
     {{RESULT ".driver", "other.example.com"}},
     "Request|NotOurs|||||",
     "NotOurs",
     "no device of sriov-dra.dev"},
    {"without a device",
     {{RESULT ".device", NULL}},
     "Request|||||BadConfig Unreadable|",
     NULL,
     NULL},
};

static void test_claims(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(claims); i++) {
        struct world w;

        world_init(&w, claims[i].changes, ARRAY_SIZE(claims[i].changes));
        explain_claim(&w.in, w.x);
        _cleanup_free_ char *got = codes(w.x);
        if (!streq(got, claims[i].codes))
            fail_msg("%s:\n%s\nnot\n%s", claims[i].what, got, claims[i].codes);
        if (claims[i].code && !strstr(text_of(w.x, claims[i].code), claims[i].part))
            fail_msg("%s: \"%s\" lacks \"%s\"", claims[i].what, text_of(w.x, claims[i].code),
                     claims[i].part);
        world_done(&w);
    }
}

/* ---- on the node */

static struct record *record_of(enum mode mode, enum attach attach)
{
    struct record *r = xnew(struct record);
    struct grant *g = &VEC_PUSH(&r->devices)->grant;

    *r = (struct record){.namespace = xstrdup("default"),
                         .name = xstrdup("net"),
                         .uid = xstrdup("u-net"),
                         .boot_id = xstrdup("b"),
                         .state = RECORD_PREPARED,
                         .by_kubelet = true,
                         .unprepare_comes = true,
                         .devices = r->devices};
    g->request = xstrdup("nic");
    g->pool = xstrdup("node-1");
    g->device = xstrdup(VF);
    g->pool_document = xstrdup("prepared");
    strcpy(g->vf_address, "0000:01:10.0");
    strcpy(g->pf_address, "0000:01:00.0");
    g->mode = mode;
    g->attach = attach;
    g->settings = (struct vf_settings){.set = VF_SET_VLAN | VF_SET_MTU | VF_SET_TRUST | VF_SET_MAC,
                                       .mac = {{2, 0, 0, 0, 0, 1}},
                                       .vlan_id = 100,
                                       .vlan_qos = 3,
                                       .mtu = 1400,
                                       .trust = true};
    strcpy(g->interface.name, "net1");
    g->interface.mtu = 1300;
    assert_int_equal(ipnet_parse("192.0.2.10/24", true, VEC_PUSH(&g->interface.addrs)), 0);
    return r;
}

static void to_pod(struct local_vf *v)
{
    v->state.home = false;
    v->place = xstrdup("/run/netns/cni-1");
    strcpy(v->in_pod.name, "net1");
    v->in_pod.mac = v->state.mac;
    v->state.mtu = v->in_pod.mtu = 1300;
    assert_int_equal(ipnet_parse("192.0.2.10/24", true, VEC_PUSH(&v->in_pod.addrs)), 0);
}

/* What each does to the world, and what is told of it: the parts Done, Now and Missing. */
static void nothing(struct local_vf *v)
{
    (void)v;
}
static void pf_down(struct local_vf *v)
{
    v->state.pf_up = false;
}
static void vlan_gone(struct local_vf *v)
{
    v->state.admin.vlan_id = 0;
}
static void deaf(struct local_vf *v)
{
    v->state.mac.b[5] = v->in_pod.mac.b[5] = 9;
}
static void own_choice(struct local_vf *v)
{
    v->state.admin.mac.b[5] = 9;
    deaf(v);
}

static void not_trusted(struct local_vf *v)
{
    v->state.admin.trust = false;
    own_choice(v);
}

static void renamed(struct local_vf *v)
{
    strcpy(v->in_pod.name, "eth7");
}
static void address_gone(struct local_vf *v)
{
    v->in_pod.addrs.n = 0;
}
static void mtu_changed(struct local_vf *v)
{
    v->state.mtu = v->in_pod.mtu = 1200;
}
static void unreadable(struct local_vf *v)
{
    v->why = xstrdup("reading VF: no");
}
static void lost(struct local_vf *v)
{
    attach_result_done(&v->in_pod);
    free(TAKE_PTR(v->place));
}

static void came_home(struct local_vf *v)
{
    lost(v);
    v->state.home = true;
    v->state.mtu = 1400;
}

static const struct {
    const char *what;
    bool record;
    void (*change)(struct local_vf *v);
    const char *now, *missing; /* codes */
    const char *code, *part;
} here[] = {
    {"in the pod, as asked", true, nothing, "PfEntry InPod AsAsked", "", "InPod",
     "net1 in /run/netns/cni-1: MAC 02:00:00:00:00:01, MTU 1300, 192.0.2.10/24."},
    {"the record is told", true, nothing, "PfEntry InPod AsAsked", "", "RecordDevice",
     "VF 0000:01:10.0 of VirtualFunctionPool prepared, mode Prepare: macAddress 02:00:00:00:00:01, "
     "vlan 100 (qos 3), trust true, mtu 1400."},
    {"the list's entry", true, nothing, "PfEntry InPod AsAsked", "", "PfEntry",
     "VLAN 100 (qos 3), spoof checking off, trust on."},
    {"PF down", true, pf_down, "PfEntry InPod AsAsked", "PfDown", "PfDown", "PF enp1s0 is down"},
    {"VLAN", true, vlan_gone, "PfEntry InPod", "Differs", "Differs",
     "VF 0000:01:10.0 isn't as it was set for this claim: vlan: 0, want 100."},
    {"own MAC", true, deaf, "PfEntry InPod", "Differs", "Differs", "so no packet passes"},
    {"a MAC that the pod gave itself, which a trusted VF may", true, own_choice,
     "PfEntry InPod AsAsked", "", "AsAsked", "as it was set for this claim."},
    {"the same of one that isn't trusted", true, not_trusted, "PfEntry InPod", "Differs", "Differs",
     "mac: 02:00:00:00:00:09 in the PF's list, want 02:00:00:00:00:01"},
    {"name", true, renamed, "PfEntry InPod", "Differs", "Differs", "name: eth7, want net1"},
    {"address", true, address_gone, "PfEntry InPod", "Differs", "Differs",
     "address 192.0.2.10/24 is missing"},
    {"the MTU in the pod is the interface's", true, mtu_changed, "PfEntry InPod", "Differs",
     "Differs", "mtu: 1200, want 1300"},
    {"in no namespace that is seen", true, lost, "PfEntry Away AsAsked", "", "Away", "isn't root"},
    {"at home while its pod runs", true, came_home, "PfEntry Home AsAsked", "NotInPod", "NotInPod",
     "the interface of VF 0000:01:10.0 is at home"},
    {"the kernel doesn't answer", true, unreadable, "", "KernelUnread", "KernelUnread",
     "isn't known: reading VF: no."},
    {"no record", false, nothing, "PfEntry InPod", "NoRecord", "NoRecord", "has no record"},
};

static void test_here(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(here); i++) {
        _cleanup_(record_freep) struct record *rec = record_of(MODE_PREPARE, ATTACH_NRI);
        _cleanup_(explain_seen_vec_done) explain_seen_vec seen = {0};
        struct explain_seen *s = VEC_PUSH(&seen);
        struct world w;

        world_init(&w, NULL, 0);
        *s = (struct explain_seen){xstrdup(VF), vf_at_home()};
        to_pod(&s->vf);
        here[i].change(&s->vf);
        w.in.here = true;
        w.in.record = here[i].record ? rec : NULL;
        w.in.seen = &seen;
        explain_claim(&w.in, w.x);
        _cleanup_free_ char *now = codes_of(w.x, EXPLAIN_NOW),
                            *missing = codes_of(w.x, EXPLAIN_MISSING);
        if (!streq(now, here[i].now) || !streq(missing, here[i].missing))
            fail_msg("%s: \"%s\" and \"%s\"", here[i].what, now, missing);
        if (!strstr(text_of(w.x, here[i].code), here[i].part))
            fail_msg("%s: \"%s\" lacks \"%s\"", here[i].what, text_of(w.x, here[i].code),
                     here[i].part);
        world_done(&w);
    }
}

/* By the record alone, without the API. */
static void test_record(void **state)
{
    static const struct {
        bool by_kubelet, unprepare;
        enum mode mode;
        enum attach attach;
    } cases[] = {
        {true, true, MODE_PREPARE, ATTACH_NRI},
        {true, false, MODE_DEFER_CLEANUP, ATTACH_NRI},
        {false, false, MODE_SKIP, ATTACH_NRI},
        {false, false, MODE_SKIP, ATTACH_NONE},
    };
    static const char *const ends[] = {"EndByCall", "EndDeferred", "EndSeen", "EndByOthers"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(record_freep) struct record *rec = record_of(cases[i].mode, cases[i].attach);
        _cleanup_(explanation_freep) struct explanation *x =
            explanation_new("ResourceClaim", "default", "net");
        const struct explain_input in = {.driver = DRIVER, .here = true, .record = rec};

        rec->by_kubelet = cases[i].by_kubelet;
        rec->unprepare_comes = cases[i].unprepare;
        explain_record(&in, x);
        _cleanup_free_ char *got = codes(x),
                            *want = xasprintf("|Device||Record RecordDevice|||%s", ends[i]);
        assert_string_equal(got, want);
    }
}

/* ---- a VF */

static const struct {
    const char *what;
    struct change changes[3];
    bool offered, held, here, record;
    void (*change)(struct local_vf *v);
    const char *codes;
    const char *code, *part;
} vfs[] = {
    {"free, elsewhere",
     {{NULL}},
     true,
     false,
     false,
     false,
     nothing,
     "|Device Mode Verified||Free|NotHere||",
     "NotHere",
     "on node node-1 only"},
    {"held: its claim is explained by itself",
     {{NULL}},
     true,
     true,
     false,
     false,
     nothing,
     "|Device Mode Verified|||||",
     NULL,
     NULL},
    {"free, here, at rest",
     {{NULL}},
     true,
     false,
     true,
     false,
     nothing,
     "|Device Mode Verified||Free|PfEntry Home AtRest||",
     "Home",
     "enp1s0v0, up, MAC 02:00"},
    {"free, here, and not clean",
     {{NULL}},
     true,
     false,
     true,
     false,
     deaf,
     "|Device Mode Verified||Free|PfEntry Home|Differs|",
     "Differs",
     "02:00:00:00:00:09 on the VF"},
    {"preprovisioned, as promised; its QoS is no attribute",
     {{ATTRIBUTES ".mode.string", "Skip"},
      {ATTRIBUTES ".vlan.int", "100"},
      {ATTRIBUTES ".mtu.int", "1400"}},
     true,
     false,
     true,
     false,
     nothing,
     "|Device Mode Promised Verified NotHonoured||Free|PfEntry Home AtRest||",
     NULL,
     NULL},
    {"preprovisioned, and drifted",
     {{ATTRIBUTES ".mode.string", "Skip"},
      {ATTRIBUTES ".vlan.int", "7"},
      {ATTRIBUTES ".spoofCheck.bool", "true"}},
     true,
     false,
     true,
     false,
     nothing,
     "|Device Mode Promised Verified NotHonoured||Free|PfEntry Home|Differs|",
     "Differs",
     "vlan: 100, want 7; spoof checking: off, want on; mtu: 1400, want 1500"},
    {"the driver has it still",
     {{NULL}},
     true,
     false,
     true,
     true,
     nothing,
     "|Device Mode Verified||Record|PfEntry Home AsAsked||",
     "Record",
     "lists no claim that has it. This node's driver still has it for claim default/net"},
    {"not offered",
     {{"slices", "[]"}},
     false,
     false,
     true,
     false,
     nothing,
     "||||PfEntry Home AtRest|NotOffered|",
     NULL,
     NULL},
    {"without the API",
     {{"slices", NULL}},
     false,
     false,
     true,
     true,
     nothing,
     "|||Record|PfEntry Home AsAsked||",
     "Record",
     "This node's driver has it for claim default/net."},
};

static void test_vfs(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(vfs); i++) {
        _cleanup_(record_freep) struct record *rec = record_of(MODE_PREPARE, ATTACH_NRI);
        _cleanup_(explain_seen_vec_done) explain_seen_vec seen = {0};
        struct explain_seen *s = VEC_PUSH(&seen);
        struct world w;

        world_init(&w, vfs[i].changes, ARRAY_SIZE(vfs[i].changes));
        *s = (struct explain_seen){xstrdup(VF), vf_at_home()};
        vfs[i].change(&s->vf);
        w.in.claim = NULL;
        w.in.here = vfs[i].here;
        w.in.record = vfs[i].record ? rec : NULL;
        w.in.seen = &seen;
        explain_vf(&w.in, vfs[i].offered ? "node-1" : NULL, VF, "0000:01:10.0", vfs[i].held, w.x);
        _cleanup_free_ char *got = codes(w.x);
        if (!streq(got, vfs[i].codes))
            fail_msg("%s: %s", vfs[i].what, got);
        if (vfs[i].code && !strstr(text_of(w.x, vfs[i].code), vfs[i].part))
            fail_msg("%s: \"%s\" lacks \"%s\"", vfs[i].what, text_of(w.x, vfs[i].code),
                     vfs[i].part);
        world_done(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_claims),
        cmocka_unit_test(test_here),
        cmocka_unit_test(test_record),
        cmocka_unit_test(test_vfs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
