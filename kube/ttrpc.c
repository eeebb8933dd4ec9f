/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/ttrpc.h"

#include "proto/ttrpc.pb-c.h"

#include <endian.h>
#include <errno.h>

/* After a large message (the state of a full node) its memory is given back. */
#define BUF_KEEP (64U * 1024)

static uint32_t get_be32(const char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return be32toh(v);
}

static void add(struct ttrpc_in *in, size_t want, const uint8_t **buf, size_t *n)
{
    size_t take = want - in->buf.len;

    if (take > *n)
        take = *n;
    strbuf_add(&in->buf, *buf, take);
    *buf += take;
    *n -= take;
}

int ttrpc_next(struct ttrpc_in *in, const uint8_t **buf, size_t *n, struct ttrpc_msg *ret,
               struct err *e)
{
    if (in->whole) {
        in->whole = false;
        in->buf.len = 0;
        if (in->buf.cap > BUF_KEEP)
            strbuf_done(&in->buf);
    }
    if (in->buf.len < TTRPC_HEADER_LEN)
        add(in, TTRPC_HEADER_LEN, buf, n);
    if (in->buf.len < TTRPC_HEADER_LEN)
        return 0;

    uint32_t len = get_be32(in->buf.s), stream = get_be32(in->buf.s + 4);

    if (len > TTRPC_PAYLOAD_MAX)
        return err_set(e, ERR_PERMANENT, -EPROTO,
                       "a message on stream %u announces %u bytes, the limit is %u", stream, len,
                       TTRPC_PAYLOAD_MAX);
    add(in, TTRPC_HEADER_LEN + len, buf, n);
    if (in->buf.len < TTRPC_HEADER_LEN + len)
        return 0;
    in->whole = true;
    *ret = (struct ttrpc_msg){
        .stream = stream,
        .type = (uint8_t)in->buf.s[8],
        .flags = (uint8_t)in->buf.s[9],
        .payload = (const uint8_t *)in->buf.s + TTRPC_HEADER_LEN,
        .n = len,
    };
    return 1;
}

void ttrpc_in_done(struct ttrpc_in *in)
{
    strbuf_done(&in->buf);
    *in = (struct ttrpc_in){0};
}

void ttrpc_request_done(struct ttrpc_request *r)
{
    free(r->service);
    free(r->method);
    free(r->payload);
    *r = (struct ttrpc_request){0};
}

int ttrpc_read_request(struct ttrpc_in *in, const struct ttrpc_msg *msg, struct ttrpc_request *ret,
                       struct err *e)
{
    if (msg->stream % 2 != 1)
        return err_set(e, ERR_PERMANENT, -EINVAL, "stream %u: a client's streams are odd",
                       msg->stream);
    if (msg->type == TTRPC_DATA)
        return err_set(e, ERR_PERMANENT, -EINVAL, "stream %u isn't active", msg->stream);
    if (msg->type != TTRPC_REQUEST)
        return 0;
    if (msg->stream <= in->last_stream)
        return err_set(e, ERR_PERMANENT, -EINVAL, "stream %u comes after stream %u", msg->stream,
                       in->last_stream);
    in->last_stream = msg->stream;

    Ttrpc__Request *r = ttrpc__request__unpack(NULL, msg->n, msg->payload);

    if (!r)
        return err_set(e, ERR_PERMANENT, -EINVAL, "stream %u: not a ttrpc request", msg->stream);
    *ret = (struct ttrpc_request){
        .service = xstrdup(r->service),
        .method = xstrdup(r->method),
        .payload = r->payload.len ? TAKE_PTR(r->payload.data) : NULL,
        .n = r->payload.len,
        .timeout_ns = r->timeout_nano,
    };
    ttrpc__request__free_unpacked(r, NULL);
    return 1;
}

void ttrpc_response_done(struct ttrpc_response *r)
{
    free(r->message);
    free(r->payload);
    *r = (struct ttrpc_response){0};
}

int ttrpc_read_response(const struct ttrpc_msg *msg, struct ttrpc_response *ret, struct err *e)
{
    if (msg->type != TTRPC_RESPONSE)
        return 0;

    Ttrpc__Response *r = ttrpc__response__unpack(NULL, msg->n, msg->payload);

    if (!r)
        return err_set(e, ERR_PERMANENT, -EINVAL, "stream %u: not a ttrpc response", msg->stream);

    bool failed = r->status && r->status->code != 0;

    *ret = (struct ttrpc_response){
        .code = failed ? r->status->code : 0,
        .message = failed ? xstrdup(r->status->message) : NULL,
        .payload = r->payload.len ? TAKE_PTR(r->payload.data) : NULL,
        .n = r->payload.len,
    };
    ttrpc__response__free_unpacked(r, NULL);
    return 1;
}

static void put(struct strbuf *out, uint32_t stream, enum ttrpc_type type,
                const ProtobufCMessage *m)
{
    size_t len = protobuf_c_message_get_packed_size(m);
    uint32_t header[2] = {htobe32((uint32_t)len), htobe32(stream)};
    uint8_t tail[2] = {(uint8_t)type, 0};
    _cleanup_free_ uint8_t *bytes = xmalloc(len);

    protobuf_c_message_pack(m, bytes);
    strbuf_add(out, header, sizeof(header));
    strbuf_add(out, tail, sizeof(tail));
    strbuf_add(out, bytes, len);
}

/* protobuf-c's structs hold their strings and bytes without const, and don't write to them. */
static ProtobufCBinaryData borrow(const void *p, size_t n)
{
    return (ProtobufCBinaryData){.len = n, .data = (uint8_t *)(uintptr_t)p};
}

void ttrpc_put_request(struct strbuf *out, uint32_t stream, const char *service, const char *method,
                       const void *payload, size_t n)
{
    Ttrpc__Request r = TTRPC__REQUEST__INIT;

    r.service = (char *)(uintptr_t)service;
    r.method = (char *)(uintptr_t)method;
    r.payload = borrow(payload, n);
    put(out, stream, TTRPC_REQUEST, &r.base);
}

void ttrpc_put_response(struct strbuf *out, uint32_t stream, const void *payload, size_t n)
{
    Ttrpc__Response r = TTRPC__RESPONSE__INIT;

    r.payload = borrow(payload, n);
    put(out, stream, TTRPC_RESPONSE, &r.base);
}

void ttrpc_put_error(struct strbuf *out, uint32_t stream, enum ttrpc_code code, const char *message)
{
    Ttrpc__Status status = TTRPC__STATUS__INIT;
    Ttrpc__Response r = TTRPC__RESPONSE__INIT;

    status.code = (int32_t)code;
    status.message = (char *)(uintptr_t)message;
    r.status = &status;
    put(out, stream, TTRPC_RESPONSE, &r.base);
}
