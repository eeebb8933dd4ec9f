/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/watch.h"

#include "base/str.h"
#include "tests/unit/kube/api_bench.h"
#include "tests/unit/test.h"

#include <errno.h>

#define OBJ(name, version)                                                                         \
    "{\"metadata\":{\"name\":\"" name "\",\"resourceVersion\":\"" version "\"}}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
#define BOOKMARK(version)   EVENT("BOOKMARK", "{\"metadata\":{\"resourceVersion\":\"" version "\"}}")
#define LIST(version, next, items)                                                                 \
    {                                                                                              \
        .status = 200, .body = "{\"metadata\":{\"resourceVersion\":\"" version                     \
                               "\",\"continue\":\"" next "\"},\"items\":[" items "]}"              \
    }
#define GONE                                                                                       \
    {                                                                                              \
        .status = 410, .body = "{\"code\":410,\"reason\":\"Expired\",\"message\":\"too old\"}"     \
    }
#define GONE_EVENT EVENT("ERROR", "{\"kind\":\"Status\",\"code\":410,\"message\":\"too old\"}")
#define STREAM(text)                                                                               \
    {                                                                                              \
        .status = 200, .body = text, .end = END_HANG                                               \
    }

/*
 * What the watch said, a letter an event: R reset, +name put, -name deleted, S synced, ! trouble.
 */
struct log {
    struct strbuf text;
    struct watch *watch; /* freed when the text ends in `free_at` */
    const char *free_at, *want;
    bool reached;
    char *trouble;
};

static void note(const struct watch_event *ev, void *data)
{
    struct log *log = data;
    const char *name = json_str_at(ev->object, "metadata.name");

    switch (ev->kind) {
    case WATCH_RESET:
        strbuf_putc(&log->text, 'R');
        break;
    case WATCH_PUT:
        strbuf_printf(&log->text, "+%s", name ? name : "?");
        break;
    case WATCH_DELETED:
        strbuf_printf(&log->text, "-%s", name ? name : "?");
        break;
    case WATCH_SYNCED:
        strbuf_putc(&log->text, 'S');
        break;
    case WATCH_TROUBLE:
        strbuf_putc(&log->text, '!');
        free(log->trouble);
        log->trouble = xstrdup(err_text(ev->err));
        break;
    }
    if (log->want && streq(log->text.s, log->want))
        log->reached = true;
    if (log->free_at && streq(log->text.s, log->free_at)) {
        watch_free(TAKE_PTR(log->watch));
        log->reached = true;
    }
}

static void log_done(struct log *log)
{
    strbuf_done(&log->text);
    free(log->trouble);
}

/* A script, what the watch says, and what it asks (the part of the URL that differs). */
static const struct one {
    const char *title;
    struct reply script[6];
    size_t n;
    const char *want, *trouble;
    const char *asked[6];
} ones[] = {
    {.title = "a list, then events",
     .script = {LIST("10", "", OBJ("a", "3") "," OBJ("b", "9")),
                STREAM(EVENT("ADDED", OBJ("c", "11")) EVENT("MODIFIED", OBJ("a", "12"))
                           EVENT("DELETED", OBJ("b", "13")))},
     .n = 2,
     .want = "R+a+bS+c+a-b",
     .asked = {"?limit=500&x=y", "&resourceVersion=10&x=y"}},
    {.title = "an empty list",
     .script = {LIST("10", "", ""), STREAM(EVENT("ADDED", OBJ("c", "11")))},
     .n = 2,
     .want = "RS+c"},
    {.title = "an empty list of a server that writes null",
     .script = {{.status = 200,
                 .body = "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":null}"},
                STREAM(EVENT("ADDED", OBJ("c", "11")))},
     .n = 2,
     .want = "RS+c"},
    {.title = "a list in pages",
     .script = {LIST("10", "p/2", OBJ("a", "3")), LIST("10", "p+3", OBJ("b", "4")),
                LIST("10", "", OBJ("c", "5")), STREAM(EVENT("DELETED", OBJ("a", "11")))},
     .n = 4,
     .want = "R+a+b+cS-a",
     .asked = {"?limit=500&x=y", "&continue=p/2", "&continue=p+3", "&resourceVersion=10&x=y"}},
    {.title = "a continuation that expired begins the list anew",
     .script = {LIST("10", "p2", OBJ("a", "3")), GONE, LIST("20", "", OBJ("b", "4")),
                STREAM(EVENT("DELETED", OBJ("b", "21")))},
     .n = 4,
     .want = "R+aR+bS-b",
     .asked = {"?limit=500&x=y", "&continue=p2", "?limit=500&x=y", "&resourceVersion=20&x=y"}},
    {.title = "a page that fails is asked for again",
     .script = {LIST("10", "p2", OBJ("a", "3")),
                {.status = 503, .body = "away"},
                LIST("10", "", OBJ("b", "4")),
                STREAM(EVENT("DELETED", OBJ("b", "21")))},
     .n = 4,
     .want = "R+a!+bS-b",
     .trouble = "GET /api/v1/pods: HTTP 503: away",
     .asked = {"?limit=500&x=y", "&continue=p2", "&continue=p2"}},
    {.title = "a bookmark is where the next watch begins",
     .script = {LIST("10", "", OBJ("a", "3")),
                {.status = 200, .body = BOOKMARK("55")},
                STREAM(EVENT("ADDED", OBJ("b", "56")))},
     .n = 3,
     .want = "R+aS+b",
     .asked = {"?limit=500&x=y", "&resourceVersion=10&x=y", "&resourceVersion=55&x=y"}},
    {.title = "an end is normal",
     .script = {LIST("10", "", OBJ("a", "3")),
                {.status = 200, .body = EVENT("ADDED", OBJ("b", "11"))},
                {.status = 200, .body = EVENT("ADDED", OBJ("c", "12"))},
                STREAM(EVENT("ADDED", OBJ("d", "13")))},
     .n = 4,
     .want = "R+aS+b+c+d",
     .asked = {"", "&resourceVersion=10&", "&resourceVersion=11&", "&resourceVersion=12&"}},
    {.title = "a connection that breaks within an event",
     .script = {LIST("10", "", ""),
                {.status = 200,
                 .body = EVENT("ADDED", OBJ("a", "11")) "{\"type\":\"ADDED\",\"obj",
                 .end = END_DROP},
                STREAM(EVENT("ADDED", OBJ("b", "12")))},
     .n = 3,
     .want = "RS+a+b",
     .asked = {"", "&resourceVersion=10&", "&resourceVersion=11&"}},
    {.title = "410 as an event lists again",
     .script = {LIST("10", "", OBJ("a", "3")), STREAM(BOOKMARK("11") GONE_EVENT),
                LIST("20", "", OBJ("b", "15")), STREAM(EVENT("ADDED", OBJ("c", "21")))},
     .n = 4,
     .want = "R+aSR+bS+c",
     .asked = {"?limit=500&x=y", "&resourceVersion=10&x=y", "?limit=500&x=y",
               "&resourceVersion=20&x=y"}},
    {.title = "410 as an answer lists again",
     .script = {LIST("10", "", OBJ("a", "3")), GONE, LIST("20", "", ""),
                STREAM(EVENT("ADDED", OBJ("c", "21")))},
     .n = 4,
     .want = "R+aSRS+c"},
    {.title = "410 without end isn't asked without end",
     .script = {LIST("10", "", ""), GONE, LIST("11", "", ""), GONE, LIST("12", "", ""),
                STREAM(EVENT("ADDED", OBJ("c", "13")))},
     .n = 6,
     .want = "RSRSRS+c"},
    {.title = "another error as an event",
     .script = {LIST("10", "", ""), STREAM(EVENT("ERROR", "{\"code\":500,\"message\":\"boom\"}")),
                LIST("11", "", ""), STREAM(EVENT("ADDED", OBJ("c", "12")))},
     .n = 4,
     .want = "RS!RS+c",
     .trouble = "watching /api/v1/pods: the server says: boom"},
    {.title = "a line that is no JSON",
     .script = {LIST("10", "", ""),
                {.status = 200,
                 .body = "{\"type\":}\n" EVENT("ADDED", OBJ("z", "11")),
                 .split = 10, /* what comes after it isn't read */
                 .end = END_HANG},
                LIST("11", "", ""),
                STREAM(EVENT("ADDED", OBJ("c", "12")))},
     .n = 4,
     .want = "RS!RS+c",
     .trouble = "watching /api/v1/pods: line 1, column "},
    {.title = "an event of no known type",
     .script = {LIST("10", "", ""), STREAM(EVENT("RENAMED", OBJ("a", "11"))), LIST("11", "", ""),
                STREAM(EVENT("ADDED", OBJ("c", "12")))},
     .n = 4,
     .want = "RS!RS+c"},
    {.title = "an event without an object",
     .script = {LIST("10", "", ""), STREAM("{\"type\":\"ADDED\"}\n"), LIST("11", "", ""),
                STREAM(EVENT("ADDED", OBJ("c", "12")))},
     .n = 4,
     .want = "RS!RS+c"},
    {.title = "an outage is reported once",
     .script = {{.status = 503},
                {.status = 503},
                {.status = 503},
                LIST("11", "", ""),
                STREAM(EVENT("ADDED", OBJ("c", "12")))},
     .n = 5,
     .want = "!RS+c"},
    {.title = "an outage with two causes is reported twice",
     .script = {{.status = 503},
                {.status = 503},
                {.status = 403, .body = "{\"message\":\"no\"}"},
                {.status = 403},
                LIST("11", "", ""),
                STREAM(EVENT("ADDED", OBJ("c", "12")))},
     .n = 6,
     .want = "!!RS+c",
     .trouble = "HTTP 403: no"},
    {.title = "a list that is none",
     .script = {{.status = 200, .body = "{\"items\":[]}"},
                LIST("11", "", ""),
                STREAM(EVENT("ADDED", OBJ("c", "12")))},
     .n = 3,
     .want = "!RS+c",
     .trouble = "the answer is no list"},
    {.title = "lines of nothing",
     .script = {LIST("10", "", ""), STREAM("\n\n" EVENT("ADDED", OBJ("c", "12")) "\n")},
     .n = 2,
     .want = "RS+c"},
};

static void run(const struct reply *script, size_t n, const char *want, struct log *log,
                const char *const *asked)
{
    _cleanup_(bench_stop) struct bench b = {0};

    bench_start(&b, script, n, NULL);
    log->want = want;
    struct watch *w = watch_new(b.api, "/api/v1/pods", "x=y", note, log);
    if (!pump(b.loop, &log->reached, 20, 10000))
        fail_msg("\"%s\" instead of \"%s\"", log->text.s ? log->text.s : "", want);
    assert_string_equal(log->text.s, want);
    assert_int_equal(server_asked(b.server), n);
    assert_false(watch_in_trouble(w));
    watch_free(w);
    for (size_t i = 0; asked && i < n; i++)
        if (asked[i] && !strstr(server_request(b.server, i)->url, asked[i]))
            fail_msg("request %zu was %s, not ...%s", i, server_request(b.server, i)->url,
                     asked[i]);
}

static void test_one(void **state)
{
    const struct one *t = *state;
    _cleanup_(log_done) struct log log = {0};

    run(t->script, t->n, t->want, &log, t->asked);
    if (t->trouble && (!log.trouble || !strstr(log.trouble, t->trouble)))
        fail_msg("\"%s\" lacks \"%s\"", log.trouble ? log.trouble : "nothing", t->trouble);
}

static void test_watch_asks_for_bookmarks_and_an_end(void **state)
{
    static const struct reply script[] = {LIST("1", "", ""),
                                          STREAM(EVENT("ADDED", OBJ("c", "12")))};
    static const char *const asked[] = {
        NULL, "/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds="};
    _cleanup_(log_done) struct log log = {0};

    (void)state;
    run(script, 2, "RS+c", &log, asked);
}

/* Each way to cut the events in two. */
static void test_split_at_each_byte(void **state)
{
    static const char events[] = EVENT("ADDED", OBJ("a", "11")) EVENT("DELETED", OBJ("b", "12"));

    (void)state;
    for (size_t at = 1; at < sizeof(events) - 1; at++) {
        struct reply script[] = {LIST("10", "", ""), STREAM(events)};
        _cleanup_(log_done) struct log log = {0};

        script[1].split = at;
        run(script, 2, "RS+a-b", &log, NULL);
    }
}

static void test_byte_by_byte(void **state)
{
    struct reply script[] = {LIST("10", "", ""), STREAM(EVENT("ADDED", OBJ("a", "11"))
                                                            EVENT("DELETED", OBJ("b", "12")))};
    _cleanup_(log_done) struct log log = {0};

    (void)state;
    script[1].each = 1;
    run(script, 2, "RS+a-b", &log, NULL);
}

static void test_endless_event_is_refused(void **state)
{
    _cleanup_free_ char *big = xmalloc(5 * 1024 * 1024);
    struct reply script[] = {LIST("10", "", ""), STREAM(big), LIST("20", "", ""),
                             STREAM(EVENT("ADDED", OBJ("a", "21")))};
    _cleanup_(log_done) struct log log = {0};

    (void)state;
    memset(big, ' ', 5 * 1024 * 1024);
    script[1].body_len = 5 * 1024 * 1024;
    run(script, 4, "RS!RS+a", &log, NULL);
    assert_non_null(strstr(log.trouble, "too long"));
}

static void test_freed_in_each_callback(void **state)
{
    static const struct reply script[] = {{.status = 503},
                                          LIST("10", "p", OBJ("a", "1") "," OBJ("b", "2")),
                                          LIST("10", "", OBJ("c", "3")),
                                          STREAM(EVENT("ADDED", OBJ("d", "11"))
                                                     EVENT("DELETED", OBJ("a", "12"))
                                                         EVENT("ERROR", "{\"code\":500}"))};
    static const char *const moments[] = {
        "!",         "!R",          "!R+a",          "!R+a+b",        "!R+a+b+c",
        "!R+a+b+cS", "!R+a+b+cS+d", "!R+a+b+cS+d-a", "!R+a+b+cS+d-a!"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(moments); i++) {
        _cleanup_(log_done) struct log log = {.free_at = moments[i]};
        _cleanup_(bench_stop) struct bench b = {0};
        bool never = false;

        bench_start(&b, script, ARRAY_SIZE(script), NULL);
        log.watch = watch_new(b.api, "/x", NULL, note, &log);
        if (!pump(b.loop, &log.reached, 20, 5000))
            fail_msg("\"%s\" instead of \"%s\"", log.text.s ? log.text.s : "", moments[i]);
        (void)pump(b.loop, &never, 1000, 20);
        assert_string_equal(log.text.s, moments[i]);
    }
}

/* Where the server's answers would let us turn round and round, we wait. */
static void test_pauses(void **state)
{
    static const struct {
        struct reply script[6];
        size_t n;
        const char *want;
    } table[] = {
        {{LIST("10", "", ""), GONE, LIST("11", "", ""), GONE, LIST("12", "", ""),
          STREAM(EVENT("ADDED", OBJ("c", "13")))},
         6,
         "RSRSRS+c"},
        {{LIST("10", "", ""),
          {.status = 200, .body = "{", .end = END_DROP},
          STREAM(EVENT("ADDED", OBJ("c", "13")))},
         3,
         "RS+c"},
        {{LIST("10", "", ""), {.status = 200}, STREAM(EVENT("ADDED", OBJ("c", "13")))}, 3, "RS+c"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        _cleanup_(log_done) struct log log = {.want = table[i].want};
        _cleanup_(bench_stop) struct bench b = {0};
        int64_t begin = clock_now(clock_system());

        bench_start(&b, table[i].script, table[i].n, NULL);
        struct watch *w = watch_new(b.api, "/x", NULL, note, &log);
        assert_true(pump(b.loop, &log.reached, 0, 20000));
        assert_string_equal(log.text.s, table[i].want);
        assert_true(clock_now(clock_system()) - begin >= 800);
        watch_free(w);
    }
}

static void test_silence_ends_a_watch(void **state)
{
    static const struct reply script[] = {LIST("10", "", ""),
                                          STREAM(EVENT("ADDED", OBJ("a", "11"))),
                                          STREAM(EVENT("ADDED", OBJ("b", "12")))};
    _cleanup_(log_done) struct log log = {.want = "RS+a"};
    _cleanup_(bench_stop) struct bench b = {0};
    bool never = false;

    (void)state;
    bench_start(&b, script, ARRAY_SIZE(script), NULL);
    _cleanup_(watch_freep) struct watch *w = watch_new(b.api, "/x", NULL, note, &log);
    assert_true(pump(b.loop, &log.reached, 0, 5000));
    int64_t seen = watch_last_seen_ms(w);
    for (int i = 0; i < 14; i++) { /* two bookmarks may stay away */
        fast_forward(10000);
        (void)pump(b.loop, &never, 0, 10);
    }
    assert_int_equal(server_asked(b.server), 2);
    assert_int_equal(watch_last_seen_ms(w), seen);
    fast_forward(11000);
    log.want = "RS+a+b"; /* and no trouble: it was taken up again at once */
    log.reached = false;
    assert_true(pump(b.loop, &log.reached, 20, 5000));
    assert_true(watch_last_seen_ms(w) > seen);
}

static void test_no_server(void **state)
{
    _cleanup_free_ char *file = temp_kubeconfig("http://127.0.0.1:1", NULL, NULL);
    _cleanup_(loop_freep) struct loop *l = fast_loop();
    _cleanup_(log_done) struct log log = {.want = "!"};
    _cleanup_(api_freep) struct api *a = NULL;
    bool never = false;

    (void)state;
    assert_ok(api_new(l, &(struct api_config){.kubeconfig = file}, &a, NULL), NULL);
    unlink(file);
    struct watch *w = watch_new(a, "/x", NULL, note, &log);
    assert_true(pump(l, &log.reached, 0, 5000));
    assert_true(watch_in_trouble(w));
    /* 0.8 to 30 s between tries: in ten minutes some 30, and at least 20 */
    for (int i = 0; i < 600; i++) {
        fast_forward(1000);
        (void)loop_once(l, 0, NULL);
        (void)loop_once(l, 0, NULL);
    }
    (void)pump(l, &never, 0, 20);
    assert_string_equal(log.text.s, "!");
    assert_in_range(api_requests_sent(a), 20, 50);
    watch_free(w);
}

int main(void)
{
    const struct CMUnitTest rest[] = {
        cmocka_unit_test(test_watch_asks_for_bookmarks_and_an_end),
        cmocka_unit_test(test_split_at_each_byte),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_endless_event_is_refused),
        cmocka_unit_test(test_freed_in_each_callback),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_silence_ends_a_watch),
        cmocka_unit_test(test_no_server),
    };
    struct CMUnitTest tests[ARRAY_SIZE(ones) + ARRAY_SIZE(rest)];

    for (size_t i = 0; i < ARRAY_SIZE(ones); i++)
        tests[i] = (struct CMUnitTest){
            .name = ones[i].title, .test_func = test_one, .initial_state = (void *)&ones[i]};
    memcpy(tests + ARRAY_SIZE(ones), rest, sizeof(rest));
    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
