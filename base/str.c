/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>

static void *check(void *p)
{
    if (!p) {
        static const char text[] = "sriov-dra: out of memory\n";

        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
        abort();
    }
    return p;
}

void *xmalloc(size_t n)
{
    return check(malloc(n ? n : 1));
}

void *xcalloc(size_t n, size_t size)
{
    return check(calloc(n ? n : 1, size ? size : 1));
}

void *xrealloc(void *p, size_t n, size_t size)
{
    return check(reallocarray(p, n ? n : 1, size ? size : 1));
}

char *xstrdup(const char *s)
{
    return s ? check(strdup(s)) : NULL;
}

char *xstrndup(const char *s, size_t n)
{
    return check(strndup(s, n));
}

void *xmemdup(const void *p, size_t n)
{
    return n ? memcpy(xmalloc(n), p, n) : xmalloc(1);
}

char *xvasprintf(const char *fmt, va_list ap)
{
    char *s = NULL;

    if (vasprintf(&s, fmt, ap) < 0)
        s = NULL;
    return check(s);
}

char *xasprintf(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    char *s = xvasprintf(fmt, ap);
    va_end(ap);
    return s;
}

const char *str_skip(const char *s, const char *prefix)
{
    size_t n = strlen(prefix);

    return strncmp(s, prefix, n) == 0 ? s + n : NULL;
}

char *str_chomp(char *s)
{
    size_t n = strlen(s);

    while (n && isspace((unsigned char)s[n - 1]))
        s[--n] = '\0';
    return s;
}

/* Bytes of the sequence at `p`, 0 if it is invalid (RFC 3629: no overlong form, no surrogate). */
static size_t utf8_len(const unsigned char *p)
{
    unsigned char low = 0x80, high = 0xbf;
    size_t n;

    if (*p < 0x80)
        return 1;
    if (*p >= 0xc2 && *p <= 0xdf)
        n = 2;
    else if (*p >= 0xe0 && *p <= 0xef)
        n = 3;
    else if (*p >= 0xf0 && *p <= 0xf4)
        n = 4;
    else
        return 0;
    if (*p == 0xe0)
        low = 0xa0;
    else if (*p == 0xed)
        high = 0x9f;
    else if (*p == 0xf0)
        low = 0x90;
    else if (*p == 0xf4)
        high = 0x8f;
    for (size_t i = 1; i < n; i++) {
        if (p[i] < low || p[i] > high)
            return 0;
        low = 0x80;
        high = 0xbf;
    }
    return n;
}

char *str_utf8(const char *s)
{
    char *copy = xstrdup(s);

    for (char *p = copy; *p;) {
        size_t n = utf8_len((unsigned char *)p);

        if (n == 0) {
            *p = '?';
            n = 1;
        }
        p += n;
    }
    return copy;
}

int parse_u64(const char *s, int base, uint64_t max, uint64_t *ret)
{
    char *end;

    /* strtoull takes leading space and a sign, and wraps "-1" round: none of it is a number here */
    if (!isxdigit((unsigned char)*s))
        return -EINVAL;
    errno = 0;
    unsigned long long v = strtoull(s, &end, base);
    if (*end || end == s)
        return -EINVAL;
    if (errno == ERANGE || v > max)
        return -ERANGE;
    *ret = v;
    return 0;
}

void *vec_grow(void *v, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap)
        return v;
    size_t n = *cap ? *cap * 2 : 8;
    if (n < need)
        n = need;
    *cap = n;
    return xrealloc(v, n, size);
}

void strbuf_add(struct strbuf *b, const void *data, size_t n)
{
    b->s = vec_grow(b->s, &b->cap, b->len + n + 1, 1);
    if (n)
        memcpy(b->s + b->len, data, n);
    b->len += n;
    b->s[b->len] = '\0';
}

void strbuf_puts(struct strbuf *b, const char *s)
{
    strbuf_add(b, s, strlen(s));
}

void strbuf_putc(struct strbuf *b, char c)
{
    strbuf_add(b, &c, 1);
}

void strbuf_printf(struct strbuf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *s = xvasprintf(fmt, ap);
    va_end(ap);
    strbuf_puts(b, s);
}

char *strbuf_take(struct strbuf *b)
{
    char *s = b->s ? b->s : xstrdup("");

    *b = (struct strbuf){0};
    return s;
}

void strbuf_done(struct strbuf *b)
{
    free(b->s);
    *b = (struct strbuf){0};
}
