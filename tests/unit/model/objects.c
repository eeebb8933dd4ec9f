/* SPDX-License-Identifier: Apache-2.0 */
/* The model's pods, claims and Node as the API server has them. */
#include "tests/unit/model/model.h"

#include <stdio.h>

json_t *pod_json(const struct m_pod *p)
{
    json_t *claims = json_array();

    for (unsigned i = 0; i < p->n_claims; i++)
        json_array_append_new(claims, json_pack("{s:s, s:s}", "name", i ? "b" : "a",
                                                "resourceClaimName", m.claims[p->claims[i]].name));
    return json_pack("{s:{s:s, s:s, s:s}, s:{s:o, s:b}, s:{s:s}}", "metadata", "namespace",
                     "default", "name", p->name, "uid", p->uid, "spec", "resourceClaims", claims,
                     "hostNetwork", p->host_network, "status", "phase",
                     p->finished ? "Succeeded" : "Pending");
}

static json_t *parameters(const struct vf_settings *s, const struct wish *w)
{
    json_t *doc = json_pack("{s:s, s:s}", "apiVersion", "sriov-dra.dev/v1alpha1", "kind",
                            "VirtualFunctionConfig");
    json_t *settings = vf_settings_json(s), *interface = json_object();

    if (json_object_size(settings))
        json_object_set(doc, "settings", settings);
    json_decref(settings);
    if (w && w->name[0])
        json_object_set_new(interface, "name", json_string(w->name));
    if (w && w->mtu)
        json_object_set_new(interface, "mtu", json_integer(w->mtu));
    if (w && w->addr) {
        char text[32];

        snprintf(text, sizeof(text), "192.0.2.%u/24", w->addr);
        json_object_set_new(interface, "addresses", json_pack("[s]", text));
    }
    if (w && w->addr && w->route)
        json_object_set_new(
            interface, "routes",
            json_pack("[{s:s, s:s}]", "to", "198.51.100.0/24", "via", "192.0.2.254"));
    if (json_object_size(interface))
        json_object_set(doc, "interface", interface);
    json_decref(interface);
    return doc;
}

static json_t *config_json(const char *source, const char *request, json_t *params)
{
    return json_pack("{s:s, s:[s], s:{s:s, s:o}}", "source", source, "requests", request, "opaque",
                     "driver", DRIVER_NAME, "parameters", params);
}

static json_t *result_json(const struct m_device *d, const char *request)
{
    static const char *const lists[] = {NULL, "NodeUnprepareResources", "*"};
    char device[DEVICE_NAME_SIZE];

    device_name(m.k->pfs[d->vf.pf].vfs[d->vf.vf].address, device);
    json_t *r = json_pack("{s:s, s:s, s:s, s:s}", "request", request, "driver", DRIVER_NAME, "pool",
                          NODE_NAME, "device", device);
    if (lists[d->frozen])
        json_object_set_new(r, "skipNodeOperations", json_pack("[s]", lists[d->frozen]));
    return r;
}

static json_t *reserved_json(const struct m_claim *cl)
{
    json_t *list = json_array();

    for (unsigned p = 0; p < PODS; p++)
        if (cl->reserved & 1u << p)
            json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "resource", "pods", "name",
                                                  m.pods[p].name, "uid", m.pods[p].uid));
    return list;
}

json_t *claim_json(const struct m_claim *cl)
{
    json_t *status = json_object();

    if (cl->allocated) {
        json_t *results = json_array(), *config = json_array();

        for (unsigned i = 0; i < cl->n_devs; i++) {
            const struct m_device *d = &cl->dev[i];
            const char *request = i ? "two" : "one";

            json_array_append_new(results, result_json(d, request));
            json_array_append_new(
                config, config_json("FromClass", request, parameters(&d->wish.class, NULL)));
            json_array_append_new(
                config, config_json("FromClaim", request, parameters(&d->wish.claim, &d->wish)));
        }
        json_object_set_new(
            status, "allocation",
            json_pack("{s:{s:o, s:o}}", "devices", "results", results, "config", config));
    }
    json_object_set_new(status, "reservedFor", reserved_json(cl));
    if (cl->told)
        json_object_set(status, "devices", cl->told);
    return json_pack("{s:{s:s, s:s, s:s}, s:o}", "metadata", "namespace", "default", "name",
                     cl->name, "uid", cl->uid, "status", status);
}

json_t *node_json(void)
{
    json_t *features = json_array();

    if (m.declared)
        json_array_append_new(features, json_string("DRAOptionalNodeOperations"));
    return json_pack("{s:{s:s, s:s, s:{}}, s:{s:o}}", "metadata", "name", NODE_NAME, "uid",
                     "node-uid", "labels", "status", "declaredFeatures", features);
}
