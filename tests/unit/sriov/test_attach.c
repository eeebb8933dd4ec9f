/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "sriov/attach.h"
#include "tests/unit/sriov/fake_sysfs.h"
#include "tests/unit/sriov/script.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>

/* Descriptors that only the script sees. */
#define POD_FD  55
#define HOST_FD 56

struct rig {
    char *tree;
    struct sysroot root;
    struct vf_state home, there;
    struct link home_link, there_link, other_link;
    struct attach_spec spec;
    struct script host, pod;
};

static int make_rig(void **state)
{
    struct rig *rig = xnew(struct rig);
    _cleanup_err_ struct err e = ERR_INIT;

    rig->tree = fake_sysfs_load("igb-7vf.txt");
    assert_ok(sysroot_open(rig->tree, &rig->root, &e), &e);
    rig->home = rig->there = fresh_state();
    strcpy(rig->there.name, "net1");
    rig->there.ifindex = 9; /* the kernel gives another where it is taken */
    rig->home_link = vf_link_of(&rig->home);
    rig->there_link = vf_link_of(&rig->there);
    rig->other_link = (struct link){.ifindex = 1, .name = "lo"};
    rig->spec = (struct attach_spec){.vf_address = VF_ADDRESS, .name = "net1"};
    ipnet_parse("192.0.2.1/24", true, VEC_PUSH(&rig->spec.addrs));
    *state = rig;
    return 0;
}

static int drop_rig(void **state)
{
    struct rig *rig = *state;

    sysroot_done(&rig->root);
    fake_sysfs_remove(rig->tree);
    free(rig->spec.addrs.v);
    free(rig->spec.routes.v);
    free(rig);
    return 0;
}

static void list_pod(struct rig *rig, bool with_vf)
{
    const struct link *const all[] = {&rig->other_link, &rig->there_link};

    script_list(&rig->pod, all, with_vf ? 2 : 1);
}

static struct link_change move(int ifindex, int fd, const char *name)
{
    struct link_change c = {
        .ifindex = ifindex, .set = LINK_FIELD_NETNS | LINK_FIELD_NAME, .netns_fd = fd};

    strcpy(c.name, name);
    return c;
}

static void up_in_pod(struct rig *rig)
{
    struct link_change up = {.ifindex = 9, .set = LINK_FIELD_UP, .up = true, .netns_fd = -1};

    script_link(&rig->pod, &up);
}

static int attach(struct rig *rig, struct attach_result *ret, struct err *e)
{
    struct nl_transport *pod = script_start(&rig->pod);
    struct hw hw = {.root = &rig->root, .nl = script_start(&rig->host)};
    int r = vf_attach_with(&hw, pod, POD_FD, HOST_FD, &rig->spec, ret, e);

    nl_free(pod);
    nl_free(hw.nl);
    script_done(&rig->pod);
    script_done(&rig->host);
    return r;
}

/* The start of every attachment from home: found, the name is free, moved. */
static void moved_in(struct rig *rig, struct link_change *c)
{
    struct link none = {0};

    script_get(&rig->host, &rig->home_link);
    script_get(&rig->pod, &none);
    script_link(&rig->host, c);
}

static void moves_names_and_addresses(void **state)
{
    struct rig *rig = *state;
    struct link_change in = move(VF_IFINDEX, POD_FD, "net1");
    _cleanup_(attach_result_done) struct attach_result res = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    rig->spec.mtu = in.mtu = 1400;
    in.set |= LINK_FIELD_MTU;
    rig->there_link.mtu = 1400;
    ipnet_parse("198.51.100.0/24", true, &VEC_PUSH(&rig->spec.routes)->to);
    moved_in(rig, &in);
    list_pod(rig, true);
    script_any(&rig->pod, RTM_NEWADDR);
    up_in_pod(rig);
    script_any(&rig->pod, RTM_NEWROUTE);
    rig->there_link.flags = IFF_UP;
    list_pod(rig, true);
    script_addrs(&rig->pod, 9, rig->spec.addrs.v, 1);
    assert_ok(attach(rig, &res, &e), &e);
    assert_string_equal(res.name, "net1");
    assert_int_equal(res.mtu, 1400);
    assert_true(mac_equal(&res.mac, &rig->home.mac));
    assert_int_equal(res.addrs.n, 1);
}

/* Called again: it is there under its name and up, so nothing is moved, renamed or raised. */
static void a_second_time(void **state)
{
    struct rig *rig = *state;
    struct link none = {0};
    _cleanup_(attach_result_done) struct attach_result res = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    rig->there_link.flags = IFF_UP;
    script_get(&rig->host, &none);
    list_pod(rig, true);
    script_any(&rig->pod, RTM_NEWADDR);
    script_fail(&rig->pod, -EEXIST, NULL);
    script_addrs(&rig->pod, 9, rig->spec.addrs.v, 1);
    list_pod(rig, true);
    script_addrs(&rig->pod, 9, rig->spec.addrs.v, 1);
    assert_ok(attach(rig, &res, &e), &e);
    assert_string_equal(res.name, "net1");

    /* A failure now leaves it in the pod: nobody knows its name at home. */
    script_get(&rig->host, &none);
    list_pod(rig, true);
    script_any(&rig->pod, RTM_NEWADDR);
    script_fail(&rig->pod, -EINVAL, NULL);
    assert_int_equal(attach(rig, &res, &e), -EINVAL);
}

static void name_taken_in_pod(void **state)
{
    struct rig *rig = *state;
    struct attach_result res = {.mtu = 42};
    _cleanup_err_ struct err e = ERR_INIT;

    script_get(&rig->host, &rig->home_link);
    script_get(&rig->pod, &rig->other_link);
    list_pod(rig, false); /* where is it? not moved */
    assert_int_equal(attach(rig, &res, &e), -EEXIST);
    assert_err_has(&e, VF_ADDRESS);
    assert_err_has(&e, "net1");
    assert_int_equal(res.mtu, 42);
}

/* Each request after the move refused in turn: home again, old name, old MTU. */
static void failure_brings_it_home(void **state)
{
    struct rig *rig = *state;
    struct link_change in = move(VF_IFINDEX, POD_FD, "net1"), out = move(9, HOST_FD, "enp1s0v3");

    out.set |= LINK_FIELD_MTU;
    out.mtu = 1500;
    ipnet_parse("198.51.100.0/24", true, &VEC_PUSH(&rig->spec.routes)->to);
    for (unsigned fail = 0; fail < 5; fail++) {
        struct attach_result res = {0};
        _cleanup_err_ struct err e = ERR_INIT;

        rig->there_link.flags = 0;
        moved_in(rig, &in);
        if (fail == 0) /* the kernel had moved it before it refused the name */
            script_fail(&rig->host, -EEXIST, NULL);
        list_pod(rig, true);
        if (fail >= 1) {
            script_any(&rig->pod, RTM_NEWADDR);
            if (fail == 1)
                script_fail(&rig->pod, -EINVAL, "no such address");
        }
        if (fail >= 2) {
            up_in_pod(rig);
            if (fail == 2)
                script_fail(&rig->pod, -EIO, NULL);
        }
        if (fail >= 3) {
            script_any(&rig->pod, RTM_NEWROUTE);
            if (fail == 3)
                script_fail(&rig->pod, -ENETUNREACH, "Nexthop has invalid gateway");
        }
        if (fail == 4) /* up, as the kernel said, and yet it isn't */
            list_pod(rig, true);
        script_link(&rig->pod, &out);
        assert_true(attach(rig, &res, &e) < 0);
        assert_err_has(&e, VF_ADDRESS);
        assert_null(strstr(err_text(&e), "home failed"));
    }
}

static void home_failed_too(void **state)
{
    struct rig *rig = *state;
    struct link_change in = move(VF_IFINDEX, POD_FD, "net1"), out = move(9, HOST_FD, "enp1s0v3");
    struct attach_result res = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    out.set |= LINK_FIELD_MTU;
    out.mtu = 1500;
    moved_in(rig, &in);
    list_pod(rig, true);
    script_any(&rig->pod, RTM_NEWADDR);
    script_fail(&rig->pod, -EINVAL, "no such address");
    script_link(&rig->pod, &out);
    script_fail(&rig->pod, -EBUSY, NULL);
    assert_int_equal(attach(rig, &res, &e), -EINVAL);
    assert_err_has(&e, "moving it home failed too");
    assert_err_has(&e, "no such address");
}

static void neither_here_nor_there(void **state)
{
    struct rig *rig = *state;
    struct link none = {0};
    struct attach_result res = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    script_get(&rig->host, &none);
    list_pod(rig, false);
    assert_int_equal(attach(rig, &res, &e), -ENODEV);
    assert_int_equal(e.kind, ERR_TRANSIENT);
}

static void keeps_its_name(void **state)
{
    struct rig *rig = *state;
    struct link_change in = move(VF_IFINDEX, POD_FD, "enp1s0v3");
    _cleanup_(attach_result_done) struct attach_result res = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    rig->spec.name[0] = '\0';
    rig->spec.addrs.n = 0;
    strcpy(rig->there_link.name, "enp1s0v3");
    moved_in(rig, &in);
    list_pod(rig, true);
    up_in_pod(rig);
    rig->there_link.flags = IFF_UP;
    list_pod(rig, true);
    script_addrs(&rig->pod, 9, NULL, 0);
    assert_ok(attach(rig, &res, &e), &e);
    assert_string_equal(res.name, "enp1s0v3");
}

static int detach(struct rig *rig, bool *moved, struct err *e)
{
    struct nl_transport *pod = script_start(&rig->pod);
    struct hw hw = {.root = &rig->root, .nl = script_start(&rig->host)};
    int r = vf_detach_with(&hw, pod, HOST_FD, VF_ADDRESS, "enp1s0v3", moved, e);

    nl_free(pod);
    nl_free(hw.nl);
    script_done(&rig->pod);
    script_done(&rig->host);
    return r;
}

static void detaches(void **state)
{
    struct rig *rig = *state;
    struct link_change out = move(9, HOST_FD, "enp1s0v3"), any = move(9, HOST_FD, "dev%d"),
                       name = own_change(LINK_FIELD_NAME);
    bool moved = false;
    _cleanup_err_ struct err e = ERR_INIT;

    /* By its device: in the pod it may be called anything. */
    strcpy(rig->there_link.name, "wild0");
    list_pod(rig, true);
    script_link(&rig->pod, &out);
    assert_ok(detach(rig, &moved, &e), &e);
    assert_true(moved);

    list_pod(rig, false);
    assert_ok(detach(rig, &moved, &e), &e);
    assert_false(moved);

    /* Its own alternative name is in the way: moved, then renamed at home. */
    strcpy(name.name, "enp1s0v3");
    list_pod(rig, true);
    script_link(&rig->pod, &out);
    script_fail(&rig->pod, -EEXIST, NULL);
    script_link(&rig->pod, &any);
    script_fail(&rig->pod, -ENODEV, NULL);
    script_get(&rig->host, &rig->home_link);
    script_link(&rig->host, &name);
    assert_ok(detach(rig, &moved, &e), &e);
    assert_true(moved);

    moved = false;
    list_pod(rig, true);
    script_link(&rig->pod, &out);
    script_fail(&rig->pod, -EPERM, NULL);
    assert_int_equal(detach(rig, &moved, &e), -EPERM);
    assert_false(moved);
}

/* A pod with the host's namespace (hostNetwork) has nothing to be moved. */
static void host_namespace(void **state)
{
    struct rig *rig = *state;
    struct hw hw = {.root = &rig->root};
    struct attach_result res = {0};
    bool moved = true;
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_close_ int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

    assert_int_equal(vf_attach(&hw, own, &rig->spec, &res, &e), -EINVAL);
    assert_err_has(&e, "host's network namespace");
    assert_ok(vf_detach(&hw, own, VF_ADDRESS, "enp1s0v3", &moved, &e), &e);
    assert_false(moved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(moves_names_and_addresses, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(a_second_time, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(name_taken_in_pod, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(failure_brings_it_home, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(home_failed_too, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(neither_here_nor_there, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(keeps_its_name, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(detaches, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(host_namespace, make_rig, drop_rig),
    };

    return cmocka_run_group_tests_name("attach", tests, NULL, NULL);
}
