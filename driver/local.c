/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/local.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>

/* A node has some hundred pods; the rest is a machine gone mad, and would take its time. */
#define NETNS_MAX 4096

void local_open(const char *sysroot, const char *state_dir, struct local *ret)
{
    struct local l = LOCAL_INIT;
    _cleanup_err_ struct err hardware = ERR_INIT, records = ERR_INIT;

    if (sysroot_open(sysroot, &l.root, &hardware) < 0 ||
        inventory_read(&l.root, &l.inv, &hardware) < 0 ||
        nl_open(NETLINK_ROUTE, &l.nl, &hardware) < 0)
        l.hardware_why = xstrdup(err_text(&hardware));
    if (store_look(state_dir, &l.records, &records) < 0)
        l.records_why = xstrdup(err_text(&records));
    *ret = l;
}

void local_done(struct local *l)
{
    vec_foreach (n, &l->netns) {
        (void)close(n->fd);
        free(n->path);
    }
    free(l->netns.v);
    if (l->nl)
        nl_free(l->nl);
    inventory_done(&l->inv);
    if (l->root.fd >= 0)
        sysroot_done(&l->root);
    store_content_done(&l->records);
    free(l->hardware_why);
    free(l->records_why);
    *l = (struct local)LOCAL_INIT;
}

const struct record *local_record(const struct local *l, const char *uid)
{
    vec_foreach (r, &l->records.records)
        if (streq((*r)->uid, uid))
            return *r;
    return NULL;
}

const struct record *local_record_named(const struct local *l, const char *namespace,
                                        const char *name)
{
    vec_foreach (r, &l->records.records)
        if (streq((*r)->namespace, namespace) && streq((*r)->name, name))
            return *r;
    return NULL;
}

const struct record *local_record_of_device(const struct local *l, const char *device)
{
    vec_foreach (r, &l->records.records)
        vec_foreach (d, &(*r)->devices)
            if (streq(d->grant.device, device))
                return *r;
    return NULL;
}

/* ---- where a VF is */

static void add_netns(struct local *l, const char *path)
{
    _cleanup_close_ int fd = -1;
    struct netns_id id, other;
    bool own;

    if (l->netns.n >= NETNS_MAX || netns_open(path, &fd, NULL) < 0 ||
        netns_is_own(fd, &own, NULL) < 0 || own || netns_identify(fd, &id, NULL) < 0)
        return;
    vec_foreach (n, &l->netns)
        if (netns_identify(n->fd, &other, NULL) == 0 && other.dev == id.dev && other.ino == id.ino)
            return;
    *VEC_PUSH(&l->netns) = (struct local_netns){xstrdup(path), TAKE_FD(fd)};
}

/* Those with a name first: it is the one that the runtime uses. */
static void find_netns(struct local *l)
{
    struct dirent *d;
    DIR *dir;

    l->has_netns = true;
    if ((dir = opendir("/run/netns"))) {
        while ((d = readdir(dir)))
            if (*d->d_name != '.') {
                _cleanup_free_ char *path = xasprintf("/run/netns/%s", d->d_name);

                add_netns(l, path);
            }
        closedir(dir);
    }
    if ((dir = opendir("/proc"))) {
        while ((d = readdir(dir)))
            if (isdigit((unsigned char)*d->d_name)) {
                _cleanup_free_ char *path = xasprintf("/proc/%s/ns/net", d->d_name);

                add_netns(l, path);
            }
        closedir(dir);
    }
}

void local_vf_done(struct local_vf *v)
{
    if (v->place)
        attach_result_done(&v->in_pod);
    vf_state_done(&v->state);
    free(v->why);
    free(v->place);
    *v = (struct local_vf){0};
}

static void find_away(struct local *l, const char *address, struct local_vf *v)
{
    if (!l->has_netns)
        find_netns(l);
    vec_foreach (n, &l->netns) {
        bool in = false;

        if (vf_look_in(n->fd, address, &in, &v->in_pod, NULL) < 0 || !in)
            continue;
        v->place = xstrdup(n->path);
        v->state.mac = v->in_pod.mac;
        v->state.mtu = v->in_pod.mtu;
        return;
    }
}

void local_look(struct local *l, const char *address, struct local_vf *ret)
{
    const struct hw hw = {.root = &l->root, .nl = l->nl};
    _cleanup_err_ struct err e = ERR_INIT;
    const struct pf *pf = NULL;
    const struct vf *vf;

    *ret = (struct local_vf){0};
    if (l->hardware_why) {
        ret->why = xstrdup(l->hardware_why);
        return;
    }
    vf = inventory_find_vf(&l->inv, address, &pf);
    if (!vf)
        ret->why = xasprintf("this machine has no VF at %s", address);
    else if (vf_state_read(&hw, pf->address, address, vf->index, &ret->state, &e) < 0)
        ret->why = xstrdup(err_text(&e));
    else if (!ret->state.home)
        find_away(l, address, ret);
}
