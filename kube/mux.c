/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/mux.h"

#include <endian.h>
#include <errno.h>

/* The buffer of Go's bufio, through which ttrpc reads. */
#define PAYLOAD_OUT 4096

static uint32_t get_be32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return be32toh(v);
}

int mux_next(struct mux_in *m, const uint8_t **buf, size_t *n, struct mux_piece *ret, struct err *e)
{
    for (;;) {
        if (m->have == sizeof(m->header) && m->left == 0)
            m->have = 0;
        if (*n == 0)
            return 0;
        if (m->have == sizeof(m->header))
            break;
        m->header[m->have++] = *(*buf)++;
        --*n;
        if (m->have < sizeof(m->header))
            continue;
        m->conn = get_be32(m->header);
        m->left = get_be32(m->header + 4);
        if (m->left > MUX_PAYLOAD_MAX)
            return err_set(e, ERR_PERMANENT, -EPROTO,
                           "a frame of conn %u announces %u bytes, the limit is %u", m->conn,
                           m->left, MUX_PAYLOAD_MAX);
    }
    size_t take = *n < m->left ? *n : m->left;

    *ret = (struct mux_piece){.conn = m->conn, .data = *buf, .n = take};
    *buf += take;
    *n -= take;
    m->left -= (uint32_t)take;
    return 1;
}

void mux_put(struct strbuf *out, uint32_t conn, const void *data, size_t n)
{
    const uint8_t *p = data;

    while (n > 0) {
        size_t take = n < PAYLOAD_OUT ? n : PAYLOAD_OUT;
        uint32_t header[2] = {htobe32(conn), htobe32((uint32_t)take)};

        strbuf_add(out, header, sizeof(header));
        strbuf_add(out, p, take);
        p += take;
        n -= take;
    }
}
