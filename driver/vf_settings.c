/* SPDX-License-Identifier: Apache-2.0 */
/* The `settings` object of pools and requests. */
#include "driver/request.h"

#include <linux/if_ether.h>

static int parse_mac(const json_t *o, const struct jpath *p, bool for_pool, struct vf_settings *s,
                     struct err *e)
{
    struct jpath at = {.up = p, .key = "macAddress"};
    const char *text;
    int r = json_get_str(o, p, at.key, &text, e);

    if (r <= 0)
        return r;
    if (for_pool)
        return jpath_err(&at, e,
                         "a pool has many VFs and one MAC address can't be all of theirs; "
                         "ask for it in a claim");
    if (mac_parse(text, &s->mac) < 0)
        return jpath_err(&at, e,
                         "\"%s\" is no Ethernet MAC address: six groups of two hexadecimal "
                         "digits with colons are expected",
                         text);
    if (mac_is_zero(&s->mac))
        return jpath_err(&at, e, "\"%s\" is all zero, which no interface can have", text);
    if (!mac_is_assignable(&s->mac))
        return jpath_err(&at, e,
                         "\"%s\" is a multicast or broadcast address (odd first byte), "
                         "which no interface can have",
                         text);
    s->set |= VF_SET_MAC;
    return 0;
}

static int parse_vlan(const json_t *o, const struct jpath *p, struct vf_settings *s, struct err *e)
{
    static const char *const known[] = {"id", "qos", NULL};
    struct jpath at = {.up = p, .key = "vlan"};
    struct jpath id_at = {.up = &at, .key = "id"}, qos_at = {.up = &at, .key = "qos"};
    int64_t id = 0, qos = 0;
    json_t *vlan;
    int r = json_get_object(o, p, at.key, &vlan, e);

    if (r <= 0)
        return r;
    if ((r = json_only(vlan, &at, known, e)) < 0)
        return r;
    /* 4095 is reserved by 802.1Q, and 0 takes the VLAN off */
    if ((r = json_get_int(vlan, &at, "id", 0, 4094, &id, e)) < 0)
        return r;
    if (r == 0)
        return jpath_err(&id_at, e, "must be given (0: no VLAN)");
    if ((r = json_get_int(vlan, &at, "qos", 0, 7, &qos, e)) < 0)
        return r;
    if (qos > 0 && id == 0)
        return jpath_err(&qos_at, e, "a priority needs a VLAN, and vlan.id is 0");
    s->vlan_id = (uint16_t)id;
    s->vlan_qos = (uint8_t)qos;
    s->set |= VF_SET_VLAN;
    return 0;
}

static int parse_u32(const json_t *o, const struct jpath *p, const char *key, int64_t min,
                     int64_t max, enum vf_setting bit, uint32_t *value, unsigned *set,
                     struct err *e)
{
    int64_t n;
    int r = json_get_int(o, p, key, min, max, &n, e);

    if (r > 0) {
        *value = (uint32_t)n;
        *set |= bit;
    }
    return r;
}

static int parse_bool(const json_t *o, const struct jpath *p, const char *key, enum vf_setting bit,
                      bool *value, unsigned *set, struct err *e)
{
    int r = json_get_bool(o, p, key, value, e);

    if (r > 0)
        *set |= bit;
    return r;
}

static int parse_link_state(const json_t *o, const struct jpath *p, struct vf_settings *s,
                            struct err *e)
{
    struct jpath at = {.up = p, .key = "linkState"};
    const char *text;
    int r = json_get_str(o, p, at.key, &text, e);

    if (r <= 0)
        return r;
    if (vf_link_state_parse(text, &s->link_state) < 0)
        return jpath_err(&at, e, "must be auto, enable or disable, not \"%s\"", text);
    s->set |= VF_SET_LINK_STATE;
    return 0;
}

int vf_settings_parse(const json_t *o, const struct jpath *p, bool for_pool,
                      struct vf_settings *ret, struct err *e)
{
    static const char *const known[] = {"macAddress", "vlan",  "mtu",       "maxTxRateMbps",
                                        "spoofCheck", "trust", "linkState", NULL};
    struct vf_settings s = {0};
    int r;

    if ((r = json_only(o, p, known, e)) < 0 || (r = parse_mac(o, p, for_pool, &s, e)) < 0 ||
        (r = parse_vlan(o, p, &s, e)) < 0 ||
        (r = parse_u32(o, p, "mtu", ETH_MIN_MTU, ETH_MAX_MTU, VF_SET_MTU, &s.mtu, &s.set, e)) < 0 ||
        (r = parse_u32(o, p, "maxTxRateMbps", 0, UINT32_MAX, VF_SET_RATE, &s.max_tx_mbps, &s.set,
                       e)) < 0 ||
        (r = parse_bool(o, p, "spoofCheck", VF_SET_SPOOFCHK, &s.spoofchk, &s.set, e)) < 0 ||
        (r = parse_bool(o, p, "trust", VF_SET_TRUST, &s.trust, &s.set, e)) < 0 ||
        (r = parse_link_state(o, p, &s, e)) < 0)
        return r;
    *ret = s;
    return 0;
}

json_t *vf_settings_json(const struct vf_settings *s)
{
    json_t *o = json_object();
    char mac[MAC_TEXT_SIZE];

    if (s->set & VF_SET_MAC)
        json_set_str(o, "macAddress", mac_text(&s->mac, mac));
    if (s->set & VF_SET_VLAN) {
        json_t *vlan = json_object();

        json_object_set_new(vlan, "id", json_integer(s->vlan_id));
        json_object_set_new(vlan, "qos", json_integer(s->vlan_qos));
        json_object_set_new(o, "vlan", vlan);
    }
    if (s->set & VF_SET_MTU)
        json_object_set_new(o, "mtu", json_integer(s->mtu));
    if (s->set & VF_SET_RATE)
        json_object_set_new(o, "maxTxRateMbps", json_integer(s->max_tx_mbps));
    if (s->set & VF_SET_SPOOFCHK)
        json_object_set_new(o, "spoofCheck", json_boolean(s->spoofchk));
    if (s->set & VF_SET_TRUST)
        json_object_set_new(o, "trust", json_boolean(s->trust));
    if (s->set & VF_SET_LINK_STATE)
        json_set_str(o, "linkState", vf_link_state_text(s->link_state));
    return o;
}
