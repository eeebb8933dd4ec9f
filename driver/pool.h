/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VirtualFunctionPool documents: which VFs are offered, and how. Strict: an unknown field, a wrong
 * kind or an impossible value is an error with the field's path. Pure but for pools_load().
 */
#pragma once

#include "base/json.h"
#include "sriov/inventory.h"
#include "sriov/settings.h"

#define API_GROUP_VERSION "sriov-dra.dev/v1alpha1"

/* Who sets a VF up, who cleans it, and which calls the kubelet is told to leave out. */
enum mode {
    MODE_PREPARE,
    MODE_DEFER_CLEANUP, /* set up in Prepare; cleaned when we see the release: no Unprepare */
    MODE_SKIP,          /* set up before it is offered: no call at all */
};
#define MODES 3
const char *mode_text(enum mode m); /* "Prepare", "DeferCleanup", "Skip" */
int mode_parse(const char *text, enum mode *ret);

/* Whether a claim gets settings of its own, in Prepare. Else it takes the VF as the pool has it. */
bool mode_sets_up(enum mode m);

enum attach {
    ATTACH_NRI,  /* we move the netdev into the pod */
    ATTACH_NONE, /* we move nothing */
};
const char *attach_text(enum attach a); /* "NRI", "None" */

enum provisioner {
    PROVISIONED_EXTERNALLY, /* somebody else's work: verified only, never written */
    PROVISIONED_BY_DRIVER,
};
const char *provisioner_text(enum provisioner p); /* "External", "Driver" */

/* What a taint on a VF that drifted while a claim has it does to the claim's pods. */
enum taint_effect {
    TAINT_NO_SCHEDULE, /* nothing: only new claims don't get it */
    TAINT_NO_EXECUTE,  /* ends them */
};
const char *taint_effect_text(enum taint_effect e);

struct index_range {
    unsigned first, last;
};

struct pool_label {
    char *key, *value;
};

/* Selects VFs: by their PF (interface or address) and index, or one by its own address. */
struct pool_function {
    char *pf_interface;                /* NULL: not by interface */
    char pf_address[PCI_ADDRESS_SIZE]; /* "": not by address */
    char vf_address[PCI_ADDRESS_SIZE]; /* "": not one VF */
    char *node;                        /* with vf_address: this node only; NULL: any */
    bool all_indexes;
    VEC(struct index_range) indexes; /* "0-3,7" */
};

struct pool_attribute {
    char *name;    /* in the driver's domain, or "domain/name" */
    json_t *value; /* string, boolean or integer */
};

struct pool {
    char *name;
    VEC(struct pool_label) node_labels; /* nodeSelector.matchLabels */
    VEC(struct pool_function) functions;
    enum mode mode;
    enum provisioner by;
    unsigned count;              /* sriov_numvfs of each PF of its functions; 0: none is made */
    struct vf_settings settings; /* Skip: what holds; Prepare: defaults under class and claim */
    enum attach attach;
    enum taint_effect taint_effect;
    VEC(struct pool_attribute) attributes; /* at most 8 */
};

void pool_done(struct pool *p);

/* Parses one document. ERR_USER with the path otherwise. */
int pool_parse(const json_t *doc, struct pool *ret, struct err *e);

/* A pool document that isn't offered, and why. */
struct pool_problem {
    char *name; /* "" if even that can't be told */
    char *text;
};

struct pools {
    VEC(struct pool) pools;
    VEC(struct pool_problem) problems;
};

/*
 * Reads a file of YAML or JSON documents. A bad document becomes a problem and the others go on;
 * two pools of one name: the second is a problem. Fails only if the file can't be read or isn't
 * YAML at all. Blocks.
 */
int pools_load(const char *path, struct pools *ret, struct err *e);
void pools_done(struct pools *p);

/* Whether the pool is meant for a node with these labels (an object of strings, NULL: none). */
bool pool_matches_node(const struct pool *p, const json_t *labels);

/* Whether one of the pool's functions names this PF as parent. */
bool pool_names_pf(const struct pool *p, const struct pf *pf);

/* Whether the pool's functions select this VF on the node of that name. */
bool pool_selects(const struct pool *p, const char *node, const struct pf *pf, const struct vf *vf);

/* The first pool (in order of the file) that selects the VF, or NULL. */
const struct pool *pools_find(const struct pools *ps, const char *node, const json_t *labels,
                              const struct pf *pf, const struct vf *vf);
