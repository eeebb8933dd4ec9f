/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model test: the whole driver (node_run()) against a fake kernel, API server, kubelet and
 * runtime, through random but replayable sequences of steps; an independent model (oracle.c) says
 * after each what must be so.
 *
 * Nothing of the driver is replaced but what it reaches the world with: sockets and namespaces
 * (fakekernel), threads and time (process.c), the API client and the watches (cluster.c), the
 * kubelet's and the runtime's calls (kubelet.c, runtime.c), and what becomes of a publication
 * (scheduler.c). Time is the model's and stands still unless a step lets it pass.
 */
#pragma once

#include "base/json.h"
#include "driver/node.h"
#include "tests/unit/fakekernel/fakekernel.h"

#include <dirent.h>

#define NODE_NAME   "node1"
#define DRIVER_NAME "sriov-dra.dev"

#define PODS      12
#define CLAIMS    16
#define SANDBOXES 20
#define GROUPS    3 /* of VFs, each a pool */
#define DEVICES   2 /* of a claim */

/* ---- random numbers: a stream of its own for each step, so that one left out changes no other */

struct rng {
    uint64_t s;
};

struct rng rng_of(uint64_t seed, uint64_t stream);
unsigned below(struct rng *r, unsigned n);
bool chance(struct rng *r, unsigned percent);

/* ---- objects of the cluster, and what kubelet and runtime know of them */

/* A claim's copy of skipNodeOperations for a device. */
enum frozen { FROZEN_NOTHING, FROZEN_UNPREPARE, FROZEN_ALL };

struct vf_id {
    unsigned pf, vf;
};

/* What a class and a claim ask for. */
struct wish {
    struct vf_settings class, claim;
    char name[IFNAMSIZ];
    uint32_t mtu;
    unsigned addr; /* 192.0.2.`addr`/24; 0: none */
    bool route;    /* needs addr */
};

struct m_device {
    struct vf_id vf;
    enum frozen frozen;
    enum mode mode; /* that its class selects */
    struct wish wish;
};

struct m_claim {
    bool used;
    char name[16], uid[24];
    bool allocated, deleted; /* in the API; deleted: no object any more */
    struct m_device dev[DEVICES];
    unsigned n_devs;
    unsigned reserved; /* pods, by slot, as bits */
    json_t *told;      /* status.devices */

    /* the kubelet's */
    bool cached;   /* it called Prepare, or would have */
    bool prepared; /* and got an answer */

    /* the oracle's */
    bool on_disk;
    struct m_device held[DEVICES]; /* with its record; it may be allocated anew by now */
    unsigned n_held;
    unsigned held_for; /* pods, by what its record says */
    bool was_prepared; /* its record said so */
    bool may_end;      /* the driver was told so: Unprepare, or no pod left that it knew of */
    uint64_t promised; /* tick of the last good answer, to Prepare or for a sandbox; 0: none yet */
};

enum stage {
    POD_NEW,
    POD_PREPARING,
    POD_PREPARED,
    POD_STARTING, /* RunPodSandbox is under way */
    POD_SANDBOX,
    POD_CREATING, /* CreateContainer is */
    POD_RUNNING,
    POD_STOPPING, /* StopPodSandbox is */
    POD_STOPPED,
    POD_UNPREPARING,
    POD_ENDED,
};

struct m_pod {
    bool used;
    char name[16], uid[24];
    unsigned claims[2], n_claims;
    bool host_network;
    enum stage stage;
    bool terminating;
    bool finished; /* Succeeded, as the API has it */
    bool deleted;  /* no object any more */
    bool known;    /* the driver's watch told it so, and not yet of its end */
    int sandbox;   /* -1: none */
};

struct m_sandbox {
    bool used;
    char id[24];
    unsigned pod;
    int netns; /* of the fake kernel; -1: the host's */
    bool alive;
    bool running;   /* a container is */
    bool touched;   /* its pod did something to its VFs */
    bool forgotten; /* by a runtime that was restarted: no more events */
    bool removed;
};

/* A pool of VFs: a range of one PF. */
struct m_group {
    unsigned pf, first, last;
    enum mode mode;
    enum attach attach;
    bool by_driver;
    struct vf_settings settings;
};

/* What the scheduler knows of a device. */
struct m_offer {
    bool there, tainted, verified, skip_honoured;
    enum mode mode;
    enum frozen list;
};

/* What the driver did, for the node that is quiet. */
struct deeds {
    unsigned requests;     /* to the API server, watches aside */
    unsigned publications; /* of anything else than before */
    unsigned writes;       /* to the kernel or the disk */
    unsigned reads;
    unsigned complaints; /* warnings and errors: something isn't well */
};

struct model {
    struct fk *k;
    char *dir; /* state, CDI files, pools */
    uint64_t seed;
    unsigned step; /* the one under way */
    struct rng rng;
    bool verbose;

    /* process.c */
    int64_t now;
    struct node_config config;
    bool wanted;      /* somebody restarts the driver */
    bool up;          /* its loop runs */
    bool reboot;      /* the node is to be rebooted */
    bool over;        /* the sequence is */
    bool dead;        /* killed: nothing that it does has an effect any more */
    unsigned kill_in; /* effects until it is killed; 0: it isn't */
    unsigned kill_how;
    unsigned fault_in; /* effects until one fails; 0: none does */
    int fault_error;
    bool fault_applies;
    uint64_t faulted;   /* tick of the last one */
    bool stuck;         /* the kernel holds its lock: no job of a worker begins */
    unsigned interfere; /* percent of the driver's reads before which a neighbour acts */
    char boot_id[40];
    struct node *node;

    /* the cluster */
    enum { API_UP, API_REFUSES, API_HANGS } api;
    int64_t api_up_since;
    bool gate_api, gate_taints, gate_scheduler, gate_kubelet, declared;
    bool runtime_up;
    struct m_claim claims[CLAIMS];
    struct m_pod pods[PODS];
    struct m_sandbox sandboxes[SANDBOXES];
    struct m_group groups[GROUPS], running_groups[GROUPS];
    struct m_offer offers[FK_PFS][FK_VFS]; /* as the API has them */
    unsigned numbers;
    struct deeds did;
};

extern struct model m;

/* ---- process.c */

void process_init(void);
void process_done(void);
bool process_ended(void); /* it has ended by itself, as on SIGTERM */
/* Runs the driver until it ends; `steps` is what its loop does. Its result. */
int process_run(void (*steps)(void));
/* All that can be done without time passing. */
void process_settle(void);
/* As far as `n` jobs, answers or callbacks. */
void process_nudge(unsigned n);
/* Lets time pass, and whatever it brings. */
void process_wait(int64_t ms);
void process_terminate(void); /* SIGTERM, until it has ended */
void process_kill(void);      /* at once */
/*
 * Whether something that the driver does to the world outside happens, and what it is told of it:
 * killed, or a fault. `torn`: a file that was half written.
 */
unsigned process_effect(bool writes, int *ret_error, bool *ret_torn);

/* ---- threads.c: jobs of the driver's workers; false: there is none */

bool threads_run_any(void);
bool threads_run_some(void); /* of a worker that chance picks */
bool threads_deliver_any(void);
bool threads_deliver_some(void);
bool threads_looking(void); /* observe's look runs right now */
void threads_look_failed(void);
uint64_t threads_job_began(void); /* the last one for a claim */
void threads_reset(void);

/* ---- objects.c: new references */

json_t *pod_json(const struct m_pod *p);
json_t *claim_json(const struct m_claim *c);
json_t *node_json(void);

/* ---- cluster.c: the API server */

void cluster_pod_changed(unsigned pod); /* for the driver's watch */
void cluster_pod_deleted(unsigned pod);
void cluster_node_changed(void);
void cluster_set_api(int api);
bool cluster_deliver(void); /* one event or answer; false: there is none */
int64_t cluster_next(void); /* when one is due; INT64_MAX: none */
void cluster_reset(void);

/* ---- kubelet.c */

bool kubelet_deliver(void);
void kubelet_check_times(void); /* that it waits for no answer too long */
void kubelet_prepare(unsigned pod);
void kubelet_unprepare(unsigned pod); /* what the pod is the last of */
void kubelet_give_up_calls(unsigned pod);
bool kubelet_waits_for(unsigned pod);
void kubelet_restart(void);
void kubelet_driver_gone(void);
void kubelet_reset(void);
bool claim_needs_unprepare(const struct m_claim *c);
bool claim_has_call(unsigned claim); /* that isn't answered */

/* ---- runtime.c */

bool runtime_deliver(void);
int64_t runtime_next(void); /* when it waits for an answer no longer */
void runtime_start_sandbox(unsigned pod);
void runtime_create_container(unsigned pod);
void runtime_stop_sandbox(unsigned pod);
void runtime_remove_sandboxes(unsigned pod); /* those that have stopped */
bool runtime_is_at(unsigned sandbox);        /* an event of it isn't answered */
void runtime_end_netns(unsigned sandbox);    /* the kernel has cleaned up */
void runtime_restart(void);
void runtime_driver_gone(void);
void runtime_reset(void);

/* ---- pods.c */

void pod_advance(unsigned pod); /* the next thing that is to be done for it */
void pod_loses_sandbox(unsigned pod);

/* ---- scheduler.c */

bool scheduler_new_pod(void);
void scheduler_review(void); /* claims without pods are deallocated, and perhaps deleted */
void scheduler_reset(void);
void scheduler_deliver(void); /* the last publication reaches the API */
void write_pools(void);
struct m_group *group_of(struct m_group *groups, struct vf_id vf);

/* ---- neighbours.c */

void provision(void); /* as the pools of mode Skip say */
void neighbour_acts(struct rng *r);
bool pod_acts(struct rng *r);
void kernel_cleans_up(struct rng *r, bool all);

/* ---- oracle.c */

uint64_t tick(void); /* of the model: goes up with each change of anything */
void oracle_reset(void);
void oracle_sample(void); /* before and after each change of the kernel's state */
void oracle_touched(struct vf_id vf, bool own_side); /* by a neighbour */
void oracle_pf_changed(unsigned pf);                 /* up or down */
void oracle_rebooted(void); /* hardware came up anew, and no record means anything */
void oracle_record(const char *uid, const char *text); /* saved; NULL: removed */
void oracle_request(const struct fk_request *q);
void oracle_prepared(unsigned claim, uint64_t began, int64_t began_ms);
void oracle_unprepared(unsigned claim);
void oracle_sandbox_ok(unsigned sandbox, bool is_run, uint64_t began, int64_t began_ms);
void oracle_sandbox_refused(unsigned sandbox, uint64_t began);
/* A look that began then is told, for what didn't change hands since; a claim took or left a VF. */
void oracle_looked(uint64_t began);
void oracle_look_failed(void);
void oracle_changed_hands(const char *device);
void oracle_published(const struct m_offer offers[FK_PFS][FK_VFS]);
void oracle_step(void); /* after each step */
void oracle_end(void);  /* when all is quiet and well */
void broken(const char *fmt, ...) _printf_(1, 2) __attribute__((noreturn));
void say(const char *fmt, ...) _printf_(1, 2);
unsigned vf_count(unsigned pf);

/* ---- setup.c */

void setup_sequence(uint64_t seed);
void setup_group(struct m_group *g); /* another mode, other settings */
void setup_after_reboot(void);
void end_sequence(void); /* all faults end, and what is under way does */
void count_quiet(void);  /* test_model.c: one more that ended without a complaint */

/* ---- steps.c */

void steps_do(unsigned index);
