/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scripted HTTP server on the loopback, in its own threads: answers each request with the next
 * reply of the script and remembers what it was asked. And the loop and clock that its tests use.
 */
#pragma once

#include "base/loop.h"

#include <stddef.h>

enum reply_end {
    END_ORDERLY,
    END_HANG, /* the connection stays open, nothing more comes */
    END_DROP, /* the connection breaks before the body's end */
};

struct reply {
    int status; /* 0: not even headers */
    const char *body;
    size_t body_len;          /* 0: strlen(body) */
    const char *name, *value; /* a header */
    size_t split;             /* 0: sent at once; else the first `split` bytes, a pause, the rest */
    bool gate;                /* that pause lasts until server_go() */
    size_t each;              /* 0, or: sent by so many bytes with a pause after each */
    enum reply_end end;
};

struct asked {
    char *method, *url, *authorization, *content_type, *body;
    unsigned port; /* the client's, so the same for all over one connection */
};

struct server;

/* The script is borrowed. With `tls_cert` and `tls_key` (PEM) it speaks https. */
struct server *server_start(const struct reply *script, size_t n, const char *tls_cert,
                            const char *tls_key);
void server_stop(struct server *s);
unsigned server_port(const struct server *s);

/* Ends the pauses of gated replies, this one's and later ones'. */
void server_go(struct server *s);

/* How many requests came, and the i-th. Stays valid until server_stop(). */
size_t server_asked(struct server *s);
const struct asked *server_request(struct server *s, size_t i);

/* A loop whose time runs as far ahead of the real one as the tests want. */
struct loop *fast_loop(void);
void fast_forward(int64_t ms);

/* Turns the loop until *done, forwarding `step_ms` each 2 ms; false after `real_ms`. */
bool pump(struct loop *l, const bool *done, int64_t step_ms, int real_ms);

/* Writes `text` to a new file in /tmp; the caller unlinks and frees the name. */
char *temp_file(const char *text);

/* A kubeconfig for the server; `user` is the YAML of the user's content, such as "token: x". */
char *temp_kubeconfig(const char *url, const char *cluster, const char *user);
