/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/hands.h"

#include "base/file.h"
#include "base/log.h"
#include "driver/hook.h"
#include "driver/in_pod.h"
#include "driver/provision_text.h"
#include "kube/cdi.h"

#include <errno.h>

char *claim_cdi_id(const char *cdi_kind, const struct record *rec, const struct record_device *d)
{
    _cleanup_free_ char *name = xasprintf("%s-%s", rec->uid, d->grant.device);

    return cdi_id(cdi_kind, name);
}

static void add_env(const char *name, const char *value, void *data)
{
    struct cdi_device *c = data;

    *VEC_PUSH(&c->env) = (struct cdi_env){xstrdup(name), xstrdup(value)};
}

static int write_cdi(struct hands *h, const struct record *rec, struct err *e)
{
    const char *const args[] = {HOOK_NAME, "--state-dir", h->store.path, "--claim", rec->uid, NULL};
    const struct cdi_hook hook = {.path = h->hook, .args = args, .timeout_s = HOOK_TIMEOUT_S};
    VEC(struct cdi_device) devices = {0};

    vec_foreach (d, &rec->devices) {
        struct cdi_device *c = VEC_PUSH(&devices);

        c->name = xasprintf("%s-%s", rec->uid, d->grant.device);
        in_pod_env(d, add_env, c);
    }
    json_auto_t *doc = cdi_document(h->cdi_kind, h->hook && record_wants_attach(rec) ? &hook : NULL,
                                    devices.v, devices.n);
    int r = cdi_write(h->cdi_dirfd, h->cdi_kind, rec->uid, doc, e);

    vec_foreach (c, &devices)
        cdi_device_done(c);
    free(devices.v);
    return r < 0 ? err_prefix(e, r, "CDI file of claim %s/%s", rec->namespace, rec->name) : 0;
}

static int read_state(struct hands *h, const struct grant *g, struct vf_state *ret, struct err *e)
{
    return vf_state_read(&h->hw, g->pf_address, g->vf_address, g->index, ret, e);
}

static int not_home(const struct grant *g, const struct vf_state *s, struct err *e)
{
    return err_set(e, ERR_TRANSIENT, -EAGAIN,
                   "VF %s (VF %u of PF %s) isn't home: its network interface is in another network "
                   "namespace, or has no driver",
                   g->vf_address, g->index, s->pf_name);
}

/*
 * The hardware is gone, and with it what we did to it. A PF whose interface isn't found right now
 * (renamed, in another namespace) also reads as ENODEV, and its VF still has the claim's settings.
 */
static bool is_unplugged(struct hands *h, const struct grant *g)
{
    return !sysroot_exists(&h->root, "sys/bus/pci/devices/%s", g->vf_address);
}

/* -EAGAIN if a VF that still exists isn't home. */
static int check_home(struct hands *h, const struct record *rec, struct err *e)
{
    vec_foreach (d, &rec->devices) {
        _cleanup_(vf_state_done) struct vf_state s = {0};
        int r = read_state(h, &d->grant, &s, e);

        if (r == -ENODEV && is_unplugged(h, &d->grant)) {
            err_clear(e);
            continue;
        }
        if (r < 0)
            return r;
        if (!s.home)
            return not_home(&d->grant, &s, e);
    }
    return 0;
}

/*
 * What the pool promises holds, or is made to hold where the driver provisions: the VF is the
 * claim's, and nobody uses it yet. `s` is how it is then.
 */
static int verify_or_set_right(struct hands *h, const struct grant *g, struct vf_state *s,
                               struct err *e)
{
    vf_difference_vec changed = {0};

    if (!g->may_raise_pf || vf_verify_promise(s, g, NULL) == 0)
        return vf_verify_promise(s, g, e);

    int r = vf_provision(&h->hw, g->pf_address, g->vf_address, g->index, &g->settings, &changed, e);
    if (r > 0) {
        _cleanup_free_ char *text = provision_changes_text(&changed);

        log_info("VF had drifted: it is as its pool says again", "vf", g->vf_address, "pool",
                 g->pool_document, "changed", text);
    }
    free(changed.v);
    vf_state_done(s);
    if (r >= 0)
        r = read_state(h, g, s, e);
    return r < 0 ? r : vf_verify_promise(s, g, e);
}

int hands_open(const struct hands_config *c, struct hands *ret, struct err *e)
{
    struct hands h = HANDS_INIT;
    int r;

    if ((r = boot_id_read(h.boot_id, e)) < 0 || (r = sysroot_open(c->sysroot, &h.root, e)) < 0 ||
        (r = nl_open(NETLINK_ROUTE, &h.nl, e)) < 0 ||
        (r = store_open(c->state_dir, &h.store, e)) < 0 ||
        (r = dir_make(c->cdi_dir, 0755, &h.cdi_dirfd, e)) < 0 ||
        (r = file_sweep(h.cdi_dirfd, e)) < 0) {
        hands_done(&h);
        return r;
    }
    h.cdi_kind = xasprintf("%s/vf", c->driver);
    h.hook = xstrdup(c->hook);
    h.set_right = verify_or_set_right;
    *ret = h;
    ret->hw = (struct hw){.root = &ret->root, .nl = ret->nl};
    return 0;
}

/* Reads originals of all devices into the record, and what the contract says of them. */
static int survey(struct hands *h, struct record *rec, bool *ret_away, struct err *e)
{
    vec_foreach (d, &rec->devices) {
        _cleanup_(vf_state_done) struct vf_state s = {0};
        _cleanup_(vf_plan_done) struct vf_plan plan = {0};
        int r = read_state(h, &d->grant, &s, e);

        if (r < 0)
            return r;
        if (!s.home) {
            *ret_away = true;
            return not_home(&d->grant, &s, e);
        }
        /* The kernel allows any bytes in a name; the journal is JSON. */
        json_auto_t *text = json_string(s.name);
        if (!text)
            return err_set(e, ERR_PERMANENT, -EILSEQ,
                           "VF %s: the name of its interface isn't UTF-8; rename it",
                           d->grant.vf_address);
        /* Both refuse what can't be before anything of any device is written. */
        if (mode_sets_up(d->grant.mode))
            r = vf_plan_apply(&s, &d->grant.settings, d->grant.may_raise_pf, &plan, e);
        else
            r = verify_or_set_right(h, &d->grant, &s, e);
        if (r < 0)
            return r;
        vf_original_from(&s, d->grant.pf_address, &d->original);
        d->original.own_only = !mode_sets_up(d->grant.mode);
        d->has_original = true;
    }
    return 0;
}

static int restore_first(struct hands *h, struct record *rec, size_t n, struct err *e)
{
    int worst = 0;

    for (size_t i = n; i-- > 0;) {
        struct record_device *d = &rec->devices.v[i];

        if (!d->has_original)
            continue;
        int r = vf_restore(&h->hw, &d->original, NULL, e);
        if (r < 0)
            worst = r;
    }
    return worst;
}

/* Puts back what was done of a Prepare that failed, and forgets the claim. */
static int roll_back(struct hands *h, struct record *rec, size_t n_applied, struct err *e)
{
    _cleanup_err_ struct err undo = ERR_INIT;
    int code = e ? e->code : -EIO;

    if (cdi_remove(h->cdi_dirfd, h->cdi_kind, rec->uid, &undo) < 0 ||
        restore_first(h, rec, n_applied, &undo) < 0) {
        rec->state = RECORD_RELEASING; /* the journal stays: release goes on with it later */
        if (e)
            (void)err_set(e, e->kind, code, "%s; and putting back what was done failed: %s", e->msg,
                          err_text(&undo));
        return code;
    }
    if (store_remove(&h->store, rec->uid, &undo) < 0) {
        rec->state = RECORD_RELEASING;
        if (e)
            (void)err_set(e, e->kind, code, "%s; and %s", e->msg, err_text(&undo));
    }
    return code;
}

int claim_acquire(struct hands *h, struct record *rec, bool *ret_away, struct err *e)
{
    _cleanup_err_ struct err own = ERR_INIT;
    int r;

    if (!e)
        e = &own;
    *ret_away = false;
    if (rec->state == RECORD_PREPARED) {
        /* asked again; `by_kubelet` may be news */
        r = store_save(&h->store, rec, e);
        return r < 0 ? r : write_cdi(h, rec, e);
    }

    r = survey(h, rec, ret_away, e);
    if (r < 0)
        return r;
    r = store_save(&h->store, rec, e);
    if (r < 0)
        return roll_back(h, rec, 0,
                         e); /* it may stand there although the directory's sync failed */
    for (size_t i = 0; i < rec->devices.n; i++) {
        struct record_device *d = &rec->devices.v[i];

        if (!mode_sets_up(d->grant.mode))
            continue;
        _cleanup_(vf_state_done) struct vf_state after = {0};
        r = vf_apply(&h->hw, &d->original, &d->grant.settings, d->grant.may_raise_pf, &after, e);
        if (r < 0)
            return roll_back(h, rec, i + 1, e);
        if (!after.had_mark || d->original.admin_marked)
            continue;
        /* Found on the way, and rarely: a crash from now on must not lose it. */
        d->original.admin_marked = true;
        if ((r = store_save(&h->store, rec, e)) < 0)
            return roll_back(h, rec, i + 1, e);
    }
    if (rec->by_kubelet) {
        r = write_cdi(h, rec, e);
        if (r < 0)
            return roll_back(h, rec, rec->devices.n, e);
    }
    rec->state = RECORD_PREPARED;
    r = store_save(&h->store, rec, e);
    if (r < 0) {
        /* It may stand there as prepared, and must not when the hardware isn't any more. */
        rec->state = RECORD_PREPARING;
        if (store_save(&h->store, rec, NULL) == 0)
            return roll_back(h, rec, rec->devices.n, e);
        rec->state = RECORD_RELEASING;
    }
    return r;
}

int claim_release(struct hands *h, struct record *rec, bool *ret_away, struct err *e)
{
    int r = check_home(h, rec, e);

    *ret_away = r == -EAGAIN;
    if (r < 0)
        return r;
    rec->state = RECORD_RELEASING;
    r = store_save(&h->store, rec, e);
    if (r < 0)
        return r;
    vec_foreach (d, &rec->devices) {
        if (!d->has_original)
            continue;
        r = vf_restore(&h->hw, &d->original, NULL, e);
        if (r == -ENODEV && is_unplugged(h, &d->grant))
            err_clear(e);
        else if (r < 0)
            return err_prefix(e, r, "putting VF %s back", d->grant.vf_address);
    }
    r = cdi_remove(h->cdi_dirfd, h->cdi_kind, rec->uid, e);
    if (r < 0)
        return r;
    return store_remove(&h->store, rec->uid, e);
}

int claim_recover(struct hands *h, struct record *rec, bool *ret_gone, bool *ret_away,
                  struct err *e)
{
    int r = 0;

    *ret_gone = *ret_away = false;
    if (!streq(rec->boot_id, h->boot_id)) {
        /* the hardware came up fresh; what is on disk describes another boot */
        *ret_gone = true;
        r = cdi_remove(h->cdi_dirfd, h->cdi_kind, rec->uid, e);
        return r < 0 ? r : store_remove(&h->store, rec->uid, e);
    }
    switch (rec->state) {
    case RECORD_PREPARED:
        return rec->by_kubelet ? write_cdi(h, rec, e) : 0;
    case RECORD_PREPARING:
    case RECORD_RELEASING:
        r = claim_release(h, rec, ret_away, e);
        *ret_gone = r == 0;
        return r;
    }
    return r;
}
