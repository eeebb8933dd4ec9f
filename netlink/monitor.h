/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the main loop that hardware or interfaces changed: rtnetlink's link group and the kernel's
 * uevents (subsystems net and pci). It only says that something changed and, where known, what;
 * readers read the state itself, so a lost message costs one full re-read.
 */
#pragma once

#include "base/loop.h"

struct monitor;

struct monitor_event {
    enum {
        MONITOR_LINK,     /* interface `ifindex` appeared, changed or went */
        MONITOR_UEVENT,   /* `action` on `devpath` */
        MONITOR_OVERFLOW, /* messages were lost (ENOBUFS): re-read everything */
    } kind;
    int ifindex;
    bool gone;           /* RTM_DELLINK */
    const char *action;  /* "add", "remove", "bind", "change" ...; valid during the call */
    const char *devpath; /* "/devices/pci0000:00/..."; valid during the call */
    const char *subsystem;
};

typedef void monitor_fn(const struct monitor_event *ev, void *data);

/*
 * Watches the calling thread's network namespace. `fn` runs on the loop's thread and must not free
 * the monitor. What happened before the call isn't told: read the state after it.
 */
int monitor_new(struct loop *l, monitor_fn *fn, void *data, struct monitor **ret, struct err *e);
void monitor_free(struct monitor *m);
DEFINE_CLEANUP(struct monitor, monitor_free)
