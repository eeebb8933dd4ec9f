/* SPDX-License-Identifier: Apache-2.0 */
/* Text for people: tints, and tables whose columns are as wide as their widest cell. */
#pragma once

#include "base/str.h"

#include <stdio.h>

/* BOLD names, DIM what is absent, WARN what needs a look. */
enum tint { TINT_PLAIN, TINT_BOLD, TINT_DIM, TINT_WARN };

/* The terminal's escape sequences; "" without `colour`. */
const char *tint_on(enum tint t, bool colour);
const char *tint_off(enum tint t, bool colour);

/* Whether standard output is a terminal that may be coloured (NO_COLOR isn't set). */
bool colour_wanted(void);

struct table_cell {
    char *text;
    enum tint tint;
};

struct table {
    size_t columns;
    unsigned right; /* bit per column: numbers stand to the right, below each other */
    unsigned indent;
    VEC(struct table_cell) cells; /* row after row */
};

/* Adds the next cell, from left to right; takes the text over. */
void table_add(struct table *t, enum tint tint, char *text);

/* Adds a row of headings, DIM. `headings` has t->columns texts. */
void table_headings(struct table *t, const char *const *headings);

/* No line ends in spaces. Widths are counted in bytes: cells are ASCII. */
void table_print(FILE *f, const struct table *t, bool colour);

void table_done(struct table *t);
