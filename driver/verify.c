/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/verify.h"

void vf_fact_vec_done(vf_fact_vec *v)
{
    vec_foreach (f, v)
        free(f->why);
    free(v->v);
    *v = (vf_fact_vec){0};
}

struct vf_fact vf_fact_copy(const struct vf_fact *f)
{
    struct vf_fact copy = *f;

    copy.why = xstrdup(f->why);
    return copy;
}

static void conclude(struct vf_fact *f, const struct vf_state *s, unsigned n, struct strbuf *why)
{
    memcpy(f->vf_address, s->address, sizeof(f->vf_address));
    f->verified = n == 0;
    f->why = n ? strbuf_take(why) : NULL;
    strbuf_done(why);
}

static unsigned touched(const struct vf_state *s, struct strbuf *why)
{
    static const struct vf_settings untouched = {.set = VF_SET_VLAN};
    unsigned n = vf_state_differs(s, &untouched, why);

    if (s->has_perm_mac && !mac_equal(&s->mac, &s->perm_mac)) {
        strbuf_printf(why, "%sMAC isn't the permanent one", why->len ? "; " : "");
        n++;
    }
    return n;
}

void verify_free(const struct vf_state *s, const struct pool *pool, bool suspicious,
                 struct vf_fact *ret)
{
    struct strbuf why = {0};
    struct vf_fact f = {0};
    unsigned n = 0;

    if (!mode_sets_up(pool->mode))
        n += vf_state_differs(s, &pool->settings, &why);
    n += vf_state_unclean(s, &why);
    if (suspicious && mode_sets_up(pool->mode) && s->home)
        n += touched(s, &why);
    conclude(&f, s, n, &why);
    *ret = f;
}

void verify_held(const struct vf_state *s, const struct pool *pool, const struct vf_settings *given,
                 struct vf_fact *ret)
{
    struct vf_settings claims = *given;
    struct vf_state listed = *s; /* borrows its lists */
    struct vf_fact f = {.in_use = true};
    struct strbuf why = {0};
    unsigned n;

    listed.home = false;
    if (s->admin.has & VF_FIELD_TRUST && s->admin.trust)
        claims.set &= ~(unsigned)VF_SET_MAC;
    n = vf_state_differs(&listed, &claims, &why);
    f.harmed = n > 0;
    if (n == 0 && !mode_sets_up(pool->mode))
        n = vf_state_differs(&listed, &pool->settings, &why);
    conclude(&f, s, n, &why);
    *ret = f;
}
