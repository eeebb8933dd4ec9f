/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools, publications and allocations: what a pod's claims are given, from what the driver
 * published last. In the place of driver/publish.c.
 */
#include "tests/unit/model/model.h"

#include "base/file.h"
#include "driver/publish.h"
#include "driver/slices.h"

#include <stdio.h>

struct publish {
    struct publish_config c;
};

static struct {
    struct publish *publish;
    bool held, news;
    unsigned dropped; /* of enum slice_field: what the driver was told that the server drops */
    struct m_offer published[FK_PFS][FK_VFS];
    char *text; /* of the slices */
} s;

unsigned vf_count(unsigned pf)
{
    return m.k->pfs[pf].n_vfs;
}

struct m_group *group_of(struct m_group *groups, struct vf_id vf)
{
    for (struct m_group *g = groups; g < groups + GROUPS; g++)
        if (g->pf == vf.pf && vf.vf >= g->first && vf.vf <= g->last)
            return g;
    return NULL;
}

void write_pools(void)
{
    _cleanup_free_ char *path = xasprintf("%s/pools.yaml", m.dir);
    FILE *f = fopen(path, "w");

    for (unsigned i = 0; i < GROUPS; i++) {
        const struct m_group *g = &m.groups[i];
        json_t *settings = vf_settings_json(&g->settings);
        json_auto_t *doc =
            json_pack("{s:s, s:s, s:{s:s}, s:{s:[{s:{s:s}, s:s}], s:s, s:s, s:{s:s}, s:o}}",
                      "apiVersion", API_GROUP_VERSION, "kind", "VirtualFunctionPool", "metadata",
                      "name", (const char *[]){"a", "b", "c"}[i], "spec", "functions", "parent",
                      "interface", g->pf ? "enp2s0" : "enp1s0", "indexes", "0", "mode",
                      mode_text(g->mode), "attach", attach_text(g->attach), "provisioning", "by",
                      g->by_driver ? "Driver" : "External", "settings", settings);
        char range[16];

        snprintf(range, sizeof(range), "%u-%u", g->first, g->last);
        json_object_set_new(json_array_get(json_at(doc, "spec.functions"), 0), "indexes",
                            json_string(range));
        _cleanup_free_ char *text = json_text(doc);
        fprintf(f, "---\n%s\n", text);
        say("  pool %u: %s", i, text);
    }
    (void)fclose(f);
}

/* ---- what the driver publishes */

struct publish *publish_new(struct loop *l, struct api *a, const struct publish_config *c)
{
    (void)l;
    (void)a;
    s.publish = xnew(struct publish);
    s.publish->c = *c;
    s.held = c->held;
    s.news = false;
    s.dropped = 0;
    return s.publish;
}

void publish_free(struct publish *p)
{
    s.publish = NULL;
    free(p);
}

void publish_go(struct publish *p)
{
    (void)p;
    s.held = false;
}

static bool attribute_bool(const json_t *device, const char *name)
{
    return json_is_true(
        json_object_get(json_object_get(json_object_get(device, "attributes"), name), "bool"));
}

static const char *attribute_text(const json_t *device, const char *name)
{
    return json_string_value(
        json_object_get(json_object_get(json_object_get(device, "attributes"), name), "string"));
}

static struct m_offer *offer_named(const char *name)
{
    char address[PCI_ADDRESS_SIZE];

    if (!device_address(name, address))
        broken("published a device \"%s\"", name);
    for (unsigned pf = 0; pf < m.k->n_pfs; pf++)
        for (unsigned vf = 0; vf < FK_VFS; vf++)
            if (streq(m.k->pfs[pf].vfs[vf].address, address))
                return &s.published[pf][vf];
    broken("published a device \"%s\", of which there is no VF", name);
}

/* A device as a scheduler understands it: its slice's list, its taint, its attributes. */
static void take_device(const json_t *device, enum frozen list)
{
    struct m_offer *o = offer_named(json_str_at(device, "name"));

    if (o->there)
        broken("device %s is published twice", json_str_at(device, "name"));
    *o = (struct m_offer){
        .there = true,
        .tainted = json_array_size(json_object_get(device, "taints")) > 0,
        .verified = attribute_bool(device, "verified"),
        .skip_honoured = attribute_bool(device, "skipHonoured"),
        .list = list,
    };
    if (mode_parse(attribute_text(device, "mode"), &o->mode) < 0)
        broken("device %s is published without a mode", json_str_at(device, "name"));
    if (o->skip_honoured != (list != FROZEN_NOTHING))
        broken("device %s: skipHonoured isn't what its slice says", json_str_at(device, "name"));
    if (o->tainted == o->verified)
        broken("device %s: verified and its taint don't agree", json_str_at(device, "name"));
    if (list == FROZEN_ALL && !o->verified)
        broken("device %s isn't verified, and in a slice that skips", json_str_at(device, "name"));
}

static char *texts_of(const json_vec *slices)
{
    struct strbuf b = {0};

    vec_foreach (slice, slices) {
        _cleanup_free_ char *text = json_text(*slice);

        strbuf_printf(&b, "%s\n", text);
    }
    return b.len ? strbuf_take(&b) : xstrdup("");
}

void publish_set(struct publish *p, const char *node_uid, const device_vec *devices)
{
    json_vec slices = {0};

    if (m.dead || !node_uid)
        return;
    slices_wanted(&(struct slices_config){p->c.driver, p->c.node, node_uid}, devices, &slices);
    memset(s.published, 0, sizeof(s.published));
    _cleanup_free_ char *text = texts_of(&slices);
    m.did.publications += !streq_null(s.text, text);
    free(s.text);
    s.text = TAKE_PTR(text);
    vec_foreach (slice, &slices) {
        const json_t *skips = json_at(*slice, "spec.skipNodeOperations");
        json_t *list = json_at(*slice, "spec.devices"), *device;
        enum frozen frozen = FROZEN_NOTHING;
        size_t i;

        if (json_array_size(skips))
            frozen = streq(json_string_value(json_array_get(skips, 0)), "*") ? FROZEN_ALL
                                                                             : FROZEN_UNPREPARE;
        json_array_foreach (list, i, device)
            take_device(device, frozen);
    }
    json_vec_done(&slices);
    s.news = true;
    oracle_published(s.published);
}

/* What a server with its gates off drops of it. */
static unsigned drops(void)
{
    unsigned fields = 0;

    for (unsigned pf = 0; pf < FK_PFS; pf++)
        for (unsigned vf = 0; vf < FK_VFS; vf++) {
            const struct m_offer *o = &s.published[pf][vf];

            if (o->list != FROZEN_NOTHING && !m.gate_api)
                fields |= SLICE_FIELD_LIST;
            if (o->tainted && !m.gate_taints)
                fields |= SLICE_FIELD_TAINTS;
        }
    return fields;
}

/* Written, and what came back compared. What was dropped is told, and published anew without. */
void scheduler_deliver(void)
{
    unsigned worth_a_try =
        (m.gate_api ? SLICE_FIELD_LIST : 0u) | (m.gate_taints ? SLICE_FIELD_TAINTS : 0u);

    if (!s.publish || s.held || m.dead)
        return;
    if (s.dropped & worth_a_try) {
        s.dropped = 0;
        s.publish->c.dropped(0, s.publish->c.data);
    }
    if (!s.news)
        return;
    s.news = false;
    unsigned dropped = drops();
    if (dropped & ~s.dropped) {
        s.dropped |= dropped;
        s.publish->c.dropped(s.dropped, s.publish->c.data);
        return;
    }
    memcpy(m.offers, s.published, sizeof(m.offers));
    s.publish->c.published(1, 1, 1, s.publish->c.data);
}

/* ---- allocation */

static bool is_allocated(struct vf_id vf)
{
    for (const struct m_claim *c = m.claims; c < m.claims + CLAIMS; c++)
        for (unsigned i = 0; c->used && c->allocated && !c->deleted && i < c->n_devs; i++)
            if (c->dev[i].vf.pf == vf.pf && c->dev[i].vf.vf == vf.vf)
                return true;
    return false;
}

/* A free device that isn't tainted; now and then one that is, or even one that is allocated. */
static bool pick_device(const struct m_device *mine, unsigned n, const enum mode *mode,
                        struct vf_id *ret)
{
    bool careless = chance(&m.rng, 4), wrong = chance(&m.rng, 1);

    for (unsigned tries = 0; tries < 12; tries++) {
        struct vf_id vf = {.pf = below(&m.rng, m.k->n_pfs)};
        bool taken = false;

        if (!vf_count(vf.pf))
            continue;
        vf.vf = below(&m.rng, vf_count(vf.pf));
        const struct m_offer *o = &m.offers[vf.pf][vf.vf];

        for (unsigned i = 0; i < n; i++)
            taken |= mine[i].vf.pf == vf.pf && mine[i].vf.vf == vf.vf;
        if (taken || !o->there || (mode && o->mode != *mode) || (!careless && o->tainted) ||
            (!wrong && is_allocated(vf)))
            continue;
        *ret = vf;
        return true;
    }
    return false;
}

static void wish_settings(struct wish *w, unsigned number, bool preprovisioned)
{
    /* Of a VF that is preprovisioned, only now and then: a mistake. */
    if (preprovisioned && !chance(&m.rng, 8))
        return;
    if (chance(&m.rng, 50)) {
        w->claim.set |= VF_SET_MAC;
        w->claim.mac = (struct mac){{0x52, 0x54, 0, 0, (uint8_t)(number >> 8), (uint8_t)number}};
    }
    if (chance(&m.rng, 50)) {
        struct vf_settings *to = chance(&m.rng, 30) ? &w->class : &w->claim;

        to->set |= VF_SET_VLAN;
        to->vlan_id = (uint16_t)(below(&m.rng, 4) * 100);
        to->vlan_qos = to->vlan_id ? (uint8_t)below(&m.rng, 4) : 0;
    }
    if (chance(&m.rng, 30)) {
        w->claim.set |= VF_SET_MTU;
        w->claim.mtu = 1300 + 50 * below(&m.rng, 5); /* 1500 at most, as the PF's */
    }
    if (chance(&m.rng, 25)) {
        w->class.set |= VF_SET_RATE;
        w->class.max_tx_mbps = 100 * below(&m.rng, 12); /* above 1000: more than the link has */
    }
    if (chance(&m.rng, 25)) {
        w->class.set |= VF_SET_SPOOFCHK;
        w->class.spoofchk = chance(&m.rng, 50);
    }
    if (chance(&m.rng, 25)) {
        w->class.set |= VF_SET_TRUST;
        w->class.trust = chance(&m.rng, 60);
    }
    if (chance(&m.rng, 5)) {
        w->class.set |= VF_SET_LINK_STATE;
        w->class.link_state = below(&m.rng, 3);
    }
}

static void wish_interface(struct wish *w, unsigned number, unsigned device)
{
    if (chance(&m.rng, 60))
        snprintf(w->name, sizeof(w->name), "net%u", device + 1);
    if (chance(&m.rng, 20))
        w->mtu = 1280;
    if (chance(&m.rng, 40)) {
        w->addr = 1 + number % 250;
        w->route = chance(&m.rng, 40);
    }
}

/* Its spec and its class stay as they are, when it is allocated again. */
static bool allocate(struct m_claim *c)
{
    bool first = !c->n_devs;
    unsigned want = !first ? c->n_devs : chance(&m.rng, 20) ? 2 : 1, n = 0;
    struct m_device devs[DEVICES] = {0};

    for (unsigned i = 0; i < want; i++) {
        struct m_device *d = &devs[n];

        if (!first)
            *d = c->dev[i];
        if (!pick_device(devs, n, first ? NULL : &d->mode, &d->vf)) {
            if (!first)
                return false;
            continue;
        }
        const struct m_offer *o = &m.offers[d->vf.pf][d->vf.vf];
        const struct m_group *g = group_of(m.groups, d->vf);

        d->frozen = m.gate_scheduler ? o->list : FROZEN_NOTHING;
        n++;
        if (!first)
            continue;
        unsigned number = ++m.numbers;
        d->mode = o->mode;
        wish_settings(&d->wish, number, o->mode == MODE_SKIP);
        if (!g || g->attach == ATTACH_NRI || chance(&m.rng, 10))
            wish_interface(&d->wish, number, i);
    }
    if (!n)
        return false;
    memcpy(c->dev, devs, sizeof(devs));
    c->n_devs = n;
    c->allocated = true;
    return true;
}

static int free_claim(void)
{
    for (unsigned i = 0; i < CLAIMS; i++)
        if (!m.claims[i].used)
            return (int)i;
    return -1;
}

/* A claim of an earlier pod that none has now, allocated anew if need be. */
static int idle_claim(void)
{
    unsigned from = below(&m.rng, CLAIMS);

    for (unsigned i = 0; i < CLAIMS; i++) {
        unsigned at = (from + i) % CLAIMS;
        const struct m_claim *c = &m.claims[at];

        /* A kubelet that has it still would give the pod what it was allocated before. */
        bool idle = !c->reserved && (c->allocated || !c->cached);

        if (c->used && !c->deleted && (idle || (c->allocated && chance(&m.rng, 20))))
            return (int)at;
    }
    return -1;
}

/* By anybody, so that its slot can't be another's yet. */
static bool is_known(const struct m_claim *c)
{
    unsigned number = (unsigned)(c - m.claims);

    if (c->on_disk || c->cached || claim_has_call(number))
        return true;
    for (const struct m_pod *p = m.pods; p < m.pods + PODS; p++)
        for (unsigned i = 0; p->used && i < p->n_claims; i++)
            if (p->claims[i] == number)
                return true;
    /* A driver that was told that removing its record failed writes it once more. */
    return m.node && claims_find(m.node->claims, c->uid);
}

static int claim_for_pod(void)
{
    int i = chance(&m.rng, 15) ? idle_claim() : -1;

    if (i < 0) {
        i = free_claim();
        if (i < 0)
            return -1;
        unsigned number = ++m.numbers;

        m.claims[i] = (struct m_claim){.used = true};
        snprintf(m.claims[i].name, sizeof(m.claims[i].name), "c%u", number);
        snprintf(m.claims[i].uid, sizeof(m.claims[i].uid), "claim-%u", number);
    }
    if (!m.claims[i].allocated && !allocate(&m.claims[i])) {
        if (!m.claims[i].reserved && !is_known(&m.claims[i]))
            m.claims[i].used = false;
        return -1;
    }
    return i;
}

bool scheduler_new_pod(void)
{
    unsigned slot = 0, want = chance(&m.rng, 15) ? 2 : 1;

    while (slot < PODS && m.pods[slot].used)
        slot++;
    if (slot == PODS || m.api != API_UP)
        return false;
    struct m_pod *p = &m.pods[slot];
    *p = (struct m_pod){.sandbox = -1, .host_network = chance(&m.rng, 3)};
    for (unsigned i = 0; i < CLAIMS; i++)
        m.claims[i].held_for &= ~(1u << slot); /* an earlier pod had the slot */
    for (unsigned i = 0; i < want; i++) {
        int c = claim_for_pod();

        if (c < 0 || (p->n_claims && p->claims[0] == (unsigned)c))
            continue;
        m.claims[c].reserved |= 1u << slot;
        p->claims[p->n_claims++] = (unsigned)c;
    }
    if (!p->n_claims)
        return false;
    unsigned number = ++m.numbers;
    p->used = true;
    snprintf(p->name, sizeof(p->name), "p%u", number);
    snprintf(p->uid, sizeof(p->uid), "pod-%u", number);
    for (unsigned i = 0; i < p->n_claims; i++) {
        json_auto_t *o = claim_json(&m.claims[p->claims[i]]);
        _cleanup_free_ char *text = json_text(json_at(o, "status"));

        say("  pod %s has claim %s: %s", p->uid, m.claims[p->claims[i]].uid, text);
    }
    cluster_pod_changed(slot);
    return true;
}

/* The controllers: who isn't there any more reserves nothing, and what nobody has is given back. */
void scheduler_review(void)
{
    if (m.api != API_UP)
        return;
    for (struct m_claim *c = m.claims; c < m.claims + CLAIMS; c++) {
        if (!c->used)
            continue;
        for (unsigned p = 0; p < PODS; p++)
            if ((c->reserved & 1u << p) &&
                (!m.pods[p].used || m.pods[p].deleted || m.pods[p].finished))
                c->reserved &= ~(1u << p);
        if (c->reserved)
            continue;
        if (c->allocated) {
            say("  claim %s is deallocated", c->uid);
            c->allocated = false;
            json_decref(c->told);
            c->told = NULL;
        }
        if (!c->deleted && chance(&m.rng, 70)) {
            say("  claim %s is deleted", c->uid);
            c->deleted = true;
        }
        if (c->deleted && !is_known(c))
            c->used = false;
    }
}

void scheduler_reset(void)
{
    free(s.text);
    memset(&s, 0, sizeof(s));
}
