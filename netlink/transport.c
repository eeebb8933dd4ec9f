/* SPDX-License-Identifier: Apache-2.0 */
#include "netlink/transport.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "netlink/nlx.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#define REQUEST_TIMEOUT_MS 5000
#define BUF_SIZE           (16 * 1024)
#define BUF_SIZE_MAX       (16 * 1024 * 1024)

/* Errno of NFSv3 inside the kernel; some drivers (bnxt_en) let it out for EOPNOTSUPP. */
#define KERNEL_ENOTSUPP 524

struct sock {
    struct nl_transport base;
    int fd;
    uint32_t port, seq;
    bool stale; /* a request ended early: answers to it may still come */
    char *buf;
    size_t cap;
};

/* Where the answer to one request stands. */
struct answer {
    const struct nlmsghdr *request;
    nl_reply_fn *fn;
    void *data;
    bool ended, interrupted;
    int r; /* of the first failure, kernel's or fn's; `e` is filled then */
    struct err *e;
};

int nl_err(struct err *e, int code, const char *extack)
{
    if (code == -KERNEL_ENOTSUPP)
        code = -EOPNOTSUPP;
    return err_set(e, err_kind_of_errno(code), code, "%s%s%s", strerror(-code), extack ? ": " : "",
                   extack ? extack : "");
}

/* Type of the attribute at byte `offset` of the request, -1 if there is none. */
static int attr_at(const struct nlmsghdr *request, uint32_t offset)
{
    struct nlattr a;

    if (request->nlmsg_len < sizeof(a) || offset > request->nlmsg_len - sizeof(a))
        return -1;
    memcpy(&a, (const char *)request + offset, sizeof(a));
    return nla_type(&a);
}

/* The kernel's explanation in the attributes behind `skip` bytes of payload, NULL if there is none.
 */
static char *extack_text(const struct nlmsghdr *request, const struct nlmsghdr *h, size_t skip)
{
    static const struct nla_policy policy[NLMSGERR_ATTR_MAX + 1] = {
        [NLMSGERR_ATTR_MSG] = {.type = NLA_STRING},
        [NLMSGERR_ATTR_OFFS] = {.type = NLA_U32},
        [NLMSGERR_ATTR_MISS_TYPE] = {.type = NLA_U32},
    };
    struct nlattr *tb[NLMSGERR_ATTR_MAX + 1] = {0};
    struct strbuf text = {0};
    size_t payload = (size_t)nlmsg_datalen(h);

    if (!(h->nlmsg_flags & NLM_F_ACK_TLVS) || skip > payload)
        return NULL;
    if (nlx_parse(tb, NLMSGERR_ATTR_MAX, (struct nlattr *)((char *)nlmsg_data(h) + skip),
                  (int)(payload - skip), policy) < 0)
        return NULL;
    if (tb[NLMSGERR_ATTR_MSG])
        strbuf_puts(&text, nla_get_string(tb[NLMSGERR_ATTR_MSG]));
    if (tb[NLMSGERR_ATTR_OFFS]) {
        uint32_t offset = nla_get_u32(tb[NLMSGERR_ATTR_OFFS]);
        int type = attr_at(request, offset);

        if (type >= 0)
            strbuf_printf(&text, "%sattribute of type %d at byte %u", text.len ? ", " : "", type,
                          offset);
    }
    if (tb[NLMSGERR_ATTR_MISS_TYPE])
        strbuf_printf(&text, "%sno attribute of type %u", text.len ? ", " : "",
                      nla_get_u32(tb[NLMSGERR_ATTR_MISS_TYPE]));
    return text.len ? strbuf_take(&text) : NULL;
}

static void fail(struct answer *a, int code, const char *extack)
{
    if (a->r == 0)
        a->r = nl_err(a->e, code, extack);
}

/* NLMSG_ERROR (code 0: the ACK) and NLMSG_DONE end a request. */
static void take_end(struct answer *a, const struct nlmsghdr *h)
{
    bool done = h->nlmsg_type == NLMSG_DONE;
    size_t skip = done ? sizeof(int) : sizeof(struct nlmsgerr), payload = (size_t)nlmsg_datalen(h);
    int code = 0;

    a->ended = true;
    if (payload < skip) {
        if (!done) /* a kernel may leave out what DONE carries */
            fail(a, -EBADMSG, "short answer");
        return;
    }
    memcpy(&code, nlmsg_data(h), sizeof(code));
    if (!done && !(h->nlmsg_flags & NLM_F_CAPPED)) {
        const struct nlmsgerr *ne = nlmsg_data(h);

        if (ne->msg.nlmsg_len > sizeof(ne->msg))
            skip += NLMSG_ALIGN(ne->msg.nlmsg_len) - sizeof(ne->msg);
    }
    _cleanup_free_ char *text = extack_text(a->request, h, skip);
    if (code < 0 && code >= -4095)
        fail(a, code, text);
    else if (code != 0 && !(done && code > 0))
        fail(a, -EBADMSG, "an answer that is no errno");
    else if (text)
        log_debug("the kernel warns of a netlink request", "text", text);
}

static void take_datagram(struct sock *s, struct answer *a, size_t len)
{
    struct nlmsghdr *h = (struct nlmsghdr *)s->buf;
    int rem = (int)len;

    for (; !a->ended && nlx_msg_ok(h, rem); h = nlmsg_next(h, &rem)) {
        if (h->nlmsg_seq != s->seq || h->nlmsg_pid != s->port)
            continue; /* the late answer to an earlier request */
        if (h->nlmsg_flags & NLM_F_DUMP_INTR)
            a->interrupted = true;
        if (h->nlmsg_type == NLMSG_ERROR || h->nlmsg_type == NLMSG_DONE) {
            take_end(a, h);
        } else if (h->nlmsg_type == NLMSG_OVERRUN) {
            fail(a, -ENOBUFS, NULL);
        } else if (h->nlmsg_type >= NLMSG_MIN_TYPE && a->fn && a->r == 0) {
            int r = a->fn(h, a->data, a->e);

            /* The rest is still received: the kernel refuses a new dump while one runs. */
            if (r < 0)
                a->r = r;
        }
    }
    if (!a->ended && rem > 0) {
        fail(a, -EBADMSG, "malformed answer");
        a->ended = true;
        s->stale = true;
    }
}

/* One datagram of the kernel, 0 if there is none before `deadline`. */
static int receive(struct sock *s, int64_t deadline, size_t *ret_len, struct err *e)
{
    for (;;) {
        int64_t left = deadline - clock_now(clock_system());
        struct pollfd p = {.fd = s->fd, .events = POLLIN};
        struct sockaddr_nl from = {0};
        int n = poll(&p, 1, left > 0 ? (int)left : 0);

        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return err_errno(e, -errno, "waiting for the kernel's answer");
        if (n < 0)
            continue;
        ssize_t size = recv(s->fd, NULL, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
        if (size > BUF_SIZE_MAX)
            return err_set(e, ERR_PERMANENT, -EMSGSIZE, "an answer of %zd bytes", size);
        if (size > (ssize_t)s->cap) {
            s->cap = (size_t)size;
            s->buf = xrealloc(s->buf, s->cap, 1);
        }
        struct iovec iov = {.iov_base = s->buf, .iov_len = s->cap};
        struct msghdr msg = {
            .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1};
        if (size >= 0)
            size = recvmsg(s->fd, &msg, MSG_DONTWAIT);
        if (size < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (size < 0)
            return err_errno(e, -errno, "receiving the kernel's answer");
        if (from.nl_pid != 0)
            continue; /* any process may send to our port */
        if (msg.msg_flags & MSG_TRUNC)
            return err_set(e, ERR_BUG, -EMSGSIZE, "an answer that grew while it was read");
        *ret_len = (size_t)size;
        return 1;
    }
}

/* Takes away what an earlier request, ended before its time, left in the socket. */
static void drain(struct sock *s)
{
    size_t len;

    while (receive(s, 0, &len, NULL) > 0)
        ;
    s->stale = false;
}

static int sock_request(struct nl_transport *t, struct nl_msg *msg, nl_reply_fn *fn, void *data,
                        struct err *e)
{
    struct sock *s = container_of(t, struct sock, base);
    struct nlmsghdr *h = nlmsg_hdr(msg);
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    bool dump = (h->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
    struct answer a = {.request = h, .fn = fn, .data = data, .e = e};

    if (s->stale)
        drain(s);
    h->nlmsg_flags |= NLM_F_REQUEST | (dump ? 0 : NLM_F_ACK);
    h->nlmsg_seq = ++s->seq;
    h->nlmsg_pid = s->port;
    while (sendto(s->fd, h, h->nlmsg_len, 0, (const void *)&kernel, sizeof(kernel)) < 0)
        if (errno != EINTR)
            return err_errno(e, -errno, "sending a netlink request");

    int64_t deadline = clock_now(clock_system()) + REQUEST_TIMEOUT_MS;
    while (!a.ended) {
        size_t len = 0;
        int r = receive(s, deadline, &len, a.r < 0 ? NULL : e);

        if (r > 0) {
            take_datagram(s, &a, len);
            continue;
        }
        s->stale = true;
        if (a.r < 0)
            return a.r;
        if (r < 0)
            return r;
        return err_set(e, ERR_TRANSIENT, -ETIMEDOUT, "no answer from the kernel within %d s",
                       REQUEST_TIMEOUT_MS / 1000);
    }
    if (a.r == 0 && a.interrupted)
        return err_set(e, ERR_TRANSIENT, -EAGAIN, "what is listed changed during the listing");
    return a.r;
}

static void sock_free(struct nl_transport *t)
{
    struct sock *s = container_of(t, struct sock, base);

    (void)close(s->fd);
    free(s->buf);
    free(s);
}

static const struct nl_transport_ops sock_ops = {sock_request, sock_free};

int nl_open(int protocol, struct nl_transport **ret, struct err *e)
{
    _cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    struct sockaddr_nl addr = {.nl_family = AF_NETLINK};
    socklen_t len = sizeof(addr);

    if (fd < 0)
        return err_errno(e, -errno, "netlink socket of protocol %d", protocol);
    /*
     * Wished for and not needed: without them errors have no text, carry the request back, and
     * filters of dumps are ignored, which readers check for themselves.
     */
    (void)setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &(int){1}, sizeof(int));
    (void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &(int){1}, sizeof(int));
    (void)setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &(int){1}, sizeof(int));
    if (bind(fd, (const void *)&addr, sizeof(addr)) < 0 || getsockname(fd, (void *)&addr, &len) < 0)
        return err_errno(e, -errno, "binding a netlink socket");

    struct sock *s = xnew(struct sock);
    *s = (struct sock){.base = {&sock_ops}, .fd = TAKE_FD(fd), .port = addr.nl_pid};
    s->cap = BUF_SIZE;
    s->buf = xmalloc(s->cap);
    *ret = &s->base;
    return 0;
}

void nl_free(struct nl_transport *t)
{
    t->ops->free(t);
}

int nl_request(struct nl_transport *t, struct nl_msg *msg, nl_reply_fn *fn, void *data,
               struct err *e)
{
    return t->ops->request(t, msg, fn, data, e);
}
