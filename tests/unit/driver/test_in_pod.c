/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/in_pod.h"

#include "tests/unit/test.h"

/* A VF as it was found: enp1s0v3, MAC ...:02, VLAN 7, MTU 1500. `more` are other members. */
static struct record *record_with(const char *more)
{
    _cleanup_err_ struct err e = ERR_INIT;
    struct record *r = NULL;
    json_auto_t *doc = NULL;
    _cleanup_free_ char *text = xasprintf(
        "{\"version\":1,\"namespace\":\"default\",\"name\":\"c\",\"uid\":\"u\",\"state\":"
        "\"Prepared\",\"bootID\":\"b\",\"byKubelet\":true,\"pods\":[],\"devices\":[{"
        "\"request\":\"nic\",\"pool\":\"node1\",\"device\":\"0000-01-1f-6\","
        "\"vf\":\"0000:01:1f.6\",\"pf\":\"0000:01:00.0\",\"index\":3,\"poolDocument\":\"storage\","
        "\"original\":{\"name\":\"enp1s0v3\",\"mac\":\"52:54:00:00:00:02\","
        "\"adminMac\":\"00:00:00:00:00:00\",\"vlan\":7,\"mtu\":1500,\"up\":false},%s}]}",
        more);

    assert_ok(json_parse(text, strlen(text), &doc, &e), &e);
    assert_ok(record_parse(doc, &r, &e), &e);
    return r;
}

static void add_line(const char *name, const char *value, void *data)
{
    strbuf_printf(data, "%s=%s\n", name, value);
}

static const struct {
    const char *record, *env, *data;
} cases[] = {
    /* nothing asked: what the VF is */
    {"\"mode\":\"Prepare\",\"attach\":\"NRI\",\"settings\":{},\"interface\":{}",
     "PCI_ADDRESS=0000:01:1f.6\nREQUEST=nic\nMODE=Prepare\nSETUP_BY=Driver\nINTERFACE=enp1s0v3\n"
     "MAC=52:54:00:00:00:02\nVLAN=7\nMTU=1500\n",
     "{\"mode\":\"Prepare\",\"mtu\":1500,\"pf\":\"0000:01:00.0\",\"setupBy\":\"Driver\","
     "\"vf\":\"0000:01:1f.6\",\"vlan\":7}"},
    /* everything asked, of a prioritised list */
    {"\"mode\":\"Prepare\",\"attach\":\"NRI\",\"alternative\":\"slow\",\"choice\":2,\"choices\":2,"
     "\"settings\":{\"macAddress\":\"52:54:00:00:00:01\",\"vlan\":{\"id\":100,\"qos\":3},"
     "\"mtu\":1400,\"maxTxRateMbps\":10,\"spoofCheck\":false,\"trust\":true},"
     "\"interface\":{\"name\":\"net1\",\"mtu\":1300}",
     "PCI_ADDRESS=0000:01:1f.6\nREQUEST=nic\nALTERNATIVE=slow\nMODE=Prepare\nSETUP_BY=Driver\n"
     "INTERFACE=net1\nMAC=52:54:00:00:00:01\nVLAN=100\nMTU=1300\nSPOOF_CHECK=false\nTRUST=true\n"
     "MAX_TX_RATE_MBPS=10\n",
     "{\"alternative\":\"slow\",\"mode\":\"Prepare\",\"mtu\":1300,\"pf\":\"0000:01:00.0\","
     "\"setupBy\":\"Driver\",\"vf\":\"0000:01:1f.6\",\"vlan\":100}"},
    /* what the pool promises, of somebody else's */
    {"\"mode\":\"Skip\",\"attach\":\"NRI\",\"setupBy\":\"External\",\"settings\":{\"mtu\":1400,"
     "\"vlan\":{\"id\":0}},\"interface\":{\"name\":\"net1\"}",
     "PCI_ADDRESS=0000:01:1f.6\nREQUEST=nic\nMODE=Skip\nSETUP_BY=External\nINTERFACE=net1\n"
     "MAC=52:54:00:00:00:02\nVLAN=0\nMTU=1400\n",
     "{\"mode\":\"Skip\",\"mtu\":1400,\"pf\":\"0000:01:00.0\",\"setupBy\":\"External\","
     "\"vf\":\"0000:01:1f.6\",\"vlan\":0}"},
    /* not moved into the pod: no interface there, and none whose MTU was asked */
    {"\"mode\":\"Skip\",\"attach\":\"None\",\"setupBy\":\"Driver\",\"settings\":{},"
     "\"interface\":{\"mtu\":1300}",
     "PCI_ADDRESS=0000:01:1f.6\nREQUEST=nic\nMODE=Skip\nSETUP_BY=Driver\n"
     "MAC=52:54:00:00:00:02\nVLAN=7\nMTU=1500\n",
     "{\"mode\":\"Skip\",\"mtu\":1500,\"pf\":\"0000:01:00.0\",\"setupBy\":\"Driver\","
     "\"vf\":\"0000:01:1f.6\",\"vlan\":7}"},
};

static void test_env(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(record_freep) struct record *r = record_with(cases[i].record);
        _cleanup_(strbuf_done) struct strbuf got = {0}, want = {0};

        in_pod_env(&r->devices.v[0], add_line, &got);
        for (const char *line = cases[i].env; *line;) {
            size_t n = strcspn(line, "\n") + 1;

            strbuf_puts(&want, "SRIOV_DRA_0000_01_1F_6_");
            strbuf_add(&want, line, n);
            line += n;
        }
        assert_string_equal(got.s, want.s);
    }
}

static void test_data(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(record_freep) struct record *r = record_with(cases[i].record);
        json_auto_t *data = in_pod_data(&r->devices.v[0]);
        _cleanup_free_ char *text = json_text(data);

        assert_string_equal(text, cases[i].data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_env),
        cmocka_unit_test(test_data),
    };

    return cmocka_run_group_tests_name("in_pod", tests, NULL, NULL);
}
