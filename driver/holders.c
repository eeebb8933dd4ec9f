/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/holders.h"

bool holders_known(const struct node *n)
{
    if (!n->pods || !pods_synced(n->pods))
        return false;
    for (const struct pod *p = pods_next(n->pods, NULL); p; p = pods_next(n->pods, p))
        vec_foreach (c, &p->claims)
            if (!p->finished && !c->fetched)
                return false;
    return true;
}

static void copy_allocated(struct node *n, const struct pod *p, provision_holder_vec *out)
{
    vec_foreach (c, &p->claims) {
        if (p->finished || !c->current)
            continue;
        vec_foreach (d, &c->current->devices) {
            struct provision_holder h = {0};

            if (!streq(d->pool, n->c.name) || !device_address(d->device, h.address))
                continue;
            h.who = xasprintf("pod %s/%s, by its claim %s,", p->namespace, p->name, c->name);
            *VEC_PUSH(out) = h;
        }
    }
}

void holders_list(struct node *n, provision_holder_vec *out)
{
    for (struct claim *c = claims_next(n->claims, NULL); c; c = claims_next(n->claims, c)) {
        _cleanup_free_ char *title = record_title(c->rec);

        vec_foreach (d, &c->rec->devices) {
            struct provision_holder *h = VEC_PUSH(out);

            memcpy(h->address, d->grant.vf_address, sizeof(h->address));
            h->who = xasprintf("claim %s (uid %s)", title, c->rec->uid);
        }
    }
    if (n->pods)
        for (const struct pod *p = pods_next(n->pods, NULL); p; p = pods_next(n->pods, p))
            copy_allocated(n, p, out);
}
