/* SPDX-License-Identifier: Apache-2.0 */
#include "driver/table.h"

#define GAP 2 /* spaces between columns */

const char *tint_on(enum tint t, bool colour)
{
    if (!colour)
        return "";
    switch (t) {
    case TINT_PLAIN:
        return "";
    case TINT_BOLD:
        return "\033[1m";
    case TINT_DIM:
        return "\033[2m";
    case TINT_WARN:
        return "\033[33m";
    }
    return "";
}

const char *tint_off(enum tint t, bool colour)
{
    return colour && t != TINT_PLAIN ? "\033[0m" : "";
}

bool colour_wanted(void)
{
    return isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
}

void table_add(struct table *t, enum tint tint, char *text)
{
    *VEC_PUSH(&t->cells) = (struct table_cell){text, tint};
}

void table_headings(struct table *t, const char *const *headings)
{
    for (size_t c = 0; c < t->columns; c++)
        table_add(t, TINT_DIM, xstrdup(headings[c]));
}

static void print_row(FILE *f, const struct table *t, const struct table_cell *row,
                      const int *width, bool colour)
{
    int spaces = (int)t->indent; /* owed before the next cell that isn't empty */

    for (size_t c = 0; c < t->columns; c++) {
        int pad = width[c] - (int)strlen(row[c].text);
        bool right = t->right & 1u << c;

        if (*row[c].text) {
            fprintf(f, "%*s%s%s%s", spaces + (right ? pad : 0), "", tint_on(row[c].tint, colour),
                    row[c].text, tint_off(row[c].tint, colour));
            spaces = (right ? 0 : pad) + GAP;
        } else {
            spaces += width[c] + GAP;
        }
    }
    fputc('\n', f);
}

void table_print(FILE *f, const struct table *t, bool colour)
{
    _cleanup_free_ int *width = xcalloc(t->columns, sizeof(*width));

    for (size_t i = 0; i < t->cells.n; i++) {
        int n = (int)strlen(t->cells.v[i].text), *w = &width[i % t->columns];

        *w = n > *w ? n : *w;
    }
    for (size_t i = 0; i + t->columns <= t->cells.n; i += t->columns)
        print_row(f, t, &t->cells.v[i], width, colour);
}

void table_done(struct table *t)
{
    vec_foreach (c, &t->cells)
        free(c->text);
    free(t->cells.v);
    t->cells.v = NULL;
    t->cells.n = t->cells.cap = 0;
}
