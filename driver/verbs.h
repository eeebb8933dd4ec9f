/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the command line, one file each. They get argv from their own name on. */
#pragma once

/* What every verb's exit status means. */
enum {
    EXIT_OK = 0,
    EXIT_NO = 1, /* the answer is "no" */
    EXIT_USAGE = 2,
    EXIT_FAILED = 3,
};

extern const char driver_version[]; /* main.c: "0.1.0" */

int cmd_node(int argc, char **argv);
int cmd_claims(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_provision(int argc, char **argv);
