/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the API client share: a server, a client and a loop, and callbacks that note.
 */
#pragma once

#include "kube/api.h"
#include "tests/unit/kube/server.h"

struct bench {
    struct server *server;
    struct loop *loop;
    struct api *api;
    char *url;
};

/* A client of `b->url`; `cluster` and `user` as for temp_kubeconfig(). */
void bench_open(struct bench *b, const char *cluster, const char *user);

/* A server with the script, and a client of it. */
void bench_start(struct bench *b, const struct reply *script, size_t n, const char *user);
void bench_stop(struct bench *b);

/* What a callback saw. */
struct result {
    bool done;
    unsigned calls;
    int status, code;
    enum err_kind kind;
    int64_t retry_after_ms;
    char *text, *body;          /* "" and NULL if there was none */
    struct api_call *cancel;    /* cancelled in the callback */
    const struct bench *resend; /* another request is sent from the callback */
};

void result_done(struct result *r);

/* The callback; `data` is a struct result. */
void result_take(const struct api_response *r, void *data);

/* Sends and waits for the one result. */
void ask(struct bench *b, const struct api_request *q, struct result *r);
