/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver as a process: its clock, its loop, its effects on the kernel and its end, by the
 * linker's --wrap. Between two of its requests a neighbour may act.
 *
 * A process that is killed goes on without effect: requests and files fail unseen
 * from then on, until it has ended by itself as on SIGTERM. What stays is the kernel and the disk.
 */
#include "tests/unit/model/model.h"

#include "base/log.h"
#include "driver/observe.h"
#include "netlink/monitor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <time.h>

/* ---- time */

static int64_t model_now(struct clock *c)
{
    (void)c;
    return m.now;
}

struct clock *__wrap_clock_system(void);
struct clock *__wrap_clock_system(void)
{
    static struct clock c = {model_now};

    return &c;
}

int __wrap_nanosleep(const struct timespec *ts, struct timespec *left);
int __wrap_nanosleep(const struct timespec *ts, struct timespec *left)
{
    (void)left;
    m.now += ts->tv_sec * 1000 + ts->tv_nsec / 1000000;
    return 0;
}

static int64_t next_timer;

/* Never waits; tells what the loop would have waited for. */
int __real_epoll_wait(int fd, struct epoll_event *ev, int n, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *ev, int n, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *ev, int n, int timeout)
{
    next_timer = timeout < 0 ? INT64_MAX : m.now + timeout;
    return __real_epoll_wait(fd, ev, n, 0);
}

static struct {
    struct loop *loop;
    void (*steps)(void);
    bool stopped;
    void (*on_signal)(int signo, void *data);
    void *signal_data;
    monitor_fn *monitor;
    void *monitor_data;
    unsigned links; /* messages of the link group that wait */
} p;

void __real_observe_device_changed(struct observe *o, const char *device);
void __wrap_observe_device_changed(struct observe *o, const char *device);
void __wrap_observe_device_changed(struct observe *o, const char *device)
{
    oracle_changed_hands(device);
    __real_observe_device_changed(o, device);
}

/* ---- the kernel's side: every request of the driver, and the link group */

unsigned process_effect(bool writes, int *ret_error, bool *ret_torn)
{
    *ret_error = 0;
    *ret_torn = false;
    *(writes ? &m.did.writes : &m.did.reads) += 1;
    if (m.dead) {
        *ret_error = -ESHUTDOWN;
        return false;
    }
    if (writes && m.kill_in && --m.kill_in == 0) {
        say("  killed %s", m.kill_how == 1 ? "after that" : "before that");
        m.dead = true;
        *ret_error = -ESHUTDOWN;
        *ret_torn = m.kill_how == 2;
        return m.kill_how == 1;
    }
    if (m.fault_in && --m.fault_in == 0) {
        say("  fails: %s%s", strerror(-m.fault_error), m.fault_applies ? ", though done" : "");
        *ret_error = m.fault_error;
        m.faulted = tick();
        if (threads_looking())
            threads_look_failed();
        return m.fault_applies && writes;
    }
    return true;
}

static void on_request(const struct fk_request *q, struct fk_verdict *v, void *data)
{
    bool torn;

    (void)data;
    if (!m.dead && m.interfere && below(&m.rng, 100) < m.interfere) {
        say("  meanwhile:");
        if (threads_looking() && chance(&m.rng, 50))
            (void)threads_run_some();
        else
            neighbour_acts(&m.rng);
    }
    oracle_sample();
    v->apply = process_effect(q->writes, &v->error, &torn);
    if (v->apply)
        oracle_request(q);
}

static void on_trace(const char *text, void *data)
{
    (void)data;
    say("    %s", text);
}

static void on_link(int ifindex, bool gone, void *data)
{
    (void)ifindex;
    (void)gone;
    (void)data;
    p.links++;
}

int monitor_new(struct loop *l, monitor_fn *fn, void *data, struct monitor **ret, struct err *e)
{
    (void)l;
    (void)e;
    p.monitor = fn;
    p.monitor_data = data;
    p.links = 0;
    *ret = (struct monitor *)&p;
    return 0;
}

void monitor_free(struct monitor *mon)
{
    (void)mon;
    p.monitor = NULL;
}

static bool deliver_link(void)
{
    if (!p.monitor || !p.links)
        return false;
    p.links = 0;
    p.monitor(&(struct monitor_event){.kind = MONITOR_LINK, .ifindex = 1}, p.monitor_data);
    return true;
}

/* Names of vendors mean nothing here, and their list is long. */
void __wrap_inventory_fill_names(struct inventory *inv);
void __wrap_inventory_fill_names(struct inventory *inv)
{
    (void)inv;
}

void __wrap_log_record(enum log_level level, const struct err *e, const char *msg, ...);
void __wrap_log_record(enum log_level level, const struct err *e, const char *msg, ...)
{
    static const char *const levels[] = {"ERROR", "WARN", "INFO", "DEBUG"};
    struct strbuf b = {0};
    va_list ap;

    m.did.complaints += !m.dead && level <= LOG_WARN;
    if (!m.verbose || m.dead)
        return;
    va_start(ap, msg);
    for (const char *key; (key = va_arg(ap, const char *));)
        strbuf_printf(&b, " %s=%s", key, va_arg(ap, const char *) ?: "null");
    va_end(ap);
    say("  %s %s%s%s%s", levels[level], msg, b.s ? b.s : "", e ? ": " : "", e ? err_text(e) : "");
    strbuf_done(&b);
}

/* ---- life and death */

int __wrap_loop_signals(struct loop *l, const int *signals, size_t n,
                        void (*fn)(int signo, void *data), void *data, struct err *e);
int __wrap_loop_signals(struct loop *l, const int *signals, size_t n,
                        void (*fn)(int signo, void *data), void *data, struct err *e)
{
    (void)l;
    (void)signals;
    (void)n;
    (void)e;
    p.on_signal = fn;
    p.signal_data = data;
    return 0;
}

void __wrap_loop_stop(struct loop *l);
void __wrap_loop_stop(struct loop *l)
{
    (void)l;
    p.stopped = true;
}

static bool turn_loop(void)
{
    _cleanup_err_ struct err e = ERR_INIT;

    if (loop_once(p.loop, -1, &e) < 0)
        broken("the loop failed: %s", err_text(&e));
    return next_timer <= m.now;
}

/* One thing that can be done now. */
static bool do_something(bool to_the_end)
{
    if (m.dead && !to_the_end)
        return false;
    bool driver = p.loop && !p.stopped;

    return (driver && (turn_loop() || deliver_link() || threads_deliver_any() ||
                       (!m.stuck && threads_run_any()))) ||
           (!m.dead && (cluster_deliver() || kubelet_deliver() || runtime_deliver()));
}

void process_settle(void)
{
    for (unsigned n = 0; do_something(false); n++)
        if (n > 20000)
            broken("the driver doesn't come to rest");
}

void process_nudge(unsigned n)
{
    while (n-- > 0 && !m.dead) {
        if (!p.loop || p.stopped) {
            (void)(chance(&m.rng, 50) ? cluster_deliver() : kubelet_deliver() || runtime_deliver());
            continue;
        }
        switch (below(&m.rng, 8)) {
        case 0:
            (void)turn_loop();
            break;
        case 1:
            (void)deliver_link();
            break;
        case 2:
        case 3:
            (void)threads_run_some();
            break;
        case 4:
        case 5:
            (void)threads_deliver_some();
            break;
        case 6:
            (void)cluster_deliver();
            break;
        case 7:
            (void)(kubelet_deliver() || runtime_deliver());
            break;
        }
    }
}

static int64_t earliest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When something comes to an end without the driver. */
static int64_t others_next(void)
{
    kubelet_check_times();
    return earliest(cluster_next(), runtime_next());
}

void process_wait(int64_t ms)
{
    int64_t until = m.now + ms;

    for (;;) {
        process_settle();
        if (m.dead || m.now >= until)
            return;
        int64_t next = others_next();

        if (p.loop && !p.stopped)
            next = earliest(next, next_timer);
        next = earliest(next, until);
        if (next > m.now)
            m.now = next;
    }
}

/* It has ended. What it was still waiting for is taken to its end without effect, for its memory.
 */
static void forget(void)
{
    m.dead = true;
    p.stopped = false;
    for (int64_t until = m.now + 300; m.now < until; m.now += 50)
        while (do_something(true))
            ;
    p.stopped = true;
}

void process_terminate(void)
{
    int64_t since = m.now;

    if (!p.loop || p.stopped)
        return;
    p.on_signal(SIGTERM, p.signal_data);
    while (!p.stopped) {
        while (!p.stopped && do_something(true))
            ;
        if (p.stopped)
            break;
        int64_t next = m.dead ? next_timer : earliest(next_timer, others_next());
        m.now = next > m.now && next < INT64_MAX ? next : m.now + 1;
        if (m.now - since > 30000)
            broken("the driver doesn't end within the 30 s of a pod");
    }
    forget();
}

void process_kill(void)
{
    say("  killed");
    m.dead = true;
}

int __wrap_loop_run(struct loop *l, struct err *e);
int __wrap_loop_run(struct loop *l, struct err *e)
{
    (void)e;
    p.loop = l;
    p.stopped = false;
    m.up = true;
    if (!m.dead)
        p.steps();
    process_terminate();
    p.loop = NULL;
    return 0;
}

int process_run(void (*steps)(void))
{
    _cleanup_err_ struct err e = ERR_INIT;

    p.steps = steps;
    p.loop = NULL;
    threads_reset();
    oracle_looked(tick()); /* as the driver does at its start */
    m.dead = false;
    memcpy(m.running_groups, m.groups, sizeof(m.groups));
    int r = node_run(&m.config, &e);
    if (r < 0)
        say("the driver ended: %s", err_text(&e));
    m.up = false;
    m.dead = false;
    m.node = NULL;
    m.kill_in = 0;
    runtime_driver_gone();
    kubelet_driver_gone();
    return r;
}

bool process_ended(void)
{
    return p.stopped;
}

void process_done(void)
{
    free((char *)m.config.kubelet_root);
    free((char *)m.config.state_dir);
    free((char *)m.config.cdi_dir);
    free((char *)m.config.pools_file);
}

void process_init(void)
{
    memset(&p, 0, sizeof(p));
    m.config.kubelet_root = xasprintf("%s/kubelet", m.dir);
    m.config.state_dir = xasprintf("%s/claims", m.dir);
    m.config.cdi_dir = xasprintf("%s/cdi", m.dir);
    m.config.pools_file = xasprintf("%s/pools.yaml", m.dir);
    m.k->on_request = on_request;
    m.k->on_link = on_link;
    m.k->on_trace = m.verbose ? on_trace : NULL;
}
