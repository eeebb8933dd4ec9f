/* SPDX-License-Identifier: Apache-2.0 */
/* The hands of a provisioning plan. All calls block. */
#pragma once

#include "driver/provision.h"

/*
 * Looks at those VFs of our PFs in in->inv that a plan may have to do with; reads in->pools, node
 * and labels besides.
 */
void provision_look(const struct hw *hw, const struct provision_input *in, provision_vf_vec *ret);

/* What was done on one PF. */
struct provision_report {
    bool raised;           /* the PF is up now */
    unsigned made;         /* VFs */
    unsigned set;          /* VFs whose settings were changed */
    VEC(char *) failures;  /* with PF, VF, setting and the kernel's text */
    VEC(char *) obstacles; /* what turned out to be in the way */
    int64_t us;
};
void provision_report_done(struct provision_report *r);

/* How long new VFs and their interfaces are waited for; how long a link, where one is needed. */
#define PROVISION_VFS_MS  10000
#define PROVISION_LINK_MS 10000

/*
 * Carries out the steps of one PF's plan. VFs that were made are looked at and decided on anew,
 * and set up in the same go unless `count_only`. A step of the PF that fails ends it; a VF that
 * fails keeps no other from being tried. `in` as the plan was made from; its `inv` and `seen`
 * aren't used.
 */
void provision_run(const struct hw *hw, const struct provision_input *in,
                   const struct provision_pf *plan, bool count_only, struct provision_report *ret);
