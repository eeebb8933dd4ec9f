/* SPDX-License-Identifier: Apache-2.0 */
/* What every test program includes: cmocka with the headers that it wants first. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/macro.h"

/* Fails with the error's own text where a call that should succeed didn't. */
#define assert_ok(call, e)                                                                         \
    do {                                                                                           \
        int _r = (call);                                                                           \
        if (_r < 0)                                                                                \
            fail_msg("%s: %d, %s", #call, _r, err_text(e));                                        \
    } while (0)

/* The error is set and its text has the part that a user needs. */
#define assert_err_has(e, part)                                                                    \
    do {                                                                                           \
        if (!strstr(err_text(e), part))                                                            \
            fail_msg("error text \"%s\" lacks \"%s\"", err_text(e), part);                         \
    } while (0)
