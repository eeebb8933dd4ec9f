/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A VF's netdev moved into a pod's network namespace, named and addressed there, and moved home.
 * All calls block on netlink, a few tens of milliseconds in all.
 */
#pragma once

#include "netlink/addr.h"
#include "netlink/netns.h"
#include "sriov/settings.h"

struct attach_spec {
    char vf_address[24];
    char name[IFNAMSIZ]; /* in the pod; "" keeps the VF's name */
    uint32_t mtu;        /* 0: as it is */
    ipnet_vec addrs;
    VEC(struct route) routes;
};

struct attach_result {
    char name[IFNAMSIZ];
    struct mac mac;
    uint32_t mtu;
    ipnet_vec addrs;
};

/*
 * Moves the VF from our namespace into that of `netns_fd` and renames it in the same request, then
 * sets MTU and addresses, brings it up, adds routes, and reads back. If the VF is in that namespace
 * already (a repeated call) only what is missing is done, and a failure leaves it there. Otherwise
 * on failure the VF is moved home under its old name and MTU.
 *
 * -EEXIST if the name is taken in the pod, -ENODEV if the VF is neither here nor there, -EINVAL if
 * `netns_fd` is the host's own namespace.
 */
int vf_attach(const struct hw *hw, int netns_fd, const struct attach_spec *spec,
              struct attach_result *ret, struct err *e);
void attach_result_done(struct attach_result *r);

/*
 * Moves the VF at `vf_address` home from the namespace of `netns_fd`, down, named `name` (its name
 * before the attachment). A VF that isn't there is success with *ret_moved false.
 */
int vf_detach(const struct hw *hw, int netns_fd, const char *vf_address, const char *name,
              bool *ret_moved, struct err *e);

/*
 * Both with the transport of the pod's namespace given, and for the way home with the host's
 * namespace: what the functions above open for themselves.
 */
int vf_attach_with(const struct hw *hw, struct nl_transport *pod, int netns_fd, int host_netns_fd,
                   const struct attach_spec *spec, struct attach_result *ret, struct err *e);
int vf_detach_with(const struct hw *hw, struct nl_transport *pod, int host_netns_fd,
                   const char *vf_address, const char *name, bool *ret_moved, struct err *e);

/*
 * Whether the VF's netdev is in the namespace of `netns_fd`, and what it is like there: `ret` may
 * be NULL, and is set if it is there.
 */
int vf_look_in(int netns_fd, const char *vf_address, bool *ret_in, struct attach_result *ret,
               struct err *e);
