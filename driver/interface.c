/* SPDX-License-Identifier: Apache-2.0 */
/* The `interface` object of requests: name, MTU, addresses and routes in the pod. */
#include "driver/request.h"

#include <ctype.h>
#include <linux/if_ether.h>
#include <linux/rtnetlink.h>

void interface_request_done(struct interface_request *i)
{
    free(i->addrs.v);
    free(i->routes.v);
    *i = (struct interface_request){0};
}

int interface_name_check(const char *name, const struct jpath *p, struct err *e)
{
    /* The first two are folders in /proc/sys/net/ipv4/conf, the last is in every namespace. */
    static const char *const taken[] = {"all", "default", "lo"};

    if (!*name)
        return jpath_err(p, e, "must not be empty");
    if (strlen(name) >= IFNAMSIZ)
        return jpath_err(p, e, "\"%s\" is longer than the %d characters that the kernel takes",
                         name, IFNAMSIZ - 1);
    for (const char *c = name; *c; c++)
        if (!isgraph((unsigned char)*c))
            return jpath_err(p, e, "has a space, a control character or one outside ASCII");
    /* dev_valid_name() refuses "/" and ":"; "%" makes a template of the name. */
    const char *bad = strpbrk(name, "/:%");
    if (bad)
        return jpath_err(p, e, "\"%s\": an interface name can't have \"%c\"", name, *bad);
    if (streq(name, ".") || streq(name, ".."))
        return jpath_err(p, e, "\"%s\" can't be an interface name", name);
    for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
        if (streq(name, taken[i]))
            return jpath_err(p, e, "\"%s\" has a meaning of its own in the kernel", name);
    return 0;
}

bool ipnet_same_host(const struct ipnet *a, const struct ipnet *b)
{
    return a->family == b->family && memcmp(a->b, b->b, a->family == AF_INET ? 4 : 16) == 0;
}

static uint32_t table_of(const struct route *r)
{
    return r->table ? r->table : RT_TABLE_MAIN;
}

bool route_same_key(const struct route *a, const struct route *b)
{
    return ipnet_equal(&a->to, &b->to) && a->metric == b->metric && table_of(a) == table_of(b);
}

/* Why no interface of a pod can have the address, or be reached by it; NULL if it can. */
static const char *unusable(const struct ipnet *a)
{
    if (a->family == AF_INET) {
        if (a->b[0] == 0)
            return "is in 0.0.0.0/8, which no host can have";
        if (a->b[0] == 127)
            return "is a loopback address";
        if (a->b[0] >= 240)
            return "is a broadcast or reserved address";
        if (a->b[0] >= 224)
            return "is a multicast address";
        return NULL;
    }
    struct in6_addr v6;
    memcpy(&v6, a->b, sizeof(v6));
    if (IN6_IS_ADDR_UNSPECIFIED(&v6))
        return "is the unspecified address";
    if (IN6_IS_ADDR_LOOPBACK(&v6))
        return "is the loopback address";
    if (IN6_IS_ADDR_MULTICAST(&v6))
        return "is a multicast address";
    if (IN6_IS_ADDR_V4MAPPED(&v6))
        return "is an IPv4 address in disguise";
    return NULL;
}

/* Whether all host bits of an IPv4 address are `ones`: then it names the network, not a host. */
static bool host_part_is(const struct ipnet *a, bool ones)
{
    for (unsigned bit = a->prefix; bit < 32; bit++)
        if (!!(a->b[bit / 8] & (0x80 >> bit % 8)) != ones)
            return false;
    return true;
}

static int parse_address(const json_t *v, const struct jpath *p, struct ipnet *ret, struct err *e)
{
    const char *text = json_c_str(v), *why;

    if (!text)
        return jpath_err(p, e, "must be a string, without NUL characters");
    if (ipnet_parse(text, true, ret) < 0)
        return jpath_err(p, e, "\"%s\" is no address with prefix length, such as 192.0.2.10/24",
                         text);
    if ((why = unusable(ret)))
        return jpath_err(p, e, "\"%s\" %s", text, why);
    if (ret->prefix == 0)
        return jpath_err(p, e, "\"%s\": prefix length 0 would make every address a neighbour",
                         text);
    if (ret->family == AF_INET && ret->prefix <= 30 && host_part_is(ret, false))
        return jpath_err(p, e, "\"%s\" is the address of the network, not of a host in it", text);
    if (ret->family == AF_INET && ret->prefix <= 30 && host_part_is(ret, true))
        return jpath_err(p, e, "\"%s\" is the broadcast address of its network", text);
    return 0;
}

static int parse_addresses(const json_t *o, const struct jpath *p, struct interface_request *i,
                           struct err *e)
{
    struct jpath list_at = {.up = p, .key = "addresses"};
    json_t *list, *v;
    size_t n;
    int r = json_get_array(o, p, list_at.key, &list, e);

    if (r <= 0)
        return r;
    if (json_array_size(list) > INTERFACE_ADDRS_MAX)
        return jpath_err(&list_at, e, "has %zu addresses, %d at most", json_array_size(list),
                         INTERFACE_ADDRS_MAX);
    json_array_foreach (list, n, v) {
        struct jpath at = {.up = &list_at, .index = n};
        struct ipnet a;

        if ((r = parse_address(v, &at, &a, e)) < 0)
            return r;
        for (size_t k = 0; k < i->addrs.n; k++)
            if (ipnet_same_host(&i->addrs.v[k], &a))
                return jpath_err(&at, e, "\"%s\" is in the list already, at [%zu]",
                                 json_string_value(v), k);
        *VEC_PUSH(&i->addrs) = a;
    }
    return 0;
}

static int parse_gateway(const json_t *o, const struct jpath *p, bool is_default, struct route *rt,
                         struct err *e)
{
    struct jpath at = {.up = p, .key = "via"};
    const char *text, *why;
    int r = json_get_str(o, p, at.key, &text, e);

    if (r < 0)
        return r;
    if (r == 0) {
        if (is_default)
            return jpath_err(&at, e, "must be given for \"default\", or write 0.0.0.0/0 or ::/0");
        return 0;
    }
    if (strchr(text, '/') || ipnet_parse(text, false, &rt->via) < 0)
        return jpath_err(&at, e, "\"%s\" is no address, such as 192.0.2.1", text);
    if ((why = unusable(&rt->via)))
        return jpath_err(&at, e, "\"%s\" %s", text, why);
    if (is_default)
        rt->to.family = rt->via.family;
    if (rt->to.family != rt->via.family)
        return jpath_err(&at, e, "is %s, but the route is %s",
                         rt->via.family == AF_INET ? "IPv4" : "IPv6",
                         rt->to.family == AF_INET ? "IPv4" : "IPv6");
    rt->has_via = true;
    return 0;
}

static int parse_route(const json_t *o, const struct jpath *p, bool strict, struct route *ret,
                       struct err *e)
{
    static const char *const known[] = {"to", "via", "metric", "table", NULL};
    struct jpath to_at = {.up = p, .key = "to"};
    struct route rt = {0};
    const char *to;
    int64_t n = 0;
    int r;

    if (!json_is_object(o))
        return jpath_err(p, e, "must be an object");
    if (strict && (r = json_only(o, p, known, e)) < 0)
        return r;
    if ((r = json_get_str(o, p, "to", &to, e)) < 0)
        return r;
    if (r == 0)
        return jpath_err(&to_at, e, "must be given: a network, or \"default\"");
    bool is_default = streq(to, "default");
    if (!is_default) {
        if (ipnet_parse(to, true, &rt.to) < 0)
            return jpath_err(&to_at, e, "\"%s\" is no network, such as 198.51.100.0/24", to);
        if (ipnet_has_host_bits(&rt.to))
            return jpath_err(&to_at, e,
                             "\"%s\" has bits behind its prefix: it is an address, not "
                             "a network",
                             to);
    }
    if ((r = parse_gateway(o, p, is_default, &rt, e)) < 0)
        return r;
    if ((r = json_get_int(o, p, "metric", 0, UINT32_MAX, &n, e)) < 0)
        return r;
    rt.metric = (uint32_t)n;
    n = 0;
    if ((r = json_get_int(o, p, "table", 0, UINT32_MAX, &n, e)) < 0)
        return r;
    rt.table = (uint32_t)n;
    *ret = rt;
    return 0;
}

static int parse_routes(const json_t *o, const struct jpath *p, bool strict,
                        struct interface_request *i, struct err *e)
{
    struct jpath list_at = {.up = p, .key = "routes"};
    json_t *list, *v;
    size_t n;
    int r = json_get_array(o, p, list_at.key, &list, e);

    if (r <= 0)
        return r;
    if (json_array_size(list) > INTERFACE_ROUTES_MAX)
        return jpath_err(&list_at, e, "has %zu routes, %d at most", json_array_size(list),
                         INTERFACE_ROUTES_MAX);
    json_array_foreach (list, n, v) {
        struct jpath at = {.up = &list_at, .index = n};
        struct route rt;

        if ((r = parse_route(v, &at, strict, &rt, e)) < 0)
            return r;
        for (size_t k = 0; k < i->routes.n; k++)
            if (route_same_key(&i->routes.v[k], &rt))
                return jpath_err(&at, e, "has network, metric and table of [%zu]", k);
        *VEC_PUSH(&i->routes) = rt;
    }
    return 0;
}

static int parse_fields(const json_t *o, const struct jpath *p, bool strict,
                        struct interface_request *i, struct err *e)
{
    static const char *const known[] = {"name", "mtu", "addresses", "routes", "sysctls", NULL};
    struct jpath name_at = {.up = p, .key = "name"}, sysctls_at = {.up = p, .key = "sysctls"};
    const char *name;
    int64_t mtu = 0;
    json_t *sysctls;
    int r;

    if (!json_is_object(o))
        return jpath_err(p, e, "must be an object");
    if (strict && (r = json_only(o, p, known, e)) < 0)
        return r;
    if ((r = json_get_str(o, p, "name", &name, e)) < 0)
        return r;
    if (r > 0) {
        if ((r = interface_name_check(name, &name_at, e)) < 0)
            return r;
        strcpy(i->name, name);
    }
    if ((r = json_get_int(o, p, "mtu", ETH_MIN_MTU, ETH_MAX_MTU, &mtu, e)) < 0)
        return r;
    i->mtu = (uint32_t)mtu;
    if ((r = json_get_object(o, p, "sysctls", &sysctls, e)) < 0)
        return r;
    if (r > 0 && strict && json_object_size(sysctls) > 0)
        return jpath_err(&sysctls_at, e, "not supported by this version yet");
    if ((r = parse_addresses(o, p, i, e)) < 0)
        return r;
    return parse_routes(o, p, strict, i, e);
}

int interface_request_parse(const json_t *o, const struct jpath *p, bool strict,
                            struct interface_request *ret, struct err *e)
{
    _cleanup_(interface_request_done) struct interface_request i = {0};
    int r = parse_fields(o, p, strict, &i, e);

    if (r < 0)
        return r;
    *ret = i;
    i = (struct interface_request){0};
    return 0;
}

static json_t *route_json(const struct route *rt)
{
    json_t *o = json_object();
    char text[IPNET_TEXT_SIZE];

    json_set_str(o, "to", ipnet_text(&rt->to, text));
    if (rt->has_via) {
        ipnet_text(&rt->via, text);
        *strchrnul(text, '/') = '\0';
        json_set_str(o, "via", text);
    }
    if (rt->metric)
        json_object_set_new(o, "metric", json_integer(rt->metric));
    if (rt->table)
        json_object_set_new(o, "table", json_integer(rt->table));
    return o;
}

json_t *interface_request_json(const struct interface_request *i)
{
    json_t *o = json_object();
    char text[IPNET_TEXT_SIZE];

    if (i->name[0])
        json_set_str(o, "name", i->name);
    if (i->mtu)
        json_object_set_new(o, "mtu", json_integer(i->mtu));
    if (i->addrs.n) {
        json_t *list = json_array();

        vec_foreach (a, &i->addrs)
            json_array_append_new(list, json_string(ipnet_text(a, text)));
        json_object_set_new(o, "addresses", list);
    }
    if (i->routes.n) {
        json_t *list = json_array();

        vec_foreach (rt, &i->routes)
            json_array_append_new(list, route_json(rt));
        json_object_set_new(o, "routes", list);
    }
    return o;
}
