/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON on jansson: look-ups that carry the path of the field into the error, so that a user reads
 * "spec.settings.vlan.id: must be 0 to 4094", not "bad value".
 *
 * A `struct jpath` names where a reader is; it lives on the stack and points to its parent.
 */
#pragma once

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct jpath {
    const struct jpath *up; /* NULL at the root */
    const char *key;        /* NULL: `index` is meant */
    size_t index;
};

/* "spec.functions[1].parent"; "document" at the root. The caller frees it. */
char *jpath_text(const struct jpath *p);

/* err_set(e, ERR_USER, -EINVAL, "PATH: ..."). `p` is where the fault is. */
int jpath_err(const struct jpath *p, struct err *e, const char *fmt, ...) _printf_(3, 4);

/* Parses one document; duplicates of a key, trailing text and NUL in a string are errors. */
int json_parse(const char *text, size_t len, json_t **ret, struct err *e);

/*
 * The same for what an API server sends: strings may contain NUL. Any user can put one into an
 * annotation of a pod, and must not blind whoever lists pods.
 */
int json_parse_api(const char *text, size_t len, json_t **ret, struct err *e);

/* NULL if `v` is no string, or one with a NUL, whose beginning isn't its value. */
const char *json_c_str(const json_t *v);

/* The member at "a.b.c" of nested objects, or NULL. For objects of the API, which may lack any. */
json_t *json_at(const json_t *o, const char *path);
const char *json_str_at(const json_t *o, const char *path); /* as json_c_str() */
int64_t json_int_at(const json_t *o, const char *path, int64_t fallback);

/* Refuses members of `o` that are not in the NULL-terminated list, and an `o` that is no object. */
int json_only(const json_t *o, const struct jpath *p, const char *const *known, struct err *e);

/* Optional members: absent leaves *ret untouched and returns 0, present and right returns 1. */
int json_get_str(const json_t *o, const struct jpath *p, const char *key, const char **ret,
                 struct err *e);
int json_get_bool(const json_t *o, const struct jpath *p, const char *key, bool *ret,
                  struct err *e);
int json_get_int(const json_t *o, const struct jpath *p, const char *key, int64_t min, int64_t max,
                 int64_t *ret, struct err *e);
int json_get_object(const json_t *o, const struct jpath *p, const char *key, json_t **ret,
                    struct err *e);
int json_get_array(const json_t *o, const struct jpath *p, const char *key, json_t **ret,
                   struct err *e);

/* Compact text with sorted keys; the caller frees it. */
char *json_text(const json_t *o);

/* Sets a member; nothing happens if `s` is NULL. */
void json_set_str(json_t *o, const char *key, const char *s);
