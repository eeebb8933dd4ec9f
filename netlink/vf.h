/* SPDX-License-Identifier: Apache-2.0 */
/* The VF list inside a PF's description. Of this room only. */
#pragma once

#include "netlink/link.h"

#include <netlink/msg.h>

struct vf_list {
    const struct nlattr *head; /* the first IFLA_VF_INFO, NULL if there is no list */
    int len;                   /* bytes of all of them */
    bool wrapped;              /* the list is longer than its attribute can say */
};

/*
 * Where the IFLA_VFINFO_LIST `list` ends, which has at most `rem` bytes of message and `num_vf`
 * entries. The kernel closes the list without a look at its size (nla_nest_end() stores 16 bits),
 * so that one of more than 64 KiB claims its length modulo 65536.
 */
void vf_list_find(const struct nlattr *list, int rem, unsigned num_vf, struct vf_list *ret);

/* Appends what the list says to l->vfs; -EBADMSG where a length is wrong. */
int vf_list_parse(const struct vf_list *list, struct link *l);
