/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NRI's multiplexing: several byte streams ("conns") in one socket. A frame is the conn's number
 * and the payload's length, both 32 bits big-endian, then the payload.
 *
 * Frames have nothing to do with messages: a message may span several, and one may hold several.
 * Only bytes in and out, no descriptor, so nothing here blocks or calls back.
 *
 * Source: github.com/containerd/nri pkg/net/multiplex.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

/* A conn's number is all that opens it; 0 is reserved. */
enum mux_conn {
    MUX_CONN_PLUGIN = 1,  /* the runtime calls us */
    MUX_CONN_RUNTIME = 2, /* we call the runtime */
};

/* The largest payload of one frame that the runtime sends: a full ttrpc message with its header. */
#define MUX_PAYLOAD_MAX (4U * 1024 * 1024 + 10)

/* Where in the incoming stream we are. Zero-initialised: at its start. Owns nothing. */
struct mux_in {
    uint8_t header[8];
    uint32_t have; /* bytes of the header */
    uint32_t conn, left;
};

struct mux_piece {
    uint32_t conn; /* any number: the caller drops what it doesn't know, as the runtime does */
    const uint8_t *data;
    size_t n; /* > 0 */
};

/*
 * Takes the next piece of payload out of the `*n` bytes at `*buf`, and advances both. The piece
 * points into the buffer. 1: a piece; 0: all bytes are used up; -EPROTO: a frame is longer than any
 * that the runtime sends, so the stream is lost.
 */
int mux_next(struct mux_in *m, const uint8_t **buf, size_t *n, struct mux_piece *ret,
             struct err *e) _must_check_;

/*
 * Appends `n` bytes to `out` as frames of `conn` with at most 4096 bytes of payload each: the
 * runtime reads a conn through a buffer of that size, and fails if a frame is larger than what is
 * free in it. It also queues at most 256 frames a conn, so send less than 1 MiB at a time.
 */
void mux_put(struct strbuf *out, uint32_t conn, const void *data, size_t n);
