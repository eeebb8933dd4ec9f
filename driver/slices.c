/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/slices.h"

#include <ctype.h>
#include <inttypes.h>

/* Limits of k8s.io/api/resource/v1 and of a DNS subdomain. */
#define DEVICES_MAX         128
#define DEVICES_MAX_TAINTED 64
#define NAME_MAX_LENGTH     253

void json_vec_done(json_vec *v)
{
    vec_foreach (o, v)
        json_decref(*o);
    free(v->v);
    *v = (json_vec){0};
}

void slice_write_vec_done(slice_write_vec *v)
{
    vec_foreach (w, v) {
        free(w->name);
        free(w->uid);
        free(w->resource_version);
        json_decref(w->body);
    }
    free(v->v);
    *v = (slice_write_vec){0};
}

/* ---- what is wanted ---- */

enum kind { KIND_PREPARE, KIND_DEFER, KIND_SKIP, KIND_DRIFTED };

static const struct {
    const char *text;
    size_t max;
    const char *skips; /* NULL: no list */
} kinds[] = {
    [KIND_PREPARE] = {"prepare", DEVICES_MAX, NULL},
    [KIND_DEFER] = {"defer", DEVICES_MAX, "NodeUnprepareResources"},
    [KIND_SKIP] = {"skip", DEVICES_MAX, "*"},
    [KIND_DRIFTED] = {"drifted", DEVICES_MAX_TAINTED, NULL},
};

static enum kind kind_of(const struct device *d)
{
    if (d->tainted)
        return KIND_DRIFTED;
    switch (d->skip) {
    case SKIP_NOTHING:
        return KIND_PREPARE;
    case SKIP_UNPREPARE:
        return KIND_DEFER;
    case SKIP_ALL:
        return KIND_SKIP;
    }
    return KIND_PREPARE;
}

/* FNV-1a: tells long node names apart that begin alike. */
static uint32_t hash(const char *s)
{
    uint32_t h = 2166136261;

    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619;
    return h;
}

static char *slice_name(const struct slices_config *c, enum kind kind, unsigned n)
{
    _cleanup_free_ char *rest = xasprintf("-%s-%s-%02u", c->driver, kinds[kind].text, n);
    size_t room = NAME_MAX_LENGTH - strlen(rest);

    if (strlen(c->node) <= room)
        return xasprintf("%s%s", c->node, rest);
    room -= strlen("-01234567");
    /* A label of a DNS name ends in a letter or digit */
    while (room && !isalnum((unsigned char)c->node[room - 1]))
        room--;
    return xasprintf("%.*s-%08" PRIx32 "%s", (int)room, c->node, hash(c->node), rest);
}

static json_t *owner_references(const struct slices_config *c)
{
    json_t *refs = json_array();

    json_array_append_new(refs,
                          json_pack("{s:s, s:s, s:s, s:s, s:b}", "apiVersion", "v1", "kind", "Node",
                                    "name", c->node, "uid", c->node_uid, "controller", 1));
    return refs;
}

static json_t *new_slice(const struct slices_config *c, enum kind kind, unsigned n)
{
    _cleanup_free_ char *name = slice_name(c, kind, n);
    json_t *metadata = json_pack("{s:s}", "name", name);
    json_t *spec = json_pack("{s:s, s:s, s:{s:s}, s:[]}", "driver", c->driver, "nodeName", c->node,
                             "pool", "name", c->node, "devices");

    if (c->node_uid)
        json_object_set_new(metadata, "ownerReferences", owner_references(c));
    if (kinds[kind].skips)
        json_object_set_new(spec, "skipNodeOperations", json_pack("[s]", kinds[kind].skips));
    return json_pack("{s:s, s:s, s:o, s:o}", "apiVersion", "resource.k8s.io/v1", "kind",
                     "ResourceSlice", "metadata", metadata, "spec", spec);
}

void slices_wanted(const struct slices_config *c, const device_vec *devices, json_vec *ret)
{
    json_vec out = {0};

    for (enum kind k = 0; k < ARRAY_SIZE(kinds); k++) {
        json_t *into = NULL;
        unsigned n = 0;

        vec_foreach (d, devices) {
            if (kind_of(d) != k)
                continue;
            if (!into || json_array_size(into) == kinds[k].max) {
                json_t *slice = new_slice(c, k, n++);

                into = json_at(slice, "spec.devices");
                *VEC_PUSH(&out) = slice;
            }
            json_array_append(into, d->body);
        }
    }
    *ret = out;
}

/* ---- what the server kept ---- */

static bool same_taints(const json_t *a, const json_t *b)
{
    if (json_array_size(a) != json_array_size(b))
        return false;
    for (size_t i = 0; i < json_array_size(a); i++) {
        json_t *x = json_copy(json_array_get(a, i)), *y = json_copy(json_array_get(b, i));

        json_object_del(x, "timeAdded");
        json_object_del(y, "timeAdded");
        bool same = json_equal(x, y);
        json_decref(x);
        json_decref(y);
        if (!same)
            return false;
    }
    return true;
}

static bool same_devices(const json_t *a, const json_t *b)
{
    if (a == b)
        return true;
    if (json_array_size(a) != json_array_size(b))
        return false;
    for (size_t i = 0; i < json_array_size(a); i++) {
        json_t *x = json_array_get(a, i), *y = json_array_get(b, i);
        const char *key;
        json_t *value;

        if (json_object_size(x) != json_object_size(y))
            return false;
        json_object_foreach (x, key, value) {
            const json_t *other = json_object_get(y, key);

            if (!other)
                return false;
            if (streq(key, "taints") ? !same_taints(value, other) : !json_equal(value, other))
                return false;
        }
    }
    return true;
}

/* NULL equals NULL only. */
static bool same(const json_t *a, const json_t *b)
{
    return a == b || (a && b && json_equal(a, b));
}

unsigned slice_fields(const json_t *slice)
{
    const json_t *spec = json_object_get(slice, "spec"), *d;
    json_t *devices = json_object_get(spec, "devices");
    unsigned fields = 0;
    size_t i;

    if (json_array_size(json_object_get(spec, "skipNodeOperations")))
        fields |= SLICE_FIELD_LIST;
    json_array_foreach (devices, i, d)
        if (json_array_size(json_object_get(d, "taints")))
            fields |= SLICE_FIELD_TAINTS;
    return fields;
}

bool slice_kept(const json_t *sent, const json_t *kept, unsigned *ret_dropped)
{
    json_t *s = json_object_get(sent, "spec"), *k = json_object_get(kept, "spec");
    unsigned dropped = slice_fields(sent) & ~slice_fields(kept);
    const char *key;
    json_t *value;

    *ret_dropped = dropped;
    if (dropped || json_object_size(s) != json_object_size(k) ||
        !same(json_at(sent, "metadata.name"), json_at(kept, "metadata.name")) ||
        !same(json_at(sent, "metadata.ownerReferences"), json_at(kept, "metadata.ownerReferences")))
        return false;
    json_object_foreach (s, key, value) {
        const json_t *other = json_object_get(k, key);

        if (streq(key, "devices") ? !same_devices(value, other) : !same(value, other))
            return false;
    }
    return true;
}

/* ---- what to write ---- */

static int64_t generation_of(const json_t *slice)
{
    return json_int_at(slice, "spec.pool.generation", -1);
}

static bool is_going(const json_t *slice)
{
    return json_at(slice, "metadata.deletionTimestamp") != NULL;
}

static json_t *find_slice(const json_vec *v, const json_t *like)
{
    const json_t *name = json_at(like, "metadata.name");

    vec_foreach (o, v)
        if (same(json_at(*o, "metadata.name"), name))
            return *o;
    return NULL;
}

/* Whether one can be updated to the other: these fields are immutable. */
static bool can_become(const json_t *existing, const json_t *wanted)
{
    return same(json_at(existing, "spec.driver"), json_at(wanted, "spec.driver")) &&
           same(json_at(existing, "spec.nodeName"), json_at(wanted, "spec.nodeName")) &&
           same(json_at(existing, "spec.pool.name"), json_at(wanted, "spec.pool.name"));
}

static json_t *find_usable(const json_vec *existing, const json_t *wanted)
{
    json_t *o = find_slice(existing, wanted);

    return o && can_become(o, wanted) ? o : NULL;
}

/* Device name -> name of the wanted slice, both borrowed as JSON strings. */
static json_t *places_of(const json_vec *wanted)
{
    json_t *places = json_object();

    vec_foreach (w, wanted) {
        json_t *name = json_at(*w, "metadata.name"), *device;
        size_t i;

        json_array_foreach (json_at(*w, "spec.devices"), i, device) {
            json_object_set(places, json_str_at(device, "name"), name);
        }
    }
    return places;
}

/* Whether a device of the existing slice is wanted in another one. */
static bool loses_device(const json_t *existing, const json_t *places)
{
    json_t *device;
    size_t i;

    json_array_foreach (json_at(existing, "spec.devices"), i, device) {
        const char *name = json_str_at(device, "name");
        const json_t *place = name ? json_object_get(places, name) : NULL;

        if (place && !json_equal(place, json_at(existing, "metadata.name")))
            return true;
    }
    return false;
}

/*
 * The generation to write. The newest one goes on if, slice by slice in any order, each step leaves
 * it either as it is or incomplete, and never contradicting itself: no device in two places, no
 * count that isn't the final one. So a slice that somebody deleted or edited costs one write, and
 * so does the rest of a change that a crash cut short. Anything else is a new generation.
 */
static int64_t choose_generation(const json_vec *wanted, const json_vec *existing)
{
    int64_t newest = -1, highest = 0;
    bool missing = false, goes_on = true;

    vec_foreach (w, wanted) {
        const json_t *o = find_usable(existing, *w);

        if (o && generation_of(o) > newest)
            newest = generation_of(o);
        if (!o)
            missing = true;
    }
    json_t *places = places_of(wanted);
    vec_foreach (o, existing) {
        int64_t generation = generation_of(*o);
        const json_t *w = find_slice(wanted, *o);

        if (generation > highest)
            highest = generation;
        if (!w || !can_become(*o, w)) {
            if (missing && generation >= newest)
                goes_on = false;
        } else if (generation == newest &&
                   (json_int_at(*o, "spec.pool.resourceSliceCount", -1) != (int64_t)wanted->n ||
                    loses_device(*o, places))) {
            goes_on = false;
        }
    }
    json_decref(places);
    return newest >= 0 && goes_on ? newest : highest + 1;
}

/* A shallow copy of the member, put in place of it. */
static json_t *own_member(json_t *o, const char *key)
{
    json_t *copy = json_copy(json_object_get(o, key));

    json_object_set_new(o, key, copy);
    return copy;
}

static json_t *complete(const json_t *wanted, int64_t generation, size_t count)
{
    json_t *o = json_copy((json_t *)wanted);
    json_t *pool = own_member(own_member(o, "spec"), "pool");

    json_object_set_new(pool, "generation", json_integer(generation));
    json_object_set_new(pool, "resourceSliceCount", json_integer((json_int_t)count));
    return o;
}

static const json_t *find_device(const json_vec *slices, const char *name)
{
    vec_foreach (o, slices) {
        const json_t *devices = json_at(*o, "spec.devices");

        for (size_t i = 0; i < json_array_size(devices); i++) {
            const json_t *device = json_array_get(devices, i);

            if (streq_null(json_str_at(device, "name"), name))
                return device;
        }
    }
    return NULL;
}

/* The server stamps a taint that comes without a time as new, so a known time goes along. */
static void keep_taint_times(json_t *slice, const json_vec *existing)
{
    json_t *devices = own_member(json_object_get(slice, "spec"), "devices");

    for (size_t i = 0; i < json_array_size(devices); i++) {
        json_t *device = json_array_get(devices, i);
        const json_t *before = json_object_get(device, "taints")
                                   ? find_device(existing, json_str_at(device, "name"))
                                   : NULL;
        const json_t *old = json_object_get(before, "taints");

        if (!old || !same_taints(json_object_get(device, "taints"), old))
            continue;
        device = json_copy(device);
        json_object_set(device, "taints", (json_t *)old);
        json_array_set_new(devices, i, device);
    }
}

static struct slice_write *push_write(slice_write_vec *v, enum slice_verb verb, const json_t *named)
{
    struct slice_write *w = VEC_PUSH(v);

    w->verb = verb;
    w->name = xstrdup(json_str_at(named, "metadata.name"));
    return w;
}

static void set_preconditions(struct slice_write *w, const json_t *seen)
{
    w->uid = xstrdup(json_str_at(seen, "metadata.uid"));
    w->resource_version = xstrdup(json_str_at(seen, "metadata.resourceVersion"));
}

/* Labels, annotations and finalizers of others stay; so do uid and version, the preconditions. */
static json_t *update_body(json_t *full, const json_t *seen)
{
    json_t *metadata = json_copy(json_object_get(seen, "metadata"));
    json_t *refs = json_at(full, "metadata.ownerReferences");

    json_object_del(metadata, "managedFields");
    json_object_del(metadata, "ownerReferences");
    if (refs)
        json_object_set(metadata, "ownerReferences", refs);
    json_object_set_new(full, "metadata", metadata);
    return json_incref(full);
}

void slices_plan(const json_vec *wanted, const json_vec *existing, slice_write_vec *ret)
{
    int64_t generation = choose_generation(wanted, existing);
    slice_write_vec updates = {0}, creations = {0}, deletions = {0};

    vec_foreach (w, wanted) {
        const json_t *seen = find_slice(existing, *w);
        json_t *full = complete(*w, generation, wanted->n);
        unsigned dropped;

        if (!seen) {
            keep_taint_times(full, existing);
            push_write(&creations, SLICE_CREATE, full)->body = json_incref(full);
        } else if (can_become(seen, *w) && !slice_kept(full, seen, &dropped)) {
            struct slice_write *write = push_write(&updates, SLICE_UPDATE, seen);

            keep_taint_times(full, existing);
            set_preconditions(write, seen);
            write->body = update_body(full, seen);
        }
        json_decref(full);
    }
    vec_foreach (o, existing) {
        const json_t *w = find_slice(wanted, *o);

        /* One with a wanted name that can't become the wanted one goes, and is created after */
        if (!(w && can_become(*o, w)) && !is_going(*o))
            set_preconditions(push_write(&deletions, SLICE_DELETE, *o), *o);
    }
    vec_foreach (w, &creations)
        *VEC_PUSH(&updates) = *w;
    vec_foreach (w, &deletions)
        *VEC_PUSH(&updates) = *w;
    free(creations.v);
    free(deletions.v);
    *ret = updates;
}
