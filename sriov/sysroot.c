/* SPDX-License-Identifier: Apache-2.0 */
#include "sriov/sysroot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>

/* sysfs attributes are one page at most; "config" and "vpd" are not read here. */
#define ATTRIBUTE_MAX 65536
#define OPEN_TRIES    1000

int sysroot_open(const char *path, struct sysroot *ret, struct err *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_errno(e, -errno, "opening the system root %s", path);
    *ret = (struct sysroot){.fd = fd, .path = xstrdup(path)};
    return 0;
}

void sysroot_done(struct sysroot *r)
{
    if (r->path)
        close(r->fd);
    free(r->path);
    *r = (struct sysroot){.fd = -1};
}

/*
 * openat2(2) is in every kernel since 5.6, and the netlink attributes that the rest of the program
 * relies on (IFLA_PARENT_DEV_NAME: 5.14) are younger, so there is no fallback for ENOSYS.
 *
 * It says EAGAIN where anything on the machine was renamed or mounted while it went through a "..",
 * of which sysfs' links are full; pods that come and go do that all the time.
 */
static int open_quietly(const struct sysroot *r, const char *path, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(flags | O_CLOEXEC),
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    int fd;

    for (unsigned tries = 0; tries < OPEN_TRIES; tries++) {
        fd = (int)syscall(SYS_openat2, r->fd, path, &how, sizeof(how));
        if (fd >= 0 || errno != EAGAIN)
            break;
        (void)sched_yield();
    }
    return fd < 0 ? -errno : fd;
}

int sysroot_openat(const struct sysroot *r, const char *path, int flags, struct err *e)
{
    int fd = open_quietly(r, path, flags);

    return fd < 0 ? err_errno(e, fd, "/%s", path) : fd;
}

/* The printf-like path of a caller, as `path`. */
#define PATH_FROM_FMT(path)                                                                        \
    va_list _ap;                                                                                   \
    va_start(_ap, fmt);                                                                            \
    _cleanup_free_ char *path = xvasprintf(fmt, _ap);                                              \
    va_end(_ap)

static int read_path(const struct sysroot *r, const char *path, char **ret, struct err *e)
{
    _cleanup_close_ int fd = sysroot_openat(r, path, O_RDONLY, e);
    _cleanup_(strbuf_done) struct strbuf b = {0};
    char part[4096];
    ssize_t n;

    if (fd < 0)
        return fd;
    while ((n = read(fd, part, sizeof(part))) != 0) {
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return err_errno(e, -errno, "reading /%s", path);
        }
        if (b.len + (size_t)n > ATTRIBUTE_MAX)
            return err_set(e, ERR_PERMANENT, -EFBIG, "/%s: too long for an attribute", path);
        strbuf_add(&b, part, (size_t)n);
    }
    if (b.len && b.s[b.len - 1] == '\n')
        b.s[--b.len] = '\0';
    *ret = strbuf_take(&b);
    return 0;
}

int sysroot_read(const struct sysroot *r, char **ret, struct err *e, const char *fmt, ...)
{
    PATH_FROM_FMT(path);
    return read_path(r, path, ret, e);
}

int sysroot_read_int(const struct sysroot *r, int64_t *ret, struct err *e, const char *fmt, ...)
{
    PATH_FROM_FMT(path);
    _cleanup_free_ char *text = NULL;
    uint64_t value;
    int k = read_path(r, path, &text, e);

    if (k < 0)
        return k;
    /* Not base 0: a leading zero doesn't make an attribute octal. */
    const char *digits = text[0] == '-' ? text + 1 : text;
    const char *hex = str_skip(digits, "0x");
    k = parse_u64(hex ? hex : digits, hex ? 16 : 10, INT64_MAX, &value);
    if (k < 0)
        return err_set(e, ERR_PERMANENT, k, "/%s: \"%.40s\" is no number", path, text);
    *ret = text[0] == '-' ? -(int64_t)value : (int64_t)value;
    return 0;
}

int sysroot_link_name(const struct sysroot *r, char **ret, struct err *e, const char *fmt, ...)
{
    PATH_FROM_FMT(path);
    _cleanup_close_ int fd = sysroot_openat(r, path, O_PATH | O_NOFOLLOW, e);
    char target[PATH_MAX];

    if (fd < 0)
        return fd;
    ssize_t n = readlinkat(fd, "", target, sizeof(target) - 1);
    if (n < 0)
        return err_errno(e, errno == EINVAL ? -ENOENT : -errno, "reading the link /%s", path);
    target[n] = '\0';
    const char *slash = strrchr(target, '/');
    *ret = xstrdup(slash ? slash + 1 : target);
    return 0;
}

/* Where an open descriptor is, as this process sees it. */
static int fd_path(int fd, char path[static PATH_MAX])
{
    char self[32];

    snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(self, path, PATH_MAX - 1);
    if (n < 0)
        return -errno;
    path[n] = '\0';
    return 0;
}

int sysroot_realpath(const struct sysroot *r, char **ret, struct err *e, const char *fmt, ...)
{
    PATH_FROM_FMT(path);
    _cleanup_close_ int fd = sysroot_openat(r, path, O_PATH, e);
    char root[PATH_MAX], whole[PATH_MAX];

    if (fd < 0)
        return fd;
    int k = fd_path(r->fd, root);
    if (k == 0)
        k = fd_path(fd, whole);
    if (k < 0)
        return err_errno(e, k, "resolving /%s", path);
    const char *rest = str_skip(whole, streq(root, "/") ? "" : root);
    if (!rest)
        return err_set(e, ERR_TRANSIENT, -EAGAIN, "resolving /%s: the root moved", path);
    *ret = xstrdup(*rest == '/' ? rest + 1 : rest);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int sysroot_list(const struct sysroot *r, name_vec *ret, struct err *e, const char *fmt, ...)
{
    PATH_FROM_FMT(path);
    int fd = sysroot_openat(r, path, O_RDONLY | O_DIRECTORY, e);
    name_vec names = {0};
    struct dirent *d;

    if (fd < 0)
        return fd;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int k = err_errno(e, -errno, "listing /%s", path);
        close(fd);
        return k;
    }
    errno = 0;
    while ((d = readdir(dir))) {
        if (!streq(d->d_name, ".") && !streq(d->d_name, ".."))
            *VEC_PUSH(&names) = xstrdup(d->d_name);
    }
    int k = errno ? err_errno(e, -errno, "listing /%s", path) : 0;
    closedir(dir);
    if (k < 0) {
        name_vec_done(&names);
        return k;
    }
    if (names.n)
        qsort(names.v, names.n, sizeof(*names.v), by_name);
    *ret = names;
    return 0;
}

void name_vec_done(name_vec *v)
{
    vec_foreach (name, v)
        free(*name);
    free(v->v);
    *v = (name_vec){0};
}

bool sysroot_exists(const struct sysroot *r, const char *fmt, ...)
{
    PATH_FROM_FMT(path);
    _cleanup_close_ int fd = open_quietly(r, path, O_PATH);

    return fd >= 0;
}

int sysroot_write(const struct sysroot *r, const char *text, struct err *e, const char *fmt, ...)
{
    PATH_FROM_FMT(path);
    /* O_TRUNC means nothing to sysfs; in a tree of plain files it makes the write a replacement. */
    _cleanup_close_ int fd = sysroot_openat(r, path, O_WRONLY | O_TRUNC, e);
    size_t len = strlen(text);
    ssize_t n;

    if (fd < 0)
        return fd;
    do
        n = write(fd, text, len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_errno(e, -errno, "writing \"%s\" to /%s", text, path);
    if ((size_t)n != len)
        return err_set(e, ERR_PERMANENT, -EIO, "writing \"%s\" to /%s: only %zd bytes taken", text,
                       path, n);
    return 0;
}
