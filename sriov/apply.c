/* SPDX-License-Identifier: Apache-2.0 */
/* Settings applied and taken back as a whole: read, plan, run, read back. */
#include "base/clock.h"
#include "sriov/steps.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <stdio.h>

/*
 * With some drivers a new entry of the PF resets the VF, which takes its MAC over only when that is
 * done (ice, i40e), so the own side gets a second to follow.
 */
#define SETTLE_TRIES 10
#define SETTLE_MS    100

static void take_state(struct vf_state *from, struct vf_state *ret)
{
    if (!ret)
        return;
    *ret = *from;
    *from = (struct vf_state){0};
}

static bool own_side_lags(const struct vf_state *s, const struct mac *want)
{
    return !s->home || !mac_equal(&s->mac, want);
}

/* Reads until the own side has the MAC that it should have, or time is up. */
static int read_back(const struct hw *hw, const struct vf_original *o, const struct mac *mac,
                     struct vf_state *ret, struct err *e)
{
    for (unsigned try = 0;; try++) {
        int r = vf_state_read(hw, o->pf_address, o->address, o->index, ret, e);
        if (r < 0)
            return err_prefix(e, r, "reading back");
        if (!mac || !own_side_lags(ret, mac) || try == SETTLE_TRIES)
            return 0;
        vf_state_done(ret);
        clock_pause_ms(SETTLE_MS);
    }
}

static int not_done(const struct vf_state *s, const char *text, struct err *e)
{
    return err_set(e, ERR_PERMANENT, -EIO, "VF %u (%s) of PF %s: accepted, but not in force: %s",
                   s->admin.index, s->address, s->pf_name, text);
}

/*
 * The way back of all that isn't asked for: what an earlier pod of the same claim did to its VF
 * (name, MTU, MAC, promiscuous mode) must not be the next one's. Right after the originals were
 * read there is nothing to do.
 */
static int plan_tidy(const struct vf_state *s, const struct vf_original *o,
                     const struct vf_settings *want, struct vf_plan *ret, struct err *e)
{
    struct vf_original to = *o;

    to.up = s->up;
    if (want->set & VF_SET_MAC) {
        to.mac = s->mac;
        to.admin_mac = s->admin.mac;
    }
    if (want->set & VF_SET_VLAN) {
        to.vlan_id = s->admin.vlan_id;
        to.vlan_qos = s->admin.vlan_qos;
        to.vlan_proto = s->admin.vlan_proto;
    }
    if (want->set & VF_SET_SPOOFCHK)
        to.spoofchk = s->admin.spoofchk;
    if (want->set & VF_SET_TRUST)
        to.trust = s->admin.trust;
    if (want->set & VF_SET_MTU)
        to.mtu = s->mtu;
    if (want->set & VF_SET_RATE) {
        to.min_tx_mbps = s->admin.min_tx_mbps;
        to.max_tx_mbps = s->admin.max_tx_mbps;
    }
    if (want->set & VF_SET_LINK_STATE)
        to.link_state = s->admin.link_state;
    return vf_plan_restore(s, &to, ret, e);
}

/* Reads the VF and plans; what is refused is refused before the VF is tidied, and then read anew.
 */
static int read_tidy_and_plan(const struct hw *hw, const struct vf_original *o,
                              const struct vf_settings *want, bool may_raise_pf,
                              struct vf_state *before, struct vf_plan *plan, struct err *e)
{
    _cleanup_(vf_plan_done) struct vf_plan tidy = {0};

    int r = vf_state_read(hw, o->pf_address, o->address, o->index, before, e);
    if (r == 0)
        r = vf_plan_apply(before, want, may_raise_pf, plan, e);
    if (r == 0)
        r = plan_tidy(before, o, want, &tidy, e);
    if (r < 0 || tidy.steps.n == 0)
        return r;
    r = vf_plan_run(hw, before, &tidy, e);
    if (r < 0)
        return err_prefix(e, r, "tidying");
    vf_state_done(before);
    vf_plan_done(plan);
    r = vf_state_read(hw, o->pf_address, o->address, o->index, before, e);
    return r < 0 ? r : vf_plan_apply(before, want, may_raise_pf, plan, e);
}

int vf_carry_out(const struct hw *hw, const struct vf_original *o, const struct vf_settings *want,
                 struct vf_state *before, const struct vf_plan *p, struct vf_state *ret_after,
                 struct err *e)
{
    _cleanup_(vf_state_done) struct vf_state after = {0};
    _cleanup_(strbuf_done) struct strbuf text = {0};
    _cleanup_err_ struct err why = ERR_INIT, undo = ERR_INIT;
    struct vf_run run = {.hw = hw, .s = before};

    int r = vf_run_plan(&run, p, e);
    if (r < 0)
        return r;
    if (p->steps.n == 0) { /* nothing was written, so what was read still is */
        take_state(before, ret_after);
        return 0;
    }
    r = read_back(hw, o, want->set & VF_SET_MAC ? &want->mac : NULL, &after, &why);
    if (r == 0 && !after.home)
        r = not_done(&after, "the interface left", &why);
    else if (r == 0 && vf_state_differs(&after, want, &text))
        r = not_done(&after, text.s, &why);
    if (r < 0) {
        if (vf_run_undo(&run, p, &undo) < 0)
            err_prefix(&why, r, "undoing it failed too (%s), after", err_text(&undo));
        return err_move(e, &why);
    }
    after.had_mark = run.had_mark;
    take_state(&after, ret_after);
    return 0;
}

int vf_apply(const struct hw *hw, const struct vf_original *o, const struct vf_settings *want,
             bool may_raise_pf, struct vf_state *ret_after, struct err *e)
{
    _cleanup_(vf_state_done) struct vf_state before = {0};
    _cleanup_(vf_plan_done) struct vf_plan plan = {0};

    int r = read_tidy_and_plan(hw, o, want, may_raise_pf, &before, &plan, e);

    return r < 0 ? r : vf_carry_out(hw, o, want, &before, &plan, ret_after, e);
}

/* Likewise for the own side alone, but for its MAC, which may have been refused. */
static void missing_of_own(const struct vf_state *s, const struct vf_original *o,
                           struct strbuf *out)
{
    const struct vf_settings was = {.set = VF_SET_MTU, .mtu = o->mtu};
    struct vf_state sides_apart = *s;

    sides_apart.admin.mac = (struct mac){0};
    (void)vf_state_differs(s, &was, out);
    (void)vf_state_unclean(&sides_apart, out);
    if (s->home && !streq(s->name, o->name))
        strbuf_printf(out, "; name: %s, was %s", s->name, o->name);
}

/* What still isn't as it was; empty if all is. */
static void missing_of(const struct vf_state *s, const struct vf_original *o, struct strbuf *out)
{
    bool ad = o->vlan_id && o->vlan_proto == ETH_P_8021AD; /* nothing that can be asked for */
    const struct vf_settings was = {
        .set = (ad ? 0 : VF_SET_VLAN) | VF_SET_MTU |
               (o->has & VF_FIELD_SPOOFCHK ? VF_SET_SPOOFCHK : 0) |
               (o->has & VF_FIELD_TRUST ? VF_SET_TRUST : 0) |
               (o->has & VF_FIELD_RATE ? VF_SET_RATE : 0) |
               (o->has & VF_FIELD_LINK_STATE ? VF_SET_LINK_STATE : 0),
        .vlan_id = o->vlan_id,
        .vlan_qos = o->vlan_qos,
        .spoofchk = o->spoofchk,
        .trust = o->trust,
        .mtu = o->mtu,
        .max_tx_mbps = o->max_tx_mbps,
        .link_state = o->link_state,
    };
    char is[MAC_TEXT_SIZE], want[MAC_TEXT_SIZE];
    struct vf_state sides_apart = *s; /* borrows all: the MACs are compared with `o` below */

    sides_apart.admin.mac = (struct mac){0};
    (void)vf_state_differs(s, &was, out);
    (void)vf_state_unclean(&sides_apart, out);
    if (ad && (s->admin.vlan_id != o->vlan_id || s->admin.vlan_proto != ETH_P_8021AD))
        strbuf_printf(out, "; vlan: %u, was %u of 802.1ad", s->admin.vlan_id, o->vlan_id);
    if (s->home && !mac_equal(&s->mac, &o->mac))
        strbuf_printf(out, "; mac: %s on the VF, was %s", mac_text(&s->mac, is),
                      mac_text(&o->mac, want));
    if (!vf_entry_is_back(&s->admin.mac, o))
        strbuf_printf(out, "; mac: %s in the PF's list, was %s", mac_text(&s->admin.mac, is),
                      mac_text(&o->admin_mac, want));
    if (s->home && !streq(s->name, o->name))
        strbuf_printf(out, "; name: %s, was %s", s->name, o->name);
}

int vf_restore(const struct hw *hw, const struct vf_original *o, struct vf_state *ret_after,
               struct err *e)
{
    _cleanup_(vf_state_done) struct vf_state before = {0}, after = {0};
    _cleanup_(vf_plan_done) struct vf_plan plan = {0};
    _cleanup_(strbuf_done) struct strbuf text = {0};

    int r = vf_state_read(hw, o->pf_address, o->address, o->index, &before, e);
    if (r == 0)
        r = vf_plan_restore(&before, o, &plan, e);
    if (r == 0)
        r = vf_plan_run(hw, &before, &plan, e);
    if (r < 0)
        return err_prefix(e, r, "restoring");
    if (plan.steps.n == 0) {
        take_state(&before, ret_after);
        return 0;
    }
    r = read_back(hw, o, o->own_only ? NULL : &o->mac, &after, e);
    if (r < 0)
        return err_prefix(e, r, "restoring");
    (o->own_only ? missing_of_own : missing_of)(&after, o, &text);
    if (text.len) {
        const char *from = str_skip(text.s, "; ");
        r = not_done(&after, from ? from : text.s, e);
        return err_prefix(e, r, "restoring");
    }
    take_state(&after, ret_after);
    return 0;
}
