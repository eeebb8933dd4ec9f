/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parsers of netlink/. An input that begins with "u" goes to the one of uevents, any other is
 * the body of an RTM_NEWLINK.
 */
#include "base/str.h"
#include "netlink/link.h"
#include "netlink/uevent.h"
#include "tests/fuzz/fuzz.h"

#include <linux/rtnetlink.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct uevent ev;
    struct link l;

    if (len > 0 && data[0] == 'u') {
        (void)uevent_parse((const char *)data + 1, len - 1, &ev);
        return 0;
    }
    struct nlmsghdr *h = xmalloc(sizeof(*h) + len);
    *h = (struct nlmsghdr){.nlmsg_len = (uint32_t)(sizeof(*h) + len), .nlmsg_type = RTM_NEWLINK};
    if (len)
        memcpy(h + 1, data, len);
    if (link_parse(h, &l, NULL) == 0) {
        if (!memchr(l.name, '\0', sizeof(l.name)) ||
            !memchr(l.parent_dev, '\0', sizeof(l.parent_dev)))
            abort();
        link_done(&l);
    }
    free(h);
    return 0;
}
