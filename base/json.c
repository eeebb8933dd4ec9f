/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include "base/str.h"

#include <errno.h>
#include <inttypes.h>

static void put_path(struct strbuf *b, const struct jpath *p)
{
    if (p->up)
        put_path(b, p->up);
    if (p->key)
        strbuf_printf(b, "%s%s", b->len ? "." : "", p->key);
    else if (p->up)
        strbuf_printf(b, "[%zu]", p->index);
}

char *jpath_text(const struct jpath *p)
{
    struct strbuf b = {0};

    if (p)
        put_path(&b, p);
    if (!b.len)
        strbuf_puts(&b, "document");
    return strbuf_take(&b);
}

int jpath_err(const struct jpath *p, struct err *e, const char *fmt, ...)
{
    _cleanup_free_ char *where = jpath_text(p);
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *what = xvasprintf(fmt, ap);
    va_end(ap);
    return err_set(e, ERR_USER, -EINVAL, "%s: %s", where, what);
}

static int parse(const char *text, size_t len, size_t flags, json_t **ret, struct err *e)
{
    json_error_t je;
    json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | flags, &je);

    if (!o)
        return err_set(e, ERR_USER, -EINVAL, "line %d, column %d: %s", je.line, je.column, je.text);
    *ret = o;
    return 0;
}

int json_parse(const char *text, size_t len, json_t **ret, struct err *e)
{
    return parse(text, len, 0, ret, e);
}

int json_parse_api(const char *text, size_t len, json_t **ret, struct err *e)
{
    return parse(text, len, JSON_ALLOW_NUL, ret, e);
}

const char *json_c_str(const json_t *v)
{
    const char *s = json_string_value(v);

    return s && strlen(s) == json_string_length(v) ? s : NULL;
}

json_t *json_at(const json_t *o, const char *path)
{
    char key[64];

    for (;;) {
        const char *dot = strchr(path, '.');
        size_t n = dot ? (size_t)(dot - path) : strlen(path);

        if (!json_is_object(o) || n >= sizeof(key))
            return NULL;
        memcpy(key, path, n);
        key[n] = '\0';
        json_t *next = json_object_get(o, key);
        if (!dot)
            return next;
        o = next;
        path = dot + 1;
    }
}

const char *json_str_at(const json_t *o, const char *path)
{
    return json_c_str(json_at(o, path));
}

int64_t json_int_at(const json_t *o, const char *path, int64_t fallback)
{
    const json_t *v = json_at(o, path);

    return json_is_integer(v) ? json_integer_value(v) : fallback;
}

int json_only(const json_t *o, const struct jpath *p, const char *const *known, struct err *e)
{
    const char *key;
    json_t *v;

    if (!json_is_object(o))
        return jpath_err(p, e, "must be an object");
    json_object_foreach ((json_t *)o, key, v) {
        const char *const *k = known;

        while (*k && !streq(*k, key))
            k++;
        if (!*k) {
            struct jpath at = {.up = p, .key = key};
            struct strbuf b = {0};

            for (k = known; *k; k++)
                strbuf_printf(&b, "%s%s", k == known ? "" : ", ", *k);
            _cleanup_free_ char *list = strbuf_take(&b);
            return jpath_err(&at, e, "unknown field; known here: %s", list);
        }
    }
    return 0;
}

int json_get_str(const json_t *o, const struct jpath *p, const char *key, const char **ret,
                 struct err *e)
{
    struct jpath at = {.up = p, .key = key};
    const json_t *v = json_object_get(o, key);

    if (!v)
        return 0;
    if (!json_is_string(v))
        return jpath_err(&at, e, "must be a string");
    if (strlen(json_string_value(v)) != json_string_length(v))
        return jpath_err(&at, e, "must not contain a NUL character");
    *ret = json_string_value(v);
    return 1;
}

int json_get_bool(const json_t *o, const struct jpath *p, const char *key, bool *ret, struct err *e)
{
    struct jpath at = {.up = p, .key = key};
    const json_t *v = json_object_get(o, key);

    if (!v)
        return 0;
    if (!json_is_boolean(v))
        return jpath_err(&at, e, "must be true or false");
    *ret = json_is_true(v);
    return 1;
}

int json_get_int(const json_t *o, const struct jpath *p, const char *key, int64_t min, int64_t max,
                 int64_t *ret, struct err *e)
{
    struct jpath at = {.up = p, .key = key};
    const json_t *v = json_object_get(o, key);

    if (!v)
        return 0;
    if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max)
        return jpath_err(&at, e, "must be a whole number from %" PRId64 " to %" PRId64, min, max);
    *ret = json_integer_value(v);
    return 1;
}

static int get_kind(const json_t *o, const struct jpath *p, const char *key, json_type kind,
                    json_t **ret, struct err *e)
{
    struct jpath at = {.up = p, .key = key};
    json_t *v = json_object_get(o, key);

    if (!v)
        return 0;
    if (json_typeof(v) != kind)
        return jpath_err(&at, e, kind == JSON_OBJECT ? "must be an object" : "must be a list");
    *ret = v;
    return 1;
}

int json_get_object(const json_t *o, const struct jpath *p, const char *key, json_t **ret,
                    struct err *e)
{
    return get_kind(o, p, key, JSON_OBJECT, ret, e);
}

int json_get_array(const json_t *o, const struct jpath *p, const char *key, json_t **ret,
                   struct err *e)
{
    return get_kind(o, p, key, JSON_ARRAY, ret, e);
}

char *json_text(const json_t *o)
{
    char *s = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);

    return s ? s : xstrdup("null");
}

void json_set_str(json_t *o, const char *key, const char *s)
{
    if (s)
        json_object_set_new(o, key, json_string(s));
}
