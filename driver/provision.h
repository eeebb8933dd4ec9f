/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Central provisioning, decided: which PFs get how many VFs, and which VF which settings, for the
 * pools whose provisioning is by the driver. Pure.
 *
 * A PF is ours if a pool of this node with provisioning by the driver names it, or selects a VF of
 * it. Nothing is planned on any other.
 */
#pragma once

#include "driver/pool.h"
#include "sriov/provision.h"

/* A VF as it was looked at. */
struct provision_vf {
    char address[PCI_ADDRESS_SIZE];
    struct vf_state state;
    char *unread; /* why it couldn't be looked at; NULL: `state` is set */
    char *upper;  /* an interface that has its own below it on the host; NULL: none */
};
typedef VEC(struct provision_vf) provision_vf_vec;
void provision_vf_vec_done(provision_vf_vec *v);

/* Who has a VF, or had it when the driver ended: "claim default/c (uid ...)". */
struct provision_holder {
    char address[PCI_ADDRESS_SIZE];
    char *who;
};
typedef VEC(struct provision_holder) provision_holder_vec;
void provision_holder_vec_done(provision_holder_vec *v);

struct provision_input {
    const struct inventory *inv;
    const struct pools *pools;
    const char *node;
    const json_t *labels; /* of the node; NULL: not known, so pools with a nodeSelector are in the
                             way of what they may select */
    const provision_vf_vec *seen; /* by provision_look() */
    const provision_holder_vec *holders;
    const char *suspicious; /* a damaged record, whose VF isn't known; NULL: none */
};

/* What pools ask of a PF. */
struct pf_wish {
    bool ours;
    bool blocked;   /* pools don't agree, or ask what can't be: nothing is done here */
    unsigned count; /* 0: no pool says */
};

/* What is wrong with a pool here is added to `problems` (may be NULL). */
typedef VEC(struct pool_problem) pool_problem_vec;
void pool_problem_vec_done(pool_problem_vec *v);
void provision_wish(const struct provision_input *in, const struct pf *pf, struct pf_wish *ret,
                    pool_problem_vec *problems);

/* The pool whose settings are to be put on this VF, or NULL: Skip, provisioned by the driver. */
const struct pool *provision_pool(const struct provision_input *in, const struct pf *pf,
                                  const struct vf *vf);

enum provision_kind {
    PROVISION_PF_UP, /* before VFs are made: those made while it is down have no address of it */
    PROVISION_COUNT, /* to 0 first, if it has VFs */
    PROVISION_VF,    /* settings */
};

struct provision_step {
    enum provision_kind kind;
    unsigned from, to;              /* COUNT; equal: its VFs are on their way */
    unsigned index;                 /* VF */
    char address[PCI_ADDRESS_SIZE]; /* VF; "": isn't made yet */
    const struct pool *pool;        /* VF */
    vf_difference_vec changes;      /* VF; as far as it can be known before */
};

/* What would be done, and who or what is in the way. */
struct provision_obstacle {
    struct provision_step step;
    char *why;
};

struct provision_pf {
    const struct pf *pf;
    VEC(const struct pool *) pools;   /* those that make it ours */
    bool needs_link;                  /* some drivers refuse a rate without one */
    VEC(struct provision_step) steps; /* in order */
    VEC(struct provision_obstacle) obstacles;
};

/* Borrows inventory and pools. */
struct provision_plan {
    VEC(struct provision_pf) pfs; /* ours, in the inventory's order */
    pool_problem_vec problems;
};
void provision_plan_done(struct provision_plan *p);

/*
 * - PF up, where it is down.
 * - The count, where it differs: only while no VF of the PF is held by a claim, away, without an
 *   interface but with a driver (vfio-pci), used by the host, or of a pool that others provision;
 *   else each of these is an obstacle. From 0 nothing can be in the way.
 * - Settings of VFs in Skip pools by the driver, where they differ. One that is in use is an
 *   obstacle. Of VFs that are yet to be made it is told what they will get.
 */
void provision_plan(const struct provision_input *in, struct provision_plan *ret);

/* Whether there is nothing to do and nothing in the way. */
bool provision_plan_empty(const struct provision_plan *p);
