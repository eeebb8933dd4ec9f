/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the node's picture of its hardware true: re-reads inventory and the state of free VFs when
 * the kernel reports a change, after a claim is released, and every few minutes; then has the offer
 * published. Reading blocks, so it happens on a thread of its own with its own netlink socket.
 */
#pragma once

#include "driver/node.h"
#include "driver/verify.h"

/* Reads once, blocking, so that the node starts with a picture. */
int observe_new(struct node *n, struct observe **ret, struct err *e);
void observe_free(struct observe *o);
DEFINE_CLEANUP(struct observe, observe_free)

/* Whether no look is under way: then observe_free() loses nothing. */
bool observe_idle(const struct observe *o);

/* What the last look saw; until the next. */
const vf_fact_vec *observe_facts(const struct observe *o);

/* Something may have changed: look again after a short settle time. */
void observe_dirty(struct observe *o);

/* The node has other labels: looks again, at once, if other pools may be meant for it now. */
void observe_labels_changed(struct observe *o);

/* A claim took this device, or gave it back: what was seen of it before means nothing now. */
void observe_device_changed(struct observe *o, const char *device);

/*
 * Computes the offer from what is known now, and hands it to the publisher. Does nothing while the
 * first names are looked up, or labels changed and nothing was looked at since: then it follows.
 */
void observe_publish(struct observe *o);
