/* SPDX-License-Identifier: Apache-2.0 */
#include "netlink/addr.h"

#include "netlink/nlx.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>

/* IP6_RT_PRIO_USER: what IPv6 makes of metric 0. */
#define IPV6_DEFAULT_METRIC 1024

static uint32_t effective_table(const struct route *r)
{
    return r->table ? r->table : RT_TABLE_MAIN;
}

static uint32_t effective_metric(const struct route *r)
{
    return r->metric == 0 && r->to.family == AF_INET6 ? IPV6_DEFAULT_METRIC : r->metric;
}

static const struct nla_policy route_policy[RTA_MAX + 1] = {
    [RTA_DST] = {.type = NLA_UNSPEC},     [RTA_OIF] = {.type = NLA_U32},
    [RTA_GATEWAY] = {.type = NLA_UNSPEC}, [RTA_PRIORITY] = {.type = NLA_U32},
    [RTA_TABLE] = {.type = NLA_U32},      [RTA_VIA] = {.minlen = sizeof(struct rtvia)},
};

struct search {
    int ifindex;
    const struct route *want;
    bool found;
};

static void search_reset(void *data)
{
    ((struct search *)data)->found = false;
}

static uint32_t u32_or(const struct nlattr *a, uint32_t fallback)
{
    return a ? nla_get_u32(a) : fallback;
}

/* Whether `a` is the address of `n`; no attribute is the unspecified address. */
static bool is_address(const struct nlattr *a, const struct ipnet *n)
{
    static const uint8_t zero[16];
    size_t len = nlx_family_bytes(n->family);

    if (!a)
        return memcmp(n->b, zero, len) == 0;
    return nla_len(a) == (int)len && memcmp(nla_data(a), n->b, len) == 0;
}

static bool same_gateway(struct nlattr **tb, const struct route *want)
{
    if (!want->has_via)
        return !tb[RTA_GATEWAY] && !tb[RTA_VIA];
    if (want->via.family == want->to.family)
        return tb[RTA_GATEWAY] && is_address(tb[RTA_GATEWAY], &want->via);
    if (!tb[RTA_VIA])
        return false;
    const struct rtvia *via = nla_data(tb[RTA_VIA]);
    size_t len = nlx_family_bytes(want->via.family);
    return via->rtvia_family == want->via.family &&
           nla_len(tb[RTA_VIA]) == (int)(sizeof(*via) + len) &&
           memcmp(via->rtvia_addr, want->via.b, len) == 0;
}

static int take_route(const struct nlmsghdr *h, void *data, struct err *e)
{
    struct search *s = data;
    struct nlattr *tb[RTA_MAX + 1] = {0};

    if (h->nlmsg_type != RTM_NEWROUTE)
        return 0;
    if (!nlmsg_valid_hdr(h, sizeof(struct rtmsg)) ||
        nlx_parse(tb, RTA_MAX, nlmsg_attrdata(h, sizeof(struct rtmsg)),
                  nlmsg_attrlen(h, sizeof(struct rtmsg)), route_policy) < 0)
        return err_set(e, ERR_PERMANENT, -EBADMSG, "malformed route");
    const struct rtmsg *rtm = nlmsg_data(h);
    const struct route *want = s->want;

    if (rtm->rtm_family == want->to.family && rtm->rtm_type == RTN_UNICAST &&
        rtm->rtm_dst_len == want->to.prefix && is_address(tb[RTA_DST], &want->to) &&
        u32_or(tb[RTA_OIF], 0) == (uint32_t)s->ifindex && same_gateway(tb, want) &&
        u32_or(tb[RTA_TABLE], rtm->rtm_table) == effective_table(want) &&
        u32_or(tb[RTA_PRIORITY], 0) == effective_metric(want))
        s->found = true;
    return 0;
}

/* Whether the route that made the kernel say EEXIST is this one: it doesn't compare gateways. */
static bool route_is_there(struct nl_transport *t, int ifindex, const struct route *r)
{
    const struct rtmsg rtm = {.rtm_family = r->to.family};
    _cleanup_(nlmsg_freep) struct nl_msg *m = nlx_msg(RTM_GETROUTE, NLM_F_DUMP, &rtm, sizeof(rtm));
    struct search s = {.ifindex = ifindex, .want = r};

    return nlx_dump(t, m, take_route, search_reset, &s, NULL) == 0 && s.found;
}

static void put_gateway(struct nl_msg *m, const struct route *r)
{
    size_t len = nlx_family_bytes(r->via.family);

    if (r->via.family == r->to.family) {
        nlx_put(m, RTA_GATEWAY, r->via.b, len);
        return;
    }
    /* IPv4 by way of an IPv6 neighbour */
    uint8_t via[sizeof(struct rtvia) + 16];
    memcpy(via, &(__kernel_sa_family_t){r->via.family}, sizeof(__kernel_sa_family_t));
    memcpy(via + sizeof(struct rtvia), r->via.b, len);
    nlx_put(m, RTA_VIA, via, sizeof(struct rtvia) + len);
}

int route_add(struct nl_transport *t, int ifindex, const struct route *r, struct err *e)
{
    uint32_t table = effective_table(r);
    const struct rtmsg rtm = {
        .rtm_family = r->to.family,
        .rtm_dst_len = r->to.prefix,
        .rtm_table = table < 256 ? (uint8_t)table : RT_TABLE_UNSPEC,
        .rtm_protocol = RTPROT_STATIC,
        /* IPv4 refuses a gateway in scope link, IPv6 ignores the scope. */
        .rtm_scope = r->has_via ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK,
        .rtm_type = RTN_UNICAST,
    };
    _cleanup_(nlmsg_freep) struct nl_msg *m =
        nlx_msg(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &rtm, sizeof(rtm));
    _cleanup_err_ struct err refused = ERR_INIT;

    if (r->to.prefix > 0)
        nlx_put(m, RTA_DST, r->to.b, nlx_family_bytes(r->to.family));
    nlx_put_u32(m, RTA_OIF, (uint32_t)ifindex);
    if (r->has_via)
        put_gateway(m, r);
    if (r->metric)
        nlx_put_u32(m, RTA_PRIORITY, r->metric);
    if (table >= 256)
        nlx_put_u32(m, RTA_TABLE, table);
    int code = nl_request(t, m, NULL, NULL, &refused);
    if (code == 0 || (code == -EEXIST && route_is_there(t, ifindex, r)))
        return 0;

    char to[IPNET_TEXT_SIZE], via[INET6_ADDRSTRLEN] = "";
    if (r->has_via)
        (void)inet_ntop(r->via.family, r->via.b, via, sizeof(via));
    err_move(e, &refused);
    return err_prefix(e, code, "adding a route to %s%s%s through interface %d",
                      ipnet_text(&r->to, to), r->has_via ? " via " : "", via, ifindex);
}
