/* SPDX-License-Identifier: Apache-2.0 */
/* The VF that a benchmark works on. */
#pragma once

#include "sriov/plan.h"

/* Reads VF `index` of the interface `pf`, which must be home, and its originals. Blocks. */
int bench_find_vf(const struct hw *hw, const char *pf, unsigned index, struct vf_state *ret,
                  struct vf_original *ret_original, struct err *e);
