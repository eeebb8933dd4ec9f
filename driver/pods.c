/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/pods.h"

#include "base/log.h"
#include "driver/fetch.h"
#include "kube/watch.h"

#include <errno.h>

#define FETCH_RETRY_MS   3000
#define FETCH_TIMEOUT_MS 5000
#define FETCH_RETRIES    2
#define TENTATIVE_MS     60000
#define FRESH_MS         10000

struct pod_entry {
    struct pod pod;
    bool listed;      /* seen in the list that is under way */
    int64_t fetch_at; /* when its claims are to be fetched; 0: nothing to do */
    /* Known by a GET only: it may have been deleted meanwhile. Until then; 0: the watch has it. */
    int64_t tentative_until;
};

struct pods {
    struct loop *loop;
    struct api *api;
    struct pods_config c;
    char *driver;
    struct watch *watch;
    struct timer *timer;
    bool synced, stopped;
    struct fetches *fetches;
    VEC(struct resolve *) lookups; /* whose pod is being asked for */
    VEC(struct pod_entry *) entries;
};

static void claim_done(struct pod_claim *c)
{
    if (c->current) {
        allocation_done(c->current);
        free(c->current);
    }
    free(c->problem);
    free(c->name);
}

static void entry_free(struct pod_entry *en)
{
    vec_foreach (c, &en->pod.claims)
        claim_done(c);
    free(en->pod.claims.v);
    free(en->pod.uid);
    free(en->pod.namespace);
    free(en->pod.name);
    free(en);
}

static struct pod_entry *find_entry(struct pods *p, const char *uid)
{
    vec_foreach (en, &p->entries)
        if (streq((*en)->pod.uid, uid))
            return *en;
    return NULL;
}

const struct pod *pods_find(struct pods *p, const char *uid)
{
    struct pod_entry *en = find_entry(p, uid);

    return en ? &en->pod : NULL;
}

static bool names_claim(const struct pod *pod, const char *namespace, const char *claim)
{
    if (pod->finished || !streq(pod->namespace, namespace))
        return false;
    vec_foreach (c, &pod->claims)
        if (streq(c->name, claim))
            return true;
    return false;
}

const struct pod *pods_next_of_claim(struct pods *p, const char *namespace, const char *claim,
                                     const struct pod *after)
{
    bool take = !after;

    vec_foreach (en, &p->entries) {
        const struct pod *pod = &(*en)->pod;

        if (take && names_claim(pod, namespace, claim))
            return pod;
        take |= pod == after;
    }
    return NULL;
}

bool pods_synced(const struct pods *p)
{
    return p->synced;
}

/* A claim may be deleted and made anew under its name, or allocated anew, before its end is seen.
 */
static bool means_record(const struct pod_claim *c, const struct record *r)
{
    if (!streq(c->name, r->name))
        return false;
    return !c->fetched || c->problem || (c->current && record_fits(r, c->current));
}

const struct pod *pods_next(struct pods *p, const struct pod *after)
{
    bool take = !after;

    vec_foreach (it, &p->entries) {
        if (take)
            return &(*it)->pod;
        take = &(*it)->pod == after;
    }
    return NULL;
}

bool pods_need_claim(struct pods *p, const struct record *r)
{
    int64_t now = clock_now(loop_clock(p->loop));

    vec_foreach (it, &p->entries) {
        const struct pod *pod = &(*it)->pod;

        if (pod->finished || ((*it)->tentative_until && (*it)->tentative_until < now))
            continue;
        vec_foreach (uid, &r->pods)
            if (streq(*uid, pod->uid))
                return true;
        if (!streq(pod->namespace, r->namespace))
            continue;
        vec_foreach (c, &pod->claims)
            if (means_record(c, r))
                return true;
    }
    return false;
}

static void arm(struct pods *p)
{
    int64_t first = 0, now = clock_now(loop_clock(p->loop));

    if (p->stopped)
        return;
    vec_foreach (en, &p->entries)
        if ((*en)->fetch_at && (!first || (*en)->fetch_at < first))
            first = (*en)->fetch_at;
    if (first)
        timer_set(p->timer, first > now ? first - now : 0);
}

/* The names of the claims that a pod uses: direct, from templates, and for extended resources. */
static void claim_names(const json_t *pod, json_t *names)
{
    json_t *spec = json_at(pod, "spec.resourceClaims");
    json_t *made = json_at(pod, "status.resourceClaimStatuses"), *item;
    const char *extended = json_str_at(pod, "status.extendedResourceClaimStatus.resourceClaimName");
    size_t i;

    json_array_foreach (spec, i, item) {
        const char *name = json_str_at(item, "resourceClaimName");

        if (name)
            json_array_append_new(names, json_string(name));
    }
    json_array_foreach (made, i, item) {
        const char *name = json_str_at(item, "resourceClaimName");

        if (name)
            json_array_append_new(names, json_string(name));
    }
    if (extended)
        json_array_append_new(names, json_string(extended));
}

static bool take_names(struct pod *pod, const json_t *names)
{
    bool news = false;
    json_t *item;
    size_t i;

    json_array_foreach ((json_t *)names, i, item) {
        bool known = false;

        vec_foreach (c, &pod->claims)
            known |= streq(c->name, json_string_value(item));
        if (known)
            continue;
        VEC_PUSH(&pod->claims)->name = xstrdup(json_string_value(item));
        news = true;
    }
    return news;
}

/* Takes over what a pod object says. NULL if it is no pod object. */
static struct pod_entry *put(struct pods *p, const json_t *o)
{
    const char *uid = json_str_at(o, "metadata.uid"), *name = json_str_at(o, "metadata.name"),
               *namespace = json_str_at(o, "metadata.namespace"),
               *phase = json_str_at(o, "status.phase");

    if (!uid || !name || !namespace)
        return NULL;
    struct pod_entry *en = find_entry(p, uid);
    bool news = !en;

    if (!en) {
        en = xnew(struct pod_entry);
        en->pod.uid = xstrdup(uid);
        en->pod.namespace = xstrdup(namespace);
        en->pod.name = xstrdup(name);
        en->pod.host_network = json_is_true(json_at(o, "spec.hostNetwork"));
        *VEC_PUSH(&p->entries) = en;
    }
    en->listed = true;
    bool finished = phase && (streq(phase, "Succeeded") || streq(phase, "Failed"));
    news |= finished != en->pod.finished;
    en->pod.finished = finished;

    json_auto_t *names = json_array();
    claim_names(o, names);
    if (take_names(&en->pod, names)) {
        news = true;
        if (!en->fetch_at)
            en->fetch_at = clock_now(loop_clock(p->loop));
        arm(p);
    }
    if (finished)
        en->fetch_at = 0;
    if (news)
        p->c.changed(&en->pod, false, p->c.data);
    return en;
}

static void drop_at(struct pods *p, size_t i)
{
    struct pod_entry *en = p->entries.v[i];

    p->entries.v[i] = p->entries.v[--p->entries.n];
    p->c.changed(&en->pod, true, p->c.data);
    entry_free(en);
}

static void on_watch(const struct watch_event *ev, void *data)
{
    struct pods *p = data;

    switch (ev->kind) {
    case WATCH_RESET:
        vec_foreach (en, &p->entries)
            (*en)->listed = false;
        break;
    case WATCH_PUT: {
        struct pod_entry *en = put(p, ev->object);

        if (en)
            en->tentative_until = 0;
        break;
    }
    case WATCH_DELETED: {
        const char *uid = json_str_at(ev->object, "metadata.uid");

        for (size_t i = 0; uid && i < p->entries.n; i++)
            if (streq(p->entries.v[i]->pod.uid, uid)) {
                drop_at(p, i);
                break;
            }
        break;
    }
    case WATCH_SYNCED:
        for (size_t i = p->entries.n; i-- > 0;)
            if (!p->entries.v[i]->listed)
                drop_at(p, i);
        p->synced = true;
        p->c.synced(p->c.data);
        break;
    case WATCH_TROUBLE:
        log_warn_err(ev->err, "pods of this node can't be watched for now");
        break;
    }
}

/* Hands what a claim says to the pods that name it. `o` NULL: it doesn't exist. */
static void on_seen(const char *namespace, const char *name, const json_t *o, void *data)
{
    struct pods *p = data;

    vec_foreach (it, &p->entries) {
        struct pod *pod = &(*it)->pod;

        if (!streq(pod->namespace, namespace))
            continue;
        vec_foreach (c, &pod->claims) {
            _cleanup_err_ struct err e = ERR_INIT;
            struct allocation a = {0};

            if (!streq(c->name, name))
                continue;
            if (c->current) {
                allocation_done(c->current);
                free(TAKE_PTR(c->current));
            }
            free(TAKE_PTR(c->problem));
            c->fetched = true;
            c->fresh_until = clock_now(loop_clock(p->loop)) + FRESH_MS;
            if (!o)
                continue;
            int r = allocation_read(o, p->driver, NULL, &a, &e);
            if (r == 0)
                c->current = xmemdup(&a, sizeof(a));
            else if (r != -ENOENT)
                c->problem = xstrdup(err_text(&e));
        }
    }
}

/* Each pod that the claim is reserved for is one that we see alive: while it is, the allocation
 * can't change. */
static bool is_reserved_for_ours(struct pods *p, const struct allocation *a)
{
    vec_foreach (uid, &a->pods) {
        const struct pod_entry *en = find_entry(p, *uid);

        if (!en || en->pod.finished || en->tentative_until)
            return false;
    }
    return a->pods.n > 0;
}

const struct allocation *pods_take_fresh(struct pods *p, const char *namespace, const char *name,
                                         const char *uid)
{
    int64_t now = clock_now(loop_clock(p->loop));
    const struct allocation *found = NULL;
    bool behind = watch_in_trouble(p->watch);

    vec_foreach (it, &p->entries) {
        struct pod *pod = &(*it)->pod;

        if (!streq(pod->namespace, namespace))
            continue;
        vec_foreach (c, &pod->claims) {
            if (!streq(c->name, name))
                continue;
            if (!behind && c->current && c->fresh_until > now && streq(c->current->uid, uid) &&
                is_reserved_for_ours(p, c->current))
                found = c->current;
            c->fresh_until = 0;
        }
    }
    return found;
}

void pods_fetch_claim(struct pods *p, const char *namespace, const char *name, int timeout_ms,
                      int retries, fetch_fn *fn, void *data)
{
    fetch_claim(p->fetches, namespace, name, timeout_ms, retries, fn, data);
}

/* A claim that was fetched because its pod was seen. */
static void fetched_early(const json_t *claim, struct err *e, void *data)
{
    struct pods *p = data;

    (void)claim;
    (void)e; /* the pod's claim stays unfetched and its turn comes again */
    arm(p);
}

static void fetch_due(void *data)
{
    struct pods *p = data;
    int64_t now = clock_now(loop_clock(p->loop));

    vec_foreach (it, &p->entries) {
        struct pod_entry *en = *it;
        bool open = false;

        if (!en->fetch_at || en->fetch_at > now)
            continue;
        vec_foreach (c, &en->pod.claims) {
            if (c->fetched)
                continue;
            open = true;
            pods_fetch_claim(p, en->pod.namespace, c->name, FETCH_TIMEOUT_MS, FETCH_RETRIES,
                             fetched_early, p);
        }
        en->fetch_at = open ? now + FETCH_RETRY_MS : 0;
    }
    arm(p);
}

/* A pod, and its claims, being looked up for a sandbox. */
struct resolve {
    struct pods *pods;
    char *namespace, *name, *uid;
    int timeout_ms;
    struct api_call *call; /* for the pod */
    unsigned open;         /* claims that are being asked for */
    struct timer *limit;   /* for these: their GETs may be others' too, with more time */
    struct err err;
    pods_pod_fn *fn;
    void *data;
};

static void resolve_end(struct resolve *r)
{
    struct pod_entry *en = find_entry(r->pods, r->uid);

    r->fn(r->err.code ? NULL : en ? &en->pod : NULL, r->err.code ? &r->err : NULL, r->data);
    timer_free(r->limit);
    err_clear(&r->err);
    free(r->namespace);
    free(r->name);
    free(r->uid);
    free(r);
}

static void resolved_claim(const json_t *claim, struct err *e, void *data)
{
    struct resolve *r = data;

    if (!claim && e->code != -ENOENT)
        (void)err_move(&r->err, e);
    if (--r->open == 0)
        resolve_end(r);
}

static void resolve_late(void *data)
{
    struct resolve *r = data;

    fetch_forget(r->pods->fetches, r);
    err_set(&r->err, ERR_TRANSIENT, -ETIMEDOUT, "no answer about the pod's claims in %d ms",
            r->timeout_ms);
    resolve_end(r);
}

static void resolve_claims(struct resolve *r, struct pod_entry *en)
{
    r->limit = timer_new(r->pods->loop, resolve_late, r);
    timer_set(r->limit, r->timeout_ms);
    r->open = 1; /* so that no answer ends it before all are asked */
    vec_foreach (c, &en->pod.claims)
        if (!c->fetched) {
            r->open++;
            pods_fetch_claim(r->pods, en->pod.namespace, c->name, r->timeout_ms, 0, resolved_claim,
                             r);
        }
    if (--r->open == 0)
        resolve_end(r);
}

static void drop_lookup(struct resolve *r)
{
    struct pods *p = r->pods;

    r->call = NULL;
    vec_foreach (it, &p->lookups)
        if (*it == r) {
            *it = p->lookups.v[--p->lookups.n];
            return;
        }
}

static void resolved_pod(const struct api_response *a, void *data)
{
    struct resolve *r = data;
    const char *uid = json_str_at(a->body, "metadata.uid");

    drop_lookup(r);
    if (a->status == 200 && streq_null(uid, r->uid)) {
        bool known = find_entry(r->pods, uid) != NULL;
        struct pod_entry *en = put(r->pods, a->body);

        if (!en) {
            err_set(&r->err, ERR_PERMANENT, -EBADMSG,
                    "pod %s/%s: no name in what the API server sent", r->namespace, r->name);
            resolve_end(r);
            return;
        }
        if (!known)
            en->tentative_until = clock_now(loop_clock(r->pods->loop)) + TENTATIVE_MS;
        resolve_claims(r, en);
        return;
    }
    /* Not there, or a mirror of a static pod, whose uid is another: it can have no claims. */
    if (a->err.code && a->status != 404)
        err_set(&r->err, ERR_TRANSIENT, a->err.code ? a->err.code : -EIO, "%s", err_text(&a->err));
    resolve_end(r);
}

void pods_resolve(struct pods *p, const char *namespace, const char *name, const char *uid,
                  int timeout_ms, pods_pod_fn *fn, void *data)
{
    struct pod_entry *en = find_entry(p, uid);
    struct resolve *r = xnew(struct resolve);

    *r = (struct resolve){
        .pods = p,
        .namespace = xstrdup(namespace),
        .name = xstrdup(name),
        .uid = xstrdup(uid),
        .timeout_ms = timeout_ms,
        .fn = fn,
        .data = data,
    };
    if (en) {
        resolve_claims(r, en);
        return;
    }
    _cleanup_free_ char *ns = api_escape(namespace), *n = api_escape(name);
    _cleanup_free_ char *path = xasprintf("/api/v1/namespaces/%s/pods/%s", ns, n);

    *VEC_PUSH(&p->lookups) = r;
    r->call = api_send(
        p->api, &(struct api_request){.method = "GET", .path = path, .timeout_ms = timeout_ms},
        resolved_pod, r);
}

struct pods *pods_new(struct loop *l, struct api *a, const struct pods_config *c)
{
    struct pods *p = xnew(struct pods);
    _cleanup_free_ char *node = api_escape(c->node);
    _cleanup_free_ char *query = xasprintf("fieldSelector=spec.nodeName%%3D%s", node);

    *p = (struct pods){.loop = l, .api = a, .c = *c, .driver = xstrdup(c->driver)};
    p->c.node = p->c.driver = NULL;
    p->timer = timer_new(l, fetch_due, p);
    p->fetches = fetches_new(a, on_seen, p);
    p->watch = watch_new(a, "/api/v1/pods", query, on_watch, p);
    return p;
}

void pods_stop(struct pods *p)
{
    p->stopped = true;
    timer_cancel(p->timer);
    for (size_t n = p->lookups.n; n > 0; n--) {
        struct resolve *r = p->lookups.v[0];

        api_cancel(r->call);
        drop_lookup(r);
        err_set(&r->err, ERR_TRANSIENT, -ESHUTDOWN, "the driver is stopping");
        resolve_end(r);
    }
    fetches_stop(p->fetches);
}

void pods_free(struct pods *p)
{
    pods_stop(p); /* whoever still waits is answered, and frees what is theirs */
    watch_free(p->watch);
    timer_free(p->timer);
    fetches_free(p->fetches);
    vec_foreach (en, &p->entries)
        entry_free(*en);
    free(p->lookups.v);
    free(p->entries.v);
    free(p->driver);
    free(p);
}
