/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sandbox being brought to have all the VFs of its pod's claims: the claims found, acquired
 * where the kubelet was told to skip that, and their VFs moved in, or the pod refused.
 */
#pragma once

#include "driver/node.h"

#define NRI_MARGIN_MS 300 /* what an answer is given before the runtime's time is up */

/* Why the VFs of a sandbox are looked at. */
enum occasion { ON_RUN, ON_CREATE, ON_REVIEW };

/* `judged`: its claims were known and their VFs are in it, or it has none. */
typedef void ensure_fn(const char *sandbox_id, bool judged, void *data);

/*
 * Answers `call` (NULL on review) within the runtime's time, as well as it can by then, and goes on
 * to the end; then calls `done`. `pod` is borrowed for the call.
 */
void ensure_vfs(struct node *n, struct nri_call *call, enum occasion why, const struct nri_pod *pod,
                ensure_fn *done, void *data);
