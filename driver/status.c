/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/status.h"

#include "base/log.h"
#include "driver/in_pod.h"
#include "driver/node.h"

#include <errno.h>

#define IPS_MAX  16 /* k8s.io/api/resource/v1: networkData.ips */
#define RETRIES  5
#define PAUSE_MS 30000

/* What one claim's status is to be. */
struct write {
    struct statuses *all;
    char *uid, *title, *path;
    json_t *next;          /* not sent yet; NULL: nothing is waiting */
    json_t *sent;          /* with call */
    struct api_call *call; /* NULL: none under way */
};

struct statuses {
    struct node *node;
    struct timer *again;
    VEC(struct write *) writes;
};

static void add_condition(json_t *list, const char *type, bool is, const char *reason,
                          const char *message)
{
    char now[21];
    json_t *c = json_object();

    clock_rfc3339(clock_wall_ms(), now);
    json_set_str(c, "type", type);
    json_set_str(c, "status", is ? "True" : "False");
    json_set_str(c, "reason", reason);
    json_set_str(c, "message", message);
    json_set_str(c, "lastTransitionTime", now);
    json_array_append_new(list, c);
}

static json_t *conditions(const struct grant *g)
{
    json_t *list = json_array();

    add_condition(list, "Ready", true, "Attached", "the VF is in the pod, as asked");
    if (g->choices) {
        bool first = g->choice == 1;
        _cleanup_free_ char *message =
            xasprintf("request %s: alternative %s was allocated, number %u of %u", g->request,
                      g->alternative, g->choice, g->choices);

        /* A name can't be the reason: it may have a '-', which the API refuses there. */
        add_condition(list, "FirstChoice", first, first ? "FirstAllocated" : "LaterAllocated",
                      message);
    }
    return list;
}

static json_t *network_data(const struct attach_result *r)
{
    json_t *net = json_object(), *ips = json_array();
    char mac[MAC_TEXT_SIZE], ip[IPNET_TEXT_SIZE];

    json_object_set_new(net, "interfaceName", json_string(r->name));
    json_object_set_new(net, "hardwareAddress", json_string(mac_text(&r->mac, mac)));
    vec_foreach (a, &r->addrs)
        if (!ipnet_is_link_local(a) && json_array_size(ips) < IPS_MAX)
            json_array_append_new(ips, json_string(ipnet_text(a, ip)));
    json_object_set_new(net, "ips", ips);
    return net;
}

static json_t *document(const struct node *n, const struct record *rec, const attachment_vec *v)
{
    json_t *doc = json_object(), *meta = json_object(), *status = json_object(),
           *devices = json_array();

    for (size_t i = 0; i < v->n && i < rec->devices.n; i++) {
        const struct grant *g = &rec->devices.v[i].grant;
        json_t *d;

        if (!v->v[i].attached)
            continue;
        d = json_object();
        json_object_set_new(d, "driver", json_string(n->c.driver));
        json_set_str(d, "pool", g->pool);
        json_set_str(d, "device", g->device);
        json_set_str(d, "shareID", g->share_id);
        json_object_set_new(d, "conditions", conditions(g));
        json_object_set_new(d, "data", in_pod_data(&rec->devices.v[i]));
        json_object_set_new(d, "networkData", network_data(&v->v[i].result));
        json_array_append_new(devices, d);
    }
    json_set_str(meta, "namespace", rec->namespace);
    json_set_str(meta, "name", rec->name);
    json_set_str(meta, "uid", rec->uid); /* a claim made anew under this name isn't ours */
    json_object_set_new(status, "devices", devices);
    json_object_set_new(doc, "apiVersion", json_string("resource.k8s.io/v1"));
    json_object_set_new(doc, "kind", json_string("ResourceClaim"));
    json_object_set_new(doc, "metadata", meta);
    json_object_set_new(doc, "status", status);
    return doc;
}

static void write_free(struct write *w)
{
    api_cancel(w->call);
    json_decref(w->next);
    json_decref(w->sent);
    free(w->uid);
    free(w->title);
    free(w->path);
    free(w);
}

static void drop(struct write *w)
{
    struct statuses *s = w->all;

    vec_foreach (it, &s->writes)
        if (*it == w) {
            *it = s->writes.v[--s->writes.n];
            break;
        }
    write_free(w);
}

static void send_next(struct write *w);

static void written(const struct api_response *r, void *data)
{
    struct write *w = data;

    w->call = NULL;
    if (r->err.code < 0 && r->err.kind == ERR_TRANSIENT) {
        log_warn_err(&r->err, "claim status not written yet: tried again", "claim", w->title, "uid",
                     w->uid);
        if (!w->next)
            w->next = TAKE_PTR(w->sent);
        timer_set(w->all->again, PAUSE_MS);
        return;
    }
    if (r->err.code < 0)
        log_warn_err(&r->err, "claim status not written", "claim", w->title, "uid", w->uid);
    if (w->next)
        send_next(w);
    else
        drop(w);
}

/*
 * Server-side apply, not PUT: a PUT of the whole status by a client that doesn't know every member
 * is refused (skipNodeOperations can't be changed once set), and it would undo other drivers'
 * entries.
 */
static void send_next(struct write *w)
{
    json_decref(w->sent);
    w->sent = TAKE_PTR(w->next);
    w->call = api_send(w->all->node->api,
                       &(struct api_request){
                           .method = "PATCH",
                           .path = w->path,
                           .body = w->sent,
                           .content_type = "application/apply-patch+yaml",
                           .retries = RETRIES,
                       },
                       written, w);
}

static void send_waiting(void *data)
{
    struct statuses *s = data;

    for (size_t i = s->writes.n; i-- > 0;) {
        struct write *w = s->writes.v[i];

        if (w->call)
            continue;
        if (claims_find(s->node->claims, w->uid))
            send_next(w);
        else
            drop(w); /* released meanwhile */
    }
}

struct statuses *statuses_new(struct node *n)
{
    struct statuses *s = xnew(struct statuses);

    s->node = n;
    s->again = timer_new(n->loop, send_waiting, s);
    return s;
}

void statuses_free(struct statuses *s)
{
    vec_foreach (w, &s->writes)
        write_free(*w);
    free(s->writes.v);
    timer_free(s->again);
    free(s);
}

static struct write *find_or_add(struct statuses *s, const struct record *rec)
{
    _cleanup_free_ char *ns = api_escape(rec->namespace), *name = api_escape(rec->name),
                        *manager = api_escape(s->node->c.driver);

    vec_foreach (it, &s->writes)
        if (streq((*it)->uid, rec->uid))
            return *it;
    struct write *w = xnew(struct write);

    *w = (struct write){
        .all = s,
        .uid = xstrdup(rec->uid),
        .title = record_title(rec),
        .path = xasprintf("/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s/status"
                          "?fieldManager=%s&force=true",
                          ns, name, manager),
    };
    *VEC_PUSH(&s->writes) = w;
    return w;
}

void status_write(struct statuses *s, const struct record *rec, const attachment_vec *v)
{
    struct write *w = find_or_add(s, rec);

    json_decref(w->next);
    w->next = document(s->node, rec, v);
    if (!w->call)
        send_next(w);
}
