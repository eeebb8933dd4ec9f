/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of an inventory's vendors and devices, looked up on a worker. libpci parses its whole
 * list for that, which is most of the work of a start after the loader's: meanwhile the node goes
 * on.
 */
#pragma once

#include "base/worker.h"
#include "sriov/inventory.h"

struct naming {
    struct job job;
    struct inventory named; /* ids, and then their names: for inventory_copy_names() */
    void (*done)(struct naming *n, void *data);
    void *data;
};

/* Begins; doesn't block. `n` is zeroed, and stays until done() ran on the loop's thread. */
void naming_start(struct naming *n, struct worker *w, const struct inventory *inv);

/* Frees what it holds; not while it is at work. */
void naming_done(struct naming *n);
