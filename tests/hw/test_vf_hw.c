/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/hw/hw.h"

#include "sriov/steps.h"

#include <errno.h>
#include <sys/wait.h>
#include <time.h>

static const struct mac mac_a = {{0x52, 0x54, 0x00, 0xab, 0xcd, 0x01}};
static const struct mac mac_b = {{0x52, 0x54, 0x00, 0xab, 0xcd, 0x02}};

static struct vf_settings on_vlan(uint16_t id, const struct mac *mac)
{
    return (struct vf_settings){.set = VF_SET_VLAN | VF_SET_MAC | VF_SET_SPOOFCHK,
                                .mac = *mac,
                                .vlan_id = id,
                                .vlan_qos = 3,
                                .spoofchk = true};
}

static void apply(struct lab *l, const struct subject *s, const struct vf_settings *want)
{
    _cleanup_(vf_state_done) struct vf_state after = {0};
    _cleanup_(strbuf_done) struct strbuf why = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    CHECK_OK(vf_apply(&l->hw, &s->o, want, false, &after, &e), &e);
    CHECK(vf_state_differs(&after, want, &why) == 0);
}

static void restore(struct lab *l, const struct subject *s)
{
    _cleanup_err_ struct err e = ERR_INIT;

    CHECK_OK(vf_restore(&l->hw, &s->o, NULL, &e), &e);
    check_original(l, s);
}

static unsigned steps_to(struct lab *l, const struct subject *s, const struct vf_settings *want)
{
    _cleanup_(vf_plan_done) struct vf_plan p = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    struct vf_state st = state_of(l, s);

    CHECK_OK(vf_plan_apply(&st, want, false, &p, &e), &e);
    vf_state_done(&st);
    return (unsigned)p.steps.n;
}

/* Both sides read back; a second time there is nothing to do; packets only on the same VLAN. */
static void vlans_by_packets(struct lab *l)
{
    struct vf_settings a = on_vlan(100, &mac_a), b = on_vlan(100, &mac_b);

    CHECK(steps_to(l, &l->a, &a) > 0);
    apply(l, &l->a, &a);
    CHECK(steps_to(l, &l->a, &a) == 0);
    apply(l, &l->b, &b);
    attach(l, &l->a, "hw-a", 1);
    attach(l, &l->b, "hw-b", 2);
    CHECK(reaches(2, "hw-a"));

    /* What the pod must not do: the PF keeps the MAC. */
    CHECK(run("ip netns exec hw-a ip link set net1 address 52:54:00:00:00:99 2>/dev/null") != 0);
    CHECK(reaches(2, "hw-a"));

    must("ip link set %s vf %u vlan 200", l->b.pf_name, l->b.o.index);
    CHECK(is_deaf(2, "hw-a"));
    must("ip link set %s vf %u vlan 100 qos 3", l->b.pf_name, l->b.o.index);
    CHECK(reaches(2, "hw-a"));
    detach(l, &l->a);
    detach(l, &l->b);
    restore(l, &l->a);
    restore(l, &l->b);
}

/* After a restore VFs work without any setting, may change their MAC, and can be set again. */
static void usable_after_restore(struct lab *l)
{
    const struct vf_settings next = {.set = VF_SET_MAC, .mac = mac_b};

    attach(l, &l->a, "hw-a", 1);
    attach(l, &l->b, "hw-b", 2);
    CHECK(reaches(2, "hw-a"));
    must("ip netns exec hw-a ip link set net1 address 52:54:00:00:00:99");
    must("ip netns exec hw-a ip neigh flush all; ip netns exec hw-b ip neigh flush all");
    CHECK(reaches(2, "hw-a"));
    detach(l, &l->a);
    restore(l, &l->a);
    apply(l, &l->a, &next);
    attach(l, &l->a, "hw-a", 1);
    CHECK(reaches(2, "hw-a"));
    detach(l, &l->a);
    detach(l, &l->b);
    restore(l, &l->a);
    restore(l, &l->b);
}

/*
 * A MAC set on the PF's side alone: running and deaf. Applying takes the mark off and says so, and
 * what is restored is the administrator's entry with its mark.
 */
static void administrators_mark(struct lab *l)
{
    const struct vf_settings want = {.set = VF_SET_MAC, .mac = mac_a};
    _cleanup_(vf_state_done) struct vf_state after = {0}, found = {0};
    _cleanup_(strbuf_done) struct strbuf why = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    struct vf_original o;

    must("ip link set %s vf %u mac 52:54:00:00:00:77", l->a.pf_name, l->a.o.index);
    found = state_of(l, &l->a);
    CHECK(vf_state_unclean(&found, &why) == 1);
    vf_original_from(&found, l->a.pf_address, &o);
    CHECK_OK(vf_apply(&l->hw, &o, &want, false, &after, &e), &e);
    CHECK(after.had_mark);
    o.admin_marked = after.had_mark;
    attach(l, &l->a, "hw-a", 1);
    attach(l, &l->b, "hw-b", 2);
    CHECK(reaches(2, "hw-a"));
    detach(l, &l->a);
    detach(l, &l->b);
    CHECK_OK(vf_restore(&l->hw, &o, NULL, &e), &e);
    struct vf_state st = state_of(l, &l->a);
    CHECK(mac_equal(&st.mac, &found.mac) && mac_equal(&st.admin.mac, &found.admin.mac));
    CHECK(run("ip link set %s address 52:54:00:00:00:99 2>/dev/null", st.name) != 0);
    vf_state_done(&st);
    restore(l, &l->a);
    CHECK(run("ip link set %s address 52:54:00:00:00:99", l->a.o.name) == 0); /* no mark left */
    restore(l, &l->a);
}

static void be_wild(struct lab *l)
{
    must("ip link set %s vf %u trust on", l->a.pf_name, l->a.o.index);
    must("ip netns exec hw-a ip link set net1 address 52:54:00:00:00:99"); /* trusted: may */
    must("ip netns exec hw-a sh -c 'ip link set net1 promisc on; ip link set net1 allmulticast on;"
         " ip link set net1 mtu 1280; ip link set net1 down; ip link set net1 name wild0;"
         " ip link property add dev wild0 altname %s; ip link set wild0 up'",
         l->a.o.name);
    must("ip netns del hw-a");
    for (unsigned i = 0;; i++) {
        struct vf_state st = state_of(l, &l->a);
        bool home = st.home;
        vf_state_done(&st);
        if (home)
            return;
        CHECK(i < 50);
        must("sleep 0.1");
    }
}

/*
 * The namespace goes with the VF in it, renamed, promiscuous, with another MTU and MAC. The next
 * sandbox of the claim gets the settings and none of that; after the claim all is as it was.
 */
static void wild_pod(struct lab *l)
{
    struct vf_settings want = on_vlan(100, &mac_a), other = on_vlan(100, &mac_b);

    apply(l, &l->a, &want);
    attach(l, &l->a, "hw-a", 1);
    be_wild(l);
    apply(l, &l->a, &want);
    struct vf_state st = state_of(l, &l->a);
    CHECK(streq(st.name, l->a.o.name) && st.mtu == l->a.o.mtu && !st.admin.trust);
    CHECK(vf_state_unclean(&st, &(struct strbuf){0}) == 0);
    vf_state_done(&st);
    apply(l, &l->b, &other);
    attach(l, &l->a, "hw-a", 1);
    attach(l, &l->b, "hw-b", 2);
    CHECK(reaches(2, "hw-a"));
    detach(l, &l->b);
    restore(l, &l->b);
    be_wild(l);
    restore(l, &l->a);
}

/* An altname in the way, an address, and a VF that is up as it was originally. */
static void odd_home(struct lab *l)
{
    struct vf_original kept = l->a.o;

    /* An interface that came home is new to udev, which may name it once more in a moment. */
    (void)run("udevadm settle 2>/dev/null");
    must("ip link set %s name odd0", kept.name);
    (void)run("ip link property add dev odd0 altname %s 2>/dev/null", kept.name); /* or udev did */
    must("ip addr add 192.0.2.9/24 dev odd0; ip -6 addr add 2001:db8::9/64 dev odd0 nodad");
    must("ip link set odd0 up promisc on; ip link set odd0 mtu 1400");
    restore(l, &l->a);

    must("ip link set %s up", kept.name);
    l->a.o.up = true;
    apply(l, &l->a, &(struct vf_settings){.set = VF_SET_MAC, .mac = mac_a});
    restore(l, &l->a);
    must("ip link set %s down", kept.name);
    l->a.o = kept;
    check_original(l, &l->a);
}

static void pf_down(struct lab *l)
{
    struct vf_settings want = on_vlan(100, &mac_a);
    _cleanup_err_ struct err e = ERR_INIT;

    must("ip link set %s down", l->a.pf_name);
    CHECK(vf_apply(&l->hw, &l->a.o, &want, false, NULL, &e) == -ENETDOWN);
    CHECK(e.kind == ERR_USER && strstr(err_text(&e), l->a.pf_name));
    check_original(l, &l->a);
    CHECK_OK(vf_apply(&l->hw, &l->a.o, &want, true, NULL, &e), &e);
    CHECK(state_of(l, &l->a).pf_up);
    restore(l, &l->a);
    attach(l, &l->a, "hw-a", 1);
    attach(l, &l->b, "hw-b", 2);
    CHECK(reaches(2, "hw-a"));
    detach(l, &l->a);
    detach(l, &l->b);
    restore(l, &l->a);
    restore(l, &l->b);
}

/*
 * igb refuses a link state, which the kernel applies after MAC, VLAN, rate and spoof checking: so
 * all of these are in force when the request fails, and have to come off.
 */
static void refused_half_way(struct lab *l)
{
    struct vf_settings want = on_vlan(100, &mac_a);
    _cleanup_(vf_plan_done) struct vf_plan p = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    struct vf_state st = state_of(l, &l->a);

    want.set |= VF_SET_RATE;
    want.max_tx_mbps = 200;
    want.spoofchk = false;
    CHECK_OK(vf_plan_apply(&st, &want, false, &p, &e), &e);
    vec_foreach (step, &p.steps) {
        if (step->kind == VF_STEP_ADMIN)
            step->admin.set |= VF_FIELD_LINK_STATE;
    }
    CHECK(vf_plan_run(&l->hw, &st, &p, &e) == -EOPNOTSUPP);
    vf_state_done(&st);
    check_original(l, &l->a);
    /* No mark left behind: the own side still goes. */
    must("ip link set %s address 52:54:00:00:00:99", l->a.o.name);
    restore(l, &l->a);

    want = (struct vf_settings){
        .set = VF_SET_RATE | VF_SET_VLAN, .vlan_id = 100, .max_tx_mbps = 1000000};
    CHECK(vf_apply(&l->hw, &l->a.o, &want, false, NULL, &e) == -EINVAL);
    CHECK(strstr(err_text(&e), "1000000") && e.kind == ERR_USER);
    check_original(l, &l->a);
}

static int killed_apply(struct lab *l, const struct vf_settings *want, unsigned n, bool after)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct hw hw = {.root = &l->root, .nl = killer_new(l->nl, n, after)};
        _exit(vf_apply(&hw, &l->a.o, want, false, NULL, NULL) < 0 ? 1 : 0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int killed_restore(struct lab *l, unsigned n, bool after)
{
    pid_t pid = fork();

    if (pid == 0) {
        struct hw hw = {.root = &l->root, .nl = killer_new(l->nl, n, after)};
        _exit(vf_restore(&hw, &l->a.o, NULL, NULL) < 0 ? 1 : 0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The process ends at each request of an apply, and of a restore: both ways forward work. */
static void killed_at_each_request(struct lab *l)
{
    struct vf_settings want = on_vlan(100, &mac_a);
    unsigned points = 0;

    want.set |= VF_SET_MTU;
    want.mtu = 1400;
    for (int after = 0; after < 2; after++) {
        int code = 42;
        for (unsigned n = 1; code == 42; n++, points++) {
            code = killed_apply(l, &want, n, after);
            restore(l, &l->a);
        }
        CHECK(code == 0);
        code = 42;
        for (unsigned n = 1; code == 42; n++, points++) {
            CHECK(killed_apply(l, &want, 1000, after) == 0);
            code = killed_restore(l, n, after);
            restore(l, &l->a);
        }
        CHECK(code == 0);
    }
    printf("# killed at %u points\n", points);
}

static void attach_refusals(struct lab *l)
{
    struct attach_spec spec = {.name = "net1"};
    _cleanup_(attach_result_done) struct attach_result res = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    bool in;

    memcpy(spec.vf_address, l->a.o.address, sizeof(spec.vf_address));
    CHECK(ipnet_parse("192.0.2.1/24", true, VEC_PUSH(&spec.addrs)) == 0);
    must("ip netns add hw-a; ip -n hw-a link add net1 type dummy");
    _cleanup_close_ int fd = netns_fd(l, "hw-a"), own = -1;
    CHECK_OK(netns_open("/proc/self/ns/net", &own, &e), &e);
    CHECK(vf_attach(&l->hw, own, &spec, &res, &e) == -EINVAL);
    CHECK(vf_attach(&l->hw, fd, &spec, &res, &e) == -EEXIST);
    check_original(l, &l->a);

    /* Refused when it is in the pod already: an MTU that the driver doesn't take. */
    must("ip -n hw-a link del net1");
    spec.mtu = 60000;
    CHECK(vf_attach(&l->hw, fd, &spec, &res, &e) == -EINVAL);
    check_original(l, &l->a);
    /* A route that can't be. */
    spec.mtu = 1400;
    struct route *r = VEC_PUSH(&spec.routes);
    CHECK(ipnet_parse("203.0.113.0/24", true, &r->to) == 0);
    CHECK(ipnet_parse("198.51.100.1", false, &r->via) == 0);
    r->has_via = true;
    CHECK(vf_attach(&l->hw, fd, &spec, &res, &e) < 0);
    check_original(l, &l->a);

    /* Now right, and a second time the same. */
    CHECK(ipnet_parse("192.0.2.2", false, &r->via) == 0);
    CHECK_OK(vf_attach(&l->hw, fd, &spec, &res, &e), &e);
    CHECK(res.mtu == 1400 && mac_equal(&res.mac, &l->a.o.mac));
    attach_result_done(&res);
    CHECK_OK(vf_attach(&l->hw, fd, &spec, &res, &e), &e);
    must("ip -n hw-a route | grep -q '203.0.113.0/24 via 192.0.2.2 dev net1'");
    attach_result_done(&res);
    CHECK_OK(vf_look_in(fd, l->a.o.address, &in, &res, &e), &e);
    CHECK(in && streq(res.name, "net1") && res.mtu == 1400 && mac_equal(&res.mac, &l->a.o.mac));
    CHECK(res.addrs.n > 0);
    CHECK_OK(vf_look_in(fd, l->b.o.address, &in, NULL, &e), &e);
    CHECK(!in);
    l->a.netns = "hw-a";
    detach(l, &l->a);
    restore(l, &l->a);
    free(spec.addrs.v);
    free(spec.routes.v);
}

/* Home under a name that another interface took meanwhile: home all the same, and it says so. */
static void name_taken_at_home(struct lab *l)
{
    _cleanup_err_ struct err e = ERR_INIT;
    bool moved;

    attach(l, &l->a, "hw-a", 1);
    must("ip link add %s type dummy; ip link add net1 type dummy", l->a.o.name);
    _cleanup_close_ int fd = netns_fd(l, "hw-a");
    CHECK(vf_detach(&l->hw, fd, l->a.o.address, l->a.o.name, &moved, &e) == -EEXIST);
    CHECK(state_of(l, &l->a).home);
    CHECK(vf_restore(&l->hw, &l->a.o, NULL, &e) == -EEXIST);
    must("ip link del %s; ip link del net1; ip netns del hw-a", l->a.o.name);
    restore(l, &l->a);
}

/*
 * VFs made while the PF is down: their entries are zero until they are first up. Taken as the
 * original, that must not be put back so that the VF is deaf.
 */
static void made_while_pf_down(struct lab *l)
{
    struct vf_settings a = on_vlan(100, &mac_a);
    unsigned n = l->a.o.index + 1;

    must("echo 0 >/sys/class/net/%s/device/sriov_numvfs; ip link set %s down; "
         "echo %u >/sys/class/net/%s/device/sriov_numvfs; udevadm settle",
         l->a.pf_name, l->a.pf_name, n, l->a.pf_name);
    nl_free(l->nl);
    sysroot_done(&l->root);
    CHECK(lab_find(l));
    CHECK(mac_is_zero(&l->a.o.admin_mac));
    must("ip link set %s up", l->a.pf_name);
    apply(l, &l->a, &a);
    CHECK(vf_restore(&l->hw, &l->a.o, NULL, NULL) == 0);
    attach(l, &l->a, "hw-a", 1);
    attach(l, &l->b, "hw-b", 2);
    CHECK(reaches(2, "hw-a"));
    detach(l, &l->a);
    detach(l, &l->b);
    CHECK(vf_restore(&l->hw, &l->a.o, NULL, NULL) == 0);
    CHECK(vf_restore(&l->hw, &l->b.o, NULL, NULL) == 0);
}

static double ms_since(const struct timespec *from)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - from->tv_sec) * 1e3 + (double)(now.tv_nsec - from->tv_nsec) / 1e6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

#define ROUNDS 11

/* Medians, for the records; no judgement. */
static void timing(struct lab *l)
{
    struct vf_settings want = on_vlan(100, &mac_a);
    double applied[ROUNDS], restored[ROUNDS], attached[ROUNDS], detached[ROUNDS];

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct attach_spec spec = {.name = "net1"};
        struct attach_result res = {0};
        struct timespec from;
        bool moved;

        must("ip netns add hw-a");
        _cleanup_close_ int fd = netns_fd(l, "hw-a");
        memcpy(spec.vf_address, l->a.o.address, sizeof(spec.vf_address));
        clock_gettime(CLOCK_MONOTONIC, &from);
        apply(l, &l->a, &want);
        applied[i] = ms_since(&from);
        clock_gettime(CLOCK_MONOTONIC, &from);
        CHECK(vf_attach(&l->hw, fd, &spec, &res, NULL) == 0);
        attached[i] = ms_since(&from);
        clock_gettime(CLOCK_MONOTONIC, &from);
        CHECK(vf_detach(&l->hw, fd, l->a.o.address, l->a.o.name, &moved, NULL) == 0);
        detached[i] = ms_since(&from);
        clock_gettime(CLOCK_MONOTONIC, &from);
        CHECK(vf_restore(&l->hw, &l->a.o, NULL, NULL) == 0);
        restored[i] = ms_since(&from);
        attach_result_done(&res);
        must("ip netns del hw-a");
    }
    qsort(applied, ROUNDS, sizeof(*applied), by_value);
    qsort(attached, ROUNDS, sizeof(*attached), by_value);
    qsort(detached, ROUNDS, sizeof(*detached), by_value);
    qsort(restored, ROUNDS, sizeof(*restored), by_value);
    printf("# medians in ms: apply %.2f, attach %.2f, detach %.2f, restore %.2f\n",
           applied[ROUNDS / 2], attached[ROUNDS / 2], detached[ROUNDS / 2], restored[ROUNDS / 2]);
    check_original(l, &l->a);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*fn)(struct lab *l);
    } tests[] = {
        {"vlans_by_packets", vlans_by_packets},
        {"usable_after_restore", usable_after_restore},
        {"administrators_mark", administrators_mark},
        {"wild_pod", wild_pod},
        {"odd_home", odd_home},
        {"refused_half_way", refused_half_way},
        {"killed_at_each_request", killed_at_each_request},
        {"attach_refusals", attach_refusals},
        {"name_taken_at_home", name_taken_at_home},
        {"pf_down", pf_down},
        {"timing", timing},
        {"made_while_pf_down", made_while_pf_down},
    };
    struct lab l = {0};

    setvbuf(stdout, NULL, _IOLBF, 0);
    lab_open(&l);
    if (!lab_find(&l)) {
        puts("1..0 # SKIP no two PFs with VFs here");
        return 77;
    }
    printf("1..%zu\n", ARRAY_SIZE(tests));
    for (size_t i = 0; i < ARRAY_SIZE(tests); i++) {
        bool named = argc > 1 && strstr(tests[i].name, argv[1]);
        bool wanted = l.on_hardware ? tests[i].fn != made_while_pf_down : tests[i].fn != timing;
        if (argc > 1 ? !named : !wanted) {
            printf("ok %zu - %s # SKIP\n", i + 1, tests[i].name);
            continue;
        }
        tests[i].fn(&l);
        printf("ok %zu - %s\n", i + 1, tests[i].name);
    }
    nl_free(l.nl);
    sysroot_done(&l.root);
    lab_close();
    return 0;
}
