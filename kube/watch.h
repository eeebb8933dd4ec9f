/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a copy-free view of a list in the API: lists it (in pages), then watches with bookmarks,
 * and lists again where the server says that the history is gone (410). Reconnects by itself, with
 * backoff (0.8 to 30 s, jittered); the stream's end after its time-out is normal.
 *
 * A WATCH_RESET may come again before WATCH_SYNCED: the list begins anew. After WATCH_SYNCED an
 * object may be put again in a state that was seen already, never in an older one.
 */
#pragma once

#include "kube/api.h"

struct watch;

enum watch_kind {
    WATCH_RESET,   /* a list begins: what isn't repeated up to WATCH_SYNCED is gone */
    WATCH_PUT,     /* the object exists and looks so */
    WATCH_DELETED, /* the object in its last state */
    WATCH_SYNCED,  /* the list is complete */
    WATCH_TROUBLE, /* the server can't be reached or refuses: `err`; the watch goes on trying.
                      Once an outage and cause, not once a try; a RESET, PUT or DELETED after it, or
                      watch_in_trouble(), says that it is over */
};

struct watch_event {
    enum watch_kind kind;
    json_t *object;        /* borrowed; incref to keep */
    const struct err *err; /* WATCH_TROUBLE only */
};

typedef void watch_fn(const struct watch_event *ev, void *data);

/*
 * `path` is the collection ("/api/v1/pods"), `query` selectors or NULL
 * ("fieldSelector=spec.nodeName%3Dnode1"). Starts at once.
 */
struct watch *watch_new(struct api *a, const char *path, const char *query, watch_fn *fn,
                        void *data);

/* fn isn't called again. Allowed inside fn. */
void watch_free(struct watch *w);
DEFINE_CLEANUP(struct watch, watch_free)

/* The clock's time of the last sign of life; for health. */
int64_t watch_last_seen_ms(const struct watch *w);

/* Whether the last attempt failed. */
bool watch_in_trouble(const struct watch *w);
