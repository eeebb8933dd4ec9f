/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings applied to a VF, and the original values put back. The plan is pure: state and wish in,
 * an ordered list of steps out; each step has do, undo and check. The caller journals the whole
 * plan with all original values once before the first step; after a crash each step's check tells
 * how far it came, so nothing is written per step.
 *
 * MAC, both sides: the VF's own side first, then the PF's entry. The other order leaves a VF whose
 * filters the PF refuses (running and deaf), since a VF driver reads the PF's entry only when it
 * binds. Where the PF's entry is already an administrator's, the own side is refused
 * (EADDRNOTAVAIL, EPERM): an all-zero entry takes the mark off first. See docs/hardware.md.
 */
#pragma once

#include "sriov/settings.h"

/* What a VF was before we touched it; enough to put it back. By value, so it can be journalled. */
struct vf_original {
    char address[24], pf_address[24];
    unsigned index;
    char name[IFNAMSIZ];
    struct mac mac;       /* own side */
    struct mac admin_mac; /* the PF's entry */
    uint16_t vlan_id;
    uint8_t vlan_qos;
    unsigned has; /* of enum vf_field: what the PF reported of spoofchk, trust, rate */
    bool spoofchk, trust, up;
    uint32_t mtu, max_tx_mbps;
};

void vf_original_from(const struct vf_state *s, const char *pf_address, struct vf_original *ret);

enum vf_step_kind {
    VF_STEP_PF_UP,      /* PF brought up: settings made while it is down are void */
    VF_STEP_DOWN,       /* VF down, for drivers that refuse a change while up */
    VF_STEP_CLEAR_MARK, /* the PF's MAC entry zeroed */
    VF_STEP_OWN_MAC,    /* the VF's own side */
    VF_STEP_ADMIN,      /* everything for the PF's entry in one request */
    VF_STEP_MTU,        /* own side */
    VF_STEP_NAME,       /* back to the original name; altnames of that name removed first */
    VF_STEP_CLEAN,      /* promisc, allmulti, addresses off */
};

struct vf_step {
    enum vf_step_kind kind;
    struct vf_change admin; /* CLEAR_MARK, ADMIN */
    struct vf_change admin_undo;
    struct link_change own; /* OWN_MAC, MTU, DOWN, NAME, PF_UP */
    struct link_change own_undo;
};

struct vf_plan {
    VEC(struct vf_step) steps;
};

void vf_plan_done(struct vf_plan *p);

/*
 * Plans the way from `s` to `want`. A setting that holds already gets no step. ERR_USER if it can't
 * be: MTU above the PF's or outside the driver's range, trust or rate not reported by this PF's
 * driver, PF down and not `may_raise_pf` (the text says so and how to mend it), VF not home.
 */
int vf_plan_apply(const struct vf_state *s, const struct vf_settings *want, bool may_raise_pf,
                  struct vf_plan *ret, struct err *e);

/*
 * Plans the way from `s` back to `o`: name, clean, MTU, PF's entry, MAC. Works from any state, so
 * that it also mends what a pod did.
 */
int vf_plan_restore(const struct vf_state *s, const struct vf_original *o, struct vf_plan *ret,
                    struct err *e);

/*
 * Carries out a plan. On failure the steps done before are undone in reverse order; the error names
 * PF, VF, setting, and what the kernel said; if undoing failed too it says so. Blocks.
 */
int vf_plan_run(const struct hw *hw, const struct vf_state *s, const struct vf_plan *p,
                struct err *e);

/* "own MAC 52:54:.., VLAN 0 -> 100", for logs and dry runs; the caller frees it. */
char *vf_plan_text(const struct vf_plan *p);

/*
 * The whole of it for one VF: read, plan, run, read back and compare; -EIO with the differences if
 * the kernel accepted but didn't do. `*ret_after` (may be NULL) is the state read last.
 */
int vf_apply(const struct hw *hw, const struct vf_original *o, const struct vf_settings *want,
             bool may_raise_pf, struct vf_state *ret_after, struct err *e);
int vf_restore(const struct hw *hw, const struct vf_original *o, struct vf_state *ret_after,
               struct err *e);
