/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include "base/str.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

struct loop_io {
    struct loop *loop;
    int fd;
    loop_io_fn *fn; /* NULL: freed while events of this round were still to be handled */
    void *data;
    struct loop_io *next_dead;
};

struct timer {
    struct loop *loop;
    timer_fn *fn;
    void *data;
    int64_t due;
    uint64_t round; /* the last in which it fired */
    bool set;
};

struct posted {
    void (*fn)(void *data);
    void *data;
};

struct loop {
    struct clock *clock;
    int epoll, wake;
    bool stop, handling;
    uint64_t round;
    struct loop_io *wake_io, *signal_io;
    int signal_fd;
    void (*signal_fn)(int signo, void *data);
    void *signal_data;
    struct loop_io *dead; /* freed at the end of the round: epoll may still name them in it */
    VEC(struct timer *) timers;

    pthread_mutex_t lock; /* guards `posted` */
    VEC(struct posted) posted;
};

static void run_posted(int fd, uint32_t events, void *data)
{
    struct loop *l = data;
    uint64_t n;

    (void)events;
    (void)!read(fd, &n, sizeof(n));
    pthread_mutex_lock(&l->lock);
    __typeof__(l->posted) batch = l->posted;
    memset(&l->posted, 0, sizeof(l->posted));
    pthread_mutex_unlock(&l->lock);
    vec_foreach (p, &batch)
        p->fn(p->data);
    free(batch.v);
}

int loop_new(struct clock *clock, struct loop **ret, struct err *e)
{
    struct loop *l = xnew(struct loop);

    l->clock = clock;
    l->signal_fd = -1;
    pthread_mutex_init(&l->lock, NULL);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->epoll < 0 || l->wake < 0) {
        int r = err_errno(e, -errno, "event loop");

        loop_free(l);
        return r;
    }
    int r = loop_io_new(l, l->wake, EPOLLIN, run_posted, l, &l->wake_io, e);
    if (r < 0) {
        loop_free(l);
        return r;
    }
    *ret = l;
    return 0;
}

static void bury(struct loop *l)
{
    while (l->dead) {
        struct loop_io *io = l->dead;

        l->dead = io->next_dead;
        free(io);
    }
}

void loop_free(struct loop *l)
{
    loop_io_free(l->wake_io);
    loop_io_free(l->signal_io);
    bury(l);
    cleanup_closep(&l->signal_fd);
    cleanup_closep(&l->wake);
    cleanup_closep(&l->epoll);
    pthread_mutex_destroy(&l->lock);
    free(l->posted.v);
    free(l->timers.v);
    free(l);
}

struct clock *loop_clock(struct loop *l)
{
    return l->clock;
}

void loop_stop(struct loop *l)
{
    l->stop = true;
}

static struct timer *next_due(struct loop *l)
{
    struct timer *first = NULL;

    vec_foreach (t, &l->timers)
        if ((*t)->set && (!first || (*t)->due < first->due))
            first = *t;
    return first;
}

int loop_once(struct loop *l, int timeout_ms, struct err *e)
{
    struct epoll_event events[32];
    struct timer *t = next_due(l);

    if (t) {
        int64_t left = t->due - clock_now(l->clock);

        if (left < 0)
            left = 0;
        if (timeout_ms < 0 || left < timeout_ms)
            timeout_ms = left > 60000 ? 60000 : (int)left;
    }
    int n = epoll_wait(l->epoll, events, ARRAY_SIZE(events), timeout_ms);
    if (n < 0) {
        if (errno == EINTR)
            return 0;
        return err_errno(e, -errno, "waiting for events");
    }
    l->handling = true;
    for (int i = 0; i < n; i++) {
        struct loop_io *io = events[i].data.ptr;

        if (io->fn)
            io->fn(io->fd, events[i].events, io->data);
    }
    l->handling = false;
    bury(l);

    /* Each timer once a round, so that one which sets itself to 0 doesn't starve descriptors. */
    int64_t now = clock_now(l->clock);
    l->round++;
    while ((t = next_due(l)) && t->due <= now && t->round != l->round) {
        t->set = false;
        t->round = l->round;
        t->fn(t->data);
    }
    return 0;
}

int loop_run(struct loop *l, struct err *e)
{
    l->stop = false;
    while (!l->stop) {
        int r = loop_once(l, -1, e);

        if (r < 0)
            return r;
    }
    return 0;
}

int loop_io_new(struct loop *l, int fd, uint32_t events, loop_io_fn *fn, void *data,
                struct loop_io **ret, struct err *e)
{
    struct loop_io *io = xnew(struct loop_io);
    struct epoll_event ev = {.events = events, .data.ptr = io};

    *io = (struct loop_io){.loop = l, .fd = fd, .fn = fn, .data = data};
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &ev) < 0) {
        free(io);
        return err_errno(e, -errno, "watching descriptor %d", fd);
    }
    *ret = io;
    return 0;
}

int loop_io_set(struct loop_io *io, uint32_t events, struct err *e)
{
    struct epoll_event ev = {.events = events, .data.ptr = io};

    if (epoll_ctl(io->loop->epoll, EPOLL_CTL_MOD, io->fd, &ev) < 0)
        return err_errno(e, -errno, "watching descriptor %d", io->fd);
    return 0;
}

void loop_io_free(struct loop_io *io)
{
    if (!io)
        return;
    struct loop *l = io->loop;

    (void)epoll_ctl(l->epoll, EPOLL_CTL_DEL, io->fd, NULL);
    if (!l->handling) {
        free(io);
        return;
    }
    io->fn = NULL;
    io->next_dead = l->dead;
    l->dead = io;
}

struct timer *timer_new(struct loop *l, timer_fn *fn, void *data)
{
    struct timer *t = xnew(struct timer);

    *t = (struct timer){.loop = l, .fn = fn, .data = data};
    *VEC_PUSH(&l->timers) = t;
    return t;
}

void timer_set(struct timer *t, int64_t delay_ms)
{
    t->due = clock_now(t->loop->clock) + delay_ms;
    t->set = true;
}

void timer_cancel(struct timer *t)
{
    t->set = false;
}

bool timer_is_set(const struct timer *t)
{
    return t->set;
}

void timer_free(struct timer *t)
{
    if (!t)
        return;
    vec_foreach (it, &t->loop->timers)
        if (*it == t) {
            *it = t->loop->timers.v[--t->loop->timers.n];
            break;
        }
    free(t);
}

void loop_post(struct loop *l, void (*fn)(void *data), void *data)
{
    static const uint64_t one = 1;

    pthread_mutex_lock(&l->lock);
    *VEC_PUSH(&l->posted) = (struct posted){fn, data};
    pthread_mutex_unlock(&l->lock);
    (void)!write(l->wake, &one, sizeof(one));
}

static void read_signals(int fd, uint32_t events, void *data)
{
    struct loop *l = data;
    struct signalfd_siginfo si;

    (void)events;
    while (read(fd, &si, sizeof(si)) == sizeof(si))
        l->signal_fn((int)si.ssi_signo, l->signal_data);
}

int loop_signals(struct loop *l, const int *signals, size_t n, void (*fn)(int signo, void *data),
                 void *data, struct err *e)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < n; i++)
        sigaddset(&set, signals[i]);
    l->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (l->signal_fd < 0)
        return err_errno(e, -errno, "receiving signals");
    l->signal_fn = fn;
    l->signal_data = data;
    return loop_io_new(l, l->signal_fd, EPOLLIN, read_signals, l, &l->signal_io, e);
}
