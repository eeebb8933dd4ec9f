/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/slice_cache.h"

static void forget_deleted(struct slice_cache *c)
{
    vec_foreach (uid, &c->deleted)
        free(*uid);
    free(c->deleted.v);
    memset(&c->deleted, 0, sizeof(c->deleted));
}

void slice_cache_done(struct slice_cache *c)
{
    json_vec_done(&c->slices);
    json_decref(c->listed);
    forget_deleted(c);
    *c = (struct slice_cache){0};
}

static json_t **find(struct slice_cache *c, const char *name)
{
    vec_foreach (o, &c->slices)
        if (streq_null(json_str_at(*o, "metadata.name"), name))
            return o;
    return NULL;
}

static void drop(struct slice_cache *c, json_t **o)
{
    json_decref(*o);
    *o = c->slices.v[--c->slices.n];
}

/*
 * Resource versions of one resource are numbers that can be compared (KEP-5504, and what etcd has
 * always given). 0 for what isn't one: then the latest to arrive counts.
 */
static uint64_t version_of(const json_t *o)
{
    const char *text = json_str_at(o, "metadata.resourceVersion");
    uint64_t v;

    return text && parse_u64(text, 10, UINT64_MAX, &v) == 0 ? v : 0;
}

static bool is_older(const json_t *a, const json_t *b)
{
    uint64_t va = version_of(a), vb = version_of(b);

    return va && vb && va < vb;
}

static char **find_deleted(const struct slice_cache *c, const json_t *o)
{
    const char *uid = json_str_at(o, "metadata.uid");

    vec_foreach (d, &c->deleted)
        if (uid && streq(*d, uid))
            return d;
    return NULL;
}

void slice_cache_list_begin(struct slice_cache *c)
{
    json_decref(c->listed);
    c->listed = json_object();
}

void slice_cache_list_end(struct slice_cache *c)
{
    for (size_t i = 0; i < c->slices.n;) {
        const char *name = json_str_at(c->slices.v[i], "metadata.name");

        if (name && json_object_get(c->listed, name))
            i++;
        else
            drop(c, &c->slices.v[i]);
    }
    json_decref(c->listed);
    c->listed = NULL;
    /* What a list that began after our request doesn't show can't come back */
    forget_deleted(c);
}

bool slice_cache_put(struct slice_cache *c, json_t *o)
{
    const char *name = json_str_at(o, "metadata.name");

    if (!name || find_deleted(c, o))
        return false;
    if (c->listed)
        json_object_set_new(c->listed, name, json_true());

    json_t **known = find(c, name);
    if (known &&
        (is_older(o, *known) || streq_null(json_str_at(o, "metadata.resourceVersion"),
                                           json_str_at(*known, "metadata.resourceVersion"))))
        return false;
    json_t *copy = json_copy(o);
    json_t *metadata = json_copy(json_object_get(o, "metadata"));

    json_object_del(metadata, "managedFields");
    json_object_set_new(copy, "metadata", metadata);
    if (known) {
        json_decref(*known);
        *known = copy;
    } else {
        *VEC_PUSH(&c->slices) = copy;
    }
    return true;
}

bool slice_cache_deleted(struct slice_cache *c, const json_t *o)
{
    const char *name = json_str_at(o, "metadata.name");
    json_t **known = name ? find(c, name) : NULL;
    char **deleted = find_deleted(c, o);

    if (deleted) { /* no later event can be about it */
        free(*deleted);
        *deleted = c->deleted.v[--c->deleted.n];
    }
    if (!known || is_older(o, *known))
        return false;
    drop(c, known);
    return true;
}

void slice_cache_gone(struct slice_cache *c, const char *name, const char *uid)
{
    json_t **known = find(c, name);

    if (known)
        drop(c, known);
    if (uid)
        *VEC_PUSH(&c->deleted) = xstrdup(uid);
}

/* `known` with the parts of `wanted` that are equal; only a taint's time need differ. */
static json_t *share_device(json_t *known, json_t *wanted)
{
    json_t *attributes = json_object_get(wanted, "attributes");

    if (json_equal(known, wanted))
        return json_incref(wanted);
    if (json_object_get(known, "attributes") == attributes ||
        !json_equal(json_object_get(known, "attributes"), attributes))
        return json_incref(known);
    json_t *copy = json_copy(known);
    json_object_set(copy, "attributes", attributes);
    return copy;
}

void slice_cache_share(struct slice_cache *c, const json_vec *wanted)
{
    vec_foreach (w, wanted) {
        json_t **known = find(c, json_str_at(*w, "metadata.name"));
        json_t *spec = known ? json_object_get(*known, "spec") : NULL;
        json_t *theirs = json_object_get(spec, "devices"), *ours = json_at(*w, "spec.devices");

        if (!spec || json_array_size(theirs) != json_array_size(ours))
            continue;
        json_t *devices = json_array();

        for (size_t i = 0; i < json_array_size(ours); i++)
            json_array_append_new(devices,
                                  share_device(json_array_get(theirs, i), json_array_get(ours, i)));
        spec = json_copy(spec);
        json_object_set_new(spec, "devices", devices);
        json_object_set_new(*known, "spec", spec);
    }
}
