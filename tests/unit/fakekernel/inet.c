/* SPDX-License-Identifier: Apache-2.0 */
/* Of rtnetlink's requests those about addresses and routes. */
#include "tests/unit/fakekernel/state.h"

#include "netlink/nlx.h"
#include "tests/unit/scripted.h"

#include <errno.h>
#include <linux/rtnetlink.h>

static void list_addrs(const struct fk_dev *d, struct replies *to)
{
    if (d->up) {
        struct ipnet own = {.family = AF_INET6, .prefix = 64, .b = {0xfe, 0x80}};

        memcpy(own.b + 10, d->mac.b, sizeof(d->mac.b));
        fk_reply(to, scripted_addr(d->ifindex, &own));
    }
    for (unsigned i = 0; i < d->n_addrs; i++)
        fk_reply(to, scripted_addr(d->ifindex, &d->addrs[i]));
}

/* Of one interface, or of all. */
int fk_get_addrs(struct fk *k, int netns, const struct nlmsghdr *h, struct replies *to)
{
    const struct ifaddrmsg *ifa = nlmsg_data(h);

    if (ifa->ifa_index && !fk_dev_by_index(k, netns, (int)ifa->ifa_index))
        return -ENODEV;
    for (const struct fk_dev *d = k->devs; d < k->devs + FK_DEVS; d++)
        if (d->kind && d->netns == netns && (!ifa->ifa_index || d->ifindex == (int)ifa->ifa_index))
            list_addrs(d, to);
    return 0;
}

int fk_change_addr(struct fk *k, int netns, const struct nlmsghdr *h)
{
    const struct ifaddrmsg *ifa = nlmsg_data(h);
    struct fk_dev *d = fk_dev_by_index(k, netns, (int)ifa->ifa_index);
    struct nlattr *tb[IFA_MAX + 1] = {0};
    struct ipnet a = {.family = ifa->ifa_family, .prefix = ifa->ifa_prefixlen};

    fk_parse(tb, IFA_MAX, h, sizeof(*ifa));
    if (!d)
        return -ENODEV;
    memcpy(a.b, nla_data(tb[IFA_LOCAL]), nlx_family_bytes(a.family));
    return h->nlmsg_type == RTM_NEWADDR ? fk_add_addr(k, d, &a) : fk_del_addr(k, d, &a);
}

int fk_new_route(struct fk *k, int netns, const struct nlmsghdr *h, const char **extack)
{
    const struct rtmsg *rtm = nlmsg_data(h);
    struct nlattr *tb[RTA_MAX + 1] = {0};
    struct route r = {.to = {.family = rtm->rtm_family, .prefix = rtm->rtm_dst_len}};

    fk_parse(tb, RTA_MAX, h, sizeof(*rtm));
    struct fk_dev *d = fk_dev_by_index(k, netns, (int)nla_get_u32(tb[RTA_OIF]));
    if (!d)
        return -ENODEV;
    if (tb[RTA_DST])
        memcpy(r.to.b, nla_data(tb[RTA_DST]), (size_t)nla_len(tb[RTA_DST]));
    if (tb[RTA_GATEWAY]) {
        r.has_via = true;
        r.via.family = rtm->rtm_family;
        r.via.prefix = rtm->rtm_family == AF_INET ? 32 : 128;
        memcpy(r.via.b, nla_data(tb[RTA_GATEWAY]), (size_t)nla_len(tb[RTA_GATEWAY]));
    }
    r.metric = tb[RTA_PRIORITY] ? nla_get_u32(tb[RTA_PRIORITY]) : 0;
    if (!r.metric && rtm->rtm_family == AF_INET6)
        r.metric = 1024; /* IP6_RT_PRIO_USER */
    r.table = tb[RTA_TABLE] ? nla_get_u32(tb[RTA_TABLE]) : rtm->rtm_table;
    return fk_add_route(k, d, &r, extack);
}

void fk_get_routes(struct fk *k, int netns, struct replies *to)
{
    for (const struct fk_dev *d = k->devs; d < k->devs + FK_DEVS; d++)
        for (unsigned i = 0; d->kind && d->netns == netns && i < d->n_routes; i++) {
            const struct route *r = &d->routes[i];
            const struct rtmsg rtm = {.rtm_family = r->to.family,
                                      .rtm_dst_len = r->to.prefix,
                                      .rtm_table = r->table < 256 ? (uint8_t)r->table : 0,
                                      .rtm_type = RTN_UNICAST};
            struct nl_msg *m = nlx_msg(RTM_NEWROUTE, NLM_F_MULTI, &rtm, sizeof(rtm));

            nlx_put_u32(m, RTA_TABLE, r->table);
            nlx_put_u32(m, RTA_OIF, (uint32_t)d->ifindex);
            if (r->to.prefix)
                nlx_put(m, RTA_DST, r->to.b, nlx_family_bytes(r->to.family));
            if (r->has_via)
                nlx_put(m, RTA_GATEWAY, r->via.b, nlx_family_bytes(r->via.family));
            if (r->metric)
                nlx_put_u32(m, RTA_PRIORITY, r->metric);
            fk_reply(to, m);
        }
}
