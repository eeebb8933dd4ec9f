/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NRI plugin: connects to the runtime's socket, registers, and hands the sandbox and container
 * events of nri.pkg.api.v1alpha1 to the main loop as plain structs. Reconnects by itself (0.5 to
 * 10 s) after the runtime went, closed us, or was never there.
 *
 * A request has 2 s by default, and the runtime holds one lock over all of them: a handler answers
 * at once or after short work, never waits. A late plugin is closed by the runtime and its call
 * counts as success (fail-open), which is why callers check again at CreateContainer.
 *
 * Events are no record of what exists. After a refused RUN containerd sends STOP and REMOVE for the
 * same sandbox. For a sandbox from before its own last start it sends neither (internal/nri/nri.go
 * of 2.4.2 keeps what needs stopping in memory, and Synchronize restores it for containers only):
 * the end of those is learnt from the pod, or from the next Synchronize.
 *
 * Source: github.com/containerd/nri pkg/api/api.proto, pkg/net/multiplex, and ttrpc's PROTOCOL.md.
 */
#pragma once

#include "base/loop.h"
#include "base/str.h"

struct nri;
struct nri_call;

struct nri_pod {
    char *id; /* sandbox */
    char *name, *uid, *namespace;
    char *netns; /* path; NULL: the host's own, or, once stopping, torn down already */
    uint32_t pid;
};

struct nri_container {
    char *id, *sandbox_id, *name;
    int state; /* 1 created, 2 paused, 3 running, 4 stopped, 0 unknown */
};

typedef VEC(struct nri_pod) nri_pod_vec;
typedef VEC(struct nri_container) nri_container_vec;

struct nri_env {
    char *name, *value;
};

/* What CreateContainer may change; zero-initialised: nothing. */
struct nri_adjust {
    VEC(struct nri_env) env;
};

enum nri_event {
    NRI_RUN_SANDBOX,
    NRI_STOP_SANDBOX,
    NRI_REMOVE_SANDBOX,
    NRI_CREATE_CONTAINER,
};

/*
 * All are needed, and are called from the loop only. Each may call nri_free(); then it touches
 * nothing of what it was given any more.
 */
struct nri_handlers {
    /*
     * Configured by the runtime, which it does after it has accepted the registration (true, with
     * its name and version), or lost or not reached (false, with the reason). Once per change, not
     * once per attempt.
     */
    void (*state)(bool connected, const char *text, void *data);
    /*
     * What there is, once after each connection, before its first event. Borrowed for the call. A
     * sandbox that has stopped and isn't removed yet is listed too (containerd), without netns.
     */
    void (*synchronize)(const nri_pod_vec *pods, const nri_container_vec *containers, void *data);
    /*
     * An event that the runtime waits for. `container` is NULL but for CREATE_CONTAINER. Both are
     * valid until the call is answered, exactly once, with nri_reply().
     */
    void (*event)(struct nri_call *call, enum nri_event ev, const struct nri_pod *pod,
                  const struct nri_container *container, void *data);
    void *data;
};

struct nri_config {
    const char *socket; /* "/var/run/nri/nri.sock" */
    const char *name;   /* "sriov-dra": also what required-plugins names */
    const char *index;  /* "10": two digits, the order among plugins */
};

/*
 * Starts connecting, from the loop: no handler is called in here. The strings of `c` and the table
 * `h` are copied. -EINVAL or -ENAMETOOLONG (ERR_USER) for a configuration that can't work.
 */
int nri_new(struct loop *l, const struct nri_config *c, const struct nri_handlers *h,
            struct nri **ret, struct err *e) _must_check_;

/*
 * Answers, without blocking: `error` NULL is success; else the runtime fails the sandbox or
 * container with it. (It only logs the error of STOP and REMOVE.) `adjust` only for
 * CREATE_CONTAINER, may be NULL. If the connection is gone meanwhile the answer is dropped. The
 * call is freed.
 */
void nri_reply(struct nri_call *call, const char *error, const struct nri_adjust *adjust);

/* Milliseconds that the runtime gives a request (2000 until it has told, and without one). */
int nri_request_timeout_ms(const struct nri *n);

bool nri_connected(const struct nri *n);

/* Closes, also in a handler. Calls that weren't answered are freed: they must not be any more. */
void nri_free(struct nri *n);
DEFINE_CLEANUP(struct nri, nri_free)
