/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sandboxes.h"

#include "base/log.h"

#include <errno.h>

/* Two look-ups may follow one another within the runtime's 2 s. */
#define RESOLVE_TIMEOUT_MS 800
#define DEADLINE_MARGIN_MS 300
#define REVIEW_MS          10000
#define REVIEW_MAX_MS      300000
#define CONTAINER_RUNNING  3 /* ContainerState of NRI's api.proto */

struct sandbox {
    char *id, *pod_uid, *namespace, *name, *netns;
    bool judged;      /* its claims were known and their VFs are in it, or it has none */
    unsigned working; /* ensures under way: no review beside them */
};

struct sandboxes {
    struct node *node;
    VEC(struct sandbox *) all;
    struct timer *again; /* reviews what couldn't be judged once more */
    int64_t pause_ms;    /* until then */
};

static void sandbox_free(struct sandbox *sb)
{
    free(sb->id);
    free(sb->pod_uid);
    free(sb->namespace);
    free(sb->name);
    free(sb->netns);
    free(sb);
}

static void review_again(void *data)
{
    sandboxes_review(data);
}

/* With growing pauses: a pod that can't be helped is told of, not shouted about. */
static void review_later(struct sandboxes *s)
{
    if (timer_is_set(s->again))
        return;
    timer_set(s->again, s->pause_ms);
    s->pause_ms = s->pause_ms * 2 > REVIEW_MAX_MS ? REVIEW_MAX_MS : s->pause_ms * 2;
}

struct sandboxes *sandboxes_new(struct node *n)
{
    struct sandboxes *s = xnew(struct sandboxes);

    s->node = n;
    s->pause_ms = REVIEW_MS;
    s->again = timer_new(n->loop, review_again, s);
    return s;
}

void sandboxes_free(struct sandboxes *s)
{
    timer_free(s->again);
    vec_foreach (sb, &s->all)
        sandbox_free(*sb);
    free(s->all.v);
    free(s);
}

static struct sandbox *find(const struct sandboxes *s, const char *id)
{
    vec_foreach (sb, &s->all)
        if (streq((*sb)->id, id))
            return *sb;
    return NULL;
}

/*
 * containerd 2.4.2 forgets its sandboxes for NRI when it restarts, and sends no Stop or Remove for
 * them then (internal/nri/nri.go); that the namespace is gone says as much.
 */
static bool is_alive(const struct sandbox *sb)
{
    return !sb->netns || access(sb->netns, F_OK) == 0;
}

bool sandboxes_alive(const struct sandboxes *s, const char *sandbox_id)
{
    const struct sandbox *sb = find(s, sandbox_id);

    return sb && is_alive(sb);
}

bool sandboxes_have_pod(const struct sandboxes *s, const char *pod_uid)
{
    vec_foreach (sb, &s->all)
        if (streq((*sb)->pod_uid, pod_uid) && is_alive(*sb))
            return true;
    return false;
}

static struct sandbox *add(struct sandboxes *s, const struct nri_pod *p)
{
    struct sandbox *sb = find(s, p->id);

    if (sb)
        return sb;
    sb = xnew(struct sandbox);
    *sb = (struct sandbox){
        .id = xstrdup(p->id),
        .pod_uid = xstrdup(p->uid),
        .namespace = xstrdup(p->namespace),
        .name = xstrdup(p->name),
        .netns = xstrdup(p->netns),
    };
    *VEC_PUSH(&s->all) = sb;
    return sb;
}

static void forget(struct sandboxes *s, const char *id)
{
    vec_foreach (sb, &s->all)
        if (streq((*sb)->id, id)) {
            sandbox_free(*sb);
            *sb = s->all.v[--s->all.n];
            return;
        }
}

/* Why the VFs of a sandbox are looked at. */
enum occasion { ON_RUN, ON_CREATE, ON_REVIEW };

/* One sandbox being brought to have all its VFs. */
struct ensure {
    struct sandboxes *s;
    struct nri_call *call; /* NULL on review */
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

static void ensure_end(struct ensure *en)
{
    struct sandbox *sb = find(en->s, en->sandbox_id);
    _cleanup_free_ char *pod = xasprintf("%s/%s", en->namespace, en->name);
    bool ok = en->err.code == 0;

    if (sb) {
        sb->working -= sb->working > 0; /* made anew by a Synchronize: 0 */
        sb->judged = ok && !en->incomplete;
    }
    if (sb && !sb->judged)
        review_later(en->s);
    if (!ok && en->why == ON_REVIEW)
        log_error_err(&en->err, "pod runs without its VF", "pod", pod, "uid", en->pod_uid,
                      "sandbox", en->sandbox_id);
    else if (!ok)
        log_error_err(&en->err, "pod refused", "pod", pod, "uid", en->pod_uid, "sandbox",
                      en->sandbox_id);
    else if (en->repaired)
        log_warn("pod had started without its VF: repaired", "pod", pod, "uid", en->pod_uid);
    if (en->call)
        nri_reply(en->call, ok ? NULL : err_text(&en->err), NULL);
    ensure_free(en);
}

/*
 * The runtime's time is nearly up. A refusal is retried by the kubelet; silence would close the
 * plugin, and the runtime would go on as if we had agreed. A pod of which nothing is known yet is
 * let go, as where the API server is away.
 */
static void ensure_late(void *data)
{
    struct ensure *en = data;
    bool refuse = !en->resolving;

    log_warn(refuse ? "a pod's VFs weren't ready within the runtime's time: refused"
                    : "a pod's claims weren't known within the runtime's time: let go",
             "pod", en->name, "uid", en->pod_uid);
    nri_reply(TAKE_PTR(en->call),
              refuse ? "sriov-dra: its VFs weren't ready within the runtime's time; tried again"
                     : NULL,
              NULL);
    en->late = refuse;
    if (!refuse)
        en->why = ON_REVIEW;
}

/* Takes back what this sandbox got so far: a pod gets all of its VFs or isn't started. */
static void ensure_undo(struct claim *c, struct err *e, void *data)
{
    struct ensure *en = data;

    (void)c;
    (void)e;
    if (en->why == ON_RUN)
        for (c = claims_next(en->s->node->claims, NULL); c; c = claims_next(en->s->node->claims, c))
            if (!c->busy && streq_null(c->sandbox_id, en->sandbox_id)) {
                claims_detach(en->s->node->claims, c, ensure_undo, en);
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

static bool wants_attach(const struct record *r)
{
    vec_foreach (d, &r->devices)
        if (d->grant.attach == ATTACH_NRI)
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
    log_info("VFs moved into pod", "claim", title, "pod", en->name, "sandbox", en->sandbox_id, "ms",
             clock_ms_since(en->began_us, ms));
    en->repaired |= en->why != ON_RUN;
    node_write_status(en->s->node, c->rec, v);
    ensure_next(en);
}

static void attach(struct ensure *en, struct claim *c)
{
    claims_attach(en->s->node->claims, c, en->sandbox_id, en->pod_uid, en->netns, attached, en);
}

static void checked(struct claim *c, struct err *e, void *data)
{
    struct ensure *en = data;

    if (e)
        attach(en, c);
    else
        ensure_next(en);
}

/* Brings the VFs of one claim, which is ours and set up, into the sandbox. */
static void ensure_claim(struct ensure *en, struct claim *c)
{
    _cleanup_free_ char *title = record_title(c->rec);
    _cleanup_err_ struct err e = ERR_INIT;

    if (!wants_attach(c->rec)) {
        ensure_next(en);
        return;
    }
    if (c->busy)
        err_set(&e, ERR_TRANSIENT, -EBUSY, "still being worked on");
    else if (c->rec->state != RECORD_PREPARED)
        err_set(&e, ERR_TRANSIENT, -EBUSY, "being released");
    else if (!en->netns)
        err_set(&e, ERR_PERMANENT, -EINVAL,
                "the VF's interface can't be moved into a pod with hostNetwork; use a pool with "
                "attach: None");
    else if (c->sandbox_id && !streq(c->pod_uid, en->pod_uid) &&
             sandboxes_alive(en->s, c->sandbox_id))
        err_set(&e, ERR_TRANSIENT, -EBUSY,
                "its VF is in use by another pod (uid %s); a VF serves one pod at a time",
                c->pod_uid);
    if (e.code) {
        ensure_fail(en, title, &e);
        return;
    }
    if (en->why == ON_RUN)
        attach(en, c);
    else
        claims_check(en->s->node->claims, c, en->sandbox_id, en->pod_uid, en->netns, checked, en);
}

static const struct allocation *allocation_of(struct ensure *en, const char *uid)
{
    const struct pod *pod = pods_find(en->s->node->pods, en->pod_uid);

    if (pod)
        vec_foreach (c, &pod->claims)
            if (c->current && streq(c->current->uid, uid))
                return c->current;
    return NULL;
}

static void acquired(struct claim *c, struct err *e, void *data)
{
    struct ensure *en = data;

    if (e) {
        const struct allocation *a = allocation_of(en, en->uids.v[en->next - 1]);
        _cleanup_free_ char *title = a ? xasprintf("%s/%s", a->namespace, a->name) : xstrdup("?");

        ensure_fail(en, title, e);
        return;
    }
    ensure_claim(en, c);
}

static void ensure_next(struct ensure *en)
{
    struct node *n = en->s->node;
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
    bool skipped = true;
    vec_foreach (d, &a->devices)
        skipped &= d->skip_prepare;
    if (skipped) {
        node_acquire(n, a, false, 0, acquired, en);
        return;
    }
    _cleanup_free_ char *title = xasprintf("%s/%s", a->namespace, a->name);
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
    struct node *n = en->s->node;

    en->resolving = false;
    en->incomplete = e != NULL;
    /* What we set up for this pod is known even without the API server. */
    for (struct claim *c = claims_next(n->claims, NULL); c; c = claims_next(n->claims, c))
        vec_foreach (uid, &c->rec->pods)
            if (streq(*uid, en->pod_uid))
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
        if (en->call)
            log_warn_err(e, "can't tell whether a pod has a claim of ours: let go", "pod", en->name,
                         "uid", en->pod_uid);
        ensure_end(en);
        return;
    }
    ensure_next(en);
}

static void ensure(struct sandboxes *s, struct nri_call *call, enum occasion why,
                   struct sandbox *sb)
{
    struct ensure *en = xnew(struct ensure);

    *en = (struct ensure){
        .s = s,
        .call = call,
        .why = why,
        .began_us = clock_mono_us(),
        .sandbox_id = xstrdup(sb->id),
        .pod_uid = xstrdup(sb->pod_uid),
        .namespace = xstrdup(sb->namespace),
        .name = xstrdup(sb->name),
        .netns = xstrdup(sb->netns),
    };
    if (call) {
        en->deadline = timer_new(s->node->loop, ensure_late, en);
        timer_set(en->deadline, nri_request_timeout_ms(s->node->nri) - DEADLINE_MARGIN_MS);
    }
    en->resolving = true;
    sb->working++;
    pods_resolve(s->node->pods, sb->namespace, sb->name, sb->pod_uid, RESOLVE_TIMEOUT_MS, resolved,
                 en);
}

void sandboxes_review(struct sandboxes *s)
{
    if (s->node->stopping || !pods_synced(s->node->pods))
        return;
    for (size_t i = 0; i < s->all.n; i++) {
        struct sandbox *sb = s->all.v[i];

        if (!sb->judged && !sb->working)
            ensure(s, NULL, ON_REVIEW, sb);
    }
}

/* A sandbox that stops: its VFs are moved home one claim after another. */
struct stop {
    struct sandboxes *s;
    struct nri_call *call;
    char *sandbox_id;
    bool removed;
};

static void stop_next(struct claim *c, struct err *e, void *data)
{
    struct stop *st = data;
    struct node *n = st->s->node;

    /* Not an error for anybody: the kernel brings the VF home when the namespace goes. */
    if (e)
        log_info("VFs not moved home at sandbox stop", "sandbox", st->sandbox_id, "why",
                 err_text(e));
    for (c = claims_next(n->claims, NULL); c; c = claims_next(n->claims, c))
        if (!c->busy && streq_null(c->sandbox_id, st->sandbox_id)) {
            claims_detach(n->claims, c, stop_next, st);
            return;
        }
    forget(st->s, st->sandbox_id);
    nri_reply(st->call, NULL, NULL);
    node_review_claims(n);
    free(st->sandbox_id);
    free(st);
}

/* Whether the pod names a claim, as far as is known, or is one that we set up a claim for. */
static bool may_be_ours(struct node *n, const struct nri_pod *pod)
{
    const struct pod *known = pods_find(n->pods, pod->uid);

    for (struct claim *c = claims_next(n->claims, NULL); c; c = claims_next(n->claims, c))
        vec_foreach (uid, &c->rec->pods)
            if (streq(*uid, pod->uid))
                return true;
    return known && known->claims.n > 0;
}

static void on_event(struct nri_call *call, enum nri_event ev, const struct nri_pod *pod,
                     const struct nri_container *container, void *data)
{
    struct node *n = data;
    struct sandboxes *s = n->sandboxes;
    struct stop *st;

    (void)container;
    if (n->stopping && (ev == NRI_RUN_SANDBOX || ev == NRI_CREATE_CONTAINER)) {
        nri_reply(call, may_be_ours(n, pod) ? "sriov-dra: the driver is stopping" : NULL, NULL);
        return;
    }
    switch (ev) {
    case NRI_RUN_SANDBOX:
        ensure(s, call, ON_RUN, add(s, pod));
        break;
    case NRI_CREATE_CONTAINER:
        ensure(s, call, ON_CREATE, add(s, pod));
        break;
    case NRI_STOP_SANDBOX:
    case NRI_REMOVE_SANDBOX:
        st = xnew(struct stop);
        *st = (struct stop){.s = s, .call = call, .sandbox_id = xstrdup(pod->id)};
        stop_next(NULL, NULL, st);
        break;
    }
}

/*
 * The runtime also lists sandboxes that are stopped: their namespace is gone, or not told any more.
 * One without a namespace that has a running container is a hostNetwork pod's.
 */
static bool is_live(const struct nri_pod *p, const nri_container_vec *containers)
{
    if (p->netns)
        return access(p->netns, F_OK) == 0;
    vec_foreach (c, containers)
        if (streq(c->sandbox_id, p->id) && c->state == CONTAINER_RUNNING)
            return true;
    return false;
}

static void on_synchronize(const nri_pod_vec *pods, const nri_container_vec *containers, void *data)
{
    struct node *n = data;
    struct sandboxes *s = n->sandboxes;

    for (size_t i = s->all.n; i-- > 0;) {
        bool there = false;

        vec_foreach (p, pods)
            there |= streq(p->id, s->all.v[i]->id);
        if (!there)
            forget(s, s->all.v[i]->id);
    }
    vec_foreach (p, pods)
        if (is_live(p, containers))
            add(s, p)->judged = false;
    s->pause_ms = REVIEW_MS;
    for (struct claim *c = claims_next(n->claims, NULL); c; c = claims_next(n->claims, c))
        if (!c->busy && c->sandbox_id && !sandboxes_alive(s, c->sandbox_id))
            claims_forget_place(c);
    sandboxes_review(s);
    node_review_claims(n);
}

static void on_state(bool connected, const char *text, void *data)
{
    struct node *n = data;

    if (n->stopping)
        return;
    if (connected)
        log_info("connected to the runtime's NRI", "runtime", text);
    else
        log_warn("no NRI connection: pods can't get their VFs", "socket", n->c.nri_socket, "why",
                 text);
}

const struct nri_handlers sandboxes_nri_handlers = {
    .state = on_state,
    .synchronize = on_synchronize,
    .event = on_event,
};
