/* SPDX-License-Identifier: Apache-2.0 */
#include "sriov/provision.h"

#include "base/clock.h"
#include "sriov/inventory.h"
#include "sriov/pci.h"
#include "sriov/steps.h"

#include <errno.h>
#include <stdio.h>

#define DEVICES       "sys/bus/pci/devices"
#define POLL_MS       50
#define HOME_TRIES    20 /* of POLL_MS: udev gives a new interface its name */
#define PF_NAME_CHARS 64

static int64_t now_ms(void)
{
    return clock_now(clock_system());
}

/* "enp1s0 (0000:01:00.0)", or the address alone. */
static const char *pf_title(const struct sysroot *r, const char *address,
                            char ret[static PF_NAME_CHARS])
{
    _cleanup_free_ char *netdev = NULL;

    if (pci_netdev(r, address, &netdev, NULL) == 0 && netdev)
        snprintf(ret, PF_NAME_CHARS, "%s (%s)", netdev, address);
    else
        snprintf(ret, PF_NAME_CHARS, "%s", address);
    return ret;
}

static int bring_up(const struct hw *hw, const char *pf_address, unsigned carrier_ms, struct err *e)
{
    _cleanup_free_ char *netdev = NULL;
    _cleanup_(link_done) struct link l = {0}, after = {0};
    int64_t end = now_ms() + carrier_ms;

    int r = pci_netdev(hw->root, pf_address, &netdev, e);
    if (r < 0)
        return r;
    if (!netdev)
        return err_set(e, ERR_PERMANENT, -ENODEV, "it has no network interface here");
    r = link_get(hw->nl, 0, netdev, false, &l, e);
    if (r < 0)
        return r;
    const struct link_change up = {
        .ifindex = l.ifindex, .set = LINK_FIELD_UP, .up = true, .netns_fd = -1};
    if (!(l.flags & IFF_UP) && (r = link_change_send(hw->nl, &up, e)) < 0)
        return r;
    for (;;) {
        link_done(&after);
        r = link_get(hw->nl, l.ifindex, NULL, false, &after, e);
        if (r < 0)
            return r;
        if (!(after.flags & IFF_UP))
            return err_set(e, ERR_PERMANENT, -EIO, "accepted, but it is down");
        if (after.carrier || now_ms() >= end)
            return 0;
        clock_pause_ms(POLL_MS);
    }
}

int pf_raise(const struct hw *hw, const char *pf_address, unsigned carrier_ms, struct err *e)
{
    char title[PF_NAME_CHARS];
    int r = bring_up(hw, pf_address, carrier_ms, e);

    if (r < 0)
        return err_prefix(e, r, "bringing PF %s up", pf_title(hw->root, pf_address, title));
    return 0;
}

/* What an errno of a write to sriov_numvfs means, beyond the kernel's words. */
static const char *numvfs_hint(int code)
{
    switch (code) {
    case -ENOMEM:
        return "there is no room for the registers of so many VFs: enable SR-IOV in the firmware's "
               "settings, or boot with pci=realloc";
    case -ENOSPC:
        return "the card has no interrupts or queues for so many VFs: ask for fewer";
    case -EBUSY:
        return "something else makes VFs there, or holds one";
    case -ENOENT:
        return "the PF's driver can't make VFs";
    case -EPERM:
    case -EACCES:
        return "it takes root, and no VF may be assigned to a guest";
    case -EROFS:
        return "sysfs is mounted read-only here; a container has to be privileged";
    }
    return NULL;
}

static int write_count(const struct sysroot *r, const char *pf_address, unsigned count,
                       struct err *e)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", count);
    int k = sysroot_write(r, text, e, DEVICES "/%s/sriov_numvfs", pf_address);
    if (k < 0 && !sysroot_exists(r, DEVICES "/%s/sriov_numvfs", pf_address))
        return err_set(e, ERR_PERMANENT, -ENODEV, "the PF is gone");
    const char *hint = k < 0 ? numvfs_hint(k) : NULL;
    if (hint && e)
        return err_set(e, e->kind, k, "%s; %s", e->msg, hint);
    return k;
}

static int read_count(const struct sysroot *r, const char *pf_address, unsigned *ret, struct err *e)
{
    int64_t n;
    int k = sysroot_read_int(r, &n, e, DEVICES "/%s/sriov_numvfs", pf_address);

    if (k == -ENOENT)
        return err_set(e, ERR_PERMANENT, -ENODEV, "the PF is gone");
    if (k == 0)
        *ret = (unsigned)n;
    return k;
}

/* What VF `index` still lacks, for people; NULL if it is there whole. */
static char *vf_lacks(const struct sysroot *r, const char *pf_address, unsigned index, bool netdev)
{
    _cleanup_free_ char *address = NULL, *name = NULL, *driver = NULL;

    if (sysroot_link_name(r, &address, NULL, DEVICES "/%s/virtfn%u", pf_address, index) < 0)
        return xasprintf("VF %u isn't there", index);
    if (!netdev || (pci_netdev(r, address, &name, NULL) == 0 && name))
        return NULL;
    if (sysroot_link_name(r, &driver, NULL, DEVICES "/%s/driver", address) < 0)
        return xasprintf("VF %u (%s) has no driver: is the module for VFs of this card there?",
                         index, address);
    return xasprintf("VF %u (%s) has no network interface here: its driver is %s", index, address,
                     driver);
}

static int wait_for_vfs(const struct sysroot *r, const char *pf_address, unsigned count,
                        unsigned wait_ms, struct err *e)
{
    int64_t autoprobe = 1, end = now_ms() + wait_ms;

    (void)sysroot_read_int(r, &autoprobe, NULL, DEVICES "/%s/sriov_drivers_autoprobe", pf_address);
    for (unsigned i = 0; i < count;) {
        _cleanup_free_ char *lacks = vf_lacks(r, pf_address, i, autoprobe != 0);

        if (!lacks)
            i++;
        else if (now_ms() >= end)
            return err_set(e, ERR_TRANSIENT, -ETIMEDOUT, "%u s after they were made %s",
                           wait_ms / 1000, lacks);
        else
            clock_pause_ms(POLL_MS);
    }
    return 0;
}

static int make_vfs(const struct sysroot *r, const char *pf_address, unsigned count,
                    unsigned wait_ms, struct err *e)
{
    unsigned before = 0, after = 0;

    int k = read_count(r, pf_address, &before, e);
    if (k < 0)
        return k;
    if (before && before != count && (k = write_count(r, pf_address, 0, e)) < 0)
        return err_prefix(e, k, "the %u VFs that there are can't be removed", before);
    if (before != count && (k = write_count(r, pf_address, count, e)) < 0)
        return before ? err_prefix(e, k, "the %u VFs that there were are removed, and", before) : k;
    if ((k = read_count(r, pf_address, &after, e)) < 0)
        return k;
    if (after != count)
        return err_set(e, ERR_PERMANENT, -EIO, "its driver made %u", after);
    return wait_for_vfs(r, pf_address, count, wait_ms, e);
}

int pf_make_vfs(const struct sysroot *r, const char *pf_address, unsigned count, unsigned wait_ms,
                struct err *e)
{
    char title[PF_NAME_CHARS];
    int k = make_vfs(r, pf_address, count, wait_ms, e);

    if (k < 0)
        return err_prefix(e, k, "making %u VFs on PF %s", count, pf_title(r, pf_address, title));
    return 0;
}

char *netdev_upper(const struct sysroot *r, const char *netdev)
{
    _cleanup_(name_vec_done) name_vec names = {0};

    if (sysroot_list(r, &names, NULL, "sys/class/net/%s", netdev) < 0)
        return NULL;
    vec_foreach (name, &names) {
        const char *upper = str_skip(*name, "upper_");

        if (upper)
            return xstrdup(upper);
    }
    return NULL;
}

char *vf_host_use(const struct vf_state *s, const char *upper)
{
    char text[IPNET_TEXT_SIZE];

    if (upper)
        return xasprintf("%s is on top of it on the host", upper);
    if (s->addrs.n)
        return xasprintf("it has the address %s on the host", ipnet_text(&s->addrs.v[0], text));
    return NULL;
}

static bool is_deaf(const struct vf_state *s)
{
    return s->home && !mac_is_zero(&s->admin.mac) && !mac_equal(&s->admin.mac, &s->mac);
}

/* The settings, and the MAC of a VF whose two sides differ. */
static struct vf_settings whole_wish(const struct vf_state *s, const struct vf_settings *want)
{
    struct vf_settings w = *want;

    if (!(w.set & VF_SET_MAC) && is_deaf(s)) {
        w.set |= VF_SET_MAC;
        w.mac = s->admin.mac;
    }
    return w;
}

static void add_off(vf_difference_vec *out, const char *what)
{
    *VEC_PUSH(out) = (struct vf_difference){.what = what, .is = "on", .want = "off"};
}

void vf_provision_changes(const struct vf_state *s, const struct vf_settings *want,
                          vf_difference_vec *out)
{
    const struct vf_settings w = whole_wish(s, want);

    vf_state_differences(s, &w, out);
    if (s->home && s->promiscuity)
        add_off(out, "promiscuous mode");
    if (s->home && s->allmulti)
        add_off(out, "all multicast");
}

/* A name that sysfs gave may be another by the time of the request. */
static int read_settled(const struct hw *hw, const char *pf_address, const char *vf_address,
                        unsigned index, struct vf_state *ret, struct err *e)
{
    for (unsigned try = 0;; try++) {
        _cleanup_free_ char *netdev = NULL;
        _cleanup_err_ struct err why = ERR_INIT;

        int r = vf_state_read(hw, pf_address, vf_address, index, ret, &why);
        if (r == 0 && !ret->home)
            (void)pci_netdev(hw->root, vf_address, &netdev, NULL);
        bool again = r == -EAGAIN || (r == 0 && netdev);
        if (!again || try == HOME_TRIES)
            return r < 0 ? err_move(e, &why) : 0;
        if (r == 0)
            vf_state_done(ret);
        clock_pause_ms(POLL_MS);
    }
}

/* Nothing is written to what somebody uses, whoever called. */
static int check_free(const struct vf_state *s, const char *upper, struct err *e)
{
    if (!s->home)
        return err_set(e, ERR_TRANSIENT, -EAGAIN,
                       "VF %u (%s) of PF %s: its interface isn't in the host's network namespace, "
                       "or it has no driver",
                       s->admin.index, s->address, s->pf_name);
    _cleanup_free_ char *use = vf_host_use(s, upper);
    if (use)
        return err_set(e, ERR_TRANSIENT, -EBUSY, "VF %u (%s) of PF %s is in use: %s",
                       s->admin.index, s->address, s->pf_name, use);
    return 0;
}

static void add_quiet_step(struct vf_plan *p, const struct vf_state *s)
{
    struct vf_step *st = VEC_PUSH(&p->steps);

    st->kind = VF_STEP_CLEAN;
    st->own =
        (struct link_change){.ifindex = s->ifindex, .set = LINK_FIELD_PROMISC_OFF, .netns_fd = -1};
}

/* What a packet socket holds on (tcpdump) can't be taken off from here. */
static int check_rest(const struct vf_state *s, struct err *e)
{
    _cleanup_(strbuf_done) struct strbuf why = {0};

    if (vf_state_unclean(s, &why) == 0)
        return 0;
    return err_set(e, ERR_TRANSIENT, -EIO, "VF %u (%s) of PF %s: set, but not at rest: %s",
                   s->admin.index, s->address, s->pf_name, why.s);
}

int vf_provision(const struct hw *hw, const char *pf_address, const char *vf_address,
                 unsigned index, const struct vf_settings *want, vf_difference_vec *changed,
                 struct err *e)
{
    _cleanup_(vf_state_done) struct vf_state before = {0}, after = {0};
    _cleanup_(vf_plan_done) struct vf_plan plan = {0};
    _cleanup_free_ char *upper = NULL;
    vf_difference_vec changes = {0};
    struct vf_original o;

    int r = read_settled(hw, pf_address, vf_address, index, &before, e);
    if (r < 0)
        return r;
    if (before.home)
        upper = netdev_upper(hw->root, before.name);
    const struct vf_settings w = whole_wish(&before, want);
    vf_provision_changes(&before, want, &changes);
    size_t n = changes.n;
    if (n)
        r = check_free(&before, upper, e);
    if (n && r == 0) {
        vf_original_from(&before, pf_address, &o);
        bool quiet = before.promiscuity || before.allmulti;

        r = vf_plan_apply(&before, &w, true, &plan, e);
        if (r == 0 && quiet)
            add_quiet_step(&plan, &before);
        if (r == 0)
            r = vf_carry_out(hw, &o, &w, &before, &plan, &after, e);
        if (r == 0)
            r = check_rest(&after, e);
    }
    if (r == 0 && changed)
        vec_foreach (c, &changes)
            *VEC_PUSH(changed) = *c;
    free(changes.v);
    return r < 0 ? r : n > 0;
}
