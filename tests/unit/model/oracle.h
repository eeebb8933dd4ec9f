/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the oracle share. */
#pragma once

#include "tests/unit/model/model.h"

struct vf_watch {
    int owner; /* claim with a record; -1: none */
    struct fk_dev before;
    struct fk_vf before_entry;
    bool heard_before;
    bool raced;     /* a neighbour was at it when it was taken */
    bool came_anew; /* hardware was made anew since: `before` means nothing */
    struct vf_settings due;
    enum mode mode;
    enum attach attach;
    bool by_driver;
    uint64_t owned_since; /* tick */
    uint64_t touched_entry, touched_own, pf_changed;
    uint64_t looked, changed_hands;
    int64_t changed_ms;
    uint64_t last_true;  /* tick at which it was last fit to be offered */
    int64_t wrong_since; /* ms, the scheduler has something else of it than is so; -1: it hasn't */
};

extern struct vf_watch watched[FK_PFS][FK_VFS];

struct vf_watch *watch_of(struct vf_id vf);
void each_vf(void (*fn)(struct vf_id vf, struct vf_watch *w));

/* What is asked, and why a side isn't so: *why NULL if it is. */
bool entry_is(const struct vf_info *e, const struct vf_settings *want, const char **why);
bool own_side_is(const struct fk_dev *d, const struct vf_settings *want, const char **why);
/* Whether it may be offered as verified, by the pools that the running driver has. */
bool is_fit(struct vf_id vf);

/* Whether its record is of the devices that it has now. */
bool is_current(const struct m_claim *c);
/* A pod that the driver knows of and that has the claim as its record is; NULL: none. */
const struct m_pod *needing(const struct m_claim *c);

/* In force, but for what a neighbour did since `since`. */
void check_in_force(const struct m_claim *c, const struct m_device *d, uint64_t since,
                    const char *when);
