/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-attach PF VF-INDEX ROUNDS PAUSE-MS: a VF moved into a network namespace, bare: one message
 * that moves and names it, one address, up, and read back. Prints a JSON array in milliseconds.
 */
#include "sriov/attach.h"
#include "base/clock.h"
#include "base/str.h"
#include "tests/bench/vf.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

struct bench {
    struct hw hw;
    struct nl_transport *pod;
    int host_netns, pod_netns;
    struct vf_original original;
    int ifindex;
};

static int open_namespaces(struct bench *b, struct err *e)
{
    b->host_netns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (b->host_netns < 0 || unshare(CLONE_NEWNET) < 0)
        return err_errno(e, -errno, "a network namespace");
    b->pod_netns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int r = nl_open(NETLINK_ROUTE, &b->pod, e);
    if (setns(b->host_netns, CLONE_NEWNET) < 0)
        return err_errno(e, -errno, "back to the host's network namespace");
    return r < 0 ? r : nl_open(NETLINK_ROUTE, &b->hw.nl, e);
}

static int find_vf(struct bench *b, const char *pf, unsigned index, struct err *e)
{
    _cleanup_(vf_state_done) struct vf_state s = {0};
    int r = bench_find_vf(&b->hw, pf, index, &s, &b->original, e);

    b->ifindex = s.ifindex;
    return r;
}

/* The index stays the VF's: it is taken in the new namespace only if something else has it. */
static int read_back(struct bench *b, int ifindex, struct err *e)
{
    _cleanup_(link_done) struct link l = {0};
    ipnet_vec addrs = {0};
    int r = link_get(b->pod, ifindex, NULL, false, &l, e);

    if (r == 0)
        r = addr_list(b->pod, ifindex, &addrs, e);
    free(addrs.v);
    return r;
}

static int attach(struct bench *b, double *ret_ms, struct err *e)
{
    const struct link_change move = {.ifindex = b->ifindex,
                                     .set = LINK_FIELD_NETNS | LINK_FIELD_NAME,
                                     .name = "net1",
                                     .netns_fd = b->pod_netns};
    const struct link_change up = {
        .ifindex = b->ifindex, .set = LINK_FIELD_UP, .up = true, .netns_fd = -1};
    struct ipnet address;
    int64_t began = clock_mono_us();
    int r = ipnet_parse("192.0.2.99/24", true, &address);

    if (r < 0 || (r = link_change_send(b->hw.nl, &move, e)) < 0 ||
        (r = addr_add(b->pod, b->ifindex, &address, e)) < 0 ||
        (r = link_change_send(b->pod, &up, e)) < 0 || (r = read_back(b, b->ifindex, e)) < 0)
        return r;
    *ret_ms = (double)(clock_mono_us() - began) / 1000;
    return 0;
}

/* Home, and as it was; not measured. */
static int detach(struct bench *b, struct err *e)
{
    bool moved;
    int r = vf_detach_with(&b->hw, b->pod, b->host_netns, b->original.address, b->original.name,
                           &moved, e);

    return r < 0 ? r : vf_restore(&b->hw, &b->original, NULL, e);
}

static int run(struct bench *b, char **argv, json_t *out, struct err *e)
{
    long rounds = strtol(argv[3], NULL, 10), pause = strtol(argv[4], NULL, 10);
    const struct timespec ts = {.tv_sec = pause / 1000, .tv_nsec = pause % 1000 * 1000000L};
    static struct sysroot root;
    int r = sysroot_open("/", &root, e);

    b->hw.root = &root;
    if (r < 0 || (r = open_namespaces(b, e)) < 0 ||
        (r = find_vf(b, argv[1], (unsigned)strtoul(argv[2], NULL, 10), e)) < 0)
        return r;
    for (long i = 0; i < rounds; i++) {
        double ms;

        r = attach(b, &ms, e);
        int undone = detach(b, r < 0 ? NULL : e);
        if (r < 0 || undone < 0)
            return r < 0 ? r : undone;
        json_array_append_new(out, json_real(ms));
        (void)nanosleep(&ts, NULL);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct bench b = {.host_netns = -1, .pod_netns = -1};
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *out = json_array();

    if (argc != 5)
        return 2;
    if (run(&b, argv, out, &e) < 0) {
        fprintf(stderr, "bench-attach: %s\n", err_text(&e));
        return 1;
    }
    json_dumpf(out, stdout, JSON_COMPACT);
    putchar('\n');
    return 0;
}
