/* SPDX-License-Identifier: Apache-2.0 */
/* Plans carried out: a fake sysfs, a kernel behind its sriov_numvfs, scripted netlink. */
#include "driver/provision_text.h"

#include "tests/unit/driver/doc.h"
#include "tests/unit/sriov/fake_numvfs.h"
#include "tests/unit/sriov/fake_sysfs.h"
#include "tests/unit/sriov/script.h"

#include <errno.h>

/* Two ports: enp1s0 has 7 VFs, of which VF 4 is away, 5 with vfio-pci and 6 without a driver. */
struct rig {
    char *tree;
    struct sysroot root;
    struct pools pools;
    provision_holder_vec holders;
};

static int make_rig(void **state)
{
    static struct rig rig;
    _cleanup_err_ struct err e = ERR_INIT;

    rig = (struct rig){.tree = fake_sysfs_load("igb-7vf.txt")};
    assert_ok(sysroot_open(rig.tree, &rig.root, &e), &e);
    *state = &rig;
    return 0;
}

static int drop_rig(void **state)
{
    struct rig *rig = *state;

    sysroot_done(&rig->root);
    fake_sysfs_remove(rig->tree);
    pools_done(&rig->pools);
    provision_holder_vec_done(&rig->holders);
    return 0;
}

static void add_pool(struct rig *rig, const char *spec)
{
    json_auto_t *o = doc("{apiVersion: sriov-dra.dev/v1alpha1, kind: VirtualFunctionPool,"
                         " metadata: {name: p}}");
    _cleanup_err_ struct err e = ERR_INIT;

    doc_set(o, "spec", spec);
    assert_ok(pool_parse(o, VEC_PUSH(&rig->pools.pools), &e), &e);
}

/*
 * Looks, plans and carries out, on all ports in turn, as the verb does. The plan must be as in
 * `want`, printed; every request and every write of the scripts must come, and no other.
 */
static void work(struct rig *rig, struct script *sc, const struct numvfs_write *writes, size_t n,
                 const char *want, struct provision_report *ret)
{
    struct hw hw = {.root = &rig->root, .nl = script_start(sc)};
    _cleanup_(inventory_done) struct inventory inv = {0};
    _cleanup_(provision_vf_vec_done) provision_vf_vec seen = {0};
    _cleanup_(provision_plan_done) struct provision_plan p = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_free_ char *text = NULL;
    const struct provision_input in = {
        .inv = &inv, .pools = &rig->pools, .node = "w1", .seen = &seen, .holders = &rig->holders};
    size_t len;

    fake_numvfs_start(rig->tree, writes, n);
    assert_ok(inventory_read(&rig->root, &inv, &e), &e);
    provision_look(&hw, &in, &seen);
    provision_plan(&in, &p);
    FILE *f = open_memstream(&text, &len);
    provision_print(f, &p, false);
    fclose(f);
    assert_string_equal(text, want);
    *ret = (struct provision_report){0};
    vec_foreach (pf, &p.pfs) {
        provision_report_done(ret);
        provision_run(&hw, &in, pf, false, ret);
    }
    assert_int_equal(fake_numvfs_end(), n);
    nl_free(hw.nl);
    script_done(sc);
}

/* The answers to a look at VF `index` of enp1s0, at home with this VLAN. */
static void script_look(struct script *sc, unsigned index, uint16_t vlan)
{
    struct vf_state s = fresh_state();

    s.admin.index = index;
    s.admin.vlan_id = vlan;
    _cleanup_(link_done) struct link pf = pf_link(&s), vf = vf_link_of(&s);
    snprintf(vf.parent_dev, sizeof(vf.parent_dev), "0000:01:1%u.%u", index / 4, index % 4 * 2);
    script_get(sc, &pf);
    script_get(sc, &vf);
    script_addrs(sc, vf.ifindex, NULL, 0);
}

/*
 * The answers to a look at the first VFs of enp1s0, with these VLANs; those of the bits in `away`
 * are in no list of ours.
 */
static void script_survey(struct script *sc, const uint16_t *vlans, size_t n, unsigned away)
{
    struct vf_state s = fresh_state();
    _cleanup_(link_done) struct link pf = pf_link(&s);
    struct link own[8] = {0};
    const struct link *list[8];
    size_t here = 0;

    pf.vfs.n = 0;
    for (size_t i = 0; i < n; i++) {
        struct vf_info *info = VEC_PUSH(&pf.vfs);

        *info = s.admin;
        info->index = (unsigned)i;
        info->vlan_id = vlans[i];
        if (away & 1U << i)
            continue;
        own[here] = vf_link_of(&s);
        own[here].ifindex = (int)(10 + i);
        snprintf(own[here].parent_dev, sizeof(own[here].parent_dev), "0000:01:1%zu.%zu", i / 4,
                 i % 4 * 2);
        list[here] = &own[here];
        here++;
    }
    script_list(sc, list, here);
    script_addrs(sc, 0, NULL, 0);
    script_get(sc, &pf);
}

static struct vf_change vlan_of(unsigned index, uint16_t vlan)
{
    return (struct vf_change){.index = index, .set = VF_FIELD_VLAN, .vlan_id = vlan};
}

/* What others provision is never written, and not so much as read. */
static void external_is_left_alone(void **state)
{
    struct script sc = {0};
    struct provision_report r;

    add_pool(*state, "{functions: [{parent: {interface: enp1s0}, indexes: '0-3'}], mode: Skip,"
                     " settings: {vlan: {id: 100}}, provisioning: {by: External}}");
    work(*state, &sc, NULL, 0, "", &r);
    provision_report_done(&r);
}

static void free_vfs_are_set_up(void **state)
{
    struct script sc = {0};
    struct provision_report r;

    add_pool(*state, "{functions: [{parent: {interface: enp1s0}, indexes: '0-3'}], mode: Skip,"
                     " settings: {vlan: {id: 100}}, provisioning: {by: Driver}}");
    script_survey(&sc, (const uint16_t[]){0, 100, 0, 0}, 4, 0);
    for (unsigned i = 0; i < 4; i++) {
        const struct vf_change set = vlan_of(i, 100);

        if (i == 1)
            continue;
        script_look(&sc, i, 0);
        script_entry(&sc, &set);
        script_look(&sc, i, 100);
    }
    work(*state, &sc, NULL, 0,
         "enp1s0 (0000:01:00.0), pool p\n"
         "~ vf 0: vlan 0 -> 100\n"
         "~ vf 2-3: vlan 0 -> 100\n",
         &r);
    assert_int_equal(r.set, 3);
    assert_int_equal(r.failures.n, 0);
    provision_report_done(&r);
}

/* One that fails keeps no other from being tried. */
static void each_vf_for_itself(void **state)
{
    struct script sc = {0};
    struct provision_report r;
    const struct vf_change set0 = vlan_of(0, 100), undo0 = vlan_of(0, 0), set1 = vlan_of(1, 100);

    add_pool(*state, "{functions: [{parent: {interface: enp1s0}, indexes: '0-1'}], mode: Skip,"
                     " settings: {vlan: {id: 100}}, provisioning: {by: Driver}}");
    script_survey(&sc, (const uint16_t[]){0, 0}, 2, 0);
    script_look(&sc, 0, 0);
    script_entry(&sc, &set0);
    script_fail(&sc, -EINVAL, NULL);
    struct vf_state s = fresh_state();
    s.admin.index = 0;
    _cleanup_(link_done) struct link pf = pf_link(&s);
    script_get(&sc, &pf);
    script_entry(&sc, &undo0);
    script_look(&sc, 1, 0);
    script_entry(&sc, &set1);
    script_look(&sc, 1, 100);
    work(*state, &sc, NULL, 0,
         "enp1s0 (0000:01:00.0), pool p\n"
         "~ vf 0-1: vlan 0 -> 100\n",
         &r);
    assert_int_equal(r.set, 1);
    assert_int_equal(r.failures.n, 1);
    assert_non_null(strstr(r.failures.v[0], "of PF enp1s0: VLAN refused: setting VF 0"));
    provision_report_done(&r);
}

/* VFs away, with vfio-pci, and held: the number stays, and each of them is named. */
static void number_stays_while_in_use(void **state)
{
    struct rig *rig = *state;
    struct script sc = {0};
    struct provision_report r;

    add_pool(rig, "{functions: [{parent: {interface: enp1s0}}],"
                  " provisioning: {by: Driver, count: 4}}");
    *VEC_PUSH(&rig->holders) =
        (struct provision_holder){.address = "0000:01:10.2", .who = xstrdup("claim default/c")};
    script_survey(&sc, (const uint16_t[7]){0}, 7, 1 << 4 | 1 << 5 | 1 << 6);
    work(rig, &sc, NULL, 0,
         "enp1s0 (0000:01:00.0), pool p\n"
         "! numvfs 7 -> 4, but VF 1 (0000:01:10.2): claim default/c has it\n"
         "! numvfs 7 -> 4, but VF 4 (0000:01:11.0): its interface is in another network namespace\n"
         "! numvfs 7 -> 4, but VF 5 (0000:01:11.2): it has no network interface: its driver is "
         "vfio-pci\n",
         &r);
    assert_false(r.made || r.set || r.failures.n);
    provision_report_done(&r);
}

/* The PF up, VFs made, and those of the pool set up in the same go. */
static void from_nothing(void **state)
{
    struct rig *rig = *state;
    const struct numvfs_write writes[] = {{.text = "4"}};
    const struct link_change up = {
        .ifindex = PF_IFINDEX, .set = LINK_FIELD_UP, .up = true, .netns_fd = -1};
    const struct vf_change set = vlan_of(3, 100);
    struct vf_state s = fresh_state();
    struct script sc = {0};
    struct provision_report r;

    add_pool(rig, "{functions: [{parent: {interface: enp2s0}, indexes: '3'}], mode: Skip,"
                  " settings: {vlan: {id: 100}}, provisioning: {by: Driver, count: 4}}");
    for (unsigned step = 0; step < 5; step++) {
        s.pf_up = step > 0;
        s.admin.vlan_id = step == 4 ? 100 : 0;
        _cleanup_(link_done) struct link pf = pf_link(&s), vf = vf_link_of(&s);
        const struct link *list[] = {&vf};

        strcpy(pf.parent_dev, "0000:02:00.0");
        strcpy(vf.parent_dev, "0000:02:10.6");
        if (step == 2) { /* the new VFs, all at once */
            script_list(&sc, list, 1);
            script_addrs(&sc, 0, NULL, 0);
        }
        script_get(&sc, &pf);
        if (step == 0)
            script_link(&sc, &up);
        if (step < 3)
            continue;
        script_get(&sc, &vf);
        script_addrs(&sc, vf.ifindex, NULL, 0);
        if (step == 3)
            script_entry(&sc, &set);
    }
    work(rig, &sc, writes, 1,
         "enp2s0 (0000:02:00.0), pool p\n"
         "- link down\n"
         "+ link up\n"
         "- numvfs 0\n"
         "+ numvfs 4\n"
         "+ vf 3: vlan 100\n",
         &r);
    assert_int_equal(r.failures.n, 0);
    assert_true(r.raised);
    assert_int_equal(r.made, 4);
    assert_int_equal(r.set, 1);

    _cleanup_free_ char *text = NULL;
    struct provision_pf pf = {.pf = &(struct pf){.address = "0000:02:00.0"}};
    size_t len;
    FILE *f = open_memstream(&text, &len);
    r.us = 1240000;
    provision_print_report(f, &pf, &r, false);
    fclose(f);
    assert_string_equal(text, "0000:02:00.0: link up, 4 VFs made, 1 VF set up, in 1.2 s\n");
    provision_report_done(&r);
}

/* Nothing after a step of the port that failed. */
static void refused(void **state)
{
    struct rig *rig = *state;
    const struct numvfs_write writes[] = {{.text = "4", .error = ENOMEM}};
    struct vf_state s = fresh_state();
    const struct link_change up = {
        .ifindex = PF_IFINDEX, .set = LINK_FIELD_UP, .up = true, .netns_fd = -1};
    struct script sc = {0};
    struct provision_report r;

    add_pool(rig, "{functions: [{parent: {interface: enp2s0}, indexes: '3'}], mode: Skip,"
                  " settings: {vlan: {id: 100}}, provisioning: {by: Driver, count: 4}}");
    static const char plan[] = "enp2s0 (0000:02:00.0), pool p\n"
                               "- link down\n"
                               "+ link up\n"
                               "- numvfs 0\n"
                               "+ numvfs 4\n"
                               "+ vf 3: vlan 100\n";
    s.pf_up = false;
    _cleanup_(link_done) struct link down = pf_link(&s);
    s.pf_up = true;
    _cleanup_(link_done) struct link is_up = pf_link(&s);
    script_get(&sc, &down);
    script_link(&sc, &up);
    script_get(&sc, &is_up);
    work(rig, &sc, writes, 1, plan, &r);
    assert_true(r.raised && !r.made && !r.set);
    assert_int_equal(r.failures.n, 1);
    assert_non_null(strstr(r.failures.v[0], "making 4 VFs on PF enp2s0 (0000:02:00.0): writing"));
    provision_report_done(&r);

    script_get(&sc, &down);
    script_link(&sc, &up);
    script_fail(&sc, -EPERM, NULL);
    work(rig, &sc, NULL, 0, plan, &r);
    assert_int_equal(r.failures.n, 1);
    assert_false(r.raised);
    provision_report_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(external_is_left_alone, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(free_vfs_are_set_up, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(each_vf_for_itself, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(number_stays_while_in_use, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(from_nothing, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(refused, make_rig, drop_rig),
    };

    return cmocka_run_group_tests_name("provision_run", tests, NULL, NULL);
}
