/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/events.h"

#include "driver/event_queue.h"
#include "driver/metrics.h"
#include "tests/unit/kube/api_bench.h"
#include "tests/unit/test.h"

#include <errno.h>

#define CREATED                                                                                    \
    {                                                                                              \
        .status = 201, .body = "{}"                                                                \
    }
#define NONE                                                                                       \
    {                                                                                              \
        .status = 404, .body = "{\"code\":404}"                                                    \
    }

/* A node with pods "web" and "done" (finished) that name claim "c", and "other", which doesn't. */
static const char list[] =
    "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":["
    "{\"metadata\":{\"namespace\":\"default\",\"name\":\"web\",\"uid\":\"uid-web\"},"
    "\"spec\":{\"resourceClaims\":[{\"name\":\"x\",\"resourceClaimName\":\"c\"}]},"
    "\"status\":{}},"
    "{\"metadata\":{\"namespace\":\"default\",\"name\":\"done\",\"uid\":\"uid-done\"},"
    "\"spec\":{\"resourceClaims\":[{\"name\":\"x\",\"resourceClaimName\":\"c\"}]},"
    "\"status\":{\"phase\":\"Failed\"}},"
    "{\"metadata\":{\"namespace\":\"default\",\"name\":\"other\",\"uid\":\"uid-other\"},"
    "\"spec\":{},\"status\":{}}]}";

/* The list, then a watch and a reading of the claim in any order, then what the test makes. */
static const struct reply script[] = {
    {.status = 200, .body = list},
    NONE,
    NONE,
    CREATED,
    CREATED,
    CREATED,
    CREATED,
    CREATED,
    CREATED,
    CREATED,
};

struct rig {
    struct bench b;
    struct node n;
    bool synced;
    size_t told; /* events that were looked at */
};

static void ignore_claim(const struct record *rec, bool gone, void *data)
{
    (void)rec, (void)gone, (void)data;
}

static void ignore_pod(const struct pod *p, bool gone, void *data)
{
    (void)p, (void)gone, (void)data;
}

static void note_synced(void *data)
{
    ((struct rig *)data)->synced = true;
}

static void open_rig(struct rig *rig)
{
    *rig = (struct rig){0};
    bench_start(&rig->b, script, ARRAY_SIZE(script), "token: t");
    rig->n = (struct node){
        .c = {.driver = "sriov-dra.dev", .name = "node-1"}, .loop = rig->b.loop, .api = rig->b.api};
    rig->n.claims = claims_new(rig->b.loop, NULL, NULL, ignore_claim, NULL);
    rig->n.pods = pods_new(rig->b.loop, rig->b.api,
                           &(struct pods_config){.node = "node-1",
                                                 .driver = "sriov-dra.dev",
                                                 .changed = ignore_pod,
                                                 .synced = note_synced,
                                                 .data = rig});
    rig->n.events = event_queue_new(rig->b.loop, "sriov-dra.dev", "node-1");
    event_queue_set_node_uid(rig->n.events, "uid-node");
    assert_true(pump(rig->b.loop, &rig->synced, 0, 5000));
    event_queue_go(rig->n.events, rig->b.api);
}

static void close_rig(struct rig *rig)
{
    event_queue_free(rig->n.events);
    pods_free(rig->n.pods);
    claims_free(rig->n.claims);
    bench_stop(&rig->b);
}

/* "REASON TYPE KIND/NAME/UID [RELATED KIND/NAME/UID]: NOTE" of the i-th event; NULL: none. */
static char *event_text(struct rig *rig, size_t i)
{
    for (size_t at = 0; at < server_asked(rig->b.server); at++) {
        const struct asked *q = server_request(rig->b.server, at);
        json_auto_t *o = NULL;

        if (!streq(q->method, "POST") || i-- > 0)
            continue;
        assert_int_equal(json_parse(q->body, strlen(q->body), &o, NULL), 0);
        const char *related = json_str_at(o, "related.kind");
        return xasprintf("%s %s %s/%s/%s%s%s%s%s%s%s: %s", json_str_at(o, "reason"),
                         json_str_at(o, "type"), json_str_at(o, "regarding.kind"),
                         json_str_at(o, "regarding.name"), json_str_at(o, "regarding.uid"),
                         related ? " " : "", related ? related : "", related ? "/" : "",
                         related ? json_str_at(o, "related.name") : "", related ? "/" : "",
                         related ? json_str_at(o, "related.uid") : "", json_str_at(o, "note"));
    }
    return NULL;
}

/* The next events are these, and no more; NULL ends the list. */
static void expect(struct rig *rig, const char *const *texts)
{
    bool never = false;

    for (; *texts; texts++, rig->told++) {
        _cleanup_free_ char *got = NULL;

        for (int i = 0; i < 500 && !(got = event_text(rig, rig->told)); i++)
            (void)pump(rig->b.loop, &never, 0, 10);
        if (!got)
            fail_msg("not told: %s", *texts);
        assert_string_equal(got, *texts);
    }
    (void)pump(rig->b.loop, &never, 0, 40);
    _cleanup_free_ char *more = event_text(rig, rig->told);
    if (more)
        fail_msg("%s", more);
}
#define EXPECT(rig, ...) expect(rig, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static uint64_t value_of(const char *sample)
{
    _cleanup_(strbuf_done) struct strbuf out = {0};

    metrics_text(&(struct metrics_now){.version = ""}, &out);
    const char *at = strstr(out.s, sample);
    if (!at)
        fail_msg("no %s", sample);
    return strtoull(at + strlen(sample), NULL, 10);
}

/* A claim that was just acquired, of the place in its list of three. */
static struct claim *add_claim(struct rig *rig, const char *name, unsigned choice)
{
    struct record *rec = xnew(struct record);
    struct grant *g = &VEC_PUSH(&rec->devices)->grant;

    rec->namespace = xstrdup("default");
    rec->name = xstrdup(name);
    rec->uid = xasprintf("uid-%s", name);
    rec->boot_id = xstrdup("boot");
    g->request = xstrdup("nic");
    g->device = xasprintf("device-%s", name);
    strcpy(g->vf_address, "0000:01:10.0");
    if (choice) {
        g->alternative = xstrdup("prepared");
        g->choice = choice;
        g->choices = 3;
    }
    return claims_add(rig->n.claims, rec);
}

#define LATER                                                                                      \
    ": request nic: alternative prepared was allocated, number 2 of 3: VF 0000:01:10.0, mode "     \
    "Prepare"

static void test_alternatives(void **state)
{
    static const char first[] = "choices_total{choice=\"first\"} ",
                      later[] = "choices_total{choice=\"later\"} ";
    uint64_t firsts = value_of(first), laters = value_of(later);
    struct rig rig;

    (void)state;
    open_rig(&rig);
    struct claim *c = add_claim(&rig, "c", 2);
    events_acquired(&rig.n, c);
    EXPECT(&rig, "AlternativeAllocated Normal ResourceClaim/c/uid-c" LATER,
           "AlternativeAllocated Normal Pod/web/uid-web ResourceClaim/c/uid-c" LATER);
    events_acquired(&rig.n, c); /* the kubelet calls Prepare again */
    assert_int_equal(value_of(later), laters + 1);
    events_acquired(&rig.n, add_claim(&rig, "d", 1));
    events_acquired(&rig.n, add_claim(&rig, "e", 0));
    EXPECT(&rig);
    assert_int_equal(value_of(first), firsts + 1);
    assert_int_equal(value_of(later), laters + 1);
    close_rig(&rig);
}

static void test_pods(void **state)
{
    static const struct object_name web = {"default", "web", "uid-web"};
    struct err why = {.code = -EBUSY, .kind = ERR_TRANSIENT, .msg = xstrdup("sriov-dra: why")};
    struct rig rig;

    (void)state;
    open_rig(&rig);
    (void)add_claim(&rig, "c", 0);
    events_pod_refused(&rig.n, &web, "uid-c", &why);
    events_pod_refused(&rig.n, &web, "uid-c", &why);
    EXPECT(&rig, "PodRefused Warning Pod/web/uid-web ResourceClaim/c/uid-c: why");
    events_pod_lacks_vfs(&rig.n, &web, "uid-unknown", &why);
    EXPECT(&rig, "VFMissing Warning Pod/web/uid-web: why");
    events_pod_repaired(&rig.n, &web);
    EXPECT(&rig, "PodRepaired Warning Pod/web/uid-web: the pod had started without its VF, or with "
                 "a part of its attachment: it has all of it now");
    err_clear(&why);
    close_rig(&rig);
}

static void test_calls(void **state)
{
    static const struct object_name c = {"default", "c", "uid-c"};
    struct err why = {.code = -EINVAL, .kind = ERR_USER, .msg = xstrdup("why")};
    struct rig rig;

    (void)state;
    open_rig(&rig);
    events_call_failed(&rig.n, true, &c, &why);
    EXPECT(&rig, "PrepareFailed Warning ResourceClaim/c/uid-c: claim default/c: why",
           "PrepareFailed Warning Pod/web/uid-web ResourceClaim/c/uid-c: claim default/c: why");
    events_call_failed(&rig.n, false, &c, &why);
    EXPECT(&rig, "UnprepareFailed Warning ResourceClaim/c/uid-c: claim default/c: why",
           "UnprepareFailed Warning Pod/web/uid-web ResourceClaim/c/uid-c: claim default/c: why");
    err_set(&why, ERR_TRANSIENT, -ESHUTDOWN, "the driver is stopping");
    events_call_failed(&rig.n, true, &c, &why);
    EXPECT(&rig);
    err_clear(&why);
    close_rig(&rig);
}

#define DRIFTED "VF 0000:02:10.0 isn't as it should be: vlan: 0, want 100"

static void test_drift(void **state)
{
    char why[] = "vlan: 0, want 100";
    const struct vf_fact f = {.vf_address = "0000:02:10.0", .why = why};
    uint64_t before = value_of("\nsriov_dra_drift_total ");
    struct rig rig;

    (void)state;
    open_rig(&rig);
    events_vfs_drifted(&rig.n, "storage", &f, 1);
    EXPECT(&rig, "VFDrifted Warning Node/node-1/uid-node: pool storage: " DRIFTED);
    events_vfs_drifted(&rig.n, "storage", &f, 3);
    EXPECT(&rig, "VFDrifted Warning Node/node-1/uid-node: pool storage: 3 VFs aren't as they "
                 "should be. " DRIFTED);
    assert_int_equal(value_of("\nsriov_dra_drift_total "), before + 4);

    events_claim_harmed(&rig.n, &f); /* nobody has it */
    EXPECT(&rig);
    struct grant *g = &add_claim(&rig, "c", 0)->rec->devices.v[0].grant;
    free(g->device);
    g->device = xstrdup("0000-02-10-0");
    events_claim_harmed(&rig.n, &f);
    EXPECT(&rig, "VFDrifted Warning ResourceClaim/c/uid-c: " DRIFTED,
           "VFDrifted Warning Pod/web/uid-web ResourceClaim/c/uid-c: " DRIFTED);

    /* seen at the start, before the pods are: of those nothing is known */
    struct pods *pods = TAKE_PTR(rig.n.pods);
    const struct vf_fact other = {.vf_address = "0000:02:10.0"};
    events_claim_harmed(&rig.n, &other);
    rig.n.pods = pods;
    EXPECT(&rig, "VFDrifted Warning ResourceClaim/c/uid-c: VF 0000:02:10.0 isn't as it should be: "
                 "unknown");
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alternatives),
        cmocka_unit_test(test_pods),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_drift),
    };

    return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}
