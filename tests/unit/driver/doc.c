/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/driver/doc.h"

#include "base/str.h"
#include "base/yaml.h"

json_t *doc(const char *yaml)
{
    _cleanup_err_ struct err e = ERR_INIT;
    json_t *o = NULL;

    if (streq(yaml, "null")) /* to the reader no document at all */
        return json_null();
    if (yaml_parse(yaml, strlen(yaml), &o, &e) < 0)
        fail_msg("%s: %s", yaml, err_text(&e));
    return o;
}

/* Walks one step of a path; *ret_last if it was the last. */
static const char *step(const char *path, char *key, size_t size, bool *ret_index)
{
    *ret_index = *path == '[';
    path += *path == '[' || *path == '.';
    size_t n = strcspn(path, *ret_index ? "]" : ".[");
    assert_true(n < size);
    memcpy(key, path, n);
    key[n] = '\0';
    return path + n + *ret_index;
}

void doc_set(json_t *o, const char *path, const char *yaml)
{
    char key[64];
    bool is_index;

    for (;;) {
        path = step(path, key, sizeof(key), &is_index);
        size_t index = is_index ? strtoul(key, NULL, 10) : 0;
        if (!*path) {
            if (is_index && yaml)
                json_array_set_new(o, index, doc(yaml));
            else if (is_index)
                json_array_remove(o, index);
            else if (yaml)
                json_object_set_new(o, key, doc(yaml));
            else
                json_object_del(o, key);
            return;
        }
        o = is_index ? json_array_get(o, index) : json_object_get(o, key);
        if (!o)
            fail_msg("no \"%s\" in the document", key);
    }
}

json_t *doc_with(const json_t *o, const char *path, const char *yaml)
{
    json_t *copy = json_deep_copy(o);

    if (path)
        doc_set(copy, path, yaml);
    return copy;
}

static void must_fail(const json_t *whole, const char *path, const char *yaml, const char *where,
                      doc_parse_fn *parse)
{
    _cleanup_err_ struct err e = ERR_INIT;
    json_auto_t *broken = *path ? doc_with(whole, path, yaml) : doc(yaml);

    if (parse(broken, &e) >= 0)
        fail_msg("%s: %s was taken", *path ? path : "document", yaml);
    if (!strstr(err_text(&e), where))
        fail_msg("%s: %s: \"%s\" doesn't name the place", path, yaml, err_text(&e));
    assert_int_equal(e.kind, ERR_USER);
}

static void break_here(const json_t *whole, const json_t *o, const char *path, doc_parse_fn *parse)
{
    static const struct {
        json_type type;
        const char *yaml;
    } kinds[] = {
        {JSON_NULL, "null"},   {JSON_REAL, "1.5"}, {JSON_TRUE, "true"},     {JSON_INTEGER, "1"},
        {JSON_STRING, "text"}, {JSON_ARRAY, "[]"}, {JSON_OBJECT, "{x: 1}"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (kinds[i].type != json_typeof(o) && !(kinds[i].type == JSON_TRUE && json_is_boolean(o)))
            must_fail(whole, path, kinds[i].yaml, *path ? path : "", parse);
}

static void break_below(const json_t *whole, const json_t *o, const char *path,
                        const char *const *free_form, doc_parse_fn *parse)
{
    const char *key;
    json_t *v;
    size_t n;

    break_here(whole, o, path, parse);
    for (const char *const *f = free_form; *f; f++)
        if (streq(*f, path))
            return;
    if (json_is_object(o)) {
        _cleanup_free_ char *bogus = xasprintf("%s%sbogus", path, *path ? "." : "");

        must_fail(whole, bogus, "1", bogus, parse);
    }
    json_object_foreach ((json_t *)o, key, v) {
        _cleanup_free_ char *at = xasprintf("%s%s%s", path, *path ? "." : "", key);

        break_below(whole, v, at, free_form, parse);
    }
    json_array_foreach (o, n, v) {
        _cleanup_free_ char *at = xasprintf("%s[%zu]", path, n);

        break_below(whole, v, at, free_form, parse);
        if (n == json_array_size(o) - 1) {
            json_auto_t *twice = json_deep_copy(o);
            json_array_append(twice, v);
            _cleanup_free_ char *text = json_dumps(twice, 0);
            _cleanup_free_ char *where = xasprintf("%s[%zu]", path, n + 1);

            must_fail(whole, path, text, where, parse);
        }
    }
}

void doc_break_everywhere(const json_t *o, const char *const *free_form, doc_parse_fn *parse)
{
    break_below(o, o, "", free_form, parse);
}
