/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/shares.h"

#include "base/log.h"

static struct share share_of(const struct node *n, const struct pool *pool)
{
    struct share s = {.told = true, .meant = pool_matches_node(pool, n->labels)};

    vec_foreach (pf, &n->inv.pfs)
        vec_foreach (vf, &pf->vfs) {
            if (!s.meant || !pool_selects(pool, n->c.name, pf, vf))
                continue;
            bool has = pools_find(&n->pools, n->c.name, n->labels, pf, vf) == pool;

            s.vfs += has;
            s.others += !has;
        }
    return s;
}

/* A pool that has nothing here, or less than it selects, is a mistake more often than not. */
static void tell_share(const struct pool *pool, const struct share *s)
{
    _cleanup_free_ char *vfs = xasprintf("%zu", s->vfs), *others = xasprintf("%zu", s->others);

    if (!s->meant)
        log_info("pool isn't for this node: the node's labels differ", "pool", pool->name);
    else if (s->others)
        log_warn("pool selects VFs that a pool before it has", "pool", pool->name, "vfs", vfs,
                 "others", others);
    else if (!s->vfs)
        log_warn("pool has no VF here: it selects none of those that `sriov-dra inventory` shows",
                 "pool", pool->name);
    else
        log_info("pool", "pool", pool->name, "vfs", vfs);
}

void shares_tell(const struct node *n, share_vec *told)
{
    const struct pools *ps = &n->pools;

    if (!n->labels) /* the Node object isn't known yet */
        return;
    for (size_t i = 0; i < ps->pools.n; i++) {
        struct share now = share_of(n, &ps->pools.v[i]);
        struct share *old = i < told->n ? &told->v[i] : VEC_PUSH(told);

        if (!old->told || old->meant != now.meant || old->vfs != now.vfs ||
            old->others != now.others)
            tell_share(&ps->pools.v[i], &now);
        *old = now;
    }
}
