/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/provision.h"

void provision_vf_vec_done(provision_vf_vec *v)
{
    vec_foreach (vf, v) {
        vf_state_done(&vf->state);
        free(vf->unread);
        free(vf->upper);
    }
    free(v->v);
    *v = (provision_vf_vec){0};
}

void provision_holder_vec_done(provision_holder_vec *v)
{
    vec_foreach (h, v)
        free(h->who);
    free(v->v);
    *v = (provision_holder_vec){0};
}

void pool_problem_vec_done(pool_problem_vec *v)
{
    vec_foreach (p, v) {
        free(p->name);
        free(p->text);
    }
    free(v->v);
    *v = (pool_problem_vec){0};
}

static void step_done(struct provision_step *s)
{
    free(s->changes.v);
}

void provision_plan_done(struct provision_plan *p)
{
    vec_foreach (pf, &p->pfs) {
        vec_foreach (s, &pf->steps)
            step_done(s);
        vec_foreach (o, &pf->obstacles) {
            step_done(&o->step);
            free(o->why);
        }
        free(pf->pools.v);
        free(pf->steps.v);
        free(pf->obstacles.v);
    }
    free(p->pfs.v);
    pool_problem_vec_done(&p->problems);
    *p = (struct provision_plan){0};
}

bool provision_plan_empty(const struct provision_plan *p)
{
    vec_foreach (pf, &p->pfs)
        if (pf->steps.n || pf->obstacles.n)
            return false;
    return p->problems.n == 0;
}

static const char *pf_title(const struct pf *pf)
{
    return pf->netdev ? pf->netdev : pf->address;
}

/* The PF itself, or a VF of it that is there. */
static bool concerns(const struct pool *p, const char *node, const struct pf *pf)
{
    if (pool_names_pf(p, pf))
        return true;
    vec_foreach (vf, &pf->vfs)
        if (pool_selects(p, node, pf, vf))
            return true;
    return false;
}

static void problem(pool_problem_vec *out, const struct pool *pool, const char *fmt, ...)
    _printf_(3, 4);
static void problem(pool_problem_vec *out, const struct pool *pool, const char *fmt, ...)
{
    va_list ap;

    if (!out)
        return;
    va_start(ap, fmt);
    struct pool_problem *p = VEC_PUSH(out);
    p->name = xstrdup(pool->name);
    p->text = xvasprintf(fmt, ap);
    va_end(ap);
}

static bool unknown_here(const struct provision_input *in, const struct pool *p)
{
    return p->node_labels.n && !in->labels;
}

/* Whether the pool is for this node, as far as is known, and may have VFs of this PF. */
static bool is_party(const struct provision_input *in, const struct pool *p, const struct pf *pf)
{
    return concerns(p, in->node, pf) && (unknown_here(in, p) || pool_matches_node(p, in->labels));
}

/* Whether all that ask for a number ask for the same; each is told of one that doesn't. */
static bool agree(const struct provision_input *in, const struct pf *pf, unsigned *ret_count,
                  pool_problem_vec *problems)
{
    bool all = true;

    vec_foreach (p, &in->pools->pools) {
        const struct pool *other = NULL;

        if (!p->count || !is_party(in, p, pf))
            continue;
        vec_foreach (q, &in->pools->pools)
            if (!other && q->count && q->count != p->count && is_party(in, q, pf))
                other = q;
        if (other)
            problem(problems, p,
                    "provisioning.count is %u, and %u in pool %s: both have VFs of PF %s, so "
                    "nothing is done there",
                    p->count, other->count, other->name, pf_title(pf));
        all &= !other;
        *ret_count = p->count;
    }
    return all;
}

/* What keeps the pool from being provisioned on this PF, on its own. */
static bool is_possible(const struct provision_input *in, const struct pool *p, const struct pf *pf,
                        pool_problem_vec *problems)
{
    if (unknown_here(in, p)) {
        problem(problems, p,
                "it has a nodeSelector, and the node's labels aren't known: nothing is done on PF "
                "%s, of which it may have VFs",
                pf_title(pf));
        return false;
    }
    if (p->count > pf->total_vfs) {
        problem(problems, p,
                "provisioning.count is %u, and PF %s can have %u VFs at most (sriov_totalvfs): "
                "nothing is done there",
                p->count, pf_title(pf), pf->total_vfs);
        return false;
    }
    return true;
}

void provision_wish(const struct provision_input *in, const struct pf *pf, struct pf_wish *ret,
                    pool_problem_vec *problems)
{
    *ret = (struct pf_wish){0};
    vec_foreach (p, &in->pools->pools)
        ret->ours |= p->by == PROVISIONED_BY_DRIVER && is_party(in, p, pf);
    if (!ret->ours)
        return;
    vec_foreach (p, &in->pools->pools)
        if (is_party(in, p, pf))
            ret->blocked |= !is_possible(in, p, pf, problems);
    ret->blocked |= !agree(in, pf, &ret->count, problems);
}

const struct pool *provision_pool(const struct provision_input *in, const struct pf *pf,
                                  const struct vf *vf)
{
    const struct pool *p = pools_find(in->pools, in->node, in->labels, pf, vf);

    return p && p->by == PROVISIONED_BY_DRIVER && !mode_sets_up(p->mode) ? p : NULL;
}

static const struct provision_vf *find_seen(const struct provision_input *in, const char *address)
{
    vec_foreach (vf, in->seen)
        if (streq(vf->address, address))
            return vf;
    return NULL;
}

static const struct provision_holder *find_holder(const struct provision_input *in,
                                                  const char *address)
{
    vec_foreach (h, in->holders)
        if (streq(h->address, address))
            return h;
    return NULL;
}

/* Why this VF isn't free to be written to, for people; NULL: it is. */
static char *why_not_free(const struct provision_input *in, const struct vf *vf)
{
    const struct provision_holder *h = find_holder(in, vf->address);
    const struct provision_vf *seen = find_seen(in, vf->address);

    if (h)
        return xasprintf("%s has it", h->who);
    if (vf->away)
        return xstrdup("its interface is in another network namespace");
    if (in->suspicious)
        return xasprintf("it may be the VF of the damaged claim record %s; remove that file if no "
                         "pod of the claim is left",
                         in->suspicious);
    if (!vf->netdev)
        return vf->driver ? xasprintf("it has no network interface: its driver is %s", vf->driver)
                          : NULL;
    if (!seen || seen->unread)
        return xasprintf("it couldn't be looked at: %s", seen ? seen->unread : "it is new");
    return vf_host_use(&seen->state, seen->upper);
}

static struct provision_step count_step(const struct pf *pf, unsigned count)
{
    return (struct provision_step){.kind = PROVISION_COUNT, .from = pf->num_vfs, .to = count};
}

static void add_obstacle(struct provision_pf *out, const struct provision_step *step, char *why)
{
    *VEC_PUSH(&out->obstacles) = (struct provision_obstacle){.step = *step, .why = why};
}

/* Whether the VFs that there are may be removed; what is in the way is added. */
static bool may_remove_vfs(const struct provision_input *in, unsigned count,
                           struct provision_pf *out)
{
    const struct pf *pf = out->pf;
    const struct provision_step step = count_step(pf, count);
    bool may = true;

    vec_foreach (vf, &pf->vfs) {
        const struct pool *pool = pools_find(in->pools, in->node, in->labels, pf, vf);
        char *why = why_not_free(in, vf);

        if (!why && pool && pool->by != PROVISIONED_BY_DRIVER)
            why = xasprintf("it is of pool %s, whose VFs others provision", pool->name);
        if (!why)
            continue;
        add_obstacle(out, &step, xasprintf("VF %u (%s): %s", vf->index, vf->address, why));
        free(why);
        may = false;
    }
    return may;
}

static struct provision_step vf_step(const struct vf *vf, const struct pool *pool)
{
    struct provision_step s = {.kind = PROVISION_VF, .index = vf->index, .pool = pool};

    memcpy(s.address, vf->address, sizeof(s.address));
    return s;
}

/* A VF that is there. */
static void plan_vf(const struct provision_input *in, const struct vf *vf, const struct pool *pool,
                    struct provision_pf *out)
{
    const struct provision_vf *seen = find_seen(in, vf->address);
    struct provision_step s = vf_step(vf, pool);

    if (seen && !seen->unread)
        vf_provision_changes(&seen->state, &pool->settings, &s.changes);
    if (seen && !seen->unread && !s.changes.n && (seen->state.home || vf->away || vf->driver))
        return;
    char *why = why_not_free(in, vf);
    if (!why && !vf->netdev)
        why = xasprintf("it has no driver%s, so no network interface",
                        out->pf->autoprobe ? "" : " (sriov_drivers_autoprobe is off)");
    if (why)
        add_obstacle(out, &s, why);
    else
        *VEC_PUSH(&out->steps) = s;
}

/* Those that are yet to be made, by their index. */
static void plan_new_vfs(const struct provision_input *in, unsigned count, struct provision_pf *out)
{
    for (unsigned i = 0; i < count; i++) {
        const struct vf vf = {.index = i};
        const struct pool *pool = provision_pool(in, out->pf, &vf);

        if (!pool)
            continue;
        struct provision_step *s = VEC_PUSH(&out->steps);
        *s = vf_step(&vf, pool);
        vf_state_differences(NULL, &pool->settings, &s->changes);
    }
}

static void note_pools(const struct provision_input *in, struct provision_pf *out)
{
    vec_foreach (p, &in->pools->pools)
        if (p->by == PROVISIONED_BY_DRIVER && pool_matches_node(p, in->labels) &&
            concerns(p, in->node, out->pf)) {
            *VEC_PUSH(&out->pools) = p;
            out->needs_link |= !mode_sets_up(p->mode) && p->settings.set & VF_SET_RATE;
        }
}

/* What can't be told of the PF, or done with it; NULL: nothing. */
static char *pf_trouble(const struct pf *pf)
{
    if (!pf->netdev)
        return xasprintf("it has no network interface here: its driver is %s",
                         pf->driver ? pf->driver : "none");
    return pf->problem ? xasprintf("it can't be read whole: %s", pf->problem) : NULL;
}

static void plan_pf(const struct provision_input *in, const struct pf_wish *wish,
                    struct provision_pf *out)
{
    const struct pf *pf = out->pf;
    const struct provision_step up = {.kind = PROVISION_PF_UP}, count = count_step(pf, wish->count);
    char *trouble = pf_trouble(pf);
    bool other = wish->count && pf->num_vfs != wish->count;
    bool coming = wish->count && !other && pf->vfs.n < wish->count;

    if (trouble) {
        add_obstacle(out, other ? &count : &up, trouble);
        return;
    }
    if (!pf->up)
        *VEC_PUSH(&out->steps) = up;
    if (coming)
        *VEC_PUSH(&out->steps) = count;
    if (other && may_remove_vfs(in, wish->count, out)) {
        *VEC_PUSH(&out->steps) = count;
        plan_new_vfs(in, wish->count, out);
        return;
    }
    vec_foreach (vf, &pf->vfs) {
        const struct pool *pool = provision_pool(in, pf, vf);

        if (pool)
            plan_vf(in, vf, pool, out);
    }
}

/* A pool that is for this node and finds nothing here is a mistake more often than not. */
static void find_idle_pools(const struct provision_input *in, bool making,
                            pool_problem_vec *problems)
{
    vec_foreach (p, &in->pools->pools) {
        bool here = false;

        if (p->by != PROVISIONED_BY_DRIVER)
            continue;
        vec_foreach (f, &p->functions)
            here |= making && f->vf_address[0]; /* it may be among those */
        vec_foreach (pf, &in->inv->pfs)
            here |= concerns(p, in->node, pf);
        if (!here && unknown_here(in, p))
            problem(problems, p, "it has a nodeSelector, and the node's labels aren't known");
        else if (!here && pool_matches_node(p, in->labels))
            problem(problems, p, "none of its functions is on this machine");
    }
}

void provision_plan(const struct provision_input *in, struct provision_plan *ret)
{
    struct provision_plan plan = {0};

    vec_foreach (pf, &in->inv->pfs) {
        struct pf_wish wish;

        provision_wish(in, pf, &wish, &plan.problems);
        if (!wish.ours)
            continue;
        struct provision_pf *out = VEC_PUSH(&plan.pfs);
        out->pf = pf;
        note_pools(in, out);
        if (!wish.blocked)
            plan_pf(in, &wish, out);
    }
    bool making = false;
    vec_foreach (pf, &plan.pfs)
        vec_foreach (s, &pf->steps)
            making |= s->kind == PROVISION_COUNT;
    find_idle_pools(in, making, &plan.problems);
    *ret = plan;
}
