/* SPDX-License-Identifier: Apache-2.0 */
/* NodePrepareResources and NodeUnprepareResources: each claim of a call for itself. */
#include "base/log.h"
#include "driver/events.h"
#include "driver/metrics.h"
#include "driver/node.h"
#include "driver/provisioning.h"

#include <errno.h>

#define POLL_MS      50
#define GET_PAUSE_MS 500
#define CLAIM_GET_MS 4000 /* begun within 20 s, it ends well within the kubelet's 45 s */

/*
 * Claims on their way into the table: while one is fetched, or waits for its device's last holder,
 * a second call for it must not pass by.
 */
bool node_is_pending(const struct node *n, const char *uid)
{
    vec_foreach (u, &n->pending_uids)
        if (streq(*u, uid))
            return true;
    return false;
}

static void add_pending(struct node *n, const char *uid)
{
    *VEC_PUSH(&n->pending_uids) = xstrdup(uid);
}

static void remove_pending(struct node *n, const char *uid)
{
    vec_foreach (u, &n->pending_uids)
        if (streq(*u, uid)) {
            free(*u);
            *u = n->pending_uids.v[--n->pending_uids.n];
            return;
        }
}

/* One claim of one call, from its arrival to its answer. */
struct prep {
    struct node *node;
    struct dra_call *call;
    size_t index;
    int64_t deadline; /* for VFs to come home; one for all claims of the call */
    int64_t began_us;
    bool pending;        /* its uid is in pending_uids */
    struct timer *again; /* what it waits for can't tell when it ends */
};

static const char *uid_of(const struct prep *p)
{
    return p->call->claims.v[p->index].uid;
}

static void set_pending(struct prep *p, bool pending)
{
    if (p->pending && !pending)
        remove_pending(p->node, uid_of(p));
    else if (!p->pending && pending)
        add_pending(p->node, uid_of(p));
    p->pending = pending;
}

/*
 * Calls for one claim are carried out in the order in which they came: a Prepare that waited, and
 * went on after an Unprepare which came later, would set up what the kubelet has forgotten.
 */
static bool is_first(const struct prep *p)
{
    vec_foreach (it, &p->node->preps)
        if (streq(uid_of(*it), uid_of(p)))
            return *it == p;
    return true;
}

static void answer(struct prep *p, struct dra_result *r)
{
    struct node *n = p->node;

    set_pending(p, false);
    for (size_t i = 0; i < n->preps.n; i++)
        if (n->preps.v[i] == p) {
            memmove(&n->preps.v[i], &n->preps.v[i + 1], (n->preps.n - i - 1) * sizeof(*n->preps.v));
            n->preps.n--;
            break;
        }
    dra_call_answer(p->call, p->index, r); /* the call may end with it */
    timer_free(p->again);
    free(p);
}

static int64_t time_left(const struct prep *p)
{
    int64_t left = p->deadline - clock_now(loop_clock(p->node->loop));

    return left > 0 ? left : 0;
}

static void answer_error(struct prep *p, const struct err *e)
{
    const struct dra_claim_ref *ref = &p->call->claims.v[p->index];
    struct dra_result r = {.error = xstrdup(err_text(e))};
    _cleanup_free_ char *title = xasprintf("%s/%s", ref->namespace, ref->name);

    log_error_err(e, p->call->prepare ? "claim not prepared" : "claim not unprepared", "claim",
                  title, "uid", ref->uid);
    metrics_operation(p->call->prepare ? METRIC_PREPARE : METRIC_UNPREPARE, e, p->began_us);
    events_call_failed(p->node, p->call->prepare,
                       &(struct object_name){ref->namespace, ref->name, ref->uid}, e);
    answer(p, &r);
}

/*
 * Looks again soon, or answers with `e` when the time is up. Waiting is worth it: kubelet 1.37
 * repeats a Prepare that failed only when it syncs the pod next, after 60 to 90 s
 * (kuberuntime_manager.go: SyncPod() returns no error then).
 */
static void wait_or_fail(struct prep *p, timer_fn *fn, int64_t pause_ms, const struct err *e)
{
    if (p->node->stopping || time_left(p) == 0) {
        answer_error(p, e);
        return;
    }
    set_pending(p, false);
    if (!p->again)
        p->again = timer_new(p->node->loop, fn, p);
    timer_set(p->again, pause_ms);
}

static void answer_prepared(struct prep *p, const struct record *rec)
{
    struct dra_result r = {0};
    _cleanup_free_ char *title = record_title(rec);
    char ms[24];

    vec_foreach (d, &rec->devices) {
        struct dra_device *out = VEC_PUSH(&r.devices);

        out->request = xstrdup(d->grant.request);
        out->pool = xstrdup(d->grant.pool);
        out->device = xstrdup(d->grant.device);
        out->cdi_id = claim_cdi_id(p->node->hands.cdi_kind, rec, d);
    }
    log_info("claim prepared", "claim", title, "uid", rec->uid, "ms",
             clock_ms_since(p->began_us, ms));
    metrics_operation(METRIC_PREPARE, NULL, p->began_us);
    answer(p, &r);
}

static void acquired(struct claim *c, struct err *e, void *data)
{
    struct prep *p = data;

    if (e) {
        answer_error(p, e);
        return;
    }
    c->pods_seen |= pods_need_claim(p->node->pods, c->rec);
    events_acquired(p->node, c);
    answer_prepared(p, c->rec);
}

/* An acquisition: first the devices' finished holders are released, then it starts. */
struct acquisition {
    struct node *node;
    struct record *rec;
    int64_t deadline;
    struct timer *retry;
    char *pending; /* uid in pending_uids */
    claim_fn *fn;
    void *data;
};

static void acquisition_go_on(void *data);

static void acquisition_free(struct acquisition *a)
{
    remove_pending(a->node, a->pending);
    free(a->pending);
    timer_free(a->retry);
    record_free(a->rec);
    free(a);
}

static void acquisition_fail(struct acquisition *a, struct err *e)
{
    a->fn(NULL, e, a->data);
    acquisition_free(a);
}

static void holder_released(struct claim *c, struct err *e, void *data)
{
    struct acquisition *a = data;

    (void)c;
    if (e)
        acquisition_fail(a, e);
    else
        acquisition_go_on(a);
}

/* Whether a claim that the kubelet won't unprepare is at its end. */
static bool is_finished(struct node *n, const struct claim *c)
{
    return !c->rec->unprepare_comes && n->pods && pods_synced(n->pods) && !node_claim_in_use(n, c);
}

/*
 * The device was allocated anew, so the API had its holder finished; we may see that a little
 * later. A pod deleted by force leaves a sandbox that lives on, for which waiting is no use.
 */
static bool is_about_to_finish(struct node *n, const struct claim *c)
{
    return !c->rec->unprepare_comes && n->pods && pods_need_claim(n->pods, c->rec);
}

static void held_by(struct err *e, const struct grant *g, const struct claim *holder)
{
    const char *until = holder->rec->state == RECORD_RELEASING ? ", which is being released"
                        : holder->rec->unprepare_comes         ? " until that is unprepared"
                                                               : " until its pods have ended";

    err_set(e, ERR_TRANSIENT, -EBUSY, "VF %s (device %s) is held by claim %s/%s (uid %s)%s%s%s",
            g->vf_address, g->device, holder->rec->namespace, holder->rec->name, holder->rec->uid,
            holder->pod_uid ? ", used by the pod with uid " : "",
            holder->pod_uid ? holder->pod_uid : "", until);
}

static void acquisition_go_on(void *data)
{
    struct acquisition *a = data;
    struct node *n = a->node;
    int64_t left = a->deadline - clock_now(loop_clock(n->loop));

    if (left < 0 || n->stopping)
        left = 0;
    vec_foreach (d, &a->rec->devices) {
        struct claim *holder = claims_holder(n->claims, d->grant.device);
        bool coming = provisioning_has_pf(n->provisioning, d->grant.pf_address);
        _cleanup_err_ struct err e = ERR_INIT;

        if (coming && left > 0) {
            timer_set(a->retry, POLL_MS);
            return;
        }
        if (coming) {
            err_set(&e, ERR_TRANSIENT, -EBUSY, "VF %s: the VFs of its PF are just being made",
                    d->grant.vf_address);
            acquisition_fail(a, &e);
            return;
        }
        if (!holder)
            continue;
        if (holder->busy && holder->rec->state == RECORD_RELEASING && left > 0) {
            timer_set(a->retry, POLL_MS);
            return;
        }
        if (!holder->busy && (holder->rec->state == RECORD_RELEASING || is_finished(n, holder))) {
            claims_release(n->claims, holder, left, holder_released, a);
            return;
        }
        if (left > 0 && is_about_to_finish(n, holder)) {
            timer_set(a->retry, POLL_MS);
            return;
        }
        held_by(&e, &d->grant, holder);
        acquisition_fail(a, &e);
        return;
    }
    struct claim *c = claims_add(n->claims, TAKE_PTR(a->rec));
    claims_acquire(n->claims, c, left, a->fn, a->data);
    acquisition_free(a);
}

/* The scheduler's gate can't be seen, but what it doesn't copy can. */
static void note_lists(struct node *n, const struct allocation *a, const grant_vec *grants)
{
    bool lacks = false;

    for (size_t i = 0; i < grants->n; i++) /* in the order of the allocation */
        lacks |= contract_lacks_copy(&a->devices.v[i], grants->v[i].mode);
    if (!lacks || !n->skip_declared || n->dropped & SLICE_FIELD_LIST)
        return;
    metrics_count(METRIC_LIST_NOT_COPIED);
    if (n->told_not_copied)
        return;
    n->told_not_copied = true;
    _cleanup_free_ char *title = xasprintf("%s/%s", a->namespace, a->name);
    log_warn("a claim has no copy of its device's skipNodeOperations, so the kubelet makes the "
             "calls: it is older than the list, or the gate of scheduler or API server is off",
             "claim", title, "uid", a->uid);
    events_skip_not_copied(n, a);
}

void node_acquire(struct node *n, const struct allocation *alloc, bool by_kubelet, int64_t wait_ms,
                  claim_fn *fn, void *data)
{
    struct contract_input in = node_contract_input(n);
    _cleanup_err_ struct err e = ERR_INIT;
    grant_vec grants = {0};

    if (contract_decide(&in, alloc, &grants, &e) < 0) {
        fn(NULL, &e, data);
        return;
    }
    if (by_kubelet)
        note_lists(n, alloc, &grants);
    struct acquisition *a = xnew(struct acquisition);
    *a = (struct acquisition){
        .node = n,
        .rec = record_new(alloc, &grants, n->hands.boot_id, by_kubelet),
        .deadline = clock_now(loop_clock(n->loop)) + wait_ms,
        .pending = xstrdup(alloc->uid),
        .fn = fn,
        .data = data,
    };
    add_pending(n, a->pending); /* beside the one of a Prepare call */
    a->retry = timer_new(n->loop, acquisition_go_on, a);
    acquisition_go_on(a);
}

static void prepare_one(void *data);

static int no_longer_fits(struct err *e, const struct record *rec)
{
    return err_set(e, ERR_TRANSIENT, -ESTALE,
                   "claim %s/%s was allocated anew, and its former VF isn't released yet",
                   rec->namespace, rec->name);
}

/* What a reading of the claim says; the reading is used up with that. */
static void prepare_allocation(struct prep *p, const struct allocation *a)
{
    struct claim *c = claims_find(p->node->claims, a->uid);
    _cleanup_err_ struct err e = ERR_INIT;

    if (c && record_fits(c->rec, a)) {
        c->rec->by_kubelet = true;
        claims_acquire(p->node->claims, c, 0, acquired, p);
    } else if (c) {
        no_longer_fits(&e, c->rec);
        node_review_claims(p->node);
        wait_or_fail(p, prepare_one, GET_PAUSE_MS, &e);
    } else if (a->devices.n) {
        node_acquire(p->node, a, true, time_left(p), acquired, p);
    } else {
        err_set(&e, ERR_PERMANENT, -ENODEV, "claim %s/%s has no device of driver %s", a->namespace,
                a->name, p->node->c.driver);
        answer_error(p, &e);
    }
}

static void claim_fetched(const json_t *claim, struct err *e, void *data)
{
    struct prep *p = data;
    const struct dra_claim_ref *ref = &p->call->claims.v[p->index];
    _cleanup_(allocation_done) struct allocation a = {0};
    _cleanup_err_ struct err own = ERR_INIT;

    if (!claim && e->kind == ERR_TRANSIENT) {
        wait_or_fail(p, prepare_one, GET_PAUSE_MS, e);
        return;
    }
    if (!claim) {
        answer_error(p, e);
        return;
    }
    /* It serves this call, and no other. */
    (void)pods_take_fresh(p->node->pods, ref->namespace, ref->name, ref->uid);
    if (allocation_read(claim, p->node->c.driver, ref->uid, &a, &own) < 0) {
        answer_error(p, &own);
        return;
    }
    /* While the claim was fetched a sandbox may have begun with it. */
    struct claim *c = claims_find(p->node->claims, ref->uid);
    if (c && (c->busy || c->rec->state != RECORD_PREPARED)) {
        set_pending(p, false);
        prepare_one(p);
        return;
    }
    prepare_allocation(p, &a);
}

static void released_first(struct claim *c, struct err *e, void *data)
{
    struct prep *p = data;

    (void)c;
    if (e)
        answer_error(p, e);
    else
        prepare_one(p);
}

static int still_busy(struct err *e, const struct dra_claim_ref *ref, const struct claim *c)
{
    const char *how = c && c->rec->state == RECORD_RELEASING  ? "released"
                      : c && c->rec->state == RECORD_PREPARED ? "worked on"
                                                              : "prepared";

    return err_set(e, ERR_TRANSIENT, -EBUSY, "claim %s/%s is still being %s", ref->namespace,
                   ref->name, how);
}

static void prepare_one(void *data)
{
    struct prep *p = data;
    struct node *n = p->node;
    const struct dra_claim_ref *ref = &p->call->claims.v[p->index];
    struct claim *c = claims_find(n->claims, ref->uid);
    _cleanup_err_ struct err e = ERR_INIT;

    if (n->stopping) {
        err_set(&e, ERR_TRANSIENT, -ESHUTDOWN, "the driver is stopping");
        answer_error(p, &e);
    } else if (!is_first(p) || (c ? c->busy : node_is_pending(n, ref->uid))) {
        still_busy(&e, ref, c);
        wait_or_fail(p, prepare_one, POLL_MS, &e);
    } else if (c && c->rec->state != RECORD_PREPARED) { /* a release that failed: once more */
        claims_release(n->claims, c, time_left(p), released_first, p);
    } else if (c && c->rec->by_kubelet) { /* prepared, and not unprepared since */
        claims_acquire(n->claims, c, 0, acquired, p);
    } else {
        const struct allocation *known =
            pods_take_fresh(n->pods, ref->namespace, ref->name, ref->uid);

        set_pending(p, true);
        if (known)
            prepare_allocation(p, known);
        else
            pods_fetch_claim(n->pods, ref->namespace, ref->name, CLAIM_GET_MS, 0, claim_fetched, p);
    }
}

static void released(struct claim *c, struct err *e, void *data)
{
    struct prep *p = data;
    struct dra_result r = {0};
    char ms[24];

    (void)c;
    if (e) {
        answer_error(p, e);
        return;
    }
    log_info("claim unprepared", "uid", uid_of(p), "ms", clock_ms_since(p->began_us, ms));
    metrics_operation(METRIC_UNPREPARE, NULL, p->began_us);
    answer(p, &r);
}

static void unprepare_one(void *data)
{
    struct prep *p = data;
    struct node *n = p->node;
    const struct dra_claim_ref *ref = &p->call->claims.v[p->index];
    struct claim *c = claims_find(n->claims, ref->uid);
    _cleanup_err_ struct err e = ERR_INIT;

    if (!is_first(p) || (c ? c->busy : node_is_pending(n, ref->uid))) {
        still_busy(&e, ref, c);
        wait_or_fail(p, unprepare_one, POLL_MS, &e);
    } else if (c) {
        claims_release(n->claims, c, time_left(p), released, p);
    } else {
        released(NULL, NULL, p); /* nothing of it is left: success */
    }
}

void node_dra_call(struct dra_call *call, void *data)
{
    struct node *n = data;
    int64_t deadline = clock_now(loop_clock(n->loop)) + HOME_WAIT_MS;
    int64_t began_us = clock_mono_us();
    size_t count = call->claims.n;
    bool prepare = call->prepare; /* the call is freed with its last answer */

    for (size_t i = 0; i < count; i++) {
        struct prep *p = xnew(struct prep);
        const char *uid = call->claims.v[i].uid;
        _cleanup_err_ struct err e = ERR_INIT;

        *p = (struct prep){
            .node = n, .call = call, .index = i, .deadline = deadline, .began_us = began_us};
        *VEC_PUSH(&n->preps) = p;
        if (!uid_is_valid(uid)) {
            err_set(&e, ERR_USER, -EINVAL, "\"%s\" is no uid", uid);
            answer_error(p, &e);
        } else if (n->stopping) {
            err_set(&e, ERR_TRANSIENT, -ESHUTDOWN, "the driver is stopping");
            answer_error(p, &e);
        } else if (prepare) {
            prepare_one(p);
        } else {
            unprepare_one(p);
        }
    }
}
