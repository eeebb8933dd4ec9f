/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of a VF as a user asks for them, the state that the kernel reports, and what differs.
 * Pure but for vf_state_read().
 */
#pragma once

#include "netlink/addr.h"
#include "netlink/link.h"
#include "sriov/sysroot.h"

/* What can be asked. A setting that isn't in `set` is never written. */
enum vf_setting {
    VF_SET_MAC = 1 << 0,
    VF_SET_VLAN = 1 << 1, /* id and QoS; id 0: none */
    VF_SET_SPOOFCHK = 1 << 2,
    VF_SET_TRUST = 1 << 3,
    VF_SET_MTU = 1 << 4,
    VF_SET_RATE = 1 << 5, /* max tx rate; 0: no limit */
    VF_SET_LINK_STATE = 1 << 6,
};

struct vf_settings {
    unsigned set; /* of enum vf_setting */
    struct mac mac;
    uint16_t vlan_id;
    uint8_t vlan_qos;
    bool spoofchk, trust;
    uint32_t mtu;
    uint32_t max_tx_mbps;
    uint32_t link_state; /* IFLA_VF_LINK_STATE_* */
};

/* "auto", "enable", "disable", as `ip link` has it; and back, -EINVAL for anything else. */
const char *vf_link_state_text(uint32_t state);
int vf_link_state_parse(const char *text, uint32_t *ret);

/* Takes from `over` what it sets; the rest of `base` stays. */
void vf_settings_merge(struct vf_settings *base, const struct vf_settings *over);

/* Where a VF is, and how. */
struct vf_state {
    char address[24]; /* PCI */
    char pf_name[IFNAMSIZ];
    int pf_ifindex;
    bool pf_up;
    uint32_t pf_mtu;
    uint32_t pf_speed_mbps; /* 0: unknown */
    struct vf_info admin;   /* the PF's list */
    /*
     * Set by vf_apply() alone: the PF's MAC entry was an administrator's, whose mark had to come
     * off. Reading can't tell, so who journals the result keeps it (vf_original.admin_marked).
     */
    bool had_mark;
    bool home; /* its netdev is in our network namespace; what follows is set only then */
    int ifindex;
    char name[IFNAMSIZ];
    bool up, has_perm_mac;
    struct mac mac, perm_mac; /* the VF's own side */
    uint32_t mtu, min_mtu, max_mtu;
    uint32_t promiscuity, allmulti;
    VEC(char *) altnames;
    ipnet_vec addrs; /* without link-local IPv6 */
};

void vf_state_done(struct vf_state *s);

struct hw { /* the two seams to the hardware */
    const struct sysroot *root;
    struct nl_transport *nl; /* of the host's network namespace */
};

/*
 * Reads both sides of VF `index` at `vf_address` of the PF at `pf_address`: two or three netlink
 * requests and one sysfs look-up. A VF whose netdev isn't here is `home` false, which is success.
 * -ENODEV if the PF's netdev or the VF itself is gone. Blocks.
 */
int vf_state_read(const struct hw *hw, const char *pf_address, const char *vf_address,
                  unsigned index, struct vf_state *ret, struct err *e);

/* One setting that isn't as wanted, for people: "vlan", "0", "100". */
struct vf_difference {
    const char *what;
    char is[48]; /* "": the VF isn't made yet */
    char want[32];
};
typedef VEC(struct vf_difference) vf_difference_vec;

/*
 * What keeps the state from being the wanted one; `s` NULL: of a VF that isn't made yet, all that
 * is wanted. For a MAC both sides are compared: a VF whose own MAC isn't the PF's passes no packet
 * although every setting reads well. The caller frees out->v.
 */
void vf_state_differences(const struct vf_state *s, const struct vf_settings *want,
                          vf_difference_vec *out);

/*
 * The two halves of a state, from what netlink said: for whoever read many at once (survey.h).
 * -ENODEV or -EAGAIN (a list that was cut) if the PF's list has no such VF. `l` is a link of its
 * own namespace; the VF counts as home afterwards, but for its addresses, which the caller adds.
 */
int vf_state_set_admin(struct vf_state *s, const struct link *pf, const char *pf_address,
                       unsigned index, uint32_t speed_mbps, struct err *e);
void vf_state_set_own(struct vf_state *s, const struct link *l);

/*
 * Appends to `out` what keeps the state from being the wanted one, as "vlan: 0, want 100; ..." and
 * returns how many differences there are.
 */
unsigned vf_state_differs(const struct vf_state *s, const struct vf_settings *want,
                          struct strbuf *out);

/*
 * As above for what "clean" means beyond settings: home, own MAC equal to the PF's entry unless
 * that is zero, no addresses but link-local, neither promiscuous nor allmulti.
 */
unsigned vf_state_unclean(const struct vf_state *s, struct strbuf *out);
