/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "sriov/provision.h"

#include "tests/unit/sriov/fake_numvfs.h"
#include "tests/unit/sriov/fake_sysfs.h"
#include "tests/unit/sriov/script.h"

#include <errno.h>
#include <sys/stat.h>

#define FREE_PF "0000:02:00.0" /* enp2s0 of the fixture: no VF yet, down */
#define M1      "52:54:00:ab:cd:01"

struct rig {
    char *tree;
    struct sysroot root;
};

static int make_rig(void **state)
{
    static struct rig rig;
    _cleanup_err_ struct err e = ERR_INIT;

    rig.tree = fake_sysfs_load("igb-7vf.txt");
    assert_ok(sysroot_open(rig.tree, &rig.root, &e), &e);
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

/* Makes VFs with a kernel that answers as scripted; every write of the script must come. */
static int make(struct rig *rig, const char *pf, unsigned count, const struct numvfs_write *script,
                size_t n, struct err *e)
{
    fake_numvfs_start(rig->tree, script, n);
    int r = pf_make_vfs(&rig->root, pf, count, 400, e);

    assert_int_equal(fake_numvfs_end(), n);
    return r;
}

static void made_from_nothing(void **state)
{
    struct rig *rig = *state;
    const struct numvfs_write script[] = {{.text = "4"}};
    _cleanup_err_ struct err e = ERR_INIT;

    assert_ok(make(rig, FREE_PF, 4, script, 1, &e), &e);
    assert_true(sysroot_exists(&rig->root, "sys/bus/pci/devices/0000:02:10.6/net/vf3"));
    assert_ok(make(rig, FREE_PF, 4, NULL, 0, &e), &e); /* they are there: nothing is written */
}

/* The kernel answers EBUSY to another number; what must be 0 first is. */
static void another_number(void **state)
{
    struct rig *rig = *state;
    const struct numvfs_write script[] = {{.text = "0"}, {.text = "3"}};
    _cleanup_err_ struct err e = ERR_INIT;

    assert_ok(make(rig, PF_ADDRESS, 3, script, 2, &e), &e);
    assert_true(sysroot_exists(&rig->root, "sys/bus/pci/devices/" PF_ADDRESS "/virtfn2"));
    assert_false(sysroot_exists(&rig->root, "sys/bus/pci/devices/" PF_ADDRESS "/virtfn3"));
}

static void in_the_background(void **state)
{
    struct rig *rig = *state;
    const struct numvfs_write script[] = {{.text = "2", .late_ms = 150}};
    _cleanup_err_ struct err e = ERR_INIT;

    assert_ok(make(rig, FREE_PF, 2, script, 1, &e), &e);
    assert_true(sysroot_exists(&rig->root, "sys/bus/pci/devices/0000:02:10.2/net/vf1"));
}

static void refusals(void **state)
{
    static const struct {
        const char *pf;
        struct numvfs_write script[2];
        size_t n;
        int code;
        const char *text;
    } cases[] = {
        {FREE_PF,
         {{.text = "4", .error = ENOMEM}},
         1,
         -ENOMEM,
         "making 4 VFs on PF enp2s0 (" FREE_PF "): writing \"4\" to /sys/bus/pci/devices/" FREE_PF
         "/sriov_numvfs: Cannot allocate memory; there is no room for the registers"},
        {FREE_PF, {{.text = "4", .error = ENOSPC}}, 1, -ENOSPC, "ask for fewer"},
        {FREE_PF, {{.text = "4", .error = EBUSY}}, 1, -EBUSY, "something else makes VFs there"},
        {FREE_PF, {{.text = "4", .error = EPERM}}, 1, -EPERM, "it takes root"},
        {FREE_PF, {{.text = "4", .error = EROFS}}, 1, -EROFS, "mounted read-only here"},
        {FREE_PF, {{.text = "4", .error = ENOENT}}, 1, -ENOENT, "the PF's driver can't make VFs"},
        {FREE_PF, {{.text = "4", .error = EIO}}, 1, -EIO, "sriov_numvfs: Input/output error"},
        {PF_ADDRESS,
         {{.text = "0", .error = EPERM}},
         1,
         -EPERM,
         "making 4 VFs on PF enp1s0 (" PF_ADDRESS "): the 7 VFs that there are can't be removed: "},
        {PF_ADDRESS,
         {{.text = "0"}, {.text = "4", .error = ENOMEM}},
         2,
         -ENOMEM,
         "the 7 VFs that there were are removed, and: writing \"4\""},
        {FREE_PF, {{.text = "4", .fewer = 2}}, 1, -EIO, "its driver made 2"},
        {FREE_PF,
         {{.text = "4", .late_ms = 900}},
         1,
         -ETIMEDOUT,
         "0 s after they were made VF 0 isn't there"},
        {FREE_PF,
         {{.text = "4", .no_driver = true}},
         1,
         -ETIMEDOUT,
         "VF 0 (0000:02:10.0) has no driver: is the module for VFs of this card there?"},
        {FREE_PF,
         {{.text = "4", .no_netdev = true}},
         1,
         -ETIMEDOUT,
         "VF 0 (0000:02:10.0) has no network interface here: its driver is igbvf"},
        {"0000:03:00.0", {{0}}, 0, -ENODEV, "on PF 0000:03:00.0: the PF is gone"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        void *s;

        make_rig(&s);
        assert_int_equal(make(s, cases[i].pf, 4, cases[i].script, cases[i].n, &e), cases[i].code);
        assert_err_has(&e, cases[i].text);
        drop_rig(&s);
    }
}

/* No driver is to be had, so none is waited for. */
static void without_autoprobe(void **state)
{
    struct rig *rig = *state;
    const struct numvfs_write script[] = {{.text = "4", .no_driver = true}};
    _cleanup_err_ struct err e = ERR_INIT;

    assert_ok(sysroot_write(&rig->root, "0", &e,
                            "sys/bus/pci/devices/" FREE_PF "/sriov_drivers_autoprobe"),
              &e);
    assert_ok(make(rig, FREE_PF, 4, script, 1, &e), &e);
}

static int raise_pf(struct rig *rig, struct script *sc, unsigned carrier_ms, struct err *e)
{
    struct hw hw = {.root = &rig->root, .nl = script_start(sc)};
    int r = pf_raise(&hw, PF_ADDRESS, carrier_ms, e);

    nl_free(hw.nl);
    script_done(sc);
    return r;
}

static void pf_brought_up(void **state)
{
    struct vf_state s = fresh_state();
    _cleanup_(link_done) struct link up = pf_link(&s);
    struct link dark = up, down = up; /* borrow its list */
    const struct link_change c = {
        .ifindex = PF_IFINDEX, .set = LINK_FIELD_UP, .up = true, .netns_fd = -1};
    struct script sc = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    down.flags = 0;
    down.carrier = dark.carrier = false;
    script_get(&sc, &down);
    script_link(&sc, &c);
    script_get(&sc, &up);
    assert_ok(raise_pf(*state, &sc, 0, &e), &e);

    /* Up already; its link comes a little later, or never. */
    script_get(&sc, &up);
    script_get(&sc, &dark);
    script_get(&sc, &up);
    assert_ok(raise_pf(*state, &sc, 10000, &e), &e);
    script_get(&sc, &up);
    script_get(&sc, &dark);
    assert_ok(raise_pf(*state, &sc, 0, &e), &e);

    script_get(&sc, &down);
    script_link(&sc, &c);
    script_get(&sc, &down);
    assert_int_equal(raise_pf(*state, &sc, 10000, &e), -EIO);
    assert_err_has(&e, "bringing PF enp1s0 (" PF_ADDRESS ") up: accepted, but it is down");
    script_get(&sc, &down);
    script_link(&sc, &c);
    script_fail(&sc, -ERFKILL, "no");
    assert_int_equal(raise_pf(*state, &sc, 0, &e), -ERFKILL);
}

static int provision(struct rig *rig, struct script *sc, const struct vf_settings *want,
                     vf_difference_vec *changed, struct err *e)
{
    struct hw hw = {.root = &rig->root, .nl = script_start(sc)};
    int r = vf_provision(&hw, PF_ADDRESS, VF_ADDRESS, 3, want, changed, e);

    nl_free(hw.nl);
    script_done(sc);
    return r;
}

static const struct vf_settings on_100 = {.set = VF_SET_VLAN, .vlan_id = 100};
static const struct vf_change to_100 = {.index = 3, .set = VF_FIELD_VLAN, .vlan_id = 100},
                              to_0 = {.index = 3, .set = VF_FIELD_VLAN};

static void vf_set_up(void **state)
{
    struct vf_state s = fresh_state();
    vf_difference_vec changed = {0};
    struct script sc = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    script_state(&sc, &s);
    script_entry(&sc, &to_100);
    s.admin.vlan_id = 100;
    script_state(&sc, &s);
    assert_int_equal(provision(*state, &sc, &on_100, &changed, &e), 1);
    assert_int_equal(changed.n, 1);
    assert_string_equal(changed.v[0].what, "vlan");
    assert_string_equal(changed.v[0].is, "0");
    assert_string_equal(changed.v[0].want, "100");
    free(changed.v);

    /* A second time it is read, and nothing is written. */
    script_state(&sc, &s);
    assert_int_equal(provision(*state, &sc, &on_100, NULL, &e), 0);
}

/* Every setting reads well, and no packet passes: the own side takes over what the PF has. */
static void deaf_vf_hears_again(void **state)
{
    struct vf_state s = fresh_state();
    struct link_change own = own_change(LINK_FIELD_MAC);
    struct vf_change zero = {.index = 3, .set = VF_FIELD_MAC}, entry = zero;
    vf_difference_vec changed = {0};
    struct script sc = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    s.admin.vlan_id = 100;
    s.admin.mac = own.mac = entry.mac = mac_of(M1);
    script_state(&sc, &s);
    script_link(&sc, &own);
    script_fail(&sc, -EADDRNOTAVAIL, NULL);
    script_entry(&sc, &zero);
    script_link(&sc, &own);
    script_entry(&sc, &entry);
    s.mac = s.admin.mac;
    script_state(&sc, &s);
    assert_int_equal(provision(*state, &sc, &on_100, &changed, &e), 1);
    assert_int_equal(changed.n, 1);
    assert_string_equal(changed.v[0].is, "16:1e:07:02:a6:df on the VF");
    assert_string_equal(changed.v[0].want, M1);
    free(changed.v);
}

static void promiscuous_vf_is_quiet_again(void **state)
{
    struct vf_state s = fresh_state();
    const struct link_change quiet = own_change(LINK_FIELD_PROMISC_OFF);
    struct script sc = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    s.admin.vlan_id = 100;
    s.promiscuity = s.allmulti = 1;
    script_state(&sc, &s);
    script_link(&sc, &quiet);
    s.promiscuity = s.allmulti = 0;
    script_state(&sc, &s);
    assert_int_equal(provision(*state, &sc, &on_100, NULL, &e), 1);

    /* A packet socket has it so. */
    s.promiscuity = 1;
    script_state(&sc, &s);
    script_link(&sc, &quiet);
    script_state(&sc, &s);
    assert_int_equal(provision(*state, &sc, &on_100, NULL, &e), -EIO);
    assert_err_has(&e, "VF 3 (" VF_ADDRESS ") of PF enp1s0: set, but not at rest: promiscuous");
    assert_int_equal(e.kind, ERR_TRANSIENT);
}

static void nothing_is_written_to_what_is_in_use(void **state)
{
    struct rig *rig = *state;
    struct vf_state s = fresh_state();
    struct script sc = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_free_ char *upper = xasprintf("%s/sys/class/net/enp1s0v3/upper_br0", rig->tree);

    ipnet_parse("192.0.2.7/24", true, VEC_PUSH(&s.addrs));
    script_state(&sc, &s);
    assert_int_equal(provision(rig, &sc, &on_100, NULL, &e), -EBUSY);
    assert_err_has(&e, "is in use: it has the address 192.0.2.7/24 on the host");
    assert_int_equal(e.kind, ERR_TRANSIENT);
    vf_state_done(&s);

    s = fresh_state();
    assert_int_equal(mkdir(upper, 0755), 0);
    script_state(&sc, &s);
    assert_int_equal(provision(rig, &sc, &on_100, NULL, &e), -EBUSY);
    assert_err_has(&e, "is in use: br0 is on top of it on the host");
    assert_int_equal(rmdir(upper), 0);

    /* Away: VF 4 of the fixture is in a pod. */
    s.home = false;
    s.admin.index = 4;
    script_state(&sc, &s);
    struct hw hw = {.root = &rig->root, .nl = script_start(&sc)};
    assert_int_equal(vf_provision(&hw, PF_ADDRESS, "0000:01:11.0", 4, &on_100, NULL, &e), -EAGAIN);
    nl_free(hw.nl);
    script_done(&sc);
    assert_err_has(&e, "isn't in the host's network namespace");
}

/* udev renames it between the look at sysfs and the request. */
static void interface_on_its_way(void **state)
{
    struct vf_state s = fresh_state();
    _cleanup_(link_done) struct link pf = pf_link(&s);
    struct link gone = {0};
    struct script sc = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    s.admin.vlan_id = 100;
    script_get(&sc, &pf);
    script_get(&sc, &gone);
    script_state(&sc, &s);
    assert_int_equal(provision(*state, &sc, &on_100, NULL, &e), 0);
}

static void what_fails_is_undone_and_told(void **state)
{
    struct vf_state s = fresh_state();
    struct script sc = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    script_state(&sc, &s);
    script_entry(&sc, &to_100);
    script_fail(&sc, -EINVAL, "no such VLAN");
    _cleanup_(link_done) struct link pf = pf_link(&s);
    script_get(&sc, &pf);
    script_entry(&sc, &to_0);
    assert_int_equal(provision(*state, &sc, &on_100, NULL, &e), -EINVAL);
    assert_err_has(&e, "VF 3 (" VF_ADDRESS ") of PF enp1s0: VLAN refused: setting VF 3");

    /* Taken, and not in force. */
    script_state(&sc, &s);
    script_entry(&sc, &to_100);
    script_state(&sc, &s);
    script_entry(&sc, &to_0);
    assert_int_equal(provision(*state, &sc, &on_100, NULL, &e), -EIO);
    assert_err_has(&e, "accepted, but not in force: vlan: 0, want 100");

    /* Another VF has the index by now. */
    struct hw hw = {.root = &((struct rig *)*state)->root};
    assert_int_equal(vf_provision(&hw, PF_ADDRESS, VF_ADDRESS, 2, &on_100, NULL, &e), -ENODEV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(made_from_nothing, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(another_number, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(in_the_background, make_rig, drop_rig),
        cmocka_unit_test(refusals),
        cmocka_unit_test_setup_teardown(without_autoprobe, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(pf_brought_up, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(vf_set_up, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(deaf_vf_hears_again, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(promiscuous_vf_is_quiet_again, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(nothing_is_written_to_what_is_in_use, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(interface_on_its_way, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(what_fails_is_undone_and_told, make_rig, drop_rig),
    };

    return cmocka_run_group_tests_name("provision", tests, NULL, NULL);
}
