/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pod sandboxes of this node, from NRI, and the VFs moved into them: attached when a sandbox runs,
 * checked before each container, moved home when it stops. What slipped through while the driver or
 * its connection was away is found at Synchronize, and repaired or reported.
 */
#pragma once

#include "driver/node.h"

/* The table of handlers for nri_new(); data is the node. */
extern const struct nri_handlers sandboxes_nri_handlers;

struct sandboxes *sandboxes_new(struct node *n);
void sandboxes_free(struct sandboxes *s);
DEFINE_CLEANUP(struct sandboxes, sandboxes_free)

/* Whether the runtime still has the sandbox, as far as we were told. */
bool sandboxes_alive(const struct sandboxes *s, const char *sandbox_id);

/* Whether a sandbox of this pod lives. */
bool sandboxes_have_pod(const struct sandboxes *s, const char *pod_uid);

/* Looks again at sandboxes that couldn't be judged: the pods are known now. */
void sandboxes_review(struct sandboxes *s);
