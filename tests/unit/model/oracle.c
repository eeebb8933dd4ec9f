/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be so, by a model of its own that shares nothing with the driver's records:
 *
 * - Who owns a VF is who has a record on disk. Two never do.
 * - A VF is touched only while somebody owns it, and moved only into a pod of its owner.
 * - When a record goes, its VFs are as they were when it came (`before`), and clean.
 * - A record doesn't go while a pod that the driver knows of has the claim, unless it was told to.
 * - Prepare answers well only if all that was asked is in force, on both sides, and on disk; and so
 *   it stays, but for what a neighbour did.
 * - A sandbox that may go on has its VFs, as asked.
 * - What is offered as verified was so at some moment since the driver looked last, and what isn't
 *   any more isn't offered so for longer than it takes to be looked at.
 */
#include "tests/unit/model/oracle.h"

#include <linux/if_ether.h>
#include <stdarg.h>
#include <stdio.h>

struct vf_watch watched[FK_PFS][FK_VFS];

static uint64_t now_tick;

uint64_t tick(void)
{
    return now_tick;
}

void say(const char *fmt, ...)
{
    va_list ap;

    if (!m.verbose)
        return;
    va_start(ap, fmt);
    printf("# %6lld ", (long long)m.now);
    vprintf(fmt, ap);
    putchar('\n');
    va_end(ap);
}

static struct m_claim *claim_by_uid(const char *uid)
{
    for (struct m_claim *c = m.claims; c < m.claims + CLAIMS; c++)
        if (c->used && streq(c->uid, uid))
            return c;
    return NULL;
}

static unsigned number_of(const struct m_claim *c)
{
    return (unsigned)(c - m.claims);
}

struct vf_watch *watch_of(struct vf_id vf)
{
    return &watched[vf.pf][vf.vf];
}

/* ---- what a VF is like */

bool entry_is(const struct vf_info *e, const struct vf_settings *want, const char **why)
{
    *why = NULL;
    if ((want->set & VF_SET_MAC) && !mac_equal(&e->mac, &want->mac))
        *why = "the MAC in the PF's list";
    if ((want->set & VF_SET_VLAN) &&
        (e->vlan_id != want->vlan_id || e->vlan_qos != want->vlan_qos ||
         (e->vlan_id && e->vlan_proto != ETH_P_8021Q)))
        *why = "the VLAN";
    if ((want->set & VF_SET_SPOOFCHK) && e->spoofchk != want->spoofchk)
        *why = "spoof checking";
    if ((want->set & VF_SET_TRUST) && e->trust != want->trust)
        *why = "trust";
    if ((want->set & VF_SET_RATE) && e->max_tx_mbps != want->max_tx_mbps)
        *why = "the rate";
    if ((want->set & VF_SET_LINK_STATE) && e->link_state != want->link_state)
        *why = "the link state";
    return !*why;
}

bool own_side_is(const struct fk_dev *d, const struct vf_settings *want, const char **why)
{
    *why = NULL;
    if ((want->set & VF_SET_MAC) && !mac_equal(&d->mac, &want->mac))
        *why = "the VF's own MAC";
    if ((want->set & VF_SET_MTU) && d->mtu != want->mtu)
        *why = "the MTU";
    return !*why;
}

static bool is_clean(const struct fk_dev *d, const struct fk_vf *v)
{
    /* One whose entry is zero can't be told from one of a card that lists none. */
    bool deaf = !mac_is_zero(&v->entry.mac) && !mac_equal(&v->entry.mac, &d->mac);

    return d->netns == 0 && !d->n_addrs && !d->promisc && !d->allmulti && !deaf;
}

/* Whether it may be offered as verified, by the pools that the running driver has. */
bool is_fit(struct vf_id vf)
{
    const struct fk_vf *v = &m.k->pfs[vf.pf].vfs[vf.vf];
    const struct fk_dev *d = fk_vf_dev(m.k, vf.pf, vf.vf);
    const struct m_group *g = group_of(m.running_groups, vf);
    const char *why;

    if (!v->there || !g || !is_clean(d, v))
        return false;
    return g->mode != MODE_SKIP ||
           (entry_is(&v->entry, &g->settings, &why) && own_side_is(d, &g->settings, &why));
}

void each_vf(void (*fn)(struct vf_id vf, struct vf_watch *w))
{
    for (unsigned pf = 0; pf < m.k->n_pfs; pf++)
        for (unsigned vf = 0; vf < vf_count(pf); vf++)
            fn((struct vf_id){pf, vf}, &watched[pf][vf]);
}

static void sample(struct vf_id vf, struct vf_watch *w)
{
    if (is_fit(vf))
        w->last_true = now_tick;
}

void oracle_sample(void)
{
    now_tick++;
    each_vf(sample);
}

void oracle_touched(struct vf_id vf, bool own_side)
{
    struct vf_watch *w = watch_of(vf);

    now_tick++;
    if (own_side)
        w->touched_own = now_tick;
    else
        w->touched_entry = now_tick;
}

void oracle_pf_changed(unsigned pf)
{
    now_tick++;
    for (unsigned vf = 0; vf < FK_VFS; vf++)
        watched[pf][vf].pf_changed = watched[pf][vf].touched_own = now_tick;
}

static bool is_named(struct vf_id vf, const char *device)
{
    char name[DEVICE_NAME_SIZE];

    device_name(m.k->pfs[vf.pf].vfs[vf.vf].address, name);
    return streq(name, device);
}

void oracle_changed_hands(const char *device)
{
    now_tick++;
    for (unsigned pf = 0; pf < m.k->n_pfs; pf++)
        for (unsigned vf = 0; vf < vf_count(pf); vf++)
            if (is_named((struct vf_id){pf, vf}, device)) {
                watched[pf][vf].changed_hands = now_tick;
                watched[pf][vf].changed_ms = m.now;
            }
}

static void made_anew(struct vf_id vf, struct vf_watch *w)
{
    (void)vf;
    w->owner = -1;
    w->came_anew = true;
    w->touched_own = w->touched_entry = now_tick;
}

void oracle_rebooted(void)
{
    now_tick++;
    each_vf(made_anew);
    for (struct m_claim *c = m.claims; c < m.claims + CLAIMS; c++) {
        c->on_disk = c->was_prepared = false;
        c->may_end = true;
        c->promised = 0;
    }
    oracle_sample();
}

void oracle_reset(void)
{
    memset(watched, 0, sizeof(watched));
    for (unsigned pf = 0; pf < FK_PFS; pf++)
        for (unsigned vf = 0; vf < FK_VFS; vf++) {
            watched[pf][vf].owner = -1;
            watched[pf][vf].wrong_since = -1;
        }
    now_tick = 1;
}

/* ---- records */

static void lay_over(struct vf_settings *s, const struct vf_settings *over)
{
    if (over->set & VF_SET_MAC)
        s->mac = over->mac;
    if (over->set & VF_SET_VLAN) {
        s->vlan_id = over->vlan_id;
        s->vlan_qos = over->vlan_qos;
    }
    if (over->set & VF_SET_SPOOFCHK)
        s->spoofchk = over->spoofchk;
    if (over->set & VF_SET_TRUST)
        s->trust = over->trust;
    if (over->set & VF_SET_MTU)
        s->mtu = over->mtu;
    if (over->set & VF_SET_RATE)
        s->max_tx_mbps = over->max_tx_mbps;
    if (over->set & VF_SET_LINK_STATE)
        s->link_state = over->link_state;
    s->set |= over->set;
}

/* Whether a preprovisioned VF has what is asked: the pool says the same. */
static bool pool_has(const struct vf_settings *pool, const struct vf_settings *asked)
{
    struct vf_settings both = *pool;

    lay_over(&both, asked);
    return !(asked->set & ~pool->set) && memcmp(&both.mac, &pool->mac, sizeof(both.mac)) == 0 &&
           both.vlan_id == pool->vlan_id && both.vlan_qos == pool->vlan_qos &&
           both.spoofchk == pool->spoofchk && both.trust == pool->trust && both.mtu == pool->mtu &&
           both.max_tx_mbps == pool->max_tx_mbps && both.link_state == pool->link_state;
}

/* A neighbour was at the VF after the job that is under way may have looked at it. */
static bool is_raced(const struct vf_watch *w)
{
    return w->touched_entry >= threads_job_began() || w->touched_own >= threads_job_began();
}

/* The moment at which a claim takes a VF. */
static void taken(struct m_claim *c, const struct m_device *d)
{
    struct vf_watch *w = watch_of(d->vf);
    const struct m_group *g = group_of(m.running_groups, d->vf);
    const struct fk_vf *v = &m.k->pfs[d->vf.pf].vfs[d->vf.vf];

    if (w->owner >= 0 && w->owner != (int)number_of(c))
        broken("claim %s takes VF %u of PF %u, which claim %s has", c->uid, d->vf.vf, d->vf.pf,
               m.claims[w->owner].uid);
    w->owner = (int)number_of(c);
    w->before = *fk_vf_dev(m.k, d->vf.pf, d->vf.vf);
    w->before_entry = *v;
    w->heard_before = fk_hears(m.k, d->vf.pf, d->vf.vf);
    w->came_anew = false;
    w->raced = is_raced(w);
    w->owned_since = now_tick;
    w->due = g->settings;
    w->mode = g->mode;
    w->attach = g->attach;
    w->by_driver = g->by_driver;
    if (g->mode != MODE_SKIP) {
        lay_over(&w->due, &d->wish.class);
        lay_over(&w->due, &d->wish.claim);
        return;
    }
    if (!pool_has(&g->settings, &d->wish.class) || !pool_has(&g->settings, &d->wish.claim))
        broken("claim %s takes a preprovisioned VF that hasn't what it asks for", c->uid);
    if (!is_fit(d->vf) && !w->raced) {
        _cleanup_free_ char *text = fk_vf_text(m.k, d->vf.pf, d->vf.vf);

        broken("claim %s takes a preprovisioned VF that isn't as promised: %s", c->uid, text);
    }
}

/*
 * A mark is found by being refused: not one that came later, not that of a trusted VF, and nothing
 * of the kind while the PF is down, or until the VF has been reset since. One that was found and
 * taken off is journalled after that: it may be lost where the claim doesn't come to be prepared.
 * Nor does igbvf say so where it is asked for the MAC that it had at its last reset.
 */
static bool can_see_marks(const struct m_claim *c, struct vf_id vf, const struct vf_watch *w)
{
    return c->was_prepared && w->touched_entry < w->owned_since && w->pf_changed < w->owned_since &&
           fk_pf_dev(m.k, vf.pf)->up && w->before_entry.ready && !w->before_entry.entry.trust &&
           !mac_equal(&w->before_entry.told, &w->due.mac);
}

static void check_back(const struct m_claim *c, struct vf_id vf, const struct vf_watch *w)
{
    const struct fk_vf *v = &m.k->pfs[vf.pf].vfs[vf.vf], *was = &w->before_entry;
    const struct fk_dev *d = fk_vf_dev(m.k, vf.pf, vf.vf), *b = &w->before;
    bool entry_back = mac_equal(&v->entry.mac, &was->entry.mac) ||
                      (mac_is_zero(&was->entry.mac) && mac_equal(&v->entry.mac, &d->mac));
    /*
     * What a PF lists of a VF that others set up is theirs, and follows the VF's own MAC only where
     * the PF wasn't down.
     */
    bool others = w->mode == MODE_SKIP;
    bool touched = w->touched_entry >= w->owned_since || w->pf_changed >= w->owned_since ||
                   !w->before_entry.ready;
    const char *why = NULL;

    if (d->netns != 0)
        why = "not home";
    else if ((d->n_addrs || d->promisc || d->allmulti) &&
             (c->was_prepared || !(b->n_addrs || b->promisc || b->allmulti)))
        why = "not clean";
    else if (!streq(d->name, b->name))
        why = "its name";
    else if ((!others || !touched) && (!mac_equal(&d->mac, &b->mac) || !entry_back))
        why = "its MAC";
    else if (v->marked != was->marked && can_see_marks(c, vf, w))
        why = "the administrator's mark";
    else if (d->mtu != b->mtu)
        why = "its MTU";
    else if (d->up != b->up)
        why = "up or down";
    else if (others)
        why = NULL;
    else if (v->entry.vlan_id != was->entry.vlan_id || v->entry.vlan_qos != was->entry.vlan_qos)
        why = "its VLAN";
    else if (v->entry.spoofchk != was->entry.spoofchk || v->entry.trust != was->entry.trust)
        why = "spoof checking or trust";
    else if (v->entry.max_tx_mbps != was->entry.max_tx_mbps ||
             v->entry.link_state != was->entry.link_state)
        why = "its rate or link state";
    else if (w->heard_before && !fk_hears(m.k, vf.pf, vf.vf) && fk_pf_dev(m.k, vf.pf)->up)
        why = "deaf";
    if (!why)
        return;
    _cleanup_free_ char *now = fk_vf_text(m.k, vf.pf, vf.vf);
    broken("claim %s is forgotten, and VF %u of PF %u isn't as it was (%s): %s", c->uid, vf.vf,
           vf.pf, why, now);
}

/* Whether its record is of the devices that it has now. */
bool is_current(const struct m_claim *c)
{
    if (!c->allocated || c->deleted || c->n_held != c->n_devs)
        return false;
    for (unsigned i = 0; i < c->n_held; i++) {
        bool found = false;

        for (unsigned n = 0; n < c->n_devs; n++)
            found |= c->held[i].vf.pf == c->dev[n].vf.pf && c->held[i].vf.vf == c->dev[n].vf.vf;
        if (!found)
            return false;
    }
    return true;
}

/* Whether a pod that the driver knows of has the claim as its record is. */
const struct m_pod *needing(const struct m_claim *c)
{
    if (!is_current(c))
        return NULL;
    for (unsigned i = 0; i < PODS; i++) {
        const struct m_pod *p = &m.pods[i];

        if (p->used && p->known && !p->finished && !p->deleted && (c->reserved & 1u << i))
            return p;
    }
    return NULL;
}

/* Its VFs are given up, or about to be. */
static void ends(struct m_claim *c)
{
    const struct m_pod *p = needing(c);

    /* A call may also end what an earlier one left, and then begin anew. */
    if (c->promised && p && !c->may_end && !claim_has_call(number_of(c)))
        broken("claim %s is ended under the living pod %s", c->uid, p->uid);
    c->promised = 0;
}

static void given_back(struct m_claim *c)
{
    ends(c);
    c->on_disk = false;
    for (unsigned pf = 0; pf < m.k->n_pfs; pf++)
        for (unsigned vf = 0; vf < FK_VFS; vf++) {
            struct vf_watch *w = &watched[pf][vf];
            if (w->owner != (int)number_of(c))
                continue;
            w->owner = -1;
            if (!w->came_anew && !w->raced && !is_raced(w))
                check_back(c, (struct vf_id){pf, vf}, w);
        }
    c->was_prepared = false;
}

/* A driver that was told that removing the record failed goes on with the claim. */
static void held_again(const struct m_claim *c)
{
    for (unsigned i = 0; i < c->n_held; i++) {
        struct vf_watch *w = watch_of(c->held[i].vf);

        if (w->owner >= 0)
            broken("claim %s goes on with VF %u of PF %u, which claim %s has", c->uid,
                   c->held[i].vf.vf, c->held[i].vf.pf, m.claims[w->owner].uid);
        w->owner = (int)number_of(c);
    }
}

static unsigned pods_in(const char *record)
{
    unsigned bits = 0;

    for (unsigned i = 0; i < PODS; i++) {
        _cleanup_free_ char *uid = xasprintf("\"%s\"", m.pods[i].uid);

        if (m.pods[i].used && strstr(record, uid))
            bits |= 1u << i;
    }
    return bits;
}

void oracle_record(const char *uid, const char *text)
{
    struct m_claim *c = claim_by_uid(uid);

    oracle_sample();
    if (!text) {
        if (c && c->on_disk) {
            say("  the record of %s is removed", uid);
            given_back(c);
        }
        return;
    }
    if (!c)
        broken("a record of claim %s, of which nobody knows", uid);
    bool ending = strstr(text, "\"state\": \"Releasing\"");
    if (!c->on_disk && ending && c->n_held) {
        held_again(c);
    } else if (!c->on_disk) {
        memcpy(c->held, c->dev, sizeof(c->held));
        c->n_held = c->n_devs;
        c->held_for = pods_in(text);
        for (unsigned i = 0; i < c->n_held; i++)
            taken(c, &c->held[i]);
    }
    c->on_disk = true;
    if (ending)
        ends(c);
    c->was_prepared |= strstr(text, "\"state\": \"Prepared\"") != NULL;
}

void oracle_request(const struct fk_request *q)
{
    if (!q->writes || q->vf < 0)
        return;
    const struct vf_id vf = {(unsigned)q->pf, (unsigned)q->vf};
    const struct vf_watch *w = watch_of(vf);

    const struct m_group *g = group_of(m.running_groups, vf);
    bool to_list = q->dev && q->dev->kind == FK_PF;

    if (w->owner < 0 && !(g && g->mode == MODE_SKIP && g->by_driver))
        broken("the driver touches VF %u of PF %u, which no claim has", vf.vf, vf.pf);
    if (w->owner >= 0 && w->mode == MODE_SKIP && !w->by_driver && to_list)
        broken("the driver writes what PF %u lists of VF %u, which others set up", vf.pf, vf.vf);
    if (to_list && w->mode == MODE_SKIP && fk_vf_dev(m.k, vf.pf, vf.vf)->netns != 0)
        broken("the driver writes what PF %u lists of VF %u, which is in use", vf.pf, vf.vf);
    if (q->into <= 0)
        return;
    for (unsigned i = 0; i < SANDBOXES; i++) {
        const struct m_sandbox *sb = &m.sandboxes[i];

        if (!sb->used || sb->netns != q->into)
            continue;
        const struct m_pod *p = &m.pods[sb->pod];
        for (unsigned n = 0; n < p->n_claims; n++)
            if ((int)p->claims[n] == w->owner)
                return;
        broken("VF %u of PF %u, of claim %s, is moved into pod %s, which hasn't that claim", vf.vf,
               vf.pf, m.claims[w->owner].uid, p->uid);
    }
}
