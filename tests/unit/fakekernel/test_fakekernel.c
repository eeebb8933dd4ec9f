/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fake kernel's own promises to tests: that what is asked through netlink and sysfs is its
 * state, and that faults happen where they are put. Hardware's behaviour: test-fakekernel-hw.
 */
#include "tests/unit/test.h"

#include "netlink/netns.h"
#include "sriov/attach.h"
#include "sriov/inventory.h"
#include "tests/unit/fakekernel/fakekernel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <sys/wait.h>

struct world {
    struct fk *k;
    struct sysroot root;
    struct nl_transport *nl;
    struct hw hw;
};

static int world_new(void **state)
{
    static struct world w;

    w.k = fk_new(&(struct fk_config){.n_pfs = 2, .n_vfs = {4, 1}});
    assert_int_equal(sysroot_open(fk_root(w.k), &w.root, NULL), 0);
    assert_int_equal(nl_open(NETLINK_ROUTE, &w.nl, NULL), 0);
    w.hw = (struct hw){.root = &w.root, .nl = w.nl};
    *state = &w;
    return 0;
}

static int world_free(void **state)
{
    struct world *w = *state;

    nl_free(w->nl);
    sysroot_done(&w->root);
    fk_free(w->k);
    return 0;
}

static struct vf_state read_vf(struct world *w, unsigned pf, unsigned vf)
{
    const struct fk_pf *p = &w->k->pfs[pf];
    _cleanup_err_ struct err e = ERR_INIT;
    struct vf_state s = {0};

    assert_ok(vf_state_read(&w->hw, p->address, p->vfs[vf].address, vf, &s, &e), &e);
    return s;
}

static int open_netns(struct world *w, int netns)
{
    _cleanup_err_ struct err e = ERR_INIT;
    char path[96];
    int fd;

    fk_netns_path(w->k, netns, path);
    assert_ok(netns_open(path, &fd, &e), &e);
    return fd;
}

static void inventory_is_its_own(void **state)
{
    struct world *w = *state;
    _cleanup_(inventory_done) struct inventory inv = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    assert_ok(inventory_read(&w->root, &inv, &e), &e);
    assert_int_equal(inv.pfs.n, 2);
    assert_int_equal(inv.pfs.v[0].vfs.n, 4);
    assert_int_equal(inv.pfs.v[1].vfs.n, 1);
    assert_string_equal(inv.pfs.v[0].netdev, "enp1s0");
    assert_true(inv.pfs.v[0].up && inv.pfs.v[0].speed_mbps == 1000);
    assert_string_equal(inv.pfs.v[0].vfs.v[3].netdev, "enp1s0v3");

    fk_set_up(w->k, fk_pf_dev(w->k, 0), false);
    fk_set_num_vfs(w->k, 0, 2);
    inventory_done(&inv);
    assert_ok(inventory_read(&w->root, &inv, &e), &e);
    assert_true(!inv.pfs.v[0].up && inv.pfs.v[0].speed_mbps == 0);
    assert_int_equal(inv.pfs.v[0].vfs.n, 2);
}

static void both_sides_are_read(void **state)
{
    struct world *w = *state;
    struct fk_dev *d = fk_vf_dev(w->k, 0, 2);
    const struct mac mac = {{0x52, 0x54, 0, 0, 0, 1}};
    struct ipnet a;

    assert_int_equal(fk_set_vf(w->k, 0,
                               &(struct vf_change){.index = 2,
                                                   .set = VF_FIELD_VLAN | VF_FIELD_RATE |
                                                          VF_FIELD_SPOOFCHK | VF_FIELD_TRUST,
                                                   .vlan_id = 100,
                                                   .vlan_qos = 3,
                                                   .max_tx_mbps = 200,
                                                   .trust = true},
                               NULL),
                     0);
    assert_int_equal(fk_set_mac(w->k, d, &mac), 0);
    assert_int_equal(fk_set_mtu(w->k, d, 1400, NULL), 0);
    fk_set_promisc(w->k, d, true, false);
    assert_int_equal(fk_set_up(w->k, d, true), 0);
    assert_int_equal(fk_add_altname(w->k, d, "other"), 0);
    assert_int_equal(ipnet_parse("192.0.2.1/24", true, &a), 0);
    assert_int_equal(fk_add_addr(w->k, d, &a), 0);

    struct vf_state s = read_vf(w, 0, 2);
    assert_true(s.home && s.up && s.mtu == 1400 && s.promiscuity == 1 && s.allmulti == 0);
    assert_true(mac_equal(&s.mac, &mac) && mac_equal(&s.admin.mac, &mac));
    assert_true(s.admin.vlan_id == 100 && s.admin.vlan_qos == 3 && s.admin.max_tx_mbps == 200);
    assert_true(!s.admin.spoofchk && s.admin.trust);
    assert_int_equal(s.altnames.n, 1);
    assert_int_equal(s.addrs.n, 1);
    vf_state_done(&s);

    s = read_vf(w, 0, 1); /* its neighbour is as it was */
    assert_true(s.admin.vlan_id == 0 && s.admin.spoofchk && !s.up && s.addrs.n == 0);
    vf_state_done(&s);
}

static void interfaces_leave_and_come_home(void **state)
{
    struct world *w = *state;
    int netns = fk_netns_add(w->k, "pod");
    _cleanup_close_ int fd = open_netns(w, netns);
    struct attach_spec spec = {.name = "net1"};
    struct attach_result res = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    bool in;

    memcpy(spec.vf_address, w->k->pfs[0].vfs[1].address, sizeof(spec.vf_address));
    assert_ok(vf_attach(&w->hw, fd, &spec, &res, &e), &e);
    attach_result_done(&res);
    struct vf_state s = read_vf(w, 0, 1);
    assert_false(s.home);
    assert_int_equal(vf_look_in(fd, spec.vf_address, &in, NULL, NULL), 0);
    assert_true(in);

    /* The path is gone, the interface is neither here nor there. */
    char path[96];
    fk_netns_path(w->k, netns, path);
    fk_netns_unmount(w->k, netns);
    assert_int_equal(access(path, F_OK), -1);
    s = read_vf(w, 0, 1);
    assert_false(s.home);
    fk_netns_end(w->k, netns);
    s = read_vf(w, 0, 1);
    assert_true(s.home && !s.up);
    assert_string_equal(s.name, "net1");
    vf_state_done(&s);
}

/* Two interfaces of one name can't both keep it. */
static void names_give_way_at_home(void **state)
{
    struct world *w = *state;
    int a = fk_netns_add(w->k, "a"), b = fk_netns_add(w->k, "b");

    assert_int_equal(fk_move(w->k, fk_vf_dev(w->k, 0, 0), a, NULL), 0);
    assert_int_equal(fk_move(w->k, fk_vf_dev(w->k, 0, 1), b, NULL), 0);
    assert_int_equal(fk_rename(w->k, fk_vf_dev(w->k, 0, 0), "net1"), 0);
    assert_int_equal(fk_rename(w->k, fk_vf_dev(w->k, 0, 1), "net1"), 0);
    fk_netns_end(w->k, a);
    fk_netns_end(w->k, b);
    assert_string_equal(fk_vf_dev(w->k, 0, 0)->name, "net1");
    assert_memory_equal(fk_vf_dev(w->k, 0, 1)->name, "dev", 3);

    /* Taken at home: moved only where the old name isn't taken as well. */
    int c = fk_netns_add(w->k, "c");
    assert_non_null(fk_add_dummy(w->k, c, "eth0"));
    assert_int_equal(fk_move(w->k, fk_vf_dev(w->k, 0, 0), c, "eth0"), 0);
    assert_int_equal(fk_rename(w->k, fk_vf_dev(w->k, 0, 0), "eth0"), -EEXIST);
    assert_non_null(fk_add_dummy(w->k, c, "enp1s0v3"));
    assert_int_equal(fk_move(w->k, fk_vf_dev(w->k, 0, 3), c, "eth0"), -EEXIST);
    assert_int_equal(fk_vf_dev(w->k, 0, 3)->netns, 0);
}

struct plan {
    unsigned n, at;
    struct fk_verdict verdict;
    bool wrote;
    int vf, into;
};

static void count(const struct fk_request *q, struct fk_verdict *v, void *data)
{
    struct plan *p = data;

    if (++p->n == p->at) {
        *v = p->verdict;
        p->wrote = q->writes;
        p->vf = q->vf;
        p->into = q->into;
    }
}

static void faults_happen_where_they_are_put(void **state)
{
    struct world *w = *state;
    struct fk_dev *d = fk_vf_dev(w->k, 0, 0);
    struct link_change c = {.ifindex = d->ifindex, .set = LINK_FIELD_MTU, .netns_fd = -1};
    struct plan p = {.at = 1, .verdict = {.error = -EIO, .extack = "no power"}};
    _cleanup_err_ struct err e = ERR_INIT;

    w->k->on_request = count;
    w->k->data = &p;
    c.mtu = 1400;
    assert_int_equal(link_change_send(w->nl, &c, &e), -EIO);
    assert_err_has(&e, "no power");
    assert_int_equal(d->mtu, 1500);
    assert_true(p.wrote);
    assert_int_equal(link_change_send(w->nl, &c, &e), 0);
    assert_int_equal(d->mtu, 1400);

    /* Done, and the answer says otherwise. */
    p = (struct plan){.at = 1, .verdict = {.error = -ETIMEDOUT, .apply = true}};
    c.mtu = 1300;
    assert_int_equal(link_change_send(w->nl, &c, &e), -ETIMEDOUT);
    assert_int_equal(d->mtu, 1300);
    w->k->on_request = NULL;
}

/* Whichever side a request is sent to, it says which VF it is about. */
static void requests_name_their_vf(void **state)
{
    struct world *w = *state;
    int netns = fk_netns_add(w->k, "pod");
    struct fk_dev *d = fk_vf_dev(w->k, 1, 0);
    struct vf_change vlan = {.index = 2, .set = VF_FIELD_VLAN, .vlan_id = 5};
    struct plan p = {.at = 1, .verdict = {.apply = true}};
    char path[96];
    _cleanup_err_ struct err e = ERR_INIT;

    w->k->on_request = count;
    w->k->data = &p;
    assert_int_equal(vf_change_send(w->nl, fk_pf_dev(w->k, 0)->ifindex, &vlan, &e), 0);
    assert_int_equal(p.vf, 2);
    assert_int_equal(p.into, -1);

    p = (struct plan){.at = 1, .verdict = {.apply = true}};
    fk_netns_path(w->k, netns, path);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct link_change move = {.ifindex = d->ifindex, .set = LINK_FIELD_NETNS, .netns_fd = fd};
    assert_int_equal(link_change_send(w->nl, &move, &e), 0);
    assert_int_equal(p.vf, 0);
    assert_int_equal(p.into, netns);

    p = (struct plan){.at = 1, .verdict = {.apply = true}};
    move = (struct link_change){
        .ifindex = fk_pf_dev(w->k, 0)->ifindex, .set = LINK_FIELD_UP, .up = true, .netns_fd = -1};
    assert_int_equal(link_change_send(w->nl, &move, &e), 0);
    assert_int_equal(p.vf, -1);
    w->k->on_request = NULL;
}

static void addresses_of_one_and_of_all(void **state)
{
    struct world *w = *state;
    const struct ipnet a = {.family = AF_INET, .prefix = 24, .b = {192, 0, 2, 1}},
                       b = {.family = AF_INET, .prefix = 24, .b = {192, 0, 2, 2}};
    struct fk_dev *one = fk_vf_dev(w->k, 0, 0), *two = fk_vf_dev(w->k, 0, 1);
    ipnet_vec its = {0};
    owned_addr_vec all = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    assert_int_equal(fk_add_addr(w->k, one, &a), 0);
    assert_int_equal(fk_add_addr(w->k, two, &b), 0);
    assert_int_equal(addr_list(w->nl, two->ifindex, &its, &e), 0);
    assert_int_equal(its.n, 1);
    assert_int_equal(its.v[0].b[3], 2);
    assert_int_equal(addr_list(w->nl, 999, &its, &e), -ENODEV);
    assert_int_equal(addr_list_all(w->nl, &all, &e), 0);
    unsigned found = 0;
    vec_foreach (o, &all) {
        if (ipnet_is_link_local(&o->addr))
            continue;
        found++;
        assert_int_equal(o->ifindex, o->addr.b[3] == 1 ? one->ifindex : two->ifindex);
    }
    assert_int_equal(found, 2);
    free(its.v);
    free(all.v);
}

static void a_child_changes_the_same_kernel(void **state)
{
    struct world *w = *state;
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(fk_set_mtu(w->k, fk_vf_dev(w->k, 0, 0), 1200, NULL) ? 1 : 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    struct vf_state s = read_vf(w, 0, 0);
    assert_int_equal(s.mtu, 1200);
    vf_state_done(&s);
}

static void a_reboot_forgets(void **state)
{
    struct world *w = *state;
    int netns = fk_netns_add(w->k, "pod");

    assert_int_equal(fk_move(w->k, fk_vf_dev(w->k, 0, 1), netns, "net1"), 0);
    assert_int_equal(fk_set_vf(w->k, 0,
                               &(struct vf_change){.index = 0, .set = VF_FIELD_VLAN, .vlan_id = 7},
                               NULL),
                     0);
    fk_reboot(w->k);
    struct vf_state s = read_vf(w, 0, 0);
    assert_int_equal(s.admin.vlan_id, 0);
    vf_state_done(&s);
    s = read_vf(w, 0, 1);
    assert_true(s.home);
    assert_string_equal(s.name, "enp1s0v1");
    vf_state_done(&s);
    assert_int_equal(fk_netns_find(w->k, "pod"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(inventory_is_its_own, world_new, world_free),
        cmocka_unit_test_setup_teardown(both_sides_are_read, world_new, world_free),
        cmocka_unit_test_setup_teardown(interfaces_leave_and_come_home, world_new, world_free),
        cmocka_unit_test_setup_teardown(names_give_way_at_home, world_new, world_free),
        cmocka_unit_test_setup_teardown(requests_name_their_vf, world_new, world_free),
        cmocka_unit_test_setup_teardown(addresses_of_one_and_of_all, world_new, world_free),
        cmocka_unit_test_setup_teardown(faults_happen_where_they_are_put, world_new, world_free),
        cmocka_unit_test_setup_teardown(a_child_changes_the_same_kernel, world_new, world_free),
        cmocka_unit_test_setup_teardown(a_reboot_forgets, world_new, world_free),
    };

    return cmocka_run_group_tests_name("fakekernel", tests, NULL, NULL);
}
