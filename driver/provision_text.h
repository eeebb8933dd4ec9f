/* SPDX-License-Identifier: Apache-2.0 */
/* A provisioning plan and what became of it, for people and for programs. */
#pragma once

#include "driver/provision_run.h"

#include <stdio.h>

/*
 * Reads like a diff: "-" what goes, "+" what comes, "~" what changes in place, "!" what would
 * change and who or what is in the way. `colour`: with the terminal's escape sequences.
 */
void provision_print(FILE *f, const struct provision_plan *p, bool colour);

/* "vlan 0 -> 100, mtu 9000"; the caller frees it. */
char *provision_changes_text(const vf_difference_vec *v);

/* One PF's report, one line and those of what failed. */
void provision_print_report(FILE *f, const struct provision_pf *pf,
                            const struct provision_report *r, bool colour);

/* One PF for programs; `r` NULL: nothing was done. Members are added, never renamed or dropped. */
json_t *provision_pf_json(const struct provision_pf *pf, const struct provision_report *r);
json_t *provision_problems_json(const pool_problem_vec *v);
