/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/hook.h"

#include "base/clock.h"
#include "driver/hands.h"

#include <errno.h>
#include <getopt.h>

#define RETRY_MS       100
#define SANDBOX_ID_MAX 255

int hook_options_parse(int argc, char **argv, struct hook_options *ret, struct err *e)
{
    static const struct option options[] = {
        {"state-dir", required_argument, NULL, 's'},
        {"claim", required_argument, NULL, 'c'},
        {"sysroot", required_argument, NULL, 'r'},
        {"version", no_argument, NULL, 'v'},
        {0},
    };
    struct hook_options o = {.sysroot = "/"};

    opterr = 0;
    optind = 0; /* tests come here more than once */
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 's':
            o.state_dir = optarg;
            break;
        case 'c':
            o.claim = optarg;
            break;
        case 'r':
            o.sysroot = optarg;
            break;
        case 'v':
            o.version = true;
            break;
        default:
            return err_set(e, ERR_USER, -EINVAL, "unknown option, or one without its value: %s",
                           argv[optind > 1 ? optind - 1 : 0]);
        }
    }
    if (optind < argc)
        return err_set(e, ERR_USER, -EINVAL, "unexpected argument: %s", argv[optind]);
    if (!o.version && (!o.state_dir || !o.claim))
        return err_set(e, ERR_USER, -EINVAL, "--state-dir and --claim are needed");
    /* It becomes a file's name. */
    if (!o.version && !uid_is_valid(o.claim))
        return err_set(e, ERR_USER, -EINVAL, "--claim: \"%s\" is no uid", o.claim);
    *ret = o;
    return 0;
}

void hook_container_done(struct hook_container *c)
{
    free(c->sandbox_id);
    *c = (struct hook_container){0};
}

/* containerd's name for it, and CRI-O's. */
static const char *sandbox_of(const json_t *annotations)
{
    static const char *const keys[] = {"io.kubernetes.cri.sandbox-id",
                                       "io.kubernetes.cri-o.SandboxID"};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        const char *id = json_c_str(json_object_get(annotations, keys[i]));

        if (id && *id && strlen(id) <= SANDBOX_ID_MAX)
            return id;
    }
    return NULL;
}

int hook_container_parse(const char *state, size_t len, struct hook_container *ret, struct err *e)
{
    json_t *doc = NULL;
    int64_t pid = 0;
    /* as of an API server: anybody may annotate a pod with a NUL */
    int r = json_parse_api(state, len, &doc, e);

    if (r < 0)
        return err_prefix(e, r, "the container's state as the runtime told it");
    json_auto_t *owned = doc;
    r = json_get_int(owned, NULL, "pid", 1, INT32_MAX, &pid, e);
    if (r == 0)
        r = err_set(e, ERR_PERMANENT, -EINVAL, "no pid");
    if (r < 0)
        return err_prefix(e, r, "the container's state as the runtime told it");
    ret->pid = (pid_t)pid;
    ret->sandbox_id = xstrdup(sandbox_of(json_object_get(owned, "annotations")));
    return 0;
}

enum hook_verdict hook_decide(const struct hook_view *v, struct err *why)
{
    if (!streq(v->rec->boot_id, v->boot_id)) {
        err_set(why, ERR_PERMANENT, -ESTALE,
                "it was prepared before the node's last start, and its VFs are as new; delete the "
                "pod so that the claim is prepared anew");
        return HOOK_REFUSE;
    }
    switch (v->rec->state) {
    case RECORD_PREPARED:
        break;
    case RECORD_PREPARING:
        err_set(why, ERR_TRANSIENT, -EBUSY,
                "it isn't prepared yet; the driver goes on with it when it is back");
        return HOOK_REFUSE;
    case RECORD_RELEASING:
        err_set(why, ERR_TRANSIENT, -EBUSY,
                "it is being released; delete the pod so that the claim is prepared anew");
        return HOOK_REFUSE;
    }
    if (!record_wants_attach(v->rec))
        return HOOK_PASS;
    if (v->host_netns) {
        err_set(why, ERR_PERMANENT, -EINVAL,
                "the VF's interface can't be moved into a pod with hostNetwork; use a pool with "
                "attach: None");
        return HOOK_REFUSE;
    }
    return v->all_in && v->whole ? HOOK_PASS : HOOK_ATTACH;
}

/* Whether all are there; an error only where that couldn't be found out. */
static int look(const struct record *rec, int netns, bool *ret_all_in, struct err *e)
{
    *ret_all_in = true;
    vec_foreach (d, &rec->devices) {
        bool in = true;
        int r = 0;

        if (d->grant.attach == ATTACH_NRI)
            r = vf_look_in(netns, d->grant.vf_address, &in, NULL, e);
        if (r < 0)
            return r;
        *ret_all_in &= in;
    }
    return 0;
}

static int get_record(const struct hands *h, const char *uid, struct record **ret, struct err *e)
{
    int r = store_get(&h->store, uid, ret, e);

    if (r == -ENOENT)
        return err_set(e, ERR_PERMANENT, r,
                       "it isn't prepared on this node (no record in %s); delete the pod so that "
                       "the claim is prepared anew",
                       h->store.path);
    if (r == -EBADMSG || r == -EINVAL)
        return err_prefix(e, r, "its record is damaged, so its VFs aren't known; delete the pod");
    return r;
}

/* What the user can do about a VF that can't be attached. */
static int add_advice(struct err *e, int code)
{
    const char *advice = code == -EEXIST ? "choose another interface.name in the claim"
                         : e->kind != ERR_TRANSIENT
                             ? "if this stays, delete the pod so that the claim is prepared anew"
                         : code == -ENODEV
                             ? "another pod may have it, since a VF serves one pod at a time; the "
                               "container is tried again"
                             : "the container is tried again";

    return err_set(e, e->kind, code, "%s; %s", e->msg, advice);
}

/* What stays the same from one try to the next. */
struct attempt {
    const struct hook_options *o;
    const struct hook_container *c;
    struct hands hands;
    char *netns; /* path of the container's */
};

/* *ret_rec is set as soon as it is known, on failure too. */
static int look_and_attach(struct attempt *t, bool locked, struct record **ret_rec,
                           enum hook_verdict *ret, struct err *e)
{
    _cleanup_(attachment_vec_done) attachment_vec done = {0};
    _cleanup_free_ char *noted = NULL;
    _cleanup_close_ int netns = -1;
    struct hook_view v = {.boot_id = t->hands.boot_id};
    int r;

    if ((r = get_record(&t->hands, t->o->claim, ret_rec, e)) < 0 ||
        (r = netns_open(t->netns, &netns, e)) < 0 ||
        (r = netns_is_own(netns, &v.host_netns, e)) < 0 ||
        (!v.host_netns && (r = look(*ret_rec, netns, &v.all_in, e)) < 0))
        return r;
    /* read last: it comes when all is there */
    noted = store_sandbox(&t->hands.store, t->o->claim);
    v.whole = t->c->sandbox_id && streq_null(noted, t->c->sandbox_id);
    v.rec = *ret_rec;
    *ret = hook_decide(&v, e);
    if (*ret == HOOK_REFUSE)
        return e->code;
    if (*ret == HOOK_PASS || !locked)
        return 0;
    r = claim_attach(&t->hands, v.rec, t->c->sandbox_id, t->netns, &done, e);
    return r < 0 ? add_advice(e, r) : 0;
}

static int try_once(struct attempt *t, bool locked, enum hook_verdict *ret, struct err *e)
{
    _cleanup_(record_freep) struct record *rec = NULL;
    int r = look_and_attach(t, locked, &rec, ret, e);

    if (r < 0 && rec)
        return err_prefix(e, r, "claim %s/%s", rec->namespace, rec->name);
    return r < 0 ? err_prefix(e, r, "claim with uid %s", t->o->claim) : 0;
}

/* The driver may be at it, or have done it by the time we hold the lock. */
static int try_locked(struct attempt *t, int64_t wait_ms, enum hook_verdict *ret, struct err *e)
{
    _cleanup_close_ int lock = -1;
    int r = store_lock(&t->hands.store, wait_ms > 0 ? wait_ms : 0, &lock, e);

    if (r < 0)
        return err_prefix(e, r, "claim with uid %s", t->o->claim);
    return try_once(t, true, ret, e);
}

int hook_run(const struct hook_options *o, const struct hook_container *c, bool *ret_moved,
             struct err *e)
{
    _cleanup_free_ char *netns = xasprintf("/proc/%d/ns/net", (int)c->pid);
    struct attempt t = {.o = o, .c = c, .netns = netns};
    int64_t now = clock_now(clock_system()), end = now + HOOK_TRY_MS;
    enum hook_verdict verdict = HOOK_REFUSE;
    int r = hands_open_beside(o->sysroot, o->state_dir, &t.hands, e);

    *ret_moved = false;
    if (r < 0)
        return err_prefix(e, r, "claim with uid %s", o->claim);
    /* Nearly always all is there, and then nobody is waited for. */
    r = try_once(&t, false, &verdict, e);
    while (r == 0 && verdict == HOOK_ATTACH) {
        r = try_locked(&t, end - now, &verdict, e);
        if (r == 0) {
            *ret_moved = verdict == HOOK_ATTACH;
            break;
        }
        /* A VF that an earlier sandbox of the pod had is home within 0.1 s as a rule. */
        now = clock_now(clock_system());
        if (verdict != HOOK_ATTACH || e->kind != ERR_TRANSIENT || now + RETRY_MS > end)
            break;
        err_clear(e);
        clock_pause_ms(RETRY_MS);
        r = 0;
    }
    hands_done(&t.hands);
    return r;
}
