/* SPDX-License-Identifier: Apache-2.0 */
#include "sriov/attach.h"

#include "sriov/pci.h"
#include "sriov/steps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

/* The VF's interface in one namespace; ifindex 0: it isn't there. */
struct place {
    const char *vf_address;
    int ifindex;
    char name[IFNAMSIZ];
    struct mac mac;
    uint32_t mtu;
    bool up;
};

static void take_place(const struct link *l, struct place *p)
{
    p->ifindex = l->ifindex;
    memcpy(p->name, l->name, sizeof(p->name));
    p->mac = l->mac;
    p->mtu = l->mtu;
    p->up = l->flags & IFF_UP;
}

static int match(const struct link *l, void *data, struct err *e)
{
    struct place *p = data;

    (void)e;
    if (p->ifindex == 0 && streq(l->parent_dev, p->vf_address))
        take_place(l, p);
    return 0;
}

/*
 * By the device below it and never by name: a pod may rename what it has. Interfaces made on top of
 * the VF in the pod (VLANs, macvlans) have no device below them.
 */
static int find_in(struct nl_transport *nl, const char *vf_address, struct place *ret,
                   struct err *e)
{
    *ret = (struct place){.vf_address = vf_address};
    return link_list(nl, match, ret, e);
}

/* In our own namespace sysfs knows, so that a node with a thousand interfaces isn't listed. */
static int find_home(const struct hw *hw, const char *vf_address, struct place *ret, struct err *e)
{
    _cleanup_(link_done) struct link l = {0};
    _cleanup_free_ char *name = NULL;
    _cleanup_err_ struct err why = ERR_INIT;

    *ret = (struct place){.vf_address = vf_address};
    int r = pci_netdev(hw->root, vf_address, &name, e);
    if (r < 0 || !name)
        return r;
    r = link_get(hw->nl, 0, name, false, &l, &why);
    if (r < 0 && r != -ENODEV)
        return err_move(e, &why);
    if (r == 0 && (!l.parent_dev[0] || streq(l.parent_dev, vf_address)))
        take_place(&l, ret);
    return 0;
}

static int open_own_netns(int *ret_fd, struct err *e)
{
    int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return err_errno(e, -errno, "the host's network namespace");
    *ret_fd = fd;
    return 0;
}

/*
 * From the pod home. A name that is taken here is refused after the move, unless the pod's name is
 * taken here as well; then it comes home under one of the kernel's choice.
 */
static int move_home(struct nl_transport *pod, int host_netns_fd, int ifindex, const char *name,
                     uint32_t mtu, struct err *e)
{
    struct link_change c = {.ifindex = ifindex,
                            .set = LINK_FIELD_NETNS | LINK_FIELD_NAME,
                            .netns_fd = host_netns_fd,
                            .mtu = mtu};

    if (mtu)
        c.set |= LINK_FIELD_MTU;
    snprintf(c.name, sizeof(c.name), "%s", name);
    int r = link_change_send(pod, &c, e);
    if (r == -EEXIST) {
        snprintf(c.name, sizeof(c.name), "dev%%d");
        (void)link_change_send(pod, &c, NULL); /* ENODEV if it had left already */
    }
    return r;
}

/* Whether the pod has an interface of that name, or of that alternative name. */
static int check_free(struct nl_transport *pod, const char *name, struct err *e)
{
    _cleanup_(link_done) struct link l = {0};
    _cleanup_err_ struct err why = ERR_INIT;

    int r = link_get(pod, 0, name, false, &l, &why);
    if (r == -ENODEV)
        return 0;
    if (r < 0)
        return err_move(e, &why);
    return err_set(e, ERR_USER, -EEXIST, "the pod has an interface %s already", name);
}

static int move_in(const struct hw *hw, struct nl_transport *pod, int netns_fd,
                   const struct place *home, const char *name, uint32_t mtu, struct err *e)
{
    struct link_change c = {.ifindex = home->ifindex,
                            .set = LINK_FIELD_NETNS | LINK_FIELD_NAME,
                            .netns_fd = netns_fd,
                            .mtu = mtu};

    int r = check_free(pod, name, e);
    if (r < 0)
        return r;
    if (mtu && mtu != home->mtu)
        c.set |= LINK_FIELD_MTU;
    snprintf(c.name, sizeof(c.name), "%s", name);
    r = link_change_send(hw->nl, &c, e);
    return r < 0 ? err_prefix(e, r, "moving %s into the pod", home->name) : 0;
}

/* All that is to be in the pod; what is there already is left. */
static int set_up(struct nl_transport *pod, const struct place *at, const char *name,
                  const struct attach_spec *spec, struct err *e)
{
    struct link_change c = {.ifindex = at->ifindex, .netns_fd = -1, .mtu = spec->mtu};
    int r = 0;

    if (!streq(at->name, name))
        r = link_rename(pod, at->ifindex, name, e);
    if (r < 0)
        return r;
    if (spec->mtu && at->mtu != spec->mtu) {
        c.set = LINK_FIELD_MTU;
        r = link_change_send(pod, &c, e);
    }
    for (size_t i = 0; r == 0 && i < spec->addrs.n; i++)
        r = addr_add(pod, at->ifindex, &spec->addrs.v[i], e);
    if (r == 0 && !at->up) {
        c.set = LINK_FIELD_UP;
        c.up = true;
        r = link_change_send(pod, &c, e);
    }
    for (size_t i = 0; r == 0 && i < spec->routes.n; i++)
        r = route_add(pod, at->ifindex, &spec->routes.v[i], e);
    return r;
}

static int take_result(struct nl_transport *pod, const struct place *at, struct attach_result *ret,
                       struct err *e)
{
    struct attach_result res = {.mac = at->mac, .mtu = at->mtu};
    int r = addr_list(pod, at->ifindex, &res.addrs, e);

    if (r < 0)
        return r;
    memcpy(res.name, at->name, sizeof(res.name));
    *ret = res;
    return 0;
}

static int read_result(struct nl_transport *pod, const char *name, const struct attach_spec *spec,
                       struct attach_result *ret, struct err *e)
{
    struct place at;

    int r = find_in(pod, spec->vf_address, &at, e);
    if (r < 0)
        return r;
    if (at.ifindex == 0)
        return err_set(e, ERR_TRANSIENT, -ENODEV, "it left the pod's namespace");
    if (!streq(at.name, name) || !at.up || (spec->mtu && at.mtu != spec->mtu))
        return err_set(e, ERR_PERMANENT, -EIO, "accepted, but it is %s, MTU %u, %s in the pod",
                       at.name, at.mtu, at.up ? "up" : "down");
    return take_result(pod, &at, ret, e);
}

int vf_attach_with(const struct hw *hw, struct nl_transport *pod, int netns_fd, int host_netns_fd,
                   const struct attach_spec *spec, struct attach_result *ret, struct err *e)
{
    struct place home, there = {0};
    const char *name = spec->name;
    _cleanup_err_ struct err why = ERR_INIT;

    int r = find_home(hw, spec->vf_address, &home, &why);
    if (r == 0 && home.ifindex) {
        name = name[0] ? name : home.name;
        r = move_in(hw, pod, netns_fd, &home, name, spec->mtu, &why);
    }
    /* Looked for even after a refusal, which may have come when it was moved already. */
    if (r == 0 || home.ifindex) {
        int k = find_in(pod, spec->vf_address, &there, r < 0 ? NULL : &why);
        r = r < 0 ? r : k;
    }
    if (r == 0 && there.ifindex == 0)
        r = err_set(&why, ERR_TRANSIENT, -ENODEV, "its interface is neither here nor in the pod");
    if (r == 0) {
        name = name[0] ? name : there.name;
        r = set_up(pod, &there, name, spec, &why);
    }
    if (r == 0)
        r = read_result(pod, name, spec, ret, &why);
    if (r == 0)
        return 0;
    if (home.ifindex && there.ifindex) {
        _cleanup_err_ struct err back = ERR_INIT;
        if (move_home(pod, host_netns_fd, there.ifindex, home.name, home.mtu, &back) < 0)
            err_prefix(&why, r, "moving it home failed too (%s), after", err_text(&back));
    }
    err_move(e, &why);
    return err_prefix(e, r, "attaching VF %s", spec->vf_address);
}

int vf_attach(const struct hw *hw, int netns_fd, const struct attach_spec *spec,
              struct attach_result *ret, struct err *e)
{
    _cleanup_(nl_freep) struct nl_transport *pod = NULL;
    _cleanup_close_ int own_fd = -1;
    bool own;

    int r = netns_is_own(netns_fd, &own, e);
    if (r < 0)
        return r;
    if (own)
        return err_set(e, ERR_USER, -EINVAL,
                       "attaching VF %s: the pod has the host's network namespace",
                       spec->vf_address);
    r = open_own_netns(&own_fd, e);
    if (r == 0)
        r = nl_open_in(netns_fd, NETLINK_ROUTE, &pod, e);
    if (r < 0)
        return err_prefix(e, r, "attaching VF %s", spec->vf_address);
    return vf_attach_with(hw, pod, netns_fd, own_fd, spec, ret, e);
}

void attach_result_done(struct attach_result *r)
{
    free(r->addrs.v);
    *r = (struct attach_result){0};
}

int vf_detach_with(const struct hw *hw, struct nl_transport *pod, int host_netns_fd,
                   const char *vf_address, const char *name, bool *ret_moved, struct err *e)
{
    struct place there, home;
    _cleanup_err_ struct err why = ERR_INIT;

    int r = find_in(pod, vf_address, &there, e);
    if (r < 0)
        return err_prefix(e, r, "detaching VF %s", vf_address);
    if (there.ifindex == 0) {
        *ret_moved = false;
        return 0;
    }
    r = move_home(pod, host_netns_fd, there.ifindex, name, 0, &why);
    /* Home under another name, and the name may be an alternative one of its own. */
    if (r == -EEXIST && find_home(hw, vf_address, &home, NULL) == 0 && home.ifindex) {
        err_clear(&why);
        r = link_rename(hw->nl, home.ifindex, name, &why);
    }
    if (r < 0) {
        err_move(e, &why);
        return err_prefix(e, r, "detaching VF %s", vf_address);
    }
    *ret_moved = true;
    return 0;
}

int vf_detach(const struct hw *hw, int netns_fd, const char *vf_address, const char *name,
              bool *ret_moved, struct err *e)
{
    _cleanup_(nl_freep) struct nl_transport *pod = NULL;
    _cleanup_close_ int own_fd = -1;
    bool own;

    int r = netns_is_own(netns_fd, &own, e);
    if (r == 0 && own) {
        *ret_moved = false;
        return 0;
    }
    if (r == 0)
        r = open_own_netns(&own_fd, e);
    if (r == 0)
        r = nl_open_in(netns_fd, NETLINK_ROUTE, &pod, e);
    if (r < 0)
        return err_prefix(e, r, "detaching VF %s", vf_address);
    return vf_detach_with(hw, pod, own_fd, vf_address, name, ret_moved, e);
}

int vf_look_in(int netns_fd, const char *vf_address, bool *ret_in, struct attach_result *ret,
               struct err *e)
{
    _cleanup_(nl_freep) struct nl_transport *nl = NULL;
    struct place at;

    int r = nl_open_in(netns_fd, NETLINK_ROUTE, &nl, e);
    if (r == 0)
        r = find_in(nl, vf_address, &at, e);
    if (r == 0 && at.ifindex && ret)
        r = take_result(nl, &at, ret, e);
    if (r < 0)
        return err_prefix(e, r, "looking for VF %s", vf_address);
    *ret_in = at.ifindex != 0;
    return 0;
}
