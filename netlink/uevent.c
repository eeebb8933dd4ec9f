/* SPDX-License-Identifier: Apache-2.0 */
#include "netlink/uevent.h"

#include "base/str.h"

#include <errno.h>

int uevent_parse(const char *data, size_t len, struct uevent *ret)
{
    struct uevent ev = {0};
    const struct {
        const char *key, **value;
    } wanted[] = {
        {"ACTION=", &ev.action},
        {"DEVPATH=", &ev.devpath},
        {"SUBSYSTEM=", &ev.subsystem},
    };

    /* With its end known to be a NUL every text in it ends. udevd's own begin with "libudev". */
    if (len == 0 || data[len - 1] != '\0' || !strchr(data, '@'))
        return -EBADMSG;
    for (const char *p = data + strlen(data) + 1; p < data + len; p += strlen(p) + 1)
        for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
            const char *value = str_skip(p, wanted[i].key);

            if (value && !*wanted[i].value)
                *wanted[i].value = value;
        }
    if (!ev.action || !ev.devpath || !ev.subsystem)
        return -EBADMSG;
    *ret = ev;
    return 0;
}
