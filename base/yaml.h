/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML read into JSON values by libyaml. JSON is YAML too, so one reader serves both. Scalars are
 * typed as Kubernetes does it: quoted is a string; true, false, null and numbers are themselves.
 * Anchors, aliases, tags and repeated keys are errors, as is depth above 64.
 */
#pragma once

#include "base/json.h"

/*
 * Appends each document of the text ("---" separates them) to the JSON array `docs`; empty
 * documents are skipped. ERR_USER with line and column otherwise. 1 MiB at most.
 */
int yaml_load(const char *text, size_t len, json_t *docs, struct err *e);
