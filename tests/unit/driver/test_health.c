/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/health.h"

#include "tests/unit/test.h"

#define KUBELET "kubelet: ok\n"
#define RUNTIME "runtime: ok\n"
#define NODE    "node: ok\n"
#define PODS    "pods: ok\n"
#define SLICES  "slices: ok\n"

/* Each part in turn: with it all is well, and without it the text says what is missing. */
static void test_readiness(void **state)
{
    static const struct {
        struct readiness r;
        const char *text; /* ready if its last line says so */
    } cases[] = {
        {{.registered = true,
          .nri_needed = true,
          .nri_connected = true,
          .node_seen = true,
          .pods_seen = true,
          .published = true},
         KUBELET RUNTIME NODE PODS SLICES "ready\n"},
        {{.registered = true, .node_seen = true, .pods_seen = true, .published = true},
         KUBELET NODE PODS SLICES "ready\n"},
        {{.nri_needed = true,
          .nri_connected = true,
          .node_seen = true,
          .pods_seen = true,
          .published = true},
         "kubelet: hasn't registered the driver\n" RUNTIME NODE PODS SLICES "not ready\n"},
        {{.registered = true,
          .nri_needed = true,
          .node_seen = true,
          .pods_seen = true,
          .published = true},
         KUBELET "runtime: NRI isn't connected\n" NODE PODS SLICES "not ready\n"},
        {{.registered = true, .pods_seen = true, .published = true},
         KUBELET "node: the API server hasn't shown the Node object\n" PODS SLICES "not ready\n"},
        {{.registered = true, .node_seen = true, .published = true},
         KUBELET NODE "pods: the API server hasn't listed this node's pods\n" SLICES "not ready\n"},
        {{.registered = true, .node_seen = true, .pods_seen = true},
         KUBELET NODE PODS "slices: not published\n"
                           "not ready\n"},
        {{.stopping = true,
          .registered = true,
          .node_seen = true,
          .pods_seen = true,
          .published = true},
         KUBELET NODE PODS SLICES "driver: is stopping\n"
                                  "not ready\n"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(strbuf_done) struct strbuf out = {0};
        bool ready = readiness_text(&cases[i].r, &out);

        assert_string_equal(out.s, cases[i].text);
        assert_int_equal(ready, strstr(cases[i].text, "not ready") == NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readiness),
    };

    return cmocka_run_group_tests_name("health", tests, NULL, NULL);
}
