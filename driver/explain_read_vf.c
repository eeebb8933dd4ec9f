/* SPDX-License-Identifier: Apache-2.0 */
/* What is read for the explanation of a VF: on which node, how it is offered, and who has it. */
#include "driver/explain_read.h"

#include <errno.h>

/* Which pools list a device: names only, since every node may have one of that name. */
struct finding {
    const char *device;
    VEC(char *) pools;
};

static void finding_again(void *data)
{
    struct finding *f = data;

    vec_foreach (p, &f->pools)
        free(*p);
    f->pools.n = 0;
}

static int find_in_slice(const json_t *item, void *data, struct err *e)
{
    const char *pool = json_str_at(item, "spec.pool.name");
    struct finding *f = data;
    json_t *device;
    size_t n;

    (void)e;
    vec_foreach (p, &f->pools)
        if (streq_null(pool, *p))
            return 0;
    json_array_foreach (json_at(item, "spec.devices"), n, device)
        if (pool && streq_null(json_str_at(device, "name"), f->device)) {
            *VEC_PUSH(&f->pools) = xstrdup(pool);
            break;
        }
    return 0;
}

/* One of those found: this machine's, or the only one; NULL: none. */
static int choose_pool(const struct finding *f, const char *node, const char *this_node,
                       const char **ret, struct err *e)
{
    struct strbuf names = {0};

    *ret = NULL;
    vec_foreach (p, &f->pools)
        if (streq(*p, node ? node : this_node))
            *ret = *p;
    if (!*ret && !node && f->pools.n == 1)
        *ret = f->pools.v[0];
    if (*ret || node || !f->pools.n)
        return 0;
    for (size_t i = 0; i < f->pools.n && i < 8; i++)
        strbuf_printf(&names, "%s%s", i ? ", " : "", f->pools.v[i]);
    err_set(e, ERR_USER, -EEXIST, "%zu nodes have a VF %s (%s%s): name one with --node", f->pools.n,
            f->device, names.s, f->pools.n > 8 ? ", ..." : "");
    strbuf_done(&names);
    return -EEXIST;
}

/* The claims that have the device. */
struct holding {
    struct reader *r;
    const char *pool, *device;
    json_t *claims;
};

static int find_holder(const json_t *item, void *data, struct err *e)
{
    struct holding *h = data;
    _cleanup_(live_claim_done) struct live_claim c = {0};
    int r = live_claim_read(item, h->r->driver, &c, e);

    if (r <= 0)
        return r;
    vec_foreach (d, &c.devices)
        if (streq(d->pool, h->pool) && streq(d->device, h->device)) {
            json_array_append(h->claims, (json_t *)item);
            break;
        }
    return 0;
}

static void holding_again(void *data)
{
    json_array_clear(((struct holding *)data)->claims);
}

/* With the API: which node, how it is offered, who has it. */
static int read_offered(struct reader *r, const char *node, const char *device, char **ret_pool,
                        json_t *slices, json_t *claims, struct err *e)
{
    struct finding f = {.device = device};
    const char *pool = NULL;
    int ret = cluster_list_slices(r->cluster, r->driver, node, find_in_slice, finding_again, &f, e);

    if (ret == 0)
        ret = choose_pool(&f, node, r->this_node, &pool, e);
    if (ret == 0 && pool) {
        struct holding h = {.r = r, .pool = pool, .device = device, .claims = claims};
        const struct cluster_list l = {.path = RESOURCE "/resourceclaims",
                                       .item = find_holder,
                                       .again = holding_again,
                                       .data = &h};

        *ret_pool = xstrdup(pool);
        ret = explain_read_slices(r, pool, slices, e);
        if (ret == 0)
            ret = cluster_list(r->cluster, &l, e);
    }
    finding_again(&f);
    free(f.pools.v);
    return ret;
}

static int explain_found_vf(struct reader *r, const char *node, const char *device,
                            const char *pool, const json_t *slices, const json_t *claims,
                            struct explanation **ret, struct err *e)
{
    _cleanup_(explain_seen_vec_done) explain_seen_vec seen = {0};
    struct explain_input in = {
        .driver = r->driver, .this_node = r->this_node, .slices = slices, .seen = &seen};
    const char *on = pool ? pool : node ? node : r->this_node;
    char address[PCI_ADDRESS_SIZE] = "";
    json_t *claim;
    size_t n;

    (void)device_address(device, address);
    in.here = streq(on, r->this_node);
    in.record = in.here ? local_record_of_device(&r->local, device) : NULL;
    bool has = in.here && !r->local.hardware_why && inventory_find_vf(&r->local.inv, address, NULL);

    if (!pool && !has && !in.record)
        return err_set(e, ERR_USER, -ENOENT,
                       "no slice of %s%s%s lists VF %s, and this machine hasn't one", r->driver,
                       node ? " on node " : "", node ? node : "", address);
    struct explanation *x = explanation_new("VF", NULL, address);

    x->node = xstrdup(on);
    if (in.here) {
        explain_say_limits(r, x);
        explain_look(r, device, &seen);
    }
    explain_vf(&in, pool, device, address, json_array_size(claims) > 0, x);
    json_array_foreach (claims, n, claim) {
        struct explanation *of = explain_read_claim(r, claim, NULL);

        explain(x, EXPLAIN_DONE, "Held", "Claim %s/%s has it.", of->namespace, of->name);
        *VEC_PUSH(&x->claims) = of;
    }
    *ret = x;
    return 0;
}

int explain_read_vf(struct reader *r, const char *node, const char *device,
                    struct explanation **ret, struct err *e)
{
    json_auto_t *slices = json_array(), *claims = json_array();
    _cleanup_free_ char *pool = NULL;
    int ret_code = r->cluster ? read_offered(r, node, device, &pool, slices, claims, e) : 0;

    if (ret_code < 0)
        return ret_code;
    return explain_found_vf(r, node, device, pool, r->cluster ? slices : NULL, claims, ret, e);
}
