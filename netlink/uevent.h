/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's uevent messages: "ACTION@DEVPATH" and KEY=VALUE texts, each with its NUL. */
#pragma once

#include <stddef.h>

struct uevent { /* points into the message */
    const char *action, *devpath, *subsystem;
};

/* Foreign bytes. -EBADMSG if it is no uevent of the kernel or lacks one of the three. */
int uevent_parse(const char *data, size_t len, struct uevent *ret);
