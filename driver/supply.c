/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/supply.h"

void supply_count_vec_done(supply_count_vec *v)
{
    vec_foreach (c, v)
        free(c->mode);
    free(v->v);
    *v = (supply_count_vec){0};
}

void supply_done(struct supply *s)
{
    vec_foreach (p, &s->pools) {
        free(p->name);
        supply_count_vec_done(&p->counts);
    }
    free(s->pools.v);
    *s = (struct supply){0};
}

static struct supply_count *count_of(supply_count_vec *v, const char *mode)
{
    vec_foreach (c, v)
        if (streq(c->mode, mode))
            return c;
    struct supply_count *c = VEC_PUSH(v);

    c->mode = xstrdup(mode);
    return c;
}

/* Where the pool is, or would be: slices come sorted, so mostly at the end. */
static size_t place_of(const struct supply *s, const char *name)
{
    size_t from = 0, to = s->pools.n;

    while (from < to) {
        size_t mid = from + (to - from) / 2;

        if (strcmp(name, s->pools.v[mid].name) > 0)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

static struct supply_pool *find_pool(const struct supply *s, const char *name)
{
    size_t at = place_of(s, name);

    return at < s->pools.n && streq(s->pools.v[at].name, name) ? &s->pools.v[at] : NULL;
}

static struct supply_pool *add_pool(struct supply *s, const char *name)
{
    size_t at = place_of(s, name);

    (void)VEC_PUSH(&s->pools);
    memmove(&s->pools.v[at + 1], &s->pools.v[at], (s->pools.n - 1 - at) * sizeof(*s->pools.v));
    s->pools.v[at] = (struct supply_pool){.name = xstrdup(name), .generation = -1};
    return &s->pools.v[at];
}

/* What keeps a claim without tolerations away. Other effects count as none (api/resource/v1). */
static bool is_tainted(const json_t *device)
{
    json_t *taints = json_object_get(device, "taints"), *taint;
    size_t n;

    json_array_foreach (taints, n, taint) {
        const char *effect = json_str_at(taint, "effect");

        if (streq_null(effect, "NoSchedule") || streq_null(effect, "NoExecute"))
            return true;
    }
    return false;
}

/* Whether a listed one can be had depends on its node, which is seen later: supply_sum(). */
static void see_device(struct supply_count *c, const json_t *device, bool listed, bool allocated,
                       bool honoured)
{
    bool tainted = !allocated && is_tainted(device);

    c->devices++;
    c->allocated += allocated;
    c->tainted += tainted;
    c->listed += listed;
    c->unhonoured +=
        !listed && !honoured && !tainted && !streq(c->mode, "Prepare") && !streq(c->mode, "?");
    if (!allocated && !tainted) {
        c->free += !listed;
        c->free_listed += listed;
    }
}

void supply_see_slice(struct supply *s, const struct live_index *taken, const char *driver,
                      const json_t *slice)
{
    const char *of = json_str_at(slice, "spec.driver"),
               *name = json_str_at(slice, "spec.pool.name");
    int64_t generation = json_int_at(slice, "spec.pool.generation", 0);
    bool listed = json_array_size(json_at(slice, "spec.skipNodeOperations"));
    json_t *devices = json_at(slice, "spec.devices"), *device;
    size_t n;

    if (!name || !streq_null(of, driver))
        return;
    struct supply_pool *p = find_pool(s, name);

    if (!p)
        p = add_pool(s, name);
    if (generation < p->generation)
        return;
    if (generation > p->generation) {
        supply_count_vec_done(&p->counts);
        p->generation = generation;
        p->slices = 0;
    }
    p->slices++;
    p->expected = json_int_at(slice, "spec.pool.resourceSliceCount", 0);
    json_array_foreach (devices, n, device) {
        const char *mode = json_c_str(live_attribute(device, driver, "mode"));
        const char *device_name = json_str_at(device, "name");

        if (device_name)
            see_device(count_of(&p->counts, mode ? mode : "?"), device, listed,
                       live_index_has(taken, name, device_name),
                       json_is_true(live_attribute(device, driver, "skipHonoured")));
    }
}

void supply_see_node(struct supply *s, const json_t *node)
{
    const char *name = json_str_at(node, "metadata.name");
    struct supply_pool *p = name ? find_pool(s, name) : NULL;

    if (p)
        p->declares = live_node_declares(node);
}

bool supply_is_whole(const struct supply_pool *p)
{
    return p->slices == p->expected;
}

static void add_count(supply_count_vec *sums, const struct supply_pool *p,
                      const struct supply_count *c)
{
    struct supply_count *sum = count_of(sums, c->mode);

    sum->devices += c->devices;
    sum->allocated += c->allocated;
    sum->tainted += c->tainted;
    sum->listed += c->listed;
    sum->unhonoured += c->unhonoured;
    sum->free += c->free;
    if (p->declares) {
        sum->free += c->free_listed;
        sum->free_listed += c->free_listed;
    } else {
        sum->undeclared += c->listed;
    }
}

void supply_sum(const struct supply *s, supply_count_vec *ret)
{
    *ret = (supply_count_vec){0};
    vec_foreach (p, &s->pools)
        vec_foreach (c, &p->counts)
            if (supply_is_whole(p))
                add_count(ret, p, c);
}
