/* SPDX-License-Identifier: Apache-2.0 */
/* Which VFs of the node are somebody's. Main thread only. */
#pragma once

#include "driver/node.h"
#include "driver/provision.h"

/*
 * Whether it is known which VFs this node's pods are to have. A claim that the kubelet skips is in
 * no record between its allocation and its pod's sandbox.
 */
bool holders_known(const struct node *n);

/* All VFs that claims have now, and that claims of this node's pods were given. */
void holders_list(struct node *n, provision_holder_vec *out);
