/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP exchanges on the main loop: libcurl's multi interface with our descriptors and timers. Knows
 * nothing of Kubernetes; the API client is the only user.
 *
 * Callbacks come from the loop, never from inside libcurl and never from http_start(), so they may
 * start and stop any exchange.
 */
#pragma once

#include "base/loop.h"

struct http;
struct http_exchange;

int http_new(struct loop *l, struct http **ret, struct err *e);

/* Stops what is under way, without callbacks. Not from inside a callback. */
void http_free(struct http *h);
DEFINE_CLEANUP(struct http, http_free)

enum http_outcome {
    HTTP_ANSWERED, /* complete: status and body */
    HTTP_UNSENT,   /* no connection, so the server can't have acted */
    HTTP_BROKEN,   /* it may have acted; no answer, or a part of one */
    HTTP_TOO_BIG,  /* an answer above max_body */
};

struct http_answer {
    enum http_outcome outcome;
    int status;             /* 0 without any answer */
    int64_t retry_after_ms; /* what the server asked for; 0: nothing */
    const char *body;       /* NUL-terminated; empty if chunk() took it */
    size_t len;
    int code;         /* negative errno unless HTTP_ANSWERED */
    const char *text; /* why, unless HTTP_ANSWERED */
};

/* The exchange is over, and no longer to be stopped. */
typedef void http_fn(const struct http_answer *a, void *data);

/* A part of the body of a 2xx; first once with n == 0, when its headers are there. */
typedef void http_chunk_fn(const char *bytes, size_t n, void *data);

/* Copied, all of it. */
struct http_request {
    const char *method, *url;
    const char *const *headers; /* "Name: value", NULL-terminated */
    const char *body;           /* NULL: none */
    bool once;                  /* never sent twice, not even over a connection that died unused */
    const char *user_agent;
    const char *ca, *cert, *key; /* PEM; NULL: the system's CAs, no client certificate */
    int timeout_ms;              /* of all of it; 0: none */
    int connect_timeout_ms;
    size_t max_body; /* of what isn't handed to chunk() */
};

/* `chunk` may be NULL: the body is collected. */
struct http_exchange *http_start(struct http *h, const struct http_request *q, http_chunk_fn *chunk,
                                 http_fn *fn, void *data);
void http_stop(struct http_exchange *x);
