/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What we know of one claim, as it is kept on disk from before its hardware is touched until it is
 * clean again. Everything that release needs is in it, as the claim may be gone from the API by
 * then. Pure; store.h has the files.
 */
#pragma once

#include "driver/contract.h"
#include "sriov/plan.h"

enum record_state {
    RECORD_PREPARING, /* hardware may be half set: after a crash it is put back */
    RECORD_PREPARED,
    RECORD_RELEASING, /* hardware may be half put back: after a crash that goes on */
};

struct record_device {
    struct grant grant;
    bool has_original; /* unset only while PREPARING, before the hardware was read */
    struct vf_original original;
};

struct record {
    char *namespace, *name, *uid;
    enum record_state state;
    char *boot_id; /* of the boot in which the hardware was set; after another nothing is applied */
    bool by_kubelet; /* set up in Prepare: its containers need the CDI file */
    /*
     * The claim's copy of the list, frozen at its allocation, lets the kubelet call Unprepare.
     * False: it won't (one that doesn't know the list does all the same), and we release the claim
     * when its pods are gone.
     */
    bool unprepare_comes;
    VEC(char *) pods; /* uids that the claim was reserved for */
    VEC(struct record_device) devices;
};

void record_free(struct record *r);
DEFINE_CLEANUP(struct record, record_free)

/* A new record in state PREPARING; takes the grants over (the vector is empty afterwards). */
struct record *record_new(const struct allocation *a, grant_vec *grants, const char *boot_id,
                          bool by_kubelet);
/* Whether the record is of this allocation: the same claim, the same devices. */
bool record_fits(const struct record *r, const struct allocation *a);
struct record *record_copy(const struct record *r);

/* "default/c", for messages. The caller frees it. */
char *record_title(const struct record *r);

/*
 * As a document, and back. Reading is tolerant of unknown members, so that a newer release's file
 * can be unprepared after a downgrade; a `version` above ours is refused (ERR_PERMANENT).
 */
json_t *record_json(const struct record *r);
int record_parse(const json_t *doc, struct record **ret, struct err *e);
