/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done to hardware, journal and CDI files for a claim: the blocking half of Prepare,
 * release and attachment. Runs on the worker (and at start, before there is one); gets records by
 * value and owns nothing of the main thread's.
 *
 * Order, so that a crash at any point loses nothing: journal (with all originals), VF settings, CDI
 * file, journal "prepared", answer; the reverse for release.
 */
#pragma once

#include "driver/store.h"
#include "sriov/attach.h"

#define BOOT_ID_SIZE 40

struct hands {
    struct hw hw;
    struct sysroot root;
    struct nl_transport *nl;
    struct store store;
    int cdi_dirfd;
    char *cdi_kind; /* "<driver>/vf" */
    char *hook;     /* its path on the host; NULL: claims go without */
    char boot_id[BOOT_ID_SIZE];
    /*
     * Makes a Skip VF what its pool promises, if that is ours to do, or refuses it; `s` is how it
     * is then. NULL, as in the hook: it is only verified.
     */
    int (*set_right)(struct hands *h, const struct grant *g, struct vf_state *s, struct err *e);
};

#define HANDS_INIT                                                                                 \
    {                                                                                              \
        .root.fd = -1, .store.dirfd = -1, .cdi_dirfd = -1                                          \
    }

struct hands_config {
    const char *sysroot, *state_dir, *cdi_dir, *driver;
    const char *hook; /* where it is installed; NULL: nowhere */
};

int hands_open(const struct hands_config *c, struct hands *ret, struct err *e);
/*
 * Only what claim_attach() and claim_check() need, beside a driver that may be at work: makes and
 * clears up nothing.
 */
int hands_open_beside(const char *sysroot, const char *state_dir, struct hands *ret, struct err *e);
void hands_done(struct hands *h);

/* Whether there is a VF in it that we move into pods. */
bool record_wants_attach(const struct record *r);

/* Which boot this is; what was set in another one isn't in force. */
int boot_id_read(char ret[static BOOT_ID_SIZE], struct err *e);

/* Mode Skip: nothing is set, but what the pool promises must hold. -ESTALE with what differs. */
int vf_verify_promise(const struct vf_state *s, const struct grant *g, struct err *e);

/*
 * Makes a claim's VFs ready: all of `rec`, or nothing. On success the record is PREPARED, with
 * originals, on disk; a PREPARED one gets its CDI file again, no more.
 *
 * Mode Prepare: originals read, journalled, settings applied and read back. Mode Skip: only
 * verified; a difference is refused with expected and actual, and nothing is written to the VF.
 * *ret_away is set, with -EAGAIN, if a VF isn't home: nothing was touched. After a failure whose
 * undoing failed too, or couldn't be noted, the record is RELEASING and its journal stays.
 */
int claim_acquire(struct hands *h, struct record *rec, bool *ret_away, struct err *e);

/*
 * Puts the claim's VFs back to their originals, verifies, and only then forgets the claim: CDI file
 * and journal are removed. *ret_away as above: a VF isn't home yet, nothing was touched. The caller
 * has checked that no other claim owns the VFs.
 */
int claim_release(struct hands *h, struct record *rec, bool *ret_away, struct err *e);

/* How a VF came out in the pod; one per device of the record, `attached` false where it isn't ours
 * to attach (attach: None). */
struct claim_attachment {
    bool attached;
    bool was_in; /* it was there before */
    struct attach_result result;
};
typedef VEC(struct claim_attachment) attachment_vec;
void attachment_vec_done(attachment_vec *v);

/*
 * Moves the claim's VFs into the namespace at `netns_path`; all, or what this attempt
 * moved comes home again and what was there before stays. A VF that came home from
 * an earlier sandbox of the pod gets its settings again where they aren't in force any more.
 * Repeating it completes what is missing. At the end it is noted that `sandbox_id` has all of it
 * (NULL: not known, and so not noted). The caller holds the store's lock, as for what moves home.
 */
int claim_attach(struct hands *h, const struct record *rec, const char *sandbox_id,
                 const char *netns_path, attachment_vec *ret, struct err *e);

/* Moves home what is in that namespace of the claim's VFs. Best effort: the kernel does the rest.
 */
int claim_detach(struct hands *h, const struct record *rec, const char *netns_path, struct err *e);

/*
 * Whether every VF that is to be attached is in that namespace, and what each is like there; the
 * error names the one missing.
 */
int claim_check(const struct record *rec, const char *netns_path, attachment_vec *ret,
                struct err *e);

/*
 * At start, for a record of this or an earlier run: PREPARING is rolled back, RELEASING is gone on
 * with, PREPARED gets its CDI file again if that is missing; of an earlier boot: forgotten.
 * *ret_gone if the claim has nothing any more; of an earlier boot that is so even where its files
 * can't be removed, which the next start tries again. *ret_away as above: to be released later.
 */
int claim_recover(struct hands *h, struct record *rec, bool *ret_gone, bool *ret_away,
                  struct err *e);

/* The CDI id of one device of the record; the caller frees it. */
char *claim_cdi_id(const char *cdi_kind, const struct record *rec, const struct record_device *d);
