/* SPDX-License-Identifier: Apache-2.0 */
/* What the API takes as names: DNS names, node labels, device attributes. */
#include "driver/names.h"

#include "base/str.h"

#include <ctype.h>

/* Lower case letters, digits, and "-" inside; `dots`: several labels. */
static bool is_dns_name(const char *s, size_t max, bool dots)
{
    size_t len = strlen(s);

    if (!len || len > max)
        return false;
    for (size_t i = 0; i < len; i++) {
        bool edge = i == 0 || i == len - 1 || s[i - 1] == '.' || s[i + 1] == '.';

        if (islower((unsigned char)s[i]) || isdigit((unsigned char)s[i]))
            continue;
        if (edge || (s[i] != '-' && !(dots && s[i] == '.')))
            return false;
    }
    return true;
}

bool is_dns_label(const char *s)
{
    return is_dns_name(s, 63, false);
}

bool is_dns_subdomain(const char *s, size_t max)
{
    return is_dns_name(s, max, true);
}

bool is_label_value(const char *s)
{
    size_t len = strlen(s);

    if (len > 63)
        return false;
    for (size_t i = 0; i < len; i++) {
        bool edge = i == 0 || i == len - 1;

        if (!isalnum((unsigned char)s[i]) && (edge || !strchr("-_.", s[i])))
            return false;
    }
    return true;
}

bool is_label_key(const char *s)
{
    const char *slash = strchr(s, '/');
    _cleanup_free_ char *prefix = slash ? xstrndup(s, (size_t)(slash - s)) : NULL;
    const char *name = slash ? slash + 1 : s;

    return *name && is_label_value(name) && (!prefix || is_dns_subdomain(prefix, 253));
}

/* Names that offer.c uses itself, in the driver's domain. */
static bool is_built_in(const char *name)
{
    static const char *const names[] = {
        "mode",         "setupBy",       "cleanupBy",   "attach",       "verified",
        "skipHonoured", "vfIndex",       "pfInterface", "pfPciAddress", "pfDriver",
        "driver",       "vendor",        "device",      "vendorName",   "deviceName",
        "linkType",     "linkSpeedMbps", "rdma",        "vlan",         "vlanQos",
        "mtu",          "maxTxRateMbps", "spoofCheck",  "trust",        "macAddress",
        "mac",          "pool",          "bind",
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (streq(names[i], name))
            return true;
    return false;
}

static bool is_in_domain(const char *name, const char *domain)
{
    size_t have = strlen(name), want = strlen(domain);

    return have >= want && streq(name + have - want, domain) &&
           (have == want || name[have - want - 1] == '.');
}

int attribute_name_check(const char *key, const struct jpath *at, struct err *e)
{
    const char *slash = strchr(key, '/'), *name = slash ? slash + 1 : key;
    size_t len = strlen(name);

    if (len < 1 || len > 32 || isdigit((unsigned char)*name))
        goto bad;
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_')
            goto bad;
    if (slash) {
        _cleanup_free_ char *domain = xstrndup(key, (size_t)(slash - key));

        if (!is_dns_subdomain(domain, 63))
            goto bad;
        if (is_in_domain(domain, "kubernetes.io") || is_in_domain(domain, "k8s.io"))
            return jpath_err(at, e, "the domain %s belongs to Kubernetes", domain);
        if (streq(domain, "sriov-dra.dev"))
            return jpath_err(at, e, "write it without the domain, which is this driver's own");
        if (streq(domain, "k8s.cni.cncf.io"))
            return jpath_err(at, e, "the domain %s is kept for Multus", domain);
    } else if (is_built_in(name)) {
        return jpath_err(at, e, "is a name that the driver keeps for itself");
    }
    return 0;
bad:
    return jpath_err(at, e,
                     "must be a C identifier of at most 32 characters, which may have a "
                     "domain in front: \"fabric\" or \"example.com/fabric\"");
}
