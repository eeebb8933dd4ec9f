/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims that the kubelet doesn't unprepare: released when every pod of this node that names them
 * is gone or finished and their sandbox is stopped.
 */
#include "base/log.h"
#include "driver/node.h"
#include "driver/sandboxes.h"

#define REVIEW_MS 10000

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
    _cleanup_free_ char *title = record_title(c->rec);
    log_warn_err(e, "claim not released yet: tried again", "claim", title, "uid", c->rec->uid);
    timer_set(n->review, REVIEW_MS);
}

static bool is_due(struct node *n, const struct claim *c)
{
    const struct record *r = c->rec;

    if (c->busy)
        return false;
    if (r->state == RECORD_RELEASING)
        return c->retry_release;
    if (r->by_kubelet || r->state != RECORD_PREPARED || !pods_synced(n->pods))
        return false;
    return !node_claim_in_use(n, c);
}

void node_review_claims(struct node *n)
{
    struct claim *next;

    if (n->stopping || !n->pods || !n->sandboxes)
        return;
    for (struct claim *c = claims_next(n->claims, NULL); c; c = next) {
        next = claims_next(n->claims, c);
        if (!is_due(n, c))
            continue;
        _cleanup_free_ char *title = record_title(c->rec);
        log_info("releasing claim: no pod needs it", "claim", title, "uid", c->rec->uid);
        claims_release(n->claims, c, HOME_WAIT_MS, released, n);
    }
}
