/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport on answers that no kernel gives at will: late ones, interrupted dumps, malformed
 * ones, explanations in every place. poll(), recv() and recvmsg() are replaced (--wrap), the socket
 * is real.
 */
#include "base/str.h"
#include "netlink/nlx.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/socket.h>

int __wrap_poll(struct pollfd *p, nfds_t n, int timeout);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const void *to,
                      socklen_t to_len);

/* Of the request being answered; the script below patches them into answers. */
static uint32_t seq, port;
static int last_timeout;

struct datagram {
    char *data;
    size_t len;
    uint32_t from;
    int fails; /* errno instead of data */
};
static VEC(struct datagram) queue;
static size_t queue_at;

static struct datagram *datagram(void)
{
    return VEC_PUSH(&queue);
}

/* Appends a message; type, flags, then its payload. */
static void message(struct datagram *d, uint16_t type, uint16_t flags, uint32_t of_seq,
                    const void *payload, size_t len)
{
    struct nlmsghdr h = {.nlmsg_len = (uint32_t)(NLMSG_HDRLEN + len),
                         .nlmsg_type = type,
                         .nlmsg_flags = flags,
                         .nlmsg_seq = of_seq};
    size_t total = NLMSG_ALIGN(h.nlmsg_len);

    d->data = xrealloc(d->data, d->len + total, 1);
    memset(d->data + d->len, 0, total);
    memcpy(d->data + d->len, &h, sizeof(h));
    if (len)
        memcpy(d->data + d->len + NLMSG_HDRLEN, payload, len);
    d->len += total;
}

#define THIS 0 /* patched to the request's sequence number */
#define LATE 0xffff

static void error(struct datagram *d, int code)
{
    const struct nlmsgerr ne = {.error = code};

    message(d, NLMSG_ERROR, NLM_F_CAPPED, THIS, &ne, sizeof(ne));
}

static int reset(void **state)
{
    (void)state;
    for (size_t i = 0; i < queue.n; i++)
        free(queue.v[i].data);
    free(queue.v);
    memset(&queue, 0, sizeof(queue));
    queue_at = 0;
    return 0;
}

int __wrap_poll(struct pollfd *p, nfds_t n, int timeout)
{
    (void)p;
    (void)n;
    last_timeout = timeout;
    return queue_at < queue.n;
}

ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags)
{
    struct datagram *d = &queue.v[queue_at];

    (void)fd;
    (void)buf;
    assert_int_equal(len, 0);
    assert_int_equal(flags, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
    if (d->fails) {
        errno = d->fails;
        queue_at++;
        return -1;
    }
    return (ssize_t)d->len;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
    struct datagram *d = &queue.v[queue_at++];
    struct sockaddr_nl *from = msg->msg_name;

    (void)fd;
    (void)flags;
    assert_true(d->len <= msg->msg_iov->iov_len);
    memcpy(msg->msg_iov->iov_base, d->data, d->len);
    int rem = (int)d->len;
    for (struct nlmsghdr *h = msg->msg_iov->iov_base; nlx_msg_ok(h, rem); h = nlmsg_next(h, &rem)) {
        h->nlmsg_pid = port;
        h->nlmsg_seq = h->nlmsg_seq == LATE ? seq - 1 : seq;
    }
    *from = (struct sockaddr_nl){.nl_family = AF_NETLINK, .nl_pid = d->from};
    return (ssize_t)d->len;
}

ssize_t __wrap_sendto(int fd, const void *buf, size_t len, int flags, const void *to,
                      socklen_t to_len)
{
    const struct nlmsghdr *h = buf;

    (void)fd;
    (void)flags;
    (void)to;
    (void)to_len;
    assert_int_equal(len, h->nlmsg_len);
    seq = h->nlmsg_seq;
    port = h->nlmsg_pid;
    assert_int_not_equal(port, 0);
    assert_int_equal(h->nlmsg_flags & NLM_F_REQUEST, NLM_F_REQUEST);
    /* a dump ends with NLMSG_DONE, all else with the ACK */
    assert_int_equal(!(h->nlmsg_flags & NLM_F_ACK), (h->nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP);
    return (ssize_t)len;
}

static int count(const struct nlmsghdr *h, void *data, struct err *e)
{
    if (h->nlmsg_type == RTM_NEWROUTE)
        return err_set(e, ERR_USER, -EXDEV, "not that one");
    ++*(int *)data;
    return 0;
}

static int replies;

static int request(struct nl_transport *t, int flags, struct err *e)
{
    const struct ifinfomsg info = {.ifi_index = 5};
    _cleanup_(nlmsg_freep) struct nl_msg *m = nlx_msg(RTM_GETLINK, flags, &info, sizeof(info));

    nlx_put_u32(m, IFLA_MTU, 7);
    replies = 0;
    return nl_request(t, m, count, &replies, e);
}

static struct nl_transport *open_route(void)
{
    struct nl_transport *t = NULL;

    assert_ok(nl_open(NETLINK_ROUTE, &t, NULL), NULL);
    return t;
}

static void test_reply_and_ack(void **state)
{
    _cleanup_(nl_freep) struct nl_transport *t = open_route();

    (void)state;
    message(datagram(), RTM_NEWLINK, 0, THIS, "1234", 4);
    error(datagram(), 0);
    error(datagram(), -EPERM); /* nobody asks for it */
    assert_int_equal(request(t, 0, NULL), 0);
    assert_int_equal(replies, 1);
    assert_int_equal(queue_at, 2);
    assert_in_range(last_timeout, 1, 5000);
}

static void test_dump(void **state)
{
    _cleanup_(nl_freep) struct nl_transport *t = open_route();
    struct datagram *d = datagram();

    (void)state;
    message(d, RTM_NEWLINK, NLM_F_MULTI, THIS, "1234", 4);
    message(d, NLMSG_NOOP, NLM_F_MULTI, THIS, NULL, 0);
    message(d, RTM_NEWLINK, NLM_F_MULTI, THIS, "12345", 5); /* padded */
    d = datagram();
    message(d, RTM_NEWLINK, NLM_F_MULTI, THIS, "1", 1);
    message(d, NLMSG_DONE, NLM_F_MULTI, THIS, &(int){0}, sizeof(int));
    assert_int_equal(request(t, NLM_F_DUMP, NULL), 0);
    assert_int_equal(replies, 3);
}

static void test_large_reply(void **state)
{
    _cleanup_(nl_freep) struct nl_transport *t = open_route();
    size_t len = 3000000;
    _cleanup_free_ char *much = xcalloc(1, len);

    (void)state;
    message(datagram(), RTM_NEWLINK, 0, THIS, much, len);
    error(datagram(), 0);
    assert_int_equal(request(t, 0, NULL), 0);
    assert_int_equal(replies, 1);
}

static void test_foreign_and_late_answers(void **state)
{
    _cleanup_(nl_freep) struct nl_transport *t = open_route();
    const struct nlmsgerr no = {.error = -EPERM};

    (void)state;
    error(datagram(), -EPERM);
    queue.v[0].from = 4711; /* another process */
    message(datagram(), NLMSG_ERROR, NLM_F_CAPPED, LATE, &no, sizeof(no));
    message(datagram(), RTM_NEWLINK, 0, LATE, "1234", 4);
    error(datagram(), 0);
    assert_int_equal(request(t, 0, NULL), 0);
    assert_int_equal(replies, 0);
    assert_int_equal(queue_at, 4);
}

static void test_interrupted_dump(void **state)
{
    _cleanup_(nl_freep) struct nl_transport *t = open_route();
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    message(datagram(), RTM_NEWLINK, NLM_F_MULTI | NLM_F_DUMP_INTR, THIS, "1234", 4);
    message(datagram(), NLMSG_DONE, NLM_F_MULTI, THIS, &(int){0}, sizeof(int));
    assert_int_equal(request(t, NLM_F_DUMP, &e), -EAGAIN);
    assert_int_equal(e.kind, ERR_TRANSIENT);
    assert_err_has(&e, "changed during the listing");
}

/* The rest of a dump is taken off the socket, else the next one would be refused (EBUSY). */
static void test_reader_that_fails(void **state)
{
    _cleanup_(nl_freep) struct nl_transport *t = open_route();
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    message(datagram(), RTM_NEWROUTE, NLM_F_MULTI, THIS, "1234", 4);
    message(datagram(), RTM_NEWLINK, NLM_F_MULTI, THIS, "1234", 4);
    message(datagram(), NLMSG_DONE, NLM_F_MULTI, THIS, &(int){-EPERM}, sizeof(int));
    assert_int_equal(request(t, NLM_F_DUMP, &e), -EXDEV);
    assert_string_equal(err_text(&e), "not that one");
    assert_int_equal(e.kind, ERR_USER);
    assert_int_equal(queue_at, 3);
    assert_int_equal(replies, 0);
}

static void test_no_answer(void **state)
{
    _cleanup_(nl_freep) struct nl_transport *t = open_route();
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    message(datagram(), RTM_NEWLINK, 0, THIS, "1234", 4);
    assert_int_equal(request(t, 0, &e), -ETIMEDOUT);
    assert_string_equal(err_text(&e), "no answer from the kernel within 5 s");
    assert_int_equal(e.kind, ERR_TRANSIENT);

    /* What comes too late is taken away before the next request. */
    error(datagram(), -EPERM);
    seq = 0;
    assert_int_equal(request(t, 0, &e), -ETIMEDOUT);
    assert_int_equal(queue_at, 2);
}

static void test_socket_errors(void **state)
{
    _cleanup_(nl_freep) struct nl_transport *t = open_route();
    _cleanup_err_ struct err e = ERR_INIT;

    (void)state;
    datagram()->fails = EINTR;
    datagram()->fails = EAGAIN;
    datagram()->fails = ENOBUFS;
    assert_int_equal(request(t, 0, &e), -ENOBUFS);
    assert_int_equal(e.kind, ERR_TRANSIENT);
    error(datagram(), 0);
    assert_int_equal(request(t, 0, &e), -ETIMEDOUT); /* drained */
    error(datagram(), -EPERM);
    error(datagram(), 0);
}

static void test_malformed(void **state)
{
    static const struct {
        uint16_t type;
        size_t len;
        int error;
    } cases[] = {
        {NLMSG_ERROR, 0, 0},
        {NLMSG_ERROR, sizeof(struct nlmsgerr) - 4, -EPERM},
        {NLMSG_ERROR, sizeof(struct nlmsgerr), 1},
        {NLMSG_ERROR, sizeof(struct nlmsgerr), -4096},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(nl_freep) struct nl_transport *t = open_route();
        const struct nlmsgerr ne = {.error = cases[i].error};

        message(datagram(), cases[i].type, NLM_F_CAPPED, THIS, &ne, cases[i].len);
        assert_int_equal(request(t, 0, NULL), -EBADMSG);
        reset(state);
    }
}

static void test_malformed_datagram(void **state)
{
    _cleanup_(nl_freep) struct nl_transport *t = open_route();
    struct datagram *d = datagram();

    (void)state;
    message(d, RTM_NEWLINK, 0, THIS, "1234", 4);
    d->len -= 3;
    assert_int_equal(request(t, 0, NULL), -EBADMSG);
}

static void test_overrun(void **state)
{
    _cleanup_(nl_freep) struct nl_transport *t = open_route();

    (void)state;
    message(datagram(), NLMSG_OVERRUN, 0, THIS, NULL, 0);
    error(datagram(), 0);
    assert_int_equal(request(t, 0, NULL), -ENOBUFS);
}

static void test_done_with_nothing_in_it(void **state)
{
    _cleanup_(nl_freep) struct nl_transport *t = open_route();

    (void)state;
    message(datagram(), NLMSG_DONE, NLM_F_MULTI, THIS, NULL, 0);
    assert_int_equal(request(t, NLM_F_DUMP, NULL), 0);
}

/* Which attributes an explanation has, and what becomes of them. Offset 32 is IFLA_MTU's. */
static void test_extended_ack(void **state)
{
    enum { MSG = 1, OFFS = 2, MISS = 4 };
    static const struct {
        bool done, uncapped;
        uint16_t flags;
        unsigned has;
        uint32_t offset;
        int error;
        int code;
        const char *text;
    } cases[] = {
        {false, false, NLM_F_ACK_TLVS, MSG, 0, -EINVAL, -EINVAL, "Invalid argument: because"},
        {false, true, NLM_F_ACK_TLVS, MSG, 0, -EINVAL, -EINVAL, "Invalid argument: because"},
        {true, false, NLM_F_ACK_TLVS, MSG, 0, -EINVAL, -EINVAL, "Invalid argument: because"},
        {false, false, NLM_F_ACK_TLVS, MSG | OFFS, 32, -ERANGE, -ERANGE,
         "Numerical result out of range: because, attribute of type 4 at byte 32"},
        {false, false, NLM_F_ACK_TLVS, OFFS, 32, -ERANGE, -ERANGE,
         "Numerical result out of range: attribute of type 4 at byte 32"},
        {false, false, NLM_F_ACK_TLVS, MSG | OFFS, 37, -EINVAL, -EINVAL,
         "Invalid argument: because"},
        {false, false, NLM_F_ACK_TLVS, MSG | OFFS, UINT32_MAX, -EINVAL, -EINVAL,
         "Invalid argument: because"},
        {false, false, NLM_F_ACK_TLVS, MISS, 0, -EINVAL, -EINVAL,
         "Invalid argument: no attribute of type 3"},
        {false, false, 0, MSG, 0, -EINVAL, -EINVAL, "Invalid argument"},
        {false, false, NLM_F_ACK_TLVS, 0, 0, -EBUSY, -EBUSY, "Device or resource busy"},
        {false, false, NLM_F_ACK_TLVS, MSG, 0, 0, 0, NULL}, /* a warning */
        {false, false, 0, 0, 0, -524, -EOPNOTSUPP, "Operation not supported"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(nl_freep) struct nl_transport *t = open_route();
        _cleanup_err_ struct err e = ERR_INIT;
        struct nlmsgerr ne = {.error = cases[i].error, .msg.nlmsg_len = 40};
        uint16_t flags = cases[i].flags | (cases[i].uncapped ? 0 : NLM_F_CAPPED);
        int type = cases[i].done ? NLMSG_DONE : NLMSG_ERROR;
        /* what is built here is the payload, the attributes are copied behind it */
        _cleanup_(nlmsg_freep) struct nl_msg *m =
            nlx_msg(0, 0, &ne, cases[i].done ? sizeof(int) : sizeof(ne));

        if (cases[i].uncapped)
            assert_non_null(nlmsg_reserve(m, 40 - sizeof(struct nlmsghdr), 0));
        if (cases[i].has & MSG)
            nlx_put_str(m, NLMSGERR_ATTR_MSG, "because");
        if (cases[i].has & OFFS)
            nlx_put_u32(m, NLMSGERR_ATTR_OFFS, cases[i].offset);
        if (cases[i].has & MISS)
            nlx_put_u32(m, NLMSGERR_ATTR_MISS_TYPE, 3);
        message(datagram(), (uint16_t)type, flags, THIS, nlmsg_data(nlmsg_hdr(m)),
                (size_t)nlmsg_datalen(nlmsg_hdr(m)));
        int r = request(t, cases[i].done ? NLM_F_DUMP : 0, &e);

        assert_int_equal(r, cases[i].code);
        assert_int_equal(e.code, cases[i].code);
        if (cases[i].text)
            assert_string_equal(err_text(&e), cases[i].text);
        reset(state);
    }
}

/* An explanation cut at each byte is left out at worst; the errno stays. */
static void test_cut_extended_ack(void **state)
{
    const struct nlmsgerr ne = {.error = -EBUSY};
    _cleanup_(nlmsg_freep) struct nl_msg *m = nlx_msg(0, 0, &ne, sizeof(ne));

    nlx_put_u32(m, NLMSGERR_ATTR_OFFS, 32);
    nlx_put_str(m, NLMSGERR_ATTR_MSG, "because");
    for (size_t len = sizeof(ne); len < (size_t)nlmsg_datalen(nlmsg_hdr(m)); len++) {
        _cleanup_(nl_freep) struct nl_transport *t = open_route();
        _cleanup_err_ struct err e = ERR_INIT;

        message(datagram(), NLMSG_ERROR, NLM_F_CAPPED | NLM_F_ACK_TLVS, THIS,
                nlmsg_data(nlmsg_hdr(m)), len);
        assert_int_equal(request(t, 0, &e), -EBUSY);
        assert_err_has(&e, "Device or resource busy");
        reset(state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_reply_and_ack, reset),
        cmocka_unit_test_teardown(test_dump, reset),
        cmocka_unit_test_teardown(test_large_reply, reset),
        cmocka_unit_test_teardown(test_foreign_and_late_answers, reset),
        cmocka_unit_test_teardown(test_interrupted_dump, reset),
        cmocka_unit_test_teardown(test_reader_that_fails, reset),
        cmocka_unit_test_teardown(test_no_answer, reset),
        cmocka_unit_test_teardown(test_socket_errors, reset),
        cmocka_unit_test_teardown(test_malformed, reset),
        cmocka_unit_test_teardown(test_malformed_datagram, reset),
        cmocka_unit_test_teardown(test_overrun, reset),
        cmocka_unit_test_teardown(test_done_with_nothing_in_it, reset),
        cmocka_unit_test_teardown(test_extended_ack, reset),
        cmocka_unit_test_teardown(test_cut_extended_ack, reset),
    };

    return cmocka_run_group_tests_name("transport", tests, NULL, NULL);
}
