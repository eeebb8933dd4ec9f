/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.devices of claims: what their VFs look like in the pod (KEP-4817). One write of a claim is
 * under way at a time, so that an older one can't land last; a newer replaces what waits. What the
 * API server doesn't take for now is tried again while the claim is ours. Main thread only.
 */
#pragma once

#include "driver/hands.h"

struct node;
struct statuses;

struct statuses *statuses_new(struct node *n);
/* What isn't written by then is written by the next start, which finds it missing. */
void statuses_free(struct statuses *s);

/* Writes how the claim's VFs came out in the pod; all it needs is copied. */
void status_write(struct statuses *s, const struct record *rec, const attachment_vec *v);
