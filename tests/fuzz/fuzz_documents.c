/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What users write, as YAML or JSON: a pool, a configuration, a claim; and a container's state as a
 * runtime tells it, with users' annotations. Each input is tried as all.
 */
#include "tests/fuzz/fuzz.h"

#include "base/yaml.h"
#include "driver/allocation.h"
#include "driver/hook.h"
#include "driver/pool.h"

#include <assert.h>

static void check(int r, const struct err *e)
{
    assert(r < 0 ? e->code == r && e->msg && *e->msg : !e->msg);
}

static void try_pool(const json_t *o)
{
    _cleanup_(pool_done) struct pool p = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    int r = pool_parse(o, &p, &e);

    check(r, &e);
    assert(r < 0 || (p.name && p.functions.n > 0 && p.attributes.n <= 8));
}

/* What was merged is written into the claim's record, and must be read from it as it was. */
static void check_request(const struct vf_request *req)
{
    json_auto_t *interface = interface_request_json(&req->interface);
    json_auto_t *settings = vf_settings_json(&req->settings);
    _cleanup_(interface_request_done) struct interface_request back = {0};
    struct vf_settings s = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    assert(vf_settings_parse(settings, NULL, false, &s, &e) == 0);
    assert(interface_request_parse(interface, NULL, true, &back, &e) == 0);
    json_auto_t *settings_again = vf_settings_json(&s);
    json_auto_t *again = interface_request_json(&back);
    assert(json_equal(interface, again) && json_equal(settings, settings_again));
}

static void try_config(const json_t *o)
{
    _cleanup_(vf_request_done) struct vf_request req = {0};

    for (int i = 0; i < 3; i++) {
        _cleanup_err_ struct err e = ERR_INIT;

        check(vf_request_merge(&req, i == 0 ? FROM_CLASS : FROM_CLAIM, o, "x", &e), &e);
        check_request(&req);
    }
}

static void try_claim(const json_t *o)
{
    _cleanup_(allocation_done) struct allocation a = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    int r = allocation_read(o, "sriov-dra.dev", NULL, &a, &e);

    check(r, &e);
    if (r < 0)
        return;
    assert(uid_is_valid(a.uid));
    vec_foreach (d, &a.devices)
        check_request(&d->asked);
}

static void try_container(const uint8_t *data, size_t len)
{
    _cleanup_(hook_container_done) struct hook_container c = {0};
    _cleanup_err_ struct err e = ERR_INIT;
    int r = hook_container_parse((const char *)data, len, &c, &e);

    check(r, &e);
    assert(r < 0 ? !c.sandbox_id : c.pid > 0 && (!c.sandbox_id || *c.sandbox_id));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    json_auto_t *o = NULL;

    try_container(data, len);
    if (yaml_parse((const char *)data, len, &o, NULL) < 0)
        return 0;
    try_pool(o);
    try_config(o);
    try_claim(o);
    return 0;
}
