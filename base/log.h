/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line a record on stderr: JSON with the keys that klog uses (ts, level, msg, err, then the
 * record's own), or text for people. Only edges log above debug; a library returns `struct err`.
 *
 *     log_info("claim prepared", "claim", uid, "vf", addr);
 *
 * Keys and values come in pairs of strings; a NULL value is written as null. Any thread may log; a
 * record is one write(2), so records don't mix.
 */
#pragma once

#include "base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_TEXT, LOG_JSON };

/* Not thread-safe: call before threads start. */
void log_setup(enum log_level max, enum log_format format);
enum log_level log_max_level(void);

/* Behind the macros below, which end the pairs with a NULL key. `e` may be NULL. */
void log_record(enum log_level level, const struct err *e, const char *msg, ...)
    __attribute__((sentinel));

#define log_error(...)        log_record(LOG_ERROR, NULL, __VA_ARGS__, NULL)
#define log_error_err(e, ...) log_record(LOG_ERROR, e, __VA_ARGS__, NULL)
#define log_warn(...)         log_record(LOG_WARN, NULL, __VA_ARGS__, NULL)
#define log_warn_err(e, ...)  log_record(LOG_WARN, e, __VA_ARGS__, NULL)
#define log_info(...)         log_record(LOG_INFO, NULL, __VA_ARGS__, NULL)
#define log_debug(...)                                                                             \
    do {                                                                                           \
        if (log_max_level() >= LOG_DEBUG)                                                          \
            log_record(LOG_DEBUG, NULL, __VA_ARGS__, NULL);                                        \
    } while (0)
