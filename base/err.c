/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include "base/str.h"

#include <errno.h>
#include <string.h>

enum err_kind err_kind_of_errno(int code)
{
    switch (-code) {
    case EAGAIN:
    case EINTR:
    case EBUSY:
    case ETIMEDOUT:
    case ENOBUFS:
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ENOMEM:
        return ERR_TRANSIENT;
    }
    return ERR_PERMANENT;
}

static int err_take(struct err *e, enum err_kind kind, int code, char *msg)
{
    if (!e) {
        free(msg);
        return code;
    }
    free(e->msg);
    *e = (struct err){.code = code, .kind = kind, .msg = msg};
    return code;
}

int err_set(struct err *e, enum err_kind kind, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    char *msg = xvasprintf(fmt, ap);
    va_end(ap);
    return err_take(e, kind, code, msg);
}

int err_errno(struct err *e, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *what = xvasprintf(fmt, ap);
    va_end(ap);
    return err_take(e, err_kind_of_errno(code), code, xasprintf("%s: %s", what, strerror(-code)));
}

int err_prefix(struct err *e, int code, const char *fmt, ...)
{
    va_list ap;

    if (!e)
        return code;
    va_start(ap, fmt);
    _cleanup_free_ char *what = xvasprintf(fmt, ap);
    va_end(ap);
    return err_take(e, e->kind, e->code, xasprintf("%s: %s", what, err_text(e)));
}

int err_move(struct err *to, struct err *from)
{
    int code = from->code;

    err_take(to, from->kind, code, TAKE_PTR(from->msg));
    *from = ERR_INIT;
    return code;
}

const char *err_text(const struct err *e)
{
    return e && e->msg ? e->msg : "no error text";
}

void err_clear(struct err *e)
{
    free(e->msg);
    *e = ERR_INIT;
}
