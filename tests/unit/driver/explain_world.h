/* SPDX-License-Identifier: Apache-2.0 */
/* A claim, and all that is read for its explanation, to be changed at will. */
#pragma once

#include "driver/explain.h"

#define DRIVER "sriov-dra.dev"
#define VF     "0000-01-10-0"

/* Places in the document that tests change. */
#define RESULT     "claim.status.allocation.devices.results[0]"
#define DEVICE     "slices[1].spec.devices[1]"
#define ATTRIBUTES DEVICE ".attributes"
#define DEVICE_0   "slices[1].spec.devices[0]" /* once the other is removed */

/* `yaml` NULL: what is at `path` is removed. */
struct change {
    const char *path, *yaml;
};

struct world {
    json_t *doc;
    struct explain_input in;
    struct explanation *x;
};

/* `changes` end with a NULL path, or after `n`. */
void world_init(struct world *w, const struct change *changes, size_t n);
void world_done(struct world *w);

/* "Request Settings|Device|..|..": the codes of each part, in order. The caller frees it. */
char *codes(const struct explanation *x);
char *codes_of(const struct explanation *x, enum explain_part part);

/* Of the first fact with this code; fails the test if there is none. */
const char *text_of(const struct explanation *x, const char *code);
