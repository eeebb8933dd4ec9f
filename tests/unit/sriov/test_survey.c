/* SPDX-License-Identifier: Apache-2.0 */
#include "sriov/survey.h"

#include "tests/unit/scripted.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdio.h>

#define PFS 2
#define VFS 256 /* of each */

/* A kernel with PFS ports, whose VFs are all here and have one address each; it counts requests. */
struct kernel {
    struct nl_transport transport;
    unsigned links, addrs, pfs, other;
    bool deaf_pf;     /* the second PF can't be read */
    unsigned listed;  /* VFs in a PF's list; the rest is cut */
    unsigned missing; /* of the first PF: this VF's interface isn't here */
};

static int vf_ifindex(unsigned pf, unsigned i)
{
    return (int)(100 + pf * VFS + i);
}

static struct mac mac_at(unsigned pf, unsigned i)
{
    return (struct mac){.b = {2, 0, 0, (uint8_t)pf, (uint8_t)(i >> 8), (uint8_t)i}};
}

static void vf_address(unsigned pf, unsigned i, char *ret, size_t size)
{
    snprintf(ret, size, "0000:%02x:%02x.%x", pf + 1, 16 + i / 8, i % 8);
}

static struct link own(unsigned pf, unsigned i)
{
    struct link l = {.ifindex = vf_ifindex(pf, i),
                     .mtu = 1500,
                     .has_mac = true,
                     .mac = mac_at(pf, i),
                     .promiscuity = i == 3};

    snprintf(l.name, sizeof(l.name), "p%uv%u", pf, i);
    vf_address(pf, i, l.parent_dev, sizeof(l.parent_dev));
    return l;
}

static int give(struct nl_msg *m, nl_reply_fn *fn, void *data, struct err *e)
{
    int r = fn(nlmsg_hdr(m), data, e);

    nlmsg_free(m);
    return r;
}

static int list_links(const struct kernel *k, nl_reply_fn *fn, void *data, struct err *e)
{
    struct link other = {.ifindex = 1, .name = "lo"};
    int r = give(scripted_link(&other), fn, data, e);

    for (unsigned pf = 0; pf < PFS; pf++)
        for (unsigned i = 0; i < VFS && r == 0; i++) {
            struct link l = own(pf, i);

            if (pf == 0 && i == k->missing)
                continue;
            r = give(scripted_link(&l), fn, data, e);
        }
    return r;
}

static int list_addrs(nl_reply_fn *fn, void *data, struct err *e)
{
    struct ipnet global, local;
    int r = 0;

    assert_int_equal(ipnet_parse("192.0.2.1/24", true, &global), 0);
    assert_int_equal(ipnet_parse("fe80::1/64", true, &local), 0);
    for (unsigned i = 0; i < VFS && r == 0; i++) {
        r = give(scripted_addr(vf_ifindex(0, i), &local), fn, data, e);
        if (r == 0 && i == 5)
            r = give(scripted_addr(vf_ifindex(0, i), &global), fn, data, e);
    }
    return r;
}

static int give_pf(const struct kernel *k, unsigned pf, nl_reply_fn *fn, void *data, struct err *e)
{
    struct link l = {.ifindex = (int)pf + 2, .flags = IFF_UP, .mtu = 9000, .num_vf = VFS};

    if (k->deaf_pf && pf == 1)
        return nl_err(e, -EBUSY, "in reset");
    snprintf(l.name, sizeof(l.name), "enp%us0", pf + 1);
    snprintf(l.parent_dev, sizeof(l.parent_dev), "0000:%02x:00.0", pf + 1);
    for (unsigned i = 0; i < k->listed; i++)
        *VEC_PUSH(&l.vfs) = (struct vf_info){
            .index = i, .has = VF_FIELD_MAC | VF_FIELD_VLAN, .mac = mac_at(pf, i), .vlan_id = 100};
    int r = give(scripted_link(&l), fn, data, e);

    free(l.vfs.v);
    return r;
}

static int request(struct nl_transport *t, struct nl_msg *m, nl_reply_fn *fn, void *data,
                   struct err *e)
{
    struct kernel *k = container_of(t, struct kernel, transport);
    const struct nlmsghdr *h = nlmsg_hdr(m);
    bool dump = (h->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;

    if (h->nlmsg_type == RTM_GETLINK && dump) {
        k->links++;
        return list_links(k, fn, data, e);
    }
    if (h->nlmsg_type == RTM_GETADDR && dump) {
        k->addrs++;
        return list_addrs(fn, data, e);
    }
    if (h->nlmsg_type == RTM_GETLINK) {
        const struct nlattr *name =
            nlmsg_find_attr((struct nlmsghdr *)h, sizeof(struct ifinfomsg), IFLA_IFNAME);

        k->pfs++;
        return give_pf(k, name && streq(nla_data(name), "enp2s0"), fn, data, e);
    }
    k->other++;
    return nl_err(e, -EOPNOTSUPP, NULL);
}

static const struct nl_transport_ops ops = {.request = request};

static struct inventory inventory(void)
{
    struct inventory inv = {0};

    for (unsigned pf = 0; pf < PFS; pf++) {
        struct pf *p = VEC_PUSH(&inv.pfs);

        *p = (struct pf){.netdev = xasprintf("enp%us0", pf + 1), .speed_mbps = 1000};
        snprintf(p->address, sizeof(p->address), "0000:%02x:00.0", pf + 1);
        for (unsigned i = 0; i < VFS; i++) {
            struct vf *v = VEC_PUSH(&p->vfs);

            *v = (struct vf){.index = i, .netdev = xasprintf("p%uv%u", pf, i)};
            vf_address(pf, i, v->address, sizeof(v->address));
        }
    }
    return inv;
}

static void read_vf(const struct survey *s, const struct inventory *inv, unsigned pf, unsigned i,
                    struct vf_state *ret)
{
    _cleanup_err_ struct err e = ERR_INIT;
    const struct pf *p = &inv->pfs.v[pf];

    assert_ok(survey_vf(s, inv, p, &p->vfs.v[i], ret, &e), &e);
}

/* The promise about cost: however many VFs, one request for each PF, and two beside. */
static void requests(void **state)
{
    struct kernel k = {.transport.ops = &ops, .listed = VFS, .missing = 7};
    _cleanup_(inventory_done) struct inventory inv = inventory();
    _cleanup_(survey_done) struct survey s = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    assert_ok(survey_take(&k.transport, &inv, &s, &e), &e);
    assert_int_equal(k.links, 1);
    assert_int_equal(k.addrs, 1);
    assert_int_equal(k.pfs, PFS);
    assert_int_equal(k.other, 0);

    for (unsigned pf = 0; pf < PFS; pf++)
        for (unsigned i = 0; i < VFS; i++) {
            _cleanup_(vf_state_done) struct vf_state st = {0};
            struct mac want = mac_at(pf, i);

            read_vf(&s, &inv, pf, i, &st);
            assert_int_equal(st.home, pf != 0 || i != 7);
            assert_int_equal(st.admin.index, i);
            assert_true(mac_equal(&st.admin.mac, &want));
            assert_int_equal(st.pf_mtu, 9000);
            assert_int_equal(st.pf_speed_mbps, 1000);
            assert_int_equal(st.addrs.n, pf == 0 && i == 5 ? 1 : 0);
            if (!st.home)
                continue;
            assert_true(mac_equal(&st.mac, &want));
            assert_int_equal(st.promiscuity, i == 3);
            assert_int_equal(st.ifindex, vf_ifindex(pf, i));
        }
    assert_int_equal(k.links + k.addrs + k.pfs + k.other, 2 + PFS);
}

static void a_pf_that_fails(void **state)
{
    struct kernel k = {.transport.ops = &ops, .listed = VFS, .missing = VFS, .deaf_pf = true};
    _cleanup_(inventory_done) struct inventory inv = inventory();
    _cleanup_(survey_done) struct survey s = {0};
    _cleanup_(vf_state_done) struct vf_state st = {0}, none = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    assert_ok(survey_take(&k.transport, &inv, &s, &e), &e);
    read_vf(&s, &inv, 0, 255, &st);
    assert_int_equal(survey_vf(&s, &inv, &inv.pfs.v[1], &inv.pfs.v[1].vfs.v[0], &none, &e), -EBUSY);
    assert_err_has(&e, "reading VF 0000:02:10.0: PF 0000:02:00.0: ");
    assert_err_has(&e, "in reset");
}

static void a_list_that_was_cut(void **state)
{
    struct kernel k = {.transport.ops = &ops, .listed = 200, .missing = VFS};
    _cleanup_(inventory_done) struct inventory inv = inventory();
    _cleanup_(survey_done) struct survey s = {0};
    _cleanup_(vf_state_done) struct vf_state st = {0}, none = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    assert_ok(survey_take(&k.transport, &inv, &s, &e), &e);
    read_vf(&s, &inv, 0, 199, &st);
    assert_int_equal(survey_vf(&s, &inv, &inv.pfs.v[0], &inv.pfs.v[0].vfs.v[200], &none, &e),
                     -EAGAIN);
    assert_err_has(&e, "reports no VF 200");
}

/* The name was another interface's when it was read: nothing of it may be taken for the PF's. */
static void a_pf_that_was_renamed(void **state)
{
    struct kernel k = {.transport.ops = &ops, .listed = VFS, .missing = VFS};
    _cleanup_(inventory_done) struct inventory inv = inventory();
    _cleanup_(survey_done) struct survey s = {0};
    _cleanup_(vf_state_done) struct vf_state st = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    strcpy(inv.pfs.v[1].netdev, "enp1s0");
    free(inv.pfs.v[0].vfs.v[9].netdev);
    inv.pfs.v[0].vfs.v[9].netdev = xstrdup("old9");
    assert_ok(survey_take(&k.transport, &inv, &s, &e), &e);
    assert_int_equal(survey_vf(&s, &inv, &inv.pfs.v[1], &inv.pfs.v[1].vfs.v[0], &st, &e), -EAGAIN);
    assert_err_has(&e, "interface enp1s0 is 0000:01:00.0 now");
    /* a VF's own interface is found by its device */
    read_vf(&s, &inv, 0, 9, &st);
    assert_true(st.home);
    assert_string_equal(st.name, "p0v9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests),
        cmocka_unit_test(a_pf_that_fails),
        cmocka_unit_test(a_list_that_was_cut),
        cmocka_unit_test(a_pf_that_was_renamed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
