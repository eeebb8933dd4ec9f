/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/status.h"

#include "driver/node.h"
#include "tests/unit/kube/api_bench.h"
#include "tests/unit/test.h"

#define TRIES 6 /* one and five repeats */
#define OK                                                                                         \
    {                                                                                              \
        .status = 200, .body = "{}"                                                                \
    }
#define BUSY                                                                                       \
    {                                                                                              \
        .status = 503, .body = "{\"code\":503,\"message\":\"not now\"}"                            \
    }
#define NO_CLAIM                                                                                   \
    {                                                                                              \
        .status = 404, .body = "{\"code\":404,\"message\":\"no such claim\"}"                      \
    }

struct rig {
    struct bench b;
    struct node n;
};

static void ignore_change(const struct record *rec, bool gone, void *data)
{
    (void)rec;
    (void)gone;
    (void)data;
}

static struct record *new_record(const char *uid)
{
    struct record *rec = xnew(struct record);
    struct record_device *d = VEC_PUSH(&rec->devices);

    rec->namespace = xstrdup("default");
    rec->name = xasprintf("claim-%s", uid);
    rec->uid = xstrdup(uid);
    rec->boot_id = xstrdup("boot");
    rec->state = RECORD_PREPARED;
    d->grant.request = xstrdup("vf");
    d->grant.pool = xstrdup("node1");
    d->grant.device = xstrdup("0000-01-10-0");
    return rec;
}

static void open_rig(struct rig *rig, const struct reply *script, size_t n)
{
    bench_start(&rig->b, script, n, "token: t");
    rig->n =
        (struct node){.c = {.driver = "sriov-dra.dev"}, .loop = rig->b.loop, .api = rig->b.api};
    rig->n.claims = claims_new(rig->b.loop, NULL, NULL, ignore_change, NULL);
    rig->n.statuses = statuses_new(&rig->n);
}

static void close_rig(struct rig *rig)
{
    statuses_free(rig->n.statuses);
    claims_free(rig->n.claims);
    bench_stop(&rig->b);
}

/* The claim's VF is in the pod under this name. */
static void attached_as(struct rig *rig, const struct record *rec, const char *name)
{
    attachment_vec v = {0};
    struct claim_attachment *a = VEC_PUSH(&v);

    a->attached = true;
    strcpy(a->result.name, name);
    status_write(rig->n.statuses, rec, &v);
    attachment_vec_done(&v);
}

/* Until that many requests came, and then some: whether it was exactly that many. */
static void expect_requests(struct rig *rig, size_t n, int64_t step_ms)
{
    bool never = false;

    for (int i = 0; i < 1000 && server_asked(rig->b.server) < n; i++)
        (void)pump(rig->b.loop, &never, step_ms, 10);
    (void)pump(rig->b.loop, &never, step_ms, 150);
    assert_int_equal(server_asked(rig->b.server), n);
}

static void expect_name(struct rig *rig, size_t i, const char *name)
{
    const struct asked *q = server_request(rig->b.server, i);
    _cleanup_free_ char *want = xasprintf("\"interfaceName\":\"%s\"", name);

    assert_string_equal(q->method, "PATCH");
    if (!strstr(q->body, want))
        fail_msg("request %zu: \"%s\" lacks %s", i, q->body, want);
}

static void what_is_written(void **state)
{
    const struct reply script[] = {OK};
    struct rig rig;

    (void)state;
    open_rig(&rig, script, ARRAY_SIZE(script));
    struct claim *c = claims_add(rig.n.claims, new_record("a"));
    attached_as(&rig, c->rec, "net1");
    expect_requests(&rig, 1, 0);
    expect_name(&rig, 0, "net1");
    const struct asked *q = server_request(rig.b.server, 0);
    assert_string_equal(q->url,
                        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/claim-a/"
                        "status?fieldManager=sriov-dra.dev&force=true");
    assert_string_equal(q->content_type, "application/apply-patch+yaml");
    assert_non_null(strstr(q->body, "\"uid\":\"a\""));
    assert_non_null(strstr(q->body, "\"mode\":\"Prepare\""));
    assert_non_null(strstr(q->body, "\"type\":\"Ready\""));
    assert_null(strstr(q->body, "FirstChoice"));
    close_rig(&rig);
}

/* Of a prioritised list it is told which alternative was allocated. */
static void choice(void **state)
{
    static const struct {
        unsigned choice;
        const char *status, *reason, *message;
    } cases[] = {
        {1, "True", "FirstAllocated",
         "request vf: alternative pre-set was allocated, number 1 of 2"},
        {2, "False", "LaterAllocated",
         "request vf: alternative pre-set was allocated, number 2 of 2"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct reply script[] = {OK};
        json_auto_t *body = NULL;
        struct rig rig;

        open_rig(&rig, script, ARRAY_SIZE(script));
        struct claim *c = claims_add(rig.n.claims, new_record("a"));
        struct grant *g = &c->rec->devices.v[0].grant;
        g->alternative = xstrdup("pre-set");
        g->choice = cases[i].choice;
        g->choices = 2;
        attached_as(&rig, c->rec, "net1");
        expect_requests(&rig, 1, 0);
        const char *text = server_request(rig.b.server, 0)->body;
        assert_int_equal(json_parse(text, strlen(text), &body, NULL), 0);
        json_t *device = json_array_get(json_at(body, "status.devices"), 0);
        json_t *condition = json_array_get(json_object_get(device, "conditions"), 1);
        assert_string_equal(json_str_at(condition, "type"), "FirstChoice");
        assert_string_equal(json_str_at(condition, "status"), cases[i].status);
        assert_string_equal(json_str_at(condition, "reason"), cases[i].reason);
        assert_string_equal(json_str_at(condition, "message"), cases[i].message);
        assert_string_equal(json_str_at(device, "data.alternative"), "pre-set");
        close_rig(&rig);
    }
}

/* While one is under way, of what follows only the newest is sent, after it. */
static void one_at_a_time(void **state)
{
    const struct reply script[] = {{.status = 200, .body = "{   }", .split = 2, .gate = true}, OK};
    struct rig rig;

    (void)state;
    open_rig(&rig, script, ARRAY_SIZE(script));
    struct claim *c = claims_add(rig.n.claims, new_record("a"));
    attached_as(&rig, c->rec, "net1");
    expect_requests(&rig, 1, 0);
    attached_as(&rig, c->rec, "net2");
    attached_as(&rig, c->rec, "net3");
    expect_requests(&rig, 1, 0);
    server_go(rig.b.server);
    expect_requests(&rig, 2, 0);
    expect_name(&rig, 0, "net1");
    expect_name(&rig, 1, "net3");
    close_rig(&rig);
}

/* A server that is away for long: tried again while the claim is ours. */
static void later(void **state)
{
    const struct reply script[] = {BUSY, BUSY, BUSY, BUSY, BUSY, BUSY, OK};
    struct rig rig;

    (void)state;
    open_rig(&rig, script, ARRAY_SIZE(script));
    struct claim *c = claims_add(rig.n.claims, new_record("a"));
    attached_as(&rig, c->rec, "net1");
    expect_requests(&rig, TRIES + 1, 200);
    expect_name(&rig, TRIES, "net1");
    close_rig(&rig);
}

static void not_for_a_released_claim(void **state)
{
    const struct reply script[] = {BUSY, BUSY, BUSY, BUSY, BUSY, BUSY, OK};
    _cleanup_(record_freep) struct record *rec = new_record("a");
    struct rig rig;

    (void)state;
    open_rig(&rig, script, ARRAY_SIZE(script));
    attached_as(&rig, rec, "net1");
    expect_requests(&rig, TRIES, 200);
    close_rig(&rig);
}

/* The claim was deleted: no use in trying, and no hindrance for what comes. */
static void claim_that_is_gone(void **state)
{
    const struct reply script[] = {NO_CLAIM, OK};
    struct rig rig;

    (void)state;
    open_rig(&rig, script, ARRAY_SIZE(script));
    struct claim *c = claims_add(rig.n.claims, new_record("a"));
    attached_as(&rig, c->rec, "net1");
    expect_requests(&rig, 1, 200);
    attached_as(&rig, c->rec, "net2");
    expect_requests(&rig, 2, 200);
    expect_name(&rig, 1, "net2");
    close_rig(&rig);
}

/* Ended with one under way and one waiting: nothing is leaked, nothing is called. */
static void ended_early(void **state)
{
    const struct reply script[] = {{.status = 200, .body = "{}", .split = 1, .gate = true}};
    struct rig rig;

    (void)state;
    open_rig(&rig, script, ARRAY_SIZE(script));
    struct claim *c = claims_add(rig.n.claims, new_record("a"));
    attached_as(&rig, c->rec, "net1");
    expect_requests(&rig, 1, 0);
    attached_as(&rig, c->rec, "net2");
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written),
        cmocka_unit_test(choice),
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(later),
        cmocka_unit_test(not_for_a_released_claim),
        cmocka_unit_test(claim_that_is_gone),
        cmocka_unit_test(ended_early),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
