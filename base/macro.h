/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small macros that every room uses: scoped cleanup, transfer of ownership, and attributes that
 * let the compiler check callers.
 */
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define _printf_(fmt, args) __attribute__((format(printf, fmt, args)))
#define _must_check_        __attribute__((warn_unused_result))
#define _unused_            __attribute__((unused))
#define _cleanup_(f)        __attribute__((cleanup(f)))

/* Gives the value away: the variable no longer owns it, so its cleanup does nothing. */
#define TAKE_PTR(p)                                                                                \
    ({                                                                                             \
        __typeof__(p) _taken = (p);                                                                \
        (p) = NULL;                                                                                \
        _taken;                                                                                    \
    })

#define TAKE_FD(fd)                                                                                \
    ({                                                                                             \
        int _taken = (fd);                                                                         \
        (fd) = -1;                                                                                 \
        _taken;                                                                                    \
    })

/* Defines `fn` + "p", the form that _cleanup_ wants, for a destructor that accepts NULL. */
#define DEFINE_CLEANUP(type, fn)                                                                   \
    static inline void fn##p(type **p)                                                             \
    {                                                                                              \
        if (*p)                                                                                    \
            fn(*p);                                                                                \
    }

static inline void cleanup_freep(void *p)
{
    free(*(void **)p);
}

static inline void cleanup_closep(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

#define _cleanup_free_  _cleanup_(cleanup_freep)
#define _cleanup_close_ _cleanup_(cleanup_closep)
