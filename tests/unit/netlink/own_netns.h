/* SPDX-License-Identifier: Apache-2.0 */
/* A network namespace of the test's own, with veth pairs in place of hardware. */
#pragma once

#include "netlink/transport.h"

#include <stdbool.h>

/*
 * Enters a new network namespace (and a new user namespace where that needs no root). False, with
 * the line that makes the whole program a visible skip, where it isn't permitted.
 */
bool own_netns_enter(void);

/* A file descriptor of another new namespace; the caller stays where it is and closes it. */
int own_netns_other(void);

/* Makes a pair of veth interfaces; fails the test if it can't. Returns the index of `name`. */
int own_netns_veth(struct nl_transport *t, const char *name, const char *peer);
void own_netns_delete(struct nl_transport *t, int ifindex);
void own_netns_altname(struct nl_transport *t, int ifindex, const char *altname);
