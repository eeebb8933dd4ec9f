/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/dra_wire.h"

#include "proto/dra_v1.pb-c.h"
#include "proto/pluginregistration_v1.pb-c.h"

#include <errno.h>

/* The generated names are whole sentences; here they get words. */
#define V1(name)      K8s__Io__Kubelet__Pkg__Apis__Dra__V1__##name
#define V1_INIT(name) K8S__IO__KUBELET__PKG__APIS__DRA__V1__##name##__INIT
#define v1(name)      k8s__io__kubelet__pkg__apis__dra__v1__##name

typedef V1(Claim) wire_claim;
typedef V1(Device) device;
typedef V1(NodePrepareResourcesRequest) claims_request;
typedef V1(NodePrepareResourcesResponse) prepare_response;
typedef V1(NodePrepareResourcesResponse__ClaimsEntry) prepare_entry;
typedef V1(NodePrepareResourceResponse) prepare_result;
typedef V1(NodeUnprepareResourcesResponse) unprepare_response;
typedef V1(NodeUnprepareResourcesResponse__ClaimsEntry) unprepare_entry;
typedef V1(NodeUnprepareResourceResponse) unprepare_result;

/* ---- memory of what is decoded ---- */

/*
 * protobuf-c's structs lose two things that matter with foreign bytes: how long a string was (it
 * may have a NUL inside), and how much memory few bytes became. Both are known to the allocator:
 * protobuf-c allocates exactly length + 1 for a string.
 */
struct block {
    size_t size;
    _Alignas(max_align_t) unsigned char data[];
};

struct budget {
    ProtobufCAllocator allocator;
    size_t left;
};

static void *budget_alloc(void *data, size_t size)
{
    struct budget *b = data;

    if (size > b->left)
        return NULL;
    b->left -= size;
    struct block *block = xmalloc(sizeof(*block) + size);
    block->size = size;
    return block->data;
}

static void budget_free(void *data, void *p)
{
    (void)data;
    if (p)
        free(container_of(p, struct block, data));
}

/* Enough for DRA_WIRE_MAX_CLAIMS with the longest names that Kubernetes allows. */
static void budget_init(struct budget *b)
{
    b->allocator = (ProtobufCAllocator){
        .alloc = budget_alloc,
        .free = budget_free,
        .allocator_data = b,
    };
    b->left = 2 * 1024 * 1024;
}

/* `s` was decoded with a budget's allocator. */
static bool text_ok(const char *s)
{
    _cleanup_free_ char *valid = str_utf8(s);

    if (!streq(s, valid))
        return false;
    /* An absent string is protobuf-c's own empty one and has no block. */
    return s == protobuf_c_empty_string ||
           strlen(s) + 1 == container_of(s, struct block, data)->size;
}

/* ---- requests ---- */

static const struct dra_claim_ref *find(const dra_claim_vec *claims, const char *uid)
{
    vec_foreach (c, claims)
        if (streq(c->uid, uid))
            return c;
    return NULL;
}

static int add_claim(dra_claim_vec *claims, const wire_claim *w, size_t index, struct err *e)
{
    if (!text_ok(w->uid) || !text_ok(w->namespace_) || !text_ok(w->name))
        return err_set(e, ERR_USER, -EINVAL, "claim %zu of the call: a text isn't valid UTF-8",
                       index);
    if (!*w->uid)
        return err_set(e, ERR_USER, -EINVAL, "claim %zu of the call (%s/%s): no uid", index,
                       w->namespace_, w->name);
    const struct dra_claim_ref *known = find(claims, w->uid);
    if (known && streq(known->namespace, w->namespace_) && streq(known->name, w->name))
        return 0;
    if (known)
        return err_set(e, ERR_USER, -EINVAL, "claims %s/%s and %s/%s of the call have one uid, %s",
                       known->namespace, known->name, w->namespace_, w->name, w->uid);
    *VEC_PUSH(claims) = (struct dra_claim_ref){
        .namespace = xstrdup(w->namespace_),
        .name = xstrdup(w->name),
        .uid = xstrdup(w->uid),
    };
    return 0;
}

int dra_wire_claims(const void *data, size_t len, dra_claim_vec *ret, struct err *e)
{
    struct budget budget;
    dra_claim_vec claims = {0};
    int r = 0;

    budget_init(&budget);
    claims_request *q = v1(node_prepare_resources_request__unpack)(&budget.allocator, len, data);
    if (!q)
        return err_set(e, ERR_USER, -EINVAL, "%zu bytes that are no request with claims", len);
    if (q->n_claims > DRA_WIRE_MAX_CLAIMS)
        r = err_set(e, ERR_USER, -EINVAL, "%zu claims in one call, at most %d are accepted",
                    q->n_claims, DRA_WIRE_MAX_CLAIMS);
    for (size_t i = 0; i < q->n_claims && r == 0; i++)
        r = add_claim(&claims, q->claims[i], i, e);
    v1(node_prepare_resources_request__free_unpacked)(q, &budget.allocator);
    if (r < 0) {
        dra_wire_claims_done(&claims);
        return r;
    }
    *ret = claims;
    return 0;
}

void dra_wire_claims_done(dra_claim_vec *claims)
{
    vec_foreach (c, claims) {
        free(c->namespace);
        free(c->name);
        free(c->uid);
    }
    free(claims->v);
    *claims = (dra_claim_vec){0};
}

int dra_wire_registration_status(const void *data, size_t len, bool *ret_ok, char **ret_error,
                                 struct err *e)
{
    Pluginregistration__RegistrationStatus *s =
        pluginregistration__registration_status__unpack(NULL, len, data);

    if (!s)
        return err_set(e, ERR_USER, -EINVAL, "%zu bytes that are no registration status", len);
    *ret_ok = s->plugin_registered;
    *ret_error = str_utf8(s->error);
    pluginregistration__registration_status__free_unpacked(s, NULL);
    return 0;
}

/* ---- answers ---- */

static void add_packed(struct strbuf *out, const ProtobufCMessage *m)
{
    size_t n = protobuf_c_message_get_packed_size(m);
    _cleanup_free_ uint8_t *bytes = xmalloc(n ? n : 1);

    protobuf_c_message_pack(m, bytes);
    strbuf_add(out, bytes, n);
}

/* The generated structs of one claim's answer; they point into the result and each other. */
struct claim_out {
    prepare_entry prepare;
    prepare_result prepared;
    unprepare_entry unprepare;
    unprepare_result unprepared;
    device *devices;
    device **device_list;
    char *error;
};

static void fill_device(device *d, struct dra_device *from)
{
    *d = (device)V1_INIT(DEVICE);
    if (from->request) {
        d->request_names = &from->request;
        d->n_request_names = 1;
    }
    d->pool_name = from->pool;
    d->device_name = from->device;
    if (from->cdi_id) {
        d->cdi_device_ids = &from->cdi_id;
        d->n_cdi_device_ids = 1;
    }
}

static void fill(struct claim_out *c, const struct dra_result *r)
{
    c->error = str_utf8(r->error ? r->error : "");
    c->unprepared = (unprepare_result)V1_INIT(NODE_UNPREPARE_RESOURCE_RESPONSE);
    c->unprepared.error = c->error;
    c->unprepare = (unprepare_entry)V1_INIT(NODE_UNPREPARE_RESOURCES_RESPONSE__CLAIMS_ENTRY);
    c->unprepare.key = r->uid;
    c->unprepare.value = &c->unprepared;

    c->devices = xcalloc(r->devices.n, sizeof(*c->devices));
    c->device_list = xcalloc(r->devices.n, sizeof(*c->device_list));
    for (size_t i = 0; i < r->devices.n; i++) {
        fill_device(&c->devices[i], &r->devices.v[i]);
        c->device_list[i] = &c->devices[i];
    }
    c->prepared = (prepare_result)V1_INIT(NODE_PREPARE_RESOURCE_RESPONSE);
    c->prepared.error = c->error;
    c->prepared.devices = c->device_list;
    c->prepared.n_devices = r->devices.n;
    c->prepare = (prepare_entry)V1_INIT(NODE_PREPARE_RESOURCES_RESPONSE__CLAIMS_ENTRY);
    c->prepare.key = r->uid;
    c->prepare.value = &c->prepared;
}

void dra_wire_results(bool prepare, const struct dra_result *results, size_t n, struct strbuf *out)
{
    _cleanup_free_ struct claim_out *claims = xcalloc(n, sizeof(*claims));
    _cleanup_free_ prepare_entry **prepares = xcalloc(n, sizeof(*prepares));
    _cleanup_free_ unprepare_entry **unprepares = xcalloc(n, sizeof(*unprepares));

    for (size_t i = 0; i < n; i++) {
        fill(&claims[i], &results[i]);
        prepares[i] = &claims[i].prepare;
        unprepares[i] = &claims[i].unprepare;
    }
    if (prepare) {
        prepare_response m = V1_INIT(NODE_PREPARE_RESOURCES_RESPONSE);

        m.claims = prepares;
        m.n_claims = n;
        add_packed(out, &m.base);
    } else {
        unprepare_response m = V1_INIT(NODE_UNPREPARE_RESOURCES_RESPONSE);

        m.claims = unprepares;
        m.n_claims = n;
        add_packed(out, &m.base);
    }
    for (size_t i = 0; i < n; i++) {
        free(claims[i].devices);
        free(claims[i].device_list);
        free(claims[i].error);
    }
}

void dra_wire_plugin_info(const char *driver, const char *endpoint, const char *const *versions,
                          struct strbuf *out)
{
    Pluginregistration__PluginInfo m = PLUGINREGISTRATION__PLUGIN_INFO__INIT;

    /* Generated structs have no const; packing writes to none of it. */
    m.type = (char *)"DRAPlugin";
    m.name = (char *)driver;
    m.endpoint = (char *)endpoint;
    m.supported_versions = (char **)versions;
    while (versions[m.n_supported_versions])
        m.n_supported_versions++;
    add_packed(out, &m.base);
}
