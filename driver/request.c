/* SPDX-License-Identifier: Apache-2.0 */
/* Opaque configuration parsed and merged, class first: who may ask for what. */
#include "driver/request.h"

#include "driver/pool.h"

#include <errno.h>

void vf_request_done(struct vf_request *r)
{
    interface_request_done(&r->interface);
    *r = (struct vf_request){0};
}

static int parse_header(const json_t *o, struct err *e)
{
    static const char *const known[] = {"apiVersion", "kind", "settings", "interface", NULL};
    static const struct {
        const char *key, *want;
    } fields[] = {{"apiVersion", API_GROUP_VERSION}, {"kind", "VirtualFunctionConfig"}};
    int r;

    /* These first: what fields a document of another kind may have, we don't know. */
    for (size_t i = 0; json_is_object(o) && i < ARRAY_SIZE(fields); i++) {
        struct jpath at = {.key = fields[i].key};
        const char *text = NULL;

        if ((r = json_get_str(o, NULL, at.key, &text, e)) < 0)
            return r;
        if (!text)
            return jpath_err(&at, e, "must be \"%s\", but it isn't given", fields[i].want);
        if (!streq(text, fields[i].want))
            return jpath_err(&at, e, "must be \"%s\", not \"%s\"", fields[i].want, text);
    }
    return json_only(o, NULL, known, e);
}

/* One configuration by itself. */
static int parse(const json_t *o, struct vf_settings *settings, struct interface_request *interface,
                 struct err *e)
{
    struct jpath settings_at = {.key = "settings"}, interface_at = {.key = "interface"};
    json_t *part;
    int r;

    if ((r = parse_header(o, e)) < 0 ||
        (r = json_get_object(o, NULL, settings_at.key, &part, e)) < 0)
        return r;
    if (r > 0 && (r = vf_settings_parse(part, &settings_at, false, settings, e)) < 0)
        return r;
    if ((r = json_get_object(o, NULL, interface_at.key, &part, e)) < 0)
        return r;
    if (r > 0 && (r = interface_request_parse(part, &interface_at, true, interface, e)) < 0)
        return r;
    return 0;
}

static const struct {
    enum vf_setting bit;
    const char *path;
    bool class_only;
} setting_table[] = {
    {VF_SET_MAC, "settings.macAddress", false},
    {VF_SET_VLAN, "settings.vlan", false},
    {VF_SET_MTU, "settings.mtu", false},
    {VF_SET_RATE, "settings.maxTxRateMbps", false},
    {VF_SET_SPOOFCHK, "settings.spoofCheck", true},
    {VF_SET_TRUST, "settings.trust", true},
    {VF_SET_LINK_STATE, "settings.linkState", false},
};

const char *vf_setting_path(enum vf_setting bit)
{
    for (size_t i = 0; i < ARRAY_SIZE(setting_table); i++)
        if (setting_table[i].bit == bit)
            return setting_table[i].path;
    return "settings";
}

bool vf_setting_equal(const struct vf_settings *a, const struct vf_settings *b, enum vf_setting bit)
{
    switch (bit) {
    case VF_SET_MAC:
        return mac_equal(&a->mac, &b->mac);
    case VF_SET_VLAN:
        return a->vlan_id == b->vlan_id && a->vlan_qos == b->vlan_qos;
    case VF_SET_SPOOFCHK:
        return a->spoofchk == b->spoofchk;
    case VF_SET_TRUST:
        return a->trust == b->trust;
    case VF_SET_MTU:
        return a->mtu == b->mtu;
    case VF_SET_RATE:
        return a->max_tx_mbps == b->max_tx_mbps;
    case VF_SET_LINK_STATE:
        return a->link_state == b->link_state;
    }
    return false;
}

char *vf_setting_text(const struct vf_settings *s, enum vf_setting bit)
{
    char mac[MAC_TEXT_SIZE];

    switch (bit) {
    case VF_SET_MAC:
        return xstrdup(mac_text(&s->mac, mac));
    case VF_SET_VLAN:
        return s->vlan_qos ? xasprintf("%u (qos %u)", s->vlan_id, s->vlan_qos)
                           : xasprintf("%u", s->vlan_id);
    case VF_SET_SPOOFCHK:
        return xstrdup(s->spoofchk ? "true" : "false");
    case VF_SET_TRUST:
        return xstrdup(s->trust ? "true" : "false");
    case VF_SET_MTU:
        return xasprintf("%u", s->mtu);
    case VF_SET_RATE:
        return xasprintf("%u", s->max_tx_mbps);
    case VF_SET_LINK_STATE:
        return xstrdup(vf_link_state_text(s->link_state));
    }
    return xstrdup("");
}

static int overrides(const char *path, const char *asked, const char *class, struct err *e)
{
    return err_set(e, ERR_USER, -EINVAL,
                   "%s: the claim asks for %s and the class has %s; a claim may add to its class, "
                   "not override it",
                   path, asked, class);
}

static int merge_settings(struct vf_request *r, enum request_source source,
                          const struct vf_settings *add, struct err *e)
{
    for (size_t i = 0; source == FROM_CLAIM && i < ARRAY_SIZE(setting_table); i++) {
        enum vf_setting bit = setting_table[i].bit;

        if (!(add->set & bit))
            continue;
        if (setting_table[i].class_only)
            return err_set(e, ERR_USER, -EINVAL,
                           "%s: only a DeviceClass may set it, a claim may not",
                           setting_table[i].path);
        if ((r->of_class.settings & bit) && !vf_setting_equal(&r->settings, add, bit)) {
            _cleanup_free_ char *asked = vf_setting_text(add, bit);
            _cleanup_free_ char *class = vf_setting_text(&r->settings, bit);

            return overrides(setting_table[i].path, asked, class, e);
        }
    }
    vf_settings_merge(&r->settings, add);
    if (source == FROM_CLASS)
        r->of_class.settings |= add->set;
    return 0;
}

/* Name and MTU. */
static int merge_scalars(struct vf_request *r, enum request_source source,
                         const struct interface_request *add, struct err *e)
{
    struct interface_request *i = &r->interface;

    if (add->name[0]) {
        if (source == FROM_CLAIM && r->of_class.name && !streq(i->name, add->name))
            return overrides("interface.name", add->name, i->name, e);
        memcpy(i->name, add->name, sizeof(i->name));
        r->of_class.name |= source == FROM_CLASS;
    }
    if (add->mtu) {
        if (source == FROM_CLAIM && r->of_class.mtu && i->mtu != add->mtu) {
            _cleanup_free_ char *asked = xasprintf("%u", add->mtu);
            _cleanup_free_ char *class = xasprintf("%u", i->mtu);

            return overrides("interface.mtu", asked, class, e);
        }
        i->mtu = add->mtu;
        r->of_class.mtu |= source == FROM_CLASS;
    }
    return 0;
}

/*
 * The class's addresses, then the claim's. The source's earlier list goes, the other source's
 * stays; one that the class has already isn't added again.
 */
static int merge_addrs(struct vf_request *r, enum request_source source, const ipnet_vec *add,
                       struct err *e)
{
    ipnet_vec *list = &r->interface.addrs;

    if (!add->n)
        return 0;
    list->n = source == FROM_CLASS ? 0 : r->of_class.addrs;
    vec_foreach (a, add) {
        const struct ipnet *same = NULL;

        for (size_t k = 0; k < list->n && !same; k++)
            same = ipnet_same_host(&list->v[k], a) ? &list->v[k] : NULL;
        if (same && !ipnet_equal(same, a)) {
            char asked[IPNET_TEXT_SIZE], class[IPNET_TEXT_SIZE];

            return overrides("interface.addresses", ipnet_text(a, asked), ipnet_text(same, class),
                             e);
        }
        if (!same)
            *VEC_PUSH(list) = *a;
    }
    if (source == FROM_CLASS)
        r->of_class.addrs = list->n;
    if (list->n > INTERFACE_ADDRS_MAX)
        return err_set(e, ERR_USER, -EINVAL,
                       "interface.addresses: class and claim ask for %zu together, %d at most",
                       list->n, INTERFACE_ADDRS_MAX);
    return 0;
}

static int merge_routes(struct vf_request *r, enum request_source source,
                        const struct interface_request *add, struct err *e)
{
    struct interface_request *i = &r->interface;

    if (!add->routes.n)
        return 0;
    i->routes.n = source == FROM_CLASS ? 0 : r->of_class.routes;
    vec_foreach (rt, &add->routes) {
        const struct route *same = NULL;

        for (size_t k = 0; k < i->routes.n && !same; k++)
            same = route_same_key(&i->routes.v[k], rt) ? &i->routes.v[k] : NULL;
        if (same && (same->has_via != rt->has_via || !ipnet_same_host(&same->via, &rt->via))) {
            char to[IPNET_TEXT_SIZE];

            return err_set(e, ERR_USER, -EINVAL,
                           "interface.routes: the class has the route to %s another way; a claim "
                           "may add to its class, not override it",
                           ipnet_text(&rt->to, to));
        }
        if (!same)
            *VEC_PUSH(&i->routes) = *rt;
    }
    if (source == FROM_CLASS)
        r->of_class.routes = i->routes.n;
    if (i->routes.n > INTERFACE_ROUTES_MAX)
        return err_set(e, ERR_USER, -EINVAL,
                       "interface.routes: class and claim ask for %zu together, %d at most",
                       i->routes.n, INTERFACE_ROUTES_MAX);
    return 0;
}

static int merge(struct vf_request *r, enum request_source source, const struct vf_settings *s,
                 const struct interface_request *i, struct err *e)
{
    int rc = merge_settings(r, source, s, e);

    if (rc == 0)
        rc = merge_scalars(r, source, i, e);
    if (rc == 0)
        rc = merge_addrs(r, source, &i->addrs, e);
    if (rc == 0)
        rc = merge_routes(r, source, i, e);
    return rc;
}

void interface_request_copy(const struct interface_request *i, struct interface_request *ret)
{
    *ret = *i;
    ret->addrs.v = i->addrs.n ? xmemdup(i->addrs.v, i->addrs.n * sizeof(*i->addrs.v)) : NULL;
    ret->addrs.cap = i->addrs.n;
    ret->routes.v = i->routes.n ? xmemdup(i->routes.v, i->routes.n * sizeof(*i->routes.v)) : NULL;
    ret->routes.cap = i->routes.n;
}

int vf_request_merge(struct vf_request *r, enum request_source source, const json_t *params,
                     const char *where, struct err *e)
{
    _cleanup_(interface_request_done) struct interface_request interface = {0};
    _cleanup_(vf_request_done) struct vf_request merged = *r;
    struct vf_settings settings = {0};

    interface_request_copy(&r->interface, &merged.interface);
    int rc = parse(params, &settings, &interface, e);
    if (rc == 0)
        rc = merge(&merged, source, &settings, &interface, e);
    if (rc < 0)
        return err_prefix(e, rc, "%s", where);
    struct vf_request old = *r;
    *r = merged;
    merged = old;
    return 0;
}
