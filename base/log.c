/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/clock.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>

static enum log_level max_level = LOG_INFO;
static enum log_format format = LOG_TEXT;

static const char *const names[] = {
    [LOG_ERROR] = "error",
    [LOG_WARN] = "warning",
    [LOG_INFO] = "info",
    [LOG_DEBUG] = "debug",
};

void log_setup(enum log_level max, enum log_format fmt)
{
    max_level = max;
    format = fmt;
}

enum log_level log_max_level(void)
{
    return max_level;
}

static void put_json(struct strbuf *b, const char *s)
{
    if (!s) {
        strbuf_puts(b, "null");
        return;
    }
    strbuf_putc(b, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\')
            strbuf_printf(b, "\\%c", c);
        else if (c == '\n')
            strbuf_puts(b, "\\n");
        else if (c < 0x20)
            strbuf_printf(b, "\\u%04x", c);
        else
            strbuf_putc(b, (char)c);
    }
    strbuf_putc(b, '"');
}

/* Text for people: quoted only where a reader (or grep) could mistake the end of the value. */
static void put_text(struct strbuf *b, const char *s)
{
    if (s && *s && !strpbrk(s, " \t\r\n\"=\\"))
        strbuf_puts(b, s);
    else
        put_json(b, s);
}

void log_record(enum log_level level, const struct err *e, const char *msg, ...)
{
    if (level > max_level)
        return;

    struct strbuf b = {0};
    int64_t now = clock_wall_ms();
    va_list ap;

    if (format == LOG_JSON) {
        strbuf_printf(&b, "{\"ts\":%" PRId64 ".%03d,\"level\":\"%s\",\"msg\":", now / 1000,
                      (int)(now % 1000), names[level]);
        put_json(&b, msg);
        if (e) {
            strbuf_puts(&b, ",\"err\":");
            put_json(&b, err_text(e));
        }
    } else {
        char when[21];

        clock_rfc3339(now, when);
        strbuf_printf(&b, "%.19s.%03dZ %-7s %s", when, (int)(now % 1000), names[level], msg);
        if (e)
            strbuf_printf(&b, ": %s", err_text(e));
    }

    va_start(ap, msg);
    for (const char *key; (key = va_arg(ap, const char *));) {
        const char *value = va_arg(ap, const char *);

        if (format == LOG_JSON) {
            strbuf_putc(&b, ',');
            put_json(&b, key);
            strbuf_putc(&b, ':');
            put_json(&b, value);
        } else {
            strbuf_printf(&b, " %s=", key);
            put_text(&b, value);
        }
    }
    va_end(ap);

    strbuf_puts(&b, format == LOG_JSON ? "}\n" : "\n");
    (void)!write(STDERR_FILENO, b.s, b.len);
    strbuf_done(&b);
}
