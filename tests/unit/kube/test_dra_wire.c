/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DRA's messages as bytes. The byte strings that are called golden are Google's: protobuf for
 * Python 3.21.12, deterministic, with the classes that tests/wire/kubelet.py makes.
 */
#include "kube/dra_wire.h"

#include "base/str.h"
#include "proto/dra_v1.pb-c.h"
#include "proto/dra_v1beta1.pb-c.h"
#include "tests/unit/test.h"

#include <errno.h>

struct bytes {
    const char *p;
    size_t n;
};

#define BYTES(s)                                                                                   \
    {                                                                                              \
        s, sizeof(s) - 1                                                                           \
    }

/* clang-format off */
static const struct bytes golden_request = BYTES(
    "\n\x1d" "\n\x07" "default" "\x12\x0d" "7d1f3c1e-0001" "\x1a\x03" "nic"
    "\n\x0a" "\x12\x02" "u2" "\x1a\x04" "b\xc3\xa4" "r");

static const struct bytes golden_prepare = BYTES(
    "\n\x62" "\n\x02" "u1" "\x12\x5c"
        "\n\x3d" "\n\x03" "nic" "\x12\x06" "node-1" "\x1a\x0c" "0000-02-10-0"
            "\"\x20" "sriov-dra.dev/vf=u1-0000-02-10-0"
        "\n\x1b" "\n\x03" "nic" "\x12\x06" "node-1" "\x1a\x0c" "0000-02-10-2"
    "\n\x14" "\n\x02" "u2" "\x12\x0e" "\x12\x0c" "VLAN 100: no"
    "\n\x06" "\n\x02" "u3" "\x12\x00");

static const struct bytes golden_unprepare = BYTES(
    "\n\x06" "\n\x02" "u1" "\x12\x00"
    "\n\x12" "\n\x02" "u2" "\x12\x0c" "\n\x0a" "still away");

static const struct bytes golden_info = BYTES(
    "\n\x09" "DRAPlugin" "\x12\x0d" "sriov-dra.dev" "\x1a\x0b" "/k/dra.sock"
    "\"\x0c" "v1.DRAPlugin" "\"\x11" "v1beta1.DRAPlugin");
/* clang-format on */

/* The structs own their texts; packing doesn't write to them. */
#define S(literal) ((char *)(literal))

static void assert_bytes(const struct strbuf *b, const struct bytes *golden)
{
    assert_int_equal(b->len, golden->n);
    assert_memory_equal(b->s, golden->p, golden->n);
}

static void test_request(void **state)
{
    dra_claim_vec claims = {0};
    struct err e = ERR_INIT;

    (void)state;
    assert_ok(dra_wire_claims(golden_request.p, golden_request.n, &claims, &e), &e);
    assert_int_equal(claims.n, 2);
    assert_string_equal(claims.v[0].namespace, "default");
    assert_string_equal(claims.v[0].uid, "7d1f3c1e-0001");
    assert_string_equal(claims.v[0].name, "nic");
    assert_string_equal(claims.v[1].namespace, "");
    assert_string_equal(claims.v[1].uid, "u2");
    assert_string_equal(claims.v[1].name, "b\xc3\xa4r");
    dra_wire_claims_done(&claims);
    assert_ok(dra_wire_claims("", 0, &claims, &e), &e);
    assert_int_equal(claims.n, 0);
}

/* Each byte string, what it says, and how many claims are in it (-1: refused). */
static void test_odd_requests(void **state)
{
    static const struct {
        const char *what;
        struct bytes bytes;
        int claims;
        const char *error;
    } table[] = {
        /* clang-format off */
        {"the same claim twice", BYTES("\n\x07\n\x01n\x12\x02u1" "\n\x07\n\x01n\x12\x02u1"), 1, NULL},
        {"explicit empty texts", BYTES("\n\x08\n\x00\x12\x02u1\x1a\x00"), 1, NULL},
        {"a field twice, the last counts", BYTES("\n\x08\x12\x02u1\x12\x02u2"), 1, NULL},
        {"a length in more bytes than needed", BYTES("\n\x86\x00\x12\x83\x00uvw"), 1, NULL},
        {"unknown fields inside and outside",
         BYTES("\xa2\x06\x02\x00\xff" "\n\x08\x12\x02u1\xa2\x06\x01\x00" "\x98\x06\x00"), 1, NULL},
        {"one uid, two names", BYTES("\n\x07\n\x01n\x12\x02u1" "\n\x07\n\x01m\x12\x02u1"), -1, "one uid, u1"},
        {"no uid", BYTES("\n\x03\n\x01n"), -1, "claim 0 of the call (n/): no uid"},
        {"empty uid of the second", BYTES("\n\x04\x12\x02u1" "\n\x00"), -1, "claim 1"},
        {"NUL in the uid", BYTES("\n\x06\x12\x04u1\0x"), -1, "UTF-8"},
        {"NUL as the uid", BYTES("\n\x03\x12\x01\0"), -1, "UTF-8"},
        {"NUL at the end of the name", BYTES("\n\x07\x12\x02u1\x1a\x01\0"), -1, "UTF-8"},
        {"NUL in the namespace", BYTES("\n\x09\n\x03" "a\0b\x12\x02u1"), -1, "UTF-8"},
        {"a lone continuation byte", BYTES("\n\x03\x12\x01\x80"), -1, "UTF-8"},
        {"an overlong slash", BYTES("\n\x04\x12\x02\xc0\xaf"), -1, "UTF-8"},
        {"half a surrogate", BYTES("\n\x05\x12\x03\xed\xa0\x80"), -1, "UTF-8"},
        {"a cut sequence", BYTES("\n\x04\x12\x02u\xc3"), -1, "UTF-8"},
        {"a wrong wire type", BYTES("\x08\x01"), -1, "no request"},
        {"a text as a number", BYTES("\n\x02\x10\x01"), -1, "no request"},
        {"a cut message", BYTES("\n\x05\x12\x02u"), -1, "no request"},
        {"a group", BYTES("\x0b\x0c"), -1, "no request"},
        {"field 0", BYTES("\x02\x00"), -1, "no request"},
        /* clang-format on */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        /* On the heap, so that a read past the end is seen. */
        _cleanup_free_ char *bytes = xmemdup(table[i].bytes.p, table[i].bytes.n);
        dra_claim_vec claims = {0};
        struct err e = ERR_INIT;
        int r = dra_wire_claims(bytes, table[i].bytes.n, &claims, &e);

        if (table[i].claims < 0) {
            if (r != -EINVAL)
                fail_msg("%s: %d, %zu claims", table[i].what, r, claims.n);
            assert_err_has(&e, table[i].error);
            assert_int_equal(e.kind, ERR_USER);
        } else if (r < 0 || claims.n != (size_t)table[i].claims) {
            fail_msg("%s: %d, %zu claims, %s", table[i].what, r, claims.n, err_text(&e));
        }
        err_clear(&e);
        dra_wire_claims_done(&claims);
    }
}

/* Few bytes can't become much memory, and not more claims than a call may have. */
static void test_many_claims(void **state)
{
    static const struct {
        unsigned n;
        const char *error;
    } table[] = {
        {DRA_WIRE_MAX_CLAIMS, NULL},
        {DRA_WIRE_MAX_CLAIMS + 1, "1025 claims in one call"},
        {400000, "no request"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        struct strbuf b = {0};
        dra_claim_vec claims = {0};
        struct err e = ERR_INIT;

        for (unsigned k = 0; k < table[i].n; k++)
            strbuf_printf(&b, "\n\x08\x12\x06%06x", k);
        int r = dra_wire_claims(b.s, b.len, &claims, &e);
        assert_int_equal(r, table[i].error ? -EINVAL : 0);
        if (table[i].error)
            assert_err_has(&e, table[i].error);
        else
            assert_int_equal(claims.n, table[i].n);
        err_clear(&e);
        dra_wire_claims_done(&claims);
        strbuf_done(&b);
    }
}

/* The longest that Kubernetes allows: 1024 claims, names of 253 bytes, namespaces of 63. */
static void test_largest_call(void **state)
{
    char name[254], namespace[64];
    struct strbuf b = {0};
    dra_claim_vec claims = {0};
    struct err e = ERR_INIT;

    (void)state;
    memset(name, 'n', 253);
    memset(namespace, 's', 63);
    name[253] = namespace[63] = '\0';
    for (unsigned k = 0; k < DRA_WIRE_MAX_CLAIMS; k++)
        strbuf_printf(&b, "\n\xe7\x02\n\x3f%s\x12\x24%036x\x1a\xfd\x01%s", namespace, k, name);
    assert_ok(dra_wire_claims(b.s, b.len, &claims, &e), &e);
    assert_int_equal(claims.n, DRA_WIRE_MAX_CLAIMS);
    assert_string_equal(claims.v[1023].name, name);
    dra_wire_claims_done(&claims);
    strbuf_done(&b);
}

/* All prefixes and all one-byte changes of a good request: an answer of some kind, no more. */
static void test_damaged_requests(void **state)
{
    (void)state;
    for (size_t n = 0; n < golden_request.n; n++)
        for (int x = 0; x < 256; x++) {
            _cleanup_free_ char *bytes = xmemdup(golden_request.p, golden_request.n);
            dra_claim_vec claims = {0};
            size_t len = x == 0 ? n : golden_request.n;

            bytes[n] = (char)(bytes[n] ^ x);
            bytes = xrealloc(bytes, len ? len : 1, 1);
            if (dra_wire_claims(bytes, len, &claims, NULL) == 0)
                vec_foreach (c, &claims) {
                    _cleanup_free_ char *valid = str_utf8(c->uid);

                    assert_string_equal(c->uid, valid);
                    assert_int_not_equal(*c->uid, '\0');
                }
            dra_wire_claims_done(&claims);
        }
}

static void test_prepare_answer(void **state)
{
    struct dra_device devices[] = {
        {S("nic"), S("node-1"), S("0000-02-10-0"), S("sriov-dra.dev/vf=u1-0000-02-10-0")},
        {S("nic"), S("node-1"), S("0000-02-10-2"), NULL},
    };
    struct dra_result results[3] = {
        {.uid = S("u1"), .devices = {.v = devices, .n = 2}},
        {.uid = S("u2"), .error = S("VLAN 100: no")},
        {.uid = S("u3")},
    };
    struct strbuf b = {0};

    (void)state;
    dra_wire_results(true, results, 3, &b);
    assert_bytes(&b, &golden_prepare);
    strbuf_done(&b);
    dra_wire_results(true, NULL, 0, &b);
    assert_int_equal(b.len, 0);
    strbuf_done(&b);
}

static void test_unprepare_answer(void **state)
{
    struct dra_result results[2] = {{.uid = S("u1")}, {.uid = S("u2"), .error = S("still away")}};
    struct strbuf b = {0};

    (void)state;
    dra_wire_results(false, results, 2, &b);
    assert_bytes(&b, &golden_unprepare);
    strbuf_done(&b);
}

/* The kubelet's decoder refuses a whole message for one byte that isn't UTF-8. */
static void test_error_text_is_cleaned(void **state)
{
    struct dra_result r = {.uid = S("u"), .error = S("name \xff\xc3(\xe2\x82 \xe2\x82\xac")};
    struct strbuf b = {0};

    (void)state;
    dra_wire_results(false, &r, 1, &b);
    assert_non_null(memmem(b.s, b.len, "name ?\?(?\? \xe2\x82\xac", 14));
    strbuf_done(&b);
}

static void test_plugin_info(void **state)
{
    static const char *const versions[] = {"v1.DRAPlugin", "v1beta1.DRAPlugin", NULL};
    struct strbuf b = {0};

    (void)state;
    dra_wire_plugin_info("sriov-dra.dev", "/k/dra.sock", versions, &b);
    assert_bytes(&b, &golden_info);
    strbuf_done(&b);
}

static void test_registration_status(void **state)
{
    static const struct {
        struct bytes bytes;
        int code;
        bool ok;
        const char *error;
    } table[] = {
        {BYTES("\x08\x01"), 0, true, ""},
        {BYTES("\x12\x0cno \xe2\x80\x94 taken"), 0, false, "no \xe2\x80\x94 taken"},
        {BYTES(""), 0, false, ""},
        {BYTES("\x12\x02\xff!"), 0, false, "?!"},
        {BYTES("\x12\x05no"), -EINVAL, false, NULL},
        {BYTES("\xff"), -EINVAL, false, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        _cleanup_err_ struct err e = ERR_INIT;
        _cleanup_free_ char *error = NULL;
        bool ok = !table[i].ok;

        assert_int_equal(
            dra_wire_registration_status(table[i].bytes.p, table[i].bytes.n, &ok, &error, &e),
            table[i].code);
        assert_true(streq_null(error, table[i].error));
        if (table[i].code == 0)
            assert_int_equal(ok, table[i].ok);
    }
}

/* Our edit of upstream's file: a oneof of one field has the bytes and the presence of `optional`.
 */
static void test_share_id(void **state)
{
    static const struct {
        struct bytes golden;
        const char *share_id; /* NULL: absent */
    } table[] = {
        {BYTES("\x1a\x01"
               "d"),
         NULL},
        {BYTES("\x1a\x01"
               "d*\x00"),
         ""},
        {BYTES("\x1a\x01"
               "d*\x03"
               "abc"),
         "abc"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        K8s__Io__Kubelet__Pkg__Apis__Dra__V1__Device *d =
            k8s__io__kubelet__pkg__apis__dra__v1__device__unpack(
                NULL, table[i].golden.n, (const uint8_t *)table[i].golden.p);
        uint8_t again[16];

        assert_non_null(d);
        assert_int_equal(
            d->share_id_presence_case,
            table[i].share_id
                ? K8S__IO__KUBELET__PKG__APIS__DRA__V1__DEVICE__SHARE_ID_PRESENCE_SHARE_ID
                : K8S__IO__KUBELET__PKG__APIS__DRA__V1__DEVICE__SHARE_ID_PRESENCE__NOT_SET);
        if (table[i].share_id)
            assert_string_equal(d->share_id, table[i].share_id);
        assert_int_equal(k8s__io__kubelet__pkg__apis__dra__v1__device__pack(d, again),
                         table[i].golden.n);
        assert_memory_equal(again, table[i].golden.p, table[i].golden.n);
        k8s__io__kubelet__pkg__apis__dra__v1__device__free_unpacked(d, NULL);
    }
}

static void assert_same(const ProtobufCMessageDescriptor *a, const ProtobufCMessageDescriptor *b)
{
    for (unsigned i = 0; i < b->n_fields; i++) {
        const ProtobufCFieldDescriptor *f =
            protobuf_c_message_descriptor_get_field(a, b->fields[i].id);

        assert_non_null(f);
        assert_string_equal(f->name, b->fields[i].name);
        assert_int_equal(f->label, b->fields[i].label);
        assert_int_equal(f->type, b->fields[i].type);
        if (f->type == PROTOBUF_C_TYPE_MESSAGE)
            assert_same(f->descriptor, b->fields[i].descriptor);
    }
    if (streq(a->short_name, "Device")) {
        assert_int_equal(a->n_fields, b->n_fields + 1);
        assert_non_null(protobuf_c_message_descriptor_get_field_by_name(a, "share_id"));
    } else {
        assert_int_equal(a->n_fields, b->n_fields);
    }
}

/* What lets one set of functions serve both versions. */
static void test_versions_agree(void **state)
{
    (void)state;
#define SAME(name)                                                                                 \
    assert_same(&k8s__io__kubelet__pkg__apis__dra__v1__##name##__descriptor,                       \
                &k8s__io__kubelet__pkg__apis__dra__v1beta1__##name##__descriptor)
    SAME(node_prepare_resources_request);
    SAME(node_prepare_resources_response);
    SAME(node_unprepare_resources_request);
    SAME(node_unprepare_resources_response);
    /* And the two requests are alike. */
    assert_same(
        &k8s__io__kubelet__pkg__apis__dra__v1__node_prepare_resources_request__descriptor,
        &k8s__io__kubelet__pkg__apis__dra__v1__node_unprepare_resources_request__descriptor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request),          cmocka_unit_test(test_odd_requests),
        cmocka_unit_test(test_many_claims),      cmocka_unit_test(test_largest_call),
        cmocka_unit_test(test_damaged_requests), cmocka_unit_test(test_prepare_answer),
        cmocka_unit_test(test_unprepare_answer), cmocka_unit_test(test_error_text_is_cleaned),
        cmocka_unit_test(test_plugin_info),      cmocka_unit_test(test_registration_status),
        cmocka_unit_test(test_share_id),         cmocka_unit_test(test_versions_agree),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
