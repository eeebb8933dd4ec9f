/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims that the kubelet doesn't unprepare: released when every pod of this node that names them
 * is gone or finished and their sandbox is stopped.
 */
#include "base/log.h"
#include "driver/node.h"
#include "driver/sandboxes.h"

#include <errno.h>

#define REVIEW_MS      10000
#define ASK_TIMEOUT_MS 10000

/*
 * By pods that name it, and by sandboxes that live on although their pod's object is gone (deleted
 * by force).
 */
bool node_claim_in_use(struct node *n, const struct claim *c)
{
    if (pods_need_claim(n->pods, c->rec))
        return true;
    vec_foreach (uid, &c->rec->pods)
        if (sandboxes_have_pod(n->sandboxes, *uid))
            return true;
    return c->sandbox_id && sandboxes_alive(n->sandboxes, c->sandbox_id);
}

static void released(struct claim *c, struct err *e, void *data)
{
    struct node *n = data;

    if (!e)
        return;
    timer_set(n->review, REVIEW_MS);
    if (!attempts_news(&c->tries, err_text(e)))
        return;
    _cleanup_free_ char *title = record_title(c->rec);
    log_warn_err(e, "claim not released yet: tried again", "claim", title, "uid", c->rec->uid);
}

static void release(struct node *n, struct claim *c)
{
    if (c->rec->state != RECORD_RELEASING) {
        _cleanup_free_ char *title = record_title(c->rec);
        log_info("releasing claim: no pod needs it", "claim", title, "uid", c->rec->uid);
    }
    claims_release(n->claims, c, HOME_WAIT_MS, released, n);
}

/* Whether the claim, as it was read, is at its end: nothing may use it any more. */
static bool is_over(const json_t *claim, const char *uid)
{
    return !claim || !streq_null(json_str_at(claim, "metadata.uid"), uid) ||
           json_array_size(json_at(claim, "status.reservedFor")) == 0;
}

struct doubt {
    struct node *node;
    char *uid;
};

/* What the API says of a claim whose pods were never seen here. */
static void doubt_ends(const json_t *claim, struct err *e, void *data)
{
    struct doubt *d = data;
    struct node *n = d->node;
    struct claim *c = claims_find(n->claims, d->uid);

    if (c) {
        c->asked = false;
        if ((claim || e->code == -ENOENT) && is_over(claim, d->uid))
            c->pods_seen = true;
        if (c->pods_seen)
            node_review_claims(n);
        else if (!e || e->code != -ESHUTDOWN)
            timer_set(n->review, REVIEW_MS);
    }
    free(d->uid);
    free(d);
}

/*
 * A claim without pods that was set up by a call: the kubelet may have seen its pod before our
 * watch did. It is the API's to say that there is none.
 */
static void ask(struct node *n, struct claim *c)
{
    struct doubt *d = xnew(struct doubt);

    *d = (struct doubt){.node = n, .uid = xstrdup(c->rec->uid)};
    c->asked = true;
    pods_fetch_claim(n->pods, c->rec->namespace, c->rec->name, ASK_TIMEOUT_MS, 0, doubt_ends, d);
}

/*
 * One that failed: what it writes, the kernel tells, and what the kernel tells, brings us here
 * again.
 */
static void release_again(struct node *n, struct claim *c)
{
    int64_t soonest = 0;

    if (attempts_may(&c->tries, clock_now(loop_clock(n->loop)), &soonest))
        release(n, c);
    else
        timer_set(n->review, REVIEW_MS);
}

static void review(struct node *n, struct claim *c)
{
    const struct record *r = c->rec;

    if (c->busy)
        return;
    if (r->state == RECORD_RELEASING) {
        if (c->retry_release)
            release_again(n, c);
        return;
    }
    if (r->unprepare_comes || r->state != RECORD_PREPARED || !pods_synced(n->pods))
        return;
    if (node_claim_in_use(n, c))
        c->pods_seen = true;
    else if (c->pods_seen)
        release(n, c);
    else if (!c->asked)
        ask(n, c);
}

void node_review_claims(struct node *n)
{
    struct claim *next;

    if (n->stopping || !n->pods || !n->sandboxes)
        return;
    for (struct claim *c = claims_next(n->claims, NULL); c; c = next) {
        next = claims_next(n->claims, c);
        review(n, c);
    }
}
