/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims that the kubelet doesn't unprepare: released when every pod of this node that names them
 * is gone or finished and their sandbox is stopped.
 */
#include "base/log.h"
#include "driver/node.h"
#include "driver/sandboxes.h"

static void released(struct claim *c, struct err *e, void *data)
{
    struct node *n = data;

    (void)n;
    if (!e)
        return;
    _cleanup_free_ char *title = record_title(c->rec);
    if (c->waits_for_home)
        log_warn_err(e, "claim not released yet", "claim", title, "uid", c->rec->uid);
    else
        log_error_err(e, "claim not released", "claim", title, "uid", c->rec->uid);
}

static bool is_due(struct node *n, const struct claim *c)
{
    const struct record *r = c->rec;

    if (c->busy)
        return false;
    if (r->state == RECORD_RELEASING)
        return c->waits_for_home;
    if (r->by_kubelet || r->state != RECORD_PREPARED || !pods_synced(n->pods))
        return false;
    if (pods_need_claim(n->pods, r->namespace, r->name, r->pods.v, r->pods.n))
        return false;
    return !c->sandbox_id || !sandboxes_alive(n->sandboxes, c->sandbox_id);
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
