/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events (events.k8s.io/v1), written one after another and beside everything else: nothing waits
 * for them, and nothing depends on them. Bounded in number, in rate and in age; the same object,
 * reason and note aren't written again within an hour, for which an API server keeps events by
 * default.
 * Main thread only.
 *
 * Limits of the fields: pkg/apis/core/validation/events.go of Kubernetes 1.37.
 */
#pragma once

#include "kube/api.h"

#define EVENTS_WAITING  64               /* more are dropped */
#define EVENTS_AGE_MS   (10 * 60 * 1000) /* older ones are dropped: the API server is away */
#define EVENTS_AGAIN_MS (60 * 60 * 1000) /* before that, the same says nothing new */
#define EVENTS_BURST    20               /* so many at once, and then */
#define EVENTS_PACE_MS  2000             /* one each */
#define EVENT_NOTE_MAX  1024             /* bytes */

struct event_queue;

/* `namespace` NULL: of the cluster; `uid` NULL: not known, but for the Node see below. */
struct event_object {
    const char *api_version, *kind, *namespace, *name, *uid;
};

struct event {
    bool warning; /* else Normal */
    const char *reason, *action;
    struct event_object regarding, related; /* related.kind NULL: none */
    const char *note;                       /* cut to EVENT_NOTE_MAX bytes */
};

/* Nothing is written before event_queue_go(). The strings are copied. */
struct event_queue *event_queue_new(struct loop *l, const char *driver, const char *node);
/* What isn't written by then is lost. */
void event_queue_free(struct event_queue *q);
DEFINE_CLEANUP(struct event_queue, event_queue_free)

void event_queue_go(struct event_queue *q, struct api *a);

/* Events on a Node without uid wait for this; it may change. */
void event_queue_set_node_uid(struct event_queue *q, const char *uid);

/* Copies all of `ev`. */
void event_queue_add(struct event_queue *q, const struct event *ev);

/* The object that is sent; a new reference. `id` makes its name its own. Pure. */
json_t *event_document(const struct event *ev, const char *driver, const char *node,
                       int64_t wall_ms, uint64_t id);
