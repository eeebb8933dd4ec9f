/* SPDX-License-Identifier: Apache-2.0 */
/* What to do, in which order. Nothing here does it: see steps.c. */
#include "sriov/plan.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <stdio.h>

bool vf_entry_is_back(const struct mac *entry, const struct vf_original *o)
{
    return mac_equal(entry, &o->admin_mac) ||
           (mac_is_zero(&o->admin_mac) && mac_equal(entry, &o->mac));
}

void vf_original_from(const struct vf_state *s, const char *pf_address, struct vf_original *ret)
{
    *ret = (struct vf_original){
        .index = s->admin.index,
        .mac = s->mac,
        .admin_mac = s->admin.mac,
        .vlan_id = s->admin.vlan_id,
        .vlan_proto = s->admin.vlan_proto,
        .vlan_qos = s->admin.vlan_qos,
        .has = s->admin.has,
        .spoofchk = s->admin.spoofchk,
        .trust = s->admin.trust,
        .up = s->up,
        .mtu = s->mtu,
        .min_tx_mbps = s->admin.min_tx_mbps,
        .max_tx_mbps = s->admin.max_tx_mbps,
        .link_state = s->admin.link_state,
        .admin_marked = s->had_mark,
    };
    memcpy(ret->address, s->address, sizeof(ret->address));
    snprintf(ret->pf_address, sizeof(ret->pf_address), "%s", pf_address);
    memcpy(ret->name, s->name, sizeof(ret->name));
}

void vf_plan_done(struct vf_plan *p)
{
    free(p->steps.v);
    *p = (struct vf_plan){0};
}

static struct vf_step *add_step(struct vf_plan *p, enum vf_step_kind kind)
{
    struct vf_step *st = VEC_PUSH(&p->steps);

    st->kind = kind;
    return st;
}

/* A step that sets one member of an interface and has the present value as its undo. */
static struct vf_step *add_link_step(struct vf_plan *p, enum vf_step_kind kind, int ifindex,
                                     unsigned field)
{
    struct vf_step *st = add_step(p, kind);

    st->own = (struct link_change){.ifindex = ifindex, .set = field, .netns_fd = -1};
    st->own_undo = st->own;
    return st;
}

static void add_up_step(struct vf_plan *p, enum vf_step_kind kind, int ifindex, bool up)
{
    struct vf_step *st = add_link_step(p, kind, ifindex, LINK_FIELD_UP);

    st->own.up = up;
    st->own_undo.up = !up;
}

static void add_mtu_step(struct vf_plan *p, const struct vf_state *s, uint32_t mtu)
{
    struct vf_step *st = add_link_step(p, VF_STEP_MTU, s->ifindex, LINK_FIELD_MTU);

    st->own.mtu = mtu;
    st->own_undo.mtu = s->mtu;
}

static struct vf_step *add_own_mac_step(struct vf_plan *p, const struct vf_state *s,
                                        const struct mac *mac)
{
    struct vf_step *st = add_link_step(p, VF_STEP_OWN_MAC, s->ifindex, LINK_FIELD_MAC);

    st->own.mac = *mac;
    st->own_undo.mac = s->mac;
    st->admin_undo =
        (struct vf_change){.index = s->admin.index, .set = VF_FIELD_MAC, .mac = s->admin.mac};
    return st;
}

/* The PF's entry as it is, for undo. */
static struct vf_change entry_now(const struct vf_state *s)
{
    return (struct vf_change){
        .index = s->admin.index,
        .mac = s->admin.mac,
        .vlan_id = s->admin.vlan_id,
        .vlan_qos = s->admin.vlan_qos,
        .vlan_proto = s->admin.vlan_id ? s->admin.vlan_proto : 0,
        .spoofchk = s->admin.spoofchk,
        .trust = s->admin.trust,
        .min_tx_mbps = s->admin.min_tx_mbps,
        .max_tx_mbps = s->admin.max_tx_mbps,
        .link_state = s->admin.link_state,
    };
}

/* A step that sets the fields of `c` that differ from `s`, if any does. */
static struct vf_step *add_admin_step(struct vf_plan *p, const struct vf_state *s,
                                      const struct vf_change *c)
{
    const struct vf_info *is = &s->admin;
    struct vf_change change = *c, undo = entry_now(s);

    change.index = is->index;
    bool ad = is->vlan_id && is->vlan_proto == ETH_P_8021AD;
    bool want_ad = c->vlan_id && c->vlan_proto == ETH_P_8021AD;
    if ((change.set & VF_FIELD_VLAN) && is->vlan_id == c->vlan_id && is->vlan_qos == c->vlan_qos &&
        ad == want_ad)
        change.set &= ~(unsigned)VF_FIELD_VLAN;
    if ((change.set & VF_FIELD_SPOOFCHK) && is->spoofchk == c->spoofchk)
        change.set &= ~(unsigned)VF_FIELD_SPOOFCHK;
    if ((change.set & VF_FIELD_TRUST) && is->trust == c->trust)
        change.set &= ~(unsigned)VF_FIELD_TRUST;
    if ((change.set & VF_FIELD_RATE) && is->min_tx_mbps == c->min_tx_mbps &&
        is->max_tx_mbps == c->max_tx_mbps)
        change.set &= ~(unsigned)VF_FIELD_RATE;
    if ((change.set & VF_FIELD_LINK_STATE) && is->link_state == c->link_state)
        change.set &= ~(unsigned)VF_FIELD_LINK_STATE;
    if (!change.set)
        return NULL;
    undo.set = change.set;
    struct vf_step *st = add_step(p, VF_STEP_ADMIN);
    st->admin = change;
    st->admin_undo = undo;
    return st;
}

#define VF_FMT     "VF %u (%s) of PF %s"
#define VF_ARGS(s) (s)->admin.index, (s)->address, (s)->pf_name

static int not_home(const struct vf_state *s, struct err *e)
{
    return err_set(e, ERR_TRANSIENT, -EBUSY,
                   VF_FMT ": its interface isn't in the host's network namespace", VF_ARGS(s));
}

/* Refuses what can't work before anything is touched. */
static int check_wish(const struct vf_state *s, const struct vf_settings *want, bool may_raise_pf,
                      struct err *e)
{
    const struct vf_info *a = &s->admin;
    char text[MAC_TEXT_SIZE];

    if (!s->home)
        return not_home(s, e);
    /* igb takes all of it while down and forgets or delays it; the list read then says little. */
    if (want->set && !s->pf_up && !may_raise_pf)
        return err_set(e, ERR_USER, -ENETDOWN,
                       VF_FMT ": the PF is down, so settings would be void; bring it up (ip link "
                              "set %s up) or let the pool do so",
                       VF_ARGS(s), s->pf_name);
    if ((want->set & VF_SET_MAC) && !mac_is_assignable(&want->mac))
        return err_set(e, ERR_USER, -EINVAL, VF_FMT ": %s can't be an interface's MAC", VF_ARGS(s),
                       mac_text(&want->mac, text));
    if ((want->set & VF_SET_MTU) && want->mtu > s->pf_mtu)
        return err_set(e, ERR_USER, -EINVAL, VF_FMT ": MTU %u is above the PF's, %u", VF_ARGS(s),
                       want->mtu, s->pf_mtu);
    if ((want->set & VF_SET_MTU) &&
        (want->mtu < s->min_mtu || (s->max_mtu && want->mtu > s->max_mtu)))
        return err_set(e, ERR_USER, -EINVAL,
                       VF_FMT ": MTU %u is outside what the driver takes, %u to %u", VF_ARGS(s),
                       want->mtu, s->min_mtu, s->max_mtu);
    if ((want->set & VF_SET_SPOOFCHK) && !(a->has & VF_FIELD_SPOOFCHK))
        return err_set(e, ERR_USER, -EOPNOTSUPP,
                       VF_FMT ": the PF's driver has no spoof checking to set", VF_ARGS(s));
    if ((want->set & VF_SET_TRUST) && !(a->has & VF_FIELD_TRUST))
        return err_set(e, ERR_USER, -EOPNOTSUPP, VF_FMT ": the PF's driver has no trust to set",
                       VF_ARGS(s));
    if ((want->set & VF_SET_RATE) && !(a->has & VF_FIELD_RATE))
        return err_set(e, ERR_USER, -EOPNOTSUPP, VF_FMT ": the PF's driver has no rate to set",
                       VF_ARGS(s));
    if ((want->set & VF_SET_LINK_STATE) && !(a->has & VF_FIELD_LINK_STATE))
        return err_set(e, ERR_USER, -EOPNOTSUPP,
                       VF_FMT ": the PF's driver has no link state to set", VF_ARGS(s));
    if ((want->set & VF_SET_RATE) && s->pf_speed_mbps && want->max_tx_mbps > s->pf_speed_mbps)
        return err_set(e, ERR_USER, -EINVAL,
                       VF_FMT ": max tx rate %u Mb/s is above the PF's speed, %u", VF_ARGS(s),
                       want->max_tx_mbps, s->pf_speed_mbps);
    return 0;
}

int vf_plan_apply(const struct vf_state *s, const struct vf_settings *want, bool may_raise_pf,
                  struct vf_plan *ret, struct err *e)
{
    struct vf_change c = {
        .mac = want->mac,
        .vlan_id = want->vlan_id,
        .vlan_qos = want->vlan_qos,
        .spoofchk = want->spoofchk,
        .trust = want->trust,
        .min_tx_mbps = s->admin.min_tx_mbps,
        .max_tx_mbps = want->max_tx_mbps,
        .link_state = want->link_state,
    };
    bool own_mac = (want->set & VF_SET_MAC) && !mac_equal(&s->mac, &want->mac);
    struct vf_plan p = {0};

    int r = check_wish(s, want, may_raise_pf, e);
    if (r < 0)
        return r;
    if (want->set && !s->pf_up)
        add_up_step(&p, VF_STEP_PF_UP, s->pf_ifindex, true);
    if (own_mac)
        add_own_mac_step(&p, s, &want->mac);
    /* The entry is written after the own side even where it is right: the mark may come off. */
    if (own_mac || ((want->set & VF_SET_MAC) && !mac_equal(&s->admin.mac, &want->mac)))
        c.set |= VF_FIELD_MAC;
    if (want->set & VF_SET_VLAN)
        c.set |= VF_FIELD_VLAN;
    if (want->set & VF_SET_SPOOFCHK)
        c.set |= VF_FIELD_SPOOFCHK;
    if (want->set & VF_SET_TRUST)
        c.set |= VF_FIELD_TRUST;
    if (want->set & VF_SET_RATE)
        c.set |= VF_FIELD_RATE;
    if (want->set & VF_SET_LINK_STATE)
        c.set |= VF_FIELD_LINK_STATE;
    struct vf_step *admin = add_admin_step(&p, s, &c);
    /* Undone in reverse, the own side comes after this one: so the mark has to go first. */
    if (admin && own_mac)
        admin->admin_undo.mac = (struct mac){0};
    if ((want->set & VF_SET_MTU) && s->mtu != want->mtu)
        add_mtu_step(&p, s, want->mtu);
    *ret = p;
    return 0;
}

static void add_clear_step(struct vf_plan *p, const struct vf_state *s)
{
    struct vf_step *st = add_step(p, VF_STEP_CLEAR_MARK);

    st->admin = (struct vf_change){.index = s->admin.index, .set = VF_FIELD_MAC};
    st->admin_undo = st->admin;
    st->admin_undo.mac = s->admin.mac;
}

/* An entry that neither followed the own side nor is as it was: whoever wrote it has a reason. */
static void plan_restore_own_mac(const struct vf_state *s, const struct vf_original *o,
                                 struct vf_plan *p)
{
    if (mac_equal(&s->mac, &o->mac) ||
        (!mac_equal(&s->admin.mac, &s->mac) && !vf_entry_is_back(&s->admin.mac, o) &&
         !mac_is_zero(&s->admin.mac)))
        return;
    struct vf_step *st = add_own_mac_step(p, s, &o->mac);
    st->admin.set = st->admin_undo.set = 0;
    st->own_only = true;
}

static void plan_restore_mac(const struct vf_state *s, const struct vf_original *o,
                             struct vf_plan *p)
{
    bool own = !mac_equal(&s->mac, &o->mac), entry = !vf_entry_is_back(&s->admin.mac, o);
    bool follows = vf_entry_is_back(&o->mac, o) && !o->admin_marked;

    if (!own && !entry)
        return;
    if (entry && !mac_is_zero(&s->admin.mac) && (own || follows))
        add_clear_step(p, s);
    /*
     * The entry followed the own side before. To make it do so again without the mark that writing
     * sets, the own side has to change, and the kernel passes no MAC to a driver that has it.
     */
    if (!own && follows) {
        struct mac other = o->mac;
        other.b[0] |= 2; /* locally administered */
        other.b[5] ^= 1;
        add_own_mac_step(p, s, &other);
        own = true;
    }
    struct vf_step *st = add_own_mac_step(p, s, &o->mac);
    if (!own)
        st->own.set = st->own_undo.set = 0;
    st->admin =
        (struct vf_change){.index = s->admin.index, .set = VF_FIELD_MAC, .mac = o->admin_mac};
    st->mark = o->admin_marked && !mac_is_zero(&o->admin_mac);
}

int vf_plan_restore(const struct vf_state *s, const struct vf_original *o, struct vf_plan *ret,
                    struct err *e)
{
    const struct vf_change c = {
        .set = VF_FIELD_VLAN |
               (o->has & s->admin.has &
                (VF_FIELD_SPOOFCHK | VF_FIELD_TRUST | VF_FIELD_RATE | VF_FIELD_LINK_STATE)),
        .vlan_id = o->vlan_id,
        .vlan_proto = o->vlan_id ? o->vlan_proto : 0,
        .vlan_qos = o->vlan_qos,
        .spoofchk = o->spoofchk,
        .trust = o->trust,
        .min_tx_mbps = o->min_tx_mbps,
        .max_tx_mbps = o->max_tx_mbps,
        .link_state = o->link_state,
    };
    struct vf_plan p = {.keep_going = true};

    if (!s->home)
        return not_home(s, e);
    bool rename = !streq(s->name, o->name);
    /* Older kernels don't rename what is up, some drivers change no MAC then. */
    bool down = s->up && (!o->up || rename || !mac_equal(&s->mac, &o->mac));
    if (down)
        add_up_step(&p, VF_STEP_DOWN, s->ifindex, false);
    if (rename) {
        struct vf_step *st = add_link_step(&p, VF_STEP_NAME, s->ifindex, LINK_FIELD_NAME);
        memcpy(st->own.name, o->name, sizeof(st->own.name));
        memcpy(st->own_undo.name, s->name, sizeof(st->own_undo.name));
    }
    if (s->promiscuity || s->allmulti || s->addrs.n)
        add_link_step(&p, VF_STEP_CLEAN, s->ifindex,
                      s->promiscuity || s->allmulti ? LINK_FIELD_PROMISC_OFF : 0);
    if (s->mtu != o->mtu)
        add_mtu_step(&p, s, o->mtu);
    if (o->own_only) {
        plan_restore_own_mac(s, o, &p);
    } else {
        add_admin_step(&p, s, &c);
        plan_restore_mac(s, o, &p);
    }
    if (o->up && (down || !s->up))
        add_up_step(&p, VF_STEP_UP, s->ifindex, true);
    *ret = p;
    return 0;
}

static bool entry_holds(const struct vf_change *c, const struct vf_info *is)
{
    return (!(c->set & VF_FIELD_MAC) || mac_equal(&is->mac, &c->mac)) &&
           (!(c->set & VF_FIELD_VLAN) ||
            (is->vlan_id == c->vlan_id && is->vlan_qos == c->vlan_qos)) &&
           (!(c->set & VF_FIELD_SPOOFCHK) || is->spoofchk == c->spoofchk) &&
           (!(c->set & VF_FIELD_TRUST) || is->trust == c->trust) &&
           (!(c->set & VF_FIELD_RATE) ||
            (is->min_tx_mbps == c->min_tx_mbps && is->max_tx_mbps == c->max_tx_mbps)) &&
           (!(c->set & VF_FIELD_LINK_STATE) || is->link_state == c->link_state);
}

bool vf_step_holds(const struct vf_step *st, const struct vf_state *s)
{
    switch (st->kind) {
    case VF_STEP_PF_UP:
        return s->pf_up;
    case VF_STEP_CLEAR_MARK:
    case VF_STEP_ADMIN:
        return entry_holds(&st->admin, &s->admin);
    case VF_STEP_OWN_MAC:
        return s->home && (!st->own.set || mac_equal(&s->mac, &st->own.mac)) &&
               (entry_holds(&st->admin, &s->admin) ||
                (mac_is_zero(&st->admin.mac) && mac_equal(&s->admin.mac, &st->own.mac)));
    case VF_STEP_MTU:
        return s->home && s->mtu == st->own.mtu;
    case VF_STEP_NAME:
        return s->home && streq(s->name, st->own.name);
    case VF_STEP_CLEAN:
        return s->home && !s->promiscuity && !s->allmulti && !s->addrs.n;
    case VF_STEP_DOWN:
        return s->home && !s->up;
    case VF_STEP_UP:
        return s->home && s->up;
    }
    return false;
}

static void entry_text(struct strbuf *b, const struct vf_change *c)
{
    char mac[MAC_TEXT_SIZE];

    strbuf_puts(b, "PF's entry:");
    if (c->set & VF_FIELD_MAC)
        strbuf_printf(b, " mac %s", mac_text(&c->mac, mac));
    if (c->set & VF_FIELD_VLAN)
        strbuf_printf(b, " vlan %u qos %u", c->vlan_id, c->vlan_qos);
    if (c->set & VF_FIELD_RATE)
        strbuf_printf(b, " max tx rate %u", c->max_tx_mbps);
    if (c->set & VF_FIELD_SPOOFCHK)
        strbuf_printf(b, " spoof checking %s", c->spoofchk ? "on" : "off");
    if (c->set & VF_FIELD_TRUST)
        strbuf_printf(b, " trust %s", c->trust ? "on" : "off");
    if (c->set & VF_FIELD_LINK_STATE)
        strbuf_printf(b, " link state %s", vf_link_state_text(c->link_state));
}

static void step_text(struct strbuf *b, const struct vf_step *st)
{
    char mac[MAC_TEXT_SIZE];

    switch (st->kind) {
    case VF_STEP_PF_UP:
        strbuf_puts(b, "PF up");
        break;
    case VF_STEP_DOWN:
        strbuf_puts(b, "down");
        break;
    case VF_STEP_UP:
        strbuf_puts(b, "up");
        break;
    case VF_STEP_CLEAR_MARK:
        strbuf_puts(b, "administrator's mark off");
        break;
    case VF_STEP_OWN_MAC:
        if (st->own.set)
            strbuf_printf(b, "own mac %s", mac_text(&st->own.mac, mac));
        if (st->own.set && st->admin.set)
            strbuf_puts(b, ", ");
        if (st->admin.set)
            entry_text(b, &st->admin);
        break;
    case VF_STEP_ADMIN:
        entry_text(b, &st->admin);
        break;
    case VF_STEP_MTU:
        strbuf_printf(b, "mtu %u", st->own.mtu);
        break;
    case VF_STEP_NAME:
        strbuf_printf(b, "name %s", st->own.name);
        break;
    case VF_STEP_CLEAN:
        strbuf_puts(b, "addresses and promiscuous mode off");
        break;
    }
}

char *vf_plan_text(const struct vf_plan *p)
{
    struct strbuf b = {0};

    vec_foreach (st, &p->steps) {
        if (b.len)
            strbuf_puts(&b, "; ");
        step_text(&b, st);
    }
    return b.len ? strbuf_take(&b) : xstrdup("nothing to do");
}
