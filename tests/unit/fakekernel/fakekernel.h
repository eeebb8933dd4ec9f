/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel with SR-IOV ports, for tests: PFs and VFs as igb and igbvf behave, network namespaces,
 * addresses and routes, behind the project's two seams. Netlink requests are answered from its
 * state by transports (fk_transport()); sysfs is a temporary folder (fk_root()) in which an
 * interface appears and disappears as it moves.
 *
 * A program that is linked with `fakekernel` gets its transports and namespaces from the fake
 * instead of the kernel: nl_open(), nl_open_in(), netns_open() and netns_is_own() (seams.c). A
 * namespace is a plain file there, which the fake knows by its inode.
 *
 * What it does is checked against hardware: tests/hw/test_vf_hw.c runs on both.
 *
 * All state is in one piece of shared memory without pointers: a forked child changes the same
 * kernel, and a copy of a struct is a snapshot.
 */
#pragma once

#include "netlink/addr.h"
#include "netlink/link.h"

#define FK_PFS      2
#define FK_VFS      8
#define FK_DEVS     64
#define FK_NETNS    48
#define FK_ADDRS    12
#define FK_ROUTES   8
#define FK_ALTNAMES 4

enum fk_kind { FK_NONE, FK_PF, FK_VF, FK_DUMMY };

/* A network interface. */
struct fk_dev {
    enum fk_kind kind;
    unsigned pf, vf; /* which; vf of VFs only */
    int netns;       /* 0: the host's */
    int ifindex;
    char name[IFNAMSIZ];
    char altnames[FK_ALTNAMES][IFNAMSIZ];
    unsigned n_altnames;
    struct mac mac, perm_mac;
    uint32_t mtu;
    bool up, promisc, allmulti;
    struct ipnet addrs[FK_ADDRS]; /* without link-local IPv6 */
    unsigned n_addrs;
    struct route routes[FK_ROUTES];
    unsigned n_routes;
};

struct fk_vf {
    char address[24];
    bool there;           /* sriov_numvfs covers it */
    unsigned dev;         /* index into `devs` */
    struct vf_info entry; /* the PF's */
    bool marked;          /* the entry's MAC is an administrator's */
    /* The VF driver's side of the mailbox: whether it was reset while the PF was up, the MAC that
     * it asks for, and the one that the PF told it at its last reset. */
    bool ready;
    struct mac asks, told;
};

struct fk_pf {
    char address[24];
    unsigned dev;
    uint32_t speed; /* Mb/s */
    unsigned n_vfs;
    struct fk_vf vfs[FK_VFS];
};

struct fk_netns {
    bool alive;   /* interfaces can be in it */
    bool mounted; /* has a path */
    char name[24];
    uint64_t inode;
};

/* Other behaviours than igb's that drivers and kernels have (docs/hardware.md). */
struct fk_ways {
    bool mac_busy_while_up;  /* EBUSY from the own side (eth_mac_addr) */
    bool name_busy_while_up; /* kernels before live renaming */
    int mark_error;          /* how a VF driver refuses a MAC; 0: -EADDRNOTAVAIL */
    bool has_link_state;
};

/* A request on its way, and what becomes of it. */
struct fk_request {
    const struct nlmsghdr *h;
    int netns;
    const struct fk_dev *dev; /* the interface that it names, NULL: none, or it isn't there */
    bool writes;
    int pf, vf; /* the VF that it is about, on either side; vf -1: none */
    int into;   /* the namespace that it moves to, -1: none */
};

struct fk_verdict {
    int error; /* negative: the answer, whatever was done */
    const char *extack;
    bool apply; /* whether it is carried out */
};

struct fk {
    struct fk_pf pfs[FK_PFS];
    unsigned n_pfs;
    struct fk_dev devs[FK_DEVS];
    struct fk_netns netns[FK_NETNS]; /* 0: the host's */
    int next_ifindex;
    struct fk_ways ways;
    uint64_t changes; /* counts changes of anything */
    char root[64];

    /* Each may be NULL. */
    void (*on_request)(const struct fk_request *q, struct fk_verdict *v, void *data);
    void (*on_link)(int ifindex, bool gone, void *data); /* rtnetlink's link group of the host */
    void (*on_trace)(const char *text, void *data);
    void *data;
};

struct fk_config {
    unsigned n_pfs, n_vfs[FK_PFS];
};

/* PFs enp1s0 and enp2s0, up, with their VFs home and down, named enp1s0v0 and so on. */
struct fk *fk_new(const struct fk_config *c);
void fk_free(struct fk *k);

/* The power was off: hardware, names and namespaces are as fk_new() made them. */
void fk_reboot(struct fk *k);

/* The folder that has sys/ in it. */
static inline const char *fk_root(const struct fk *k)
{
    return k->root;
}

/* What nl_open() and the like use. */
extern struct fk *fk_current;
struct nl_transport *fk_transport(struct fk *k, int netns);

/* Namespaces. Adding returns the number. */
int fk_netns_add(struct fk *k, const char *name);
int fk_netns_find(const struct fk *k, const char *name); /* among those with a path; -1 */
void fk_netns_path(const struct fk *k, int netns, char ret[static 96]);
/* Its path goes; until fk_netns_end() its interfaces are nowhere to be found. */
void fk_netns_unmount(struct fk *k, int netns);
/* The kernel has cleaned up: its interfaces are home, where names that are taken become devN. */
void fk_netns_end(struct fk *k, int netns);

/*
 * What netlink requests do, for neighbours of the driver: an administrator, a pod, udev. 0 or the
 * kernel's negative errno; `extack` (may be NULL) gets its explanation.
 */
int fk_set_vf(struct fk *k, unsigned pf, const struct vf_change *c, const char **extack);
int fk_set_mac(struct fk *k, struct fk_dev *d, const struct mac *mac);
int fk_set_mtu(struct fk *k, struct fk_dev *d, uint32_t mtu, const char **extack);
int fk_set_up(struct fk *k, struct fk_dev *d, bool up);
void fk_set_promisc(struct fk *k, struct fk_dev *d, bool promisc, bool allmulti);
int fk_rename(struct fk *k, struct fk_dev *d, const char *name);
int fk_add_altname(struct fk *k, struct fk_dev *d, const char *name);
int fk_del_altname(struct fk *k, struct fk_dev *d, const char *name);
int fk_add_addr(struct fk *k, struct fk_dev *d, const struct ipnet *a);
int fk_del_addr(struct fk *k, struct fk_dev *d, const struct ipnet *a);
int fk_add_route(struct fk *k, struct fk_dev *d, const struct route *r, const char **extack);
/* `name` (may be NULL): the name wanted in the same request. */
int fk_move(struct fk *k, struct fk_dev *d, int netns, const char *name);
struct fk_dev *fk_add_dummy(struct fk *k, int netns,
                            const char *name); /* NULL: the name is taken */
void fk_del_dev(struct fk *k, struct fk_dev *d);
/* echo N >sriov_numvfs: all VFs go, then N come. */
void fk_set_num_vfs(struct fk *k, unsigned pf, unsigned n);

/* By name or alternative name; NULL if there is none. */
struct fk_dev *fk_find(struct fk *k, int netns, const char *name);
struct fk_dev *fk_vf_dev(struct fk *k, unsigned pf, unsigned vf);
struct fk_dev *fk_pf_dev(struct fk *k, unsigned pf);

/* Whether the port hands on to the VF what is sent to the VF's own MAC: what a pod relies on. */
bool fk_hears(const struct fk *k, unsigned pf, unsigned vf);
/* Whether a ping from one namespace to an address is answered: both ports are on one wire. */
bool fk_reaches(const struct fk *k, int from_netns, const struct ipnet *to);

/* One line of the VF, both sides, for people; the caller frees it. */
char *fk_vf_text(const struct fk *k, unsigned pf, unsigned vf);
