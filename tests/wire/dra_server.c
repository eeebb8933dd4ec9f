/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A DRA plugin whose claims are names of behaviours, for tests that come with a foreign gRPC
 * client:
 *
 *     dra_server KUBELET-ROOT [POD-UID]
 *
 * A claim's name says what happens to it: "fail-TEXT" gets that error, "slow-MS" its answer late,
 * "never" none before the end, "stop" ends the server while the claim waits, any other a device.
 * What happens is told on stdout, a line each. SIGTERM ends it. "--no-dra" only waits: what the
 * libraries cost.
 */
#include "base/log.h"
#include "kube/dra.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

struct server {
    struct loop *loop;
    struct dra *dra;
    VEC(struct later *) never;
};

struct later {
    struct dra_call *call;
    size_t index;
    struct timer *timer;
};

static void answer(struct dra_call *call, size_t i)
{
    const struct dra_claim_ref *c = &call->claims.v[i];
    const char *error = str_skip(c->name, "fail-");
    struct dra_result r = {0};

    if (error) {
        r.error = xstrdup(error);
    } else if (call->prepare) {
        struct dra_device *d = VEC_PUSH(&r.devices);

        d->request = xstrdup("nic");
        d->pool = xstrdup("node-1");
        d->device = xasprintf("vf-of-%s", c->name);
        d->cdi_id = xasprintf("sriov-dra.dev/vf=%s-%s", c->uid, d->device);
    }
    dra_call_answer(call, i, &r);
}

static void answer_late(void *data)
{
    struct later *l = data;

    timer_free(l->timer);
    answer(l->call, l->index);
    free(l);
}

static void claims_came(struct dra_call *call, void *data)
{
    struct server *s = data;
    /* The call may be freed with its last answer. */
    size_t n = call->claims.n;

    printf("%s %zu\n", call->prepare ? "prepare" : "unprepare", n);
    for (size_t i = 0; i < n; i++) {
        const char *name = call->claims.v[i].name;
        const char *ms = str_skip(name, "slow-");

        if (!ms && !streq(name, "never") && !streq(name, "stop")) {
            answer(call, i);
            continue;
        }
        struct later *l = xnew(struct later);

        *l = (struct later){.call = call, .index = i};
        if (ms) {
            l->timer = timer_new(s->loop, answer_late, l);
            timer_set(l->timer, atoi(ms));
            continue;
        }
        *VEC_PUSH(&s->never) = l;
        if (streq(name, "stop"))
            loop_stop(s->loop);
    }
}

static void registered(bool ok, const char *error, void *data)
{
    (void)data;
    printf("registered %s %s\n", ok ? "yes" : "no", error);
}

static void stop(int signo, void *data)
{
    (void)signo;
    loop_stop(((struct server *)data)->loop);
}

int main(int argc, char **argv)
{
    static const int signals[] = {SIGTERM, SIGINT};
    _cleanup_err_ struct err e = ERR_INIT;
    struct server s = {0};
    sigset_t set;

    if (argc < 2) {
        fprintf(stderr, "usage: %s KUBELET-ROOT|--no-dra [POD-UID]\n", argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    log_setup(LOG_DEBUG, LOG_JSON);
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
        sigaddset(&set, signals[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);

    struct dra_config c = {
        .driver = "sriov-dra.dev",
        .kubelet_root = argv[1],
        .pod_uid = argv[2],
        .fn = claims_came,
        .registered = registered,
        .data = &s,
    };
    int r = loop_new(clock_system(), &s.loop, &e);
    if (r == 0)
        r = loop_signals(s.loop, signals, ARRAY_SIZE(signals), stop, &s, &e);
    if (r == 0 && !streq(argv[1], "--no-dra"))
        r = dra_new(s.loop, &c, &s.dra, &e);
    if (r == 0) {
        printf("ready\n");
        r = loop_run(s.loop, &e);
    }
    if (s.dra)
        printf("open %u\n", dra_open_calls(s.dra));
    dra_free(s.dra);
    vec_foreach (l, &s.never) {
        answer((*l)->call, (*l)->index);
        free(*l);
    }
    free(s.never.v);
    if (s.loop)
        loop_free(s.loop);
    if (r < 0)
        log_error_err(&e, "DRA server");
    else
        printf("ended\n");
    return r < 0 ? 3 : 0;
}
