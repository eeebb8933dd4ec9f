/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libnl lacks for this room: messages that are built without a check after each line, and
 * attributes parsed so that bytes left over are an error. Of this room only, and of its tests.
 */
#pragma once

#include "base/macro.h"
#include "netlink/transport.h"

#include <netlink/msg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

DEFINE_CLEANUP(struct nl_msg, nlmsg_free)

#ifndef ALTIFNAMSIZ
#define ALTIFNAMSIZ 128 /* linux/if.h, which doesn't go together with net/if.h */
#endif

/* Bytes of an address of AF_INET or AF_INET6. */
static inline size_t nlx_family_bytes(uint8_t family)
{
    return family == AF_INET ? 4 : 16;
}

/*
 * A message of one page with the family's own header `head` in it. Building never fails: running
 * out of memory, or of the page (what we build is far smaller), ends the process.
 */
struct nl_msg *nlx_msg(int type, int flags, const void *head, size_t len);
void nlx_put(struct nl_msg *m, int type, const void *data, size_t len);
void nlx_put_u32(struct nl_msg *m, int type, uint32_t value);
void nlx_put_str(struct nl_msg *m, int type, const char *s); /* with its NUL */
struct nlattr *nlx_nest(struct nl_msg *m, int type);
void nlx_nest_end(struct nl_msg *m, struct nlattr *nest);

/*
 * In place of nla_ok() and nlmsg_ok(), which (in libnl 3.7) take a negative rest for a large one.
 * It becomes negative behind a last part that comes without its padding.
 */
static inline bool nlx_ok(const struct nlattr *a, int rem)
{
    return rem >= NLA_HDRLEN && a->nla_len >= NLA_HDRLEN && a->nla_len <= rem;
}

static inline bool nlx_msg_ok(const struct nlmsghdr *h, int rem)
{
    return rem >= NLMSG_HDRLEN && h->nlmsg_len >= NLMSG_HDRLEN && h->nlmsg_len <= (uint32_t)rem;
}

#define nlx_for_each(a, head, len, rem)                                                            \
    for ((a) = (head), (rem) = (len); nlx_ok(a, rem); (a) = nla_next(a, &(rem)))

/*
 * Sorts the attributes in `len` bytes at `head` into tb[0..max], which the caller zeroed; entries
 * that are set stay, so several ranges can be gathered and the first of a type wins. Types above
 * `max` are skipped. -EBADMSG if a length is wrong, by itself or by `policy`, or bytes are left.
 */
int nlx_parse(struct nlattr **tb, int max, const struct nlattr *head, int len,
              const struct nla_policy *policy);
int nlx_parse_nested(struct nlattr **tb, int max, const struct nlattr *nest,
                     const struct nla_policy *policy);

/*
 * Sends the dump `m` and repeats it, a few times, where what it lists changed meanwhile;
 * reset(data) is called before each attempt and drops what `fn` gathered in the one before.
 */
int nlx_dump(struct nl_transport *t, struct nl_msg *m, nl_reply_fn *fn, void (*reset)(void *data),
             void *data, struct err *e);
