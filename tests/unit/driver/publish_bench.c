/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/driver/publish_bench.h"

/* Time runs ahead of the real one as a test wants, so that pauses pass. */
static int64_t ahead_ms, stopped_ms; /* stopped_ms: instead of the real one, if not 0 */

static int64_t test_now(struct clock *c)
{
    (void)c;
    return (stopped_ms ? stopped_ms : clock_now(clock_system())) + ahead_ms;
}

static struct clock test_clock = {test_now};

void stop_time(void)
{
    stopped_ms = clock_now(clock_system());
}

int64_t bench_now(void)
{
    return test_now(NULL);
}

void offer(struct bench *b, const char *kinds)
{
    device_vec devices = {0};

    b->kinds = kinds;
    for (unsigned i = 0; kinds[i]; i++) {
        if (kinds[i] == 'd' && !b->taints_kept)
            continue;
        struct device *d = VEC_PUSH(&devices);

        snprintf(d->name, sizeof(d->name), "a-%03u", i);
        d->skip = kinds[i] == 's' && b->kept ? SKIP_ALL : SKIP_NOTHING;
        d->tainted = kinds[i] == 'd';
        d->body = json_pack("{s:s, s:{s:{s:b}}}", "name", d->name, "attributes", "skipHonoured",
                            "bool", d->skip != SKIP_NOTHING);
        if (d->tainted)
            json_object_set_new(
                d->body, "taints",
                json_pack("[{s:s, s:s}]", "key", "sriov-dra.dev/drifted", "effect", "NoSchedule"));
    }
    publish_set(b->publish, "node-uid", &devices);
    device_vec_done(&devices);
}

static void on_published(unsigned slices, unsigned devices, int64_t generation, void *data)
{
    struct bench *b = data;

    b->published++;
    b->slices = slices;
    b->devices = devices;
    b->generation = generation;
}

static void on_dropped(unsigned fields, void *data)
{
    struct bench *b = data;

    b->told++;
    b->kept = !(fields & SLICE_FIELD_LIST);
    b->taints_kept = !(fields & SLICE_FIELD_TAINTS);
    if (!b->deaf)
        offer(b, b->kinds);
}

void start_publisher(struct bench *b)
{
    b->published = b->told = 0;
    b->kept = b->taints_kept = true;
    b->publish = publish_new(b->loop, b->api,
                             &(struct publish_config){.driver = "sriov-dra.dev",
                                                      .node = "w1",
                                                      .dropped = on_dropped,
                                                      .published = on_published,
                                                      .data = b});
}

static void start_api(struct bench *b)
{
    char name[] = "/tmp/test-publish-XXXXXX";
    int fd = mkstemp(name);
    _cleanup_err_ struct err e = ERR_INIT;

    assert_true(fd >= 0);
    dprintf(fd,
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
            "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
            "clusters: [{name: k, cluster: {server: 'http://127.0.0.1:%u'}}]\n"
            "users: [{name: u, user: {}}]\n",
            fake_slices_port(b->fake));
    close(fd);
    assert_ok(api_new(b->loop, &(struct api_config){.kubeconfig = name}, &b->api, &e), &e);
    unlink(name);
}

int bench_setup(void **state)
{
    struct bench *b = xnew(struct bench);

    ahead_ms = stopped_ms = 0;
    assert_ok(loop_new(&test_clock, &b->loop, NULL), NULL);
    b->fake = fake_slices_new(b->loop);
    start_api(b);
    start_publisher(b);
    *state = b;
    return 0;
}

int bench_teardown(void **state)
{
    struct bench *b = *state;

    publish_free(b->publish);
    api_free(b->api);
    fake_slices_free(b->fake);
    loop_free(b->loop);
    free(b);
    return 0;
}

void turn(struct bench *b, int64_t step_ms)
{
    (void)loop_once(b->loop, 0, NULL);
    fake_slices_turn(b->fake);
    ahead_ms += step_ms;
}

void run(struct bench *b, int64_t ms)
{
    for (int step = 0; step < 200; step++) {
        for (int i = 0; i < 30; i++)
            turn(b, 0);
        ahead_ms += ms / 200;
    }
}

void run_until_published(struct bench *b, unsigned n)
{
    int64_t until = bench_now() + 20000;

    while (b->published < n) {
        if (bench_now() > until)
            fail_msg("published %u times, not %u", b->published, n);
        turn(b, 1);
    }
}

void begin(struct bench *b, const char *kinds)
{
    offer(b, kinds);
    run_until_published(b, 1);
    *fake_slices_counts(b->fake) = (struct fake_counts){0};
}

void expect_writes(struct bench *b, unsigned posts, unsigned puts, unsigned deletes)
{
    const struct fake_counts *c = fake_slices_counts(b->fake);

    if (c->posts != posts || c->puts != puts || c->deletes != deletes)
        fail_msg("%u creations, %u updates, %u deletions", c->posts, c->puts, c->deletes);
    if (fake_slices_fault(b->fake))
        fail_msg("%s", fake_slices_fault(b->fake));
}

json_t *copy_of(struct bench *b, const char *name)
{
    json_t *o = fake_slices_get(b->fake, name);

    assert_non_null(o);
    return json_deep_copy(o);
}

bool has_list(struct bench *b, const char *name)
{
    return json_at(fake_slices_get(b->fake, name), "spec.skipNodeOperations") != NULL;
}

void vandalise(struct bench *b, const char *name)
{
    json_t *o = copy_of(b, name);

    json_array_clear(json_at(o, "spec.devices"));
    fake_slices_edit(b->fake, name, o);
}

bool is_whole(struct bench *b, const char *name, size_t devices)
{
    json_t *o = fake_slices_get(b->fake, name);

    return o && json_array_size(json_at(o, "spec.devices")) == devices;
}
