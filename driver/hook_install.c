/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/hook_install.h"

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "driver/hook.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* Mapped, since a megabyte read into the heap at each start would stay there. */
struct program {
    void *data;
    size_t len;
};

static void program_done(struct program *p)
{
    if (p->len)
        (void)munmap(p->data, p->len);
}

static int program_map(int fd, struct program *ret, struct err *e)
{
    struct stat st;
    void *data;

    if (fstat(fd, &st) < 0)
        return err_errno(e, -errno, "reading");
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return err_set(e, ERR_PERMANENT, -ENOEXEC, "is no program");
    data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return err_errno(e, -errno, "reading");
    *ret = (struct program){data, (size_t)st.st_size};
    return 0;
}

static bool is_installed(int dirfd, const struct program *wanted)
{
    _cleanup_close_ int fd = openat(dirfd, HOOK_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    _cleanup_(program_done) struct program there = {0};
    struct stat st;

    return fd >= 0 && fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0755 &&
           program_map(fd, &there, NULL) == 0 && there.len == wanted->len &&
           memcmp(there.data, wanted->data, there.len) == 0;
}

int hook_install(const char *source, const char *dir, char **ret, struct err *e)
{
    _cleanup_close_ int fd = open(source, O_RDONLY | O_CLOEXEC), dirfd = -1;
    _cleanup_(program_done) struct program program = {0};
    struct statvfs fs;
    int r;

    if (fd < 0)
        return err_errno(e, -errno, "%s", source);
    if ((r = program_map(fd, &program, e)) < 0)
        return err_prefix(e, r, "%s", source);
    if ((r = dir_make(dir, 0750, &dirfd, e)) < 0)
        return r;
    if (fstatvfs(dirfd, &fs) < 0)
        return err_errno(e, -errno, "%s", dir);
    if (fs.f_flag & ST_NOEXEC)
        return err_set(e, ERR_PERMANENT, -EACCES,
                       "%s is on a file system that is mounted noexec; name another directory of "
                       "the host with --hook-dir",
                       dir);
    if (!is_installed(dirfd, &program)) {
        r = file_write_atomic(dirfd, HOOK_NAME, program.data, program.len, 0755, true, e);
        if (r < 0)
            return err_prefix(e, r, "%s", dir);
    }
    *ret = xasprintf("%s/" HOOK_NAME, dir);
    return 0;
}

char *hook_provide(const char *source, const char *dir)
{
    static const char without[] =
        "claims go without the hook: a pod that starts while the driver is away may do so without "
        "its VF";
    _cleanup_err_ struct err e = ERR_INIT;
    char *path = NULL;

    if (!*source)
        log_info(without);
    else if (hook_install(source, dir, &path, &e) < 0)
        log_warn_err(&e, without, "hook", source);
    return path;
}
