/* SPDX-License-Identifier: Apache-2.0 */
#include "netlink/mac.h"

#include <errno.h>
#include <stdio.h>

static int nibble(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int mac_parse(const char *text, struct mac *ret)
{
    struct mac m;

    if (strlen(text) != MAC_TEXT_SIZE - 1 || (text[2] != ':' && text[2] != '-'))
        return -EINVAL;
    for (size_t i = 0; i < sizeof(m.b); i++) {
        const char *group = text + 3 * i;
        int high = nibble(group[0]), low = nibble(group[1]);

        if (high < 0 || low < 0 || (i < sizeof(m.b) - 1 && group[2] != text[2]))
            return -EINVAL;
        m.b[i] = (uint8_t)(high << 4 | low);
    }
    *ret = m;
    return 0;
}

const char *mac_text(const struct mac *m, char buf[static MAC_TEXT_SIZE])
{
    snprintf(buf, MAC_TEXT_SIZE, "%02x:%02x:%02x:%02x:%02x:%02x", m->b[0], m->b[1], m->b[2],
             m->b[3], m->b[4], m->b[5]);
    return buf;
}
