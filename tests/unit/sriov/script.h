/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scripts for the scripted transport, written in the words of this room, and the VF that most of
 * its tests are about: VF 3 of enp1s0, as igb shows it.
 */
#pragma once

#include "sriov/plan.h"
#include "tests/unit/scripted.h"

#define SCRIPT_MAX 48

#define PF_ADDRESS "0000:01:00.0"
#define VF_ADDRESS "0000:01:10.6"
#define PF_IFINDEX 2
#define VF_IFINDEX 7

struct script {
    struct script_step steps[SCRIPT_MAX];
    size_t n;
};

/* What must come next. The answer is success, until script_fail() says otherwise. */
void script_entry(struct script *s, const struct vf_change *c);
void script_link(struct script *s, const struct link_change *c);
void script_altname_removed(struct script *s);
/* An interface is read; ifindex 0 answers -ENODEV. */
void script_get(struct script *s, const struct link *answer);
/* All interfaces, or the addresses of one, are listed. */
void script_list(struct script *s, const struct link *const *answers, size_t n);
void script_addrs(struct script *s, int ifindex, const struct ipnet *addrs, size_t n);
/* An address or a route is added or removed, by message type. */
void script_any(struct script *s, uint16_t type);

/* The request added last is refused. `extack` may be NULL. */
void script_fail(struct script *s, int error, const char *extack);

/* The transport; the script is empty afterwards. nl_free() judges, then script_done() frees. */
struct nl_transport *script_start(struct script *s);
void script_done(struct script *s);

/* What the kernel says of `s`: the PF with its list, and the VF's own interface. */
struct link pf_link(const struct vf_state *s);
struct link vf_link_of(const struct vf_state *s);
/* The answers to vf_state_read(). The VF's interface isn't asked for unless it is home. */
void script_state(struct script *s, const struct vf_state *state);

/* VF 3, fresh: home, down, no VLAN, both sides with the same MAC. */
struct vf_state fresh_state(void);
struct mac mac_of(const char *text);
struct link_change own_change(unsigned field);
