# SPDX-License-Identifier: Apache-2.0
"""The shipped admission policies, asked of a real API server: what is refused when it is made, with which words, and
what passes. Nothing is stored: the requests are dry runs."""
import copy

import pytest
import yaml

from deployed import manifests
from lab import DRIVER
from objects import claim, config

pytestmark = pytest.mark.lab(nodes=0)

POLICIES = manifests("policies")
CLASSES = manifests("classes", "examples/classes.yaml")
PATHS = {"ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
         "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
         "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses"}
REQUIRED = "required-plugins.noderesource.dev"


def made(lab, manifest, namespace="default"):
    """What the server would store, or its refusal as text."""
    path = PATHS.get(manifest["kind"], f"/api/v1/namespaces/{namespace}/pods")
    status, answer = lab.request("POST", f"{path}?dryRun=All", manifest)
    return answer if status == 201 else answer["message"]


def template(a_claim):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "t"},
            "spec": {"spec": a_claim["spec"]}}


def class_of(parameters):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "c"},
            "spec": {"config": [{"opaque": {"driver": DRIVER, "parameters": parameters}}]}}


def pod(labels=None, annotations=None):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": labels or {}, **(
        {} if annotations is None else {"annotations": annotations})},
        "spec": {"automountServiceAccountToken": False, "containers": [{"name": "main", "image": "example.com/app"}]}}


@pytest.fixture(scope="module")
def cluster(labs):
    """The lab with policies and classes, once all of them are in force."""
    lab = labs.get((("nodes", 0),))
    for name in ("guarded", "free"):
        lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": name, "labels": {f"{DRIVER}/required": "true"} if name == "guarded" else {}}})
    lab.apply(CLASSES)
    lab.apply(POLICIES)

    def in_force():
        refused = [claim("x", "vf-prepared", parameters={"kind": "x"}), claim("x", "vf-prepared", {"trust": True}),
                   claim("x", "vf-vlan-100", {"mtu": 1500}), pod({f"{DRIVER}/required": "true"}, {REQUIRED: "?"})]
        return all(isinstance(made(lab, m), str) for m in refused) and REQUIRED in annotations(lab, pod({f"{DRIVER}/required": "true"}))
    lab.wait_for(in_force, 60, "the policies are in force")
    for name in ("guarded", "free"):
        lab.wait_for(lambda n=name: lab.get("serviceaccount", "default", n), 30, "the namespace has its service account")
    yield lab
    for p in reversed(POLICIES):
        lab.kubectl("delete", p["kind"], p["metadata"]["name"])
    lab.clean()


def annotations(lab, a_pod, namespace="default"):
    answer = made(lab, a_pod, namespace)
    assert not isinstance(answer, str), answer
    return answer["metadata"].get("annotations", {})


def test_policies_compile_and_fit_the_types(cluster):
    """No expression has a warning from the server's type checker."""
    def warnings():
        checked = [cluster.get("validatingadmissionpolicy", p["metadata"]["name"]) for p in POLICIES
                   if p["kind"] == "ValidatingAdmissionPolicy"]
        if not all(c.get("status", {}).get("observedGeneration") == c["metadata"]["generation"] for c in checked):
            return None
        return [[c["metadata"]["name"], c["status"].get("typeChecking", {}).get("expressionWarnings", [])] for c in checked]
    assert [w for w in cluster.wait_for(warnings, 60, "the policies are type-checked") if w[1]] == []


def test_shipped_manifests_pass(cluster):
    """Classes and examples of ours, and the claims that the documents show."""
    for m in CLASSES + manifests("examples"):
        if m["kind"] in PATHS:
            answer = made(cluster, {**m, "metadata": {**m["metadata"], "name": "copy"}})
            assert not isinstance(answer, str), answer


# -- parameters ------------------------------------------------------------

FULL = {
    "apiVersion": "sriov-dra.dev/v1alpha1", "kind": "VirtualFunctionConfig",
    "settings": {"macAddress": "52:54:00:AB:CD:EF", "vlan": {"id": 100, "qos": 3}, "mtu": 1500, "maxTxRateMbps": 500,
                 "linkState": "auto"},
    "interface": {"name": "net1", "mtu": 1400, "addresses": ["192.0.2.10/24", "2001:db8::10/64"],
                  "routes": [{"to": "198.51.100.0/24", "via": "192.0.2.1", "metric": 7, "table": 100}, {"to": "::/0"},
                             {"to": "default", "via": "fe80::1"}], "sysctls": {}}}

# What is put where in FULL, None: taken away; and a part of the refusal, None: it passes.
# The driver's own table of this is in tests/unit/driver/test_request.c.
CHANGES = [
    ("apiVersion", None, '.apiVersion: must be "sriov-dra.dev/v1alpha1"'),
    ("apiVersion", "sriov-dra.dev/v2", '.apiVersion: must be "sriov-dra.dev/v1alpha1"'),
    ("apiVersion", 1, ".apiVersion: must be"),
    ("kind", "VirtualFunctionPool", '.kind: must be "VirtualFunctionConfig"'),
    ("kind", None, ".kind: must be"),
    ("metadata", {}, "has a field that isn't apiVersion, kind, settings or interface"),
    ("settings", None, None),
    ("settings", {}, None),
    ("settings", "vlan", ".settings: must be an object"),
    ("settings", [], ".settings: must be an object"),
    ("settings.vlann", 100, ".settings: has a field that isn't macAddress, vlan"),
    ("settings.macAddress", "52-54-00-ab-cd-ef", None),
    ("settings.macAddress", "52:54-00:ab:cd:ef", "is no Ethernet MAC address"),
    ("settings.macAddress", "01:00:5e:00:00:01", '"01:00:5e:00:00:01" is a multicast address'),
    ("settings.macAddress", "ff:ff:ff:ff:ff:ff", "is a multicast address"),
    ("settings.macAddress", "00:00:00:00:00:00", "all zero"),
    ("settings.macAddress", "52:54:00:ab:cd:ef:01:02", "is no Ethernet MAC address"),
    ("settings.macAddress", "52:54:00:ab:cd", '.settings.macAddress: "52:54:00:ab:cd" is no Ethernet MAC address'),
    ("settings.macAddress", 5, ".settings.macAddress: must be a string"),
    ("settings.vlan", 100, ".settings.vlan: must be an object"),
    ("settings.vlan", {}, ".settings.vlan.id: must be a whole number from 0 (no VLAN) to 4094"),
    ("settings.vlan", {"id": 4095}, ".settings.vlan.id: must be"),
    ("settings.vlan", {"id": -1}, ".settings.vlan.id: must be"),
    ("settings.vlan", {"id": "100"}, ".settings.vlan.id: must be"),
    ("settings.vlan", {"id": 100.5}, ".settings.vlan.id: must be"),
    ("settings.vlan", {"id": 100, "qos": 8}, ".settings.vlan.qos: must be a whole number from 0 to 7"),
    ("settings.vlan", {"id": 100, "qos": -1}, ".settings.vlan.qos: must be"),
    ("settings.vlan", {"id": 100, "qos": "1"}, ".settings.vlan.qos: must be"),
    ("settings.vlan", {"id": 100, "proto": "802.1ad"}, ".settings.vlan: has a field that isn't id or qos"),
    ("settings.vlan", {"id": 0, "qos": 1}, ".settings.vlan.qos: a priority needs a VLAN"),
    ("settings.vlan", {"id": 0, "qos": 0}, None),
    ("settings.vlan", {"id": 4094, "qos": 7}, None),
    ("settings.mtu", 67, ".settings.mtu: must be a whole number from 68 to 65535"),
    ("settings.mtu", 65536, ".settings.mtu: must be"),
    ("settings.mtu", "1500", ".settings.mtu: must be"),
    ("settings.maxTxRateMbps", 0, None),
    ("settings.maxTxRateMbps", -1, ".settings.maxTxRateMbps: must be"),
    ("settings.maxTxRateMbps", 4294967296, ".settings.maxTxRateMbps: must be"),
    ("settings.linkState", "up", ".settings.linkState: must be auto, enable or disable"),
    ("settings.linkState", True, ".settings.linkState: must be"),
    ("interface", None, None),
    ("interface", "net1", ".interface: must be an object"),
    ("interface.title", "net1", ".interface: has a field that isn't name, mtu, addresses or routes"),
    ("interface.name", "abcdefghijklmno", None),
    ("interface.name", "abcdefghijklmnop", ".interface.name: must have 1 to 15"),
    ("interface.name", "", ".interface.name: must have"),
    ("interface.name", "a/b", ".interface.name: must have"),
    ("interface.name", "a b", ".interface.name: must have"),
    ("interface.name", "a\nb", ".interface.name: must have"),
    ("interface.name", "ä", ".interface.name: must have"),
    ("interface.name", "a:b", ".interface.name: must have"),
    ("interface.name", "vf%d", ".interface.name: must have"),
    ("interface.name", "..", ".interface.name: must have"),
    ("interface.name", "...", None),
    ("interface.name", "lo", ".interface.name: must have"),
    ("interface.name", 1, ".interface.name: must have"),
    ("interface.mtu", 67, ".interface.mtu: must be"),
    ("interface.sysctls", {"net.ipv4.x": "1"}, ".interface.sysctls: not supported"),
    ("interface.addresses", "192.0.2.10/24", ".interface.addresses: must be a list"),
    ("interface.addresses", [], None),
    ("interface.addresses", [f"192.0.2.{i}/24" for i in range(1, 17)], None),
    ("interface.addresses", [f"192.0.2.{i}/24" for i in range(1, 18)], ".interface.addresses: 16 at most"),
    ("interface.addresses", ["192.0.2.10"], ".interface.addresses: must be addresses with prefix length"),
    ("interface.addresses", ["192.0.2.10/33"], ".interface.addresses: must be addresses"),
    ("interface.addresses", ["192.0.2.10/0"], ".interface.addresses: must be addresses"),
    ("interface.addresses", ["192.0.2.10/32", "2001:db8::1/128"], None),
    ("interface.addresses", [5], ".interface.addresses: must be addresses"),
    ("interface.routes", {}, ".interface.routes: must be a list"),
    ("interface.routes", [], None),
    ("interface.routes", ["default"], ".interface.routes: must be objects of to, via, metric and table"),
    ("interface.routes", [{"to": "10.0.0.0/8", "dev": "net1"}], ".interface.routes: must be objects of to, via"),
    ("interface.routes", [{}], ".interface.routes[].to: must be a network"),
    ("interface.routes", [{"to": "198.51.100.1/24"}], ".interface.routes[].to: must be a network"),
    ("interface.routes", [{"to": "198.51.100.0"}], ".interface.routes[].to: must be a network"),
    ("interface.routes", [{"to": "0.0.0.0/0"}], None),
    ("interface.routes", [{"to": "default"}], '.interface.routes[].via: must be an address, such as 192.0.2.1, and be given for "default"'),
    ("interface.routes", [{"to": "10.0.0.0/8", "via": "192.0.2.1/32"}], ".interface.routes[].via: must be an address"),
    ("interface.routes", [{"to": "10.0.0.0/8", "metric": 4294967295}], None),
    ("interface.routes", [{"to": "10.0.0.0/8", "metric": 4294967296}], "[]: metric and table must be whole numbers"),
    ("interface.routes", [{"to": "10.0.0.0/8", "metric": -1}], "[]: metric and table must be whole numbers"),
    ("interface.routes", [{"to": "10.0.0.0/8", "metric": "1"}], "[]: metric and table must be whole numbers"),
    ("interface.routes", [{"to": "10.0.0.0/8", "table": 4294967296}], "[]: metric and table must be whole numbers"),
    ("interface.routes", [{"to": "10.0.0.0/8", "table": "1"}], "[]: metric and table must be whole numbers"),
    ("interface.routes", [{"to": "10.0.0.0/8", "table": -1}], "[]: metric and table must be whole numbers"),
    ("interface.routes", [{"to": f"10.{i}.0.0/16"} for i in range(65)], ".interface.routes: 64 at most"),
]


def changed(path, value):
    document = copy.deepcopy(FULL)
    *parents, last = path.split(".")
    part = document
    for p in parents:
        part = part[p]
    if value is None:
        del part[last]
    else:
        part[last] = value
    return document


def errors_of(lab):
    """How many evaluations of our policies let an object pass because they failed themselves."""
    text = lab.kubectl("get", "--raw", "/metrics")
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
               if line.startswith("apiserver_validating_admission_policy_check_total") and 'policy="sriov-dra' in line
               and 'enforcement_action="allow"' in line and 'error_type="no_error"' not in line)


def test_parameters(cluster):
    wrong, errors = [], errors_of(cluster)
    for path, value, refusal in CHANGES:
        document = changed(path, value)
        a_claim = claim("x", "vf-prepared", parameters=document)
        for at, m in (("spec.devices.config[0]", a_claim), ("spec.spec.devices.config[0]", template(a_claim)),
                      ("spec.config[0]", class_of(document))):
            answer = made(cluster, m)
            if refusal is None:
                if isinstance(answer, str):
                    wrong.append(f"{path}: {value} in a {m['kind']}: {answer}")
            elif not isinstance(answer, str) or refusal not in answer or f"denied request: {at}.opaque.parameters" not in answer:
                wrong.append(f"{path}: {value} in a {m['kind']}: {answer if isinstance(answer, str) else 'passed'}")
    assert wrong == []
    assert errors_of(cluster) == errors


def test_parameters_of_a_class_alone(cluster):
    """A class may have what a claim may not."""
    assert not isinstance(made(cluster, class_of(config({"trust": True, "spoofCheck": False}))), str)
    assert "spec.config[0].opaque.parameters.settings.trust: must be true or false" in made(cluster, class_of(config({"trust": 1})))
    assert "spec.config[0].opaque.parameters.settings.spoofCheck: must be" in made(cluster, class_of(config({"spoofCheck": "on"})))


def test_all_faults_are_told(cluster):
    answer = made(cluster, claim("x", "vf-prepared", {"vlan": {"id": 5000}, "mtu": 1}, {"name": "lo"}))
    assert "settings.vlan.id" in answer and "settings.mtu" in answer and "interface.name" in answer


def test_other_drivers_configuration_is_theirs(cluster):
    a_claim = claim("x", "vf-prepared", {"vlan": {"id": 100}})
    a_claim["spec"]["devices"]["config"].insert(0, {"opaque": {"driver": "gpu.example.com", "parameters": {"settings": "x"}}})
    assert not isinstance(made(cluster, a_claim), str)
    a_claim["spec"]["devices"]["config"][1]["opaque"]["parameters"]["settings"]["vlan"] = 100
    assert "spec.devices.config[1].opaque.parameters.settings.vlan:" in made(cluster, a_claim)


def test_a_class_that_is_changed(cluster):
    """A class is looked at again at each change of it."""
    c = class_of(FULL)
    cluster.apply(c)
    c["spec"]["config"][0]["opaque"]["parameters"] = config({"vlan": 100})
    status, answer = cluster.request("PATCH", f"{PATHS['DeviceClass']}/c?fieldManager=e2e&force=true", c, "application/apply-patch+yaml")
    assert status == 422 and "spec.config[0].opaque.parameters.settings.vlan: must be an object" in answer["message"]


# -- claims ------------------------------------------------------------------

def requests(*some, configs=()):
    """A claim of requests {name: class} or {name: {alternative: class}}; a class may be (class, count)."""
    def exactly(value):
        name, count = value if isinstance(value, tuple) else (value, 1)
        return {"deviceClassName": name, "count": count}

    listed = [{"name": name, **({"firstAvailable": [{"name": k, **exactly(v)} for k, v in value.items()]} if isinstance(value, dict)
                                else {"exactly": exactly(value)})} for r in some for name, value in r.items()]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "x"}, "spec": {"devices": {
        "requests": listed, "config": [{**({"requests": names} if names else {}), "opaque": {"driver": DRIVER, "parameters": parameters}}
                                       for names, parameters in configs]}}}


MAC = config({"macAddress": "52:54:00:12:34:56"})
VLAN = config({"vlan": {"id": 100}, "mtu": 1400})
NAME = config(None, {"name": "net1"})
ADDRESS = config(None, {"addresses": ["192.0.2.10/24"]})
ONE, TWO, EITHER = {"a": "vf-prepared"}, {"a": ("vf-prepared", 2)}, {"a": {"x": ("vf-prepared", 2), "y": "vf-deferred"}}

# A claim, and parts of its refusal; none: it passes.
CLAIMS = {
    "trust": (requests(ONE, configs=[([], config({"trust": True}))]),
              ["config[0].opaque.parameters.settings.trust: only a DeviceClass may set it", "vf-trusted"]),
    "trust, off": (requests(ONE, configs=[([], config({"trust": False}))]), ["settings.trust: only a DeviceClass"]),
    "spoof checking": (requests(ONE, configs=[([], NAME), (["a"], config({"spoofCheck": False}))]),
                       ["config[1].opaque.parameters.settings.spoofCheck: only a DeviceClass may set it", "vf-spoof-checked"]),
    "a MAC address for one": (requests(ONE, configs=[([], MAC)]), []),
    "a MAC address for two": (requests(TWO, configs=[([], MAC)]), ["settings.macAddress: would be used for several devices"]),
    "a name for two, by name": (requests(TWO, {"b": "vf-prepared"}, configs=[(["a"], NAME)]), ["interface.name: would be used"]),
    "addresses for two": (requests(TWO, configs=[(["a"], ADDRESS)]), ["interface.addresses: would be used"]),
    "a name for the other": (requests(TWO, {"b": "vf-prepared"}, configs=[(["b"], NAME)]), []),
    "a name for nobody in particular": (requests(TWO, {"b": "vf-prepared"}, configs=[([], NAME)]), []),
    "a VLAN for two": (requests(TWO, configs=[([], VLAN)]), []),
    "a name for an alternative of two": (requests(EITHER, configs=[(["a/x"], NAME)]), ["interface.name: would be used"]),
    "a name for an alternative of one": (requests(EITHER, configs=[(["a/y"], NAME)]), []),
    "a name for both alternatives": (requests(EITHER, configs=[(["a"], NAME)]), ["interface.name: would be used"]),

    "settings of a class for preprovisioned VFs": (
        requests({"a": "vf-preprovisioned"}, configs=[([], VLAN)]),
        ["config[0].opaque.parameters.settings: ", "vlan", "mtu", "asked for with DeviceClass vf-preprovisioned (request a)",
         "use DeviceClass vf-prepared,", "select by the device's attributes"]),
    "settings of another such class": (
        requests({"a": "vf-vlan-100"}, configs=[(["a"], VLAN)]), ["DeviceClass vf-vlan-100", "use DeviceClass vf-prepared-vlan-100"]),
    "settings of a class without an alternative": (
        requests({"a": "fixed"}, configs=[(["a"], VLAN)]), ["DeviceClass fixed", 'use a DeviceClass that selects mode "Prepare"']),
    "attachment of preprovisioned VFs": (requests({"a": "vf-preprovisioned"}, configs=[([], NAME)]), []),
    "no settings": (requests({"a": "vf-preprovisioned"}, configs=[([], {**NAME, "settings": {}})]), []),
    "settings of prepared VFs": (requests({"a": "vf-prepared"}, configs=[([], VLAN)]), []),
    "settings for the prepared one": (
        requests({"a": "vf-prepared"}, {"b": "vf-preprovisioned"}, configs=[(["a"], VLAN)]), []),
    "settings for both": (
        requests({"a": "vf-prepared"}, {"b": "vf-preprovisioned"}, configs=[([], VLAN)]), ["(request b)"]),
    "settings for the alternative that is prepared": (
        requests({"a": {"x": "vf-preprovisioned", "y": "vf-prepared"}}, configs=[(["a/y"], VLAN), (["a"], NAME)]), []),
    "settings for all alternatives": (
        requests({"a": {"x": "vf-preprovisioned", "y": "vf-prepared", "z": "vf-preprovisioned"}}, configs=[(["a"], VLAN)]),
        ["(request a/x, a/z)", "name only the alternatives that the settings are for"]),
    "settings for the alternative that isn't": (
        requests({"a": {"x": "vf-preprovisioned", "y": "vf-prepared"}}, configs=[(["a/x"], VLAN)]), ["(request a/x)"]),
    "a class without a label": (requests({"a": "vf-ends-alone"}, configs=[([], VLAN)]), []),
    "a class that isn't there": (requests({"a": "nowhere"}, configs=[([], VLAN)]), []),
    "no configuration": (requests({"a": "vf-preprovisioned"}), []),
    "nothing": ({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "x"}, "spec": {}}, []),
}


def test_claims(cluster):
    cluster.apply({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {
        "name": "fixed", "labels": {f"{DRIVER}/preprovisioned": "true"}}, "spec": {}})
    cluster.wait_for(lambda: isinstance(made(cluster, requests({"a": "fixed"}, configs=[([], VLAN)])), str), 30, "the class is known")
    wrong, errors = [], errors_of(cluster)
    for title, (a_claim, parts) in CLAIMS.items():
        for m in (a_claim, template(a_claim)):
            answer = made(cluster, m)
            told = isinstance(answer, str)
            if told != bool(parts) or told and not all(p in answer for p in parts):
                wrong.append(f"{title}, {m['kind']}: {answer if told else 'passed'}")
    assert wrong == []
    assert errors_of(cluster) == errors


def test_a_claim_from_before_can_be_changed(cluster):
    """Only what is made is looked at: labels and finalizers of an older claim are still written."""
    bindings = [p for p in POLICIES if p["kind"] == "ValidatingAdmissionPolicyBinding"]
    bad = claim("older", "vf-preprovisioned", {"vlan": {"id": 100}, "trust": True})
    for b in bindings:
        cluster.kubectl("delete", b["kind"], b["metadata"]["name"])
    cluster.wait_for(lambda: cluster.request("POST", PATHS["ResourceClaim"], bad)[0] == 201, 30, "the claim is made")
    cluster.apply(bindings)
    cluster.wait_for(lambda: isinstance(made(cluster, claim("x", "vf-prepared", {"trust": True})), str), 30, "the policies are in force")
    # A merge patch would write the parameters in another form, which is a change of the specification.
    for patch in ([{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/x"]}],
                  [{"op": "remove", "path": "/metadata/finalizers"}]):
        cluster.must("PATCH", f"{PATHS['ResourceClaim']}/older", patch, "application/json-patch+json")
    cluster.delete("resourceclaim", "older")


# -- pods --------------------------------------------------------------------

LABEL = {f"{DRIVER}/required": "true"}
OURS = '["sriov-dra"]'

# Labels, annotations and what becomes of them; text: a part of the refusal.
PODS = [
    (LABEL, None, {REQUIRED: OURS}),
    (LABEL, {}, {REQUIRED: OURS}),
    (LABEL, {"other": "x"}, {"other": "x", REQUIRED: OURS}),
    (LABEL, {REQUIRED: '["a", "b"]'}, {REQUIRED: '["a", "b", "sriov-dra"]'}),
    (LABEL, {REQUIRED: '["sriov-dra"]'}, {REQUIRED: '["sriov-dra"]'}),
    (LABEL, {REQUIRED: ' [ "a" ,"sriov-dra"] '}, {REQUIRED: ' [ "a" ,"sriov-dra"] '}),
    (LABEL, {REQUIRED: '["sriov-dra-2"]'}, {REQUIRED: '["sriov-dra-2", "sriov-dra"]'}),
    (LABEL, {REQUIRED: "[]"}, {REQUIRED: OURS}),
    (LABEL, {REQUIRED: "[ a, sriov-dra ]"}, {REQUIRED: "[ a, sriov-dra ]"}),
    (LABEL, {REQUIRED: "['a',\n'b',]"}, {REQUIRED: "['a', 'b', \"sriov-dra\"]"}),
    # the more special annotation is the one that counts
    (LABEL, {f"{REQUIRED}/pod": '["a"]'}, {f"{REQUIRED}/pod": '["a", "sriov-dra"]'}),
    (LABEL, {f"{REQUIRED}/container.main": '["a"]'}, {f"{REQUIRED}/container.main": '["a", "sriov-dra"]', REQUIRED: OURS}),
    (LABEL, {f"{REQUIRED}/container.main": '["a"]', f"{REQUIRED}/pod": "[]", REQUIRED: '["b"]'},
     {f"{REQUIRED}/container.main": '["a", "sriov-dra"]', f"{REQUIRED}/pod": OURS, REQUIRED: '["b", "sriov-dra"]'}),
    # what isn't a list that can be extended
    (LABEL, {REQUIRED: "sriov-dra"}, f'annotation {REQUIRED} must be a list with "sriov-dra" in it'),
    (LABEL, {REQUIRED: "- a\n- b"}, f"annotation {REQUIRED} must be a list"),
    (LABEL, {REQUIRED: '{"a": "sriov-dra"}'}, f"annotation {REQUIRED} must be a list"),
    (LABEL, {REQUIRED: '[["sriov-dra"]]'}, f"annotation {REQUIRED} must be a list"),
    (LABEL, {f"{REQUIRED}/container.main": ""}, f"annotation {REQUIRED}/container.main must be a list"),
    # pods that didn't ask
    ({}, None, {}),
    ({}, {REQUIRED: '["a"]'}, {REQUIRED: '["a"]'}),
    ({}, {REQUIRED: "?"}, {REQUIRED: "?"}),
    ({f"{DRIVER}/required": "false"}, None, {}),
]


def test_required_plugin(cluster):
    wrong = []
    for labels, before, after in PODS:
        answer = made(cluster, pod(labels, before), "free")
        got = answer if isinstance(answer, str) else answer["metadata"].get("annotations", {})
        if got != after and not (isinstance(after, str) and isinstance(got, str) and after in got):
            wrong.append(f"{labels} {before}: {got}")
    assert wrong == []


def test_required_plugin_in_a_namespace(cluster):
    assert annotations(cluster, pod(), "guarded") == {REQUIRED: OURS}
    assert annotations(cluster, pod(LABEL, {REQUIRED: '["a"]'}), "guarded") == {REQUIRED: '["a", "sriov-dra"]'}
    assert annotations(cluster, pod({f"{DRIVER}/required": "false"}), "guarded") == {REQUIRED: OURS}
    assert annotations(cluster, pod(), "free") == {}


def test_the_validator_would_read_it(cluster):
    """As a list of names, by YAML: what the runtime's validator parses it as."""
    for labels, before, after in PODS:
        if labels == LABEL and isinstance(after, dict):
            for key, value in annotations(cluster, pod(labels, before), "free").items():
                if key.startswith(REQUIRED):
                    names = yaml.safe_load(value)
                    old = yaml.safe_load((before or {}).get(key, "[]"))
                    assert "sriov-dra" in names and names[:len(old)] == old
