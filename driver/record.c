/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/record.h"

#include <errno.h>

#define RECORD_VERSION 1

static const char *const state_names[] = {
    [RECORD_PREPARING] = "Preparing",
    [RECORD_PREPARED] = "Prepared",
    [RECORD_RELEASING] = "Releasing",
};

void record_free(struct record *r)
{
    if (!r)
        return;
    vec_foreach (d, &r->devices)
        grant_done(&d->grant);
    vec_foreach (p, &r->pods)
        free(*p);
    free(r->devices.v);
    free(r->pods.v);
    free(r->namespace);
    free(r->name);
    free(r->uid);
    free(r->boot_id);
    free(r);
}

struct record *record_new(const struct allocation *a, grant_vec *grants, const char *boot_id,
                          bool by_kubelet)
{
    struct record *r = xnew(struct record);

    r->namespace = xstrdup(a->namespace);
    r->name = xstrdup(a->name);
    r->uid = xstrdup(a->uid);
    r->boot_id = xstrdup(boot_id);
    r->by_kubelet = by_kubelet;
    r->unprepare_comes = !allocation_skips_unprepare(a);
    vec_foreach (p, &a->pods)
        *VEC_PUSH(&r->pods) = xstrdup(*p);
    vec_foreach (g, grants)
        VEC_PUSH(&r->devices)->grant = *g;
    free(grants->v);
    memset(grants, 0, sizeof(*grants));
    return r;
}

bool record_fits(const struct record *r, const struct allocation *a)
{
    if (!streq(r->uid, a->uid) || r->devices.n != a->devices.n)
        return false;
    vec_foreach (d, &r->devices) {
        bool there = false;

        vec_foreach (other, &a->devices)
            there |= streq(d->grant.device, other->device);
        if (!there)
            return false;
    }
    return true;
}

struct record *record_copy(const struct record *r)
{
    json_auto_t *doc = record_json(r);
    struct record *copy = NULL;
    struct err e = ERR_INIT;

    if (record_parse(doc, &copy, &e) < 0)
        abort(); /* what we write we can read: tested over every member */
    return copy;
}

char *record_title(const struct record *r)
{
    return xasprintf("%s/%s", r->namespace, r->name);
}

static json_t *mac_json(const struct mac *m)
{
    char text[MAC_TEXT_SIZE];

    return json_string(mac_text(m, text));
}

static json_t *original_json(const struct vf_original *o)
{
    json_t *j = json_object();

    json_object_set_new(j, "name", json_string(o->name));
    json_object_set_new(j, "mac", mac_json(&o->mac));
    json_object_set_new(j, "adminMac", mac_json(&o->admin_mac));
    json_object_set_new(j, "vlan", json_integer(o->vlan_id));
    json_object_set_new(j, "vlanQos", json_integer(o->vlan_qos));
    json_object_set_new(j, "vlanProto", json_integer(o->vlan_proto));
    json_object_set_new(j, "adminMarked", json_boolean(o->admin_marked));
    json_object_set_new(j, "ownOnly", json_boolean(o->own_only));
    json_object_set_new(j, "mtu", json_integer(o->mtu));
    json_object_set_new(j, "up", json_boolean(o->up));
    if (o->has & VF_FIELD_SPOOFCHK)
        json_object_set_new(j, "spoofCheck", json_boolean(o->spoofchk));
    if (o->has & VF_FIELD_TRUST)
        json_object_set_new(j, "trust", json_boolean(o->trust));
    if (o->has & VF_FIELD_RATE) {
        json_object_set_new(j, "minTxRateMbps", json_integer(o->min_tx_mbps));
        json_object_set_new(j, "maxTxRateMbps", json_integer(o->max_tx_mbps));
    }
    if (o->has & VF_FIELD_LINK_STATE)
        json_set_str(j, "linkState", vf_link_state_text(o->link_state));
    return j;
}

static json_t *device_json(const struct record_device *d)
{
    const struct grant *g = &d->grant;
    json_t *j = json_object();

    json_set_str(j, "request", g->request);
    json_set_str(j, "pool", g->pool);
    json_set_str(j, "device", g->device);
    json_set_str(j, "shareID", g->share_id);
    if (g->alternative) {
        json_set_str(j, "alternative", g->alternative);
        json_object_set_new(j, "choice", json_integer(g->choice));
        json_object_set_new(j, "choices", json_integer(g->choices));
    }
    json_set_str(j, "vf", g->vf_address);
    json_set_str(j, "pf", g->pf_address);
    json_object_set_new(j, "index", json_integer(g->index));
    json_set_str(j, "poolDocument", g->pool_document);
    json_set_str(j, "mode", mode_text(g->mode));
    json_set_str(j, "setupBy", provisioner_text(g->set_up_by));
    json_set_str(j, "attach", attach_text(g->attach));
    json_object_set_new(j, "mayRaisePf", json_boolean(g->may_raise_pf));
    json_object_set_new(j, "settings", vf_settings_json(&g->settings));
    json_object_set_new(j, "interface", interface_request_json(&g->interface));
    if (d->has_original)
        json_object_set_new(j, "original", original_json(&d->original));
    return j;
}

json_t *record_json(const struct record *r)
{
    json_t *j = json_object(), *pods = json_array(), *devices = json_array();

    json_object_set_new(j, "version", json_integer(RECORD_VERSION));
    json_set_str(j, "namespace", r->namespace);
    json_set_str(j, "name", r->name);
    json_set_str(j, "uid", r->uid);
    json_set_str(j, "state", state_names[r->state]);
    json_set_str(j, "bootID", r->boot_id);
    json_object_set_new(j, "byKubelet", json_boolean(r->by_kubelet));
    json_object_set_new(j, "unprepareComes", json_boolean(r->unprepare_comes));
    vec_foreach (p, &r->pods)
        json_array_append_new(pods, json_string(*p));
    vec_foreach (d, &r->devices)
        json_array_append_new(devices, device_json(d));
    json_object_set_new(j, "pods", pods);
    json_object_set_new(j, "devices", devices);
    return j;
}

/* A text that must be there. */
static int need(const json_t *o, const struct jpath *p, const char *key, const char **ret,
                struct err *e)
{
    int r = json_get_str(o, p, key, ret, e);

    if (r == 0)
        return jpath_err(&(struct jpath){.up = p, .key = key}, e, "is missing");
    return r < 0 ? r : 0;
}

static int get_mac(const json_t *o, const struct jpath *p, const char *key, struct mac *ret,
                   struct err *e)
{
    const char *s;
    int r = need(o, p, key, &s, e);

    if (r < 0)
        return r;
    if (mac_parse(s, ret) < 0)
        return jpath_err(&(struct jpath){.up = p, .key = key}, e, "is no MAC address");
    return 0;
}

static int original_parse(const json_t *o, const struct jpath *p, const struct grant *g,
                          struct vf_original *ret, struct err *e)
{
    struct vf_original v = {.index = g->index};
    int64_t vlan = 0, qos = 0, proto = 0, mtu = 0, min = 0, rate = 0;
    const char *name, *link;
    int r;

    if ((r = need(o, p, "name", &name, e)) < 0 || (r = get_mac(o, p, "mac", &v.mac, e)) < 0 ||
        (r = get_mac(o, p, "adminMac", &v.admin_mac, e)) < 0 ||
        (r = json_get_int(o, p, "vlan", 0, 4095, &vlan, e)) < 0 ||
        (r = json_get_int(o, p, "vlanQos", 0, 7, &qos, e)) < 0 ||
        (r = json_get_int(o, p, "vlanProto", 0, UINT16_MAX, &proto, e)) < 0 ||
        (r = json_get_bool(o, p, "adminMarked", &v.admin_marked, e)) < 0 ||
        (r = json_get_bool(o, p, "ownOnly", &v.own_only, e)) < 0 ||
        (r = json_get_int(o, p, "mtu", 0, UINT32_MAX, &mtu, e)) < 0 ||
        (r = json_get_int(o, p, "minTxRateMbps", 0, UINT32_MAX, &min, e)) < 0 ||
        (r = json_get_bool(o, p, "up", &v.up, e)) < 0)
        return r;
    if ((r = json_get_bool(o, p, "spoofCheck", &v.spoofchk, e)) < 0)
        return r;
    v.has |= r ? VF_FIELD_SPOOFCHK : 0;
    if ((r = json_get_bool(o, p, "trust", &v.trust, e)) < 0)
        return r;
    v.has |= r ? VF_FIELD_TRUST : 0;
    if ((r = json_get_int(o, p, "maxTxRateMbps", 0, UINT32_MAX, &rate, e)) < 0)
        return r;
    v.has |= r ? VF_FIELD_RATE : 0;
    if ((r = json_get_str(o, p, "linkState", &link, e)) < 0)
        return r;
    if (r && vf_link_state_parse(link, &v.link_state) < 0)
        return jpath_err(&(struct jpath){.up = p, .key = "linkState"}, e, "isn't known");
    v.has |= r ? VF_FIELD_LINK_STATE : 0;
    if (strlen(name) >= sizeof(v.name))
        return jpath_err(p, e, "name is too long");
    strcpy(v.name, name);
    strcpy(v.address, g->vf_address);
    strcpy(v.pf_address, g->pf_address);
    v.vlan_id = (uint16_t)vlan;
    v.vlan_qos = (uint8_t)qos;
    v.mtu = (uint32_t)mtu;
    v.vlan_proto = (uint16_t)proto;
    v.min_tx_mbps = (uint32_t)min;
    v.max_tx_mbps = (uint32_t)rate;
    *ret = v;
    return 0;
}

/* Of a stored settings object only what this release knows, for the strict parser. */
static json_t *known_settings(const json_t *o)
{
    static const char *const known[] = {"macAddress", "vlan",  "mtu",      "maxTxRateMbps",
                                        "spoofCheck", "trust", "linkState"};
    json_t *out = json_object();

    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        json_t *v = json_object_get(o, known[i]);

        if (v)
            json_object_set(out, known[i], v);
    }
    return out;
}

static int device_parse(const json_t *o, const struct jpath *p, struct record_device *ret,
                        struct err *e)
{
    struct grant *g = &ret->grant;
    const char *request, *pool, *device, *vf, *pf, *mode, *attach, *doc = "", *share = NULL;
    const char *alternative = NULL, *by = NULL;
    json_t *settings = NULL, *interface = NULL, *original = NULL;
    int64_t index = 0, choice = 0, choices = 0;
    int r;

    if (!json_is_object(o))
        return jpath_err(p, e, "must be an object");
    if ((r = need(o, p, "request", &request, e)) < 0 || (r = need(o, p, "pool", &pool, e)) < 0 ||
        (r = need(o, p, "device", &device, e)) < 0 || (r = need(o, p, "vf", &vf, e)) < 0 ||
        (r = need(o, p, "pf", &pf, e)) < 0 || (r = need(o, p, "mode", &mode, e)) < 0 ||
        (r = need(o, p, "attach", &attach, e)) < 0 ||
        (r = json_get_str(o, p, "poolDocument", &doc, e)) < 0 ||
        (r = json_get_str(o, p, "shareID", &share, e)) < 0 ||
        (r = json_get_str(o, p, "alternative", &alternative, e)) < 0 ||
        (r = json_get_int(o, p, "choice", 0, UINT16_MAX, &choice, e)) < 0 ||
        (r = json_get_int(o, p, "choices", 0, UINT16_MAX, &choices, e)) < 0 ||
        (r = json_get_str(o, p, "setupBy", &by, e)) < 0 ||
        (r = json_get_int(o, p, "index", 0, UINT16_MAX, &index, e)) < 0 ||
        (r = json_get_bool(o, p, "mayRaisePf", &g->may_raise_pf, e)) < 0 ||
        (r = json_get_object(o, p, "settings", &settings, e)) < 0 ||
        (r = json_get_object(o, p, "interface", &interface, e)) < 0 ||
        (r = json_get_object(o, p, "original", &original, e)) < 0)
        return r;
    if (!pci_address_parse(vf, g->vf_address) || !pci_address_parse(pf, g->pf_address))
        return jpath_err(p, e, "vf and pf must be PCI addresses");
    if (mode_parse(mode, &g->mode) < 0)
        return jpath_err(p, e, "mode \"%s\" isn't known", mode);
    if (streq(attach, attach_text(ATTACH_NRI)))
        g->attach = ATTACH_NRI;
    else if (streq(attach, attach_text(ATTACH_NONE)))
        g->attach = ATTACH_NONE;
    else
        return jpath_err(p, e, "attach \"%s\" isn't known", attach);
    g->index = (unsigned)index;
    g->choice = alternative ? (unsigned)choice : 0;
    g->choices = alternative ? (unsigned)choices : 0;
    /* A release that didn't note it had no Skip pool of the driver's own. */
    g->set_up_by = mode_sets_up(g->mode) ? PROVISIONED_BY_DRIVER : PROVISIONED_EXTERNALLY;
    if (by && streq(by, provisioner_text(PROVISIONED_BY_DRIVER)))
        g->set_up_by = PROVISIONED_BY_DRIVER;
    if (settings) {
        struct jpath at = {.up = p, .key = "settings"};
        json_auto_t *known = known_settings(settings);

        if ((r = vf_settings_parse(known, &at, false, &g->settings, e)) < 0)
            return r;
    }
    if (interface) {
        struct jpath at = {.up = p, .key = "interface"};

        if ((r = interface_request_parse(interface, &at, false, &g->interface, e)) < 0)
            return r;
    }
    if (original) {
        struct jpath at = {.up = p, .key = "original"};

        if ((r = original_parse(original, &at, g, &ret->original, e)) < 0)
            return r;
        ret->has_original = true;
    }
    g->request = xstrdup(request);
    g->pool = xstrdup(pool);
    g->device = xstrdup(device);
    g->share_id = xstrdup(share);
    g->alternative = xstrdup(alternative);
    g->pool_document = xstrdup(doc);
    return 0;
}

int record_parse(const json_t *doc, struct record **ret, struct err *e)
{
    _cleanup_(record_freep) struct record *rec = xnew(struct record);
    const struct jpath root = {0};
    const char *namespace, *name, *uid, *state, *boot;
    json_t *pods = NULL, *devices = NULL, *item;
    int64_t version = 0;
    size_t i;
    int r;

    if (!json_is_object(doc))
        return jpath_err(NULL, e, "must be an object");
    if ((r = json_get_int(doc, &root, "version", 1, INT32_MAX, &version, e)) < 0)
        return r;
    if (version != RECORD_VERSION)
        return err_set(e, ERR_PERMANENT, -EPROTONOSUPPORT,
                       "written by a newer version (%d; this one reads %d)", (int)version,
                       RECORD_VERSION);
    if ((r = need(doc, &root, "namespace", &namespace, e)) < 0 ||
        (r = need(doc, &root, "name", &name, e)) < 0 ||
        (r = need(doc, &root, "uid", &uid, e)) < 0 ||
        (r = need(doc, &root, "state", &state, e)) < 0 ||
        (r = need(doc, &root, "bootID", &boot, e)) < 0 ||
        (r = json_get_bool(doc, &root, "byKubelet", &rec->by_kubelet, e)) < 0 ||
        (r = json_get_array(doc, &root, "pods", &pods, e)) < 0 ||
        (r = json_get_array(doc, &root, "devices", &devices, e)) < 0)
        return r;
    rec->unprepare_comes = rec->by_kubelet; /* of a file that doesn't say */
    if ((r = json_get_bool(doc, &root, "unprepareComes", &rec->unprepare_comes, e)) < 0)
        return r;
    if (!uid_is_valid(uid))
        return jpath_err(&(struct jpath){.key = "uid"}, e, "\"%s\" is no uid", uid);
    for (i = 0; i < ARRAY_SIZE(state_names) && !streq(state, state_names[i]);)
        i++;
    if (i == ARRAY_SIZE(state_names))
        return jpath_err(&(struct jpath){.key = "state"}, e, "\"%s\" isn't known", state);
    rec->state = (enum record_state)i;
    rec->namespace = xstrdup(namespace);
    rec->name = xstrdup(name);
    rec->uid = xstrdup(uid);
    rec->boot_id = xstrdup(boot);
    json_array_foreach (pods, i, item) {
        if (json_is_string(item))
            *VEC_PUSH(&rec->pods) = xstrdup(json_string_value(item));
    }
    json_array_foreach (devices, i, item) {
        struct jpath list = {.key = "devices"}, at = {.up = &list, .index = i};

        if ((r = device_parse(item, &at, VEC_PUSH(&rec->devices), e)) < 0)
            return r;
    }
    *ret = TAKE_PTR(rec);
    return 0;
}
