/* SPDX-License-Identifier: Apache-2.0 */
/* What a claim asks for: its requests, and the configuration of class and claim. */
#include "driver/allocation.h"
#include "driver/explain.h"

const char *explain_address(const char *device, char buf[static PCI_ADDRESS_SIZE])
{
    return device_address(device, buf) ? buf : device;
}

const char *explain_plural(size_t n)
{
    return n == 1 ? "" : "s";
}

static void explain_class(const struct explain_input *in, const char *class, struct explanation *x)
{
    const json_t *found = class ? json_object_get(in->classes, class) : NULL;

    if (!found || !json_is_null(found))
        return;
    explain(x, EXPLAIN_MISSING, "NoClass", "There is no DeviceClass \"%s\".", class);
    explain_next(x, "kubectl get deviceclasses");
}

/* `o` has what `exactly` and an alternative have in common. */
static char *request_text(const json_t *o)
{
    const char *class = json_str_at(o, "deviceClassName");
    int64_t count = json_int_at(o, "count", 1);
    json_t *selector;
    struct strbuf b = {0};
    size_t n;

    if (streq_null(json_str_at(o, "allocationMode"), "All"))
        strbuf_printf(&b, "all devices of class %s", class ? class : "?");
    else
        strbuf_printf(&b, "%d device%s of class %s", (int)count, explain_plural((size_t)count),
                      class ? class : "?");
    json_array_foreach (json_object_get(o, "selectors"), n, selector) {
        const char *cel = json_str_at(selector, "cel.expression");

        strbuf_printf(&b, "%s %s", n ? " and" : ", where", cel ? cel : "?");
    }
    if (json_array_size(json_object_get(o, "tolerations")))
        strbuf_puts(&b, ", with tolerations");
    if (json_is_true(json_object_get(o, "adminAccess")))
        strbuf_puts(&b, ", with admin access");
    return strbuf_take(&b);
}

/* "0000-01-10-0": which alternative a request was given, "req/sub" in the results; NULL: none. */
static const char *given_alternative(const json_t *claim, const char *request)
{
    json_t *result;
    size_t n, len = strlen(request);

    json_array_foreach (json_at(claim, "status.allocation.devices.results"), n, result) {
        const char *of = json_str_at(result, "request");

        if (of && strncmp(of, request, len) == 0 && of[len] == '/')
            return of + len + 1;
    }
    return NULL;
}

static void explain_alternatives(const struct explain_input *in, struct explanation *x,
                                 const char *request, const json_t *list)
{
    const char *given = given_alternative(in->claim, request);
    struct strbuf b = {0};
    size_t n, choice = 0;
    json_t *alternative;

    json_array_foreach (list, n, alternative) {
        _cleanup_free_ char *text = request_text(alternative);
        const char *name = json_str_at(alternative, "name");

        strbuf_printf(&b, "%s%s (%s)", n ? ", else " : "", name ? name : "?", text);
        if (given && streq_null(name, given))
            choice = n + 1;
        explain_class(in, json_str_at(alternative, "deviceClassName"), x);
    }
    explain(x, EXPLAIN_ASKED, "Request", "Request \"%s\" asks for the first that can be had: %s.",
            request, b.s ? b.s : "nothing");
    strbuf_done(&b);
    if (choice)
        explain(x, EXPLAIN_ASKED, "Alternative", "It was given %s, its choice number %zu.", given,
                choice);
}

static void explain_requests(const struct explain_input *in, struct explanation *x)
{
    const json_t *claim = in->claim;
    json_t *request, *constraint;
    size_t n;

    json_array_foreach (json_at(claim, "spec.devices.requests"), n, request) {
        const char *name = json_str_at(request, "name");
        const json_t *exactly = json_object_get(request, "exactly"),
                     *list = json_object_get(request, "firstAvailable");

        if (json_array_size(list)) {
            explain_alternatives(in, x, name ? name : "?", list);
            continue;
        }
        _cleanup_free_ char *text = request_text(exactly);

        explain(x, EXPLAIN_ASKED, "Request", "Request \"%s\" asks for %s.", name ? name : "?",
                text);
        explain_class(in, json_str_at(exactly, "deviceClassName"), x);
    }
    json_array_foreach (json_at(claim, "spec.devices.constraints"), n, constraint) {
        const char *same = json_str_at(constraint, "matchAttribute"),
                   *distinct = json_str_at(constraint, "distinctAttribute");

        if (same || distinct)
            explain(x, EXPLAIN_ASKED, "Constraint", "Its devices must have %s %s.",
                    same ? "the same" : "each another", same ? same : distinct);
    }
}

static void add_item(struct strbuf *b, const char *fmt, ...) _printf_(2, 3);
static void add_item(struct strbuf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    _cleanup_free_ char *text = xvasprintf(fmt, ap);
    va_end(ap);
    strbuf_printf(b, "%s%s", b->len ? ", " : "", text);
}

void explain_settings(struct strbuf *b, const struct vf_settings *s, unsigned of_class)
{
    for (unsigned bit = 1; bit && bit <= s->set; bit <<= 1) {
        enum vf_setting setting = (enum vf_setting)bit;
        const char *path = vf_setting_path(setting), *bare = str_skip(path, "settings.");

        if (!(s->set & bit))
            continue;
        _cleanup_free_ char *value = vf_setting_text(s, setting);
        add_item(b, "%s %s%s", bare ? bare : path, value, of_class & bit ? " (by the class)" : "");
    }
}

static void add_interface(struct strbuf *b, const struct interface_request *i)
{
    char text[IPNET_TEXT_SIZE];

    if (i->name[0])
        add_item(b, "interface %s", i->name);
    if (i->mtu)
        add_item(b, "MTU %u in the pod", i->mtu);
    vec_foreach (a, &i->addrs)
        add_item(b, "address %s", ipnet_text(a, text));
    if (i->routes.n)
        add_item(b, "%zu route%s", i->routes.n, explain_plural(i->routes.n));
}

/* Class and claim configuration as it was merged for each device. */
static void explain_merged(const struct explain_input *in, struct explanation *x)
{
    _cleanup_(allocation_done) struct allocation a = {0};
    _cleanup_err_ struct err e = ERR_INIT;

    if (allocation_read(in->claim, in->driver, NULL, &a, &e) < 0) {
        explain(x, EXPLAIN_MISSING, "BadConfig", "The driver refuses it: %s.", err_text(&e));
        return;
    }
    vec_foreach (d, &a.devices) {
        char address[PCI_ADDRESS_SIZE];
        struct strbuf b = {0};

        explain_settings(&b, &d->asked.settings, d->asked.of_class.settings);
        add_interface(&b, &d->asked.interface);
        explain(x, EXPLAIN_ASKED, "Settings", "Of VF %s for request \"%s\": %s.",
                explain_address(d->device, address), d->subrequest ? d->subrequest : d->request,
                b.len ? b.s : "no settings, and its interface as it is");
        strbuf_done(&b);
    }
}

/* Before an allocation only the claim's own is known; a mistake in it is told all the same. */
static void explain_own(const struct explain_input *in, struct explanation *x)
{
    json_t *config;
    size_t n;

    json_array_foreach (json_at(in->claim, "spec.devices.config"), n, config) {
        _cleanup_(vf_request_done) struct vf_request asked = {0};
        _cleanup_free_ char *where = xasprintf("spec.devices.config[%zu]", n);
        _cleanup_err_ struct err e = ERR_INIT;
        struct strbuf b = {0};

        if (!streq_null(json_str_at(config, "opaque.driver"), in->driver))
            continue;
        if (vf_request_merge(&asked, FROM_CLAIM, json_at(config, "opaque.parameters"), where, &e) <
            0) {
            explain(x, EXPLAIN_MISSING, "BadConfig", "The driver will refuse it: %s.",
                    err_text(&e));
            continue;
        }
        explain_settings(&b, &asked.settings, 0);
        add_interface(&b, &asked.interface);
        explain(x, EXPLAIN_ASKED, "Settings", "The claim itself asks for: %s.",
                b.len ? b.s : "nothing");
        strbuf_done(&b);
    }
}

void explain_asked(const struct explain_input *in, struct explanation *x)
{
    explain_requests(in, x);
    if (json_is_object(json_at(in->claim, "status.allocation")))
        explain_merged(in, x);
    else
        explain_own(in, x);
}
