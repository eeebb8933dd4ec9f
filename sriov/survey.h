/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both sides of all VFs of a node at once: one list of interfaces, one of addresses, and one VF
 * list for each PF, however many VFs there are. For looking at free VFs again and again; what is
 * about to be changed is read by itself (vf_state_read()).
 */
#pragma once

#include "sriov/inventory.h"
#include "sriov/settings.h"

/* One PF's interface with its VF list, or why it couldn't be read. */
struct survey_pf {
    struct link link;
    struct err err; /* code 0: read */
};

struct survey {
    VEC(struct survey_pf) pfs; /* as in the inventory */
    VEC(struct link) links;
    owned_addr_vec addrs;
};

/*
 * Of an inventory that was just read. A PF that can't be read doesn't keep the others from it.
 * Blocks: 2 requests, and one for each PF that has VFs.
 */
int survey_take(struct nl_transport *nl, const struct inventory *inv, struct survey *ret,
                struct err *e);
void survey_done(struct survey *s);

/*
 * What vf_state_read() would have said of the VF, which is one of that inventory's. `home` false:
 * its interface was in none of our lists. Doesn't block.
 */
int survey_vf(const struct survey *s, const struct inventory *inv, const struct pf *pf,
              const struct vf *vf, struct vf_state *ret, struct err *e);
