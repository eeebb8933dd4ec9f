/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can happen, and how often. A step draws from its own stream of random numbers, and what it
 * draws is understood by what there is (the n-th pod, if there are so many), so that a sequence
 * with steps left out is one as well.
 */
#include "tests/unit/model/model.h"

#include <errno.h>

/* What becomes possible by a step happens at once as a rule, and in part now and then. */
static void let_happen(void)
{
    unsigned how = below(&m.rng, 10);

    if (how < 7)
        process_settle();
    else if (how < 9)
        process_nudge(1 + below(&m.rng, 8));
}

static void advance_pods(void)
{
    unsigned from = below(&m.rng, PODS), n = 1 + below(&m.rng, 3);

    for (unsigned i = 0; i < PODS && n > 0; i++) {
        unsigned pod = (from + i) % PODS;

        if (!m.pods[pod].used)
            continue;
        pod_advance(pod);
        n--;
        let_happen();
    }
}

static int some_pod(void)
{
    unsigned from = below(&m.rng, PODS);

    for (unsigned i = 0; i < PODS; i++)
        if (m.pods[(from + i) % PODS].used)
            return (int)((from + i) % PODS);
    return -1;
}

static void do_new_pod(void)
{
    if (scheduler_new_pod())
        let_happen();
}

static void do_new_pods(void)
{
    do_new_pod();
    do_new_pod();
}

static void do_terminate(void)
{
    int i = some_pod();

    if (i < 0 || m.pods[i].terminating)
        return;
    say("  pod %s terminates", m.pods[i].uid);
    m.pods[i].terminating = true;
    cluster_pod_changed((unsigned)i);
    pod_advance((unsigned)i);
}

/* Deleted by force: the object goes, and the kubelet ends what is left in its time. */
static void do_delete_by_force(void)
{
    int i = some_pod();

    if (i < 0 || m.pods[i].deleted || m.api != API_UP)
        return;
    say("  pod %s is deleted by force", m.pods[i].uid);
    m.pods[i].terminating = m.pods[i].deleted = true;
    cluster_pod_deleted((unsigned)i);
    scheduler_review();
}

static void do_lose_sandbox(void)
{
    int i = some_pod();

    if (i >= 0)
        pod_loses_sandbox((unsigned)i);
}

static void do_wait_little(void)
{
    process_wait(20 + below(&m.rng, 400));
}

static void do_wait(void)
{
    process_wait(1000 + below(&m.rng, 25000));
}

static void do_wait_long(void)
{
    process_wait(190000);
}

static void do_neighbour(void)
{
    neighbour_acts(&m.rng);
}

static void do_pod(void)
{
    (void)pod_acts(&m.rng);
}

static void do_clean_up(void)
{
    kernel_cleans_up(&m.rng, false);
    process_wait(150);
}

static void do_interfered(void)
{
    m.interfere = 15;
    advance_pods();
    process_wait(200);
}

static void do_stuck(void)
{
    m.stuck = true;
    advance_pods();
    process_wait(below(&m.rng, 5000));
    m.stuck = false;
}

static void do_fault(void)
{
    static const int errors[] = {-EBUSY, -EIO, -ENOMEM, -EINVAL, -ETIMEDOUT, -ENOBUFS};

    m.fault_in = 1 + below(&m.rng, 30);
    m.fault_error = errors[below(&m.rng, ARRAY_SIZE(errors))];
    m.fault_applies = chance(&m.rng, 40);
    say("  effect %u from here fails", m.fault_in);
    advance_pods();
}

static void do_kill(void)
{
    if (!m.up)
        return;
    m.kill_in = 1 + below(&m.rng, 20);
    m.kill_how = below(&m.rng, 3);
    say("  to be killed at effect %u from here", m.kill_in);
    m.wanted = chance(&m.rng, 70);
    advance_pods();
    if (!m.dead && chance(&m.rng, 50))
        process_kill();
}

static void do_stop_driver(void)
{
    if (!m.up)
        return;
    say("  the driver is asked to end");
    m.wanted = chance(&m.rng, 60);
    process_terminate();
}

static void do_start_driver(void)
{
    m.wanted = true;
}

static void do_pools(void)
{
    setup_group(&m.groups[below(&m.rng, GROUPS)]);
    write_pools();
    provision();
    if (m.up) {
        m.wanted = true;
        process_terminate();
    }
}

static void do_pf(void)
{
    struct fk_dev *d = fk_pf_dev(m.k, below(&m.rng, m.k->n_pfs));

    oracle_sample();
    (void)fk_set_up(m.k, d, d->up ? chance(&m.rng, 50) : true);
    say("  PF %s is %s", d->name, d->up ? "up" : "down");
    oracle_pf_changed(d->pf);
    oracle_sample();
}

static void do_api(void)
{
    if (m.api == API_UP)
        cluster_set_api(chance(&m.rng, 50) ? API_REFUSES : API_HANGS);
    else
        cluster_set_api(API_UP);
}

static void do_gates(void)
{
    if (m.api != API_UP)
        return;
    switch (below(&m.rng, 4)) {
    case 3:
        m.gate_taints = !m.gate_taints;
        break;
    case 0:
        m.gate_api = !m.gate_api;
        m.gate_scheduler &= m.gate_api;
        break;
    case 1:
        m.gate_scheduler = m.gate_api && !m.gate_scheduler;
        break;
    case 2:
        m.gate_kubelet = !m.gate_kubelet;
        kubelet_restart();
        break;
    }
    say("  gates: API %d, scheduler %d, kubelet %d; taints %d", m.gate_api, m.gate_scheduler,
        m.gate_kubelet, m.gate_taints);
}

static void do_kubelet(void)
{
    kubelet_restart();
}

static void do_runtime(void)
{
    runtime_restart();
}

/* Pods live on, in new sandboxes; hardware comes up fresh. */
static void do_reboot(void)
{
    say("  the node reboots");
    if (m.up)
        process_kill();
    m.reboot = true;
}

static void do_review(void)
{
    scheduler_review();
}

static const struct {
    unsigned weight;
    const char *what;
    void (*fn)(void);
} kinds[] = {
    {14, "a pod comes", do_new_pod},
    {2, "pods come", do_new_pods},
    {44, "pods go on", advance_pods},
    {7, "a pod terminates", do_terminate},
    {2, "a pod is deleted by force", do_delete_by_force},
    {3, "a sandbox is lost", do_lose_sandbox},
    {7, "a moment passes", do_wait_little},
    {5, "seconds pass", do_wait},
    {2, "minutes pass", do_wait_long},
    {6, "a neighbour acts", do_neighbour},
    {6, "a pod acts", do_pod},
    {7, "the kernel cleans up", do_clean_up},
    {3, "controllers act", do_review},
    {3, "neighbours between requests", do_interfered},
    {2, "the kernel is stuck", do_stuck},
    {4, "a fault", do_fault},
    {5, "a kill", do_kill},
    {2, "the driver stops", do_stop_driver},
    {4, "the driver starts", do_start_driver},
    {1, "pools change", do_pools},
    {2, "a PF goes down or up", do_pf},
    {3, "the API server goes or comes", do_api},
    {2, "gates change", do_gates},
    {1, "the kubelet restarts", do_kubelet},
    {1, "the runtime restarts", do_runtime},
    {1, "a reboot", do_reboot},
};

void steps_do(unsigned index)
{
    unsigned total = 0, at, i = 0;

    m.step = index;
    m.rng = rng_of(m.seed, index + 1);
    for (size_t n = 0; n < ARRAY_SIZE(kinds); n++)
        total += kinds[n].weight;
    at = below(&m.rng, total);
    while (at >= kinds[i].weight)
        at -= kinds[i++].weight;
    if (index < 3)
        i = index; /* a pod or two to begin with */
    say("step %u: %s", index, kinds[i].what);
    if (index == 0)
        process_settle();
    kinds[i].fn();
    if (!m.dead)
        let_happen();
    m.interfere = 0;
    oracle_step();
}
