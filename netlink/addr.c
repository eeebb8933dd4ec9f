/* SPDX-License-Identifier: Apache-2.0 */
#include "netlink/addr.h"

#include "netlink/nlx.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>

static const struct nla_policy addr_policy[IFA_MAX + 1] = {
    [IFA_ADDRESS] = {.type = NLA_UNSPEC},
    [IFA_LOCAL] = {.type = NLA_UNSPEC},
};

struct listing {
    int ifindex; /* 0: of all */
    owned_addr_vec addrs;
};

static void listing_reset(void *data)
{
    struct listing *l = data;

    free(l->addrs.v);
    memset(&l->addrs, 0, sizeof(l->addrs));
}

static int take_addr(const struct nlmsghdr *h, void *data, struct err *e)
{
    struct listing *l = data;
    struct nlattr *tb[IFA_MAX + 1] = {0};

    if (h->nlmsg_type != RTM_NEWADDR)
        return 0;
    if (!nlmsg_valid_hdr(h, sizeof(struct ifaddrmsg)) ||
        nlx_parse(tb, IFA_MAX, nlmsg_attrdata(h, sizeof(struct ifaddrmsg)),
                  nlmsg_attrlen(h, sizeof(struct ifaddrmsg)), addr_policy) < 0)
        return err_set(e, ERR_PERMANENT, -EBADMSG, "malformed address");
    const struct ifaddrmsg *ifa = nlmsg_data(h);

    /* A kernel without strict checking answers with the addresses of all interfaces. */
    if ((l->ifindex && (int)ifa->ifa_index != l->ifindex) ||
        (ifa->ifa_family != AF_INET && ifa->ifa_family != AF_INET6))
        return 0;
    /* With a peer IFA_ADDRESS is the peer's, else both are the same, or IPv6 has no IFA_LOCAL. */
    const struct nlattr *own = tb[IFA_LOCAL] ? tb[IFA_LOCAL] : tb[IFA_ADDRESS];
    if (!own || nla_len(own) != (int)nlx_family_bytes(ifa->ifa_family) ||
        ifa->ifa_prefixlen > 8 * nla_len(own))
        return err_set(e, ERR_PERMANENT, -EBADMSG, "malformed address");
    struct owned_addr *out = VEC_PUSH(&l->addrs);
    out->ifindex = (int)ifa->ifa_index;
    out->addr.family = ifa->ifa_family;
    out->addr.prefix = ifa->ifa_prefixlen;
    memcpy(out->addr.b, nla_data(own), (size_t)nla_len(own));
    return 0;
}

static int list(struct nl_transport *t, int ifindex, owned_addr_vec *ret, struct err *e)
{
    /* Of AF_UNSPEC: a kernel without IPv6 answers a request for it with IPv4. */
    const struct ifaddrmsg ifa = {.ifa_index = (uint32_t)ifindex};
    _cleanup_(nlmsg_freep) struct nl_msg *m = nlx_msg(RTM_GETADDR, NLM_F_DUMP, &ifa, sizeof(ifa));
    struct listing l = {.ifindex = ifindex};
    int r = nlx_dump(t, m, take_addr, listing_reset, &l, e);

    if (r < 0) {
        listing_reset(&l);
        return r;
    }
    *ret = l.addrs;
    return 0;
}

int addr_list(struct nl_transport *t, int ifindex, ipnet_vec *ret, struct err *e)
{
    owned_addr_vec all = {0};
    int r = list(t, ifindex, &all, e);

    if (r < 0)
        return err_prefix(e, r, "listing addresses of interface %d", ifindex);
    *ret = (ipnet_vec){0};
    vec_foreach (a, &all)
        *VEC_PUSH(ret) = a->addr;
    free(all.v);
    return 0;
}

int addr_list_all(struct nl_transport *t, owned_addr_vec *ret, struct err *e)
{
    int r = list(t, 0, ret, e);

    return r < 0 ? err_prefix(e, r, "listing addresses") : 0;
}

/* Whether the address that made the kernel say EEXIST is the same with its prefix. */
static bool addr_is_there(struct nl_transport *t, int ifindex, const struct ipnet *a)
{
    ipnet_vec all = {0};
    bool found = false;

    if (addr_list(t, ifindex, &all, NULL) < 0)
        return false;
    vec_foreach (n, &all)
        found = found || ipnet_equal(n, a);
    free(all.v);
    return found;
}

int addr_add(struct nl_transport *t, int ifindex, const struct ipnet *a, struct err *e)
{
    const struct ifaddrmsg ifa = {.ifa_family = a->family,
                                  .ifa_prefixlen = a->prefix,
                                  .ifa_flags = a->family == AF_INET6 ? IFA_F_NODAD : 0,
                                  .ifa_scope = RT_SCOPE_UNIVERSE,
                                  .ifa_index = (uint32_t)ifindex};
    _cleanup_(nlmsg_freep) struct nl_msg *m =
        nlx_msg(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &ifa, sizeof(ifa));
    _cleanup_err_ struct err refused = ERR_INIT;
    char text[IPNET_TEXT_SIZE];

    nlx_put(m, IFA_LOCAL, a->b, nlx_family_bytes(a->family));
    nlx_put(m, IFA_ADDRESS, a->b, nlx_family_bytes(a->family));
    int r = nl_request(t, m, NULL, NULL, &refused);
    /* IPv6 says so too where the address is there with another prefix, which is none of ours. */
    if (r == 0 || (r == -EEXIST && addr_is_there(t, ifindex, a)))
        return 0;
    err_move(e, &refused);
    return err_prefix(e, r, "adding address %s to interface %d", ipnet_text(a, text), ifindex);
}

int addr_remove(struct nl_transport *t, int ifindex, const struct ipnet *a, struct err *e)
{
    const struct ifaddrmsg ifa = {
        .ifa_family = a->family, .ifa_prefixlen = a->prefix, .ifa_index = (uint32_t)ifindex};
    _cleanup_(nlmsg_freep) struct nl_msg *m = nlx_msg(RTM_DELADDR, 0, &ifa, sizeof(ifa));
    _cleanup_err_ struct err refused = ERR_INIT;
    char text[IPNET_TEXT_SIZE];

    /* Without IFA_ADDRESS, which would have to be the peer's where there is one. */
    nlx_put(m, IFA_LOCAL, a->b, nlx_family_bytes(a->family));
    int r = nl_request(t, m, NULL, NULL, &refused);
    /* A secondary address goes with its primary. */
    if (r == 0 || r == -EADDRNOTAVAIL)
        return 0;
    err_move(e, &refused);
    return err_prefix(e, r, "removing address %s from interface %d", ipnet_text(a, text), ifindex);
}
