/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What users and the API server write, as YAML or JSON: a pool, a configuration, a claim, a slice,
 * a node, a pod; and a container's state as a runtime tells it, with users' annotations. Each input
 * is tried as all.
 */
#include "tests/fuzz/fuzz.h"

#include "base/yaml.h"
#include "driver/allocation.h"
#include "driver/explain.h"
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

/* What a claim needs agrees with how it was read, and each sentence is text that JSON takes. */
static void try_live(const json_t *o)
{
    live_claim_vec v = {0};
    struct live_index ix;
    struct strbuf why = {0};
    struct live_claim c;
    _cleanup_err_ struct err e = ERR_INIT;
    int r = live_claim_read(o, "sriov-dra.dev", &c, &e);

    check(r < 0 ? r : 0, &e);
    if (r <= 0)
        return;
    *VEC_PUSH(&v) = c;
    live_index_build(&v, &ix);
    live_see_slice(&ix, "sriov-dra.dev", o);
    live_see_node(&ix, o);
    unsigned needs = live_needs(&v.v[0], &why);
    assert((needs == 0) == (why.len == 0));
    assert(needs || (!v.v[0].calls_prepare && !v.v[0].calls_unprepare));
    strbuf_done(&why);
    live_index_done(&ix);
    live_claim_vec_done(&v);
}

static void check_explanation(const struct explanation *x)
{
    json_auto_t *doc = explanation_json(x);
    _cleanup_free_ char *text = json_dumps(doc, 0);

    assert(text);
    vec_foreach (f, &x->facts)
        assert(*f->text && !strpbrk(f->text, "\n\x1b"));
}

static void try_explain(json_t *o)
{
    json_auto_t *list = json_pack("[O]", o), *classes = json_pack("{sO}", "vf", o);
    struct live_index none = {.claims = &(live_claim_vec){0}};
    _cleanup_(supply_done) struct supply supply = {0};
    _cleanup_(explanation_freep) struct explanation *claim =
                                                        explanation_new("ResourceClaim", "n", "c"),
                                                    *pod = explanation_new("Pod", "n", "p");
    const struct explain_input in = {.driver = "sriov-dra.dev",
                                     .this_node = "n",
                                     .claim = o,
                                     .slices = list,
                                     .node = o,
                                     .classes = classes,
                                     .pods = list,
                                     .supply = &supply};

    supply_see_slice(&supply, &none, "sriov-dra.dev", o);
    supply_see_node(&supply, o);
    explain_claim(&in, claim);
    check_explanation(claim);
    explain_pod(o, list, pod);
    check_explanation(pod);
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
    if (json_is_object(o)) {
        try_live(o);
        try_explain(o);
    }
    return 0;
}
