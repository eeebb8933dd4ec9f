/* SPDX-License-Identifier: Apache-2.0 */
#include "base/prom.h"

#include "tests/unit/test.h"

/* Compares what was appended, and empties it. */
static void expect(struct strbuf *out, const char *text)
{
    assert_string_equal(out->s, text);
    strbuf_done(out);
}

static void test_family(void **state)
{
    static const struct {
        enum prom_type type;
        const char *help, *text;
    } cases[] = {
        {PROM_COUNTER, "Things.", "# HELP n Things.\n# TYPE n counter\n"},
        {PROM_GAUGE, "", "# HELP n \n# TYPE n gauge\n"},
        /* a quote needs no escape here */
        {PROM_HISTOGRAM, "a\\b\n\"c\"", "# HELP n a\\\\b\\n\"c\"\n# TYPE n histogram\n"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct strbuf out = {0};

        prom_family(&out, cases[i].type, "n", cases[i].help);
        expect(&out, cases[i].text);
    }
}

static void test_sample(void **state)
{
    struct strbuf out = {0};

    (void)state;
    prom_sample(&out, "n", NULL, 0);
    expect(&out, "n 0\n");
    prom_sample(&out, "n", PROM_LABELS({"a", ""}), UINT64_MAX);
    expect(&out, "n{a=\"\"} 18446744073709551615\n");
    prom_sample(&out, "n", PROM_LABELS({"a", "x"}, {"b", "y z"}), 7);
    expect(&out, "n{a=\"x\",b=\"y z\"} 7\n");
}

/* What would end the value, the line or the text early. */
static void test_label_values_are_escaped(void **state)
{
    static const struct {
        const char *value, *text;
    } cases[] = {
        {"\"", "n{a=\"\\\"\"} 1\n"},
        {"\\", "n{a=\"\\\\\"} 1\n"},
        {"x\ny", "n{a=\"x\\ny\"} 1\n"},
        {"\\n", "n{a=\"\\\\n\"} 1\n"},
        {"\"} 9\nm 1\n#", "n{a=\"\\\"} 9\\nm 1\\n#\"} 1\n"},
        {"\xff\xc3\xa4", "n{a=\"?\xc3\xa4\"} 1\n"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct strbuf out = {0};

        prom_sample(&out, "n", PROM_LABELS({"a", cases[i].value}), 1);
        expect(&out, cases[i].text);
    }
}

/* A bound belongs to its bucket, buckets add up, and what is longer than all is in +Inf only. */
static void test_histogram(void **state)
{
    static const int64_t took[] = {-5, 0, 5000, 5001, 20000000, 20000001, 3600000000};
    struct prom_histogram h = {0};
    struct strbuf out = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(took); i++)
        prom_observe_us(&h, took[i]);
    prom_histogram(&out, "t", PROM_LABELS({"op", "x"}), &h);
    expect(&out, "t_bucket{op=\"x\",le=\"0.005\"} 3\n"
                 "t_bucket{op=\"x\",le=\"0.01\"} 4\n"
                 "t_bucket{op=\"x\",le=\"0.025\"} 4\n"
                 "t_bucket{op=\"x\",le=\"0.05\"} 4\n"
                 "t_bucket{op=\"x\",le=\"0.1\"} 4\n"
                 "t_bucket{op=\"x\",le=\"0.25\"} 4\n"
                 "t_bucket{op=\"x\",le=\"0.5\"} 4\n"
                 "t_bucket{op=\"x\",le=\"1\"} 4\n"
                 "t_bucket{op=\"x\",le=\"2.5\"} 4\n"
                 "t_bucket{op=\"x\",le=\"5\"} 4\n"
                 "t_bucket{op=\"x\",le=\"10\"} 4\n"
                 "t_bucket{op=\"x\",le=\"20\"} 5\n"
                 "t_bucket{op=\"x\",le=\"+Inf\"} 7\n"
                 "t_sum{op=\"x\"} 3640.010002\n"
                 "t_count{op=\"x\"} 7\n");
}

static void test_histogram_without_labels(void **state)
{
    struct prom_histogram h = {0};
    struct strbuf out = {0};

    (void)state;
    prom_observe_us(&h, 1);
    prom_histogram(&out, "t", NULL, &h);
    assert_non_null(strstr(out.s, "t_bucket{le=\"0.005\"} 1\n"));
    assert_non_null(strstr(out.s, "t_sum 0.000001\nt_count 1\n"));
    strbuf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_family),
        cmocka_unit_test(test_sample),
        cmocka_unit_test(test_label_values_are_escaped),
        cmocka_unit_test(test_histogram),
        cmocka_unit_test(test_histogram_without_labels),
    };

    return cmocka_run_group_tests_name("prom", tests, NULL, NULL);
}
