/* SPDX-License-Identifier: Apache-2.0 */
/* NodePrepareResources and NodeUnprepareResources: each claim of a call for itself. */
#include "base/log.h"
#include "driver/node.h"

#include <errno.h>

#define POLL_MS         50
#define CLAIM_GET_MS    4000
#define CLAIM_GET_TRIES 4 /* repeats; with their pauses below the kubelet's 45 s */

/*
 * Claims on their way into the table: while one is fetched, or waits for its device's last holder,
 * a second call for it must not pass by.
 */
static bool is_pending(const struct node *n, const char *uid)
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

/* One claim of one call. */
struct prep {
    struct node *node;
    struct dra_call *call;
    size_t index;
    int64_t deadline; /* for VFs to come home; one for all claims of the call */
    int64_t began_us;
    bool pending;        /* its uid is in pending_uids */
    struct timer *again; /* what it waits for can't tell when it ends */
};

static void prep_free(struct prep *p, const char *uid)
{
    if (p->pending)
        remove_pending(p->node, uid);
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
    _cleanup_free_ char *uid = xstrdup(ref->uid); /* the call may end with the answer */
    dra_call_answer(p->call, p->index, &r);
    prep_free(p, uid);
}

/*
 * Looks again soon, or answers with `e` when the time is up. Waiting is worth it: kubelet 1.37
 * repeats a Prepare that failed only when it syncs the pod next, after 60 to 90 s
 * (kuberuntime_manager.go: SyncPod() returns no error then).
 */
static void wait_or_fail(struct prep *p, timer_fn *fn, const struct err *e)
{
    if (p->node->stopping || time_left(p) == 0) {
        answer_error(p, e);
        return;
    }
    if (!p->again)
        p->again = timer_new(p->node->loop, fn, p);
    timer_set(p->again, POLL_MS);
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
    _cleanup_free_ char *uid = xstrdup(rec->uid);
    dra_call_answer(p->call, p->index, &r);
    prep_free(p, uid);
}

static void acquired(struct claim *c, struct err *e, void *data)
{
    struct prep *p = data;

    if (e)
        answer_error(p, e);
    else
        answer_prepared(p, c->rec);
}

/* An acquisition: first the devices' finished holders are released, then it starts. */
struct acquisition {
    struct node *node;
    struct record *rec;
    int64_t deadline;
    struct timer *retry;
    char *pending; /* uid in pending_uids, if this put it there */
    claim_fn *fn;
    void *data;
};

static void acquisition_go_on(void *data);

static void acquisition_free(struct acquisition *a)
{
    if (a->pending)
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
    return !c->rec->by_kubelet && n->pods && pods_synced(n->pods) && !node_claim_in_use(n, c);
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
        _cleanup_err_ struct err e = ERR_INIT;

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
        err_set(&e, ERR_TRANSIENT, -EBUSY,
                "VF %s (device %s) is held by claim %s/%s (uid %s)%s%s until that is unprepared",
                d->grant.vf_address, d->grant.device, holder->rec->namespace, holder->rec->name,
                holder->rec->uid, holder->pod_uid ? ", used by the pod with uid " : "",
                holder->pod_uid ? holder->pod_uid : "");
        acquisition_fail(a, &e);
        return;
    }
    struct claim *c = claims_add(n->claims, TAKE_PTR(a->rec));
    claims_acquire(n->claims, c, left, a->fn, a->data);
    acquisition_free(a);
}

void node_acquire(struct node *n, const struct allocation *alloc, bool by_kubelet, int64_t wait_ms,
                  claim_fn *fn, void *data)
{
    struct contract_input in = node_contract_input(n);
    _cleanup_err_ struct err e = ERR_INIT;
    grant_vec grants = {0};

    if (!by_kubelet && is_pending(n, alloc->uid)) {
        err_set(&e, ERR_TRANSIENT, -EBUSY, "another call is setting this claim up");
        fn(NULL, &e, data);
        return;
    }
    if (contract_decide(&in, alloc, &grants, &e) < 0) {
        fn(NULL, &e, data);
        return;
    }
    struct acquisition *a = xnew(struct acquisition);
    *a = (struct acquisition){
        .node = n,
        .rec = record_new(alloc, &grants, n->hands.boot_id, by_kubelet),
        .deadline = clock_now(loop_clock(n->loop)) + wait_ms,
        .pending = by_kubelet ? NULL : xstrdup(alloc->uid),
        .fn = fn,
        .data = data,
    };
    if (a->pending)
        add_pending(n, a->pending);
    a->retry = timer_new(n->loop, acquisition_go_on, a);
    acquisition_go_on(a);
}

static void prepare_allocation(struct prep *p, const struct allocation *a)
{
    _cleanup_err_ struct err e = ERR_INIT;

    if (a->devices.n) {
        node_acquire(p->node, a, true, time_left(p), acquired, p);
        return;
    }
    err_set(&e, ERR_PERMANENT, -ENODEV, "claim %s/%s has no device of driver %s", a->namespace,
            a->name, p->node->c.driver);
    answer_error(p, &e);
}

static void prepare_one(void *data);

static void claim_fetched(const json_t *claim, struct err *e, void *data)
{
    struct prep *p = data;
    const struct dra_claim_ref *ref = &p->call->claims.v[p->index];
    _cleanup_(allocation_done) struct allocation a = {0};
    _cleanup_err_ struct err own = ERR_INIT;

    if (!claim) {
        answer_error(p, e);
        return;
    }
    if (allocation_read(claim, p->node->c.driver, ref->uid, &a, &own) < 0) {
        answer_error(p, &own);
        return;
    }
    /* While the claim was fetched a sandbox may have begun with it. */
    if (claims_find(p->node->claims, ref->uid)) {
        remove_pending(p->node, ref->uid);
        p->pending = false;
        prepare_one(p);
        return;
    }
    prepare_allocation(p, &a);
}

static void prepare_one(void *data)
{
    struct prep *p = data;
    const struct dra_claim_ref *ref = &p->call->claims.v[p->index];
    struct claim *c = claims_find(p->node->claims, ref->uid);
    _cleanup_err_ struct err e = ERR_INIT;

    if (!c && is_pending(p->node, ref->uid)) {
        err_set(&e, ERR_TRANSIENT, -EBUSY, "another call is preparing this claim");
        wait_or_fail(p, prepare_one, &e);
        return;
    }
    if (!c) {
        const struct allocation *known =
            pods_take_fresh(p->node->pods, ref->namespace, ref->name, ref->uid);

        add_pending(p->node, ref->uid);
        p->pending = true;
        if (known)
            prepare_allocation(p, known);
        else
            pods_fetch_claim(p->node->pods, ref->namespace, ref->name, CLAIM_GET_MS,
                             CLAIM_GET_TRIES, claim_fetched, p);
        return;
    }
    if (c->busy || c->rec->state != RECORD_PREPARED) {
        err_set(&e, ERR_TRANSIENT, -EBUSY, "claim %s/%s is still being %s", c->rec->namespace,
                c->rec->name,
                c->rec->state == RECORD_PREPARED    ? "worked on"
                : c->rec->state == RECORD_PREPARING ? "prepared"
                                                    : "released");
        wait_or_fail(p, prepare_one, &e);
        return;
    }
    c->rec->by_kubelet = true; /* who calls Prepare will call Unprepare */
    claims_acquire(p->node->claims, c, 0, acquired, p);
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
    log_info("claim unprepared", "uid", p->call->claims.v[p->index].uid, "ms",
             clock_ms_since(p->began_us, ms));
    dra_call_answer(p->call, p->index, &r);
    prep_free(p, NULL);
}

static void unprepare_one(void *data)
{
    struct prep *p = data;
    const struct dra_claim_ref *ref = &p->call->claims.v[p->index];
    struct claim *c = claims_find(p->node->claims, ref->uid);
    _cleanup_err_ struct err e = ERR_INIT;

    if (!c && !is_pending(p->node, ref->uid)) {
        released(NULL, NULL, p); /* nothing of it is left: success */
        return;
    }
    if (!c || c->busy) {
        err_set(&e, ERR_TRANSIENT, -EBUSY, "claim %s/%s is still being worked on", ref->namespace,
                ref->name);
        wait_or_fail(p, unprepare_one, &e);
        return;
    }
    claims_release(p->node->claims, c, time_left(p), released, p);
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
