/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a VF is what may be promised of it, from what the kernel says. Pure.
 */
#pragma once

#include "driver/pool.h"

/* What is known of a VF besides the inventory. */
struct vf_fact {
    char vf_address[PCI_ADDRESS_SIZE];
    bool in_use;   /* a live claim has it */
    bool verified; /* what its pool promises of it holds */
    bool harmed;   /* in use, and not as its claim was given it */
    char *why;     /* not verified: what differs, for people; NULL otherwise */
};
typedef VEC(struct vf_fact) vf_fact_vec;
void vf_fact_vec_done(vf_fact_vec *v);
/* A copy that owns its text. */
struct vf_fact vf_fact_copy(const struct vf_fact *f);

/*
 * A VF that no claim has. Skip: the pool's settings hold on both sides. In any mode it is home and
 * at rest: without addresses, neither promiscuous nor allmulti, its own MAC the PF's entry. With
 * `suspicious` (a record was lost: which VF it was about isn't known) it must look untouched as
 * well.
 */
void verify_free(const struct vf_state *s, const struct pool *pool, bool suspicious,
                 struct vf_fact *ret);

/*
 * A VF that a live claim has, and was set up as `given`: what the PF lists of it is compared, since
 * the VF's own side is the pod's. A MAC isn't where the VF is trusted: such a VF changes its entry
 * itself. Skip: what the pool promises by now is compared too, which makes it no less the claim's.
 */
void verify_held(const struct vf_state *s, const struct pool *pool, const struct vf_settings *given,
                 struct vf_fact *ret);
