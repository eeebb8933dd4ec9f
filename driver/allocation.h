/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a ResourceClaim's status says of this driver: the allocated devices and the configuration
 * for each. Pure.
 *
 * Kubernetes 1.37's scheduler empties the list of requests of a configuration that covers all
 * requests of the claim: an empty list means all.
 */
#pragma once

#include "base/json.h"
#include "base/str.h"
#include "driver/request.h"

struct allocated_device {
    char *request;    /* main request, without "/subrequest" */
    char *subrequest; /* "req/sub" as in the result where there is one, else NULL */
    /* Its place in the request's firstAvailable list: the 2nd of 3. 0 of 0 without such a list. */
    unsigned choice, choices;
    char *pool, *device;
    char *share_id; /* NULL: none */
    bool admin_access;
    bool skip_prepare, skip_unprepare; /* the list copied at allocation */
    bool told;                         /* status.devices has it, with its network */
    struct vf_request asked;           /* class, then claim configuration */
};

struct allocation {
    char *namespace, *name, *uid;
    bool deleted;                         /* deletionTimestamp is set */
    VEC(struct allocated_device) devices; /* of our driver only; may be empty */
    VEC(char *) pods;                     /* uids in reservedFor (resource "pods") */
};

void allocation_done(struct allocation *a);

/*
 * Reads a claim object. `uid` (may be NULL) must be the object's: another one is ERR_PERMANENT with
 * both. -ENOENT "not allocated" if there is no status.allocation. Configuration of other drivers is
 * ignored; ours must parse.
 */
int allocation_read(const json_t *claim, const char *driver, const char *uid,
                    struct allocation *ret, struct err *e);

/*
 * Whether the kubelet leaves a call out for this claim: if all of our devices in it have that in
 * their list (pkg/kubelet/cm/dra/claiminfo.go: computeDriverStates() of 1.37). False if there is
 * no device of ours.
 */
bool allocation_skips_prepare(const struct allocation *a);
bool allocation_skips_unprepare(const struct allocation *a);

/*
 * What a list of skipNodeOperations skips. "Other values may be added in the future. The kubelet
 * must ignore unknown values."
 */
void skip_list_read(const json_t *list, bool *ret_prepare, bool *ret_unprepare);

/* Whether a uid is one that may go into a file name: 1 to 63 of [A-Za-z0-9-]. */
bool uid_is_valid(const char *uid);
