/* SPDX-License-Identifier: Apache-2.0 */
/* `sriov-dra inventory`: shows the SR-IOV hardware of this node. It reads sysfs and nothing else.
 */
#pragma once

#include "sriov/inventory.h"

#include <jansson.h>
#include <stdio.h>

/* argv[0] is the verb. Returns the exit code: 0 shown, 1 no SR-IOV hardware, 2 usage, 3 failed. */
int cmd_inventory(int argc, char **argv);

/* The snapshot as a table for people; `colour`: with the terminal's escape sequences. */
void inventory_print(FILE *f, const struct inventory *inv, bool colour);

/*
 * The snapshot for programs. Keys are stable: members are added, never renamed or dropped, and
 * what isn't known is null. The caller owns the object.
 */
json_t *inventory_json(const struct inventory *inv);
