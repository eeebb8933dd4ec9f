/* SPDX-License-Identifier: Apache-2.0 */
/* One VirtualFunctionPool document, parsed. */
#include "driver/pool.h"

#include "driver/names.h"
#include "driver/request.h"

#include <ctype.h>
#include <errno.h>

#define FUNCTIONS_MAX  256
#define ATTRIBUTES_MAX 8     /* beside 24 of our own: the API takes 32 on a device */
#define INDEX_MAX      65534 /* sriov_totalvfs is a 16 bit register, and indexes begin at 0 */

/* A field with a few allowed words; `value` NOT_YET: planned, but not in this version. */
struct choice {
    const char *text;
    int value;
};
#define NOT_YET (-1)

static const struct choice mode_choices[] = {
    {"Prepare", MODE_PREPARE},
    {"DeferCleanup", MODE_DEFER_CLEANUP},
    {"Skip", MODE_SKIP},
    {0},
};
static const struct choice attach_choices[] = {
    {"NRI", ATTACH_NRI},
    {"None", ATTACH_NONE},
    {"CNI", NOT_YET},
    {0},
};
static const struct choice by_choices[] = {
    {"External", PROVISIONED_EXTERNALLY},
    {"Driver", PROVISIONED_BY_DRIVER},
    {0},
};
static const struct choice taint_choices[] = {
    {"NoSchedule", TAINT_NO_SCHEDULE},
    {"NoExecute", TAINT_NO_EXECUTE},
    {0},
};
static const struct choice bind_choices[] = {{"Kernel", 0}, {"VFIO", NOT_YET}, {0}};

static const char *choice_text(const struct choice *c, int value)
{
    while (c->value != value)
        c++;
    return c->text;
}

const char *mode_text(enum mode m)
{
    return choice_text(mode_choices, m);
}

bool mode_sets_up(enum mode m)
{
    switch (m) {
    case MODE_PREPARE:
    case MODE_DEFER_CLEANUP:
        return true;
    case MODE_SKIP:
        return false;
    }
    return false;
}

const char *attach_text(enum attach a)
{
    return choice_text(attach_choices, a);
}

const char *taint_effect_text(enum taint_effect e)
{
    return choice_text(taint_choices, e);
}

const char *provisioner_text(enum provisioner p)
{
    return choice_text(by_choices, p);
}

int mode_parse(const char *text, enum mode *ret)
{
    for (const struct choice *c = mode_choices; c->text; c++)
        if (streq(c->text, text) && c->value != NOT_YET) {
            *ret = (enum mode)c->value;
            return 0;
        }
    return -EINVAL;
}

static int not_yet(const struct jpath *at, struct err *e)
{
    return jpath_err(at, e, "not supported by this version yet");
}

/* Optional as the json_get functions are: 0 and *ret untouched if absent. */
static int get_choice(const json_t *o, const struct jpath *p, const char *key,
                      const struct choice *choices, int *ret, struct err *e)
{
    struct jpath at = {.up = p, .key = key};
    struct strbuf names = {0};
    const char *text;
    int r = json_get_str(o, p, key, &text, e);

    if (r <= 0)
        return r;
    for (const struct choice *c = choices; c->text; c++) {
        if (!streq(c->text, text))
            continue;
        if (c->value == NOT_YET)
            return jpath_err(&at, e, "\"%s\" is not supported by this version yet", text);
        *ret = c->value;
        return 1;
    }
    for (const struct choice *c = choices; c->text; c++)
        if (c->value != NOT_YET)
            strbuf_printf(&names, "%s%s", names.len ? " or " : "", c->text);
    _cleanup_free_ char *list = strbuf_take(&names);
    return jpath_err(&at, e, "must be %s, not \"%s\"", list, text);
}

static int parse_labels(const json_t *spec, const struct jpath *p, struct pool *pool, struct err *e)
{
    static const char *const known[] = {"matchLabels", NULL};
    struct jpath selector_at = {.up = p, .key = "nodeSelector"};
    struct jpath labels_at = {.up = &selector_at, .key = "matchLabels"};
    json_t *selector, *labels, *v;
    const char *key;
    int r = json_get_object(spec, p, selector_at.key, &selector, e);

    if (r <= 0)
        return r;
    if ((r = json_only(selector, &selector_at, known, e)) < 0)
        return r;
    if ((r = json_get_object(selector, &selector_at, labels_at.key, &labels, e)) <= 0)
        return r;
    json_object_foreach (labels, key, v) {
        struct jpath at = {.up = &labels_at, .key = key};
        const char *value;

        if ((r = json_get_str(labels, &labels_at, key, &value, e)) < 0)
            return r;
        /* No node can have such a label, so the pool would never match, silently. */
        if (!is_label_key(key))
            return jpath_err(&at, e, "no label can have this name");
        if (!is_label_value(value))
            return jpath_err(&at, e, "no label can have the value \"%s\"", value);
        struct pool_label *l = VEC_PUSH(&pool->node_labels);
        l->key = xstrdup(key);
        l->value = xstrdup(value);
    }
    return 0;
}

/* "3" or "0-3" at *s; moves *s behind it. */
static bool parse_range(const char **s, struct index_range *ret)
{
    unsigned long n[2];
    char *end = (char *)*s;

    for (int i = 0; i < 2; i++) {
        if (!isdigit((unsigned char)*end) || (*end == '0' && isdigit((unsigned char)end[1])))
            return false;
        n[i] = strtoul(end, &end, 10);
        if (i == 0 && *end != '-') {
            n[1] = n[0];
            break;
        }
        end += i == 0;
    }
    if (n[0] > INDEX_MAX || n[1] > INDEX_MAX)
        return false;
    *ret = (struct index_range){.first = (unsigned)n[0], .last = (unsigned)n[1]};
    *s = end;
    return true;
}

static int parse_indexes(const char *text, const struct jpath *at, struct pool_function *f,
                         struct err *e)
{
    const char *s = text;

    do {
        struct index_range r;

        if (!parse_range(&s, &r) || (*s && *s != ','))
            return jpath_err(at, e, "\"%s\" is no list of indexes (0 to %d) such as \"0-3,7\"",
                             text, INDEX_MAX);
        if (r.first > r.last)
            return jpath_err(at, e, "\"%s\": the range %u-%u is upside down", text, r.first,
                             r.last);
        vec_foreach (other, &f->indexes) {
            if (r.first <= other->last && other->first <= r.last)
                return jpath_err(at, e, "\"%s\" has index %u twice", text,
                                 r.first > other->first ? r.first : other->first);
        }
        *VEC_PUSH(&f->indexes) = r;
    } while (*s++);
    return 0;
}

static int get_address(const json_t *o, const struct jpath *p, char ret[static PCI_ADDRESS_SIZE],
                       struct err *e)
{
    struct jpath at = {.up = p, .key = "pciAddress"};
    const char *text;
    int r = json_get_str(o, p, at.key, &text, e);

    if (r > 0 && !pci_address_parse(text, ret))
        return jpath_err(&at, e, "\"%s\" is no PCI address such as 0000:3b:00.0", text);
    return r;
}

static int parse_parent(const json_t *parent, const struct jpath *p, struct pool_function *f,
                        struct err *e)
{
    static const char *const known[] = {"interface", "pciAddress", NULL};
    struct jpath at = {.up = p, .key = "interface"};
    const char *name = NULL;
    int r, by_name, by_address;

    if ((r = json_only(parent, p, known, e)) < 0)
        return r;
    if ((by_name = json_get_str(parent, p, at.key, &name, e)) < 0)
        return by_name;
    if (by_name && (r = interface_name_check(name, &at, e)) < 0)
        return r;
    if ((by_address = get_address(parent, p, f->pf_address, e)) < 0)
        return by_address;
    if (by_name + by_address != 1)
        return jpath_err(p, e, "must have either interface or pciAddress");
    f->pf_interface = xstrdup(name);
    return 0;
}

static int parse_function(const json_t *o, const struct jpath *p, struct pool_function *f,
                          struct err *e)
{
    static const char *const known[] = {"parent", "indexes", "pciAddress", "node", NULL};
    struct jpath parent_at = {.up = p, .key = "parent"}, indexes_at = {.up = p, .key = "indexes"},
                 node_at = {.up = p, .key = "node"};
    const char *indexes, *node;
    json_t *parent;
    int r, by_parent, by_address;

    if ((r = json_only(o, p, known, e)) < 0)
        return r;
    if ((by_parent = json_get_object(o, p, parent_at.key, &parent, e)) < 0)
        return by_parent;
    if ((by_address = get_address(o, p, f->vf_address, e)) < 0)
        return by_address;
    if (by_parent + by_address != 1)
        return jpath_err(p, e, "must have either parent (the PF) or pciAddress (one VF)");
    if (by_parent && (r = parse_parent(parent, &parent_at, f, e)) < 0)
        return r;
    if ((r = json_get_str(o, p, indexes_at.key, &indexes, e)) < 0)
        return r;
    f->all_indexes = r == 0;
    if (r > 0 && by_address)
        return jpath_err(&indexes_at, e, "goes with parent only: pciAddress names one VF");
    if (r > 0 && (r = parse_indexes(indexes, &indexes_at, f, e)) < 0)
        return r;
    if ((r = json_get_str(o, p, node_at.key, &node, e)) < 0)
        return r;
    if (r > 0 && by_parent)
        return jpath_err(&node_at, e, "goes with pciAddress only; use nodeSelector");
    if (r > 0 && !is_dns_subdomain(node, 253))
        return jpath_err(&node_at, e, "\"%s\" can't be the name of a node", node);
    if (r > 0)
        f->node = xstrdup(node);
    return 0;
}

static bool share_index(const struct pool_function *a, const struct pool_function *b)
{
    if (a->all_indexes || b->all_indexes)
        return true;
    vec_foreach (x, &a->indexes)
        vec_foreach (y, &b->indexes)
            if (x->first <= y->last && y->first <= x->last)
                return true;
    return false;
}

/* Whether two entries select a VF twice by the same means. */
static bool overlap(const struct pool_function *a, const struct pool_function *b)
{
    return streq_null(a->pf_interface, b->pf_interface) && streq(a->pf_address, b->pf_address) &&
           streq(a->vf_address, b->vf_address) && (!a->node || streq_null(a->node, b->node)) &&
           share_index(a, b);
}

static int parse_functions(const json_t *spec, const struct jpath *p, struct pool *pool,
                           struct err *e)
{
    struct jpath list_at = {.up = p, .key = "functions"};
    json_t *list = NULL, *v;
    size_t n;
    int r = json_get_array(spec, p, list_at.key, &list, e);

    if (r < 0)
        return r;
    if (!json_array_size(list))
        return jpath_err(&list_at, e, "must say which VFs the pool has, by at least one entry");
    if (json_array_size(list) > FUNCTIONS_MAX)
        return jpath_err(&list_at, e, "has %zu entries, %d at most", json_array_size(list),
                         FUNCTIONS_MAX);
    json_array_foreach (list, n, v) {
        struct jpath at = {.up = &list_at, .index = n};
        struct pool_function *f = VEC_PUSH(&pool->functions);

        if ((r = parse_function(v, &at, f, e)) < 0)
            return r;
        for (size_t k = 0; k < n; k++)
            if (overlap(&pool->functions.v[k], f))
                return jpath_err(&at, e, "selects VFs that [%zu] has already", k);
    }
    return 0;
}

static int parse_attributes(const json_t *spec, const struct jpath *p, struct pool *pool,
                            struct err *e)
{
    struct jpath list_at = {.up = p, .key = "attributes"};
    json_t *list, *v;
    const char *key;
    int r = json_get_object(spec, p, list_at.key, &list, e);

    if (r <= 0)
        return r;
    if (json_object_size(list) > ATTRIBUTES_MAX)
        return jpath_err(&list_at, e, "has %zu attributes, %d at most", json_object_size(list),
                         ATTRIBUTES_MAX);
    json_object_foreach (list, key, v) {
        struct jpath at = {.up = &list_at, .key = key};
        const char *text;

        if ((r = attribute_name_check(key, &at, e)) < 0)
            return r;
        if (!json_is_string(v) && !json_is_boolean(v) && !json_is_integer(v))
            return jpath_err(&at, e, "must be a string, a boolean or a whole number");
        if (json_is_string(v) && (r = json_get_str(list, &list_at, key, &text, e)) < 0)
            return r;
        if (json_string_length(v) > 64)
            return jpath_err(&at, e, "is longer than the 64 bytes that the API takes");
        struct pool_attribute *a = VEC_PUSH(&pool->attributes);
        a->name = xstrdup(key);
        a->value = json_copy(v);
    }
    return 0;
}

/* What the pool selects must be there once `count` VFs are. */
static int check_count(const struct pool *pool, const struct jpath *p, struct err *e)
{
    struct jpath list_at = {.up = p, .key = "functions"};

    for (size_t n = 0; n < pool->functions.n; n++) {
        const struct pool_function *f = &pool->functions.v[n];
        struct jpath at = {.up = &list_at, .index = n}, indexes_at = {.up = &at, .key = "indexes"};

        if (f->vf_address[0])
            return jpath_err(&at, e,
                             "names one VF by its address, and spec.provisioning.count makes the "
                             "VFs of whole PFs: use parent and indexes");
        vec_foreach (r, &f->indexes)
            if (r->last >= pool->count)
                return jpath_err(&indexes_at, e,
                                 "there will be no VF %u: spec.provisioning.count is %u, so the "
                                 "last index is %u",
                                 r->last, pool->count, pool->count - 1);
    }
    return 0;
}

static int parse_provisioning(const json_t *spec, const struct jpath *p, struct pool *pool,
                              struct err *e)
{
    static const char *const known[] = {"by", "count", NULL};
    struct jpath at = {.up = p, .key = "provisioning"}, count_at = {.up = &at, .key = "count"};
    int by = PROVISIONED_EXTERNALLY;
    int64_t count = 0;
    json_t *o;
    int r = json_get_object(spec, p, at.key, &o, e);

    if (r <= 0)
        return r;
    if ((r = json_only(o, &at, known, e)) < 0 ||
        (r = get_choice(o, &at, "by", by_choices, &by, e)) < 0 ||
        (r = json_get_int(o, &at, count_at.key, 1, UINT16_MAX, &count, e)) < 0)
        return r;
    pool->by = (enum provisioner)by;
    pool->count = (unsigned)count;
    if (count && pool->by == PROVISIONED_EXTERNALLY)
        return jpath_err(&count_at, e,
                         "goes with by: Driver only; where by is External others make the VFs");
    return count ? check_count(pool, p, e) : 0;
}

static int parse_spec(const json_t *spec, const struct jpath *p, struct pool *pool, struct err *e)
{
    static const char *const known[] = {"nodeSelector", "functions",   "mode",   "provisioning",
                                        "settings",     "bind",        "attach", "cni",
                                        "attributes",   "taintEffect", NULL};
    struct jpath settings_at = {.up = p, .key = "settings"}, cni_at = {.up = p, .key = "cni"};
    int mode = MODE_PREPARE, attach = ATTACH_NRI, effect = TAINT_NO_SCHEDULE, bind;
    json_t *settings;
    int r;

    if ((r = json_only(spec, p, known, e)) < 0 || (r = parse_labels(spec, p, pool, e)) < 0 ||
        (r = parse_functions(spec, p, pool, e)) < 0 ||
        (r = get_choice(spec, p, "mode", mode_choices, &mode, e)) < 0 ||
        (r = get_choice(spec, p, "attach", attach_choices, &attach, e)) < 0 ||
        (r = get_choice(spec, p, "taintEffect", taint_choices, &effect, e)) < 0 ||
        (r = get_choice(spec, p, "bind", bind_choices, &bind, e)) < 0)
        return r;
    pool->mode = (enum mode)mode;
    pool->attach = (enum attach)attach;
    pool->taint_effect = (enum taint_effect)effect;
    if (json_object_get(spec, cni_at.key))
        return not_yet(&cni_at, e);
    if ((r = parse_provisioning(spec, p, pool, e)) < 0 ||
        (r = json_get_object(spec, p, settings_at.key, &settings, e)) < 0)
        return r;
    if (r > 0 && (r = vf_settings_parse(settings, &settings_at, true, &pool->settings, e)) < 0)
        return r;
    /* Its devices say "vlan: 0" where none is declared, which is a promise like any other. */
    if (!mode_sets_up(pool->mode))
        pool->settings.set |= VF_SET_VLAN;
    return parse_attributes(spec, p, pool, e);
}

static int parse_metadata(const json_t *doc, struct pool *pool, struct err *e)
{
    /* Beside the name: what an API server adds, so that the same document works as a file. */
    static const char *const known[] = {"name",
                                        "labels",
                                        "annotations",
                                        "uid",
                                        "resourceVersion",
                                        "generation",
                                        "finalizers",
                                        "ownerReferences",
                                        "creationTimestamp",
                                        "managedFields",
                                        "selfLink",
                                        "deletionTimestamp",
                                        "deletionGracePeriodSeconds",
                                        NULL};
    struct jpath at = {.key = "metadata"}, name_at = {.up = &at, .key = "name"};
    const char *name;
    json_t *o;
    int r = json_get_object(doc, NULL, at.key, &o, e);

    if (r > 0 && (r = json_only(o, &at, known, e)) == 0)
        r = json_get_str(o, &at, name_at.key, &name, e);
    if (r < 0)
        return r;
    if (r == 0)
        return jpath_err(&name_at, e, "must be given");
    if (!is_dns_label(name))
        return jpath_err(&name_at, e,
                         "\"%s\": at most 63 lower case letters, digits and \"-\", "
                         "with a letter or digit at both ends",
                         name);
    pool->name = xstrdup(name);
    return 0;
}

static int parse_document(const json_t *doc, struct pool *pool, struct err *e)
{
    static const char *const known[] = {"apiVersion", "kind", "metadata", "spec", "status", NULL};
    static const struct choice version[] = {{API_GROUP_VERSION, 0}, {0}};
    static const struct choice kind[] = {{"VirtualFunctionPool", 0}, {0}};
    struct jpath version_at = {.key = "apiVersion"}, kind_at = {.key = "kind"},
                 spec_at = {.key = "spec"};
    json_t *spec;
    int r, ignored;

    if (!json_is_object(doc))
        return jpath_err(NULL, e, "must be an object");
    /* These first: what fields a document of another kind may have, we don't know. */
    if ((r = get_choice(doc, NULL, version_at.key, version, &ignored, e)) <= 0)
        return r < 0 ? r : jpath_err(&version_at, e, "must be %s", version->text);
    if ((r = get_choice(doc, NULL, kind_at.key, kind, &ignored, e)) <= 0)
        return r < 0 ? r : jpath_err(&kind_at, e, "must be %s", kind->text);
    if ((r = json_only(doc, NULL, known, e)) < 0 || (r = parse_metadata(doc, pool, e)) < 0)
        return r;
    if ((r = json_get_object(doc, NULL, spec_at.key, &spec, e)) <= 0)
        return r < 0 ? r : jpath_err(&spec_at, e, "must be given");
    return parse_spec(spec, &spec_at, pool, e);
}

int pool_parse(const json_t *doc, struct pool *ret, struct err *e)
{
    _cleanup_(pool_done) struct pool p = {0};
    int r = parse_document(doc, &p, e);

    if (r < 0)
        return r;
    *ret = p;
    p = (struct pool){0};
    return 0;
}

void pool_done(struct pool *p)
{
    vec_foreach (l, &p->node_labels) {
        free(l->key);
        free(l->value);
    }
    vec_foreach (f, &p->functions) {
        free(f->pf_interface);
        free(f->node);
        free(f->indexes.v);
    }
    vec_foreach (a, &p->attributes) {
        free(a->name);
        json_decref(a->value);
    }
    free(p->name);
    free(p->node_labels.v);
    free(p->functions.v);
    free(p->attributes.v);
    *p = (struct pool){0};
}
