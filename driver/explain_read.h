/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the verb `explain` reads for one object: of the API, as far as it lets us, and of this
 * machine, where that is the object's node. What couldn't be read is said in the explanation.
 * Everything blocks.
 */
#pragma once

#include "driver/cluster.h"
#include "driver/explain.h"

#define RESOURCE "/apis/resource.k8s.io/v1"

struct reader {
    const char *driver;
    const char *this_node;   /* the Node object's name of this machine */
    struct cluster *cluster; /* NULL: no API server, see `api_why` */
    char *api_why;
    bool forbidden; /* something wasn't allowed: the user needs the rules */
    struct local local;
};

/* Explains a claim; `pod` (may be NULL) names it and is explained itself. */
struct explanation *explain_read_claim(struct reader *r, const json_t *claim, const json_t *pod);

/* Explains a claim by this node's record alone; NULL if there is none. */
struct explanation *explain_read_record(struct reader *r, const char *namespace, const char *name);

/* Explains a pod and its claims. */
struct explanation *explain_read_pod(struct reader *r, const json_t *pod);

/*
 * Explains a VF, by its device name, on a node: `node` NULL where only one has it, or this machine
 * is one of them. Names in the error which do otherwise: -EEXIST. -ENOENT if neither a slice nor
 * this machine has it.
 */
int explain_read_vf(struct reader *r, const char *node, const char *device,
                    struct explanation **ret, struct err *e);

/* ---- parts that the files share */

/* Appends the slices of one pool to an array. */
int explain_read_slices(struct reader *r, const char *pool, json_t *kept, struct err *e);

/* Says what this machine can't do: ask the API server, read records. */
void explain_say_limits(struct reader *r, struct explanation *x);

/* Asks the kernel about a device. */
void explain_look(struct reader *r, const char *device, explain_seen_vec *seen);
