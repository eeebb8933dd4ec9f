/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Central provisioning while the node's driver runs: what `provision` does once, done at start and
 * whenever a look at the hardware shows that it isn't so any more. Main thread only.
 *
 * A PF is brought up and its VFs are made on a worker of its own, started for it: a card may take
 * minutes. A VF is set up, or put right again, on the `vf` worker, one at a time, so that it can't
 * cross with a claim: a VF that a claim has isn't touched, and a claim that comes while one is
 * worked on is behind it in the queue. What fails is tried again with growing pauses.
 */
#pragma once

#include "driver/node.h"

/* Starts what is to be done by what the observer's first look saw. */
int provisioning_new(struct node *n, struct provisioning **ret, struct err *e);
/* Idle, or the process ends. */
void provisioning_free(struct provisioning *p);
DEFINE_CLEANUP(struct provisioning, provisioning_free)

/* Whether no PF is worked on. */
bool provisioning_idle(const struct provisioning *p);

/* After each look: starts what is to be done. */
void provisioning_review(struct provisioning *p);

/* Whether this PF is worked on, and its VFs may go and come: who wants one waits. */
bool provisioning_has_pf(const struct provisioning *p, const char *pf_address);
