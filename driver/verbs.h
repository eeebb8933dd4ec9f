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

int cmd_node(int argc, char **argv);
int cmd_provision(int argc, char **argv);
