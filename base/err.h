/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What went wrong, for the caller to branch on (a negative errno and a kind) and for a person to
 * read (a text).
 *
 * A function that can fail returns 0 or a negative errno and takes `struct err *e` last; it fills
 * `e` if and only if it fails. `e` may be NULL if the caller doesn't care. The text says what was
 * tried, on what object, and what the kernel or server said; callers add context with err_prefix()
 * on the way up, and the edge that finally reports prints it once.
 */
#pragma once

#include "base/macro.h"

#include <stdarg.h>
#include <stdbool.h>

/* Decides what the edge does: retry, refuse, or blame itself. */
enum err_kind {
    ERR_NONE = 0,
    ERR_TRANSIENT, /* may go away by itself: retry */
    ERR_PERMANENT, /* the system says no, and will say so again */
    ERR_USER,      /* a request or a document is wrong */
    ERR_BUG,       /* must not happen */
};

struct err {
    int code; /* negative errno, 0 if unset */
    enum err_kind kind;
    char *msg; /* owned */
};

#define ERR_INIT ((struct err){0})

/* Sets `e` (if not NULL) and returns `code`. `code` must be negative. An earlier text is freed. */
int err_set(struct err *e, enum err_kind kind, int code, const char *fmt, ...) _printf_(4, 5);

/* As err_set(), with ": " and the errno's own text appended, kind chosen from the errno. */
int err_errno(struct err *e, int code, const char *fmt, ...) _printf_(3, 4);

/* Puts a context in front of the text of `e` and returns e->code, or `code` if `e` is NULL. */
int err_prefix(struct err *e, int code, const char *fmt, ...) _printf_(3, 4);

/* Moves the error from `from` to `to` (or drops it if `to` is NULL); returns its code. */
int err_move(struct err *to, struct err *from);

/* The text, never NULL. */
const char *err_text(const struct err *e);

/* Frees the text; `e` is unset afterwards. */
void err_clear(struct err *e);

/* Whether a call that failed with this errno is worth repeating. */
enum err_kind err_kind_of_errno(int code);

#define _cleanup_err_ _cleanup_(err_clear)
