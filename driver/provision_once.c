/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/provision_once.h"

#include "base/file.h"
#include "base/worker.h"
#include "driver/cli.h"
#include "driver/hands.h"
#include "driver/provision_text.h"
#include "driver/table.h"

#include <errno.h>
#include <fcntl.h>

#define BUSY_MS 10000 /* how often it is said that a PF still takes its time */

/* One PF being worked on. */
struct task {
    struct job job;
    struct verb *verb;
    const struct provision_pf *plan;
    struct worker *worker;
    struct provision_report report;
    bool begun, done;
};

struct verb {
    const struct provision_options *o;
    struct sysroot root;
    struct pools pools;
    struct inventory inv;
    provision_vf_vec seen;
    provision_holder_vec holders;
    char *suspicious;
    struct provision_input in;
    struct provision_plan plan;
    int locks[2];
    pid_t driver; /* that runs; 0: none */
    struct loop *loop;
    struct timer *busy;
    VEC(struct task) tasks;
    int64_t began_us;
    bool colour;
};

static void verb_done(struct verb *v)
{
    vec_foreach (t, &v->tasks) {
        if (t->worker)
            worker_free(t->worker);
        provision_report_done(&t->report);
    }
    free(v->tasks.v);
    timer_free(v->busy);
    if (v->loop)
        loop_free(v->loop);
    provision_plan_done(&v->plan);
    provision_vf_vec_done(&v->seen);
    provision_holder_vec_done(&v->holders);
    inventory_done(&v->inv);
    pools_done(&v->pools);
    free(v->suspicious);
    cleanup_closep(&v->locks[0]);
    cleanup_closep(&v->locks[1]);
    if (v->root.path)
        sysroot_done(&v->root);
}

/* A directory that isn't there has no driver. */
static int take_lock(struct verb *v, const char *dir, int *ret_fd, struct err *e)
{
    _cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pid_t holder = 0;

    if (fd < 0)
        return errno == ENOENT ? 0 : err_errno(e, -errno, "%s", dir);
    int r = file_lock(fd, "lock", ret_fd, &holder, e);
    if (r == -EWOULDBLOCK) {
        v->driver = holder ? holder : -1;
        err_clear(e);
        return 0;
    }
    return r < 0 ? err_prefix(e, r, "the driver's lock in %s", dir) : 0;
}

/* As the driver takes them; two locks of one file in one process would exclude each other. */
static int take_locks(struct verb *v, struct err *e)
{
    _cleanup_free_ char *plugin = xasprintf("%s/plugins/%s", v->o->kubelet_root, v->o->driver);
    int r = take_lock(v, plugin, &v->locks[0], e);

    if (r == 0 && !v->driver && !file_same(plugin, v->o->state_dir))
        r = take_lock(v, v->o->state_dir, &v->locks[1], e);
    return r;
}

/* Records of another boot are of hardware that came up fresh since. */
static int read_holders(struct verb *v, struct err *e)
{
    _cleanup_err_ struct err why = ERR_INIT;
    struct store_content c = {0};
    char boot[BOOT_ID_SIZE];
    int r = boot_id_read(boot, e);

    if (r < 0)
        return r;
    r = store_look(v->o->state_dir, &c, &why);
    if (r == -ENOENT) /* no driver was here yet */
        return 0;
    if (r < 0)
        return err_move(e, &why);
    vec_foreach (rec, &c.records)
        vec_foreach (d, &(*rec)->devices) {
            _cleanup_free_ char *title = record_title(*rec);

            if (!streq((*rec)->boot_id, boot))
                continue;
            struct provision_holder *h = VEC_PUSH(&v->holders);
            memcpy(h->address, d->grant.vf_address, sizeof(h->address));
            h->who = xasprintf("claim %s (uid %s)", title, (*rec)->uid);
        }
    if (c.bad.n)
        v->suspicious = xstrdup(c.bad.v[0].file);
    store_content_done(&c);
    return 0;
}

static int decide(struct verb *v, struct err *e)
{
    struct nl_transport *nl = NULL;
    int r;

    if ((r = pools_load(v->o->config, &v->pools, e)) < 0 ||
        (r = sysroot_open(v->o->sysroot, &v->root, e)) < 0 ||
        (!v->o->dry_run && (r = take_locks(v, e)) < 0) || (r = read_holders(v, e)) < 0 ||
        (r = inventory_read(&v->root, &v->inv, e)) < 0 || (r = nl_open(NETLINK_ROUTE, &nl, e)) < 0)
        return r;
    v->in = (struct provision_input){
        .inv = &v->inv,
        .pools = &v->pools,
        .node = v->o->node,
        .labels = v->o->labels,
        .seen = &v->seen,
        .holders = &v->holders,
        .suspicious = v->suspicious,
    };
    provision_look(&(struct hw){.root = &v->root, .nl = nl}, &v->in, &v->seen);
    nl_free(nl);
    provision_plan(&v->in, &v->plan);
    vec_foreach (p, &v->pools.problems)
        *VEC_PUSH(&v->plan.problems) = (struct pool_problem){xstrdup(p->name), xstrdup(p->text)};
    return 0;
}

static void task_run(struct job *j)
{
    struct task *t = container_of(j, struct task, job);
    struct hw hw = {.root = &t->verb->root};
    _cleanup_err_ struct err e = ERR_INIT;

    /* one socket a thread */
    if (nl_open(NETLINK_ROUTE, &hw.nl, &e) < 0) {
        *VEC_PUSH(&t->report.failures) = xstrdup(err_text(&e));
        return;
    }
    provision_run(&hw, &t->verb->in, t->plan, false, &t->report);
    nl_free(hw.nl);
}

static bool all_done(const struct verb *v)
{
    vec_foreach (t, &v->tasks)
        if (t->begun && !t->done)
            return false;
    return true;
}

static void task_done(struct job *j)
{
    struct task *t = container_of(j, struct task, job);
    struct verb *v = t->verb;

    t->done = true;
    if (!v->o->json) {
        provision_print_report(stdout, t->plan, &t->report, v->colour);
        fflush(stdout);
    }
    if (all_done(v))
        loop_stop(v->loop);
}

/* The kernel may take minutes to make VFs, and whoever watches a boot wants to know. */
static void still_busy(void *data)
{
    struct verb *v = data;

    vec_foreach (t, &v->tasks)
        if (t->begun && !t->done)
            fprintf(stderr, "sriov-dra provision: %s: still at work, %.0f s\n",
                    t->plan->pf->netdev ? t->plan->pf->netdev : t->plan->pf->address,
                    (double)(clock_mono_us() - v->began_us) / 1e6);
    timer_set(v->busy, BUSY_MS);
}

/* One thread a PF: a card that takes its time holds up no other. */
static int carry_out(struct verb *v, struct err *e)
{
    int r = loop_new(clock_system(), &v->loop, e);

    if (r < 0)
        return r;
    v->began_us = clock_mono_us();
    v->busy = timer_new(v->loop, still_busy, v);
    timer_set(v->busy, BUSY_MS);
    vec_foreach (pf, &v->plan.pfs)
        *VEC_PUSH(&v->tasks) =
            (struct task){.job = {.run = task_run, .done = task_done}, .verb = v, .plan = pf};
    vec_foreach (t, &v->tasks) {
        if (!t->plan->steps.n)
            continue;
        if ((r = worker_new(v->loop, "pf", &t->worker, e)) < 0)
            return r;
        t->begun = true;
        worker_submit(t->worker, &t->job);
    }
    return all_done(v) ? 0 : loop_run(v->loop, e);
}

static bool has_steps(const struct provision_plan *p)
{
    vec_foreach (pf, &p->pfs)
        if (pf->steps.n)
            return true;
    return false;
}

enum outcome { NOTHING, PLANNED, DONE, BLOCKED, FAILED };

static enum outcome outcome_of(const struct verb *v)
{
    bool steps = has_steps(&v->plan), blocked = v->plan.problems.n > 0, failed = false;

    vec_foreach (pf, &v->plan.pfs)
        blocked |= pf->obstacles.n > 0;
    vec_foreach (t, &v->tasks) {
        blocked |= t->report.obstacles.n > 0;
        failed |= t->report.failures.n > 0;
    }
    if (v->driver)
        blocked |= steps;
    return failed ? FAILED : blocked ? BLOCKED : !steps ? NOTHING : v->o->dry_run ? PLANNED : DONE;
}

static const struct {
    const char *json, *text;
    int status;
} outcomes[] = {
    [NOTHING] = {"nothing", "nothing to do", EXIT_OK},
    [PLANNED] = {"planned", NULL, EXIT_OK},
    [DONE] = {"done", NULL, EXIT_OK},
    [BLOCKED] = {"blocked", NULL, EXIT_NO},
    [FAILED] = {"failed", NULL, EXIT_FAILED},
};

static char *driver_text(const struct verb *v)
{
    _cleanup_free_ char *pid = v->driver > 0 ? xasprintf(" (pid %d)", (int)v->driver) : xstrdup("");

    return xasprintf("the driver%s serves this node and does this by itself at its start: nothing "
                     "was written. If it has other pools, restart it",
                     pid);
}

static void print_json(const struct verb *v, enum outcome outcome)
{
    json_auto_t *o = json_object();
    json_t *pfs = json_array();
    size_t i = 0;

    vec_foreach (pf, &v->plan.pfs) {
        const struct task *t = i < v->tasks.n ? &v->tasks.v[i] : NULL;

        json_array_append_new(pfs, provision_pf_json(pf, t && t->begun ? &t->report : NULL));
        i++;
    }
    json_object_set_new(o, "pfs", pfs);
    json_object_set_new(o, "problems", provision_problems_json(&v->plan.problems));
    json_object_set_new(o, "dryRun", json_boolean(v->o->dry_run));
    json_object_set_new(o, "driverPid", v->driver > 0 ? json_integer(v->driver) : json_null());
    json_set_str(o, "result", outcomes[outcome].json);
    json_dumpf(o, stdout, JSON_INDENT(2));
    putchar('\n');
}

static int provision(struct verb *v, struct err *e)
{
    bool json = v->o->json;
    int r = decide(v, e);

    if (r < 0)
        return r;
    if (!json)
        provision_print(stdout, &v->plan, v->colour);
    fflush(stdout);
    if (!v->o->dry_run && !v->driver && (r = carry_out(v, e)) < 0)
        return r;
    enum outcome outcome = outcome_of(v);
    if (json) {
        print_json(v, outcome);
    } else {
        _cleanup_free_ char *driver = driver_text(v);

        if (v->driver && has_steps(&v->plan))
            puts(driver);
        if (outcomes[outcome].text)
            puts(outcomes[outcome].text);
    }
    return outcomes[outcome].status;
}

int provision_once(const struct provision_options *o)
{
    _cleanup_(verb_done) struct verb v = {
        .o = o,
        .root.fd = -1,
        .locks = {-1, -1},
        .colour = colour_wanted(),
    };
    _cleanup_err_ struct err e = ERR_INIT;
    int r = provision(&v, &e);

    if (r < 0) {
        fprintf(stderr, "sriov-dra provision: %s\n", err_text(&e));
        return EXIT_FAILED;
    }
    if (!cli_written("provision"))
        return EXIT_FAILED;
    return r;
}
