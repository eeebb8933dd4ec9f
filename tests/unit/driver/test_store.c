/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/store.h"

#include "base/file.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

struct fixture {
    char path[64];
    struct store store;
};

static int setup(void **state)
{
    struct fixture *f = xnew(struct fixture);

    snprintf(f->path, sizeof(f->path), "/tmp/test-store-XXXXXX");
    *state = f;
    return mkdtemp(f->path) && store_open(f->path, &f->store, NULL) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    _cleanup_free_ char *rm = xasprintf("rm -rf %s", f->path);

    store_done(&f->store);
    free(f);
    return system(rm);
}

static struct record *record(const char *uid)
{
    struct allocation a = {.namespace = (char[]){"default"}, .name = (char[]){"c"}};
    grant_vec none = {0};

    a.uid = (char *)uid;
    return record_new(&a, &none, "boot", true);
}

static void save(struct fixture *f, const char *uid)
{
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_(record_freep) struct record *r = record(uid);

    assert_ok(store_save(&f->store, r, &e), &e);
}

static void test_save_load_remove(void **state)
{
    struct fixture *f = *state;
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_(store_content_done) struct store_content c = {0}, none = {0};

    save(f, "b");
    save(f, "a");
    save(f, "a");
    assert_ok(store_load(&f->store, &c, &e), &e);
    assert_int_equal(c.records.n, 2);
    assert_string_equal(c.records.v[0]->uid, "a");
    assert_int_equal(c.bad.n, 0);
    assert_ok(store_remove(&f->store, "a", &e), &e);
    assert_ok(store_remove(&f->store, "b", &e), &e);
    assert_ok(store_remove(&f->store, "b", &e), &e);
    assert_ok(store_load(&f->store, &none, &e), &e);
    assert_int_equal(none.records.n, 0);
}

/* Damages the saved file of claim "a" with a shell command; it must be set aside, "b" must load. */
static void damaged(struct fixture *f, const char *command, const char *why)
{
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_(store_content_done) struct store_content c = {0}, again = {0}, look = {0};
    _cleanup_free_ char *run = xasprintf("cd %s && %s", f->path, command);

    save(f, "a");
    save(f, "b");
    assert_int_equal(system(run), 0);
    /* a look tells the same and leaves the file where it is */
    assert_ok(store_look(f->path, &look, &e), &e);
    assert_int_equal(look.records.n, 1);
    assert_string_equal(look.records.v[0]->uid, "b");
    assert_int_equal(look.bad.n, 1);
    assert_true(strstr(look.bad.v[0].file, "/a.json") && !strstr(look.bad.v[0].file, ".bad"));
    assert_non_null(strstr(look.bad.v[0].why, why));
    assert_ok(store_load(&f->store, &c, &e), &e);
    assert_int_equal(c.records.n, 1);
    assert_string_equal(c.records.v[0]->uid, "b");
    assert_int_equal(c.bad.n, 1);
    assert_non_null(strstr(c.bad.v[0].file, "a.json.bad"));
    if (!strstr(c.bad.v[0].why, why))
        fail_msg("\"%s\" lacks \"%s\"", c.bad.v[0].why, why);
    /* kept and reported until somebody removes it */
    assert_ok(store_load(&f->store, &again, &e), &e);
    assert_int_equal(again.bad.n, 1);
}

/* The note of a sandbox comes and goes with its record. */
static void test_sandbox_note(void **state)
{
    struct fixture *f = *state;
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_(store_content_done) struct store_content c = {0};

    save(f, "a");
    assert_null(store_sandbox(&f->store, "a"));
    assert_ok(store_note_sandbox(&f->store, "a", "first", &e), &e);
    assert_ok(store_note_sandbox(&f->store, "a", "second", &e), &e);
    assert_ok(store_load(&f->store, &c, &e), &e);
    assert_int_equal(c.records.n, 1);
    assert_int_equal(c.bad.n, 0);
    _cleanup_free_ char *id = store_sandbox(&f->store, "a");
    assert_string_equal(id, "second");
    assert_null(store_sandbox(&f->store, "b"));
    assert_ok(store_remove(&f->store, "a", &e), &e);
    assert_null(store_sandbox(&f->store, "a"));
}

/* One record for a program beside the driver, which puts nothing aside. */
static void test_get(void **state)
{
    struct fixture *f = *state;
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_(record_freep) struct record *r = NULL;
    _cleanup_free_ char *damage = xasprintf("truncate -s -10 %s/a.json", f->path);
    _cleanup_free_ char *there = xasprintf("%s/a.json", f->path);
    struct store beside;

    assert_int_equal(store_open_existing("/nowhere", &beside, &e), -ENOENT);
    assert_int_equal(store_get(&f->store, "a", &r, &e), -ENOENT);
    save(f, "a");
    assert_ok(store_get(&f->store, "a", &r, &e), &e);
    assert_string_equal(r->uid, "a");
    record_free(TAKE_PTR(r));
    assert_int_equal(system(damage), 0);
    assert_int_equal(store_get(&f->store, "a", &r, &e), -EBADMSG);
    assert_null(r);
    assert_int_equal(access(there, F_OK), 0);
}

static void test_dropped_note(void **state)
{
    struct fixture *f = *state;
    _cleanup_err_ struct err e = ERR_INIT;

    assert_ok(store_drop_sandbox(&f->store, "a", &e), &e);
    assert_ok(store_note_sandbox(&f->store, "a", "first", &e), &e);
    assert_ok(store_drop_sandbox(&f->store, "a", &e), &e);
    assert_null(store_sandbox(&f->store, "a"));
}

static void test_flipped_byte(void **state)
{
    damaged(*state, "sed -i 's/default/Default/' a.json", "checksum");
}

static void test_truncated(void **state)
{
    damaged(*state, "truncate -s -10 a.json", "checksum");
}

static void test_empty(void **state)
{
    damaged(*state, "truncate -s 0 a.json", "0 bytes long");
}

static void test_other_claims_record(void **state)
{
    damaged(*state, "cp b.json a.json", "another claim");
}

static void test_newer_version_stops_the_start(void **state)
{
    struct fixture *f = *state;
    _cleanup_err_ struct err e = ERR_INIT;
    struct store_content c = {0};
    _cleanup_free_ char *run = xasprintf(
        "cd %s && tail -n +2 a.json | sed 's/\"version\": 1/\"version\": 2/' >t && "
        "printf 'sriov-dra claim record crc32=%%s\\n' $(python3 -c 'import zlib;"
        "print(\"%%08x\" %% zlib.crc32(open(\"t\",\"rb\").read()))') | cat - t >a.json && rm t",
        f->path);

    save(f, "a");
    assert_int_equal(system(run), 0);
    assert_int_equal(store_load(&f->store, &c, &e), -EPROTONOSUPPORT);
    assert_err_has(&e, "newer version");
    err_clear(&e);
    assert_ok(store_look(f->path, &c, &e), &e);
    assert_int_equal(c.records.n, 0);
    assert_int_equal(c.bad.n, 1);
    assert_non_null(strstr(c.bad.v[0].why, "newer version"));
    store_content_done(&c);
}

/* Nothing is made where nothing is. */
static void test_look_at_nothing(void **state)
{
    struct fixture *f = *state;
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_free_ char *path = xasprintf("%s/nowhere", f->path);
    struct store_content c = {0};

    assert_int_equal(store_look(path, &c, &e), -ENOENT);
    assert_err_has(&e, "nowhere: No such file or directory");
    assert_int_not_equal(access(path, F_OK), 0);
}

/* kill -9 while a record is rewritten, many times: what is read is always whole. */
static void test_killed_while_writing(void **state)
{
    struct fixture *f = *state;
    _cleanup_err_ struct err e = ERR_INIT;

    save(f, "a");
    for (int i = 0; i < 100; i++) {
        _cleanup_(store_content_done) struct store_content c = {0};
        pid_t child = fork();
        int status;

        if (child == 0)
            for (;;)
                save(f, "a");
        usleep(500 + 37 * (useconds_t)i);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        assert_ok(store_load(&f->store, &c, &e), &e);
        assert_int_equal(c.records.n, 1);
        assert_int_equal(c.bad.n, 0);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_save_load_remove),
        T(test_sandbox_note),
        T(test_get),
        T(test_dropped_note),
        T(test_flipped_byte),
        T(test_truncated),
        T(test_empty),
        T(test_other_claims_record),
        T(test_newer_version_stops_the_start),
        T(test_look_at_nothing),
        T(test_killed_while_writing),
    };

    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
