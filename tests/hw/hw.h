/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two VFs under test, checks that end the program, namespaces, pings. The same tests run on
 * hardware (shell.c) and on the fake kernel (tests/unit/fakekernel/shell.c).
 */
#pragma once

#include "sriov/attach.h"
#include "sriov/inventory.h"
#include "sriov/plan.h"

#include <stdio.h>

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            hw_fail(__FILE__, __LINE__, #cond, NULL);                                              \
    } while (0)

#define CHECK_OK(call, e)                                                                          \
    do {                                                                                           \
        if ((call) < 0)                                                                            \
            hw_fail(__FILE__, __LINE__, #call, e);                                                 \
    } while (0)

void hw_fail(const char *file, int line, const char *what, const struct err *e)
    __attribute__((noreturn));

/* One VF under test and what it was at the start. */
struct subject {
    char pf_address[PCI_ADDRESS_SIZE], pf_name[IFNAMSIZ];
    struct vf_original o;
    const char *netns; /* the namespace that it is attached to */
};

struct lab {
    struct sysroot root;
    struct nl_transport *nl;
    struct hw hw;
    struct subject a, b;
    bool on_hardware;
};

/* False if this machine has no two PFs with a VF each. Undoes what an earlier run left. */
bool lab_find(struct lab *l);

/* Where the tests run: on hardware, or on a fake kernel that is made for them. */
void lab_open(struct lab *l);
void lab_close(void);
/* sysfs is below it. */
const char *lab_root(void);
/* Carries a command out; its exit status. */
int shell(const char *command);

/* The same for a formatted command. */
int run(const char *fmt, ...) _printf_(1, 2);
/* The same, and ends the program if it fails. */
void must(const char *fmt, ...) _printf_(1, 2);

struct vf_state state_of(struct lab *l, const struct subject *s);

/* Opens a namespace of that name. */
int netns_fd(const struct lab *l, const char *netns);

/* Makes the namespace and attaches with one address; then 192.0.2.`host`/24. */
void attach(struct lab *l, struct subject *s, const char *netns, unsigned host);
void detach(struct lab *l, struct subject *s);

/* Whether a's namespace reaches b's within 15 s (a VF made while its PF was down takes 5); whether
 * it doesn't, tried for a second. */
bool reaches(unsigned host, const char *from);
bool is_deaf(unsigned host, const char *from);

/* Everything of the VF is as it was at the start: both sides, by reading and not by our records. */
void check_original(struct lab *l, const struct subject *s);

/* A transport that ends the process at the n-th request (from 1), before or after it is sent. */
struct nl_transport *killer_new(struct nl_transport *inner, unsigned n, bool after);
