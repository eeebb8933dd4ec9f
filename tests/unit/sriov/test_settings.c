/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "tests/unit/sriov/fake_sysfs.h"
#include "tests/unit/sriov/script.h"

#include <errno.h>
#include <linux/if_ether.h>

static void merge(void **state)
{
    struct vf_settings base = {.set = VF_SET_VLAN | VF_SET_TRUST | VF_SET_MTU,
                               .vlan_id = 100,
                               .vlan_qos = 3,
                               .trust = true,
                               .mtu = 1500};
    const struct vf_settings over = {.set =
                                         VF_SET_VLAN | VF_SET_RATE | VF_SET_SPOOFCHK | VF_SET_MAC,
                                     .mac = mac_of("52:54:00:ab:cd:ef"),
                                     .vlan_id = 200,
                                     .mtu = 9000, /* not set: no wish */
                                     .max_tx_mbps = 500};

    (void)state;
    vf_settings_merge(&base, &over);
    assert_int_equal(base.set, VF_SET_VLAN | VF_SET_TRUST | VF_SET_MTU | VF_SET_RATE |
                                   VF_SET_SPOOFCHK | VF_SET_MAC);
    assert_int_equal(base.vlan_id, 200);
    assert_int_equal(base.vlan_qos, 0); /* id and QoS are one setting */
    assert_true(base.trust);
    assert_int_equal(base.mtu, 1500);
    assert_int_equal(base.max_tx_mbps, 500);
    assert_true(mac_equal(&base.mac, &over.mac));
    vf_settings_merge(&base, &(struct vf_settings){0});
    assert_int_equal(base.vlan_id, 200);
}

/* How a state is made from the fresh one, for the tables. */
enum twist {
    AS_IS,
    VLAN_100,
    VLAN_100_AD,
    VLAN_100_QOS_3,
    ENTRY_APART,
    OWN_APART,
    NO_TRUST,
    NO_SPOOFCHK,
    TRUSTED,
    RATE_200,
    MTU_1400,
    AWAY,
};

static struct vf_state twisted(enum twist t)
{
    struct vf_state s = fresh_state();

    switch (t) {
    case AS_IS:
        break;
    case VLAN_100_AD:
        s.admin.vlan_proto = ETH_P_8021AD;
        s.admin.vlan_id = 100;
        break;
    case VLAN_100_QOS_3:
        s.admin.vlan_qos = 3;
        s.admin.vlan_id = 100;
        break;
    case VLAN_100:
        s.admin.vlan_id = 100;
        break;
    case ENTRY_APART:
        s.admin.mac = mac_of("52:54:00:00:00:77");
        break;
    case OWN_APART:
        s.mac = mac_of("52:54:00:00:00:77");
        break;
    case NO_TRUST:
        s.admin.has &= ~(unsigned)VF_FIELD_TRUST;
        break;
    case NO_SPOOFCHK:
        s.admin.has &= ~(unsigned)VF_FIELD_SPOOFCHK;
        break;
    case TRUSTED:
        s.admin.trust = true;
        break;
    case RATE_200:
        s.admin.max_tx_mbps = 200;
        break;
    case MTU_1400:
        s.mtu = 1400;
        break;
    case AWAY:
        s.home = false;
        break;
    }
    return s;
}

static void differs(void **state)
{
    const struct mac fresh = fresh_state().mac;
    const struct {
        enum twist is;
        struct vf_settings want;
        unsigned n;
        const char *text;
    } cases[] = {
        {AS_IS, {0}, 0, ""},
        {VLAN_100_AD, {0}, 0, ""}, /* what isn't asked for doesn't matter */
        {AS_IS, {.set = VF_SET_MAC, .mac = fresh}, 0, ""},
        {ENTRY_APART,
         {.set = VF_SET_MAC, .mac = fresh},
         1,
         "mac: 52:54:00:00:00:77 in the PF's list, want 16:1e:07:02:a6:df"},
        {OWN_APART,
         {.set = VF_SET_MAC, .mac = fresh},
         1,
         "mac: 52:54:00:00:00:77 on the VF, want 16:1e:07:02:a6:df"},
        {AWAY, {.set = VF_SET_MAC | VF_SET_MTU, .mac = fresh, .mtu = 9000}, 0, ""},
        {AS_IS, {.set = VF_SET_VLAN}, 0, ""},
        {AS_IS, {.set = VF_SET_VLAN, .vlan_id = 100}, 1, "vlan: 0, want 100"},
        {VLAN_100, {.set = VF_SET_VLAN, .vlan_id = 100}, 0, ""},
        {VLAN_100, {.set = VF_SET_VLAN}, 1, "vlan: 100, want 0"},
        {VLAN_100_QOS_3, {.set = VF_SET_VLAN, .vlan_id = 100}, 1, "vlan QoS: 3, want 0"},
        {VLAN_100_QOS_3,
         {.set = VF_SET_VLAN, .vlan_id = 200, .vlan_qos = 1},
         2,
         "vlan: 100, want 200; vlan QoS: 3, want 1"},
        {VLAN_100_AD, {.set = VF_SET_VLAN, .vlan_id = 100}, 1, "vlan: 100 is 802.1ad, want 802.1Q"},
        {AS_IS, {.set = VF_SET_SPOOFCHK, .spoofchk = true}, 0, ""},
        {AS_IS, {.set = VF_SET_SPOOFCHK}, 1, "spoof checking: on, want off"},
        {NO_SPOOFCHK,
         {.set = VF_SET_SPOOFCHK},
         1,
         "spoof checking: not reported by the driver, want off"},
        {TRUSTED, {.set = VF_SET_TRUST, .trust = true}, 0, ""},
        {TRUSTED, {.set = VF_SET_TRUST}, 1, "trust: on, want off"},
        {NO_TRUST, {.set = VF_SET_TRUST}, 1, "trust: not reported by the driver, want off"},
        {MTU_1400, {.set = VF_SET_MTU, .mtu = 1500}, 1, "mtu: 1400, want 1500"},
        {RATE_200, {.set = VF_SET_RATE, .max_tx_mbps = 200}, 0, ""},
        {RATE_200, {.set = VF_SET_RATE}, 1, "max tx rate: 200 Mb/s, want 0"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct vf_state s = twisted(cases[i].is);
        _cleanup_(strbuf_done) struct strbuf b = {0};
        unsigned n = vf_state_differs(&s, &cases[i].want, &b);

        if (n != cases[i].n || !streq(b.s ? b.s : "", cases[i].text))
            fail_msg("case %zu: %u \"%s\"", i, n, b.s ? b.s : "");
    }
}

static void unclean(void **state)
{
    struct ipnet addr;
    struct vf_state s = fresh_state();
    _cleanup_(strbuf_done) struct strbuf none = {0}, all = {0}, away = {0};

    (void)state;
    assert_int_equal(vf_state_unclean(&s, &none), 0);
    s.admin.mac = (struct mac){0}; /* most NICs: the PF leaves it to the VF */
    assert_int_equal(vf_state_unclean(&s, &none), 0);
    s.admin.mac = mac_of("52:54:00:00:00:77");
    s.promiscuity = 2;
    s.allmulti = 1;
    assert_int_equal(ipnet_parse("192.0.2.1/24", true, &addr), 0);
    *VEC_PUSH(&s.addrs) = addr;
    assert_int_equal(vf_state_unclean(&s, &all), 4);
    assert_string_equal(all.s,
                        "mac: 16:1e:07:02:a6:df on the VF, 52:54:00:00:00:77 in the PF's list; "
                        "has the address 192.0.2.1/24; promiscuous; takes all multicast");
    s.home = false;
    assert_int_equal(vf_state_unclean(&s, &away), 1);
    vf_state_done(&s);
}

struct rig {
    char *tree;
    struct sysroot root;
};

static int make_rig(void **state)
{
    static struct rig rig;
    _cleanup_err_ struct err e = ERR_INIT;

    rig.tree = fake_sysfs_load("igb-7vf.txt");
    assert_ok(sysroot_open(rig.tree, &rig.root, &e), &e);
    *state = &rig;
    return 0;
}

static int drop_rig(void **state)
{
    struct rig *rig = *state;

    sysroot_done(&rig->root);
    fake_sysfs_remove(rig->tree);
    return 0;
}

static int read_with(const struct rig *rig, struct script *sc, const char *vf_address,
                     unsigned index, struct vf_state *ret, struct err *e)
{
    struct hw hw = {.root = &rig->root, .nl = script_start(sc)};
    int r = vf_state_read(&hw, PF_ADDRESS, vf_address, index, ret, e);

    nl_free(hw.nl);
    script_done(sc);
    return r;
}

static void reads_both_sides(void **state)
{
    struct script sc = {0};
    struct vf_state was = fresh_state();
    _cleanup_(vf_state_done) struct vf_state s = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    struct ipnet addrs[2];

    was.up = true;
    was.promiscuity = 1;
    was.admin.vlan_id = 100;
    *VEC_PUSH(&was.altnames) = xstrdup("other");
    ipnet_parse("fe80::1/64", true, &addrs[0]);
    ipnet_parse("192.0.2.1/24", true, &addrs[1]);
    *VEC_PUSH(&was.addrs) = addrs[0];
    *VEC_PUSH(&was.addrs) = addrs[1];
    script_state(&sc, &was);
    vf_state_done(&was);
    assert_ok(read_with(*state, &sc, VF_ADDRESS, 3, &s, &e), &e);
    assert_true(s.home && s.up && s.pf_up);
    assert_string_equal(s.pf_name, "enp1s0");
    assert_string_equal(s.name, "enp1s0v3");
    assert_string_equal(s.address, VF_ADDRESS);
    assert_int_equal(s.ifindex, VF_IFINDEX);
    assert_int_equal(s.pf_ifindex, PF_IFINDEX);
    assert_int_equal(s.admin.vlan_id, 100);
    assert_int_equal(s.pf_speed_mbps, 1000);
    assert_int_equal(s.max_mtu, 9216);
    assert_int_equal(s.promiscuity, 1);
    assert_int_equal(s.altnames.n, 1);
    assert_int_equal(s.addrs.n, 1); /* not the link-local one */
    assert_true(ipnet_equal(&s.addrs.v[0], &addrs[1]));
}

static void away_is_no_error(void **state)
{
    struct script sc = {0};
    struct vf_state was = fresh_state();
    _cleanup_(vf_state_done) struct vf_state s = {0}, t = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    struct link gone = {0};

    /* VF 4 of the fixture is in a pod. */
    was.admin.index = 4;
    was.home = false;
    script_state(&sc, &was);
    assert_ok(read_with(*state, &sc, "0000:01:11.0", 4, &s, &e), &e);
    assert_false(s.home);

    /* It leaves between sysfs and netlink. */
    was.admin.index = 3;
    script_state(&sc, &was);
    script_get(&sc, &gone);
    assert_ok(read_with(*state, &sc, VF_ADDRESS, 3, &t, &e), &e);
    assert_false(t.home);
}

static void read_failures(void **state)
{
    struct vf_state was = fresh_state();
    _cleanup_(vf_state_done) struct vf_state s = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    struct script sc = {0};

    /* The VFs were made anew: the index is another VF's. */
    assert_int_equal(read_with(*state, &sc, VF_ADDRESS, 2, &s, &e), -ENODEV);
    assert_err_has(&e, "0000:01:10.4");
    assert_int_equal(read_with(*state, &sc, "0000:01:12.0", 7, &s, &e), -ENODEV);
    assert_err_has(&e, "none");

    /* The list lacks it: the driver couldn't read it now. */
    was.admin.index = 5;
    was.home = false;
    script_state(&sc, &was);
    assert_int_equal(read_with(*state, &sc, VF_ADDRESS, 3, &s, &e), -EAGAIN);
    assert_int_equal(e.kind, ERR_TRANSIENT);
    was = fresh_state();

    /* The name that sysfs gave was another's by the time of the request. */
    _cleanup_(link_done) struct link pf = pf_link(&was), vf = vf_link_of(&was);
    strcpy(vf.parent_dev, "0000:01:10.4");
    script_get(&sc, &pf);
    script_get(&sc, &vf);
    assert_int_equal(read_with(*state, &sc, VF_ADDRESS, 3, &s, &e), -EAGAIN);

    script_get(&sc, &pf);
    script_get(&sc, &vf);
    script_fail(&sc, -ENOBUFS, NULL);
    assert_int_equal(read_with(*state, &sc, VF_ADDRESS, 3, &s, &e), -ENOBUFS);
    assert_err_has(&e, VF_ADDRESS);

    /* A PF without interface (vfio-pci). */
    struct hw hw = {.root = &((struct rig *)*state)->root};
    assert_int_equal(vf_state_read(&hw, "0000:00:01.0", VF_ADDRESS, 3, &s, &e), -ENODEV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merge),
        cmocka_unit_test(differs),
        cmocka_unit_test(unclean),
        cmocka_unit_test_setup_teardown(reads_both_sides, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(away_is_no_error, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(read_failures, make_rig, drop_rig),
    };

    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
