/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a tree of sysfs under a temporary folder from a description, with relative links as the
 * kernel makes them, so that it resolves inside a sysroot. The language is in
 * tests/fixtures/sysfs/README.md.
 */
#pragma once

/* From a text. Fails the test where the text is wrong. The caller frees the path. */
char *fake_sysfs_make(const char *description);

/* From a file of tests/fixtures/sysfs. */
char *fake_sysfs_load(const char *name);

/* Removes the tree and frees the path; NULL is fine. */
void fake_sysfs_remove(char *root);

static inline void fake_sysfs_removep(char **root)
{
    fake_sysfs_remove(*root);
}
