/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A netlink transport that plays a script instead of a kernel: which requests must come, in which
 * order, and what is answered to each. An unexpected or wrong request, and one that is missing at
 * the end, fail the test, when the transport is freed: a request may come on a worker thread, where
 * cmocka can't fail. The request itself fails with -EPROTO meanwhile.
 */
#pragma once

#include "netlink/addr.h"
#include "netlink/link.h"
#include "netlink/transport.h"

#include <netlink/msg.h>

#define SCRIPT_REPLIES_MAX 16

struct script_step {
    uint16_t type; /* RTM_...; 0: any */
    /* The request's payload (what is behind nlmsghdr), as hex digits; NULL: anything. */
    const char *payload;
    /* Looks at the request; a text (freed by the caller) says what is wrong. May be NULL. */
    char *(*check)(const struct nlmsghdr *h, void *data);
    void *data;
    struct nl_msg *replies[SCRIPT_REPLIES_MAX]; /* owned by the script from scripted_new() on */
    int error;                                  /* the kernel's answer: 0, or a negative errno */
    const char *extack;                         /* the kernel's explanation of it, may be NULL */
};

/* Copies the steps (the texts stay the caller's). nl_free() judges, then frees. */
struct nl_transport *scripted_new(const struct script_step *steps, size_t n);

/*
 * What is wrong so far, requests that didn't come included, or NULL. Judged here, nl_free() doesn't
 * fail any more: for tests of failing scripts. Valid until nl_free().
 */
const char *scripted_problem(struct nl_transport *t);

/* What the kernel would answer: RTM_NEWLINK, with its VF list if it has VFs, and RTM_NEWADDR. */
struct nl_msg *scripted_link(const struct link *l);
struct nl_msg *scripted_addr(int ifindex, const struct ipnet *a);

/* Messages as they were captured, one after the other, in a file; at most `max` into ret. */
size_t scripted_load(const char *path, struct nl_msg **ret, size_t max);

/* `len` bytes as hex digits; the caller frees the text. */
char *scripted_hex(const void *data, size_t len);
