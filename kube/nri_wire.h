/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NRI's messages to and from the plain structs of nri.h. The one place that knows the generated
 * code; private to nri.c and its tests.
 *
 * Source: github.com/containerd/nri pkg/api/api.proto (nri.pkg.api.v1alpha1).
 */
#pragma once

#include "kube/nri.h"

#define NRI_RUNTIME_SERVICE "nri.pkg.api.v1alpha1.Runtime"
#define NRI_PLUGIN_SERVICE  "nri.pkg.api.v1alpha1.Plugin"

/* More pods and containers than any node has: beyond it the peer isn't sane. */
#define NRI_SYNC_MAX 100000U

void nri_pod_done(struct nri_pod *p);
void nri_container_done(struct nri_container *c);
void nri_pods_done(nri_pod_vec *v);
void nri_containers_done(nri_container_vec *v);

/* What the runtime says of itself. */
struct nri_hello {
    char *runtime, *version, *nri_version; /* owned, never NULL, "" if it doesn't say */
    int64_t request_timeout_ms;            /* 0: it doesn't say (NRI before 0.9) */
};
void nri_hello_done(struct nri_hello *h);

/* All decoders: -EINVAL if the bytes aren't the message, or lack what must be there. */
int nri_wire_read_configure(const void *p, size_t n, struct nri_hello *ret,
                            struct err *e) _must_check_;

/* Appends to both; `*ret_more`: further parts follow. On failure both keep what they had. */
int nri_wire_read_synchronize(const void *p, size_t n, nri_pod_vec *pods,
                              nri_container_vec *containers, bool *ret_more,
                              struct err *e) _must_check_;

struct nri_wire_event {
    enum nri_event event;
    struct nri_pod pod;
    struct nri_container container; /* all zero but for NRI_CREATE_CONTAINER */
};
void nri_wire_event_done(struct nri_wire_event *ev);

/*
 * Reads the request of `method`, a dedicated call or StateChange. 1: an event; 0: a state change
 * that we don't look at; -ENOSYS: no such method.
 */
int nri_wire_read_event(const char *method, const void *p, size_t n, struct nri_wire_event *ret,
                        struct err *e) _must_check_;

/* The encoders append to `out`. */
void nri_wire_put_register(struct strbuf *out, const char *name, const char *index);
void nri_wire_put_configured(struct strbuf *out); /* with the mask of the events in nri.h */
void nri_wire_put_synchronized(struct strbuf *out, bool more);
void nri_wire_put_created(struct strbuf *out, const struct nri_adjust *adjust);
