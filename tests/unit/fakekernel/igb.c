/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What igb and igbvf do with MACs and settings. Facts: docs/hardware.md, and for the mailbox
 * between VF and PF igbvf_set_mac(), igbvf_reset(), igb_vf_reset_msg(), igb_set_vf_mac_addr() and
 * igb_ndo_set_vf_mac() of the kernel.
 */
#include "tests/unit/fakekernel/state.h"

#include <errno.h>
#include <linux/if_ether.h>

/* The PF's answer to a VF that asks for a MAC: the entry follows, unless it is kept. */
static bool pf_takes_mac(struct fk_vf *v, const struct mac *mac)
{
    if (v->marked && !v->entry.trust)
        return false;
    v->entry.mac = *mac;
    return true;
}

/* A VF asks through the mailbox, and takes what it was told last where it is refused. */
static void ask(struct fk *k, struct fk_vf *v, const struct mac *mac)
{
    v->asks = *mac;
    /* Nobody reads the mailbox of a PF that is down, and then the VF gives up until its reset. */
    if (!fk_pf_dev(k, k->devs[v->dev].pf)->up)
        v->ready = false;
    if (v->ready && !pf_takes_mac(v, mac))
        v->asks = v->told;
}

void igb_reset_vf(struct fk *k, struct fk_dev *d)
{
    struct fk_vf *v = &k->pfs[d->pf].vfs[d->vf];

    if (!fk_pf_dev(k, d->pf)->up) {
        v->ready = false;
    } else {
        v->ready = true;
        if (!v->marked)
            v->entry.mac = (struct mac){0};
        v->told = v->entry.mac;
        ask(k, v, &v->asks);
    }
    if (!mac_is_assignable(&v->asks))
        return;
    d->mac = d->perm_mac = v->asks;
}

int igb_set_mac(struct fk *k, struct fk_dev *d, const struct mac *mac)
{
    struct fk_vf *v = &k->pfs[d->pf].vfs[d->vf];

    if (d->up && k->ways.mac_busy_while_up)
        return -EBUSY;
    ask(k, v, mac);
    if (!mac_equal(&v->asks, mac))
        return k->ways.mark_error ? k->ways.mark_error : -EADDRNOTAVAIL;
    d->mac = *mac;
    return 0;
}

static int set_entry_mac(struct fk_vf *v, const struct mac *mac)
{
    if (!mac_is_zero(mac) && !mac_is_assignable(mac))
        return -EINVAL;
    v->marked = !mac_is_zero(mac);
    v->entry.mac = *mac;
    return 0;
}

static int set_vlan(struct fk_vf *v, const struct vf_change *c)
{
    if (c->vlan_id > 4095 || c->vlan_qos > 7)
        return -EINVAL;
    if (c->vlan_proto && c->vlan_proto != ETH_P_8021Q)
        return -EPROTONOSUPPORT;
    v->entry.vlan_id = c->vlan_id;
    v->entry.vlan_qos = c->vlan_qos;
    return 0;
}

/* igb_ndo_set_vf_bw(): no minimum, and nothing while there is no link. */
static int set_rate(const struct fk *k, const struct fk_pf *p, struct fk_vf *v,
                    const struct vf_change *c)
{
    if (c->min_tx_mbps || !k->devs[p->dev].up || c->max_tx_mbps > p->speed)
        return -EINVAL;
    v->entry.max_tx_mbps = c->max_tx_mbps;
    return 0;
}

/* The order of do_setvfinfo(), which stops at the first refusal. */
int fk_set_vf(struct fk *k, unsigned pf, const struct vf_change *c, const char **extack)
{
    struct fk_pf *p = &k->pfs[pf];
    struct fk_vf *v = &p->vfs[c->index];
    int r = 0;

    (void)extack; /* igb says nothing */
    if (c->index >= p->n_vfs || !v->there || !c->set)
        return -EINVAL;
    k->changes++;
    if (c->set & VF_FIELD_MAC)
        r = set_entry_mac(v, &c->mac);
    if (r == 0 && (c->set & VF_FIELD_VLAN))
        r = set_vlan(v, c);
    if (r == 0 && (c->set & VF_FIELD_RATE))
        r = set_rate(k, p, v, c);
    if (r == 0 && (c->set & VF_FIELD_SPOOFCHK))
        v->entry.spoofchk = c->spoofchk;
    if (r == 0 && (c->set & VF_FIELD_LINK_STATE)) {
        if (k->ways.has_link_state)
            v->entry.link_state = c->link_state;
        else
            r = -EOPNOTSUPP;
    }
    if (r == 0 && (c->set & VF_FIELD_RSS_QUERY))
        r = -EOPNOTSUPP;
    if (r == 0 && (c->set & VF_FIELD_TRUST))
        v->entry.trust = c->trust;
    return r;
}

void igb_probe_vf(struct fk *k, struct fk_vf *v, unsigned index, const struct mac *mac)
{
    struct fk_dev *d = &k->devs[v->dev];

    v->entry = (struct vf_info){.index = index,
                                .has = VF_FIELD_MAC | VF_FIELD_VLAN | VF_FIELD_SPOOFCHK |
                                       VF_FIELD_TRUST | VF_FIELD_RATE | VF_FIELD_LINK_STATE,
                                .vlan_proto = ETH_P_8021Q,
                                .spoofchk = true};
    v->marked = false;
    v->asks = d->mac = d->perm_mac = *mac;
    v->told = (struct mac){0};
    igb_reset_vf(k, d);
}

bool fk_hears(const struct fk *k, unsigned pf, unsigned vf)
{
    const struct fk_vf *v = &k->pfs[pf].vfs[vf];

    return k->devs[k->pfs[pf].dev].up && mac_equal(&v->entry.mac, &k->devs[v->dev].mac);
}

static bool same_network(const struct ipnet *a, const struct ipnet *b)
{
    unsigned whole = a->prefix / 8;

    return a->family == b->family && memcmp(a->b, b->b, whole) == 0;
}

/* The VF of a namespace that is up and has an address of that network. */
static const struct fk_dev *speaker(const struct fk *k, int netns, const struct ipnet *net)
{
    for (const struct fk_dev *d = k->devs; d < k->devs + FK_DEVS; d++)
        for (unsigned i = 0; d->kind == FK_VF && d->netns == netns && d->up && i < d->n_addrs; i++)
            if (same_network(&d->addrs[i], net))
                return d;
    return NULL;
}

static const struct fk_dev *owner(const struct fk *k, const struct ipnet *to)
{
    size_t len = to->family == AF_INET ? 4 : 16;

    for (const struct fk_dev *d = k->devs; d < k->devs + FK_DEVS; d++)
        for (unsigned i = 0; d->kind == FK_VF && d->up && i < d->n_addrs; i++)
            if (d->addrs[i].family == to->family && memcmp(d->addrs[i].b, to->b, len) == 0)
                return d;
    return NULL;
}

/* A frame from one VF to the other passes both ports. */
static bool passes(const struct fk *k, const struct fk_dev *from, const struct fk_dev *to)
{
    const struct fk_vf *a = &k->pfs[from->pf].vfs[from->vf], *b = &k->pfs[to->pf].vfs[to->vf];

    return k->devs[k->pfs[from->pf].dev].up &&
           (!a->entry.spoofchk || mac_equal(&a->entry.mac, &from->mac)) &&
           a->entry.vlan_id == b->entry.vlan_id && fk_hears(k, to->pf, to->vf);
}

bool fk_reaches(const struct fk *k, int from_netns, const struct ipnet *to)
{
    const struct fk_dev *from = speaker(k, from_netns, to), *there = owner(k, to);

    return from && there && passes(k, from, there) && passes(k, there, from);
}
