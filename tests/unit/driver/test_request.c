/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/request.h"

#include "tests/unit/driver/doc.h"

/* Every field that a class may have. */
static const char full[] =
    "apiVersion: sriov-dra.dev/v1alpha1\n"
    "kind: VirtualFunctionConfig\n"
    "settings: {macAddress: '52:54:00:AB:CD:EF', vlan: {id: 100, qos: 3}, mtu: 1500,\n"
    "           maxTxRateMbps: 500, spoofCheck: true, trust: false}\n"
    "interface:\n"
    "  name: net1\n"
    "  mtu: 1400\n"
    "  addresses: [192.0.2.10/24, '2001:db8::10/64']\n"
    "  routes: [{to: 198.51.100.0/24, via: 192.0.2.1, metric: 7, table: 100}, {to: '::/0'}]\n"
    "  sysctls: {}\n";

static json_t *config(const char *settings, const char *interface)
{
    json_t *o = doc("{apiVersion: sriov-dra.dev/v1alpha1, kind: VirtualFunctionConfig}");

    if (settings)
        json_object_set_new(o, "settings", doc(settings));
    if (interface)
        json_object_set_new(o, "interface", doc(interface));
    return o;
}

static int merge(struct vf_request *r, enum request_source source, const char *settings,
                 const char *interface, struct err *e)
{
    json_auto_t *o = config(settings, interface);

    return vf_request_merge(r, source, o, "claim default/c: configuration [1]", e);
}

static char *request_text(const struct vf_request *r)
{
    json_auto_t *o = json_object();

    json_object_set_new(o, "settings", vf_settings_json(&r->settings));
    json_object_set_new(o, "interface", interface_request_json(&r->interface));
    return json_text(o);
}

static void test_full(void **state)
{
    _cleanup_(vf_request_done) struct vf_request r = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *o = doc(full);
    char mac[MAC_TEXT_SIZE];

    (void)state;
    assert_ok(vf_request_merge(&r, FROM_CLASS, o, "x", &e), &e);
    assert_int_equal(r.settings.set, VF_SET_MAC | VF_SET_VLAN | VF_SET_MTU | VF_SET_RATE |
                                         VF_SET_SPOOFCHK | VF_SET_TRUST);
    assert_string_equal(mac_text(&r.settings.mac, mac), "52:54:00:ab:cd:ef");
    assert_int_equal(r.settings.vlan_id, 100);
    assert_int_equal(r.settings.vlan_qos, 3);
    assert_int_equal(r.settings.mtu, 1500);
    assert_int_equal(r.settings.max_tx_mbps, 500);
    assert_true(r.settings.spoofchk);
    assert_false(r.settings.trust);
    assert_string_equal(r.interface.name, "net1");
    assert_int_equal(r.interface.mtu, 1400);
    assert_int_equal(r.interface.addrs.n, 2);
    assert_int_equal(r.interface.addrs.v[0].prefix, 24);
    assert_int_equal(r.interface.addrs.v[1].family, AF_INET6);
    assert_int_equal(r.interface.routes.n, 2);
    assert_true(r.interface.routes.v[0].has_via);
    assert_int_equal(r.interface.routes.v[0].metric, 7);
    assert_int_equal(r.interface.routes.v[0].table, 100);
    assert_false(r.interface.routes.v[1].has_via);
    assert_int_equal(r.interface.routes.v[1].to.family, AF_INET6);
    assert_int_equal(r.interface.routes.v[1].to.prefix, 0);
}

/* What is put where in the full document, of a class; the error's part, or NULL: it is right. */
static const struct {
    const char *path, *yaml, *error;
} changes[] = {
    {"apiVersion", NULL, "apiVersion: must be \"sriov-dra.dev/v1alpha1\", but it isn't given"},
    {"apiVersion", "sriov-dra.dev/v2",
     "must be \"sriov-dra.dev/v1alpha1\", not \"sriov-dra.dev/v2"},
    {"kind", "VirtualFunctionPool",
     "kind: must be \"VirtualFunctionConfig\", not \"VirtualFunctio"},
    {"metadata", "{}", "metadata: unknown field"},
    {"settings", NULL, NULL},
    {"interface", NULL, NULL},
    {"settings.vlann", "100", "settings.vlann: unknown field"},
    {"settings.macAddress", "52-54-00-ab-cd-ef", NULL},
    {"settings.macAddress", "'01:00:5e:00:00:01'",
     "settings.macAddress: \"01:00:5e:00:00:01\" is "
     "a multicast or broadcast address"},
    {"settings.macAddress", "'ff:ff:ff:ff:ff:ff'", "multicast or broadcast"},
    {"settings.macAddress", "'00:00:00:00:00:00'", "all zero"},
    {"settings.macAddress", "'52:54:00:ab:cd:ef:01:02'", "is no Ethernet MAC address"},
    {"settings.macAddress", "'52:54:00:ab:cd'", "is no Ethernet MAC address"},
    {"settings.macAddress", "''", "is no Ethernet MAC address"},
    {"settings.vlan", "{}", "settings.vlan.id: must be given"},
    {"settings.vlan", "{id: 4095}", "settings.vlan.id"},
    {"settings.vlan", "{id: 0, qos: 1}", "settings.vlan.qos: a priority needs a VLAN"},
    {"settings.vlan", "{id: 0, qos: 0}", NULL},
    {"settings.mtu", "67", "settings.mtu"},
    {"settings.maxTxRateMbps", "-1", "settings.maxTxRateMbps"},
    {"interface.name", "abcdefghijklmno", NULL},
    {"interface.name", "abcdefghijklmnop", "interface.name: \"abcdefghijklmnop\" is longer than"},
    {"interface.name", "a/b", "interface.name: \"a/b\": an interface name can't have \"/\""},
    {"interface.name", "a b", "interface.name: has a space"},
    {"interface.name", "a:b", "can't have \":\""},
    {"interface.name", ".", "interface.name: \".\" can't be"},
    {"interface.name", "..", "interface.name: \"..\" can't be"},
    {"interface.name", "'...'", NULL},
    {"interface.name", "vf%d", "can't have \"%\""},
    {"interface.name", "all", "interface.name: \"all\" has a meaning of its own"},
    {"interface.name", "default", "interface.name: \"default\" has a meaning"},
    {"interface.name", "lo", "interface.name: \"lo\" has a meaning"},
    {"interface.name", "'...'", NULL},
    {"interface.name", "\"a\\nb\"", "interface.name: has a space, a control character"},
    {"interface.name", "\"a\\x7f\"", "interface.name: has"},
    {"interface.name", "\"\\u00e4\"", "interface.name: has"},
    {"interface.name", "''", "interface.name: must not be empty"},
    {"interface.name", "eth0", NULL},
    {"interface.mtu", "67", "interface.mtu: must be a whole number from 68 to 65535"},
    {"interface.sysctls", "{net.ipv4.x: '1'}", "interface.sysctls: not supported by this version"},
    {"interface.addresses[0]", "192.0.2.10", "interface.addresses[0]: \"192.0.2.10\" is no addr"},
    {"interface.addresses[0]", "192.0.2.10/33", "is no address with prefix"},
    {"interface.addresses[0]", "192.0.2.10/0", "prefix length 0"},
    {"interface.addresses[0]", "192.0.2.10/31", NULL},
    {"interface.addresses[0]", "192.0.2.10/32", NULL},
    {"interface.addresses[0]", "192.0.2.0/31", NULL},
    {"interface.addresses[0]", "192.0.2.0/24", "is the address of the network"},
    {"interface.addresses[0]", "192.0.2.255/24", "is the broadcast address of its network"},
    {"interface.addresses[0]", "192.0.2.7/30", "is the broadcast address"},
    {"interface.addresses[0]", "192.0.2.255/23", NULL},
    {"interface.addresses[0]", "192.0.2.4/30", "is the address of the network"},
    {"interface.addresses[0]", "240.0.0.1/24", "is a broadcast or reserved address"},
    {"interface.addresses[0]", "'2001:db8::11/64'", NULL},
    {"interface.addresses[0]", "'2001:db8::10/65'",
     "interface.addresses[1]: \"2001:db8::10/64\" is"},
    {"interface.addresses[0]", "0.0.0.0/24", "interface.addresses[0]: \"0.0.0.0/24\" is in 0.0.0"},
    {"interface.addresses[0]", "127.0.0.2/8", "is a loopback address"},
    {"interface.addresses[0]", "224.0.0.1/24", "is a multicast address"},
    {"interface.addresses[0]", "255.255.255.255/32", "is a broadcast or reserved address"},
    {"interface.addresses[0]", "example.com/24", "is no address"},
    {"interface.addresses[0]", "fe80::1/64", NULL},
    {"interface.addresses[1]", "'::/64'", "is the unspecified address"},
    {"interface.addresses[1]", "'::1/128'", "is the loopback address"},
    {"interface.addresses[1]", "'ff02::1/64'", "is a multicast address"},
    {"interface.addresses[1]", "'::ffff:192.0.2.1/120'", "is an IPv4 address in disguise"},
    {"interface.addresses[1]", "192.0.2.10/25",
     "interface.addresses[1]: \"192.0.2.10/25\" is in "
     "the list already, at [0]"},
    {"interface.addresses", "[]", NULL},
    {"interface.routes[0].to", NULL, "interface.routes[0].to: must be given"},
    {"interface.routes[0].to", "198.51.100.1/24", "bits behind its prefix"},
    {"interface.routes[0].to", "198.51.100.0", "is no network"},
    {"interface.routes[0].to", "default", NULL},
    {"interface.routes[0].to", "0.0.0.0/0", NULL},
    {"interface.routes[0].to", "'::/0'", "interface.routes[0].via: is IPv4, but the route is IPv6"},
    {"interface.routes[1].to", "default", "interface.routes[1].via: must be given for \"default\""},
    {"interface.routes[1].via", "192.0.2.1", "interface.routes[1].via: is IPv4, but the route is"},
    {"interface.routes[1].via", "'fe80::1'", NULL},
    {"interface.routes[0].via", NULL, NULL},
    {"interface.routes[0].via", "192.0.2.1/32", "interface.routes[0].via: \"192.0.2.1/32\" is no"},
    {"interface.routes[0].via", "0.0.0.0", "interface.routes[0].via: \"0.0.0.0\" is in 0.0.0.0/8"},
    {"interface.routes[0].via", "224.0.0.1", "is a multicast address"},
    {"interface.routes[0].metric", "4294967295", NULL},
    {"interface.routes[0].metric", "4294967296", "interface.routes[0].metric"},
    {"interface.routes[0].table", "-1", "interface.routes[0].table"},
    {"interface.routes[1]", "{to: 198.51.100.0/24, metric: 7, table: 100}",
     "interface.routes[1]: has network, metric and table of [0]"},
    {"interface.routes[1]", "{to: 198.51.100.0/24, metric: 8, table: 100}", NULL},
    {"interface.routes[1]", "{to: 198.51.100.0/24, metric: 7}", NULL},
    {"interface.routes", "[{to: '::/0'}, {to: '::/0', table: 254}]",
     "interface.routes[1]: has net"},
};

static void test_changes(void **state)
{
    json_auto_t *base = doc(full);

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
        _cleanup_(vf_request_done) struct vf_request r = {0};
        _cleanup_err_ struct err e = ERR_INIT;
        json_auto_t *o = doc_with(base, changes[i].path, changes[i].yaml);
        int rc = vf_request_merge(&r, FROM_CLASS, o, "WHERE", &e);

        if (!changes[i].error) {
            if (rc < 0)
                fail_msg("%s: %s: %s", changes[i].path, changes[i].yaml, err_text(&e));
            continue;
        }
        if (rc >= 0)
            fail_msg("%s: %s was taken", changes[i].path, changes[i].yaml);
        assert_err_has(&e, changes[i].error);
        assert_err_has(&e, "WHERE: ");
        assert_int_equal(e.kind, ERR_USER);
        assert_int_equal(r.settings.set, 0);
        assert_int_equal(r.interface.addrs.n, 0);
    }
}

static int parse_config(const json_t *o, struct err *e)
{
    _cleanup_(vf_request_done) struct vf_request r = {0};

    return vf_request_merge(&r, FROM_CLASS, o, "x", e);
}

static void test_broken_everywhere(void **state)
{
    static const char *const free_form[] = {"interface.sysctls", NULL};
    json_auto_t *o = doc(full);

    (void)state;
    doc_break_everywhere(o, free_form, parse_config);
}

static void test_too_many(void **state)
{
    _cleanup_(vf_request_done) struct vf_request r = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    struct strbuf b = {0};

    (void)state;
    strbuf_puts(&b, "{addresses: [");
    for (int i = 1; i <= INTERFACE_ADDRS_MAX; i++)
        strbuf_printf(&b, "%s192.0.2.%d/24", i > 1 ? ", " : "", i);
    _cleanup_free_ char *most = xasprintf("%s]}", b.s);
    _cleanup_free_ char *more = xasprintf("%s, 192.0.2.99/24]}", b.s);
    assert_true(merge(&r, FROM_CLASS, NULL, more, &e) < 0);
    assert_err_has(&e, "interface.addresses: has 17 addresses, 16 at most");
    assert_ok(merge(&r, FROM_CLASS, NULL, most, &e), &e);
    assert_int_equal(r.interface.addrs.n, INTERFACE_ADDRS_MAX);
    assert_true(merge(&r, FROM_CLAIM, NULL, "{addresses: [192.0.2.99/24]}", &e) < 0);
    assert_err_has(&e, "class and claim ask for 17 together");
    assert_int_equal(r.interface.addrs.n, INTERFACE_ADDRS_MAX);

    b.len = 0;
    strbuf_puts(&b, "{routes: [");
    for (int i = 0; i < INTERFACE_ROUTES_MAX; i++)
        strbuf_printf(&b, "%s{to: 198.51.%d.0/24}", i ? ", " : "", i);
    _cleanup_free_ char *most_routes = xasprintf("%s]}", b.s);
    _cleanup_free_ char *more_routes = xasprintf("%s, {to: 10.0.0.0/8}]}", b.s);
    assert_true(merge(&r, FROM_CLASS, NULL, more_routes, &e) < 0);
    assert_err_has(&e, "interface.routes: has 65 routes, 64 at most");
    err_clear(&e);
    assert_ok(merge(&r, FROM_CLASS, NULL, most_routes, &e), &e);
    assert_true(merge(&r, FROM_CLAIM, NULL, "{routes: [{to: 10.0.0.0/8}]}", &e) < 0);
    assert_err_has(&e, "class and claim ask for 65 together");
    assert_int_equal(r.interface.routes.n, INTERFACE_ROUTES_MAX);
    strbuf_done(&b);
}

/* A list of configurations, each to be merged over what came before. */
static const struct {
    const char *name;
    struct {
        enum request_source source;
        const char *settings, *interface;
    } configs[3];
    const char *want;  /* the result, or */
    const char *error; /* that of the last configuration */
} merges[] = {
    {.name = "a claim adds",
     .configs = {{FROM_CLASS, "{vlan: {id: 100}, trust: true}", NULL},
                 {FROM_CLAIM, "{mtu: 9000}", "{name: net1}"}},
     .want = "{\"interface\":{\"name\":\"net1\"},\"settings\":{\"mtu\":9000,\"trust\":true,"
             "\"vlan\":{\"id\":100,\"qos\":0}}}"},
    {.name = "the same value again",
     .configs = {{FROM_CLASS,
                  "{macAddress: '52:54:00:ab:cd:ef', vlan: {id: 1}, mtu: 1500, "
                  "maxTxRateMbps: 1}",
                  "{name: net1, mtu: 1400, addresses: [192.0.2.1/24], routes: [{to: '::/0'}]}"},
                 {FROM_CLAIM,
                  "{macAddress: '52:54:00:AB:CD:EF', vlan: {id: 1, qos: 0}, mtu: 1500, "
                  "maxTxRateMbps: 1}",
                  "{name: net1, mtu: 1400, addresses: [192.0.2.1/24], routes: [{to: '::/0'}]}"}},
     .want = "{\"interface\":{\"addresses\":[\"192.0.2.1/24\"],\"mtu\":1400,\"name\":\"net1\","
             "\"routes\":[{\"to\":\"::/0\"}]},\"settings\":{\"macAddress\":\"52:54:00:ab:cd:ef\","
             "\"maxTxRateMbps\":1,\"mtu\":1500,\"vlan\":{\"id\":1,\"qos\":0}}}"},
    {.name = "a later class wins",
     .configs = {{FROM_CLASS, "{vlan: {id: 100, qos: 3}, mtu: 9000}",
                  "{addresses: [192.0.2.1/24]}"},
                 {FROM_CLASS, "{vlan: {id: 200}}", "{addresses: [192.0.2.2/24]}"}},
     .want = "{\"interface\":{\"addresses\":[\"192.0.2.2/24\"]},\"settings\":{\"mtu\":9000,"
             "\"vlan\":{\"id\":200,\"qos\":0}}}"},
    {.name = "a later claim wins, and not over the class",
     .configs = {{FROM_CLASS, NULL, "{addresses: [192.0.2.1/24], routes: [{to: 10.0.0.0/8}]}"},
                 {FROM_CLAIM, "{mtu: 1500}",
                  "{name: a, mtu: 1400, addresses: [192.0.2.2/24], routes: [{to: 10.1.0.0/16}]}"},
                 {FROM_CLAIM, "{mtu: 1600}",
                  "{name: b, mtu: 1500, addresses: [192.0.2.3/24], routes: [{to: 10.2.0.0/16}]}"}},
     .want = "{\"interface\":{\"addresses\":[\"192.0.2.1/24\",\"192.0.2.3/24\"],\"mtu\":1500,"
             "\"name\":\"b\",\"routes\":[{\"to\":\"10.0.0.0/8\"},{\"to\":\"10.2.0.0/16\"}]},"
             "\"settings\":{\"mtu\":1600}}"},
    {.name = "nothing",
     .configs = {{FROM_CLASS, "{}", "{}"}, {FROM_CLAIM, NULL, NULL}},
     .want = "{\"interface\":{},\"settings\":{}}"},
    {.name = "VLAN",
     .configs = {{FROM_CLASS, "{vlan: {id: 100}}", NULL}, {FROM_CLAIM, "{vlan: {id: 200}}", NULL}},
     .error = "claim default/c: configuration [1]: settings.vlan: the claim asks for 200 and the "
              "class has 100; a claim may add to its class, not override it"},
    {.name = "QoS",
     .configs = {{FROM_CLASS, "{vlan: {id: 1}}", NULL},
                 {FROM_CLAIM, "{vlan: {id: 1, qos: 3}}", NULL}},
     .error = "settings.vlan: the claim asks for 1 (qos 3) and the class has 1;"},
    {.name = "MTU",
     .configs = {{FROM_CLASS, "{mtu: 1500}", NULL}, {FROM_CLAIM, "{mtu: 1501}", NULL}},
     .error = "settings.mtu: the claim asks for 1501 and the class has 1500"},
    {.name = "rate",
     .configs = {{FROM_CLASS, "{maxTxRateMbps: 1}", NULL},
                 {FROM_CLAIM, "{maxTxRateMbps: 0}", NULL}},
     .error = "settings.maxTxRateMbps: the claim asks for 0 and the class has 1"},
    {.name = "MAC",
     .configs = {{FROM_CLASS, "{macAddress: '52:54:00:00:00:01'}", NULL},
                 {FROM_CLAIM, "{macAddress: '52:54:00:00:00:02'}", NULL}},
     .error = "settings.macAddress: the claim asks for 52:54:00:00:00:02 and the class has 52:54"},
    {.name = "trust",
     .configs = {{FROM_CLAIM, "{trust: true}", NULL}},
     .error = "settings.trust: only a DeviceClass may set it"},
    {.name = "trust, the same",
     .configs = {{FROM_CLASS, "{trust: false}", NULL}, {FROM_CLAIM, "{trust: false}", NULL}},
     .error = "settings.trust: only a DeviceClass may set it"},
    {.name = "spoof check",
     .configs = {{FROM_CLAIM, "{spoofCheck: false}", NULL}},
     .error = "settings.spoofCheck: only a DeviceClass may set it"},
    {.name = "name",
     .configs = {{FROM_CLASS, NULL, "{name: net1}"}, {FROM_CLAIM, NULL, "{name: net2}"}},
     .error = "interface.name: the claim asks for net2 and the class has net1"},
    {.name = "interface MTU",
     .configs = {{FROM_CLASS, NULL, "{mtu: 1500}"}, {FROM_CLAIM, NULL, "{mtu: 1400}"}},
     .error = "interface.mtu: the claim asks for 1400 and the class has 1500"},
    {.name = "prefix",
     .configs = {{FROM_CLASS, NULL, "{addresses: [192.0.2.1/24]}"},
                 {FROM_CLAIM, NULL, "{addresses: [192.0.2.1/16]}"}},
     .error =
         "interface.addresses: the claim asks for 192.0.2.1/16 and the class has 192.0.2.1/24"},
    {.name = "route",
     .configs = {{FROM_CLASS, NULL, "{routes: [{to: 10.0.0.0/8, via: 192.0.2.1}]}"},
                 {FROM_CLAIM, NULL, "{routes: [{to: 10.0.0.0/8, via: 192.0.2.2}]}"}},
     .error = "interface.routes: the class has the route to 10.0.0.0/8 another way"},
    {.name = "route made on-link",
     .configs = {{FROM_CLASS, NULL, "{routes: [{to: 10.0.0.0/8, via: 192.0.2.1}]}"},
                 {FROM_CLAIM, NULL, "{routes: [{to: 10.0.0.0/8}]}"}},
     .error = "interface.routes: the class has the route to 10.0.0.0/8 another way"},
};

static void test_merges(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(merges); i++) {
        _cleanup_(vf_request_done) struct vf_request r = {0};
        _cleanup_err_ struct err e = ERR_INIT;
        char *before = NULL, *after;
        int rc = 0;

        for (size_t k = 0; k < ARRAY_SIZE(merges[i].configs) && rc == 0; k++) {
            free(before);
            before = request_text(&r);
            rc = merge(&r, merges[i].configs[k].source, merges[i].configs[k].settings,
                       merges[i].configs[k].interface, &e);
        }
        after = request_text(&r);
        if (merges[i].want && (rc < 0 || !streq(after, merges[i].want)))
            fail_msg("%s: %s %s", merges[i].name, after, rc < 0 ? err_text(&e) : "");
        if (merges[i].error) {
            if (rc >= 0)
                fail_msg("%s was taken", merges[i].name);
            assert_err_has(&e, merges[i].error);
            assert_string_equal(after, before);
        }
        free(before);
        free(after);
    }
}

/* What is written into a claim's record reads back as it was, and a newer release's fields pass. */
static void test_record(void **state)
{
    _cleanup_(vf_request_done) struct vf_request r = {0};
    _cleanup_(interface_request_done) struct interface_request back = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *o = doc(full);
    struct vf_settings settings = {0};

    (void)state;
    assert_ok(vf_request_merge(&r, FROM_CLASS, o, "x", &e), &e);
    json_auto_t *settings_json = vf_settings_json(&r.settings);
    assert_ok(vf_settings_parse(settings_json, NULL, false, &settings, &e), &e);
    for (unsigned bit = VF_SET_MAC; bit <= VF_SET_RATE; bit <<= 1)
        assert_true(vf_setting_equal(&settings, &r.settings, (enum vf_setting)bit));
    assert_int_equal(settings.set, r.settings.set);

    json_auto_t *stored = interface_request_json(&r.interface);
    assert_ok(interface_request_parse(stored, NULL, true, &back, &e), &e);
    json_auto_t *again = interface_request_json(&back);
    assert_true(json_equal(stored, again));
    interface_request_done(&back);

    doc_set(stored, "futureKnob", "1");
    doc_set(stored, "routes[0].futureKnob", "1");
    doc_set(stored, "sysctls", "{net.ipv4.x: '1'}");
    assert_ok(interface_request_parse(stored, NULL, false, &back, &e), &e);
    json_auto_t *tolerant = interface_request_json(&back);
    assert_true(json_equal(again, tolerant));
    assert_true(interface_request_parse(stored, NULL, true, &back, &e) < 0);
    json_auto_t *no_object = json_array();
    assert_true(interface_request_parse(no_object, NULL, false, &back, &e) < 0);
    assert_err_has(&e, "must be an object");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_broken_everywhere),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_merges),
        cmocka_unit_test(test_record),
    };

    return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
