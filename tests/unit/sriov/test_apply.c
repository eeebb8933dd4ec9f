/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "tests/unit/sriov/fake_sysfs.h"
#include "tests/unit/sriov/script.h"

#include <errno.h>
#include <linux/if_link.h>

#define M1 "52:54:00:ab:cd:01"

struct rig {
    char *tree;
    struct sysroot root;
    struct vf_original o;
};

static int make_rig(void **state)
{
    static struct rig rig;
    _cleanup_err_ struct err e = ERR_INIT;
    const struct vf_state s = fresh_state();

    rig.tree = fake_sysfs_load("igb-7vf.txt");
    assert_ok(sysroot_open(rig.tree, &rig.root, &e), &e);
    vf_original_from(&s, PF_ADDRESS, &rig.o);
    *state = &rig;
    return 0;
}

static int drop_rig(void **state)
{
    struct rig *rig = *state;

    sysroot_done(&rig->root);
    fake_sysfs_remove(rig->tree);
    return 0;
}

static int apply(struct rig *rig, struct script *sc, const struct vf_settings *want,
                 struct vf_state *after, struct err *e)
{
    struct hw hw = {.root = &rig->root, .nl = script_start(sc)};
    int r = vf_apply(&hw, &rig->o, want, false, after, e);

    nl_free(hw.nl);
    script_done(sc);
    return r;
}

static int restore(struct rig *rig, struct script *sc, struct vf_state *after, struct err *e)
{
    struct hw hw = {.root = &rig->root, .nl = script_start(sc)};
    int r = vf_restore(&hw, &rig->o, after, e);

    nl_free(hw.nl);
    script_done(sc);
    return r;
}

static struct vf_change vlan_change(uint16_t id)
{
    return (struct vf_change){.index = 3, .set = VF_FIELD_VLAN, .vlan_id = id};
}

static void nothing_asked_is_nothing_sent(void **state)
{
    const struct vf_settings none = {0}, same = {.set = VF_SET_MAC | VF_SET_MTU | VF_SET_SPOOFCHK,
                                                 .mac = fresh_state().mac,
                                                 .mtu = 1500,
                                                 .spoofchk = true};
    const struct vf_state s = fresh_state();
    struct script sc = {0};
    _cleanup_(vf_state_done) struct vf_state after = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    script_state(&sc, &s);
    assert_ok(apply(*state, &sc, &none, NULL, &e), &e);
    script_state(&sc, &s);
    assert_ok(apply(*state, &sc, &same, &after, &e), &e);
    assert_string_equal(after.name, "enp1s0v3");
    assert_false(after.had_mark);
}

static void applied_and_read_back(void **state)
{
    const struct vf_settings want = {.set = VF_SET_VLAN, .vlan_id = 100};
    struct vf_state s = fresh_state();
    struct vf_change set = vlan_change(100);
    struct script sc = {0};
    _cleanup_(vf_state_done) struct vf_state after = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    script_state(&sc, &s);
    script_entry(&sc, &set);
    s.admin.vlan_id = 100;
    script_state(&sc, &s);
    assert_ok(apply(*state, &sc, &want, &after, &e), &e);
    assert_int_equal(after.admin.vlan_id, 100);
}

/* What a pod of the same claim left is put back, what is asked for isn't touched twice. */
static void tidied_before(void **state)
{
    const struct vf_settings want = {.set = VF_SET_VLAN, .vlan_id = 100},
                             more = {.set = VF_SET_VLAN | VF_SET_MTU, .vlan_id = 100, .mtu = 1400};
    struct vf_state s = fresh_state();
    struct link_change name = own_change(LINK_FIELD_NAME),
                       clean = own_change(LINK_FIELD_PROMISC_OFF), mtu = own_change(LINK_FIELD_MTU);
    struct vf_change set = vlan_change(100);
    struct script sc = {0};
    _cleanup_(vf_state_done) struct vf_state after = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    strcpy(name.name, "enp1s0v3");
    mtu.mtu = 1500;
    strcpy(s.name, "net1");
    s.promiscuity = 1;
    s.mtu = 1400;
    s.admin.vlan_id = 200; /* somebody's doing */
    script_state(&sc, &s);
    script_link(&sc, &name);
    script_link(&sc, &clean);
    script_link(&sc, &mtu);
    strcpy(s.name, "enp1s0v3");
    s.promiscuity = 0;
    s.mtu = 1500;
    script_state(&sc, &s);
    script_entry(&sc, &set);
    s.admin.vlan_id = 100;
    script_state(&sc, &s);
    assert_ok(apply(*state, &sc, &want, &after, &e), &e);

    /* All as asked, the MTU too. */
    s.mtu = 1400;
    script_state(&sc, &s);
    assert_ok(apply(*state, &sc, &more, NULL, &e), &e);

    /* A refusal comes before anything is touched. */
    strcpy(s.name, "net1");
    s.pf_up = false;
    script_state(&sc, &s);
    assert_int_equal(apply(*state, &sc, &want, NULL, &e), -ENETDOWN);

    /* What can't be put back ends it. */
    s.pf_up = true;
    script_state(&sc, &s);
    script_link(&sc, &name);
    script_fail(&sc, -EBUSY, NULL);
    mtu.mtu = 1500;
    script_link(&sc, &mtu);
    assert_int_equal(apply(*state, &sc, &want, NULL, &e), -EBUSY);
    assert_err_has(&e, "tidying");
}

/* A claim whose VF goes into its next sandbox: each thing that is as asked stays as it is. */
static void what_is_asked_for_isnt_tidied(void **state)
{
    const struct vf_settings want = {
        .set = VF_SET_MAC | VF_SET_VLAN | VF_SET_SPOOFCHK | VF_SET_TRUST | VF_SET_MTU |
               VF_SET_RATE | VF_SET_LINK_STATE,
        .mac = mac_of(M1),
        .vlan_id = 100,
        .vlan_qos = 3,
        .trust = true,
        .mtu = 1400,
        .max_tx_mbps = 500,
        .link_state = IFLA_VF_LINK_STATE_ENABLE,
    };
    struct vf_state s = fresh_state();
    struct script sc = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    s.mac = s.admin.mac = want.mac;
    s.mtu = want.mtu;
    s.admin.vlan_id = want.vlan_id;
    s.admin.vlan_qos = want.vlan_qos;
    s.admin.spoofchk = want.spoofchk;
    s.admin.trust = want.trust;
    s.admin.max_tx_mbps = want.max_tx_mbps;
    s.admin.link_state = want.link_state;
    script_state(&sc, &s);
    assert_ok(apply(*state, &sc, &want, NULL, &e), &e);
}

/* The kernel says yes and does nothing: found by reading back, and undone. */
static void accepted_but_not_done(void **state)
{
    const struct vf_settings want = {.set = VF_SET_VLAN, .vlan_id = 100};
    const struct vf_state s = fresh_state();
    struct vf_change set = vlan_change(100), undo = vlan_change(0);
    struct script sc = {0};
    struct vf_state untouched = {.ifindex = 42};
    _cleanup_err_ struct err e = ERR_INIT;

    script_state(&sc, &s);
    script_entry(&sc, &set);
    script_state(&sc, &s);
    script_entry(&sc, &undo);
    assert_int_equal(apply(*state, &sc, &want, &untouched, &e), -EIO);
    assert_err_has(&e, "not in force: vlan: 0, want 100");
    assert_err_has(&e, "VF 3");
    assert_int_equal(untouched.ifindex, 42);
}

/* A driver that resets the VF when its entry changes: the own side comes a little later. */
static void own_side_lags(void **state)
{
    const struct vf_settings want = {.set = VF_SET_MAC, .mac = mac_of(M1)};
    struct vf_state s = fresh_state();
    struct link_change own = own_change(LINK_FIELD_MAC);
    struct vf_change zero = {.index = 3, .set = VF_FIELD_MAC}, entry = zero;
    struct script sc = {0};
    _cleanup_(vf_state_done) struct vf_state after = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    own.mac = entry.mac = want.mac;
    script_state(&sc, &s);
    script_link(&sc, &own);
    script_fail(&sc, -EPERM, NULL);
    script_entry(&sc, &zero);
    script_fail(&sc, -EINVAL, NULL);
    script_entry(&sc, &entry);
    s.admin.mac = want.mac;
    script_state(&sc, &s); /* not yet */
    s.mac = want.mac;
    script_state(&sc, &s);
    assert_ok(apply(*state, &sc, &want, &after, &e), &e);
    assert_true(mac_equal(&after.mac, &want.mac));
}

static void had_mark_is_told(void **state)
{
    const struct vf_settings want = {.set = VF_SET_MAC, .mac = mac_of(M1)};
    struct vf_state s = fresh_state();
    struct link_change own = own_change(LINK_FIELD_MAC);
    struct vf_change zero = {.index = 3, .set = VF_FIELD_MAC}, entry = zero;
    struct script sc = {0};
    struct vf_original o;
    _cleanup_(vf_state_done) struct vf_state after = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    own.mac = entry.mac = want.mac;
    script_state(&sc, &s);
    script_link(&sc, &own);
    script_fail(&sc, -EADDRNOTAVAIL, NULL);
    script_entry(&sc, &zero);
    script_link(&sc, &own);
    script_entry(&sc, &entry);
    s.mac = s.admin.mac = want.mac;
    script_state(&sc, &s);
    assert_ok(apply(*state, &sc, &want, &after, &e), &e);
    assert_true(after.had_mark);
    vf_original_from(&after, PF_ADDRESS, &o);
    assert_true(o.admin_marked);
}

static void restored_and_read_back(void **state)
{
    struct rig *rig = *state;
    struct vf_state s = fresh_state(), back = fresh_state();
    struct vf_change undo = vlan_change(0);
    struct script sc = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    /* At home already: two reads and no write. */
    script_state(&sc, &s);
    assert_ok(restore(rig, &sc, NULL, &e), &e);

    s.admin.vlan_id = 100;
    script_state(&sc, &s);
    script_entry(&sc, &undo);
    script_state(&sc, &back);
    assert_ok(restore(rig, &sc, NULL, &e), &e);

    /* What still isn't as it was is told, all of it. */
    script_state(&sc, &s);
    script_entry(&sc, &undo);
    s.mtu = 1400;
    s.promiscuity = 1;
    s.admin.mac = mac_of(M1);
    strcpy(s.name, "net1");
    script_state(&sc, &s);
    assert_int_equal(restore(rig, &sc, NULL, &e), -EIO);
    assert_err_has(&e, "restoring: VF 3");
    assert_err_has(&e, "vlan: 100, want 0");
    assert_err_has(&e, "mtu: 1400");
    assert_err_has(&e, "promiscuous");
    assert_err_has(&e, "mac: " M1 " in the PF's list, was 16:1e:07:02:a6:df");
    assert_err_has(&e, "name: net1, was enp1s0v3");
}

/* Both sides were apart before we came: that is put back, and is no failure. */
static void restored_as_found(void **state)
{
    struct rig *rig = *state;
    struct vf_state s = fresh_state();
    struct link_change own = own_change(LINK_FIELD_MAC);
    struct vf_change zero = {.index = 3, .set = VF_FIELD_MAC}, entry = zero;
    struct script sc = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    rig->o.admin_mac = entry.mac = mac_of("52:54:00:00:00:77");
    rig->o.admin_marked = true;
    s.mac = s.admin.mac = mac_of(M1);
    own.mac = rig->o.mac;
    script_state(&sc, &s);
    script_entry(&sc, &zero);
    script_link(&sc, &own);
    s.mac = s.admin.mac = rig->o.mac;
    _cleanup_(link_done) struct link followed = pf_link(&s);
    script_get(&sc, &followed);
    script_entry(&sc, &entry);
    s.admin.mac = entry.mac;
    script_state(&sc, &s);
    assert_ok(restore(rig, &sc, NULL, &e), &e);
}

/* What the PF lists is another's: it is neither written nor missed, whatever stands there. */
static void restored_on_its_own_side_only(void **state)
{
    struct rig *rig = *state;
    struct vf_state s = fresh_state();
    struct link_change mac = own_change(LINK_FIELD_MAC), mtu = own_change(LINK_FIELD_MTU);
    struct script sc = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    rig->o.own_only = true;
    mac.mac = rig->o.mac;
    mtu.mtu = rig->o.mtu;
    s.admin.vlan_id = 7;
    s.admin.spoofchk = false;
    s.mtu = 1300;
    s.mac = s.admin.mac = mac_of(M1);
    script_state(&sc, &s);
    script_link(&sc, &mtu);
    script_link(&sc, &mac);
    s.mtu = rig->o.mtu;
    s.mac = s.admin.mac = rig->o.mac;
    script_state(&sc, &s);
    assert_ok(restore(rig, &sc, NULL, &e), &e);

    /* An entry that keeps the own side from changing stays: it is for the look at the VF to tell.
     */
    s.mac = s.admin.mac = mac_of(M1);
    script_state(&sc, &s);
    script_link(&sc, &mac);
    script_fail(&sc, -EADDRNOTAVAIL, NULL);
    script_state(&sc, &s);
    assert_ok(restore(rig, &sc, NULL, &e), &e);

    /* Another refusal is one. */
    script_state(&sc, &s);
    script_link(&sc, &mac);
    script_fail(&sc, -EIO, NULL);
    assert_int_equal(restore(rig, &sc, NULL, &e), -EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_asked_is_nothing_sent, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(applied_and_read_back, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(tidied_before, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(what_is_asked_for_isnt_tidied, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(accepted_but_not_done, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(own_side_lags, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(had_mark_is_told, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(restored_and_read_back, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(restored_as_found, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(restored_on_its_own_side_only, make_rig, drop_rig),
    };

    return cmocka_run_group_tests_name("apply", tests, NULL, NULL);
}
