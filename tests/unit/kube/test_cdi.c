/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/cdi.h"

#include "base/file.h"
#include "tests/unit/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define UID "0d8a1f0e-5b1c-4c39-9f0e-3f1d2b8c7a61"

static void device(struct cdi_device *d, bool all)
{
    *d = (struct cdi_device){.name = xstrdup(UID "-0000-3b-02-1")};
    *VEC_PUSH(&d->env) = (struct cdi_env){xstrdup("SRIOV_0"), xstrdup("0000:3b:02.1")};
    if (!all)
        return;
    VEC_PUSH(&d->nodes)->path = xstrdup("/dev/vfio/vfio");
    VEC_PUSH(&d->nodes)->path = xstrdup("/dev/vfio/7");
}

static const struct cdi_hook hook = {
    .path = "/var/lib/kubelet/plugins/sriov-dra.dev/hook",
    .args = (const char *const[]){"hook", "--claim=" UID, NULL},
    .timeout_s = 5,
};

static void test_golden(void **state)
{
    static const struct {
        bool all;
        const char *json;
    } table[] = {
        {false, "{\"cdiVersion\":\"0.5.0\",\"devices\":[{\"containerEdits\":{\"env\":[\"SRIOV_0="
                "0000:3b:02.1\"]},\"name\":\"" UID "-0000-3b-02-1\"}],\"kind\":\"sriov-dra.dev/"
                "vf\"}"},
        {true, "{\"cdiVersion\":\"0.5.0\",\"containerEdits\":{\"hooks\":[{\"args\":["
               "\"hook\",\"--claim=" UID "\"],\"hookName\":\"createRuntime\",\"path\":\"/var/lib/"
               "kubelet/plugins/sriov-dra.dev/"
               "hook\",\"timeout\":5}]},\"devices\":[{\"containerEdits\":{\"deviceNodes\":[{"
               "\"path\":\"/dev/vfio/vfio\",\"permissions\":\"rw\"},{\"path\":\"/dev/vfio/7\","
               "\"permissions\":\"rw\"}],\"env\":[\"SRIOV_0=0000:3b:02.1\"]},\"name\":\"" UID
               "-0000-3b-02-1\"}],\"kind\":\"sriov-dra.dev/vf\"}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        _cleanup_(cdi_device_done) struct cdi_device d;

        device(&d, table[i].all);
        json_auto_t *doc = cdi_document("sriov-dra.dev/vf", table[i].all ? &hook : NULL, &d, 1);
        _cleanup_free_ char *s = json_text(doc);
        assert_string_equal(s, table[i].json);
    }
    _cleanup_free_ char *id = cdi_id("sriov-dra.dev/vf", "x");
    assert_string_equal(id, "sriov-dra.dev/vf=x");
}

static int dir = -1;

static int setup(void **state)
{
    static char path[] = "/tmp/test-cdi-XXXXXX";

    if (!mkdtemp(path))
        return -1;
    *state = path;
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    close(dir);
    return rmdir(*state); /* and so nothing was left in it */
}

static void test_write_and_remove(void **state)
{
    static const char name[] = "sriov-dra.dev-vf_" UID ".json";
    _cleanup_(cdi_device_done) struct cdi_device d;
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_free_ char *text = NULL;
    struct stat st;

    (void)state;
    device(&d, true);
    json_auto_t *doc = cdi_document("sriov-dra.dev/vf", &hook, &d, 1);
    mode_t old = umask(077); /* runtimes may run as another user */
    assert_ok(cdi_write(dir, "sriov-dra.dev/vf", UID, doc, &e), &e);
    umask(old);
    assert_int_equal(fstatat(dir, name, &st, 0), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    assert_ok(file_read(dir, name, 4096, &text, NULL, &e), &e);
    json_auto_t *back = NULL;
    assert_ok(json_parse(text, strlen(text), &back, &e), &e);
    assert_true(json_equal(doc, back));
    assert_ok(cdi_remove(dir, "sriov-dra.dev/vf", UID, &e), &e);
    assert_int_equal(fstatat(dir, name, &st, 0), -1);
    assert_ok(cdi_remove(dir, "sriov-dra.dev/vf", UID, &e), &e);
}

static void test_names_that_are_refused(void **state)
{
    static const struct {
        const char *kind, *uid, *device, *what;
    } table[] = {
        {"sriov-dra.dev", UID, "d", "vendor/class"},  {"/vf", UID, "d", "vendor/class"},
        {"sriov-dra.dev/", UID, "d", "vendor/class"}, {"1sriov/vf", UID, "d", "vendor/class"},
        {"../x/vf", UID, "d", "vendor/class"},        {"a/b/c", UID, "d", "vendor/class"},
        {"a/vf.net", UID, "d", "vendor/class"}, /* dots in a class need CDI 0.6 */
        {"a/vf-", UID, "d", "vendor/class"},          {"a/vf", "", "d", "claim's uid"},
        {"a/vf", "x-", "d", "claim's uid"},           {"a/vf", UID, "d.", "name of a CDI device"},
        {"a/vf", "../../etc", "d", "claim's uid"},    {"a/vf", "x/y", "d", "claim's uid"},
        {"a/vf", "x\n", "d", "claim's uid"},          {"a/vf", UID, "-d", "name of a CDI device"},
        {"a/vf", UID, "a/b", "name of a CDI device"}, {"a/vf", UID, "", "name of a CDI device"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        struct cdi_env env = {(char[]){"A"}, (char[]){"1"}};
        struct cdi_device d = {.name = (char *)table[i].device, .env = {&env, 1, 1}};
        json_auto_t *doc = cdi_document(table[i].kind, NULL, &d, 1);

        assert_int_equal(cdi_write(dir, table[i].kind, table[i].uid, doc, &e), -EINVAL);
        assert_err_has(&e, table[i].what);
    }
}

static void test_empty_edits_are_refused(void **state)
{
    _cleanup_err_ struct err e = ERR_INIT;
    struct cdi_device d = {.name = (char[]){"d"}};
    json_auto_t *doc = cdi_document("a/vf", NULL, &d, 1);
    json_auto_t *none = cdi_document("a/vf", NULL, NULL, 0);

    (void)state;
    assert_int_equal(cdi_write(dir, "a/vf", UID, doc, &e), -EINVAL);
    assert_err_has(&e, "changes nothing");
    assert_int_equal(cdi_write(dir, "a/vf", UID, none, &e), -EINVAL);
    assert_err_has(&e, "without devices");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_write_and_remove),
        cmocka_unit_test(test_names_that_are_refused),
        cmocka_unit_test(test_empty_edits_are_refused),
    };

    return cmocka_run_group_tests_name("cdi", tests, setup, teardown);
}
