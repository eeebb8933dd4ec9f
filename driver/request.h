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

/* The longest lists of one interface. */
#define INTERFACE_ADDRS_MAX                                                                        \
    16 /* as many as a claim's status.devices[].networkData.ips can tell                           \
        */
#define INTERFACE_ROUTES_MAX 64

/* What the interface in the pod is to be. */
struct interface_request {
    char name[IFNAMSIZ]; /* "": the VF's own */
    uint32_t mtu;        /* 0: the VF's */
    ipnet_vec addrs;
    VEC(struct route) routes;
};

/*
 * Zero-initialised asks nothing. `of_class` tells which part the class asked, and so which part a
 * claim can't change; the first `addrs` and `routes` of the lists are the class's.
 */
struct vf_request {
    struct vf_settings settings;
    struct interface_request interface;
    struct {
        unsigned settings; /* of enum vf_setting */
        bool name, mtu;
        size_t addrs, routes;
    } of_class;
};

void interface_request_done(struct interface_request *i);
/* A copy that owns its lists; what *ret held is not freed. */
void interface_request_copy(const struct interface_request *i, struct interface_request *ret);

void vf_request_done(struct vf_request *r);

enum request_source { FROM_CLASS, FROM_CLAIM };

/*
 * Parses `params` (the opaque parameters) and merges it into `r`, which holds what earlier
 * configuration asked (classes first). A later configuration of the same source takes the place of
 * an earlier one, field by field; a list is one field. A claim's addresses and routes come after
 * the class's. ERR_USER with path and reason: wrong apiVersion or kind, unknown field, impossible
 * value, a claim that sets trust or spoofCheck, or one that sets differently what the class set.
 * `where` names the configuration in errors ("claim default/c: config[1]"). `r` is untouched on
 * failure.
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

/* One setting, for messages: "settings.vlan"; whether two have the same; "100 (qos 3)" (owned). */
const char *vf_setting_path(enum vf_setting bit);
bool vf_setting_equal(const struct vf_settings *a, const struct vf_settings *b,
                      enum vf_setting bit);
char *vf_setting_text(const struct vf_settings *s, enum vf_setting bit);

/* The interface part as its object (only what is set); a new reference. */
json_t *interface_request_json(const struct interface_request *i);

/* And back: unknown fields are refused with `strict`, passed over without (claim records). */
int interface_request_parse(const json_t *o, const struct jpath *p, bool strict,
                            struct interface_request *ret, struct err *e);

/* ERR_USER with the reason if the kernel or a runtime would treat the name specially or refuse it.
 */
int interface_name_check(const char *name, const struct jpath *p, struct err *e);

/* Whether two are the same address, whatever their prefixes. */
bool ipnet_same_host(const struct ipnet *a, const struct ipnet *b);

/* Whether the kernel would take one route for the other: same network, metric and table. */
bool route_same_key(const struct route *a, const struct route *b);
