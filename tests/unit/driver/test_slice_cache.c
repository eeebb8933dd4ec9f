/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/slice_cache.h"

#include "tests/unit/test.h"

static json_t *object(const char *name, const char *uid, const char *version)
{
    return json_pack("{s:{s:s, s:s, s:s, s:[]}}", "metadata", "name", name, "uid", uid,
                     "resourceVersion", version, "managedFields");
}

static bool put(struct slice_cache *c, const char *name, const char *uid, const char *version)
{
    json_auto_t *o = object(name, uid, version);

    return slice_cache_put(c, o);
}

static bool deleted(struct slice_cache *c, const char *name, const char *uid, const char *version)
{
    json_auto_t *o = object(name, uid, version);

    return slice_cache_deleted(c, o);
}

static void test_never_goes_back(void **state)
{
    struct slice_cache c = {0};

    (void)state;
    assert_true(put(&c, "a", "1", "9"));
    assert_null(json_at(c.slices.v[0], "metadata.managedFields"));
    assert_false(put(&c, "a", "1", "9"));
    assert_true(put(&c, "a", "1", "10")); /* as numbers, not as text */
    assert_false(put(&c, "a", "1", "9"));
    assert_false(deleted(&c, "a", "0", "8")); /* of one that had the name before */
    assert_true(deleted(&c, "a", "1", "11"));
    assert_false(deleted(&c, "a", "1", "11"));
    assert_int_equal(c.slices.n, 0);

    /* versions that are no numbers: the latest to come counts */
    assert_true(put(&c, "b", "2", "x9"));
    assert_true(put(&c, "b", "2", "x10"));
    assert_true(deleted(&c, "b", "2", "x11"));

    /* an answer said that it is gone; its events still come */
    assert_true(put(&c, "d", "3", "20"));
    slice_cache_gone(&c, "d", "3");
    assert_int_equal(c.slices.n, 0);
    assert_false(put(&c, "d", "3", "21"));
    assert_true(put(&c, "d", "4", "23"));      /* another one of that name */
    assert_false(deleted(&c, "d", "3", "22")); /* is not the one that went */
    assert_int_equal(c.slices.n, 1);
    slice_cache_done(&c);
}

static void test_lists(void **state)
{
    struct slice_cache c = {0};

    (void)state;
    put(&c, "a", "1", "1");
    put(&c, "b", "2", "2");
    put(&c, "c", "3", "3");
    slice_cache_list_begin(&c);
    put(&c, "a", "1", "1");
    assert_true(put(&c, "new", "4", "5")); /* the answer to a write of ours, meanwhile */
    slice_cache_gone(&c, "b", "2");        /* and to another */
    assert_false(put(&c, "b", "2", "2"));  /* which the list doesn't know of */
    slice_cache_list_end(&c);
    assert_int_equal(c.slices.n, 2);
    vec_foreach (o, &c.slices)
        assert_true(streq(json_str_at(*o, "metadata.name"), "a") ||
                    streq(json_str_at(*o, "metadata.name"), "new"));
    slice_cache_done(&c);
}

/* Equal devices, and the attributes of tainted ones, are the wanted ones' own. */
static void test_shares(void **state)
{
    static const char text[] = "{'metadata':{'name':'s','uid':'1','resourceVersion':'1'},'spec':{"
                               "'devices':[{'name':'a','attributes':{'x':{'int':1}}},{'name':'b',"
                               "'attributes':{'x':{'int':2}},'taints':[{'key':'k'}]},{'name':'c',"
                               "'attributes':{'x':{'int':3}}}]}}";
    _cleanup_free_ char *json = xstrdup(text);
    _cleanup_(json_vec_done) json_vec wanted = {0};
    struct slice_cache c = {0};

    (void)state;
    for (char *p = json; *p; p++)
        if (*p == '\'')
            *p = '"';
    *VEC_PUSH(&wanted) = json_loads(json, 0, NULL);
    json_auto_t *server = json_deep_copy(wanted.v[0]);
    json_t *devices = json_at(server, "spec.devices");

    json_set_str(json_array_get(json_object_get(json_array_get(devices, 1), "taints"), 0),
                 "timeAdded", "now");
    json_object_set_new(json_at(json_array_get(devices, 2), "attributes"), "y", json_object());
    slice_cache_put(&c, server);
    slice_cache_share(&c, &wanted);
    slice_cache_share(&c, &wanted);
    assert_true(
        json_equal(json_object_get(c.slices.v[0], "spec"), json_object_get(server, "spec")));

    const json_t *ours = json_at(wanted.v[0], "spec.devices");
    const json_t *is = json_at(c.slices.v[0], "spec.devices");
    assert_ptr_equal(json_array_get(is, 0), json_array_get(ours, 0));
    assert_ptr_not_equal(json_array_get(is, 1), json_array_get(ours, 1));
    assert_ptr_equal(json_at(json_array_get(is, 1), "attributes"),
                     json_at(json_array_get(ours, 1), "attributes"));
    assert_ptr_not_equal(json_at(json_array_get(is, 2), "attributes"),
                         json_at(json_array_get(ours, 2), "attributes"));
    slice_cache_done(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_goes_back),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_shares),
    };

    return cmocka_run_group_tests_name("slice-cache", tests, NULL, NULL);
}
