/* SPDX-License-Identifier: Apache-2.0 */
#include "netlink/vf.h"

#include "netlink/nlx.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>

/* What the kernel puts where a driver left a setting untouched: not reported. */
#define VF_UNKNOWN UINT32_MAX

void vf_list_find(const struct nlattr *list, int rem, unsigned num_vf, struct vf_list *ret)
{
    const struct nlattr *head = nla_data(list), *a = head;
    int left = rem - NLA_HDRLEN, walked = 0;
    unsigned n = 0;

    for (; n < num_vf && nlx_ok(a, left) && nla_type(a) == IFLA_VF_INFO; n++) {
        walked += NLA_ALIGN(a->nla_len);
        a = nla_next(a, &left);
    }
    *ret = (struct vf_list){.head = head, .len = nla_len(list)};
    if (left >= 0 && walked + NLA_HDRLEN > UINT16_MAX &&
        ((walked + NLA_HDRLEN) & UINT16_MAX) == list->nla_len) {
        ret->len = walked;
        ret->wrapped = true;
    }
}

/* All begin with the VF's index. */
static const struct nla_policy vf_policy[IFLA_VF_MAX + 1] = {
    [IFLA_VF_MAC] = {.minlen = sizeof(struct ifla_vf_mac)},
    [IFLA_VF_VLAN] = {.minlen = sizeof(struct ifla_vf_vlan)},
    [IFLA_VF_RATE] = {.minlen = sizeof(struct ifla_vf_rate)},
    [IFLA_VF_SPOOFCHK] = {.minlen = sizeof(struct ifla_vf_spoofchk)},
    [IFLA_VF_LINK_STATE] = {.minlen = sizeof(struct ifla_vf_link_state)},
    [IFLA_VF_RSS_QUERY_EN] = {.minlen = sizeof(struct ifla_vf_rss_query_en)},
    [IFLA_VF_TRUST] = {.minlen = sizeof(struct ifla_vf_trust)},
    [IFLA_VF_VLAN_LIST] = {.type = NLA_NESTED},
};

static const struct nla_policy vlan_policy[IFLA_VF_VLAN_INFO_MAX + 1] = {
    [IFLA_VF_VLAN_INFO] = {.minlen = sizeof(struct ifla_vf_vlan_info)},
};

static void get_flag(const struct nlattr *a, enum vf_field field, bool *ret, struct vf_info *vf)
{
    uint32_t pair[2]; /* index and value: spoofchk, trust and RSS query are laid out alike */

    if (!a)
        return;
    memcpy(pair, nla_data(a), sizeof(pair));
    if (pair[1] == VF_UNKNOWN)
        return;
    *ret = pair[1] != 0;
    vf->has |= field;
}

static int get_vlan(struct nlattr **tb, struct vf_info *vf)
{
    if (tb[IFLA_VF_VLAN_LIST]) {
        struct nlattr *list[IFLA_VF_VLAN_INFO_MAX + 1] = {0};
        int r = nlx_parse_nested(list, IFLA_VF_VLAN_INFO_MAX, tb[IFLA_VF_VLAN_LIST], vlan_policy);

        if (r < 0)
            return r;
        if (list[IFLA_VF_VLAN_INFO]) {
            const struct ifla_vf_vlan_info *v = nla_data(list[IFLA_VF_VLAN_INFO]);

            vf->vlan_id = (uint16_t)v->vlan;
            vf->vlan_qos = (uint8_t)v->qos;
            vf->vlan_proto = ntohs(v->vlan_proto);
            vf->has |= VF_FIELD_VLAN;
            return 0;
        }
    }
    if (tb[IFLA_VF_VLAN]) {
        const struct ifla_vf_vlan *v = nla_data(tb[IFLA_VF_VLAN]);

        vf->vlan_id = (uint16_t)v->vlan;
        vf->vlan_qos = (uint8_t)v->qos;
        vf->vlan_proto = ETH_P_8021Q;
        vf->has |= VF_FIELD_VLAN;
    }
    return 0;
}

static int parse_vf(const struct nlattr *info, struct vf_info *vf)
{
    struct nlattr *tb[IFLA_VF_MAX + 1] = {0};
    int r = nlx_parse_nested(tb, IFLA_VF_MAX, info, vf_policy);

    if (r < 0)
        return r;
    if (!tb[IFLA_VF_MAC]) /* the kernel always sends it; it says which VF this is */
        return -EBADMSG;
    const struct ifla_vf_mac *mac = nla_data(tb[IFLA_VF_MAC]);
    vf->index = mac->vf;
    memcpy(vf->mac.b, mac->mac, sizeof(vf->mac.b));
    vf->has |= VF_FIELD_MAC;
    if (tb[IFLA_VF_RATE]) {
        const struct ifla_vf_rate *rate = nla_data(tb[IFLA_VF_RATE]);

        vf->min_tx_mbps = rate->min_tx_rate;
        vf->max_tx_mbps = rate->max_tx_rate;
        vf->has |= VF_FIELD_RATE;
    }
    if (tb[IFLA_VF_LINK_STATE]) {
        const struct ifla_vf_link_state *state = nla_data(tb[IFLA_VF_LINK_STATE]);

        vf->link_state = state->link_state;
        vf->has |= VF_FIELD_LINK_STATE;
    }
    get_flag(tb[IFLA_VF_SPOOFCHK], VF_FIELD_SPOOFCHK, &vf->spoofchk, vf);
    get_flag(tb[IFLA_VF_TRUST], VF_FIELD_TRUST, &vf->trust, vf);
    get_flag(tb[IFLA_VF_RSS_QUERY_EN], VF_FIELD_RSS_QUERY, &vf->rss_query, vf);
    return get_vlan(tb, vf);
}

int vf_list_parse(const struct vf_list *list, struct link *l)
{
    struct nlattr *a;
    int rem;

    if (!list->head)
        return 0;
    nlx_for_each (a, (struct nlattr *)list->head, list->len, rem) {
        struct vf_info vf = {0};

        if (nla_type(a) != IFLA_VF_INFO)
            continue;
        int r = parse_vf(a, &vf);
        if (r < 0)
            return r;
        *VEC_PUSH(&l->vfs) = vf;
    }
    return rem > 0 ? -EBADMSG : 0;
}
