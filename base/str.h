/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation that doesn't fail, strings, a growing buffer, and a growing array.
 *
 * Running out of memory ends the process: state on disk survives it by design, and gRPC's own
 * allocator does the same. Sizes that come from outside are checked before allocating.
 */
#pragma once

#include "base/macro.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n, size_t size);
char *xstrdup(const char *s); /* NULL stays NULL */
char *xstrndup(const char *s, size_t n);
void *xmemdup(const void *p, size_t n);
char *xasprintf(const char *fmt, ...) _printf_(1, 2);
char *xvasprintf(const char *fmt, va_list ap) _printf_(1, 0);

#define xnew(type) ((type *)xcalloc(1, sizeof(type)))

static inline bool streq(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* NULL equals NULL only. */
static inline bool streq_null(const char *a, const char *b)
{
    return a == b || (a && b && streq(a, b));
}

/* The part behind `prefix`, or NULL if `s` doesn't start with it. */
const char *str_skip(const char *s, const char *prefix);

/* Removes white space at the end, in place; returns `s`. */
char *str_chomp(char *s);

/*
 * A copy with each byte that isn't part of valid UTF-8 replaced by '?': a peer refuses a protobuf
 * message or a JSON text whose strings aren't, and kernel texts and file names promise nothing.
 */
char *str_utf8(const char *s);

/* Parses all of `s` as an unsigned number of `base` (0: as C does); -EINVAL, -ERANGE above max. */
int parse_u64(const char *s, int base, uint64_t max, uint64_t *ret);

/* A text that grows. Zero-initialised is empty; `s` is NULL until something is added. */
struct strbuf {
    char *s;
    size_t len, cap;
};

void strbuf_add(struct strbuf *b, const void *data, size_t n);
void strbuf_puts(struct strbuf *b, const char *s);
void strbuf_putc(struct strbuf *b, char c);
void strbuf_printf(struct strbuf *b, const char *fmt, ...) _printf_(2, 3);
char *strbuf_take(struct strbuf *b); /* the text, never NULL; the buffer is empty afterwards */
void strbuf_done(struct strbuf *b);

/*
 * A growing array: declare `struct { T *v; size_t n, cap; } name;` zero-initialised. VEC_PUSH gives
 * a pointer to a new zeroed element; it is valid until the next push.
 */
#define VEC(T)                                                                                     \
    struct {                                                                                       \
        T *v;                                                                                      \
        size_t n, cap;                                                                             \
    }

void *vec_grow(void *v, size_t *cap, size_t need, size_t size);

#define VEC_PUSH(vec)                                                                              \
    ({                                                                                             \
        (vec)->v = vec_grow((vec)->v, &(vec)->cap, (vec)->n + 1, sizeof(*(vec)->v));               \
        memset(&(vec)->v[(vec)->n], 0, sizeof(*(vec)->v));                                         \
        &(vec)->v[(vec)->n++];                                                                     \
    })

/*
 * "+ 0" takes the qualifiers of a const vec off the pointer itself; an empty vec has no array, and
 * arithmetic on NULL is undefined.
 */
#define vec_foreach(it, vec)                                                                       \
    for (__typeof__((vec)->v + 0) it = (vec)->v; it && it < (vec)->v + (vec)->n; it++)
