/* SPDX-License-Identifier: Apache-2.0 */
/* How many of the node's VFs each pool has, for the log: a pool that has none is often a mistake.
 */
#pragma once

#include "driver/node.h"

/* What a pool has here. */
struct share {
    bool told, meant;   /* meant: for this node */
    size_t vfs, others; /* others: that it selects too, but a pool before it has */
};
typedef VEC(struct share) share_vec;

/* Logs what isn't as it was told, pool by pool; nothing while the node's labels aren't known. */
void shares_tell(const struct node *n, share_vec *told);
