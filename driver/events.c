/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/events.h"

#include "driver/event_queue.h"
#include "driver/metrics.h"

#include <errno.h>

#define CLAIM_API "resource.k8s.io/v1"

static struct event_object pod_object(const struct object_name *pod)
{
    return (struct event_object){"v1", "Pod", pod->namespace, pod->name, pod->uid};
}

static struct event_object claim_object(const struct object_name *claim)
{
    return (struct event_object){CLAIM_API, "ResourceClaim", claim->namespace, claim->name,
                                 claim->uid};
}

/* Names of the pod's claim of that uid, as far as it is known; else all NULL. */
static struct object_name find_claim(struct node *n, const char *pod_uid, const char *uid)
{
    const struct claim *c = uid ? claims_find(n->claims, uid) : NULL;
    const struct pod *pod = uid ? pods_find(n->pods, pod_uid) : NULL;

    if (c)
        return (struct object_name){c->rec->namespace, c->rec->name, c->rec->uid};
    if (pod)
        vec_foreach (named, &pod->claims)
            if (named->current && streq(named->current->uid, uid))
                return (struct object_name){pod->namespace, named->name, uid};
    return (struct object_name){0};
}

static void tell(struct node *n, const struct event *ev)
{
    if (n->events)
        event_queue_add(n->events, ev);
}

static void tell_node(struct node *n, const char *reason, const char *action, const char *note)
{
    tell(n, &(struct event){
                .warning = true,
                .reason = reason,
                .action = action,
                .regarding = {.api_version = "v1", .kind = "Node", .name = n->c.name},
                .note = note,
            });
}

static void tell_pod(struct node *n, const char *reason, const char *action,
                     const struct object_name *pod, const char *claim_uid, const char *note)
{
    struct object_name claim = find_claim(n, pod->uid, claim_uid);
    struct event ev = {
        .warning = true,
        .reason = reason,
        .action = action,
        .regarding = pod_object(pod),
        .note = note,
    };

    if (claim.uid)
        ev.related = claim_object(&claim);
    tell(n, &ev);
}

/* Of the claim, and of its pods on this node. */
static void tell_claim(struct node *n, bool warning, const char *reason, const char *action,
                       const struct object_name *claim, const char *note)
{
    struct event ev = {
        .warning = warning,
        .reason = reason,
        .action = action,
        .regarding = claim_object(claim),
        .note = note,
    };

    tell(n, &ev);
    if (!n->pods) /* at the start, when claims of earlier runs are looked at */
        return;
    ev.related = ev.regarding;
    for (const struct pod *p = pods_next_of_claim(n->pods, claim->namespace, claim->name, NULL); p;
         p = pods_next_of_claim(n->pods, claim->namespace, claim->name, p)) {
        ev.regarding = pod_object(&(struct object_name){p->namespace, p->name, p->uid});
        tell(n, &ev);
    }
}

/* What a log line or the runtime needs in front, and a reader of events doesn't. */
static const char *note_of(const struct err *why)
{
    const char *rest = str_skip(err_text(why), "sriov-dra: ");

    return rest ? rest : err_text(why);
}

void events_pod_refused(struct node *n, const struct object_name *pod, const char *claim_uid,
                        const struct err *why)
{
    tell_pod(n, "PodRefused", "Attach", pod, claim_uid, note_of(why));
}

void events_pod_lacks_vfs(struct node *n, const struct object_name *pod, const char *claim_uid,
                          const struct err *why)
{
    tell_pod(n, "VFMissing", "Attach", pod, claim_uid, note_of(why));
}

void events_pod_repaired(struct node *n, const struct object_name *pod)
{
    metrics_count(METRIC_SANDBOX_REPAIRED);
    tell_pod(n, "PodRepaired", "Attach", pod, NULL,
             "the pod had started without its VF, or with a part of its attachment: it has all of "
             "it now");
}

void events_pod_unknown(struct node *n)
{
    metrics_count(METRIC_SANDBOX_UNKNOWN);
    tell_node(n, "PodsUnchecked", "Attach",
              "a pod was started without knowing whether it has a claim of this driver, since the "
              "API server didn't tell in time; it is looked at again, and repaired or told of");
}

void events_call_failed(struct node *n, bool prepare, const struct object_name *claim,
                        const struct err *why)
{
    /* The driver is going: the kubelet asks the next one. */
    if (why->code == -ESHUTDOWN)
        return;
    /* Decisions name the claim themselves; what a VF or the kernel refuses doesn't. */
    _cleanup_free_ char *note =
        str_skip(note_of(why), "claim ")
            ? xstrdup(note_of(why))
            : xasprintf("claim %s/%s: %s", claim->namespace, claim->name, note_of(why));

    tell_claim(n, true, prepare ? "PrepareFailed" : "UnprepareFailed",
               prepare ? "Prepare" : "Unprepare", claim, note);
}

void events_acquired(struct node *n, struct claim *c)
{
    const struct object_name claim = {c->rec->namespace, c->rec->name, c->rec->uid};

    if (c->choice_told)
        return;
    c->choice_told = true;
    vec_foreach (d, &c->rec->devices) {
        const struct grant *g = &d->grant;

        if (!g->choices)
            continue;
        metrics_count(g->choice == 1 ? METRIC_CHOICE_FIRST : METRIC_CHOICE_LATER);
        if (g->choice == 1)
            continue;
        _cleanup_free_ char *note = xasprintf(
            "request %s: alternative %s was allocated, number %u of %u: VF %s, mode %s", g->request,
            g->alternative, g->choice, g->choices, g->vf_address, mode_text(g->mode));
        tell_claim(n, false, "AlternativeAllocated", "Allocate", &claim, note);
    }
}

static char *drift_text(const struct vf_fact *f)
{
    return xasprintf("VF %s isn't as it should be: %s", f->vf_address, f->why ? f->why : "unknown");
}

void events_vfs_drifted(struct node *n, const char *pool, const struct vf_fact *f, size_t count)
{
    _cleanup_free_ char *first = drift_text(f);
    _cleanup_free_ char *note =
        count == 1 ? xasprintf("pool %s: %s", pool, first)
                   : xasprintf("pool %s: %zu VFs aren't as they should be. %s", pool, count, first);

    for (size_t i = 0; i < count; i++)
        metrics_count(METRIC_DRIFT);
    tell_node(n, "VFDrifted", "Verify", note);
}

void events_not_provisioned(struct node *n, const char *what, const char *why)
{
    _cleanup_free_ char *note = xasprintf("%s: %s", what, why);

    tell_node(n, "NotProvisioned", "Provision", note);
}

void events_claim_harmed(struct node *n, const struct vf_fact *f)
{
    _cleanup_free_ char *note = drift_text(f);
    char device[DEVICE_NAME_SIZE];

    device_name(f->vf_address, device);
    const struct claim *c = claims_holder(n->claims, device);
    if (c)
        tell_claim(n, true, "VFDrifted", "Verify",
                   &(struct object_name){c->rec->namespace, c->rec->name, c->rec->uid}, note);
}

void events_skip_not_honoured(struct node *n, bool by_kubelet)
{
    tell_node(n, "SkipNotHonoured", "Publish",
              by_kubelet ? "the kubelet doesn't declare DRAOptionalNodeOperations: VFs are "
                           "published without skipNodeOperations, and run through Prepare"
                         : "the API server drops skipNodeOperations: VFs are published without it, "
                           "and run through Prepare");
}

void events_skip_not_copied(struct node *n, const struct allocation *a)
{
    _cleanup_free_ char *note = xasprintf(
        "claim %s/%s, and maybe others, has no copy of the skipNodeOperations of its device's "
        "slice, so the kubelet makes the calls: it was allocated before the list was there, or the "
        "gate DRAOptionalNodeOperations of scheduler or API server is off",
        a->namespace, a->name);

    tell_node(n, "SkipNotCopied", "Allocate", note);
}

void events_taints_not_honoured(struct node *n)
{
    tell_node(n, "TaintsNotHonoured", "Publish",
              "the API server drops the taints of devices (feature gate DRADeviceTaints): VFs that "
              "aren't as promised are not published at all");
}

void events_pool_invalid(struct node *n, const struct pool_problem *p)
{
    _cleanup_free_ char *note = xasprintf("VirtualFunctionPool \"%s\" of %s isn't offered: %s",
                                          p->name, n->c.pools_file, p->text);

    tell_node(n, "PoolInvalid", "Publish", note);
}

void events_record_damaged(struct node *n, const struct store_bad *b)
{
    _cleanup_free_ char *note = xasprintf(
        "a claim's record was damaged, and is set aside as %s (%s): free VFs are offered as "
        "verified only where they look untouched, until it is removed and the driver restarted",
        b->file, b->why);

    tell_node(n, "RecordDamaged", "Recover", note);
}
