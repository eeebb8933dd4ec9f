/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/nri_wire.h"

#include "proto/nri.pb-c.h"

#include <errno.h>

#define NRI(name) Nri__Pkg__Api__V1alpha1__##name

/* Of the vendored api.proto; runtimes only log it. */
#define NRI_VERSION "v0.12.3"

void nri_pod_done(struct nri_pod *p)
{
    free(p->id);
    free(p->name);
    free(p->uid);
    free(p->namespace);
    free(p->netns);
    *p = (struct nri_pod){0};
}

void nri_container_done(struct nri_container *c)
{
    free(c->id);
    free(c->sandbox_id);
    free(c->name);
    *c = (struct nri_container){0};
}

static void pods_cut(nri_pod_vec *v, size_t n)
{
    while (v->n > n)
        nri_pod_done(&v->v[--v->n]);
}

static void containers_cut(nri_container_vec *v, size_t n)
{
    while (v->n > n)
        nri_container_done(&v->v[--v->n]);
}

void nri_pods_done(nri_pod_vec *v)
{
    pods_cut(v, 0);
    free(v->v);
    *v = (nri_pod_vec){0};
}

void nri_containers_done(nri_container_vec *v)
{
    containers_cut(v, 0);
    free(v->v);
    *v = (nri_container_vec){0};
}

void nri_hello_done(struct nri_hello *h)
{
    free(h->runtime);
    free(h->version);
    free(h->nri_version);
    *h = (struct nri_hello){0};
}

void nri_wire_event_done(struct nri_wire_event *ev)
{
    nri_pod_done(&ev->pod);
    nri_container_done(&ev->container);
}

/* The sandbox shares the host's network if it has no namespace of this type, or one without path.
 */
static char *netns_of(const NRI(PodSandbox) * p)
{
    if (!p->linux)
        return NULL;
    for (size_t i = 0; i < p->linux->n_namespaces; i++) {
        const NRI(LinuxNamespace) *ns = p->linux->namespaces[i];

        if (streq(ns->type, "network"))
            return *ns->path ? xstrdup(ns->path) : NULL;
    }
    return NULL;
}

static int take_pod(const NRI(PodSandbox) * p, struct nri_pod *ret, struct err *e)
{
    if (!p || !*p->id)
        return err_set(e, ERR_PERMANENT, -EINVAL, "%s", p ? "a pod without id" : "no pod");
    *ret = (struct nri_pod){
        .id = xstrdup(p->id),
        .name = xstrdup(p->name),
        .uid = xstrdup(p->uid),
        .namespace = xstrdup(p->namespace_),
        .netns = netns_of(p),
        .pid = p->pid,
    };
    return 0;
}

static int take_container(const NRI(Container) * c, struct nri_container *ret, struct err *e)
{
    if (!c || !*c->id)
        return err_set(e, ERR_PERMANENT, -EINVAL, "%s",
                       c ? "a container without id" : "no container");
    *ret = (struct nri_container){
        .id = xstrdup(c->id),
        .sandbox_id = xstrdup(c->pod_sandbox_id),
        .name = xstrdup(c->name),
        .state = (int)c->state,
    };
    return 0;
}

static int malformed(const char *what, struct err *e)
{
    return err_set(e, ERR_PERMANENT, -EINVAL, "not the message of %s", what);
}

int nri_wire_read_configure(const void *p, size_t n, struct nri_hello *ret, struct err *e)
{
    NRI(ConfigureRequest) *m = nri__pkg__api__v1alpha1__configure_request__unpack(NULL, n, p);

    if (!m)
        return malformed("Configure", e);
    *ret = (struct nri_hello){
        .runtime = xstrdup(m->runtime_name),
        .version = xstrdup(m->runtime_version),
        .nri_version = xstrdup(m->nri_version),
        .request_timeout_ms = m->request_timeout,
    };
    nri__pkg__api__v1alpha1__configure_request__free_unpacked(m, NULL);
    return 0;
}

int nri_wire_read_synchronize(const void *p, size_t n, nri_pod_vec *pods,
                              nri_container_vec *containers, bool *ret_more, struct err *e)
{
    NRI(SynchronizeRequest) *m = nri__pkg__api__v1alpha1__synchronize_request__unpack(NULL, n, p);
    size_t had_pods = pods->n, had_containers = containers->n;
    int r = 0;

    if (!m)
        return malformed("Synchronize", e);
    if (had_pods + m->n_pods + had_containers + m->n_containers > NRI_SYNC_MAX)
        r = err_set(e, ERR_PERMANENT, -E2BIG, "more than %u pods and containers", NRI_SYNC_MAX);
    for (size_t i = 0; r == 0 && i < m->n_pods; i++) {
        struct nri_pod pod;

        r = take_pod(m->pods[i], &pod, e);
        if (r == 0)
            *VEC_PUSH(pods) = pod;
    }
    for (size_t i = 0; r == 0 && i < m->n_containers; i++) {
        struct nri_container container;

        r = take_container(m->containers[i], &container, e);
        if (r == 0)
            *VEC_PUSH(containers) = container;
    }
    if (r == 0) {
        *ret_more = m->more;
    } else {
        pods_cut(pods, had_pods);
        containers_cut(containers, had_containers);
    }
    nri__pkg__api__v1alpha1__synchronize_request__free_unpacked(m, NULL);
    return r;
}

static int read_pod_event(const char *method, const void *p, size_t n, enum nri_event event,
                          struct nri_wire_event *ret, struct err *e)
{
    /* Run, Stop and RemovePodSandbox have the same message: field 1 is the pod. */
    NRI(RunPodSandboxRequest) *m =
        nri__pkg__api__v1alpha1__run_pod_sandbox_request__unpack(NULL, n, p);
    struct nri_wire_event ev = {.event = event};

    if (!m)
        return malformed(method, e);

    int r = take_pod(m->pod, &ev.pod, e);

    nri__pkg__api__v1alpha1__run_pod_sandbox_request__free_unpacked(m, NULL);
    if (r < 0)
        return r;
    *ret = ev;
    return 1;
}

static int read_create(const void *p, size_t n, struct nri_wire_event *ret, struct err *e)
{
    NRI(CreateContainerRequest) *m =
        nri__pkg__api__v1alpha1__create_container_request__unpack(NULL, n, p);
    struct nri_wire_event ev = {.event = NRI_CREATE_CONTAINER};

    if (!m)
        return malformed("CreateContainer", e);

    int r = take_pod(m->pod, &ev.pod, e);

    if (r == 0)
        r = take_container(m->container, &ev.container, e);
    nri__pkg__api__v1alpha1__create_container_request__free_unpacked(m, NULL);
    if (r < 0) {
        nri_wire_event_done(&ev);
        return r;
    }
    *ret = ev;
    return 1;
}

/* CREATE_CONTAINER has had its own call from the beginning, so it isn't looked at here. */
static int read_state_change(const void *p, size_t n, struct nri_wire_event *ret, struct err *e)
{
    static const struct {
        int wire;
        enum nri_event event;
    } known[] = {
        {NRI__PKG__API__V1ALPHA1__EVENT__RUN_POD_SANDBOX, NRI_RUN_SANDBOX},
        {NRI__PKG__API__V1ALPHA1__EVENT__STOP_POD_SANDBOX, NRI_STOP_SANDBOX},
        {NRI__PKG__API__V1ALPHA1__EVENT__REMOVE_POD_SANDBOX, NRI_REMOVE_SANDBOX},
    };
    NRI(StateChangeEvent) *m = nri__pkg__api__v1alpha1__state_change_event__unpack(NULL, n, p);
    int r = 0;

    if (!m)
        return malformed("StateChange", e);
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        struct nri_wire_event ev = {.event = known[i].event};

        if ((int)m->event != known[i].wire)
            continue;
        r = take_pod(m->pod, &ev.pod, e);
        if (r == 0) {
            *ret = ev;
            r = 1;
        }
        break;
    }
    nri__pkg__api__v1alpha1__state_change_event__free_unpacked(m, NULL);
    return r;
}

int nri_wire_read_event(const char *method, const void *p, size_t n, struct nri_wire_event *ret,
                        struct err *e)
{
    if (streq(method, "RunPodSandbox"))
        return read_pod_event(method, p, n, NRI_RUN_SANDBOX, ret, e);
    if (streq(method, "StopPodSandbox"))
        return read_pod_event(method, p, n, NRI_STOP_SANDBOX, ret, e);
    if (streq(method, "RemovePodSandbox"))
        return read_pod_event(method, p, n, NRI_REMOVE_SANDBOX, ret, e);
    if (streq(method, "CreateContainer"))
        return read_create(p, n, ret, e);
    if (streq(method, "StateChange"))
        return read_state_change(p, n, ret, e);
    return err_set(e, ERR_PERMANENT, -ENOSYS, "method %s", method);
}

static void put(struct strbuf *out, const ProtobufCMessage *m)
{
    size_t len = protobuf_c_message_get_packed_size(m);
    _cleanup_free_ uint8_t *bytes = xmalloc(len);

    protobuf_c_message_pack(m, bytes);
    strbuf_add(out, bytes, len);
}

/* protobuf-c's structs hold their strings without const, and don't write to them. */
static char *borrow(const char *s)
{
    return (char *)(uintptr_t)s;
}

void nri_wire_put_register(struct strbuf *out, const char *name, const char *index)
{
    NRI(RegisterPluginRequest) m = NRI__PKG__API__V1ALPHA1__REGISTER_PLUGIN_REQUEST__INIT;

    m.plugin_name = borrow(name);
    m.plugin_idx = borrow(index);
    m.nri_version = borrow(NRI_VERSION);
    put(out, &m.base);
}

void nri_wire_put_configured(struct strbuf *out)
{
    NRI(ConfigureResponse) m = NRI__PKG__API__V1ALPHA1__CONFIGURE_RESPONSE__INIT;

    m.events = 1 << (NRI__PKG__API__V1ALPHA1__EVENT__RUN_POD_SANDBOX - 1) |
               1 << (NRI__PKG__API__V1ALPHA1__EVENT__STOP_POD_SANDBOX - 1) |
               1 << (NRI__PKG__API__V1ALPHA1__EVENT__REMOVE_POD_SANDBOX - 1) |
               1 << (NRI__PKG__API__V1ALPHA1__EVENT__CREATE_CONTAINER - 1);
    put(out, &m.base);
}

void nri_wire_put_synchronized(struct strbuf *out, bool more)
{
    NRI(SynchronizeResponse) m = NRI__PKG__API__V1ALPHA1__SYNCHRONIZE_RESPONSE__INIT;

    m.more = more;
    put(out, &m.base);
}

void nri_wire_put_created(struct strbuf *out, const struct nri_adjust *adjust)
{
    NRI(CreateContainerResponse) m = NRI__PKG__API__V1ALPHA1__CREATE_CONTAINER_RESPONSE__INIT;
    NRI(ContainerAdjustment) a = NRI__PKG__API__V1ALPHA1__CONTAINER_ADJUSTMENT__INIT;

    if (!adjust || adjust->env.n == 0) {
        put(out, &m.base);
        return;
    }

    _cleanup_free_ NRI(KeyValue) *pairs = xcalloc(adjust->env.n, sizeof(*pairs));
    _cleanup_free_ NRI(KeyValue) **list = xcalloc(adjust->env.n, sizeof(*list));

    for (size_t i = 0; i < adjust->env.n; i++) {
        nri__pkg__api__v1alpha1__key_value__init(&pairs[i]);
        pairs[i].key = adjust->env.v[i].name;
        pairs[i].value = adjust->env.v[i].value;
        list[i] = &pairs[i];
    }
    a.n_env = adjust->env.n;
    a.env = list;
    m.adjust = &a;
    put(out, &m.base);
}
