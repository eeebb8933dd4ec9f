/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The createRuntime hook, a program of its own (hook_main.c): whether a container of a pod with a
 * claim of ours may start. NRI is fail-open; the hook sees that the VFs are there, attaches them
 * where no driver did, or refuses. It knows the claim by its record, and nobody but the kernel
 * needs to be up.
 */
#pragma once

#include "driver/record.h"

#include <sys/types.h>

#define HOOK_NAME "sriov-dra-hook"

/*
 * How long it tries, its own end whatever it waits for, and the runtime's time-out behind both: in
 * this order, so that the pod's event has our words and not the runtime's.
 */
#define HOOK_TRY_MS    6000
#define HOOK_LIMIT_S   12
#define HOOK_TIMEOUT_S 15

struct hook_options {
    const char *state_dir, *claim; /* of the driver's records; the claim's uid */
    const char *sysroot;           /* where /sys is found */
    bool version;
};

/* Borrows argv. ERR_USER: usage. */
int hook_options_parse(int argc, char **argv, struct hook_options *ret, struct err *e);

/* What the runtime says of the container. */
struct hook_container {
    pid_t pid;        /* of its first process, which is in the pod's network namespace by now */
    char *sandbox_id; /* NULL: a runtime that doesn't tell */
};

/* Reads the OCI state, as the runtime writes it to the hook's standard input. */
int hook_container_parse(const char *state, size_t len, struct hook_container *ret, struct err *e);
void hook_container_done(struct hook_container *c);

enum hook_verdict { HOOK_PASS, HOOK_ATTACH, HOOK_REFUSE };

/* What was found out before the decision. */
struct hook_view {
    const struct record *rec;
    const char *boot_id; /* of this boot */
    bool host_netns;     /* the container is in the host's own network namespace */
    bool all_in;         /* every VF that we attach is in the container's */
    bool whole;          /* it is noted that the attachment was completed in this sandbox */
};

/* Pure. `why` is filled for HOOK_REFUSE. */
enum hook_verdict hook_decide(const struct hook_view *v, struct err *why);

/*
 * All of it: 0 if every VF of the claim is in the container's network namespace and set up, else
 * why not and what to do. *ret_moved if it had to do something. Blocks, some HOOK_TRY_MS at most
 * unless the kernel does.
 */
int hook_run(const struct hook_options *o, const struct hook_container *c, bool *ret_moved,
             struct err *e);
