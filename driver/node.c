/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/node.h"

#include "base/file.h"
#include "base/log.h"
#include "driver/event_queue.h"
#include "driver/events.h"
#include "driver/health.h"
#include "driver/hook_install.h"
#include "driver/live.h"
#include "driver/observe.h"
#include "driver/provisioning.h"
#include "driver/sandboxes.h"
#include "driver/status.h"
#include "kube/watch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#define HOLD_MS       5000 /* the kubelet looks for new plugins once a second */
#define STOP_POLL_MS  20
#define STOP_LIMIT_MS 25000 /* below the 30 s that a pod has to end */

struct contract_input node_contract_input(struct node *n)
{
    return (struct contract_input){
        .inv = &n->inv,
        .pools = &n->pools,
        .node = n->c.name,
        .pool_name = n->c.name,
        .labels = n->labels,
    };
}

static int take_lock(const struct node_config *c, const char *dir, mode_t mode, int *ret_fd,
                     struct err *e)
{
    _cleanup_close_ int dirfd = -1;
    pid_t holder = 0;
    int r = dir_make(dir, mode, &dirfd, e);

    if (r < 0)
        return r;
    r = file_lock(dirfd, "lock", ret_fd, &holder, e);
    if (r == -EWOULDBLOCK)
        return err_set(e, ERR_PERMANENT, r,
                       "another driver (pid %d) serves %s on this node: it holds %s/lock",
                       (int)holder, c->driver, dir);
    return r;
}

static void on_claim_change(const struct record *rec, bool gone, void *data)
{
    struct node *n = data;

    (void)gone;
    if (!n->observe)
        return;
    vec_foreach (d, &rec->devices)
        observe_device_changed(n->observe, d->grant.device);
    observe_dirty(n->observe);
}

static int prepared_first(const void *a, const void *b)
{
    const struct record *const *ra = a, *const *rb = b;

    return ((*ra)->state != RECORD_PREPARED) - ((*rb)->state != RECORD_PREPARED);
}

/* A leftover of a claim whose VF another claim has by now: forgotten, the hardware is left alone.
 */
static bool drop_if_taken(struct node *n, const struct record *rec)
{
    vec_foreach (d, &rec->devices) {
        const struct claim *holder = claims_holder(n->claims, d->grant.device);
        _cleanup_err_ struct err e = ERR_INIT;

        if (!holder)
            continue;
        log_error("record left behind by a claim whose VF another has: forgotten", "uid", rec->uid,
                  "vf", d->grant.vf_address, "holder", holder->rec->uid);
        if (store_remove(&n->hands.store, rec->uid, &e) < 0)
            log_error_err(&e, "record not removed", "uid", rec->uid);
        return true;
    }
    return false;
}

/* Before anything is served: what earlier runs left. */
static int recover(struct node *n, struct err *e)
{
    struct store_content content = {0};
    int r = store_load(&n->hands.store, &content, e);

    if (r < 0)
        return r;
    vec_foreach (b, &content.bad) {
        log_error("claim record damaged and set aside: free VFs are offered as verified only where "
                  "they look untouched, until the file is removed and the driver restarted",
                  "file", b->file, "why", b->why);
        events_record_damaged(n, b);
    }
    n->damaged = content.bad.n;
    n->suspicious = content.bad.n > 0;
    /* Live claims first: what another record left unfinished must not be put back over them. */
    if (content.records.n)
        qsort(content.records.v, content.records.n, sizeof(*content.records.v), prepared_first);
    vec_foreach (it, &content.records) {
        struct record *rec = *it;
        _cleanup_free_ char *title = record_title(rec);
        _cleanup_err_ struct err why = ERR_INIT;
        bool gone, away;

        if (drop_if_taken(n, rec)) {
            record_free(rec);
            continue;
        }
        int k = claim_recover(&n->hands, rec, &gone, &away, &why);
        if (k < 0 && !away)
            log_error_err(&why, "claim not recovered: tried again later", "claim", title, "uid",
                          rec->uid);
        else if (gone)
            log_info("claim of an earlier run cleaned up", "claim", title, "uid", rec->uid);
        if (gone) {
            record_free(rec);
            continue;
        }
        struct claim *c = claims_add(n->claims, rec);
        c->pods_seen = true;   /* or will be by the first list, which is younger than the record */
        c->choice_told = true; /* when it was acquired */
        if (rec->state != RECORD_PREPARED) {
            rec->state = RECORD_RELEASING;
            c->retry_release = true;
        }
    }
    content.records.n = 0; /* all are the table's now, or freed */
    store_content_done(&content);
    return 0;
}

static bool pools_use(const struct pools *ps, enum mode mode)
{
    vec_foreach (p, &ps->pools)
        if (p->mode == mode)
            return true;
    return false;
}

static void take_node(struct node *n, const json_t *o)
{
    const char *uid = json_str_at(o, "metadata.uid");
    json_auto_t *none = json_object();
    json_t *labels = json_at(o, "metadata.labels");
    bool declared = live_node_declares(o), first = !n->uid;
    bool news = !streq_null(uid, n->uid) || declared != n->skip_declared;

    if (!uid)
        return;
    if (!first && !streq(uid, n->uid))
        log_info("the Node object was made anew: slices get its uid", "uid", uid);
    if (first || declared != n->skip_declared) {
        if (declared) {
            log_info("the kubelet honours skipNodeOperations");
        } else if (pools_use(&n->pools, MODE_SKIP)) {
            log_warn("the kubelet doesn't declare DRAOptionalNodeOperations: VFs of pools with "
                     "mode Skip are published without skipNodeOperations and run through Prepare");
            events_skip_not_honoured(n, true);
        }
    }
    free(n->uid);
    n->uid = xstrdup(uid);
    event_queue_set_node_uid(n->events, uid);
    n->skip_declared = declared;
    if (!labels)
        labels = none;
    if (!n->labels || !json_equal(labels, n->labels)) {
        json_decref(n->labels);
        n->labels = json_deep_copy(labels);
        observe_labels_changed(n->observe);
    }
    if (news)
        observe_publish(n->observe);
}

static void on_node(const struct watch_event *ev, void *data)
{
    struct node *n = data;

    switch (ev->kind) {
    case WATCH_PUT:
        take_node(n, ev->object);
        break;
    case WATCH_TROUBLE:
        log_warn_err(ev->err, "the Node object can't be watched for now: slices wait, claims that "
                              "are set up go on");
        break;
    case WATCH_SYNCED:
        if (!n->uid)
            log_warn("there is no Node object of this name: nothing is published until there is; "
                     "--node-name, or $NODE_NAME, has to be its name",
                     "node", n->c.name);
        break;
    case WATCH_RESET:
    case WATCH_DELETED:
        break;
    }
}

static void on_pod(const struct pod *p, bool gone, void *data)
{
    struct node *n = data;

    if (gone || p->finished)
        node_review_claims(n);
    else
        sandboxes_review(n->sandboxes);
}

static void on_pods_synced(void *data)
{
    struct node *n = data;

    sandboxes_review(n->sandboxes);
    node_review_claims(n);
}

static void on_dropped(unsigned fields, void *data)
{
    struct node *n = data;
    unsigned news = fields & ~n->dropped;

    n->dropped = fields;
    if (news & SLICE_FIELD_LIST)
        events_skip_not_honoured(n, false);
    if (news & SLICE_FIELD_TAINTS)
        events_taints_not_honoured(n);
    observe_publish(n->observe);
}

static void on_published(unsigned slices, unsigned devices, int64_t generation, void *data)
{
    struct node *n = data;

    (void)slices, (void)devices, (void)generation;
    n->published = true;
}

static void hold_is_over(void *data)
{
    struct node *n = data;

    publish_go(n->publish);
}

static void on_registered(bool ok, const char *error, void *data)
{
    struct node *n = data;

    n->registered = ok;
    if (ok) {
        log_info("registered with the kubelet", "driver", n->c.driver);
        publish_go(n->publish);
    } else {
        timer_cancel(n->hold); /* a kubelet that said no can't run what is offered */
        log_error("the kubelet refused the registration", "driver", n->c.driver, "why", error);
    }
}

static bool is_idle(const struct node *n)
{
    return dra_open_calls(n->dra) == 0 && worker_pending(n->worker) == 0 &&
           observe_idle(n->observe) && provisioning_idle(n->provisioning);
}

static void stop_when_idle(struct node *n, struct timer *t, int64_t since)
{
    if (is_idle(n) || clock_now(loop_clock(n->loop)) - since > STOP_LIMIT_MS)
        loop_stop(n->loop);
    else
        timer_set(t, STOP_POLL_MS);
}

/* The stop in progress; one a process. */
static struct {
    struct timer *timer;
    int64_t since;
} stopping;

static void stop_poll(void *data)
{
    stop_when_idle(data, stopping.timer, stopping.since);
}

static void on_signal(int signo, void *data)
{
    struct node *n = data;

    if (n->stopping)
        return;
    log_info("stopping: what is under way is finished first", "signal", strsignal(signo));
    n->stopping = true;
    claims_stop_waiting(n->claims);
    pods_stop(n->pods); /* an API server that is away would take longer than we have */
    stopping.since = clock_now(loop_clock(n->loop));
    stop_poll(n);
}

static void show_pools(struct node *n)
{
    vec_foreach (p, &n->pools.problems) {
        log_error("pool isn't offered", "pool", p->name, "why", p->text);
        events_pool_invalid(n, p);
    }
    if (n->pools.pools.n)
        return;
    if (n->pools.problems.n)
        log_warn("no pool is left: nothing is offered", "file", n->c.pools_file);
    else if (n->c.pools_file)
        log_warn("no pools in the file: nothing is offered; `sriov-dra inventory` shows what could "
                 "be",
                 "file", n->c.pools_file);
    else
        log_warn("no pools: nothing is offered; `sriov-dra inventory` shows what could be, and "
                 "--config FILE offers it");
}

static int serve(struct node *n, struct err *e)
{
    int r;

    n->pods = pods_new(n->loop, n->api,
                       &(struct pods_config){
                           .node = n->c.name,
                           .driver = n->c.driver,
                           .changed = on_pod,
                           .synced = on_pods_synced,
                           .data = n,
                       });
    n->publish = publish_new(n->loop, n->api,
                             &(struct publish_config){
                                 .driver = n->c.driver,
                                 .node = n->c.name,
                                 .dropped = on_dropped,
                                 .published = on_published,
                                 .held = true,
                                 .data = n,
                             });
    n->hold = timer_new(n->loop, hold_is_over, n);
    timer_set(n->hold, HOLD_MS);
    _cleanup_free_ char *name = api_escape(n->c.name);
    _cleanup_free_ char *query = xasprintf("fieldSelector=metadata.name%%3D%s", name);
    n->node_watch = watch_new(n->api, "/api/v1/nodes", query, on_node, n);

    r = nri_new(n->loop,
                &(struct nri_config){.socket = n->c.nri_socket, .name = "sriov-dra", .index = "50"},
                &(struct nri_handlers){
                    .state = sandboxes_nri_handlers.state,
                    .synchronize = sandboxes_nri_handlers.synchronize,
                    .event = sandboxes_nri_handlers.event,
                    .data = n,
                },
                &n->nri, e);
    if (r < 0)
        return r;
    return dra_new(n->loop,
                   &(struct dra_config){
                       .driver = n->c.driver,
                       .kubelet_root = n->c.kubelet_root,
                       .fn = node_dra_call,
                       .registered = on_registered,
                       .data = n,
                   },
                   &n->dra, e);
}

static void node_done(struct node *n)
{
    /* from the outside in: first nobody can call any more; who still waits is answered before */
    if (n->health)
        health_free(n->health);
    if (n->pods)
        pods_stop(n->pods);
    if (n->nri)
        nri_free(n->nri);
    if (n->dra)
        dra_free(n->dra);
    if (n->provisioning)
        provisioning_free(n->provisioning);
    if (n->observe)
        observe_free(n->observe);
    if (n->worker)
        worker_free(n->worker);
    if (n->publish)
        publish_free(n->publish);
    if (n->pods)
        pods_free(n->pods);
    if (n->node_watch)
        watch_free(n->node_watch);
    if (n->statuses)
        statuses_free(n->statuses);
    event_queue_free(n->events);
    if (n->api)
        api_free(n->api);
    if (n->sandboxes)
        sandboxes_free(n->sandboxes);
    if (n->claims)
        claims_free(n->claims);
    hands_done(&n->hands);
    pools_done(&n->pools);
    inventory_done(&n->inv);
    json_decref(n->labels);
    free(n->uid);
    timer_free(stopping.timer);
    timer_free(n->review);
    timer_free(n->hold);
    vec_foreach (uid, &n->pending_uids)
        free(*uid);
    free(n->pending_uids.v);
    free(n->preps.v);
    if (n->loop)
        loop_free(n->loop);
}

static void review_again(void *data)
{
    node_review_claims(data);
}

static int start(struct node *n, struct err *e)
{
    static const int signals[] = {SIGTERM, SIGINT};
    _cleanup_free_ char *hook = NULL;
    int r;

    if ((r = loop_new(clock_system(), &n->loop, e)) < 0 ||
        (r = loop_signals(n->loop, signals, ARRAY_SIZE(signals), on_signal, n, e)) < 0)
        return r;
    stopping.timer = timer_new(n->loop, stop_poll, n);
    n->events = event_queue_new(n->loop, n->c.driver, n->c.name);
    if (n->c.metrics_address && (r = health_new(n, &n->health, e)) < 0)
        return r;
    if (n->c.pools_file && (r = pools_load(n->c.pools_file, &n->pools, e)) < 0)
        return r;
    show_pools(n);
    hook = hook_provide(n->c.hook, n->c.hook_dir); /* before any CDI file is written */
    r = hands_open(
        &(struct hands_config){
            .hook = hook,
            .sysroot = n->c.sysroot,
            .state_dir = n->c.state_dir,
            .cdi_dir = n->c.cdi_dir,
            .driver = n->c.driver,
        },
        &n->hands, e);
    if (r < 0 || (r = worker_new(n->loop, "vf", &n->worker, e)) < 0)
        return r;
    n->review = timer_new(n->loop, review_again, n);
    n->claims = claims_new(n->loop, n->worker, &n->hands, on_claim_change, n);
    n->sandboxes = sandboxes_new(n);
    n->statuses = statuses_new(n);
    if ((r = recover(n, e)) < 0 || (r = observe_new(n, &n->observe, e)) < 0 ||
        (r = provisioning_new(n, &n->provisioning, e)) < 0)
        return r;
    r = api_new(n->loop,
                &(struct api_config){.kubeconfig = n->c.kubeconfig, .user_agent = "sriov-dra"},
                &n->api, e);
    if (r < 0)
        return r;
    event_queue_go(n->events, n->api);
    return serve(n, e);
}

int node_run(const struct node_config *c, struct err *e)
{
    struct node n = {.c = *c, .hands = HANDS_INIT};
    _cleanup_close_ int plugin_lock = -1, state_lock = -1;
    _cleanup_free_ char *plugin_dir = xasprintf("%s/plugins/%s", c->kubelet_root, c->driver);
    int r;

    if ((r = take_lock(c, plugin_dir, 0750, &plugin_lock, e)) < 0)
        return r;
    /* two locks of one file in one process would exclude each other */
    if (!file_same(plugin_dir, c->state_dir) &&
        (r = take_lock(c, c->state_dir, 0700, &state_lock, e)) < 0)
        return r;
    r = start(&n, e);
    if (r == 0)
        r = loop_run(n.loop, e);
    if (n.stopping && !is_idle(&n)) {
        log_warn("the kernel still holds what is under way after the time to stop: the next start "
                 "goes on with it");
        nri_free(n.nri);
        dra_free(n.dra);
        _exit(0); /* a worker that waits in the kernel can't be joined */
    }
    node_done(&n);
    return r;
}
