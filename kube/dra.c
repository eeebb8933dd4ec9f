/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/dra.h"

#include "base/file.h"
#include "base/log.h"
#include "kube/dra_wire.h"
#include "kube/grpc.h"

#include <assert.h>
#include <errno.h>

/* The kubelet takes the first that it knows; it refuses us if it knows none. */
static const char *const versions[] = {"v1.DRAPlugin", "v1beta1.DRAPlugin", NULL};

struct dra {
    char *info; /* the PluginInfo, packed */
    size_t info_len;
    dra_fn *fn;
    void (*registered)(bool ok, const char *error, void *data);
    void *data;

    struct grpc_srv_method service_methods[4], registration_methods[2];
    struct grpc_srv *service, *registration;
    struct open_call *calls;
    unsigned n_calls;
};

struct open_call {
    struct dra_call pub;
    struct dra *dra;           /* NULL: freed meanwhile, nobody to answer */
    struct grpc_srv_call *rpc; /* NULL likewise */
    struct dra_result *results;
    bool *answered;
    size_t missing;
    struct open_call *next, **link;
};

/* ---- Prepare and Unprepare ---- */

static void result_done(struct dra_result *r)
{
    free(r->error);
    vec_foreach (d, &r->devices) {
        free(d->request);
        free(d->pool);
        free(d->device);
        free(d->cdi_id);
    }
    free(r->devices.v);
}

static void call_free(struct open_call *c)
{
    for (size_t i = 0; i < c->pub.claims.n; i++)
        result_done(&c->results[i]);
    dra_wire_claims_done(&c->pub.claims);
    free(c->results);
    free(c->answered);
    free(c);
}

static void call_unlink(struct open_call *c)
{
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    c->dra->n_calls--;
    c->dra = NULL;
}

static void reply_results(struct grpc_srv_call *rpc, bool prepare, const struct dra_result *results,
                          size_t n)
{
    struct strbuf b = {0};

    dra_wire_results(prepare, results, n, &b);
    grpc_srv_reply(rpc, GRPC_CODE_OK, NULL, b.s, b.len);
    strbuf_done(&b);
}

void dra_call_answer(struct dra_call *call, size_t index, struct dra_result *r)
{
    struct open_call *c = container_of(call, struct open_call, pub);

    assert(index < call->claims.n && !c->answered[index]);
    c->answered[index] = true;
    c->results[index] = *r;
    c->results[index].uid = call->claims.v[index].uid;
    *r = (struct dra_result){.uid = r->uid};
    if (--c->missing > 0)
        return;
    if (c->dra) {
        call_unlink(c);
        reply_results(c->rpc, call->prepare, c->results, call->claims.n);
    }
    call_free(c);
}

static void claims_call(struct dra *d, bool prepare, struct grpc_srv_call *rpc, const void *request,
                        size_t len)
{
    _cleanup_err_ struct err e = ERR_INIT;
    dra_claim_vec claims;

    if (dra_wire_claims(request, len, &claims, &e) < 0) {
        grpc_srv_reply(rpc, GRPC_CODE_INVALID_ARGUMENT, err_text(&e), NULL, 0);
        return;
    }
    if (claims.n == 0) {
        reply_results(rpc, prepare, NULL, 0);
        return;
    }
    struct open_call *c = xnew(struct open_call);

    c->pub = (struct dra_call){.prepare = prepare, .claims = claims};
    c->rpc = rpc;
    c->results = xcalloc(claims.n, sizeof(*c->results));
    c->answered = xcalloc(claims.n, sizeof(*c->answered));
    c->missing = claims.n;
    c->dra = d;
    c->next = d->calls;
    c->link = &d->calls;
    if (c->next)
        c->next->link = &c->next;
    d->calls = c;
    d->n_calls++;
    d->fn(&c->pub, d->data);
}

static void prepare_call(struct grpc_srv_call *rpc, const void *request, size_t len, void *data)
{
    claims_call(data, true, rpc, request, len);
}

static void unprepare_call(struct grpc_srv_call *rpc, const void *request, size_t len, void *data)
{
    claims_call(data, false, rpc, request, len);
}

/* ---- registration ---- */

static void info_call(struct grpc_srv_call *rpc, const void *request, size_t len, void *data)
{
    const struct dra *d = data;

    /* An InfoRequest has no fields. */
    (void)request;
    (void)len;
    grpc_srv_reply(rpc, GRPC_CODE_OK, NULL, d->info, d->info_len);
}

static void status_call(struct grpc_srv_call *rpc, const void *request, size_t len, void *data)
{
    _cleanup_err_ struct err e = ERR_INIT;
    _cleanup_free_ char *error = NULL;
    struct dra *d = data;
    bool ok;

    if (dra_wire_registration_status(request, len, &ok, &error, &e) < 0) {
        grpc_srv_reply(rpc, GRPC_CODE_INVALID_ARGUMENT, err_text(&e), NULL, 0);
        return;
    }
    grpc_srv_reply(rpc, GRPC_CODE_OK, NULL, NULL, 0);
    if (d->registered)
        d->registered(ok, error, d->data);
}

/* ---- start and end ---- */

static void make_tables(struct dra *d)
{
#define V1      "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"
#define V1BETA1 "/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/"
    d->service_methods[0] = (struct grpc_srv_method){V1 "NodePrepareResources", prepare_call, d};
    d->service_methods[1] =
        (struct grpc_srv_method){V1 "NodeUnprepareResources", unprepare_call, d};
    d->service_methods[2] =
        (struct grpc_srv_method){V1BETA1 "NodePrepareResources", prepare_call, d};
    d->service_methods[3] =
        (struct grpc_srv_method){V1BETA1 "NodeUnprepareResources", unprepare_call, d};
    d->registration_methods[0] =
        (struct grpc_srv_method){"/pluginregistration.Registration/GetInfo", info_call, d};
    d->registration_methods[1] = (struct grpc_srv_method){
        "/pluginregistration.Registration/NotifyRegistrationStatus", status_call, d};
}

/* Where the kubelet looks is `dir`; it takes any name there, so a long driver's may be dropped. */
static char *registration_path(const struct dra_config *c, const char *dir)
{
    if (!c->pod_uid)
        return xasprintf("%s/%s-reg.sock", dir, c->driver);
    char *path = xasprintf("%s/%s-%s-reg.sock", dir, c->driver, c->pod_uid);
    if (strlen(path) <= GRPC_SRV_PATH_MAX)
        return path;
    free(path);
    return xasprintf("%s/dra-%s-reg.sock", dir, c->pod_uid);
}

static int serve(struct loop *l, const char *dir, const char *path,
                 const struct grpc_srv_method *methods, size_t n, struct grpc_srv **ret,
                 struct err *e)
{
    _cleanup_close_ int fd = -1;
    int r = dir_make(dir, 0750, &fd, e);

    return r < 0 ? r : grpc_srv_new(l, path, methods, n, ret, e);
}

int dra_new(struct loop *l, const struct dra_config *c, struct dra **ret, struct err *e)
{
    _cleanup_(dra_freep) struct dra *d = xnew(struct dra);
    _cleanup_free_ char *dir = xasprintf("%s/plugins/%s", c->kubelet_root, c->driver);
    _cleanup_free_ char *registry = xasprintf("%s/plugins_registry", c->kubelet_root);
    _cleanup_free_ char *endpoint =
        c->pod_uid ? xasprintf("%s/dra-%s.sock", dir, c->pod_uid) : xasprintf("%s/dra.sock", dir);
    _cleanup_free_ char *door = registration_path(c, registry);
    struct strbuf info = {0};

    if (c->kubelet_root[0] != '/')
        return err_set(e, ERR_USER, -EINVAL, "kubelet root %s: not an absolute path",
                       c->kubelet_root);
    dra_wire_plugin_info(c->driver, endpoint, versions, &info);
    d->info_len = info.len;
    d->info = strbuf_take(&info);
    d->fn = c->fn;
    d->registered = c->registered;
    d->data = c->data;
    make_tables(d);
    int r =
        serve(l, dir, endpoint, d->service_methods, ARRAY_SIZE(d->service_methods), &d->service, e);
    if (r < 0)
        return r;
    r = serve(l, registry, door, d->registration_methods, ARRAY_SIZE(d->registration_methods),
              &d->registration, e);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(d);
    return 0;
}

unsigned dra_open_calls(const struct dra *d)
{
    return d->n_calls;
}

void dra_free(struct dra *d)
{
    if (!d)
        return;
    grpc_srv_free(d->registration);
    while (d->calls) {
        struct open_call *c = d->calls;

        call_unlink(c);
        grpc_srv_reply(TAKE_PTR(c->rpc), GRPC_CODE_UNAVAILABLE, "the driver is ending", NULL, 0);
    }
    grpc_srv_free(d->service);
    free(d->info);
    free(d);
}
