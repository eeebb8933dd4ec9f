/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC server on unix sockets, for unary methods. The only user of gRPC's C core, which isn't a
 * public API: what crosses this wall is a method's name, bytes, a reply. Could be replaced alone.
 *
 * gRPC's completion queue has a thread of its own, which does nothing but hand calls to the main
 * loop; handlers and replies run on the loop.
 */
#pragma once

#include "base/loop.h"

#include <stddef.h>

struct grpc_srv;
struct grpc_srv_call;

/* Bytes of a socket's path, at most (sun_path without its NUL). */
#define GRPC_SRV_PATH_MAX 107

/* The status codes that we send (google.golang.org/grpc/codes). */
enum grpc_code {
    GRPC_CODE_OK = 0,
    GRPC_CODE_INVALID_ARGUMENT = 3,
    GRPC_CODE_UNIMPLEMENTED = 12,
    GRPC_CODE_INTERNAL = 13,
    GRPC_CODE_UNAVAILABLE = 14,
};

/*
 * Called on the loop for each call. `request` is valid during the handler only. The handler, or
 * somebody later, answers exactly once with grpc_srv_reply(), even if the client is gone.
 */
typedef void grpc_srv_fn(struct grpc_srv_call *c, const void *request, size_t len, void *data);

struct grpc_srv_method {
    const char *path; /* "/pluginregistration.Registration/GetInfo" */
    grpc_srv_fn *fn;
    void *data;
};

/*
 * Serves `methods` (borrowed) on the socket `path`. An existing socket file there is replaced even
 * if somebody serves on it, which is gRPC's way: hold the node's lock first. A file of another kind
 * is an error, and so is a path above 107 bytes. The socket gets mode 0600. Signals must be blocked
 * in the calling thread, so that gRPC's threads inherit that. Does not block.
 *
 * Limits: 4 MiB a request (else RESOURCE_EXHAUSTED), 128 calls at once on a connection (more wait
 * in the client), no compression (UNIMPLEMENTED). Methods that aren't in the table are answered
 * with UNIMPLEMENTED, calls without a request message with INVALID_ARGUMENT.
 */
int grpc_srv_new(struct loop *l, const char *path, const struct grpc_srv_method *methods, size_t n,
                 struct grpc_srv **ret, struct err *e);

/* Sends the answer and forgets the call. `text` is for a code other than OK, else NULL. */
void grpc_srv_reply(struct grpc_srv_call *c, enum grpc_code code, const char *text,
                    const void *data, size_t len);

/* Calls that wait for their answer. */
unsigned grpc_srv_open_calls(const struct grpc_srv *s);

/*
 * Takes no new calls, unlinks the socket, cancels calls that are still open (answer them first, or
 * never), and waits for gRPC to end: up to some 100 ms. Not from a handler.
 */
void grpc_srv_free(struct grpc_srv *s);
DEFINE_CLEANUP(struct grpc_srv, grpc_srv_free)
