/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the verbs' command lines have in common: defaults, what is said of a wrong one, and whether
 * the answer got out. A verb keeps its own table of options and its own usage text.
 */
#pragma once

#include "driver/verbs.h"

#include <stdbool.h>

#define CLI_DRIVER       "sriov-dra.dev"
#define CLI_KUBELET_ROOT "/var/lib/kubelet"

struct cli {
    const char *verb, *usage;
};

/* Says on stderr what is wrong, then the usage; `value` NULL: there is none. EXIT_USAGE. */
int cli_wrong(const struct cli *c, const char *what, const char *value);

/*
 * The usage alone: on stdout for --help ('h'), EXIT_OK; on stderr for what getopt_long() refused,
 * and told of, EXIT_USAGE.
 */
int cli_usage(const struct cli *c, int option);

/* These return 0, or EXIT_USAGE after cli_wrong(). */

/* "text" or "json" for `option` ("--output"). *ret_json is left alone if it is neither. */
int cli_text_or_json(const struct cli *c, const char *option, const char *value, bool *ret_json);
/* A name that the API takes as a driver's: a DNS subdomain of at most 63 characters. */
int cli_driver_name(const struct cli *c, const char *value);
/* A Node object's name for `option`; NULL, as it wasn't given, is fine. */
int cli_node_name(const struct cli *c, const char *option, const char *value);
/* Whether argv ends before `next`. */
int cli_no_more(const struct cli *c, int argc, char **argv, int next);

/* Where a driver of this name keeps claim records by default. The caller frees it. */
char *cli_state_dir(const char *kubelet_root, const char *driver);

/*
 * The Node object's name of this machine where none was given: $NODE_NAME, else the host's name in
 * lower case, as the kubelet names its node by default. The caller frees it.
 */
char *cli_this_node(void);

/* Writes out what stdout holds back. False, and said on stderr, if not all of it could be. */
bool cli_written(const char *verb);
