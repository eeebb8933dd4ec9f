/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel behind sriov_numvfs of a fake sysfs: what is written there makes and removes VFs, or
 * is refused, as the test's script says. The program that uses it is linked with --wrap=write.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct numvfs_write {
    const char *text; /* what must be written */
    int error;        /* errno of the refusal; 0: taken */
    unsigned fewer;   /* so many less than asked are made */
    unsigned late_ms; /* they are there only so long after the write came back */
    bool no_driver, no_netdev;
};

/*
 * From now on, for the tree at `root`. VFs are those of an 82576 at the PF's bus: BUS:10.0, .2,
 * ..., and their interfaces PFv0, PFv1, ...
 */
void fake_numvfs_start(const char *root, const struct numvfs_write *script, size_t n);

/* How many writes came. Fails the test if one was wrong, or came when none was expected. */
size_t fake_numvfs_end(void);
