/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claim records on disk: one file per claim, "<uid>.json" in the state directory. The first line
 * says what it is and has the checksum of the bytes that follow, so that a torn or flipped file is
 * told from a good one whatever a later release writes. All calls block.
 */
#pragma once

#include "driver/record.h"

struct store {
    int dirfd;
    char *path;
};

int store_open(const char *path, struct store *ret, struct err *e);
/* For a program beside the driver: -ENOENT if the directory is missing, and nothing is cleared up
 * in it. */
int store_open_existing(const char *path, struct store *ret, struct err *e);
void store_done(struct store *s);

/* Durable: on return the record survives a crash and a power cut. */
int store_save(const struct store *s, const struct record *r, struct err *e);
int store_remove(const struct store *s, const char *uid, struct err *e);

/*
 * Beside a claim's record: the sandbox in which its attachment was completed; one that was cut
 * short is told by that. Not synced, for a power cut ends the sandboxes too. store_remove() removes
 * it.
 */
int store_note_sandbox(const struct store *s, const char *uid, const char *sandbox_id,
                       struct err *e);
/* NULL: there is none. The caller frees it. */
char *store_sandbox(const struct store *s, const char *uid);
/* Before an attachment begins; one that isn't there is success. */
int store_drop_sandbox(const struct store *s, const char *uid, struct err *e);

/*
 * Whoever moves VFs holds this: the driver's worker and the hook exclude each other. Waits up to
 * `wait_ms`, else -EBUSY; see file_lock_wait().
 */
int store_lock(const struct store *s, int64_t wait_ms, int *ret_fd, struct err *e);

/*
 * Reads one claim's record and changes nothing. -ENOENT if there is none, -EBADMSG if it is
 * damaged.
 */
int store_get(const struct store *s, const char *uid, struct record **ret, struct err *e);

/* A file that is no good record: where it was set aside, and why. */
struct store_bad {
    char *file, *why;
};

struct store_content {
    VEC(struct record *) records;
    VEC(struct store_bad) bad;
};
void store_content_done(struct store_content *c);

/*
 * Reads all records. A damaged file is renamed to "<name>.bad" and listed; those that an earlier
 * start set aside are listed again, until somebody removes them. A record of a newer version fails
 * the call: going on without it would lose a live claim.
 */
int store_load(const struct store *s, struct store_content *ret, struct err *e);

/*
 * Reads all records of the state directory at `path` and changes nothing: for a look while a driver
 * may be at work. Damaged ones, and those of a newer version, are listed where they are. -ENOENT if
 * there is no such directory.
 */
int store_look(const char *path, struct store_content *ret, struct err *e);
