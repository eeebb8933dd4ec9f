/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends netlink requests and receives their answers. libnl builds and parses messages, but it never
 * reads the kernel's extended ACK, the only place where a driver says why it refused a VF setting;
 * so the socket is ours.
 *
 * The table of functions is the seam for tests: a scripted transport takes its place.
 */
#pragma once

#include "base/err.h"

#include <linux/netlink.h>

struct nl_msg; /* libnl's */

/* libnl's <netlink/addr.h> is hidden by ours; of it, its <netlink/attr.h> needs this name only. */
struct nl_addr;

/* One reply message (not the ACK). Return <0 with `e` filled to end the request with that error. */
typedef int nl_reply_fn(const struct nlmsghdr *h, void *data, struct err *e);

struct nl_transport {
    const struct nl_transport_ops *ops;
};

struct nl_transport_ops {
    int (*request)(struct nl_transport *t, struct nl_msg *msg, nl_reply_fn *fn, void *data,
                   struct err *e);
    void (*free)(struct nl_transport *t);
};

/*
 * A socket of `protocol` (NETLINK_ROUTE, NETLINK_GENERIC) in the calling thread's network
 * namespace, where it stays whoever uses it later. Not for two threads at once.
 */
int nl_open(int protocol, struct nl_transport **ret, struct err *e);
void nl_free(struct nl_transport *t);
DEFINE_CLEANUP(struct nl_transport, nl_free)

/*
 * Sends one request (the message's flags say whether it is a dump; NLM_F_REQUEST, and NLM_F_ACK
 * unless it is a dump, are added) and waits for its end. Replies go to `fn`, which may be NULL and
 * must not use this transport. The message stays the caller's.
 *
 * Blocks: rtnetlink does the work inside sendmsg(2), behind its one lock (RTNL), for as long as a
 * driver or another process holds it. The answer is waited for 5 s at most (-ETIMEDOUT); what comes
 * later is dropped before the next request.
 *
 * Fails with the kernel's errno; the text has the extended ACK's message if there was one. A dump
 * that the kernel marks as interrupted (NLM_F_DUMP_INTR) fails with -EAGAIN: repeat it.
 */
int nl_request(struct nl_transport *t, struct nl_msg *msg, nl_reply_fn *fn, void *data,
               struct err *e);

/*
 * Fills `e` the way nl_request() does for an errno of the kernel (`code`, negative) and its
 * extended ACK's message, which may be NULL: for other transports.
 */
int nl_err(struct err *e, int code, const char *extack);
