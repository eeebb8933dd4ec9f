/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pod is told of a claim's device: in the environment of its containers, by CDI or by NRI,
 * and in the claim's status. One source for all of them, so that they say the same. Pure.
 */
#pragma once

#include "driver/record.h"

/* What the interface is called in the pod. Borrowed from the record. */
const char *in_pod_name(const struct record_device *d);

/*
 * The device's variables, SRIOV_DRA_<DEVICE>_<WHAT>: names that no two devices of a pod share. PCI
 * address, request, alternative, mode, who set it up, and what is in force: MAC, VLAN and MTU, and
 * of the other settings what was asked for or is promised. Both strings are valid in `fn` only.
 */
typedef void in_pod_env_fn(const char *name, const char *value, void *data);
void in_pod_env(const struct record_device *d, in_pod_env_fn *fn, void *data);

/* status.devices[].data of the claim: a small object, a new reference. */
json_t *in_pod_data(const struct record_device *d);
