/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/provisioning.h"

#include "base/log.h"
#include "driver/attempts.h"
#include "driver/events.h"
#include "driver/holders.h"
#include "driver/observe.h"
#include "driver/provision_text.h"

#define KNOW_MS 2000 /* how often it is looked whether the pods are known */

struct pf_work {
    char address[PCI_ADDRESS_SIZE];
    struct worker *worker; /* while it is worked on */
    bool fresh;            /* its VFs were made in this run: no record of an earlier one has them */
    struct attempts attempts;
};

struct vf_work {
    char address[PCI_ADDRESS_SIZE], pf_address[PCI_ADDRESS_SIZE];
    bool was_right; /* in this run */
    struct attempts attempts;
};

struct provisioning {
    struct node *node;
    struct sysroot root;
    struct timer *again;
    int64_t soonest; /* of what waits for its next attempt; 0: nothing does */
    VEC(struct pf_work *) pfs;
    VEC(struct vf_work *) vfs;
    VEC(char *) todo; /* VFs that the last look found not to be right */
    size_t next;
    char *vf_pf;   /* the PF of the VF that is worked on, NULL: none is */
    bool worked;   /* since the last look */
    size_t failed; /* VFs that couldn't be set up, and of which nobody was told yet */
    char *why;     /* of the first of them */
    char *told;    /* what is wrong with pools */
};

static int64_t now_of(const struct provisioning *p)
{
    return clock_now(loop_clock(p->node->loop));
}

static void wait_for_next(struct provisioning *p)
{
    if (!p->soonest)
        return;
    int64_t left = p->soonest - now_of(p);
    timer_set(p->again, left > 0 ? left : 0);
    p->soonest = 0;
}

static void look_again(void *data)
{
    struct provisioning *p = data;

    if (!p->node->stopping)
        observe_dirty(p->node->observe);
}

/* ---- what there is */

static struct pf_work *pf_work_of(struct provisioning *p, const char *address)
{
    vec_foreach (w, &p->pfs)
        if (streq((*w)->address, address))
            return *w;
    struct pf_work *w = *VEC_PUSH(&p->pfs) = xnew(struct pf_work);
    snprintf(w->address, sizeof(w->address), "%s", address);
    return w;
}

static struct vf_work *vf_work_of(struct provisioning *p, const char *pf_address,
                                  const char *address)
{
    vec_foreach (w, &p->vfs)
        if (streq((*w)->address, address))
            return *w;
    struct vf_work *w = *VEC_PUSH(&p->vfs) = xnew(struct vf_work);
    snprintf(w->address, sizeof(w->address), "%s", address);
    snprintf(w->pf_address, sizeof(w->pf_address), "%s", pf_address);
    return w;
}

static struct provision_input input_of(const struct provisioning *p)
{
    return (struct provision_input){
        .inv = &p->node->inv,
        .pools = &p->node->pools,
        .node = p->node->c.name,
        .labels = p->node->labels,
    };
}

static bool is_held(const struct provisioning *p, const char *vf_address)
{
    char device[DEVICE_NAME_SIZE];

    device_name(vf_address, device);
    return claims_holder(p->node->claims, device) != NULL;
}

/* ---- a PF: brought up, and its VFs made */

struct pf_job {
    struct job job;
    struct provisioning *p;
    char address[PCI_ADDRESS_SIZE];
    const struct sysroot *root;
    const struct pools *pools; /* read only, and unchanged while the node runs */
    char *node_name, *suspicious;
    json_t *labels;
    provision_holder_vec holders;

    struct err err;
    struct provision_report report;
    char *in_the_way;
};

static void pf_work_on(struct pf_job *k, const struct hw *hw)
{
    _cleanup_(inventory_done) struct inventory inv = {0};
    _cleanup_(provision_vf_vec_done) provision_vf_vec seen = {0};
    _cleanup_(provision_plan_done) struct provision_plan plan = {0};
    const struct provision_input in = {
        .inv = &inv,
        .pools = k->pools,
        .node = k->node_name,
        .labels = k->labels,
        .seen = &seen,
        .holders = &k->holders,
        .suspicious = k->suspicious,
    };

    if (inventory_read_pf(hw->root, k->address, &inv, &k->err) < 0)
        return;
    provision_look(hw, &in, &seen);
    provision_plan(&in, &plan);
    if (!plan.pfs.n)
        return;
    const struct provision_pf *pf = &plan.pfs.v[0];
    provision_run(hw, &in, pf, true, &k->report);
    struct strbuf why = {0};
    vec_foreach (o, &pf->obstacles)
        if (o->step.kind != PROVISION_VF)
            strbuf_printf(&why, "%s%s", why.len ? "; " : "", o->why);
    k->in_the_way = why.len ? strbuf_take(&why) : NULL;
}

static void pf_run(struct job *j)
{
    struct pf_job *k = container_of(j, struct pf_job, job);
    struct hw hw = {.root = k->root};

    if (nl_open(NETLINK_ROUTE, &hw.nl, &k->err) < 0)
        return;
    pf_work_on(k, &hw);
    nl_free(hw.nl);
}

static void tell_pf(struct pf_job *k, struct pf_work *w, const char *title)
{
    struct node *n = k->p->node;
    const struct provision_report *r = &k->report;
    _cleanup_free_ char *made = xasprintf("%u", r->made), *ms = xasprintf("%.1f", r->us / 1e3);

    if (r->raised)
        log_info("PF brought up", "pf", title);
    if (r->made)
        log_info("VFs made", "pf", title, "vfs", made, "ms", ms);
    const char *failure = k->err.code ? err_text(&k->err) : r->failures.n ? r->failures.v[0] : NULL;
    if (failure && attempts_news(&w->attempts, failure)) {
        log_error("PF not provisioned: tried again later", "pf", title, "why", failure);
        events_not_provisioned(n, title, failure);
    } else if (!failure && k->in_the_way && attempts_news(&w->attempts, k->in_the_way)) {
        log_warn("the number of VFs stays: something is in the way", "pf", title, "why",
                 k->in_the_way);
        events_not_provisioned(n, title, k->in_the_way);
    }
}

/* What was known of its VFs means nothing for new ones. */
static void begin_anew(struct provisioning *p, struct pf_work *w)
{
    w->fresh = true;
    vec_foreach (vf, &p->vfs) {
        if (!streq((*vf)->pf_address, w->address))
            continue;
        (*vf)->was_right = false;
        attempts_done(&(*vf)->attempts);
    }
}

static void pf_done(struct job *j)
{
    struct pf_job *k = container_of(j, struct pf_job, job);
    struct provisioning *p = k->p;
    struct pf_work *w = pf_work_of(p, k->address);
    const struct pf *pf = inventory_find_pf(&p->node->inv, k->address);

    worker_free(TAKE_PTR(w->worker));
    if (k->report.made)
        begin_anew(p, w);
    tell_pf(k, w, pf && pf->netdev ? pf->netdev : k->address);
    if (k->report.raised || k->report.made)
        observe_dirty(p->node->observe);
    if (!p->node->stopping && (k->err.code || k->report.failures.n)) {
        (void)attempts_may(&w->attempts, now_of(p), &p->soonest);
        wait_for_next(p);
    }
    provision_report_done(&k->report);
    provision_holder_vec_done(&k->holders);
    err_clear(&k->err);
    json_decref(k->labels);
    free(k->node_name);
    free(k->suspicious);
    free(k->in_the_way);
    free(k);
}

static void pf_start(struct provisioning *p, struct pf_work *w)
{
    struct node *n = p->node;
    _cleanup_err_ struct err e = ERR_INIT;
    struct worker *worker;

    attempts_note(&w->attempts, now_of(p));
    if (worker_new(n->loop, "pf", &worker, &e) < 0) {
        log_error_err(&e, "PF not provisioned: tried again later", "pf", w->address);
        return;
    }
    struct pf_job *k = xnew(struct pf_job);
    *k = (struct pf_job){
        .job = {.run = pf_run, .done = pf_done},
        .p = p,
        .root = &p->root,
        .pools = &n->pools,
        .node_name = xstrdup(n->c.name),
        .suspicious = n->suspicious ? xasprintf("%s/*.bad", n->c.state_dir) : NULL,
        .labels = json_deep_copy(n->labels),
    };
    memcpy(k->address, w->address, sizeof(k->address));
    holders_list(n, &k->holders);
    w->worker = worker;
    worker_submit(worker, &k->job);
}

/* ---- a VF: its settings */

struct vf_job {
    struct job job;
    struct provisioning *p;
    char pf_address[PCI_ADDRESS_SIZE], vf_address[PCI_ADDRESS_SIZE];
    unsigned index;
    const struct hw *hw; /* the worker's */
    const struct pool *pool;
    struct vf_settings want;
    int64_t began_us;

    int result;
    vf_difference_vec changed;
    struct err err;
};

static void vf_run(struct job *j)
{
    struct vf_job *k = container_of(j, struct vf_job, job);

    k->result =
        vf_provision(k->hw, k->pf_address, k->vf_address, k->index, &k->want, &k->changed, &k->err);
}

static void note_failure(struct provisioning *p, const struct vf_job *k)
{
    log_warn_err(&k->err, "VF isn't as its pool says, and can't be set up: tried again later", "vf",
                 k->vf_address, "pool", k->pool->name);
    if (p->failed++ == 0)
        p->why = xasprintf("VF %s can't be set up: %s", k->vf_address, err_text(&k->err));
}

/* One event for all: there may be hundreds, of one cause. */
static void tell_failures(struct provisioning *p)
{
    if (!p->failed)
        return;
    _cleanup_free_ char *what = p->failed == 1
                                    ? xstrdup("a VF isn't as its pool says")
                                    : xasprintf("%zu VFs aren't as their pools say", p->failed);
    events_not_provisioned(p->node, what, p->why);
    free(TAKE_PTR(p->why));
    p->failed = 0;
}

static void next_vf(struct provisioning *p);

static void vf_done(struct job *j)
{
    struct vf_job *k = container_of(j, struct vf_job, job);
    struct provisioning *p = k->p;
    struct vf_work *w = vf_work_of(p, k->pf_address, k->vf_address);
    _cleanup_free_ char *changed = provision_changes_text(&k->changed);
    char device[DEVICE_NAME_SIZE], ms[24];

    device_name(k->vf_address, device);
    observe_device_changed(p->node->observe, device); /* what was seen before means nothing */
    if (k->result > 0)
        log_info(w->was_right ? "VF had drifted: it is as its pool says again" : "VF set up", "vf",
                 k->vf_address, "pool", k->pool->name, "changed", changed, "ms",
                 clock_ms_since(k->began_us, ms));
    else if (k->result < 0 && attempts_news(&w->attempts, err_text(&k->err)))
        note_failure(p, k);
    if (k->result < 0)
        (void)attempts_may(&w->attempts, now_of(p), &p->soonest);
    free(k->changed.v);
    err_clear(&k->err);
    free(k);
    free(TAKE_PTR(p->vf_pf));
    p->worked = true;
    next_vf(p);
}

static void vf_start(struct provisioning *p, struct vf_work *w, const struct pf *pf,
                     const struct vf *vf, const struct pool *pool)
{
    struct vf_job *k = xnew(struct vf_job);

    attempts_note(&w->attempts, now_of(p));
    *k = (struct vf_job){
        .job = {.run = vf_run, .done = vf_done},
        .p = p,
        .index = vf->index,
        .hw = &p->node->hands.hw,
        .pool = pool,
        .want = pool->settings,
        .began_us = clock_mono_us(),
    };
    memcpy(k->pf_address, pf->address, sizeof(k->pf_address));
    memcpy(k->vf_address, vf->address, sizeof(k->vf_address));
    p->vf_pf = xstrdup(pf->address);
    worker_submit(p->node->worker, &k->job);
}

static void tell_suspicious(struct vf_work *w, const struct pool *pool)
{
    if (attempts_news(&w->attempts, "suspicious"))
        log_warn("VF isn't as its pool says, and isn't set up: it may be the VF of a damaged claim "
                 "record",
                 "vf", w->address, "pool", pool->name);
}

/* Whether it was begun. */
static bool try_vf(struct provisioning *p, const char *address)
{
    const struct provision_input in = input_of(p);
    const struct pf *pf = NULL;
    const struct vf *vf = inventory_find_vf(in.inv, address, &pf);
    const struct pool *pool = vf ? provision_pool(&in, pf, vf) : NULL;

    if (!pool || is_held(p, address) || provisioning_has_pf(p, pf->address))
        return false;
    struct vf_work *w = vf_work_of(p, pf->address, address);
    if (p->node->suspicious && !pf_work_of(p, pf->address)->fresh) {
        tell_suspicious(w, pool);
        return false;
    }
    if (!attempts_may(&w->attempts, now_of(p), &p->soonest))
        return false;
    vf_start(p, w, pf, vf, pool);
    return true;
}

/* One at a time, so that claims aren't behind all of them. */
static void next_vf(struct provisioning *p)
{
    if (p->vf_pf || p->node->stopping)
        return;
    while (p->next < p->todo.n)
        if (try_vf(p, p->todo.v[p->next++]))
            return;
    tell_failures(p);
    if (p->worked)
        observe_dirty(p->node->observe);
    p->worked = false;
    wait_for_next(p);
}

/* ---- review */

static void tell_problems(struct provisioning *p, pool_problem_vec *problems)
{
    struct strbuf all = {0};

    if (!p->node->labels) /* the Node object isn't known yet */
        return;
    vec_foreach (x, problems)
        strbuf_printf(&all, "%s: %s\n", x->name, x->text);
    if (!streq_null(p->told, all.s))
        vec_foreach (x, problems) {
            log_error("pool isn't provisioned", "pool", x->name, "why", x->text);
            events_not_provisioned(p->node, x->name, x->text);
        }
    free(p->told);
    p->told = all.s;
}

/* Whether there is something to do on the PF itself. */
static bool pf_is_due(const struct pf *pf, const struct pf_wish *wish)
{
    return !pf->up || (wish->count && (pf->num_vfs != wish->count || pf->vfs.n < wish->count));
}

/* VFs that are there would go: not before it is known whose they are. */
static bool must_wait(struct provisioning *p, const struct pf *pf, const struct pf_wish *wish)
{
    if (!pf->num_vfs || !wish->count || pf->num_vfs == wish->count || holders_known(p->node))
        return false;
    int64_t then = now_of(p) + KNOW_MS;
    if (!p->soonest || then < p->soonest)
        p->soonest = then;
    return true;
}

static void review_pf(struct provisioning *p, const struct pf *pf, const struct pf_wish *wish)
{
    struct pf_work *w = pf_work_of(p, pf->address);

    if (!pf_is_due(pf, wish))
        attempts_right(&w->attempts, now_of(p));
    else if (!w->worker && !streq_null(p->vf_pf, pf->address) && !must_wait(p, pf, wish) &&
             attempts_may(&w->attempts, now_of(p), &p->soonest))
        pf_start(p, w);
}

static void add_todo(struct provisioning *p, const struct pf *pf)
{
    const struct provision_input in = input_of(p);

    vec_foreach (f, observe_facts(p->node->observe)) {
        const struct pf *of = NULL;
        const struct vf *vf = inventory_find_vf(in.inv, f->vf_address, &of);

        if (!vf || of != pf || !provision_pool(&in, pf, vf))
            continue;
        struct vf_work *w = vf_work_of(p, pf->address, f->vf_address);
        w->was_right |= f->verified;
        if (f->verified)
            attempts_right(&w->attempts, now_of(p));
        else
            *VEC_PUSH(&p->todo) = xstrdup(f->vf_address);
    }
}

static void clear_todo(struct provisioning *p)
{
    vec_foreach (address, &p->todo)
        free(*address);
    p->todo.n = p->next = 0;
}

void provisioning_review(struct provisioning *p)
{
    const struct provision_input in = input_of(p);
    pool_problem_vec problems = {0};

    if (p->node->stopping)
        return;
    clear_todo(p);
    vec_foreach (pf, &in.inv->pfs) {
        struct pf_wish wish;

        provision_wish(&in, pf, &wish, &problems);
        if (!wish.ours || wish.blocked)
            continue;
        review_pf(p, pf, &wish);
        add_todo(p, pf);
    }
    tell_problems(p, &problems);
    pool_problem_vec_done(&problems);
    next_vf(p);
}

bool provisioning_has_pf(const struct provisioning *p, const char *pf_address)
{
    vec_foreach (w, &p->pfs)
        if ((*w)->worker && streq((*w)->address, pf_address))
            return true;
    return false;
}

bool provisioning_idle(const struct provisioning *p)
{
    vec_foreach (w, &p->pfs)
        if ((*w)->worker)
            return false;
    return true;
}

int provisioning_new(struct node *n, struct provisioning **ret, struct err *e)
{
    struct provisioning *p = xnew(struct provisioning);
    int r = sysroot_open(n->c.sysroot, &p->root, e);

    if (r < 0) {
        free(p);
        return r;
    }
    p->node = n;
    p->again = timer_new(n->loop, look_again, p);
    *ret = p;
    provisioning_review(p);
    return 0;
}

void provisioning_free(struct provisioning *p)
{
    timer_free(p->again);
    sysroot_done(&p->root);
    clear_todo(p);
    vec_foreach (w, &p->pfs) {
        attempts_done(&(*w)->attempts);
        free(*w);
    }
    vec_foreach (w, &p->vfs) {
        attempts_done(&(*w)->attempts);
        free(*w);
    }
    free(p->pfs.v);
    free(p->vfs.v);
    free(p->todo.v);
    free(p->vf_pf);
    free(p->why);
    free(p->told);
    free(p);
}
