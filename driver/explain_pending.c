/* SPDX-License-Identifier: Apache-2.0 */
/* What waits: a claim without allocation, and a pod that doesn't run. */
#include "driver/explain.h"

/* What the scheduler says of a pod; NULL: nothing. */
static const char *scheduler_says(const json_t *pod)
{
    json_t *condition;
    size_t n;

    json_array_foreach (json_at(pod, "status.conditions"), n, condition)
        if (streq_null(json_str_at(condition, "type"), "PodScheduled") &&
            streq_null(json_str_at(condition, "status"), "False"))
            return json_str_at(condition, "message");
    return NULL;
}

/* ---- a claim that nothing was allocated to */

static void explain_waiting_pods(const struct explain_input *in, struct explanation *x)
{
    json_t *pod;
    size_t n;

    json_array_foreach (in->pods, n, pod) {
        const char *said = scheduler_says(pod);

        if (said)
            explain(x, EXPLAIN_MISSING, "Scheduler", "Of pod %s the scheduler says: %s",
                    json_str_at(pod, "metadata.name"), said);
    }
    if (in->pods && !json_array_size(in->pods)) {
        explain(x, EXPLAIN_MISSING, "NoPod",
                "No pod names it: a claim is allocated when a pod that needs it is scheduled.");
        explain_next(x, "kubectl get pods -n %s", json_str_at(in->claim, "metadata.namespace"));
    }
}

static void add_count(struct strbuf *b, size_t n, const char *what)
{
    if (n)
        strbuf_printf(b, ", %zu %s", n, what);
}

static void explain_counts(const supply_count_vec *sums, size_t pools, struct explanation *x)
{
    struct strbuf b = {0};

    vec_foreach (c, sums) {
        strbuf_printf(&b, "%s%zu of mode %s (%zu free", b.len ? "; " : "", c->devices, c->mode,
                      c->free);
        add_count(&b, c->allocated, "allocated");
        add_count(&b, c->tainted, "tainted");
        add_count(&b, c->undeclared, "with a list that their node doesn't honour");
        add_count(&b, c->unhonoured, "without their mode's list");
        strbuf_putc(&b, ')');
    }
    explain(x, EXPLAIN_DEVICE, "Offer", "The driver offers, in %zu pool%s: %s.", pools,
            explain_plural(pools), b.len ? b.s : "nothing");
    strbuf_done(&b);
}

/* CEL isn't evaluated here: half of it would be worse than none. */
static void explain_selectors(const struct explain_input *in, struct explanation *x)
{
    json_t *classes = (json_t *)in->classes, *class, *selector; /* read only */
    const char *name;
    size_t n;

    json_object_foreach (classes, name, class)
        json_array_foreach (json_at(class, "spec.selectors"), n, selector) {
            const char *cel = json_str_at(selector, "cel.expression");

            explain(x, EXPLAIN_ASKED, "Selector", "Class %s takes devices where %s", name,
                    cel ? cel : "?");
        }
}

struct total {
    size_t devices, free, free_listed, tainted, undeclared, unhonoured;
};

static struct total total_of(const supply_count_vec *sums)
{
    struct total t = {0};

    vec_foreach (c, sums) {
        t.devices += c->devices;
        t.free += c->free;
        t.free_listed += c->free_listed;
        t.tainted += c->tainted;
        t.undeclared += c->undeclared;
        t.unhonoured += c->unhonoured;
    }
    return t;
}

static void explain_incomplete(const struct explain_input *in, struct explanation *x)
{
    vec_foreach (p, &in->supply->pools) {
        if (supply_is_whole(p))
            continue;
        explain(x, EXPLAIN_MISSING, "PoolIncomplete",
                "Pool %s isn't whole: %d of %d slices of its generation %d exist, so the scheduler "
                "takes nothing from it.",
                p->name, (int)p->slices, (int)p->expected, (int)p->generation);
        explain_next(x, "kubectl get resourceslices --field-selector spec.driver=%s", in->driver);
    }
}

/* Causes that keep devices from everybody. */
static void explain_obstacles(const struct explain_input *in, const struct total *t,
                              struct explanation *x)
{
    if (t->tainted) {
        explain(
            x, EXPLAIN_MISSING, "Tainted",
            "%zu device%s can't be had because of a taint, as %s/drifted for a VF that isn't as "
            "it should be.",
            t->tainted, explain_plural(t->tainted), in->driver);
        explain_next(x, "sriov-dra explain vf/ADDRESS --node NODE");
    }
    if (t->undeclared)
        explain(x, EXPLAIN_MISSING, "NodesSilent",
                "%zu device%s in slices with skipNodeOperations can't be had: their nodes don't "
                "declare DRAOptionalNodeOperations.",
                t->undeclared, explain_plural(t->undeclared));
    if (t->unhonoured)
        explain(x, EXPLAIN_MISSING, "NotHonoured",
                "%zu device%s go out without their mode's list (skipHonoured: false), since the "
                "gate DRAOptionalNodeOperations is off at the API server or the kubelet: they can "
                "be had, but not by a class that wants skipHonoured.",
                t->unhonoured, explain_plural(t->unhonoured));
}

static void explain_rest(const struct total *t, struct explanation *x)
{
    if (!t->free) {
        explain(x, EXPLAIN_MISSING, "NoneFree", "No device of the driver is free.");
        explain_next(x, "sriov-dra claims");
        return;
    }
    explain(x, EXPLAIN_MISSING, "NoneMatches",
            "%zu device%s free. If none was given, none matches what class and claim select, or "
            "none is on a node where the pod may run: compare the selectors with the devices' "
            "attributes.",
            t->free, t->free == 1 ? " is" : "s are");
    explain_next(x, "kubectl get resourceslices -o yaml");
    /*
     * With its gate off, 1.37's scheduler passes over a slice with a list if any other alpha
     * feature makes it use its newest allocator, and else takes the device and copies no list
     * (dynamic-resource-allocation/structured/allocator.go, NewAllocator).
     */
    if (t->free_listed)
        explain(x, EXPLAIN_MISSING, "SchedulerGate",
                "%zu of them %s in slices with skipNodeOperations. If those match, what is left is "
                "the scheduler's own gate DRAOptionalNodeOperations, which can't be seen from "
                "outside: with it off they may be passed over. Look at --feature-gates of "
                "kube-scheduler.",
                t->free_listed, t->free_listed == 1 ? "is" : "are");
}

/* Whether the driver's name is in what the claim or its classes ask, or might be. */
static bool names_driver(const struct explain_input *in)
{
    _cleanup_free_ char *spec = json_text(json_object_get(in->claim, "spec"));
    _cleanup_free_ char *text = json_text(in->classes);
    json_t *classes = (json_t *)in->classes, *class; /* read only */
    const char *name;

    json_object_foreach (classes, name, class)
        if (json_is_null(class))
            return true;
    return !json_object_size(classes) || strstr(spec, in->driver) || strstr(text, in->driver);
}

void explain_pending(const struct explain_input *in, struct explanation *x)
{
    supply_count_vec sums;

    explain(x, EXPLAIN_DEVICE, "Unallocated", "Nothing is allocated to it.");
    if (!names_driver(in)) {
        explain(x, EXPLAIN_MISSING, "OtherDriver",
                "Neither it nor its classes name %s: what they want is another driver's to give.",
                in->driver);
        return;
    }
    explain_waiting_pods(in, x);
    explain_selectors(in, x);
    if (!in->supply)
        return;
    if (!in->supply->pools.n) {
        explain(x, EXPLAIN_MISSING, "NothingOffered",
                "%s offers nothing: there is no slice of it. No node driver runs, or no "
                "VirtualFunctionPool selects a VF.",
                in->driver);
        explain_next(x, "kubectl get resourceslices --field-selector spec.driver=%s", in->driver);
        return;
    }
    supply_sum(in->supply, &sums);
    struct total t = total_of(&sums);

    explain_counts(&sums, in->supply->pools.n, x);
    explain_incomplete(in, x);
    explain_obstacles(in, &t, x);
    explain_rest(&t, x);
    supply_count_vec_done(&sums);
}

/* ---- a pod */

static const char *made_name(const json_t *pod, const char *entry, bool *ret_made)
{
    json_t *status;
    size_t n;

    json_array_foreach (json_at(pod, "status.resourceClaimStatuses"), n, status)
        if (streq_null(json_str_at(status, "name"), entry)) {
            *ret_made = true;
            return json_str_at(status, "resourceClaimName");
        }
    return NULL;
}

void explain_pod_claims(const json_t *pod, explain_pod_claim_vec *ret)
{
    const char *extended = json_str_at(pod, "status.extendedResourceClaimStatus.resourceClaimName");
    json_t *entry;
    size_t n;

    *ret = (explain_pod_claim_vec){0};
    json_array_foreach (json_at(pod, "spec.resourceClaims"), n, entry) {
        struct explain_pod_claim c = {.entry = json_str_at(entry, "name")};
        bool made = false;

        c.name = json_str_at(entry, "resourceClaimName");
        if (!c.name && c.entry)
            c.name = made_name(pod, c.entry, &made);
        c.none = made && !c.name;
        if (c.entry)
            *VEC_PUSH(ret) = c;
    }
    if (extended)
        *VEC_PUSH(ret) =
            (struct explain_pod_claim){.entry = "extended resources", .name = extended};
}

static void explain_names(const json_t *pod, struct explanation *x)
{
    explain_pod_claim_vec claims;
    struct strbuf b = {0};

    explain_pod_claims(pod, &claims);
    vec_foreach (c, &claims) {
        if (c->name) {
            strbuf_printf(&b, "%s%s", b.len ? ", " : "", c->name);
        } else if (!c->none) {
            explain(x, EXPLAIN_MISSING, "ClaimNotMade",
                    "Its claim \"%s\" hasn't been made from its template yet.", c->entry);
            explain_next(x, "kubectl describe pod -n %s %s", x->namespace, x->name);
        }
    }
    explain(x, EXPLAIN_ASKED, "Claims", "It names %zu claim%s%s%s.", claims.n,
            explain_plural(claims.n), b.len ? ": " : "", b.len ? b.s : "");
    strbuf_done(&b);
    free(claims.v);
}

/* What keeps its containers, by the kubelet's own events. */
static void explain_events(const json_t *events, struct explanation *x)
{
    json_t *event;
    size_t n, all = json_array_size(events);

    json_array_foreach (events, n, event) {
        const char *reason = json_str_at(event, "reason"), *message = json_str_at(event, "message");

        if (!streq_null(json_str_at(event, "type"), "Warning") || all - n > 10)
            continue;
        explain(x, EXPLAIN_MISSING, "Event", "Event %s: %s", reason ? reason : "?",
                message ? message : "");
    }
}

void explain_pod(const json_t *pod, const json_t *events, struct explanation *x)
{
    const char *phase = json_str_at(pod, "status.phase"), *node = json_str_at(pod, "spec.nodeName"),
               *said = scheduler_says(pod);
    bool pending = streq_null(phase, "Pending"),
         gone = json_is_string(json_at(pod, "metadata.deletionTimestamp"));

    x->node = xstrdup(node);
    explain_names(pod, x);
    explain(x, EXPLAIN_DONE, "Phase", "It is %s%s%s%s.", phase ? phase : "in no phase",
            node ? " on node " : "", node ? node : "", gone ? ", and being deleted" : "");
    if (said)
        explain(x, EXPLAIN_MISSING, "Scheduler", "The scheduler says: %s", said);
    if (pending && node) {
        explain(x, EXPLAIN_MISSING, "PodWaits",
                "It was given a node, and its containers don't run yet.");
        explain_next(x, "kubectl describe pod -n %s %s", x->namespace, x->name);
        explain_events(events, x);
    }
}
