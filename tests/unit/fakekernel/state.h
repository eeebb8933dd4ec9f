/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the fake kernel share. */
#pragma once

#include "tests/unit/fakekernel/fakekernel.h"

/* kernel.c: tells that an interface changed, which was or is in `netns`; closes one. */
void fk_changed(struct fk *k, const struct fk_dev *d, int netns, bool gone);
void fk_close(struct fk *k, struct fk_dev *d);

/* netns.c: the first devN that is free, as dev_alloc_name() gives it. */
void fk_numbered_name(struct fk *k, int netns, char name[static IFNAMSIZ]);

/* igb.c: a VF's driver resets it: when it is closed, when its MTU changes, at its first opening. */
void igb_reset_vf(struct fk *k, struct fk_dev *d);
int igb_set_mac(struct fk *k, struct fk_dev *d, const struct mac *mac);
void igb_probe_vf(struct fk *k, struct fk_vf *v, unsigned index, const struct mac *mac);

/* sysfs.c: makes the tree; shows an interface in it, or no longer. */
void sysfs_make(struct fk *k);
void sysfs_remove(struct fk *k);
void sysfs_show_dev(const struct fk *k, const struct fk_dev *d, const char *name, bool there);
void sysfs_show_up(const struct fk *k, const struct fk_dev *pf);
void sysfs_show_vf(const struct fk *k, unsigned pf, unsigned vf, bool there);

/* netlink.c: the namespace of a descriptor, -1 if it is none. */
int fk_netns_of_fd(const struct fk *k, int fd);

/* Where the replies of a request go. */
struct replies {
    nl_reply_fn *fn;
    void *data;
    struct err *e;
    int r; /* what fn said */
};

void fk_reply(struct replies *to, struct nl_msg *m);
struct fk_dev *fk_dev_by_index(struct fk *k, int netns, int ifindex);
/* The attributes behind a head of `head` bytes. */
void fk_parse(struct nlattr **tb, int max, const struct nlmsghdr *h, size_t head);

/* inet.c: requests, as they are answered. */
int fk_get_addrs(struct fk *k, int netns, const struct nlmsghdr *h, struct replies *to);
int fk_change_addr(struct fk *k, int netns, const struct nlmsghdr *h);
int fk_new_route(struct fk *k, int netns, const struct nlmsghdr *h, const char **extack);
void fk_get_routes(struct fk *k, int netns, struct replies *to);
