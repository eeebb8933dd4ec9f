/* SPDX-License-Identifier: Apache-2.0 */
/* What each device of a claim gets, or why the claim is refused. */
#include "driver/contract.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <stdio.h>

#define IPV6_MIN_MTU 1280 /* below it the kernel takes IPv6 off the interface */

void device_name(const char *pci_address, char ret[static DEVICE_NAME_SIZE])
{
    size_t i = 0;

    for (; pci_address[i] && i < DEVICE_NAME_SIZE - 1; i++)
        ret[i] = strchr(":.", pci_address[i]) ? '-' : pci_address[i];
    ret[i] = '\0';
}

bool device_address(const char *name, char ret[static PCI_ADDRESS_SIZE])
{
    char text[PCI_ADDRESS_SIZE], canonical[PCI_ADDRESS_SIZE], again[DEVICE_NAME_SIZE];
    size_t len = strlen(name);

    if (len < 3 || len >= sizeof(text))
        return false;
    for (size_t i = 0; i <= len; i++)
        text[i] = name[i] == '-' ? ':' : name[i];
    text[len - 2] = '.';
    if (!pci_address_parse(text, canonical))
        return false;
    /* One name for a VF: another spelling (upper case, a zero in front) isn't it. */
    device_name(canonical, again);
    if (!streq(again, name))
        return false;
    memcpy(ret, canonical, sizeof(canonical));
    return true;
}

bool contract_lacks_copy(const struct allocated_device *d, enum mode mode)
{
    switch (mode) {
    case MODE_PREPARE:
        return false;
    case MODE_DEFER_CLEANUP:
        return !d->skip_unprepare;
    case MODE_SKIP:
        return !d->skip_prepare || !d->skip_unprepare;
    }
    return false;
}

/* What is known of the device that is decided on. */
struct subject {
    const struct allocated_device *asked;
    const struct pool *pool;
    const struct pf *pf;
    const struct vf *vf;
};

static int refuse(struct err *e, const char *fmt, ...) _printf_(2, 3);

static int refuse(struct err *e, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *text = xvasprintf(fmt, ap);
    va_end(ap);
    return err_set(e, ERR_USER, -EINVAL, "%s", text);
}

static const char *pf_title(const struct pf *pf)
{
    return pf->netdev ? pf->netdev : pf->address;
}

static int find_subject(const struct contract_input *in, const struct allocated_device *d,
                        struct subject *ret, struct err *e)
{
    struct subject s = {.asked = d};
    char address[PCI_ADDRESS_SIZE];

    if (!streq(d->pool, in->pool_name))
        return refuse(e, "is of pool %s, but this node's is %s", d->pool, in->pool_name);
    if (d->admin_access)
        return refuse(e, "admin access can't be given: it must not touch the VF, which another "
                         "claim may be using. Ask for the device without adminAccess");
    if (!device_address(d->device, address))
        return err_set(e, ERR_PERMANENT, -ENODEV, "the name isn't one of this driver's devices");
    s.vf = inventory_find_vf(in->inv, address, &s.pf);
    if (!s.vf)
        return err_set(e, ERR_PERMANENT, -ENODEV,
                       "there is no VF at %s on this node (any more). Delete the pod so that it is "
                       "given another device",
                       address);
    s.pool = pools_find(in->pools, in->node, in->labels, s.pf, s.vf);
    if (!s.pool)
        return err_set(e, ERR_PERMANENT, -ENODEV,
                       "VF %s (index %u of %s) is in no VirtualFunctionPool of this node (any "
                       "more). Put it back into one, or delete the pod so that it is given another "
                       "device",
                       address, s.vf->index, pf_title(s.pf));
    *ret = s;
    return 0;
}

/* Rule 5: what others provisioned is taken as it is, or not at all. */
static int check_preprovisioned(const struct subject *s, struct err *e)
{
    const struct vf_settings *asked = &s->asked->asked.settings, *have = &s->pool->settings;

    for (unsigned bit = 1; bit && bit <= asked->set; bit <<= 1) {
        enum vf_setting setting = (enum vf_setting)bit;

        if (!(asked->set & bit) || ((have->set & bit) && vf_setting_equal(asked, have, setting)))
            continue;
        _cleanup_free_ char *want = vf_setting_text(asked, setting);
        _cleanup_free_ char *held =
            have->set & bit ? vf_setting_text(have, setting) : xstrdup("not set");
        return refuse(e,
                      "%s %s is asked for, but VF %s (index %u of %s) was provisioned beforehand "
                      "and pool %s says %s; this driver doesn't change it. Use a DeviceClass whose "
                      "devices have this setting, or one that selects mode \"Prepare\", where it "
                      "is set for each claim",
                      vf_setting_path(setting), want, s->vf->address, s->vf->index, pf_title(s->pf),
                      s->pool->name, held);
    }
    return 0;
}

/*
 * A VF was promised as its attributes said, and the pool that said it is another by now. What it
 * said isn't kept anywhere, so what the claim relies on can't be given back to it.
 */
static int check_mode_of_copy(const struct subject *s, struct err *e)
{
    if (!s->asked->skip_prepare || !mode_sets_up(s->pool->mode))
        return 0;
    return refuse(e,
                  "VF %s (index %u of %s) was allocated as one that is set up beforehand, and its "
                  "pool %s has mode %s by now: what was promised of it can't be told any more. "
                  "Delete the pod so that its claim is allocated anew",
                  s->vf->address, s->vf->index, pf_title(s->pf), s->pool->name,
                  mode_text(s->pool->mode));
}

/* With `attach: None` nobody would carry these out. */
static int check_not_attached(const struct subject *s, struct err *e)
{
    const struct interface_request *i = &s->asked->asked.interface;
    const char *field = i->name[0]    ? "name"
                        : i->mtu      ? "mtu"
                        : i->addrs.n  ? "addresses"
                        : i->routes.n ? "routes"
                                      : NULL;

    if (!field)
        return 0;
    return refuse(e,
                  "interface.%s is asked for, but the VFs of pool %s are not moved into pods "
                  "(attach: None). Leave the interface part away, or use a DeviceClass whose "
                  "devices have attach \"NRI\"",
                  field, s->pool->name);
}

static bool in_network(const struct ipnet *net, const struct ipnet *host)
{
    if (net->family != host->family)
        return false;
    for (unsigned bit = 0; bit < net->prefix; bit++)
        if ((net->b[bit / 8] ^ host->b[bit / 8]) & (0x80 >> bit % 8))
            return false;
    return true;
}

/* The kernel takes a gateway only if it is a neighbour, by an address or by an on-link route. */
static bool is_neighbour(const struct interface_request *i, const struct ipnet *host)
{
    if (host->family == AF_INET6 && host->b[0] == 0xfe && (host->b[1] & 0xc0) == 0x80)
        return true;
    vec_foreach (a, &i->addrs)
        if (in_network(a, host))
            return true;
    vec_foreach (r, &i->routes)
        if (!r->has_via && in_network(&r->to, host))
            return true;
    return false;
}

static int check_routes(const struct interface_request *i, struct err *e)
{
    vec_foreach (r, &i->routes) {
        char to[IPNET_TEXT_SIZE], via[IPNET_TEXT_SIZE];

        if (!r->has_via)
            continue;
        ipnet_text(&r->to, to);
        ipnet_text(&r->via, via);
        *strchrnul(via, '/') = '\0';
        if (!is_neighbour(i, &r->via))
            return refuse(e,
                          "interface.routes: the gateway %s of the route to %s can't be reached: "
                          "it is in the network of none of the interface's addresses",
                          via, to);
        vec_foreach (a, &i->addrs)
            if (ipnet_same_host(a, &r->via))
                return refuse(e,
                              "interface.routes: the gateway %s of the route to %s is the "
                              "interface's own address",
                              via, to);
    }
    return 0;
}

static bool has_ipv6(const struct interface_request *i)
{
    vec_foreach (a, &i->addrs)
        if (a->family == AF_INET6)
            return true;
    vec_foreach (r, &i->routes)
        if (r->to.family == AF_INET6)
            return true;
    return false;
}

static int check_mtu(const struct subject *s, const struct vf_settings *settings, struct err *e)
{
    const struct interface_request *i = &s->asked->asked.interface;
    bool known = settings->set & VF_SET_MTU;
    uint32_t max = known ? settings->mtu : s->pf->mtu; /* 0: not known either */
    uint32_t mtu = i->mtu ? i->mtu : known ? settings->mtu : 0;

    if (i->mtu && max && i->mtu > max)
        return refuse(e, "interface.mtu %u is above the %u that %s %s has", i->mtu, max,
                      known ? "VF" : "its PF", known ? s->vf->address : pf_title(s->pf));
    if (mtu && mtu < IPV6_MIN_MTU && has_ipv6(i))
        return refuse(e,
                      "%s %u is below the %d that IPv6 needs, and interface has IPv6 addresses "
                      "or routes",
                      i->mtu ? "interface.mtu" : "settings.mtu", mtu, IPV6_MIN_MTU);
    return 0;
}

static void fill_grant(const struct subject *s, const struct vf_settings *settings, struct grant *g)
{
    const struct allocated_device *d = s->asked;

    g->request = xstrdup(d->request);
    g->pool = xstrdup(d->pool);
    g->device = xstrdup(d->device);
    g->share_id = xstrdup(d->share_id);
    if (d->choices) {
        g->alternative = xstrdup(d->subrequest + strlen(d->request) + 1);
        g->choice = d->choice;
        g->choices = d->choices;
    }
    memcpy(g->vf_address, s->vf->address, sizeof(g->vf_address));
    memcpy(g->pf_address, s->pf->address, sizeof(g->pf_address));
    g->index = s->vf->index;
    g->pool_document = xstrdup(s->pool->name);
    g->mode = s->pool->mode;
    g->set_up_by = mode_sets_up(g->mode) ? PROVISIONED_BY_DRIVER : s->pool->by;
    g->attach = s->pool->attach;
    g->may_raise_pf = s->pool->by == PROVISIONED_BY_DRIVER;
    g->settings = *settings;
    interface_request_copy(&d->asked.interface, &g->interface);
}

static int decide(const struct contract_input *in, const struct allocated_device *d,
                  struct grant *g, struct err *e)
{
    struct vf_settings settings;
    struct subject s = {0};
    int r = find_subject(in, d, &s, e);

    if (r < 0)
        return r;
    if ((r = check_mode_of_copy(&s, e)) < 0)
        return r;
    settings = s.pool->settings;
    switch (s.pool->mode) {
    case MODE_PREPARE:
    case MODE_DEFER_CLEANUP:
        vf_settings_merge(&settings, &d->asked.settings);
        break;
    case MODE_SKIP:
        if ((r = check_preprovisioned(&s, e)) < 0)
            return r;
        break;
    }
    if (s.pool->attach == ATTACH_NONE)
        r = check_not_attached(&s, e);
    if (r == 0)
        r = check_mtu(&s, &settings, e);
    if (r == 0)
        r = check_routes(&d->asked.interface, e);
    if (r == 0)
        fill_grant(&s, &settings, g);
    return r;
}

/* A request's count multiplies what its configuration asks for, and some things exist once. */
static int check_twice(const struct grant *a, const struct grant *b, struct err *e)
{
    char mac[MAC_TEXT_SIZE], ip[IPNET_TEXT_SIZE];
    const char *what = NULL, *value = NULL;

    if (streq(a->device, b->device))
        return err_set(e, ERR_PERMANENT, -EINVAL, "device %s is allocated twice", a->device);
    if (a->interface.name[0] && streq(a->interface.name, b->interface.name)) {
        what = "interface.name";
        value = a->interface.name;
    } else if ((a->settings.set & b->settings.set & VF_SET_MAC) &&
               mac_equal(&a->settings.mac, &b->settings.mac)) {
        what = "settings.macAddress";
        value = mac_text(&a->settings.mac, mac);
    } else {
        vec_foreach (x, &a->interface.addrs)
            vec_foreach (y, &b->interface.addrs)
                if (ipnet_same_host(x, y)) {
                    what = "interface.addresses";
                    value = ipnet_text(x, ip);
                }
    }
    if (!what)
        return 0;
    return refuse(e,
                  "%s %s would be used twice, for device %s (request %s) and device %s (request "
                  "%s). Use requests with count 1 and configuration of their own",
                  what, value, a->device, a->request, b->device, b->request);
}

static int decide_all(const struct contract_input *in, const struct allocation *a, grant_vec *out,
                      struct err *e)
{
    int r;

    vec_foreach (d, &a->devices) {
        struct grant *g = VEC_PUSH(out);

        if ((r = decide(in, d, g, e)) < 0)
            return err_prefix(e, r, "claim %s/%s: request %s: device %s", a->namespace, a->name,
                              d->subrequest ? d->subrequest : d->request, d->device);
        for (struct grant *other = out->v; other < g; other++)
            if ((r = check_twice(other, g, e)) < 0)
                return err_prefix(e, r, "claim %s/%s", a->namespace, a->name);
    }
    return 0;
}

int contract_decide(const struct contract_input *in, const struct allocation *a, grant_vec *ret,
                    struct err *e)
{
    _cleanup_(grant_vec_done) grant_vec grants = {0};
    int r = decide_all(in, a, &grants, e);

    if (r < 0)
        return r;
    *ret = grants;
    grants = (grant_vec){0};
    return 0;
}
