/* SPDX-License-Identifier: Apache-2.0 */
/* The hook put where the runtime of the host finds it. */
#pragma once

#include "base/err.h"

/*
 * Copies the program `source` to HOOK_NAME in `dir`, which is made if need be, atomically and
 * durably, mode 0755; only reads if the same is there. One that runs is no problem: it keeps its
 * own file. Sets *ret to the path, which the caller frees. Errors: the source can't be read; `dir`
 * is on a file system from which nothing may be executed (-EACCES). Blocks.
 */
int hook_install(const char *source, const char *dir, char **ret, struct err *e);

/* The same at the driver's start: the path, or NULL, and then it has been logged why. */
char *hook_provide(const char *source, const char *dir);
