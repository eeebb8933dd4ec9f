/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/claims.h"

#include "driver/metrics.h"

#include <errno.h>

#define RETRY_MS     100  /* a VF comes home within 0.1 s as a rule (docs/hardware.md) */
#define LOCK_WAIT_MS 5000 /* a hook holds the lock while it attaches, some 0.1 s */

struct claims {
    struct loop *loop;
    struct worker *worker;
    struct hands *hands;
    claims_change_fn *changed;
    void *data;
    bool no_waiting;
    VEC(struct claim *) claims;
};

enum op_kind { OP_ACQUIRE, OP_RELEASE, OP_ATTACH, OP_DETACH, OP_CHECK };

/* One operation on one claim, from its start to its callback. */
struct op {
    struct job job;
    enum op_kind kind;
    struct claims *claims;
    struct claim *claim;
    struct hands *hands;
    struct record *rec; /* the worker's copy */
    char *netns, *sandbox_id, *pod_uid;
    char *noted; /* by a check: the sandbox in which the attachment was completed */
    int64_t deadline, began_us;
    struct timer *retry;
    claim_fn *fn;
    claim_attach_fn *attach_fn;
    void *data;

    int result;
    bool away;
    struct err err;
    attachment_vec attachments;
};

struct claims *claims_new(struct loop *l, struct worker *w, struct hands *hands,
                          claims_change_fn *changed, void *data)
{
    struct claims *cs = xnew(struct claims);

    *cs = (struct claims){.loop = l, .worker = w, .hands = hands, .changed = changed, .data = data};
    return cs;
}

static void claim_free(struct claim *c)
{
    record_free(c->rec);
    free(c->sandbox_id);
    free(c->pod_uid);
    free(c->netns);
    free(c->complete_in);
    attempts_done(&c->tries);
    free(c);
}

void claims_free(struct claims *cs)
{
    vec_foreach (c, &cs->claims)
        claim_free(*c);
    free(cs->claims.v);
    free(cs);
}

void claims_stop_waiting(struct claims *cs)
{
    cs->no_waiting = true;
}

struct claim *claims_add(struct claims *cs, struct record *rec)
{
    struct claim *c = xnew(struct claim);

    c->rec = rec;
    *VEC_PUSH(&cs->claims) = c;
    cs->changed(rec, false, cs->data);
    return c;
}

static void drop(struct claims *cs, struct claim *c)
{
    vec_foreach (it, &cs->claims)
        if (*it == c) {
            *it = cs->claims.v[--cs->claims.n];
            break;
        }
    cs->changed(c->rec, true, cs->data);
    claim_free(c);
}

struct claim *claims_find(struct claims *cs, const char *uid)
{
    vec_foreach (c, &cs->claims)
        if (streq((*c)->rec->uid, uid))
            return *c;
    return NULL;
}

struct claim *claims_holder(struct claims *cs, const char *device)
{
    vec_foreach (c, &cs->claims)
        vec_foreach (d, &(*c)->rec->devices)
            if (streq(d->grant.device, device))
                return *c;
    return NULL;
}

struct claim *claims_next(struct claims *cs, const struct claim *after)
{
    bool take = !after;

    vec_foreach (c, &cs->claims) {
        if (take)
            return *c;
        take = *c == after;
    }
    return NULL;
}

struct claim *claims_next_of_pod(struct claims *cs, const char *pod_uid, const struct claim *after)
{
    for (struct claim *c = claims_next(cs, after); c; c = claims_next(cs, c))
        vec_foreach (uid, &c->rec->pods)
            if (streq(*uid, pod_uid))
                return c;
    return NULL;
}

static void set_place(struct claim *c, const char *sandbox_id, const char *pod_uid,
                      const char *netns)
{
    free(c->sandbox_id);
    free(c->pod_uid);
    free(c->netns);
    c->sandbox_id = xstrdup(sandbox_id);
    c->pod_uid = xstrdup(pod_uid);
    c->netns = xstrdup(netns);
}

void claims_add_pod(struct claim *c, const char *pod_uid)
{
    vec_foreach (uid, &c->rec->pods)
        if (streq(*uid, pod_uid))
            return;
    *VEC_PUSH(&c->rec->pods) = xstrdup(pod_uid);
}

void claims_forget_place(struct claim *c)
{
    set_place(c, NULL, NULL, NULL);
}

/*
 * Whether it moves VFs, or decides by where they are: a hook, which does so too, is kept out
 * meanwhile. Acquiring needs no lock, since a hook serves no claim that isn't prepared yet.
 */
static bool needs_lock(enum op_kind kind)
{
    switch (kind) {
    case OP_RELEASE:
    case OP_ATTACH:
    case OP_DETACH:
        return true;
    case OP_ACQUIRE:
    case OP_CHECK:
        return false;
    }
    return true;
}

static void run(struct job *j)
{
    struct op *o = container_of(j, struct op, job);
    _cleanup_close_ int lock = -1;

    err_clear(&o->err);
    o->away = false;
    if (needs_lock(o->kind)) {
        o->result = store_lock(&o->hands->store, LOCK_WAIT_MS, &lock, &o->err);
        if (o->result < 0)
            return;
    }
    switch (o->kind) {
    case OP_ACQUIRE:
        o->result = claim_acquire(o->hands, o->rec, &o->away, &o->err);
        break;
    case OP_RELEASE:
        o->result = claim_release(o->hands, o->rec, &o->away, &o->err);
        break;
    case OP_ATTACH:
        o->result =
            claim_attach(o->hands, o->rec, o->sandbox_id, o->netns, &o->attachments, &o->err);
        break;
    case OP_DETACH:
        o->result = claim_detach(o->hands, o->rec, o->netns, &o->err);
        break;
    case OP_CHECK:
        o->result = claim_check(o->rec, o->netns, &o->attachments, &o->err);
        /* Read last: the note comes when all is there. */
        if (o->result == 0)
            o->noted = store_sandbox(&o->hands->store, o->rec->uid);
        break;
    }
}

static void count(const struct op *o)
{
    const struct err *e = o->result == 0 ? NULL : &o->err;

    switch (o->kind) {
    case OP_RELEASE:
        metrics_operation(METRIC_RELEASE, e, o->began_us);
        break;
    case OP_ATTACH:
        metrics_operation(METRIC_ATTACH, e, o->began_us);
        break;
    case OP_DETACH:
        metrics_operation(METRIC_DETACH, e, o->began_us);
        break;
    case OP_ACQUIRE: /* a part of Prepare, or of a sandbox's start */
    case OP_CHECK:
        break;
    }
}

static void finish(struct op *o)
{
    struct claims *cs = o->claims;
    struct claim *c = o->claim;
    int64_t now = clock_now(loop_clock(cs->loop));
    bool ok = o->result == 0;

    count(o);
    c->busy = false;
    switch (o->kind) {
    case OP_ACQUIRE:
        /* RELEASING: a failed roll-back, whose journal stays; released later */
        if (ok || o->rec->state == RECORD_RELEASING) {
            if (!ok)
                attempts_note(&c->tries, now);
            record_free(c->rec);
            c->rec = TAKE_PTR(o->rec);
            c->retry_release = !ok;
        } else if (c->rec->state != RECORD_PREPARED) { /* else: asked again, and still prepared */
            drop(cs, c);
            c = NULL;
        }
        break;
    case OP_RELEASE:
        if (ok) {
            drop(cs, c);
            c = NULL;
        } else {
            c->retry_release = true;
            if (!o->away) /* one that is away costs reading only, and comes home in its own time */
                attempts_note(&c->tries, now);
        }
        break;
    case OP_CHECK:
        free(c->complete_in);
        c->complete_in = TAKE_PTR(o->noted);
        /* fallthrough */
    case OP_ATTACH:
        if (ok)
            set_place(c, o->sandbox_id, o->pod_uid, o->netns);
        break;
    case OP_DETACH:
        /* Even where moving failed: the kernel brings the VF home when the namespace goes. */
        claims_forget_place(c);
        break;
    }
    if (o->attach_fn)
        o->attach_fn(c, ok ? NULL : &o->err, &o->attachments, o->data);
    else if (o->fn)
        o->fn(c, ok ? NULL : &o->err, o->data);

    timer_free(o->retry);
    record_free(o->rec);
    attachment_vec_done(&o->attachments);
    err_clear(&o->err);
    free(o->netns);
    free(o->sandbox_id);
    free(o->pod_uid);
    free(o->noted);
    free(o);
}

static void submit(void *data)
{
    struct op *o = data;

    worker_submit(o->claims->worker, &o->job);
}

static void done(struct job *j)
{
    struct op *o = container_of(j, struct op, job);
    int64_t now = clock_now(loop_clock(o->claims->loop));

    if (o->result < 0 && o->away && now + RETRY_MS <= o->deadline && !o->claims->no_waiting)
        timer_set(o->retry, RETRY_MS);
    else
        finish(o);
}

static struct op *start(struct claims *cs, struct claim *c, enum op_kind kind, void *data)
{
    struct op *o = xnew(struct op);

    *o = (struct op){
        .job = {.run = run, .done = done},
        .kind = kind,
        .claims = cs,
        .claim = c,
        .hands = cs->hands,
        .began_us = clock_mono_us(),
        .rec = record_copy(c->rec),
        .data = data,
    };
    o->retry = timer_new(cs->loop, submit, o);
    c->busy = true;
    return o;
}

void claims_acquire(struct claims *cs, struct claim *c, int64_t wait_ms, claim_fn *fn, void *data)
{
    struct op *o = start(cs, c, OP_ACQUIRE, data);

    o->fn = fn;
    o->deadline = clock_now(loop_clock(cs->loop)) + wait_ms;
    submit(o);
}

void claims_release(struct claims *cs, struct claim *c, int64_t wait_ms, claim_fn *fn, void *data)
{
    struct op *o = start(cs, c, OP_RELEASE, data);

    c->retry_release = false;
    c->rec->state =
        RECORD_RELEASING; /* the worker's copy keeps the old one, and journals the new */
    o->fn = fn;
    o->deadline = clock_now(loop_clock(cs->loop)) + wait_ms;
    submit(o);
}

/* An operation on a certain sandbox. */
static struct op *start_in(struct claims *cs, struct claim *c, enum op_kind kind,
                           const char *sandbox_id, const char *pod_uid, const char *netns,
                           void *data)
{
    struct op *o = start(cs, c, kind, data);

    o->sandbox_id = xstrdup(sandbox_id);
    o->pod_uid = xstrdup(pod_uid);
    o->netns = xstrdup(netns);
    return o;
}

void claims_attach(struct claims *cs, struct claim *c, const char *sandbox_id, const char *pod_uid,
                   const char *netns, claim_attach_fn *fn, void *data)
{
    struct op *o = start_in(cs, c, OP_ATTACH, sandbox_id, pod_uid, netns, data);

    o->attach_fn = fn;
    submit(o);
}

void claims_check(struct claims *cs, struct claim *c, const char *sandbox_id, const char *pod_uid,
                  const char *netns, claim_attach_fn *fn, void *data)
{
    struct op *o = start_in(cs, c, OP_CHECK, sandbox_id, pod_uid, netns, data);

    o->attach_fn = fn;
    submit(o);
}

void claims_detach(struct claims *cs, struct claim *c, claim_fn *fn, void *data)
{
    struct op *o = start_in(cs, c, OP_DETACH, c->sandbox_id, c->pod_uid, c->netns, data);

    o->fn = fn;
    submit(o);
}
