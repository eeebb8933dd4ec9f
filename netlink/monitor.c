/* SPDX-License-Identifier: Apache-2.0 */
#include "netlink/monitor.h"

#include "base/str.h"
#include "netlink/uevent.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define UEVENT_GROUP_KERNEL 1 /* 2 is udevd's */

/*
 * Making 256 VFs is some thousand messages while the loop may be busy; this is a limit, no memory
 * is taken before messages wait.
 */
#define RECEIVE_BUFFER (4 * 1024 * 1024)

/* A uevent has at most 2 KiB (UEVENT_BUFFER_SIZE) and its header; of a link the header is read. */
#define MESSAGE_SIZE (4 * 1024)

/* Messages of one socket in a round of the loop, so that a storm doesn't starve the rest. */
#define BATCH 256

struct monitor {
    monitor_fn *fn;
    void *data;
    int link_fd, uevent_fd;
    struct loop_io *link_io, *uevent_io;
};

static void take_link(struct monitor *m, const char *buf, size_t len)
{
    struct {
        struct nlmsghdr h;
        struct ifinfomsg info;
    } head;

    if (len < sizeof(head))
        return;
    memcpy(&head, buf, sizeof(head));
    if (head.h.nlmsg_type != RTM_NEWLINK && head.h.nlmsg_type != RTM_DELLINK)
        return;
    m->fn(&(struct monitor_event){.kind = MONITOR_LINK,
                                  .ifindex = head.info.ifi_index,
                                  .gone = head.h.nlmsg_type == RTM_DELLINK},
          m->data);
}

static void take_uevent(struct monitor *m, const char *buf, size_t len)
{
    struct uevent ev;

    if (uevent_parse(buf, len, &ev) < 0)
        return;
    if (!streq(ev.subsystem, "net") && !streq(ev.subsystem, "pci"))
        return;
    m->fn(&(struct monitor_event){.kind = MONITOR_UEVENT,
                                  .action = ev.action,
                                  .devpath = ev.devpath,
                                  .subsystem = ev.subsystem},
          m->data);
}

static void on_readable(int fd, uint32_t events, void *data)
{
    struct monitor *m = data;
    _Alignas(struct nlmsghdr) char buf[MESSAGE_SIZE];
    uint32_t group = fd == m->uevent_fd ? UEVENT_GROUP_KERNEL : 1 << (RTNLGRP_LINK - 1);

    (void)events;
    for (int i = 0; i < BATCH; i++) {
        struct sockaddr_nl from = {0};
        socklen_t from_len = sizeof(from);
        ssize_t n = recvfrom(fd, buf, sizeof(buf), 0, (void *)&from, &from_len);

        if (n < 0 && errno == ENOBUFS) {
            m->fn(&(struct monitor_event){.kind = MONITOR_OVERFLOW}, m->data);
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return; /* EAGAIN: nothing more */
        /* Processes may send too, to our port or to the group; the kernel's port is 0. */
        if (from.nl_pid != 0 || from.nl_groups != group)
            continue;
        if (fd == m->uevent_fd)
            take_uevent(m, buf, (size_t)n);
        else
            take_link(m, buf, (size_t)n);
    }
}

static int subscribe(int protocol, uint32_t group, int *ret_fd, struct err *e)
{
    _cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    const struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = group};

    if (fd < 0)
        return err_errno(e, -errno, "netlink socket of protocol %d", protocol);
    /* Above rmem_max with CAP_NET_ADMIN only; a smaller buffer overflows earlier and is told. */
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &(int){RECEIVE_BUFFER}, sizeof(int)) < 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){RECEIVE_BUFFER}, sizeof(int));
    if (bind(fd, (const void *)&addr, sizeof(addr)) < 0)
        return err_errno(e, -errno, "subscribing to netlink protocol %d", protocol);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int monitor_new(struct loop *l, monitor_fn *fn, void *data, struct monitor **ret, struct err *e)
{
    _cleanup_(monitor_freep) struct monitor *m = xnew(struct monitor);
    int r;

    *m = (struct monitor){.fn = fn, .data = data, .link_fd = -1, .uevent_fd = -1};
    r = subscribe(NETLINK_ROUTE, 1 << (RTNLGRP_LINK - 1), &m->link_fd, e);
    if (r < 0)
        return r;
    r = subscribe(NETLINK_KOBJECT_UEVENT, UEVENT_GROUP_KERNEL, &m->uevent_fd, e);
    if (r < 0)
        return r;
    r = loop_io_new(l, m->link_fd, EPOLLIN, on_readable, m, &m->link_io, e);
    if (r < 0)
        return r;
    r = loop_io_new(l, m->uevent_fd, EPOLLIN, on_readable, m, &m->uevent_io, e);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(m);
    return 0;
}

void monitor_free(struct monitor *m)
{
    loop_io_free(m->link_io);
    loop_io_free(m->uevent_io);
    cleanup_closep(&m->link_fd);
    cleanup_closep(&m->uevent_fd);
    free(m);
}
