/* SPDX-License-Identifier: Apache-2.0 */
#include "sriov/settings.h"

#include "sriov/pci.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <stdio.h>

static const char *const link_states[] = {
    [IFLA_VF_LINK_STATE_AUTO] = "auto",
    [IFLA_VF_LINK_STATE_ENABLE] = "enable",
    [IFLA_VF_LINK_STATE_DISABLE] = "disable",
};

const char *vf_link_state_text(uint32_t state)
{
    return state < ARRAY_SIZE(link_states) ? link_states[state] : "unknown";
}

int vf_link_state_parse(const char *text, uint32_t *ret)
{
    for (uint32_t i = 0; i < ARRAY_SIZE(link_states); i++)
        if (streq(text, link_states[i])) {
            *ret = i;
            return 0;
        }
    return -EINVAL;
}

void vf_settings_merge(struct vf_settings *base, const struct vf_settings *over)
{
    if (over->set & VF_SET_MAC)
        base->mac = over->mac;
    if (over->set & VF_SET_VLAN) {
        base->vlan_id = over->vlan_id;
        base->vlan_qos = over->vlan_qos;
    }
    if (over->set & VF_SET_SPOOFCHK)
        base->spoofchk = over->spoofchk;
    if (over->set & VF_SET_TRUST)
        base->trust = over->trust;
    if (over->set & VF_SET_MTU)
        base->mtu = over->mtu;
    if (over->set & VF_SET_RATE)
        base->max_tx_mbps = over->max_tx_mbps;
    if (over->set & VF_SET_LINK_STATE)
        base->link_state = over->link_state;
    base->set |= over->set;
}

void vf_state_done(struct vf_state *s)
{
    vec_foreach (name, &s->altnames)
        free(*name);
    free(s->altnames.v);
    free(s->addrs.v);
    *s = (struct vf_state){0};
}

/* An interface that sysfs named may have been renamed, and its name taken, before netlink reads. */
static int check_parent(const struct link *l, const char *address, struct err *e)
{
    if (l->parent_dev[0] && !streq(l->parent_dev, address))
        return err_set(e, ERR_TRANSIENT, -EAGAIN, "interface %s is %s now, not %s", l->name,
                       l->parent_dev, address);
    return 0;
}

int vf_state_set_admin(struct vf_state *s, const struct link *pf, const char *pf_address,
                       unsigned index, uint32_t speed_mbps, struct err *e)
{
    const struct vf_info *vf = link_vf(pf, index);

    if (!vf)
        return err_set(e, pf->vfs_truncated ? ERR_TRANSIENT : ERR_PERMANENT,
                       pf->vfs_truncated ? -EAGAIN : -ENODEV,
                       "PF %s (%s) reports no VF %u; its driver says %u VFs and %zu settings",
                       pf->name, pf_address, index, pf->num_vf, pf->vfs.n);
    memcpy(s->pf_name, pf->name, sizeof(s->pf_name));
    s->pf_ifindex = pf->ifindex;
    s->pf_up = pf->flags & IFF_UP;
    s->pf_mtu = pf->mtu;
    s->pf_speed_mbps = speed_mbps;
    s->admin = *vf;
    return 0;
}

void vf_state_set_own(struct vf_state *s, const struct link *l)
{
    s->home = true;
    s->ifindex = l->ifindex;
    memcpy(s->name, l->name, sizeof(s->name));
    s->up = l->flags & IFF_UP;
    s->has_perm_mac = l->has_perm_mac;
    s->mac = l->mac;
    s->perm_mac = l->perm_mac;
    s->mtu = l->mtu;
    s->min_mtu = l->min_mtu;
    s->max_mtu = l->max_mtu;
    s->promiscuity = l->promiscuity;
    s->allmulti = l->allmulti;
    vec_foreach (altname, &l->altnames)
        *VEC_PUSH(&s->altnames) = xstrdup(*altname);
}

static int read_pf(const struct hw *hw, const char *pf_address, unsigned index, struct vf_state *s,
                   struct err *e)
{
    _cleanup_(link_done) struct link l = {0};
    _cleanup_free_ char *name = NULL;

    int r = pci_netdev(hw->root, pf_address, &name, e);
    if (r < 0)
        return r;
    if (!name)
        return err_set(e, ERR_PERMANENT, -ENODEV, "PF %s has no network interface here",
                       pf_address);
    r = link_get(hw->nl, 0, name, true, &l, e);
    if (r == 0)
        r = check_parent(&l, pf_address, e);
    if (r < 0)
        return err_prefix(e, r, "PF %s", pf_address);
    return vf_state_set_admin(s, &l, pf_address, index, netdev_speed(hw->root, l.name), e);
}

static int read_addrs(const struct hw *hw, struct vf_state *s, struct err *e)
{
    ipnet_vec all = {0};

    int r = addr_list(hw->nl, s->ifindex, &all, e);
    if (r < 0)
        return r;
    vec_foreach (a, &all) {
        if (!ipnet_is_link_local(a))
            *VEC_PUSH(&s->addrs) = *a;
    }
    free(all.v);
    return 0;
}

static int read_own(const struct hw *hw, const char *vf_address, struct vf_state *s, struct err *e)
{
    _cleanup_(link_done) struct link l = {0};
    _cleanup_free_ char *name = NULL;
    _cleanup_err_ struct err why = ERR_INIT;

    int r = pci_netdev(hw->root, vf_address, &name, e);
    if (r < 0 || !name)
        return r;
    r = link_get(hw->nl, 0, name, false, &l, &why);
    if (r == -ENODEV) /* it left between the two looks */
        return 0;
    if (r < 0)
        return err_move(e, &why);
    r = check_parent(&l, vf_address, e);
    if (r < 0)
        return r;
    vf_state_set_own(s, &l);
    r = read_addrs(hw, s, e);
    s->home = r == 0;
    return r == -ENODEV ? 0 : r;
}

int vf_state_read(const struct hw *hw, const char *pf_address, const char *vf_address,
                  unsigned index, struct vf_state *ret, struct err *e)
{
    _cleanup_(vf_state_done) struct vf_state s = {0};
    _cleanup_free_ char *at_index = NULL;

    /* The index is the PF's name for the VF; after VFs were made anew it may be another's. */
    if (sysroot_link_name(hw->root, &at_index, NULL, "sys/bus/pci/devices/%s/virtfn%u", pf_address,
                          index) < 0 ||
        !streq(at_index, vf_address))
        return err_set(e, ERR_PERMANENT, -ENODEV, "VF %s is gone: VF %u of PF %s is %s", vf_address,
                       index, pf_address, at_index ? at_index : "none");
    snprintf(s.address, sizeof(s.address), "%s", vf_address);
    int r = read_pf(hw, pf_address, index, &s, e);
    if (r == 0)
        r = read_own(hw, vf_address, &s, e);
    if (r < 0)
        return err_prefix(e, r, "reading VF %s", vf_address);
    *ret = s;
    s = (struct vf_state){0};
    return 0;
}

static void add(struct strbuf *out, unsigned *n, const char *fmt, ...) _printf_(3, 4);
static void add(struct strbuf *out, unsigned *n, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *text = xvasprintf(fmt, ap);
    va_end(ap);
    strbuf_printf(out, "%s%s", out->len ? "; " : "", text);
    ++*n;
}

static const char *on_off(bool on)
{
    return on ? "on" : "off";
}

static void differ(vf_difference_vec *out, const char *what, const char *is, const char *want)
{
    struct vf_difference *d = VEC_PUSH(out);

    d->what = what;
    snprintf(d->is, sizeof(d->is), "%s", is);
    snprintf(d->want, sizeof(d->want), "%s", want);
}

/* `is` NULL: of a VF that isn't made yet. */
static void number_differs(vf_difference_vec *out, const char *what, const uint32_t *is,
                           const char *unit, uint32_t want)
{
    char is_text[24] = "", want_text[16];

    if (is && *is == want)
        return;
    if (is)
        snprintf(is_text, sizeof(is_text), "%u%s", *is, unit);
    snprintf(want_text, sizeof(want_text), "%u", want);
    differ(out, what, is_text, want_text);
}

static void flag_differs(vf_difference_vec *out, const char *what, const struct vf_state *s,
                         unsigned field, bool is, bool want)
{
    bool reported = s && s->admin.has & field;

    if (!reported)
        differ(out, what, s ? "not reported by the driver" : "", on_off(want));
    else if (is != want)
        differ(out, what, on_off(is), on_off(want));
}

static void mac_differs(vf_difference_vec *out, const struct vf_state *s, const struct mac *want)
{
    char is[MAC_TEXT_SIZE], asked[MAC_TEXT_SIZE], text[48];

    mac_text(want, asked);
    if (!s) {
        differ(out, "mac", "", asked);
        return;
    }
    if (!mac_equal(&s->admin.mac, want)) {
        snprintf(text, sizeof(text), "%s in the PF's list", mac_text(&s->admin.mac, is));
        differ(out, "mac", text, asked);
    }
    if (s->home && !mac_equal(&s->mac, want)) {
        snprintf(text, sizeof(text), "%s on the VF", mac_text(&s->mac, is));
        differ(out, "mac", text, asked);
    }
}

static void vlan_differs(vf_difference_vec *out, const struct vf_info *a, uint32_t id, uint32_t qos)
{
    const uint32_t is_id = a ? a->vlan_id : 0, is_qos = a ? a->vlan_qos : 0;
    char text[24];

    if (a && is_id == id && id && a->vlan_proto == ETH_P_8021AD) {
        snprintf(text, sizeof(text), "%u is 802.1ad", is_id);
        differ(out, "vlan", text, "802.1Q");
    } else {
        number_differs(out, "vlan", a ? &is_id : NULL, "", id);
    }
    if (is_qos != qos)
        number_differs(out, "vlan QoS", a ? &is_qos : NULL, "", qos);
}

void vf_state_differences(const struct vf_state *s, const struct vf_settings *want,
                          vf_difference_vec *out)
{
    const struct vf_info *a = s ? &s->admin : NULL;

    if (want->set & VF_SET_MAC)
        mac_differs(out, s, &want->mac);
    if (want->set & VF_SET_VLAN)
        vlan_differs(out, a, want->vlan_id, want->vlan_qos);
    if (want->set & VF_SET_SPOOFCHK)
        flag_differs(out, "spoof checking", s, VF_FIELD_SPOOFCHK, a && a->spoofchk, want->spoofchk);
    if (want->set & VF_SET_TRUST)
        flag_differs(out, "trust", s, VF_FIELD_TRUST, a && a->trust, want->trust);
    if ((want->set & VF_SET_MTU) && (!s || s->home))
        number_differs(out, "mtu", s ? &s->mtu : NULL, "", want->mtu);
    if (want->set & VF_SET_RATE)
        number_differs(out, "max tx rate", a ? &a->max_tx_mbps : NULL, " Mb/s", want->max_tx_mbps);
    if ((want->set & VF_SET_LINK_STATE) && (!a || a->link_state != want->link_state))
        differ(out, "link state", a ? vf_link_state_text(a->link_state) : "",
               vf_link_state_text(want->link_state));
}

unsigned vf_state_differs(const struct vf_state *s, const struct vf_settings *want,
                          struct strbuf *out)
{
    vf_difference_vec found = {0};
    unsigned n = 0;

    vf_state_differences(s, want, &found);
    vec_foreach (d, &found)
        add(out, &n, "%s: %s, want %s", d->what, d->is, d->want);
    free(found.v);
    return n;
}

unsigned vf_state_unclean(const struct vf_state *s, struct strbuf *out)
{
    char own[MAC_TEXT_SIZE], entry[MAC_TEXT_SIZE], text[IPNET_TEXT_SIZE];
    unsigned n = 0;

    if (!s->home) {
        add(out, &n, "not in the host's network namespace");
        return n;
    }
    if (!mac_is_zero(&s->admin.mac) && !mac_equal(&s->admin.mac, &s->mac))
        add(out, &n, "mac: %s on the VF, %s in the PF's list", mac_text(&s->mac, own),
            mac_text(&s->admin.mac, entry));
    vec_foreach (a, &s->addrs)
        add(out, &n, "has the address %s", ipnet_text(a, text));
    if (s->promiscuity)
        add(out, &n, "promiscuous");
    if (s->allmulti)
        add(out, &n, "takes all multicast");
    return n;
}
