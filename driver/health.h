/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the node driver answers over HTTP: /healthz (the main loop turns, no more), /readyz (it can
 * serve pods, or what is missing for that) and /metrics.
 */
#pragma once

#include "driver/node.h"

/* Listens at n->c.metrics_address; no field of the node is looked at before a request comes. */
int health_new(struct node *n, struct health **ret, struct err *e);
void health_free(struct health *h);
DEFINE_CLEANUP(struct health, health_free)

/* What being ready is made of. */
struct readiness {
    bool stopping;
    bool registered; /* with the kubelet */
    bool nri_needed; /* a pool has attach: NRI */
    bool nri_connected;
    bool node_seen, pods_seen; /* from the API server, once */
    bool published;            /* slices, once: an API server that goes makes no node unready */
};

/* Whether it is, and a line for each part, for people. Pure. */
bool readiness_text(const struct readiness *r, struct strbuf *out);
