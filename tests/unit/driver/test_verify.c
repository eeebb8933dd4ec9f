/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/verify.h"

#include "tests/unit/test.h"

static const struct mac permanent = {.b = {0x52, 0x54, 0, 0, 0, 1}};
static const struct mac other = {.b = {0x52, 0x54, 0, 0, 0, 2}};

/* What is unlike a VF at rest on VLAN 100. */
enum twist {
    AS_IT_SHOULD,
    AWAY,
    VLAN_7,
    SPOOFCHK_OFF,
    DEAF,      /* its own MAC isn't the PF's entry */
    OTHER_MAC, /* on both sides */
    MTU_1300,  /* on its own side */
    PROMISCUOUS,
    ALLMULTI,
    ADDRESS,
    TRUSTED_OTHER_ENTRY,
};

static struct vf_state twisted(enum twist t)
{
    struct vf_state s = {
        .address = "0000:01:10.0",
        .home = true,
        .has_perm_mac = true,
        .mac = permanent,
        .perm_mac = permanent,
        .mtu = 1500,
        .admin = {.has = VF_FIELD_MAC | VF_FIELD_VLAN | VF_FIELD_SPOOFCHK | VF_FIELD_TRUST,
                  .mac = permanent,
                  .vlan_id = 100,
                  .spoofchk = true},
    };

    switch (t) {
    case AS_IT_SHOULD:
        break;
    case AWAY:
        s.home = false;
        break;
    case VLAN_7:
        s.admin.vlan_id = 7;
        break;
    case SPOOFCHK_OFF:
        s.admin.spoofchk = false;
        break;
    case DEAF:
        s.mac = other;
        break;
    case OTHER_MAC:
        s.mac = s.admin.mac = other;
        break;
    case MTU_1300:
        s.mtu = 1300;
        break;
    case PROMISCUOUS:
        s.promiscuity = 1;
        break;
    case ALLMULTI:
        s.allmulti = 1;
        break;
    case ADDRESS:
        *VEC_PUSH(&s.addrs) = (struct ipnet){.family = 2, .prefix = 24, .b = {192, 0, 2, 1}};
        break;
    case TRUSTED_OTHER_ENTRY:
        s.admin.trust = true;
        s.admin.mac = other;
        break;
    }
    return s;
}

static const struct vf_settings promised = {.set = VF_SET_VLAN | VF_SET_SPOOFCHK | VF_SET_MTU,
                                            .vlan_id = 100,
                                            .spoofchk = true,
                                            .mtu = 1500};

static void test_without_claim(void **state)
{
    static const struct {
        enum twist twist;
        enum mode mode;
        bool suspicious, verified;
        const char *why;
    } table[] = {
        {AS_IT_SHOULD, MODE_SKIP, 0, 1, NULL},
        {AWAY, MODE_SKIP, 0, 0, "not in the host's network namespace"},
        {VLAN_7, MODE_SKIP, 0, 0, "vlan: 7, want 100"},
        {SPOOFCHK_OFF, MODE_SKIP, 0, 0, "spoof checking: off, want on"},
        {DEAF, MODE_SKIP, 0, 0,
         "mac: 52:54:00:00:00:02 on the VF, 52:54:00:00:00:01 in the PF's list"},
        {OTHER_MAC, MODE_SKIP, 0, 1, NULL},
        {MTU_1300, MODE_SKIP, 0, 0, "mtu: 1300, want 1500"},
        {PROMISCUOUS, MODE_SKIP, 0, 0, "promiscuous"},
        {ALLMULTI, MODE_SKIP, 0, 0, "takes all multicast"},
        {ADDRESS, MODE_SKIP, 0, 0, "has the address 192.0.2.1/24"},
        {OTHER_MAC, MODE_SKIP, 1, 1, NULL}, /* its settings are known, whatever was lost */

        {AS_IT_SHOULD, MODE_PREPARE, 0, 1, NULL},
        {VLAN_7, MODE_PREPARE, 0, 1, NULL}, /* nothing is promised of it */
        {AWAY, MODE_PREPARE, 0, 0, "not in the host's network namespace"},
        {DEAF, MODE_PREPARE, 0, 0, "mac: "},
        {ADDRESS, MODE_DEFER_CLEANUP, 0, 0, "has the address"},
        {PROMISCUOUS, MODE_DEFER_CLEANUP, 0, 0, "promiscuous"},
        {AS_IT_SHOULD, MODE_PREPARE, 1, 0, "vlan: 100, want 0"},
        {OTHER_MAC, MODE_DEFER_CLEANUP, 1, 0, "MAC isn't the permanent one"},
        {AWAY, MODE_PREPARE, 1, 0, "not in the host's network namespace"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        const struct pool pool = {.mode = table[i].mode, .settings = promised};
        _cleanup_(vf_state_done) struct vf_state s = twisted(table[i].twist);
        struct vf_fact f;

        verify_free(&s, &pool, table[i].suspicious, &f);
        if (f.verified != table[i].verified || !f.why != !table[i].why ||
            (f.why && !strstr(f.why, table[i].why)))
            fail_msg("row %zu: verified %d, %s", i, f.verified, f.why ? f.why : "no reason");
        assert_false(f.in_use || f.harmed);
        assert_string_equal(f.vf_address, "0000:01:10.0");
        free(f.why);
    }
}

/* Of a pod's VF only what the PF lists is ours to judge. */
static void test_with_claim(void **state)
{
    static const struct vf_settings asked = {.set = VF_SET_VLAN | VF_SET_MAC | VF_SET_MTU,
                                             .vlan_id = 100,
                                             .mac = {.b = {0x52, 0x54, 0, 0, 0, 1}},
                                             .mtu = 1500},
                                    vlan_7 = {.set = VF_SET_VLAN, .vlan_id = 7}, nothing;
    static const struct {
        enum twist twist;
        enum mode mode; /* the pool's, now */
        const struct vf_settings *given;
        bool verified, harmed;
        const char *why;
    } table[] = {
        {AS_IT_SHOULD, MODE_PREPARE, &asked, 1, 0, NULL},
        {AWAY, MODE_PREPARE, &asked, 1, 0, NULL},
        {MTU_1300, MODE_PREPARE, &asked, 1, 0, NULL},
        {DEAF, MODE_PREPARE, &asked, 1, 0, NULL},
        {PROMISCUOUS, MODE_DEFER_CLEANUP, &asked, 1, 0, NULL},
        {ADDRESS, MODE_PREPARE, &asked, 1, 0, NULL},
        {VLAN_7, MODE_PREPARE, &asked, 0, 1, "vlan: 7, want 100"},
        {VLAN_7, MODE_PREPARE, &nothing, 1, 0, NULL},
        {OTHER_MAC, MODE_DEFER_CLEANUP, &asked, 0, 1, "mac: 52:54:00:00:00:02 in the PF's list"},
        {TRUSTED_OTHER_ENTRY, MODE_PREPARE, &asked, 1, 0, NULL}, /* it may change that itself */

        {AS_IT_SHOULD, MODE_SKIP, &promised, 1, 0, NULL},
        {AWAY, MODE_SKIP, &promised, 1, 0, NULL},
        {MTU_1300, MODE_SKIP, &promised, 1, 0, NULL},
        {VLAN_7, MODE_SKIP, &promised, 0, 1, "vlan: 7, want 100"},
        {SPOOFCHK_OFF, MODE_SKIP, &promised, 0, 1, "spoof checking: off, want on"},
        /* the pool was in another mode, or said another VLAN, when the claim got the VF */
        {VLAN_7, MODE_SKIP, &vlan_7, 0, 0, "vlan: 7, want 100"},
        {AS_IT_SHOULD, MODE_SKIP, &nothing, 1, 0, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        const struct pool pool = {.mode = table[i].mode, .settings = promised};
        _cleanup_(vf_state_done) struct vf_state s = twisted(table[i].twist);
        struct vf_fact f;

        verify_held(&s, &pool, table[i].given, &f);
        if (f.verified != table[i].verified || f.harmed != table[i].harmed ||
            !f.why != !table[i].why || (f.why && !strstr(f.why, table[i].why)))
            fail_msg("row %zu: verified %d, harmed %d, %s", i, f.verified, f.harmed,
                     f.why ? f.why : "no reason");
        assert_true(f.in_use);
        free(f.why);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_claim),
        cmocka_unit_test(test_with_claim),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
