/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/scripted.h"

#include "base/file.h"
#include "netlink/nlx.h"
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>

struct scripted {
    struct nl_transport base;
    struct script_step *steps;
    size_t n, next;
    char *problem; /* the first */
    bool judged;
};

char *scripted_hex(const void *data, size_t len)
{
    struct strbuf b = {0};

    for (size_t i = 0; i < len; i++)
        strbuf_printf(&b, "%02x", ((const uint8_t *)data)[i]);
    return strbuf_take(&b);
}

static char *strip_space(const char *s)
{
    struct strbuf b = {0};

    for (; *s; s++)
        if (*s != ' ' && *s != '\n')
            strbuf_putc(&b, *s);
    return strbuf_take(&b);
}

static char *judge(const struct script_step *step, const struct nlmsghdr *h)
{
    if (step->type && step->type != h->nlmsg_type)
        return xasprintf("type %u, expected %u", h->nlmsg_type, step->type);
    if (step->payload) {
        _cleanup_free_ char *want = strip_space(step->payload);
        _cleanup_free_ char *got = scripted_hex(nlmsg_data(h), (size_t)nlmsg_datalen(h));

        if (!streq(want, got))
            return xasprintf("payload\n  %s, expected\n  %s", got, want);
    }
    return step->check ? step->check(h, step->data) : NULL;
}

static int scripted_request(struct nl_transport *t, struct nl_msg *msg, nl_reply_fn *fn, void *data,
                            struct err *e)
{
    struct scripted *s = container_of(t, struct scripted, base);
    const struct nlmsghdr *h = nlmsg_hdr(msg);

    if (!s->problem && s->next == s->n)
        s->problem =
            xasprintf("request %zu, of type %u, isn't in the script", s->n + 1, h->nlmsg_type);
    if (!s->problem) {
        _cleanup_free_ char *why = judge(&s->steps[s->next], h);

        if (why)
            s->problem = xasprintf("request %zu: %s", s->next + 1, why);
    }
    if (s->problem)
        return err_set(e, ERR_BUG, -EPROTO, "script: %s", s->problem);

    const struct script_step *step = &s->steps[s->next++];
    for (size_t i = 0; i < SCRIPT_REPLIES_MAX && step->replies[i]; i++) {
        int r = fn ? fn(nlmsg_hdr(step->replies[i]), data, e) : 0;

        if (r < 0)
            return r;
    }
    return step->error < 0 ? nl_err(e, step->error, step->extack) : 0;
}

const char *scripted_problem(struct nl_transport *t)
{
    struct scripted *s = container_of(t, struct scripted, base);

    if (!s->problem && s->next < s->n)
        s->problem = xasprintf("%zu of %zu requests came", s->next, s->n);
    s->judged = true;
    return s->problem;
}

static void scripted_free(struct nl_transport *t)
{
    struct scripted *s = container_of(t, struct scripted, base);
    bool judged = s->judged;
    _cleanup_free_ char *problem = xstrdup(scripted_problem(t));

    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < SCRIPT_REPLIES_MAX && s->steps[i].replies[k]; k++)
            nlmsg_free(s->steps[i].replies[k]);
    free(s->problem);
    free(s->steps);
    free(s);
    if (problem && !judged)
        fail_msg("script: %s", problem);
}

static const struct nl_transport_ops scripted_ops = {scripted_request, scripted_free};

struct nl_transport *scripted_new(const struct script_step *steps, size_t n)
{
    struct scripted *s = xnew(struct scripted);

    *s = (struct scripted){.base = {&scripted_ops}, .n = n};
    s->steps = xmemdup(steps, n * sizeof(*steps));
    return &s->base;
}

static void put_flag(struct nl_msg *m, int type, const struct vf_info *vf, enum vf_field field,
                     bool value)
{
    const uint32_t pair[2] = {vf->index, vf->has & field ? value : UINT32_MAX};

    nlx_put(m, type, pair, sizeof(pair));
}

/* As rtnl_fill_vfinfo() of the kernel does, in its order. */
static void put_vf(struct nl_msg *m, const struct vf_info *vf)
{
    struct nlattr *info = nlx_nest(m, IFLA_VF_INFO);
    struct ifla_vf_mac mac = {.vf = vf->index};
    const struct ifla_vf_vlan vlan = {vf->index, vf->vlan_id, vf->vlan_qos};
    const struct ifla_vf_vlan_info vlan_info = {vf->index, vf->vlan_id, vf->vlan_qos,
                                                htons(vf->vlan_proto ?: ETH_P_8021Q)};
    const struct ifla_vf_tx_rate tx_rate = {vf->index, vf->max_tx_mbps};
    const struct ifla_vf_rate rate = {vf->index, vf->min_tx_mbps, vf->max_tx_mbps};
    const struct ifla_vf_link_state state = {vf->index, vf->link_state};

    memcpy(mac.mac, vf->mac.b, sizeof(vf->mac.b));
    nlx_put(m, IFLA_VF_MAC, &mac, sizeof(mac));
    nlx_put(m, IFLA_VF_VLAN, &vlan, sizeof(vlan));
    nlx_put(m, IFLA_VF_TX_RATE, &tx_rate, sizeof(tx_rate));
    nlx_put(m, IFLA_VF_RATE, &rate, sizeof(rate));
    put_flag(m, IFLA_VF_SPOOFCHK, vf, VF_FIELD_SPOOFCHK, vf->spoofchk);
    nlx_put(m, IFLA_VF_LINK_STATE, &state, sizeof(state));
    put_flag(m, IFLA_VF_RSS_QUERY_EN, vf, VF_FIELD_RSS_QUERY, vf->rss_query);
    put_flag(m, IFLA_VF_TRUST, vf, VF_FIELD_TRUST, vf->trust);
    struct nlattr *list = nlx_nest(m, IFLA_VF_VLAN_LIST);
    nlx_put(m, IFLA_VF_VLAN_INFO, &vlan_info, sizeof(vlan_info));
    nlx_nest_end(m, list);
    nlx_nest_end(m, info);
}

struct nl_msg *scripted_link(const struct link *l)
{
    const struct ifinfomsg info = {
        .ifi_type = l->arp_type, .ifi_index = l->ifindex, .ifi_flags = l->flags};
    struct nl_msg *m = nlmsg_alloc_size(4096 + 256 * l->vfs.n);

    assert_non_null(nlmsg_put(m, 0, 0, RTM_NEWLINK, 0, 0));
    assert_int_equal(nlmsg_append(m, (void *)&info, sizeof(info), NLMSG_ALIGNTO), 0);
    nlx_put_str(m, IFLA_IFNAME, l->name);
    nlx_put_u32(m, IFLA_MTU, l->mtu);
    nlx_put_u32(m, IFLA_MIN_MTU, l->min_mtu);
    nlx_put_u32(m, IFLA_MAX_MTU, l->max_mtu);
    nlx_put_u32(m, IFLA_PROMISCUITY, l->promiscuity);
    nlx_put_u32(m, IFLA_ALLMULTI, l->allmulti);
    nlx_put(m, IFLA_CARRIER, &(uint8_t){l->carrier}, 1);
    if (l->has_mac)
        nlx_put(m, IFLA_ADDRESS, l->mac.b, sizeof(l->mac.b));
    if (l->num_vf)
        nlx_put_u32(m, IFLA_NUM_VF, l->num_vf);
    if (l->vfs.n) {
        struct nlattr *list = nlx_nest(m, IFLA_VFINFO_LIST);

        vec_foreach (vf, &l->vfs)
            put_vf(m, vf);
        /* libnl refuses to close a list above 64 KiB; the kernel stores what fits 16 bits. */
        list->nla_len = (uint16_t)((char *)nlmsg_hdr(m) + nlmsg_hdr(m)->nlmsg_len - (char *)list);
    }
    if (l->altnames.n) {
        struct nlattr *list = nlx_nest(m, IFLA_PROP_LIST);

        vec_foreach (name, &l->altnames)
            nlx_put_str(m, IFLA_ALT_IFNAME, *name);
        nlx_nest_end(m, list);
    }
    if (l->has_perm_mac)
        nlx_put(m, IFLA_PERM_ADDRESS, l->perm_mac.b, sizeof(l->perm_mac.b));
    if (*l->parent_dev)
        nlx_put_str(m, IFLA_PARENT_DEV_NAME, l->parent_dev);
    return m;
}

struct nl_msg *scripted_addr(int ifindex, const struct ipnet *a)
{
    const struct ifaddrmsg ifa = {.ifa_family = a->family,
                                  .ifa_prefixlen = a->prefix,
                                  .ifa_flags = IFA_F_PERMANENT,
                                  .ifa_index = (uint32_t)ifindex};
    struct nl_msg *m = nlx_msg(RTM_NEWADDR, NLM_F_MULTI, &ifa, sizeof(ifa));

    nlx_put(m, IFA_ADDRESS, a->b, a->family == AF_INET ? 4 : 16);
    if (a->family == AF_INET)
        nlx_put(m, IFA_LOCAL, a->b, 4);
    return m;
}

size_t scripted_load(const char *path, struct nl_msg **ret, size_t max)
{
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_free_ char *text = NULL;
    size_t n = 0, len = 0;

    assert_ok(file_read(AT_FDCWD, path, 1 << 24, &text, &len, &e), &e);
    int rem = (int)len;
    for (struct nlmsghdr *h = (void *)text; n < max && nlx_msg_ok(h, rem);
         h = nlmsg_next(h, &rem)) {
        ret[n] = nlmsg_convert(h);
        assert_non_null(ret[n++]);
    }
    return n;
}
