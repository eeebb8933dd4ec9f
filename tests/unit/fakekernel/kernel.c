/* SPDX-License-Identifier: Apache-2.0 */
/* Hardware and interfaces. Facts: docs/hardware.md, and dev_change_name() of the kernel. */
#include "tests/unit/fakekernel/state.h"

#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

struct fk *fk_current;

struct fk_dev *fk_vf_dev(struct fk *k, unsigned pf, unsigned vf)
{
    return &k->devs[k->pfs[pf].vfs[vf].dev];
}

struct fk_dev *fk_pf_dev(struct fk *k, unsigned pf)
{
    return &k->devs[k->pfs[pf].dev];
}

static bool has_altname(const struct fk_dev *d, const char *name)
{
    for (unsigned i = 0; i < d->n_altnames; i++)
        if (streq(d->altnames[i], name))
            return true;
    return false;
}

struct fk_dev *fk_find(struct fk *k, int netns, const char *name)
{
    for (struct fk_dev *d = k->devs; d < k->devs + FK_DEVS; d++)
        if (d->kind && d->netns == netns && (streq(d->name, name) || has_altname(d, name)))
            return d;
    return NULL;
}

void fk_changed(struct fk *k, const struct fk_dev *d, int netns, bool gone)
{
    k->changes++;
    if (netns == 0 && k->on_link)
        k->on_link(d->ifindex, gone, k->data);
}

static struct fk_dev *new_dev(struct fk *k, enum fk_kind kind, int netns, const char *name)
{
    for (struct fk_dev *d = k->devs; d < k->devs + FK_DEVS; d++)
        if (!d->kind) {
            *d = (struct fk_dev){
                .kind = kind, .netns = netns, .ifindex = k->next_ifindex++, .mtu = 1500};
            snprintf(d->name, sizeof(d->name), "%s", name);
            return d;
        }
    fail_msg("no room for an interface %s", name);
    return NULL;
}

static struct mac numbered_mac(unsigned kind, unsigned pf, unsigned vf)
{
    return (struct mac){{0x16, (uint8_t)kind, 0x00, 0x00, (uint8_t)pf, (uint8_t)vf}};
}

static void make_vf(struct fk *k, unsigned pf, unsigned index)
{
    struct fk_pf *p = &k->pfs[pf];
    struct fk_vf *v = &p->vfs[index];
    const struct mac mac = numbered_mac(2, pf, index);
    char name[IFNAMSIZ];

    snprintf(name, sizeof(name), "enp%us0v%u", pf + 1, index);
    /* Even numbers, as igb's are where two ports share a bus. */
    snprintf(v->address, sizeof(v->address), "0000:%02x:%02x.%x", pf + 1, 0x10 + index / 4,
             index % 4 * 2);
    struct fk_dev *d = new_dev(k, FK_VF, 0, name);
    d->pf = pf;
    d->vf = index;
    v->there = true;
    v->dev = (unsigned)(d - k->devs);
    igb_probe_vf(k, v, index, &mac);
}

static void make_hardware(struct fk *k, const unsigned *n_vfs)
{
    for (unsigned p = 0; p < k->n_pfs; p++) {
        struct fk_pf *pf = &k->pfs[p];
        char name[IFNAMSIZ];

        *pf = (struct fk_pf){.speed = 1000, .n_vfs = n_vfs[p]};
        snprintf(pf->address, sizeof(pf->address), "0000:%02x:00.0", p + 1);
        snprintf(name, sizeof(name), "enp%us0", p + 1);
        struct fk_dev *d = new_dev(k, FK_PF, 0, name);
        d->pf = p;
        d->up = true;
        d->mac = d->perm_mac = numbered_mac(1, p, 0);
        pf->dev = (unsigned)(d - k->devs);
    }
    for (unsigned p = 0; p < k->n_pfs; p++)
        for (unsigned v = 0; v < n_vfs[p]; v++)
            make_vf(k, p, v);
}

static void show_all(struct fk *k)
{
    for (unsigned p = 0; p < k->n_pfs; p++) {
        sysfs_show_up(k, fk_pf_dev(k, p));
        for (unsigned v = 0; v < FK_VFS; v++) {
            const struct fk_vf *vf = &k->pfs[p].vfs[v];

            if (!vf->there)
                continue;
            sysfs_show_vf(k, p, v, true);
            sysfs_show_dev(k, &k->devs[vf->dev], k->devs[vf->dev].name, true);
        }
    }
}

struct fk *fk_new(const struct fk_config *c)
{
    struct fk *k =
        mmap(NULL, sizeof(*k), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(k != MAP_FAILED);
    k->n_pfs = c->n_pfs;
    k->next_ifindex = 2;
    k->netns[0].alive = true;
    make_hardware(k, c->n_vfs);
    sysfs_make(k);
    show_all(k);
    fk_current = k;
    return k;
}

void fk_free(struct fk *k)
{
    sysfs_remove(k);
    if (fk_current == k)
        fk_current = NULL;
    (void)munmap(k, sizeof(*k));
}

void fk_reboot(struct fk *k)
{
    unsigned n_vfs[FK_PFS];

    for (unsigned p = 0; p < k->n_pfs; p++)
        n_vfs[p] = k->pfs[p].n_vfs;
    for (struct fk_dev *d = k->devs; d < k->devs + FK_DEVS; d++) {
        if (d->kind && d->netns == 0)
            sysfs_show_dev(k, d, d->name, false);
        *d = (struct fk_dev){0};
    }
    for (int i = 1; i < FK_NETNS; i++) {
        if (k->netns[i].mounted)
            fk_netns_unmount(k, i);
        k->netns[i] = (struct fk_netns){0};
    }
    k->next_ifindex = 2;
    k->changes++;
    make_hardware(k, n_vfs);
    show_all(k);
}

void fk_close(struct fk *k, struct fk_dev *d)
{
    if (!d->up)
        return;
    d->up = false;
    d->n_routes = 0;
    if (d->kind == FK_VF)
        igb_reset_vf(k, d);
}

int fk_set_mac(struct fk *k, struct fk_dev *d, const struct mac *mac)
{
    int r = 0;

    if (!mac_is_assignable(mac))
        return -EADDRNOTAVAIL;
    /* dev_set_mac_address() hands a MAC that it has already to no driver. */
    if (!mac_equal(&d->mac, mac)) {
        if (d->kind == FK_VF)
            r = igb_set_mac(k, d, mac);
        else
            d->mac = *mac;
    }
    fk_changed(k, d, d->netns, false);
    return r;
}

int fk_set_mtu(struct fk *k, struct fk_dev *d, uint32_t mtu, const char **extack)
{
    if (d->mtu == mtu)
        return 0;
    if (mtu < 68 || mtu > 9216) {
        if (extack)
            *extack = mtu < 68 ? "mtu less than device minimum" : "mtu greater than device maximum";
        return -EINVAL;
    }
    d->mtu = mtu;
    if (d->kind == FK_VF)
        igb_reset_vf(k, d);
    fk_changed(k, d, d->netns, false);
    return 0;
}

int fk_set_up(struct fk *k, struct fk_dev *d, bool up)
{
    if (d->up == up)
        return 0;
    if (up) {
        d->up = true;
        if (d->kind == FK_VF && !k->pfs[d->pf].vfs[d->vf].ready)
            igb_reset_vf(k, d);
    } else {
        unsigned kept = 0;

        fk_close(k, d);
        for (unsigned i = 0; i < d->n_addrs; i++)
            if (d->addrs[i].family == AF_INET) /* IPv6's go (keep_addr_on_down) */
                d->addrs[kept++] = d->addrs[i];
        d->n_addrs = kept;
    }
    if (d->kind == FK_PF) {
        sysfs_show_up(k, d);
        for (unsigned v = 0; up && v < FK_VFS; v++) {
            struct fk_vf *vf = &k->pfs[d->pf].vfs[v];

            if (vf->there && k->devs[vf->dev].up && !vf->ready)
                igb_reset_vf(k, &k->devs[vf->dev]);
        }
    }
    fk_changed(k, d, d->netns, false);
    return 0;
}

void fk_set_promisc(struct fk *k, struct fk_dev *d, bool promisc, bool allmulti)
{
    d->promisc = promisc;
    d->allmulti = allmulti;
    fk_changed(k, d, d->netns, false);
}

int fk_rename(struct fk *k, struct fk_dev *d, const char *name)
{
    char whole[IFNAMSIZ];

    if (streq(d->name, name))
        return 0;
    if (d->up && k->ways.name_busy_while_up)
        return -EBUSY;
    snprintf(whole, sizeof(whole), "%s", name);
    if (strchr(name, '%'))
        fk_numbered_name(k, d->netns, whole);
    else if (fk_find(k, d->netns, name))
        return -EEXIST;
    if (d->netns == 0)
        sysfs_show_dev(k, d, d->name, false);
    memcpy(d->name, whole, sizeof(d->name));
    if (d->netns == 0)
        sysfs_show_dev(k, d, d->name, true);
    fk_changed(k, d, d->netns, false);
    return 0;
}

int fk_add_altname(struct fk *k, struct fk_dev *d, const char *name)
{
    if (fk_find(k, d->netns, name))
        return -EEXIST;
    if (d->n_altnames == FK_ALTNAMES)
        return -ENOSPC;
    snprintf(d->altnames[d->n_altnames++], IFNAMSIZ, "%s", name);
    fk_changed(k, d, d->netns, false);
    return 0;
}

int fk_del_altname(struct fk *k, struct fk_dev *d, const char *name)
{
    for (unsigned i = 0; i < d->n_altnames; i++)
        if (streq(d->altnames[i], name)) {
            memcpy(d->altnames[i], d->altnames[--d->n_altnames], IFNAMSIZ);
            fk_changed(k, d, d->netns, false);
            return 0;
        }
    return -ENOENT;
}

int fk_add_addr(struct fk *k, struct fk_dev *d, const struct ipnet *a)
{
    size_t len = a->family == AF_INET ? 4 : 16;

    for (unsigned i = 0; i < d->n_addrs; i++)
        if (d->addrs[i].family == a->family && memcmp(d->addrs[i].b, a->b, len) == 0 &&
            (a->family == AF_INET6 || d->addrs[i].prefix == a->prefix))
            return -EEXIST;
    if (d->n_addrs == FK_ADDRS)
        return -ENOBUFS;
    d->addrs[d->n_addrs++] = *a;
    k->changes++;
    return 0;
}

int fk_del_addr(struct fk *k, struct fk_dev *d, const struct ipnet *a)
{
    for (unsigned i = 0; i < d->n_addrs; i++)
        if (ipnet_equal(&d->addrs[i], a)) {
            memmove(&d->addrs[i], &d->addrs[i + 1], (--d->n_addrs - i) * sizeof(*d->addrs));
            k->changes++;
            return 0;
        }
    return -EADDRNOTAVAIL;
}

static bool covers(const struct ipnet *net, const struct ipnet *a)
{
    if (net->family != a->family)
        return false;
    for (unsigned bit = 0; bit < net->prefix; bit++)
        if ((net->b[bit / 8] ^ a->b[bit / 8]) & (0x80 >> bit % 8))
            return false;
    return true;
}

static bool is_neighbour(const struct fk_dev *d, const struct ipnet *a)
{
    for (unsigned i = 0; i < d->n_addrs; i++)
        if (covers(&d->addrs[i], a))
            return true;
    for (unsigned i = 0; i < d->n_routes; i++)
        if (!d->routes[i].has_via && covers(&d->routes[i].to, a))
            return true;
    return false;
}

int fk_add_route(struct fk *k, struct fk_dev *d, const struct route *r, const char **extack)
{
    const char *text = NULL;
    int ret = 0;

    if (!d->up) {
        text = "Device for nexthop is not up";
        ret = -ENETDOWN;
    } else if (r->has_via && !is_neighbour(d, &r->via)) {
        text = "Nexthop has invalid gateway";
        ret = -ENETUNREACH;
    }
    for (unsigned i = 0; ret == 0 && i < d->n_routes; i++)
        if (ipnet_equal(&d->routes[i].to, &r->to) && d->routes[i].metric == r->metric &&
            d->routes[i].table == r->table)
            ret = -EEXIST;
    if (ret == 0 && d->n_routes == FK_ROUTES)
        ret = -ENOBUFS;
    if (ret == 0) {
        d->routes[d->n_routes++] = *r;
        k->changes++;
    }
    if (extack)
        *extack = text;
    return ret;
}

struct fk_dev *fk_add_dummy(struct fk *k, int netns, const char *name)
{
    if (fk_find(k, netns, name))
        return NULL;
    struct fk_dev *d = new_dev(k, FK_DUMMY, netns, name);

    fk_changed(k, d, netns, false);
    return d;
}

void fk_del_dev(struct fk *k, struct fk_dev *d)
{
    int netns = d->netns;

    if (netns == 0)
        sysfs_show_dev(k, d, d->name, false);
    d->kind = FK_NONE;
    fk_changed(k, d, netns, true);
}

void fk_set_num_vfs(struct fk *k, unsigned pf, unsigned n)
{
    struct fk_pf *p = &k->pfs[pf];

    for (unsigned v = 0; v < FK_VFS; v++)
        if (p->vfs[v].there) {
            fk_del_dev(k, &k->devs[p->vfs[v].dev]);
            sysfs_show_vf(k, pf, v, false);
            p->vfs[v].there = false;
        }
    p->n_vfs = n;
    for (unsigned v = 0; v < n; v++) {
        make_vf(k, pf, v);
        sysfs_show_vf(k, pf, v, true);
        const struct fk_dev *d = fk_vf_dev(k, pf, v);
        sysfs_show_dev(k, d, d->name, true);
        fk_changed(k, d, 0, false);
    }
}

char *fk_vf_text(const struct fk *k, unsigned pf, unsigned vf)
{
    const struct fk_vf *v = &k->pfs[pf].vfs[vf];
    const struct fk_dev *d = &k->devs[v->dev];
    const struct vf_info *e = &v->entry;
    char own[MAC_TEXT_SIZE], entry[MAC_TEXT_SIZE], addr[IPNET_TEXT_SIZE];
    struct strbuf b = {0};

    if (!v->there)
        return xstrdup("gone");
    strbuf_printf(
        &b, "%s in %s%s, mtu %u, %s%s%s, mac %s; entry: mac %s%s, vlan %u qos %u, rate %u%s%s",
        d->name, d->netns ? k->netns[d->netns].name : "the host's namespace",
        d->netns && !k->netns[d->netns].mounted ? " (dying)" : "", d->mtu, d->up ? "up" : "down",
        d->promisc ? ", promisc" : "", d->allmulti ? ", allmulti" : "", mac_text(&d->mac, own),
        mac_text(&e->mac, entry), v->marked ? " (marked)" : "", e->vlan_id, e->vlan_qos,
        e->max_tx_mbps, e->spoofchk ? ", spoof checking" : "", e->trust ? ", trust" : "");
    if (e->link_state)
        strbuf_printf(&b, ", link state %u", e->link_state);
    for (unsigned i = 0; i < d->n_addrs; i++)
        strbuf_printf(&b, "; %s", ipnet_text(&d->addrs[i], addr));
    return strbuf_take(&b);
}
