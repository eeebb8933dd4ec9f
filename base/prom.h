/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prometheus' text format, version 0.0.4: metric families appended to a text. Pure, and without
 * floating point, so without a locale.
 *
 * Source: prometheus.io/docs/instrumenting/exposition_formats.
 */
#pragma once

#include "base/str.h"

#define PROM_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum prom_type { PROM_COUNTER, PROM_GAUGE, PROM_HISTOGRAM };

/* The value may be any text: it is escaped, and made UTF-8. */
struct prom_label {
    const char *name, *value;
};

/* PROM_LABELS({"mode", "Skip"}, {"verified", "true"}): a list as the functions below take it. */
#define PROM_LABELS(...)                                                                           \
    ((const struct prom_label[]){                                                                  \
        __VA_ARGS__,                                                                               \
        {NULL, NULL},                                                                              \
    })

/* The head of a family; its samples must follow before another's. */
void prom_family(struct strbuf *out, enum prom_type type, const char *name, const char *help);

/* One sample; `labels` NULL: none. */
void prom_sample(struct strbuf *out, const char *name, const struct prom_label *labels,
                 uint64_t value);

/* How long something took: zero-initialised is empty. */
#define PROM_BUCKETS 12 /* 5 ms to 20 s, and one for what is longer */
struct prom_histogram {
    uint64_t buckets[PROM_BUCKETS + 1]; /* each with its own only, not with those below */
    uint64_t sum_us;
};

/* A negative time counts as 0. */
void prom_observe_us(struct prom_histogram *h, int64_t us);

/* The samples _bucket, _sum (seconds) and _count of a family. */
void prom_histogram(struct strbuf *out, const char *name, const struct prom_label *labels,
                    const struct prom_histogram *h);
