/* SPDX-License-Identifier: Apache-2.0 */
/* The counters are the process's: each test counts in its own, by what was there before. */
#include "driver/metrics.h"

#include "base/file.h"
#include "tests/unit/driver/doc.h"
#include "tests/unit/kube/api_bench.h"

#include <errno.h>
#include <fcntl.h>

#define NEVER INT64_MAX /* what begins then has taken no time */

/* ---- what is said of the devices */

static void add_pool(struct pools *pools, const char *name, const char *spec)
{
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *o = doc("{apiVersion: sriov-dra.dev/v1alpha1, kind: VirtualFunctionPool,"
                         " metadata: {}}");

    json_object_set_new(json_object_get(o, "metadata"), "name", json_string(name));
    doc_set(o, "spec", spec);
    assert_ok(pool_parse(o, VEC_PUSH(&pools->pools), &e), &e);
}

/*
 * One PF: VF 0 of pool "prepared" and at rest; 1 to 3 of "storage": verified, drifted, and in use
 * as it was given; 4 of no pool, 5 of "storage" and not looked at yet.
 */
static void say_devices(void)
{
    static char netdev[] = "enp1s0";
    static const struct vf_fact known[] = {
        {.vf_address = "0000:01:10.0", .verified = true},
        {.vf_address = "0000:01:10.1", .verified = true},
        {.vf_address = "0000:01:10.2"},
        {.vf_address = "0000:01:10.3", .in_use = true, .verified = true},
        {.vf_address = "0000:01:10.4", .verified = true},
    };
    struct inventory inv = {0};
    struct pools pools = {0};
    vf_fact_vec facts = {0};
    struct pf *pf = VEC_PUSH(&inv.pfs);
    const struct contract_input in = {.inv = &inv, .pools = &pools, .node = "node-1"};

    strcpy(pf->address, "0000:01:00.0");
    pf->netdev = netdev;
    for (unsigned i = 0; i < 6; i++) {
        struct vf *vf = VEC_PUSH(&pf->vfs);

        strcpy(vf->address, "0000:01:10.0");
        vf->address[11] = (char)('0' + i);
        vf->index = i;
    }
    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        *VEC_PUSH(&facts) = known[i];
    add_pool(&pools, "prepared",
             "{functions: [{parent: {interface: enp1s0}, indexes: '0'}], mode: Prepare}");
    add_pool(&pools, "storage",
             "{functions: [{parent: {interface: enp1s0}, indexes: '1-3,5'}], mode: Skip}");
    metrics_devices(&in, &facts);
    metrics_devices(&in, &facts); /* takes the place of the first */
    free(pf->vfs.v);
    free(inv.pfs.v);
    free(facts.v);
    pools_done(&pools);
}

/* ---- all of it */

static void compare(const char *got)
{
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_free_ char *text = NULL;

    assert_ok(file_read(AT_FDCWD, FIXTURES "/metrics.txt", 1 << 20, &text, NULL, &e), &e);
    const char *want = text;
    for (size_t line = 1; *got || *want; line++) {
        size_t n = strcspn(got, "\n"), m = strcspn(want, "\n");

        if (n != m || strncmp(got, want, n) != 0)
            fail_msg("metrics.txt:%zu: \"%.*s\"; got \"%.*s\"", line, (int)m, want, (int)n, got);
        got += n + (got[n] != '\0');
        want += m + (want[m] != '\0');
    }
}

/* Before anything else counts in this process. */
static void test_text(void **state)
{
    static const struct reply script[] = {{.status = 404, .body = "{}"}};
    _cleanup_(strbuf_done) struct strbuf out = {0};
    _cleanup_(bench_stop) struct bench b = {0};
    _cleanup_(result_done) struct result r = {0};
    struct err refused = {.code = -EINVAL, .kind = ERR_USER};

    (void)state;
    bench_start(&b, script, 1, NULL);
    ask(&b, &(struct api_request){.method = "GET", .path = "/x"}, &r);
    say_devices();
    metrics_operation(METRIC_PREPARE, NULL, NEVER);
    metrics_operation(METRIC_PREPARE, &refused, NEVER);
    metrics_operation(METRIC_DETACH, NULL, NEVER);
    for (int m = 0; m < METRICS; m++)
        for (int n = 0; n <= m; n++)
            metrics_count((enum metric)m);
    metrics_text(
        &(struct metrics_now){
            .version = "1.2.3",
            .registered = true,
            .skip_by_server = true,
            .claims = {[MODE_PREPARE] = 2, [MODE_SKIP] = 1},
            .damaged = 3,
            .api = b.api,
        },
        &out);
    compare(out.s);
}

static uint64_t value_of(const char *sample)
{
    _cleanup_(strbuf_done) struct strbuf out = {0};

    metrics_text(&(struct metrics_now){.version = ""}, &out);
    const char *at = strstr(out.s, sample);
    if (!at)
        fail_msg("no %s", sample);
    return strtoull(at + strlen(sample), NULL, 10);
}

static void test_results(void **state)
{
    static const struct {
        enum err_kind kind;
        const char *result;
    } cases[] = {
        {ERR_USER, "refused"},
        {ERR_PERMANENT, "refused"},
        {ERR_TRANSIENT, "failed"},
        {ERR_BUG, "failed"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct err e = {.code = -EIO, .kind = cases[i].kind};
        _cleanup_free_ char *sample =
            xasprintf("operations_total{operation=\"attach\",result=\"%s\"} ", cases[i].result);
        uint64_t before = value_of(sample);

        metrics_operation(METRIC_ATTACH, &e, NEVER);
        assert_int_equal(value_of(sample), before + 1);
    }
}

static void test_time(void **state)
{
    static const char fast[] = "seconds_bucket{operation=\"release\",le=\"2.5\"} ",
                      all[] = "seconds_count{operation=\"release\"} ";

    (void)state;
    metrics_operation(METRIC_RELEASE, NULL, clock_mono_us() - 3000000);
    assert_int_equal(value_of(fast), 0);
    assert_int_equal(value_of(all), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_time),
    };

    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
