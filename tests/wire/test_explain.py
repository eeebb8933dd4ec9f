# SPDX-License-Identifier: Apache-2.0
"""`sriov-dra explain`: what is read for it, what it says, and what it can still say when something is away."""
import json

import pytest

from node import claim, config, DRIVER, node, NODE, result

VF, ADDRESS = "0000-01-10-0", "0000:01:10.0"
RESOURCE = "/apis/resource.k8s.io/v1"
HERE = ("--node-name", NODE)


def attributes(mode, attach="NRI", verified=True, honoured=None, index=0, **more):
    """Of a device, as the driver publishes it."""
    values = {"mode": mode, "setupBy": "External" if mode == "Skip" else "Driver", "cleanupBy": "Driver",
              "attach": attach, "verified": verified,
              "skipHonoured": mode != "Prepare" if honoured is None else honoured, "vfIndex": index,
              "pfInterface": "enp1s0", "pfPciAddress": "0000:01:00.0", "vlan": 0, "mtu": 0, "spoofCheck": False,
              "trust": False, **more}
    kinds = {bool: "bool", int: "int", str: "string"}
    return {name: {kinds[type(value)]: value} for name, value in values.items()}


def slice_of(*devices, skip=None, pool=NODE, count=1, generation=1, name="prepare"):
    return {"metadata": {"name": f"{pool}-{DRIVER}-{name}-00"},
            "spec": {"driver": DRIVER, "nodeName": pool,
                     "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
                     "devices": [{"name": d, "attributes": a} for d, a in devices],
                     **({"skipNodeOperations": skip} if skip else {})}}


def request(class_name="vf-prepared", **more):
    return {"name": "nic", "exactly": {"deviceClassName": class_name, "count": 1, "allocationMode": "ExactCount", **more}}


def device_class(name, expression):
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def net_claim(*results, requests=(), configs=(), pods=("app",), **status):
    """The claim `net`, with a specification too."""
    o = claim("net", "uid-net", *results, configs=configs,
              reservedFor=[{"resource": "pods", "name": p, "uid": f"uid-{p}"} for p in pods], **status)
    o["spec"] = {"devices": {"requests": list(requests) or [request()]}}
    return o


def pod(name="app", phase="Running", on=NODE, claims=("net",), spec=None, **status):
    return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"resourceClaims": [{"name": c, "resourceClaimName": c} for c in claims],
                     **({"nodeName": on} if on else {}), **(spec or {})},
            "status": {"phase": phase, **status}}


def told(device=VF, status="True", **changes):
    return [{"driver": DRIVER, "pool": NODE, "device": device,
             "conditions": [{"type": "Ready", "status": status, "reason": "Attached",
                             "message": "the VF is in the pod, as asked",
                             "lastTransitionTime": "2026-01-02T03:04:05Z"}],
             "networkData": {"interfaceName": "net1", "hardwareAddress": "52:54:00:00:00:01",
                             "ips": ["192.0.2.10/24"]}, **changes}]


def fill(api):
    """A pod that runs with a prepared VF."""
    api.put("deviceclasses", device_class("vf-prepared", "mode == \"Prepare\""))
    api.put("resourceslices", slice_of((VF, attributes("Prepare", mtu=1500)),
                                       ("0000-01-10-2", attributes("Prepare", index=1))))
    api.put("pods", pod())
    api.put("resourceclaims", net_claim(
        result(VF), devices=told(),
        configs=[config("FromClass", settings={"spoofCheck": True}),
                 config(settings={"vlan": {"id": 100}}, interface={"name": "net1", "addresses": ["192.0.2.10/24"]})]))


def codes(document, part="Missing"):
    return [fact["code"] for fact in document["facts"] if fact["part"] == part]


def explained(verb, *arguments, **options):
    return json.loads(verb("explain", "-o", "json", *arguments, **options).stdout)


def on_node(machine):
    """Options by which this machine is the claim's node."""
    return [*HERE, "--kubelet-root", machine.kubelet, "--sysroot", machine.sysroot]


TEXT = f"""\
pod default/app on node {NODE}
Asked
  It names 1 claim: net.
Done
  It is Running on node {NODE}.

claim default/net on node {NODE}
Asked
  Request "nic" asks for 1 device of class vf-prepared.
  Of VF 0000:01:10.0 for request "nic": vlan 100, spoofCheck true (by the class), interface net1,
  address 192.0.2.10/24.
Device
  VF 0000:01:10.0 is VF 0 of PF enp1s0 (0000:01:00.0): device 0000-01-10-0 of pool node-1, in slice
  node-1-sriov-dra.dev-prepare-00.
  Mode Prepare: set up by the driver, cleaned up by the driver; the driver moves it into the pod
  (attach: NRI).
  The driver has verified it.
Calls
  The claim's own copy of skipNodeOperations, frozen when it was allocated, is empty: the kubelet
  calls NodePrepareResources before the pod starts, and NodeUnprepareResources when it is gone.
  Node node-1 declares DRAOptionalNodeOperations: its kubelet honours such lists.
Done
  It is reserved for pod app, which is Running.
  VF 0000:01:10.0: Ready is True since 2026-01-02T03:04:05Z (Attached): the VF is in the pod, as
  asked.
  The driver has moved VF 0000:01:10.0 into the pod: net1, MAC 52:54:00:00:00:01, 192.0.2.10/24.
Now
  What the kernel says can be seen on node node-1 only, by root. This machine is taken for node
  elsewhere: --node-name.
      sriov-dra explain -n default claim/net
At the end
  When its pods are gone the kubelet calls NodeUnprepareResources, and the driver puts the VF back
  to what it was. While the driver is down they stay in Terminating.
  It still needs the node driver: the kubelet calls NodeUnprepareResources when its pods are gone;
  the driver moves device 0000-01-10-0 into the pod, and again when its sandbox is made anew.
"""


def test_pod(machine, verb):
    machine.api.start()
    fill(machine.api)
    done = verb("explain", "pod/app", NODE_NAME="elsewhere")
    assert done.stdout == TEXT
    assert done.stderr == ""
    # nothing is read twice, and nothing that isn't needed
    assert sorted(machine.api.requests) == [
        "GET /api/v1/namespaces/default/pods/app", f"GET /api/v1/nodes/{NODE}",
        f"GET {RESOURCE}/deviceclasses/vf-prepared", f"GET {RESOURCE}/namespaces/default/resourceclaims/net",
        f"GET {RESOURCE}/resourceslices"]


@pytest.mark.parametrize("name", ["claim/net", "resourceclaim/net", "resourceclaim.resource.k8s.io/net", "net"])
def test_claim(machine, verb, name):
    machine.api.start()
    fill(machine.api)
    done = verb("explain", name, NODE_NAME="elsewhere")
    assert done.stdout == TEXT.split("\n\n", 1)[1]


def test_json(machine, verb):
    machine.api.start()
    fill(machine.api)
    document = explained(verb, "app")
    assert (document["kind"], document["namespace"], document["name"], document["node"], document["fine"]) == \
        ("Pod", "default", "app", NODE, True)
    inner, = document["claims"]
    assert (inner["kind"], inner["name"], inner["claims"]) == ("ResourceClaim", "net", [])
    assert {fact["part"] for fact in inner["facts"]} == {"Asked", "Device", "Calls", "Done", "Now", "End"}
    here, = [fact for fact in inner["facts"] if fact["code"] == "NotHere"]
    assert here == {"part": "Now", "code": "NotHere", "text": here["text"],
                    "next": "sriov-dra explain -n default claim/net"}


@pytest.mark.parametrize("name", [f"vf/{ADDRESS}", f"vf/{VF}", ADDRESS, VF])
def test_vf(machine, verb, name):
    machine.api.start()
    fill(machine.api)
    document = explained(verb, name)
    assert (document["kind"], document["name"], document["node"]) == ("VF", ADDRESS, NODE)
    assert (codes(document, "Device"), codes(document, "Done")) == (["Device", "Mode", "Verified"], ["Held"])
    assert [c["name"] for c in document["claims"]] == ["net"]
    free = explained(verb, "vf/0000:01:10.2")
    assert (codes(free, "Done"), free["claims"]) == (["Free"], [])


def test_vf_of_many_nodes(machine, verb):
    """Every node has one at that address."""
    machine.api.start()
    fill(machine.api)
    machine.api.put("resourceslices", slice_of((VF, attributes("Prepare")), pool="node-2"))
    said = verb("explain", f"vf/{ADDRESS}", status=2).stderr
    assert "2 nodes have a VF 0000-01-10-0 (node-1, node-2): name one with --node" in said
    assert explained(verb, f"vf/{ADDRESS}", "--node", "node-2")["node"] == "node-2"
    assert explained(verb, f"vf/{ADDRESS}", NODE_NAME="node-2", status=None)["node"] == "node-2"
    assert "no slice of sriov-dra.dev on node node-3 lists VF" in \
        verb("explain", f"vf/{ADDRESS}", "--node", "node-3", status=3).stderr
    machine.api.pages[f"{RESOURCE}/resourceslices"] = [400]  # a server that selects no pools
    assert "on node node-3 lists VF" in verb("explain", f"vf/{ADDRESS}", "--node", "node-3", status=3).stderr


# ---- on the node


def test_record_of_this_node(machine, verb):
    """The record says that this machine is the claim's node; a driver's files aren't touched."""
    machine.api.start()
    fill(machine.api)
    machine.write_record("uid-net", VF, name="net", state="Releasing")
    (machine.state / "uid-bad.json").write_text("nonsense")
    before = machine.touched()
    document = explained(verb, "claim/net", "--kubelet-root", machine.kubelet, "--sysroot", machine.sysroot, status=1)
    assert codes(document) == ["RecordDamaged", "KernelUnread"]
    texts = {fact["code"]: fact["text"] for fact in document["facts"]}
    assert texts["Record"] == "The node's record says that it is being put back, by a call of the kubelet."
    assert f"{machine.state}/uid-bad.json: 8 bytes long, without a whole header" in texts["RecordDamaged"]
    assert "PF 0000:01:00.0" in texts["KernelUnread"]
    assert machine.touched() == before


def test_no_record_here(machine, verb):
    machine.api.start()
    fill(machine.api)
    machine.state.mkdir(parents=True)
    assert codes(explained(verb, "claim/net", *on_node(machine), status=1)) == ["NoRecord", "KernelUnread"]
    machine.state.rmdir()
    document = explained(verb, "claim/net", *on_node(machine), status=1)
    assert codes(document) == ["NoRecords", "NoRecord", "KernelUnread"]


def test_without_the_api(machine, verb):
    """What the node knows: of a claim and of a VF, but it knows no pods' names."""
    machine.write_record("uid-net", VF, name="net")
    document = explained(verb, "claim/net", *on_node(machine), status=1)
    assert codes(document) == ["NoApi", "KernelUnread"]
    assert (codes(document, "Done"), codes(document, "End")) == (["Record", "RecordDevice"], ["EndByCall"])
    document = explained(verb, f"vf/{ADDRESS}", *on_node(machine), status=1)
    assert (codes(document), codes(document, "Done")) == (["NoApi", "KernelUnread"], ["Record"])
    document = explained(verb, "vf/0000:01:10.2", *on_node(machine), status=1)
    assert (codes(document), codes(document, "Done")) == (["NoApi", "KernelUnread"], [])
    # not even an idea where the API server is
    assert codes(explained(verb, "net", *on_node(machine), status=1, kubeconfig=None)) == ["NoApi", "KernelUnread"]
    for name in ("pod/app", "claim/other", "vf/0000:05:10.0"):
        assert "Couldn't connect to server" in verb("explain", name, *on_node(machine), status=3).stderr


# ---- what waits


def unallocated(api, **more):
    waiting = net_claim(pods=())
    del waiting["status"]
    api.put("resourceclaims", waiting)
    api.put("pods", pod(phase="Pending", on=None, conditions=[
        {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}], **more))


def test_pending(machine, verb):
    machine.api.start()
    fill(machine.api)
    api = machine.api
    api.put("deviceclasses", device_class("vf-prepared", f"device.driver == \"{DRIVER}\""))
    unallocated(api)
    document = explained(verb, "pod/app", status=1)
    assert codes(document) == ["Scheduler"]
    assert codes(document["claims"][0]) == ["NoneMatches"]
    # as a claim its pods are looked for; of others nothing is said
    api.put("pods", pod("other", phase="Pending", on=None, claims=("else",), conditions=[
        {"type": "PodScheduled", "status": "False", "message": "not this one"}]))
    text = verb("explain", "claim/net", status=1).stdout
    assert "Of pod app the scheduler says: 0/1 nodes are available" in text and "not this one" not in text
    assert "The driver offers, in 1 pool: 2 of mode Prepare (2 free)." in text
    # what another claim has isn't free
    taken = claim("taken", "uid-taken", result(VF), result("0000-01-10-2"))
    api.put("resourceclaims", taken)
    assert codes(explained(verb, "claim/net", status=1)) == ["Scheduler", "NoneFree"]
    api.put("resourceslices", slice_of(("0000-02-10-0", attributes("Skip")), skip=["*"], count=2, name="skip"))
    api.put("resourceslices", slice_of((VF, attributes("Prepare")), ("0000-01-10-2", attributes("Prepare")), count=2))
    assert codes(explained(verb, "claim/net", status=1)) == ["Scheduler", "NoneMatches", "SchedulerGate"]
    api.put("nodes", node(()))
    assert codes(explained(verb, "claim/net", status=1)) == ["Scheduler", "NodesSilent", "NoneFree"]
    api.delete("deviceclasses", "vf-prepared")
    assert codes(explained(verb, "claim/net", status=1))[0] == "NoClass"


def test_pod_that_waits_on_its_node(machine, verb):
    machine.api.start()
    fill(machine.api)
    waiting = net_claim(result(VF))
    machine.api.put("resourceclaims", waiting)
    machine.api.put("pods", pod(phase="Pending", claims=("net", "gone")))
    for name, uid in (("mine", "uid-app"), ("others", "uid-other")):
        machine.api.put("events", {"metadata": {"name": name, "namespace": "default"}, "type": "Warning",
                                   "reason": "FailedPrepareDynamicResources", "message": f"{name}: no VF",
                                   "involvedObject": {"uid": uid}})
    document = explained(verb, "pod/app", status=1)
    assert codes(document) == ["PodWaits", "Event", "NoClaim"]
    event, = [fact["text"] for fact in document["facts"] if fact["code"] == "Event"]
    assert event == "Event FailedPrepareDynamicResources: mine: no VF"


# ---- what can't be read is said


@pytest.mark.parametrize("path, part", [
    (f"{RESOURCE}/deviceclasses/vf-prepared", "A DeviceClass"),
    (f"{RESOURCE}/resourceslices", "The driver's slices"),
    (f"/api/v1/nodes/{NODE}", "Its node"),
    ("/api/v1/namespaces/default/pods/app", "A pod"),
])
def test_part_that_is_forbidden(machine, verb, path, part):
    machine.api.start()
    fill(machine.api)
    machine.api.answers[path] = 403, b"{}"
    done = verb("explain", "claim/net", "-o", "json", status=1)
    document = json.loads(done.stdout)
    said, = [fact["text"] for fact in document["facts"] if fact["code"] == "NotRead"]
    assert said == f"{part} can't be read, so this isn't all: GET {path}: HTTP 403."
    assert "- {apiGroups: [resource.k8s.io], resources: [resourceslices], verbs: [list]}" in done.stderr


def test_object_that_is_forbidden(machine, verb):
    machine.api.start()
    fill(machine.api)
    machine.api.answers[f"{RESOURCE}/namespaces/default/resourceclaims/net"] = 403, b"{}"
    done = verb("explain", "claim/net", status=3)
    assert "HTTP 403" in done.stderr and "It needs a ClusterRole with" in done.stderr and done.stdout == ""


def test_object_that_is_not_there(machine, verb):
    machine.api.start()
    fill(machine.api)
    assert "HTTP 404" in verb("explain", "pod/nobody", status=3).stderr
    assert "HTTP 404" in verb("explain", "-n", "apps", "claim/net", status=3).stderr
    assert "namespace default has neither a pod nor a claim \"nobody\"" in verb("explain", "nobody", status=3).stderr
    machine.api.put("pods", pod("net"))
    said = verb("explain", "net", status=2).stderr
    assert "namespace default has a pod and a claim of this name: say pod/net or claim/net" in said


@pytest.mark.parametrize("arguments, said", [
    ([], "name a pod, claim or VF"),
    (["a", "b"], "unexpected argument: b"),
    (["--frobnicate"], "unrecognized option '--frobnicate'"),
    (["pod/A_b"], "no name of a pod, claim or VF: pod/A_b"),
    (["vf/enp1s0v0"], "neither a PCI address (0000:01:10.0) nor a device's name (0000-01-10-0): vf/enp1s0v0"),
    (["a", "-o", "xml"], "--output must be text or json: xml"),
    (["a", "-n", ""], "--namespace must be a namespace's name: "),
    (["a", "--node", "a b"], "--node must be a node's name: a b"),
    (["a", "--node-name", "_"], "--node-name must be a node's name: _"),
    (["a", "--driver-name", "Sriov_dra"], "--driver-name must be a DNS subdomain"),
])
def test_usage(verb, arguments, said):
    done = verb("explain", *arguments, status=2, kubeconfig=None)
    assert said in done.stderr and "usage: sriov-dra explain" in done.stderr and done.stdout == ""
