/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver keeps on disk: each write is an effect, and of records the oracle is told. */
#include "tests/unit/model/model.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

enum { ELSEWHERE, STATE_DIR, CDI_DIR };

static int dir_of(int dirfd)
{
    char link[32], path[256];

    snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    if (n < 0)
        return ELSEWHERE;
    path[n] = '\0';
    return strstr(path, "/claims") ? STATE_DIR : strstr(path, "/cdi") ? CDI_DIR : ELSEWHERE;
}

/* "<uid>.json" of the state directory. */
static bool is_record(int dirfd, const char *name, char uid[static 64])
{
    size_t n = strlen(name);

    if (n < 6 || n > 60 || !streq(name + n - 5, ".json") || dir_of(dirfd) != STATE_DIR)
        return false;
    memcpy(uid, name, n - 5);
    uid[n - 5] = '\0';
    return true;
}

int __real_file_write_atomic(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                             bool durable, struct err *e);
int __wrap_file_write_atomic(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                             bool durable, struct err *e);
int __wrap_file_write_atomic(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                             bool durable, struct err *e)
{
    char uid[64];
    int error, r = 0;
    bool torn;

    if (process_effect(true, &error, &torn)) {
        r = __real_file_write_atomic(dirfd, name, data, len, mode, durable, e);
        say("  file %s written", name);
        if (r == 0 && is_record(dirfd, name, uid))
            oracle_record(uid, data);
    } else if (torn) {
        _cleanup_free_ char *tmp = xasprintf(".%s.1.tmp", name);
        int fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        (void)!write(fd, data, len / 2);
        (void)close(fd);
    }
    return error < 0 ? err_errno(e, error == -ESHUTDOWN ? error : -EIO, "writing %s", name) : r;
}

int __real_file_remove(int dirfd, const char *name, bool durable, struct err *e);
int __wrap_file_remove(int dirfd, const char *name, bool durable, struct err *e);
int __wrap_file_remove(int dirfd, const char *name, bool durable, struct err *e)
{
    char uid[64];
    int error, r = 0;
    bool torn;

    if (faccessat(dirfd, name, F_OK, 0) < 0)
        m.did.writes--; /* it will be counted, and nothing is written */
    if (process_effect(true, &error, &torn)) {
        r = __real_file_remove(dirfd, name, durable, e);
        if (r == 0 && is_record(dirfd, name, uid))
            oracle_record(uid, NULL);
    }
    return error < 0 ? err_errno(e, error == -ESHUTDOWN ? error : -EIO, "removing %s", name) : r;
}

int __real_file_read(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len,
                     struct err *e);
int __wrap_file_read(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len,
                     struct err *e);
int __wrap_file_read(int dirfd, const char *path, size_t max, char **ret, size_t *ret_len,
                     struct err *e)
{
    if (!streq(path, "/proc/sys/kernel/random/boot_id"))
        return __real_file_read(dirfd, path, max, ret, ret_len, e);
    *ret = xstrdup(m.boot_id);
    return 0;
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    (void)fd;
    return 0;
}
