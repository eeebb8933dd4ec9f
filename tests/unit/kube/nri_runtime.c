/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/kube/nri_runtime.h"

#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#define TURNS_MAX 5000 /* of 1 ms */

void runtime_init(struct runtime *r, struct loop *l)
{
    *r = (struct runtime){.loop = l, .listening = -1, .fd = -1};
    strcpy(r->dir, "/tmp/nri-test-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    r->path = xasprintf("%s/nri.sock", r->dir);
}

void runtime_drop_messages(struct runtime *r)
{
    vec_foreach (m, &r->got)
        free(m->bytes);
    r->got.n = 0;
}

static void forget(struct runtime *r)
{
    runtime_drop_messages(r);
    for (size_t i = 0; i < ARRAY_SIZE(r->in); i++)
        ttrpc_in_done(&r->in[i]);
    r->mux = (struct mux_in){0};
    r->stream = 0;
}

void runtime_done(struct runtime *r)
{
    runtime_unlisten(r);
    runtime_hangup(r);
    free(r->got.v);
    free(r->path);
    (void)rmdir(r->dir);
}

void runtime_listen(struct runtime *r)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", r->path);
    r->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(r->listening >= 0);
    assert_int_equal(bind(r->listening, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(r->listening, 8), 0);
}

void runtime_unlisten(struct runtime *r)
{
    cleanup_closep(&r->listening);
    r->listening = -1;
    (void)unlink(r->path);
}

void runtime_settle(struct runtime *r)
{
    for (int i = 0; i < 20; i++)
        assert_ok(loop_once(r->loop, 0, NULL), NULL);
}

void runtime_accept(struct runtime *r)
{
    forget(r);
    for (int i = 0; i < TURNS_MAX; i++) {
        r->fd = accept4(r->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (r->fd >= 0)
            return;
        assert_int_equal(errno, EAGAIN);
        assert_ok(loop_once(r->loop, 1, NULL), NULL);
    }
    fail_msg("the plugin didn't connect");
}

void runtime_hangup(struct runtime *r)
{
    cleanup_closep(&r->fd);
    r->fd = -1;
    forget(r);
}

void runtime_write(struct runtime *r, const void *data, size_t n)
{
    const char *p = data;

    for (int i = 0; n > 0; i++) {
        ssize_t w = send(r->fd, p, r->piece && r->piece < n ? r->piece : n, MSG_NOSIGNAL);

        if (w < 0 && (errno == EPIPE || errno == ECONNRESET))
            return; /* a test sees the plugin's reason, not ours */
        if (w < 0)
            assert_int_equal(errno, EAGAIN);
        if (w > 0) {
            p += w;
            n -= (size_t)w;
        }
        if (w < 0 || r->piece)
            assert_ok(loop_once(r->loop, w < 0, NULL), NULL);
        assert_true(i < 1000000);
    }
}

uint32_t runtime_put_call(struct runtime *r, struct strbuf *out, const char *method,
                          const ProtobufCMessage *m)
{
    size_t n = m ? protobuf_c_message_get_packed_size(m) : 0;
    _cleanup_free_ uint8_t *bytes = xmalloc(n);
    _cleanup_(strbuf_done) struct strbuf message = {0};

    if (m)
        protobuf_c_message_pack(m, bytes);
    r->stream += r->stream ? 2 : 1;
    ttrpc_put_request(&message, r->stream, "nri.pkg.api.v1alpha1.Plugin", method, bytes, n);
    mux_put(out, MUX_CONN_PLUGIN, message.s, message.len);
    return r->stream;
}

uint32_t runtime_call(struct runtime *r, const char *method, const ProtobufCMessage *m)
{
    _cleanup_(strbuf_done) struct strbuf out = {0};
    uint32_t stream = runtime_put_call(r, &out, method, m);

    runtime_write(r, out.s, out.len);
    return stream;
}

static void take(struct runtime *r, struct mux_piece piece)
{
    struct ttrpc_msg msg;

    assert_true(piece.conn == MUX_CONN_PLUGIN || piece.conn == MUX_CONN_RUNTIME);
    while (ttrpc_next(&r->in[piece.conn], &piece.data, &piece.n, &msg, NULL) > 0)
        *VEC_PUSH(&r->got) = (struct runtime_message){
            .conn = piece.conn,
            .stream = msg.stream,
            .type = msg.type,
            .bytes = xmemdup(msg.payload, msg.n),
            .n = msg.n,
        };
    assert_int_equal(piece.n, 0);
}

static void receive(struct runtime *r)
{
    uint8_t buf[65536];
    ssize_t got = recv(r->fd, buf, sizeof(buf), 0);

    if (got == 0)
        fail_msg("the plugin hung up");
    if (got < 0) {
        assert_int_equal(errno, EAGAIN);
        return;
    }

    const uint8_t *p = buf;
    size_t n = (size_t)got;
    struct mux_piece piece;
    int more;

    while ((more = mux_next(&r->mux, &p, &n, &piece, NULL)) > 0)
        take(r, piece);
    assert_int_equal(more, 0);
}

const struct runtime_message *runtime_wait(struct runtime *r, uint32_t conn, uint32_t stream)
{
    for (int i = 0; i < TURNS_MAX; i++) {
        receive(r);
        vec_foreach (m, &r->got)
            if (m->conn == conn && m->stream == stream)
                return m;
        assert_ok(loop_once(r->loop, 1, NULL), NULL);
    }
    fail_msg("nothing came on conn %u, stream %u", conn, stream);
    return NULL;
}

void runtime_wait_response(struct runtime *r, uint32_t stream, struct ttrpc_response *ret)
{
    const struct runtime_message *m = runtime_wait(r, MUX_CONN_PLUGIN, stream);
    struct ttrpc_msg msg = {.stream = stream, .type = m->type, .payload = m->bytes, .n = m->n};

    assert_int_equal(ttrpc_read_response(&msg, ret, NULL), 1);
}

void runtime_register(struct runtime *r)
{
    const struct runtime_message *m = runtime_wait(r, MUX_CONN_RUNTIME, 1);
    struct ttrpc_msg msg = {.stream = 1, .type = m->type, .payload = m->bytes, .n = m->n};
    _cleanup_(ttrpc_in_done) struct ttrpc_in in = {0};
    _cleanup_(ttrpc_request_done) struct ttrpc_request req = {0};
    _cleanup_(strbuf_done) struct strbuf answer = {0}, out = {0};

    assert_int_equal(ttrpc_read_request(&in, &msg, &req, NULL), 1);
    assert_string_equal(req.service, "nri.pkg.api.v1alpha1.Runtime");
    assert_string_equal(req.method, "RegisterPlugin");

    Nri__Pkg__Api__V1alpha1__RegisterPluginRequest *p =
        nri__pkg__api__v1alpha1__register_plugin_request__unpack(NULL, req.n, req.payload);

    assert_non_null(p);
    assert_string_equal(p->plugin_name, "sriov-dra");
    assert_string_equal(p->plugin_idx, "10");
    assert_string_equal(p->nri_version, "v0.12.3");
    nri__pkg__api__v1alpha1__register_plugin_request__free_unpacked(p, NULL);
    ttrpc_put_response(&answer, 1, NULL, 0);
    mux_put(&out, MUX_CONN_RUNTIME, answer.s, answer.len);
    runtime_write(r, out.s, out.len);
}

void runtime_configure(struct runtime *r, int64_t request_timeout_ms)
{
    Nri__Pkg__Api__V1alpha1__ConfigureRequest m = NRI__PKG__API__V1ALPHA1__CONFIGURE_REQUEST__INIT;
    _cleanup_(ttrpc_response_done) struct ttrpc_response resp = {0};
    char runtime[] = "containerd", version[] = "v2.4.2", nri[] = "v0.12.3";

    m.runtime_name = runtime;
    m.runtime_version = version;
    m.nri_version = nri;
    m.request_timeout = request_timeout_ms;
    runtime_wait_response(r, runtime_call(r, "Configure", &m.base), &resp);
    assert_int_equal(resp.code, 0);

    Nri__Pkg__Api__V1alpha1__ConfigureResponse *p =
        nri__pkg__api__v1alpha1__configure_response__unpack(NULL, resp.n, resp.payload);

    assert_non_null(p);
    assert_int_equal(p->events, 0xf);
    nri__pkg__api__v1alpha1__configure_response__free_unpacked(p, NULL);
}

void runtime_synchronize(struct runtime *r)
{
    _cleanup_(ttrpc_response_done) struct ttrpc_response resp = {0};

    runtime_wait_response(r, runtime_call(r, "Synchronize", NULL), &resp);
    assert_int_equal(resp.code, 0);
    assert_int_equal(resp.n, 0);
}
