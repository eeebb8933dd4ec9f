/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/offer.h"

#include <ctype.h>
#include <net/if_arp.h>

/* DeviceAttributeMaxValueLength of k8s.io/api/resource/v1; bytes. */
#define VALUE_MAX 64
/* ResourceSliceMaxAttributesAndCapacitiesPerDevice is 32; a pool's own may be POOL_OWN_MAX. */
#define BUILTIN_MAX  24
#define POOL_OWN_MAX 8
/* MAX_NUMNODES of Linux on every architecture, and the limit of Kubernetes' own helper. */
#define NUMA_NODES_MAX 1024

void device_vec_done(device_vec *v)
{
    vec_foreach (d, v)
        json_decref(d->body);
    free(v->v);
    *v = (device_vec){0};
}

/*
 * Attributes of one device under construction. Equal values are one object for all devices: of the
 * 24 values of a VF about 22 are those of its neighbours, and 256 VFs with values of their own are
 * 2 MiB more.
 */
struct attributes {
    json_t *o;
    json_t *shared; /* "int:100" -> {"int": 100}; of the whole offer */
};

static void put(struct attributes *a, const char *name, const char *kind, json_t *value)
{
    _cleanup_free_ char *text = json_text(value);
    _cleanup_free_ char *key = xasprintf("%s:%s", kind, text);
    json_t *o = json_object_get(a->shared, key);

    if (!o) {
        o = json_object();
        json_object_set(o, kind, value);
        json_object_set_new(a->shared, key, o);
    }
    json_object_set(a->o, name, o);
    json_decref(value);
}

static void put_bool(struct attributes *a, const char *name, bool value)
{
    put(a, name, "bool", json_boolean(value));
}

static void put_int(struct attributes *a, const char *name, int64_t value)
{
    put(a, name, "int", json_integer(value));
}

/* NULL for what can't be a value: the API server would refuse the whole slice for it. */
static json_t *string_value(const char *s)
{
    return s && strlen(s) <= VALUE_MAX ? json_string(s) : NULL;
}

/* For what a selector would ask: there in any case, "" stands for unknown. */
static void put_str(struct attributes *a, const char *name, const char *s)
{
    json_t *value = string_value(s);

    put(a, name, "string", value ? value : json_string(""));
}

/* For what may be absent. */
static void put_optional(struct attributes *a, const char *name, const char *s)
{
    json_t *value = string_value(s);

    if (value)
        put(a, name, "string", value);
}

/* The pattern of resource.kubernetes.io/pciBusID; domains of 8 digits (VMD) don't fit it. */
static bool is_standard_bus_id(const char *address)
{
    static const char pattern[] = "xxxx:xx:xx.x";

    if (strlen(address) != strlen(pattern))
        return false;
    for (size_t i = 0; pattern[i]; i++)
        if (pattern[i] == 'x' ? !isxdigit((unsigned char)address[i]) : address[i] != pattern[i])
            return false;
    return true;
}

static const char *link_type(uint16_t arp_type)
{
    switch (arp_type) {
    case ARPHRD_ETHER:
        return "ethernet";
    case ARPHRD_INFINIBAND:
        return "infiniband";
    }
    return "";
}

static enum skip_list list_of(enum mode mode)
{
    switch (mode) {
    case MODE_PREPARE:
        return SKIP_NOTHING;
    case MODE_DEFER_CLEANUP:
        return SKIP_UNPREPARE;
    case MODE_SKIP:
        return SKIP_ALL;
    }
    return SKIP_NOTHING;
}

static void put_contract(struct attributes *a, const struct pool *pool, bool verified, bool listed)
{
    const char *set_up = "Driver", *clean_up = "Driver";

    switch (pool->mode) {
    case MODE_PREPARE:
    case MODE_DEFER_CLEANUP:
        break;
    case MODE_SKIP:
        set_up = provisioner_text(pool->by);
        /* What we attach we also take back; where we don't, and write nothing, nobody of us does */
        if (pool->attach == ATTACH_NONE)
            clean_up = set_up;
        break;
    }
    put_str(a, "mode", mode_text(pool->mode));
    put_str(a, "setupBy", set_up);
    put_str(a, "cleanupBy", clean_up);
    put_str(a, "attach", attach_text(pool->attach));
    put_bool(a, "verified", verified);
    put_bool(a, "skipHonoured", listed);
}

static void put_hardware(struct attributes *a, const struct pf *pf, const struct vf *vf,
                         bool in_use)
{
    char id[5];

    put_int(a, "vfIndex", vf->index);
    put_str(a, "pfInterface", pf->netdev);
    put_str(a, "pfPciAddress", pf->address);
    put_str(a, "pfDriver", pf->driver);
    put_str(a, "driver", vf->driver);
    snprintf(id, sizeof(id), "%04x", vf->vendor_id);
    put_str(a, "vendor", id);
    snprintf(id, sizeof(id), "%04x", vf->device_id);
    put_str(a, "device", id);
    put_str(a, "linkType", link_type(pf->arp_type));
    put_int(a, "linkSpeedMbps", pf->speed_mbps);
    /* A VF in a pod may have taken its RDMA device along; the PF's tells what it is for */
    put_bool(a, "rdma", vf->rdma_dev || (in_use && pf->rdma_dev));

    int numa = vf->numa_node >= 0 ? vf->numa_node : pf->numa_node;
    if (numa >= 0 && numa < NUMA_NODES_MAX)
        put_int(a, "resource.kubernetes.io/numaNode", numa);
    if (is_standard_bus_id(vf->address))
        put_str(a, "resource.kubernetes.io/pciBusID", vf->address);
    put_optional(a, "resource.kubernetes.io/pcieRoot", pf->pcie_root);
}

/*
 * What a pod can rely on without asking. Where claims set the VF up that is nothing but the PF's
 * MTU, up to which they may ask.
 */
static void put_settings(struct attributes *a, const struct pool *pool, const struct pf *pf)
{
    static const struct vf_settings none;
    const struct vf_settings *s = mode_sets_up(pool->mode) ? &none : &pool->settings;

    put_int(a, "vlan", s->set & VF_SET_VLAN ? s->vlan_id : 0);
    put_bool(a, "spoofCheck", s->set & VF_SET_SPOOFCHK && s->spoofchk);
    put_bool(a, "trust", s->set & VF_SET_TRUST && s->trust);
    if (s->set & VF_SET_MTU)
        put_int(a, "mtu", s->mtu);
    else
        put_int(a, "mtu", mode_sets_up(pool->mode) ? pf->mtu : 0);
}

/* Names fill what room is left: ids say the same and are always there. */
static void put_names(struct attributes *a, const struct vf *vf)
{
    if (json_object_size(a->o) < BUILTIN_MAX)
        put_optional(a, "deviceName", vf->device);
    if (json_object_size(a->o) < BUILTIN_MAX)
        put_optional(a, "vendorName", vf->vendor);
}

/*
 * The pool's own, which never replace a built-in one. "<driver>/x" and "x" are the same name to
 * Kubernetes, so they are to us.
 */
static void put_own(struct attributes *a, const struct pool *pool, const char *driver)
{
    unsigned room = POOL_OWN_MAX;

    vec_foreach (own, &pool->attributes) {
        const char *bare = str_skip(own->name, driver);
        const char *name = bare && *bare == '/' ? bare + 1 : own->name;

        if (!room || json_object_get(a->o, name))
            continue;
        if (json_is_boolean(own->value))
            put_bool(a, name, json_is_true(own->value));
        else if (json_is_integer(own->value))
            put_int(a, name, json_integer_value(own->value));
        else
            put_optional(a, name, json_string_value(own->value));
        room--;
    }
}

static json_t *drift_taint(const char *driver, enum taint_effect effect)
{
    json_t *taint = json_object();
    _cleanup_free_ char *key = xasprintf("%s/drifted", driver);

    json_set_str(taint, "key", key);
    json_set_str(taint, "effect", taint_effect_text(effect));
    return taint;
}

static const struct vf_fact *find_fact(const vf_fact_vec *facts, const char *address)
{
    vec_foreach (f, facts)
        if (streq(f->vf_address, address))
            return f;
    return NULL;
}

static void offer_vf(const struct offer_input *in, const struct pf *pf, const struct vf *vf,
                     json_t *shared, device_vec *out)
{
    const struct contract_input *c = &in->contract;
    const struct pool *pool = pools_find(c->pools, c->node, c->labels, pf, vf);
    const struct vf_fact *fact = find_fact(in->facts, vf->address);

    if (!pool || !fact || (!fact->verified && !in->taints_kept))
        return;

    bool verified = fact->verified;
    struct device *d = VEC_PUSH(out);
    struct attributes a = {json_object(), shared};

    device_name(vf->address, d->name);
    d->skip = verified && in->skip_declared && in->lists_kept ? list_of(pool->mode) : SKIP_NOTHING;
    d->tainted = !verified;

    put_contract(&a, pool, verified, d->skip != SKIP_NOTHING);
    put_hardware(&a, pf, vf, fact->in_use);
    put_settings(&a, pool, pf);
    put_names(&a, vf);
    put_own(&a, pool, in->driver);

    d->body = json_object();
    json_set_str(d->body, "name", d->name);
    json_object_set_new(d->body, "attributes", a.o);
    if (d->tainted) {
        json_t *taints = json_array();

        enum taint_effect effect = fact->harmed ? pool->taint_effect : TAINT_NO_SCHEDULE;

        json_array_append_new(taints, drift_taint(in->driver, effect));
        json_object_set_new(d->body, "taints", taints);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct device *)a)->name, ((const struct device *)b)->name);
}

void offer_devices(const struct offer_input *in, device_vec *ret)
{
    device_vec out = {0};
    json_t *shared = json_object();

    vec_foreach (pf, &in->contract.inv->pfs)
        vec_foreach (vf, &pf->vfs)
            offer_vf(in, pf, vf, shared, &out);
    if (out.n)
        qsort(out.v, out.n, sizeof(*out.v), by_name);
    json_decref(shared);
    *ret = out;
}
