/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet's side of a DRA driver: registration (pluginregistration v1) and the DRA service in
 * v1 and v1beta1, as plain structs. Generated protobuf stays behind this wall (dra_wire.c).
 *
 * Sources: k8s.io/kubelet/pkg/apis/pluginregistration/v1, .../dra/v1, .../dra/v1beta1.
 */
#pragma once

#include "base/loop.h"
#include "base/str.h"

struct dra;
struct dra_call;

struct dra_claim_ref {
    /* Never NULL, valid UTF-8, the uid not empty; otherwise as the kubelet sent them. */
    char *namespace, *name, *uid;
};

typedef VEC(struct dra_claim_ref) dra_claim_vec;

struct dra_device {
    char *request; /* of the allocation result, without a subrequest's "/sub" */
    char *pool, *device;
    char *cdi_id; /* "sriov-dra.dev/vf=..." or NULL: none */
};

/* The answer for one claim: an error text, or devices. */
struct dra_result {
    char *uid;
    char *error; /* NULL: success */
    VEC(struct dra_device) devices;
};

/*
 * A Prepare or Unprepare call. The handler gives each of call->claims its answer with
 * dra_call_answer(), in any order and at any time; when all have theirs the reply goes out and the
 * call is freed.
 */
struct dra_call {
    bool prepare;         /* else Unprepare */
    dra_claim_vec claims; /* each uid once; at least one */
};

typedef void dra_fn(struct dra_call *call, void *data);

/*
 * `index` is of call->claims; takes over what `r` owns except uid, which may be NULL. After
 * dra_free() it frees only.
 */
void dra_call_answer(struct dra_call *call, size_t index, struct dra_result *r);

struct dra_config {
    const char *driver;       /* "sriov-dra.dev" */
    const char *kubelet_root; /* "/var/lib/kubelet" */
    const char *pod_uid;      /* in the sockets' names, for two instances at once; NULL: none */
    dra_fn *fn;
    /* The kubelet's verdict on our registration; `error` is "" where it accepted. */
    void (*registered)(bool ok, const char *error, void *data);
    void *data;
};

/*
 * Makes <root>/plugins/<driver>/dra.sock, then <root>/plugins_registry/<driver>-reg.sock, last, as
 * the kubelet dials when that file appears; with a pod uid, dra-<uid>.sock and
 * <driver>-<uid>-reg.sock. Missing directories are made (0750). The strings of `c` are copied.
 * Sockets in the way are replaced (see grpc_srv_new()); socket paths above 107 bytes are an error.
 */
int dra_new(struct loop *l, const struct dra_config *c, struct dra **ret, struct err *e);

/* Prepare and Unprepare calls that wait for answers. */
unsigned dra_open_calls(const struct dra *d);

/*
 * Unlinks the registration socket first. Calls that are still open get UNAVAILABLE, so that the
 * kubelet repeats them; their `struct dra_call`s live until they are answered. Blocks for up to
 * some 100 ms. Not from a callback of ours.
 */
void dra_free(struct dra *d);
DEFINE_CLEANUP(struct dra, dra_free)
