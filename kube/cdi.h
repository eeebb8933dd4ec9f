/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CDI files: one per claim in the CDI directory, one device per allocated VF. Written atomically
 * and not synced: the directory is on tmpfs, and a lost file is written again from the claim's
 * record. Pure JSON building is apart from the I/O so that it can be compared with golden files.
 */
#pragma once

#include "base/json.h"
#include "base/str.h"

struct cdi_env {
    char *name, *value;
};

struct cdi_node {
    char *path; /* in host and container */
};

struct cdi_device {
    char *name; /* "<claim uid>-<device>": never reused for other content */
    VEC(struct cdi_env) env;
    VEC(struct cdi_node) nodes;
};

/*
 * A createRuntime hook: the runtime runs it in its own namespaces, as this path is on the host,
 * before each container that has any device of the file; once, however many it has.
 */
struct cdi_hook {
    const char *path;
    const char *const *args; /* args[0] is the program's name; ends with NULL */
    unsigned timeout_s;      /* 0: none */
};

/*
 * The document, version the lowest that covers it (0.5.0). `kind` is "<driver>/vf"; `hook` may be
 * NULL.
 */
json_t *cdi_document(const char *kind, const struct cdi_hook *hook,
                     const struct cdi_device *devices, size_t n);

/* "<kind>=<name>"; the caller frees it. */
char *cdi_id(const char *kind, const char *name);

/* Writes or removes "<vendor>-<class>_<claim uid>.json" in the directory. Blocks. */
int cdi_write(int dirfd, const char *kind, const char *claim_uid, const json_t *doc, struct err *e);
int cdi_remove(int dirfd, const char *kind, const char *claim_uid, struct err *e);

void cdi_device_done(struct cdi_device *d);
