/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a pod: what is to be done for it next. */
#include "tests/unit/model/model.h"

/* The pod's object goes, or says that it has succeeded; its slot is free when nothing names it. */
static void end_pod(unsigned pod)
{
    struct m_pod *p = &m.pods[pod];

    runtime_remove_sandboxes(pod);
    if (m.api != API_UP)
        return;
    if (!p->finished && !p->deleted && chance(&m.rng, 30)) {
        say("  pod %s has succeeded", p->uid);
        p->finished = true;
        cluster_pod_changed(pod);
    } else if (!p->deleted) {
        say("  pod %s is deleted", p->uid);
        p->deleted = true;
        cluster_pod_deleted(pod);
    }
    scheduler_review();
}

static bool is_named(unsigned pod)
{
    for (unsigned i = 0; i < CLAIMS; i++)
        if (m.claims[i].used && (m.claims[i].reserved & 1u << pod))
            return true;
    for (unsigned i = 0; i < SANDBOXES; i++)
        if (m.sandboxes[i].used && m.sandboxes[i].pod == pod && !m.sandboxes[i].removed)
            return true;
    return m.pods[pod].known || kubelet_waits_for(pod);
}

void pod_advance(unsigned pod)
{
    struct m_pod *p = &m.pods[pod];

    if (p->terminating && p->stage < POD_STOPPING) {
        kubelet_give_up_calls(pod);
        if (p->sandbox >= 0) {
            if (!runtime_is_at((unsigned)p->sandbox))
                runtime_stop_sandbox(pod);
        } else {
            p->stage = POD_STOPPED;
        }
        return;
    }
    switch (p->stage) {
    case POD_NEW:
        kubelet_prepare(pod);
        break;
    case POD_PREPARED:
        runtime_start_sandbox(pod);
        break;
    case POD_SANDBOX:
        runtime_create_container(pod);
        break;
    case POD_STOPPED:
        kubelet_unprepare(pod);
        break;
    case POD_ENDED:
        if (p->deleted && !is_named(pod))
            p->used = false;
        else
            end_pod(pod);
        break;
    case POD_RUNNING:
    case POD_PREPARING:
    case POD_STARTING:
    case POD_CREATING:
    case POD_STOPPING:
    case POD_UNPREPARING:
        break;
    }
}

void pod_loses_sandbox(unsigned pod)
{
    const struct m_pod *p = &m.pods[pod];

    if (p->stage == POD_RUNNING || p->stage == POD_SANDBOX)
        runtime_stop_sandbox(pod);
}
