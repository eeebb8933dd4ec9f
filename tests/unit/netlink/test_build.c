/* SPDX-License-Identifier: Apache-2.0 */
/* Requests, byte by byte as the kernel's headers want them, sent to a script. */
#include "netlink/nlx.h"
#include "tests/unit/scripted.h"
#include "tests/unit/test.h"

#include <endian.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/rtnetlink.h>

#define CHECK_LITTLE_ENDIAN()                                                                      \
    do {                                                                                           \
        (void)state;                                                                               \
        if (__BYTE_ORDER != __LITTLE_ENDIAN)                                                       \
            skip();                                                                                \
    } while (0)

/* ifinfomsg of interface 5; then IFLA_VFINFO_LIST (22) and in it IFLA_VF_INFO (1), both nested */
#define PF5           "00000000 05000000 00000000 00000000"
#define LIST(len, vf) PF5 len "1680" vf "0180"

static void test_vf_change(void **state)
{
    static const struct {
        struct vf_change change;
        const char *payload;
    } cases[] = {
        {{.index = 3, .set = VF_FIELD_MAC, .mac = {{0x52, 0x54, 0, 0xab, 0xcd, 0xef}}},
         LIST("3000", "2c00") "2800 0100 03000000 525400abcdef0000"
                              "00000000 00000000 00000000 00000000 00000000 00000000"},
        {{.index = 3, .set = VF_FIELD_VLAN, .vlan_id = 100, .vlan_qos = 3},
         LIST("1800", "1400") "1000 0200 03000000 64000000 03000000"},
        {{.index = 3, .set = VF_FIELD_VLAN, .vlan_proto = ETH_P_8021Q},
         LIST("1800", "1400") "1000 0200 03000000 00000000 00000000"},
        {{.index = 3, .set = VF_FIELD_VLAN, .vlan_id = 4094, .vlan_proto = ETH_P_8021AD},
         LIST("2000", "1c00") "1800 0c80"
                              "1400 0100 03000000 fe0f0000 00000000 88a80000"},
        {{.index = 3, .set = VF_FIELD_RATE, .min_tx_mbps = 10, .max_tx_mbps = 500},
         LIST("1800", "1400") "1000 0600 03000000 0a000000 f4010000"},
        {{.index = 3, .set = VF_FIELD_SPOOFCHK, .spoofchk = true},
         LIST("1400", "1000") "0c00 0400 03000000 01000000"},
        {{.index = 3, .set = VF_FIELD_LINK_STATE, .link_state = IFLA_VF_LINK_STATE_DISABLE},
         LIST("1400", "1000") "0c00 0500 03000000 02000000"},
        {{.index = 3, .set = VF_FIELD_RSS_QUERY, .rss_query = true},
         LIST("1400", "1000") "0c00 0700 03000000 01000000"},
        {{.index = 3, .set = VF_FIELD_TRUST}, LIST("1400", "1000") "0c00 0900 03000000 00000000"},
        {{.index = 255,
          .set = VF_FIELD_MAC | VF_FIELD_VLAN | VF_FIELD_RATE | VF_FIELD_SPOOFCHK | VF_FIELD_TRUST,
          .mac = {{0x52, 0x54, 0, 0, 0, 1}},
          .vlan_id = 7,
          .max_tx_mbps = 1000,
          .trust = true},
         LIST("6800", "6400") "2800 0100 ff000000 525400000001 0000"
                              "00000000 00000000 00000000 00000000 00000000 00000000"
                              "1000 0200 ff000000 07000000 00000000"
                              "1000 0600 ff000000 00000000 e8030000"
                              "0c00 0400 ff000000 00000000"
                              "0c00 0900 ff000000 01000000"},
    };

    CHECK_LITTLE_ENDIAN();
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        const struct script_step step = {.type = RTM_SETLINK, .payload = cases[i].payload};
        _cleanup_(nl_freep) struct nl_transport *t = scripted_new(&step, 1);

        assert_ok(vf_change_send(t, 5, &cases[i].change, &e), &e);
    }
}

static void test_vf_change_refused_before_it_is_sent(void **state)
{
    static const struct {
        struct vf_change change;
        const char *text;
    } cases[] = {
        {{.index = 1}, "a change of nothing"},
        {{.index = 1, .set = VF_FIELD_VLAN, .vlan_id = 4095}, "id 4095"},
        {{.index = 1, .set = VF_FIELD_VLAN, .vlan_qos = 8}, "QoS 8"},
        {{.index = 1, .set = VF_FIELD_VLAN, .vlan_proto = 0x1234}, "protocol 0x1234"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        _cleanup_(nl_freep) struct nl_transport *t = scripted_new(NULL, 0);

        assert_int_equal(vf_change_send(t, 5, &cases[i].change, &e), -EINVAL);
        assert_err_has(&e, cases[i].text);
    }
}

static void test_vf_change_refused_by_the_kernel(void **state)
{
    _cleanup_err_ struct err e = ERR_INIT;
    const struct script_step step = {.error = -EOPNOTSUPP, .extack = "no trust on this firmware"};
    _cleanup_(nl_freep) struct nl_transport *t = scripted_new(&step, 1);
    const struct vf_change c = {.index = 2,
                                .set = VF_FIELD_MAC | VF_FIELD_VLAN | VF_FIELD_RATE |
                                       VF_FIELD_SPOOFCHK | VF_FIELD_TRUST,
                                .vlan_id = 9,
                                .vlan_proto = ETH_P_8021AD,
                                .max_tx_mbps = 50,
                                .trust = true};

    (void)state;
    assert_int_equal(vf_change_send(t, 5, &c, &e), -EOPNOTSUPP);
    assert_int_equal(e.kind, ERR_PERMANENT);
    assert_string_equal(err_text(&e),
                        "setting VF 2 of interface 5, MAC 00:00:00:00:00:00, VLAN 9 QoS 0 802.1ad, "
                        "tx rate 0 to 50 Mbit/s, spoof checking off, trust on: "
                        "Operation not supported: no trust on this firmware");
}

static void test_link_change(void **state)
{
    static const struct {
        struct link_change change;
        const char *payload;
    } cases[] = {
        {{.ifindex = 5, .set = LINK_FIELD_NETNS | LINK_FIELD_NAME, .netns_fd = 9, .name = "net1"},
         PF5 "0800 1c00 09000000 0900 0300 6e657431 00000000"},
        {{.ifindex = 5, .set = LINK_FIELD_UP, .up = true}, "00000000 05000000 01000000 01000000"},
        {{.ifindex = 5, .set = LINK_FIELD_UP}, "00000000 05000000 00000000 01000000"},
        {{.ifindex = 5, .set = LINK_FIELD_PROMISC_OFF}, "00000000 05000000 00000000 00030000"},
        {{.ifindex = 5,
          .set = LINK_FIELD_MAC | LINK_FIELD_MTU | LINK_FIELD_NAME | LINK_FIELD_UP |
                 LINK_FIELD_PROMISC_OFF,
          .mac = {{0x52, 0x54, 0, 0xab, 0xcd, 0xef}},
          .mtu = 9000,
          .name = "fifteen-letters",
          .up = true},
         "00000000 05000000 01000000 01030000 0a00 0100 525400abcdef 0000"
         "0800 0400 28230000 1400 0300 6669667465656e2d6c65747465727300"},
    };

    CHECK_LITTLE_ENDIAN();
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        const struct script_step step = {.type = RTM_NEWLINK, .payload = cases[i].payload};
        _cleanup_(nl_freep) struct nl_transport *t = scripted_new(&step, 1);

        assert_ok(link_change_send(t, &cases[i].change, &e), &e);
    }
}

static void test_link_change_refused_before_it_is_sent(void **state)
{
    static const struct link_change cases[] = {
        {.ifindex = 5},
        {.set = LINK_FIELD_UP},
        {.ifindex = 5, .set = LINK_FIELD_NAME, .name = {"sixteen-letters-"}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(nl_freep) struct nl_transport *t = scripted_new(NULL, 0);

        assert_int_equal(link_change_send(t, &cases[i], NULL), -EINVAL);
    }
}

static void test_flags_of_a_change(void **state)
{
    _cleanup_(nlmsg_freep) struct nl_msg *vf = NULL, *link = NULL;

    (void)state;
    assert_int_equal(vf_change_build(5, &(struct vf_change){.set = VF_FIELD_TRUST}, &vf, NULL), 0);
    assert_int_equal(
        link_change_build(&(struct link_change){.ifindex = 5, .set = LINK_FIELD_UP}, &link, NULL),
        0);
    /* without NLM_F_CREATE an index that is gone is an error and not a new interface */
    assert_int_equal(nlmsg_hdr(vf)->nlmsg_flags & NLM_F_CREATE, 0);
    assert_int_equal(nlmsg_hdr(link)->nlmsg_flags & NLM_F_CREATE, 0);
    assert_int_equal(nlmsg_hdr(vf)->nlmsg_type, RTM_SETLINK);
    assert_int_equal(nlmsg_hdr(link)->nlmsg_type, RTM_NEWLINK);
}

static void test_altname_remove(void **state)
{
    const struct script_step steps[] = {
        {.type = RTM_DELLINKPROP, .payload = PF5 "1000 3480 0b00 3500 656e7031733000 00"},
        {.type = RTM_DELLINKPROP, .error = -ENOENT},
    };
    _cleanup_err_ struct err e = ERR_INIT;
    char name[129];

    CHECK_LITTLE_ENDIAN();
    _cleanup_(nl_freep) struct nl_transport *t = scripted_new(steps, ARRAY_SIZE(steps));
    assert_ok(link_altname_remove(t, 5, "enp1s0", &e), &e);
    assert_int_equal(link_altname_remove(t, 5, "enp1s0", &e), -ENOENT);
    assert_string_equal(
        err_text(&e),
        "removing the alternative name enp1s0 of interface 5: No such file or directory");
    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(link_altname_remove(t, 5, name, NULL), -ENOENT);
}

static void test_addresses_and_routes(void **state)
{
    static const struct {
        uint16_t type;
        const char *payload, *to, *via; /* `to` is the address where type is RTM_NEWADDR */
        uint32_t metric, table;
    } cases[] = {
        {RTM_NEWADDR, "02180000 05000000 0800 0200 c000020a 0800 0100 c000020a", "192.0.2.10/24",
         NULL, 0, 0},
        /* IFA_F_NODAD */
        {RTM_NEWADDR,
         "0a400200 05000000 1400 0200 20010db8000000000000000000000001"
         "1400 0100 20010db8000000000000000000000001",
         "2001:db8::1/64", NULL, 0, 0},
        {RTM_NEWROUTE,
         "02180000 fe040001 00000000 0800 0100 c6336400 0800 0400 05000000"
         "0800 0500 c0000201",
         "198.51.100.0/24", "192.0.2.1", 0, 0},
        /* on-link: scope link; default: no RTA_DST; table above 255: an attribute */
        {RTM_NEWROUTE, "02180000 fe04fd01 00000000 0800 0100 c6336400 0800 0400 05000000",
         "198.51.100.0/24", NULL, 0, 0},
        {RTM_NEWROUTE,
         "02000000 00040001 00000000 0800 0400 05000000 0800 0500 c0000201"
         "0800 0600 64000000 0800 0f00 e8030000",
         "0.0.0.0/0", "192.0.2.1", 100, 1000},
        {RTM_NEWROUTE,
         "0a400000 07040001 00000000 1400 0100 20010db8000100000000000000000000"
         "0800 0400 05000000 1400 0500 20010db8000000000000000000000001",
         "2001:db8:1::/64", "2001:db8::1", 0, 7},
        /* IPv4 by way of IPv6: RTA_VIA */
        {RTM_NEWROUTE,
         "02000000 fe040001 00000000 0800 0400 05000000"
         "1600 1200 0a00 20010db8000000000000000000000001 0000",
         "0.0.0.0/0", "2001:db8::1", 0, 0},
    };

    CHECK_LITTLE_ENDIAN();
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        const struct script_step step = {.type = cases[i].type, .payload = cases[i].payload};
        _cleanup_(nl_freep) struct nl_transport *t = scripted_new(&step, 1);
        struct route r = {.metric = cases[i].metric, .table = cases[i].table};

        assert_int_equal(ipnet_parse(cases[i].to, true, &r.to), 0);
        if (cases[i].via) {
            r.has_via = true;
            assert_int_equal(ipnet_parse(cases[i].via, false, &r.via), 0);
        }
        if (cases[i].type == RTM_NEWADDR)
            assert_ok(addr_add(t, 5, &r.to, &e), &e);
        else
            assert_ok(route_add(t, 5, &r, &e), &e);
    }
}

/* EEXIST of IPv6 says that the address is there, not with which prefix. */
static void test_address_with_another_prefix(void **state)
{
    struct ipnet asked, there;

    (void)state;
    ipnet_parse("2001:db8::1/64", true, &asked);
    ipnet_parse("2001:db8::1/128", true, &there);
    for (int same = 0; same < 2; same++) {
        _cleanup_err_ struct err e = ERR_INIT;
        const struct script_step steps[] = {
            {.type = RTM_NEWADDR, .error = -EEXIST, .extack = "address already assigned"},
            {.type = RTM_GETADDR,
             .replies = {scripted_addr(6, &asked), scripted_addr(5, same ? &asked : &there)}},
        };
        _cleanup_(nl_freep) struct nl_transport *t = scripted_new(steps, ARRAY_SIZE(steps));
        int r = addr_add(t, 5, &asked, &e);

        if (same) {
            assert_ok(r, &e);
            continue;
        }
        assert_int_equal(r, -EEXIST);
        assert_string_equal(err_text(&e), "adding address 2001:db8::1/64 to interface 5: "
                                          "File exists: address already assigned");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vf_change),
        cmocka_unit_test(test_vf_change_refused_before_it_is_sent),
        cmocka_unit_test(test_vf_change_refused_by_the_kernel),
        cmocka_unit_test(test_link_change),
        cmocka_unit_test(test_link_change_refused_before_it_is_sent),
        cmocka_unit_test(test_flags_of_a_change),
        cmocka_unit_test(test_altname_remove),
        cmocka_unit_test(test_addresses_and_routes),
        cmocka_unit_test(test_address_with_another_prefix),
    };

    return cmocka_run_group_tests_name("build", tests, NULL, NULL);
}
