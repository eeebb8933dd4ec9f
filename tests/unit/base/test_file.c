/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include "base/str.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct dir {
    char path[64];
    int fd;
};

static int setup(void **state)
{
    struct dir *d = xnew(struct dir);

    snprintf(d->path, sizeof(d->path), "/tmp/test-file-XXXXXX");
    if (!mkdtemp(d->path))
        return -1;
    d->fd = open(d->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = d;
    return d->fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    struct dir *d = *state;
    _cleanup_free_ char *rm = xasprintf("rm -rf %s", d->path);
    int r = system(rm);

    close(d->fd);
    free(d);
    return r;
}

static void test_write_and_read(void **state)
{
    struct dir *d = *state;
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_free_ char *text = NULL;
    struct stat st;
    size_t len;

    assert_ok(file_write_atomic(d->fd, "a.json", "old", 3, 0644, true, &e), &e);
    assert_ok(file_write_atomic(d->fd, "a.json", "new one", 7, 0600, true, &e), &e);
    assert_ok(file_read(d->fd, "a.json", 100, &text, &len, &e), &e);
    assert_string_equal(text, "new one");
    assert_int_equal(len, 7);
    assert_int_equal(fstatat(d->fd, "a.json", &st, 0), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void test_read_limits(void **state)
{
    struct dir *d = *state;
    _cleanup_err_ struct err e = ERR_INIT;
    char *text = NULL;

    assert_ok(file_write_atomic(d->fd, "long", "0123456789", 10, 0644, false, &e), &e);
    assert_int_equal(file_read(d->fd, "long", 9, &text, NULL, &e), -EFBIG);
    assert_int_equal(file_read(d->fd, "none", 9, &text, NULL, &e), -ENOENT);
    assert_err_has(&e, "none: No such file");
    assert_null(text);
}

static void test_failed_write_keeps_the_old(void **state)
{
    struct dir *d = *state;
    _cleanup_err_ struct err e = ERR_INIT;

    /* A directory stands where the file should go: the rename fails. */
    assert_int_equal(mkdirat(d->fd, "taken", 0755), 0);
    assert_int_equal(file_write_atomic(d->fd, "taken", "x", 1, 0644, true, &e), -EISDIR);
    assert_err_has(&e, "taken");
    _cleanup_free_ char *count = xasprintf("test $(ls -A %s | wc -l) = 1", d->path);
    assert_int_equal(system(count), 0);
}

static void test_sweep(void **state)
{
    struct dir *d = *state;
    _cleanup_err_ struct err e = ERR_INIT;

    close(openat(d->fd, ".a.json.12.tmp", O_CREAT | O_WRONLY, 0600));
    close(openat(d->fd, "b.tmp", O_CREAT | O_WRONLY, 0600));
    assert_ok(file_sweep(d->fd, &e), &e);
    assert_int_equal(faccessat(d->fd, ".a.json.12.tmp", F_OK, 0), -1);
    assert_int_equal(faccessat(d->fd, "b.tmp", F_OK, 0), 0);
}

static void test_lock_names_the_holder(void **state)
{
    struct dir *d = *state;
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_close_ int fd = -1;
    pid_t holder = -1;

    assert_ok(file_lock(d->fd, "lock", &fd, &holder, &e), &e);
    pid_t child = fork();
    if (child == 0) {
        int second = -1;

        if (file_lock(d->fd, "lock", &second, &holder, NULL) != -EWOULDBLOCK)
            _exit(1);
        _exit(holder == getppid() ? 0 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_dir_make(void **state)
{
    struct dir *d = *state;
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_free_ char *path = xasprintf("%s/x/y/z", d->path);
    _cleanup_close_ int fd = -1, again = -1;

    assert_ok(dir_make(path, 0700, &fd, &e), &e);
    assert_ok(dir_make(path, 0700, &again, &e), &e);
    assert_int_equal(faccessat(d->fd, "x/y/z", X_OK, 0), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_write_and_read), T(test_read_limits),           T(test_failed_write_keeps_the_old),
        T(test_sweep),          T(test_lock_names_the_holder), T(test_dir_make),
    };

    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
