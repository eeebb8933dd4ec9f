/* SPDX-License-Identifier: Apache-2.0 */
/* MAC addresses, IP networks, uevents: values from text and back. */
#include "netlink/addr.h"
#include "netlink/mac.h"
#include "netlink/uevent.h"
#include "tests/unit/test.h"

#include <errno.h>

static void test_mac(void **state)
{
    static const struct {
        const char *text, *back; /* NULL: refused */
    } cases[] = {
        {"52:54:00:ab:cd:ef", "52:54:00:ab:cd:ef"},
        {"52-54-00-AB-CD-EF", "52:54:00:ab:cd:ef"},
        {"00:00:00:00:00:00", "00:00:00:00:00:00"},
        {"52:54:00:ab:cd", NULL},
        {"52:54:00:ab:cd:ef:00", NULL},
        {"52:54:00-ab:cd:ef", NULL},
        {"5254.00ab.cdef", NULL},
        {"52:54:00:ab:cd:eg", NULL},
        {"52:54:00:ab:cd:e`", NULL},
        {"52:54:00:ab:cd: f", NULL},
        {"525:4:00:ab:cd:ef", NULL},
        {"52:54:00:ab:cd:e", NULL},
        {"", NULL},
    };
    char buf[MAC_TEXT_SIZE];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct mac m = {{1, 2, 3, 4, 5, 6}};
        int r = mac_parse(cases[i].text, &m);

        if (cases[i].back) {
            assert_int_equal(r, 0);
            assert_string_equal(mac_text(&m, buf), cases[i].back);
        } else {
            assert_int_equal(r, -EINVAL);
            assert_int_equal(m.b[5], 6); /* untouched */
        }
    }
    assert_true(mac_is_assignable(&(struct mac){{0x52}}));
    assert_false(mac_is_assignable(&(struct mac){{0x53}}));
    assert_false(mac_is_assignable(&(struct mac){{0}}));
}

static void test_ipnet(void **state)
{
    static const struct {
        const char *text;
        bool need_prefix;
        const char *back; /* NULL: refused */
        bool host_bits;
    } cases[] = {
        {"192.0.2.10/24", true, "192.0.2.10/24", true},
        {"192.0.2.0/24", true, "192.0.2.0/24", false},
        {"192.0.2.128/25", true, "192.0.2.128/25", false},
        {"192.0.2.192/25", true, "192.0.2.192/25", true},
        {"0.0.0.0/0", true, "0.0.0.0/0", false},
        {"192.0.2.10", false, "192.0.2.10/32", false},
        {"192.0.2.10", true, NULL, false},
        {"2001:DB8::1/64", true, "2001:db8::1/64", true},
        {"2001:db8::/64", true, "2001:db8::/64", false},
        {"::/0", true, "::/0", false},
        {"2001:db8::1", false, "2001:db8::1/128", false},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", true,
         "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", false},
        {"::ffff:255.255.255.255/128", true, "::ffff:255.255.255.255/128", false},
        {"192.0.2.10/33", true, NULL, false},
        {"2001:db8::1/129", true, NULL, false},
        {"192.0.2.10/", true, NULL, false},
        {"192.0.2.10/024", true, NULL, false},
        {"192.0.2.10/-1", true, NULL, false},
        {"192.0.2.10/ 24", true, NULL, false},
        {"192.0.2.10/24/24", true, NULL, false},
        {"192.0.2/24", true, NULL, false},
        {"192.0.2.256/24", true, NULL, false},
        {"fe80::1%eth0/64", true, NULL, false},
        {"default", false, NULL, false},
        {"", false, NULL, false},
        {"/24", true, NULL, false},
        {"0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000/64", true, NULL, false},
    };
    char buf[IPNET_TEXT_SIZE];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct ipnet n = {.prefix = 77};
        int r = ipnet_parse(cases[i].text, cases[i].need_prefix, &n);

        if (!cases[i].back) {
            if (r != -EINVAL)
                fail_msg("%s: %d", cases[i].text, r);
            assert_int_equal(n.prefix, 77);
            continue;
        }
        if (r != 0)
            fail_msg("%s: %d", cases[i].text, r);
        assert_string_equal(ipnet_text(&n, buf), cases[i].back);
        assert_int_equal(ipnet_has_host_bits(&n), cases[i].host_bits);
    }
}

static void test_ipnet_equal(void **state)
{
    struct ipnet a, b;

    (void)state;
    ipnet_parse("192.0.2.1/24", true, &a);
    b = a;
    b.b[15] = 9; /* no part of an IPv4 address */
    assert_true(ipnet_equal(&a, &b));
    b.prefix = 25;
    assert_false(ipnet_equal(&a, &b));
    ipnet_parse("::192.0.2.1/24", true, &b);
    assert_false(ipnet_equal(&a, &b));
}

#define TEXT(s) s, sizeof(s)

static void test_uevent(void **state)
{
    static const struct {
        const char *data;
        size_t len;
        const char *action, *devpath, *subsystem; /* action NULL: refused */
    } cases[] = {
        {TEXT("add@/devices/pci0/net/e0\0ACTION=add\0DEVPATH=/devices/pci0/net/e0\0"
              "SUBSYSTEM=net\0INTERFACE=e0\0SEQNUM=7"),
         "add", "/devices/pci0/net/e0", "net"},
        {TEXT("bind@/d\0SUBSYSTEM=pci\0DEVPATH=/d\0ACTION=bind\0ACTION=again"), "bind", "/d",
         "pci"},
        {TEXT("add@/d\0ACTION=\0DEVPATH=\0SUBSYSTEM="), "", "", ""},
        {TEXT("add@/d\0ACTION=add\0DEVPATH=/d"), NULL, NULL, NULL},
        {TEXT("add@/d\0XACTION=add\0DEVPATH=/d\0SUBSYSTEM=net"), NULL, NULL, NULL},
        {TEXT("libudev\0\xfe\xed\xca\xfe"
              "ACTION=add\0DEVPATH=/d\0SUBSYSTEM=net"),
         NULL, NULL, NULL},
        {"add@/d\0ACTION=add\0DEVPATH=/d\0SUBSYSTEM=net", 41, NULL, NULL, NULL}, /* no NUL */
        {TEXT(""), NULL, NULL, NULL},
        {"", 0, NULL, NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct uevent ev = {0};
        /* a copy of its exact size, for the sanitizer to watch over */
        char *copy = memcpy(malloc(cases[i].len + !cases[i].len), cases[i].data, cases[i].len);
        int r = uevent_parse(copy, cases[i].len, &ev);

        if (cases[i].action) {
            assert_int_equal(r, 0);
            assert_string_equal(ev.action, cases[i].action);
            assert_string_equal(ev.devpath, cases[i].devpath);
            assert_string_equal(ev.subsystem, cases[i].subsystem);
        } else if (r != -EBADMSG) {
            fail_msg("case %zu: %d", i, r);
        }
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mac),
        cmocka_unit_test(test_ipnet),
        cmocka_unit_test(test_ipnet_equal),
        cmocka_unit_test(test_uevent),
    };

    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
