/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "tests/unit/sriov/script.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <stdio.h>

static struct script_step *add(struct script *s, uint16_t type)
{
    assert_true(s->n < SCRIPT_MAX);
    s->steps[s->n] = (struct script_step){.type = type};
    return &s->steps[s->n++];
}

/* Takes the message. */
static void expect(struct script *s, struct nl_msg *m)
{
    const struct nlmsghdr *h = nlmsg_hdr(m);
    struct script_step *step = add(s, h->nlmsg_type);

    step->payload = scripted_hex(nlmsg_data(h), (size_t)nlmsg_datalen(h));
    nlmsg_free(m);
}

void script_entry(struct script *s, const struct vf_change *c)
{
    _cleanup_err_ struct err e = ERR_INIT;
    struct nl_msg *m;

    assert_ok(vf_change_build(PF_IFINDEX, c, &m, &e), &e);
    expect(s, m);
}

void script_link(struct script *s, const struct link_change *c)
{
    _cleanup_err_ struct err e = ERR_INIT;
    struct nl_msg *m;

    assert_ok(link_change_build(c, &m, &e), &e);
    expect(s, m);
}

void script_altname_removed(struct script *s)
{
    add(s, RTM_DELLINKPROP);
}

void script_get(struct script *s, const struct link *answer)
{
    struct script_step *step = add(s, RTM_GETLINK);

    if (answer->ifindex)
        step->replies[0] = scripted_link(answer);
    else
        step->error = -ENODEV;
}

void script_list(struct script *s, const struct link *const *answers, size_t n)
{
    struct script_step *step = add(s, RTM_GETLINK);

    for (size_t i = 0; i < n; i++)
        step->replies[i] = scripted_link(answers[i]);
}

void script_addrs(struct script *s, int ifindex, const struct ipnet *addrs, size_t n)
{
    struct script_step *step = add(s, RTM_GETADDR);

    for (size_t i = 0; i < n; i++)
        step->replies[i] = scripted_addr(ifindex, &addrs[i]);
}

void script_any(struct script *s, uint16_t type)
{
    add(s, type);
}

void script_fail(struct script *s, int error, const char *extack)
{
    s->steps[s->n - 1].error = error;
    s->steps[s->n - 1].extack = extack;
}

struct nl_transport *script_start(struct script *s)
{
    return scripted_new(s->steps, s->n);
}

void script_done(struct script *s)
{
    for (size_t i = 0; i < s->n; i++)
        free((char *)(uintptr_t)s->steps[i].payload);
    s->n = 0;
}

struct link pf_link(const struct vf_state *s)
{
    struct link l = {.ifindex = s->pf_ifindex,
                     .flags = s->pf_up ? IFF_UP : 0,
                     .arp_type = ARPHRD_ETHER,
                     .mtu = s->pf_mtu,
                     .carrier = s->pf_up,
                     .parent_dev = PF_ADDRESS,
                     .num_vf = 7};

    memcpy(l.name, s->pf_name, sizeof(l.name));
    *VEC_PUSH(&l.vfs) = s->admin;
    return l;
}

struct link vf_link_of(const struct vf_state *s)
{
    struct link l = {.ifindex = s->ifindex,
                     .flags = s->up ? IFF_UP : 0,
                     .arp_type = ARPHRD_ETHER,
                     .mtu = s->mtu,
                     .min_mtu = s->min_mtu,
                     .max_mtu = s->max_mtu,
                     .has_mac = true,
                     .mac = s->mac,
                     .has_perm_mac = s->has_perm_mac,
                     .perm_mac = s->perm_mac,
                     .promiscuity = s->promiscuity,
                     .allmulti = s->allmulti,
                     .parent_dev = VF_ADDRESS};

    memcpy(l.name, s->name, sizeof(l.name));
    vec_foreach (name, &s->altnames)
        *VEC_PUSH(&l.altnames) = xstrdup(*name);
    return l;
}

void script_state(struct script *s, const struct vf_state *state)
{
    _cleanup_(link_done) struct link pf = pf_link(state), vf = vf_link_of(state);

    script_get(s, &pf);
    if (!state->home)
        return;
    script_get(s, &vf);
    script_addrs(s, state->ifindex, state->addrs.v, state->addrs.n);
}

struct mac mac_of(const char *text)
{
    struct mac m;

    assert_int_equal(mac_parse(text, &m), 0);
    return m;
}

struct vf_state fresh_state(void)
{
    const struct mac m = mac_of("16:1e:07:02:a6:df");

    return (struct vf_state){
        .address = VF_ADDRESS,
        .pf_name = "enp1s0",
        .pf_ifindex = PF_IFINDEX,
        .pf_up = true,
        .pf_mtu = 1500,
        .pf_speed_mbps = 1000,
        .admin = {.index = 3,
                  .has = VF_FIELD_MAC | VF_FIELD_VLAN | VF_FIELD_SPOOFCHK | VF_FIELD_TRUST |
                         VF_FIELD_RATE | VF_FIELD_LINK_STATE,
                  .mac = m,
                  .vlan_proto = ETH_P_8021Q,
                  .spoofchk = true},
        .home = true,
        .ifindex = VF_IFINDEX,
        .name = "enp1s0v3",
        .has_perm_mac = true,
        .mac = m,
        .perm_mac = m,
        .mtu = 1500,
        .min_mtu = 68,
        .max_mtu = 9216,
    };
}

struct link_change own_change(unsigned field)
{
    return (struct link_change){.ifindex = VF_IFINDEX, .set = field, .netns_fd = -1};
}
