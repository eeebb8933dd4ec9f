/* SPDX-License-Identifier: Apache-2.0 */
#include "sriov/steps.h"

#include <errno.h>
#include <stdio.h>

/*
 * How a VF driver says that its PF keeps the MAC: igbvf and bnxt EADDRNOTAVAIL, ixgbevf EPERM,
 * iavf EACCES.
 */
static bool is_mark_refusal(int code)
{
    return code == -EADDRNOTAVAIL || code == -EPERM || code == -EACCES;
}

static int send_up(const struct vf_run *run, bool up, struct err *e)
{
    const struct link_change c = {
        .ifindex = run->s->ifindex, .set = LINK_FIELD_UP, .up = up, .netns_fd = -1};

    return link_change_send(run->hw->nl, &c, e);
}

/* Some drivers change no MAC while up (eth_mac_addr: EBUSY). */
static int send_own(const struct vf_run *run, const struct link_change *c, struct err *e)
{
    _cleanup_err_ struct err why = ERR_INIT;

    int r = link_change_send(run->hw->nl, c, &why);
    if (r == -EBUSY && run->s->up && send_up(run, false, NULL) == 0) {
        err_clear(&why);
        r = link_change_send(run->hw->nl, c, &why);
        (void)send_up(run, true, NULL);
    }
    return r < 0 ? err_move(e, &why) : 0;
}

static int send_entry_mac(const struct vf_run *run, const struct mac *mac, struct err *e)
{
    const struct vf_change c = {.index = run->s->admin.index, .set = VF_FIELD_MAC, .mac = *mac};

    return vf_change_send(run->hw->nl, run->s->pf_ifindex, &c, e);
}

/* The own side; if the PF keeps it, once more with the mark taken off. */
static int set_own_mac(struct vf_run *run, const struct link_change *c, struct err *e)
{
    _cleanup_err_ struct err why = ERR_INIT;

    int r = send_own(run, c, &why);
    if (r == 0)
        return 0;
    if (is_mark_refusal(r) && send_entry_mac(run, &(struct mac){0}, NULL) == 0) {
        run->had_mark = !run->kept_mark;
        err_clear(&why);
        r = send_own(run, c, &why);
    }
    return r < 0 ? err_move(e, &why) : 0;
}

static int read_entry(const struct vf_run *run, struct vf_info *ret, struct err *e)
{
    _cleanup_(link_done) struct link pf = {0};

    int r = link_get(run->hw->nl, run->s->pf_ifindex, NULL, true, &pf, e);
    if (r < 0)
        return r;
    const struct vf_info *vf = link_vf(&pf, run->s->admin.index);
    if (!vf)
        return err_set(e, ERR_TRANSIENT, -EAGAIN, "the PF reports no VF %u", run->s->admin.index);
    *ret = *vf;
    return 0;
}

/*
 * Sees to it that the PF's entry is `mac`: with some drivers it follows the own side, and writing
 * it would set a mark. Where it is to be zero the VF's own MAC will do: igb, told to zero it now,
 * would leave the VF deaf, and a driver that can't zero it gets the own MAC.
 */
static int settle_entry(const struct vf_run *run, const struct mac *mac, const struct mac *own,
                        bool force, struct err *e)
{
    struct vf_info is = {0};

    int r = read_entry(run, &is, e);
    if (r < 0)
        return r;
    if (mac_is_zero(mac)) {
        if (mac_is_zero(&is.mac) || mac_equal(&is.mac, own) || send_entry_mac(run, mac, NULL) == 0)
            return 0;
        return send_entry_mac(run, own, e);
    }
    return force || !mac_equal(&is.mac, mac) ? send_entry_mac(run, mac, e) : 0;
}

static int do_own_mac(struct vf_run *run, const struct vf_step *st, struct err *e)
{
    _cleanup_err_ struct err why = ERR_INIT;

    if (st->own_only) {
        int r = send_own(run, &st->own, &why);
        return r < 0 && !is_mark_refusal(r) ? err_move(e, &why) : 0;
    }
    if (st->own.set) {
        int r = set_own_mac(run, &st->own, &why);
        /* With a driver that never lets the own side go the PF's entry is all there is: the VF
         * takes it over when the driver resets it. Whoever reads back sees whether it did. */
        if (r < 0 && !is_mark_refusal(r))
            return err_move(e, &why);
    }
    if (!st->admin.set)
        return 0;
    /* A mark that was in the way of an entry that is right already was there before. */
    return settle_entry(run, &st->admin.mac, &st->own.mac, st->mark || run->had_mark, e);
}

static int undo_own_mac(struct vf_run *run, const struct vf_step *st, struct err *e)
{
    bool had_mark = run->had_mark; /* before undoing, which meets the mark that we made */

    if (st->own_undo.set) {
        int r = set_own_mac(run, &st->own_undo, e);
        if (r < 0)
            return r;
    }
    return settle_entry(run, &st->admin_undo.mac, &st->own_undo.mac, had_mark, e);
}

/* The first asked for, in the kernel's order (do_setvfinfo), that isn't so. */
static const char *first_missing(const struct vf_change *c, const struct vf_info *is)
{
    if ((c->set & VF_FIELD_MAC) && !mac_equal(&is->mac, &c->mac))
        return "MAC";
    if ((c->set & VF_FIELD_VLAN) && (is->vlan_id != c->vlan_id || is->vlan_qos != c->vlan_qos))
        return "VLAN";
    if ((c->set & VF_FIELD_RATE) && is->max_tx_mbps != c->max_tx_mbps)
        return "max tx rate";
    if ((c->set & VF_FIELD_SPOOFCHK) && is->spoofchk != c->spoofchk)
        return "spoof checking";
    if ((c->set & VF_FIELD_TRUST) && is->trust != c->trust)
        return "trust";
    if ((c->set & VF_FIELD_LINK_STATE) && is->link_state != c->link_state)
        return "link state";
    return NULL;
}

/* One request, one errno; which setting it was the kernel says only if a driver is kind. */
static int do_admin(const struct vf_run *run, const struct vf_step *st, struct err *e)
{
    struct vf_info is = {0};
    const char *what;

    int r = vf_change_send(run->hw->nl, run->s->pf_ifindex, &st->admin, e);
    if (r < 0 && read_entry(run, &is, NULL) == 0 && (what = first_missing(&st->admin, &is)))
        return err_prefix(e, r, "%s refused", what);
    return r;
}

/*
 * In two requests: a MAC that can't be zeroed must not keep the others from being put back. What
 * follows it, the undo of the own side, finds the mark by itself.
 */
static int undo_admin(const struct vf_run *run, const struct vf_step *st, struct err *e)
{
    struct vf_change rest = st->admin_undo;
    int r = 0;

    rest.set &= ~(unsigned)VF_FIELD_MAC;
    if (rest.set)
        r = vf_change_send(run->hw->nl, run->s->pf_ifindex, &rest, e);
    if (st->admin_undo.set & VF_FIELD_MAC) {
        bool zero = mac_is_zero(&st->admin_undo.mac);
        int k = send_entry_mac(run, &st->admin_undo.mac, zero || r < 0 ? NULL : e);
        if (k < 0 && !zero && r == 0)
            r = k;
    }
    return r;
}

int link_rename(struct nl_transport *nl, int ifindex, const char *name, struct err *e)
{
    struct link_change c = {.ifindex = ifindex, .set = LINK_FIELD_NAME, .netns_fd = -1};
    _cleanup_(link_done) struct link l = {0};
    _cleanup_err_ struct err why = ERR_INIT;

    snprintf(c.name, sizeof(c.name), "%s", name);
    int r = link_change_send(nl, &c, &why);
    if (r == 0)
        return 0;
    if (r == -EEXIST && link_get(nl, ifindex, NULL, false, &l, NULL) == 0) {
        vec_foreach (altname, &l.altnames) {
            if (!streq(*altname, name) || link_altname_remove(nl, ifindex, name, NULL) < 0)
                continue;
            err_clear(&why);
            r = link_change_send(nl, &c, &why);
        }
    }
    return r < 0 ? err_move(e, &why) : 0;
}

/* Tries all of it; the first error is told. */
static int do_clean(const struct vf_run *run, const struct vf_step *st, struct err *e)
{
    int first = st->own.set ? link_change_send(run->hw->nl, &st->own, e) : 0;

    vec_foreach (a, &run->s->addrs) {
        int r = addr_remove(run->hw->nl, run->s->ifindex, a, first < 0 ? NULL : e);
        if (r < 0 && first == 0)
            first = r;
    }
    return first;
}

static int do_step(struct vf_run *run, const struct vf_step *st, struct err *e)
{
    switch (st->kind) {
    case VF_STEP_CLEAR_MARK:
        /* A driver that can't may still follow the entry that is written at the end. */
        if (vf_change_send(run->hw->nl, run->s->pf_ifindex, &st->admin, NULL) < 0)
            run->kept_mark = true;
        return 0;
    case VF_STEP_OWN_MAC:
        return do_own_mac(run, st, e);
    case VF_STEP_ADMIN:
        return do_admin(run, st, e);
    case VF_STEP_NAME:
        return link_rename(run->hw->nl, st->own.ifindex, st->own.name, e);
    case VF_STEP_CLEAN:
        return do_clean(run, st, e);
    case VF_STEP_PF_UP:
    case VF_STEP_DOWN:
    case VF_STEP_UP:
    case VF_STEP_MTU:
        return link_change_send(run->hw->nl, &st->own, e);
    }
    return err_set(e, ERR_BUG, -EINVAL, "unknown step %d", (int)st->kind);
}

static int undo_step(struct vf_run *run, const struct vf_step *st, struct err *e)
{
    switch (st->kind) {
    case VF_STEP_CLEAR_MARK:
        return vf_change_send(run->hw->nl, run->s->pf_ifindex, &st->admin_undo, e);
    case VF_STEP_OWN_MAC:
        return undo_own_mac(run, st, e);
    case VF_STEP_ADMIN:
        return undo_admin(run, st, e);
    case VF_STEP_NAME:
        return link_rename(run->hw->nl, st->own_undo.ifindex, st->own_undo.name, e);
    case VF_STEP_CLEAN:
        return 0; /* what a pod left isn't put back */
    case VF_STEP_PF_UP:
    case VF_STEP_DOWN:
    case VF_STEP_UP:
    case VF_STEP_MTU:
        return link_change_send(run->hw->nl, &st->own_undo, e);
    }
    return err_set(e, ERR_BUG, -EINVAL, "unknown step %d", (int)st->kind);
}

/* Whether a step that failed may have changed something: all others are one change of one thing. */
static bool may_be_half_done(enum vf_step_kind kind)
{
    return kind == VF_STEP_ADMIN || kind == VF_STEP_OWN_MAC;
}

static int undo_from(struct vf_run *run, const struct vf_plan *p, size_t n, struct err *e)
{
    int first = 0;

    while (n-- > 0) {
        int r = undo_step(run, &p->steps.v[n], first < 0 ? NULL : e);
        if (r < 0 && first == 0)
            first = r;
    }
    return first;
}

int vf_run_undo(struct vf_run *run, const struct vf_plan *p, struct err *e)
{
    return p->keep_going ? 0 : undo_from(run, p, p->steps.n, e);
}

int vf_run_plan(struct vf_run *run, const struct vf_plan *p, struct err *e)
{
    _cleanup_err_ struct err why = ERR_INIT, undo = ERR_INIT;
    int first = 0;

    for (size_t i = 0; i < p->steps.n; i++) {
        const struct vf_step *st = &p->steps.v[i];

        int r = do_step(run, st, first < 0 ? NULL : &why);
        if (r == 0)
            continue;
        if (first == 0)
            first = r;
        if (p->keep_going)
            continue;
        if (undo_from(run, p, i + (may_be_half_done(st->kind) ? 1 : 0), &undo) < 0)
            err_prefix(&why, r, "undoing what was done before failed too (%s), after",
                       err_text(&undo));
        break;
    }
    if (first == 0)
        return 0;
    err_move(e, &why);
    return err_prefix(e, first, "VF %u (%s) of PF %s", run->s->admin.index, run->s->address,
                      run->s->pf_name);
}

int vf_plan_run(const struct hw *hw, const struct vf_state *s, const struct vf_plan *p,
                struct err *e)
{
    struct vf_run run = {.hw = hw, .s = s};

    return vf_run_plan(&run, p, e);
}
