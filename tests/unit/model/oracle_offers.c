/* SPDX-License-Identifier: Apache-2.0 */
/* What is published of free VFs, after each step and in the end. */
#include "tests/unit/model/oracle.h"

#define LOOK_MS 185000 /* every three minutes, and what a look takes */
#define SOON_MS 15000  /* what changed hands is looked at, and once more if that failed */

/* Nobody has it, and nobody can be given it but by what is published of it. */
static bool is_free(struct vf_id vf, const struct vf_watch *w)
{
    if (w->owner >= 0)
        return false;
    for (const struct m_claim *c = m.claims; c < m.claims + CLAIMS; c++)
        for (unsigned i = 0; c->used && c->allocated && !c->deleted && i < c->n_devs; i++)
            if (c->dev[i].vf.pf == vf.pf && c->dev[i].vf.vf == vf.vf)
                return false;
    return true;
}

/* What is being worked on isn't judged. */
static bool is_busy(struct vf_id vf)
{
    char name[DEVICE_NAME_SIZE];

    device_name(m.k->pfs[vf.pf].vfs[vf.vf].address, name);
    const struct claim *holder = m.node ? claims_holder(m.node->claims, name) : NULL;
    return holder && holder->busy;
}

void oracle_looked(uint64_t began)
{
    for (unsigned pf = 0; pf < m.k->n_pfs; pf++)
        for (unsigned vf = 0; vf < vf_count(pf); vf++)
            if (watched[pf][vf].changed_hands < began && !is_busy((struct vf_id){pf, vf}))
                watched[pf][vf].looked = began;
}

static void wrong_anew(struct vf_id vf, struct vf_watch *w)
{
    (void)vf;
    if (w->wrong_since >= 0)
        w->wrong_since = m.now;
}

/* A PF that couldn't be read has all its VFs tainted until the next look. */
void oracle_look_failed(void)
{
    each_vf(wrong_anew);
}

/* What it is like was seen since it changed hands, or there was time enough to. */
static bool is_known(const struct vf_watch *w)
{
    return w->looked > w->changed_hands || m.now - w->changed_ms > SOON_MS;
}

void oracle_published(const struct m_offer offers[FK_PFS][FK_VFS])
{
    oracle_sample();
    for (unsigned pf = 0; pf < m.k->n_pfs; pf++)
        for (unsigned vf = 0; vf < vf_count(pf); vf++) {
            const struct m_offer *f = &offers[pf][vf];
            const struct vf_id id = {pf, vf};
            const struct vf_watch *w = &watched[pf][vf];
            const struct m_group *g = group_of(m.running_groups, id);

            if (!f->there)
                continue;
            if (!g || f->mode != g->mode)
                broken("VF %u of PF %u is published with mode %s", vf, pf, mode_text(f->mode));
            if ((f->list == FROZEN_ALL && g->mode != MODE_SKIP) ||
                (f->list == FROZEN_UNPREPARE && g->mode != MODE_DEFER_CLEANUP))
                broken("VF %u of PF %u is published with another mode's list", vf, pf);
            if (f->verified && is_free(id, w) && w->last_true < w->looked && is_known(w)) {
                _cleanup_free_ char *text = fk_vf_text(m.k, pf, vf);

                broken("VF %u of PF %u is published as verified: %s", vf, pf, text);
            }
        }
}

/* ---- after each step, and at the end */

static void check_step(struct vf_id vf, struct vf_watch *w)
{
    const struct m_claim *c = w->owner < 0 ? NULL : &m.claims[w->owner];

    if (!c || !c->promised || w->came_anew)
        return;
    for (unsigned i = 0; i < c->n_held; i++)
        if (c->held[i].vf.pf == vf.pf && c->held[i].vf.vf == vf.vf && w->mode != MODE_SKIP)
            check_in_force(c, &c->held[i], w->owned_since, "while it is prepared");
}

/* What was published stands for as long as nobody looks, and no longer. */
static void check_offer(struct vf_id vf, struct vf_watch *w)
{
    const struct m_offer *f = &m.offers[vf.pf][vf.vf];
    bool counts = m.up && m.api == API_UP && is_free(vf, w) && group_of(m.running_groups, vf);

    if (!counts || f->verified == is_fit(vf)) {
        w->wrong_since = -1;
        return;
    }
    if (w->wrong_since < 0)
        w->wrong_since = m.now;
    if (m.now - w->wrong_since > LOOK_MS) {
        _cleanup_free_ char *text = fk_vf_text(m.k, vf.pf, vf.vf);

        broken("VF %u of PF %u has been offered as %sverified for %lld s: %s", vf.vf, vf.pf,
               f->verified ? "" : "not ", (long long)(m.now - w->wrong_since) / 1000, text);
    }
}

void oracle_step(void)
{
    oracle_sample();
    each_vf(check_step);
    each_vf(check_offer);
    for (unsigned i = 0; i < CLAIMS; i++) {
        struct m_claim *c = &m.claims[i];

        /* When no pod needs it any more its end may begin, whoever comes then. */
        if (c->used && c->on_disk && !needing(c))
            c->promised = 0;
        if (c->used && c->promised && !c->on_disk && !c->may_end && needing(c))
            broken("claim %s was prepared, and nothing of it is left", c->uid);
    }
}

static void check_end(struct vf_id vf, struct vf_watch *w)
{
    const struct m_offer *f = &m.offers[vf.pf][vf.vf];
    _cleanup_free_ char *text = fk_vf_text(m.k, vf.pf, vf.vf);

    if (!group_of(m.running_groups, vf))
        return;
    /* What can't be tainted is left out. */
    if (!f->there && (m.gate_taints || (w->owner < 0 && is_fit(vf))))
        broken("VF %u of PF %u isn't offered in the end", vf.vf, vf.pf);
    if (w->owner >= 0) {
        const struct m_claim *c = &m.claims[w->owner];

        if (!c->reserved && !c->cached)
            broken("VF %u of PF %u is held by claim %s, which nobody has, in the end", vf.vf, vf.pf,
                   c->uid);
        return;
    }
    if (f->verified && !is_fit(vf))
        broken("VF %u of PF %u is offered as verified in the end: %s", vf.vf, vf.pf, text);
    if (!f->verified && is_fit(vf))
        broken("VF %u of PF %u isn't offered as verified in the end: %s", vf.vf, vf.pf, text);
}

void oracle_end(void)
{
    oracle_step();
    each_vf(check_end);
}
