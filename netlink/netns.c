/* SPDX-License-Identifier: Apache-2.0 */
#include "netlink/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define OWN_NETNS "/proc/thread-self/ns/net"

int netns_open(const char *path, int *ret_fd, struct err *e)
{
    /* O_NONBLOCK: whatever is there instead, opening it doesn't wait. */
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct statfs fs;
    struct stat st;

    if (fd < 0)
        return err_errno(e, -errno, "network namespace %s", path);
    if (fstatfs(fd, &fs) < 0 || fstat(fd, &st) < 0)
        return err_errno(e, -errno, "network namespace %s", path);
    if (fs.f_type != NSFS_MAGIC)
        return err_set(e, ERR_PERMANENT, -EINVAL,
                       S_ISREG(st.st_mode)
                           ? "network namespace %s: a plain file; the runtime's mount on it isn't "
                             "seen here (its directory needs mount propagation HostToContainer)"
                           : "network namespace %s: no namespace at all",
                       path);
    if (ioctl(fd, NS_GET_NSTYPE) != CLONE_NEWNET)
        return err_set(e, ERR_PERMANENT, -EINVAL,
                       "network namespace %s: a namespace of another kind", path);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int netns_identify(int fd, struct netns_id *ret, struct err *e)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_errno(e, -errno, "identifying a network namespace");
    *ret = (struct netns_id){st.st_dev, st.st_ino};
    return 0;
}

int netns_is_own(int fd, bool *ret, struct err *e)
{
    struct netns_id id = {0};
    struct stat own;
    int r = netns_identify(fd, &id, e);

    if (r < 0)
        return r;
    if (stat(OWN_NETNS, &own) < 0)
        return err_errno(e, -errno, "%s", OWN_NETNS);
    *ret = id.dev == own.st_dev && id.ino == own.st_ino;
    return 0;
}

struct opener {
    int netns, protocol;
    struct nl_transport *result;
    int r;
    struct err err;
};

static void *open_inside(void *data)
{
    struct opener *o = data;

    if (setns(o->netns, CLONE_NEWNET) < 0)
        o->r = err_errno(&o->err, -errno, "entering a network namespace");
    else
        o->r = nl_open(o->protocol, &o->result, &o->err);
    return NULL;
}

int nl_open_in(int fd, int protocol, struct nl_transport **ret, struct err *e)
{
    struct opener o = {.netns = fd, .protocol = protocol};
    sigset_t all, before;
    pthread_t thread;

    /* A new thread inherits the mask: no handler runs in the wrong namespace. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int r = pthread_create(&thread, NULL, open_inside, &o);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0)
        return err_errno(e, -r, "starting a thread");
    pthread_join(thread, NULL);
    if (o.r < 0)
        return err_move(e, &o.err);
    *ret = o.result;
    return 0;
}
