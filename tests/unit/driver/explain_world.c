/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/driver/explain_world.h"

#include "tests/unit/driver/doc.h"

static const char world_yaml[] =
    "claim:\n"
    "  metadata: {namespace: default, name: net, uid: u-net}\n"
    "  spec: {devices: {requests: [{name: nic, exactly: {deviceClassName: vf, count: 1}}]}}\n"
    "  status:\n"
    "    allocation:\n"
    "      devices:\n"
    "        results: [{request: nic, driver: " DRIVER ", pool: node-1, device: " VF "}]\n"
    "        config:\n"
    "        - source: FromClass\n"
    "          opaque: {driver: " DRIVER ", parameters: {apiVersion: sriov-dra.dev/v1alpha1,\n"
    "            kind: VirtualFunctionConfig, settings: {trust: true}}}\n"
    "        - source: FromClaim\n"
    "          opaque: {driver: " DRIVER ", parameters: {apiVersion: sriov-dra.dev/v1alpha1,\n"
    "            kind: VirtualFunctionConfig, settings: {vlan: {id: 100, qos: 3}, mtu: 1400},\n"
    "            interface: {name: net1, mtu: 1300, addresses: [192.0.2.10/24],\n"
    "              routes: [{to: default, via: 192.0.2.1}]}}}\n"
    "    reservedFor: [{resource: pods, name: app, uid: u-app}]\n"
    "    devices:\n"
    "    - driver: " DRIVER "\n"
    "      pool: node-1\n"
    "      device: " VF "\n"
    "      conditions: [{type: Ready, status: 'True', reason: Attached, message: as asked,\n"
    "        lastTransitionTime: '2026-01-02T03:04:05Z'}]\n"
    "      networkData: {interfaceName: net1, hardwareAddress: '52:54:00:00:00:01',\n"
    "        ips: [192.0.2.10/24]}\n"
    "slices:\n"
    "- metadata: {name: s-old}\n"
    "  spec: {driver: " DRIVER ", pool: {name: node-1, generation: 1, resourceSliceCount: 1},\n"
    "    devices: [{name: " VF ", attributes: {}}]}\n"
    "- metadata: {name: s-new}\n"
    "  spec:\n"
    "    driver: " DRIVER "\n"
    "    pool: {name: node-1, generation: 2, resourceSliceCount: 1}\n"
    "    devices:\n"
    "    - name: 0000-01-10-2\n"
    "    - name: " VF "\n"
    "      attributes: {mode: {string: Prepare}, setupBy: {string: Driver},\n"
    "        cleanupBy: {string: Driver}, attach: {string: NRI}, verified: {bool: true},\n"
    "        skipHonoured: {bool: false}, vfIndex: {int: 0}, pfInterface: {string: enp1s0},\n"
    "        pfPciAddress: {string: '0000:01:00.0'}, vlan: {int: 0}, mtu: {int: 1500},\n"
    "        spoofCheck: {bool: false}, trust: {bool: false}}\n"
    "node: {metadata: {name: node-1}, status: {declaredFeatures: [DRAOptionalNodeOperations]}}\n"
    "classes: {vf: {spec: {selectors: [{cel: {expression: 'device.driver == \"" DRIVER "\"'}}]}}}\n"
    "pods: [{metadata: {namespace: default, name: app, uid: u-app}, spec: {},\n"
    "  status: {phase: Running}}]\n";

void world_init(struct world *w, const struct change *changes, size_t n)
{
    w->doc = doc(world_yaml);
    for (size_t i = 0; i < n && changes[i].path; i++)
        doc_set(w->doc, changes[i].path, changes[i].yaml);
    w->in = (struct explain_input){.driver = DRIVER,
                                   .this_node = "elsewhere",
                                   .claim = json_object_get(w->doc, "claim"),
                                   .slices = json_object_get(w->doc, "slices"),
                                   .node = json_object_get(w->doc, "node"),
                                   .classes = json_object_get(w->doc, "classes"),
                                   .pods = json_object_get(w->doc, "pods")};
    w->x = explanation_new("ResourceClaim", "default", "net");
}

void world_done(struct world *w)
{
    explanation_free(w->x);
    json_decref(w->doc);
}

char *codes(const struct explanation *x)
{
    struct strbuf b = {0};

    for (enum explain_part p = EXPLAIN_ASKED; p <= EXPLAIN_END; p++) {
        const char *space = "";

        vec_foreach (f, &x->facts)
            if (f->part == p) {
                strbuf_printf(&b, "%s%s", space, f->code);
                space = " ";
            }
        if (p != EXPLAIN_END)
            strbuf_putc(&b, '|');
    }
    return strbuf_take(&b);
}

const char *text_of(const struct explanation *x, const char *code)
{
    vec_foreach (f, &x->facts)
        if (streq(f->code, code))
            return f->text;
    fail_msg("no %s", code);
    return "";
}

char *codes_of(const struct explanation *x, enum explain_part part)
{
    struct strbuf b = {0};

    vec_foreach (f, &x->facts)
        if (f->part == part)
            strbuf_printf(&b, "%s%s", b.len ? " " : "", f->code);
    return strbuf_take(&b);
}
