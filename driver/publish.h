/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the API's ResourceSlices equal to what the node offers: watches its own slices, writes the
 * difference one request after another, remembers its own writes, puts back what others delete or
 * edit (with growing pauses, so that it isn't a fight), and notices what the server drops.
 */
#pragma once

#include "driver/slices.h"
#include "kube/api.h"

struct publish;

struct publish_config {
    const char *driver, *node;
    /*
     * The server drops these fields (a set of enum slice_field): nothing more is written until
     * publish_set() comes without them. Or they are worth another try (0), after the server was
     * away, or 10 minutes and a new list. Called on change only.
     */
    void (*dropped)(unsigned fields, void *data);
    /* Every wanted slice is in the API as sent; called each time that becomes true. */
    void (*published)(unsigned slices, unsigned devices, int64_t generation, void *data);
    /*
     * Nothing is written into an empty pool until publish_go(). A pod that is scheduled before the
     * kubelet knows us fails Prepare, and kubelet 1.37 tries that again after 60 to 90 s only.
     */
    bool held;
    void *data;
};

/* Starts watching. Copies the strings. Everything belongs to the loop's thread. */
struct publish *publish_new(struct loop *l, struct api *a, const struct publish_config *c);
/* Leaves the slices in the API as they are. Not from a callback. */
void publish_free(struct publish *p);
DEFINE_CLEANUP(struct publish, publish_free)

/*
 * What is to be there from now on; the devices' bodies are shared, so don't change them. `node_uid`
 * may be NULL while the node isn't known, then nothing is written. Returns at once; writes follow
 * after a short settle time (50 ms). The same again changes nothing. May be called from a callback.
 */
void publish_set(struct publish *p, const char *node_uid, const device_vec *devices);

/* Ends `held`; nothing if it has ended. */
void publish_go(struct publish *p);
