/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is told of a pod, a claim or a VF: sentences, in the order of the questions that they
 * answer; what is missing stands apart, each with a command to go on with. Shown to people or to
 * programs.
 */
#pragma once

#include "base/json.h"
#include "base/str.h"

#include <stdio.h>

/* The questions, in order. */
enum explain_part {
    EXPLAIN_ASKED,   /* what was asked, by which class and claim */
    EXPLAIN_DEVICE,  /* which device, and what its slice says of it */
    EXPLAIN_CALLS,   /* what the kubelet does */
    EXPLAIN_DONE,    /* what was done, by whom */
    EXPLAIN_NOW,     /* what the kernel says now */
    EXPLAIN_MISSING, /* what isn't as asked or promised, or couldn't be read */
    EXPLAIN_END,     /* what happens at the end */
};

struct fact {
    enum explain_part part;
    const char *code; /* "ClaimUnallocated": for programs, stable */
    char *text;       /* a sentence */
    char *next;       /* a command to go on with; NULL: none */
};

struct explanation {
    const char *kind;       /* "Pod", "ResourceClaim", "VF" */
    char *namespace, *name; /* namespace NULL: none */
    char *node;             /* NULL: unknown */
    VEC(struct fact) facts;
    VEC(struct explanation *) claims; /* of a pod; of a VF those that hold it */
};

/* `namespace` may be NULL. */
struct explanation *explanation_new(const char *kind, const char *namespace, const char *name);
void explanation_free(struct explanation *x);
DEFINE_CLEANUP(struct explanation, explanation_free)

/*
 * Adds a sentence, which may have texts of the API, the kernel or a user in it: what a terminal
 * would act on is replaced.
 */
void explain(struct explanation *x, enum explain_part part, const char *code, const char *fmt, ...)
    _printf_(4, 5);

/* Gives the sentence added last its command. */
void explain_next(struct explanation *x, const char *fmt, ...) _printf_(2, 3);

/* How much is missing, claims included. */
size_t explanation_missing(const struct explanation *x);

void explanation_print(FILE *f, const struct explanation *x, bool colour);

/* A new reference. Members are added, never renamed or dropped. */
json_t *explanation_json(const struct explanation *x);
