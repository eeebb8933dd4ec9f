/* SPDX-License-Identifier: Apache-2.0 */
#include "sriov/survey.h"

#include <errno.h>
#include <stdio.h>

static void survey_pf_done(struct survey_pf *p)
{
    link_done(&p->link);
    err_clear(&p->err);
}

void survey_done(struct survey *s)
{
    vec_foreach (p, &s->pfs)
        survey_pf_done(p);
    vec_foreach (l, &s->links)
        link_done(l);
    free(s->pfs.v);
    free(s->links.v);
    free(s->addrs.v);
    *s = (struct survey){0};
}

static bool is_vf(const struct inventory *inv, const char *address)
{
    return address[0] && inventory_find_vf(inv, address, NULL);
}

struct taking {
    const struct inventory *inv;
    struct survey *survey;
};

/* Those of VFs are kept: a node has a link for each of its pods as well. */
static int keep(const struct link *l, void *data, struct err *e)
{
    struct taking *t = data;

    (void)e;
    if (!is_vf(t->inv, l->parent_dev))
        return 0;
    struct link *out = VEC_PUSH(&t->survey->links);
    *out = *l;
    memset(&out->altnames, 0, sizeof(out->altnames));
    vec_foreach (name, &l->altnames)
        *VEC_PUSH(&out->altnames) = xstrdup(*name);
    return 0;
}

static void take_pf(struct nl_transport *nl, const struct pf *pf, struct survey_pf *out)
{
    if (!pf->vfs.n)
        return;
    if (!pf->netdev) {
        err_set(&out->err, ERR_PERMANENT, -ENODEV, "PF %s has no network interface here",
                pf->address);
        return;
    }
    int r = link_get(nl, 0, pf->netdev, true, &out->link, &out->err);
    /* The inventory's name may be another interface's by now. */
    if (r == 0 && out->link.parent_dev[0] && !streq(out->link.parent_dev, pf->address))
        r = err_set(&out->err, ERR_TRANSIENT, -EAGAIN, "interface %s is %s now", pf->netdev,
                    out->link.parent_dev);
    if (r < 0)
        (void)err_prefix(&out->err, r, "PF %s", pf->address);
}

int survey_take(struct nl_transport *nl, const struct inventory *inv, struct survey *ret,
                struct err *e)
{
    struct survey s = {0};
    struct taking t = {.inv = inv, .survey = &s};
    int r = link_list(nl, keep, &t, e);

    if (r == 0)
        r = addr_list_all(nl, &s.addrs, e);
    if (r < 0) {
        survey_done(&s);
        return r;
    }
    vec_foreach (pf, &inv->pfs)
        take_pf(nl, pf, VEC_PUSH(&s.pfs));
    *ret = s;
    return 0;
}

/* Of several interfaces of a VF the one that the inventory chose. */
static const struct link *own_link(const struct survey *s, const struct vf *vf)
{
    const struct link *found = NULL;

    vec_foreach (l, &s->links) {
        if (!streq(l->parent_dev, vf->address))
            continue;
        if (streq_null(l->name, vf->netdev))
            return l;
        found = l; /* renamed since, if it is the only one */
    }
    return found;
}

int survey_vf(const struct survey *s, const struct inventory *inv, const struct pf *pf,
              const struct vf *vf, struct vf_state *ret, struct err *e)
{
    const struct survey_pf *p = &s->pfs.v[pf - inv->pfs.v];
    const struct link *own = own_link(s, vf);
    struct vf_state st = {0};

    if (p->err.code < 0)
        return err_set(e, p->err.kind, p->err.code, "reading VF %s: %s", vf->address,
                       err_text(&p->err));
    snprintf(st.address, sizeof(st.address), "%s", vf->address);
    int r = vf_state_set_admin(&st, &p->link, pf->address, vf->index, pf->speed_mbps, e);
    if (r < 0)
        return err_prefix(e, r, "reading VF %s", vf->address);
    if (own) {
        vf_state_set_own(&st, own);
        vec_foreach (a, &s->addrs)
            if (a->ifindex == own->ifindex && !ipnet_is_link_local(&a->addr))
                *VEC_PUSH(&st.addrs) = a->addr;
    }
    *ret = st;
    return 0;
}
