/* SPDX-License-Identifier: Apache-2.0 */
#include "netlink/nlx.h"

#include <errno.h>

#define DUMP_ATTEMPTS 5

static void must(bool ok)
{
    if (!ok)
        abort();
}

struct nl_msg *nlx_msg(int type, int flags, const void *head, size_t len)
{
    struct nl_msg *m = nlmsg_alloc_simple(type, flags);

    must(m && nlmsg_append(m, (void *)head, len, NLMSG_ALIGNTO) == 0);
    return m;
}

void nlx_put(struct nl_msg *m, int type, const void *data, size_t len)
{
    must(nla_put(m, type, (int)len, data) == 0);
}

void nlx_put_u32(struct nl_msg *m, int type, uint32_t value)
{
    nlx_put(m, type, &value, sizeof(value));
}

void nlx_put_str(struct nl_msg *m, int type, const char *s)
{
    must(nla_put_string(m, type, s) == 0);
}

struct nlattr *nlx_nest(struct nl_msg *m, int type)
{
    struct nlattr *nest = nla_nest_start(m, type);

    must(nest != NULL);
    return nest;
}

void nlx_nest_end(struct nl_msg *m, struct nlattr *nest)
{
    must(nla_nest_end(m, nest) == 0);
}

int nlx_parse(struct nlattr **tb, int max, const struct nlattr *head, int len,
              const struct nla_policy *policy)
{
    struct nlattr *a;
    int rem;

    nlx_for_each (a, (struct nlattr *)head, len, rem) {
        /* One by one, as the walk in nla_validate() has the fault of nla_ok(). */
        if (nla_validate(a, NLA_ALIGN(a->nla_len), max, policy) < 0)
            return -EBADMSG;
        if (nla_type(a) <= max && !tb[nla_type(a)])
            tb[nla_type(a)] = a;
    }
    return rem > 0 ? -EBADMSG : 0;
}

int nlx_parse_nested(struct nlattr **tb, int max, const struct nlattr *nest,
                     const struct nla_policy *policy)
{
    return nlx_parse(tb, max, nla_data(nest), nla_len(nest), policy);
}

int nlx_dump(struct nl_transport *t, struct nl_msg *m, nl_reply_fn *fn, void (*reset)(void *data),
             void *data, struct err *e)
{
    _cleanup_err_ struct err last = ERR_INIT;
    int r = -EAGAIN;

    for (int i = 0; r == -EAGAIN && i < DUMP_ATTEMPTS; i++) {
        reset(data);
        r = nl_request(t, m, fn, data, &last);
    }
    return r < 0 ? err_move(e, &last) : 0;
}
