/* SPDX-License-Identifier: Apache-2.0 */
/* What a claim was granted, without how that was decided. */
#include "driver/contract.h"

void grant_done(struct grant *g)
{
    free(g->request);
    free(g->pool);
    free(g->device);
    free(g->share_id);
    free(g->alternative);
    free(g->pool_document);
    interface_request_done(&g->interface);
    *g = (struct grant){0};
}

void grant_vec_done(grant_vec *v)
{
    vec_foreach (g, v)
        grant_done(g);
    free(v->v);
    *v = (grant_vec){0};
}
