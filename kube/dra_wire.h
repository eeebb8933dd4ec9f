/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of DRA and of plugin registration as bytes, from and to plain structs. The only file
 * that knows their generated structs. Pure: no I/O.
 *
 * v1beta1 of DRA differs from v1 in the name of the package and lacks Device.share_id, which we
 * never send, so the same bytes serve both.
 */
#pragma once

#include "kube/dra.h"

/* More claims than this in one call are refused; a pod of many has some ten. */
#define DRA_WIRE_MAX_CLAIMS 1024

/*
 * Reads a NodePrepareResourcesRequest or NodeUnprepareResourcesRequest, which are alike. A claim
 * that comes twice is there once, as answers are keyed by uid. -EINVAL (ERR_USER) if the bytes are
 * no such message, a text isn't UTF-8 or has a NUL in it, a claim has no uid, or two claims share
 * one. The caller frees with dra_wire_claims_done().
 */
int dra_wire_claims(const void *data, size_t len, dra_claim_vec *ret, struct err *e);
void dra_wire_claims_done(dra_claim_vec *claims);

/*
 * Adds a NodePrepareResourcesResponse or NodeUnprepareResourcesResponse with an entry for each of
 * the results to `out`. Bytes of an error text that aren't UTF-8 become "?", since the kubelet
 * would drop the answers of all claims for them.
 */
void dra_wire_results(bool prepare, const struct dra_result *results, size_t n, struct strbuf *out);

/* Adds a PluginInfo. `versions` ends with NULL. */
void dra_wire_plugin_info(const char *driver, const char *endpoint, const char *const *versions,
                          struct strbuf *out);

/* Reads a RegistrationStatus; the caller frees `*ret_error`, which is "" if there is none. */
int dra_wire_registration_status(const void *data, size_t len, bool *ret_ok, char **ret_error,
                                 struct err *e);
