/* SPDX-License-Identifier: Apache-2.0 */
/* The linker puts these in the place of netlink/'s own (--wrap): sockets and namespaces. */
#include "tests/unit/fakekernel/state.h"

#include "netlink/netns.h"

#include <errno.h>
#include <fcntl.h>

int __wrap_nl_open(int protocol, struct nl_transport **ret, struct err *e);
int __wrap_nl_open_in(int fd, int protocol, struct nl_transport **ret, struct err *e);
int __wrap_netns_open(const char *path, int *ret_fd, struct err *e);
int __wrap_netns_is_own(int fd, bool *ret, struct err *e);

int __wrap_nl_open(int protocol, struct nl_transport **ret, struct err *e)
{
    (void)protocol;
    (void)e;
    *ret = fk_transport(fk_current, 0);
    return 0;
}

int __wrap_nl_open_in(int fd, int protocol, struct nl_transport **ret, struct err *e)
{
    int netns = fk_netns_of_fd(fk_current, fd);

    (void)protocol;
    if (netns < 0)
        return err_errno(e, -EINVAL, "entering a network namespace");
    *ret = fk_transport(fk_current, netns);
    return 0;
}

int __wrap_netns_open(const char *path, int *ret_fd, struct err *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return err_errno(e, -errno, "network namespace %s", path);
    *ret_fd = fd;
    return 0;
}

int __wrap_netns_is_own(int fd, bool *ret, struct err *e)
{
    (void)e;
    *ret = fk_netns_of_fd(fk_current, fd) == 0;
    return 0;
}
