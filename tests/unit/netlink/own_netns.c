/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/netlink/own_netns.h"

#include "netlink/link.h"
#include "netlink/nlx.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sched.h>
#include <stdio.h>

bool own_netns_enter(void)
{
    if (unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0)
        return true;
    printf("1..0 # SKIP no network namespace of our own: %s\n", strerror(errno));
    return false;
}

static int open_own(void)
{
    int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

int own_netns_other(void)
{
    _cleanup_close_ int here = open_own();

    assert_int_equal(unshare(CLONE_NEWNET), 0);
    int other = open_own();
    assert_int_equal(setns(here, CLONE_NEWNET), 0);
    return other;
}

static void request(struct nl_transport *t, struct nl_msg *m)
{
    _cleanup_err_ struct err e = ERR_INIT;

    assert_ok(nl_request(t, m, NULL, NULL, &e), &e);
    nlmsg_free(m);
}

int own_netns_veth(struct nl_transport *t, const char *name, const char *peer)
{
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_(link_done) struct link l = {0};
    const struct ifinfomsg info = {0};
    struct nl_msg *m = nlx_msg(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &info, sizeof(info));

    nlx_put_str(m, IFLA_IFNAME, name);
    struct nlattr *linkinfo = nlx_nest(m, IFLA_LINKINFO);
    nlx_put_str(m, IFLA_INFO_KIND, "veth");
    struct nlattr *data = nlx_nest(m, IFLA_INFO_DATA), *other = nlx_nest(m, VETH_INFO_PEER);
    assert_int_equal(nlmsg_append(m, (void *)&info, sizeof(info), NLMSG_ALIGNTO), 0);
    nlx_put_str(m, IFLA_IFNAME, peer);
    nlx_nest_end(m, other);
    nlx_nest_end(m, data);
    nlx_nest_end(m, linkinfo);
    request(t, m);
    assert_ok(link_get(t, 0, name, false, &l, &e), &e);
    return l.ifindex;
}

void own_netns_delete(struct nl_transport *t, int ifindex)
{
    const struct ifinfomsg info = {.ifi_index = ifindex};

    request(t, nlx_msg(RTM_DELLINK, 0, &info, sizeof(info)));
}

void own_netns_altname(struct nl_transport *t, int ifindex, const char *altname)
{
    const struct ifinfomsg info = {.ifi_index = ifindex};
    struct nl_msg *m =
        nlx_msg(RTM_NEWLINKPROP, NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND, &info, sizeof(info));
    struct nlattr *list = nlx_nest(m, IFLA_PROP_LIST);

    nlx_put_str(m, IFLA_ALT_IFNAME, altname);
    nlx_nest_end(m, list);
    request(t, m);
}
