/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/kube/api_bench.h"

#include "base/str.h"
#include "tests/unit/test.h"

void result_done(struct result *r)
{
    free(r->text);
    free(r->body);
}

void bench_open(struct bench *b, const char *cluster, const char *user)
{
    _cleanup_free_ char *file = temp_kubeconfig(b->url, cluster, user);
    struct api_config conf = {.kubeconfig = file, .user_agent = "test/1"};
    _cleanup_err_ struct err e = ERR_INIT;

    b->loop = fast_loop();
    assert_ok(api_new(b->loop, &conf, &b->api, &e), &e);
    unlink(file);
}

void bench_start(struct bench *b, const struct reply *script, size_t n, const char *user)
{
    b->server = server_start(script, n, NULL, NULL);
    b->url = xasprintf("http://127.0.0.1:%u", server_port(b->server));
    bench_open(b, NULL, user);
}

void bench_stop(struct bench *b)
{
    api_free(b->api);
    loop_free(b->loop);
    server_stop(b->server);
    free(b->url);
}

void result_take(const struct api_response *r, void *data)
{
    struct result *to = data;

    to->done = true;
    to->calls++;
    to->status = r->status;
    to->code = r->err.code;
    to->kind = r->err.kind;
    to->retry_after_ms = r->retry_after_ms;
    free(to->text);
    free(to->body);
    to->text = xstrdup(r->err.code ? err_text(&r->err) : "");
    to->body = r->body ? json_text(r->body) : NULL;
    api_cancel(TAKE_PTR(to->cancel));
    if (to->resend) {
        struct api_request q = {.method = "GET", .path = "/second"};
        struct api *a = to->resend->api;

        to->resend = NULL;
        to->done = false;
        (void)api_send(a, &q, result_take, to);
    }
}

void ask(struct bench *b, const struct api_request *q, struct result *r)
{
    (void)api_send(b->api, q, result_take, r);
    assert_false(r->done); /* never from within api_send() */
    assert_true(pump(b->loop, &r->done, 20, 10000));
    assert_int_equal(r->calls, 1);
}
