/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A claim's VFs in a pod: moved in, looked for, moved home. Apart from what Prepare and release do,
 * since the hook attaches too and has nothing of the rest.
 */
#include "driver/hands.h"

#include "base/file.h"
#include "driver/in_pod.h"

#include <errno.h>
#include <fcntl.h>

int boot_id_read(char ret[static BOOT_ID_SIZE], struct err *e)
{
    _cleanup_free_ char *id = NULL;
    int r = file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 100, &id, NULL, e);

    if (r < 0)
        return r;
    str_chomp(id);
    if (strlen(id) >= BOOT_ID_SIZE)
        return err_set(e, ERR_BUG, -EINVAL, "boot_id \"%s\" is too long", id);
    strcpy(ret, id);
    return 0;
}

int hands_open_beside(const char *sysroot, const char *state_dir, struct hands *ret, struct err *e)
{
    struct hands h = HANDS_INIT;
    int r;

    if ((r = boot_id_read(h.boot_id, e)) < 0 || (r = sysroot_open(sysroot, &h.root, e)) < 0 ||
        (r = nl_open(NETLINK_ROUTE, &h.nl, e)) < 0 ||
        (r = store_open_existing(state_dir, &h.store, e)) < 0) {
        hands_done(&h);
        return r;
    }
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
    free(h->hook);
    memset(h, 0, sizeof(*h));
}

bool record_wants_attach(const struct record *r)
{
    vec_foreach (d, &r->devices)
        if (d->grant.attach == ATTACH_NRI)
            return true;
    return false;
}

int vf_verify_promise(const struct vf_state *s, const struct grant *g, struct err *e)
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

    if (r < 0)
        return r;
    return h->set_right ? h->set_right(h, g, &after, e) : vf_verify_promise(&after, g, e);
}

static int make_ready(struct hands *h, const struct record_device *d, struct err *e)
{
    const struct grant *g = &d->grant;
    _cleanup_(vf_state_done) struct vf_state s = {0};
    int r = vf_state_read(&h->hw, g->pf_address, g->vf_address, g->index, &s, e);

    return r == 0 && s.home ? ready_again(h, d, e) : r;
}

static int attach_one(struct hands *h, const struct record_device *d, int netns,
                      struct attach_result *ret, struct err *e)
{
    const struct interface_request *i = &d->grant.interface;
    struct attach_spec spec = {.mtu = i->mtu};

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

    /* What is noted is whole: no more, once it is worked on. */
    if (r == 0)
        r = store_drop_sandbox(&h->store, rec->uid, e);
    if (r < 0)
        return r;
    /* All of them first: a pod that can't have one of its VFs isn't lent the others. */
    vec_foreach (d, &rec->devices)
        if (d->grant.attach == ATTACH_NRI && (r = make_ready(h, d, e)) < 0)
            return err_prefix(e, r, "VF %s", d->grant.vf_address);
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
    if (sandbox_id && (r = store_note_sandbox(&h->store, rec->uid, sandbox_id, e)) < 0) {
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
