/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime's side of NRI for tests: a listening socket, and calls whose bytes a test may cut as
 * it likes. It shares the loop with the plugin under test and turns it while it waits, at most 5 s.
 */
#pragma once

#include "base/loop.h"
#include "kube/mux.h"
#include "kube/ttrpc.h"

#include "proto/nri.pb-c.h"

struct runtime_message {
    uint32_t conn, stream;
    uint8_t type;
    uint8_t *bytes; /* owned */
    size_t n;
};

struct runtime {
    struct loop *loop;
    char dir[32];
    char *path;
    int listening, fd; /* -1: none */
    size_t piece;      /* bytes a write; 0: all at once */
    uint32_t stream;   /* the last that we opened */
    struct mux_in mux;
    struct ttrpc_in in[3];
    VEC(struct runtime_message) got;
};

/* Makes a directory and the socket's name in it; runtime_listen() the socket. */
void runtime_init(struct runtime *r, struct loop *l);
void runtime_done(struct runtime *r);
void runtime_listen(struct runtime *r);
void runtime_unlisten(struct runtime *r); /* and removes the socket */

/* Turns the loop until nothing more happens in it. */
void runtime_settle(struct runtime *r);

/* Takes the plugin's connection. */
void runtime_accept(struct runtime *r);
void runtime_hangup(struct runtime *r);

/* Writes bytes as they are. */
void runtime_write(struct runtime *r, const void *data, size_t n);

/* Calls the plugin and gives the stream; runtime_put_call() only appends the frames to `out`. */
uint32_t runtime_call(struct runtime *r, const char *method, const ProtobufCMessage *m);
uint32_t runtime_put_call(struct runtime *r, struct strbuf *out, const char *method,
                          const ProtobufCMessage *m);

/* Forgets what has come, so that a stream's number may come again. */
void runtime_drop_messages(struct runtime *r);

/* The message on this stream, once it has come; borrowed until the next wait. */
const struct runtime_message *runtime_wait(struct runtime *r, uint32_t conn, uint32_t stream);

/* The answer on this stream. */
void runtime_wait_response(struct runtime *r, uint32_t stream, struct ttrpc_response *ret);

/* Waits for RegisterPlugin and answers it; then Configure and its answer. */
void runtime_register(struct runtime *r);
void runtime_configure(struct runtime *r, int64_t request_timeout_ms);
void runtime_synchronize(struct runtime *r); /* with nothing */
