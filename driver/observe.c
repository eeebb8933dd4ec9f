/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/observe.h"

#include "base/log.h"
#include "driver/events.h"
#include "driver/metrics.h"
#include "driver/naming.h"
#include "driver/provision.h"
#include "driver/provisioning.h"
#include "driver/shares.h"
#include "driver/verify.h"
#include "netlink/monitor.h"
#include "sriov/survey.h"

#define SETTLE_MS   100
#define INTERVAL_MS (3 * 60 * 1000) /* what no message tells: a foreign tool's VLAN on a VF */
#define RETRY_MS    10000           /* where the hardware couldn't be read */

/* When a device last changed hands; a look that began before is worth nothing. */
struct device_epoch {
    char device[DEVICE_NAME_SIZE];
    uint64_t epoch;
};

struct observe {
    struct node *node;
    struct worker *worker;
    struct monitor *monitor;
    struct timer *settle, *interval;
    bool looking, again; /* looking: or learning names */
    struct naming naming;
    bool named;                       /* it is done: before, nothing is published */
    uint64_t epoch, looked, labelled; /* when the last look began, and the labels changed */
    VEC(struct device_epoch) changed;
    vf_fact_vec facts; /* of the last look */
    share_vec shares;  /* by pool, as they were told */

    /* the worker's */
    struct sysroot root;
    struct nl_transport *nl;
};

/* A VF that a live claim has, as it was when the look began. */
struct held_vf {
    char vf_address[PCI_ADDRESS_SIZE];
    bool settled; /* set up, and nothing is being done to it */
    struct vf_settings given;
};

struct look {
    struct job job;
    struct observe *o;
    uint64_t epoch;
    char *node_name;
    bool suspicious;
    const struct pools *pools;       /* read only, and unchanged while the node runs */
    const struct inventory *earlier; /* likewise while a look is under way; NULL: take no names */
    json_t *labels;
    VEC(struct held_vf) held;
    struct inventory inv;
    vf_fact_vec facts;
    int result;
    struct err err;
};

static const struct held_vf *find_held(const struct look *k, const char *address)
{
    vec_foreach (h, &k->held)
        if (streq(h->vf_address, address))
            return h;
    return NULL;
}

static void judge(struct look *k, const struct survey *s, const struct pf *pf, const struct vf *vf,
                  const struct pool *pool, struct vf_fact *fact)
{
    const struct held_vf *held = find_held(k, vf->address);
    _cleanup_(vf_state_done) struct vf_state state = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    int r = survey_vf(s, &k->inv, pf, vf, &state, &e);
    if (held && (r < 0 || !held->settled)) {
        /* How it is at this moment says nothing; it is judged again when it is free. */
        *fact = (struct vf_fact){.in_use = true, .verified = true};
    } else if (r < 0) {
        *fact = (struct vf_fact){.why = xstrdup(err_text(&e))};
    } else if (held) {
        verify_held(&state, pool, &held->given, fact);
    } else {
        verify_free(&state, pool, k->suspicious, fact);
    }
    strcpy(fact->vf_address, vf->address);
}

static void look_run(struct job *j)
{
    struct look *k = container_of(j, struct look, job);
    _cleanup_(survey_done) struct survey s = {0};

    k->result = inventory_read(&k->o->root, &k->inv, &k->err);
    if (k->result == 0)
        k->result = survey_take(k->o->nl, &k->inv, &s, &k->err);
    if (k->result < 0)
        return;
    if (k->earlier) {
        inventory_copy_names(&k->inv, k->earlier);
        inventory_fill_names(&k->inv);
    }
    vec_foreach (pf, &k->inv.pfs)
        vec_foreach (vf, &pf->vfs) {
            const struct pool *pool = pools_find(k->pools, k->node_name, k->labels, pf, vf);

            if (pool)
                judge(k, &s, pf, vf, pool, VEC_PUSH(&k->facts));
        }
}

static void look_free(struct look *k)
{
    inventory_done(&k->inv);
    vf_fact_vec_done(&k->facts);
    err_clear(&k->err);
    json_decref(k->labels);
    free(k->held.v);
    free(k->node_name);
    free(k);
}

static const struct vf_fact *fact_of(const vf_fact_vec *v, const char *address)
{
    vec_foreach (f, v)
        if (streq(f->vf_address, address))
            return f;
    return NULL;
}

/* One that is free, and ours to put right. */
static bool is_provisioned_here(const struct look *k, const struct vf_fact *f)
{
    const struct provision_input in = {
        .pools = k->pools, .node = k->node_name, .labels = k->labels};
    const struct pf *pf;
    const struct vf *vf = inventory_find_vf(&k->inv, f->vf_address, &pf);

    return !f->in_use && vf && provision_pool(&in, pf, vf);
}

/* Not verified, and that is new. One that is ours to set up, and isn't yet, is no drift. */
static bool is_news(const struct look *k, const vf_fact_vec *before, const struct vf_fact *f)
{
    const struct vf_fact *old = fact_of(before, f->vf_address);

    if (f->verified || (!old && is_provisioned_here(k, f)))
        return false;
    return !old || old->verified || f->harmed != old->harmed;
}

/* One event for all of a pool: before they are provisioned that may be hundreds. */
static void tell_pool(struct node *n, const struct look *k, const struct pool *pool,
                      const vf_fact_vec *before, const vf_fact_vec *now)
{
    const struct vf_fact *first = NULL;
    size_t count = 0;

    vec_foreach (f, now) {
        const struct pf *pf;
        const struct vf *vf = inventory_find_vf(&k->inv, f->vf_address, &pf);

        if (!vf || !is_news(k, before, f) ||
            pools_find(k->pools, k->node_name, k->labels, pf, vf) != pool)
            continue;
        if (!first)
            first = f;
        count++;
    }
    if (count)
        events_vfs_drifted(n, pool->name, first, count);
}

/* What changed for people: a VF that drifted, or is right again. */
static void tell(struct node *n, const struct look *k, const vf_fact_vec *before,
                 const vf_fact_vec *now)
{
    vec_foreach (f, now) {
        const struct vf_fact *old = fact_of(before, f->vf_address);

        if (is_provisioned_here(k, f))
            continue; /* who puts it right logs it */
        if (is_news(k, before, f)) {
            log_warn("VF isn't offered as verified", "vf", f->vf_address, "why",
                     f->why ? f->why : "unknown");
            if (f->harmed)
                events_claim_harmed(n, f);
        } else if (f->verified && old && !old->verified) {
            log_info("VF is verified again", "vf", f->vf_address);
        }
    }
    vec_foreach (pool, &k->pools->pools)
        tell_pool(n, k, pool, before, now);
}

static uint64_t changed_at(const struct observe *o, const char *device)
{
    vec_foreach (c, &o->changed)
        if (streq(c->device, device))
            return c->epoch;
    return 0;
}

static void look_start(struct observe *o);

/*
 * Keeps of a look what is still true: what changed hands, or is being worked on, since it began is
 * as it was known before, and is looked at again.
 */
static void take_facts(struct observe *o, struct look *k)
{
    vf_fact_vec kept = {0};

    vec_foreach (f, &k->facts) {
        char device[DEVICE_NAME_SIZE];

        device_name(f->vf_address, device);
        const struct vf_fact *old = fact_of(&o->facts, f->vf_address);
        const struct claim *holder = claims_holder(o->node->claims, device);
        bool changed = changed_at(o, device) > k->epoch;

        *VEC_PUSH(&kept) = vf_fact_copy(old && (changed || (holder && holder->busy)) ? old : f);
        o->again |= changed;
    }
    tell(o->node, k, &o->facts, &kept);
    vf_fact_vec_done(&o->facts);
    o->facts = kept;
}

static void take(struct observe *o, struct look *k)
{
    if (k->result < 0) {
        log_error_err(&k->err, "hardware not read: tried again soon");
        timer_set(o->interval, RETRY_MS);
        return;
    }
    o->looked = k->epoch;
    take_facts(o, k);
    inventory_done(&o->node->inv);
    o->node->inv = k->inv;
    memset(&k->inv, 0, sizeof(k->inv));
    shares_tell(o->node, &o->shares);
}

/* Whether what would be published is known to be wrong: no names, or other pools may be meant. */
static bool is_blind(const struct observe *o)
{
    return !o->named || o->looked < o->labelled;
}

static void look_again(struct observe *o)
{
    if (!o->again)
        return;
    o->again = false;
    if (is_blind(o))
        look_start(o);
    else
        observe_dirty(o);
}

static void on_named(struct naming *names, void *data)
{
    struct observe *o = data;

    o->looking = false;
    o->named = true;
    inventory_copy_names(&o->node->inv, &names->named);
    naming_done(names);
    if (o->node->stopping)
        return;
    look_again(o);
    observe_publish(o);
}

static void look_done(struct job *j)
{
    struct look *k = container_of(j, struct look, job);
    struct observe *o = k->o;

    o->looking = false;
    take(o, k);
    look_free(k);
    if (o->node->stopping)
        return;
    look_again(o);
    provisioning_review(o->node->provisioning);
    observe_publish(o);
    node_review_claims(o->node); /* a VF that was waited for may be home */
}

static void add_held(struct look *k, const struct claim *c)
{
    vec_foreach (d, &c->rec->devices) {
        struct held_vf *h = VEC_PUSH(&k->held);

        strcpy(h->vf_address, d->grant.vf_address);
        h->settled = !c->busy && c->rec->state == RECORD_PREPARED;
        h->given = d->grant.settings;
    }
}

static struct look *look_new(struct observe *o)
{
    struct look *k = xnew(struct look);
    struct claims *claims = o->node->claims;

    *k = (struct look){
        .job = {.run = look_run, .done = look_done},
        .o = o,
        .epoch = ++o->epoch,
        .node_name = xstrdup(o->node->c.name),
        .suspicious = o->node->suspicious,
        .pools = &o->node->pools,
        .labels = json_deep_copy(o->node->labels),
    };
    for (const struct claim *c = claims_next(claims, NULL); c; c = claims_next(claims, c))
        add_held(k, c);
    return k;
}

static void look_start(struct observe *o)
{
    if (o->node->stopping)
        return;
    if (o->looking) {
        o->again = true;
        return;
    }
    o->looking = true;
    struct look *k = look_new(o);
    k->earlier = &o->node->inv;
    worker_submit(o->worker, &k->job);
}

static void settled(void *data)
{
    look_start(data);
}

static void interval_over(void *data)
{
    struct observe *o = data;

    timer_set(o->interval, INTERVAL_MS);
    look_start(o);
}

static void on_event(const struct monitor_event *ev, void *data)
{
    (void)ev;
    observe_dirty(data);
}

bool observe_idle(const struct observe *o)
{
    return !o->looking;
}

const vf_fact_vec *observe_facts(const struct observe *o)
{
    return &o->facts;
}

void observe_dirty(struct observe *o)
{
    if (!timer_is_set(o->settle))
        timer_set(o->settle, SETTLE_MS);
}

void observe_labels_changed(struct observe *o)
{
    bool matter = false;

    vec_foreach (p, &o->node->pools.pools)
        matter |= p->node_labels.n > 0;
    if (!matter) { /* but that they are known does */
        shares_tell(o->node, &o->shares);
        provisioning_review(o->node->provisioning);
        return;
    }
    o->labelled = ++o->epoch;
    look_start(o);
}

void observe_device_changed(struct observe *o, const char *device)
{
    struct device_epoch *at = NULL;

    vec_foreach (c, &o->changed)
        if (streq(c->device, device))
            at = c;
    if (!at) {
        at = VEC_PUSH(&o->changed);
        strcpy(at->device, device);
    }
    at->epoch = ++o->epoch;
}

void observe_publish(struct observe *o)
{
    struct node *n = o->node;
    struct contract_input in = node_contract_input(n);
    vf_fact_vec facts = {0};
    device_vec devices = {0};

    if (!n->publish || is_blind(o))
        return;
    vec_foreach (f, &o->facts) {
        struct vf_fact *out = VEC_PUSH(&facts);
        char device[DEVICE_NAME_SIZE];

        device_name(f->vf_address, device);
        *out = vf_fact_copy(f);
        out->in_use = claims_holder(n->claims, device) != NULL;
    }
    metrics_devices(&in, &facts);
    offer_devices(
        &(struct offer_input){
            .driver = n->c.driver,
            .contract = in,
            .facts = &facts,
            .skip_declared = n->skip_declared,
            .lists_kept = !(n->dropped & SLICE_FIELD_LIST),
            .taints_kept = !(n->dropped & SLICE_FIELD_TAINTS),
        },
        &devices);
    publish_set(n->publish, n->uid, &devices);
    device_vec_done(&devices);
    vf_fact_vec_done(&facts);
}

int observe_new(struct node *n, struct observe **ret, struct err *e)
{
    struct observe *o = xnew(struct observe);
    int r;

    o->node = n;
    o->root.fd = -1;
    o->settle = timer_new(n->loop, settled, o);
    o->interval = timer_new(n->loop, interval_over, o);
    if ((r = sysroot_open(n->c.sysroot, &o->root, e)) < 0 ||
        (r = nl_open(NETLINK_ROUTE, &o->nl, e)) < 0 ||
        (r = worker_new(n->loop, "observe", &o->worker, e)) < 0 ||
        /* before the first look, so that no change falls between */
        (r = monitor_new(n->loop, on_event, o, &o->monitor, e)) < 0) {
        observe_free(o);
        return r;
    }
    struct look *k = look_new(o);
    look_run(&k->job);
    if (k->result < 0) {
        r = err_move(e, &k->err);
        look_free(k);
        observe_free(o);
        return r;
    }
    take(o, k);
    look_free(k);
    timer_set(o->interval, INTERVAL_MS);
    o->naming.done = on_named;
    o->naming.data = o;
    o->looking = true;
    naming_start(&o->naming, o->worker, &n->inv);
    *ret = o;
    return 0;
}

void observe_free(struct observe *o)
{
    if (o->worker)
        worker_free(o->worker);
    if (o->monitor)
        monitor_free(o->monitor);
    timer_free(o->settle);
    timer_free(o->interval);
    if (o->nl)
        nl_free(o->nl);
    if (o->root.fd >= 0)
        sysroot_done(&o->root);
    naming_done(&o->naming);
    vf_fact_vec_done(&o->facts);
    free(o->changed.v);
    free(o->shares.v);
    free(o);
}
