/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/slices.h"

#include "tests/unit/driver/slice_rules.h"
#include "tests/unit/test.h"

static const struct slices_config config = {
    .driver = "sriov-dra.dev", .node = "w1", .node_uid = "11111111-2222"};

/* "p" prepare, "u" defer (only Unprepare skipped), "s" skip, "d" drifted: one device each, named
 * a-000, a-001 ...; "." none. */
static void devices_of(const char *kinds, device_vec *ret)
{
    device_vec out = {0};

    for (unsigned i = 0; kinds[i]; i++) {
        if (kinds[i] == '.')
            continue;
        struct device *d = VEC_PUSH(&out);

        snprintf(d->name, sizeof(d->name), "a-%03u", i);
        d->skip = kinds[i] == 's' ? SKIP_ALL : kinds[i] == 'u' ? SKIP_UNPREPARE : SKIP_NOTHING;
        d->tainted = kinds[i] == 'd';
        d->body = json_pack("{s:s, s:{s:{s:i}}}", "name", d->name, "attributes", "vfIndex", "int",
                            (int)i);
        if (d->tainted)
            json_object_set_new(
                d->body, "taints",
                json_pack("[{s:s, s:s}]", "key", "sriov-dra.dev/drifted", "effect", "NoSchedule"));
    }
    *ret = out;
}

static void want(const char *kinds, json_vec *ret)
{
    _cleanup_(device_vec_done) device_vec devices = {0};

    devices_of(kinds, &devices);
    slices_wanted(&config, &devices, ret);
}

static char *repeat(char kind, unsigned n)
{
    char *s = xmalloc(n + 1);

    memset(s, kind, n);
    s[n] = '\0';
    return s;
}

/* ---- an API that obeys ---- */

struct server {
    json_vec slices;
    unsigned version, writes;
};

static json_t **find(struct server *s, const char *name)
{
    vec_foreach (o, &s->slices)
        if (streq(json_str_at(*o, "metadata.name"), name))
            return o;
    return NULL;
}

static void stamp(struct server *s, json_t *o, const char *uid)
{
    json_t *metadata = json_object_get(o, "metadata");
    _cleanup_free_ char *version = xasprintf("%u", ++s->version);
    json_t *devices = json_at(o, "spec.devices");

    json_set_str(metadata, "uid", uid);
    json_set_str(metadata, "resourceVersion", version);
    json_object_set_new(metadata, "generation", json_integer(1));
    for (size_t i = 0; i < json_array_size(devices); i++) {
        json_t *taint = json_array_get(json_object_get(json_array_get(devices, i), "taints"), 0);

        if (taint && !json_object_get(taint, "timeAdded"))
            json_set_str(taint, "timeAdded", version);
    }
}

static void carry_out(struct server *s, const struct slice_write *w)
{
    json_t **seen = find(s, w->name);

    s->writes++;
    if (w->verb == SLICE_CREATE) {
        json_t *copy = json_deep_copy(w->body);
        _cleanup_free_ char *uid = xasprintf("uid-%u", s->version);

        assert_null(seen);
        stamp(s, copy, uid);
        *VEC_PUSH(&s->slices) = copy;
        return;
    }
    assert_non_null(seen);
    assert_string_equal(w->uid, json_str_at(*seen, "metadata.uid"));
    assert_string_equal(w->resource_version, json_str_at(*seen, "metadata.resourceVersion"));
    if (w->verb == SLICE_DELETE) {
        json_decref(*seen);
        *seen = s->slices.v[--s->slices.n];
        return;
    }
    assert_string_equal(json_str_at(w->body, "metadata.resourceVersion"), w->resource_version);
    assert_string_equal(json_str_at(w->body, "spec.pool.name"),
                        json_str_at(*seen, "spec.pool.name"));
    json_t *copy = json_deep_copy(w->body);
    stamp(s, copy, w->uid);
    json_decref(*seen);
    *seen = copy;
}

/* Plans, does the first step, and plans anew, as the publisher does; the pool is sane throughout */
static unsigned converge(struct server *s, const json_vec *wanted)
{
    unsigned before = s->writes;

    for (;;) {
        _cleanup_(slice_write_vec_done) slice_write_vec plan = {0};
        _cleanup_free_ char *fault = NULL;

        slices_plan(wanted, &s->slices, &plan);
        if (!plan.n)
            break;
        if (plan.v[0].body && (fault = slice_fault(plan.v[0].body)))
            fail_msg("%s: %s", plan.v[0].name, fault);
        carry_out(s, &plan.v[0]);
        if ((fault = pool_fault(&s->slices)))
            fail_msg("after writing %s: %s", plan.v[0].name, fault);
        if (s->writes - before > 50)
            fail_msg("the plan doesn't come to an end");
    }
    assert_int_equal(s->slices.n, wanted->n);
    assert_true(pool_is_complete(&s->slices));
    vec_foreach (w, wanted) {
        json_t **o = find(s, json_str_at(*w, "metadata.name"));

        assert_non_null(o);
        assert_int_equal(json_array_size(json_at(*o, "spec.devices")),
                         json_array_size(json_at(*w, "spec.devices")));
    }
    return s->writes - before;
}

static unsigned go(struct server *s, const char *kinds)
{
    _cleanup_(json_vec_done) json_vec wanted = {0};

    want(kinds, &wanted);
    return converge(s, &wanted);
}

static int64_t generation(struct server *s, const char *name)
{
    json_t **o = find(s, name);

    return o ? json_int_at(*o, "spec.pool.generation", -1) : -1;
}

#define PREPARE0 "w1-sriov-dra.dev-prepare-00"
#define PREPARE1 "w1-sriov-dra.dev-prepare-01"
#define SKIP0    "w1-sriov-dra.dev-skip-00"
#define DRIFTED0 "w1-sriov-dra.dev-drifted-00"

/* ---- what is wanted ---- */

static void test_golden_slice(void **state)
{
    static const char text[] =
        "{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"ResourceSlice\",\"metadata\":{\"name\":"
        "\"w1-sriov-dra.dev-skip-00\",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"controller\":"
        "true,\"kind\":\"Node\",\"name\":\"w1\",\"uid\":\"11111111-2222\"}]},\"spec\":{\"devices\":"
        "[{\"attributes\":{\"vfIndex\":{\"int\":0}},\"name\":\"a-000\"}],\"driver\":\"sriov-dra."
        "dev\",\"nodeName\":\"w1\",\"pool\":{\"name\":\"w1\"},\"skipNodeOperations\":[\"*\"]}}";
    _cleanup_(json_vec_done) json_vec wanted = {0};

    (void)state;
    want("s", &wanted);
    assert_int_equal(wanted.n, 1);
    _cleanup_free_ char *is = json_text(wanted.v[0]);
    assert_string_equal(is, text);
}

/* The list, and nothing else, tells the kinds apart. */
static void test_lists(void **state)
{
    static const struct {
        const char *kind, *name, *list;
    } table[] = {
        {"p", "w1-sriov-dra.dev-prepare-00", NULL},
        {"u", "w1-sriov-dra.dev-defer-00", "[\"NodeUnprepareResources\"]"},
        {"s", "w1-sriov-dra.dev-skip-00", "[\"*\"]"},
        {"d", "w1-sriov-dra.dev-drifted-00", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        _cleanup_(json_vec_done) json_vec wanted = {0};

        want(table[i].kind, &wanted);
        assert_int_equal(wanted.n, 1);
        assert_string_equal(json_str_at(wanted.v[0], "metadata.name"), table[i].name);
        const json_t *list = json_at(wanted.v[0], "spec.skipNodeOperations");
        _cleanup_free_ char *text = list ? json_text(list) : NULL;
        assert_true(streq_null(text, table[i].list));
    }

    _cleanup_(json_vec_done) json_vec all = {0};
    want("dusp", &all);
    assert_int_equal(all.n, 4);
}

static void test_cuts(void **state)
{
    static const struct {
        unsigned prepare, skip, drifted, slices;
    } table[] = {
        {0, 0, 0, .slices = 0},      {1, 0, 0, .slices = 1},   {128, 0, 0, .slices = 1},
        {129, 0, 0, .slices = 2},    {256, 0, 0, .slices = 2}, {0, 256, 0, .slices = 2},
        {0, 0, 64, .slices = 1},     {0, 0, 65, .slices = 2},  {0, 0, 256, .slices = 4},
        {100, 100, 56, .slices = 3},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        _cleanup_free_ char *p = repeat('p', table[i].prepare), *s = repeat('s', table[i].skip);
        _cleanup_free_ char *d = repeat('d', table[i].drifted), *all = xasprintf("%s%s%s", p, s, d);
        struct server server = {0};
        _cleanup_(json_vec_done) json_vec wanted = {0};

        want(all, &wanted);
        assert_int_equal(wanted.n, table[i].slices);
        assert_int_equal(converge(&server, &wanted), table[i].slices);
        json_vec_done(&server.slices);
    }
}

/* Node names that are too long, and differ at their ends only; with dots where the cut may be. */
static void test_names(void **state)
{
    json_t *seen = json_object();
    device_vec devices = {0};

    (void)state;
    devices_of("p", &devices);
    for (unsigned i = 0; i < 4; i++) {
        char longest[254] = "n";

        for (size_t k = 1; k < 253; k++)
            longest[k] = k % 2 == i / 2 ? '.' : 'n';
        longest[252] = i % 2 ? 'x' : 'y';
        struct slices_config c = {.driver = "sriov-dra.dev", .node = longest, .node_uid = "u"};
        json_vec wanted = {0};
        struct server s = {0};

        slices_wanted(&c, &devices, &wanted);
        const char *name = json_str_at(wanted.v[0], "metadata.name");
        assert_true(strlen(name) <= 253);
        assert_non_null(strstr(name, "-sriov-dra.dev-prepare-00"));
        json_object_set_new(seen, name, json_true());
        converge(&s, &wanted); /* a valid name, that is */
        json_vec_done(&wanted);
        json_vec_done(&s.slices);
    }
    assert_int_equal(json_object_size(seen), 4);
    json_decref(seen);
    device_vec_done(&devices);
}

/* ---- what is written ---- */

/* Each row goes on from the one before: how many writes, and the generation after. */
static void test_changes(void **state)
{
    static const struct {
        const char *kinds, *what;
        unsigned writes;
        int64_t generation;
    } table[] = {
        {"pppp", "created", 1, 1},
        {"pppp", "nothing", 0, 1},
        {"ppppp", "a VF comes: its slice alone", 1, 1},
        {"pp.pp", "one goes", 1, 1},
        {"pp.ps", "one changes its mode: a second slice", 2, 2},
        {"pp.ss", "another one: both slices", 2, 3},
        {"pp.sd", "one drifts", 3, 4},
        {"pp.ss", "and is right again", 3, 5},
        {"ss.ss", "all of one mode change it", 2, 6},
        {"pp.pp", "and back", 2, 7},
        {"....", "no device at all", 1, 0},
        {"s", "and one again", 1, 1},
    };
    struct server s = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        unsigned writes = go(&s, table[i].kinds);
        int64_t g = s.slices.n ? json_int_at(s.slices.v[0], "spec.pool.generation", -1) : 0;

        if (writes != table[i].writes || g != table[i].generation)
            fail_msg("%s (%s): %u writes, generation %d", table[i].what, table[i].kinds, writes,
                     (int)g);
    }
    json_vec_done(&s.slices);
}

/* 300 devices: what shifts the cut needs a new generation, what doesn't costs one write. */
static void test_many(void **state)
{
    _cleanup_free_ char *kinds = repeat('p', 300);
    struct server s = {0};

    (void)state;
    assert_int_equal(go(&s, kinds), 3);
    kinds[299] = '.';
    assert_int_equal(go(&s, kinds), 1);
    assert_int_equal(generation(&s, PREPARE0), 1);
    kinds[0] = '.';
    assert_int_equal(go(&s, kinds), 3);
    assert_int_equal(generation(&s, PREPARE0), 2);
    json_vec_done(&s.slices);
}

static void test_others_writes_are_undone(void **state)
{
    struct server s = {0};
    _cleanup_(json_vec_done) json_vec wanted = {0};

    (void)state;
    want("ppssdd", &wanted);
    assert_int_equal(converge(&s, &wanted), 3);

    /* one deleted: it alone comes back, in the same generation */
    carry_out(&s,
              &(struct slice_write){.verb = SLICE_DELETE,
                                    .name = (char *)SKIP0,
                                    .uid = (char *)json_str_at(*find(&s, SKIP0), "metadata.uid"),
                                    .resource_version = (char *)json_str_at(
                                        *find(&s, SKIP0), "metadata.resourceVersion")});
    assert_int_equal(converge(&s, &wanted), 1);
    assert_int_equal(generation(&s, SKIP0), 1);

    /* all deleted, as a kubelet does */
    json_vec_done(&s.slices);
    assert_int_equal(converge(&s, &wanted), 3);

    /* the list removed: the one thing that must not stay wrong */
    json_object_del(json_at(*find(&s, SKIP0), "spec"), "skipNodeOperations");
    assert_int_equal(converge(&s, &wanted), 1);
    assert_non_null(json_at(*find(&s, SKIP0), "spec.skipNodeOperations"));

    /* a list where none is wanted */
    json_object_set_new(json_at(*find(&s, PREPARE0), "spec"), "skipNodeOperations",
                        json_pack("[s]", "*"));
    assert_int_equal(converge(&s, &wanted), 1);
    assert_null(json_at(*find(&s, PREPARE0), "spec.skipNodeOperations"));

    /* a device removed; the generation raised; the owner removed; a taint removed */
    json_array_clear(json_at(*find(&s, PREPARE0), "spec.devices"));
    assert_int_equal(converge(&s, &wanted), 1);
    json_object_set_new(json_at(*find(&s, SKIP0), "spec.pool"), "generation", json_integer(40));
    assert_int_equal(converge(&s, &wanted), 2);
    assert_int_equal(generation(&s, SKIP0), 40);
    json_object_del(json_at(*find(&s, PREPARE0), "metadata"), "ownerReferences");
    assert_int_equal(converge(&s, &wanted), 1);
    json_object_del(json_array_get(json_at(*find(&s, DRIFTED0), "spec.devices"), 1), "taints");
    assert_int_equal(converge(&s, &wanted), 1);

    /* labels and annotations are theirs to keep */
    json_object_set_new(json_at(*find(&s, PREPARE0), "metadata"), "labels",
                        json_pack("{s:s}", "a", "b"));
    assert_int_equal(converge(&s, &wanted), 0);
    json_array_clear(json_at(*find(&s, PREPARE0), "spec.devices"));
    assert_int_equal(converge(&s, &wanted), 1);
    assert_string_equal(json_str_at(*find(&s, PREPARE0), "metadata.labels.a"), "b");
    json_vec_done(&s.slices);
}

/* Slices of this driver and node under other names: an older version's, or somebody's. */
static void test_foreign_slices_go(void **state)
{
    struct server s = {0};
    json_t *foreign = json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:s}, s:{s:s, s:s, s:{s:s, s:i, s:i}, s:[{s:s}]}}", "apiVersion",
        "resource.k8s.io/v1", "kind", "ResourceSlice", "metadata", "name", "00000-x", "uid", "f",
        "resourceVersion", "1", "spec", "driver", "sriov-dra.dev", "nodeName", "w1", "pool", "name",
        "w1", "generation", 9, "resourceSliceCount", 1, "devices", "name", "a-000");

    (void)state;
    /* an upgrade: the new ones are there, in a newer generation, before the old one goes */
    *VEC_PUSH(&s.slices) = json_deep_copy(foreign);
    assert_int_equal(go(&s, "ps"), 3);
    assert_int_equal(generation(&s, PREPARE0), 10);

    /* one beside ours, newer than ours: only that one is touched */
    json_object_set_new(json_at(foreign, "spec.pool"), "generation", json_integer(50));
    *VEC_PUSH(&s.slices) = foreign;
    assert_int_equal(go(&s, "ps"), 1);
    assert_int_equal(generation(&s, PREPARE0), 10);
    json_vec_done(&s.slices);
}

/* A name of ours whose pool can't be changed to ours. */
static void test_immutable_difference(void **state)
{
    struct server s = {0};

    (void)state;
    go(&s, "p");
    json_set_str(json_at(*find(&s, PREPARE0), "spec.pool"), "name", "other");
    assert_int_equal(go(&s, "p"), 2);
    assert_string_equal(json_str_at(*find(&s, PREPARE0), "spec.pool.name"), "w1");
    json_vec_done(&s.slices);
}

/* Ends a change after each of its writes, as a crash does, and goes on with a new plan. */
static void test_resumed(void **state)
{
    _cleanup_free_ char *many = repeat('p', 300), *fewer = repeat('s', 200);
    const char *from[] = {"ppppp", many, "ppssd"}, *to[] = {"ppsdd", fewer, "sssss"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(from); i++) {
        unsigned all = 100;

        for (unsigned stop = 0; stop <= all; stop++) {
            _cleanup_(json_vec_done) json_vec wanted = {0};
            struct server s = {0};
            unsigned done = 0;

            go(&s, from[i]);
            want(to[i], &wanted);
            for (; done < stop; done++) {
                _cleanup_(slice_write_vec_done) slice_write_vec plan = {0};

                slices_plan(&wanted, &s.slices, &plan);
                if (!plan.n)
                    break;
                carry_out(&s, &plan.v[0]);
            }
            unsigned sum = done + converge(&s, &wanted);
            if (stop == 0)
                all = sum;
            assert_int_equal(sum, all); /* nothing was done twice */
            json_vec_done(&s.slices);
        }
    }
}

/* And when something else is wanted meanwhile. */
static void test_changed_in_the_middle(void **state)
{
    static const char *const goals[] = {"ppppp", "ppsdd", "sssss", "ddddd", "ps.pd"};

    (void)state;
    for (size_t a = 0; a < ARRAY_SIZE(goals); a++)
        for (size_t b = 0; b < ARRAY_SIZE(goals); b++)
            for (unsigned stop = 0; stop < 5; stop++) {
                _cleanup_(json_vec_done) json_vec wanted = {0};
                struct server s = {0};

                go(&s, "ppspp");
                want(goals[a], &wanted);
                for (unsigned done = 0; done < stop; done++) {
                    _cleanup_(slice_write_vec_done) slice_write_vec plan = {0};

                    slices_plan(&wanted, &s.slices, &plan);
                    if (plan.n)
                        carry_out(&s, &plan.v[0]);
                }
                go(&s, goals[b]);
                json_vec_done(&s.slices);
            }
}

static void test_taint_time_stays(void **state)
{
    struct server s = {0};

    (void)state;
    go(&s, "pd");
    _cleanup_free_ char *before = json_text(json_at(*find(&s, DRIFTED0), "spec.devices"));
    go(&s, "pdp"); /* touches the other slice only */
    go(&s, "psd"); /* a new generation, and another device in the slice */
    go(&s, "pdd");
    json_t *first = json_array_get(json_at(*find(&s, DRIFTED0), "spec.devices"), 0);
    json_t *second = json_array_get(json_at(*find(&s, DRIFTED0), "spec.devices"), 1);

    assert_string_equal(json_str_at(second, "name"), "a-002");
    const char *t1 = json_str_at(json_array_get(json_object_get(first, "taints"), 0), "timeAdded");
    const char *t2 = json_str_at(json_array_get(json_object_get(second, "taints"), 0), "timeAdded");
    assert_non_null(strstr(before, "timeAdded"));
    assert_true(atoi(t2) < atoi(t1)); /* a-002 has been tainted all the time, a-001 anew */
    json_vec_done(&s.slices);
}

static void test_kept(void **state)
{
    static const struct {
        const char *path, *key; /* what the server changed */
        const char *to;         /* JSON, NULL: removed */
        bool kept;
        unsigned dropped;
    } table[] = {
        {"metadata", "uid", "\"x\"", .kept = true},
        {"metadata", "labels", "{\"a\":\"b\"}", .kept = true},
        {"metadata", "ownerReferences", NULL, .kept = false},
        {"spec", "skipNodeOperations", NULL, .kept = false, .dropped = SLICE_FIELD_LIST},
        {"spec", "skipNodeOperations", "[]", .kept = false, .dropped = SLICE_FIELD_LIST},
        {"spec", "skipNodeOperations", "[\"NodeUnprepareResources\"]", .kept = false},
        {"spec", "skipNodeOperations", "[\"*\", \"SomethingNew\"]", .kept = false},
        {"spec", "allNodes", "true", .kept = false},
        {"spec", "devices", "[]", .kept = false},
        {"spec.pool", "generation", "8", .kept = false},
    };
    _cleanup_(json_vec_done) json_vec wanted = {0};
    unsigned dropped;

    (void)state;
    want("s", &wanted);
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        json_auto_t *kept = json_deep_copy(wanted.v[0]);
        json_t *at = json_at(kept, table[i].path);

        if (table[i].to)
            json_object_set_new(at, table[i].key, json_loads(table[i].to, JSON_DECODE_ANY, NULL));
        else
            json_object_del(at, table[i].key);
        if (slice_kept(wanted.v[0], kept, &dropped) != table[i].kept || dropped != table[i].dropped)
            fail_msg("%s.%s = %s", table[i].path, table[i].key, table[i].to ? table[i].to : "-");
    }
}

static void test_kept_devices(void **state)
{
    static const struct {
        const char *devices;
        bool kept;
        unsigned dropped;
    } table[] = {
        {"[{'name':'a-000','attributes':{'vfIndex':{'int':0}},'taints':[{'key':'sriov-dra.dev/"
         "drifted','effect':'NoSchedule','timeAdded':'2026-01-01T00:00:00Z'}]}]",
         .kept = true},
        {"[{'name':'a-000','attributes':{'vfIndex':{'int':0}}}]", .dropped = SLICE_FIELD_TAINTS},
        {"[{'name':'a-000','attributes':{'vfIndex':{'int':0}},'taints':[{'key':'sriov-dra.dev/"
         "drifted','effect':'NoExecute'}]}]",
         .kept = false},
        {"[{'name':'a-000','attributes':{'vfIndex':{'int':0}},'allowMultipleAllocations':true,"
         "'taints':[{'key':'sriov-dra.dev/drifted','effect':'NoSchedule'}]}]",
         .kept = false},
        {"[{'name':'a-000','attributes':{'vfIndex':{'int':0},'timeAdded':{'int':0}},'taints':"
         "[{'key':'sriov-dra.dev/drifted','effect':'NoSchedule'}]}]",
         .kept = false},
    };
    _cleanup_(json_vec_done) json_vec wanted = {0};
    unsigned dropped;

    (void)state;
    want("d", &wanted);
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        json_auto_t *kept = json_deep_copy(wanted.v[0]);
        char *text = xstrdup(table[i].devices);

        for (char *c = text; *c; c++)
            if (*c == '\'')
                *c = '"';
        json_object_set_new(json_at(kept, "spec"), "devices", json_loads(text, 0, NULL));
        free(text);
        if (slice_kept(wanted.v[0], kept, &dropped) != table[i].kept || dropped != table[i].dropped)
            fail_msg("%s", table[i].devices);
        json_auto_t *same = json_deep_copy(kept); /* with a time that was sent */
        assert_true(slice_kept(kept, same, &dropped));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_slice),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_others_writes_are_undone),
        cmocka_unit_test(test_foreign_slices_go),
        cmocka_unit_test(test_immutable_difference),
        cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_changed_in_the_middle),
        cmocka_unit_test(test_taint_time_stays),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_kept_devices),
    };

    return cmocka_run_group_tests_name("slices", tests, NULL, NULL);
}
