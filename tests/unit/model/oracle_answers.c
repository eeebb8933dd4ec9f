/* SPDX-License-Identifier: Apache-2.0 */
/* What must be so when the driver answers well: to Prepare and Unprepare, and for sandboxes. */
#include "tests/unit/model/oracle.h"

#include <stdio.h>

/* In force, but for what a neighbour did since `since`. */
void check_in_force(const struct m_claim *c, const struct m_device *d, uint64_t since,
                    const char *when)
{
    const struct vf_watch *w = watch_of(d->vf);
    const struct fk_vf *v = &m.k->pfs[d->vf.pf].vfs[d->vf.vf];
    const char *why;

    if (w->came_anew || w->touched_entry >= since)
        return;
    struct vf_settings due = w->due;
    if (v->entry.trust)
        due.set &= ~(unsigned)VF_SET_MAC; /* a trusted VF may change its MAC */
    if (!entry_is(&v->entry, &due, &why)) {
        _cleanup_free_ char *text = fk_vf_text(m.k, d->vf.pf, d->vf.vf);

        broken("claim %s, %s: %s of VF %u of PF %u isn't as asked: %s", c->uid, when, why, d->vf.vf,
               d->vf.pf, text);
    }
}

void oracle_prepared(unsigned claim, uint64_t began, int64_t began_ms)
{
    struct m_claim *c = &m.claims[claim];
    const char *why;

    (void)began_ms;
    if (!c->on_disk || !c->was_prepared)
        broken("Prepare of %s answered, and its record doesn't say so", c->uid);
    _cleanup_free_ char *cdi = xasprintf("%s/cdi/%s-vf_%s.json", m.dir, DRIVER_NAME, c->uid);
    if (access(cdi, F_OK) < 0)
        broken("Prepare of %s answered, and it has no CDI file", c->uid);
    bool again = c->promised; /* it has what it got then, and a pod may have it */
    c->promised = tick();
    for (unsigned i = 0; i < c->n_held; i++) {
        const struct m_device *d = &c->held[i];
        const struct vf_watch *w = watch_of(d->vf);
        const struct fk_dev *dev = fk_vf_dev(m.k, d->vf.pf, d->vf.vf);

        if (w->owner != (int)claim)
            broken("Prepare of %s answered, and VF %u of PF %u isn't its", c->uid, d->vf.vf,
                   d->vf.pf);
        if (again || w->owned_since < began || w->came_anew)
            continue;
        check_in_force(c, d, began, "prepared");
        if (w->touched_own < began && !own_side_is(dev, &w->due, &why))
            broken("claim %s, prepared: %s of VF %u of PF %u isn't as asked", c->uid, why, d->vf.vf,
                   d->vf.pf);
        if (w->due.set && w->mode != MODE_SKIP && w->pf_changed < began &&
            !fk_pf_dev(m.k, d->vf.pf)->up)
            broken("claim %s is prepared with settings on a PF that is down", c->uid);
        if ((w->due.set & VF_SET_MAC) && w->touched_own < began && w->touched_entry < began &&
            !fk_hears(m.k, d->vf.pf, d->vf.vf))
            broken("claim %s is prepared, and VF %u of PF %u is deaf", c->uid, d->vf.vf, d->vf.pf);
    }
}

void oracle_unprepared(unsigned claim)
{
    const struct m_claim *c = &m.claims[claim];

    if (c->on_disk)
        broken("Unprepare of %s answered, and its record is there", c->uid);
}

static void check_attached(const struct m_claim *c, const struct m_device *d,
                           const struct m_sandbox *sb, bool is_run, uint64_t began)
{
    const struct vf_watch *w = watch_of(d->vf);
    const struct fk_dev *dev = fk_vf_dev(m.k, d->vf.pf, d->vf.vf);
    const char *name = d->wish.name[0] ? d->wish.name : w->before.name, *why = NULL;
    uint32_t mtu = d->wish.mtu ? d->wish.mtu : w->due.set & VF_SET_MTU ? w->due.mtu : w->before.mtu;

    if (w->attach != ATTACH_NRI || w->came_anew)
        return;
    if (dev->netns != sb->netns)
        broken("sandbox %s may go on without VF %u of PF %u of claim %s", sb->id, d->vf.vf,
               d->vf.pf, c->uid);
    if (sb->touched || !is_run || w->raced || w->touched_own >= began)
        return;
    if (!streq(dev->name, name))
        why = "its name";
    else if (!dev->up)
        why = "it is down";
    else if (dev->mtu != mtu)
        why = "its MTU";
    else if (d->wish.addr && (dev->n_addrs != 1 || dev->addrs[0].b[3] != d->wish.addr))
        why = "its address";
    else if (d->wish.addr && d->wish.route && dev->n_routes != 1)
        why = "its route";
    else if (!d->wish.addr && dev->n_addrs)
        why = "an address that nobody asked for";
    else if (dev->promisc || dev->allmulti)
        why = "promiscuous mode";
    else if (w->touched_entry >= (w->mode == MODE_SKIP ? w->owned_since : began))
        why = NULL; /* a VF that is closed takes over what its PF lists by then */
    else if (w->by_driver && w->mode == MODE_SKIP && w->pf_changed >= w->owned_since)
        why = NULL; /* what it was given while its PF was down is made to agree with the list */
    else if ((w->due.set & VF_SET_MAC) && !mac_equal(&dev->mac, &w->due.mac))
        why = "its own MAC";
    else if (!(w->due.set & VF_SET_MAC) && !mac_equal(&dev->mac, &w->before.mac) &&
             !mac_equal(&dev->mac, &w->before_entry.entry.mac)) /* taken over by a reset */
        why = "its own MAC, for which nobody asked";
    if (why) {
        _cleanup_free_ char *text = fk_vf_text(m.k, d->vf.pf, d->vf.vf);

        broken("sandbox %s may go on, and VF %u of PF %u isn't as asked (%s): %s", sb->id, d->vf.vf,
               d->vf.pf, why, text);
    }
    check_in_force(c, d, began, "attached");
}

void oracle_sandbox_ok(unsigned sandbox, bool is_run, uint64_t began, int64_t began_ms)
{
    const struct m_sandbox *sb = &m.sandboxes[sandbox];
    const struct m_pod *p = &m.pods[sb->pod];

    for (unsigned i = 0; i < p->n_claims; i++) {
        const struct m_claim *c = &m.claims[p->claims[i]];
        /* Without an API server the driver can't know of it. */
        bool knowable = m.api == API_UP && m.api_up_since < began_ms && !p->deleted &&
                        c->allocated && !c->deleted && (c->reserved & 1u << sb->pod);
        bool current = is_current(c);

        if (knowable && (!c->on_disk || !current))
            broken("sandbox %s may go on, and claim %s isn't set up", sb->id, c->uid);
        if (!c->on_disk || !current || (!knowable && !(c->held_for & 1u << sb->pod)))
            continue;
        m.claims[p->claims[i]].promised = tick();
        for (unsigned d = 0; d < c->n_held; d++)
            check_attached(c, &c->held[d], sb, is_run, began);
    }
}

/* Of a claim all its VFs are in the pod, or none: what an attempt moved comes home with it. */
void oracle_sandbox_refused(unsigned sandbox, uint64_t began)
{
    const struct m_sandbox *sb = &m.sandboxes[sandbox];
    const struct m_pod *p = &m.pods[sb->pod];

    if (m.faulted >= began)
        return;
    for (unsigned i = 0; i < p->n_claims; i++) {
        const struct m_claim *c = &m.claims[p->claims[i]];
        const struct claim *known = claims_find(m.node->claims, c->uid);
        unsigned in = 0, out = 0;

        if (!c->on_disk || !known || known->busy)
            continue;
        for (unsigned d = 0; d < c->n_held; d++) {
            const struct vf_watch *w = watch_of(c->held[d].vf);

            if (fk_vf_dev(m.k, c->held[d].vf.pf, c->held[d].vf.vf)->netns == sb->netns)
                in++;
            else if (w->attach == ATTACH_NRI)
                out++;
        }
        if (in && out)
            broken("sandbox %s is refused, and has a part of claim %s", sb->id, c->uid);
    }
}
