/* SPDX-License-Identifier: Apache-2.0 */
/* IP addresses and networks as text and as values. */
#include "netlink/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

static unsigned family_bits(uint8_t family)
{
    return family == AF_INET ? 32 : 128;
}

int ipnet_parse(const char *text, bool need_prefix, struct ipnet *ret)
{
    struct ipnet n = {0};
    char address[INET6_ADDRSTRLEN];
    const char *slash = strchr(text, '/');
    size_t len = slash ? (size_t)(slash - text) : strlen(text);
    uint64_t prefix;

    if ((!slash && need_prefix) || len >= sizeof(address))
        return -EINVAL;
    memcpy(address, text, len);
    address[len] = '\0';
    if (inet_pton(AF_INET, address, n.b) == 1)
        n.family = AF_INET;
    else if (inet_pton(AF_INET6, address, n.b) == 1)
        n.family = AF_INET6;
    else
        return -EINVAL;
    prefix = family_bits(n.family);
    /* "/024" isn't written by anybody who means 24 */
    if (slash && ((slash[1] == '0' && slash[2]) || parse_u64(slash + 1, 10, prefix, &prefix) < 0))
        return -EINVAL;
    n.prefix = (uint8_t)prefix;
    *ret = n;
    return 0;
}

const char *ipnet_text(const struct ipnet *n, char buf[static IPNET_TEXT_SIZE])
{
    if (!inet_ntop(n->family, n->b, buf, INET6_ADDRSTRLEN))
        strcpy(buf, "?");
    size_t len = strlen(buf);
    snprintf(buf + len, IPNET_TEXT_SIZE - len, "/%u", n->prefix);
    return buf;
}

bool ipnet_equal(const struct ipnet *a, const struct ipnet *b)
{
    return a->family == b->family && a->prefix == b->prefix &&
           memcmp(a->b, b->b, family_bits(a->family) / 8) == 0;
}

bool ipnet_has_host_bits(const struct ipnet *n)
{
    for (unsigned bit = n->prefix; bit < family_bits(n->family); bit++)
        if (n->b[bit / 8] & (0x80 >> bit % 8))
            return true;
    return false;
}

bool ipnet_is_link_local(const struct ipnet *n)
{
    return n->family == AF_INET6 && n->b[0] == 0xfe && (n->b[1] & 0xc0) == 0x80;
}
