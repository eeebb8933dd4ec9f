/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the Kubernetes API on libcurl and jansson, driven by the main loop: nothing here
 * blocks but api_new(). JSON only. Everything belongs to the loop's thread.
 */
#pragma once

#include "base/json.h"
#include "base/loop.h"

struct api;

struct api_config {
    const char *kubeconfig; /* NULL: in-cluster (KUBERNETES_SERVICE_HOST, the pod's token and CA) */
    const char *user_agent;
    int request_timeout_ms; /* 0: 10000 */
};

/*
 * Reads the configuration; doesn't connect. From a kubeconfig: server, CA, client certificate or
 * token, each as data or file, of the current context. -EINVAL naming the file and field.
 */
int api_new(struct loop *l, const struct api_config *c, struct api **ret, struct err *e);

/* Ends what is under way; callbacks of requests that didn't end are not called. */
void api_free(struct api *a);
DEFINE_CLEANUP(struct api, api_free)

/* "https://host:port", for messages. */
const char *api_server(const struct api *a);

struct api_response {
    int status;         /* HTTP; 0: no answer, see err */
    const json_t *body; /* NULL if it was no JSON */
    struct err err;     /* set unless status is 2xx: what was asked, and what the server said */
};

typedef void api_fn(const struct api_response *r, void *data);

struct api_call;

struct api_request {
    const char *method;       /* "GET", "POST", "PUT", "PATCH", "DELETE" */
    const char *path;         /* with query: "/apis/resource.k8s.io/v1/resourceslices?..." */
    const json_t *body;       /* borrowed for the call only; NULL: none */
    const char *content_type; /* NULL: application/json */
    int retries;              /* repeats of what is transient (429, 5xx, no connection), with
                                 jitter and Retry-After; a POST only where the server can't have
                                 acted (no connection, 429) */
    int timeout_ms;           /* of each try; 0: the client's */
};

/* Calls fn once, later, unless api_cancel() comes first. Copies all of `q`. Never NULL. */
struct api_call *api_send(struct api *a, const struct api_request *q, api_fn *fn, void *data);
void api_cancel(struct api_call *c);

/* Escapes one part of a path or a query value; the caller frees it. */
char *api_escape(const char *s);

/* How many requests were sent since the start, retries and watches included. */
unsigned long api_requests_sent(const struct api *a);
