/* SPDX-License-Identifier: Apache-2.0 */
/* rtnetlink's requests, as far as the project sends them, carried out on the fake kernel. */
#include "tests/unit/fakekernel/state.h"

#include "netlink/nlx.h"
#include "tests/unit/scripted.h"
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <sys/stat.h>

struct fk_socket {
    struct nl_transport base;
    struct fk *k;
    int netns;
};

void fk_reply(struct replies *to, struct nl_msg *m)
{
    if (to->r == 0 && to->fn)
        to->r = to->fn(nlmsg_hdr(m), to->data, to->e);
    nlmsg_free(m);
}

struct fk_dev *fk_dev_by_index(struct fk *k, int netns, int ifindex)
{
    for (struct fk_dev *d = k->devs; d < k->devs + FK_DEVS; d++)
        if (d->kind && d->netns == netns && d->ifindex == ifindex)
            return d;
    return NULL;
}

static const struct nla_policy anything[IFLA_MAX + 1];

void fk_parse(struct nlattr **tb, int max, const struct nlmsghdr *h, size_t head)
{
    assert_true(nlmsg_valid_hdr(h, (int)head));
    assert_int_equal(
        nlx_parse(tb, max, nlmsg_attrdata(h, (int)head), nlmsg_attrlen(h, (int)head), anything), 0);
}

/* By index, or by name if that is 0. */
static struct fk_dev *named_dev(struct fk *k, int netns, const struct nlmsghdr *h)
{
    const struct ifinfomsg *info = nlmsg_data(h);
    struct nlattr *tb[IFLA_MAX + 1] = {0};

    if (info->ifi_index)
        return fk_dev_by_index(k, netns, info->ifi_index);
    fk_parse(tb, IFLA_MAX, h, sizeof(*info));
    const struct nlattr *name = tb[IFLA_IFNAME] ?: tb[IFLA_ALT_IFNAME];
    return name ? fk_find(k, netns, nla_data(name)) : NULL;
}

static struct nl_msg *link_message(const struct fk *k, const struct fk_dev *d, bool with_vfs)
{
    struct link l = {
        .ifindex = d->ifindex,
        .flags = (d->up ? IFF_UP : 0) | (d->promisc ? IFF_PROMISC : 0) |
                 (d->allmulti ? IFF_ALLMULTI : 0),
        .arp_type = ARPHRD_ETHER,
        .mtu = d->mtu,
        .min_mtu = 68,
        .max_mtu = 9216,
        .has_mac = true,
        .mac = d->mac,
        .has_perm_mac = !mac_is_zero(&d->perm_mac),
        .perm_mac = d->perm_mac,
        .carrier = d->up && (d->kind != FK_VF || k->devs[k->pfs[d->pf].dev].up),
        .promiscuity = d->promisc,
        .allmulti = d->allmulti,
    };

    memcpy(l.name, d->name, sizeof(l.name));
    for (unsigned i = 0; i < d->n_altnames; i++)
        *VEC_PUSH(&l.altnames) = xstrdup(d->altnames[i]);
    if (d->kind == FK_VF)
        memcpy(l.parent_dev, k->pfs[d->pf].vfs[d->vf].address, 24);
    if (d->kind == FK_PF) {
        memcpy(l.parent_dev, k->pfs[d->pf].address, 24);
        for (unsigned v = 0; with_vfs && v < k->pfs[d->pf].n_vfs; v++, l.num_vf++)
            *VEC_PUSH(&l.vfs) = k->pfs[d->pf].vfs[v].entry;
    }
    struct nl_msg *m = scripted_link(&l);

    link_done(&l);
    return m;
}

static int get_link(struct fk *k, int netns, const struct nlmsghdr *h, struct replies *to)
{
    struct nlattr *tb[IFLA_MAX + 1] = {0};

    fk_parse(tb, IFLA_MAX, h, sizeof(struct ifinfomsg));
    bool with_vfs = tb[IFLA_EXT_MASK] && (nla_get_u32(tb[IFLA_EXT_MASK]) & RTEXT_FILTER_VF);
    if ((h->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP) {
        for (struct fk_dev *d = k->devs; d < k->devs + FK_DEVS; d++)
            if (d->kind && d->netns == netns)
                fk_reply(to, link_message(k, d, with_vfs));
        return 0;
    }
    const struct fk_dev *d = named_dev(k, netns, h);
    if (!d)
        return -ENODEV;
    fk_reply(to, link_message(k, d, with_vfs));
    return 0;
}

/* One attribute of an IFLA_VF_INFO; all begin with the VF's index. */
static void take_vf_attribute(const struct nlattr *a, struct vf_change *c)
{
    const void *data = nla_data(a);
    uint32_t pair[2] = {0};

    memcpy(pair, data, nla_len(a) < 8 ? 4 : 8);
    c->index = pair[0];
    switch (nla_type(a)) {
    case IFLA_VF_MAC:
        memcpy(c->mac.b, ((const struct ifla_vf_mac *)data)->mac, sizeof(c->mac.b));
        c->set |= VF_FIELD_MAC;
        break;
    case IFLA_VF_VLAN:
        c->vlan_id = (uint16_t)((const struct ifla_vf_vlan *)data)->vlan;
        c->vlan_qos = (uint8_t)((const struct ifla_vf_vlan *)data)->qos;
        c->set |= VF_FIELD_VLAN;
        break;
    case IFLA_VF_VLAN_LIST: {
        const struct ifla_vf_vlan_info *v = nla_data((const struct nlattr *)data);

        c->index = v->vf;
        c->vlan_id = (uint16_t)v->vlan;
        c->vlan_qos = (uint8_t)v->qos;
        c->vlan_proto = ntohs(v->vlan_proto);
        c->set |= VF_FIELD_VLAN;
        break;
    }
    case IFLA_VF_RATE:
        c->min_tx_mbps = ((const struct ifla_vf_rate *)data)->min_tx_rate;
        c->max_tx_mbps = ((const struct ifla_vf_rate *)data)->max_tx_rate;
        c->set |= VF_FIELD_RATE;
        break;
    case IFLA_VF_SPOOFCHK:
        c->spoofchk = pair[1];
        c->set |= VF_FIELD_SPOOFCHK;
        break;
    case IFLA_VF_LINK_STATE:
        c->link_state = pair[1];
        c->set |= VF_FIELD_LINK_STATE;
        break;
    case IFLA_VF_RSS_QUERY_EN:
        c->rss_query = pair[1];
        c->set |= VF_FIELD_RSS_QUERY;
        break;
    case IFLA_VF_TRUST:
        c->trust = pair[1];
        c->set |= VF_FIELD_TRUST;
        break;
    default:
        fail_msg("attribute %d of a VF isn't known here", nla_type(a));
    }
}

static int set_vfs(struct fk *k, struct fk_dev *d, const struct nlattr *list, const char **extack)
{
    struct nlattr *info, *a;
    int rem, left, r = 0;

    if (d->kind != FK_PF)
        return -EOPNOTSUPP;
    nlx_for_each (info, (struct nlattr *)nla_data(list), nla_len(list), rem) {
        struct vf_change c = {0};

        nlx_for_each (a, (struct nlattr *)nla_data(info), nla_len(info), left)
            take_vf_attribute(a, &c);
        if (r == 0)
            r = fk_set_vf(k, d->pf, &c, extack);
    }
    return r;
}

int fk_netns_of_fd(const struct fk *k, int fd)
{
    struct stat st, own;

    if (fstat(fd, &st) < 0)
        return -1;
    if (stat("/proc/thread-self/ns/net", &own) == 0 && own.st_ino == st.st_ino &&
        own.st_dev == st.st_dev)
        return 0;
    int found = -1;
    for (int i = 1; i < FK_NETNS; i++)
        /* The inode of a file that is gone may be another's by now. */
        if (k->netns[i].alive && k->netns[i].inode == st.st_ino &&
            (found < 0 || k->netns[i].mounted))
            found = i;
    return found;
}

/* In the order of do_setlink(), which stops at the first refusal. */
static int set_link(struct fk *k, int netns, const struct nlmsghdr *h, const char **extack)
{
    const struct ifinfomsg *info = nlmsg_data(h);
    struct nlattr *tb[IFLA_MAX + 1] = {0};
    struct fk_dev *d = named_dev(k, netns, h);
    int r = 0;

    fk_parse(tb, IFLA_MAX, h, sizeof(*info));
    if (!d)
        return -ENODEV;
    const char *name = tb[IFLA_IFNAME] ? nla_data(tb[IFLA_IFNAME]) : NULL;
    if (tb[IFLA_NET_NS_FD])
        r = fk_move(k, d, fk_netns_of_fd(k, (int)nla_get_u32(tb[IFLA_NET_NS_FD])), name);
    if (r == 0 && tb[IFLA_ADDRESS]) {
        struct mac mac;

        memcpy(mac.b, nla_data(tb[IFLA_ADDRESS]), sizeof(mac.b));
        r = fk_set_mac(k, d, &mac);
    }
    if (r == 0 && tb[IFLA_MTU])
        r = fk_set_mtu(k, d, nla_get_u32(tb[IFLA_MTU]), extack);
    if (r == 0 && name)
        r = fk_rename(k, d, name);
    if (r == 0 && (info->ifi_change & (IFF_PROMISC | IFF_ALLMULTI)))
        fk_set_promisc(k, d, info->ifi_change & info->ifi_flags & IFF_PROMISC,
                       info->ifi_change & info->ifi_flags & IFF_ALLMULTI);
    if (r == 0 && (info->ifi_change & IFF_UP))
        r = fk_set_up(k, d, info->ifi_flags & IFF_UP);
    if (r == 0 && tb[IFLA_VFINFO_LIST])
        r = set_vfs(k, d, tb[IFLA_VFINFO_LIST], extack);
    return r;
}

static int del_altname(struct fk *k, int netns, const struct nlmsghdr *h)
{
    struct nlattr *tb[IFLA_MAX + 1] = {0}, *names[IFLA_MAX + 1] = {0};
    struct fk_dev *d = named_dev(k, netns, h);

    fk_parse(tb, IFLA_MAX, h, sizeof(struct ifinfomsg));
    if (!d)
        return -ENODEV;
    assert_int_equal(nlx_parse_nested(names, IFLA_MAX, tb[IFLA_PROP_LIST], anything), 0);
    return fk_del_altname(k, d, nla_data(names[IFLA_ALT_IFNAME]));
}

static int carry_out(struct fk *k, int netns, const struct nlmsghdr *h, struct replies *to,
                     const char **extack)
{
    switch (h->nlmsg_type) {
    case RTM_GETLINK:
        return get_link(k, netns, h, to);
    case RTM_NEWLINK:
    case RTM_SETLINK:
        return set_link(k, netns, h, extack);
    case RTM_DELLINKPROP:
        return del_altname(k, netns, h);
    case RTM_GETADDR:
        return fk_get_addrs(k, netns, h, to);
    case RTM_NEWADDR:
    case RTM_DELADDR:
        return fk_change_addr(k, netns, h);
    case RTM_NEWROUTE:
        return fk_new_route(k, netns, h, extack);
    case RTM_GETROUTE:
        fk_get_routes(k, netns, to);
        return 0;
    }
    fail_msg("a request of type %u isn't known here", h->nlmsg_type);
    return -EOPNOTSUPP;
}

/* The interface that a request is about. */
static const struct fk_dev *subject(struct fk *k, int netns, const struct nlmsghdr *h)
{
    struct nlattr *tb[RTA_MAX + 1] = {0};

    switch (h->nlmsg_type) {
    case RTM_GETADDR:
    case RTM_NEWADDR:
    case RTM_DELADDR:
        return fk_dev_by_index(k, netns, (int)((const struct ifaddrmsg *)nlmsg_data(h))->ifa_index);
    case RTM_NEWROUTE:
        fk_parse(tb, RTA_MAX, h, sizeof(struct rtmsg));
        return fk_dev_by_index(k, netns, (int)nla_get_u32(tb[RTA_OIF]));
    case RTM_GETROUTE:
        return NULL;
    }
    return (h->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP ? NULL : named_dev(k, netns, h);
}

/* Which VF, and where it is moved to. */
static void find_vf(struct fk *k, struct fk_request *q)
{
    struct nlattr *tb[IFLA_MAX + 1] = {0};

    q->vf = q->into = -1;
    if (q->dev && q->dev->kind == FK_VF) {
        q->pf = (int)q->dev->pf;
        q->vf = (int)q->dev->vf;
    }
    if (!q->dev || (q->h->nlmsg_type != RTM_NEWLINK && q->h->nlmsg_type != RTM_SETLINK))
        return;
    fk_parse(tb, IFLA_MAX, q->h, sizeof(struct ifinfomsg));
    if (tb[IFLA_NET_NS_FD])
        q->into = fk_netns_of_fd(k, (int)nla_get_u32(tb[IFLA_NET_NS_FD]));
    if (tb[IFLA_VFINFO_LIST]) {
        const struct nlattr *info = nla_data(tb[IFLA_VFINFO_LIST]);
        struct vf_change c = {0};

        take_vf_attribute(nla_data(info), &c);
        q->pf = (int)q->dev->pf;
        q->vf = (int)c.index;
    }
}

static bool is_write(const struct nlmsghdr *h)
{
    return h->nlmsg_type != RTM_GETLINK && h->nlmsg_type != RTM_GETADDR &&
           h->nlmsg_type != RTM_GETROUTE;
}

static void trace(struct fk *k, const struct fk_request *q, const char *what, int r)
{
    static const char *const names[] = {
        [RTM_NEWLINK] = "set link",        [RTM_GETLINK] = "get link",
        [RTM_SETLINK] = "set VF",          [RTM_NEWADDR] = "add address",
        [RTM_DELADDR] = "del address",     [RTM_GETADDR] = "get addresses",
        [RTM_NEWROUTE] = "add route",      [RTM_GETROUTE] = "get routes",
        [RTM_DELLINKPROP] = "del altname",
    };
    struct nlattr *tb[IFLA_MAX + 1] = {0};
    struct strbuf b = {0};
    char mac[MAC_TEXT_SIZE];

    strbuf_printf(&b, "%s: %s", q->netns ? k->netns[q->netns].name : "host",
                  names[q->h->nlmsg_type]);
    if (*what)
        strbuf_printf(&b, " of %s", what);
    if (q->h->nlmsg_type == RTM_NEWLINK || q->h->nlmsg_type == RTM_SETLINK) {
        const struct ifinfomsg *info = nlmsg_data(q->h);

        fk_parse(tb, IFLA_MAX, q->h, sizeof(*info));
        if (tb[IFLA_NET_NS_FD])
            strbuf_printf(&b, ", into %s",
                          k->netns[fk_netns_of_fd(k, (int)nla_get_u32(tb[IFLA_NET_NS_FD]))].name);
        if (tb[IFLA_ADDRESS])
            strbuf_printf(&b, ", mac %s", mac_text(nla_data(tb[IFLA_ADDRESS]), mac));
        if (tb[IFLA_MTU])
            strbuf_printf(&b, ", mtu %u", nla_get_u32(tb[IFLA_MTU]));
        if (tb[IFLA_IFNAME])
            strbuf_printf(&b, ", name %s", (const char *)nla_data(tb[IFLA_IFNAME]));
        if (info->ifi_change)
            strbuf_printf(&b, ", flags %x of %x", info->ifi_flags, info->ifi_change);
    }
    if (q->vf >= 0) {
        _cleanup_free_ char *after = fk_vf_text(k, (unsigned)q->pf, (unsigned)q->vf);

        strbuf_printf(&b, ": %d; %s", r, after);
    } else {
        strbuf_printf(&b, ": %d", r);
    }
    k->on_trace(b.s, k->data);
    strbuf_done(&b);
}

static int fk_request(struct nl_transport *t, struct nl_msg *msg, nl_reply_fn *fn, void *data,
                      struct err *e)
{
    struct fk_socket *s = container_of(t, struct fk_socket, base);
    const struct nlmsghdr *h = nlmsg_hdr(msg);
    struct fk_request q = {
        .h = h, .netns = s->netns, .dev = subject(s->k, s->netns, h), .writes = is_write(h)};
    struct fk_verdict v = {.apply = true};
    struct replies to = {.fn = fn, .data = data, .e = e};
    const char *extack = NULL;
    char what[IFNAMSIZ] = "";
    int r = 0;

    find_vf(s->k, &q);
    if (q.dev)
        memcpy(what, q.dev->name, sizeof(what));
    if (s->k->on_request)
        s->k->on_request(&q, &v, s->k->data);
    if (v.apply)
        r = carry_out(s->k, s->netns, h, &to, &extack);
    if (v.error < 0) {
        r = v.error;
        extack = v.extack;
    }
    if (s->k->on_trace && q.writes)
        trace(s->k, &q, what, r);
    if (to.r < 0)
        return to.r;
    return r < 0 ? nl_err(e, r, extack) : 0;
}

static void fk_socket_free(struct nl_transport *t)
{
    free(container_of(t, struct fk_socket, base));
}

static const struct nl_transport_ops fk_ops = {fk_request, fk_socket_free};

struct nl_transport *fk_transport(struct fk *k, int netns)
{
    struct fk_socket *s = xnew(struct fk_socket);

    *s = (struct fk_socket){.base = {&fk_ops}, .k = k, .netns = netns};
    return &s->base;
}
