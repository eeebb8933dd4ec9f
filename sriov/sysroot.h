/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root under which /sys is read and written: "/" in production, a folder of fixtures in a test.
 * Every sysfs path goes through it. All calls block.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

struct sysroot {
    int fd;
    char *path; /* for messages and libpci */
};

int sysroot_open(const char *path, struct sysroot *ret, struct err *e);
void sysroot_done(struct sysroot *r);

/*
 * Paths are relative to the root, without a leading slash ("sys/bus/pci/devices/..."). Symbolic
 * links are followed inside the root only (openat2, RESOLVE_IN_ROOT).
 */
int sysroot_openat(const struct sysroot *r, const char *path, int flags, struct err *e);

/* The attribute's text without the newline at its end; the caller frees it. */
int sysroot_read(const struct sysroot *r, char **ret, struct err *e, const char *fmt, ...)
    _printf_(4, 5);

/* An attribute that is a number (decimal, or hexadecimal with 0x). */
int sysroot_read_int(const struct sysroot *r, int64_t *ret, struct err *e, const char *fmt, ...)
    _printf_(4, 5);

/* The last component of a link's target ("driver" -> "igbvf"). -ENOENT if there is no link. */
int sysroot_link_name(const struct sysroot *r, char **ret, struct err *e, const char *fmt, ...)
    _printf_(4, 5);

/* The whole path of what `fmt` resolves to, relative to the root ("sys/devices/pci0000:00/..."). */
int sysroot_realpath(const struct sysroot *r, char **ret, struct err *e, const char *fmt, ...)
    _printf_(4, 5);

/* Names in a directory, sorted, without "." and "..". -ENOENT if it is missing. */
typedef VEC(char *) name_vec;
int sysroot_list(const struct sysroot *r, name_vec *ret, struct err *e, const char *fmt, ...)
    _printf_(4, 5);
void name_vec_done(name_vec *v);

/* Whether the path exists. */
bool sysroot_exists(const struct sysroot *r, const char *fmt, ...) _printf_(2, 3);

/* Writes `text` to an attribute in one write(2); the kernel's errno comes back. May block long. */
int sysroot_write(const struct sysroot *r, const char *text, struct err *e, const char *fmt, ...)
    _printf_(4, 5);
