/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces, addresses, routes and namespaces of the running kernel. */
#include "base/str.h"
#include "netlink/addr.h"
#include "netlink/link.h"
#include "netlink/netns.h"
#include "tests/unit/netlink/own_netns.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if_arp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct nl_transport *nl;
static int a, b; /* the two ends of a veth pair, "va" and "vb" */

static int setup(void **state)
{
    (void)state;
    assert_ok(nl_open(NETLINK_ROUTE, &nl, NULL), NULL);
    a = own_netns_veth(nl, "va", "vb");
    b = (int)if_nametoindex("vb");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (if_nametoindex("vb")) /* one end takes the other with it */
        own_netns_delete(nl, b);
    nl_free(nl);
    return 0;
}

static struct link get(struct nl_transport *t, int ifindex)
{
    _cleanup_err_ struct err e = ERR_INIT;
    struct link l = {0};

    assert_ok(link_get(t, ifindex, NULL, true, &l, &e), &e);
    return l;
}

static void change(struct link_change c)
{
    _cleanup_err_ struct err e = ERR_INIT;

    assert_ok(link_change_send(nl, &c, &e), &e);
}

static void up(int ifindex)
{
    change((struct link_change){.ifindex = ifindex, .set = LINK_FIELD_UP, .up = true});
}

static void test_get(void **state)
{
    _cleanup_(link_done) struct link l = get(nl, a), named = {0}, none = {.ifindex = 99};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(l.ifindex, a);
    assert_string_equal(l.name, "va");
    assert_int_equal(l.arp_type, ARPHRD_ETHER);
    assert_int_equal(l.mtu, 1500);
    assert_int_equal(l.min_mtu, 68);
    assert_int_equal(l.max_mtu, 65535);
    assert_true(l.has_mac && mac_is_assignable(&l.mac));
    assert_false(l.has_perm_mac || l.carrier || l.flags & IFF_UP);
    assert_int_equal(l.num_vf + l.vfs.n + l.altnames.n, 0);
    assert_string_equal(l.parent_dev, "");
    own_netns_altname(nl, a, "an-alternative-name-above-15");
    assert_ok(link_get(nl, 0, "an-alternative-name-above-15", false, &named, &e), &e);
    assert_int_equal(named.ifindex, a);
    assert_int_equal(named.altnames.n, 1);
    assert_string_equal(named.altnames.v[0], "an-alternative-name-above-15");
    assert_int_equal(link_get(nl, 4711, NULL, false, &none, &e), -ENODEV);
    assert_string_equal(err_text(&e), "reading interface 4711: No such device");
    assert_int_equal(link_get(nl, 0, "nosuch", false, &none, &e), -ENODEV);
    assert_int_equal(none.ifindex, 99);
}

static int note_name(const struct link *l, void *data, struct err *e)
{
    _cleanup_(link_done) struct link again = {0};

    /* the transport may be used meanwhile */
    if (link_get(nl, l->ifindex, NULL, false, &again, e) < 0)
        return -ECANCELED;
    strbuf_printf(data, "%s%s ", l->name, l->altnames.n ? "+" : "");
    return 0;
}

static void test_list(void **state)
{
    struct strbuf names = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    own_netns_altname(nl, a, "other");
    assert_ok(link_list(nl, note_name, &names, &e), &e);
    assert_non_null(strstr(names.s, "lo "));
    assert_non_null(strstr(names.s, "va+ "));
    assert_non_null(strstr(names.s, "vb "));
    strbuf_done(&names);
}

/* More than one datagram of a dump. */
static void test_list_of_many(void **state)
{
    struct strbuf names = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    int made[40];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
        char name[IFNAMSIZ], peer[IFNAMSIZ];

        snprintf(name, sizeof(name), "many%zu", i);
        snprintf(peer, sizeof(peer), "mate%zu", i);
        made[i] = own_netns_veth(nl, name, peer);
    }
    assert_ok(link_list(nl, note_name, &names, &e), &e);
    for (size_t i = 0; i < ARRAY_SIZE(made); i++) {
        char name[IFNAMSIZ + 1];

        snprintf(name, sizeof(name), "mate%zu ", i);
        assert_non_null(strstr(names.s, name));
        own_netns_delete(nl, made[i]);
    }
    strbuf_done(&names);
}

static void test_change(void **state)
{
    const struct mac mac = {{0x52, 0x54, 0, 1, 2, 3}};

    (void)state;
    change((struct link_change){.ifindex = a,
                                .set = LINK_FIELD_MAC | LINK_FIELD_MTU | LINK_FIELD_NAME |
                                       LINK_FIELD_UP,
                                .mac = mac,
                                .mtu = 9000,
                                .name = "fifteen-letters",
                                .up = true});
    up(b);
    _cleanup_(link_done) struct link l = get(nl, a);
    assert_string_equal(l.name, "fifteen-letters");
    assert_int_equal(l.mtu, 9000);
    assert_true(mac_equal(&l.mac, &mac));
    assert_true(l.flags & IFF_UP && l.carrier);
    change((struct link_change){.ifindex = a, .set = LINK_FIELD_UP});
    link_done(&l);
    l = get(nl, a);
    assert_false(l.flags & IFF_UP || l.carrier);
    assert_int_equal(l.mtu, 9000);
}

static void test_promiscuous(void **state)
{
    struct nl_transport *t = nl;
    struct ifreq ifr = {.ifr_name = "va", .ifr_flags = IFF_PROMISC | IFF_ALLMULTI};
    _cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    (void)state;
    assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &ifr), 0);
    _cleanup_(link_done) struct link l = get(t, a);
    assert_int_equal(l.promiscuity, 1);
    assert_int_equal(l.allmulti, 1);
    up(a);
    change((struct link_change){.ifindex = a, .set = LINK_FIELD_PROMISC_OFF});
    link_done(&l);
    l = get(t, a);
    assert_int_equal(l.promiscuity + l.allmulti, 0);
    assert_true(l.flags & IFF_UP);
}

/* What the kernel explains gets to the user. */
static void test_refused(void **state)
{
    static const struct {
        struct link_change change;
        int code;
        const char *text, *why; /* `why`: the extended ACK's, of recent kernels */
    } cases[] = {
        {{.set = LINK_FIELD_MTU, .mtu = 67},
         -EINVAL,
         "MTU 67: Invalid argument",
         "mtu less than device minimum"},
        {{.set = LINK_FIELD_MTU, .mtu = 70000},
         -EINVAL,
         "MTU 70000: Invalid argument",
         "mtu greater than device maximum"},
        {{.set = LINK_FIELD_NAME, .name = "vb"}, -EEXIST, "name vb: File exists", NULL},
        {{.set = LINK_FIELD_NAME, .name = "a/b"}, -EINVAL, "name a/b: Invalid argument", NULL},
        {{.set = LINK_FIELD_MAC, .mac = {{1}}},
         -EADDRNOTAVAIL,
         "MAC 01:00:00:00:00:00: Cannot assign requested address",
         NULL},
        {{.set = LINK_FIELD_NETNS, .netns_fd = 0},
         -EINVAL,
         "another network namespace: Invalid argument",
         NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        struct link_change c = cases[i].change;

        c.ifindex = a;
        assert_int_equal(link_change_send(nl, &c, &e), cases[i].code);
        assert_err_has(&e, cases[i].text);
        if (cases[i].why)
            assert_err_has(&e, cases[i].why);
    }

    _cleanup_err_ struct err e = ERR_INIT;
    const struct vf_change trust = {.set = VF_FIELD_TRUST, .trust = true};
    assert_int_equal(vf_change_send(nl, a, &trust, &e), -EOPNOTSUPP); /* veth has no VFs */
    assert_err_has(&e, "setting VF 0 of interface ");
    assert_err_has(&e, ", trust on: Operation not supported");
}

static void test_altname(void **state)
{
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    own_netns_altname(nl, a, "first");
    own_netns_altname(nl, a, "second");
    assert_ok(link_altname_remove(nl, a, "first", &e), &e);
    _cleanup_(link_done) struct link l = get(nl, a);
    assert_int_equal(l.altnames.n, 1);
    assert_string_equal(l.altnames.v[0], "second");
    assert_int_equal(link_altname_remove(nl, a, "first", &e), -ENOENT);
}

static struct ipnet net(const char *text)
{
    struct ipnet n = {0};

    assert_int_equal(ipnet_parse(text, false, &n), 0);
    return n;
}

static bool has_address(struct nl_transport *t, int ifindex, const char *text)
{
    _cleanup_err_ struct err e = ERR_INIT;
    struct ipnet want = net(text);
    ipnet_vec all = {0};
    bool found = false;

    assert_ok(addr_list(t, ifindex, &all, &e), &e);
    vec_foreach (n, &all)
        found = found || ipnet_equal(n, &want);
    free(all.v);
    return found;
}

static void test_addresses(void **state)
{
    static const char *const texts[] = {"192.0.2.10/24", "198.51.100.1/32", "2001:db8::1/64"};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct ipnet n = net(texts[i]);

        assert_false(has_address(nl, a, texts[i]));
        assert_ok(addr_add(nl, a, &n, &e), &e);
        assert_true(has_address(nl, a, texts[i]));
        assert_false(has_address(nl, b, texts[i]));
        assert_ok(addr_add(nl, a, &n, &e), &e); /* again */
    }
    struct ipnet other = net("2001:db8::1/96");
    assert_int_equal(addr_add(nl, a, &other, &e), -EEXIST);
    assert_err_has(&e, "adding address 2001:db8::1/96 to interface ");
    assert_int_equal(addr_add(nl, 4711, &other, &e), -ENODEV);
    up(a);
    up(b);
    assert_true(has_address(nl, a, "2001:db8::1/64"));
    ipnet_vec all = {0};
    assert_int_equal(addr_list(nl, 4711, &all, &e), -ENODEV);
    assert_err_has(&e, "listing addresses of interface 4711: ");
}

/* An address that still awaits its test of uniqueness can't be bound to. */
static void test_ipv6_address_is_usable_at_once(void **state)
{
    struct sockaddr_in6 sin6 = {.sin6_family = AF_INET6};
    _cleanup_close_ int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ipnet n = net("2001:db8::2/64");
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    if (fd < 0)
        skip();
    up(a);
    up(b);
    assert_ok(addr_add(nl, a, &n, &e), &e);
    memcpy(&sin6.sin6_addr, n.b, sizeof(n.b));
    assert_int_equal(bind(fd, (void *)&sin6, sizeof(sin6)), 0);
}

static void test_routes(void **state)
{
    static const struct {
        const char *to, *via;
        uint32_t metric, table;
        int code;
    } cases[] = {
        {"198.51.100.0/24", "192.0.2.1", 0, 0, 0},
        {"198.51.100.0/24", "192.0.2.1", 0, 0, 0}, /* again */
        {"198.51.100.0/24", "192.0.2.2", 0, 0, -EEXIST},
        {"198.51.100.0/24", NULL, 0, 0, -EEXIST},
        {"198.51.100.0/24", "192.0.2.2", 7, 0, 0},
        {"198.51.100.0/24", "192.0.2.2", 7, 1000, 0},
        {"198.51.100.0/24", "192.0.2.2", 7, 1000, 0},
        {"198.51.100.0/24", "192.0.2.1", 7, 1000, -EEXIST},
        /* another metric's, another table's */
        {"198.51.100.0/24", "192.0.2.2", 0, 0, -EEXIST},
        {"198.51.100.0/24", "192.0.2.1", 9, 1000, 0},
        {"198.51.100.0/24", "192.0.2.2", 9, 0, 0},
        {"198.51.100.0/24", "192.0.2.1", 9, 0, -EEXIST},
        {"203.0.113.0/24", NULL, 0, 0, 0},
        {"203.0.113.0/24", NULL, 0, 0, 0},
        {"0.0.0.0/0", "192.0.2.1", 0, 0, 0},
        {"0.0.0.0/0", "192.0.2.1", 0, 0, 0},
        {"0.0.0.0/0", "192.0.2.3", 0, 0, -EEXIST},
        {"198.51.100.1/24", "192.0.2.1", 0, 0, -EINVAL},        /* host bits */
        {"198.51.200.0/24", "192.168.9.1", 0, 0, -ENETUNREACH}, /* a gateway nobody can reach */
        {"2001:db8:1::/64", "2001:db8::99", 0, 0, 0},
        {"2001:db8:1::/64", "2001:db8::99", 0, 0, 0},
        {"2001:db8:1::/64", "2001:db8::99", 1024, 0, 0}, /* 0 is 1024 */
        {"2001:db8:1::/64", "2001:db8::98", 0, 0, -EEXIST},
        {"2001:db8:2::/64", NULL, 0, 0, 0},
        {"2001:db8:2::/64", NULL, 0, 0, 0},
        {"::/0", "2001:db8::99", 5, 0, 0},
        {"::/0", "2001:db8::99", 5, 0, 0},
        {"10.0.0.0/8", "2001:db8::99", 0, 0, 0}, /* IPv4 by way of IPv6 */
        {"10.0.0.0/8", "2001:db8::99", 0, 0, 0},
        {"10.0.0.0/8", "2001:db8::98", 0, 0, -EEXIST},
        {"10.0.0.0/8", "192.0.2.1", 0, 0, -EEXIST},
    };
    struct ipnet v4 = net("192.0.2.10/24"), v6 = net("2001:db8::1/64");
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    up(a);
    up(b);
    assert_ok(addr_add(nl, a, &v4, &e), &e);
    assert_ok(addr_add(nl, a, &v6, &e), &e);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct route r = {.to = net(cases[i].to),
                          .has_via = cases[i].via,
                          .metric = cases[i].metric,
                          .table = cases[i].table};

        if (cases[i].via)
            r.via = net(cases[i].via);
        int code = route_add(nl, a, &r, &e);
        if (code != cases[i].code)
            fail_msg("route %zu to %s: %d, %s", i, cases[i].to, code, err_text(&e));
    }
    struct route r = {.to = net("198.51.100.0/24"), .has_via = true, .via = net("192.0.2.9")};
    assert_int_equal(route_add(nl, a, &r, &e), -EEXIST);
    assert_err_has(&e, "adding a route to 198.51.100.0/24 via 192.0.2.9 through interface ");
    assert_int_equal(route_add(nl, b, &r, &e), -ENETUNREACH);
}

static void test_move(void **state)
{
    _cleanup_close_ int other = own_netns_other();
    _cleanup_(nl_freep) struct nl_transport *there = NULL;
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_(link_done) struct link l = {0}, none = {0};

    (void)state;
    assert_ok(nl_open_in(other, NETLINK_ROUTE, &there, &e), &e);
    assert_int_equal(link_get(there, 0, "va", false, &none, &e), -ENODEV);
    change((struct link_change){.ifindex = a,
                                .set = LINK_FIELD_NETNS | LINK_FIELD_NAME,
                                .netns_fd = other,
                                .name = "net1"});
    assert_int_equal(link_get(nl, a, NULL, false, &none, &e), -ENODEV);
    assert_ok(link_get(there, 0, "net1", false, &l, &e), &e);

    /* The new namespace is another one for the peer, which stayed. */
    const struct link_change on = {.ifindex = l.ifindex, .set = LINK_FIELD_UP, .up = true};
    assert_ok(link_change_send(there, &on, &e), &e);
    up(b);
    link_done(&l);
    assert_ok(link_get(there, 0, "net1", false, &l, &e), &e);
    assert_true(l.carrier);
}

/*
 * do_setlink() moves before it renames. This is what link_change's description says and what
 * attaching has to cope with.
 */
static void test_move_to_a_name_that_is_taken(void **state)
{
    _cleanup_close_ int other = own_netns_other();
    _cleanup_(nl_freep) struct nl_transport *there = NULL;
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_(link_done) struct link l = {0};
    const struct link_change move = {
        .ifindex = a, .set = LINK_FIELD_NETNS | LINK_FIELD_NAME, .netns_fd = other, .name = "net1"};

    (void)state;
    assert_ok(nl_open_in(other, NETLINK_ROUTE, &there, &e), &e);
    own_netns_veth(there, "net1", "x");
    own_netns_veth(there, "va", "y");
    assert_int_equal(link_change_send(nl, &move, &e), -EEXIST);
    l = get(nl, a); /* both names are taken there: it stayed */

    link_done(&l);
    assert_ok(link_get(there, 0, "va", false, &l, &e), &e);
    own_netns_delete(there, l.ifindex);
    assert_int_equal(link_change_send(nl, &move, &e), -EEXIST);
    link_done(&l);
    assert_ok(link_get(there, 0, "va", false, &l, &e), &e); /* only the new one is: it moved */
    assert_int_equal(link_get(nl, a, NULL, false, &l, &e), -ENODEV);
}

static void test_netns(void **state)
{
    _cleanup_close_ int other = own_netns_other(), fd = -1;
    _cleanup_err_ struct err e = ERR_INIT;
    struct netns_id id, id2;
    bool own = false;

    (void)state;
    assert_ok(netns_open("/proc/self/ns/net", &fd, &e), &e);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_ok(netns_is_own(fd, &own, &e), &e);
    assert_true(own);
    assert_ok(netns_is_own(other, &own, &e), &e);
    assert_false(own);
    assert_ok(netns_identify(fd, &id, &e), &e);
    assert_ok(netns_identify(other, &id2, &e), &e);
    assert_int_equal(id.dev, id2.dev);
    assert_int_not_equal(id.ino, id2.ino);
    assert_int_equal(netns_identify(-1, &id, &e), -EBADF);
}

static void test_netns_that_is_none(void **state)
{
    char dir[] = "/tmp/netns-XXXXXX", file[64], fifo[64], gone[64], dead[64];
    static const struct {
        int path;
        int code;
        const char *text;
    } cases[] = {
        {0, -EINVAL, "mount propagation HostToContainer"},
        {1, -EINVAL, "no namespace at all"},
        {2, -ENOENT, "No such file or directory"},
        {3, -EINVAL, "no namespace at all"},
        {4, -EINVAL, "a namespace of another kind"},
        {5, -ENOENT, "No such file or directory"},
    };
    const char *const paths[] = {file, fifo, gone, dir, "/proc/self/ns/uts", dead};

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(file, sizeof(file), "%s/file", dir);
    snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
    snprintf(gone, sizeof(gone), "%s/gone", dir);
    close(open(file, O_CREAT | O_CLOEXEC, 0600));
    assert_int_equal(mkfifo(fifo, 0600), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t info;
    waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT); /* a zombie has no namespaces */
    snprintf(dead, sizeof(dead), "/proc/%d/ns/net", child);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        int fd = -1;

        assert_int_equal(netns_open(paths[cases[i].path], &fd, &e), cases[i].code);
        assert_int_equal(fd, -1);
        assert_err_has(&e, cases[i].text);
        assert_err_has(&e, paths[cases[i].path]);
    }
    waitpid(child, NULL, 0);
    unlink(file);
    unlink(fifo);
    rmdir(dir);
}

static void test_open_in(void **state)
{
    _cleanup_close_ int other = own_netns_other();
    _cleanup_(nl_freep) struct nl_transport *there = NULL, *none = NULL;
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_(link_done) struct link l = {0};
    sigset_t before, after;

    (void)state;
    sigemptyset(&before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_ok(nl_open_in(other, NETLINK_ROUTE, &there, &e), &e);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int signo = 1; signo < 32; signo++)
        assert_int_equal(sigismember(&before, signo), sigismember(&after, signo));
    assert_int_equal(link_get(there, 0, "va", false, &l, &e), -ENODEV);
    l = get(nl, a); /* this thread stayed */
    assert_int_equal(nl_open_in(-1, NETLINK_ROUTE, &none, &e), -EBADF);
    assert_err_has(&e, "entering a network namespace: ");
    assert_null(none);
}

static void test_protocol_that_is_none(void **state)
{
    struct nl_transport *t = NULL;
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(nl_open(31, &t, &e), -EPROTONOSUPPORT);
    assert_err_has(&e, "netlink socket of protocol 31: ");
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_get, setup, teardown),
        cmocka_unit_test_setup_teardown(test_list, setup, teardown),
        cmocka_unit_test_setup_teardown(test_list_of_many, setup, teardown),
        cmocka_unit_test_setup_teardown(test_change, setup, teardown),
        cmocka_unit_test_setup_teardown(test_promiscuous, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_altname, setup, teardown),
        cmocka_unit_test_setup_teardown(test_addresses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ipv6_address_is_usable_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_routes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_move, setup, teardown),
        cmocka_unit_test_setup_teardown(test_move_to_a_name_that_is_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(test_netns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_netns_that_is_none, setup, teardown),
        cmocka_unit_test_setup_teardown(test_open_in, setup, teardown),
        cmocka_unit_test(test_protocol_that_is_none),
    };

    return own_netns_enter() ? cmocka_run_group_tests_name("kernel", tests, NULL, NULL) : 0;
}
