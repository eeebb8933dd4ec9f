/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP server on the main loop, for probes and scrapes: GET and HEAD of a few paths, no
 * TLS, no thread of its own (libmicrohttpd with its epoll descriptor in ours). Knows nothing of
 * Kubernetes.
 *
 * Whoever reaches the port may connect, so everything is bounded: connections, also from one
 * address, the size of a request, and the time that a connection lives, whatever it does. A
 * connection serves one request.
 */
#pragma once

#include "base/loop.h"
#include "base/str.h"

#define HTTP_SERVER_CONNECTIONS 16   /* more wait in the kernel's queue */
#define HTTP_SERVER_PER_ADDRESS 8    /* more are closed at once */
#define HTTP_SERVER_REQUEST_MAX 8192 /* bytes of a request's head; a body is never read */
#define HTTP_SERVER_LIFE_MS     10000

struct http_server;

/* What a path answers; zero-initialised is 404. */
struct http_reply {
    unsigned status;
    const char *content_type; /* static; NULL: text/plain */
    struct strbuf body;       /* taken over */
};

/* `path` is without query. Called on the loop, while the client waits: must not block. */
typedef void http_server_fn(const char *path, struct http_reply *ret, void *data);

/*
 * Listens. `address` is "127.0.0.1:9808", "[::1]:9808", or ":9808" for all addresses of both
 * families; port 0: the kernel's choice. ERR_USER for another form; else the kernel's error, such
 * as -EADDRINUSE, with the address in the text.
 */
int http_server_new(struct loop *l, const char *address, http_server_fn *fn, void *data,
                    struct http_server **ret, struct err *e) _must_check_;

/* Drops connections. Not from a callback. */
void http_server_free(struct http_server *s);
DEFINE_CLEANUP(struct http_server, http_server_free)

unsigned http_server_port(const struct http_server *s);
