/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml.h"

#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <yaml.h>

#define DEPTH_MAX 64

struct reader {
    yaml_parser_t parser;
    unsigned depth;
};

static void event_done(yaml_event_t *ev)
{
    yaml_event_delete(ev);
}

static int fault(const yaml_mark_t *at, struct err *e, const char *what)
{
    return err_set(e, ERR_USER, -EINVAL, "line %zu, column %zu: %s", at->line + 1, at->column + 1,
                   what);
}

/* The next event, which the caller deletes. On failure `ev` is empty and may be deleted too. */
static int next(struct reader *r, yaml_event_t *ev, struct err *e)
{
    const yaml_parser_t *p = &r->parser;

    if (yaml_parser_parse(&r->parser, ev))
        return 0;
    memset(ev, 0, sizeof(*ev));
    if (p->error == YAML_READER_ERROR)
        return err_set(e, ERR_USER, -EINVAL, "byte %zu: %s", p->problem_offset,
                       p->problem ? p->problem : "unreadable");
    _cleanup_free_ char *what = xasprintf("%s%s%s", p->problem ? p->problem : "not YAML",
                                          p->context ? ", " : "", p->context ? p->context : "");
    return fault(&p->problem_mark, e, what);
}

static bool any_of(const char *s, const char *const *list)
{
    while (*list)
        if (streq(s, *list++))
            return true;
    return false;
}

static size_t digits(const char *s)
{
    return strspn(s, "0123456789");
}

/* [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?; *ret_whole if there is no fraction. */
static bool is_number(const char *s, bool *ret_whole)
{
    bool whole = true;

    s += *s == '-' || *s == '+';
    size_t before = digits(s), after = 0;
    s += before;
    if (*s == '.') {
        whole = false;
        after = digits(++s);
        s += after;
    }
    if (!before && !after)
        return false;
    if (*s == 'e' || *s == 'E') {
        whole = false;
        s++;
        s += *s == '-' || *s == '+';
        if (!digits(s))
            return false;
        s += digits(s);
    }
    *ret_whole = whole;
    return !*s;
}

/* A number or boolean to YAML 1.1, which is what kubectl reads, and a string or other number here.
 */
static bool is_ambiguous(const char *s)
{
    static const char *const words[] = {"y",  "Y",  "n",  "N",  "yes", "Yes", "YES", "no", "No",
                                        "NO", "on", "On", "ON", "off", "Off", "OFF", NULL};

    if (any_of(s, words))
        return true;
    s += *s == '-' || *s == '+';
    if (!isdigit((unsigned char)*s))
        return false;
    if (*s == '0' && s[1] && strspn(s, "0123456789_") == strlen(s))
        return true;
    if (*s == '0' && (s[1] == 'b' || s[1] == 'B') && s[2] && strspn(s + 2, "01_") == strlen(s + 2))
        return true;
    return strchr(s, '_') && strspn(s, "0123456789_.eE+-xXabcdefABCDEF") == strlen(s);
}

static int plain_number(const char *s, const yaml_mark_t *at, json_t **ret, struct err *e)
{
    static const char out_of_range[] = "number out of range; quote it if it is a text";
    bool whole;
    char *end;

    errno = 0;
    if (s[0] == '0' && (s[1] == 'o' || s[1] == 'x')) {
        long long n = strtoll(s + 2, &end, s[1] == 'o' ? 8 : 16);

        if (!isxdigit((unsigned char)s[2]) || *end)
            return 0;
        if (errno == ERANGE)
            return fault(at, e, out_of_range);
        *ret = json_integer(n);
        return 0;
    }
    if (!is_number(s, &whole))
        return 0;
    if (whole) {
        long long n = strtoll(s, &end, 10);

        if (errno == ERANGE)
            return fault(at, e, out_of_range);
        *ret = json_integer(n);
        return 0;
    }
    double d = strtod(s, &end);
    if (!isfinite(d))
        return fault(at, e, out_of_range);
    *ret = json_real(d);
    return 0;
}

static int plain(const char *s, const yaml_mark_t *at, json_t **ret, struct err *e)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    static const char *const no_json[] = {".inf",  ".Inf",  ".INF",  "+.inf", "+.Inf",
                                          "+.INF", "-.inf", "-.Inf", "-.INF", ".nan",
                                          ".NaN",  ".NAN",  NULL};

    if (any_of(s, nulls))
        *ret = json_null();
    else if (any_of(s, trues))
        *ret = json_true();
    else if (any_of(s, falses))
        *ret = json_false();
    else if (any_of(s, no_json))
        return fault(at, e, "infinity and not-a-number can't be used");
    else if (is_ambiguous(s))
        return fault(at, e,
                     "read differently by YAML 1.1 and 1.2; quote it, or write true, false or a "
                     "plain decimal number");
    else
        return plain_number(s, at, ret, e);
    return 0;
}

static int scalar_text(const yaml_event_t *ev, const char **ret, struct err *e)
{
    const char *s = (const char *)ev->data.scalar.value;

    if (strlen(s) != ev->data.scalar.length)
        return fault(&ev->start_mark, e, "must not contain a NUL character");
    *ret = s;
    return 0;
}

static int refuse_properties(const yaml_event_t *ev, const yaml_char_t *anchor,
                             const yaml_char_t *tag, struct err *e)
{
    if (anchor)
        return fault(&ev->start_mark, e, "anchors aren't supported");
    if (tag)
        return fault(&ev->start_mark, e, "tags aren't supported");
    return 0;
}

static int scalar(const yaml_event_t *ev, json_t **ret, struct err *e)
{
    json_t *v = NULL;
    const char *s = NULL;
    int r = refuse_properties(ev, ev->data.scalar.anchor, ev->data.scalar.tag, e);

    if (r == 0)
        r = scalar_text(ev, &s, e);
    if (r == 0 && ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        r = plain(s, &ev->start_mark, &v, e);
    if (r == 0)
        *ret = v ? v : json_string(s);
    return r;
}

static int value(struct reader *r, const yaml_event_t *ev, json_t **ret, struct err *e);

static int sequence(struct reader *r, json_t **ret, struct err *e)
{
    json_auto_t *list = json_array();

    for (;;) {
        _cleanup_(event_done) yaml_event_t ev = {0};
        json_t *item = NULL;
        int rc = next(r, &ev, e);

        if (rc < 0)
            return rc;
        if (ev.type == YAML_SEQUENCE_END_EVENT)
            break;
        rc = value(r, &ev, &item, e);
        if (rc < 0)
            return rc;
        json_array_append_new(list, item);
    }
    *ret = TAKE_PTR(list);
    return 0;
}

static int key_of(const yaml_event_t *ev, const json_t *in, const char **ret, struct err *e)
{
    if (ev->type == YAML_ALIAS_EVENT)
        return fault(&ev->start_mark, e, "aliases aren't supported");
    if (ev->type != YAML_SCALAR_EVENT)
        return fault(&ev->start_mark, e, "a key must be a plain or quoted text");
    int r = refuse_properties(ev, ev->data.scalar.anchor, ev->data.scalar.tag, e);
    if (r == 0)
        r = scalar_text(ev, ret, e);
    if (r < 0)
        return r;
    if (streq(*ret, "<<") && ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        return fault(&ev->start_mark, e, "merge keys aren't supported");
    if (json_object_get(in, *ret)) {
        _cleanup_free_ char *what = xasprintf("key \"%s\" is given twice", *ret);

        return fault(&ev->start_mark, e, what);
    }
    return 0;
}

static int mapping(struct reader *r, json_t **ret, struct err *e)
{
    json_auto_t *map = json_object();

    for (;;) {
        _cleanup_(event_done) yaml_event_t key = {0};
        _cleanup_(event_done) yaml_event_t ev = {0};
        const char *name = NULL;
        json_t *item = NULL;
        int rc = next(r, &key, e);

        if (rc < 0)
            return rc;
        if (key.type == YAML_MAPPING_END_EVENT)
            break;
        rc = key_of(&key, map, &name, e);
        if (rc == 0)
            rc = next(r, &ev, e);
        if (rc == 0)
            rc = value(r, &ev, &item, e);
        if (rc < 0)
            return rc;
        json_object_set_new(map, name, item);
    }
    *ret = TAKE_PTR(map);
    return 0;
}

static int collection(struct reader *r, const yaml_event_t *ev, json_t **ret, struct err *e)
{
    bool map = ev->type == YAML_MAPPING_START_EVENT;
    int rc =
        map ? refuse_properties(ev, ev->data.mapping_start.anchor, ev->data.mapping_start.tag, e)
            : refuse_properties(ev, ev->data.sequence_start.anchor, ev->data.sequence_start.tag, e);

    if (rc < 0)
        return rc;
    if (r->depth == DEPTH_MAX)
        return fault(&ev->start_mark, e, "nested too deeply");
    r->depth++;
    rc = map ? mapping(r, ret, e) : sequence(r, ret, e);
    r->depth--;
    return rc;
}

/* The value that begins with `ev`, read to its end. */
static int value(struct reader *r, const yaml_event_t *ev, json_t **ret, struct err *e)
{
    switch (ev->type) {
    case YAML_SCALAR_EVENT:
        return scalar(ev, ret, e);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return collection(r, ev, ret, e);
    case YAML_ALIAS_EVENT:
        return fault(&ev->start_mark, e, "aliases aren't supported");
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        break;
    }
    return err_set(e, ERR_BUG, -EINVAL, "libyaml: event %d where a value begins", ev->type);
}

static int documents(struct reader *r, json_t *list, struct err *e)
{
    for (;;) {
        _cleanup_(event_done) yaml_event_t ev = {0};
        json_t *doc = NULL;
        int rc = next(r, &ev, e);

        if (rc < 0)
            return rc;
        if (ev.type == YAML_STREAM_END_EVENT)
            return 0;
        /* what is left is the stream's start and the documents' starts and ends */
        if (ev.type == YAML_STREAM_START_EVENT || ev.type == YAML_DOCUMENT_START_EVENT ||
            ev.type == YAML_DOCUMENT_END_EVENT)
            continue;
        rc = value(r, &ev, &doc, e);
        if (rc < 0)
            return rc;
        if (json_is_null(doc))
            json_decref(doc);
        else
            json_array_append_new(list, doc);
    }
}

int yaml_parse_all(const char *text, size_t len, json_t **ret_array, struct err *e)
{
    json_auto_t *list = json_array();
    struct reader r = {0};

    if (len > YAML_MAX)
        return err_set(e, ERR_USER, -EFBIG, "longer than %d bytes", YAML_MAX);
    if (!yaml_parser_initialize(&r.parser))
        abort(); /* out of memory, the only reason that it has */
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    int rc = documents(&r, list, e);
    yaml_parser_delete(&r.parser);
    if (rc == 0)
        *ret_array = TAKE_PTR(list);
    return rc;
}

int yaml_parse(const char *text, size_t len, json_t **ret, struct err *e)
{
    json_auto_t *list = NULL;
    int r = yaml_parse_all(text, len, &list, e);

    if (r < 0)
        return r;
    if (json_array_size(list) != 1)
        return err_set(e, ERR_USER, -EINVAL, "%zu documents where one is expected",
                       json_array_size(list));
    *ret = json_incref(json_array_get(list, 0));
    return 0;
}
