/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/driver/slice_rules.h"

#include <regex.h>

#define LABEL     "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
#define SUBDOMAIN LABEL "(\\." LABEL ")*"

static bool matches(const char *s, size_t max, const char *pattern)
{
    static struct {
        const char *pattern;
        regex_t re;
    } known[16]; /* compiling takes longer than all the rest of a test */
    size_t i = 0;

    while (known[i].pattern && !streq(known[i].pattern, pattern))
        i++;
    if (!known[i].pattern) {
        _cleanup_free_ char *whole = xasprintf("^(%s)$", pattern);

        if (i + 1 == ARRAY_SIZE(known) ||
            regcomp(&known[i].re, whole, REG_EXTENDED | REG_NOSUB) != 0)
            abort();
        known[i].pattern = pattern;
    }
    return s && strlen(s) <= max && regexec(&known[i].re, s, 0, NULL, 0) == 0;
}

/* [domain/]identifier */
static bool is_qualified_name(const char *s)
{
    const char *slash = strchr(s, '/');
    _cleanup_free_ char *domain = slash ? xstrndup(s, (size_t)(slash - s)) : xstrdup("d");

    return matches(domain, 63, SUBDOMAIN) &&
           matches(slash ? slash + 1 : s, 32, "[A-Za-z_][A-Za-z0-9_]*");
}

static char *attribute_fault(const char *name, const json_t *value)
{
    const char *kind;
    json_t *v;

    if (!is_qualified_name(name))
        return xasprintf("attribute name %s", name);
    if (json_object_size(value) != 1)
        return xasprintf("attribute %s: exactly one value must be specified", name);
    json_object_foreach ((json_t *)value, kind, v) {
        bool ok = streq(kind, "string") ? json_is_string(v) && json_string_length(v) <= 64
                  : streq(kind, "int")  ? json_is_integer(v)
                                        : streq(kind, "bool") && json_is_boolean(v);

        if (!ok)
            return xasprintf("attribute %s: bad %s", name, kind);
    }
    return NULL;
}

static char *taint_fault(const json_t *taint)
{
    const char *key = json_str_at(taint, "key"), *effect = json_str_at(taint, "effect");

    if (!key || !matches(key, 253 + 64, SUBDOMAIN "/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"))
        return xasprintf("taint key %s", key ? key : "missing");
    if (!effect || (!streq(effect, "NoSchedule") && !streq(effect, "NoExecute")))
        return xasprintf("taint effect %s", effect ? effect : "missing");
    return NULL;
}

char *device_fault(const json_t *device)
{
    json_t *attributes = json_object_get(device, "attributes"), *value;
    json_t *taints = json_object_get(device, "taints");
    const char *name = json_str_at(device, "name"), *key;
    char *fault = NULL;

    if (!matches(name, 63, LABEL))
        return xasprintf("device name %s", name ? name : "missing");
    json_object_foreach ((json_t *)device, key, value)
        if (!streq(key, "name") && !streq(key, "attributes") && !streq(key, "taints"))
            return xasprintf("device %s: field %s", name, key);
    if (json_object_size(attributes) > 32)
        return xasprintf("device %s: %zu attributes", name, json_object_size(attributes));
    json_object_foreach (attributes, key, value)
        if ((fault = attribute_fault(key, value)))
            return fault;
    for (size_t i = 0; i < json_array_size(taints); i++)
        if ((fault = taint_fault(json_array_get(taints, i))))
            return fault;
    return json_array_size(taints) <= 16 ? NULL : xasprintf("device %s: too many taints", name);
}

static char *list_fault(const json_t *list)
{
    if (!list)
        return NULL;
    if (!json_is_array(list) || !json_array_size(list))
        return xstrdup("skipNodeOperations");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!streq_null(json_string_value(json_array_get(list, i)), "*"))
            return xstrdup("skipNodeOperations: value");
    return NULL;
}

static char *devices_fault(const json_t *devices)
{
    json_t *names = json_object();
    size_t max = 128;
    char *fault = NULL;

    for (size_t i = 0; i < json_array_size(devices) && !fault; i++) {
        const json_t *device = json_array_get(devices, i);
        const char *name = json_str_at(device, "name");

        fault = device_fault(device);
        if (!fault && json_object_get(names, name))
            fault = xasprintf("device %s twice", name);
        if (name)
            json_object_set_new(names, name, json_true());
        if (json_array_size(json_object_get(device, "taints")))
            max = 64;
    }
    if (!fault && json_array_size(devices) > max)
        fault = xasprintf("%zu devices, %zu are allowed", json_array_size(devices), max);
    json_decref(names);
    return fault;
}

char *slice_fault(const json_t *slice)
{
    const json_t *spec = json_object_get(slice, "spec");
    char *fault;

    if (!streq_null(json_str_at(slice, "apiVersion"), "resource.k8s.io/v1") ||
        !streq_null(json_str_at(slice, "kind"), "ResourceSlice"))
        return xstrdup("apiVersion or kind");
    if (!matches(json_str_at(slice, "metadata.name"), 253, SUBDOMAIN))
        return xasprintf("name %s", json_str_at(slice, "metadata.name"));
    if (!matches(json_str_at(spec, "driver"), 63, SUBDOMAIN))
        return xstrdup("driver");
    if (!matches(json_str_at(spec, "nodeName"), 253, SUBDOMAIN))
        return xstrdup("nodeName");
    if (!matches(json_str_at(spec, "pool.name"), 253, SUBDOMAIN "(/" SUBDOMAIN ")*"))
        return xstrdup("pool.name");
    if (json_int_at(spec, "pool.generation", -1) < 0)
        return xstrdup("pool.generation");
    if (json_int_at(spec, "pool.resourceSliceCount", 0) <= 0)
        return xstrdup("pool.resourceSliceCount");
    if ((fault = list_fault(json_object_get(spec, "skipNodeOperations"))))
        return fault;
    return devices_fault(json_object_get(spec, "devices"));
}

static int64_t newest(const json_vec *slices)
{
    int64_t generation = -1;

    vec_foreach (o, slices)
        if (json_int_at(*o, "spec.pool.generation", -1) > generation)
            generation = json_int_at(*o, "spec.pool.generation", -1);
    return generation;
}

char *pool_fault(const json_vec *slices)
{
    int64_t generation = newest(slices), count = -1, found = 0;
    json_t *names = json_object();
    char *fault = NULL;

    vec_foreach (o, slices) {
        int64_t says = json_int_at(*o, "spec.pool.resourceSliceCount", -1);
        json_t *devices = json_at(*o, "spec.devices");

        if (fault || json_int_at(*o, "spec.pool.generation", -1) != generation)
            continue;
        found++;
        if (count >= 0 && says != count)
            fault = xstrdup("the slices disagree on their count");
        count = says;
        for (size_t i = 0; i < json_array_size(devices) && !fault; i++) {
            const char *name = json_str_at(json_array_get(devices, i), "name");

            if (json_object_get(names, name))
                fault = xasprintf("device %s in two slices", name);
            json_object_set_new(names, name, json_true());
        }
    }
    if (!fault && found > count && count >= 0)
        fault = xstrdup("more slices than they say");
    json_decref(names);
    return fault;
}

bool pool_is_complete(const json_vec *slices)
{
    int64_t generation = newest(slices), count = 0, found = 0;

    vec_foreach (o, slices) {
        if (json_int_at(*o, "spec.pool.generation", -1) != generation)
            continue;
        found++;
        count = json_int_at(*o, "spec.pool.resourceSliceCount", -1);
    }
    return found == count;
}
