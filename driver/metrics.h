/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is counted, and the text that Prometheus reads. Counters are the process's, as the log is:
 * a thing is counted where it happens, and nothing is handed through for it. Main thread only.
 *
 * Labels have few values, none of them a user's but the names of pools.
 */
#pragma once

#include "base/prom.h"
#include "driver/offer.h"
#include "kube/api.h"

enum metric_op {
    METRIC_PREPARE,   /* a claim of the kubelet's call, up to its answer */
    METRIC_UNPREPARE, /* the same */
    METRIC_ATTACH,    /* a claim's VFs moved into a sandbox */
    METRIC_DETACH,    /* moved home from it */
    METRIC_RELEASE,   /* put back, with the wait for their return */
};
#define METRIC_OPS 5

/*
 * Counts an operation that began at `began_us` (clock_mono_us()). `e` NULL: ok; ERR_USER and
 * ERR_PERMANENT: refused, for it would be so again; else failed.
 */
void metrics_operation(enum metric_op op, const struct err *e, int64_t began_us);

enum metric {
    METRIC_SANDBOX_REFUSED,
    METRIC_SANDBOX_LATE,     /* refused because the runtime's time was up */
    METRIC_SANDBOX_REPAIRED, /* had started without its VFs */
    METRIC_SANDBOX_UNKNOWN,  /* let go: whether it has a claim of ours couldn't be known */
    METRIC_CHOICE_FIRST,     /* of a prioritised list */
    METRIC_CHOICE_LATER,
    METRIC_LIST_NOT_COPIED, /* a claim without its device's skipNodeOperations */
    METRIC_DRIFT,
    METRIC_SLICE_WRITTEN,
    METRIC_EVENT_WRITTEN,
    METRIC_EVENT_DROPPED,
};
#define METRICS 11
void metrics_count(enum metric m);

/* What each pool has, from what an offer is made of; replaces what was said before. */
void metrics_devices(const struct contract_input *in, const vf_fact_vec *facts);

/* What isn't counted but looked up when asked. */
struct metrics_now {
    const char *version;
    bool registered, nri_connected;
    bool skip_by_kubelet, skip_by_server, taints_by_server; /* true until seen not to */
    size_t claims[MODES];                                   /* by mode: with a device of it */
    size_t damaged;                                         /* records */
    const struct api *api;
};

/* Appends all of it. */
void metrics_text(const struct metrics_now *now, struct strbuf *out);
