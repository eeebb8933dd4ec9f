/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/contract.h"

#include "tests/unit/driver/doc.h"

#include <stdio.h>

#define DRIVER "sriov-dra.dev"

/*
 * A node with two PFs of four VFs each: enp1s0 (0000:01:00.0) in pools by index, 0000:02:00.0
 * without a netdev in none.
 */
struct world {
    struct inventory inv;
    struct pools pools;
    json_t *labels;
    struct contract_input in;
};

static void world_done(struct world *w)
{
    vec_foreach (pf, &w->inv.pfs)
        free(pf->vfs.v);
    free(w->inv.pfs.v);
    pools_done(&w->pools);
    json_decref(w->labels);
}

static void add_pf(struct world *w, unsigned bus, char *netdev, uint32_t mtu)
{
    struct pf *pf = VEC_PUSH(&w->inv.pfs);

    snprintf(pf->address, sizeof(pf->address), "0000:%02x:00.0", bus);
    pf->netdev = netdev;
    pf->mtu = mtu;
    for (unsigned i = 0; i < 4; i++) {
        struct vf *vf = VEC_PUSH(&pf->vfs);

        snprintf(vf->address, sizeof(vf->address), "0000:%02x:10.%u", bus, 2 * i);
        vf->index = i;
    }
}

static void add_pool(struct world *w, const char *name, const char *spec)
{
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *o = doc("{apiVersion: sriov-dra.dev/v1alpha1, kind: VirtualFunctionPool,"
                         " metadata: {}}");

    json_object_set_new(json_object_get(o, "metadata"), "name", json_string(name));
    doc_set(o, "spec", spec);
    assert_ok(pool_parse(o, VEC_PUSH(&w->pools.pools), &e), &e);
}

static void world_init(struct world *w)
{
    static char netdev[] = "enp1s0";

    *w = (struct world){.labels = doc("{nic: fast}")};
    add_pf(w, 1, netdev, 9000);
    add_pf(w, 2, NULL, 0);
    add_pool(
        w, "elsewhere",
        "{functions: [{parent: {interface: enp1s0}}], nodeSelector: {matchLabels: {nic: slow}}}");
    add_pool(w, "prepare",
             "{functions: [{parent: {interface: enp1s0}, indexes: '0'}], mode: Prepare,"
             " provisioning: {by: Driver}, settings: {vlan: {id: 5}, trust: true}}");
    add_pool(w, "skip",
             "{functions: [{parent: {interface: enp1s0}, indexes: '1'}], mode: Skip,"
             " settings: {vlan: {id: 100, qos: 3}, mtu: 1500, spoofCheck: true}}");
    add_pool(w, "bare", "{functions: [{parent: {interface: enp1s0}, indexes: '2'}], attach: None}");
    w->in = (struct contract_input){
        .inv = &w->inv,
        .pools = &w->pools,
        .node = "node-1",
        .pool_name = "node-1",
        .labels = w->labels,
    };
}

/* One device of the claim, and the opaque configuration for its request. */
struct want {
    const char *request, *device;
    const char *class, *claim; /* the members of a VirtualFunctionConfig, or NULL */
};

static void add_config(json_t *list, const char *request, const char *source, const char *members)
{
    if (!members)
        return;
    _cleanup_free_ char *yaml =
        xasprintf("{source: %s, requests: [%s], opaque: {driver: " DRIVER ", parameters: "
                  "{apiVersion: sriov-dra.dev/v1alpha1, kind: VirtualFunctionConfig, %s}}}",
                  source, request, members);
    json_array_append_new(list, doc(yaml));
}

static void allocate(const struct want *wants, size_t n, const char *pool, struct allocation *ret)
{
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *claim = doc("{metadata: {namespace: default, name: c, uid: u},"
                             " status: {allocation: {devices: {results: [], config: []}}}}");
    json_t *results = json_at(claim, "status.allocation.devices.results");
    json_t *config = json_at(claim, "status.allocation.devices.config");

    for (size_t i = 0; i < n && wants[i].request; i++) {
        _cleanup_free_ char *yaml =
            xasprintf("{request: %s, driver: " DRIVER ", pool: %s, device: '%s'}", wants[i].request,
                      pool, wants[i].device);
        json_array_append_new(results, doc(yaml));
        add_config(config, wants[i].request, "FromClass", wants[i].class);
        add_config(config, wants[i].request, "FromClaim", wants[i].claim);
    }
    assert_ok(allocation_read(claim, DRIVER, "u", ret, &e), &e);
}

static void test_names(void **state)
{
    static const struct {
        const char *address, *name;
    } cases[] = {
        {"0000:01:10.0", "0000-01-10-0"},
        {"10001:80:05.7", "10001-80-05-7"},
        {"ffffffff:ff:1f.7", "ffffffff-ff-1f-7"},
    };
    static const char *const bad[] = {"",
                                      "0",
                                      "0000-01-10",
                                      "0000-01-10-8",
                                      "gpu-0",
                                      "0000-0A-10-0",
                                      "0000:01:10.0",
                                      "0000-01-10.0",
                                      "00000-01-10-0",
                                      "0000-01-20-0",
                                      "0000-01-10-0 ",
                                      "-00",
                                      "0000000000000-0000-01-10-0",
                                      "00000000000-0000-01-10-0"};
    char name[DEVICE_NAME_SIZE], address[PCI_ADDRESS_SIZE] = "untouched";

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        if (device_address(bad[i], address) || !streq(address, "untouched"))
            fail_msg("\"%s\" was taken for %s", bad[i], address);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        device_name(cases[i].address, name);
        assert_string_equal(name, cases[i].name);
        assert_true(device_address(name, address));
        assert_string_equal(address, cases[i].address);
    }
}

static void test_prepare(void **state)
{
    const struct want wants[] = {{"r/sub", "0000-01-10-0", "settings: {trust: false, mtu: 1500}",
                                  "settings: {vlan: {id: 100}}, interface: {name: net1, mtu: 1400, "
                                  "addresses: [192.0.2.10/24], routes: [{to: default, via: "
                                  "192.0.2.1}]}"}};
    _cleanup_(world_done) struct world w;
    _cleanup_(allocation_done) struct allocation a = {0};
    _cleanup_(grant_vec_done) grant_vec grants = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    world_init(&w);
    allocate(wants, 1, "node-1", &a);
    assert_ok(contract_decide(&w.in, &a, &grants, &e), &e);
    assert_int_equal(grants.n, 1);

    const struct grant *g = &grants.v[0];
    assert_string_equal(g->request, "r");
    assert_string_equal(g->pool, "node-1");
    assert_string_equal(g->device, "0000-01-10-0");
    assert_string_equal(g->vf_address, "0000:01:10.0");
    assert_string_equal(g->pf_address, "0000:01:00.0");
    assert_int_equal(g->index, 0);
    assert_string_equal(g->pool_document, "prepare");
    assert_int_equal(g->mode, MODE_PREPARE);
    assert_int_equal(g->attach, ATTACH_NRI);
    assert_true(g->may_raise_pf);
    assert_null(g->share_id);
    assert_null(g->alternative); /* the claim's spec has no such list */
    assert_int_equal(g->set_up_by, PROVISIONED_BY_DRIVER);
    /* the pool's defaults below, the claim's VLAN over them */
    assert_int_equal(g->settings.set, VF_SET_VLAN | VF_SET_TRUST | VF_SET_MTU);
    assert_int_equal(g->settings.vlan_id, 100);
    assert_int_equal(g->settings.mtu, 1500);
    assert_false(g->settings.trust);
    assert_string_equal(g->interface.name, "net1");
    assert_int_equal(g->interface.mtu, 1400);
    assert_int_equal(g->interface.addrs.n, 1);
    assert_int_equal(g->interface.routes.n, 1);
    /* its own copies: the claim may go first */
    assert_ptr_not_equal(g->interface.addrs.v, a.devices.v[0].asked.interface.addrs.v);
}

static void test_skip(void **state)
{
    const struct want wants[] = {{"r", "0000-01-10-2", "settings: {spoofCheck: true}",
                                  "settings: {vlan: {id: 100, qos: 3}}, interface: {mtu: 1500, "
                                  "addresses: ['2001:db8::1/64'], name: net1}"}};
    _cleanup_(world_done) struct world w;
    _cleanup_(allocation_done) struct allocation a = {0};
    _cleanup_(grant_vec_done) grant_vec grants = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    world_init(&w);
    allocate(wants, 1, "node-1", &a);
    assert_ok(contract_decide(&w.in, &a, &grants, &e), &e);
    assert_int_equal(grants.v[0].mode, MODE_SKIP);
    assert_int_equal(grants.v[0].set_up_by, PROVISIONED_EXTERNALLY);
    assert_false(grants.v[0].may_raise_pf);
    /* all of the pool's, not only what was asked: it is what is verified and restored */
    assert_int_equal(grants.v[0].settings.set, VF_SET_VLAN | VF_SET_MTU | VF_SET_SPOOFCHK);
    assert_int_equal(grants.v[0].settings.mtu, 1500);
    assert_string_equal(grants.v[0].interface.name, "net1");
}

static void test_alternative(void **state)
{
    const struct want wants[] = {{"r/second", "0000-01-10-2", NULL, NULL},
                                 {"s", "0000-01-10-4", NULL, NULL}};
    _cleanup_(world_done) struct world w;
    _cleanup_(allocation_done) struct allocation a = {0};
    _cleanup_(grant_vec_done) grant_vec grants = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    world_init(&w);
    allocate(wants, 2, "node-1", &a);
    a.devices.v[0].choice = 2;
    a.devices.v[0].choices = 3;
    assert_ok(contract_decide(&w.in, &a, &grants, &e), &e);
    assert_string_equal(grants.v[0].request, "r");
    assert_string_equal(grants.v[0].alternative, "second");
    assert_int_equal(grants.v[0].choice, 2);
    assert_int_equal(grants.v[0].choices, 3);
    assert_null(grants.v[1].alternative);
    /* "bare" is External, but that is about its PF: in Prepare each VF is set up by us */
    assert_int_equal(grants.v[1].set_up_by, PROVISIONED_BY_DRIVER);
}

static void test_several(void **state)
{
    const struct want wants[] = {
        {"a", "0000-01-10-0", NULL,
         "settings: {macAddress: '52:54:00:00:00:01'}, interface: "
         "{name: net1, addresses: [192.0.2.1/24]}"},
        {"b", "0000-01-10-2", NULL, "interface: {name: net2, addresses: [192.0.2.2/24]}"},
        {"c", "0000-01-10-4", NULL, "settings: {macAddress: '52:54:00:00:00:02'}"},
    };
    _cleanup_(world_done) struct world w;
    _cleanup_(allocation_done) struct allocation a = {0};
    _cleanup_(grant_vec_done) grant_vec grants = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    world_init(&w);
    allocate(wants, 3, "node-1", &a);
    assert_ok(contract_decide(&w.in, &a, &grants, &e), &e);
    assert_int_equal(grants.n, 3);
    assert_int_equal(grants.v[2].attach, ATTACH_NONE);
    assert_int_equal(grants.v[2].settings.set, VF_SET_MAC);
}

#define P "0000-01-10-0"
#define S "0000-01-10-2"
#define N "0000-01-10-4"

/* The list that was copied at allocation, and the pool's mode of today. */
static void test_mode_changed(void **state)
{
    static const struct {
        const char *device;
        bool skip_prepare, skip_unprepare, granted;
    } rows[] = {
        {P, false, false, true}, {P, false, true, true}, /* DeferCleanup: Prepare sets up, and has
                                                            been or is called */
        {P, true, true, false},  {N, true, true, false}, /* nothing is moved there, and what is
                                                            promised holds too */
        {S, true, true, true},   {S, false, false, true}, {S, false, true, true},
    };
    _cleanup_(world_done) struct world w;

    (void)state;
    world_init(&w);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct want wants[] = {{"r", rows[i].device, NULL, NULL}};
        _cleanup_(allocation_done) struct allocation a = {0};
        _cleanup_(grant_vec_done) grant_vec grants = {0};
        _cleanup_err_ struct err e = ERR_INIT;

        allocate(wants, 1, "node-1", &a);
        a.devices.v[0].skip_prepare = rows[i].skip_prepare;
        a.devices.v[0].skip_unprepare = rows[i].skip_unprepare;
        if ((contract_decide(&w.in, &a, &grants, &e) == 0) != rows[i].granted)
            fail_msg("row %zu: %s", i, e.code ? err_text(&e) : "granted");
        if (!rows[i].granted) {
            assert_int_equal(e.kind, ERR_USER);
            assert_non_null(strstr(err_text(&e), "has mode Prepare by now"));
        }
    }
}

/* The refusal, or NULL: it is granted. */
static const struct {
    const char *name;
    struct want wants[2];
    const char *error;
} cases[] = {
    {"nothing asked", {{"r", P, NULL, NULL}}, NULL},
    {"no name of ours",
     {{"r", "gpu-0", NULL, NULL}},
     "claim default/c: request r: device gpu-0: the name isn't one of this driver's devices"},
    {"gone",
     {{"r", "0000-01-11-0", NULL, NULL}},
     "device 0000-01-11-0: there is no VF at 0000:01:11.0 on this node"},
    {"a PF", {{"r", "0000-01-00-0", NULL, NULL}}, "there is no VF at 0000:01:00.0"},
    {"in no pool, of a PF with a name",
     {{"r", "0000-01-10-6", NULL, NULL}},
     "VF 0000:01:10.6 (index 3 of enp1s0) is in no VirtualFunctionPool of this node"},
    {"in no pool, of a PF without",
     {{"r", "0000-02-10-0", NULL, NULL}},
     "VF 0000:02:10.0 (index 0 of 0000:02:00.0) is in no VirtualFunctionPool"},

    {"VLAN of the pool", {{"r", S, NULL, "settings: {vlan: {id: 100, qos: 3}}"}}, NULL},
    {"another VLAN",
     {{"r", S, NULL, "settings: {vlan: {id: 200}}"}},
     "claim default/c: request r: device " S
     ": settings.vlan 200 is asked for, but VF 0000:01:10.2 "
     "(index 1 of enp1s0) was provisioned beforehand and pool skip says 100 (qos 3)"},
    {"it names the way out",
     {{"r", S, NULL, "settings: {vlan: {id: 200}}"}},
     "one that selects mode \"Prepare\""},
    {"another QoS", {{"r", S, NULL, "settings: {vlan: {id: 100}}"}}, "settings.vlan 100 is asked"},
    {"no VLAN", {{"r", S, NULL, "settings: {vlan: {id: 0}}"}}, "settings.vlan 0 is asked for"},
    {"a MAC",
     {{"r", S, NULL, "settings: {macAddress: '52:54:00:00:00:01'}"}},
     "settings.macAddress 52:54:00:00:00:01 is asked for, but VF 0000:01:10.2 (index 1 of enp1s0) "
     "was provisioned beforehand and pool skip says not set"},
    {"a rate", {{"r", S, NULL, "settings: {maxTxRateMbps: 1}"}}, "settings.maxTxRateMbps 1 is"},
    {"another MTU", {{"r", S, NULL, "settings: {mtu: 1400}"}}, "settings.mtu 1400 is asked for"},
    {"trust of a class",
     {{"r", S, "settings: {trust: false}", NULL}},
     "settings.trust false is asked for, but"},
    {"other spoof checking",
     {{"r", S, "settings: {spoofCheck: false}", NULL}},
     "settings.spoofCheck false is asked for, but"},
    {"trust where the pool says nothing",
     {{"r", S, "settings: {trust: true}", NULL}},
     "settings.trust true is asked for, but"},
    {"what the pool has instead",
     {{"r", S, "settings: {spoofCheck: false}", NULL}},
     "pool skip says true;"},
    {"any of it in Prepare",
     {{"r", P, "settings: {trust: false, spoofCheck: false}",
       "settings: {vlan: {id: 200}, macAddress: '52:54:00:00:00:01', maxTxRateMbps: 1}"}},
     NULL},

    {"an attachment's name in Skip", {{"r", S, NULL, "interface: {name: net1}"}}, NULL},
    {"an MTU above the VF's",
     {{"r", S, NULL, "interface: {mtu: 1501}"}},
     "interface.mtu 1501 is above the 1500 that VF 0000:01:10.2 has"},
    {"an MTU below it", {{"r", S, NULL, "interface: {mtu: 1400}"}}, NULL},
    {"an MTU above that asked",
     {{"r", P, NULL, "settings: {mtu: 4000}, interface: {mtu: 4001}"}},
     "interface.mtu 4001 is above the 4000 that VF 0000:01:10.0 has"},
    {"an MTU above the PF's",
     {{"r", P, NULL, "interface: {mtu: 9001}"}},
     "interface.mtu 9001 is above the 9000 that its PF enp1s0 has"},
    {"an MTU of the PF's", {{"r", P, NULL, "interface: {mtu: 9000}"}}, NULL},
    {"IPv6 on a small MTU",
     {{"r", P, NULL, "interface: {mtu: 1279, addresses: ['2001:db8::1/64']}"}},
     "interface.mtu 1279 is below the 1280 that IPv6 needs"},
    {"IPv6 on a small MTU of the VF",
     {{"r", P, NULL, "settings: {mtu: 1000}, interface: {routes: [{to: '2001:db8::/32'}]}"}},
     "settings.mtu 1000 is below the 1280 that IPv6 needs"},
    {"IPv4 on it", {{"r", P, NULL, "interface: {mtu: 68, addresses: [192.0.2.1/24]}"}}, NULL},
    {"IPv6 on enough",
     {{"r", P, NULL, "interface: {mtu: 1280, addresses: ['2001:db8::1/64']}"}},
     NULL},

    {"a name where nothing is attached",
     {{"r", N, NULL, "interface: {name: net1}"}},
     "interface.name is asked for, but the VFs of pool bare are not moved into pods (attach: "
     "None)"},
    {"an MTU there", {{"r", N, NULL, "interface: {mtu: 1400}"}}, "interface.mtu is asked for, but"},
    {"addresses there",
     {{"r", N, NULL, "interface: {addresses: [192.0.2.1/24]}"}},
     "interface.addresses is asked for, but"},
    {"routes there",
     {{"r", N, NULL, "interface: {routes: [{to: 10.0.0.0/8}]}"}},
     "interface.routes is asked for, but"},
    {"settings there", {{"r", N, NULL, "settings: {vlan: {id: 7}}, interface: {}"}}, NULL},

    {"a gateway beyond",
     {{"r", P, NULL,
       "interface: {addresses: [192.0.2.10/24], "
       "routes: [{to: default, via: 192.0.3.1}]}"}},
     "interface.routes: the gateway 192.0.3.1 of the route to 0.0.0.0/0 can't be reached"},
    {"a gateway without addresses",
     {{"r", P, NULL, "interface: {routes: [{to: 10.0.0.0/8, via: 192.0.2.1}]}"}},
     "the gateway 192.0.2.1 of the route to 10.0.0.0/8 can't be reached"},
    {"a gateway by an on-link route",
     {{"r", P, NULL,
       "interface: {addresses: [192.0.2.10/32], routes: "
       "[{to: 192.0.3.1/32}, {to: default, via: 192.0.3.1}]}"}},
     NULL},
    {"a gateway by a class's address",
     {{"r", P, "interface: {addresses: [192.0.2.10/24]}",
       "interface: {routes: [{to: default, via: 192.0.2.1}]}"}},
     NULL},
    {"a link-local gateway",
     {{"r", P, NULL, "interface: {routes: [{to: '::/0', via: 'fe80::1'}]}"}},
     NULL},
    {"a gateway far up in the network",
     {{"r", P, NULL,
       "interface: {addresses: [192.0.2.10/24], routes: [{to: default, via: 192.0.2.200}]}"}},
     NULL},
    {"a gateway far down in it",
     {{"r", P, NULL,
       "interface: {addresses: [192.0.2.200/24], routes: [{to: default, via: 192.0.2.1}]}"}},
     NULL},
    {"almost a link-local gateway",
     {{"r", P, NULL, "interface: {routes: [{to: '::/0', via: 'fec0::1'}]}"}},
     "can't be reached"},
    {"a gateway with a link-local's second byte",
     {{"r", P, NULL, "interface: {routes: [{to: '::/0', via: '2080::1'}]}"}},
     "can't be reached"},
    {"a gateway with a link-local's second byte, IPv4",
     {{"r", P, NULL, "interface: {routes: [{to: default, via: 192.168.0.1}]}"}},
     "can't be reached"},
    {"another family's network",
     {{"r", P, NULL,
       "interface: {addresses: [192.0.2.10/24], "
       "routes: [{to: '::/0', via: '2001:db8::1'}]}"}},
     "can't be reached"},
    {"a host as its own gateway",
     {{"r", P, NULL,
       "interface: {addresses: [192.0.2.10/24], "
       "routes: [{to: default, via: 192.0.2.10}]}"}},
     "is the interface's own address"},

    {"a name twice",
     {{"a", P, NULL, "interface: {name: net1}"}, {"b", S, NULL, "interface: {name: net1}"}},
     "claim default/c: interface.name net1 would be used twice, for device " P " (request a) and "
     "device " S " (request b)"},
    {"a MAC twice",
     {{"a", P, NULL, "settings: {macAddress: '52:54:00:00:00:0a'}"},
      {"b", N, NULL, "settings: {macAddress: '52:54:00:00:00:0A'}"}},
     "settings.macAddress 52:54:00:00:00:0a would be used twice"},
    {"an address twice",
     {{"a", P, NULL, "interface: {addresses: [192.0.2.10/24]}"},
      {"b", S, NULL, "interface: {addresses: [192.0.2.10/25]}"}},
     "interface.addresses 192.0.2.10/24 would be used twice"},
    {"a device twice",
     {{"a", P, NULL, NULL}, {"b", P, NULL, NULL}},
     "claim default/c: device " P " is allocated twice"},
    {"no names twice", {{"a", P, NULL, NULL}, {"b", S, NULL, NULL}}, NULL},
    {"the second one's fault",
     {{"a", P, NULL, NULL}, {"b", S, NULL, "settings: {mtu: 100}"}},
     "claim default/c: request b: device " S},
};

static void test_cases(void **state)
{
    _cleanup_(world_done) struct world w;

    (void)state;
    world_init(&w);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(allocation_done) struct allocation a = {0};
        _cleanup_(grant_vec_done) grant_vec grants = {0};
        _cleanup_err_ struct err e = ERR_INIT;

        allocate(cases[i].wants, ARRAY_SIZE(cases[i].wants), "node-1", &a);
        int r = contract_decide(&w.in, &a, &grants, &e);
        if (!cases[i].error) {
            if (r < 0)
                fail_msg("%s: %s", cases[i].name, err_text(&e));
            continue;
        }
        if (r >= 0)
            fail_msg("%s was granted", cases[i].name);
        assert_err_has(&e, cases[i].error);
        assert_null(grants.v);
    }
}

/* One request of count 2 has one configuration, so its name and MAC would be used twice. */
static void test_count(void **state)
{
    const struct want wants[] = {{"r", P, NULL, "interface: {name: net1}"}, {"r", N, NULL, NULL}};
    _cleanup_(world_done) struct world w;
    _cleanup_(allocation_done) struct allocation a = {0};
    _cleanup_(grant_vec_done) grant_vec grants = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    world_init(&w);
    w.pools.pools.v[3].attach = ATTACH_NRI;
    allocate(wants, 2, "node-1", &a);
    assert_true(contract_decide(&w.in, &a, &grants, &e) < 0);
    assert_err_has(&e, "interface.name net1 would be used twice");
    assert_err_has(&e, "count 1");
}

static void test_not_this_node(void **state)
{
    const struct want wants[] = {{"r", P, NULL, NULL}};
    _cleanup_(world_done) struct world w;
    _cleanup_(allocation_done) struct allocation a = {0};
    _cleanup_(grant_vec_done) grant_vec grants = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    world_init(&w);
    allocate(wants, 1, "node-2", &a);
    assert_true(contract_decide(&w.in, &a, &grants, &e) < 0);
    assert_err_has(&e, "is of pool node-2, but this node's is node-1");

    allocation_done(&a);
    allocate(wants, 1, "node-1", &a);
    a.devices.v[0].admin_access = true;
    assert_true(contract_decide(&w.in, &a, &grants, &e) < 0);
    assert_err_has(&e, "admin access can't be given");
    assert_null(grants.v);
}

/* A PF whose MTU isn't known limits nothing here; the kernel still does. */
static void test_unknown_mtu(void **state)
{
    const struct want wants[] = {{"r", "0000-02-10-0", NULL, "interface: {mtu: 9600}"}};
    _cleanup_(world_done) struct world w;
    _cleanup_(allocation_done) struct allocation a = {0};
    _cleanup_(grant_vec_done) grant_vec grants = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    world_init(&w);
    add_pool(&w, "second", "{functions: [{parent: {pciAddress: '0000:02:00.0'}}]}");
    allocate(wants, 1, "node-1", &a);
    assert_ok(contract_decide(&w.in, &a, &grants, &e), &e);
    assert_string_equal(grants.v[0].pool_document, "second");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),        cmocka_unit_test(test_prepare),
        cmocka_unit_test(test_skip),         cmocka_unit_test(test_several),
        cmocka_unit_test(test_mode_changed), cmocka_unit_test(test_cases),
        cmocka_unit_test(test_count),        cmocka_unit_test(test_not_this_node),
        cmocka_unit_test(test_unknown_mtu),  cmocka_unit_test(test_alternative),
    };

    return cmocka_run_group_tests_name("contract", tests, NULL, NULL);
}
