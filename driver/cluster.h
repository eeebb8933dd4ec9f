/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The API read by a verb that ends: one request after the other, waited for. Everything blocks.
 *
 * Lists are read whole or not at all: who decides by what isn't in one must be told when it isn't
 * complete.
 */
#pragma once

#include "kube/api.h"

struct cluster;

/*
 * `kubeconfig` NULL: $KUBECONFIG, in a pod its service account, else ~/.kube/config. Doesn't
 * connect. SIGPIPE is ignored from now on, as TLS needs it.
 */
int cluster_new(const char *kubeconfig, struct cluster **ret, struct err *e);
void cluster_free(struct cluster *c);
DEFINE_CLEANUP(struct cluster, cluster_free)

/* Gives up sooner where there are other sources: few retries, short time-outs. */
void cluster_hurry(struct cluster *c);

/*
 * GETs one object; the caller drops the reference. -ENOENT if there is none, -EACCES if it may not
 * be read; errors name the path and what the server said.
 */
int cluster_get(struct cluster *c, const char *path, json_t **ret, struct err *e);

/* GETs "<collection><name>", the name escaped. */
int cluster_get_named(struct cluster *c, const char *collection, const char *name, json_t **ret,
                      struct err *e);

struct cluster_list {
    const char *path;  /* of the collection */
    const char *query; /* selectors, escaped; NULL: none */
    /* Gets each object, borrowed. <0 ends the list and is returned. */
    int (*item)(const json_t *item, void *data, struct err *e);
    /* The server forgot where we were (410): what was told isn't true, it comes anew. */
    void (*again)(void *data);
    void *data;
};

/*
 * Reads a list page by page, one page in memory at a time. A page that is too big is asked for
 * again with fewer objects. 0 only if each object was told: an answer that is no list or that lacks
 * what a list has, and a history that was gone three times, are errors.
 */
int cluster_list(struct cluster *c, const struct cluster_list *l, struct err *e);

/*
 * The driver's slices: of one pool, or of all with NULL. Older API servers know no selector for
 * pools; then all are read, so `item` looks for itself.
 */
int cluster_list_slices(struct cluster *c, const char *driver, const char *pool,
                        int (*item)(const json_t *item, void *data, struct err *e),
                        void (*again)(void *data), void *data, struct err *e);
