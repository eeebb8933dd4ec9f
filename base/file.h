/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files: read, replaced atomically, locked; directories made. All calls block. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Reads all of `path` relative to `dirfd` (AT_FDCWD allowed) into a NUL-terminated text of
 * `*ret_len` bytes (`ret_len` may be NULL), which the caller frees. -EFBIG if it is longer than
 * `max`.
 */
int file_read(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len, struct err *e);

/* The same of an open file, pipe or socket, from where it stands to its end. */
int fd_read(int fd, size_t max, char **ret, size_t *ret_len, struct err *e);

/*
 * Replaces `name` in `dirfd` so that a reader, or a crash at any point, sees the old content or the
 * new, never a part. The temporary name starts with "." and ends in ".tmp": the CDI cache reads
 * every *.json and *.yaml, and file_sweep() removes what a crash left. With `durable` the file and
 * the directory are synced, so that the change survives a power cut.
 */
int file_write_atomic(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                      bool durable, struct err *e);

/* Removes `name`; a missing file is success. With `durable` the directory is synced. */
int file_remove(int dirfd, const char *name, bool durable, struct err *e);

/* Removes the temporary files that a crash left in `dirfd`. */
int file_sweep(int dirfd, struct err *e);

/* Makes `path` and what is missing above it, and opens it as a directory (O_CLOEXEC). */
int dir_make(const char *path, mode_t mode, int *ret_fd, struct err *e);

/*
 * Takes an exclusive flock(2) on `name` in `dirfd` without waiting and writes our pid into it.
 * -EWOULDBLOCK if another process has it; `*ret_holder` is then its pid, 0 if unknown. The lock
 * lasts until `*ret_fd` is closed.
 */
int file_lock(int dirfd, const char *name, int *ret_fd, pid_t *ret_holder, struct err *e);

/* Whether both paths lead to one file. */
bool file_same(const char *a, const char *b);

/*
 * Takes an exclusive flock(2) on `name` in `dirfd`, which is made if need be, and waits for it up
 * to `wait_ms`. -EBUSY (ERR_TRANSIENT) if it isn't free by then. The end of the holder, however
 * that comes, frees it; otherwise it lasts until `*ret_fd` is closed.
 */
int file_lock_wait(int dirfd, const char *name, int64_t wait_ms, int *ret_fd, struct err *e);
