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

/*
 * Ends what is under way; callbacks of requests that didn't end are not called. Not from inside a
 * callback.
 */
void api_free(struct api *a);
DEFINE_CLEANUP(struct api, api_free)

/* "https://host:port", for messages. */
const char *api_server(const struct api *a);
struct loop *api_loop(const struct api *a);

struct api_response {
    int status;             /* HTTP; 0: no answer, see err */
    const json_t *body;     /* NULL if there was none or it was no JSON */
    int64_t retry_after_ms; /* what the server asked for; 0: nothing */
    struct err err;         /* what was asked, and what the server said; err.code is 0 if and only
                               if status is 2xx and a body, if there was one, is JSON */
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
    size_t max_body;          /* a bigger answer is -EFBIG; 0: 4 MiB */
};

/*
 * Calls fn once, later, unless api_cancel() comes first. Copies all of `q`. Never NULL.
 *
 * err.code: -ENOENT 404, -EEXIST 409 AlreadyExists, -ESTALE 409 and 410, -EACCES 401 and 403,
 * -EINVAL 400 and 422, -EAGAIN 429, -EREMOTEIO 5xx, -EPROTO what is none of them; without an answer
 * -ECONNREFUSED, -ETIMEDOUT, -ECONNRESET and the like.
 */
struct api_call *api_send(struct api *a, const struct api_request *q, api_fn *fn, void *data);

/* At any time until fn has returned, also from inside a callback. NULL is allowed. */
void api_cancel(struct api_call *c);

/*
 * GETs an answer without an end, such as a watch. `chunk` gets its body as it arrives, first once
 * with n == 0 when the server has agreed (2xx); `fn` its end, as with api_send(): 200 without error
 * if it was orderly, 200 with an error if it broke after that. Ended by us with -ETIMEDOUT if
 * nothing arrives for `idle_ms`. Not repeated, but for a 401 after which another token was found.
 */
typedef void api_chunk_fn(const char *bytes, size_t n, void *data);
struct api_call *api_stream(struct api *a, const char *path, int idle_ms, api_chunk_fn *chunk,
                            api_fn *fn, void *data);

/* Escapes one part of a path or a query value; the caller frees it. */
char *api_escape(const char *s);

/* How many requests were sent since the start, retries and watches included. */
unsigned long api_requests_sent(const struct api *a);

enum api_verb { API_GET, API_POST, API_PUT, API_PATCH, API_DELETE, API_WATCH };
#define API_VERBS 6
const char *api_verb_text(enum api_verb v); /* "GET"; API_WATCH: "WATCH" */

/*
 * How many of them were answered so: `hundreds` 2 is 2xx, 0 is without an answer. Each try counts,
 * a watch when the server agrees to it. One that was cancelled isn't in it.
 */
#define API_CLASSES 6
unsigned long api_answers(const struct api *a, enum api_verb v, unsigned hundreds);
