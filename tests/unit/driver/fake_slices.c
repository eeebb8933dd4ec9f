/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/driver/fake_slices.h"

#include "base/json.h"
#include "tests/unit/driver/slice_rules.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <sys/epoll.h>

#define PREFIX "/apis/resource.k8s.io/v1/resourceslices"

struct change {
    const char *type;
    uint64_t version;
    json_t *object;
};

struct watcher {
    struct fake_slices *f;
    struct watcher *next;
    struct MHD_Connection *connection;
    char *selector;
    uint64_t version; /* the last that it was given */
    struct strbuf out;
    bool suspended, end;
};

struct fake_slices {
    struct loop *loop;
    struct MHD_Daemon *daemon;
    struct loop_io *io;
    unsigned port;

    json_vec slices;
    VEC(struct change) history;
    uint64_t version, visible, compacted;
    unsigned created;
    struct watcher *watchers;

    struct fake_counts counts;
    enum fake_fault fault;
    unsigned faults;
    bool drop_lists, drop_taints, fail_lists, hold, down;
    void (*on_write)(const char *name, void *data);
    void *on_write_data;
    char *pool_fault;
};

/* ---- the collection ---- */

static json_t **find(struct fake_slices *f, const char *name)
{
    vec_foreach (o, &f->slices)
        if (streq_null(json_str_at(*o, "metadata.name"), name))
            return o;
    return NULL;
}

static void wake(struct fake_slices *f)
{
    if (!f->hold)
        f->visible = f->version;
    for (struct watcher *w = f->watchers; w; w = w->next)
        if (w->suspended) {
            w->suspended = false;
            MHD_resume_connection(w->connection);
        }
}

static void record(struct fake_slices *f, const char *type, json_t *o)
{
    struct change *c = VEC_PUSH(&f->history);
    _cleanup_free_ char *version = xasprintf("%" PRIu64, ++f->version);

    json_set_str(json_object_get(o, "metadata"), "resourceVersion", version);
    *c = (struct change){type, f->version, json_deep_copy(o)};
    wake(f);
}

static void stamp_taints(json_t *o)
{
    json_t *devices = json_at(o, "spec.devices");

    for (size_t i = 0; i < json_array_size(devices); i++) {
        json_t *taints = json_object_get(json_array_get(devices, i), "taints");

        for (size_t k = 0; k < json_array_size(taints); k++)
            if (!json_object_get(json_array_get(taints, k), "timeAdded"))
                json_set_str(json_array_get(taints, k), "timeAdded", "2026-01-01T00:00:00Z");
    }
}

/* Takes `o`. */
static json_t *store_new(struct fake_slices *f, json_t *o)
{
    _cleanup_free_ char *uid = xasprintf("uid-%u", ++f->created);
    json_t *metadata = json_object_get(o, "metadata");

    json_set_str(metadata, "uid", uid);
    json_set_str(metadata, "creationTimestamp", "2026-01-01T00:00:00Z");
    json_object_set_new(metadata, "managedFields", json_pack("[{s:s}]", "manager", "test"));
    stamp_taints(o);
    *VEC_PUSH(&f->slices) = o;
    record(f, "ADDED", o);
    return o;
}

static json_t *store_changed(struct fake_slices *f, json_t **at, json_t *o)
{
    stamp_taints(o);
    json_decref(*at);
    *at = o;
    record(f, "MODIFIED", o);
    return o;
}

static void store_deleted(struct fake_slices *f, json_t **at)
{
    json_t *o = *at;

    *at = f->slices.v[--f->slices.n];
    record(f, "DELETED", o);
    json_decref(o);
}

static bool is_selected(const json_t *o, const char *selector)
{
    _cleanup_free_ char *of =
        xasprintf("spec.driver=%s,spec.nodeName=%s", json_str_at(o, "spec.driver"),
                  json_str_at(o, "spec.nodeName"));

    return !selector || streq(selector, of);
}

/* ---- answers ---- */

static enum MHD_Result answer(struct MHD_Connection *c, int status, const json_t *body)
{
    char *text = json_text(body);
    struct MHD_Response *r =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_FREE);

    MHD_add_response_header(r, "Content-Type", "application/json");
    if (status == 429)
        MHD_add_response_header(r, "Retry-After", "3");
    enum MHD_Result ok = MHD_queue_response(c, (unsigned)status, r);
    MHD_destroy_response(r);
    return ok;
}

static enum MHD_Result refuse(struct MHD_Connection *c, int status, const char *reason,
                              const char *message)
{
    json_auto_t *body = json_pack("{s:s, s:s, s:s, s:s, s:i}", "kind", "Status", "status",
                                  "Failure", "reason", reason, "message", message, "code", status);

    return answer(c, status, body);
}

static enum MHD_Result answer_list(struct fake_slices *f, struct MHD_Connection *c)
{
    const char *selector = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "fieldSelector");
    _cleanup_free_ char *version = xasprintf("%" PRIu64, f->version);
    json_auto_t *body = json_pack("{s:s, s:{s:s}, s:[]}", "kind", "ResourceSliceList", "metadata",
                                  "resourceVersion", version, "items");

    f->counts.lists++;
    if (f->fail_lists)
        return refuse(c, 500, "InternalError", "etcd is away");
    vec_foreach (o, &f->slices)
        if (is_selected(*o, selector))
            json_array_append(json_object_get(body, "items"), *o);
    return answer(c, 200, body);
}

/* ---- watches ---- */

static void fill(struct watcher *w)
{
    vec_foreach (c, &w->f->history) {
        if (c->version <= w->version || c->version > w->f->visible)
            continue;
        w->version = c->version;
        if (!is_selected(c->object, w->selector))
            continue;
        json_auto_t *event = json_pack("{s:s, s:O}", "type", c->type, "object", c->object);
        _cleanup_free_ char *text = json_text(event);
        strbuf_printf(&w->out, "%s\n", text);
    }
}

static ssize_t read_watch(void *data, uint64_t pos, char *buf, size_t max)
{
    struct watcher *w = data;

    (void)pos;
    if (w->end)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (!w->out.len)
        fill(w);
    if (!w->out.len) {
        w->suspended = true;
        MHD_suspend_connection(w->connection);
        return 0;
    }
    size_t n = w->out.len < max ? w->out.len : max;
    memcpy(buf, w->out.s, n);
    memmove(w->out.s, w->out.s + n, w->out.len - n);
    w->out.len -= n;
    return (ssize_t)n;
}

static void free_watch(void *data)
{
    struct watcher *w = data;

    for (struct watcher **at = &w->f->watchers; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            break;
        }
    free(w->selector);
    strbuf_done(&w->out);
    free(w);
}

static enum MHD_Result answer_watch(struct fake_slices *f, struct MHD_Connection *c)
{
    const char *from = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "resourceVersion");
    struct watcher *w;

    f->counts.watches++;
    if (!from || strtoull(from, NULL, 10) < f->compacted)
        return refuse(c, 410, "Expired", "too old resource version");
    w = xnew(struct watcher);
    w->f = f;
    w->connection = c;
    w->version = strtoull(from, NULL, 10);
    w->selector = xstrdup(MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "fieldSelector"));
    w->next = f->watchers;
    f->watchers = w;

    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 32768, read_watch, w, free_watch);
    enum MHD_Result ok = MHD_queue_response(c, 200, r);
    MHD_destroy_response(r);
    return ok;
}

/* ---- writes ---- */

/* What a server without the feature does (dropDisabledFields of the strategy). */
static void drop_list(struct fake_slices *f, json_t *o, const json_t *old)
{
    if (f->drop_lists && !json_at(old, "spec.skipNodeOperations"))
        json_object_del(json_object_get(o, "spec"), "skipNodeOperations");

    json_t *devices = json_at(o, "spec.devices"), *d;
    size_t i;

    json_array_foreach (devices, i, d)
        if (f->drop_taints)
            json_object_del(d, "taints");
}

static int create(struct fake_slices *f, json_t *body, json_t **ret, const char **ret_reason)
{
    if (find(f, json_str_at(body, "metadata.name"))) {
        *ret_reason = "AlreadyExists";
        return 409;
    }
    json_t *o = json_deep_copy(body);
    drop_list(f, o, NULL);
    *ret = json_incref(store_new(f, o));
    return 201;
}

static int update(struct fake_slices *f, const char *name, json_t *body, json_t **ret,
                  const char **ret_reason)
{
    static const char *const immutable[] = {"spec.driver", "spec.nodeName", "spec.pool.name",
                                            "metadata.uid"};
    json_t **at = find(f, name);

    *ret_reason = "NotFound";
    if (!at)
        return 404;
    *ret_reason = "Conflict";
    if (!streq_null(json_str_at(body, "metadata.resourceVersion"),
                    json_str_at(*at, "metadata.resourceVersion")))
        return 409;
    *ret_reason = "Invalid";
    for (size_t i = 0; i < ARRAY_SIZE(immutable); i++)
        if (!streq_null(json_str_at(body, immutable[i]), json_str_at(*at, immutable[i])))
            return 422;
    json_t *o = json_deep_copy(body);
    drop_list(f, o, *at);
    *ret = json_incref(store_changed(f, at, o));
    return 200;
}

static int delete (struct fake_slices *f, const char *name, const json_t *body,
                   const char **ret_reason)
{
    json_t **at = find(f, name);

    *ret_reason = "NotFound";
    if (!at)
        return 404;
    *ret_reason = "Conflict";
    if (!streq_null(json_str_at(body, "preconditions.uid"), json_str_at(*at, "metadata.uid")) ||
        !streq_null(json_str_at(body, "preconditions.resourceVersion"),
                    json_str_at(*at, "metadata.resourceVersion")))
        return 409;
    store_deleted(f, at);
    return 200;
}

static int act(struct fake_slices *f, const char *method, const char *name, json_t *body,
               json_t **ret, const char **ret_reason)
{
    _cleanup_free_ char *fault = streq(method, "DELETE") ? NULL : slice_fault(body);

    if (fault) {
        *ret_reason = "Invalid";
        fprintf(stderr, "refused: %s\n", fault);
        return 422;
    }
    if (streq(method, "POST")) {
        f->counts.posts++;
        return create(f, body, ret, ret_reason);
    }
    if (streq(method, "PUT")) {
        f->counts.puts++;
        return update(f, name, body, ret, ret_reason);
    }
    f->counts.deletes++;
    return delete (f, name, body, ret_reason);
}

static void count_failed(struct fake_slices *f, const char *method)
{
    unsigned *n = streq(method, "POST")  ? &f->counts.posts
                  : streq(method, "PUT") ? &f->counts.puts
                                         : &f->counts.deletes;

    (*n)++;
}

static enum MHD_Result answer_write(struct fake_slices *f, struct MHD_Connection *c,
                                    const char *method, const char *name, json_t *body)
{
    enum fake_fault fault = f->faults ? f->fault : FAULT_NONE;
    json_auto_t *result = NULL;
    const char *reason = "";

    f->faults -= f->faults > 0;
    switch (fault) {
    case FAULT_500:
        count_failed(f, method);
        return refuse(c, 500, "InternalError", "etcd is away");
    case FAULT_429:
        count_failed(f, method);
        return refuse(c, 429, "TooManyRequests", "later");
    case FAULT_422:
        count_failed(f, method);
        return refuse(c, 422, "Invalid", "not so");
    case FAULT_CONFLICT:
        count_failed(f, method);
        return refuse(c, 409, "Conflict", "the object has been modified");
    case FAULT_NONE:
    case FAULT_LOST:
        break;
    }
    int status = act(f, method, name, body, &result, &reason);
    if (!f->pool_fault)
        f->pool_fault = pool_fault(&f->slices);
    f->counts.done += status < 300;
    if (f->on_write && status < 300)
        f->on_write(name ? name : json_str_at(body, "metadata.name"), f->on_write_data);
    if (fault == FAULT_LOST)
        return MHD_NO;
    if (status >= 300)
        return refuse(c, status, reason, "no");
    if (!result)
        result = json_pack("{s:s, s:s}", "kind", "Status", "status", "Success");
    return answer(c, status, result);
}

/* ---- requests ---- */

static enum MHD_Result answer_get(struct fake_slices *f, struct MHD_Connection *c, const char *name)
{
    json_t **o = find(f, name);

    f->counts.gets++;
    return o ? answer(c, 200, *o) : refuse(c, 404, "NotFound", "no such slice");
}

static enum MHD_Result on_request(void *data, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **request)
{
    struct fake_slices *f = data;
    struct strbuf *in = *request;
    const char *rest = str_skip(url, PREFIX);

    (void)version;
    if (f->down)
        return MHD_NO;
    if (!in) {
        *request = xnew(struct strbuf);
        return MHD_YES;
    }
    if (*upload_size) {
        strbuf_add(in, upload, *upload_size);
        *upload_size = 0;
        return MHD_YES;
    }
    if (!rest || (*rest && *rest != '/'))
        return refuse(c, 404, "NotFound", "no such path");

    const char *name = *rest ? rest + 1 : NULL;
    const char *watch = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "watch");
    json_auto_t *body = in->len ? json_loadb(in->s, in->len, 0, NULL) : NULL;
    if (streq(method, "GET") && name)
        return answer_get(f, c, name);
    if (streq(method, "GET"))
        return watch ? answer_watch(f, c) : answer_list(f, c);
    return answer_write(f, c, method, name, body);
}

static void on_completed(void *data, struct MHD_Connection *c, void **request,
                         enum MHD_RequestTerminationCode code)
{
    (void)data, (void)c, (void)code;
    if (*request)
        strbuf_done(*request);
    free(*request);
}

/* ---- for tests ---- */

void fake_slices_turn(struct fake_slices *f)
{
    MHD_run(f->daemon);
}

static void on_epoll(int fd, uint32_t events, void *data)
{
    (void)fd, (void)events;
    fake_slices_turn(data);
}

struct fake_slices *fake_slices_new(struct loop *l)
{
    struct fake_slices *f = xnew(struct fake_slices);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    f->loop = l;
    f->version = f->visible = f->compacted = 100;
    f->daemon = MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
                                 on_request, f, MHD_OPTION_SOCK_ADDR, &any,
                                 MHD_OPTION_NOTIFY_COMPLETED, on_completed, f, MHD_OPTION_END);
    if (!f->daemon)
        abort();
    f->port = MHD_get_daemon_info(f->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    int fd = MHD_get_daemon_info(f->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    if (loop_io_new(l, fd, EPOLLIN, on_epoll, f, &f->io, NULL) < 0)
        abort();
    return f;
}

void fake_slices_free(struct fake_slices *f)
{
    for (struct watcher *w = f->watchers; w; w = w->next)
        w->end = true;
    f->hold = false;
    wake(f);
    loop_io_free(f->io);
    MHD_stop_daemon(f->daemon);
    vec_foreach (c, &f->history)
        json_decref(c->object);
    free(f->history.v);
    json_vec_done(&f->slices);
    free(f->pool_fault);
    free(f);
}

unsigned fake_slices_port(const struct fake_slices *f)
{
    return f->port;
}

struct fake_counts *fake_slices_counts(struct fake_slices *f)
{
    return &f->counts;
}

unsigned fake_slices_writes(struct fake_slices *f)
{
    return f->counts.posts + f->counts.puts + f->counts.deletes;
}

const json_vec *fake_slices_all(struct fake_slices *f)
{
    return &f->slices;
}

json_t *fake_slices_get(struct fake_slices *f, const char *name)
{
    json_t **o = find(f, name);

    return o ? *o : NULL;
}

const char *fake_slices_fault(const struct fake_slices *f)
{
    return f->pool_fault;
}

void fake_slices_fail(struct fake_slices *f, enum fake_fault fault, unsigned n)
{
    f->fault = fault;
    f->faults = n;
}

void fake_slices_fail_lists(struct fake_slices *f, bool fail)
{
    f->fail_lists = fail;
}

void fake_slices_drop_lists(struct fake_slices *f, bool drop)
{
    f->drop_lists = drop;
}

void fake_slices_drop_taints(struct fake_slices *f)
{
    f->drop_taints = true;
}

void fake_slices_on_write(struct fake_slices *f, void (*fn)(const char *name, void *data),
                          void *data)
{
    f->on_write = fn;
    f->on_write_data = data;
}

void fake_slices_edit(struct fake_slices *f, const char *name, json_t *o)
{
    json_t **at = find(f, name);

    if (!o && at)
        store_deleted(f, at);
    else if (o && at)
        store_changed(f, at, o);
    else if (o)
        store_new(f, o);
}

void fake_slices_delete_all(struct fake_slices *f)
{
    while (f->slices.n)
        store_deleted(f, &f->slices.v[0]);
}

void fake_slices_hold_events(struct fake_slices *f, bool hold)
{
    f->hold = hold;
    wake(f);
}

static void end_watches(struct fake_slices *f)
{
    for (struct watcher *w = f->watchers; w; w = w->next)
        w->end = true;
    wake(f);
}

void fake_slices_down(struct fake_slices *f, bool down)
{
    f->down = down;
    if (down)
        end_watches(f);
}

void fake_slices_compact(struct fake_slices *f)
{
    f->compacted = f->version + 1; /* also for who has seen everything */
    f->version++;
    f->visible = f->version;
    end_watches(f);
}
