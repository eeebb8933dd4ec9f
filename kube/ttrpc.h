/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ttrpc: unary calls over a byte stream. A message is its length, its stream's number (32 bits
 * big-endian each), a type and flags (a byte each), then a protobuf message. Streams that the
 * client opens are odd and increase.
 *
 * Only bytes in and out, as in mux.h. Streaming calls aren't spoken: NRI has none.
 *
 * Source: github.com/containerd/ttrpc PROTOCOL.md.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

#define TTRPC_HEADER_LEN  10U
#define TTRPC_PAYLOAD_MAX (4U * 1024 * 1024)

enum ttrpc_type {
    TTRPC_REQUEST = 1,
    TTRPC_RESPONSE = 2,
    TTRPC_DATA = 3,
};

/* The status codes of google.rpc.Code that we send. */
enum ttrpc_code {
    TTRPC_OK = 0,
    TTRPC_UNKNOWN = 2, /* what a Go handler's plain error becomes */
    TTRPC_INVALID_ARGUMENT = 3,
    TTRPC_UNIMPLEMENTED = 12,
};

/* One incoming stream. Zero-initialised: at its start; ttrpc_in_done() frees. */
struct ttrpc_in {
    struct strbuf buf; /* the message so far, with its header */
    bool whole;        /* handed out: the next call starts a new one */
    uint32_t last_stream;
};

struct ttrpc_msg {
    uint32_t stream;
    uint8_t type, flags;
    const uint8_t *payload; /* valid until the next ttrpc_next() or ttrpc_in_done() */
    size_t n;
};

/*
 * Takes bytes from the `*n` at `*buf` until a message is whole, and advances both. 1: a message;
 * 0: all bytes are used up; -EPROTO: a message is longer than allowed, so the stream is lost.
 */
int ttrpc_next(struct ttrpc_in *in, const uint8_t **buf, size_t *n, struct ttrpc_msg *ret,
               struct err *e) _must_check_;
void ttrpc_in_done(struct ttrpc_in *in);

struct ttrpc_request {
    char *service, *method; /* owned, never NULL */
    uint8_t *payload;       /* owned, NULL if n is 0 */
    size_t n;
    int64_t timeout_ns; /* 0: none */
};
void ttrpc_request_done(struct ttrpc_request *r);

/*
 * Reads a message as a client's request, at the server. 1: a request; 0: a message to ignore, as
 * the protocol wants for types to come; -EINVAL: the client is told TTRPC_INVALID_ARGUMENT with the
 * error's text, and the stream goes on.
 */
int ttrpc_read_request(struct ttrpc_in *in, const struct ttrpc_msg *msg, struct ttrpc_request *ret,
                       struct err *e) _must_check_;

struct ttrpc_response {
    int code;         /* 0: success */
    char *message;    /* owned; NULL on success */
    uint8_t *payload; /* owned, NULL if n is 0 */
    size_t n;
};
void ttrpc_response_done(struct ttrpc_response *r);

/* Reads a message as the server's answer, at the client. As ttrpc_read_request(). */
int ttrpc_read_response(const struct ttrpc_msg *msg, struct ttrpc_response *ret,
                        struct err *e) _must_check_;

/* Append one message to `out`. `n` is at most 1 MiB (mux_put() says why). */
void ttrpc_put_request(struct strbuf *out, uint32_t stream, const char *service, const char *method,
                       const void *payload, size_t n);
void ttrpc_put_response(struct strbuf *out, uint32_t stream, const void *payload, size_t n);
void ttrpc_put_error(struct strbuf *out, uint32_t stream, enum ttrpc_code code,
                     const char *message);
