/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/hw/hw.h"

#include <errno.h>
#include <stdarg.h>

void hw_fail(const char *file, int line, const char *what, const struct err *e)
{
    printf("not ok - %s:%d: %s%s%s\n", file, line, what, e ? ": " : "", e ? err_text(e) : "");
    fflush(stdout);
    exit(1);
}

int run(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *cmd = xvasprintf(fmt, ap);
    va_end(ap);
    return shell(cmd);
}

void must(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *cmd = xvasprintf(fmt, ap);
    va_end(ap);
    if (shell(cmd) != 0)
        hw_fail(__FILE__, __LINE__, cmd, NULL);
}

static bool take_subject(struct lab *l, const struct pf *pf, struct subject *s)
{
    _cleanup_(vf_state_done) struct vf_state st = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    const struct vf *vf = pf->vfs.n ? &pf->vfs.v[0] : NULL;

    if (!pf->netdev || !vf)
        return false;
    memcpy(s->pf_address, pf->address, sizeof(s->pf_address));
    snprintf(s->pf_name, sizeof(s->pf_name), "%s", pf->netdev);
    CHECK_OK(vf_state_read(&l->hw, pf->address, vf->address, vf->index, &st, &e), &e);
    CHECK(st.home);
    vf_original_from(&st, pf->address, &s->o);
    return true;
}

bool lab_find(struct lab *l)
{
    _cleanup_(inventory_done) struct inventory inv = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)run("ip netns del hw-a 2>/dev/null");
    (void)run("ip netns del hw-b 2>/dev/null");
    CHECK_OK(sysroot_open(lab_root(), &l->root, &e), &e);
    CHECK_OK(nl_open(NETLINK_ROUTE, &l->nl, &e), &e);
    l->hw = (struct hw){.root = &l->root, .nl = l->nl};
    CHECK_OK(inventory_read(&l->root, &inv, &e), &e);
    return inv.pfs.n >= 2 && take_subject(l, &inv.pfs.v[0], &l->a) &&
           take_subject(l, &inv.pfs.v[1], &l->b);
}

struct vf_state state_of(struct lab *l, const struct subject *s)
{
    _cleanup_err_ struct err e = ERR_INIT;
    struct vf_state st = {0};

    CHECK_OK(vf_state_read(&l->hw, s->pf_address, s->o.address, s->o.index, &st, &e), &e);
    return st;
}

int netns_fd(const struct lab *l, const char *netns)
{
    _cleanup_free_ char *path =
        xasprintf("%s/netns/%s", l->on_hardware ? "/run" : lab_root(), netns);
    _cleanup_err_ struct err e = ERR_INIT;
    int fd;

    CHECK_OK(netns_open(path, &fd, &e), &e);
    return fd;
}

void attach(struct lab *l, struct subject *s, const char *netns, unsigned host)
{
    _cleanup_(attach_result_done) struct attach_result res = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_free_ char *address = xasprintf("192.0.2.%u/24", host);
    struct attach_spec spec = {.name = "net1"};

    must("ip netns add %s", netns);
    _cleanup_close_ int fd = netns_fd(l, netns);
    memcpy(spec.vf_address, s->o.address, sizeof(spec.vf_address));
    CHECK(ipnet_parse(address, true, VEC_PUSH(&spec.addrs)) == 0);
    CHECK_OK(vf_attach(&l->hw, fd, &spec, &res, &e), &e);
    CHECK(streq(res.name, "net1"));
    CHECK(!state_of(l, s).home);
    free(spec.addrs.v);
    s->netns = netns;
}

void detach(struct lab *l, struct subject *s)
{
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_close_ int fd = netns_fd(l, s->netns);
    bool moved = false;

    CHECK_OK(vf_detach(&l->hw, fd, s->o.address, s->o.name, &moved, &e), &e);
    CHECK(moved);
    CHECK_OK(vf_detach(&l->hw, fd, s->o.address, s->o.name, &moved, &e), &e);
    CHECK(!moved);
    must("ip netns del %s", s->netns);
    s->netns = NULL;
}

bool reaches(unsigned host, const char *from)
{
    for (unsigned i = 0; i < 30; i++) {
        if (run("ip netns exec %s ping -c1 -W0.5 192.0.2.%u >/dev/null 2>&1", from, host) == 0)
            return true;
    }
    return false;
}

bool is_deaf(unsigned host, const char *from)
{
    return run("ip netns exec %s ping -c3 -i0.3 -W0.5 192.0.2.%u >/dev/null 2>&1", from, host) != 0;
}

void check_original(struct lab *l, const struct subject *s)
{
    struct vf_state st = state_of(l, s);
    _cleanup_(strbuf_done) struct strbuf why = {0};
    const struct vf_original *o = &s->o;

    CHECK(st.home);
    CHECK(streq(st.name, o->name));
    CHECK(mac_equal(&st.mac, &o->mac));
    CHECK(mac_equal(&st.admin.mac, &o->admin_mac));
    CHECK(st.admin.vlan_id == o->vlan_id && st.admin.vlan_qos == o->vlan_qos);
    CHECK(st.admin.spoofchk == o->spoofchk && st.admin.trust == o->trust);
    CHECK(st.admin.max_tx_mbps == o->max_tx_mbps);
    CHECK(st.mtu == o->mtu && st.up == o->up);
    if (vf_state_unclean(&st, &why))
        hw_fail(__FILE__, __LINE__, why.s, NULL);
    vf_state_done(&st);
}

struct killer {
    struct nl_transport t;
    struct nl_transport *inner;
    unsigned left;
    bool after;
};

static int killer_request(struct nl_transport *t, struct nl_msg *msg, nl_reply_fn *fn, void *data,
                          struct err *e)
{
    struct killer *k = container_of(t, struct killer, t);

    if (--k->left == 0 && !k->after)
        _exit(42);
    int r = nl_request(k->inner, msg, fn, data, e);
    if (k->left == 0)
        _exit(42);
    return r;
}

static void killer_free(struct nl_transport *t)
{
    free(container_of(t, struct killer, t));
}

struct nl_transport *killer_new(struct nl_transport *inner, unsigned n, bool after)
{
    static const struct nl_transport_ops ops = {killer_request, killer_free};
    struct killer *k = xnew(struct killer);

    *k = (struct killer){.t = {&ops}, .inner = inner, .left = n, .after = after};
    return &k->t;
}
