/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces and VFs changed. */
#include "netlink/link.h"
#include "netlink/nlx.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>

static void put_vlan(struct nl_msg *m, const struct vf_change *c)
{
    if (c->vlan_proto != ETH_P_8021AD) {
        const struct ifla_vf_vlan v = {.vf = c->index, .vlan = c->vlan_id, .qos = c->vlan_qos};

        nlx_put(m, IFLA_VF_VLAN, &v, sizeof(v));
        return;
    }
    struct ifla_vf_vlan_info v;
    memset(&v, 0, sizeof(v)); /* padding too: it is sent */
    v.vf = c->index;
    v.vlan = c->vlan_id;
    v.qos = c->vlan_qos;
    v.vlan_proto = htons(ETH_P_8021AD);
    struct nlattr *list = nlx_nest(m, IFLA_VF_VLAN_LIST);

    nlx_put(m, IFLA_VF_VLAN_INFO, &v, sizeof(v));
    nlx_nest_end(m, list);
}

/* In the order in which the kernel applies them (do_setvfinfo). */
static void put_vf(struct nl_msg *m, const struct vf_change *c)
{
    struct nlattr *list = nlx_nest(m, IFLA_VFINFO_LIST), *info = nlx_nest(m, IFLA_VF_INFO);

    if (c->set & VF_FIELD_MAC) {
        struct ifla_vf_mac v = {.vf = c->index};

        memcpy(v.mac, c->mac.b, sizeof(c->mac.b));
        nlx_put(m, IFLA_VF_MAC, &v, sizeof(v));
    }
    if (c->set & VF_FIELD_VLAN)
        put_vlan(m, c);
    if (c->set & VF_FIELD_RATE) {
        const struct ifla_vf_rate v = {c->index, c->min_tx_mbps, c->max_tx_mbps};

        nlx_put(m, IFLA_VF_RATE, &v, sizeof(v));
    }
    if (c->set & VF_FIELD_SPOOFCHK) {
        const struct ifla_vf_spoofchk v = {c->index, c->spoofchk};

        nlx_put(m, IFLA_VF_SPOOFCHK, &v, sizeof(v));
    }
    if (c->set & VF_FIELD_LINK_STATE) {
        const struct ifla_vf_link_state v = {c->index, c->link_state};

        nlx_put(m, IFLA_VF_LINK_STATE, &v, sizeof(v));
    }
    if (c->set & VF_FIELD_RSS_QUERY) {
        const struct ifla_vf_rss_query_en v = {c->index, c->rss_query};

        nlx_put(m, IFLA_VF_RSS_QUERY_EN, &v, sizeof(v));
    }
    if (c->set & VF_FIELD_TRUST) {
        const struct ifla_vf_trust v = {c->index, c->trust};

        nlx_put(m, IFLA_VF_TRUST, &v, sizeof(v));
    }
    nlx_nest_end(m, info);
    nlx_nest_end(m, list);
}

int vf_change_build(int pf_ifindex, const struct vf_change *c, struct nl_msg **ret, struct err *e)
{
    const struct ifinfomsg info = {.ifi_index = pf_ifindex};

    if (c->set == 0)
        return err_set(e, ERR_BUG, -EINVAL, "VF %u: a change of nothing", c->index);
    if ((c->set & VF_FIELD_VLAN) &&
        (c->vlan_id >= 4095 || c->vlan_qos > 7 ||
         (c->vlan_proto && c->vlan_proto != ETH_P_8021Q && c->vlan_proto != ETH_P_8021AD)))
        return err_set(e, ERR_USER, -EINVAL, "VF %u: no VLAN with id %u, QoS %u, protocol 0x%04x",
                       c->index, c->vlan_id, c->vlan_qos, c->vlan_proto);

    struct nl_msg *m = nlx_msg(RTM_SETLINK, 0, &info, sizeof(info));
    put_vf(m, c);
    *ret = m;
    return 0;
}

static const char *on_off(bool on)
{
    return on ? "on" : "off";
}

/* What was asked, as the kernel rarely says which part of it was refused. */
static char *vf_change_text(const struct vf_change *c)
{
    struct strbuf b = {0};
    char mac[MAC_TEXT_SIZE];

    if (c->set & VF_FIELD_MAC)
        strbuf_printf(&b, ", MAC %s", mac_text(&c->mac, mac));
    if (c->set & VF_FIELD_VLAN)
        strbuf_printf(&b, ", VLAN %u QoS %u%s", c->vlan_id, c->vlan_qos,
                      c->vlan_proto == ETH_P_8021AD ? " 802.1ad" : "");
    if (c->set & VF_FIELD_RATE)
        strbuf_printf(&b, ", tx rate %u to %u Mbit/s", c->min_tx_mbps, c->max_tx_mbps);
    if (c->set & VF_FIELD_SPOOFCHK)
        strbuf_printf(&b, ", spoof checking %s", on_off(c->spoofchk));
    if (c->set & VF_FIELD_LINK_STATE)
        strbuf_printf(&b, ", link state %u", c->link_state);
    if (c->set & VF_FIELD_RSS_QUERY)
        strbuf_printf(&b, ", RSS query %s", on_off(c->rss_query));
    if (c->set & VF_FIELD_TRUST)
        strbuf_printf(&b, ", trust %s", on_off(c->trust));
    return strbuf_take(&b);
}

int vf_change_send(struct nl_transport *t, int pf_ifindex, const struct vf_change *c, struct err *e)
{
    _cleanup_(nlmsg_freep) struct nl_msg *m = NULL;
    int r = vf_change_build(pf_ifindex, c, &m, e);

    if (r < 0)
        return r;
    r = nl_request(t, m, NULL, NULL, e);
    if (r < 0) {
        _cleanup_free_ char *what = vf_change_text(c);

        return err_prefix(e, r, "setting VF %u of interface %d%s", c->index, pf_ifindex, what);
    }
    return 0;
}

int link_change_build(const struct link_change *c, struct nl_msg **ret, struct err *e)
{
    struct ifinfomsg info = {.ifi_index = c->ifindex};

    if (c->set == 0 || c->ifindex <= 0)
        return err_set(e, ERR_BUG, -EINVAL, "interface %d: a change of nothing", c->ifindex);
    if ((c->set & LINK_FIELD_NAME) && !memchr(c->name, '\0', sizeof(c->name)))
        return err_set(e, ERR_USER, -EINVAL, "interface %d: a name has at most %d characters",
                       c->ifindex, IFNAMSIZ - 1);
    if (c->set & LINK_FIELD_UP) {
        info.ifi_change |= IFF_UP;
        info.ifi_flags |= c->up ? IFF_UP : 0;
    }
    if (c->set & LINK_FIELD_PROMISC_OFF)
        info.ifi_change |= IFF_PROMISC | IFF_ALLMULTI;

    struct nl_msg *m = nlx_msg(RTM_NEWLINK, 0, &info, sizeof(info));
    if (c->set & LINK_FIELD_NETNS)
        nlx_put_u32(m, IFLA_NET_NS_FD, (uint32_t)c->netns_fd);
    if (c->set & LINK_FIELD_MAC)
        nlx_put(m, IFLA_ADDRESS, c->mac.b, sizeof(c->mac.b));
    if (c->set & LINK_FIELD_MTU)
        nlx_put_u32(m, IFLA_MTU, c->mtu);
    if (c->set & LINK_FIELD_NAME)
        nlx_put_str(m, IFLA_IFNAME, c->name);
    *ret = m;
    return 0;
}

static char *link_change_text(const struct link_change *c)
{
    struct strbuf b = {0};
    char mac[MAC_TEXT_SIZE];

    if (c->set & LINK_FIELD_NETNS)
        strbuf_puts(&b, ", another network namespace");
    if (c->set & LINK_FIELD_MAC)
        strbuf_printf(&b, ", MAC %s", mac_text(&c->mac, mac));
    if (c->set & LINK_FIELD_MTU)
        strbuf_printf(&b, ", MTU %u", c->mtu);
    if (c->set & LINK_FIELD_NAME)
        strbuf_printf(&b, ", name %s", c->name);
    if (c->set & LINK_FIELD_UP)
        strbuf_puts(&b, c->up ? ", up" : ", down");
    if (c->set & LINK_FIELD_PROMISC_OFF)
        strbuf_puts(&b, ", not promiscuous");
    return strbuf_take(&b);
}

int link_change_send(struct nl_transport *t, const struct link_change *c, struct err *e)
{
    _cleanup_(nlmsg_freep) struct nl_msg *m = NULL;
    int r = link_change_build(c, &m, e);

    if (r < 0)
        return r;
    r = nl_request(t, m, NULL, NULL, e);
    if (r < 0) {
        _cleanup_free_ char *what = link_change_text(c);

        return err_prefix(e, r, "setting interface %d%s", c->ifindex, what);
    }
    return 0;
}

int link_altname_remove(struct nl_transport *t, int ifindex, const char *altname, struct err *e)
{
    const struct ifinfomsg info = {.ifi_index = ifindex};

    if (strlen(altname) >= ALTIFNAMSIZ)
        return err_set(e, ERR_USER, -ENOENT, "interface %d: no alternative name is that long: %s",
                       ifindex, altname);
    _cleanup_(nlmsg_freep) struct nl_msg *m = nlx_msg(RTM_DELLINKPROP, 0, &info, sizeof(info));
    struct nlattr *list = nlx_nest(m, IFLA_PROP_LIST);

    nlx_put_str(m, IFLA_ALT_IFNAME, altname);
    nlx_nest_end(m, list);
    int r = nl_request(t, m, NULL, NULL, e);
    if (r < 0)
        return err_prefix(e, r, "removing the alternative name %s of interface %d", altname,
                          ifindex);
    return 0;
}
