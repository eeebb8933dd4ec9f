/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "driver/cmd_inventory.h"
#include "driver/verbs.h"

#include <stdio.h>

const char driver_version[] = VERSION;

static int cmd_version(int argc, char **argv)
{
    (void)argc, (void)argv;
    printf("sriov-dra %s\n", driver_version);
    return EXIT_OK;
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *what;
} verbs[] = {
    {"node", cmd_node, "serve the kubelet and the runtime of this node, publish its VFs"},
    {"inventory", cmd_inventory, "show the SR-IOV hardware of this machine"},
    {"claims", cmd_claims, "list live claims, and what each still needs from the node driver"},
    {"explain", cmd_explain, "tell what was asked, done and missing for a pod, claim or VF"},
    {"provision", cmd_provision, "make VFs and set them up, before the kubelet starts"},
    {"version", cmd_version, "show the version"},
};

static void usage(FILE *to)
{
    fputs("usage: sriov-dra VERB [OPTION]...\n\n", to);
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        fprintf(to, "  %-10s  %s\n", verbs[i].name, verbs[i].what);
    fputs("\n`sriov-dra VERB --help` has the options.\n", to);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        usage(stderr);
        return EXIT_USAGE;
    }
    for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
        if (streq(argv[1], verbs[i].name))
            return verbs[i].run(argc - 1, argv + 1);
    if (streq(argv[1], "--help") || streq(argv[1], "-h")) {
        usage(stdout);
        return EXIT_OK;
    }
    fprintf(stderr, "sriov-dra: unknown verb: %s\n\n", argv[1]);
    usage(stderr);
    return EXIT_USAGE;
}
