/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/metrics.h"

#include "base/clock.h"

#define PREFIX "sriov_dra_"

enum outcome { OUTCOME_OK, OUTCOME_REFUSED, OUTCOME_FAILED };
#define OUTCOMES 3

/* VFs of one pool. */
struct share {
    char *pool;
    enum mode mode;
    size_t verified, unverified;
};

static struct {
    uint64_t ops[METRIC_OPS][OUTCOMES];
    struct prom_histogram took[METRIC_OPS];
    uint64_t counts[METRICS];
    VEC(struct share) shares;
} metrics;

static const char *const op_names[METRIC_OPS] = {
    [METRIC_PREPARE] = "prepare", [METRIC_UNPREPARE] = "unprepare", [METRIC_ATTACH] = "attach",
    [METRIC_DETACH] = "detach",   [METRIC_RELEASE] = "release",
};
static const char *const outcome_names[OUTCOMES] = {
    [OUTCOME_OK] = "ok",
    [OUTCOME_REFUSED] = "refused",
    [OUTCOME_FAILED] = "failed",
};

/* ---- counting */

static enum outcome outcome_of(const struct err *e)
{
    if (!e)
        return OUTCOME_OK;
    switch (e->kind) {
    case ERR_USER:
    case ERR_PERMANENT:
        return OUTCOME_REFUSED;
    case ERR_NONE:
    case ERR_TRANSIENT:
    case ERR_BUG:
        break;
    }
    return OUTCOME_FAILED;
}

void metrics_operation(enum metric_op op, const struct err *e, int64_t began_us)
{
    metrics.ops[op][outcome_of(e)]++;
    prom_observe_us(&metrics.took[op], clock_mono_us() - began_us);
}

void metrics_count(enum metric m)
{
    metrics.counts[m]++;
}

static const struct vf_fact *find_fact(const vf_fact_vec *facts, const char *address)
{
    vec_foreach (f, facts)
        if (streq(f->vf_address, address))
            return f;
    return NULL;
}

void metrics_devices(const struct contract_input *in, const vf_fact_vec *facts)
{
    vec_foreach (s, &metrics.shares)
        free(s->pool);
    metrics.shares.n = 0;
    vec_foreach (p, &in->pools->pools)
        *VEC_PUSH(&metrics.shares) = (struct share){.pool = xstrdup(p->name), .mode = p->mode};
    vec_foreach (pf, &in->inv->pfs)
        vec_foreach (vf, &pf->vfs) {
            const struct pool *p = pools_find(in->pools, in->node, in->labels, pf, vf);
            const struct vf_fact *f = find_fact(facts, vf->address);

            if (!p || !f)
                continue;
            struct share *s = &metrics.shares.v[p - in->pools->pools.v];
            if (f->verified)
                s->verified++;
            else
                s->unverified++;
        }
}

/* ---- the text */

static void gauge(struct strbuf *out, const char *name, const char *help, uint64_t value)
{
    prom_family(out, PROM_GAUGE, name, help);
    prom_sample(out, name, NULL, value);
}

static void counter(struct strbuf *out, const char *name, const char *help, enum metric m)
{
    prom_family(out, PROM_COUNTER, name, help);
    prom_sample(out, name, NULL, metrics.counts[m]);
}

static void counted(struct strbuf *out, const char *name, const char *label, const char *value,
                    enum metric m)
{
    prom_sample(out, name, PROM_LABELS({label, value}), metrics.counts[m]);
}

static void put_state(struct strbuf *out, const struct metrics_now *now)
{
    static const char build[] = PREFIX "build_info", skip[] = PREFIX "skip_honoured";

    prom_family(out, PROM_GAUGE, build, "Always 1; the label has the version.");
    prom_sample(out, build, PROM_LABELS({"version", now->version}), 1);
    gauge(out, PREFIX "registered", "Whether the kubelet has accepted the driver.",
          now->registered);
    gauge(out, PREFIX "nri_connected", "Whether the runtime's NRI is connected.",
          now->nri_connected);
    prom_family(out, PROM_GAUGE, skip,
                "Whether skipNodeOperations is honoured: declared by the kubelet, kept by the API "
                "server.");
    prom_sample(out, skip, PROM_LABELS({"by", "kubelet"}), now->skip_by_kubelet);
    prom_sample(out, skip, PROM_LABELS({"by", "apiserver"}), now->skip_by_server);
    gauge(
        out, PREFIX "taints_honoured",
        "Whether the API server keeps the taints of devices; without, VFs that aren't as promised "
        "are not published.",
        now->taints_by_server);
    gauge(out, PREFIX "records_damaged", "Claim records that were set aside as damaged.",
          now->damaged);
}

static void put_claims(struct strbuf *out, const struct metrics_now *now)
{
    static const char name[] = PREFIX "claims";

    prom_family(out, PROM_GAUGE, name, "Live claims with a device of the mode.");
    for (size_t m = 0; m < MODES; m++)
        prom_sample(out, name, PROM_LABELS({"mode", mode_text((enum mode)m)}), now->claims[m]);
}

static void put_devices(struct strbuf *out)
{
    static const char name[] = PREFIX "devices";

    prom_family(out, PROM_GAUGE, name, "VFs that a VirtualFunctionPool has on this node.");
    vec_foreach (s, &metrics.shares) {
        const char *mode = mode_text(s->mode);

        prom_sample(out, name, PROM_LABELS({"pool", s->pool}, {"mode", mode}, {"verified", "true"}),
                    s->verified);
        prom_sample(out, name,
                    PROM_LABELS({"pool", s->pool}, {"mode", mode}, {"verified", "false"}),
                    s->unverified);
    }
}

static void put_operations(struct strbuf *out)
{
    static const char total[] = PREFIX "operations_total",
                      took[] = PREFIX "operation_duration_seconds";

    prom_family(out, PROM_COUNTER, total,
                "What was done for a claim, once each; refused will be so again, failed may not.");
    for (size_t op = 0; op < METRIC_OPS; op++)
        for (size_t i = 0; i < OUTCOMES; i++)
            prom_sample(out, total,
                        PROM_LABELS({"operation", op_names[op]}, {"result", outcome_names[i]}),
                        metrics.ops[op][i]);
    prom_family(out, PROM_HISTOGRAM, took, "How long these took, waiting included.");
    for (size_t op = 0; op < METRIC_OPS; op++)
        prom_histogram(out, took, PROM_LABELS({"operation", op_names[op]}), &metrics.took[op]);
}

static void put_counts(struct strbuf *out)
{
    static const char sandboxes[] = PREFIX "sandboxes_total", choices[] = PREFIX "choices_total",
                      events[] = PREFIX "events_total";

    prom_family(out, PROM_COUNTER, sandboxes,
                "Pod sandboxes: refused, late (refused as the runtime's time was up), repaired "
                "(had started without their VFs), unknown (let go without knowing their claims).");
    counted(out, sandboxes, "result", "refused", METRIC_SANDBOX_REFUSED);
    counted(out, sandboxes, "result", "late", METRIC_SANDBOX_LATE);
    counted(out, sandboxes, "result", "repaired", METRIC_SANDBOX_REPAIRED);
    counted(out, sandboxes, "result", "unknown", METRIC_SANDBOX_UNKNOWN);
    prom_family(out, PROM_COUNTER, choices,
                "Requests with a list of alternatives, by which of them was allocated.");
    counted(out, choices, "choice", "first", METRIC_CHOICE_FIRST);
    counted(out, choices, "choice", "later", METRIC_CHOICE_LATER);
    counter(out, PREFIX "lists_not_copied_total",
            "Claims that the kubelet had prepared, as they have no copy of the skipNodeOperations "
            "of their device's slice.",
            METRIC_LIST_NOT_COPIED);
    counter(out, PREFIX "drift_total", "VFs that were found different from what is promised.",
            METRIC_DRIFT);
    counter(out, PREFIX "slice_writes_total", "ResourceSlices written or deleted.",
            METRIC_SLICE_WRITTEN);
    prom_family(out, PROM_COUNTER, events,
                "Events for people: written, dropped (too many, or the API server away too long).");
    counted(out, events, "result", "written", METRIC_EVENT_WRITTEN);
    counted(out, events, "result", "dropped", METRIC_EVENT_DROPPED);
}

static void put_api(struct strbuf *out, const struct api *api)
{
    static const char name[] = PREFIX "api_requests_total";

    prom_family(out, PROM_COUNTER, name,
                "Requests to the API server, each try; code none: without an answer.");
    for (size_t v = 0; api && v < API_VERBS; v++)
        for (unsigned hundreds = 0; hundreds < API_CLASSES; hundreds++) {
            char code[] = "0xx";

            if (hundreds == 1) /* informational ones are no answers */
                continue;
            code[0] = (char)('0' + hundreds);
            prom_sample(out, name,
                        PROM_LABELS({"verb", api_verb_text((enum api_verb)v)},
                                    {"code", hundreds ? code : "none"}),
                        api_answers(api, (enum api_verb)v, hundreds));
        }
}

void metrics_text(const struct metrics_now *now, struct strbuf *out)
{
    put_state(out, now);
    put_claims(out, now);
    put_devices(out);
    put_operations(out);
    put_counts(out);
    put_api(out, now->api);
}
