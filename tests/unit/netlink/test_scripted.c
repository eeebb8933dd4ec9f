/* SPDX-License-Identifier: Apache-2.0 */
/* The script that stands for the kernel fails where a test of it should fail. */
#include "netlink/nlx.h"
#include "tests/unit/scripted.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <linux/rtnetlink.h>

static int send_get(struct nl_transport *t, struct err *e)
{
    struct link l;
    int r = link_get(t, 5, NULL, false, &l, e);

    if (r == 0)
        link_done(&l);
    return r;
}

static void test_unexpected(void **state)
{
    _cleanup_(nl_freep) struct nl_transport *t = scripted_new(NULL, 0);
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    assert_int_equal(send_get(t, &e), -EPROTO);
    assert_err_has(&e, "request 1, of type 18, isn't in the script");
    assert_non_null(strstr(scripted_problem(t), "isn't in the script"));
}

static void test_missing(void **state)
{
    const struct script_step steps[] = {{.error = -EPERM}, {.type = RTM_GETLINK}};
    _cleanup_(nl_freep) struct nl_transport *t = scripted_new(steps, ARRAY_SIZE(steps));

    (void)state;
    assert_int_equal(send_get(t, NULL), -EPERM);
    assert_string_equal(scripted_problem(t), "1 of 2 requests came");
}

static char *never(const struct nlmsghdr *h, void *data)
{
    return h->nlmsg_type == *(int *)data ? xstrdup("not this one") : NULL;
}

static void test_wrong(void **state)
{
    static int get = RTM_GETLINK;
    static const struct {
        struct script_step step;
        const char *problem;
    } cases[] = {
        {{.type = RTM_SETLINK}, "request 1: type 18, expected 19"},
        {{.payload = "00"}, "request 1: payload\n  0000000005"},
        {{.check = never, .data = &get}, "request 1: not this one"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct script_step steps[] = {cases[i].step, {.error = -EPERM}};
        _cleanup_(nl_freep) struct nl_transport *t = scripted_new(steps, ARRAY_SIZE(steps));

        assert_int_equal(send_get(t, NULL), -EPROTO);
        assert_int_equal(send_get(t, NULL), -EPROTO); /* nothing is right after that */
        assert_non_null(strstr(scripted_problem(t), cases[i].problem));
    }
}

static void test_right(void **state)
{
    struct link l = {.ifindex = 5, .name = "x"};
    const struct script_step steps[] = {
        {.type = RTM_GETLINK, .check = never, .data = &(int){0}, .replies = {scripted_link(&l)}},
    };
    _cleanup_(nl_freep) struct nl_transport *t = scripted_new(steps, ARRAY_SIZE(steps));
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    assert_ok(send_get(t, &e), &e);
    assert_null(scripted_problem(t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unexpected),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_right),
    };

    return cmocka_run_group_tests_name("scripted", tests, NULL, NULL);
}
