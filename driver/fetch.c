/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/fetch.h"

#include "base/str.h"

#include <errno.h>

struct waiter {
    fetch_fn *fn;
    void *data;
};

/* One GET that is under way. */
struct fetch {
    struct fetches *all;
    char *namespace, *name;
    struct api_call *call;
    VEC(struct waiter) waiters;
};

struct fetches {
    struct api *api;
    fetch_seen_fn *seen;
    void *data;
    bool stopped;
    VEC(struct fetch *) open;
};

struct fetches *fetches_new(struct api *a, fetch_seen_fn *seen, void *data)
{
    struct fetches *f = xnew(struct fetches);

    *f = (struct fetches){.api = a, .seen = seen, .data = data};
    return f;
}

static void fetch_free(struct fetch *f)
{
    free(f->waiters.v);
    free(f->namespace);
    free(f->name);
    free(f);
}

void fetches_free(struct fetches *f)
{
    vec_foreach (it, &f->open) {
        api_cancel((*it)->call);
        fetch_free(*it);
    }
    free(f->open.v);
    free(f);
}

/* Answers all who wait, with the claim or a copy of the error. */
static void end(struct fetch *f, const json_t *claim, const struct err *why)
{
    vec_foreach (it, &f->all->open)
        if (*it == f) {
            *it = f->all->open.v[--f->all->open.n];
            break;
        }
    vec_foreach (w, &f->waiters) {
        _cleanup_err_ struct err e = ERR_INIT;

        if (!claim)
            err_set(&e, why->kind, why->code, "%s", err_text(why));
        w->fn(claim, claim ? NULL : &e, w->data);
    }
    fetch_free(f);
}

static void fetched(const struct api_response *r, void *data)
{
    struct fetch *f = data;
    _cleanup_err_ struct err e = ERR_INIT;
    const json_t *claim = r->status == 200 ? r->body : NULL;

    if (claim || r->status == 404)
        f->all->seen(f->namespace, f->name, claim, f->all->data);
    if (r->status == 404)
        err_set(&e, ERR_PERMANENT, -ENOENT, "claim %s/%s isn't known to the API server",
                f->namespace, f->name);
    else if (!claim)
        err_set(&e, r->err.code ? r->err.kind : ERR_TRANSIENT, r->err.code ? r->err.code : -EIO,
                "%s", err_text(&r->err));
    end(f, claim, &e);
}

static void stopping(struct err *e)
{
    err_set(e, ERR_TRANSIENT, -ESHUTDOWN, "the driver is stopping");
}

void fetch_claim(struct fetches *fs, const char *namespace, const char *name, int timeout_ms,
                 int retries, fetch_fn *fn, void *data)
{
    if (fs->stopped) {
        _cleanup_err_ struct err e = ERR_INIT;

        stopping(&e);
        fn(NULL, &e, data);
        return;
    }
    vec_foreach (it, &fs->open)
        if (streq((*it)->namespace, namespace) && streq((*it)->name, name)) {
            *VEC_PUSH(&(*it)->waiters) = (struct waiter){fn, data};
            return;
        }
    struct fetch *f = xnew(struct fetch);
    _cleanup_free_ char *ns = api_escape(namespace), *n = api_escape(name);
    _cleanup_free_ char *path =
        xasprintf("/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s", ns, n);

    *f = (struct fetch){.all = fs, .namespace = xstrdup(namespace), .name = xstrdup(name)};
    *VEC_PUSH(&f->waiters) = (struct waiter){fn, data};
    *VEC_PUSH(&fs->open) = f;
    f->call =
        api_send(fs->api,
                 &(struct api_request){
                     .method = "GET", .path = path, .retries = retries, .timeout_ms = timeout_ms},
                 fetched, f);
}

void fetches_stop(struct fetches *fs)
{
    _cleanup_err_ struct err e = ERR_INIT;

    fs->stopped = true;
    stopping(&e);
    for (size_t n = fs->open.n; n > 0; n--) {
        struct fetch *f = fs->open.v[0];

        api_cancel(TAKE_PTR(f->call));
        end(f, NULL, &e);
    }
}

void fetch_forget(struct fetches *fs, const void *data)
{
    vec_foreach (it, &fs->open)
        for (size_t i = (*it)->waiters.n; i-- > 0;)
            if ((*it)->waiters.v[i].data == data)
                (*it)->waiters.v[i] = (*it)->waiters.v[--(*it)->waiters.n];
}
