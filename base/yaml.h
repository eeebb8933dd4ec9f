/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML on libyaml, read into the same jansson values as JSON: kubeconfigs, pools given as a file.
 *
 * Scalars are typed by YAML 1.2's core schema: a quoted or block scalar is a string; a plain one is
 * null, a boolean, a number or else a string. What readers of other versions take for something
 * else (yes, 0777, 1_000 ...) is refused with a request to quote it, because a document means the
 * same here and as an object of the cluster. Refused too: anchors and aliases, tags, a key given
 * twice, keys that are no scalars, nesting above 64, numbers that JSON can't hold.
 */
#pragma once

#include "base/json.h"

/* The longest text that is read, in bytes. */
#define YAML_MAX (1024 * 1024)

/*
 * Reads a text of exactly one document. -EINVAL with "line L, column C: ..." if it isn't
 * well-formed or has something refused, -EFBIG above YAML_MAX.
 */
int yaml_parse(const char *text, size_t len, json_t **ret, struct err *e);

/* Reads all documents, separated by "---", into an array. Empty ones are left out. */
int yaml_parse_all(const char *text, size_t len, json_t **ret_array, struct err *e);
