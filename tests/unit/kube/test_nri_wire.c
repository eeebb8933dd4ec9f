/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/nri_wire.h"

#include "proto/nri.pb-c.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>

/* Bytes by hand: RunPodSandboxRequest, and StateChangeEvent{RUN} with the pod in field 2. */
#define POD_LINUX "\x42\x11\x2a\x0f\x0a\7network\x12\4/n/1"
#define POD       "\x0a\2p1\x12\4name\x1a\1u\x22\2ns" POD_LINUX "\x48\x2a"
#define POD_LEN   "\x26"

static void test_run_golden(void **state)
{
    static const struct {
        const char *method, *bytes;
    } cases[] = {
        {"RunPodSandbox", "\x0a" POD_LEN POD},
        {"StateChange", "\x08\1\x12" POD_LEN POD},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(nri_wire_event_done) struct nri_wire_event ev = {0};

        assert_int_equal(
            nri_wire_read_event(cases[i].method, cases[i].bytes, strlen(cases[i].bytes), &ev, NULL),
            1);
        assert_int_equal(ev.event, NRI_RUN_SANDBOX);
        assert_string_equal(ev.pod.id, "p1");
        assert_string_equal(ev.pod.name, "name");
        assert_string_equal(ev.pod.uid, "u");
        assert_string_equal(ev.pod.namespace, "ns");
        assert_string_equal(ev.pod.netns, "/n/1");
        assert_int_equal(ev.pod.pid, 42);
        assert_null(ev.container.id);
    }
}

static void test_which_event(void **state)
{
    static const struct {
        const char *method;
        const char *bytes;
        size_t n;
        int result;
        enum nri_event event;
        const char *text;
    } cases[] = {
        {"RunPodSandbox", "\x0a\3\x0a\1p", 5, 1, NRI_RUN_SANDBOX, NULL},
        {"StopPodSandbox", "\x0a\3\x0a\1p", 5, 1, NRI_STOP_SANDBOX, NULL},
        {"RemovePodSandbox", "\x0a\3\x0a\1p", 5, 1, NRI_REMOVE_SANDBOX, NULL},
        {"CreateContainer", "\x0a\3\x0a\1p\x12\3\x0a\1c", 10, 1, NRI_CREATE_CONTAINER, NULL},
        {"StateChange", "\x08\1\x12\3\x0a\1p", 7, 1, NRI_RUN_SANDBOX, NULL},
        {"StateChange", "\x08\2\x12\3\x0a\1p", 7, 1, NRI_STOP_SANDBOX, NULL},
        {"StateChange", "\x08\3\x12\3\x0a\1p", 7, 1, NRI_REMOVE_SANDBOX, NULL},
        /* events that we haven't asked for, known or to come */
        {"StateChange", "\x08\4\x12\3\x0a\1p", 7, 0, 0, NULL},
        {"StateChange", "\x08\6\x12\3\x0a\1p", 7, 0, 0, NULL},
        {"StateChange", "\x08\x7f\x12\3\x0a\1p", 7, 0, 0, NULL},
        {"StateChange", "", 0, 0, 0, NULL},
        /* what lacks its subject, or isn't the message */
        {"RunPodSandbox", "", 0, -EINVAL, 0, "no pod"},
        {"RunPodSandbox", "\x0a\0", 2, -EINVAL, 0, "without id"},
        {"StateChange", "\x08\1", 2, -EINVAL, 0, "no pod"},
        {"CreateContainer", "\x0a\3\x0a\1p", 5, -EINVAL, 0, "no container"},
        {"CreateContainer", "\x0a\3\x0a\1p\x12\0", 7, -EINVAL, 0, "container without id"},
        {"CreateContainer", "\x12\3\x0a\1c", 5, -EINVAL, 0, "no pod"},
        {"RunPodSandbox", "\x0a\x7f", 2, -EINVAL, 0, "RunPodSandbox"},
        {"StateChange", "\x0a", 1, -EINVAL, 0, "StateChange"},
        {"CreateContainer", "\xff", 1, -EINVAL, 0, "CreateContainer"},
        {"StartContainer", "", 0, -ENOSYS, 0, "StartContainer"},
        {"", "", 0, -ENOSYS, 0, "method"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(nri_wire_event_done) struct nri_wire_event ev = {0};
        _cleanup_err_ struct err e = ERR_INIT;
        int r = nri_wire_read_event(cases[i].method, cases[i].bytes, cases[i].n, &ev, &e);

        if (r != cases[i].result)
            fail_msg("case %zu: %d", i, r);
        if (r == 1)
            assert_int_equal(ev.event, cases[i].event);
        if (r == 1 && ev.event == NRI_CREATE_CONTAINER)
            assert_string_equal(ev.container.id, "c");
        if (r < 0)
            assert_err_has(&e, cases[i].text);
    }
}

static void test_netns(void **state)
{
    static const struct {
        const char *types[3], *paths[3];
        const char *netns;
    } cases[] = {
        {{NULL}, {NULL}, NULL},
        {{"ipc", "uts"}, {"/i", "/u"}, NULL},
        {{"ipc", "network"}, {"/i", "/var/run/netns/x"}, "/var/run/netns/x"},
        {{"network"}, {""}, NULL},
        {{"network", "pid"}, {"/proc/7/ns/net", "/p"}, "/proc/7/ns/net"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        Nri__Pkg__Api__V1alpha1__RunPodSandboxRequest m =
            NRI__PKG__API__V1ALPHA1__RUN_POD_SANDBOX_REQUEST__INIT;
        Nri__Pkg__Api__V1alpha1__PodSandbox pod = NRI__PKG__API__V1ALPHA1__POD_SANDBOX__INIT;
        Nri__Pkg__Api__V1alpha1__LinuxPodSandbox lin =
            NRI__PKG__API__V1ALPHA1__LINUX_POD_SANDBOX__INIT;
        Nri__Pkg__Api__V1alpha1__LinuxNamespace ns[3], *list[3];
        char id[] = "p";
        uint8_t bytes[256];

        for (; lin.n_namespaces < 3 && cases[i].types[lin.n_namespaces]; lin.n_namespaces++) {
            size_t k = lin.n_namespaces;

            nri__pkg__api__v1alpha1__linux_namespace__init(&ns[k]);
            ns[k].type = (char *)(uintptr_t)cases[i].types[k];
            ns[k].path = (char *)(uintptr_t)cases[i].paths[k];
            list[k] = &ns[k];
        }
        lin.namespaces = list;
        pod.id = id;
        pod.linux = i == 0 ? NULL : &lin;
        m.pod = &pod;

        _cleanup_(nri_wire_event_done) struct nri_wire_event ev = {0};
        size_t n = protobuf_c_message_pack(&m.base, bytes);

        assert_int_equal(nri_wire_read_event("RunPodSandbox", bytes, n, &ev, NULL), 1);
        if (cases[i].netns)
            assert_string_equal(ev.pod.netns, cases[i].netns);
        else
            assert_null(ev.pod.netns);
    }
}

/* A part that fails leaves what the parts before it gave. */
static void test_synchronize(void **state)
{
    static const char first[] = "\x0a\3\x0a\1a\x12\x0e\x0a\2c1\x12\1a\x1a\3net\x20\3\x18\1",
                      bad[] = "\x0a\3\x0a\1b\x12\3\x0a\1c\x12\0", last[] = "\x0a\3\x0a\1d";
    _cleanup_(nri_pods_done) nri_pod_vec pods = {0};
    _cleanup_(nri_containers_done) nri_container_vec containers = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    bool more = false;

    (void)state;
    assert_ok(nri_wire_read_synchronize(first, sizeof(first) - 1, &pods, &containers, &more, &e),
              &e);
    assert_true(more);
    assert_int_equal(nri_wire_read_synchronize(bad, sizeof(bad) - 1, &pods, &containers, &more, &e),
                     -EINVAL);
    assert_err_has(&e, "container without id");
    assert_int_equal(pods.n, 1);
    assert_int_equal(containers.n, 1);
    assert_ok(nri_wire_read_synchronize(last, sizeof(last) - 1, &pods, &containers, &more, &e), &e);
    assert_false(more);
    assert_int_equal(pods.n, 2);
    assert_string_equal(pods.v[0].id, "a");
    assert_string_equal(pods.v[1].id, "d");
    assert_string_equal(containers.v[0].id, "c1");
    assert_string_equal(containers.v[0].sandbox_id, "a");
    assert_string_equal(containers.v[0].name, "net");
    assert_int_equal(containers.v[0].state, 3);
}

static void test_synchronize_limit(void **state)
{
    _cleanup_(nri_pods_done) nri_pod_vec pods = {0};
    _cleanup_(nri_containers_done) nri_container_vec containers = {0};
    _cleanup_(strbuf_done) struct strbuf many = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    bool more;

    (void)state;
    for (unsigned i = 0; i < NRI_SYNC_MAX; i++)
        strbuf_add(&many, "\x0a\3\x0a\1a", 5);
    assert_ok(nri_wire_read_synchronize(many.s, many.len, &pods, &containers, &more, &e), &e);
    assert_int_equal(nri_wire_read_synchronize("\x12\3\x0a\1c", 5, &pods, &containers, &more, &e),
                     -E2BIG);
    assert_int_equal(pods.n, NRI_SYNC_MAX);
}

static void test_configure(void **state)
{
    static const char full[] = "\x0a\1x\x12\5cri-o\x1a\4"
                               "1.36\x20\x88\x27\x28\xd0\x0f\x32\5v0.11";
    _cleanup_(nri_hello_done) struct nri_hello h = {0}, old = {0};

    (void)state;
    assert_ok(nri_wire_read_configure(full, sizeof(full) - 1, &h, NULL), NULL);
    assert_string_equal(h.runtime, "cri-o");
    assert_string_equal(h.version, "1.36");
    assert_string_equal(h.nri_version, "v0.11");
    assert_int_equal(h.request_timeout_ms, 2000);
    assert_ok(nri_wire_read_configure("", 0, &old, NULL), NULL);
    assert_string_equal(old.runtime, "");
    assert_int_equal(old.request_timeout_ms, 0);
}

static void test_put_golden(void **state)
{
    static const char registered[] = "\x0a\x09sriov-dra\x12\2"
                                     "10\x1a\7v0.12.3";
    static const char created[] = "\x0a\x16\x22\x09\x0a\3PCI\x12\2vf\x22\x09\x0a\1B\x12\4two ";
    struct nri_env env[] = {{(char[]){"PCI"}, (char[]){"vf"}}, {(char[]){"B"}, (char[]){"two "}}};
    struct nri_adjust adjust = {.env = {.v = env, .n = 2}};
    _cleanup_(strbuf_done) struct strbuf out = {0};

    (void)state;
    nri_wire_put_register(&out, "sriov-dra", "10");
    assert_int_equal(out.len, sizeof(registered) - 1);
    assert_memory_equal(out.s, registered, out.len);
    out.len = 0;
    nri_wire_put_configured(&out);
    assert_int_equal(out.len, 2);
    assert_memory_equal(out.s, "\x10\x0f", 2);
    out.len = 0;
    nri_wire_put_synchronized(&out, true);
    assert_int_equal(out.len, 2);
    assert_memory_equal(out.s, "\x10\1", 2);
    out.len = 0;
    nri_wire_put_synchronized(&out, false);
    nri_wire_put_created(&out, NULL);
    nri_wire_put_created(&out, &(struct nri_adjust){0});
    assert_int_equal(out.len, 0);
    nri_wire_put_created(&out, &adjust);
    assert_int_equal(out.len, sizeof(created) - 1);
    assert_memory_equal(out.s, created, out.len);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_golden),
        cmocka_unit_test(test_which_event),
        cmocka_unit_test(test_netns),
        cmocka_unit_test(test_synchronize),
        cmocka_unit_test(test_synchronize_limit),
        cmocka_unit_test(test_configure),
        cmocka_unit_test(test_put_golden),
    };

    return cmocka_run_group_tests_name("nri-wire", tests, NULL, NULL);
}
