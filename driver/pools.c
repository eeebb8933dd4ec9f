/* SPDX-License-Identifier: Apache-2.0 */
/* The pools of a file, and which of them a VF belongs to. */
#include "driver/pool.h"

#include "base/file.h"
#include "base/yaml.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>

static void add_problem(struct pools *ps, const char *name, size_t document, struct err *e)
{
    struct pool_problem *p = VEC_PUSH(&ps->problems);

    p->name = xstrdup(name ? name : "");
    p->text = name ? xstrdup(err_text(e)) : xasprintf("document %zu: %s", document, err_text(e));
}

static bool have_pool(const struct pools *ps, const char *name)
{
    vec_foreach (p, &ps->pools)
        if (streq(p->name, name))
            return true;
    return false;
}

static void add_document(struct pools *ps, const json_t *doc, size_t number)
{
    _cleanup_(pool_done) struct pool p = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    if (pool_parse(doc, &p, &e) < 0) {
        add_problem(ps, json_str_at(doc, "metadata.name"), number, &e);
        return;
    }
    if (have_pool(ps, p.name)) {
        (void)err_set(&e, ERR_USER, -EEXIST,
                      "metadata.name: document %zu is another pool of this name; the first counts",
                      number);
        add_problem(ps, p.name, number, &e);
        return;
    }
    *VEC_PUSH(&ps->pools) = p;
    p = (struct pool){0};
}

/* JSON by its own reader: YAML's knows neither all escapes of JSON nor where it ends. */
static int parse_documents(const char *text, size_t len, json_t **ret, struct err *e)
{
    json_t *doc;

    while (isspace((unsigned char)*text)) {
        text++;
        len--;
    }
    if (*text == '{' && json_parse(text, len, &doc, NULL) == 0) {
        *ret = json_pack("[o]", doc);
        return 0;
    }
    return yaml_parse_all(text, len, ret, e);
}

int pools_load(const char *path, struct pools *ret, struct err *e)
{
    _cleanup_free_ char *text = NULL;
    json_auto_t *documents = NULL;
    struct pools ps = {0};
    json_t *doc;
    size_t n, len;
    int r = file_read(AT_FDCWD, path, YAML_MAX, &text, &len, e);

    if (r < 0)
        return r;
    if ((r = parse_documents(text, len, &documents, e)) < 0)
        return err_prefix(e, r, "%s", path);
    json_array_foreach (documents, n, doc)
        add_document(&ps, doc, n + 1);
    *ret = ps;
    return 0;
}

void pools_done(struct pools *ps)
{
    vec_foreach (p, &ps->pools)
        pool_done(p);
    vec_foreach (p, &ps->problems) {
        free(p->name);
        free(p->text);
    }
    free(ps->pools.v);
    free(ps->problems.v);
    *ps = (struct pools){0};
}

bool pool_matches_node(const struct pool *p, const json_t *labels)
{
    vec_foreach (l, &p->node_labels) {
        const char *value = json_string_value(json_object_get(labels, l->key));

        if (!value || !streq(value, l->value))
            return false;
    }
    return true;
}

/* For a function that has one. */
static bool is_parent(const struct pool_function *f, const struct pf *pf)
{
    return f->pf_interface ? streq_null(f->pf_interface, pf->netdev)
                           : streq(f->pf_address, pf->address);
}

bool pool_names_pf(const struct pool *p, const struct pf *pf)
{
    vec_foreach (f, &p->functions)
        if (!f->vf_address[0] && is_parent(f, pf))
            return true;
    return false;
}

static bool function_selects(const struct pool_function *f, const char *node, const struct pf *pf,
                             const struct vf *vf)
{
    if (f->vf_address[0])
        return streq(f->vf_address, vf->address) && (!f->node || streq(f->node, node));
    if (!is_parent(f, pf))
        return false;
    if (f->all_indexes)
        return true;
    vec_foreach (r, &f->indexes)
        if (vf->index >= r->first && vf->index <= r->last)
            return true;
    return false;
}

bool pool_selects(const struct pool *p, const char *node, const struct pf *pf, const struct vf *vf)
{
    vec_foreach (f, &p->functions)
        if (function_selects(f, node, pf, vf))
            return true;
    return false;
}

const struct pool *pools_find(const struct pools *ps, const char *node, const json_t *labels,
                              const struct pf *pf, const struct vf *vf)
{
    vec_foreach (p, &ps->pools)
        if (pool_matches_node(p, labels) && pool_selects(p, node, pf, vf))
            return p;
    return NULL;
}
