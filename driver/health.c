/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/health.h"

#include "base/log.h"
#include "driver/metrics.h"
#include "kube/http_server.h"

struct health {
    struct node *node;
    struct http_server *server;
};

/* Adds the line, and says whether it is right. */
static bool part(struct strbuf *out, const char *what, bool right, const char *if_not)
{
    strbuf_printf(out, "%s: %s\n", what, right ? "ok" : if_not);
    return right;
}

bool readiness_text(const struct readiness *r, struct strbuf *out)
{
    bool ready = part(out, "kubelet", r->registered, "hasn't registered the driver");

    if (r->nri_needed)
        ready &= part(out, "runtime", r->nri_connected, "NRI isn't connected");
    ready &= part(out, "node", r->node_seen, "the API server hasn't shown the Node object");
    ready &= part(out, "pods", r->pods_seen, "the API server hasn't listed this node's pods");
    ready &= part(out, "slices", r->published, "not published");
    if (r->stopping)
        ready &= part(out, "driver", false, "is stopping");
    strbuf_puts(out, ready ? "ready\n" : "not ready\n");
    return ready;
}

static void readyz(const struct node *n, struct http_reply *ret)
{
    struct readiness r = {
        .stopping = n->stopping,
        .registered = n->registered,
        .nri_connected = nri_connected(n->nri),
        .node_seen = n->uid != NULL,
        .pods_seen = pods_synced(n->pods),
        .published = n->published,
    };

    vec_foreach (p, &n->pools.pools)
        r.nri_needed |= p->attach == ATTACH_NRI;
    ret->status = readiness_text(&r, &ret->body) ? 200 : 503;
}

static void count_claims(const struct node *n, size_t ret[static MODES])
{
    for (const struct claim *c = claims_next(n->claims, NULL); c; c = claims_next(n->claims, c)) {
        bool has[MODES] = {false};

        vec_foreach (d, &c->rec->devices)
            has[d->grant.mode] = true;
        for (size_t m = 0; m < MODES; m++)
            ret[m] += has[m];
    }
}

static void metrics(const struct node *n, struct http_reply *ret)
{
    struct metrics_now now = {
        .version = n->c.version,
        .registered = n->registered,
        .nri_connected = nri_connected(n->nri),
        .skip_by_kubelet = n->skip_declared,
        .skip_by_server = !(n->dropped & SLICE_FIELD_LIST),
        .taints_by_server = !(n->dropped & SLICE_FIELD_TAINTS),
        .damaged = n->damaged,
        .api = n->api,
    };

    count_claims(n, now.claims);
    ret->status = 200;
    ret->content_type = PROM_CONTENT_TYPE;
    metrics_text(&now, &ret->body);
}

static void serve(const char *path, struct http_reply *ret, void *data)
{
    struct health *h = data;

    if (streq(path, "/healthz")) {
        ret->status = 200;
        strbuf_puts(&ret->body, "ok\n");
    } else if (streq(path, "/readyz")) {
        readyz(h->node, ret);
    } else if (streq(path, "/metrics")) {
        metrics(h->node, ret);
    }
}

int health_new(struct node *n, struct health **ret, struct err *e)
{
    _cleanup_(health_freep) struct health *h = xnew(struct health);
    int r = http_server_new(n->loop, n->c.metrics_address, serve, h, &h->server, e);

    if (r < 0)
        return err_prefix(e, r, "metrics");
    h->node = n;
    log_info("serving metrics", "address", n->c.metrics_address);
    *ret = TAKE_PTR(h);
    return 0;
}

void health_free(struct health *h)
{
    http_server_free(h->server);
    free(h);
}
