/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/cluster.h"

#include "base/str.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define PAGE_LIMIT 500
/* A slice of 128 devices is about 150 KiB, so one page is 75 MiB at worst; then it is halved. */
#define PAGE_MAX   ((size_t)16 * 1024 * 1024)
#define TIMEOUT_MS 60000
#define RETRIES    4
#define AGAIN_MAX  3

struct cluster {
    struct loop *loop;
    struct api *api;
    int timeout_ms, retries;
};

/* The service account's token is in every pod, unless the pod doesn't want it. */
static bool in_pod(void)
{
    return getenv("KUBERNETES_SERVICE_HOST") &&
           access("/var/run/secrets/kubernetes.io/serviceaccount/token", R_OK) == 0;
}

/* NULL: as a pod. */
static int find_kubeconfig(const char *given, char **ret, struct err *e)
{
    const char *from = given ? given : getenv("KUBECONFIG"), *home = getenv("HOME");

    if (!from || !*from) {
        *ret = in_pod() || !home ? NULL : xasprintf("%s/.kube/config", home);
        return 0;
    }
    if (!given && strchr(from, ':'))
        return err_set(e, ERR_USER, -EINVAL,
                       "$KUBECONFIG lists several files (%s): name one of them with --kubeconfig",
                       from);
    *ret = xstrdup(from);
    return 0;
}

int cluster_new(const char *kubeconfig, struct cluster **ret, struct err *e)
{
    _cleanup_(cluster_freep) struct cluster *c = xnew(struct cluster);
    _cleanup_free_ char *file = NULL;
    int r;

    *c = (struct cluster){.timeout_ms = TIMEOUT_MS, .retries = RETRIES};
    (void)signal(SIGPIPE, SIG_IGN);
    if ((r = find_kubeconfig(kubeconfig, &file, e)) < 0 ||
        (r = loop_new(clock_system(), &c->loop, e)) < 0)
        return r;
    r = api_new(c->loop, &(struct api_config){.kubeconfig = file}, &c->api, e);
    if (r < 0)
        return kubeconfig ? r : err_prefix(e, r, "no --kubeconfig given");
    *ret = TAKE_PTR(c);
    return 0;
}

void cluster_free(struct cluster *c)
{
    api_free(c->api);
    if (c->loop)
        loop_free(c->loop);
    free(c);
}

void cluster_hurry(struct cluster *c)
{
    c->timeout_ms = 5000;
    c->retries = 1;
}

/* ---- one request, waited for */

struct answer {
    bool here;
    int status;
    json_t *body;
    struct err err;
};

static void answer_done(struct answer *a)
{
    json_decref(a->body);
    err_clear(&a->err);
}

static void answered(const struct api_response *r, void *data)
{
    struct answer *a = data;

    a->here = true;
    a->status = r->status;
    if (r->err.code < 0)
        err_set(&a->err, r->err.kind, r->err.code, "%s", err_text(&r->err));
    else
        a->body = r->body ? json_incref((json_t *)r->body) : NULL; /* only its count is written */
}

/* 0 if there is an answer, be it an error of the server's: see a->err. */
static int ask(struct cluster *c, const char *path, struct answer *a, struct err *e)
{
    struct api_request q = {.method = "GET",
                            .path = path,
                            .retries = c->retries,
                            .timeout_ms = c->timeout_ms,
                            .max_body = PAGE_MAX};
    struct api_call *call = api_send(c->api, &q, answered, a);

    while (!a->here) {
        int r = loop_once(c->loop, -1, e);

        if (r < 0) {
            api_cancel(call);
            return r;
        }
    }
    return 0;
}

int cluster_get(struct cluster *c, const char *path, json_t **ret, struct err *e)
{
    _cleanup_(answer_done) struct answer a = {0};
    int r = ask(c, path, &a, e);

    if (r < 0)
        return r;
    if (a.err.code < 0)
        return err_move(e, &a.err);
    if (!json_is_object(a.body))
        return err_set(e, ERR_TRANSIENT, -EBADMSG, "GET %s: the answer is no object", path);
    *ret = TAKE_PTR(a.body);
    return 0;
}

int cluster_get_named(struct cluster *c, const char *collection, const char *name, json_t **ret,
                      struct err *e)
{
    _cleanup_free_ char *escaped = api_escape(name);
    _cleanup_free_ char *path = xasprintf("%s%s", collection, escaped);

    return cluster_get(c, path, ret, e);
}

/* ---- lists */

struct reading {
    const struct cluster_list *l;
    char *next; /* where the server goes on; NULL: at the start */
    int limit;
    int times; /* how often the history was gone */
};

static int no_list(const struct reading *r, const char *what, struct err *e)
{
    return err_set(e, ERR_TRANSIENT, -EBADMSG, "GET %s: the answer is no whole list: %s",
                   r->l->path, what);
}

/* Returns 1 if that was the last page. */
static int take_page(struct reading *r, const json_t *body, struct err *e)
{
    const char *version = json_str_at(body, "metadata.resourceVersion");
    const json_t *next = json_at(body, "metadata.continue"), *item;
    const json_t *items = json_object_get(body, "items"); /* may be null for an empty list */
    size_t i;

    if (!version || !*version)
        return no_list(r, "no resourceVersion", e);
    if (!json_is_array(items) && !json_is_null(items))
        return no_list(r, "no items", e);
    if (next && !json_c_str(next))
        return no_list(r, "`continue` is no text", e);
    json_array_foreach (items, i, item) {
        int ret = json_is_object(item) ? r->l->item(item, r->l->data, e)
                                       : no_list(r, "an item is no object", e);
        if (ret < 0)
            return ret;
    }
    bool last = !next || !*json_c_str(next);
    if (last && json_int_at(body, "metadata.remainingItemCount", 0) > 0)
        return no_list(r, "it ends before its end", e);
    free(r->next);
    r->next = last ? NULL : xstrdup(json_c_str(next));
    return last;
}

/* Begins anew where that helps; else the error stays. */
static int recover(struct reading *r, struct answer *a, struct err *e)
{
    if (a->err.code == -EFBIG && r->limit > 1) {
        r->limit /= 2;
        return 0;
    }
    if (a->status == 410 && r->next && r->times < AGAIN_MAX) {
        r->times++;
        free(TAKE_PTR(r->next));
        r->l->again(r->l->data);
        return 0;
    }
    return err_move(e, &a->err);
}

static char *page_path(const struct reading *r)
{
    struct strbuf b = {0};

    strbuf_printf(&b, "%s?limit=%d", r->l->path, r->limit);
    if (r->l->query)
        strbuf_printf(&b, "&%s", r->l->query);
    if (r->next) {
        _cleanup_free_ char *token = api_escape(r->next);

        strbuf_printf(&b, "&continue=%s", token);
    }
    return strbuf_take(&b);
}

int cluster_list(struct cluster *c, const struct cluster_list *l, struct err *e)
{
    struct reading r = {.l = l, .limit = PAGE_LIMIT};
    int ret = 0;

    while (ret == 0) {
        _cleanup_(answer_done) struct answer a = {0};
        _cleanup_free_ char *path = page_path(&r);

        ret = ask(c, path, &a, e);
        if (ret == 0)
            ret = a.err.code < 0 ? recover(&r, &a, e) : take_page(&r, a.body, e);
    }
    free(r.next);
    return ret < 0 ? ret : 0;
}

int cluster_list_slices(struct cluster *c, const char *driver, const char *pool,
                        int (*item)(const json_t *item, void *data, struct err *e),
                        void (*again)(void *data), void *data, struct err *e)
{
    _cleanup_free_ char *d = api_escape(driver), *p = pool ? api_escape(pool) : NULL;
    _cleanup_free_ char *query = xasprintf("fieldSelector=spec.driver%%3D%s%s%s", d,
                                           p ? "%2Cspec.pool.name%3D" : "", p ? p : "");
    const struct cluster_list l = {.path = "/apis/resource.k8s.io/v1/resourceslices",
                                   .query = query,
                                   .item = item,
                                   .again = again,
                                   .data = data};
    _cleanup_err_ struct err why = ERR_INIT;
    int r = cluster_list(c, &l, &why);

    if (r == -EINVAL && pool)
        return cluster_list_slices(c, driver, NULL, item, again, data, e);
    return r < 0 ? err_move(e, &why) : 0;
}
