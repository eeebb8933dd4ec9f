/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet, in the place of kube/dra.c: which of its calls come when, and what it does with the
 * answers. Sources: docs/kubernetes.md.
 */
#include "tests/unit/model/model.h"

#include <errno.h>

#define DRA_LIMIT_MS 45000

/* One Prepare or Unprepare call of a pod. */
struct kubelet_call {
    struct dra_call call;
    struct kubelet_call *next;
    int pod; /* slot; -1: the kubelet doesn't wait for it any more */
    unsigned claims[2];
    unsigned answered, failed;
    int64_t began_ms;
    uint64_t began;
    bool freed_dra; /* dra_free() came: the kubelet has its answer */
};

struct dra {
    struct dra_config c;
};

static struct {
    struct dra *dra;
    bool told_registered;
    struct kubelet_call *calls;
} a;

/* ---- the driver's plugin */

int dra_new(struct loop *l, const struct dra_config *c, struct dra **ret, struct err *e)
{
    (void)l;
    (void)e;
    a.dra = xnew(struct dra);
    a.dra->c = *c;
    a.told_registered = false;
    m.node = c->data;
    *ret = a.dra;
    return 0;
}

unsigned dra_open_calls(const struct dra *d)
{
    unsigned n = 0;

    (void)d;
    for (const struct kubelet_call *k = a.calls; k; k = k->next)
        n++;
    return n;
}

static void call_free(struct kubelet_call *k)
{
    for (struct kubelet_call **at = &a.calls; *at; at = &(*at)->next)
        if (*at == k) {
            *at = k->next;
            break;
        }
    vec_foreach (ref, &k->call.claims) {
        free(ref->namespace);
        free(ref->name);
        free(ref->uid);
    }
    free(k->call.claims.v);
    free(k);
}

static void call_over(struct kubelet_call *k, bool ok)
{
    struct m_pod *p = k->pod < 0 ? NULL : &m.pods[k->pod];

    if (!p)
        return;
    if (k->call.prepare && p->stage == POD_PREPARING)
        p->stage = ok ? POD_PREPARED : POD_NEW;
    if (!k->call.prepare && p->stage == POD_UNPREPARING)
        p->stage = ok ? POD_ENDED : POD_STOPPED;
    k->pod = -1;
}

void dra_call_answer(struct dra_call *call, size_t index, struct dra_result *r)
{
    struct kubelet_call *k = container_of(call, struct kubelet_call, call);
    unsigned slot = k->claims[index];
    struct m_claim *c = &m.claims[slot];

    if (!m.dead && !k->freed_dra) {
        say("  %s of %s: %s", call->prepare ? "Prepare" : "Unprepare", c->uid,
            r->error ? r->error : "done");
        if (m.now - k->began_ms > DRA_LIMIT_MS)
            broken("the kubelet's call was answered after %lld ms",
                   (long long)(m.now - k->began_ms));
        if (r->error)
            k->failed++;
        else if (!call->prepare)
            oracle_unprepared(slot);
        else if (k->pod >= 0)
            oracle_prepared(slot, k->began, k->began_ms);
        if (!r->error && k->pod >= 0) {
            if (call->prepare && r->devices.n != c->n_devs)
                broken("Prepare of %s answers with %zu devices of %u", c->uid, r->devices.n,
                       c->n_devs);
            c->prepared = call->prepare;
            c->cached = call->prepare;
        }
    } else if (!k->freed_dra) {
        k->failed++;
    }
    vec_foreach (d, &r->devices) {
        free(d->request);
        free(d->pool);
        free(d->device);
        free(d->cdi_id);
    }
    free(r->devices.v);
    free(r->error);
    if (++k->answered == call->claims.n) {
        call_over(k, k->failed == 0);
        call_free(k);
    }
}

/* Calls that are open get UNAVAILABLE; they live until they are answered. */
void dra_free(struct dra *d)
{
    for (struct kubelet_call *k = a.calls; k; k = k->next) {
        call_over(k, false);
        k->freed_dra = true;
    }
    a.dra = NULL;
    free(d);
}

static void send_call(unsigned pod, const unsigned *claims, unsigned n, bool prepare)
{
    struct kubelet_call *k = xnew(struct kubelet_call), **last = &a.calls;

    *k = (struct kubelet_call){
        .call = {.prepare = prepare}, .pod = (int)pod, .began_ms = m.now, .began = tick()};
    for (unsigned i = 0; i < n; i++) {
        struct m_claim *c = &m.claims[claims[i]];

        k->claims[i] = claims[i];
        *VEC_PUSH(&k->call.claims) =
            (struct dra_claim_ref){xstrdup("default"), xstrdup(c->name), xstrdup(c->uid)};
        c->may_end = !prepare;
        if (!prepare)
            c->promised = 0;
        say("  the kubelet calls %s of %s", prepare ? "Prepare" : "Unprepare", c->uid);
    }
    while (*last)
        last = &(*last)->next;
    *last = k;
    a.dra->c.fn(&k->call, a.dra->c.data);
}

/* All devices of this driver in a claim decide together (claiminfo.go of 1.37). */
static bool all_frozen(const struct m_claim *c, bool prepare)
{
    if (!m.gate_kubelet)
        return false;
    for (unsigned i = 0; i < c->n_devs; i++)
        if (c->dev[i].frozen != FROZEN_ALL && (prepare || c->dev[i].frozen != FROZEN_UNPREPARE))
            return false;
    return true;
}

bool claim_has_call(unsigned claim)
{
    for (const struct kubelet_call *k = a.calls; k; k = k->next)
        for (size_t i = 0; i < k->call.claims.n; i++)
            if (k->claims[i] == claim)
                return true;
    return false;
}

bool claim_needs_unprepare(const struct m_claim *c)
{
    return !all_frozen(c, false);
}

bool kubelet_deliver(void)
{
    if (!a.dra || !m.up || a.told_registered)
        return false;
    a.told_registered = true;
    a.dra->c.registered(true, "", a.dra->c.data);
    return true;
}

void kubelet_check_times(void)
{
    for (const struct kubelet_call *k = a.calls; k; k = k->next)
        if (k->began_ms + DRA_LIMIT_MS < m.now)
            broken("the kubelet waits for an answer since %d ms", DRA_LIMIT_MS);
}

void kubelet_driver_gone(void)
{
    if (a.calls)
        broken("a call of the kubelet outlives the driver");
}

/* ---- what it does for a pod */

static bool used_by_others(unsigned pod, unsigned claim)
{
    for (unsigned i = 0; i < PODS; i++) {
        const struct m_pod *p = &m.pods[i];

        if (i == pod || !p->used || p->stage == POD_NEW || p->stage >= POD_UNPREPARING)
            continue;
        for (unsigned c = 0; c < p->n_claims; c++)
            if (p->claims[c] == claim)
                return true;
    }
    return false;
}

void kubelet_prepare(unsigned pod)
{
    struct m_pod *p = &m.pods[pod];
    unsigned wanted[2], n = 0;

    for (unsigned i = 0; i < p->n_claims; i++) {
        struct m_claim *c = &m.claims[p->claims[i]];

        if (!c->allocated || c->deleted || !(c->reserved & 1u << pod))
            return; /* the kubelet refuses it */
        if (!c->prepared && !all_frozen(c, true))
            wanted[n++] = p->claims[i];
    }
    if (n && !a.dra)
        return;
    for (unsigned i = 0; i < p->n_claims; i++)
        m.claims[p->claims[i]].cached = true;
    p->stage = n ? POD_PREPARING : POD_PREPARED;
    if (n)
        send_call(pod, wanted, n, true);
}

/* When the last pod of a claim on this node ends. */
void kubelet_unprepare(unsigned pod)
{
    struct m_pod *p = &m.pods[pod];
    unsigned wanted[2], n = 0;

    for (unsigned i = 0; i < p->n_claims; i++) {
        struct m_claim *c = &m.claims[p->claims[i]];

        if (c->cached && !used_by_others(pod, p->claims[i]) && claim_needs_unprepare(c))
            wanted[n++] = p->claims[i];
    }
    if (n && !a.dra)
        return; /* it hangs in Terminating, as this mode has it */
    for (unsigned i = 0; i < p->n_claims; i++) {
        struct m_claim *c = &m.claims[p->claims[i]];

        if (!used_by_others(pod, p->claims[i]) && !claim_needs_unprepare(c))
            c->cached = c->prepared = false;
    }
    p->stage = n ? POD_UNPREPARING : POD_ENDED;
    if (n)
        send_call(pod, wanted, n, false);
}

/* A call that the kubelet made for the pod: it doesn't wait for it any more. */
void kubelet_give_up_calls(unsigned pod)
{
    for (struct kubelet_call *k = a.calls; k; k = k->next)
        if (k->pod == (int)pod)
            k->pod = -1;
}

bool kubelet_waits_for(unsigned pod)
{
    for (const struct kubelet_call *k = a.calls; k; k = k->next)
        if (k->pod == (int)pod)
            return true;
    return false;
}

/* It asks for all claims of its pods again, since it doesn't remember having been answered. */
void kubelet_restart(void)
{
    say("  the kubelet restarts, and skips %s", m.gate_kubelet ? "what it may" : "nothing");
    for (struct m_claim *c = m.claims; c < m.claims + CLAIMS; c++)
        c->prepared = false;
    for (struct kubelet_call *k = a.calls; k; k = k->next)
        call_over(k, false);
    for (unsigned i = 0; i < PODS; i++)
        if (m.pods[i].used && m.pods[i].stage == POD_PREPARED)
            m.pods[i].stage = POD_NEW;
    m.declared = m.gate_kubelet;
    cluster_node_changed();
    if (!a.dra)
        return;
    for (unsigned i = 0; i < PODS; i++) {
        const struct m_pod *p = &m.pods[i];

        if (!p->used || p->stage != POD_RUNNING)
            continue;
        for (unsigned n = 0; n < p->n_claims; n++) {
            const struct m_claim *c = &m.claims[p->claims[n]];

            if (a.dra && c->allocated && !c->prepared && !all_frozen(c, true))
                send_call(i, &p->claims[n], 1, true);
        }
    }
}

void kubelet_reset(void)
{
    memset(&a, 0, sizeof(a));
}
