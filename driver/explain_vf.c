/* SPDX-License-Identifier: Apache-2.0 */
/* A VF: how it is offered, and what the kernel says of it. */
#include "driver/explain.h"

#include <linux/if_ether.h>

void explain_seen_vec_done(explain_seen_vec *v)
{
    vec_foreach (s, v) {
        free(s->device);
        local_vf_done(&s->vf);
    }
    free(v->v);
    *v = (explain_seen_vec){0};
}

/* ---- how it is offered */

const json_t *explain_find_device(const json_t *slices, const char *pool, const char *device,
                                  const json_t **ret_device)
{
    const json_t *best = NULL;
    json_t *slice, *entry;
    size_t i, k;

    json_array_foreach (slices, i, slice) {
        if (!streq_null(json_str_at(slice, "spec.pool.name"), pool) ||
            (best && json_int_at(slice, "spec.pool.generation", 0) <=
                         json_int_at(best, "spec.pool.generation", 0)))
            continue;
        json_array_foreach (json_at(slice, "spec.devices"), k, entry)
            if (streq_null(json_str_at(entry, "name"), device)) {
                best = slice;
                *ret_device = entry;
            }
    }
    return best;
}

static const char *text_of(const struct explain_input *in, const json_t *device, const char *name)
{
    const char *s = json_c_str(live_attribute(device, in->driver, name));

    return s && *s ? s : NULL;
}

static bool true_of(const struct explain_input *in, const json_t *device, const char *name)
{
    return json_is_true(live_attribute(device, in->driver, name));
}

static int64_t number_of(const struct explain_input *in, const json_t *device, const char *name)
{
    const json_t *v = live_attribute(device, in->driver, name);

    return json_is_integer(v) ? json_integer_value(v) : 0;
}

static const char *by_text(const char *by)
{
    if (!by)
        return "nobody knows whom";
    return streq(by, "Driver") ? "the driver" : streq(by, "External") ? "others" : by;
}

static const char *attach_words(const char *attach)
{
    if (!attach)
        return "its slice doesn't say who moves it into the pod";
    if (streq(attach, "NRI"))
        return "the driver moves it into the pod (attach: NRI)";
    if (streq(attach, "CNI"))
        return "a CNI plugin moves it into the pod (attach: CNI)";
    return "nobody moves it into the pod (attach: None)";
}

static void add_promise(struct strbuf *b, const char *fmt, ...) _printf_(2, 3);
static void add_promise(struct strbuf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *text = xvasprintf(fmt, ap);
    va_end(ap);
    strbuf_printf(b, "%s%s", b->len ? ", " : "", text);
}

/* What a preprovisioned VF has, as far as attributes tell. */
static void explain_promise(const struct explain_input *in, const json_t *device,
                            struct explanation *x)
{
    struct strbuf b = {0};
    int64_t vlan = number_of(in, device, "vlan"), mtu = number_of(in, device, "mtu");

    if (vlan)
        add_promise(&b, "VLAN %d", (int)vlan);
    else
        add_promise(&b, "no VLAN");
    if (mtu)
        add_promise(&b, "MTU %d", (int)mtu);
    if (true_of(in, device, "spoofCheck"))
        add_promise(&b, "spoof checking");
    if (true_of(in, device, "trust"))
        add_promise(&b, "trust");
    explain(x, EXPLAIN_DEVICE, "Promised", "Promised, whoever has it: %s.", b.s);
    strbuf_done(&b);
}

static void explain_taints(const json_t *device, struct explanation *x)
{
    json_t *taint;
    size_t n;

    json_array_foreach (json_object_get(device, "taints"), n, taint) {
        const char *key = json_str_at(taint, "key"), *effect = json_str_at(taint, "effect");

        explain(x, EXPLAIN_MISSING, "Tainted",
                "It has the taint %s (%s): no claim gets it that doesn't tolerate that.",
                key ? key : "?", effect ? effect : "?");
    }
}

void explain_offered(const struct explain_input *in, const json_t *slice, const json_t *device,
                     const char *address, struct explanation *x)
{
    const char *name = json_str_at(slice, "metadata.name"), *mode = text_of(in, device, "mode"),
               *pf = text_of(in, device, "pfInterface"),
               *pf_address = text_of(in, device, "pfPciAddress");
    const json_t *list = json_at(slice, "spec.skipNodeOperations");
    _cleanup_free_ char *skip = json_array_size(list) ? json_text(list) : NULL;
    bool verified = true_of(in, device, "verified");

    explain(x, EXPLAIN_DEVICE, "Device",
            "VF %s is VF %d of PF %s (%s): device %s of pool %s, in slice %s.", address,
            (int)number_of(in, device, "vfIndex"), pf ? pf : "without an interface",
            pf_address ? pf_address : "address unknown", json_str_at(device, "name"),
            json_str_at(slice, "spec.pool.name"), name ? name : "?");
    explain(x, EXPLAIN_DEVICE, "Mode", "Mode %s: set up by %s, cleaned up by %s; %s.",
            mode ? mode : "unknown", by_text(text_of(in, device, "setupBy")),
            by_text(text_of(in, device, "cleanupBy")), attach_words(text_of(in, device, "attach")));
    if (streq_null(mode, "Skip"))
        explain_promise(in, device, x);
    if (verified)
        explain(x, EXPLAIN_DEVICE, "Verified", "The driver has verified it.");
    else if (!json_array_size(json_object_get(device, "taints")))
        explain(x, EXPLAIN_DEVICE, "Unverified",
                "Nobody of the driver has verified it (verified: false).");
    explain_taints(device, x);
    if (skip)
        explain(
            x, EXPLAIN_DEVICE, "Listed",
            "Its slice says skipNodeOperations %s: claims that are allocated now take that along.",
            skip);
    else if (mode && !streq(mode, "Prepare") && verified && !true_of(in, device, "skipHonoured"))
        explain(
            x, EXPLAIN_DEVICE, "NotHonoured",
            "Its pool has the list of mode %s, and its slice has none: the API server drops it, "
            "or the node doesn't declare DRAOptionalNodeOperations. Claims are prepared.",
            mode);
}

/* ---- what the kernel says */

const struct local_vf *explain_seen_of(const struct explain_input *in, const char *device)
{
    if (in->seen)
        vec_foreach (s, in->seen)
            if (streq(s->device, device))
                return &s->vf;
    return NULL;
}

static void explain_entry(const struct vf_state *s, struct explanation *x)
{
    const struct vf_info *a = &s->admin;
    struct strbuf b = {0};
    char mac[MAC_TEXT_SIZE];

    strbuf_printf(&b, "MAC %s", mac_text(&a->mac, mac));
    if (a->vlan_id)
        strbuf_printf(&b, ", VLAN %u (qos %u%s)", a->vlan_id, a->vlan_qos,
                      a->vlan_proto == ETH_P_8021AD ? ", 802.1ad" : "");
    else
        strbuf_puts(&b, ", no VLAN");
    if (a->has & VF_FIELD_SPOOFCHK)
        strbuf_printf(&b, ", spoof checking %s", a->spoofchk ? "on" : "off");
    if (a->has & VF_FIELD_TRUST)
        strbuf_printf(&b, ", trust %s", a->trust ? "on" : "off");
    if (a->max_tx_mbps)
        strbuf_printf(&b, ", at most %u Mb/s", a->max_tx_mbps);
    explain(x, EXPLAIN_NOW, "PfEntry", "PF %s lists VF %u with %s.", s->pf_name, a->index, b.s);
    strbuf_done(&b);
    if (!s->pf_up) {
        explain(x, EXPLAIN_MISSING, "PfDown",
                "PF %s is down: settings made meanwhile are void, and no packet passes.",
                s->pf_name);
        explain_next(x, "ip link set %s up", s->pf_name);
    }
}

static void explain_own_side(const struct local_vf *v, struct explanation *x)
{
    const struct vf_state *s = &v->state;
    char mac[MAC_TEXT_SIZE], text[IPNET_TEXT_SIZE];
    struct strbuf addrs = {0};

    if (s->home) {
        explain(
            x, EXPLAIN_NOW, "Home",
            "Its interface is at home, in the host's network namespace: %s, %s, MAC %s, MTU %u.",
            s->name, s->up ? "up" : "down", mac_text(&s->mac, mac), s->mtu);
    } else if (v->place) {
        vec_foreach (a, &v->in_pod.addrs)
            if (!ipnet_is_link_local(a))
                strbuf_printf(&addrs, ", %s", ipnet_text(a, text));
        explain(x, EXPLAIN_NOW, "InPod", "Its interface is %s in %s: MAC %s, MTU %u%s.",
                v->in_pod.name, v->place, mac_text(&v->in_pod.mac, mac), v->in_pod.mtu,
                addrs.len ? addrs.s : "");
    } else {
        explain(x, EXPLAIN_NOW, "Away",
                "Its interface isn't in the host's network namespace, and in none that can be seen "
                "from here: it has no driver, or this isn't root in the host's PID namespace.");
    }
    strbuf_done(&addrs);
}

static bool has_addr(const ipnet_vec *v, const struct ipnet *a)
{
    vec_foreach (it, v)
        if (ipnet_equal(it, a))
            return true;
    return false;
}

/* What was asked of the interface in the pod. */
static void interface_differs(const struct local_vf *v, const struct interface_request *want,
                              struct strbuf *out)
{
    char text[IPNET_TEXT_SIZE];

    if (want->name[0] && !streq(want->name, v->in_pod.name))
        add_promise(out, "name: %s, want %s", v->in_pod.name, want->name);
    vec_foreach (a, &want->addrs)
        if (!has_addr(&v->in_pod.addrs, a))
            add_promise(out, "address %s is missing", ipnet_text(a, text));
}

/* The settings of a record against the kernel's, on both sides, wherever the interface is. */
static void explain_differences(const struct local_vf *v, const struct record_device *d,
                                struct explanation *x)
{
    const struct grant *g = &d->grant;
    struct vf_settings want = g->settings;
    struct vf_state s = v->state; /* what it points to stays v's */
    struct strbuf out = {0};

    /* One that is trusted changes its entry itself, as verify_held() has it. */
    if (s.admin.has & VF_FIELD_TRUST && s.admin.trust)
        want.set &= ~(unsigned)VF_SET_MAC;
    if (v->place) {
        s.home = true; /* its own side is known */
        if (g->interface.mtu) {
            want.set |= VF_SET_MTU;
            want.mtu = g->interface.mtu;
        }
        interface_differs(v, &g->interface, &out);
    }
    (void)vf_state_differs(&s, &want, &out);
    if (s.home && !(want.set & VF_SET_MAC) && !mac_is_zero(&s.admin.mac) &&
        !mac_equal(&s.admin.mac, &s.mac))
        add_promise(&out, "mac: that of the interface isn't the PF's, so no packet passes");
    if (out.len) {
        explain(x, EXPLAIN_MISSING, "Differs", "VF %s isn't as %s: %s.", g->vf_address,
                g->mode == MODE_SKIP ? "its pool promises" : "it was set for this claim", out.s);
        explain_next(x, "ip -d link show dev %s", s.pf_name);
    } else {
        explain(x, EXPLAIN_NOW, "AsAsked", "It is as %s.",
                g->mode == MODE_SKIP ? "its pool promises" : "it was set for this claim");
    }
    strbuf_done(&out);
}

/* Returns NULL if there is nothing that can be compared. */
static const struct local_vf *explain_sides(const struct explain_input *in, const char *device,
                                            const char *address, struct explanation *x)
{
    const struct local_vf *v = explain_seen_of(in, device);

    if (!v)
        return NULL;
    if (v->why) {
        explain(x, EXPLAIN_MISSING, "KernelUnread",
                "What the kernel says of VF %s isn't known: %s.", address, v->why);
        return NULL;
    }
    explain_entry(&v->state, x);
    explain_own_side(v, x);
    return v;
}

void explain_kernel(const struct explain_input *in, const struct record_device *d,
                    const char *device, const char *address, struct explanation *x)
{
    const struct local_vf *v = explain_sides(in, device, address, x);

    if (v && d)
        explain_differences(v, d, x);
}

void explain_not_here(const struct explain_input *in, const char *node, const char *next,
                      struct explanation *x)
{
    explain(x, EXPLAIN_NOW, "NotHere",
            "What the kernel says can be seen on node %s only, by root. This machine is taken for "
            "node %s: --node-name.",
            node, in->this_node);
    explain_next(x, "%s", next);
}

/* ---- one that nobody has */

/*
 * What the slice promises. The QoS of a VLAN and the rate are no attributes, so nothing is said of
 * them.
 */
static struct vf_settings promised(const struct explain_input *in, const json_t *device,
                                   const struct vf_state *s)
{
    struct vf_settings p = {.set = VF_SET_VLAN, .vlan_qos = s->admin.vlan_qos};

    p.vlan_id = (uint16_t)number_of(in, device, "vlan");
    p.mtu = (uint32_t)number_of(in, device, "mtu");
    p.spoofchk = p.trust = true;
    p.set |= p.mtu ? VF_SET_MTU : 0;
    p.set |= true_of(in, device, "spoofCheck") ? VF_SET_SPOOFCHK : 0;
    p.set |= true_of(in, device, "trust") ? VF_SET_TRUST : 0;
    return p;
}

static void explain_rest_state(const struct explain_input *in, const json_t *device,
                               const struct local_vf *v, struct explanation *x)
{
    struct strbuf out = {0};

    if (device && streq_null(text_of(in, device, "mode"), "Skip")) {
        struct vf_settings want = promised(in, device, &v->state);

        (void)vf_state_differs(&v->state, &want, &out);
    }
    (void)vf_state_unclean(&v->state, &out);
    if (out.len)
        explain(x, EXPLAIN_MISSING, "Differs", "As it is it can't be verified: %s.", out.s);
    else
        explain(x, EXPLAIN_NOW, "AtRest",
                "It is at home and at rest, as far as its slice says what it should be.");
    strbuf_done(&out);
}

/* By the node's record alone. */
static void explain_holder(const struct explain_input *in, const char *device, const char *address,
                           struct explanation *x)
{
    _cleanup_free_ char *title = record_title(in->record);

    if (in->slices)
        explain(x, EXPLAIN_DONE, "Record",
                "The API server lists no claim that has it. This node's driver still has it for "
                "claim %s, and puts it back when no pod needs it.",
                title);
    else
        explain(x, EXPLAIN_DONE, "Record", "This node's driver has it for claim %s.", title);
    vec_foreach (d, &in->record->devices)
        if (streq(d->grant.device, device))
            explain_kernel(in, d, device, address, x);
}

void explain_vf(const struct explain_input *in, const char *pool, const char *device,
                const char *address, bool held, struct explanation *x)
{
    const json_t *entry = NULL, *slice = NULL;

    if (in->slices)
        slice = pool ? explain_find_device(in->slices, pool, device, &entry) : NULL;
    if (slice) {
        explain_offered(in, slice, entry, address, x);
    } else if (in->slices) {
        explain(
            x, EXPLAIN_MISSING, "NotOffered",
            "No slice of %s lists VF %s: no VirtualFunctionPool selects it, or the driver isn't "
            "running.",
            in->driver, address);
        explain_next(x, "sriov-dra inventory");
    }
    const struct local_vf *v = NULL;

    if (in->record && !held)
        explain_holder(in, device, address, x);
    else if (!held && in->here)
        v = explain_sides(in, device, address, x);
    if (!held && !in->record && pool)
        explain(x, EXPLAIN_DONE, "Free", "No claim has it.");
    if (v)
        explain_rest_state(in, entry, v, x);
    if (!in->here && !held) {
        _cleanup_free_ char *next = xasprintf("sriov-dra explain vf/%s", address);

        explain_not_here(in, pool ? pool : "?", next, x);
    }
}
