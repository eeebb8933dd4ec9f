/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime's socket as messages: mux.h and ttrpc.h on a non-blocking descriptor of the loop.
 * Private to nri.c, which is called by the loop and pulls, so nothing calls back from here.
 */
#pragma once

#include "base/loop.h"
#include "kube/mux.h"
#include "kube/ttrpc.h"

struct nri_link {
    int fd; /* -1: closed, and all below is zero */
    struct loop_io *io;
    struct mux_in mux;
    struct ttrpc_in plugin, runtime; /* the two conns */
    uint8_t *buf;                    /* what was read; `at` and `left` are still to take */
    const uint8_t *at;
    size_t left;
    struct mux_piece piece; /* of it, the part that is being taken */
    struct strbuf unsent;
    size_t sent;       /* of `unsent` */
    bool blocked;      /* waiting for EPOLLOUT */
    struct err broken; /* why sending failed */
};

struct nri_link_msg {
    enum mux_conn conn;
    struct ttrpc_msg msg; /* valid until the next call, or nri_link_close() */
};

/*
 * Connects to the socket at `path`, at most 107 bytes, at once: a unix socket doesn't make one
 * wait, it fails with -EAGAIN if its backlog is full. The loop calls `fn` from then on.
 */
int nri_link_open(struct nri_link *link, struct loop *l, const char *path, loop_io_fn *fn,
                  void *data, struct err *e) _must_check_;

/* In any state. */
void nri_link_close(struct nri_link *link);

/*
 * What `fn` does first: sends what waits, and reads. Fails when the connection is over: with
 * -ECONNRESET if the runtime closed it. Then the caller closes.
 */
int nri_link_io(struct nri_link *link, uint32_t events, struct err *e) _must_check_;

/*
 * The next message of what was read. 1: one; 0: no more, or closed; negative as nri_link_io(), and
 * -EPROTO if the stream makes no sense any more. Messages of conns that nobody knows are skipped.
 */
int nri_link_next(struct nri_link *link, struct nri_link_msg *ret, struct err *e) _must_check_;

/* Sends a message of ttrpc_put_*(), or keeps it until the socket takes it. An error is kept too,
 * for `fn`, which the loop then calls; so this can be used anywhere. Without effect if closed. */
void nri_link_send(struct nri_link *link, enum mux_conn conn, const struct strbuf *message);
