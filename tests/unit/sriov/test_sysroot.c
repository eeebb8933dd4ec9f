/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "sriov/sysroot.h"
#include "tests/unit/sriov/fake_sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

struct tree {
    char *root;
    struct sysroot r;
};

static int make_tree(void **state)
{
    static struct tree t;
    _cleanup_err_ struct err e = ERR_INIT;

    t.root = fake_sysfs_load("igb-7vf.txt");
    assert_ok(sysroot_open(t.root, &t.r, &e), &e);
    *state = &t;
    return 0;
}

static int drop_tree(void **state)
{
    struct tree *t = *state;

    sysroot_done(&t->r);
    fake_sysfs_remove(t->root);
    return 0;
}

static void put(const struct tree *t, const char *path, const char *text)
{
    _cleanup_free_ char *whole = xasprintf("%s/%s", t->root, path);
    FILE *f = fopen(whole, "w");

    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void reads_text_and_numbers(void **state)
{
    static const struct {
        const char *text, *read;
        int code;
        int64_t number;
    } cases[] = {
        {"1000\n", "1000", 0, 1000},
        {"-1\n", "-1", 0, -1},
        {"0x8086\n", "0x8086", 0, 0x8086},
        {"0x1003", "0x1003", 0, 0x1003},
        {"010\n", "010", 0, 10},
        {"9223372036854775807\n", "9223372036854775807", 0, INT64_MAX},
        {"9223372036854775808\n", "9223372036854775808", -ERANGE, 0},
        {"a\nb\n", "a\nb", -EINVAL, 0},
        {"", "", -EINVAL, 0},
        {"-\n", "-", -EINVAL, 0},
        {"0x\n", "0x", -EINVAL, 0},
        {"12 \n", "12 ", -EINVAL, 0},
    };
    struct tree *t = *state;
    _cleanup_err_ struct err e = ERR_INIT;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_free_ char *text = NULL;
        int64_t n = 42;

        put(t, "sys/attr", cases[i].text);
        assert_ok(sysroot_read(&t->r, &text, &e, "sys/%s", "attr"), &e);
        assert_string_equal(text, cases[i].read);
        int k = sysroot_read_int(&t->r, &n, &e, "sys/attr");
        assert_int_equal(k, cases[i].code);
        assert_int_equal(n, k < 0 ? 42 : cases[i].number);
        if (k < 0)
            assert_err_has(&e, "/sys/attr");
    }
}

static void links_stay_inside_the_root(void **state)
{
    struct tree *t = *state;
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_free_ char *name = NULL, *path = NULL, *none = NULL, *escape = NULL, *text = NULL;

    assert_ok(sysroot_link_name(&t->r, &name, &e, "sys/bus/pci/devices/0000:01:10.0/driver"), &e);
    assert_string_equal(name, "igbvf");
    assert_ok(sysroot_realpath(&t->r, &path, &e, "sys/bus/pci/devices/%s", "0000:01:10.0"), &e);
    assert_string_equal(path, "sys/devices/pci0000:00/0000:00:01.0/0000:01:10.0");
    assert_int_equal(sysroot_link_name(&t->r, &none, &e, "sys/bus/pci/devices/0000:01:11.4/driver"),
                     -ENOENT);
    assert_int_equal(sysroot_link_name(&t->r, &none, &e, "sys/bus/pci/devices"), -ENOENT);

    /* Up and out, and an absolute target: both end at the root of the tree. */
    escape = xasprintf("%s/sys/escape", t->root);
    assert_int_equal(symlink("../../../../../../etc/hostname", escape), 0);
    assert_int_equal(sysroot_read(&t->r, &text, &e, "sys/escape"), -ENOENT);
    assert_int_equal(unlink(escape), 0);
    assert_int_equal(symlink("/sys/class/net/enp1s0/mtu", escape), 0);
    assert_ok(sysroot_read(&t->r, &text, &e, "sys/escape"), &e);
    assert_string_equal(text, "1500");
    unlink(escape);
}

static void lists_in_order(void **state)
{
    struct tree *t = *state;
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_(name_vec_done) name_vec names = {0}, none = {0};

    assert_ok(sysroot_list(&t->r, &names, &e, "sys/class/net"), &e);
    assert_int_equal(names.n, 6);
    assert_string_equal(names.v[0], "enp1s0");
    assert_string_equal(names.v[5], "enp2s0");
    assert_int_equal(sysroot_list(&t->r, &none, &e, "sys/class/nothing"), -ENOENT);
    assert_int_equal(none.n, 0);
    assert_true(sysroot_exists(&t->r, "sys/class/net/%s", "enp1s0"));
    assert_false(sysroot_exists(&t->r, "sys/class/net/eth0"));
}

static void writes_replace(void **state)
{
    struct tree *t = *state;
    _cleanup_err_ struct err e = ERR_INIT;
    int64_t n;

    assert_ok(sysroot_write(&t->r, "128", &e, "sys/bus/pci/devices/0000:01:00.0/sriov_numvfs"), &e);
    assert_ok(sysroot_write(&t->r, "3", &e, "sys/bus/pci/devices/0000:01:00.0/sriov_numvfs"), &e);
    assert_ok(sysroot_read_int(&t->r, &n, &e, "sys/bus/pci/devices/0000:01:00.0/sriov_numvfs"), &e);
    assert_int_equal(n, 3);
    /* A write never makes an attribute. */
    assert_int_equal(sysroot_write(&t->r, "3", &e, "sys/bus/pci/devices/0000:01:00.0/made_up"),
                     -ENOENT);
    assert_err_has(&e, "made_up");
}

static void missing_root(void **state)
{
    (void)state;
    _cleanup_err_ struct err e = ERR_INIT;
    struct sysroot r = {.fd = -1};

    assert_int_equal(sysroot_open("/nonexistent/root", &r, &e), -ENOENT);
    assert_err_has(&e, "/nonexistent/root");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_text_and_numbers, make_tree, drop_tree),
        cmocka_unit_test_setup_teardown(links_stay_inside_the_root, make_tree, drop_tree),
        cmocka_unit_test_setup_teardown(lists_in_order, make_tree, drop_tree),
        cmocka_unit_test_setup_teardown(writes_replace, make_tree, drop_tree),
        cmocka_unit_test(missing_root),
    };

    return cmocka_run_group_tests_name("sysroot", tests, NULL, NULL);
}
