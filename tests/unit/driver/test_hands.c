/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A claim's hardware, journal and CDI file on the fake kernel, with an effect that fails and a kill
 * at every place: what is found at the next start is whole.
 */
#include "tests/unit/test.h"

#include "base/file.h"
#include "driver/hands.h"
#include "tests/unit/fakekernel/fakekernel.h"

#include <errno.h>
#include <stdio.h>

/* Counted from 1; 0: never. */
static struct {
    unsigned n;
    unsigned fails; /* this one is done, and reported as failed */
    unsigned kill;  /* from this one on nothing is done */
} effects;

static bool take_effect(int *ret_error)
{
    effects.n++;
    *ret_error = effects.n == effects.fails ? -EIO : 0;
    if (effects.kill && effects.n >= effects.kill) {
        *ret_error = -ESHUTDOWN;
        return false;
    }
    return true;
}

int __real_file_write_atomic(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                             bool durable, struct err *e);
int __wrap_file_write_atomic(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                             bool durable, struct err *e);
int __wrap_file_write_atomic(int dirfd, const char *name, const void *data, size_t len, mode_t mode,
                             bool durable, struct err *e)
{
    int error, r = 0;

    if (take_effect(&error))
        r = __real_file_write_atomic(dirfd, name, data, len, mode, durable, e);
    return error < 0 ? err_errno(e, error, "writing %s", name) : r;
}

int __real_file_remove(int dirfd, const char *name, bool durable, struct err *e);
int __wrap_file_remove(int dirfd, const char *name, bool durable, struct err *e);
int __wrap_file_remove(int dirfd, const char *name, bool durable, struct err *e)
{
    int error, r = 0;

    if (take_effect(&error))
        r = __real_file_remove(dirfd, name, durable, e);
    return error < 0 ? err_errno(e, error, "removing %s", name) : r;
}

static void on_request(const struct fk_request *q, struct fk_verdict *v, void *data)
{
    (void)data;
    if (q->writes)
        v->apply = take_effect(&v->error);
}

struct rig {
    struct fk *k;
    char dir[64];
    struct hands h;
};

static void start(struct rig *rig)
{
    _cleanup_free_ char *state = xasprintf("%s/claims", rig->dir),
                        *cdi = xasprintf("%s/cdi", rig->dir);
    const struct hands_config c = {
        .sysroot = fk_root(rig->k), .state_dir = state, .cdi_dir = cdi, .driver = "sriov-dra.dev"};
    _cleanup_err_ struct err e = ERR_INIT;

    assert_ok(hands_open(&c, &rig->h, &e), &e);
}

static int make_rig(void **state)
{
    static struct rig rig;

    rig = (struct rig){.dir = "/tmp/test-hands-XXXXXX"};
    rig.k = fk_new(&(struct fk_config){.n_pfs = 1, .n_vfs = {2}});
    rig.k->on_request = on_request;
    memset(&effects, 0, sizeof(effects));
    *state = &rig;
    if (!mkdtemp(rig.dir))
        return -1;
    start(&rig);
    return 0;
}

static int drop_rig(void **state)
{
    struct rig *rig = *state;
    _cleanup_free_ char *rm = xasprintf("rm -rf %s", rig->dir);

    hands_done(&rig->h);
    fk_free(rig->k);
    return system(rm);
}

/* Of VF 1, with a setting on each side. */
static struct record *new_record(const struct rig *rig)
{
    struct allocation a = {
        .namespace = (char[]){"default"}, .name = (char[]){"c"}, .uid = (char[]){"u"}};
    grant_vec grants = {0};
    struct grant *g = VEC_PUSH(&grants);

    *g = (struct grant){.request = xstrdup("one"),
                        .pool = xstrdup("node1"),
                        .device = xstrdup("vf"),
                        .index = 1,
                        .pool_document = xstrdup("a"),
                        .mode = MODE_PREPARE,
                        .attach = ATTACH_NRI,
                        .settings = {.set = VF_SET_MAC | VF_SET_VLAN | VF_SET_MTU,
                                     .mac = {{0x52, 0x54, 0, 0xab, 0xcd, 1}},
                                     .vlan_id = 100,
                                     .mtu = 1400}};
    strcpy(g->pf_address, rig->k->pfs[0].address);
    strcpy(g->vf_address, rig->k->pfs[0].vfs[1].address);
    return record_new(&a, &grants, rig->h.boot_id, true);
}

static bool in_force(const struct rig *rig, const struct record *r)
{
    const struct vf_settings *s = &r->devices.v[0].grant.settings;
    const struct vf_info *entry = &rig->k->pfs[0].vfs[1].entry;
    const struct fk_dev *d = fk_vf_dev(rig->k, 0, 1);

    return mac_equal(&entry->mac, &s->mac) && mac_equal(&d->mac, &s->mac) &&
           entry->vlan_id == s->vlan_id && d->mtu == s->mtu;
}

static bool as_before(const struct rig *rig, const struct fk_dev *was)
{
    const struct fk_vf *v = &rig->k->pfs[0].vfs[1];
    const struct fk_dev *d = fk_vf_dev(rig->k, 0, 1);

    return mac_equal(&v->entry.mac, &was->mac) && !v->marked && mac_equal(&d->mac, &was->mac) &&
           v->entry.vlan_id == 0 && d->mtu == was->mtu;
}

/* The driver's next start: how many records are left, and prepared. */
static size_t restart(struct rig *rig)
{
    struct store_content c = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    size_t prepared = 0;

    hands_done(&rig->h);
    memset(&effects, 0, sizeof(effects));
    start(rig);
    assert_ok(store_load(&rig->h.store, &c, &e), &e);
    assert_int_equal(c.bad.n, 0);
    vec_foreach (r, &c.records) {
        bool gone, away;

        assert_ok(claim_recover(&rig->h, *r, &gone, &away, &e), &e);
        if (gone)
            continue;
        prepared++;
        assert_int_equal((*r)->state, RECORD_PREPARED);
        assert_true(in_force(rig, *r));
    }
    store_content_done(&c);
    return prepared;
}

static void release_all(struct rig *rig)
{
    _cleanup_(record_freep) struct record *r = NULL;
    _cleanup_err_ struct err e = ERR_INIT;
    bool away;

    assert_ok(store_get(&rig->h.store, "u", &r, &e), &e);
    assert_ok(claim_release(&rig->h, r, &away, &e), &e);
}

/* One run: true if it came to its end before the effect that is to be broken. */
static bool acquire(struct rig *rig, unsigned fails, unsigned kill)
{
    const struct fk_dev was = *fk_vf_dev(rig->k, 0, 1);
    _cleanup_(record_freep) struct record *r = new_record(rig);
    _cleanup_err_ struct err e = ERR_INIT;
    bool away;

    effects.n = 0;
    effects.fails = fails;
    effects.kill = kill;
    int result = claim_acquire(&rig->h, r, &away, &e);
    unsigned done = effects.n;

    if (result == 0) {
        assert_int_equal(r->state, RECORD_PREPARED);
        assert_true(in_force(rig, r));
    }
    size_t left = restart(rig);
    assert_true(result < 0 || left == 1);
    if (left)
        release_all(rig);
    assert_true(as_before(rig, &was));
    return fails > done || (!fails && kill > done);
}

static void killed_anywhere_in_acquire(void **state)
{
    unsigned kill = 1;

    while (!acquire(*state, 0, kill))
        kill++;
    assert_in_range(kill, 6, 20); /* journal, MAC, entry, MTU, CDI, journal */
}

/* What was reported as failed is put back; and a kill comes while that goes on. */
static void killed_while_rolling_back(void **state)
{
    for (unsigned fails = 1;; fails++) {
        if (acquire(*state, fails, 0))
            return;
        for (unsigned kill = fails + 1; kill < fails + 12; kill++)
            (void)acquire(*state, fails, kill);
    }
}

static void killed_anywhere_in_release(void **state)
{
    struct rig *rig = *state;
    const struct fk_dev was = *fk_vf_dev(rig->k, 0, 1);

    for (unsigned kill = 1;; kill++) {
        _cleanup_(record_freep) struct record *r = new_record(rig);
        _cleanup_err_ struct err e = ERR_INIT;
        bool away;

        memset(&effects, 0, sizeof(effects));
        assert_ok(claim_acquire(&rig->h, r, &away, &e), &e);
        effects.n = 0;
        effects.kill = kill;
        int result = claim_release(&rig->h, r, &away, &e);
        if (restart(rig)) {
            assert_int_equal(kill, 1); /* before it was noted that it had begun */
            release_all(rig);
        }
        assert_true(as_before(rig, &was));
        if (result == 0)
            return;
    }
}

/* It may not be taken for a claim that is set up because its file can't be removed. */
static void of_another_boot_its_file_may_stay(void **state)
{
    struct rig *rig = *state;
    _cleanup_(record_freep) struct record *r = new_record(rig);
    _cleanup_err_ struct err e = ERR_INIT;
    bool gone, away;

    assert_ok(claim_acquire(&rig->h, r, &away, &e), &e);
    fk_reboot(rig->k);
    strcpy(rig->h.boot_id, "another");
    effects.n = 0;
    effects.kill = 1;
    assert_int_equal(claim_recover(&rig->h, r, &gone, &away, &e), -ESHUTDOWN);
    assert_true(gone);
    assert_false(away);

    effects.kill = 0;
    err_clear(&e);
    assert_ok(claim_recover(&rig->h, r, &gone, &away, &e), &e);
    assert_true(gone);
    assert_int_equal(restart(rig), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(killed_anywhere_in_acquire, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(killed_while_rolling_back, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(killed_anywhere_in_release, make_rig, drop_rig),
        cmocka_unit_test_setup_teardown(of_another_boot_its_file_may_stay, make_rig, drop_rig),
    };

    return cmocka_run_group_tests_name("hands", tests, NULL, NULL);
}
