/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network interfaces and the VF list of a PF, over rtnetlink: read, and changed. All calls block on
 * the transport.
 */
#pragma once

#include "base/str.h"
#include "netlink/mac.h"
#include "netlink/transport.h"

#include <net/if.h>

/* What a PF says of one VF (IFLA_VF_INFO). Which members the driver reported is in `has`. */
enum vf_field {
    VF_FIELD_MAC = 1 << 0,
    VF_FIELD_VLAN = 1 << 1, /* id, QoS and protocol */
    VF_FIELD_SPOOFCHK = 1 << 2,
    VF_FIELD_TRUST = 1 << 3,
    VF_FIELD_RATE = 1 << 4,       /* min and max */
    VF_FIELD_LINK_STATE = 1 << 5, /* as 0 (auto) from drivers that have none, too */
    VF_FIELD_RSS_QUERY = 1 << 6,
};

struct vf_info {
    unsigned index;
    unsigned has; /* of enum vf_field */
    struct mac mac;
    uint16_t vlan_id; /* 0: none */
    uint8_t vlan_qos;
    uint16_t vlan_proto; /* ETH_P_8021Q or ETH_P_8021AD, host byte order */
    bool spoofchk, trust, rss_query;
    uint32_t min_tx_mbps, max_tx_mbps; /* 0: no limit */
    uint32_t link_state;               /* IFLA_VF_LINK_STATE_* */
};

struct link {
    int ifindex;
    char name[IFNAMSIZ];
    unsigned flags;    /* IFF_* */
    uint16_t arp_type; /* ARPHRD_* */
    uint32_t mtu, min_mtu, max_mtu;
    bool has_mac, has_perm_mac; /* six bytes long: Ethernet */
    struct mac mac, perm_mac;
    bool carrier;
    uint32_t promiscuity, allmulti;
    char parent_dev[32]; /* bus address of the device below (IFLA_PARENT_DEV_NAME), or "" */
    unsigned num_vf;     /* IFLA_NUM_VF, only if VFs were asked for; 0 if it isn't a PF */
    VEC(char *) altnames;
    VEC(struct vf_info) vfs; /* only if asked for; in order of index as the kernel sent them */
    /*
     * Fewer in `vfs` than `num_vf`: the driver couldn't read one (ice, while that VF is in reset)
     * or reports none at all, or the list was cut. Look a VF up by its index, never by position.
     */
    bool vfs_truncated;
};

void link_done(struct link *l);

/* The entry of VF `index`, NULL if the list has none. */
const struct vf_info *link_vf(const struct link *l, unsigned index);

/*
 * Parses one RTM_NEWLINK. Foreign bytes: every length is checked, -EBADMSG where one is wrong. A VF
 * list that outgrew the 16 bits of its own length (above about 330 VFs) is read to its real end.
 */
int link_parse(const struct nlmsghdr *h, struct link *ret, struct err *e);

/*
 * Reads one interface by index, or by name (an alternative one will do) if `ifindex` is 0. -ENODEV
 * if there is none. `ret` is the caller's to link_done().
 */
int link_get(struct nl_transport *t, int ifindex, const char *name, bool with_vfs, struct link *ret,
             struct err *e);

/*
 * Calls fn for every interface of the transport's namespace (without VF lists), when all have been
 * read, so fn may use the transport; <0 from it ends the list and is returned. A list that changed
 * meanwhile is read again, a few times; -EAGAIN after that.
 */
typedef int link_fn(const struct link *l, void *data, struct err *e);
int link_list(struct nl_transport *t, link_fn *fn, void *data, struct err *e);

/* What to change of VF `index` on its PF; only what is in `set` is sent (of enum vf_field). */
struct vf_change {
    unsigned index;
    unsigned set;
    struct mac mac; /* all zero takes the administrator's mark off where the driver allows it */
    uint16_t vlan_id, vlan_proto;
    uint8_t vlan_qos;
    bool spoofchk, trust, rss_query;
    uint32_t min_tx_mbps, max_tx_mbps, link_state;
};

/*
 * Builds the one RTM_SETLINK that carries a whole change. 802.1Q goes as IFLA_VF_VLAN, which every
 * driver knows; 802.1ad needs IFLA_VF_VLAN_LIST. The kernel applies the attributes in a fixed order
 * of its own (do_setvfinfo) and stops at the first that fails, so a refused change may be partly
 * applied: read back or undo. -EINVAL if `set` is empty: igb answers so to an entry without a known
 * attribute, and there is nothing to say. The caller frees the message (nlmsg_free).
 */
int vf_change_build(int pf_ifindex, const struct vf_change *c, struct nl_msg **ret, struct err *e);
int vf_change_send(struct nl_transport *t, int pf_ifindex, const struct vf_change *c,
                   struct err *e);

enum link_field {
    LINK_FIELD_MAC = 1 << 0,
    LINK_FIELD_MTU = 1 << 1,
    LINK_FIELD_NAME = 1 << 2,
    LINK_FIELD_UP = 1 << 3,          /* value in `up` */
    LINK_FIELD_NETNS = 1 << 4,       /* moved into the namespace of `netns_fd` */
    LINK_FIELD_PROMISC_OFF = 1 << 5, /* clears IFF_PROMISC and IFF_ALLMULTI */
};

struct link_change {
    int ifindex;
    unsigned set; /* of enum link_field */
    struct mac mac;
    uint32_t mtu;
    char name[IFNAMSIZ];
    bool up;
    int netns_fd;
};

/*
 * One RTM_NEWLINK (change, never create) with all of it. The kernel moves first, then sets address,
 * MTU, name and flags (do_setlink), and stops at the first that fails: after a refused change the
 * interface may be in the other namespace. A name that is taken there (-EEXIST) leaves it moved
 * unless its old name was taken as well.
 */
int link_change_build(const struct link_change *c, struct nl_msg **ret, struct err *e);
int link_change_send(struct nl_transport *t, const struct link_change *c, struct err *e);

/* Removes an alternative name (RTM_DELLINKPROP). -ENOENT if the interface has no such name. */
int link_altname_remove(struct nl_transport *t, int ifindex, const char *altname, struct err *e);
