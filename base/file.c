/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include "base/clock.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#define LOCK_POLL_MS 2

int fd_read(int fd, size_t max, char **ret, size_t *ret_len, struct err *e)
{
    struct strbuf b = {0};
    char part[4096];
    ssize_t n;

    while ((n = read(fd, part, sizeof(part))) != 0) {
        int r = 0;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            r = err_set(e, err_kind_of_errno(-errno), -errno, "%s", strerror(errno));
        else if (b.len + (size_t)n > max)
            r = err_set(e, ERR_PERMANENT, -EFBIG, "longer than %zu bytes", max);
        if (r < 0) {
            strbuf_done(&b);
            return r;
        }
        strbuf_add(&b, part, (size_t)n);
    }
    if (ret_len)
        *ret_len = b.len;
    *ret = strbuf_take(&b);
    return 0;
}

int file_read(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len, struct err *e)
{
    _cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return err_errno(e, -errno, "%s", path);
    int r = fd_read(fd, max, ret, ret_len, e);
    return r < 0 ? err_prefix(e, r, "%s", path) : 0;
}

static int write_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = write(fd, data, len);

        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

int file_write_atomic(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                      bool durable, struct err *e)
{
    _cleanup_free_ char *tmp = xasprintf(".%s.%d.tmp", name, gettid());
    _cleanup_close_ int fd =
        openat(dirfd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);

    if (fd < 0)
        return err_errno(e, -errno, "creating %s", tmp);
    int r = write_all(fd, data, len);
    if (r == 0 && fchmod(fd, mode) < 0)
        r = -errno;
    if (r == 0 && durable && fsync(fd) < 0)
        r = -errno;
    if (close(TAKE_FD(fd)) < 0 && r == 0)
        r = -errno;
    if (r == 0 && renameat(dirfd, tmp, dirfd, name) < 0)
        r = -errno;
    if (r < 0) {
        (void)unlinkat(dirfd, tmp, 0);
        return err_errno(e, r, "writing %s", name);
    }
    if (durable && fsync(dirfd) < 0)
        return err_errno(e, -errno, "syncing the directory of %s", name);
    return 0;
}

int file_remove(int dirfd, const char *name, bool durable, struct err *e)
{
    if (unlinkat(dirfd, name, 0) < 0) {
        if (errno == ENOENT)
            return 0;
        return err_errno(e, -errno, "removing %s", name);
    }
    if (durable && fsync(dirfd) < 0)
        return err_errno(e, -errno, "syncing the directory of %s", name);
    return 0;
}

int file_sweep(int dirfd, struct err *e)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (!d) {
        int r = err_errno(e, -errno, "listing a directory");

        cleanup_closep(&fd);
        return r;
    }
    for (struct dirent *entry; (entry = readdir(d));) {
        size_t n = strlen(entry->d_name);

        if (entry->d_name[0] == '.' && n > 5 && streq(entry->d_name + n - 4, ".tmp"))
            (void)unlinkat(dirfd, entry->d_name, 0);
    }
    closedir(d);
    return 0;
}

int dir_make(const char *path, mode_t mode, int *ret_fd, struct err *e)
{
    _cleanup_free_ char *p = xstrdup(path);

    for (char *s = p + 1; *s; s++) {
        if (*s != '/')
            continue;
        *s = '\0';
        if (mkdir(p, 0755) < 0 && errno != EEXIST)
            return err_errno(e, -errno, "making directory %s", p);
        *s = '/';
    }
    if (mkdir(p, mode) < 0 && errno != EEXIST)
        return err_errno(e, -errno, "making directory %s", p);
    int fd = open(p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, -errno, "opening directory %s", p);
    *ret_fd = fd;
    return 0;
}

int file_lock(int dirfd, const char *name, int *ret_fd, pid_t *ret_holder, struct err *e)
{
    _cleanup_close_ int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    char text[32] = "";

    if (fd < 0)
        return err_errno(e, -errno, "opening lock file %s", name);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int r = -errno;
        uint64_t pid = 0;

        if (r == -EWOULDBLOCK && pread(fd, text, sizeof(text) - 1, 0) > 0)
            (void)parse_u64(str_chomp(text), 10, INT32_MAX, &pid);
        *ret_holder = (pid_t)pid;
        return err_errno(e, r, "locking %s", name);
    }
    int n = snprintf(text, sizeof(text), "%d\n", getpid());
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n)
        return err_errno(e, -errno, "writing lock file %s", name);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

bool file_same(const char *a, const char *b)
{
    struct stat sa, sb;

    return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
           sa.st_ino == sb.st_ino;
}

int file_lock_wait(int dirfd, const char *name, int64_t wait_ms, int *ret_fd, struct err *e)
{
    _cleanup_close_ int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int64_t end = clock_now(clock_system()) + wait_ms;

    if (fd < 0)
        return err_errno(e, -errno, "opening lock file %s", name);
    /* flock(2) has no time-out, and a signal would need a handler of the whole process. */
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return err_errno(e, -errno, "locking %s", name);
        if (clock_now(clock_system()) >= end)
            return err_set(e, ERR_TRANSIENT, -EBUSY, "%s is held by another program", name);
        clock_pause_ms(LOCK_POLL_MS);
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}
