/* SPDX-License-Identifier: Apache-2.0 */
/* IP addresses and routes of an interface, over rtnetlink. All calls block on the transport. */
#pragma once

#include "base/str.h"
#include "netlink/transport.h"

#include <netinet/in.h>
#include <stdint.h>

struct ipnet {
    uint8_t family; /* AF_INET or AF_INET6 */
    uint8_t prefix; /* length in bits */
    uint8_t b[16];  /* the first 4 for AF_INET */
};

#define IPNET_TEXT_SIZE (INET6_ADDRSTRLEN + 4)

/*
 * "192.0.2.10/24" or "2001:db8::1/64"; `need_prefix`: refuse a bare address (else it gets /32 or
 * /128); "default" isn't known here. -EINVAL.
 */
int ipnet_parse(const char *text, bool need_prefix, struct ipnet *ret);
const char *ipnet_text(const struct ipnet *n, char buf[static IPNET_TEXT_SIZE]);
bool ipnet_equal(const struct ipnet *a, const struct ipnet *b);
/* Whether bits behind the prefix are set (then it is no network). */
bool ipnet_has_host_bits(const struct ipnet *n);

/*
 * Adds an address, scope global; IPv6 without duplicate address detection (IFA_F_NODAD), so that it
 * is usable before the pod starts. An equal address that is there already is success.
 */
int addr_add(struct nl_transport *t, int ifindex, const struct ipnet *a, struct err *e);

/* Removes an address; one that isn't there is success. */
int addr_remove(struct nl_transport *t, int ifindex, const struct ipnet *a, struct err *e);

/* All addresses of the interface, the kernel's own (link-local) included. */
typedef VEC(struct ipnet) ipnet_vec;
int addr_list(struct nl_transport *t, int ifindex, ipnet_vec *ret, struct err *e);

/* The addresses of all interfaces of the transport's namespace, in one dump. */
struct owned_addr {
    int ifindex;
    struct ipnet addr;
};
typedef VEC(struct owned_addr) owned_addr_vec;
int addr_list_all(struct nl_transport *t, owned_addr_vec *ret, struct err *e);

/* fe80::/10: the kernel's own, on every interface that is up. */
bool ipnet_is_link_local(const struct ipnet *n);

struct route {
    struct ipnet to;
    bool has_via;
    struct ipnet via; /* prefix 32 or 128; on-link without */
    uint32_t metric;  /* 0: the kernel's choice */
    uint32_t table;   /* 0: main */
};

/* Adds a route through the interface, which must be up. An equal route that is there is success. */
int route_add(struct nl_transport *t, int ifindex, const struct route *r, struct err *e);
