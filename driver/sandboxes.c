/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/sandboxes.h"

#include "base/log.h"
#include "driver/ensure.h"

#define REVIEW_MS         10000
#define REVIEW_MAX_MS     300000
#define CONTAINER_RUNNING 3 /* ContainerState of NRI's api.proto */

struct sandbox {
    struct nri_pod pod;
    bool started;     /* over this connection: of another's end no event may come */
    bool judged;      /* see ensure_fn */
    unsigned working; /* looked at right now: no review beside that */
};

struct sandboxes {
    struct node *node;
    VEC(struct sandbox *) all;
    struct timer *again; /* reviews what couldn't be judged once more */
    int64_t pause_ms;    /* until then */
};

static void sandbox_free(struct sandbox *sb)
{
    free(sb->pod.id);
    free(sb->pod.uid);
    free(sb->pod.namespace);
    free(sb->pod.name);
    free(sb->pod.netns);
    free(sb);
}

static void review_again(void *data)
{
    sandboxes_review(data);
}

/* With growing pauses: a pod that can't be helped is told of, not shouted about. */
static void review_later(struct sandboxes *s)
{
    if (timer_is_set(s->again))
        return;
    timer_set(s->again, s->pause_ms);
    s->pause_ms = s->pause_ms * 2 > REVIEW_MAX_MS ? REVIEW_MAX_MS : s->pause_ms * 2;
}

struct sandboxes *sandboxes_new(struct node *n)
{
    struct sandboxes *s = xnew(struct sandboxes);

    s->node = n;
    s->pause_ms = REVIEW_MS;
    s->again = timer_new(n->loop, review_again, s);
    return s;
}

void sandboxes_free(struct sandboxes *s)
{
    timer_free(s->again);
    vec_foreach (sb, &s->all)
        sandbox_free(*sb);
    free(s->all.v);
    free(s);
}

static struct sandbox *find(const struct sandboxes *s, const char *id)
{
    vec_foreach (sb, &s->all)
        if (streq((*sb)->pod.id, id))
            return *sb;
    return NULL;
}

/*
 * containerd 2.4.2 forgets its sandboxes for NRI when it restarts, and sends no Stop or Remove for
 * them then (internal/nri/nri.go); that the namespace is gone says as much, and where a pod has
 * none of its own, its object.
 */
static bool is_alive(const struct sandboxes *s, const struct sandbox *sb)
{
    struct pods *pods = s->node->pods;

    if (sb->pod.netns)
        return access(sb->pod.netns, F_OK) == 0;
    if (sb->started || !pods || !pods_synced(pods))
        return true;
    const struct pod *p = pods_find(pods, sb->pod.uid);
    return p && !p->finished;
}

bool sandboxes_alive(const struct sandboxes *s, const char *sandbox_id)
{
    const struct sandbox *sb = find(s, sandbox_id);

    return sb && is_alive(s, sb);
}

bool sandboxes_have_pod(const struct sandboxes *s, const char *pod_uid)
{
    vec_foreach (sb, &s->all)
        if (streq((*sb)->pod.uid, pod_uid) && is_alive(s, *sb))
            return true;
    return false;
}

static struct sandbox *add(struct sandboxes *s, const struct nri_pod *p)
{
    struct sandbox *sb = find(s, p->id);

    if (sb)
        return sb;
    sb = xnew(struct sandbox);
    *sb = (struct sandbox){
        .pod = {.id = xstrdup(p->id),
                .uid = xstrdup(p->uid),
                .namespace = xstrdup(p->namespace),
                .name = xstrdup(p->name),
                .netns = xstrdup(p->netns)},
    };
    *VEC_PUSH(&s->all) = sb;
    return sb;
}

static void forget(struct sandboxes *s, const char *id)
{
    vec_foreach (sb, &s->all)
        if (streq((*sb)->pod.id, id)) {
            sandbox_free(*sb);
            *sb = s->all.v[--s->all.n];
            return;
        }
}

static void looked_at(const char *sandbox_id, bool judged, void *data)
{
    struct sandboxes *s = data;
    struct sandbox *sb = find(s, sandbox_id);

    if (!sb)
        return;
    sb->working -= sb->working > 0; /* made anew by a Synchronize: 0 */
    sb->judged = judged;
    if (!judged)
        review_later(s);
}

static void look_at(struct sandboxes *s, struct nri_call *call, enum occasion why,
                    struct sandbox *sb)
{
    sb->working++;
    ensure_vfs(s->node, call, why, &sb->pod, looked_at, s);
}

void sandboxes_review(struct sandboxes *s)
{
    if (s->node->stopping || !pods_synced(s->node->pods))
        return;
    for (size_t i = 0; i < s->all.n; i++) {
        struct sandbox *sb = s->all.v[i];

        if (!sb->judged && !sb->working)
            look_at(s, NULL, ON_REVIEW, sb);
    }
}

/* A sandbox that stops: its VFs are moved home one claim after another. */
struct stop {
    struct sandboxes *s;
    struct nri_call *call; /* NULL: answered, since the runtime's time was nearly up */
    char *sandbox_id;
    struct timer *late;
};

/*
 * The kernel takes its time. Nothing depends on the answer, but a plugin that is late is closed,
 * and pods would start without it.
 */
static void stop_late(void *data)
{
    struct stop *st = data;

    nri_reply(TAKE_PTR(st->call), NULL, NULL);
}

static void stop_next(struct claim *c, struct err *e, void *data)
{
    struct stop *st = data;
    struct node *n = st->s->node;

    /* Not an error for anybody: the kernel brings the VF home when the namespace goes. */
    if (e)
        log_info("VFs not moved home at sandbox stop", "sandbox", st->sandbox_id, "why",
                 err_text(e));
    for (c = claims_next(n->claims, NULL); c; c = claims_next(n->claims, c))
        if (!c->busy && streq_null(c->sandbox_id, st->sandbox_id)) {
            claims_detach(n->claims, c, stop_next, st);
            return;
        }
    forget(st->s, st->sandbox_id);
    if (st->call)
        nri_reply(st->call, NULL, NULL);
    node_review_claims(n);
    timer_free(st->late);
    free(st->sandbox_id);
    free(st);
}

/* Whether the pod names a claim, as far as is known, or is one that we set up a claim for. */
static bool may_be_ours(struct node *n, const struct nri_pod *pod)
{
    const struct pod *known = pods_find(n->pods, pod->uid);

    return claims_next_of_pod(n->claims, pod->uid, NULL) || (known && known->claims.n > 0);
}

static void on_event(struct nri_call *call, enum nri_event ev, const struct nri_pod *pod,
                     const struct nri_container *container, void *data)
{
    struct node *n = data;
    struct sandboxes *s = n->sandboxes;
    struct sandbox *sb;
    struct stop *st;

    (void)container;
    if (n->stopping && (ev == NRI_RUN_SANDBOX || ev == NRI_CREATE_CONTAINER)) {
        nri_reply(call, may_be_ours(n, pod) ? "sriov-dra: the driver is stopping" : NULL, NULL);
        return;
    }
    switch (ev) {
    case NRI_RUN_SANDBOX:
        sb = add(s, pod);
        sb->started = true;
        look_at(s, call, ON_RUN, sb);
        break;
    case NRI_CREATE_CONTAINER:
        look_at(s, call, ON_CREATE, add(s, pod));
        break;
    case NRI_STOP_SANDBOX:
    case NRI_REMOVE_SANDBOX:
        st = xnew(struct stop);
        *st = (struct stop){.s = s, .call = call, .sandbox_id = xstrdup(pod->id)};
        st->late = timer_new(n->loop, stop_late, st);
        timer_set(st->late, nri_request_timeout_ms(n->nri) - NRI_MARGIN_MS);
        stop_next(NULL, NULL, st);
        break;
    }
}

/*
 * The runtime also lists sandboxes that are stopped: their namespace is gone, or not told any more.
 * One without a namespace that has a running container is a hostNetwork pod's.
 */
static bool is_live(const struct nri_pod *p, const nri_container_vec *containers)
{
    if (p->netns)
        return access(p->netns, F_OK) == 0;
    vec_foreach (c, containers)
        if (streq(c->sandbox_id, p->id) && c->state == CONTAINER_RUNNING)
            return true;
    return false;
}

static void on_synchronize(const nri_pod_vec *pods, const nri_container_vec *containers, void *data)
{
    struct node *n = data;
    struct sandboxes *s = n->sandboxes;

    for (size_t i = s->all.n; i-- > 0;) {
        bool there = false;

        vec_foreach (p, pods)
            there |= streq(p->id, s->all.v[i]->pod.id);
        s->all.v[i]->started = false;
        if (!there)
            forget(s, s->all.v[i]->pod.id);
    }
    vec_foreach (p, pods)
        if (is_live(p, containers))
            add(s, p)->judged = false;
    s->pause_ms = REVIEW_MS;
    for (struct claim *c = claims_next(n->claims, NULL); c; c = claims_next(n->claims, c))
        if (!c->busy && c->sandbox_id && !sandboxes_alive(s, c->sandbox_id))
            claims_forget_place(c);
    sandboxes_review(s);
    node_review_claims(n);
}

static void on_state(bool connected, const char *text, void *data)
{
    struct node *n = data;

    if (n->stopping)
        return;
    if (connected)
        log_info("connected to the runtime's NRI", "runtime", text);
    else
        log_warn("no NRI connection: pods can't get their VFs", "socket", n->c.nri_socket, "why",
                 text);
}

const struct nri_handlers sandboxes_nri_handlers = {
    .state = on_state,
    .synchronize = on_synchronize,
    .event = on_event,
};
