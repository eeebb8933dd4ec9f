/* SPDX-License-Identifier: Apache-2.0 */
#include "base/worker.h"

#include "base/str.h"

#include <pthread.h>

struct worker {
    struct loop *loop;
    pthread_t thread;
    unsigned pending; /* the loop's thread only */

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t more;
    struct job *first, **last;
    bool stop;
};

static void deliver(void *data)
{
    struct job *j = data;

    j->worker->pending--;
    j->done(j);
}

static void *work(void *data)
{
    struct worker *w = data;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        while (!w->first && !w->stop)
            pthread_cond_wait(&w->more, &w->lock);
        struct job *j = w->first;
        if (!j)
            break;
        w->first = j->next;
        if (!w->first)
            w->last = &w->first;
        pthread_mutex_unlock(&w->lock);
        j->run(j);
        loop_post(w->loop, deliver, j);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int worker_new(struct loop *l, const char *name, struct worker **ret, struct err *e)
{
    struct worker *w = xnew(struct worker);

    w->loop = l;
    w->last = &w->first;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->more, NULL);
    int r = pthread_create(&w->thread, NULL, work, w);
    if (r) {
        pthread_mutex_destroy(&w->lock);
        pthread_cond_destroy(&w->more);
        free(w);
        return err_errno(e, -r, "starting thread %s", name);
    }
    (void)pthread_setname_np(w->thread, name);
    *ret = w;
    return 0;
}

void worker_submit(struct worker *w, struct job *j)
{
    w->pending++;
    j->next = NULL;
    j->worker = w;
    pthread_mutex_lock(&w->lock);
    *w->last = j;
    w->last = &j->next;
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
}

unsigned worker_pending(const struct worker *w)
{
    return w->pending;
}

void worker_free(struct worker *w)
{
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->more);
    free(w);
}
