/* SPDX-License-Identifier: Apache-2.0 */
/* A ResourceClaim's status, read. Its server wrote it: unknown fields are passed over. */
#include "driver/allocation.h"

#include <ctype.h>
#include <errno.h>

static void allocated_device_done(struct allocated_device *d)
{
    free(d->request);
    free(d->subrequest);
    free(d->pool);
    free(d->device);
    free(d->share_id);
    vf_request_done(&d->asked);
}

void allocation_done(struct allocation *a)
{
    vec_foreach (d, &a->devices)
        allocated_device_done(d);
    vec_foreach (uid, &a->pods)
        free(*uid);
    free(a->devices.v);
    free(a->pods.v);
    free(a->namespace);
    free(a->name);
    free(a->uid);
    *a = (struct allocation){0};
}

bool uid_is_valid(const char *uid)
{
    size_t len = strlen(uid);

    if (len < 1 || len > 63)
        return false;
    for (const char *c = uid; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-')
            return false;
    return true;
}

static int bad_object(struct err *e, const char *path, const char *what)
{
    return err_set(e, ERR_PERMANENT, -EBADMSG, "%s: %s in what the API server sent", path, what);
}

/* A string that must be there; the API validates it, so that it is missing is no user's fault. */
static int need_str(const json_t *o, const char *key, const char *path, char **ret, struct err *e)
{
    const char *s = json_str_at(o, key);

    if (!s || !*s)
        return bad_object(e, path, "missing");
    *ret = xstrdup(s);
    return 0;
}

static int read_metadata(const json_t *claim, const char *uid, struct allocation *a, struct err *e)
{
    const json_t *deleted = json_at(claim, "metadata.deletionTimestamp");
    int r;

    if ((r = need_str(claim, "metadata.namespace", "metadata.namespace", &a->namespace, e)) < 0 ||
        (r = need_str(claim, "metadata.name", "metadata.name", &a->name, e)) < 0 ||
        (r = need_str(claim, "metadata.uid", "metadata.uid", &a->uid, e)) < 0)
        return r;
    if (!uid_is_valid(a->uid))
        return bad_object(e, "metadata.uid", "no valid uid");
    if (uid && !streq(uid, a->uid))
        return err_set(
            e, ERR_PERMANENT, -ESTALE,
            "claim %s/%s: its uid is %s, but %s was asked for; the claim was deleted and "
            "made anew under the same name",
            a->namespace, a->name, a->uid, uid);
    a->deleted = deleted && !json_is_null(deleted);
    return 0;
}

void skip_list_read(const json_t *list, bool *ret_prepare, bool *ret_unprepare)
{
    bool prepare = false, unprepare = false;
    json_t *v;
    size_t n;

    json_array_foreach (list, n, v) {
        const char *op = json_c_str(v);

        if (!op)
            continue;
        prepare |= streq(op, "*") || streq(op, "NodePrepareResources");
        unprepare |= streq(op, "*") || streq(op, "NodeUnprepareResources");
    }
    *ret_prepare = prepare;
    *ret_unprepare = unprepare;
}

static int read_result(const json_t *result, const char *path, struct allocation *a, struct err *e)
{
    struct allocated_device *d = VEC_PUSH(&a->devices);
    int r;

    if ((r = need_str(result, "request", path, &d->request, e)) < 0 ||
        (r = need_str(result, "pool", path, &d->pool, e)) < 0 ||
        (r = need_str(result, "device", path, &d->device, e)) < 0)
        return r;
    char *slash = strchr(d->request, '/');
    if (slash) {
        d->subrequest = xstrdup(d->request);
        *slash = '\0';
    }
    d->share_id = xstrdup(json_str_at(result, "shareID"));
    d->admin_access = json_is_true(json_object_get(result, "adminAccess"));
    skip_list_read(json_object_get(result, "skipNodeOperations"), &d->skip_prepare,
                   &d->skip_unprepare);
    return 0;
}

static int read_results(const json_t *allocation, const char *driver, struct allocation *a,
                        struct err *e)
{
    json_t *list = json_at(allocation, "devices.results"), *v;
    size_t n;

    json_array_foreach (list, n, v) {
        const char *of = json_str_at(v, "driver");
        _cleanup_free_ char *path = xasprintf("status.allocation.devices.results[%zu]", n);

        if (!of)
            return bad_object(e, path, "no driver");
        if (!streq(of, driver))
            continue;
        int r = read_result(v, path, a, e);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The first in the list that could be had was allocated; the claim's spec has the order. */
static void read_choice(const json_t *claim, struct allocated_device *d)
{
    json_t *requests = json_at(claim, "spec.devices.requests"), *request, *sub;
    size_t n, i;

    if (!d->subrequest)
        return;
    json_array_foreach (requests, n, request) {
        json_t *list = json_object_get(request, "firstAvailable");

        if (!streq_null(json_str_at(request, "name"), d->request))
            continue;
        json_array_foreach (list, i, sub) {
            if (!streq_null(json_str_at(sub, "name"), d->subrequest + strlen(d->request) + 1))
                continue;
            d->choice = (unsigned)i + 1;
            d->choices = (unsigned)json_array_size(list);
        }
    }
}

/* What this driver wrote, in this or an earlier run. */
static void read_told(const json_t *claim, const char *driver, struct allocation *a)
{
    json_t *list = json_at(claim, "status.devices"), *v;
    size_t n;

    json_array_foreach (list, n, v) {
        const char *of = json_str_at(v, "driver"), *pool = json_str_at(v, "pool"),
                   *device = json_str_at(v, "device"), *share = json_str_at(v, "shareID");

        vec_foreach (d, &a->devices)
            d->told |= streq_null(of, driver) && streq_null(pool, d->pool) &&
                       streq_null(device, d->device) &&
                       streq(share ? share : "", d->share_id ? d->share_id : "") &&
                       json_is_object(json_object_get(v, "networkData"));
    }
}

/* As k8s.io/dynamic-resource-allocation/resourceclaim.ConfigForResult() has it. */
static bool config_covers(const json_t *requests, const struct allocated_device *d)
{
    json_t *v;
    size_t n;

    if (!json_array_size(requests))
        return true;
    json_array_foreach (requests, n, v) {
        const char *name = json_c_str(v);

        if (name && (streq(name, d->request) || streq_null(name, d->subrequest)))
            return true;
    }
    return false;
}

static int merge_config(const json_t *config, enum request_source source, size_t index,
                        struct allocation *a, struct err *e)
{
    const json_t *params = json_at(config, "opaque.parameters");
    _cleanup_free_ char *where =
        xasprintf("claim %s/%s: configuration [%zu] (from %s)", a->namespace, a->name, index,
                  source == FROM_CLASS ? "its class" : "the claim");
    /* One that covers no device of ours was meant for us all the same, and must be right. */
    _cleanup_(vf_request_done) struct vf_request nobody = {0};
    int r = vf_request_merge(&nobody, source, params, where, e);

    if (r < 0)
        return r;
    vec_foreach (d, &a->devices) {
        if (!config_covers(json_object_get(config, "requests"), d))
            continue;
        if ((r = vf_request_merge(&d->asked, source, params, where, e)) < 0)
            return err_prefix(e, r, "request %s", d->subrequest ? d->subrequest : d->request);
    }
    return 0;
}

/* Class configuration first, in the order of the list, then the claim's, whatever the list's. */
static int read_config(const json_t *allocation, const char *driver, enum request_source source,
                       struct allocation *a, struct err *e)
{
    json_t *list = json_at(allocation, "devices.config"), *v;
    size_t n;

    json_array_foreach (list, n, v) {
        const char *of = json_str_at(v, "opaque.driver"), *from = json_str_at(v, "source");
        int r;

        if (!of || !streq(of, driver))
            continue;
        if (!from || (!streq(from, "FromClass") && !streq(from, "FromClaim"))) {
            _cleanup_free_ char *path =
                xasprintf("status.allocation.devices.config[%zu].source", n);

            return bad_object(e, path, "neither FromClass nor FromClaim");
        }
        if (streq(from, source == FROM_CLASS ? "FromClass" : "FromClaim") &&
            (r = merge_config(v, source, n, a, e)) < 0)
            return r;
    }
    return 0;
}

static void read_consumers(const json_t *claim, struct allocation *a)
{
    json_t *list = json_at(claim, "status.reservedFor"), *v;
    size_t n;

    json_array_foreach (list, n, v) {
        const char *resource = json_str_at(v, "resource"), *uid = json_str_at(v, "uid");
        const char *group = json_str_at(v, "apiGroup");

        if (uid && resource && streq(resource, "pods") && (!group || !*group))
            *VEC_PUSH(&a->pods) = xstrdup(uid);
    }
}

static int read_claim(const json_t *claim, const char *driver, const char *uid,
                      struct allocation *a, struct err *e)
{
    int r = read_metadata(claim, uid, a, e);

    if (r < 0)
        return r;
    read_consumers(claim, a);
    const json_t *allocation = json_at(claim, "status.allocation");
    if (!json_is_object(allocation))
        return err_set(e, ERR_PERMANENT, -ENOENT, "claim %s/%s is not allocated", a->namespace,
                       a->name);
    if ((r = read_results(allocation, driver, a, e)) < 0)
        return err_prefix(e, r, "claim %s/%s", a->namespace, a->name);
    read_told(claim, driver, a);
    vec_foreach (d, &a->devices)
        read_choice(claim, d);
    if ((r = read_config(allocation, driver, FROM_CLASS, a, e)) < 0)
        return r;
    return read_config(allocation, driver, FROM_CLAIM, a, e);
}

int allocation_read(const json_t *claim, const char *driver, const char *uid,
                    struct allocation *ret, struct err *e)
{
    _cleanup_(allocation_done) struct allocation a = {0};
    int r = read_claim(claim, driver, uid, &a, e);

    if (r < 0)
        return r;
    *ret = a;
    a = (struct allocation){0};
    return 0;
}

bool allocation_skips_prepare(const struct allocation *a)
{
    vec_foreach (d, &a->devices)
        if (!d->skip_prepare)
            return false;
    return a->devices.n > 0;
}

bool allocation_skips_unprepare(const struct allocation *a)
{
    vec_foreach (d, &a->devices)
        if (!d->skip_unprepare)
            return false;
    return a->devices.n > 0;
}
