/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces read: requests and their answers. */
#include "netlink/link.h"

#include "netlink/nlx.h"
#include "netlink/vf.h"

#include <errno.h>
#include <linux/rtnetlink.h>

void link_done(struct link *l)
{
    vec_foreach (name, &l->altnames)
        free(*name);
    free(l->altnames.v);
    free(l->vfs.v);
    *l = (struct link){0};
}

const struct vf_info *link_vf(const struct link *l, unsigned index)
{
    vec_foreach (vf, &l->vfs)
        if (vf->index == index)
            return vf;
    return NULL;
}

static const struct nla_policy link_policy[IFLA_MAX + 1] = {
    [IFLA_ADDRESS] = {.type = NLA_UNSPEC},
    [IFLA_IFNAME] = {.type = NLA_STRING, .maxlen = IFNAMSIZ},
    [IFLA_MTU] = {.type = NLA_U32},
    [IFLA_MIN_MTU] = {.type = NLA_U32},
    [IFLA_MAX_MTU] = {.type = NLA_U32},
    [IFLA_CARRIER] = {.type = NLA_U8},
    [IFLA_PROMISCUITY] = {.type = NLA_U32},
    [IFLA_ALLMULTI] = {.type = NLA_U32},
    [IFLA_NUM_VF] = {.type = NLA_U32},
    [IFLA_VFINFO_LIST] = {.type = NLA_NESTED},
    [IFLA_PROP_LIST] = {.type = NLA_NESTED},
    [IFLA_PERM_ADDRESS] = {.type = NLA_UNSPEC},
    [IFLA_PARENT_DEV_NAME] = {.type = NLA_STRING},
};

static uint32_t u32_or_0(const struct nlattr *a)
{
    return a ? nla_get_u32(a) : 0;
}

static bool get_mac(const struct nlattr *a, struct mac *ret)
{
    if (!a || nla_len(a) != sizeof(ret->b))
        return false;
    memcpy(ret->b, nla_data(a), sizeof(ret->b));
    return true;
}

static int parse_altnames(const struct nlattr *list, struct link *l)
{
    static const struct nla_policy policy[IFLA_MAX + 1] = {
        [IFLA_ALT_IFNAME] = {.type = NLA_STRING, .maxlen = ALTIFNAMSIZ},
    };
    struct nlattr *a;
    int rem;

    nlx_for_each (a, (struct nlattr *)nla_data(list), nla_len(list), rem) {
        struct nlattr *tb[IFLA_MAX + 1] = {0};

        if (nla_type(a) != IFLA_ALT_IFNAME)
            continue;
        if (nlx_parse(tb, IFLA_MAX, a, a->nla_len, policy) < 0)
            return -EBADMSG;
        *VEC_PUSH(&l->altnames) = xstrdup(nla_get_string(a));
    }
    return rem > 0 ? -EBADMSG : 0;
}

/*
 * All attributes of the message. What follows a VF list is behind its real end, which isn't where
 * its length says if that wrapped.
 */
static int sort_attributes(const struct nlmsghdr *h, struct nlattr **tb, struct vf_list *ret_vfs)
{
    struct nlattr *head = nlmsg_attrdata(h, sizeof(struct ifinfomsg)), *a;
    int len = nlmsg_attrlen(h, sizeof(struct ifinfomsg)), rem;
    const struct nlattr *num_vf = NULL;

    nlx_for_each (a, head, len, rem) {
        if (nla_type(a) == IFLA_NUM_VF && nla_len(a) >= (int)sizeof(uint32_t))
            num_vf = a;
        if (nla_type(a) != IFLA_VFINFO_LIST)
            continue;
        vf_list_find(a, rem, u32_or_0(num_vf), ret_vfs);
        if (!ret_vfs->wrapped)
            break;
        int before = (int)((char *)a - (char *)head), all = NLA_HDRLEN + ret_vfs->len;
        int r = nlx_parse(tb, IFLA_MAX, head, before, link_policy);

        if (r == 0)
            r = nlx_parse(tb, IFLA_MAX, (struct nlattr *)((char *)a + all), len - before - all,
                          link_policy);
        return r;
    }
    return nlx_parse(tb, IFLA_MAX, head, len, link_policy);
}

static int parse_link(const struct nlmsghdr *h, struct link *l)
{
    struct nlattr *tb[IFLA_MAX + 1] = {0};
    struct vf_list vfs = {0};

    if (h->nlmsg_type != RTM_NEWLINK || !nlmsg_valid_hdr(h, sizeof(struct ifinfomsg)))
        return -EBADMSG;
    const struct ifinfomsg *info = nlmsg_data(h);
    int r = sort_attributes(h, tb, &vfs);

    if (r < 0)
        return r;
    if (info->ifi_index <= 0 || !tb[IFLA_IFNAME])
        return -EBADMSG;
    l->ifindex = info->ifi_index;
    l->flags = info->ifi_flags;
    l->arp_type = info->ifi_type;
    memcpy(l->name, nla_data(tb[IFLA_IFNAME]), (size_t)nla_len(tb[IFLA_IFNAME]));
    l->mtu = u32_or_0(tb[IFLA_MTU]);
    l->min_mtu = u32_or_0(tb[IFLA_MIN_MTU]);
    l->max_mtu = u32_or_0(tb[IFLA_MAX_MTU]);
    l->has_mac = get_mac(tb[IFLA_ADDRESS], &l->mac);
    l->has_perm_mac = get_mac(tb[IFLA_PERM_ADDRESS], &l->perm_mac);
    l->carrier = tb[IFLA_CARRIER] && nla_get_u8(tb[IFLA_CARRIER]);
    l->promiscuity = u32_or_0(tb[IFLA_PROMISCUITY]);
    l->allmulti = u32_or_0(tb[IFLA_ALLMULTI]);
    l->num_vf = u32_or_0(tb[IFLA_NUM_VF]);
    /* A longer one is no bus address, and half of it would be the name of something else. */
    if (tb[IFLA_PARENT_DEV_NAME] && nla_len(tb[IFLA_PARENT_DEV_NAME]) <= (int)sizeof(l->parent_dev))
        memcpy(l->parent_dev, nla_data(tb[IFLA_PARENT_DEV_NAME]),
               (size_t)nla_len(tb[IFLA_PARENT_DEV_NAME]));
    if (tb[IFLA_PROP_LIST])
        r = parse_altnames(tb[IFLA_PROP_LIST], l);
    if (r == 0)
        r = vf_list_parse(&vfs, l);
    l->vfs_truncated = l->vfs.n < l->num_vf;
    return r;
}

int link_parse(const struct nlmsghdr *h, struct link *ret, struct err *e)
{
    _cleanup_(link_done) struct link l = {0};
    int r = parse_link(h, &l);

    if (r < 0)
        return err_set(e, ERR_PERMANENT, r, "malformed description of an interface (%u bytes)",
                       h->nlmsg_len);
    *ret = l;
    l = (struct link){0};
    return 0;
}

struct got {
    struct link link;
    bool seen;
};

static int take_one(const struct nlmsghdr *h, void *data, struct err *e)
{
    struct got *got = data;
    struct link l;

    if (h->nlmsg_type != RTM_NEWLINK || got->seen)
        return 0;
    int r = link_parse(h, &l, e);
    if (r < 0)
        return r;
    got->link = l;
    got->seen = true;
    return 0;
}

int link_get(struct nl_transport *t, int ifindex, const char *name, bool with_vfs, struct link *ret,
             struct err *e)
{
    const struct ifinfomsg info = {.ifi_index = ifindex};
    _cleanup_(nlmsg_freep) struct nl_msg *m = nlx_msg(RTM_GETLINK, 0, &info, sizeof(info));
    struct got got = {0};

    /* Statistics would make a third of a VF's entry, of a list that has but 64 KiB. */
    nlx_put_u32(m, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS | (with_vfs ? RTEXT_FILTER_VF : 0));
    if (ifindex == 0) {
        if (strlen(name) >= ALTIFNAMSIZ)
            return err_set(e, ERR_USER, -ENODEV, "interface %s: longer than any name", name);
        nlx_put_str(m, strlen(name) < IFNAMSIZ ? IFLA_IFNAME : IFLA_ALT_IFNAME, name);
    }
    int r = nl_request(t, m, take_one, &got, e);
    if (r == 0 && !got.seen)
        r = err_set(e, ERR_BUG, -EPROTO, "the kernel's answer has no interface in it");
    if (r < 0) {
        link_done(&got.link);
        return ifindex ? err_prefix(e, r, "reading interface %d", ifindex)
                       : err_prefix(e, r, "reading interface %s", name);
    }
    *ret = got.link;
    return 0;
}

typedef VEC(struct link) link_vec;

static void link_vec_done(void *p)
{
    link_vec *v = p;

    vec_foreach (l, v)
        link_done(l);
    free(v->v);
    *v = (link_vec){0};
}

static int take_each(const struct nlmsghdr *h, void *data, struct err *e)
{
    link_vec *all = data;
    struct link l;

    if (h->nlmsg_type != RTM_NEWLINK)
        return 0;
    int r = link_parse(h, &l, e);
    if (r < 0)
        return r;
    *VEC_PUSH(all) = l;
    return 0;
}

int link_list(struct nl_transport *t, link_fn *fn, void *data, struct err *e)
{
    const struct ifinfomsg info = {0};
    _cleanup_(nlmsg_freep) struct nl_msg *m = nlx_msg(RTM_GETLINK, NLM_F_DUMP, &info, sizeof(info));
    _cleanup_(link_vec_done) link_vec all = {0};

    nlx_put_u32(m, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
    int r = nlx_dump(t, m, take_each, link_vec_done, &all, e);
    if (r < 0)
        return err_prefix(e, r, "listing interfaces");
    vec_foreach (l, &all) {
        r = fn(l, data, e);
        if (r < 0)
            return r;
    }
    return 0;
}
