/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/nri_link.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#define READ_SIZE 16384

/* Answers that the runtime doesn't read: more than all it can have asked. */
#define UNSENT_MAX (16U * 1024 * 1024)

int nri_link_open(struct nri_link *link, struct loop *l, const char *path, loop_io_fn *fn,
                  void *data, struct err *e)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct loop_io *io;

    if (fd < 0)
        return err_errno(e, -errno, "socket for %s", path);
    memcpy(addr.sun_path, path, strlen(path) + 1);
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return err_errno(e, -errno, "connecting to %s", path);

    int r = loop_io_new(l, fd, EPOLLIN, fn, data, &io, e);

    if (r < 0)
        return r;
    *link = (struct nri_link){.fd = TAKE_FD(fd), .io = io, .buf = xmalloc(READ_SIZE)};
    return 0;
}

void nri_link_close(struct nri_link *link)
{
    loop_io_free(link->io);
    cleanup_closep(&link->fd);
    ttrpc_in_done(&link->plugin);
    ttrpc_in_done(&link->runtime);
    strbuf_done(&link->unsent);
    err_clear(&link->broken);
    free(link->buf);
    *link = (struct nri_link){.fd = -1};
}

/* The same text however we learn of it. */
static int hung_up(struct err *e)
{
    return err_set(e, ERR_TRANSIENT, -ECONNRESET, "the runtime closed the connection");
}

static int flush(struct nri_link *link, struct err *e)
{
    while (link->sent < link->unsent.len) {
        ssize_t n = send(link->fd, link->unsent.s + link->sent, link->unsent.len - link->sent,
                         MSG_NOSIGNAL);

        if (n >= 0)
            link->sent += (size_t)n;
        else if (errno == EAGAIN)
            break;
        else if (errno == EPIPE || errno == ECONNRESET)
            return hung_up(e);
        else if (errno != EINTR)
            return err_errno(e, -errno, "writing to the runtime");
    }

    bool blocked = link->sent < link->unsent.len;

    if (!blocked) {
        strbuf_done(&link->unsent);
        link->sent = 0;
    }
    if (blocked == link->blocked)
        return 0;
    link->blocked = blocked;
    return loop_io_set(link->io, blocked ? EPOLLIN | EPOLLOUT : EPOLLIN, e);
}

void nri_link_send(struct nri_link *link, enum mux_conn conn, const struct strbuf *message)
{
    int r = 0;

    if (link->fd < 0 || link->broken.code)
        return;
    mux_put(&link->unsent, conn, message->s, message->len);
    if (link->unsent.len - link->sent > UNSENT_MAX)
        r = err_set(&link->broken, ERR_PERMANENT, -ENOBUFS, "the runtime doesn't read its answers");
    else if (!link->blocked)
        r = flush(link, &link->broken);
    if (r < 0)
        (void)shutdown(link->fd, SHUT_RDWR); /* which wakes the loop */
}

int nri_link_io(struct nri_link *link, uint32_t events, struct err *e)
{
    if (link->broken.code)
        return err_move(e, &link->broken);
    if (events & EPOLLOUT) {
        int r = flush(link, e);

        if (r < 0)
            return r;
    }
    if (!(events & ~(uint32_t)EPOLLOUT))
        return 0;

    ssize_t n = recv(link->fd, link->buf, READ_SIZE, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        return hung_up(e);
    if (n < 0)
        return err_errno(e, -errno, "reading from the runtime");
    link->at = link->buf;
    link->left = (size_t)n;
    return 0;
}

int nri_link_next(struct nri_link *link, struct nri_link_msg *ret, struct err *e)
{
    struct mux_piece *piece = &link->piece;
    int r;

    if (link->fd < 0)
        return 0;
    if (link->broken.code)
        return err_move(e, &link->broken);
    for (;;) {
        while (piece->n > 0) {
            struct ttrpc_in *in = piece->conn == MUX_CONN_PLUGIN    ? &link->plugin
                                  : piece->conn == MUX_CONN_RUNTIME ? &link->runtime
                                                                    : NULL;

            if (!in)
                break;
            r = ttrpc_next(in, &piece->data, &piece->n, &ret->msg, e);
            if (r != 0) {
                ret->conn = piece->conn;
                return r;
            }
        }
        r = mux_next(&link->mux, &link->at, &link->left, piece, e);
        if (r <= 0) {
            piece->n = 0;
            return r;
        }
    }
}
