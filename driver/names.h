/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the API takes as names (k8s.io/apimachinery/pkg/util/validation,
 * pkg/apis/resource/validation). Checked here, because a pool with a name that the API refuses
 * would fail much later, or never match anything. Pure.
 */
#pragma once

#include "base/json.h"

/* RFC 1123: lower case letters, digits, and "-" inside; 1 to 63 characters. */
bool is_dns_label(const char *s);
/* Such labels with dots between, `max` characters in all. */
bool is_dns_subdomain(const char *s, size_t max);

/* Of a node's label: the key ("nic", "example.com/nic") and the value, which may be empty. */
bool is_label_key(const char *s);
bool is_label_value(const char *s);

/*
 * Of a pool's own device attribute: "fabric" or "example.com/fabric". ERR_USER also for a name that
 * the driver sets itself, and for a domain that is Kubernetes' or kept for others.
 */
int attribute_name_check(const char *key, const struct jpath *at, struct err *e);
