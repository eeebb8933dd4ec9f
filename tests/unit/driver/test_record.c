/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/record.h"

#include "tests/unit/test.h"

#include <errno.h>

static const char full[] =
    "{\"version\":1,\"namespace\":\"default\",\"name\":\"c\",\"uid\":\"1-2\",\"state\":"
    "\"Prepared\","
    "\"bootID\":\"b\",\"byKubelet\":true,\"unprepareComes\":false,\"pods\":[\"p1\",\"p2\"],"
    "\"devices\":[{"
    "\"request\":\"r\",\"pool\":\"node1\",\"device\":\"0000-01-10-0\",\"shareID\":\"s\","
    "\"alternative\":\"second\",\"choice\":2,\"choices\":3,\"setupBy\":\"Driver\","
    "\"vf\":\"0000:01:10.0\",\"pf\":\"0000:01:00.0\",\"index\":3,\"poolDocument\":\"storage\","
    "\"mode\":\"Skip\",\"attach\":\"None\",\"mayRaisePf\":true,"
    "\"settings\":{\"macAddress\":\"52:54:00:00:00:01\",\"vlan\":{\"id\":100,\"qos\":3},"
    "\"mtu\":1400,\"maxTxRateMbps\":10,\"spoofCheck\":false,\"trust\":true,\"linkState\":"
    "\"enable\"},"
    "\"interface\":{\"name\":\"net1\",\"mtu\":1300,\"addresses\":[\"192.0.2.1/24\"],"
    "\"routes\":[{\"to\":\"198.51.100.0/24\",\"via\":\"192.0.2.2\"}]},"
    "\"original\":{\"name\":\"enp1s0v3\",\"mac\":\"52:54:00:00:00:02\","
    "\"adminMac\":\"52:54:00:00:00:03\",\"vlan\":7,\"vlanQos\":1,\"vlanProto\":33024,"
    "\"adminMarked\":true,\"ownOnly\":true,\"mtu\":1500,\"up\":true,\"spoofCheck\":true,\"trust\":"
    "false,"
    "\"minTxRateMbps\":0,\"maxTxRateMbps\":0,\"linkState\":\"auto\"}}]}";

static json_t *parse(const char *text)
{
    _cleanup_err_ struct err e = ERR_INIT;
    json_t *o = NULL;

    assert_ok(json_parse(text, strlen(text), &o, &e), &e);
    return o;
}

/* Every member survives: what is read is written again, so record_copy() loses nothing. */
static void test_round_trip(void **state)
{
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_(record_freep) struct record *r = NULL, *copy = NULL;
    json_auto_t *doc = parse(full);

    (void)state;
    assert_ok(record_parse(doc, &r, &e), &e);
    copy = record_copy(r);
    json_auto_t *again = record_json(copy);
    _cleanup_free_ char *a = json_text(doc), *b = json_text(again);
    assert_string_equal(a, b);
    assert_int_equal(copy->devices.v[0].grant.index, 3);
    assert_int_equal(copy->devices.v[0].original.index, 3);
    assert_string_equal(copy->devices.v[0].original.pf_address, "0000:01:00.0");
}

static void test_unknown_members_are_kept_out_of_the_way(void **state)
{
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_(record_freep) struct record *r = NULL;
    json_auto_t *doc = parse(full);
    json_t *device = json_array_get(json_object_get(doc, "devices"), 0);

    (void)state;
    json_object_set_new(doc, "futureKnob", json_true());
    json_object_set_new(device, "futureKnob", json_true());
    json_object_set_new(json_object_get(device, "settings"), "futureKnob", json_true());
    json_object_set_new(json_object_get(device, "interface"), "futureKnob", json_true());
    json_object_set_new(json_object_get(device, "original"), "futureKnob", json_true());
    assert_ok(record_parse(doc, &r, &e), &e);
    assert_int_equal(r->devices.v[0].grant.settings.vlan_id, 100);
}

/* Without the member, a claim that the kubelet prepared is one that it will unprepare. */
static void test_who_releases(void **state)
{
    static const struct {
        const char *members;
        bool unprepare_comes;
    } cases[] = {
        {"{\"byKubelet\":true}", true},
        {"{\"byKubelet\":false}", false},
        {"{\"byKubelet\":true,\"unprepareComes\":false}", false},
        {"{\"byKubelet\":true,\"unprepareComes\":true}", true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        _cleanup_(record_freep) struct record *r = NULL;
        json_auto_t *doc = parse(full), *members = parse(cases[i].members);

        json_object_del(doc, "unprepareComes");
        json_object_update(doc, members);
        assert_ok(record_parse(doc, &r, &e), &e);
        if (r->unprepare_comes != cases[i].unprepare_comes)
            fail_msg("%s", cases[i].members);
    }
}

/* A claim of several modes: without Unprepare only where each of its devices is (test_allocation).
 */
static void test_several_modes(void **state)
{
    static const struct {
        bool first, second; /* skip Unprepare */
        bool unprepare_comes;
    } table[] = {
        {true, true, false}, /* DeferCleanup and Skip */
        {false, true, true}, /* Prepare and one of these */
        {true, false, true},
        {false, false, true},
    };
    char uid[] = "u", name[] = "c", namespace[] = "default";

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct allocated_device devices[] = {
            {.skip_unprepare = table[i].first},
            {.skip_unprepare = table[i].second, .skip_prepare = table[i].second}};
        const struct allocation a = {
            .namespace = namespace, .name = name, .uid = uid, .devices = {.v = devices, .n = 2}};
        grant_vec none = {0};
        _cleanup_(record_freep) struct record *r = record_new(&a, &none, "boot", true);

        if (r->unprepare_comes != table[i].unprepare_comes)
            fail_msg("row %zu", i);
    }
}

/* A record of a release that didn't note who set the VF up, and knew no alternatives. */
static void test_older_release(void **state)
{
    static const struct {
        const char *mode;
        enum provisioner by;
    } cases[] = {
        {"Skip", PROVISIONED_EXTERNALLY},
        {"DeferCleanup", PROVISIONED_BY_DRIVER},
        {"Prepare", PROVISIONED_BY_DRIVER},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        _cleanup_(record_freep) struct record *r = NULL;
        json_auto_t *doc = parse(full);
        json_t *device = json_array_get(json_object_get(doc, "devices"), 0);

        json_object_set_new(device, "mode", json_string(cases[i].mode));
        json_object_del(device, "alternative");
        json_object_del(device, "choice");
        json_object_del(device, "choices");
        json_object_del(device, "setupBy");
        assert_ok(record_parse(doc, &r, &e), &e);
        assert_null(r->devices.v[0].grant.alternative);
        assert_int_equal(r->devices.v[0].grant.choices, 0);
        assert_int_equal(r->devices.v[0].grant.set_up_by, cases[i].by);
    }
}

static void test_newer_version_is_refused(void **state)
{
    _cleanup_err_ struct err e = ERR_INIT;
    struct record *r = NULL;
    json_auto_t *doc = parse(full);

    (void)state;
    json_object_set_new(doc, "version", json_integer(2));
    assert_int_equal(record_parse(doc, &r, &e), -EPROTONOSUPPORT);
    assert_err_has(&e, "written by a newer version");
    assert_null(r);
}

static void test_bad_members(void **state)
{
    static const struct {
        const char *path, *value, *error;
    } cases[] = {
        {"", "\"uid\":\"../x\"", "uid"},
        {"", "\"state\":\"Done\"", "state"},
        {"", "\"devices\":{}", "devices: must be a list"},
        {"d", "\"vf\":\"eth0\"", "devices[0]"},
        {"d", "\"mode\":\"Other\"", "mode \"Other\""},
        {"d", "\"attach\":\"CNI\"", "attach \"CNI\""},
        {"o", "\"mac\":\"52:54\"", "devices[0].original.mac"},
        {"o", "\"vlan\":5000", "devices[0].original.vlan"},
        {"o", "\"name\":\"0123456789abcdefg\"", "too long"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        struct record *r = NULL;
        json_auto_t *doc = parse(full);
        _cleanup_free_ char *text = xasprintf("{%s}", cases[i].value);
        json_auto_t *change = parse(text);
        json_t *device = json_array_get(json_object_get(doc, "devices"), 0);

        json_object_update(*cases[i].path == 'd'   ? device
                           : *cases[i].path == 'o' ? json_object_get(device, "original")
                                                   : doc,
                           change);
        assert_true(record_parse(doc, &r, &e) < 0);
        assert_err_has(&e, cases[i].error);
        assert_null(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_who_releases),
        cmocka_unit_test(test_several_modes),
        cmocka_unit_test(test_unknown_members_are_kept_out_of_the_way),
        cmocka_unit_test(test_older_release),
        cmocka_unit_test(test_newer_version_is_refused),
        cmocka_unit_test(test_bad_members),
    };

    return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
