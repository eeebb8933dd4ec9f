/* SPDX-License-Identifier: Apache-2.0 */
/* The hands of a plan, for the room itself. */
#pragma once

#include "sriov/plan.h"

struct vf_run {
    const struct hw *hw;
    const struct vf_state *s; /* the plan was made from it */
    bool had_mark;            /* the PF's MAC entry turned out to be an administrator's */
    bool kept_mark;           /* one that was to be taken off stayed: it says nothing */
};

/* vf_plan_run(), with what was found on the way in `run`. Blocks. */
int vf_run_plan(struct vf_run *run, const struct vf_plan *p, struct err *e);

/* Undoes all of a plan that was run, in reverse order; the first error is told. Blocks. */
int vf_run_undo(struct vf_run *run, const struct vf_plan *p, struct err *e);

/*
 * Runs a plan that was made from `before`, reads back, and compares: -EIO with the differences if
 * the kernel accepted but didn't do, and then it is undone. `o` says which VF. With nothing in the
 * plan `before` is what is read. It is moved to *ret_after (which may be NULL). Blocks.
 */
int vf_carry_out(const struct hw *hw, const struct vf_original *o, const struct vf_settings *want,
                 struct vf_state *before, const struct vf_plan *p, struct vf_state *ret_after,
                 struct err *e);

/*
 * Renames an interface. An alternative name of its own that equals the new name is removed: the
 * kernel and udev leave the old name as one, and the rename is then refused with EEXIST.
 */
int link_rename(struct nl_transport *nl, int ifindex, const char *name, struct err *e);
