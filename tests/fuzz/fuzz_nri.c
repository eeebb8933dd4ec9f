/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the runtime sends: each input is the byte stream of NRI's socket, read at once and byte by
 * byte, which must give the same; and as such each message of ours that decodes.
 */
#include "kube/mux.h"
#include "kube/nri_wire.h"
#include "kube/ttrpc.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>

struct reader {
    struct mux_in mux;
    struct ttrpc_in plugin, runtime;
    nri_pod_vec pods;
    nri_container_vec containers;
    struct strbuf seen;
};

static void payload(struct reader *r, const char *method, const uint8_t *p, size_t n)
{
    struct nri_hello hello;
    struct nri_wire_event ev;
    bool more;

    if (nri_wire_read_configure(p, n, &hello, NULL) == 0) {
        strbuf_printf(&r->seen, "configure %s\n", hello.runtime);
        nri_hello_done(&hello);
    }
    if (nri_wire_read_synchronize(p, n, &r->pods, &r->containers, &more, NULL) == 0)
        strbuf_printf(&r->seen, "synchronize %zu %zu\n", r->pods.n, r->containers.n);
    if (nri_wire_read_event(method, p, n, &ev, NULL) > 0) {
        assert(*ev.pod.id && (!ev.pod.netns || *ev.pod.netns));
        assert((ev.event == NRI_CREATE_CONTAINER) == (ev.container.id != NULL));
        strbuf_printf(&r->seen, "%d %s\n", (int)ev.event, ev.pod.id);
        nri_wire_event_done(&ev);
    }
}

static void message(struct reader *r, bool plugin, const struct ttrpc_msg *msg)
{
    struct ttrpc_request req;
    struct ttrpc_response resp;

    strbuf_printf(&r->seen, "%d %u %u %zu\n", plugin, msg->stream, msg->type, msg->n);
    if (plugin && ttrpc_read_request(&r->plugin, msg, &req, NULL) > 0) {
        payload(r, req.method, req.payload, req.n);
        ttrpc_request_done(&req);
    }
    if (!plugin && ttrpc_read_response(msg, &resp, NULL) > 0) {
        assert((resp.code != 0) == (resp.message != NULL));
        ttrpc_response_done(&resp);
    }
}

static int feed(struct reader *r, const uint8_t *data, size_t n)
{
    struct mux_piece piece;
    int more;

    while ((more = mux_next(&r->mux, &data, &n, &piece, NULL)) > 0) {
        bool plugin = piece.conn == MUX_CONN_PLUGIN;
        struct ttrpc_msg msg;

        assert(piece.n > 0);
        if (!plugin && piece.conn != MUX_CONN_RUNTIME)
            continue;
        while (piece.n > 0) {
            more = ttrpc_next(plugin ? &r->plugin : &r->runtime, &piece.data, &piece.n, &msg, NULL);
            if (more < 0)
                return more;
            if (more > 0)
                message(r, plugin, &msg);
        }
    }
    assert(more < 0 || n == 0);
    return more;
}

static void done(struct reader *r)
{
    ttrpc_in_done(&r->plugin);
    ttrpc_in_done(&r->runtime);
    nri_pods_done(&r->pods);
    nri_containers_done(&r->containers);
    strbuf_done(&r->seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct reader whole = {0}, bytes = {0};
    int a = feed(&whole, data, len), b = 0;

    for (size_t i = 0; b == 0 && i < len; i++)
        b = feed(&bytes, data + i, 1);
    assert(a == b);
    assert(whole.seen.len == bytes.seen.len);
    assert(whole.seen.len == 0 || memcmp(whole.seen.s, bytes.seen.s, whole.seen.len) == 0);
    done(&whole);
    done(&bytes);
    return 0;
}
