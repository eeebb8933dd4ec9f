/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces, and interfaces that move between them. Facts: docs/hardware.md, and
 * dev_change_net_namespace() and default_device_exit_net() of the kernel.
 */
#include "tests/unit/fakekernel/state.h"

#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

int fk_netns_add(struct fk *k, const char *name)
{
    int i = 1;
    char path[96];
    struct stat st;

    while (i < FK_NETNS && k->netns[i].alive)
        i++;
    assert_true(i < FK_NETNS);
    k->netns[i] = (struct fk_netns){.alive = true, .mounted = true};
    snprintf(k->netns[i].name, sizeof(k->netns[i].name), "%s", name);
    fk_netns_path(k, i, path);
    int fd = open(path, O_CREAT | O_EXCL | O_RDONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    (void)close(fd);
    k->netns[i].inode = st.st_ino;
    return i;
}

int fk_netns_find(const struct fk *k, const char *name)
{
    for (int i = 1; i < FK_NETNS; i++)
        if (k->netns[i].mounted && streq(k->netns[i].name, name))
            return i;
    return -1;
}

void fk_netns_path(const struct fk *k, int netns, char ret[static 96])
{
    snprintf(ret, 96, "%s/netns/%s", k->root, k->netns[netns].name);
}

void fk_netns_unmount(struct fk *k, int netns)
{
    char path[96];

    fk_netns_path(k, netns, path);
    (void)unlink(path);
    k->netns[netns].mounted = false;
}

void fk_numbered_name(struct fk *k, int netns, char name[static IFNAMSIZ])
{
    for (int n = 0;; n++) {
        snprintf(name, IFNAMSIZ, "dev%d", n);
        if (!fk_find(k, netns, name))
            return;
    }
}

static bool has_ifindex(const struct fk *k, int netns, int ifindex)
{
    for (const struct fk_dev *d = k->devs; d < k->devs + FK_DEVS; d++)
        if (d->kind && d->netns == netns && d->ifindex == ifindex)
            return true;
    return false;
}

/* Addresses and routes go; promiscuous mode, MTU, MAC and alternative names stay. */
static void carry(struct fk *k, struct fk_dev *d, int netns, const char *name)
{
    int from = d->netns;

    fk_close(k, d);
    if (from == 0)
        sysfs_show_dev(k, d, d->name, false);
    fk_changed(k, d, from, true);
    d->n_addrs = d->n_routes = 0;
    d->netns = -1;
    if (has_ifindex(k, netns, d->ifindex))
        d->ifindex = k->next_ifindex++;
    d->netns = netns;
    snprintf(d->name, sizeof(d->name), "%s", name);
    if (netns == 0)
        sysfs_show_dev(k, d, d->name, true);
    fk_changed(k, d, netns, false);
}

void fk_netns_end(struct fk *k, int netns)
{
    if (k->netns[netns].mounted)
        fk_netns_unmount(k, netns);
    for (struct fk_dev *d = k->devs; d < k->devs + FK_DEVS; d++) {
        char name[IFNAMSIZ];

        if (!d->kind || d->netns != netns)
            continue;
        if (d->kind == FK_DUMMY) {
            *d = (struct fk_dev){0};
            continue;
        }
        for (unsigned i = d->n_altnames; i-- > 0;)
            if (fk_find(k, 0, d->altnames[i]))
                (void)fk_del_altname(k, d, d->altnames[i]);
        snprintf(name, sizeof(name), "%s", d->name);
        if (fk_find(k, 0, name))
            snprintf(name, sizeof(name), "dev%d", d->ifindex);
        if (fk_find(k, 0, name))
            fk_numbered_name(k, 0, name);
        carry(k, d, 0, name);
    }
    k->netns[netns] = (struct fk_netns){0};
    k->changes++;
}

int fk_move(struct fk *k, struct fk_dev *d, int netns, const char *name)
{
    char keep[IFNAMSIZ];

    if (netns < 0 || !k->netns[netns].alive)
        return -EINVAL;
    if (netns == d->netns)
        return 0;
    snprintf(keep, sizeof(keep), "%s", d->name);
    /* The wanted name matters only where the present one can't be kept. */
    if (fk_find(k, netns, keep)) {
        if (!name)
            return -EEXIST;
        if (strchr(name, '%'))
            fk_numbered_name(k, netns, keep);
        else if (fk_find(k, netns, name))
            return -EEXIST;
        else
            snprintf(keep, sizeof(keep), "%s", name);
    }
    for (unsigned i = 0; i < d->n_altnames; i++)
        if (fk_find(k, netns, d->altnames[i]))
            return -EEXIST;
    carry(k, d, netns, keep);
    return 0;
}
