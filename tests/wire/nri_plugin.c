/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NRI plugin that tells what it is told, for tests with a foreign runtime:
 *
 *     nri_plugin SOCKET
 *
 * A pod's name says what happens to its events: "refuse-TEXT" gets that error, "slow-MS" its answer
 * late, "env" sets SLOT in its containers, any other success. A line each on stdout, with the
 * milliseconds since the start; SIGTERM ends it.
 */
#include "base/log.h"
#include "kube/nri.h"

#include <signal.h>
#include <stdio.h>

static struct loop *loop;
static struct nri *nri;
static int64_t began;

struct late {
    struct nri_call *call;
    struct timer *timer;
};

static void on_state(bool connected, const char *text, void *data)
{
    (void)data;
    printf("%lld %s %s\n", (long long)(clock_now(clock_system()) - began),
           connected ? "up" : "down", text);
}

static void on_synchronize(const nri_pod_vec *pods, const nri_container_vec *containers, void *data)
{
    size_t running = 0, with_netns = 0;

    (void)data;
    vec_foreach (p, pods)
        with_netns += p->netns != NULL;
    vec_foreach (c, containers)
        running += c->state == 3;
    printf("%lld synchronize pods %zu netns %zu containers %zu running %zu\n",
           (long long)(clock_now(clock_system()) - began), pods->n, with_netns, containers->n,
           running);
}

static void answer_late(void *data)
{
    struct late *l = data;

    timer_free(l->timer);
    nri_reply(l->call, NULL, NULL);
    free(l);
}

static void on_event(struct nri_call *call, enum nri_event ev, const struct nri_pod *pod,
                     const struct nri_container *container, void *data)
{
    static const char *const names[] = {
        [NRI_RUN_SANDBOX] = "run",
        [NRI_STOP_SANDBOX] = "stop",
        [NRI_REMOVE_SANDBOX] = "remove",
        [NRI_CREATE_CONTAINER] = "create",
    };
    const char *error = str_skip(pod->name, "refuse-"), *ms = str_skip(pod->name, "slow-");

    (void)data;
    printf("%lld %s %s/%.64s uid %s id %s netns %s pid %u timeout %d%s%s\n",
           (long long)(clock_now(clock_system()) - began), names[ev], pod->namespace, pod->name,
           pod->uid, pod->id, pod->netns ? pod->netns : "host", pod->pid,
           nri_request_timeout_ms(nri), container ? " container " : "",
           container ? container->name : "");
    if (ms) {
        struct late *l = xnew(struct late);

        l->call = call;
        l->timer = timer_new(loop, answer_late, l);
        timer_set(l->timer, atoi(ms));
    } else if (error) {
        nri_reply(call, error, NULL);
    } else {
        struct nri_env env = {(char[]){"SLOT"}, (char[]){"0000:02:10.0"}};
        struct nri_adjust adjust = {.env = {.v = &env, .n = streq(pod->name, "env")}};

        nri_reply(call, NULL, &adjust);
    }
}

static void end(int signo, void *data)
{
    (void)signo;
    (void)data;
    loop_stop(loop);
}

int main(int argc, char **argv)
{
    static const int signals[] = {SIGTERM, SIGINT};
    _cleanup_err_ struct err e = ERR_INIT;
    sigset_t set;

    if (argc != 2) {
        fprintf(stderr, "usage: nri_plugin SOCKET\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    log_setup(LOG_DEBUG, LOG_TEXT);
    began = clock_now(clock_system());
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
        sigaddset(&set, signals[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);

    struct nri_config c = {.socket = argv[1], .name = "sriov-dra", .index = "10"};
    struct nri_handlers h = {on_state, on_synchronize, on_event, NULL};
    int r = loop_new(clock_system(), &loop, &e);

    if (r == 0)
        r = loop_signals(loop, signals, ARRAY_SIZE(signals), end, NULL, &e);
    if (r == 0)
        r = nri_new(loop, &c, &h, &nri, &e);
    if (r == 0)
        r = loop_run(loop, &e);
    nri_free(nri);
    if (loop)
        loop_free(loop);
    if (r < 0)
        log_error_err(&e, "stopped");
    return r < 0;
}
