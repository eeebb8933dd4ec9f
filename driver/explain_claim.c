/* SPDX-License-Identifier: Apache-2.0 */
/* A claim: what it was given, who is called, what was done, how it ends. */
#include "driver/explain.h"

/* A claim under explanation, and how it was read. */
struct subject {
    const struct explain_input *in;
    struct explanation *x;
    struct live_claim live;
    struct live_index index; /* over `one` */
    live_claim_vec one;      /* borrows `live` */
    const char *namespace, *name;
};

/* ---- what it was given */

static void explain_devices(struct subject *s)
{
    const struct explain_input *in = s->in;
    size_t all = json_array_size(json_at(in->claim, "status.allocation.devices.results"));

    vec_foreach (d, &s->live.devices) {
        const json_t *entry = NULL, *slice;
        char address[PCI_ADDRESS_SIZE];

        if (!in->slices)
            continue;
        slice = explain_find_device(in->slices, d->pool, d->device, &entry);
        if (slice) {
            explain_offered(in, slice, entry, explain_address(d->device, address), s->x);
            continue;
        }
        explain(s->x, EXPLAIN_MISSING, "DeviceGone",
                "No slice lists device %s of pool %s any more: the VF is gone, its pool was "
                "withdrawn, or the driver has been away for more than 30 s.",
                d->device, d->pool);
        explain_next(s->x, "kubectl get resourceslices --field-selector spec.driver=%s",
                     in->driver);
    }
    if (all > s->live.devices.n)
        explain(s->x, EXPLAIN_DEVICE, "OtherDrivers",
                "%zu more device%s of it %s of other drivers.", all - s->live.devices.n,
                explain_plural(all - s->live.devices.n),
                all - s->live.devices.n == 1 ? "is" : "are");
}

/* ---- what the kubelet does */

static const char *calls_text(const struct live_claim *c)
{
    if (c->calls_prepare && c->calls_unprepare)
        return "the kubelet calls NodePrepareResources before the pod starts, and "
               "NodeUnprepareResources when it is gone";
    if (c->calls_prepare)
        return "the kubelet calls NodePrepareResources before the pod starts, and nobody when it "
               "is gone";
    if (c->calls_unprepare)
        return "the kubelet calls nobody before the pod starts, and NodeUnprepareResources when it "
               "is gone";
    return "the kubelet calls nobody";
}

static bool same_lists(const struct live_claim *c)
{
    vec_foreach (d, &c->devices)
        if (!json_equal(d->skip, c->devices.v[0].skip) && (d->skip || c->devices.v[0].skip))
            return false;
    return true;
}

static void explain_copy(struct subject *s)
{
    const struct live_claim *c = &s->live;
    _cleanup_free_ char *list = c->devices.v[0].skip ? json_text(c->devices.v[0].skip) : NULL;
    _cleanup_free_ char *modes = live_claim_mode_text(c);

    if (!same_lists(c))
        explain(s->x, EXPLAIN_CALLS, "Copy",
                "Its devices were allocated with different lists (%s). The kubelet leaves a call "
                "out only where all of the driver's devices in the claim do, so %s, for all of "
                "them.",
                modes, calls_text(c));
    else
        explain(s->x, EXPLAIN_CALLS, "Copy",
                "The claim's own copy of skipNodeOperations, frozen when it was allocated, is %s: "
                "%s.",
                list ? list : "empty", calls_text(c));
    vec_foreach (d, &c->devices)
        if (d->frozen == FROZEN_OTHER) {
            _cleanup_free_ char *text = json_text(d->skip);

            explain(s->x, EXPLAIN_CALLS, "UnknownValue",
                    "The list %s of device %s isn't one of the modes'. A value that the kubelet "
                    "doesn't know leaves nothing out.",
                    text, d->device);
        }
}

static void explain_node_gate(struct subject *s)
{
    const struct live_claim *c = &s->live;
    bool listed = live_asks_node(c);

    if (!s->in->node)
        return;
    if (live_node_declares(s->in->node)) {
        explain(s->x, EXPLAIN_CALLS, "NodeDeclares",
                "Node %s declares DRAOptionalNodeOperations: its kubelet honours such lists.",
                c->node);
    } else if (listed) {
        explain(s->x, EXPLAIN_MISSING, "NodeSilent",
                "Node %s doesn't declare DRAOptionalNodeOperations, and the claim has a list: a "
                "kubelet of 1.37 whose gate is off starts no pod with it, an older one makes the "
                "calls in spite of it.",
                c->node);
        explain_next(s->x, "kubectl get node %s -o jsonpath='{.status.declaredFeatures}'", c->node);
    } else {
        explain(s->x, EXPLAIN_CALLS, "NodeSilent",
                "Node %s doesn't declare DRAOptionalNodeOperations: there every claim is prepared.",
                c->node);
    }
}

/* The slices as they are published, where they say something else than the claim. */
static void explain_changed_list(struct subject *s)
{
    vec_foreach (d, &s->live.devices) {
        const json_t *entry = NULL;
        const json_t *slice = explain_find_device(s->in->slices, d->pool, d->device, &entry);
        bool listed = json_array_size(json_at(slice, "spec.skipNodeOperations"));

        if (!slice || listed == !!d->skip)
            continue;
        if (listed)
            explain(s->x, EXPLAIN_CALLS, "CopyLacks",
                    "The slice of device %s has a list, and the claim has no copy of it: it was "
                    "allocated before the list was there, or by a scheduler whose gate "
                    "DRAOptionalNodeOperations is off. What the claim says holds.",
                    d->device);
        else
            explain(s->x, EXPLAIN_CALLS, "ListGone",
                    "The slice of device %s has no list any more. What the claim says holds: it "
                    "ends as it began.",
                    d->device);
    }
}

/* ---- what was done */

static const json_t *pod_of(const struct explain_input *in, const char *uid)
{
    json_t *pod;
    size_t n;

    json_array_foreach (in->pods, n, pod)
        if (streq_null(json_str_at(pod, "metadata.uid"), uid))
            return pod;
    return NULL;
}

static bool any_pod_runs(const struct explain_input *in)
{
    json_t *pod;
    size_t n;

    json_array_foreach (in->pods, n, pod)
        if (streq_null(json_str_at(pod, "status.phase"), "Running"))
            return true;
    return false;
}

static void explain_consumers(struct subject *s)
{
    vec_foreach (r, &s->live.reserved_for) {
        const json_t *pod = r->uid ? pod_of(s->in, r->uid) : NULL;
        const char *phase = json_str_at(pod, "status.phase");

        if (!streq(r->resource, "pods"))
            explain(s->x, EXPLAIN_DONE, "ReservedFor", "It is reserved for %s/%s.", r->resource,
                    r->name);
        else if (pod)
            explain(s->x, EXPLAIN_DONE, "ReservedFor", "It is reserved for pod %s, which is %s%s.",
                    r->name, phase ? phase : "in no phase",
                    json_is_string(json_at(pod, "metadata.deletionTimestamp"))
                        ? " and being deleted"
                        : "");
        else
            explain(s->x, EXPLAIN_DONE, "ReservedFor",
                    "It is reserved for pod %s, of which nothing is known.", r->name);
    }
    if (!s->live.reserved_for.n)
        explain(s->x, EXPLAIN_DONE, "ReservedFor", "It is reserved for nobody.");
    if (s->live.reserved_for.n > 1)
        explain(s->x, EXPLAIN_DONE, "OneAtATime",
                "A VF serves one pod at a time: the others wait until that one is gone.");
}

static void explain_conditions(struct subject *s, const json_t *entry, const char *address)
{
    json_t *condition;
    size_t n;

    json_array_foreach (json_object_get(entry, "conditions"), n, condition) {
        const char *type = json_str_at(condition, "type"),
                   *status = json_str_at(condition, "status"),
                   *reason = json_str_at(condition, "reason"),
                   *message = json_str_at(condition, "message"),
                   *since = json_str_at(condition, "lastTransitionTime");
        bool bad = streq_null(type, "Ready") && !streq_null(status, "True");

        explain(s->x, bad ? EXPLAIN_MISSING : EXPLAIN_DONE, "Condition",
                "VF %s: %s is %s since %s (%s): %s.", address, type ? type : "?",
                status ? status : "?", since ? since : "?", reason ? reason : "no reason",
                message && *message ? message : "no message");
    }
}

static void explain_network(struct subject *s, const json_t *entry, const char *address)
{
    const json_t *net = json_object_get(entry, "networkData");
    const char *name = json_str_at(net, "interfaceName"),
               *mac = json_str_at(net, "hardwareAddress");
    struct strbuf ips = {0};
    json_t *ip;
    size_t n;

    if (!json_is_object(net))
        return;
    json_array_foreach (json_object_get(net, "ips"), n, ip)
        strbuf_printf(&ips, ", %s", json_c_str(ip) ? json_c_str(ip) : "?");
    explain(s->x, EXPLAIN_DONE, "Network", "The driver has moved VF %s into the pod: %s, MAC %s%s.",
            address, name ? name : "without a name", mac ? mac : "unknown", ips.len ? ips.s : "");
    strbuf_done(&ips);
}

static void explain_told(struct subject *s)
{
    json_t *entry;
    size_t n;

    json_array_foreach (json_at(s->in->claim, "status.devices"), n, entry) {
        const char *device = json_str_at(entry, "device");
        char address[PCI_ADDRESS_SIZE];

        if (!device || !streq_null(json_str_at(entry, "driver"), s->in->driver))
            continue;
        explain_conditions(s, entry, explain_address(device, address));
        explain_network(s, entry, explain_address(device, address));
    }
    vec_foreach (d, &s->live.devices) {
        char address[PCI_ADDRESS_SIZE];

        if (d->told || d->attach != LIVE_ATTACH_DRIVER || !any_pod_runs(s->in))
            continue;
        explain(s->x, EXPLAIN_MISSING, "NotAttached",
                "A pod of it runs, and the claim's status doesn't say that the driver has moved VF "
                "%s into it.",
                explain_address(d->device, address));
        explain_next(s->x, "kubectl describe resourceclaim -n %s %s", s->namespace, s->name);
    }
}

/* The runtime's hostNetwork: the driver refuses it where it would have to move the VF. */
static void explain_host_network(struct subject *s)
{
    bool attaches = false;
    json_t *pod;
    size_t n;

    vec_foreach (d, &s->live.devices)
        attaches |= d->attach == LIVE_ATTACH_DRIVER;
    json_array_foreach (s->in->pods, n, pod)
        if (attaches && json_is_true(json_at(pod, "spec.hostNetwork")))
            explain(
                s->x, EXPLAIN_MISSING, "HostNetwork",
                "Pod %s has hostNetwork, and the VF would be moved into the host's own network "
                "namespace: the driver refuses that. A class of a pool with attach: None serves "
                "such pods.",
                json_str_at(pod, "metadata.name"));
}

static const char *state_text(enum record_state state)
{
    switch (state) {
    case RECORD_PREPARING:
        return "is being set up";
    case RECORD_PREPARED:
        return "is set up";
    case RECORD_RELEASING:
        return "is being put back";
    }
    return "";
}

static void explain_one_record(const struct record *r, struct explanation *x)
{
    explain(x, EXPLAIN_DONE, "Record", "The node's record says that it %s%s.", state_text(r->state),
            r->by_kubelet ? ", by a call of the kubelet" : ", without a call: the driver found it");
    vec_foreach (d, &r->devices) {
        const struct grant *g = &d->grant;
        struct strbuf b = {0};

        explain_settings(&b, &g->settings, 0);
        explain(x, EXPLAIN_DONE, "RecordDevice", "VF %s of VirtualFunctionPool %s, mode %s: %s.%s",
                g->vf_address, g->pool_document, mode_text(g->mode), b.len ? b.s : "no settings",
                d->has_original ? " What it was before is kept." : "");
        strbuf_done(&b);
    }
}

/* ---- the end */

static bool driver_attaches(const struct live_claim *c)
{
    vec_foreach (d, &c->devices)
        if (d->told || d->attach == LIVE_ATTACH_DRIVER)
            return true;
    return false;
}

static void explain_end(bool calls_prepare, bool calls_unprepare, bool attaches,
                        struct explanation *x)
{
    if (calls_unprepare)
        explain(x, EXPLAIN_END, "EndByCall",
                "When its pods are gone the kubelet calls NodeUnprepareResources, and the driver "
                "puts the VF back to what it was. While the driver is down they stay in "
                "Terminating.");
    else if (calls_prepare)
        explain(x, EXPLAIN_END, "EndDeferred",
                "Nobody is called at the end, and no pod waits for anything: the driver puts the "
                "VF back when it sees that the pods are gone, and in any case before the VF's next "
                "claim.");
    else if (attaches)
        explain(
            x, EXPLAIN_END, "EndSeen",
            "Nobody is called at the end, and no pod waits for anything: the driver takes the "
            "VF home when it sees that the pods are gone, and looks whether it is as promised.");
    else
        explain(
            x, EXPLAIN_END, "EndByOthers",
            "Nobody is called at the end, and nothing is left to the driver: it hasn't moved the "
            "VF.");
}

static void explain_needs(struct subject *s)
{
    struct strbuf why = {0};

    if (live_needs(&s->live, &why))
        explain(s->x, EXPLAIN_END, "NeedsDriver", "It still needs the node driver: %s.", why.s);
    else
        explain(s->x, EXPLAIN_END, "NeedsNobody",
                "It needs nothing from the node driver any more, which may be removed.");
    strbuf_done(&why);
}

/* ---- all of it */

static void explain_place(struct subject *s, const struct live_device *d)
{
    const struct local_vf *v = explain_seen_of(s->in, d->device);
    bool moved = d->told || d->attach == LIVE_ATTACH_DRIVER;
    char address[PCI_ADDRESS_SIZE];

    if (v && !v->why && v->state.home && moved && any_pod_runs(s->in))
        explain(s->x, EXPLAIN_MISSING, "NotInPod",
                "A pod of it runs, and the interface of VF %s is at home, not in the pod.",
                explain_address(d->device, address));
}

static void explain_here(struct subject *s)
{
    const struct explain_input *in = s->in;

    if (!in->here) {
        _cleanup_free_ char *next =
            xasprintf("sriov-dra explain -n %s claim/%s", s->namespace, s->name);

        explain_not_here(in, s->live.node, next, s->x);
        return;
    }
    if (in->record)
        explain_one_record(in->record, s->x);
    else if (any_pod_runs(in) && driver_attaches(&s->live))
        explain(s->x, EXPLAIN_MISSING, "NoRecord",
                "A pod of it runs, and the driver of this node has no record of the claim.");
    vec_foreach (d, &s->live.devices) {
        const struct record_device *of = NULL;
        char address[PCI_ADDRESS_SIZE];

        if (in->record)
            vec_foreach (rd, &in->record->devices)
                if (streq(rd->grant.device, d->device))
                    of = rd;
        explain_kernel(in, of, d->device, explain_address(d->device, address), s->x);
        explain_place(s, d);
    }
}

static void explain_allocated(struct subject *s)
{
    json_t *slice;
    size_t n;

    s->x->node = xstrdup(s->live.node);
    s->one = (live_claim_vec){.v = &s->live, .n = 1};
    live_index_build(&s->one, &s->index);
    json_array_foreach (s->in->slices, n, slice)
        live_see_slice(&s->index, s->in->driver, slice);
    if (s->in->node)
        live_see_node(&s->index, s->in->node);
    explain_devices(s);
    explain_copy(s);
    explain_node_gate(s);
    explain_changed_list(s);
    explain_consumers(s);
    explain_told(s);
    explain_host_network(s);
    explain_here(s);
    explain_end(s->live.calls_prepare, s->live.calls_unprepare, driver_attaches(&s->live), s->x);
    explain_needs(s);
    live_index_done(&s->index);
}

void explain_claim(const struct explain_input *in, struct explanation *x)
{
    struct subject s = {.in = in, .x = x};
    _cleanup_err_ struct err e = ERR_INIT;

    s.namespace = json_str_at(in->claim, "metadata.namespace");
    s.name = json_str_at(in->claim, "metadata.name");
    explain_asked(in, x);
    int r = live_claim_read(in->claim, in->driver, &s.live, &e);

    if (r < 0) {
        explain(x, EXPLAIN_MISSING, "Unreadable", "It can't be read: %s.", err_text(&e));
    } else if (r > 0) {
        explain_allocated(&s);
        live_claim_done(&s.live);
    } else if (json_is_object(json_at(in->claim, "status.allocation"))) {
        explain(x, EXPLAIN_DEVICE, "NotOurs", "It is allocated, and has no device of %s.",
                in->driver);
    } else {
        explain_pending(in, x);
    }
}

void explain_record(const struct explain_input *in, struct explanation *x)
{
    const struct record *r = in->record;
    bool attaches = false;

    explain_one_record(r, x);
    vec_foreach (d, &r->devices) {
        explain(x, EXPLAIN_DEVICE, "Device", "VF %s is VF %u of PF %s: device %s of pool %s.",
                d->grant.vf_address, d->grant.index, d->grant.pf_address, d->grant.device,
                d->grant.pool);
        explain_kernel(in, d, d->grant.device, d->grant.vf_address, x);
        attaches |= d->grant.attach == ATTACH_NRI;
    }
    explain_end(r->by_kubelet, r->unprepare_comes, attaches, x);
}
