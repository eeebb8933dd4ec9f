/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "tests/unit/sriov/script.h"

#include <errno.h>
#include <linux/if_ether.h>

#define M1 "52:54:00:ab:cd:01"
#define O1 "16:1e:07:02:a6:df"

static struct vf_settings want_mac(const char *mac)
{
    return (struct vf_settings){.set = VF_SET_MAC, .mac = mac_of(mac)};
}

/* The plan from `s` to `want` as a text; the caller frees it. */
static char *plan_text(const struct vf_state *s, const struct vf_settings *want, bool may_raise_pf)
{
    _cleanup_(vf_plan_done) struct vf_plan p = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    if (vf_plan_apply(s, want, may_raise_pf, &p, &e) < 0) {
        assert_int_equal(e.kind, ERR_USER);
        assert_int_equal(p.steps.n, 0);
        return xstrdup(err_text(&e));
    }
    return vf_plan_text(&p);
}

static void check_plan(size_t i, const struct vf_state *s, const struct vf_settings *want,
                       bool may_raise_pf, const char *text)
{
    _cleanup_free_ char *is = plan_text(s, want, may_raise_pf);

    if (!streq(is, text))
        fail_msg("case %zu:\n  %s, want\n  %s", i, is, text);
}

static void applies_what_differs(void **state)
{
    const struct vf_settings none = {0}, mac = want_mac(M1), same_mac = want_mac(O1),
                             vlan = {.set = VF_SET_VLAN, .vlan_id = 100, .vlan_qos = 3},
                             no_vlan = {.set = VF_SET_VLAN},
                             flags = {.set = VF_SET_SPOOFCHK | VF_SET_TRUST, .trust = true},
                             same_flags = {.set = VF_SET_SPOOFCHK | VF_SET_TRUST, .spoofchk = true},
                             rate = {.set = VF_SET_RATE, .max_tx_mbps = 500},
                             mtu = {.set = VF_SET_MTU, .mtu = 1400},
                             same_mtu = {.set = VF_SET_MTU, .mtu = 1500},
                             all = {.set = VF_SET_MAC | VF_SET_VLAN | VF_SET_SPOOFCHK |
                                           VF_SET_TRUST | VF_SET_MTU | VF_SET_RATE,
                                    .mac = mac.mac,
                                    .vlan_id = 100,
                                    .vlan_qos = 3,
                                    .trust = true,
                                    .mtu = 1400,
                                    .max_tx_mbps = 500};
    const struct vf_state fresh = fresh_state();
    struct vf_state done = fresh_state(), deaf = fresh_state(), zero = fresh_state(),
                    ad = fresh_state(), down = fresh_state();

    done.mac = done.admin.mac = mac.mac;
    done.admin.vlan_id = 100;
    done.admin.vlan_qos = 3;
    done.admin.spoofchk = false;
    done.admin.trust = true;
    done.admin.max_tx_mbps = 500;
    done.mtu = 1400;
    deaf.admin.mac = mac.mac; /* set on the PF's side alone */
    zero.admin.mac = (struct mac){0};
    ad.admin.vlan_id = 100;
    ad.admin.vlan_qos = 3;
    ad.admin.vlan_proto = ETH_P_8021AD;
    down.pf_up = false;

    const struct {
        const struct vf_state *s;
        const struct vf_settings *want;
        bool may_raise_pf;
        const char *text;
    } cases[] = {
        {&fresh, &none, false, "nothing to do"},
        {&fresh, &same_mac, false, "nothing to do"},
        {&fresh, &no_vlan, false, "nothing to do"},
        {&fresh, &same_flags, false, "nothing to do"},
        {&fresh, &same_mtu, true, "nothing to do"},
        {&done, &all, false, "nothing to do"},
        {&fresh, &mac, false, "own mac " M1 "; PF's entry: mac " M1},
        {&deaf, &mac, false, "own mac " M1 "; PF's entry: mac " M1},
        {&zero, &same_mac, false, "PF's entry: mac " O1},
        {&fresh, &vlan, false, "PF's entry: vlan 100 qos 3"},
        {&ad, &vlan, false, "PF's entry: vlan 100 qos 3"},
        {&done, &no_vlan, false, "PF's entry: vlan 0 qos 0"},
        {&fresh, &flags, false, "PF's entry: spoof checking off trust on"},
        {&fresh, &rate, false, "PF's entry: max tx rate 500"},
        {&fresh, &mtu, false, "mtu 1400"},
        {&fresh, &all, false,
         "own mac " M1 "; PF's entry: mac " M1
         " vlan 100 qos 3 max tx rate 500 spoof checking off trust on; mtu 1400"},
        {&done, &same_mac, false, "own mac " O1 "; PF's entry: mac " O1},
        /* Nothing asked is nothing done, even of a PF that is down. */
        {&down, &none, true, "nothing to do"},
        {&down, &vlan, true, "PF up; PF's entry: vlan 100 qos 3"},
        /* It holds already, but not with the PF down. */
        {&down, &same_mac, true, "PF up"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        check_plan(i, cases[i].s, cases[i].want, cases[i].may_raise_pf, cases[i].text);
}

/* Every set of settings by itself and with every other: only what is asked is sent. */
static void every_combination(void **state)
{
    static const struct {
        enum vf_setting asked;
        unsigned sent; /* of enum vf_field */
    } map[] = {
        {VF_SET_MAC, VF_FIELD_MAC},           {VF_SET_VLAN, VF_FIELD_VLAN},
        {VF_SET_SPOOFCHK, VF_FIELD_SPOOFCHK}, {VF_SET_TRUST, VF_FIELD_TRUST},
        {VF_SET_RATE, VF_FIELD_RATE},         {VF_SET_MTU, 0},
    };
    const struct vf_state s = fresh_state();

    (void)state;
    for (unsigned set = 0; set < 64; set++) {
        const struct vf_settings want = {.set = set,
                                         .mac = mac_of(M1),
                                         .vlan_id = 100,
                                         .trust = true,
                                         .mtu = 1400,
                                         .max_tx_mbps = 500};
        _cleanup_(vf_plan_done) struct vf_plan p = {0};
        _cleanup_err_ struct err e = ERR_INIT;
        unsigned sent = 0, entries = 0, macs = 0, mtus = 0, fields = 0;

        assert_ok(vf_plan_apply(&s, &want, false, &p, &e), &e);
        vec_foreach (st, &p.steps) {
            if (st->kind == VF_STEP_ADMIN) {
                entries++;
                sent = st->admin.set;
                assert_int_equal(st->admin_undo.set, sent);
            }
            macs += st->kind == VF_STEP_OWN_MAC;
            mtus += st->kind == VF_STEP_MTU;
        }
        for (size_t i = 0; i < ARRAY_SIZE(map); i++)
            fields |= set & map[i].asked ? map[i].sent : 0;
        assert_int_equal(sent, fields);
        assert_int_equal(entries, fields ? 1 : 0); /* one request for all */
        assert_int_equal(macs, set & VF_SET_MAC ? 1 : 0);
        assert_int_equal(mtus, set & VF_SET_MTU ? 1 : 0);
    }
}

static void refuses_before_touching(void **state)
{
    const struct vf_state fresh = fresh_state();
    struct vf_state down = fresh_state(), plain = fresh_state(), unlinked = fresh_state();

    down.pf_up = false;
    plain.admin.has = VF_FIELD_MAC | VF_FIELD_VLAN;
    unlinked.pf_speed_mbps = 0;
    const struct {
        const struct vf_state *s;
        struct vf_settings want;
        int code;
        const char *has[2];
    } cases[] = {
        {&down,
         {.set = VF_SET_VLAN, .vlan_id = 100},
         -ENETDOWN,
         {"PF is down", "ip link set enp1s0 up"}},
        {&down, {.set = VF_SET_MTU, .mtu = 1500}, -ENETDOWN, {"enp1s0"}},
        {&fresh, {.set = VF_SET_MTU, .mtu = 9000}, -EINVAL, {"9000", "1500"}},
        {&fresh, {.set = VF_SET_MTU, .mtu = 60}, -EINVAL, {"60", "68 to 9216"}},
        {&plain, {.set = VF_SET_TRUST}, -EOPNOTSUPP, {"trust"}},
        {&plain, {.set = VF_SET_SPOOFCHK}, -EOPNOTSUPP, {"spoof"}},
        {&plain, {.set = VF_SET_RATE}, -EOPNOTSUPP, {"rate"}},
        {&fresh,
         {.set = VF_SET_RATE | VF_SET_VLAN, .max_tx_mbps = 1200},
         -EINVAL,
         {"1200", "1000"}},
        {&fresh, {.set = VF_SET_MAC}, -EINVAL, {"00:00:00:00:00:00"}},
        {&fresh,
         {.set = VF_SET_MAC, .mac = {{1, 0, 0x5e, 0, 0, 1}}},
         -EINVAL,
         {"01:00:5e:00:00:01"}},
        {&fresh, {.set = VF_SET_MAC, .mac = {{255, 255, 255, 255, 255, 255}}}, -EINVAL, {"ff:ff"}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct vf_plan p = {0};
        _cleanup_err_ struct err e = ERR_INIT;
        int r = vf_plan_apply(cases[i].s, &cases[i].want, false, &p, &e);

        if (r != cases[i].code)
            fail_msg("case %zu: %d, %s", i, r, err_text(&e));
        assert_int_equal(e.kind, ERR_USER);
        assert_err_has(&e, "VF 3 (" VF_ADDRESS ") of PF enp1s0");
        for (size_t k = 0; k < 2 && cases[i].has[k]; k++)
            assert_err_has(&e, cases[i].has[k]);
        assert_int_equal(p.steps.n, 0);
    }
    /* The link is down: its speed isn't known, so the kernel decides. */
    check_plan(0, &unlinked, &(struct vf_settings){.set = VF_SET_RATE, .max_tx_mbps = 1200}, false,
               "PF's entry: max tx rate 1200");
}

static void not_home(void **state)
{
    struct vf_state s = fresh_state();
    struct vf_original o;
    struct vf_plan p = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    vf_original_from(&s, PF_ADDRESS, &o);
    s.home = false;
    assert_int_equal(vf_plan_apply(&s, &(struct vf_settings){0}, true, &p, &e), -EBUSY);
    assert_int_equal(e.kind, ERR_TRANSIENT);
    assert_int_equal(vf_plan_restore(&s, &o, &p, &e), -EBUSY);
}

static void restores_from_any_state(void **state)
{
    const struct vf_state fresh = fresh_state();
    struct vf_original o, up, marked, zero, own;
    struct vf_state used = fresh_state(), clean = fresh_state(), deaf = fresh_state(),
                    cleared = fresh_state(), follows = fresh_state(), is_up = fresh_state(),
                    renamed_up = fresh_state(), wild = fresh_state(), own_only = fresh_state(),
                    apart = fresh_state();
    struct ipnet addr;

    vf_original_from(&fresh, PF_ADDRESS, &o);
    up = marked = zero = own = o;
    own.own_only = true;
    up.up = true;
    marked.admin_marked = true;
    zero.admin_mac = (struct mac){0};
    /* As a claim left it. */
    used.mac = used.admin.mac = mac_of(M1);
    used.admin.vlan_id = 100;
    used.admin.vlan_qos = 3;
    used.admin.spoofchk = false;
    used.admin.trust = true;
    used.admin.max_tx_mbps = 500;
    used.mtu = 1400;
    deaf.admin.mac = mac_of(M1);
    own_only.mac = mac_of(M1); /* with a driver whose entry doesn't follow */
    apart.mac = mac_of(M1);    /* another tool gave the entry a third one meanwhile */
    apart.admin.mac = mac_of("52:54:00:00:00:77");
    cleared = used; /* ended between the two halves of the way back */
    cleared.admin = fresh.admin;
    cleared.admin.mac = (struct mac){0};
    cleared.mtu = 1500;
    follows.admin.mac = (struct mac){0};
    is_up.up = true;
    renamed_up.up = true;
    strcpy(renamed_up.name, "net1");
    wild.promiscuity = 1;
    ipnet_parse("192.0.2.1/24", true, &addr);
    *VEC_PUSH(&wild.addrs) = addr;

    const struct {
        const struct vf_state *s;
        const struct vf_original *o;
        const char *text;
    } cases[] = {
        {&clean, &o, "nothing to do"},
        {&used, &o,
         "mtu 1500; PF's entry: vlan 0 qos 0 max tx rate 0 spoof checking on trust off; "
         "administrator's mark off; own mac " O1 ", PF's entry: mac " O1},
        {&cleared, &o, "own mac " O1 ", PF's entry: mac " O1},
        {&own_only, &o, "own mac " O1 ", PF's entry: mac " O1},
        /* The own side is right: it has to change so that the entry follows it. */
        {&deaf, &o,
         "administrator's mark off; own mac 16:1e:07:02:a6:de; own mac " O1
         ", PF's entry: mac " O1},
        {&follows, &o, "own mac 16:1e:07:02:a6:de; own mac " O1 ", PF's entry: mac " O1},
        /* An administrator's entry is written, so that it keeps its mark. */
        {&deaf, &marked, "PF's entry: mac " O1},
        /* Zero at first, the VF's own since it was up: as good. */
        {&clean, &zero, "nothing to do"},
        {&deaf, &zero,
         "administrator's mark off; own mac 16:1e:07:02:a6:de; own mac " O1
         ", PF's entry: mac 00:00:00:00:00:00"},
        /* Of an entry that is another's nothing is written. */
        {&clean, &own, "nothing to do"},
        {&used, &own, "mtu 1500; own mac " O1},
        {&deaf, &own, "nothing to do"},
        {&own_only, &own, "own mac " O1},
        {&apart, &own, "nothing to do"},
        {&is_up, &o, "down"},
        {&is_up, &up, "nothing to do"},
        {&clean, &up, "up"},
        {&renamed_up, &o, "down; name enp1s0v3"},
        {&renamed_up, &up, "down; name enp1s0v3; up"},
        {&wild, &o, "addresses and promiscuous mode off"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(vf_plan_done) struct vf_plan p = {0};
        _cleanup_err_ struct err e = ERR_INIT;

        assert_ok(vf_plan_restore(cases[i].s, cases[i].o, &p, &e), &e);
        assert_true(p.keep_going);
        _cleanup_free_ char *is = vf_plan_text(&p);
        if (!streq(is, cases[i].text))
            fail_msg("case %zu:\n  %s, want\n  %s", i, is, cases[i].text);
    }
    vf_state_done(&wild);
}

/* What isn't reported isn't put back: the driver would refuse it. */
static void restores_only_what_is_reported(void **state)
{
    struct vf_state s = fresh_state();
    struct vf_original o;
    _cleanup_(vf_plan_done) struct vf_plan p = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    s.admin.has = VF_FIELD_MAC | VF_FIELD_VLAN;
    vf_original_from(&s, PF_ADDRESS, &o);
    o.trust = o.spoofchk = true;
    o.max_tx_mbps = 77;
    s.admin.spoofchk = false;
    assert_ok(vf_plan_restore(&s, &o, &p, &e), &e);
    assert_int_equal(p.steps.n, 0);
}

/* A service provider's tag (802.1ad) that was there before is put back as one. */
static void restores_8021ad(void **state)
{
    struct vf_state s = fresh_state();
    struct vf_original o;
    _cleanup_(vf_plan_done) struct vf_plan p = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    s.admin.vlan_id = 100;
    s.admin.vlan_proto = ETH_P_8021AD;
    vf_original_from(&s, PF_ADDRESS, &o);
    s.admin.vlan_proto = ETH_P_8021Q;
    assert_ok(vf_plan_restore(&s, &o, &p, &e), &e);
    assert_int_equal(p.steps.n, 1);
    assert_int_equal(p.steps.v[0].admin.vlan_proto, ETH_P_8021AD);
    assert_int_equal(p.steps.v[0].admin_undo.vlan_proto, ETH_P_8021Q);
}

/* After a crash: which steps of the plan are done. */
static void checks_tell_how_far(void **state)
{
    const struct vf_settings want = {.set = VF_SET_MAC | VF_SET_VLAN | VF_SET_MTU,
                                     .mac = mac_of(M1),
                                     .vlan_id = 100,
                                     .mtu = 1400};
    struct vf_state s = fresh_state();
    _cleanup_(vf_plan_done) struct vf_plan p = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    s.pf_up = false;
    assert_ok(vf_plan_apply(&s, &want, true, &p, &e), &e);
    assert_int_equal(p.steps.n, 4);
    for (size_t done = 0; done <= 4; done++) {
        for (size_t i = 0; i < 4; i++)
            assert_int_equal(vf_step_holds(&p.steps.v[i], &s), i < done);
        if (done == 0)
            s.pf_up = true;
        if (done == 1)
            s.mac = want.mac;
        if (done == 2) {
            s.admin.vlan_id = 100;
            assert_false(vf_step_holds(&p.steps.v[2], &s)); /* half done */
            s.admin.mac = want.mac;
        }
        if (done == 3)
            s.mtu = 1400;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(applies_what_differs),    cmocka_unit_test(every_combination),
        cmocka_unit_test(refuses_before_touching), cmocka_unit_test(not_home),
        cmocka_unit_test(restores_from_any_state), cmocka_unit_test(restores_only_what_is_reported),
        cmocka_unit_test(restores_8021ad),         cmocka_unit_test(checks_tell_how_far),
    };

    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
