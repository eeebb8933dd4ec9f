/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/naming.h"

static void run(struct job *j)
{
    inventory_fill_names(&container_of(j, struct naming, job)->named);
}

static void finished(struct job *j)
{
    struct naming *n = container_of(j, struct naming, job);

    n->done(n, n->data);
}

void naming_start(struct naming *n, struct worker *w, const struct inventory *inv)
{
    n->job = (struct job){.run = run, .done = finished};
    inventory_copy_ids(&n->named, inv);
    worker_submit(w, &n->job);
}

void naming_done(struct naming *n)
{
    inventory_done(&n->named);
    n->named = (struct inventory){0};
}
