/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime and its sandboxes, in the place of kube/nri.c. Sources: docs/kubernetes.md.
 */
#include "tests/unit/model/model.h"

#define NRI_LIMIT_MS 2000

struct nri_call {
    struct nri_call *next;
    unsigned sandbox;
    enum nri_event event;
    struct nri_pod pod;
    struct nri_container container;
    int64_t began_ms;
    uint64_t began;
};

struct nri {
    struct nri_handlers h;
};

static struct {
    struct nri *nri;
    bool connected;
    struct nri_call *events;
} a;

/* ---- the driver's plugin */

int nri_new(struct loop *l, const struct nri_config *c, const struct nri_handlers *h,
            struct nri **ret, struct err *e)
{
    (void)l;
    (void)c;
    (void)e;
    a.nri = xnew(struct nri);
    a.nri->h = *h;
    a.connected = false;
    *ret = a.nri;
    return 0;
}

int nri_request_timeout_ms(const struct nri *n)
{
    (void)n;
    return NRI_LIMIT_MS;
}

bool nri_connected(const struct nri *n)
{
    (void)n;
    return a.connected;
}

static void nri_call_free(struct nri_call *e)
{
    for (struct nri_call **at = &a.events; *at; at = &(*at)->next)
        if (*at == e) {
            *at = e->next;
            break;
        }
    free(e->pod.id);
    free(e->pod.name);
    free(e->pod.uid);
    free(e->pod.namespace);
    free(e->pod.netns);
    free(e->container.id);
    free(e->container.sandbox_id);
    free(e->container.name);
    free(e);
}

static void send_event(unsigned sandbox, enum nri_event event)
{
    struct m_sandbox *sb = &m.sandboxes[sandbox];
    const struct m_pod *p = &m.pods[sb->pod];
    struct nri_call *e = xnew(struct nri_call), **last = &a.events;
    char path[96];

    *e = (struct nri_call){.sandbox = sandbox,
                           .event = event,
                           .began_ms = m.now,
                           .began = tick(),
                           .pod = {.id = xstrdup(sb->id),
                                   .name = xstrdup(p->name),
                                   .uid = xstrdup(p->uid),
                                   .namespace = xstrdup("default")}};
    if (sb->netns > 0 && m.k->netns[sb->netns].mounted) {
        fk_netns_path(m.k, sb->netns, path);
        e->pod.netns = xstrdup(path);
    }
    if (event == NRI_CREATE_CONTAINER) {
        e->container = (struct nri_container){
            .id = xasprintf("%s-c", sb->id), .sandbox_id = xstrdup(sb->id), .name = xstrdup("app")};
    }
    while (*last)
        last = &(*last)->next;
    *last = e;
    a.nri->h.event(e, event, &e->pod, event == NRI_CREATE_CONTAINER ? &e->container : NULL,
                   a.nri->h.data);
}

/* The namespace's path goes, and the kernel cleans up when it gets to it. */
static void tear_down(struct m_sandbox *sb)
{
    sb->alive = sb->running = false;
    if (sb->netns > 0)
        fk_netns_unmount(m.k, sb->netns);
}

static void sandbox_stopped(unsigned sandbox)
{
    struct m_sandbox *sb = &m.sandboxes[sandbox];
    struct m_pod *p = &m.pods[sb->pod];

    oracle_sample();
    tear_down(sb);
    if (p->sandbox == (int)sandbox)
        p->sandbox = -1;
    if (p->stage == POD_STOPPING)
        p->stage = p->terminating ? POD_STOPPED : POD_PREPARED;
}

/* Fails the sandbox: stopped and removed, and tried again later. */
static void sandbox_failed(unsigned sandbox)
{
    struct m_sandbox *sb = &m.sandboxes[sandbox];

    m.pods[sb->pod].stage = POD_STOPPING;
    if (a.connected)
        send_event(sandbox, NRI_STOP_SANDBOX);
    else
        sandbox_stopped(sandbox);
}

/* What the runtime does with an answer; `error` NULL where it goes on. */
static void event_over(unsigned sandbox, enum nri_event event, const char *error)
{
    struct m_sandbox *sb = &m.sandboxes[sandbox];
    struct m_pod *p = &m.pods[sb->pod];

    switch (event) {
    case NRI_RUN_SANDBOX:
        if (p->stage != POD_STARTING)
            break;
        if (error) {
            sandbox_failed(sandbox);
        } else {
            p->stage = POD_SANDBOX;
        }
        break;
    case NRI_CREATE_CONTAINER:
        if (p->stage != POD_CREATING)
            break;
        p->stage = error ? POD_SANDBOX : POD_RUNNING;
        sb->running = !error;
        break;
    case NRI_STOP_SANDBOX:
        sandbox_stopped(sandbox);
        break;
    case NRI_REMOVE_SANDBOX:
        break;
    }
}

void nri_reply(struct nri_call *e, const char *error, const struct nri_adjust *adjust)
{
    static const char *const names[] = {"RunPodSandbox", "StopPodSandbox", "RemovePodSandbox",
                                        "CreateContainer"};
    unsigned sandbox = e->sandbox;
    enum nri_event event = e->event;
    _cleanup_free_ char *why = xstrdup(error);
    uint64_t began = e->began;
    int64_t began_ms = e->began_ms;

    (void)adjust;
    nri_call_free(e);
    if (m.dead) { /* the runtime sees a connection that breaks, and goes on */
        event_over(sandbox, event, NULL);
        return;
    }
    say("  %s of %s: %s", names[event], m.sandboxes[sandbox].id, why ? why : "goes on");
    if (m.now - began_ms > NRI_LIMIT_MS)
        broken("the runtime waited %lld ms for an answer", (long long)(m.now - began_ms));
    bool start = event == NRI_RUN_SANDBOX || event == NRI_CREATE_CONTAINER;
    if (!start && why)
        broken("%s was refused: %s", names[event], why);
    if (start && !why)
        oracle_sandbox_ok(sandbox, event == NRI_RUN_SANDBOX, began, began_ms);
    if (event == NRI_RUN_SANDBOX && why)
        oracle_sandbox_refused(sandbox, began);
    event_over(sandbox, event, why);
}

void nri_free(struct nri *n)
{
    a.nri = NULL;
    a.connected = false;
    free(n);
}

static void synchronize(void)
{
    nri_pod_vec pods = {0};
    nri_container_vec containers = {0};
    char path[96], space[] = "default", app[] = "app";

    for (unsigned i = 0; i < SANDBOXES; i++) {
        struct m_sandbox *sb = &m.sandboxes[i];
        struct m_pod *p = &m.pods[sb->pod];

        if (!sb->used || sb->removed)
            continue;
        struct nri_pod *out = VEC_PUSH(&pods);
        *out = (struct nri_pod){.id = sb->id, .name = p->name, .uid = p->uid, .namespace = space};
        if (sb->alive && sb->netns > 0) {
            fk_netns_path(m.k, sb->netns, path);
            out->netns = xstrdup(path);
        }
        if (sb->running)
            *VEC_PUSH(&containers) =
                (struct nri_container){.id = sb->id, .sandbox_id = sb->id, .name = app, .state = 3};
    }
    a.nri->h.synchronize(&pods, &containers, a.nri->h.data);
    vec_foreach (p, &pods)
        free(p->netns);
    free(pods.v);
    free(containers.v);
}

bool runtime_deliver(void)
{
    if (!a.nri || !m.up || a.connected || !m.runtime_up)
        return false;
    a.connected = true;
    a.nri->h.state(true, "model", a.nri->h.data);
    synchronize();
    return true;
}

/* An answer that doesn't come: the runtime closes the plugin, and the pod goes on. */
int64_t runtime_next(void)
{
    int64_t first = INT64_MAX;

    for (const struct nri_call *e = a.events; e; e = e->next)
        if (e->began_ms + NRI_LIMIT_MS + 1 < first)
            first = e->began_ms + NRI_LIMIT_MS + 1;
    if (first <= m.now)
        broken("the runtime waits for an answer since %d ms", NRI_LIMIT_MS);
    return first;
}

void runtime_driver_gone(void)
{
    for (struct nri_call *e = a.events; e; e = a.events) {
        unsigned sandbox = e->sandbox;
        enum nri_event event = e->event;

        nri_call_free(e);
        say("  nobody answers for %s: it goes on", m.sandboxes[sandbox].id);
        event_over(sandbox, event, NULL);
    }
}

/* ---- sandboxes of a pod */

void runtime_start_sandbox(unsigned pod)
{
    struct m_pod *p = &m.pods[pod];
    unsigned slot = 0;

    while (slot < SANDBOXES && m.sandboxes[slot].used)
        slot++;
    if (slot == SANDBOXES)
        return;
    struct m_sandbox *sb = &m.sandboxes[slot];
    unsigned number = ++m.numbers;

    *sb = (struct m_sandbox){.used = true, .pod = pod, .alive = true, .netns = -1};
    snprintf(sb->id, sizeof(sb->id), "sb-%u", number);
    if (!p->host_network) {
        sb->netns = fk_netns_add(m.k, sb->id);
        (void)fk_add_dummy(m.k, sb->netns, chance(&m.rng, 90) ? "eth0" : "net1");
    }
    p->sandbox = (int)slot;
    p->stage = POD_STARTING;
    say("  sandbox %s of pod %s starts", sb->id, p->uid);
    if (a.connected)
        send_event(slot, NRI_RUN_SANDBOX);
    else
        event_over(slot, NRI_RUN_SANDBOX, NULL);
}

void runtime_create_container(unsigned pod)
{
    struct m_pod *p = &m.pods[pod];

    p->stage = POD_CREATING;
    if (a.connected)
        send_event((unsigned)p->sandbox, NRI_CREATE_CONTAINER);
    else
        event_over((unsigned)p->sandbox, NRI_CREATE_CONTAINER, NULL);
}

void runtime_stop_sandbox(unsigned pod)
{
    struct m_pod *p = &m.pods[pod];
    unsigned slot = (unsigned)p->sandbox;

    m.sandboxes[slot].running = false;
    p->stage = POD_STOPPING;
    if (a.connected && !m.sandboxes[slot].forgotten)
        send_event(slot, NRI_STOP_SANDBOX);
    else
        sandbox_stopped(slot);
}

void runtime_remove_sandboxes(unsigned pod)
{
    for (unsigned i = 0; i < SANDBOXES; i++) {
        struct m_sandbox *sb = &m.sandboxes[i];

        if (!sb->used || sb->pod != pod || sb->alive || sb->removed)
            continue;
        sb->removed = true;
        if (a.connected && !sb->forgotten)
            send_event(i, NRI_REMOVE_SANDBOX);
    }
}

bool runtime_is_at(unsigned sandbox)
{
    for (const struct nri_call *e = a.events; e; e = e->next)
        if (e->sandbox == sandbox)
            return true;
    return false;
}

void runtime_end_netns(unsigned sandbox)
{
    struct m_sandbox *sb = &m.sandboxes[sandbox];

    if (!sb->used || sb->alive)
        return;
    if (sb->netns > 0) {
        say("  the kernel has cleaned up after %s", sb->id);
        oracle_sample();
        fk_netns_end(m.k, sb->netns);
        oracle_sample();
        sb->netns = 0;
    }
    if (sb->removed)
        sb->used = false;
}

/* containerd forgets its sandboxes for NRI, and sends no Stop or Remove for them then. */
void runtime_restart(void)
{
    if (a.events)
        return;
    say("  the runtime restarts");
    for (struct m_sandbox *sb = m.sandboxes; sb < m.sandboxes + SANDBOXES; sb++)
        sb->forgotten |= sb->used;
    if (a.connected) {
        a.connected = false;
        a.nri->h.state(false, "model", a.nri->h.data);
    }
}

void runtime_reset(void)
{
    memset(&a, 0, sizeof(a));
}
