/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network namespaces by path. setns(2) is per thread, and a thread that can't come back must not go
 * on; so a short-lived thread enters the namespace, opens the socket, and ends. The socket stays in
 * that namespace and is used from anywhere.
 */
#pragma once

#include "netlink/transport.h"

#include <stdbool.h>
#include <sys/types.h>

/*
 * Opens `path` (/var/run/netns/cni-..., /proc/PID/ns/net) as a network namespace. -ENOENT if it is
 * gone, -EINVAL if it is something else: the runtime's file is a bind mount of nsfs, and a plain
 * file where the mount isn't seen (no mount propagation into our pod) is told apart with a text
 * that says so.
 */
int netns_open(const char *path, int *ret_fd, struct err *e);

/* Device and inode of a namespace: its identity while somebody holds it. */
struct netns_id {
    dev_t dev;
    ino_t ino;
};
int netns_identify(int fd, struct netns_id *ret, struct err *e);

/* Whether `fd` is the namespace of the calling thread. */
int netns_is_own(int fd, bool *ret, struct err *e);

/* nl_open() in the namespace of `fd`. Blocks for the life of a thread (well below 1 ms). */
int nl_open_in(int fd, int protocol, struct nl_transport **ret, struct err *e);
