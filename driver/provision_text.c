/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/provision_text.h"

static const char *colour_of(char sign)
{
    switch (sign) {
    case '-':
        return "\033[31m";
    case '+':
        return "\033[32m";
    case '~':
        return "\033[33m";
    case '!':
        return "\033[1;31m";
    }
    return "\033[1m";
}

static void line(FILE *f, char sign, bool colour, const char *fmt, ...) _printf_(4, 5);
static void line(FILE *f, char sign, bool colour, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *text = xvasprintf(fmt, ap);
    va_end(ap);
    fprintf(f, "%s%c %s%s\n", colour ? colour_of(sign) : "", sign, text, colour ? "\033[0m" : "");
}

static const char *pf_name(const struct pf *pf)
{
    return pf->netdev ? pf->netdev : pf->address;
}

char *provision_changes_text(const vf_difference_vec *v)
{
    struct strbuf b = {0};

    vec_foreach (d, v)
        strbuf_printf(&b, "%s%s %s%s%s", b.len ? ", " : "", d->what, d->is, *d->is ? " -> " : "",
                      d->want);
    return strbuf_take(&b);
}

/* What a step does, in one line, for an obstacle. */
static char *step_text(const struct provision_step *s)
{
    _cleanup_free_ char *changes = provision_changes_text(&s->changes);

    switch (s->kind) {
    case PROVISION_PF_UP:
        return xstrdup("link up");
    case PROVISION_COUNT:
        return xasprintf("numvfs %u -> %u", s->from, s->to);
    case PROVISION_VF:
        return xasprintf("vf %u%s%s", s->index, *changes ? ": " : "", changes);
    }
    return xstrdup("");
}

/* How many steps from `at` on say the same of VFs whose indexes follow each other. */
static size_t alike(const struct provision_pf *p, size_t at, const char *text)
{
    size_t n = 1;

    for (; at + n < p->steps.n; n++) {
        const struct provision_step *s = &p->steps.v[at + n];
        _cleanup_free_ char *other = provision_changes_text(&s->changes);

        if (s->kind != PROVISION_VF || s->index != p->steps.v[at].index + n || !streq(text, other))
            break;
    }
    return n;
}

/* Returns how many steps the line is about. */
static size_t print_vfs(FILE *f, const struct provision_pf *p, size_t at, bool colour)
{
    const struct provision_step *s = &p->steps.v[at];
    _cleanup_free_ char *text = provision_changes_text(&s->changes);
    size_t n = alike(p, at, text);
    char range[24];

    if (n == 1)
        snprintf(range, sizeof(range), "%u", s->index);
    else
        snprintf(range, sizeof(range), "%u-%zu", s->index, s->index + n - 1);
    line(f, *s->address ? '~' : '+', colour, "vf %s: %s", range, text);
    return n;
}

static void print_count(FILE *f, const struct provision_step *s, bool colour)
{
    if (s->from == s->to) {
        line(f, '~', colour, "numvfs %u, but not all of these VFs are there yet", s->to);
        return;
    }
    line(f, '-', colour, "numvfs %u", s->from);
    line(f, '+', colour, "numvfs %u", s->to);
}

static void print_pf(FILE *f, const struct provision_pf *p, bool colour)
{
    struct strbuf pools = {0};

    vec_foreach (pool, &p->pools)
        strbuf_printf(&pools, "%s%s", pools.len ? ", " : "", (*pool)->name);
    fprintf(f, "%s%s%s (%s), pool%s %s\n", colour ? colour_of(0) : "", pf_name(p->pf),
            colour ? "\033[0m" : "", p->pf->address, p->pools.n == 1 ? "" : "s",
            pools.s ? pools.s : "");
    strbuf_done(&pools);
    for (size_t i = 0; i < p->steps.n;) {
        const struct provision_step *s = &p->steps.v[i++];

        switch (s->kind) {
        case PROVISION_PF_UP:
            line(f, '-', colour, "link down");
            line(f, '+', colour, "link up");
            break;
        case PROVISION_COUNT:
            print_count(f, s, colour);
            break;
        case PROVISION_VF:
            i += print_vfs(f, p, i - 1, colour) - 1;
            break;
        }
    }
    vec_foreach (o, &p->obstacles) {
        _cleanup_free_ char *text = step_text(&o->step);

        line(f, '!', colour, "%s, but %s", text, o->why);
    }
}

void provision_print(FILE *f, const struct provision_plan *p, bool colour)
{
    vec_foreach (pf, &p->pfs)
        if (pf->steps.n || pf->obstacles.n)
            print_pf(f, pf, colour);
    vec_foreach (problem, &p->problems)
        line(f, '!', colour, "pool %s: %s", *problem->name ? problem->name : "(without a name)",
             problem->text);
}

static void done_text(struct strbuf *b, bool done, const char *fmt, ...) _printf_(3, 4);
static void done_text(struct strbuf *b, bool done, const char *fmt, ...)
{
    va_list ap;

    if (!done)
        return;
    va_start(ap, fmt);
    _cleanup_free_ char *text = xvasprintf(fmt, ap);
    va_end(ap);
    strbuf_printf(b, "%s%s", b->len ? ", " : "", text);
}

void provision_print_report(FILE *f, const struct provision_pf *pf,
                            const struct provision_report *r, bool colour)
{
    struct strbuf b = {0};

    done_text(&b, r->raised, "link up");
    done_text(&b, r->made > 0, "%u VF%s made", r->made, r->made == 1 ? "" : "s");
    done_text(&b, r->set > 0, "%u VF%s set up", r->set, r->set == 1 ? "" : "s");
    done_text(&b, r->failures.n > 0, "%zu failed", r->failures.n);
    fprintf(f, "%s: %s, in %.1f s\n", pf_name(pf->pf), b.len ? b.s : "nothing done",
            (double)r->us / 1e6);
    strbuf_done(&b);
    vec_foreach (text, &r->failures)
        line(f, '!', colour, "%s", *text);
    vec_foreach (text, &r->obstacles)
        line(f, '!', colour, "%s", *text);
}

static json_t *text_or_null(const char *s)
{
    return s && *s ? json_string(s) : json_null();
}

static json_t *step_json(const struct provision_step *s)
{
    json_t *o = json_object(), *changes;

    switch (s->kind) {
    case PROVISION_PF_UP:
        json_set_str(o, "step", "linkUp");
        break;
    case PROVISION_COUNT:
        json_set_str(o, "step", "numvfs");
        json_object_set_new(o, "from", json_integer(s->from));
        json_object_set_new(o, "to", json_integer(s->to));
        break;
    case PROVISION_VF:
        json_set_str(o, "step", "settings");
        json_object_set_new(o, "vf", json_integer(s->index));
        json_object_set_new(o, "address", text_or_null(s->address));
        json_set_str(o, "pool", s->pool->name);
        changes = json_array();
        vec_foreach (d, &s->changes)
            json_array_append_new(changes, json_pack("{s:s, s:o, s:s}", "setting", d->what, "from",
                                                     text_or_null(d->is), "to", d->want));
        json_object_set_new(o, "changes", changes);
        break;
    }
    return o;
}

/* Texts of the kernel and of others may be any bytes. */
static json_t *texts_json(char *const *v, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        _cleanup_free_ char *text = str_utf8(v[i]);

        json_array_append_new(list, json_string(text));
    }
    return list;
}

static json_t *report_json(const struct provision_report *r)
{
    json_t *o = json_object();

    json_object_set_new(o, "raised", json_boolean(r->raised));
    json_object_set_new(o, "made", json_integer(r->made));
    json_object_set_new(o, "set", json_integer(r->set));
    json_object_set_new(o, "failures", texts_json(r->failures.v, r->failures.n));
    json_object_set_new(o, "obstacles", texts_json(r->obstacles.v, r->obstacles.n));
    json_object_set_new(o, "ms", json_integer(r->us / 1000));
    return o;
}

json_t *provision_pf_json(const struct provision_pf *pf, const struct provision_report *r)
{
    json_t *o = json_object(), *pools = json_array(), *steps = json_array();
    json_t *obstacles = json_array();

    json_set_str(o, "address", pf->pf->address);
    json_object_set_new(o, "interface", text_or_null(pf->pf->netdev));
    vec_foreach (p, &pf->pools)
        json_array_append_new(pools, json_string((*p)->name));
    vec_foreach (s, &pf->steps)
        json_array_append_new(steps, step_json(s));
    vec_foreach (x, &pf->obstacles) {
        json_t *step = step_json(&x->step);
        _cleanup_free_ char *why = str_utf8(x->why);

        json_object_set_new(step, "why", json_string(why));
        json_array_append_new(obstacles, step);
    }
    json_object_set_new(o, "pools", pools);
    json_object_set_new(o, "steps", steps);
    json_object_set_new(o, "obstacles", obstacles);
    json_object_set_new(o, "report", r ? report_json(r) : json_null());
    return o;
}

json_t *provision_problems_json(const pool_problem_vec *v)
{
    json_t *list = json_array();

    vec_foreach (p, v)
        json_array_append_new(
            list, json_pack("{s:o, s:s}", "pool", text_or_null(p->name), "why", p->text));
    return list;
}
