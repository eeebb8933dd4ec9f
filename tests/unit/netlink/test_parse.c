/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of interfaces: sound ones, odd ones, and ones cut or damaged at every byte. */
#include "netlink/nlx.h"
#include "tests/unit/scripted.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>

#define ALL_FIELDS                                                                                 \
    (VF_FIELD_MAC | VF_FIELD_VLAN | VF_FIELD_SPOOFCHK | VF_FIELD_TRUST | VF_FIELD_RATE |           \
     VF_FIELD_LINK_STATE | VF_FIELD_RSS_QUERY)

/* A PF whose VFs differ in all settings. The caller calls link_done(). */
static struct link make_pf(unsigned vfs)
{
    struct link l = {
        .ifindex = 5,
        .name = "enp1s0",
        .flags = IFF_UP | IFF_BROADCAST,
        .arp_type = ARPHRD_ETHER,
        .mtu = 1500,
        .min_mtu = 68,
        .max_mtu = 9216,
        .has_mac = true,
        .has_perm_mac = true,
        .mac = {{0x52, 0x54, 0, 0, 0, 1}},
        .perm_mac = {{0x52, 0x54, 0, 0, 0, 2}},
        .carrier = true,
        .promiscuity = 1,
        .allmulti = 2,
        .parent_dev = "0000:01:00.0",
        .num_vf = vfs,
    };

    *VEC_PUSH(&l.altnames) = xstrdup("enp1s0-alternative");
    *VEC_PUSH(&l.altnames) = xstrdup("port0");
    for (unsigned i = 0; i < vfs; i++)
        *VEC_PUSH(&l.vfs) = (struct vf_info){
            .index = i,
            .has = ALL_FIELDS,
            .mac = {{0x52, 0x54, 1, 0, (uint8_t)(i >> 8), (uint8_t)i}},
            .vlan_id = (uint16_t)(i * 10 % 4095),
            .vlan_qos = i % 8,
            .vlan_proto = i % 2 ? ETH_P_8021AD : ETH_P_8021Q,
            .spoofchk = i % 3 == 0,
            .trust = i % 3 == 1,
            .rss_query = i % 3 == 2,
            .min_tx_mbps = i,
            .max_tx_mbps = 100 * i,
            .link_state = i % 3,
        };
    return l;
}

static void assert_same_vf(const struct vf_info *a, const struct vf_info *b)
{
    assert_int_equal(a->index, b->index);
    assert_int_equal(a->has, b->has);
    assert_true(mac_equal(&a->mac, &b->mac));
    assert_int_equal(a->vlan_id, b->vlan_id);
    assert_int_equal(a->vlan_qos, b->vlan_qos);
    assert_int_equal(a->vlan_proto, b->vlan_proto);
    assert_int_equal(a->spoofchk, b->spoofchk);
    assert_int_equal(a->trust, b->trust);
    assert_int_equal(a->rss_query, b->rss_query);
    assert_int_equal(a->min_tx_mbps, b->min_tx_mbps);
    assert_int_equal(a->max_tx_mbps, b->max_tx_mbps);
    assert_int_equal(a->link_state, b->link_state);
}

static void assert_same_link(const struct link *a, const struct link *b)
{
    assert_int_equal(a->ifindex, b->ifindex);
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->arp_type, b->arp_type);
    assert_int_equal(a->mtu, b->mtu);
    assert_int_equal(a->min_mtu, b->min_mtu);
    assert_int_equal(a->max_mtu, b->max_mtu);
    assert_int_equal(a->has_mac, b->has_mac);
    assert_int_equal(a->has_perm_mac, b->has_perm_mac);
    assert_true(mac_equal(&a->mac, &b->mac));
    assert_true(mac_equal(&a->perm_mac, &b->perm_mac));
    assert_int_equal(a->carrier, b->carrier);
    assert_int_equal(a->promiscuity, b->promiscuity);
    assert_int_equal(a->allmulti, b->allmulti);
    assert_string_equal(a->parent_dev, b->parent_dev);
    assert_int_equal(a->num_vf, b->num_vf);
    assert_int_equal(a->vfs_truncated, b->vfs_truncated);
    assert_int_equal(a->altnames.n, b->altnames.n);
    for (size_t i = 0; i < a->altnames.n; i++)
        assert_string_equal(a->altnames.v[i], b->altnames.v[i]);
    assert_int_equal(a->vfs.n, b->vfs.n);
    for (size_t i = 0; i < a->vfs.n; i++)
        assert_same_vf(&a->vfs.v[i], &b->vfs.v[i]);
}

/* Parses `m` and frees it. */
static struct link parse(struct nl_msg *m)
{
    _cleanup_err_ struct err e = ERR_INIT;
    struct link l;

    assert_ok(link_parse(nlmsg_hdr(m), &l, &e), &e);
    nlmsg_free(m);
    return l;
}

/* 300 fit the 16 bits of the list's length, 400 don't. */
static void test_read_back(void **state)
{
    static const unsigned counts[] = {0, 1, 7, 300, 400, 1000};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        _cleanup_(link_done) struct link l = make_pf(counts[i]);
        _cleanup_(link_done) struct link back = parse(scripted_link(&l));

        assert_same_link(&l, &back);
    }
}

static void test_settings_that_a_driver_doesnt_report(void **state)
{
    _cleanup_(link_done) struct link l = make_pf(2);

    (void)state;
    l.vfs.v[1].has &= ~(unsigned)(VF_FIELD_SPOOFCHK | VF_FIELD_RSS_QUERY);
    l.vfs.v[1].spoofchk = l.vfs.v[1].rss_query = false;
    _cleanup_(link_done) struct link back = parse(scripted_link(&l));
    assert_same_link(&l, &back);
}

/* ice leaves a VF out while it is being reset: position isn't index. */
static void test_a_vf_left_out(void **state)
{
    _cleanup_(link_done) struct link l = make_pf(4);

    (void)state;
    l.vfs.v[1] = l.vfs.v[3];
    l.vfs.n = 2;
    _cleanup_(link_done) struct link back = parse(scripted_link(&l));
    assert_true(back.vfs_truncated);
    assert_int_equal(back.num_vf, 4);
    assert_int_equal(back.vfs.n, 2);
    assert_int_equal(link_vf(&back, 3)->vlan_id, 30);
    assert_null(link_vf(&back, 1));
    assert_string_equal(back.altnames.v[1], "port0");
}

static void test_a_driver_without_a_list(void **state)
{
    _cleanup_(link_done) struct link l = make_pf(0);

    (void)state;
    l.num_vf = 2;
    _cleanup_(link_done) struct link back = parse(scripted_link(&l));
    assert_true(back.vfs_truncated);
    assert_null(link_vf(&back, 0));
}

static struct nl_msg *plain(const char *name)
{
    const struct ifinfomsg info = {.ifi_index = 5};
    struct nl_msg *m = nlx_msg(RTM_NEWLINK, 0, &info, sizeof(info));

    nlx_put_str(m, IFLA_IFNAME, name);
    return m;
}

static void test_oddities(void **state)
{
    (void)state;
    struct nl_msg *m = plain("ib0");
    nlx_put(m, IFLA_ADDRESS, "01234567890123456789", 20); /* InfiniBand */
    nlx_put_str(m, IFLA_PARENT_DEV_NAME, "a-device-name-of-more-than-31-bytes");
    nlx_put(m, IFLA_MAX + 7, "new", 4);
    _cleanup_(link_done) struct link ib = parse(m);
    assert_false(ib.has_mac);
    assert_string_equal(ib.parent_dev, "");

    m = plain("one");
    nlx_put_u32(m, IFLA_MTU, 1);
    nlx_put_u32(m, IFLA_MTU, 2);
    _cleanup_(link_done) struct link twice = parse(m);
    assert_int_equal(twice.mtu, 1);

    /* IFLA_VF_VLAN alone, as kernels before 4.9 sent it */
    m = plain("old");
    const struct ifla_vf_mac mac = {.vf = 6};
    const struct ifla_vf_vlan vlan = {.vf = 6, .vlan = 12, .qos = 5};
    struct nlattr *list = nlx_nest(m, IFLA_VFINFO_LIST), *vf = nlx_nest(m, IFLA_VF_INFO);
    nlx_put(m, IFLA_VF_MAC, &mac, sizeof(mac));
    nlx_put(m, IFLA_VF_VLAN, &vlan, sizeof(vlan));
    nlx_nest_end(m, vf);
    nlx_nest_end(m, list);
    _cleanup_(link_done) struct link old = parse(m);
    assert_int_equal(link_vf(&old, 6)->vlan_id, 12);
    assert_int_equal(link_vf(&old, 6)->vlan_qos, 5);
    assert_int_equal(link_vf(&old, 6)->vlan_proto, ETH_P_8021Q);
    assert_int_equal(link_vf(&old, 6)->has, VF_FIELD_MAC | VF_FIELD_VLAN);
}

static void put_one(struct nl_msg *m, int outer, int inner, int type, size_t len)
{
    static const char zeros[64];
    struct nlattr *a = nlx_nest(m, outer), *b = inner ? nlx_nest(m, inner) : NULL;

    nlx_put(m, type, zeros, len);
    if (b)
        nlx_nest_end(m, b);
    nlx_nest_end(m, a);
}

static void test_refused(void **state)
{
    static const struct {
        int outer, inner, type;
        size_t len;
    } cases[] = {
        {IFLA_VFINFO_LIST, IFLA_VF_INFO, IFLA_VF_MAC, 35},
        {IFLA_VFINFO_LIST, IFLA_VF_INFO, IFLA_VF_VLAN, 12}, /* of which VF? */
        {IFLA_VFINFO_LIST, IFLA_VF_INFO, IFLA_VF_TRUST, 4},
        {IFLA_PROP_LIST, 0, IFLA_ALT_IFNAME, 0},
        {0, 0, IFLA_MTU, 3},
        {0, 0, IFLA_CARRIER, 0},
        {0, 0, IFLA_PARENT_DEV_NAME, 0},
        {0, 0, IFLA_IFNAME, 17},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        static const char zeros[64];
        const struct ifinfomsg info = {.ifi_index = 5};
        _cleanup_err_ struct err e = ERR_INIT;
        _cleanup_(nlmsg_freep) struct nl_msg *m = nlx_msg(RTM_NEWLINK, 0, &info, sizeof(info));
        struct link l;

        if (cases[i].outer)
            put_one(m, cases[i].outer, cases[i].inner, cases[i].type, cases[i].len);
        else
            nlx_put(m, cases[i].type, zeros, cases[i].len);
        nlx_put_str(m, IFLA_IFNAME, "x");
        assert_int_equal(link_parse(nlmsg_hdr(m), &l, &e), -EBADMSG);
        assert_err_has(&e, "malformed description of an interface");
    }

    const struct ifinfomsg none = {0}, five = {.ifi_index = 5};
    _cleanup_(nlmsg_freep) struct nl_msg *no_index = nlx_msg(RTM_NEWLINK, 0, &none, sizeof(none));
    _cleanup_(nlmsg_freep) struct nl_msg *no_name = nlx_msg(RTM_NEWLINK, 0, &five, sizeof(five));
    _cleanup_(nlmsg_freep) struct nl_msg *other = nlx_msg(RTM_NEWADDR, 0, &five, sizeof(five));
    struct link l;
    nlx_put_str(no_index, IFLA_IFNAME, "x");
    nlx_put_str(other, IFLA_IFNAME, "x");
    assert_int_equal(link_parse(nlmsg_hdr(no_index), &l, NULL), -EBADMSG);
    assert_int_equal(link_parse(nlmsg_hdr(no_name), &l, NULL), -EBADMSG);
    assert_int_equal(link_parse(nlmsg_hdr(other), &l, NULL), -EBADMSG);
}

static bool parses(const struct nlmsghdr *h)
{
    struct link l;
    int r = link_parse(h, &l, NULL);

    if (r == 0)
        link_done(&l);
    else
        assert_int_equal(r, -EBADMSG);
    return r == 0;
}

/* A message cut after each of its bytes, then each of its bytes set to some values. */
static void maltreat(const struct nlmsghdr *h)
{
    static const uint8_t values[] = {0x00, 0x01, 0x04, 0x7f, 0x80, 0xff};
    size_t parsed = 0;

    assert_true(parses(h));
    for (uint32_t len = sizeof(*h); len < h->nlmsg_len; len++) {
        /* allocated to its size, for the sanitizer to watch over */
        struct nlmsghdr *cut = memcpy(xmalloc(len), h, len);

        cut->nlmsg_len = len;
        parsed += parses(cut);
        free(cut);
    }
    /* what is cut between two attributes is a message too, with less in it */
    assert_true(parsed < h->nlmsg_len / 4);
    for (uint32_t at = sizeof(*h); at < h->nlmsg_len; at++)
        for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
            struct nlmsghdr *bad = memcpy(xmalloc(h->nlmsg_len), h, h->nlmsg_len);

            ((uint8_t *)bad)[at] = values[i];
            parses(bad);
            free(bad);
        }
}

static void test_maltreated(void **state)
{
    _cleanup_(link_done) struct link l = make_pf(3);
    _cleanup_(nlmsg_freep) struct nl_msg *m = scripted_link(&l);

    (void)state;
    maltreat(nlmsg_hdr(m));
}

/* The same around the place where the length of a list starts again at 0. */
static void test_maltreated_wrapped_list(void **state)
{
    _cleanup_(link_done) struct link l = make_pf(400);
    _cleanup_(nlmsg_freep) struct nl_msg *m = scripted_link(&l);
    const struct nlmsghdr *h = nlmsg_hdr(m);

    (void)state;
    assert_true(parses(h));
    for (uint32_t len = sizeof(*h); len < h->nlmsg_len; len += 97) {
        struct nlmsghdr *cut = memcpy(xmalloc(len), h, len);

        cut->nlmsg_len = len;
        parses(cut);
        free(cut);
    }
    for (uint32_t at = sizeof(*h); at < 600; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            struct nlmsghdr *bad = memcpy(xmalloc(h->nlmsg_len), h, h->nlmsg_len);

            ((uint8_t *)bad)[at] ^= 1u << bit;
            parses(bad);
            free(bad);
        }
}

static struct nl_msg *load(const char *name)
{
    _cleanup_free_ char *path = xasprintf("%s/netlink/%s.bin", getenv("FIXTURES"), name);
    struct nl_msg *m;

    assert_int_equal(scripted_load(path, &m, 1), 1);
    return m;
}

static const char *const captured[] = {"igb-pf-fresh", "igb-pf-set", "igb-pf-none", "igbvf", "lo"};

static void test_captured(void **state)
{
    static const unsigned all = ALL_FIELDS & ~(unsigned)VF_FIELD_RSS_QUERY;
    static const struct vf_info set[] = {
        {0, all, {{0xf2, 0x65, 0xc6, 0xea, 0x48, 0x1d}}, 100, 3, ETH_P_8021Q, .spoofchk = true},
        {1, all, {{0x52, 0x54, 0x00, 0xab, 0xcd, 0xef}}, 0, 0, ETH_P_8021Q, .spoofchk = true},
        {2, all, {{0xde, 0xa4, 0xcb, 0xa2, 0x04, 0x5f}}, 0, 0, ETH_P_8021Q, true, true},
        {3, all, {{0xfe, 0x3d, 0x4c, 0x1f, 0x03, 0x2f}}, 0, 0, ETH_P_8021Q},
        {4,
         all,
         {{0x82, 0x75, 0xf0, 0xd7, 0xd4, 0x9a}},
         0,
         0,
         ETH_P_8021Q,
         .spoofchk = true,
         .max_tx_mbps = 500},
        {5, all, {{0x7e, 0x53, 0x45, 0x91, 0xf6, 0xdc}}, 9, 0, ETH_P_8021Q, .spoofchk = true},
        {6,
         all,
         {{0x52, 0x54, 0x00, 0xab, 0xcd, 0xee}},
         7,
         1,
         ETH_P_8021Q,
         .trust = true,
         .max_tx_mbps = 100},
    };
    const struct mac pf_mac = {{0x52, 0x54, 0x00, 0x00, 0x01, 0x00}};
    _cleanup_(link_done) struct link pf = parse(load("igb-pf-set"));
    _cleanup_(link_done) struct link fresh = parse(load("igb-pf-fresh"));
    _cleanup_(link_done) struct link none = parse(load("igb-pf-none"));
    _cleanup_(link_done) struct link vf = parse(load("igbvf"));
    _cleanup_(link_done) struct link lo = parse(load("lo"));

    (void)state;
    assert_string_equal(pf.name, "enp1s0");
    assert_int_equal(pf.arp_type, ARPHRD_ETHER);
    assert_int_equal(pf.mtu, 1500);
    assert_int_equal(pf.min_mtu, 68);
    assert_int_equal(pf.max_mtu, 9216);
    assert_true(pf.flags & IFF_UP && pf.carrier);
    assert_string_equal(pf.parent_dev, "0000:01:00.0");
    assert_true(pf.has_mac && mac_equal(&pf.mac, &pf_mac));
    assert_true(pf.has_perm_mac && mac_equal(&pf.perm_mac, &pf_mac));
    assert_false(pf.vfs_truncated);
    assert_int_equal(pf.num_vf, 7);
    assert_int_equal(pf.vfs.n, 7);
    for (size_t i = 0; i < ARRAY_SIZE(set); i++)
        assert_same_vf(&pf.vfs.v[i], &set[i]);

    assert_int_equal(fresh.vfs.n, 7);
    vec_foreach (v, &fresh.vfs)
        assert_true(v->spoofchk && !v->trust && v->vlan_id == 0 && v->max_tx_mbps == 0);
    assert_int_equal(none.num_vf + none.vfs.n, 0);
    assert_string_equal(vf.name, "enp1s0v0");
    assert_string_equal(vf.parent_dev, "0000:01:10.0");
    assert_int_equal(vf.num_vf + vf.vfs.n, 0);
    assert_string_equal(lo.name, "lo");
    assert_string_equal(lo.parent_dev, "");
}

static void test_maltreated_captured(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(captured); i++) {
        _cleanup_(nlmsg_freep) struct nl_msg *m = load(captured[i]);

        maltreat(nlmsg_hdr(m));
    }
}

static void test_get(void **state)
{
    _cleanup_(link_done) struct link pf = make_pf(2);
    const struct script_step steps[] = {
        {.type = RTM_GETLINK,
         .payload = "00000000 05000000 00000000 00000000 0800 1d00 09000000",
         .replies = {scripted_link(&pf)}},
        {.type = RTM_GETLINK,
         .payload = "00000000 00000000 00000000 00000000 0800 1d00 08000000 0800 0300 70663000",
         .replies = {scripted_link(&pf)}},
        {.type = RTM_GETLINK,
         .payload = "00000000 00000000 00000000 00000000 0800 1d00 08000000"
                    "1500 3500 7369787465656e2d6c6574746572732d00 000000",
         .error = -ENODEV},
        {.type = RTM_GETLINK},
    };
    _cleanup_(nl_freep) struct nl_transport *t = scripted_new(steps, ARRAY_SIZE(steps));
    _cleanup_(link_done) struct link a = {0}, b = {0}, untouched = {.ifindex = 99};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    assert_ok(link_get(t, 5, NULL, true, &a, &e), &e);
    assert_same_link(&a, &pf);
    assert_ok(link_get(t, 0, "pf0", false, &b, &e), &e);
    assert_int_equal(link_get(t, 0, "sixteen-letters-", false, &untouched, &e), -ENODEV);
    assert_string_equal(err_text(&e), "reading interface sixteen-letters-: No such device");
    assert_int_equal(link_get(t, 7, NULL, false, &untouched, &e), -EPROTO);
    assert_int_equal(untouched.ifindex, 99);
}

static int count(const struct link *l, void *data, struct err *e)
{
    (void)l;
    if (++*(int *)data == 3)
        return err_set(e, ERR_USER, -ECANCELED, "enough");
    return 0;
}

static void test_list_that_changes(void **state)
{
    _cleanup_(link_done) struct link pf = make_pf(0);
    const struct script_step steps[] = {
        {.type = RTM_GETLINK, .replies = {scripted_link(&pf)}, .error = -EAGAIN},
        {.replies = {scripted_link(&pf), scripted_link(&pf)}}, /* 1st and 2nd call */
        {.replies = {scripted_link(&pf), scripted_link(&pf)}}, /* 3rd, which fails */
        {.error = -EAGAIN},
        {.error = -EAGAIN},
        {.error = -EAGAIN},
        {.error = -EAGAIN},
        {.error = -EAGAIN},
    };
    _cleanup_(nl_freep) struct nl_transport *t = scripted_new(steps, ARRAY_SIZE(steps));
    _cleanup_err_ struct err e = ERR_INIT;
    int calls = 0;

    (void)state;
    assert_ok(link_list(t, count, &calls, &e), &e);
    assert_int_equal(calls, 2);
    assert_int_equal(e.code, 0);
    assert_int_equal(link_list(t, count, &calls, &e), -ECANCELED);
    assert_string_equal(err_text(&e), "enough");
    assert_int_equal(link_list(t, count, &calls, &e), -EAGAIN);
    assert_int_equal(e.kind, ERR_TRANSIENT);
    assert_int_equal(calls, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_back),
        cmocka_unit_test(test_settings_that_a_driver_doesnt_report),
        cmocka_unit_test(test_a_vf_left_out),
        cmocka_unit_test(test_a_driver_without_a_list),
        cmocka_unit_test(test_oddities),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_maltreated),
        cmocka_unit_test(test_maltreated_wrapped_list),
        cmocka_unit_test(test_captured),
        cmocka_unit_test(test_maltreated_captured),
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_list_that_changes),
    };

    return cmocka_run_group_tests_name("parse", tests, NULL, NULL);
}
