/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Kubernetes demands of ResourceSlices, as far as this driver could get it wrong: the API
 * server of each slice (pkg/apis/resource/validation, 1.37.2), the scheduler of a pool
 * (dynamic-resource-allocation/structured). Written from those sources, not from ours.
 */
#pragma once

#include "driver/slices.h"

/* What is wrong with a device or a slice, NULL if nothing is; the caller frees it. */
char *device_fault(const json_t *device);
char *slice_fault(const json_t *slice);

/*
 * What the scheduler would refuse a pool for: in its newest generation a device twice, slices that
 * disagree on their count, or more of them than that. NULL if nothing; the caller frees it.
 */
char *pool_fault(const json_vec *slices);

/* Whether the scheduler would allocate from it: the newest generation is all there. */
bool pool_is_complete(const json_vec *slices);
