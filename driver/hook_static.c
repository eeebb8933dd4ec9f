/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of the hook where it is linked without shared libraries: what of glibc it can do without.
 *
 * Objects of libnl that it needs also have functions, unused here, that look names up; with glibc's
 * own a static program would have NSS in it, which wants shared libraries at run time after all.
 * And glibc's assert() brings in translations, a quarter of the program.
 */
#include <netdb.h>
#include <stddef.h>

struct protoent *getprotobyname(const char *name)
{
    (void)name;
    return NULL;
}

struct protoent *getprotobynumber(int proto)
{
    (void)proto;
    return NULL;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **ret)
{
    (void)node, (void)service, (void)hints, (void)ret;
    return EAI_FAIL;
}

void freeaddrinfo(struct addrinfo *a)
{
    (void)a;
}

int getnameinfo(const struct sockaddr *addr, socklen_t addr_len, char *host, socklen_t host_len,
                char *service, socklen_t service_len, int flags)
{
    (void)addr, (void)addr_len, (void)host, (void)host_len, (void)service, (void)service_len;
    (void)flags;
    return EAI_FAIL;
}
