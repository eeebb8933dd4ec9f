/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who else is on the node: the provisioner of pools with mode Skip, an administrator, udev, pods,
 * and the kernel that cleans up after them.
 */
#include "tests/unit/model/model.h"

#include <stdio.h>

static void set_vf(struct vf_id vf, struct vf_change *c)
{
    c->index = vf.vf;
    oracle_sample();
    int r = fk_set_vf(m.k, vf.pf, c, NULL);
    oracle_touched(vf, false);
    oracle_sample();
    say("  a neighbour sets VF %u of PF %u: %d", vf.vf, vf.pf, r);
}

void provision(void)
{
    for (unsigned i = 0; i < GROUPS; i++) {
        const struct m_group *g = &m.groups[i];

        if (g->mode != MODE_SKIP || g->by_driver || !fk_pf_dev(m.k, g->pf)->up)
            continue;
        for (unsigned v = g->first; v <= g->last && v < vf_count(g->pf); v++) {
            const struct vf_id vf = {g->pf, v};
            const struct vf_settings *s = &g->settings;
            struct vf_change c = {.set = VF_FIELD_VLAN | VF_FIELD_SPOOFCHK | VF_FIELD_TRUST |
                                         VF_FIELD_RATE,
                                  .vlan_id = s->vlan_id,
                                  .vlan_qos = s->vlan_qos,
                                  .spoofchk = s->set & VF_SET_SPOOFCHK ? s->spoofchk : true,
                                  .trust = s->set & VF_SET_TRUST && s->trust,
                                  .max_tx_mbps = s->set & VF_SET_RATE ? s->max_tx_mbps : 0};
            struct fk_dev *d = fk_vf_dev(m.k, vf.pf, vf.vf);

            set_vf(vf, &c);
            if ((s->set & VF_SET_MTU) && d->netns == 0) {
                (void)fk_set_mtu(m.k, d, s->mtu, NULL);
                oracle_touched(vf, true);
                oracle_sample();
            }
        }
    }
}

/* The PF's side, of any VF: what nothing on the node can forbid. */
static void changes_entry(struct rng *r, struct vf_id vf)
{
    struct vf_change c = {0};

    switch (below(r, 6)) {
    case 0:
    case 1:
        c.set = VF_FIELD_VLAN;
        c.vlan_id = (uint16_t)(below(r, 3) * 100);
        break;
    case 2:
        c.set = VF_FIELD_MAC;
        c.mac = (struct mac){{0x52, 0x54, 1, 0, 0, (uint8_t)below(r, 8)}};
        if (chance(r, 30))
            c.mac = fk_vf_dev(m.k, vf.pf, vf.vf)->mac; /* a mark, and all reads as before */
        break;
    case 3:
        c.set = VF_FIELD_SPOOFCHK;
        c.spoofchk = chance(r, 50);
        break;
    case 4:
        c.set = VF_FIELD_TRUST;
        c.trust = chance(r, 50);
        break;
    case 5:
        c.set = VF_FIELD_RATE;
        c.max_tx_mbps = 100 * below(r, 4);
        break;
    }
    set_vf(vf, &c);
}

static void changes_interface(struct rng *r, struct fk_dev *d, struct vf_id vf, bool at_home)
{
    struct mac mac = {{0x52, 0x54, 2, 0, 0, (uint8_t)below(r, 200)}};
    struct ipnet addr = {.family = AF_INET, .prefix = 24, .b = {203, 0, 113, 7}};
    char name[IFNAMSIZ];
    int done = 0;
    const char *what = "";

    oracle_sample();
    switch (below(r, 9)) {
    case 0:
        what = "mac";
        done = fk_set_mac(m.k, d, &mac);
        break;
    case 1:
        what = "mtu";
        done = fk_set_mtu(m.k, d, 1280 + below(r, 200), NULL);
        break;
    case 2:
        what = "promisc";
        fk_set_promisc(m.k, d, chance(r, 70), chance(r, 30));
        break;
    case 3:
        what = "address";
        if (chance(r, 50))
            addr =
                (struct ipnet){.family = AF_INET6, .prefix = 64, .b = {0x20, 0x01, 0xd, 0xb8, 1}};
        done = chance(r, 60) ? fk_add_addr(m.k, d, &addr) : fk_del_addr(m.k, d, &addr);
        break;
    case 4:
        what = "up or down";
        done = fk_set_up(m.k, d, !d->up);
        break;
    case 5:
    case 6:
        what = "name";
        /* A name that another interface keeps for good keeps its VF from being given back. */
        snprintf(name, sizeof(name), at_home ? "ren%u_%u%u" : "wild%u", below(r, 3), vf.pf, vf.vf);
        done = fk_rename(m.k, d, name);
        break;
    case 7:
        what = "altname";
        /* As udev does with what comes home; or a pod, with the name that is wanted there. */
        snprintf(name, sizeof(name), "enp%us0v%u", vf.pf + 1, vf.vf);
        done = chance(r, 60) ? fk_add_altname(m.k, d, name) : fk_del_altname(m.k, d, name);
        break;
    case 8:
        what = "promisc off, addresses off, up";
        fk_set_promisc(m.k, d, false, false);
        while (d->n_addrs)
            (void)fk_del_addr(m.k, d, &d->addrs[0]);
        break;
    }
    oracle_touched(vf, true);
    oracle_sample();
    _cleanup_free_ char *text = fk_vf_text(m.k, vf.pf, vf.vf);
    say("  %s changes %s: %d; %s", at_home ? "a neighbour" : "its pod", what, done, text);
}

/* An interface of another that takes a VF's name while it is away, and gives it back later. */
static void takes_name(struct rng *r, struct vf_id vf)
{
    char name[IFNAMSIZ];

    snprintf(name, sizeof(name), "enp%us0v%u", vf.pf + 1, vf.vf);
    struct fk_dev *d = fk_find(m.k, 0, chance(r, 70) ? name : "net1");
    if (!d)
        d = fk_add_dummy(m.k, 0, name);
    else if (d->kind == FK_DUMMY)
        fk_del_dev(m.k, d);
    else
        return;
    say("  a neighbour's interface %s comes or goes", name);
    oracle_touched(vf, true);
    oracle_sample();
}

void neighbour_acts(struct rng *r)
{
    struct vf_id vf = {.pf = below(r, m.k->n_pfs)};

    if (!vf_count(vf.pf))
        return;
    vf.vf = below(r, vf_count(vf.pf));
    struct fk_dev *d = fk_vf_dev(m.k, vf.pf, vf.vf);
    switch (below(r, 10)) {
    case 0:
    case 1:
    case 2:
    case 3:
        if (fk_pf_dev(m.k, vf.pf)->up)
            changes_entry(r, vf);
        break;
    case 4:
        takes_name(r, vf);
        break;
    case 5:
        provision();
        break;
    default:
        if (d->netns == 0)
            changes_interface(r, d, vf, true);
        break;
    }
}

bool pod_acts(struct rng *r)
{
    unsigned from = below(r, SANDBOXES);

    for (unsigned i = 0; i < SANDBOXES; i++) {
        struct m_sandbox *sb = &m.sandboxes[(from + i) % SANDBOXES];

        if (!sb->used || !sb->running || sb->netns <= 0)
            continue;
        for (struct fk_dev *d = m.k->devs; d < m.k->devs + FK_DEVS; d++)
            if (d->kind == FK_VF && d->netns == sb->netns) {
                sb->touched = true;
                changes_interface(r, d, (struct vf_id){d->pf, d->vf}, false);
                return true;
            }
    }
    return false;
}

void kernel_cleans_up(struct rng *r, bool all)
{
    for (unsigned i = 0; i < SANDBOXES; i++)
        if (m.sandboxes[i].used && !m.sandboxes[i].alive && (all || chance(r, 50)))
            runtime_end_netns(i);
}
