/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kubelet sends: each input is tried as a request with claims, which is then answered, and
 * as a registration status.
 */
#include "kube/dra_wire.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>

static void check_text(const char *s)
{
    _cleanup_free_ char *valid = str_utf8(s);

    assert(streq(s, valid));
}

static void answer(const dra_claim_vec *claims)
{
    _cleanup_free_ struct dra_result *results = xcalloc(claims->n, sizeof(*results));
    struct strbuf b = {0};

    for (size_t i = 0; i < claims->n; i++) {
        check_text(claims->v[i].namespace);
        check_text(claims->v[i].name);
        check_text(claims->v[i].uid);
        assert(*claims->v[i].uid);
        for (size_t k = 0; k < i; k++)
            assert(!streq(claims->v[i].uid, claims->v[k].uid));
        results[i].uid = claims->v[i].uid;
        results[i].error = claims->v[i].name;
    }
    dra_wire_results(true, results, claims->n, &b);
    strbuf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    _cleanup_err_ struct err e = ERR_INIT;
    dra_claim_vec claims = {0};
    char *error;
    bool ok;

    if (dra_wire_claims(data, len, &claims, &e) == 0)
        answer(&claims);
    else
        assert(e.code < 0 && *err_text(&e));
    dra_wire_claims_done(&claims);
    if (dra_wire_registration_status(data, len, &ok, &error, NULL) == 0) {
        check_text(error);
        free(error);
    }
    return 0;
}
