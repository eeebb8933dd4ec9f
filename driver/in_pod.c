/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/in_pod.h"

#include <ctype.h>
#include <stdio.h>

const char *in_pod_name(const struct record_device *d)
{
    return *d->grant.interface.name ? d->grant.interface.name : d->original.name;
}

/* What the VF was before is in force where nothing else was asked for. */
static const struct mac *mac_of(const struct record_device *d)
{
    return d->grant.settings.set & VF_SET_MAC ? &d->grant.settings.mac : &d->original.mac;
}

static unsigned vlan_of(const struct record_device *d)
{
    return d->grant.settings.set & VF_SET_VLAN ? d->grant.settings.vlan_id : d->original.vlan_id;
}

static unsigned mtu_of(const struct record_device *d)
{
    const struct grant *g = &d->grant;

    if (g->attach == ATTACH_NRI && g->interface.mtu)
        return g->interface.mtu;
    return g->settings.set & VF_SET_MTU ? g->settings.mtu : d->original.mtu;
}

struct env {
    const char *device;
    in_pod_env_fn *fn;
    void *data;
};

static void put(const struct env *to, const char *what, const char *value)
{
    _cleanup_free_ char *name = xasprintf("SRIOV_DRA_%s_%s", to->device, what);

    for (char *p = name; *p; p++)
        *p = isalnum((unsigned char)*p) ? (char)toupper((unsigned char)*p) : '_';
    to->fn(name, value, to->data);
}

static void put_number(const struct env *to, const char *what, unsigned value)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", value);
    put(to, what, text);
}

void in_pod_env(const struct record_device *d, in_pod_env_fn *fn, void *data)
{
    const struct env to = {.device = d->grant.device, .fn = fn, .data = data};
    const struct vf_settings *s = &d->grant.settings;
    char mac[MAC_TEXT_SIZE];

    put(&to, "PCI_ADDRESS", d->grant.vf_address);
    put(&to, "REQUEST", d->grant.request);
    if (d->grant.alternative)
        put(&to, "ALTERNATIVE", d->grant.alternative);
    put(&to, "MODE", mode_text(d->grant.mode));
    put(&to, "SETUP_BY", provisioner_text(d->grant.set_up_by));
    if (d->grant.attach == ATTACH_NRI)
        put(&to, "INTERFACE", in_pod_name(d));
    put(&to, "MAC", mac_text(mac_of(d), mac));
    put_number(&to, "VLAN", vlan_of(d));
    put_number(&to, "MTU", mtu_of(d));
    if (s->set & VF_SET_SPOOFCHK)
        put(&to, "SPOOF_CHECK", s->spoofchk ? "true" : "false");
    if (s->set & VF_SET_TRUST)
        put(&to, "TRUST", s->trust ? "true" : "false");
    if (s->set & VF_SET_RATE)
        put_number(&to, "MAX_TX_RATE_MBPS", s->max_tx_mbps);
}

json_t *in_pod_data(const struct record_device *d)
{
    json_t *o = json_object();

    json_set_str(o, "vf", d->grant.vf_address);
    json_set_str(o, "pf", d->grant.pf_address);
    json_set_str(o, "mode", mode_text(d->grant.mode));
    json_set_str(o, "setupBy", provisioner_text(d->grant.set_up_by));
    json_object_set_new(o, "vlan", json_integer(vlan_of(d)));
    json_object_set_new(o, "mtu", json_integer(mtu_of(d)));
    json_set_str(o, "alternative", d->grant.alternative);
    return o;
}
