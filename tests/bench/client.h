/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the benchmark's programs send, on bare libcurl: requests to the API server over one kept
 * connection, and unary gRPC calls on a unix socket. Nothing of the driver's own clients, so that
 * these are a floor and not the thing measured. All calls block.
 */
#pragma once

#include "base/json.h"
#include "base/str.h"
#include "kube/apiconf.h"

#include <curl/curl.h>

struct client {
    struct apiconf conf;
    CURL *curl;
    struct curl_slist *headers;
};

/* Who and where, from a kubeconfig; doesn't connect. curl_global_init() comes before. */
int client_open(const char *kubeconfig, struct client *ret, struct err *e);
void client_done(struct client *c);

/*
 * One request; `body` may be NULL. The parsed answer is the caller's; `ret` may be NULL. -EREMOTEIO
 * with the server's text unless the status is 2xx.
 */
int client_send(struct client *c, const char *method, const char *path, const char *body,
                json_t **ret, struct err *e);

/* Whom to trust and who we are, and the URL of `path`, for a handle of the caller's. */
void client_set_up(const struct client *c, CURL *curl, const char *path);

struct rpc {
    CURL *curl;
    struct curl_slist *headers;
    char status[8]; /* of the last call's trailers */
};

int rpc_open(const char *socket, struct rpc *ret, struct err *e);
void rpc_done(struct rpc *r);

/* A unary call of "/package.Service/Method" with a packed message. Appends the answer's to `ret`.
 */
int rpc_call(struct rpc *r, const char *method, const void *message, size_t len, struct strbuf *ret,
             struct err *e);
