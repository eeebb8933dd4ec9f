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
 * (EADDRNOTAVAIL, EPERM): an all-zero entry takes the mark off first. On the way back the entry is
 * ours, so it is zeroed in any case: a driver may answer a refused original with success, because
 * it falls back to the address that it had at probe. See docs/hardware.md.
 */
#pragma once

#include "sriov/settings.h"

/* What a VF was before we touched it; enough to put it back. By value, so it can be journalled. */
struct vf_original {
    char address[24], pf_address[24];
    unsigned index;
    char name[IFNAMSIZ];
    struct mac mac;               /* own side */
    struct mac admin_mac;         /* the PF's entry */
    uint16_t vlan_id, vlan_proto; /* protocol 0: 802.1Q */
    uint8_t vlan_qos;
    unsigned has; /* of enum vf_field: what the PF reported of spoofchk, trust, rate, link state */
    bool spoofchk, trust, up;
    uint32_t mtu, min_tx_mbps, max_tx_mbps, link_state;
    /* The entry was an administrator's (vf_state.had_mark after vf_apply()): made so again. */
    bool admin_marked;
    /*
     * What the PF lists is somebody else's: only the VF's own side is put back, nothing of the list
     * is written or compared. The own MAC is set where the list lets it, which is where the VF's
     * user could change it.
     */
    bool own_only;
};

/*
 * Whether a PF's MAC entry is as it was. One that was zero may now be the VF's own: a VF made while
 * its PF was down has none until it is first up (igb), and zeroing it again would leave it deaf.
 */
bool vf_entry_is_back(const struct mac *entry, const struct vf_original *o);

void vf_original_from(const struct vf_state *s, const char *pf_address, struct vf_original *ret);

enum vf_step_kind {
    VF_STEP_PF_UP,      /* PF brought up: settings made while it is down are void */
    VF_STEP_DOWN,       /* VF down, for drivers that refuse a change while up */
    VF_STEP_CLEAR_MARK, /* the PF's MAC entry zeroed; a driver that can't is passed over */
    VF_STEP_OWN_MAC,    /* the VF's own side; then, where asked, what the PF's entry must say */
    VF_STEP_ADMIN,      /* everything for the PF's entry in one request */
    VF_STEP_MTU,        /* own side */
    VF_STEP_NAME,       /* back to the original name; altnames of that name removed first */
    VF_STEP_CLEAN,      /* promisc, allmulti, addresses off */
    VF_STEP_UP,         /* VF up again, as it was originally */
};

struct vf_step {
    enum vf_step_kind kind;
    /*
     * CLEAR_MARK, ADMIN: what is sent. OWN_MAC: the MAC entry to be found afterwards, `set` 0 if a
     * later step sees to it; it is written only if it isn't so, for writing sets the mark. Zero
     * means: zero or the own MAC.
     */
    struct vf_change admin;
    struct vf_change admin_undo;
    struct link_change
        own; /* OWN_MAC (`set` 0: right already), MTU, DOWN, UP, NAME, PF_UP, CLEAN */
    struct link_change own_undo;
    bool mark;     /* OWN_MAC: write the entry even if it is right */
    bool own_only; /* OWN_MAC: the entry isn't ours; a refusal because of it is taken */
};

struct vf_plan {
    VEC(struct vf_step) steps;
    /* The way back: a step that fails doesn't keep the others from being tried, none is undone. */
    bool keep_going;
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
 * Carries out a plan that was made from `s`. On failure the failed step, which may be half done,
 * and those before it are undone in reverse order (but see `keep_going`); the error names PF, VF,
 * setting, and what the kernel said; if undoing failed too it says so. Blocks.
 */
int vf_plan_run(const struct hw *hw, const struct vf_state *s, const struct vf_plan *p,
                struct err *e);

/* Whether what the step does is so in `s` already: how far a plan came that was cut off. */
bool vf_step_holds(const struct vf_step *st, const struct vf_state *s);

/* "own MAC 52:54:..; PF's entry: vlan 100", for logs and dry runs; the caller frees it. */
char *vf_plan_text(const struct vf_plan *p);

/*
 * The whole of it for one VF: read, plan, run, read back and compare; -EIO with the differences if
 * the kernel accepted but didn't do (vf_apply() then undoes it). `o` says which VF, and what it
 * was: vf_apply() puts back what isn't asked for, so that a VF that a pod of the claim had before
 * is as it was for that pod's start. `*ret_after` (may be NULL) is the state read last. Blocks.
 */
int vf_apply(const struct hw *hw, const struct vf_original *o, const struct vf_settings *want,
             bool may_raise_pf, struct vf_state *ret_after, struct err *e);
int vf_restore(const struct hw *hw, const struct vf_original *o, struct vf_state *ret_after,
               struct err *e);
