/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "sriov/steps.h"
#include "tests/unit/sriov/script.h"

#include <errno.h>
#include <linux/rtnetlink.h>

#define M1 "52:54:00:ab:cd:01"

static struct vf_change entry_mac(const char *mac)
{
    return (struct vf_change){.index = 3, .set = VF_FIELD_MAC, .mac = mac_of(mac)};
}

static struct link_change own_mac(struct mac mac)
{
    struct link_change c = own_change(LINK_FIELD_MAC);

    c.mac = mac;
    return c;
}

static struct link_change up_change(int ifindex, bool up)
{
    return (struct link_change){.ifindex = ifindex, .set = LINK_FIELD_UP, .up = up, .netns_fd = -1};
}

static struct link_change mtu_change(uint32_t mtu)
{
    struct link_change c = own_change(LINK_FIELD_MTU);

    c.mtu = mtu;
    return c;
}

/* The PF is asked for its entry, and says `mac` and `vlan`. */
static void entry_read(struct script *sc, struct mac mac, uint16_t vlan)
{
    struct vf_state s = fresh_state();

    s.admin.mac = mac;
    s.admin.vlan_id = vlan;
    _cleanup_(link_done) struct link pf = pf_link(&s);
    script_get(sc, &pf);
}

/* Everything asked of a VF whose PF is down: a step of each kind that apply makes. */
static const struct vf_settings whole = {
    .set = VF_SET_MAC | VF_SET_VLAN | VF_SET_TRUST | VF_SET_MTU | VF_SET_RATE,
    .mac = {{0x52, 0x54, 0x00, 0xab, 0xcd, 0x01}},
    .vlan_id = 100,
    .vlan_qos = 3,
    .trust = true,
    .mtu = 1400,
    .max_tx_mbps = 500,
};

static struct vf_change whole_entry(void)
{
    return (struct vf_change){.index = 3,
                              .set = VF_FIELD_MAC | VF_FIELD_VLAN | VF_FIELD_TRUST | VF_FIELD_RATE,
                              .mac = whole.mac,
                              .vlan_id = 100,
                              .vlan_qos = 3,
                              .trust = true,
                              .max_tx_mbps = 500};
}

static void undo_entry(struct script *sc)
{
    struct vf_change rest = {.index = 3, .set = VF_FIELD_VLAN | VF_FIELD_TRUST | VF_FIELD_RATE};
    struct vf_change zero = entry_mac("00:00:00:00:00:00");

    script_entry(sc, &rest);
    script_entry(sc, &zero);
}

static void undo_own(struct script *sc)
{
    struct link_change c = own_mac(fresh_state().mac);

    script_link(sc, &c);
    entry_read(sc, fresh_state().mac, 0); /* the entry followed */
}

static void undo_pf_up(struct script *sc)
{
    struct link_change c = up_change(PF_IFINDEX, false);

    script_link(sc, &c);
}

static int run(struct script *sc, const struct vf_state *s, const struct vf_plan *p, bool *had_mark,
               struct err *e)
{
    struct hw hw = {.nl = script_start(sc)};
    struct vf_run run = {.hw = &hw, .s = s};
    int r = vf_run_plan(&run, p, e);

    nl_free(hw.nl);
    script_done(sc);
    if (had_mark)
        *had_mark = run.had_mark;
    return r;
}

/* The k-th request of four is refused: what was done is undone in reverse, no more and no less. */
static void failure_at_each_step(void **state)
{
    static const char *const named[] = {"up", ("MAC " M1), "VLAN refused", "MTU 1400"};
    struct vf_state s = fresh_state();
    _cleanup_(vf_plan_done) struct vf_plan p = {0};
    _cleanup_err_ struct err plan_err = ERR_INIT;

    (void)state;
    s.pf_up = false;
    assert_ok(vf_plan_apply(&s, &whole, true, &p, &plan_err), &plan_err);
    assert_int_equal(p.steps.n, 4);
    for (size_t fail = 0; fail <= 4; fail++) {
        const struct link_change links[] = {
            up_change(PF_IFINDEX, true), own_mac(whole.mac), {0}, mtu_change(1400)};
        struct vf_change entry = whole_entry();
        struct script sc = {0};
        _cleanup_err_ struct err e = ERR_INIT;

        for (size_t i = 0; i <= fail && i < 4; i++) {
            if (i == 2)
                script_entry(&sc, &entry);
            else
                script_link(&sc, &links[i]);
        }
        if (fail < 4)
            script_fail(&sc, -EOPNOTSUPP, "the card has had enough");
        if (fail == 2) /* which of them was it: the MAC took, the VLAN didn't */
            entry_read(&sc, whole.mac, 0);
        if (fail == 2 || fail == 3)
            undo_entry(&sc); /* also where it failed: it may be half done */
        if (fail >= 1 && fail < 4)
            undo_own(&sc);
        if (fail >= 1 && fail < 4)
            undo_pf_up(&sc);
        int r = run(&sc, &s, &p, NULL, &e);
        assert_int_equal(r, fail < 4 ? -EOPNOTSUPP : 0);
        if (fail == 4)
            continue;
        assert_err_has(&e, "VF 3 (" VF_ADDRESS ") of PF enp1s0");
        assert_err_has(&e, named[fail]);
        assert_err_has(&e, "the card has had enough");
        assert_null(strstr(err_text(&e), "undoing"));
    }
}

static void failing_undo_is_told(void **state)
{
    const struct vf_settings want = {.set = VF_SET_VLAN | VF_SET_MTU, .vlan_id = 100, .mtu = 1400};
    const struct vf_state s = fresh_state();
    struct vf_change vlan = {.index = 3, .set = VF_FIELD_VLAN, .vlan_id = 100},
                     undo = {.index = 3, .set = VF_FIELD_VLAN};
    struct link_change mtu = mtu_change(1400);
    _cleanup_(vf_plan_done) struct vf_plan p = {0};
    struct script sc = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    assert_ok(vf_plan_apply(&s, &want, false, &p, &e), &e);
    script_entry(&sc, &vlan);
    script_link(&sc, &mtu);
    script_fail(&sc, -EINVAL, "mtu greater than device maximum");
    script_entry(&sc, &undo);
    script_fail(&sc, -EBUSY, "in reset");
    assert_int_equal(run(&sc, &s, &p, NULL, &e), -EINVAL);
    assert_err_has(&e, "undoing what was done before failed too");
    assert_err_has(&e, "in reset");
    assert_err_has(&e, "mtu greater than device maximum");
}

/* How drivers say that the PF keeps the MAC, and what helps. */
static void mark_is_taken_off(void **state)
{
    static const int refusals[] = {-EADDRNOTAVAIL, -EPERM, -EACCES};
    const struct vf_settings want = {.set = VF_SET_MAC, .mac = mac_of(M1)};
    const struct vf_state s = fresh_state();
    struct link_change own = own_mac(want.mac);
    struct vf_change zero = entry_mac("00:00:00:00:00:00"), entry = entry_mac(M1);
    _cleanup_(vf_plan_done) struct vf_plan p = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    bool had_mark;

    (void)state;
    assert_ok(vf_plan_apply(&s, &want, false, &p, &e), &e);
    for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
        struct script sc = {0};

        script_link(&sc, &own);
        script_fail(&sc, refusals[i], NULL);
        script_entry(&sc, &zero);
        script_link(&sc, &own);
        script_entry(&sc, &entry);
        assert_ok(run(&sc, &s, &p, &had_mark, &e), &e);
        assert_true(had_mark);
    }
    /* Not refused: no mark, and none taken off. */
    struct script sc = {0};
    script_link(&sc, &own);
    script_entry(&sc, &entry);
    assert_ok(run(&sc, &s, &p, &had_mark, &e), &e);
    assert_false(had_mark);
    /* A driver that can't zero: the entry is all there is, and the VF may take it over. */
    script_link(&sc, &own);
    script_fail(&sc, -EPERM, NULL);
    script_entry(&sc, &zero);
    script_fail(&sc, -EINVAL, NULL);
    script_entry(&sc, &entry);
    assert_ok(run(&sc, &s, &p, &had_mark, &e), &e);
    assert_false(had_mark);
}

/* The mark that was met is put back where the plan fails later. */
static void undo_puts_the_mark_back(void **state)
{
    const struct vf_settings want = {
        .set = VF_SET_MAC | VF_SET_MTU, .mac = mac_of(M1), .mtu = 1400};
    const struct vf_state s = fresh_state();
    struct link_change own = own_mac(want.mac), mtu = mtu_change(1400), back = own_mac(s.mac);
    struct vf_change zero = entry_mac("00:00:00:00:00:00"), entry = entry_mac(M1), was;
    _cleanup_(vf_plan_done) struct vf_plan p = {0};
    struct script sc = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    was = zero;
    was.mac = s.admin.mac;
    assert_ok(vf_plan_apply(&s, &want, false, &p, &e), &e);
    script_link(&sc, &own);
    script_fail(&sc, -EADDRNOTAVAIL, NULL);
    script_entry(&sc, &zero);
    script_link(&sc, &own);
    script_entry(&sc, &entry);
    script_link(&sc, &mtu);
    script_fail(&sc, -EINVAL, NULL);
    script_entry(&sc, &zero);
    script_link(&sc, &back);
    entry_read(&sc, s.mac, 0);
    script_entry(&sc, &was); /* equal, but without its mark */
    assert_int_equal(run(&sc, &s, &p, NULL, &e), -EINVAL);
    assert_null(strstr(err_text(&e), "undoing"));
}

static void busy_while_up(void **state)
{
    const struct vf_settings want = {.set = VF_SET_MAC, .mac = mac_of(M1)};
    struct vf_state s = fresh_state();
    struct link_change own = own_mac(want.mac), down = up_change(VF_IFINDEX, false),
                       up = up_change(VF_IFINDEX, true);
    struct vf_change entry = entry_mac(M1);
    _cleanup_(vf_plan_done) struct vf_plan p = {0};
    struct script sc = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    s.up = true;
    assert_ok(vf_plan_apply(&s, &want, false, &p, &e), &e);
    script_link(&sc, &own);
    script_fail(&sc, -EBUSY, NULL);
    script_link(&sc, &down);
    script_link(&sc, &own);
    script_link(&sc, &up);
    script_entry(&sc, &entry);
    assert_ok(run(&sc, &s, &p, NULL, &e), &e);
}

/* A VF as a claim left it, and the whole way back, each step of it refused in turn. */
static void restore_goes_on(void **state)
{
    struct vf_state s = fresh_state();
    struct vf_original o;
    struct ipnet addr;
    _cleanup_(vf_plan_done) struct vf_plan p = {0};
    _cleanup_err_ struct err plan_err = ERR_INIT;
    const char *const named[] = {"down",    "name enp1s0v3", "promiscuous",
                                 "address", "MTU 1500",      "VLAN refused",
                                 NULL,      "MAC 16:1e:",    "the way back"};

    (void)state;
    vf_original_from(&s, PF_ADDRESS, &o);
    s.up = true;
    s.promiscuity = 1;
    s.mtu = 1400;
    s.mac = s.admin.mac = mac_of(M1);
    s.admin.vlan_id = 100;
    strcpy(s.name, "net1");
    ipnet_parse("192.0.2.1/24", true, &addr);
    *VEC_PUSH(&s.addrs) = addr;
    assert_ok(vf_plan_restore(&s, &o, &p, &plan_err), &plan_err);

    /* fail 9: none. 6 is the mark, whose refusal is no failure. */
    for (size_t fail = 0; fail <= 9; fail++) {
        struct link_change name = own_change(LINK_FIELD_NAME), mtu = mtu_change(1500),
                           clean = own_change(LINK_FIELD_PROMISC_OFF),
                           down = up_change(VF_IFINDEX, false), own = own_mac(o.mac);
        struct vf_change vlan = {.index = 3, .set = VF_FIELD_VLAN},
                         zero = entry_mac("00:00:00:00:00:00");
        struct script sc = {0};
        _cleanup_err_ struct err e = ERR_INIT;
        size_t at = 0;

#define NEXT(add)                                                                                  \
    do {                                                                                           \
        add;                                                                                       \
        if (at++ == fail)                                                                          \
            script_fail(&sc, -EIO, "the way back is blocked");                                     \
    } while (0)
        strcpy(name.name, o.name);
        NEXT(script_link(&sc, &down));
        NEXT(script_link(&sc, &name));
        NEXT(script_link(&sc, &clean));
        NEXT(script_any(&sc, RTM_DELADDR));
        NEXT(script_link(&sc, &mtu));
        NEXT(script_entry(&sc, &vlan));
        if (fail == 5)
            entry_read(&sc, s.mac, 100);
        NEXT(script_entry(&sc, &zero));
        NEXT(script_link(&sc, &own));
        if (fail != 7) {
            NEXT(entry_read(&sc, o.mac, 0)); /* followed: not written, so no mark */
        }
#undef NEXT
        int r = run(&sc, &s, &p, NULL, &e);
        assert_int_equal(r, fail == 6 || fail == 9 ? 0 : -EIO);
        if (r < 0)
            assert_err_has(&e, named[fail]);
    }
    vf_state_done(&s);
}

/* What the PF's entry must be at the end, by what it is when the own side is right. */
static void entry_is_settled(void **state)
{
    const struct vf_state fresh = fresh_state();
    const struct mac zero = {0}, m1 = mac_of(M1), o1 = fresh.mac;
    const struct {
        struct mac original, found;
        bool marked;
        const struct mac *written; /* NULL: nothing */
        bool zero_refused;
    } cases[] = {
        {o1, o1, false, NULL, false},     {o1, zero, false, &o1, false},
        {o1, m1, false, &o1, false},      {o1, o1, true, &o1, false},
        {zero, zero, false, NULL, false}, {zero, o1, false, NULL, false},
        {zero, m1, false, &zero, false},  {zero, m1, false, &zero, true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct vf_state s = fresh_state();
        struct vf_original o;
        struct link_change own = own_mac(o1);
        struct vf_change clear = entry_mac("00:00:00:00:00:00"), write = clear;
        _cleanup_(vf_plan_done) struct vf_plan p = {0};
        struct script sc = {0};
        _cleanup_err_ struct err e = ERR_INIT;

        vf_original_from(&s, PF_ADDRESS, &o);
        o.admin_mac = cases[i].original;
        o.admin_marked = cases[i].marked;
        s.mac = s.admin.mac = m1;
        assert_ok(vf_plan_restore(&s, &o, &p, &e), &e);
        script_entry(&sc, &clear);
        script_link(&sc, &own);
        entry_read(&sc, cases[i].found, 0);
        if (cases[i].written) {
            write.mac = *cases[i].written;
            script_entry(&sc, &write);
        }
        if (cases[i].zero_refused) {
            script_fail(&sc, -EINVAL, NULL);
            write.mac = o1;
            script_entry(&sc, &write);
        }
        assert_ok(run(&sc, &s, &p, NULL, &e), &e);
    }
}

/* The entry is right and the own side isn't: a mark that is in the way was there before, and stays.
 */
static void mark_met_on_the_way_back(void **state)
{
    struct vf_state s = fresh_state();
    struct vf_original o;
    struct link_change own = own_mac(s.mac);
    struct vf_change zero = entry_mac("00:00:00:00:00:00"), entry = zero;
    _cleanup_(vf_plan_done) struct vf_plan p = {0};
    struct script sc = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    entry.mac = s.admin.mac;
    vf_original_from(&s, PF_ADDRESS, &o);
    s.mac = mac_of(M1);
    assert_ok(vf_plan_restore(&s, &o, &p, &e), &e);
    script_link(&sc, &own);
    script_fail(&sc, -EADDRNOTAVAIL, NULL);
    script_entry(&sc, &zero);
    script_link(&sc, &own);
    entry_read(&sc, o.mac, 0);
    script_entry(&sc, &entry);
    assert_ok(run(&sc, &s, &p, NULL, &e), &e);
}

/* The claim's own mark couldn't be taken off at first: met then, it isn't an administrator's. */
static void mark_that_stayed_says_nothing(void **state)
{
    struct vf_state s = fresh_state();
    struct vf_original o;
    struct link_change own = own_mac(s.mac);
    struct vf_change zero = entry_mac("00:00:00:00:00:00");
    _cleanup_(vf_plan_done) struct vf_plan p = {0};
    struct script sc = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    bool had_mark;

    (void)state;
    vf_original_from(&s, PF_ADDRESS, &o);
    s.mac = s.admin.mac = mac_of(M1);
    assert_ok(vf_plan_restore(&s, &o, &p, &e), &e);
    script_entry(&sc, &zero);
    script_fail(&sc, -EBUSY, "in reset");
    script_link(&sc, &own);
    script_fail(&sc, -EADDRNOTAVAIL, NULL);
    script_entry(&sc, &zero);
    script_link(&sc, &own);
    entry_read(&sc, o.mac, 0); /* it followed, and is written no more */
    assert_ok(run(&sc, &s, &p, &had_mark, &e), &e);
    assert_false(had_mark);
}

static void altname_in_the_way(void **state)
{
    struct vf_state s = fresh_state();
    struct link_change name = own_change(LINK_FIELD_NAME);
    struct script sc = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    strcpy(name.name, "enp1s0v3");
    strcpy(s.name, "net1");
    *VEC_PUSH(&s.altnames) = xstrdup("other");
    *VEC_PUSH(&s.altnames) = xstrdup("enp1s0v3");
    _cleanup_(link_done) struct link own = vf_link_of(&s);

    script_link(&sc, &name);
    script_fail(&sc, -EEXIST, NULL);
    script_get(&sc, &own);
    script_altname_removed(&sc);
    script_link(&sc, &name);
    struct nl_transport *nl = script_start(&sc);
    assert_ok(link_rename(nl, VF_IFINDEX, "enp1s0v3", &e), &e);
    nl_free(nl);
    script_done(&sc);

    /* Another interface has it. */
    free(own.altnames.v[1]);
    own.altnames.n = 1;
    script_link(&sc, &name);
    script_fail(&sc, -EEXIST, NULL);
    script_get(&sc, &own);
    nl = script_start(&sc);
    assert_int_equal(link_rename(nl, VF_IFINDEX, "enp1s0v3", &e), -EEXIST);
    nl_free(nl);
    script_done(&sc);
    vf_state_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failure_at_each_step),
        cmocka_unit_test(failing_undo_is_told),
        cmocka_unit_test(mark_is_taken_off),
        cmocka_unit_test(undo_puts_the_mark_back),
        cmocka_unit_test(busy_while_up),
        cmocka_unit_test(restore_goes_on),
        cmocka_unit_test(entry_is_settled),
        cmocka_unit_test(mark_met_on_the_way_back),
        cmocka_unit_test(mark_that_stayed_says_nothing),
        cmocka_unit_test(altname_in_the_way),
    };

    return cmocka_run_group_tests_name("steps", tests, NULL, NULL);
}
