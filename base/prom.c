/* SPDX-License-Identifier: Apache-2.0 */
#include "base/prom.h"

#include <inttypes.h>

static const struct {
    int64_t us;
    const char *seconds;
} bounds[PROM_BUCKETS] = {
    {5000, "0.005"},  {10000, "0.01"},  {25000, "0.025"}, {50000, "0.05"},
    {100000, "0.1"},  {250000, "0.25"}, {500000, "0.5"},  {1000000, "1"},
    {2500000, "2.5"}, {5000000, "5"},   {10000000, "10"}, {20000000, "20"},
};

static void put_escaped(struct strbuf *out, const char *text, const char *special)
{
    _cleanup_free_ char *clean = str_utf8(text);

    for (const char *p = clean; *p; p++) {
        if (*p == '\n') {
            strbuf_puts(out, "\\n");
            continue;
        }
        if (strchr(special, *p))
            strbuf_putc(out, '\\');
        strbuf_putc(out, *p);
    }
}

static const char *type_text(enum prom_type type)
{
    switch (type) {
    case PROM_COUNTER:
        return "counter";
    case PROM_GAUGE:
        return "gauge";
    case PROM_HISTOGRAM:
        return "histogram";
    }
    return "untyped";
}

void prom_family(struct strbuf *out, enum prom_type type, const char *name, const char *help)
{
    strbuf_printf(out, "# HELP %s ", name);
    put_escaped(out, help, "\\");
    strbuf_printf(out, "\n# TYPE %s %s\n", name, type_text(type));
}

/* "{a="b",le="1"}", or nothing; `le` NULL: not a bucket. */
static void put_labels(struct strbuf *out, const struct prom_label *labels, const char *le)
{
    char before = '{';

    for (; labels && labels->name; labels++) {
        strbuf_printf(out, "%c%s=\"", before, labels->name);
        put_escaped(out, labels->value, "\\\"");
        strbuf_putc(out, '"');
        before = ',';
    }
    if (le) {
        strbuf_printf(out, "%cle=\"%s\"", before, le);
        before = ',';
    }
    if (before == ',')
        strbuf_putc(out, '}');
}

void prom_sample(struct strbuf *out, const char *name, const struct prom_label *labels,
                 uint64_t value)
{
    strbuf_puts(out, name);
    put_labels(out, labels, NULL);
    strbuf_printf(out, " %" PRIu64 "\n", value);
}

void prom_observe_us(struct prom_histogram *h, int64_t us)
{
    size_t i = 0;

    if (us < 0)
        us = 0;
    while (i < PROM_BUCKETS && us > bounds[i].us)
        i++;
    h->buckets[i]++;
    h->sum_us += (uint64_t)us;
}

void prom_histogram(struct strbuf *out, const char *name, const struct prom_label *labels,
                    const struct prom_histogram *h)
{
    uint64_t n = 0;

    for (size_t i = 0; i <= PROM_BUCKETS; i++) {
        n += h->buckets[i];
        strbuf_printf(out, "%s_bucket", name);
        put_labels(out, labels, i < PROM_BUCKETS ? bounds[i].seconds : "+Inf");
        strbuf_printf(out, " %" PRIu64 "\n", n);
    }
    strbuf_printf(out, "%s_sum", name);
    put_labels(out, labels, NULL);
    strbuf_printf(out, " %" PRIu64 ".%06" PRIu64 "\n", h->sum_us / 1000000, h->sum_us % 1000000);
    strbuf_printf(out, "%s_count", name);
    put_labels(out, labels, NULL);
    strbuf_printf(out, " %" PRIu64 "\n", n);
}
