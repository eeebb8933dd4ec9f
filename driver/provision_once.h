/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of the verb `provision`: once, without an API server, what the driver does at its start.
 *
 * It holds the driver's lock while it writes, so that none starts and hands out a VF meanwhile;
 * next to a driver that runs it only looks.
 */
#pragma once

#include "base/json.h"

struct provision_options {
    const char *config, *driver, *kubelet_root, *state_dir, *sysroot;
    char *node;
    json_t *labels; /* of the node; NULL: not known */
    bool dry_run, json;
};

/* Decides, prints and carries out; what failed goes to stderr. The exit status. Blocks. */
int provision_once(const struct provision_options *o);
