/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ResourceSlices of one pool: devices cut into slices, and what to write so that the API has them.
 * Pure.
 *
 * Rules (k8s.io/api/resource/v1, dynamic-resource-allocation/resourceslice): at most 128 devices a
 * slice, 64 where any is tainted; the scheduler takes the highest generation only, and only when as
 * many slices of it exist as they say; a slice may change alone within a generation, but a device
 * that moves between slices, or a count that changes, needs a new generation on all.
 */
#pragma once

#include "driver/offer.h"

struct slices_config {
    const char *driver, *node;
    const char *node_uid; /* for the owner reference; NULL: not known yet, none is set */
};

typedef VEC(json_t *) json_vec;
void json_vec_done(json_vec *v); /* drops a reference of each */

/*
 * The wanted slices, without generation and count: one pool, named as the node. A slice is named
 * "<node>-<driver>-<kind>-<n>", where the kind is "prepare", "defer" (with skipNodeOperations
 * ["NodeUnprepareResources"]), "skip" (["*"]) or "drifted" (of tainted devices, no list); a node
 * name that is too long for that is cut and a hash of it added. Devices stay in their order. An
 * empty offer gives no slice at all. The slices share the devices' bodies: don't change them.
 */
void slices_wanted(const struct slices_config *c, const device_vec *devices, json_vec *ret);

enum slice_verb { SLICE_CREATE, SLICE_UPDATE, SLICE_DELETE };

struct slice_write {
    enum slice_verb verb;
    char *name;
    char *uid, *resource_version; /* UPDATE, DELETE: of the slice that was seen: preconditions */
    json_t *body;                 /* CREATE, UPDATE: the whole object */
};
typedef VEC(struct slice_write) slice_write_vec;
void slice_write_vec_done(slice_write_vec *v);

/*
 * Compares what is wanted with what the API has (all slices of this driver and node, any
 * generation) and gives the writes in order. Updates and creations come first, so that the new
 * generation is whole, and is used, before what is obsolete goes. Nothing to do gives none, also
 * right after a restart. Only the first may be carried out: a plan made from the result of that
 * goes on where this one was.
 *
 * A slice that is wanted again under the name of one with another pool, driver or node (which are
 * immutable) is deleted by this plan and created by a later one.
 */
void slices_plan(const json_vec *wanted, const json_vec *existing, slice_write_vec *ret);

/* Fields that a server drops without an error where their feature gate is off. */
enum slice_field {
    SLICE_FIELD_LIST = 1 << 0,   /* skipNodeOperations: DRAOptionalNodeOperations */
    SLICE_FIELD_TAINTS = 1 << 1, /* DRADeviceTaints */
};

/* Which of them a slice has; a set of enum slice_field. */
unsigned slice_fields(const json_t *slice);

/*
 * Whether the server kept what was sent: name, owner and all of the spec are there, and nothing was
 * added but a taint's timeAdded. *ret_dropped: which of these fields were sent and are gone.
 */
bool slice_kept(const json_t *sent, const json_t *kept, unsigned *ret_dropped);
