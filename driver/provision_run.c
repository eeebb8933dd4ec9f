/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/provision_run.h"

#include "base/clock.h"
#include "sriov/survey.h"

#include <errno.h>

struct vf_ref {
    const struct pf *pf;
    const struct vf *vf;
};
typedef VEC(struct vf_ref) vf_ref_vec;

/* Of a PF whose number of VFs differs all would go. */
static bool concerns_plan(const struct provision_input *in, const struct pf *pf,
                          const struct pf_wish *wish, const struct vf *vf)
{
    return (wish->count && wish->count != pf->num_vfs) || provision_pool(in, pf, vf);
}

static void choose(const struct provision_input *in, vf_ref_vec *out)
{
    vec_foreach (pf, &in->inv->pfs) {
        struct pf_wish wish;

        provision_wish(in, pf, &wish, NULL);
        if (wish.ours && !wish.blocked)
            vec_foreach (vf, &pf->vfs)
                if (concerns_plan(in, pf, &wish, vf))
                    *VEC_PUSH(out) = (struct vf_ref){pf, vf};
    }
}

void provision_look(const struct hw *hw, const struct provision_input *in, provision_vf_vec *ret)
{
    _cleanup_(survey_done) struct survey s = {0};
    _cleanup_err_ struct err all = ERR_INIT;
    vf_ref_vec chosen = {0};
    int r = 0;

    choose(in, &chosen);
    if (chosen.n)
        r = survey_take(hw->nl, in->inv, &s, &all);
    vec_foreach (c, &chosen) {
        struct provision_vf *out = VEC_PUSH(ret);
        _cleanup_err_ struct err e = ERR_INIT;

        memcpy(out->address, c->vf->address, sizeof(out->address));
        if (r < 0)
            out->unread = xstrdup(err_text(&all));
        else if (survey_vf(&s, in->inv, c->pf, c->vf, &out->state, &e) < 0)
            out->unread = xstrdup(err_text(&e));
        else if (out->state.home)
            out->upper = netdev_upper(hw->root, out->state.name);
    }
    free(chosen.v);
}

void provision_report_done(struct provision_report *r)
{
    vec_foreach (text, &r->failures)
        free(*text);
    vec_foreach (text, &r->obstacles)
        free(*text);
    free(r->failures.v);
    free(r->obstacles.v);
    *r = (struct provision_report){0};
}

struct run {
    const struct hw *hw;
    const struct provision_input *in;
    struct provision_report *report;
};

static void note_failure(struct run *r, const struct err *e)
{
    *VEC_PUSH(&r->report->failures) = xstrdup(err_text(e));
}

/* False: nothing more can be done on this PF. */
static bool run_pf_step(struct run *r, const struct provision_pf *plan,
                        const struct provision_step *s)
{
    const char *pf = plan->pf->address;
    _cleanup_err_ struct err e = ERR_INIT;
    int k;

    switch (s->kind) {
    case PROVISION_PF_UP:
        k = pf_raise(r->hw, pf, plan->needs_link ? PROVISION_LINK_MS : 0, &e);
        if (k < 0)
            note_failure(r, &e);
        r->report->raised = k == 0;
        return k == 0;
    case PROVISION_COUNT:
        k = pf_make_vfs(r->hw->root, pf, s->to, PROVISION_VFS_MS, &e);
        if (k < 0)
            note_failure(r, &e);
        /* One that lacks its interface keeps the others from nothing. */
        bool there = k == 0 || k == -ETIMEDOUT;
        if (there && s->from != s->to)
            r->report->made = s->to;
        return there;
    case PROVISION_VF:
        return true;
    }
    return true;
}

static void run_vf_steps(struct run *r, const struct provision_pf *plan)
{
    vec_foreach (s, &plan->steps) {
        _cleanup_err_ struct err e = ERR_INIT;

        if (s->kind != PROVISION_VF)
            continue;
        int n = vf_provision(r->hw, plan->pf->address, s->address, s->index, &s->pool->settings,
                             NULL, &e);
        if (n < 0)
            note_failure(r, &e);
        else
            r->report->set += n > 0;
    }
}

/* The VFs that are there now, decided on with the state that they are in. */
static void run_new_vfs(struct run *r, const char *pf_address, bool fresh)
{
    _cleanup_(inventory_done) struct inventory inv = {0};
    _cleanup_(provision_vf_vec_done) provision_vf_vec seen = {0};
    _cleanup_(provision_plan_done) struct provision_plan again = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    struct provision_input in = *r->in;

    if (inventory_read_pf(r->hw->root, pf_address, &inv, &e) < 0) {
        note_failure(r, &e);
        return;
    }
    in.inv = &inv;
    in.seen = &seen;
    if (fresh)
        in.suspicious = NULL; /* what was just made is no former claim's */
    provision_look(r->hw, &in, &seen);
    provision_plan(&in, &again);
    vec_foreach (pf, &again.pfs) {
        run_vf_steps(r, pf);
        vec_foreach (o, &pf->obstacles)
            *VEC_PUSH(&r->report->obstacles) =
                o->step.kind == PROVISION_VF
                    ? xasprintf("VF %u (%s): %s", o->step.index, o->step.address, o->why)
                    : xstrdup(o->why);
    }
}

static void run_all(struct run *r, const struct provision_pf *plan, bool count_only)
{
    bool waited = false;

    vec_foreach (s, &plan->steps) {
        if (!run_pf_step(r, plan, s))
            return;
        waited |= s->kind == PROVISION_COUNT;
    }
    if (count_only)
        return;
    if (waited)
        run_new_vfs(r, plan->pf->address, r->report->made > 0);
    else
        run_vf_steps(r, plan);
}

void provision_run(const struct hw *hw, const struct provision_input *in,
                   const struct provision_pf *plan, bool count_only, struct provision_report *ret)
{
    struct run r = {.hw = hw, .in = in, .report = ret};
    int64_t began = clock_mono_us();

    *ret = (struct provision_report){0};
    run_all(&r, plan, count_only);
    ret->us = clock_mono_us() - began;
}
