/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/hands.h"

#include "base/file.h"
#include "driver/in_pod.h"
#include "base/log.h"
#include "driver/provision_text.h"
#include "kube/cdi.h"

#include <errno.h>
#include <fcntl.h>

static int read_boot_id(struct hands *h, struct err *e)
{
    _cleanup_free_ char *id = NULL;
    int r = file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 100, &id, NULL, e);

    if (r < 0)
        return r;
    str_chomp(id);
    if (strlen(id) >= sizeof(h->boot_id))
        return err_set(e, ERR_BUG, -EINVAL, "boot_id \"%s\" is too long", id);
    strcpy(h->boot_id, id);
    return 0;
}

int hands_open(const struct hands_config *c, struct hands *ret, struct err *e)
{
    struct hands h = HANDS_INIT;
    int r;

    if ((r = read_boot_id(&h, e)) < 0 || (r = sysroot_open(c->sysroot, &h.root, e)) < 0 ||
        (r = nl_open(NETLINK_ROUTE, &h.nl, e)) < 0 ||
        (r = store_open(c->state_dir, &h.store, e)) < 0 ||
        (r = dir_make(c->cdi_dir, 0755, &h.cdi_dirfd, e)) < 0 ||
        (r = file_sweep(h.cdi_dirfd, e)) < 0) {
        hands_done(&h);
        return r;
    }
    h.cdi_kind = xasprintf("%s/vf", c->driver);
    *ret = h;
    ret->hw = (struct hw){.root = &ret->root, .nl = ret->nl};
    return 0;
}

void hands_done(struct hands *h)
{
    if (h->nl)
        nl_free(h->nl);
    if (h->root.fd >= 0)
        sysroot_done(&h->root);
    if (h->store.dirfd >= 0)
        store_done(&h->store);
    cleanup_closep(&h->cdi_dirfd);
    free(h->cdi_kind);
    memset(h, 0, sizeof(*h));
}

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
    VEC(struct cdi_device) devices = {0};

    vec_foreach (d, &rec->devices) {
        struct cdi_device *c = VEC_PUSH(&devices);

        c->name = xasprintf("%s-%s", rec->uid, d->grant.device);
        in_pod_env(d, add_env, c);
    }
    json_auto_t *doc = cdi_document(h->cdi_kind, devices.v, devices.n);
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

/* Nothing to set, but what the pool promises must hold. */
static int verify_skip(const struct vf_state *s, const struct grant *g, struct err *e)
{
    _cleanup_(strbuf_done) struct strbuf why = {0};
    unsigned n = vf_state_differs(s, &g->settings, &why);

    if (n + vf_state_unclean(s, &why) == 0)
        return 0;
    return err_set(
        e, ERR_PERMANENT, -ESTALE,
        "VF %s isn't as pool %s promises, and others provision it: %s; mend it there, or "
        "use a class that selects mode \"Prepare\"",
        g->vf_address, g->pool_document, why.s);
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

    if (!g->may_raise_pf || verify_skip(s, g, NULL) == 0)
        return verify_skip(s, g, e);

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
    return r < 0 ? r : verify_skip(s, g, e);
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
        rec->state = RECORD_PREPARING;
        return roll_back(h, rec, rec->devices.n, e);
    }
    return 0;
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

void attachment_vec_done(attachment_vec *v)
{
    vec_foreach (a, v)
        attach_result_done(&a->result);
    free(v->v);
    memset(v, 0, sizeof(*v));
}

/*
 * A VF that is home may have been in an earlier sandbox of the pod, which may have changed its own
 * side, and the kernel brought it back named as there. Both calls only read where nothing differs.
 */
static int ready_again(struct hands *h, const struct record_device *d, struct err *e)
{
    const struct grant *g = &d->grant;
    _cleanup_(vf_state_done) struct vf_state after = {0};

    if (mode_sets_up(g->mode))
        return vf_apply(&h->hw, &d->original, &g->settings, g->may_raise_pf, NULL, e);
    int r = vf_restore(&h->hw, &d->original, &after, e);

    return r < 0 ? r : verify_or_set_right(h, g, &after, e);
}

static int attach_one(struct hands *h, const struct record_device *d, int netns,
                      struct attach_result *ret, struct err *e)
{
    const struct interface_request *i = &d->grant.interface;
    _cleanup_(vf_state_done) struct vf_state s = {0};
    struct attach_spec spec = {.mtu = i->mtu};
    int r = read_state(h, &d->grant, &s, e);

    if (r < 0)
        return r;
    if (s.home && (r = ready_again(h, d, e)) < 0)
        return r;
    strcpy(spec.vf_address, d->grant.vf_address);
    strcpy(spec.name, in_pod_name(d));
    /* borrowed from the record for the call */
    spec.addrs.v = i->addrs.v;
    spec.addrs.n = i->addrs.n;
    spec.routes.v = i->routes.v;
    spec.routes.n = i->routes.n;
    return vf_attach(&h->hw, netns, &spec, ret, e);
}

/* What this attempt moved; what containers of the pod use already stays with them. */
static void take_back(struct hands *h, const struct record *rec, int netns, const attachment_vec *v)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct record_device *d = &rec->devices.v[i];
        bool moved;

        if (v->v[i].attached && !v->v[i].was_in)
            (void)vf_detach(&h->hw, netns, d->grant.vf_address, d->original.name, &moved, NULL);
    }
}

int claim_attach(struct hands *h, const struct record *rec, const char *sandbox_id,
                 const char *netns_path, attachment_vec *ret, struct err *e)
{
    _cleanup_close_ int netns = -1;
    attachment_vec done = {0};
    int r = netns_open(netns_path, &netns, e);

    if (r < 0)
        return r;
    vec_foreach (d, &rec->devices) {
        struct claim_attachment *a = VEC_PUSH(&done);

        if (d->grant.attach != ATTACH_NRI)
            continue;
        r = vf_look_in(netns, d->grant.vf_address, &a->was_in, NULL, e);
        if (r == 0)
            r = attach_one(h, d, netns, &a->result, e);
        if (r < 0) {
            take_back(h, rec, netns, &done);
            attachment_vec_done(&done);
            return err_prefix(e, r, "VF %s", d->grant.vf_address);
        }
        a->attached = true;
    }
    r = store_note_sandbox(&h->store, rec->uid, sandbox_id, e);
    if (r < 0) {
        take_back(h, rec, netns, &done);
        attachment_vec_done(&done);
        return r;
    }
    *ret = done;
    return 0;
}

int claim_detach(struct hands *h, const struct record *rec, const char *netns_path, struct err *e)
{
    _cleanup_close_ int netns = -1;
    int worst = 0, r = netns_open(netns_path, &netns, e);

    if (r < 0)
        return r;
    vec_foreach (d, &rec->devices) {
        bool moved;

        if (d->grant.attach != ATTACH_NRI)
            continue;
        r = vf_detach(&h->hw, netns, d->grant.vf_address, d->original.name, &moved, e);
        if (r < 0)
            worst = r;
    }
    return worst;
}

int claim_check(const struct record *rec, const char *netns_path, attachment_vec *ret,
                struct err *e)
{
    _cleanup_close_ int netns = -1;
    _cleanup_(attachment_vec_done) attachment_vec found = {0};
    int r = netns_open(netns_path, &netns, e);

    if (r < 0)
        return r;
    vec_foreach (d, &rec->devices) {
        struct claim_attachment *a = VEC_PUSH(&found);

        if (d->grant.attach != ATTACH_NRI)
            continue;
        r = vf_look_in(netns, d->grant.vf_address, &a->was_in, &a->result, e);
        if (r < 0)
            return r;
        if (!a->was_in)
            return err_set(e, ERR_TRANSIENT, -ENODEV, "VF %s isn't in the pod's network namespace",
                           d->grant.vf_address);
        a->attached = true;
    }
    *ret = found;
    found = (attachment_vec){0};
    return 0;
}

int claim_recover(struct hands *h, struct record *rec, bool *ret_gone, bool *ret_away,
                  struct err *e)
{
    int r = 0;

    *ret_gone = *ret_away = false;
    if (!streq(rec->boot_id, h->boot_id)) {
        /* the hardware came up fresh; what is on disk describes another boot */
        r = cdi_remove(h->cdi_dirfd, h->cdi_kind, rec->uid, e);
        if (r == 0)
            r = store_remove(&h->store, rec->uid, e);
        *ret_gone = r == 0;
        return r;
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
