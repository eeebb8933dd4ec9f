/* SPDX-License-Identifier: Apache-2.0 */
/* What the running kernel tells of interfaces that come, change and go. */
#include "base/str.h"
#include "netlink/link.h"
#include "netlink/monitor.h"
#include "netlink/netns.h"
#include "tests/unit/netlink/own_netns.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <sys/socket.h>

static struct loop *loop;
static struct monitor *monitor;
static struct nl_transport *nl;

static struct {
    struct strbuf links, uevents; /* "+5 -5 ", "add:net:/devices/... " */
    unsigned overflows;
} seen;

static void note(const struct monitor_event *ev, void *data)
{
    assert_ptr_equal(data, &seen);
    switch (ev->kind) {
    case MONITOR_LINK:
        strbuf_printf(&seen.links, "%c%d ", ev->gone ? '-' : '+', ev->ifindex);
        break;
    case MONITOR_UEVENT:
        strbuf_printf(&seen.uevents, "%s:%s:%s ", ev->action, ev->subsystem, ev->devpath);
        break;
    case MONITOR_OVERFLOW:
        seen.overflows++;
        break;
    }
}

static int setup(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof(seen));
    strbuf_puts(&seen.links, "");
    strbuf_puts(&seen.uevents, "");
    assert_ok(loop_new(clock_system(), &loop, NULL), NULL);
    assert_ok(nl_open(NETLINK_ROUTE, &nl, NULL), NULL);
    assert_ok(monitor_new(loop, note, &seen, &monitor, NULL), NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    monitor_free(monitor);
    loop_free(loop);
    nl_free(nl);
    strbuf_done(&seen.links);
    strbuf_done(&seen.uevents);
    return 0;
}

/* Runs the loop until `part` was seen, or for good if it never is. */
static void await(const struct strbuf *in, const char *part)
{
    for (int i = 0; i < 500; i++) {
        if (strstr(in->s, part))
            return;
        loop_once(loop, 10, NULL);
    }
    fail_msg("\"%s\" lacks \"%s\"", in->s, part);
}

static void settle(void)
{
    for (int i = 0; i < 5; i++)
        loop_once(loop, 10, NULL);
}

static void test_link_comes_and_goes(void **state)
{
    int a = own_netns_veth(nl, "va", "vb");
    char came[16], went[16];

    (void)state;
    snprintf(came, sizeof(came), "+%d ", a);
    snprintf(went, sizeof(went), "-%d ", a);
    await(&seen.links, came);
    await(&seen.uevents, "add:net:/devices/virtual/net/va ");
    await(&seen.uevents, "add:net:/devices/virtual/net/vb ");
    assert_null(strstr(seen.links.s, went));
    assert_null(strstr(seen.uevents.s, "queues")); /* another subsystem */
    own_netns_delete(nl, a);
    await(&seen.links, went);
    await(&seen.uevents, "remove:net:/devices/virtual/net/va ");
    assert_int_equal(seen.overflows, 0);
}

static void test_change_and_rename(void **state)
{
    int a = own_netns_veth(nl, "va", "vb");
    struct link_change c = {.ifindex = a, .set = LINK_FIELD_MTU, .mtu = 1400, .name = "vc"};
    char changed[16];

    (void)state;
    settle();
    strbuf_done(&seen.links);
    strbuf_puts(&seen.links, "");
    assert_ok(link_change_send(nl, &c, NULL), NULL);
    snprintf(changed, sizeof(changed), "+%d ", a);
    await(&seen.links, changed);
    c.set = LINK_FIELD_NAME;
    assert_ok(link_change_send(nl, &c, NULL), NULL);
    await(&seen.uevents, "move:net:/devices/virtual/net/vc ");
    own_netns_delete(nl, a);
}

static void test_other_namespaces_are_not_ours(void **state)
{
    _cleanup_close_ int other = own_netns_other();
    _cleanup_(nl_freep) struct nl_transport *there = NULL;

    (void)state;
    settle();
    seen.links.len = seen.uevents.len = 0;
    assert_ok(nl_open_in(other, NETLINK_ROUTE, &there, NULL), NULL);
    own_netns_veth(there, "va", "vb");
    settle();
    assert_int_equal(seen.links.len + seen.uevents.len, 0);
}

/* A process that speaks to the kernel's groups isn't the kernel. */
static void test_forged(void **state)
{
    static const struct {
        int protocol;
        uint32_t group;
    } cases[] = {
        {NETLINK_KOBJECT_UEVENT, 1},
        {NETLINK_ROUTE, 1 << (RTNLGRP_LINK - 1)},
    };
    static const char uevent[] = "add@/d\0ACTION=add\0DEVPATH=/d\0SUBSYSTEM=net";
    const struct {
        struct nlmsghdr h;
        struct ifinfomsg info;
    } link = {{.nlmsg_len = sizeof(link), .nlmsg_type = RTM_NEWLINK}, {.ifi_index = 4711}};

    (void)state;
    settle();
    seen.links.len = seen.uevents.len = 0;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, cases[i].protocol);
        const struct sockaddr_nl to = {.nl_family = AF_NETLINK, .nl_groups = cases[i].group};
        const void *data = i ? (const void *)&link : uevent;
        size_t len = i ? sizeof(link) : sizeof(uevent);
        _cleanup_close_ int peer = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, cases[i].protocol);
        char got[256];

        /* Somebody gets it, so that it isn't for want of delivery that we don't. */
        assert_int_equal(bind(peer, (const void *)&to, sizeof(to)), 0);
        (void)!sendto(fd, data, len, 0, (const void *)&to, sizeof(to));
        assert_int_equal(recv(peer, got, sizeof(got), MSG_DONTWAIT), len);
    }
    settle();
    assert_int_equal(seen.links.len + seen.uevents.len, 0);
}

/* More than the receive buffer holds while nobody reads. */
static void test_overflow(void **state)
{
    int a = own_netns_veth(nl, "va", "vb");
    char last[16];

    (void)state;
    settle();
    for (unsigned i = 0; i < 20000 && !seen.overflows; i++) {
        const struct link_change c = {.ifindex = a, .set = LINK_FIELD_MTU, .mtu = 1000 + i % 400};

        assert_ok(link_change_send(nl, &c, NULL), NULL);
        if (i % 2000 == 1999)
            loop_once(loop, 0, NULL);
    }
    assert_int_not_equal(seen.overflows, 0);

    /* and it goes on */
    for (int i = 0; i < 200; i++)
        loop_once(loop, 0, NULL);
    seen.links.len = 0;
    own_netns_delete(nl, a);
    snprintf(last, sizeof(last), "-%d ", a);
    await(&seen.links, last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_link_comes_and_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_change_and_rename, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_namespaces_are_not_ours, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_overflow, setup, teardown),
    };

    return own_netns_enter() ? cmocka_run_group_tests_name("monitor", tests, NULL, NULL) : 0;
}
