/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/explanation.h"

#include "driver/table.h"

#define INDENT 2
#define WIDTH  100 /* columns: what isn't read easily beyond */

struct explanation *explanation_new(const char *kind, const char *namespace, const char *name)
{
    struct explanation *x = xnew(struct explanation);

    x->kind = kind;
    x->namespace = xstrdup(namespace);
    x->name = xstrdup(name);
    return x;
}

void explanation_free(struct explanation *x)
{
    vec_foreach (f, &x->facts) {
        free(f->text);
        free(f->next);
    }
    vec_foreach (c, &x->claims)
        explanation_free(*c);
    free(x->facts.v);
    free(x->claims.v);
    free(x->namespace);
    free(x->name);
    free(x->node);
    free(x);
}

/* Control characters could rewrite what stands above; the caller frees it. */
static char *printable(const char *text)
{
    char *out = str_utf8(text);

    for (char *c = out; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
    return out;
}

void explain(struct explanation *x, enum explain_part part, const char *code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *text = xvasprintf(fmt, ap);
    va_end(ap);
    *VEC_PUSH(&x->facts) = (struct fact){.part = part, .code = code, .text = printable(text)};
}

void explain_next(struct explanation *x, const char *fmt, ...)
{
    struct fact *f = &x->facts.v[x->facts.n - 1];
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *text = xvasprintf(fmt, ap);
    va_end(ap);
    free(f->next);
    f->next = printable(text);
}

size_t explanation_missing(const struct explanation *x)
{
    size_t n = 0;

    vec_foreach (f, &x->facts)
        n += f->part == EXPLAIN_MISSING;
    vec_foreach (c, &x->claims)
        n += explanation_missing(*c);
    return n;
}

/* ---- shown to people */

static const char *part_title(enum explain_part p)
{
    switch (p) {
    case EXPLAIN_ASKED:
        return "Asked";
    case EXPLAIN_DEVICE:
        return "Device";
    case EXPLAIN_CALLS:
        return "Calls";
    case EXPLAIN_DONE:
        return "Done";
    case EXPLAIN_NOW:
        return "Now";
    case EXPLAIN_MISSING:
        return "Missing";
    case EXPLAIN_END:
        return "At the end";
    }
    return "";
}

/* Broken between words, below its first line; a word that is longer stays whole. */
static void print_wrapped(FILE *f, const char *text)
{
    size_t column = INDENT;

    fprintf(f, "%*s", INDENT, "");
    while (*text) {
        size_t n = strcspn(text, " ");

        if (column > INDENT && column + 1 + n > WIDTH) {
            fprintf(f, "\n%*s", INDENT, "");
            column = INDENT;
        } else if (column > INDENT) {
            fputc(' ', f);
            column++;
        }
        fwrite(text, 1, n, f);
        column += n;
        text += n;
        text += strspn(text, " ");
    }
}

static void print_part(FILE *f, const struct explanation *x, enum explain_part part, bool colour)
{
    enum tint tint = part == EXPLAIN_MISSING ? TINT_WARN : TINT_PLAIN;
    bool titled = false;

    vec_foreach (it, &x->facts) {
        if (it->part != part)
            continue;
        if (!titled)
            fprintf(f, "%s%s%s\n", tint_on(TINT_DIM, colour), part_title(part),
                    tint_off(TINT_DIM, colour));
        titled = true;
        fputs(tint_on(tint, colour), f);
        print_wrapped(f, it->text);
        fprintf(f, "%s\n", tint_off(tint, colour));
        if (it->next)
            fprintf(f, "      %s\n", it->next);
    }
}

static const char *kind_title(const char *kind)
{
    if (streq(kind, "ResourceClaim"))
        return "claim";
    return streq(kind, "Pod") ? "pod" : kind;
}

void explanation_print(FILE *f, const struct explanation *x, bool colour)
{
    _cleanup_free_ char *name =
        x->namespace ? xasprintf("%s/%s", x->namespace, x->name) : xstrdup(x->name);
    _cleanup_free_ char *title = printable(name);

    fprintf(f, "%s%s %s%s%s%s\n", tint_on(TINT_BOLD, colour), kind_title(x->kind), title,
            x->node ? " on node " : "", x->node ? x->node : "", tint_off(TINT_BOLD, colour));
    for (enum explain_part p = EXPLAIN_ASKED; p <= EXPLAIN_END; p++)
        print_part(f, x, p, colour);
    vec_foreach (c, &x->claims) {
        fputc('\n', f);
        explanation_print(f, *c, colour);
    }
}

/* ---- shown to programs */

static const char *part_word(enum explain_part p)
{
    return p == EXPLAIN_END ? "End" : part_title(p);
}

static json_t *fact_json(const struct fact *f)
{
    json_t *o = json_object();

    json_set_str(o, "part", part_word(f->part));
    json_set_str(o, "code", f->code);
    json_set_str(o, "text", f->text);
    json_set_str(o, "next", f->next);
    return o;
}

json_t *explanation_json(const struct explanation *x)
{
    json_t *o = json_object(), *facts = json_array(), *claims = json_array();

    vec_foreach (f, &x->facts)
        json_array_append_new(facts, fact_json(f));
    vec_foreach (c, &x->claims)
        json_array_append_new(claims, explanation_json(*c));
    json_set_str(o, "kind", x->kind);
    json_set_str(o, "namespace", x->namespace);
    json_set_str(o, "name", x->name);
    json_set_str(o, "node", x->node);
    json_object_set_new(o, "fine", json_boolean(explanation_missing(x) == 0));
    json_object_set_new(o, "facts", facts);
    json_object_set_new(o, "claims", claims);
    return o;
}
