/* SPDX-License-Identifier: Apache-2.0 */
/* Documents for tests: written as YAML, changed at a path, and broken everywhere in turn. */
#pragma once

#include "base/json.h"
#include "tests/unit/test.h"

/* The document; fails the test where the text is no YAML. */
json_t *doc(const char *yaml);

/* Replaces, or with NULL removes, what is at "spec.functions[1].parent"; its parent must exist. */
void doc_set(json_t *o, const char *path, const char *yaml);

/* A copy of `o` so changed. */
json_t *doc_with(const json_t *o, const char *path, const char *yaml);

/* Reads a changed document as the parser under test does; 0 or an error. */
typedef int doc_parse_fn(const json_t *o, struct err *e);

/*
 * Puts a value of every other kind at each place of a valid document, a field that nobody knows
 * into each object, and a second copy of an element into each list: each must fail, and the error
 * must have the path. `free_form` (paths, NULL-terminated) are objects whose members have any name
 * and more than one kind: what is in them isn't broken.
 */
void doc_break_everywhere(const json_t *o, const char *const *free_form, doc_parse_fn *parse);
