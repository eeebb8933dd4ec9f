/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/ensure.h"

#include "base/log.h"
#include "driver/events.h"
#include "driver/in_pod.h"
#include "driver/metrics.h"
#include "driver/sandboxes.h"
#include "driver/status.h"

#include <errno.h>
#include <stdio.h>

/* Of the pod, and then of its claims: both within the runtime's 2 s. */
#define RESOLVE_TIMEOUT_MS 800

/* One sandbox being brought to have all its VFs. */
struct ensure {
    struct node *node;
    struct nri_call *call; /* NULL on review */
    ensure_fn *done;
    void *data;
    enum occasion why;
    int64_t began_us;
    char *sandbox_id, *pod_uid, *namespace, *name, *netns;
    VEC(char *) uids; /* of the claims */
    size_t next;
    bool repaired, incomplete; /* incomplete: not all of its claims could be known */
    struct timer *deadline;    /* of an NRI call */
    bool resolving, late;
    struct err err;
};

static void ensure_next(struct ensure *en);

static void ensure_free(struct ensure *en)
{
    timer_free(en->deadline);
    vec_foreach (u, &en->uids)
        free(*u);
    free(en->uids.v);
    free(en->sandbox_id);
    free(en->pod_uid);
    free(en->namespace);
    free(en->name);
    free(en->netns);
    err_clear(&en->err);
    free(en);
}

static void add_env(const char *name, const char *value, void *data)
{
    struct nri_adjust *adjust = data;

    *VEC_PUSH(&adjust->env) = (struct nri_env){xstrdup(name), xstrdup(value)};
}

static void adjust_done(struct nri_adjust *adjust)
{
    vec_foreach (v, &adjust->env) {
        free(v->name);
        free(v->value);
    }
    free(adjust->env.v);
}

/*
 * What CDI puts into the containers that use a claim which the kubelet had prepared. NRI doesn't
 * tell which containers use a claim, so all of the pod's get it.
 */
static void adjust_container(const struct ensure *en, struct nri_adjust *adjust)
{
    vec_foreach (uid, &en->uids) {
        const struct claim *c = claims_find(en->node->claims, *uid);

        if (c && !c->rec->by_kubelet)
            vec_foreach (d, &c->rec->devices)
                in_pod_env(d, add_env, adjust);
    }
}

static const char *current_uid(const struct ensure *en)
{
    return en->next ? en->uids.v[en->next - 1] : NULL;
}

static void tell_refused(struct ensure *en, enum metric what, const struct err *why)
{
    metrics_count(what);
    events_pod_refused(en->node, &(struct object_name){en->namespace, en->name, en->pod_uid},
                       current_uid(en), why);
}

/* What came of it, for people. */
static void tell(struct ensure *en)
{
    const struct object_name object = {en->namespace, en->name, en->pod_uid};
    _cleanup_free_ char *pod = xasprintf("%s/%s", en->namespace, en->name);

    if (en->err.code && en->why == ON_REVIEW) {
        log_error_err(&en->err, "pod isn't known to have its VFs", "pod", pod, "uid", en->pod_uid,
                      "sandbox", en->sandbox_id);
        events_pod_lacks_vfs(en->node, &object, current_uid(en), &en->err);
    } else if (en->err.code) {
        log_error_err(&en->err, "pod refused", "pod", pod, "uid", en->pod_uid, "sandbox",
                      en->sandbox_id);
        if (!en->late) /* it was told when it was */
            tell_refused(en, METRIC_SANDBOX_REFUSED, &en->err);
    } else if (en->repaired) {
        log_warn("pod had started without its VF, or with a part of its attachment: repaired",
                 "pod", pod, "uid", en->pod_uid);
        events_pod_repaired(en->node, &object);
    }
}

static void ensure_end(struct ensure *en)
{
    _cleanup_(adjust_done) struct nri_adjust adjust = {0};
    bool ok = en->err.code == 0;

    tell(en);
    if (ok && en->why == ON_CREATE)
        adjust_container(en, &adjust);
    if (en->call)
        nri_reply(en->call, ok ? NULL : err_text(&en->err), &adjust);
    en->done(en->sandbox_id, ok && !en->incomplete, en->data);
    ensure_free(en);
}

/* For the pod's event. */
static const char *late_text(const struct ensure *en, char ret[static 256])
{
    const char *uid = current_uid(en);
    const struct claim *c = uid ? claims_find(en->node->claims, uid) : NULL;

    if (c)
        snprintf(ret, 256,
                 "sriov-dra: the VFs of claim %s/%s weren't ready within the runtime's time; tried "
                 "again",
                 c->rec->namespace, c->rec->name);
    else
        snprintf(
            ret, 256,
            "sriov-dra: the pod's claims weren't known within the runtime's time; tried again");
    return ret;
}

/*
 * The runtime's time is nearly up. A refusal is retried by the kubelet; silence would close the
 * plugin, and the runtime would go on as if we had agreed. A pod of which nothing is known yet is
 * let go, as where the API server is away.
 */
static void ensure_late(void *data)
{
    struct ensure *en = data;
    char text[256];
    bool refuse = !en->resolving || claims_next_of_pod(en->node->claims, en->pod_uid, NULL);

    log_warn(refuse ? "a pod's VFs weren't ready within the runtime's time: refused"
                    : "a pod's claims weren't known within the runtime's time: let go",
             "pod", en->name, "uid", en->pod_uid);
    nri_reply(TAKE_PTR(en->call), refuse ? late_text(en, text) : NULL, NULL);
    en->late = refuse;
    if (refuse) {
        _cleanup_err_ struct err e = ERR_INIT;

        err_set(&e, ERR_TRANSIENT, -ETIMEDOUT, "%s", text);
        tell_refused(en, METRIC_SANDBOX_LATE, &e);
    } else {
        events_pod_unknown(en->node);
        en->why = ON_REVIEW;
    }
}

/* Takes back what this sandbox got so far: a pod gets all of its VFs or isn't started. */
static void ensure_undo(struct claim *c, struct err *e, void *data)
{
    struct ensure *en = data;

    (void)c;
    (void)e;
    if (en->why == ON_RUN)
        for (c = claims_next(en->node->claims, NULL); c; c = claims_next(en->node->claims, c))
            if (!c->busy && streq_null(c->sandbox_id, en->sandbox_id)) {
                claims_detach(en->node->claims, c, ensure_undo, en);
                return;
            }
    ensure_end(en);
}

static void ensure_fail(struct ensure *en, const char *claim, struct err *e)
{
    (void)err_move(&en->err, e);
    (void)err_prefix(&en->err, en->err.code, "sriov-dra: claim %s", claim);
    ensure_undo(NULL, NULL, en);
}

static const struct allocation *allocation_of(struct ensure *en, const char *uid)
{
    const struct pod *pod = pods_find(en->node->pods, en->pod_uid);

    if (pod)
        vec_foreach (c, &pod->claims)
            if (c->current && streq(c->current->uid, uid))
                return c->current;
    return NULL;
}

/* Whether any had to be moved: those of an attachment that was cut short may all be there. */
static bool moved_any(const attachment_vec *v)
{
    vec_foreach (a, v)
        if (a->attached && !a->was_in)
            return true;
    return false;
}

static void attached(struct claim *c, struct err *e, const attachment_vec *v, void *data)
{
    struct ensure *en = data;
    _cleanup_free_ char *title = record_title(c->rec);
    char ms[24];

    if (e) {
        ensure_fail(en, title, e);
        return;
    }
    log_info(moved_any(v) ? "VFs moved into pod" : "attachment of VFs in pod completed", "claim",
             title, "pod", en->name, "sandbox", en->sandbox_id, "ms",
             clock_ms_since(en->began_us, ms));
    en->repaired |= en->why != ON_RUN;
    status_write(en->node->statuses, c->rec, v);
    c->told = true;
    ensure_next(en);
}

static void attach(struct ensure *en, struct claim *c)
{
    claims_attach(en->node->claims, c, en->sandbox_id, en->pod_uid, en->netns, attached, en);
}

/* Whether the claim's status lacks a VF of ours, as far as was read. */
static bool is_untold(struct ensure *en, const struct claim *c)
{
    const struct allocation *a = allocation_of(en, c->rec->uid);

    if (c->told || !a || !record_fits(c->rec, a))
        return false;
    vec_foreach (d, &c->rec->devices)
        if (d->grant.attach == ATTACH_NRI)
            vec_foreach (given, &a->devices)
                if (streq(given->device, d->grant.device) && !given->told)
                    return true;
    return false;
}

/* An earlier run may have ended while it attached, or before it told. */
static void checked(struct claim *c, struct err *e, const attachment_vec *v, void *data)
{
    struct ensure *en = data;

    if (e || !streq_null(c->complete_in, en->sandbox_id)) {
        attach(en, c);
        return;
    }
    if (is_untold(en, c))
        status_write(en->node->statuses, c->rec, v);
    c->told = true;
    ensure_next(en);
}

/* Brings the VFs of one claim, which is ours and set up, into the sandbox. */
static void ensure_claim(struct ensure *en, struct claim *c)
{
    _cleanup_free_ char *title = record_title(c->rec);
    _cleanup_err_ struct err e = ERR_INIT;

    bool ours = record_wants_attach(c->rec);
    if (c->busy)
        err_set(&e, ERR_TRANSIENT, -EBUSY, "still being worked on; tried again");
    else if (c->rec->state != RECORD_PREPARED)
        err_set(&e, ERR_TRANSIENT, -EBUSY, "its former use is still being released; tried again");
    else if (ours && !en->netns)
        err_set(&e, ERR_PERMANENT, -EINVAL,
                "the VF's interface can't be moved into a pod with hostNetwork; use a pool with "
                "attach: None");
    else if (ours && c->sandbox_id && !streq(c->pod_uid, en->pod_uid) &&
             sandboxes_alive(en->node->sandboxes, c->sandbox_id))
        err_set(&e, ERR_TRANSIENT, -EBUSY,
                "its VF is in use by another pod (uid %s); a VF serves one pod at a time",
                c->pod_uid);
    if (e.code) {
        ensure_fail(en, title, &e);
        return;
    }
    claims_add_pod(c, en->pod_uid);
    c->pods_seen = true;
    if (!ours)
        ensure_next(en);
    else if (en->why == ON_RUN)
        attach(en, c);
    else
        claims_check(en->node->claims, c, en->sandbox_id, en->pod_uid, en->netns, checked, en);
}

static void acquired(struct claim *c, struct err *e, void *data)
{
    struct ensure *en = data;

    if (e) {
        const struct allocation *a = allocation_of(en, en->uids.v[en->next - 1]);
        _cleanup_free_ char *title = a ? xasprintf("%s/%s", a->namespace, a->name)
                                       : xasprintf("uid %s", en->uids.v[en->next - 1]);

        ensure_fail(en, title, e);
        return;
    }
    events_acquired(en->node, c);
    ensure_claim(en, c);
}

static void ensure_next(struct ensure *en)
{
    struct node *n = en->node;
    _cleanup_err_ struct err e = ERR_INIT;

    if (en->next == en->uids.n) {
        ensure_end(en);
        return;
    }
    if (en->late) {
        err_set(&e, ERR_TRANSIENT, -ETIMEDOUT, "not ready within the runtime's time");
        ensure_fail(en, en->uids.v[en->next], &e);
        return;
    }
    const char *uid = en->uids.v[en->next++];
    struct claim *c = claims_find(n->claims, uid);
    const struct allocation *a = allocation_of(en, uid);
    if (c && a && !record_fits(c->rec, a)) {
        _cleanup_free_ char *title = record_title(c->rec);

        err_set(&e, ERR_TRANSIENT, -ESTALE,
                "it was allocated anew, and its former VF isn't released yet; tried again");
        ensure_fail(en, title, &e);
        node_review_claims(n);
        return;
    }
    if (c) {
        ensure_claim(en, c);
        return;
    }
    if (!a) {
        ensure_next(en); /* gone meanwhile */
        return;
    }
    /*
     * Without Unprepare the end of a claim is ours to see. A kubelet that still has it as prepared,
     * for a second pod, won't call Prepare again.
     */
    _cleanup_free_ char *title = xasprintf("%s/%s", a->namespace, a->name);
    if (allocation_skips_unprepare(a) && node_is_pending(n, uid)) {
        err_set(&e, ERR_TRANSIENT, -EBUSY, "another call is setting it up; tried again");
        ensure_fail(en, title, &e);
        return;
    }
    if (allocation_skips_unprepare(a)) {
        node_acquire(n, a, !allocation_skips_prepare(a), 0, acquired, en);
        return;
    }
    err_set(&e, ERR_TRANSIENT, -ENOENT,
            "not prepared on this node, though the kubelet had to call Prepare for it; if this "
            "stays, delete the pod so that its claim is prepared anew");
    ensure_fail(en, title, &e);
}

static void add_uid(struct ensure *en, const char *uid)
{
    vec_foreach (u, &en->uids)
        if (streq(*u, uid))
            return;
    *VEC_PUSH(&en->uids) = xstrdup(uid);
}

static void resolved(const struct pod *p, struct err *e, void *data)
{
    struct ensure *en = data;
    struct node *n = en->node;

    en->resolving = false;
    en->incomplete = e != NULL;
    /* What we set up for this pod is known even without the API server. */
    for (struct claim *c = claims_next_of_pod(n->claims, en->pod_uid, NULL); c;
         c = claims_next_of_pod(n->claims, en->pod_uid, c))
        add_uid(en, c->rec->uid);
    if (p)
        vec_foreach (c, &p->claims) {
            if (c->problem) {
                _cleanup_err_ struct err bad = ERR_INIT;

                err_set(&bad, ERR_USER, -EINVAL, "%s", c->problem);
                ensure_fail(en, c->name, &bad);
                return;
            }
            if (c->current && c->current->devices.n)
                add_uid(en, c->current->uid);
        }
    if (e && en->uids.n == 0) {
        /*
         * Not refused: without an API server nothing would start here any more, the control plane's
         * own pods included. Looked at again when the pods are known.
         */
        if (en->call) {
            log_warn_err(e, "can't tell whether a pod has a claim of ours: let go", "pod", en->name,
                         "uid", en->pod_uid);
            events_pod_unknown(n);
        }
        ensure_end(en);
        return;
    }
    ensure_next(en);
}

void ensure_vfs(struct node *n, struct nri_call *call, enum occasion why, const struct nri_pod *pod,
                ensure_fn *done, void *data)
{
    struct ensure *en = xnew(struct ensure);

    *en = (struct ensure){
        .node = n,
        .call = call,
        .why = why,
        .done = done,
        .data = data,
        .began_us = clock_mono_us(),
        .sandbox_id = xstrdup(pod->id),
        .pod_uid = xstrdup(pod->uid),
        .namespace = xstrdup(pod->namespace),
        .name = xstrdup(pod->name),
        .netns = xstrdup(pod->netns),
    };
    if (call) {
        en->deadline = timer_new(n->loop, ensure_late, en);
        timer_set(en->deadline, nri_request_timeout_ms(n->nri) - NRI_MARGIN_MS);
    }
    en->resolving = true;
    pods_resolve(n->pods, en->namespace, en->name, en->pod_uid, RESOLVE_TIMEOUT_MS, resolved, en);
}
