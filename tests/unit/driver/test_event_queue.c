/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/event_queue.h"

#include "base/str.h"
#include "tests/unit/kube/api_bench.h"
#include "tests/unit/test.h"

#include <stdio.h>

#define OK                                                                                         \
    {                                                                                              \
        .status = 201, .body = "{}"                                                                \
    }
#define BUSY                                                                                       \
    {                                                                                              \
        .status = 503, .body = "{\"code\":503,\"message\":\"not now\"}"                            \
    }
#define LOST                                                                                       \
    {                                                                                              \
        .end = END_DROP                                                                            \
    }
#define IS_THERE                                                                                   \
    {                                                                                              \
        .status = 409, .body = "{\"code\":409,\"reason\":\"AlreadyExists\"}"                       \
    }
#define DENIED                                                                                     \
    {                                                                                              \
        .status = 403, .body = "{\"code\":403,\"message\":\"no\"}"                                 \
    }

/* ---- the document */

static const struct event pod_event = {
    .warning = true,
    .reason = "PodRefused",
    .action = "Attach",
    .regarding = {"v1", "Pod", "web", "app-0", "uid-p"},
    .related = {"resource.k8s.io/v1", "ResourceClaim", "web", "c", "uid-c"},
    .note = "claim web/c: no",
};
static const struct event node_event = {
    .reason = "Told",
    .action = "Tell",
    .regarding = {.api_version = "v1", .kind = "Node", .name = "node-1"},
    .note = "note",
};

static json_t *document(const struct event *ev)
{
    return event_document(ev, "sriov-dra.dev", "node-1", 1767323045006, 0xabc);
}

static void test_document(void **state)
{
    static const struct {
        const struct event *ev;
        const char *text;
    } cases[] = {
        {&pod_event,
         "{\"action\":\"Attach\",\"apiVersion\":\"events.k8s.io/v1\","
         "\"eventTime\":\"2026-01-02T03:04:05.006000Z\",\"kind\":\"Event\","
         "\"metadata\":{\"name\":\"app-0.0000000000000abc\",\"namespace\":\"web\"},"
         "\"note\":\"claim web/c: no\",\"reason\":\"PodRefused\","
         "\"regarding\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"app-0\","
         "\"namespace\":\"web\",\"uid\":\"uid-p\"},"
         "\"related\":{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceClaim\","
         "\"name\":\"c\",\"namespace\":\"web\",\"uid\":\"uid-c\"},"
         "\"reportingController\":\"sriov-dra.dev\",\"reportingInstance\":\"node-1\","
         "\"type\":\"Warning\"}"},
        {&node_event,
         "{\"action\":\"Tell\",\"apiVersion\":\"events.k8s.io/v1\","
         "\"eventTime\":\"2026-01-02T03:04:05.006000Z\",\"kind\":\"Event\","
         "\"metadata\":{\"name\":\"node-1.0000000000000abc\",\"namespace\":\"default\"},"
         "\"note\":\"note\",\"reason\":\"Told\","
         "\"regarding\":{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"node-1\"},"
         "\"reportingController\":\"sriov-dra.dev\",\"reportingInstance\":\"node-1\","
         "\"type\":\"Normal\"}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        json_auto_t *doc = document(cases[i].ev);
        _cleanup_free_ char *text = json_text(doc);

        assert_string_equal(text, cases[i].text);
    }
}

/* `n` times `part`; the caller frees it. */
static char *times(const char *part, size_t n)
{
    struct strbuf b = {0};

    while (n-- > 0)
        strbuf_puts(&b, part);
    return strbuf_take(&b);
}

/* What the server would refuse for its length, or isn't UTF-8. */
static void test_limits_of_fields(void **state)
{
    static const struct {
        const char *part;
        size_t n;
        const char *end; /* of the note */
        size_t len;
    } notes[] = {
        {"x", 1024, "x", 1024},
        {"x", 1025, "x...", 1024},
        {"\xc3\xa4", 512, "\xa4", 1024},
        {"\xc3\xa4", 513, "\xa4...", 1023},     /* the next doesn't fit whole */
        {"\xe2\x82\xac", 400, "\xac...", 1023}, /* 3 bytes each */
        {"\xff", 2, "??", 2},
    };
    static const struct {
        const char *part;
        size_t n, len; /* of the object's name in the event's */
    } names[] = {{"a", 253, 220}, {"a.", 126, 219}, {"a-", 126, 219}, {"a", 1, 1}};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(notes); i++) {
        _cleanup_free_ char *text = times(notes[i].part, notes[i].n);
        struct event ev = pod_event;

        ev.note = text;
        json_auto_t *doc = document(&ev);
        const char *note = json_str_at(doc, "note");
        assert_int_equal(strlen(note), notes[i].len);
        assert_string_equal(note + strlen(note) - strlen(notes[i].end), notes[i].end);
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        _cleanup_free_ char *text = times(names[i].part, names[i].n);
        struct event ev = pod_event;

        ev.regarding.name = text;
        json_auto_t *doc = document(&ev);
        const char *name = json_str_at(doc, "metadata.name");
        assert_int_equal(strlen(name), names[i].len + strlen(".0000000000000abc"));
        assert_string_equal(json_str_at(doc, "regarding.name"), text);
    }
    _cleanup_free_ char *node = times("n", 253);
    json_auto_t *doc = event_document(&pod_event, "sriov-dra.dev", node, 0, 1);
    assert_int_equal(strlen(json_str_at(doc, "reportingInstance")), 128);
}

/* ---- the queue */

struct rig {
    struct bench b;
    struct event_queue *q;
};

static void open_rig(struct rig *rig, const struct reply *script, size_t n)
{
    bench_start(&rig->b, script, n, "token: t");
    rig->q = event_queue_new(rig->b.loop, "sriov-dra.dev", "node-1");
}

static void close_rig(struct rig *rig)
{
    event_queue_free(rig->q);
    bench_stop(&rig->b);
}

/* About the pod of that name. */
static void say(struct rig *rig, const char *pod, const char *reason, const char *note)
{
    event_queue_add(rig->q, &(struct event){
                                .reason = reason,
                                .action = "Attach",
                                .regarding = {"v1", "Pod", "web", pod, pod},
                                .note = note,
                            });
}

static void say_many(struct rig *rig, unsigned first, unsigned n)
{
    for (unsigned i = first; i < first + n; i++) {
        char pod[16];

        snprintf(pod, sizeof(pod), "p%u", i);
        say(rig, pod, "Told", "note");
    }
}

/*
 * Until that many requests came in all, and then some: whether it was exactly that many. A step is
 * small: while libcurl has a timer that is due in our time and not in its own, there are many.
 */
static void expect_requests(struct rig *rig, size_t n, int64_t step_ms)
{
    bool never = false;

    for (int i = 0; i < 500 && server_asked(rig->b.server) < n; i++)
        (void)pump(rig->b.loop, &never, step_ms, 10);
    (void)pump(rig->b.loop, &never, step_ms, 60);
    assert_int_equal(server_asked(rig->b.server), n);
}

/* A member of the i-th event that was sent. */
static void expect_sent(struct rig *rig, size_t i, const char *path, const char *value)
{
    const struct asked *q = server_request(rig->b.server, i);
    json_auto_t *body = NULL;

    assert_string_equal(q->method, "POST");
    assert_int_equal(json_parse(q->body, strlen(q->body), &body, NULL), 0);
    assert_string_equal(json_str_at(body, path), value);
}

static void test_sent(void **state)
{
    static const struct reply script[] = {OK, OK};
    struct rig rig;

    (void)state;
    open_rig(&rig, script, ARRAY_SIZE(script));
    event_queue_add(rig.q, &pod_event);
    expect_requests(&rig, 0, 10); /* before it may */
    event_queue_go(rig.q, rig.b.api);
    expect_requests(&rig, 1, 0);
    assert_string_equal(server_request(rig.b.server, 0)->url,
                        "/apis/events.k8s.io/v1/namespaces/web/events");
    expect_sent(&rig, 0, "reason", "PodRefused");
    say(&rig, "p", "Other", "note");
    expect_requests(&rig, 2, 0);
    close_rig(&rig);
}

/* The same isn't said again within the hour; another object, reason or note is another thing. */
static void test_again(void **state)
{
    static const struct reply script[] = {OK, OK, OK, OK, OK};
    struct rig rig;

    (void)state;
    open_rig(&rig, script, ARRAY_SIZE(script));
    event_queue_go(rig.q, rig.b.api);
    say(&rig, "p", "Told", "note");
    say(&rig, "p", "Told", "note");
    expect_requests(&rig, 1, 0);
    say(&rig, "p", "Told", "note");
    fast_forward(EVENTS_AGAIN_MS - 60000);
    say(&rig, "p", "Told", "note");
    expect_requests(&rig, 1, 0);
    say(&rig, "q", "Told", "note");
    say(&rig, "p", "Tol", "dnote");
    say(&rig, "p", "Told", "another");
    expect_requests(&rig, 4, 0);
    fast_forward(60000);
    say(&rig, "p", "Told", "note");
    expect_requests(&rig, 5, 0);
    close_rig(&rig);
}

/* A few at once, then slowly; and of too many the last are dropped, and may be said again. */
static void test_rate(void **state)
{
    struct reply script[EVENTS_WAITING + EVENTS_BURST];
    struct rig rig;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(script); i++)
        script[i] = (struct reply)OK;
    open_rig(&rig, script, ARRAY_SIZE(script));
    event_queue_go(rig.q, rig.b.api);
    say_many(&rig, 0, EVENTS_WAITING + 1);
    expect_requests(&rig, EVENTS_BURST, 0);
    fast_forward(3 * EVENTS_PACE_MS);
    expect_requests(&rig, EVENTS_BURST + 3, 0);
    for (size_t n = EVENTS_BURST + 3; n < EVENTS_WAITING; n += 4) { /* 41 in all */
        fast_forward(4 * EVENTS_PACE_MS);
        expect_requests(&rig, n + 4 < EVENTS_WAITING ? n + 4 : EVENTS_WAITING, 0);
    }
    fast_forward(EVENTS_PACE_MS);
    expect_requests(&rig, EVENTS_WAITING, 0); /* never the one that didn't fit */
    say_many(&rig, EVENTS_WAITING, 1);
    expect_requests(&rig, EVENTS_WAITING + 1, 0);
    expect_sent(&rig, EVENTS_WAITING, "regarding.name", "p64");
    close_rig(&rig);
}

/* Tried again under its name, in its turn; what was written without an answer is there. */
static void test_trouble(void **state)
{
    static const struct reply script[] = {BUSY, LOST, IS_THERE, OK};
    struct rig rig;

    (void)state;
    open_rig(&rig, script, ARRAY_SIZE(script));
    event_queue_go(rig.q, rig.b.api);
    say(&rig, "p", "Told", "first");
    say(&rig, "p", "Told", "second");
    expect_requests(&rig, 1, 0);
    expect_requests(&rig, 4, 10);
    for (size_t i = 0; i < 3; i++)
        expect_sent(&rig, i, "note", "first");
    expect_sent(&rig, 3, "note", "second");
    for (size_t i = 1; i < 3; i++)
        assert_string_equal(server_request(rig.b.server, i)->body,
                            server_request(rig.b.server, 0)->body);
    close_rig(&rig);
}

/* An API server that is away too long: nobody reads old news. And it may be said again then. */
static void test_too_old(void **state)
{
    static const struct reply script[] = {BUSY, OK, OK};
    struct rig rig;

    (void)state;
    open_rig(&rig, script, ARRAY_SIZE(script));
    event_queue_go(rig.q, rig.b.api);
    say(&rig, "p", "Told", "old");
    expect_requests(&rig, 1, 0);
    fast_forward(EVENTS_AGE_MS);
    say(&rig, "p", "Told", "new");
    expect_requests(&rig, 2, 0);
    expect_sent(&rig, 1, "note", "new");
    say(&rig, "p", "Told", "old");
    expect_requests(&rig, 3, 0);
    expect_sent(&rig, 2, "note", "old");
    close_rig(&rig);
}

/* What the server refuses isn't tried again, and is in nothing's way. */
static void test_refused(void **state)
{
    static const struct reply script[] = {DENIED, OK};
    struct rig rig;

    (void)state;
    open_rig(&rig, script, ARRAY_SIZE(script));
    event_queue_go(rig.q, rig.b.api);
    say(&rig, "p", "Told", "first");
    say(&rig, "p", "Told", "second");
    expect_requests(&rig, 2, 10);
    expect_sent(&rig, 1, "note", "second");
    close_rig(&rig);
}

/* Those on the Node wait for its uid, and others don't wait for them. */
static void test_node(void **state)
{
    static const struct reply script[] = {OK, OK, OK};
    struct rig rig;

    (void)state;
    open_rig(&rig, script, ARRAY_SIZE(script));
    event_queue_go(rig.q, rig.b.api);
    event_queue_add(rig.q, &node_event);
    say(&rig, "p", "Told", "note");
    expect_requests(&rig, 1, 10);
    expect_sent(&rig, 0, "regarding.kind", "Pod");
    event_queue_set_node_uid(rig.q, "uid-n");
    expect_requests(&rig, 2, 0);
    expect_sent(&rig, 1, "regarding.uid", "uid-n");
    expect_sent(&rig, 1, "metadata.namespace", "default");
    close_rig(&rig);
}

/* Nothing is leaked, nothing is called. */
static void test_ended_early(void **state)
{
    static const struct reply script[] = {{.status = 201, .body = "{}", .split = 1, .gate = true}};
    struct rig rig;

    (void)state;
    open_rig(&rig, script, ARRAY_SIZE(script));
    event_queue_go(rig.q, rig.b.api);
    say(&rig, "p", "Told", "first");
    expect_requests(&rig, 1, 0);
    say(&rig, "p", "Told", "second"); /* one after another */
    expect_requests(&rig, 1, 0);
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_document), cmocka_unit_test(test_limits_of_fields),
        cmocka_unit_test(test_sent),     cmocka_unit_test(test_again),
        cmocka_unit_test(test_rate),     cmocka_unit_test(test_trouble),
        cmocka_unit_test(test_too_old),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_node),     cmocka_unit_test(test_ended_early),
    };

    return cmocka_run_group_tests_name("event_queue", tests, NULL, NULL);
}
