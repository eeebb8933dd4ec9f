/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/provision_text.h"

#include "tests/unit/driver/doc.h"

#include <linux/if_ether.h>

/* A node with one port or two, its pools, and what was seen of its VFs. */
struct scene {
    struct inventory inv;
    struct pools pools;
    provision_vf_vec seen;
    provision_holder_vec holders;
    json_t *labels;
    const char *suspicious;
};

static void scene_done(struct scene *s)
{
    inventory_done(&s->inv);
    pools_done(&s->pools);
    provision_vf_vec_done(&s->seen);
    provision_holder_vec_done(&s->holders);
    json_decref(s->labels);
}

static void add_pf(struct scene *s, unsigned bus, unsigned vfs)
{
    struct pf *pf = VEC_PUSH(&s->inv.pfs);

    *pf = (struct pf){.driver = xstrdup("igb"),
                      .netdev = xasprintf("enp%us0", bus),
                      .total_vfs = 7,
                      .num_vfs = vfs,
                      .autoprobe = true,
                      .up = true};
    snprintf(pf->address, sizeof(pf->address), "0000:%02x:00.0", bus);
    for (unsigned i = 0; i < vfs; i++) {
        const struct mac mac = {.b = {0x52, 0x54, 0, 0, (uint8_t)bus, (uint8_t)i}};
        struct vf *vf = VEC_PUSH(&pf->vfs);
        struct provision_vf *seen = VEC_PUSH(&s->seen);

        *vf = (struct vf){
            .index = i, .driver = xstrdup("igbvf"), .netdev = xasprintf("enp%us0v%u", bus, i)};
        snprintf(vf->address, sizeof(vf->address), "0000:%02x:10.%u", bus, i);
        memcpy(seen->address, vf->address, sizeof(vf->address));
        seen->state = (struct vf_state){
            .pf_up = true,
            .home = true,
            .mac = mac,
            .mtu = 1500,
            .admin = {.index = i,
                      .has = VF_FIELD_MAC | VF_FIELD_VLAN | VF_FIELD_SPOOFCHK | VF_FIELD_TRUST,
                      .mac = mac,
                      .vlan_proto = ETH_P_8021Q,
                      .spoofchk = true},
        };
    }
}

static void add_pool(struct scene *s, const char *name, const char *spec)
{
    json_auto_t *o = doc("{apiVersion: sriov-dra.dev/v1alpha1, kind: VirtualFunctionPool,"
                         " metadata: {name: x}}");
    _cleanup_err_ struct err e = ERR_INIT;

    json_object_set_new(json_object_get(o, "metadata"), "name", json_string(name));
    doc_set(o, "spec", spec);
    assert_ok(pool_parse(o, VEC_PUSH(&s->pools.pools), &e), &e);
}

static struct vf *vf_of(struct scene *s, unsigned pf, unsigned vf)
{
    return &s->inv.pfs.v[pf].vfs.v[vf];
}

/* The first port's. */
static struct provision_vf *seen_of(struct scene *s, unsigned vf)
{
    return &s->seen.v[vf];
}

static void hold(struct scene *s, const char *address, const char *who)
{
    struct provision_holder *h = VEC_PUSH(&s->holders);

    snprintf(h->address, sizeof(h->address), "%s", address);
    h->who = xstrdup(who);
}

static struct provision_input input(const struct scene *s)
{
    return (struct provision_input){
        .inv = &s->inv,
        .pools = &s->pools,
        .node = "w1",
        .labels = s->labels,
        .seen = &s->seen,
        .holders = &s->holders,
        .suspicious = s->suspicious,
    };
}

/* The whole plan, as it is printed. */
static void expect(const struct scene *s, const char *want)
{
    const struct provision_input in = input(s);
    _cleanup_(provision_plan_done) struct provision_plan p = {0};
    _cleanup_free_ char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);

    provision_plan(&in, &p);
    provision_print(f, &p, false);
    fclose(f);
    assert_string_equal(text, want);
    assert_int_equal(provision_plan_empty(&p), *want == '\0');
}

#define PF1    "{parent: {interface: enp1s0}}"
#define PF2    "{parent: {interface: enp2s0}}"
#define VLAN   "settings: {vlan: {id: 100}}"
#define COUNT4 "provisioning: {by: Driver, count: 4}"
#define DRIVER "provisioning: {by: Driver}"

static void from_nothing(void **state)
{
    _cleanup_(scene_done) struct scene s = {0};

    (void)state;
    add_pf(&s, 1, 0);
    s.inv.pfs.v[0].up = false;
    add_pool(&s, "storage",
             "{functions: [" PF1 "], mode: Skip, " COUNT4
             ", settings: {vlan: {id: 100, qos: 3}, spoofCheck: false, mtu: 9000}}");
    expect(&s, "enp1s0 (0000:01:00.0), pool storage\n"
               "- link down\n"
               "+ link up\n"
               "- numvfs 0\n"
               "+ numvfs 4\n"
               "+ vf 0-3: vlan 100, vlan QoS 3, spoof checking off, mtu 9000\n");
}

/* What each VF gets is told by index; the first pool that selects it has it. */
static void several_pools(void **state)
{
    _cleanup_(scene_done) struct scene s = {0};

    (void)state;
    add_pf(&s, 1, 0);
    add_pool(&s, "a",
             "{functions: [{parent: {interface: enp1s0}, indexes: '0,2'}], mode: Skip, " DRIVER
             ", " VLAN "}");
    add_pool(&s, "b",
             "{functions: [{parent: {interface: enp1s0}, indexes: '1'}], mode: Prepare, " COUNT4
             "}");
    add_pool(&s, "c",
             "{functions: [{parent: {pciAddress: '0000:01:00.0'}}], mode: Skip, " COUNT4 "}");
    expect(&s, "enp1s0 (0000:01:00.0), pools a, b, c\n"
               "- numvfs 0\n"
               "+ numvfs 4\n"
               "+ vf 0: vlan 100\n"
               "+ vf 2: vlan 100\n"
               "+ vf 3: vlan 0\n");
}

static void only_what_differs(void **state)
{
    _cleanup_(scene_done) struct scene s = {0};

    (void)state;
    add_pf(&s, 1, 4);
    add_pf(&s, 2, 2);
    add_pool(&s, "storage", "{functions: [" PF1 "], mode: Skip, " COUNT4 ", " VLAN "}");
    for (unsigned i = 0; i < 4; i++)
        seen_of(&s, i)->state.admin.vlan_id = 100;
    expect(&s, "");
    seen_of(&s, 0)->state.admin.vlan_id = 0;
    seen_of(&s, 1)->state.admin.vlan_id = 0;
    seen_of(&s, 2)->state.admin.vlan_id = 7;
    seen_of(&s, 3)->state.mac.b[5] = 99; /* deaf */
    expect(&s, "enp1s0 (0000:01:00.0), pool storage\n"
               "~ vf 0-1: vlan 0 -> 100\n"
               "~ vf 2: vlan 7 -> 100\n"
               "~ vf 3: mac 52:54:00:00:01:63 on the VF -> 52:54:00:00:01:03\n");
    for (unsigned i = 0; i < 3; i++)
        seen_of(&s, i)->state.admin.vlan_id = 100;
    seen_of(&s, 3)->state.mac.b[5] = 3;
    seen_of(&s, 3)->state.promiscuity = 1;
    expect(&s, "enp1s0 (0000:01:00.0), pool storage\n"
               "~ vf 3: promiscuous mode on -> off\n");
}

/* Of pools that set VFs up for each claim only the number and the link matter. */
static void prepare_pools(void **state)
{
    _cleanup_(scene_done) struct scene s = {0};

    (void)state;
    add_pf(&s, 1, 4);
    add_pool(&s, "prepared", "{functions: [" PF1 "], " DRIVER ", " VLAN "}");
    expect(&s, "");
    s.inv.pfs.v[0].up = false;
    expect(&s, "enp1s0 (0000:01:00.0), pool prepared\n"
               "- link down\n"
               "+ link up\n");
}

/* What others provision is never in a plan, whatever it is like. */
static void others(void **state)
{
    _cleanup_(scene_done) struct scene s = {0};

    (void)state;
    add_pf(&s, 1, 4);
    s.inv.pfs.v[0].up = false;
    add_pool(&s, "theirs", "{functions: [" PF1 "], mode: Skip, " VLAN "}");
    add_pool(&s, "again", "{functions: [" PF1 "]}");
    expect(&s, "");
    const struct provision_input in = input(&s);
    struct pf_wish wish;
    provision_wish(&in, &s.inv.pfs.v[0], &wish, NULL);
    assert_false(wish.ours);
    assert_null(provision_pool(&in, &s.inv.pfs.v[0], vf_of(&s, 0, 0)));
}

/* VFs of theirs on a PF of ours: they stay as they are, and aren't removed. */
static void others_on_the_same_port(void **state)
{
    _cleanup_(scene_done) struct scene s = {0};

    (void)state;
    add_pf(&s, 1, 3);
    add_pool(&s, "theirs",
             "{functions: [{parent: {interface: enp1s0}, indexes: '0-1'}], mode: Skip, " VLAN "}");
    add_pool(&s, "ours", "{functions: [" PF1 "], mode: Skip, " COUNT4 ", " VLAN "}");
    expect(&s, "enp1s0 (0000:01:00.0), pool ours\n"
               "~ vf 2: vlan 0 -> 100\n"
               "! numvfs 3 -> 4, but VF 0 (0000:01:10.0): it is of pool theirs, whose VFs others "
               "provision\n"
               "! numvfs 3 -> 4, but VF 1 (0000:01:10.1): it is of pool theirs, whose VFs others "
               "provision\n");
}

static void in_use_by_a_claim(struct scene *s)
{
    hold(s, "0000:01:10.1", "claim default/c (uid u)");
}

static void in_use_away(struct scene *s)
{
    free(TAKE_PTR(vf_of(s, 0, 1)->netdev));
    vf_of(s, 0, 1)->away = true;
    seen_of(s, 1)->state.home = false;
}

static void in_use_by_vfio(struct scene *s)
{
    free(TAKE_PTR(vf_of(s, 0, 1)->netdev));
    free(vf_of(s, 0, 1)->driver);
    vf_of(s, 0, 1)->driver = xstrdup("vfio-pci");
    seen_of(s, 1)->state.home = false;
}

static void in_use_with_address(struct scene *s)
{
    ipnet_parse("192.0.2.1/24", true, VEC_PUSH(&seen_of(s, 1)->state.addrs));
}

static void in_use_in_bridge(struct scene *s)
{
    seen_of(s, 1)->upper = xstrdup("br0");
}

static void in_use_unread(struct scene *s)
{
    seen_of(s, 1)->unread = xstrdup("no such luck");
}

static void in_use_suspicious(struct scene *s)
{
    s->suspicious = "/state/a.json.bad";
}

static const struct {
    void (*make)(struct scene *s);
    const char *why;
} uses[] = {
    {in_use_by_a_claim, "claim default/c (uid u) has it"},
    {in_use_away, "its interface is in another network namespace"},
    {in_use_by_vfio, "it has no network interface: its driver is vfio-pci"},
    {in_use_with_address, "it has the address 192.0.2.1/24 on the host"},
    {in_use_in_bridge, "br0 is on top of it on the host"},
    {in_use_unread, "it couldn't be looked at: no such luck"},
    {in_use_suspicious, "it may be the VF of the damaged claim record /state/a.json.bad; remove "
                        "that file if no pod of "
                        "the claim is left"},
};

/* Never a number changed while a VF of the port is in use, be it of the pool or not. */
static void count_while_in_use(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(uses); i++) {
        _cleanup_(scene_done) struct scene s = {0};
        struct strbuf want = {0};

        add_pf(&s, 1, 2);
        add_pool(&s, "prepared",
                 "{functions: [{parent: {interface: enp1s0}, indexes: '0'}], " COUNT4 "}");
        uses[i].make(&s);
        strbuf_puts(&want, "enp1s0 (0000:01:00.0), pool prepared\n");
        if (s.suspicious)
            strbuf_printf(&want, "! numvfs 2 -> 4, but VF 0 (0000:01:10.0): %s\n", uses[i].why);
        strbuf_printf(&want, "! numvfs 2 -> 4, but VF 1 (0000:01:10.1): %s\n", uses[i].why);
        expect(&s, want.s);
        strbuf_done(&want);
    }
}

/* Settings of a VF in use are left alone, and told; where they hold there is nothing to tell. */
static void settings_while_in_use(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(uses); i++) {
        _cleanup_(scene_done) struct scene s = {0};
        _cleanup_free_ char *want = NULL;

        add_pf(&s, 1, 2);
        seen_of(&s, 0)->state.admin.vlan_id = 100;
        seen_of(&s, 1)->state.admin.vlan_id = 100;
        add_pool(&s, "storage", "{functions: [" PF1 "], mode: Skip, " DRIVER ", " VLAN "}");
        uses[i].make(&s);
        if (!seen_of(&s, 1)->unread)
            expect(&s, "");
        seen_of(&s, 1)->state.admin.vlan_id = 300;
        want = xasprintf("enp1s0 (0000:01:00.0), pool storage\n! vf 1%s, but %s\n",
                         seen_of(&s, 1)->unread ? "" : ": vlan 300 -> 100", uses[i].why);
        expect(&s, want);
    }
}

/* Free VFs may be removed, without a driver or with one: 7 VFs become 4. */
static void count_while_free(void **state)
{
    _cleanup_(scene_done) struct scene s = {0};

    (void)state;
    add_pf(&s, 1, 7);
    free(TAKE_PTR(vf_of(&s, 0, 6)->netdev));
    free(TAKE_PTR(vf_of(&s, 0, 6)->driver));
    seen_of(&s, 6)->state.home = false;
    add_pool(&s, "prepared", "{functions: [" PF1 "], " COUNT4 "}");
    expect(&s, "enp1s0 (0000:01:00.0), pool prepared\n"
               "- numvfs 7\n"
               "+ numvfs 4\n");
}

/* A claim whose VF a reset of the port took: it can't be in the way of making it again. */
static void lost_by_a_reset(void **state)
{
    _cleanup_(scene_done) struct scene s = {.suspicious = "/state/a.json.bad"};

    (void)state;
    add_pf(&s, 1, 0);
    hold(&s, "0000:01:10.1", "claim default/c (uid u)");
    add_pool(&s, "storage", "{functions: [" PF1 "], mode: Skip, " COUNT4 ", " VLAN "}");
    expect(&s, "enp1s0 (0000:01:00.0), pool storage\n"
               "- numvfs 0\n"
               "+ numvfs 4\n"
               "+ vf 0-3: vlan 100\n");
}

/* The number is right, and VFs are still on their way: they are waited for. */
static void on_their_way(void **state)
{
    _cleanup_(scene_done) struct scene s = {0};

    (void)state;
    add_pf(&s, 1, 3);
    s.inv.pfs.v[0].num_vfs = 4;
    add_pool(&s, "prepared", "{functions: [" PF1 "], " COUNT4 "}");
    expect(&s, "enp1s0 (0000:01:00.0), pool prepared\n"
               "~ numvfs 4, but not all of these VFs are there yet\n");
}

static void what_can_not_be(void **state)
{
    _cleanup_(scene_done) struct scene s = {0};

    (void)state;
    add_pf(&s, 1, 0);
    add_pf(&s, 2, 0);
    add_pool(&s, "a", "{functions: [" PF1 "], " COUNT4 "}");
    add_pool(&s, "b", "{functions: [" PF1 ", " PF2 "], provisioning: {by: Driver, count: 6}}");
    add_pool(&s, "c", "{functions: [" PF1 "], " DRIVER "}");
    add_pool(&s, "d", "{functions: [{parent: {interface: enp9s0}}], " DRIVER "}");
    add_pool(&s, "e", "{functions: [" PF2 "], " DRIVER "}");
    add_pool(&s, "other", "{functions: [{parent: {interface: enp9s0}}]}");
    expect(&s, "enp2s0 (0000:02:00.0), pools b, e\n"
               "- numvfs 0\n"
               "+ numvfs 6\n"
               "! pool a: provisioning.count is 4, and 6 in pool b: both have VFs of PF enp1s0, so "
               "nothing is done there\n"
               "! pool b: provisioning.count is 6, and 4 in pool a: both have VFs of PF enp1s0, so "
               "nothing is done there\n"
               "! pool d: none of its functions is on this machine\n");
    s.inv.pfs.v[1].total_vfs = 5;
    s.pools.pools.v[0].count = 6;
    expect(&s, "enp1s0 (0000:01:00.0), pools a, b, c\n"
               "- numvfs 0\n"
               "+ numvfs 6\n"
               "! pool b: provisioning.count is 6, and PF enp2s0 can have 5 VFs at most "
               "(sriov_totalvfs): nothing is done there\n"
               "! pool d: none of its functions is on this machine\n");
}

/* VFs by address that are yet to be made: which these are isn't known. */
static void by_address(void **state)
{
    _cleanup_(scene_done) struct scene s = {0};

    (void)state;
    add_pf(&s, 1, 0);
    add_pool(&s, "one", "{functions: [{pciAddress: '0000:01:10.0'}], mode: Skip, " DRIVER "}");
    expect(&s, "! pool one: none of its functions is on this machine\n");
    add_pool(&s, "rest", "{functions: [" PF1 "], " COUNT4 "}");
    expect(&s, "enp1s0 (0000:01:00.0), pool rest\n"
               "- numvfs 0\n"
               "+ numvfs 4\n");
}

/* Which pool has a VF isn't known before the labels are, so nobody gets it. */
static void labels(void **state)
{
    _cleanup_(scene_done) struct scene s = {0};

    (void)state;
    add_pf(&s, 1, 1);
    add_pf(&s, 2, 1);
    add_pool(&s, "fast",
             "{nodeSelector: {matchLabels: {nic: fast}}, functions: [" PF1 "], mode: Skip, " DRIVER
             ", " VLAN "}");
    add_pool(&s, "rest",
             "{functions: [" PF1 ", " PF2 "], mode: Skip, " DRIVER ", settings: {vlan: {id: 7}}}");
    expect(&s, "enp2s0 (0000:02:00.0), pool rest\n"
               "~ vf 0: vlan 0 -> 7\n"
               "! pool fast: it has a nodeSelector, and the node's labels aren't known: nothing is "
               "done on PF enp1s0, of which it may have VFs\n");
    s.labels = doc("{nic: slow}");
    expect(&s, "enp1s0 (0000:01:00.0), pool rest\n"
               "~ vf 0: vlan 0 -> 7\n"
               "enp2s0 (0000:02:00.0), pool rest\n"
               "~ vf 0: vlan 0 -> 7\n");
    json_decref(s.labels);
    s.labels = doc("{nic: fast}");
    expect(&s, "enp1s0 (0000:01:00.0), pools fast, rest\n"
               "~ vf 0: vlan 0 -> 100\n"
               "enp2s0 (0000:02:00.0), pool rest\n"
               "~ vf 0: vlan 0 -> 7\n");
}

static void ports_with_trouble(void **state)
{
    _cleanup_(scene_done) struct scene s = {0};

    (void)state;
    add_pf(&s, 1, 0);
    add_pf(&s, 2, 1);
    free(TAKE_PTR(s.inv.pfs.v[0].netdev));
    s.inv.pfs.v[1].problem = xstrdup("sriov_numvfs: 99999");
    s.inv.pfs.v[1].up = false;
    add_pool(&s, "a", "{functions: [{parent: {pciAddress: '0000:01:00.0'}}], " COUNT4 "}");
    add_pool(&s, "b", "{functions: [" PF2 "], mode: Skip, " DRIVER "}");
    expect(&s, "0000:01:00.0 (0000:01:00.0), pool a\n"
               "! numvfs 0 -> 4, but it has no network interface here: its driver is igb\n"
               "enp2s0 (0000:02:00.0), pool b\n"
               "! link up, but it can't be read whole: sriov_numvfs: 99999\n");
}

static void vf_without_driver(void **state)
{
    _cleanup_(scene_done) struct scene s = {0};

    (void)state;
    add_pf(&s, 1, 1);
    free(TAKE_PTR(vf_of(&s, 0, 0)->netdev));
    free(TAKE_PTR(vf_of(&s, 0, 0)->driver));
    seen_of(&s, 0)->state.home = false;
    s.inv.pfs.v[0].autoprobe = false;
    add_pool(&s, "a", "{functions: [" PF1 "], mode: Skip, " DRIVER "}");
    expect(&s, "enp1s0 (0000:01:00.0), pool a\n"
               "! vf 0, but it has no driver (sriov_drivers_autoprobe is off), so no network "
               "interface\n");
}

static void for_programs(void **state)
{
    _cleanup_(scene_done) struct scene s = {0};
    _cleanup_(provision_plan_done) struct provision_plan p = {0};
    struct provision_report r = {.made = 4, .us = 1234567};

    (void)state;
    add_pf(&s, 1, 0);
    s.inv.pfs.v[0].up = false;
    add_pool(&s, "storage",
             "{functions: [{parent: {interface: enp1s0}, indexes: '3'}], mode: Skip, " COUNT4
             ", " VLAN "}");
    add_pool(&s, "gone", "{functions: [" PF2 "], " DRIVER "}");
    const struct provision_input in = input(&s);
    provision_plan(&in, &p);
    *VEC_PUSH(&r.failures) = xstrdup("bad \xff byte");
    json_auto_t *o = provision_pf_json(&p.pfs.v[0], &r);
    json_auto_t *want =
        doc("{address: '0000:01:00.0', interface: enp1s0, pools: [storage], obstacles: [],"
            " steps: [{step: linkUp}, {step: numvfs, from: 0, to: 4}, {step: settings, vf: 3,"
            "  address: null, pool: storage, changes: [{setting: vlan, from: null, to: '100'}]}],"
            " report: {raised: false, made: 4, set: 0, failures: ['bad ? byte'], obstacles: [],"
            "  ms: 1234}}");
    _cleanup_free_ char *is_text = json_text(o), *want_text = json_text(want);
    assert_string_equal(is_text, want_text);
    json_auto_t *problems = provision_problems_json(&p.problems);
    _cleanup_free_ char *text = json_text(problems);
    assert_string_equal(
        text, "[{\"pool\":\"gone\",\"why\":\"none of its functions is on this machine\"}]");
    provision_report_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_nothing),
        cmocka_unit_test(several_pools),
        cmocka_unit_test(only_what_differs),
        cmocka_unit_test(prepare_pools),
        cmocka_unit_test(others),
        cmocka_unit_test(others_on_the_same_port),
        cmocka_unit_test(count_while_in_use),
        cmocka_unit_test(settings_while_in_use),
        cmocka_unit_test(count_while_free),
        cmocka_unit_test(lost_by_a_reset),
        cmocka_unit_test(on_their_way),
        cmocka_unit_test(what_can_not_be),
        cmocka_unit_test(by_address),
        cmocka_unit_test(labels),
        cmocka_unit_test(ports_with_trouble),
        cmocka_unit_test(vf_without_driver),
        cmocka_unit_test(for_programs),
    };

    return cmocka_run_group_tests_name("provision", tests, NULL, NULL);
}
