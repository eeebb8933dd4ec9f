/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/hook.h"

#include "base/clock.h"
#include "base/file.h"
#include "driver/hands.h"
#include "driver/hook_install.h"
#include "tests/unit/netlink/own_netns.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define UID "0d8a1f0e-5b1c-4c39-9f0e-3f1d2b8c7a61"

static void test_options(void **state)
{
    static const struct {
        const char *argv[8];
        const char *error; /* NULL: fine */
    } table[] = {
        {{"hook", "--state-dir", "/s", "--claim", UID}, NULL},
        {{"hook", "--claim=" UID, "--state-dir=/s", "--sysroot=/r"}, NULL},
        {{"hook", "--version"}, NULL},
        {{"hook"}, "--state-dir and --claim are needed"},
        {{"hook", "--claim", UID}, "--state-dir and --claim are needed"},
        {{"hook", "--state-dir", "/s"}, "--state-dir and --claim are needed"},
        {{"hook", "--state-dir", "/s", "--claim"}, "without its value: --claim"},
        {{"hook", "--frobnicate", "--claim", UID}, "unknown option, or one without its value: "},
        {{"hook", "--state-dir", "/s", "--claim", UID, "more"}, "unexpected argument: more"},
        {{"hook", "--state-dir", "/s", "--claim", "../../etc/x"}, "\"../../etc/x\" is no uid"},
        {{"hook", "--state-dir", "/s", "--claim", ""}, "\"\" is no uid"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        struct hook_options o = {0};
        int argc = 0;

        while (table[i].argv[argc])
            argc++;
        int r = hook_options_parse(argc, (char **)table[i].argv, &o, &e);
        if (table[i].error) {
            assert_int_equal(r, -EINVAL);
            assert_err_has(&e, table[i].error);
            continue;
        }
        assert_ok(r, &e);
        if (o.version)
            continue;
        assert_string_equal(o.state_dir, "/s");
        assert_string_equal(o.claim, UID);
        assert_string_equal(o.sysroot, argc == 4 ? "/r" : "/");
    }
}

static void test_container(void **state)
{
    static const struct {
        const char *json;
        int pid;
        const char *sandbox; /* NULL: not told */
        const char *error;
    } table[] = {
        {"{\"ociVersion\":\"1.0.2\",\"id\":\"c\",\"status\":\"creating\",\"pid\":42,\"bundle\":"
         "\"/b\",\"annotations\":{\"io.kubernetes.cri.container-type\":\"container\",\"io."
         "kubernetes.cri.sandbox-id\":\"sb\"}}",
         42, "sb", NULL},
        {"{\"pid\":1,\"annotations\":{\"io.kubernetes.cri-o.SandboxID\":\"crio\"}}", 1, "crio",
         NULL},
        {"{\"pid\":7}", 7, NULL, NULL},
        {"{\"pid\":7,\"annotations\":{\"a\":\"x\\u0000y\"}}", 7, NULL, NULL},
        {"{\"pid\":7,\"annotations\":{\"io.kubernetes.cri.sandbox-id\":\"\"}}", 7, NULL, NULL},
        {"{\"pid\":7,\"annotations\":{\"io.kubernetes.cri.sandbox-id\":5}}", 7, NULL, NULL},
        {"{\"pid\":7,\"annotations\":[]}", 7, NULL, NULL},
        {"{\"id\":\"c\"}", 0, NULL, "no pid"},
        {"{\"pid\":0}", 0, NULL, "pid"},
        {"{\"pid\":-1}", 0, NULL, "pid"},
        {"{\"pid\":\"7\"}", 0, NULL, "pid"},
        {"{\"pid\":7", 0, NULL, "the container's state as the runtime told it"},
        {"[]", 0, NULL, "the container's state as the runtime told it"},
        {"", 0, NULL, "the container's state as the runtime told it"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        _cleanup_(hook_container_done) struct hook_container c = {0};
        _cleanup_err_ struct err e = ERR_INIT;
        int r = hook_container_parse(table[i].json, strlen(table[i].json), &c, &e);

        if (table[i].error) {
            assert_true(r < 0);
            assert_err_has(&e, table[i].error);
            continue;
        }
        assert_ok(r, &e);
        assert_int_equal(c.pid, table[i].pid);
        if (table[i].sandbox)
            assert_string_equal(c.sandbox_id, table[i].sandbox);
        else
            assert_null(c.sandbox_id);
    }
}

/* A prepared claim of this boot with one VF. */
static struct record *record(enum record_state state, enum attach attach, const char *boot)
{
    struct allocation a = {.namespace = (char[]){"default"}, .name = (char[]){"c"}};
    grant_vec grants = {0};
    struct grant *g = VEC_PUSH(&grants);

    a.uid = (char[]){UID};
    *g = (struct grant){.request = xstrdup("vf"),
                        .pool = xstrdup("node1"),
                        .device = xstrdup("0000-01-10-0"),
                        .vf_address = "0000:01:10.0",
                        .pf_address = "0000:01:00.0",
                        .pool_document = xstrdup("p"),
                        .attach = attach};
    struct record *r = record_new(&a, &grants, boot, true);
    r->state = state;
    r->devices.v[0].has_original = true;
    strcpy(r->devices.v[0].original.name, "enp1s0v0");
    strcpy(r->devices.v[0].original.address, "0000:01:10.0");
    strcpy(r->devices.v[0].original.pf_address, "0000:01:00.0");
    return r;
}

static void test_decision(void **state)
{
    static const struct {
        enum record_state record;
        enum attach attach;
        bool other_boot, host, all_in, whole;
        enum hook_verdict verdict;
        const char *why; /* HOOK_REFUSE */
    } table[] = {
        {RECORD_PREPARED, ATTACH_NRI, false, false, true, true, HOOK_PASS, NULL},
        /* a driver that ended in the middle, or is still at it */
        {RECORD_PREPARED, ATTACH_NRI, false, false, true, false, HOOK_ATTACH, NULL},
        {RECORD_PREPARED, ATTACH_NRI, false, false, false, false, HOOK_ATTACH, NULL},
        /* lost out of the sandbox that had it */
        {RECORD_PREPARED, ATTACH_NRI, false, false, false, true, HOOK_ATTACH, NULL},
        {RECORD_PREPARED, ATTACH_NRI, false, true, false, false, HOOK_REFUSE, "hostNetwork"},
        {RECORD_PREPARED, ATTACH_NRI, false, true, true, true, HOOK_REFUSE, "hostNetwork"},
        {RECORD_PREPARED, ATTACH_NONE, false, true, true, false, HOOK_PASS, NULL},
        {RECORD_PREPARED, ATTACH_NONE, false, false, true, false, HOOK_PASS, NULL},
        {RECORD_PREPARED, ATTACH_NRI, true, false, true, true, HOOK_REFUSE, "delete the pod"},
        {RECORD_PREPARED, ATTACH_NONE, true, false, true, true, HOOK_REFUSE, "last start"},
        {RECORD_PREPARING, ATTACH_NRI, false, false, false, false, HOOK_REFUSE,
         "isn't prepared yet"},
        {RECORD_RELEASING, ATTACH_NRI, false, false, true, true, HOOK_REFUSE, "being released"},
        {RECORD_RELEASING, ATTACH_NONE, false, false, true, true, HOOK_REFUSE, "being released"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        _cleanup_(record_freep) struct record *r =
            record(table[i].record, table[i].attach, table[i].other_boot ? "before" : "now");
        _cleanup_err_ struct err e = ERR_INIT;
        const struct hook_view v = {.rec = r,
                                    .boot_id = "now",
                                    .host_netns = table[i].host,
                                    .all_in = table[i].all_in,
                                    .whole = table[i].whole};

        if (hook_decide(&v, &e) != table[i].verdict)
            fail_msg("row %zu", i);
        if (table[i].why)
            assert_err_has(&e, table[i].why);
        else
            assert_int_equal(e.code, 0);
    }
}

/* A state directory, a container in a namespace of its own, and a /sys where there is nothing. */
struct fixture {
    char path[64];
    struct store store;
    struct hook_options o;
    struct hook_container c;
    pid_t container;
    char boot[BOOT_ID_SIZE];
};

static pid_t start_container(void)
{
    int ready[2];
    char go;

    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWNET) < 0 || write(ready[1], "", 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &go, 1), 1);
    close(ready[0]);
    return pid;
}

static int setup(void **state)
{
    struct fixture *f = xnew(struct fixture);

    snprintf(f->path, sizeof(f->path), "/tmp/test-hook-XXXXXX");
    *state = f;
    if (!mkdtemp(f->path) || store_open(f->path, &f->store, NULL) < 0 ||
        boot_id_read(f->boot, NULL) < 0)
        return -1;
    f->o = (struct hook_options){.state_dir = f->path, .claim = UID, .sysroot = f->path};
    f->container = start_container();
    f->c = (struct hook_container){.pid = f->container, .sandbox_id = xstrdup("sb")};
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *rm = xasprintf("rm -rf %s", f->path);

    kill(f->container, SIGKILL);
    waitpid(f->container, NULL, 0);
    hook_container_done(&f->c);
    store_done(&f->store);
    free(f);
    return system(rm);
}

static void save(struct fixture *f, enum record_state state, enum attach attach)
{
    _cleanup_(record_freep) struct record *r = record(state, attach, f->boot);
    _cleanup_err_ struct err e = ERR_INIT;

    assert_ok(store_save(&f->store, r, &e), &e);
}

static void refused(struct fixture *f, int code, const char *why)
{
    _cleanup_err_ struct err e = ERR_INIT;
    bool moved;

    assert_int_equal(hook_run(&f->o, &f->c, &moved, &e), code);
    assert_err_has(&e, why);
    assert_false(moved);
}

static void test_refusals(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *damage = xasprintf("truncate -s 30 %s/" UID ".json", f->path);

    refused(f, -ENOENT, "claim with uid " UID ": it isn't prepared on this node (no record in ");
    save(f, RECORD_RELEASING, ATTACH_NRI);
    refused(f, -EBUSY, "claim default/c: it is being released");
    save(f, RECORD_PREPARED, ATTACH_NRI);
    f->c.pid = getpid();
    refused(f, -EINVAL, "claim default/c: the VF's interface can't be moved into a pod with host");
    f->c.pid = INT32_MAX;
    refused(f, -ENOENT, "network namespace /proc/2147483647/ns/net");
    f->c.pid = f->container;
    /* All is as it should be but the hardware. */
    refused(f, -ENODEV, "claim default/c: VF 0000:01:10.0: VF 0000:01:10.0 is gone");
    assert_int_equal(system(damage), 0);
    refused(f, -EBADMSG, "its record is damaged");
    f->o.state_dir = "/nowhere";
    refused(f, -ENOENT, "state directory /nowhere");
}

static void test_nothing_to_attach(void **state)
{
    struct fixture *f = *state;
    _cleanup_err_ struct err e = ERR_INIT;
    bool moved;

    save(f, RECORD_PREPARED, ATTACH_NONE);
    f->c.pid = getpid(); /* such a pod may have the host's namespace */
    assert_ok(hook_run(&f->o, &f->c, &moved, &e), &e);
    assert_false(moved);
}

/* What was noted is no more, once somebody works on it and fails. */
static void test_note_goes_with_a_failed_attachment(void **state)
{
    struct fixture *f = *state;
    _cleanup_err_ struct err e = ERR_INIT;

    save(f, RECORD_PREPARED, ATTACH_NRI);
    assert_ok(store_note_sandbox(&f->store, UID, "sb", &e), &e);
    refused(f, -ENODEV, "is gone");
    assert_null(store_sandbox(&f->store, UID));
}

/* Another process that works on VFs for a while, and then is killed or ends. */
static pid_t hold_lock(struct fixture *f, useconds_t us)
{
    int ready[2];
    char go;

    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct store own;
        int lock;

        if (store_open_existing(f->path, &own, NULL) < 0 || store_lock(&own, 0, &lock, NULL) < 0 ||
            write(ready[1], "", 1) != 1)
            _exit(1);
        usleep(us);
        _exit(0);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &go, 1), 1);
    close(ready[0]);
    return pid;
}

static void test_waits_for_the_driver(void **state)
{
    struct fixture *f = *state;
    int64_t began = clock_now(clock_system());

    save(f, RECORD_PREPARED, ATTACH_NRI);
    pid_t holder = hold_lock(f, 300000);
    refused(f, -ENODEV, "is gone");
    assert_true(clock_now(clock_system()) - began >= 280);
    waitpid(holder, NULL, 0);
}

static void test_what_the_lock_keeps_out(void **state)
{
    struct fixture *f = *state;
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_close_ int lock = -1;

    pid_t holder = hold_lock(f, 60000000);
    assert_int_equal(store_lock(&f->store, 50, &lock, &e), -EBUSY);
    assert_int_equal(e.kind, ERR_TRANSIENT);
    assert_err_has(&e, "is still moving VFs on this node");
    /* neither does a driver that starts meanwhile fail, nor does it clear the other's files up */
    struct store again;
    _cleanup_free_ char *tmp = xasprintf("%s/." UID ".sandbox.1.tmp", f->path);
    close(open(tmp, O_WRONLY | O_CREAT, 0600));
    err_clear(&e);
    assert_ok(store_open(f->path, &again, &e), &e);
    store_done(&again);
    assert_int_equal(access(tmp, F_OK), 0);
    /* what needs no move waits for nobody */
    save(f, RECORD_PREPARED, ATTACH_NONE);
    bool moved;
    int64_t began = clock_now(clock_system());
    assert_ok(hook_run(&f->o, &f->c, &moved, &e), &e);
    assert_true(clock_now(clock_system()) - began < 1000);
    /* the holder's end frees it, whatever it is */
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    assert_ok(store_lock(&f->store, 1000, &lock, &e), &e);
    struct store swept;
    close(lock);
    lock = -1;
    assert_ok(store_open(f->path, &swept, &e), &e);
    store_done(&swept);
    assert_int_equal(access(tmp, F_OK), -1);
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static ino_t installed_inode(struct fixture *f, const char *source, const char *dir)
{
    _cleanup_free_ char *path = NULL, *wanted = xasprintf("%s/" HOOK_NAME, dir);
    _cleanup_err_ struct err e = ERR_INIT;
    struct stat st;

    (void)f;
    assert_ok(hook_install(source, dir, &path, &e), &e);
    assert_string_equal(path, wanted);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    return st.st_ino;
}

static void test_install(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *source = xasprintf("%s/source", f->path);
    _cleanup_free_ char *dir = xasprintf("%s/plugins/d", f->path);
    _cleanup_free_ char *target = xasprintf("%s/" HOOK_NAME, dir), *text = NULL, *path = NULL;
    _cleanup_err_ struct err e = ERR_INIT;

    write_file(source, "one", 0600);
    ino_t first = installed_inode(f, source, dir);
    assert_true(installed_inode(f, source, dir) == first); /* the same: only read */
    /* one that runs keeps its own file */
    _cleanup_close_ int running = open(target, O_RDONLY | O_CLOEXEC);
    write_file(source, "two", 0600); /* of the same size */
    assert_true(installed_inode(f, source, dir) != first);
    assert_ok(file_read(AT_FDCWD, target, 100, &text, NULL, &e), &e);
    assert_string_equal(text, "two");
    char old[4] = "";
    assert_int_equal(read(running, old, 3), 3);
    assert_string_equal(old, "one");
    /* whatever is in its place, but a directory */
    assert_int_equal(chmod(target, 0644), 0);
    installed_inode(f, source, dir);
    assert_int_equal(unlink(target), 0);
    assert_int_equal(chmod(source, 0755), 0);
    assert_int_equal(symlink(source, target), 0); /* the same, but who knows for how long */
    installed_inode(f, source, dir);
    struct stat st;
    assert_int_equal(lstat(target, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    write_file(source, "", 0600);
    assert_int_equal(hook_install(source, dir, &path, &e), -ENOEXEC);
    assert_int_equal(hook_install(f->path, dir, &path, &e), -ENOEXEC);
    assert_int_equal(unlink(source), 0);
    assert_int_equal(hook_install(source, dir, &path, &e), -ENOENT);
    assert_err_has(&e, source);
    assert_null(path);
}

static void test_install_on_noexec(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *source = xasprintf("%s/source", f->path), *path = NULL;
    _cleanup_err_ struct err e = ERR_INIT;

    _cleanup_free_ char *dir = xasprintf("%s/noexec", f->path);
    write_file(source, "one", 0755);
    assert_int_equal(mkdir(dir, 0755), 0);
    if (unshare(CLONE_NEWNS) < 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", dir, "tmpfs", MS_NOEXEC, NULL) < 0)
        skip();
    assert_int_equal(hook_install(source, dir, &path, &e), -EACCES);
    assert_int_equal(umount(dir), 0);
    assert_err_has(&e, "noexec");
    assert_err_has(&e, "--hook-dir");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_container),
        cmocka_unit_test(test_decision),
        T(test_refusals),
        T(test_nothing_to_attach),
        T(test_note_goes_with_a_failed_attachment),
        T(test_waits_for_the_driver),
        T(test_what_the_lock_keeps_out),
        T(test_install),
        T(test_install_on_noexec),
    };

    if (!own_netns_enter())
        return 0;
    return cmocka_run_group_tests_name("hook", tests, NULL, NULL);
}
