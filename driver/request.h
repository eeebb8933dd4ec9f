/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VirtualFunctionConfig: what a class or a claim asks of a VF and of its attachment. Strict, pure.
 *
 * Class settings are the administrator's: a claim may add to them and not override them; trust and
 * spoof checking come from classes only, and a claim that has them is refused.
 */
#pragma once

#include "base/json.h"
#include "sriov/attach.h"
#include "sriov/settings.h"

/* What the interface in the pod is to be. */
struct interface_request {
    char name[IFNAMSIZ]; /* "": the VF's own */
    uint32_t mtu;        /* 0: the VF's */
    ipnet_vec addrs;
    VEC(struct route) routes;
};

struct vf_request {
    struct vf_settings settings;
    struct interface_request interface;
};

void vf_request_done(struct vf_request *r);

enum request_source { FROM_CLASS, FROM_CLAIM };

/*
 * Parses `params` (the opaque parameters) and merges it into `r`, which holds what earlier
 * configuration asked (classes first). ERR_USER with path and reason: wrong apiVersion or kind,
 * unknown field, impossible value, a claim that sets trust or spoofCheck, or one that sets
 * differently what the class set. `where` names the configuration in errors
 * ("claim default/c: config[1]"). `r` is untouched on failure.
 */
int vf_request_merge(struct vf_request *r, enum request_source source, const json_t *params,
                     const char *where, struct err *e);

/*
 * Parses a `settings` object as pools and requests have it. `p` is its path. Accepts macAddress,
 * vlan {id, qos}, mtu, maxTxRateMbps, spoofCheck, trust; `for_pool` refuses macAddress (one value
 * for many VFs).
 */
int vf_settings_parse(const json_t *o, const struct jpath *p, bool for_pool,
                      struct vf_settings *ret, struct err *e);

/* The settings as such an object (only what is set); a new reference. */
json_t *vf_settings_json(const struct vf_settings *s);

/* The interface part as its object, and back (for claim records); tolerant of unknown fields. */
json_t *interface_request_json(const struct interface_request *i);
int interface_request_parse(const json_t *o, const struct jpath *p, bool strict,
                            struct interface_request *ret, struct err *e);

/* -EINVAL with the reason if the kernel or a runtime would treat the name specially, or refuse it.
 */
int interface_name_check(const char *name, const struct jpath *p, struct err *e);
