# SPDX-License-Identifier: Apache-2.0
"""What the kubelet is told of claims that can't be prepared: exact words, and nothing is touched.

No VF here has a kernel behind it, so a claim against which nothing can be said
fails where its VF is read.
"""
import pytest

from conftest import make_machine
import kubelet
from kubelet import V1, V1BETA1
from node import claim, config, DRIVER, NODE, pool, pools, result, wait_for

VF = "0000-01-10-0"  # of pool "prepare"
SKIP_VF = "0000-02-10-0"  # of pool "skip", which has VLAN 100
FREE_VF = "0000-02-10-6"  # of no pool
MAC = "52:54:00:00:00:01"
HELD_VF = "0000-01-10-6"
UNREAD = "reading VF 0000:01:10.0: PF 0000:01:00.0: reading interface enp1s0: No such device"
PATH = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/"


@pytest.fixture(name="machine", scope="module")
def fixture_machine():
    """One for all: what is refused leaves nothing."""
    with make_machine() as machine:
        start(machine)
        yield machine


def start(machine):
    machine.config.write_text(pools(
        pool("prepare", "enp1s0"),
        pool("skip", "enp2s0", "Skip", functions=[{"parent": {"interface": "enp2s0"}, "indexes": "0-2"}],
             settings={"vlan": {"id": 100}, "mtu": 1500})))
    machine.write_record("holder", HELD_VF)
    machine.api.start()
    machine.start()


@pytest.fixture(name="prepare")
def fixture_prepare(machine):
    """Calls Prepare for (name, uid)s; uid to error text, which must be of claims that were left alone."""
    def prepare(*claims, version=V1):
        before = machine.touched()
        with machine.client() as client:
            answer = client.prepare(*claims, version=version, timeout=20)
        assert machine.touched() == before
        assert all(not result.devices for result in answer.claims.values())
        return {uid: result.error for uid, result in answer.claims.items()}
    return prepare


def claim_with(*configs):
    return claim("c", "u", result(VF), configs=configs)


REFUSED = {
    "of another uid": (
        claim("c", "other", result(VF)),
        "claim default/c: its uid is other, but u was asked for; the claim was deleted and made anew under the "
        "same name"),
    "not allocated": (
        {**claim("c", "u"), "status": {}},
        "claim default/c is not allocated"),
    "of another driver": (
        claim("c", "u", result("gpu-0", driver="gpu.example.com")),
        "claim default/c has no device of driver sriov-dra.dev"),
    "device that isn't here": (
        claim("c", "u", result("0000-01-1f-0")),
        "claim default/c: request nic: device 0000-01-1f-0: there is no VF at 0000:01:1f.0 on this node (any more). "
        "Delete the pod so that it is given another device"),
    "name of no device": (
        claim("c", "u", result("0000-01-1F-0")),
        "claim default/c: request nic: device 0000-01-1F-0: the name isn't one of this driver's devices"),
    "another node's device": (
        claim("c", "u", result(VF, pool="node-2")),
        f"claim default/c: request nic: device {VF}: is of pool node-2, but this node's is node-1"),
    "device of no pool": (
        claim("c", "u", result(FREE_VF)),
        f"claim default/c: request nic: device {FREE_VF}: VF 0000:02:10.6 (index 3 of enp2s0) is in no "
        "VirtualFunctionPool of this node (any more). Put it back into one, or delete the pod so that it is given "
        "another device"),
    "promised beforehand, and its pool's mode is another by now": (
        claim("c", "u", result(VF, skipNodeOperations=["*"])),
        f"claim default/c: request nic: device {VF}: VF 0000:01:10.0 (index 0 of enp1s0) was allocated as one that is "
        "set up beforehand, and its pool prepare has mode Prepare by now: what was promised of it can't be told any "
        "more. Delete the pod so that its claim is allocated anew"),
    "device held by another claim": (
        claim("c", "u", result(HELD_VF)),
        f"VF 0000:01:10.6 (device {HELD_VF}) is held by claim default/claim-holder (uid holder) until that is "
        "unprepared"),
    "device twice": (
        claim("c", "u", result(VF), result(VF, request="other")),
        f"claim default/c: device {VF} is allocated twice"),
    "one device right, one wrong": (
        claim("c", "u", result(VF), result("0000-01-1f-0", request="other/first")),
        "claim default/c: request other/first: device 0000-01-1f-0: there is no VF at 0000:01:1f.0 on this node (any "
        "more). Delete the pod so that it is given another device"),
    "adminAccess": (
        claim("c", "u", result(VF, adminAccess=True)),
        f"claim default/c: request nic: device {VF}: admin access can't be given: it must not touch the VF, which "
        "another claim may be using. Ask for the device without adminAccess"),
    "unknown field": (
        claim_with(config(settings={"vlan": {"id": 100, "prio": 3}})),
        "claim default/c: configuration [0] (from the claim): settings.vlan.prio: unknown field; known here: id, qos"),
    "another kind": (
        claim_with(config("FromClass", kind="Other")),
        "claim default/c: configuration [0] (from its class): kind: must be \"VirtualFunctionConfig\", not \"Other\""),
    "another version": (
        claim_with(config(), config(apiVersion="sriov-dra.dev/v9")),
        "claim default/c: configuration [1] (from the claim): apiVersion: must be \"sriov-dra.dev/v1alpha1\", not "
        "\"sriov-dra.dev/v9\""),
    "no parameters": (
        claim_with({"source": "FromClaim", "opaque": {"driver": DRIVER}}),
        "claim default/c: configuration [0] (from the claim): document: must be an object"),
    "value out of range": (
        claim_with(config(settings={"vlan": {"id": 4095}})),
        "claim default/c: configuration [0] (from the claim): settings.vlan.id: must be a whole number from 0 to 4094"),
    "value of another type": (
        claim_with(config(settings={"vlan": 100})),
        "claim default/c: configuration [0] (from the claim): settings.vlan: must be an object"),
    "value in a list": (
        claim_with(config(interface={"addresses": ["192.0.2.1/24", "192.0.2.2"]})),
        "claim default/c: configuration [0] (from the claim): interface.addresses[1]: \"192.0.2.2\" is no address with "
        "prefix length, such as 192.0.2.10/24"),
    "wrong, for another driver's request": (
        claim_with(config(requests=["gpu"], settings={"vlan": {"id": -1}})),
        "claim default/c: configuration [0] (from the claim): settings.vlan.id: must be a whole number from 0 to 4094"),
    "the class's setting from a claim": (
        claim_with(config(settings={"trust": True})),
        "claim default/c: configuration [0] (from the claim): settings.trust: only a DeviceClass may set it, a claim "
        "may not"),
    "the claim overrides its class": (
        claim_with(config(settings={"vlan": {"id": 200}}), config("FromClass", settings={"vlan": {"id": 100}})),
        "request nic: claim default/c: configuration [0] (from the claim): settings.vlan: the claim asks for 200 and "
        "the class has 100; a claim may add to its class, not override it"),
    "MTU above the PF's": (
        claim_with(config(interface={"mtu": 1501})),
        f"claim default/c: request nic: device {VF}: interface.mtu 1501 is above the 1500 that its PF enp1s0 has"),
    "foreign setting in Skip": (
        claim("c", "u", result(SKIP_VF), configs=[config(settings={"vlan": {"id": 200}})]),
        f"claim default/c: request nic: device {SKIP_VF}: settings.vlan 200 is asked for, but VF 0000:02:10.0 (index 0 "
        "of enp2s0) was provisioned beforehand and pool skip says 100; this driver doesn't change it. Use a "
        "DeviceClass whose devices have this setting, or one that selects mode \"Prepare\", where it is set for each "
        "claim"),
    "new setting in Skip": (
        claim("c", "u", result(SKIP_VF), configs=[config("FromClass", settings={"macAddress": MAC})]),
        f"claim default/c: request nic: device {SKIP_VF}: settings.macAddress {MAC} is asked for, but VF 0000:02:10.0 "
        "(index 0 of enp2s0) was provisioned beforehand and pool skip says not set; this driver doesn't change it. "
        "Use a DeviceClass whose devices have this setting, or one that selects mode \"Prepare\", where it is set for "
        "each claim"),
    "all right, but no such PF in the kernel": (claim("c", "u", result(VF)), UNREAD),
    "the claim adds to its class": (
        claim_with(config("FromClass", settings={"vlan": {"id": 100}, "trust": True}),
                   config(settings={"vlan": {"id": 100}, "macAddress": MAC})), UNREAD),
    "the pool's own setting in Skip": (
        claim("c", "u", result(SKIP_VF), configs=[config(settings={"vlan": {"id": 100}})]),
        UNREAD.replace(":01:", ":02:").replace("enp1", "enp2")),
    "another driver's parameters": (
        claim_with({"source": "FromClaim", "opaque": {"driver": "gpu.example.com", "parameters": {"kind": 1}}}),
        UNREAD),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(machine, prepare, case):
    o, expected = REFUSED[case]
    machine.api.put("resourceclaims", o)
    assert prepare(("c", "u")) == {"u": expected}


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_each_claim_of_a_call_has_its_own_answer(machine, prepare, version):
    machine.api.put("resourceclaims", claim("c", "u", result(VF)))
    machine.api.put("resourceclaims", claim("d", "new", result(VF)))
    assert prepare(("c", "u"), ("gone", "uid-gone"), ("d", "old"), ("e", "../e"), version=version) == {
        "u": UNREAD,
        "uid-gone": "claim default/gone isn't known to the API server",
        "old": "claim default/d: its uid is new, but old was asked for; the claim was deleted and made anew under the "
               "same name",
        "../e": "\"../e\" is no uid",
    }


@pytest.mark.parametrize("uid", ["../x", "a/b", ".", "u\n", "ü", "x" * 64])
@pytest.mark.parametrize("operation", ["NodePrepareResources", "NodeUnprepareResources"])
def test_text_that_is_no_uid(machine, operation, uid):
    before, asked = machine.touched(), machine.api.count("resourceclaims")
    with machine.client() as client:
        answer = client.call(operation, ("c", uid))
    assert answer.claims[uid].error == f"\"{uid}\" is no uid"
    assert (machine.touched(), machine.api.count("resourceclaims")) == (before, asked)


def test_unprepare_of_unknown_claims(machine):
    before, asked = machine.touched(), machine.api.count("resourceclaims")
    with machine.client() as client:
        answer = client.unprepare(("c", "nobody"), ("claim-holder", "nobody-either"))
    assert {uid: each.error for uid, each in answer.claims.items()} == {"nobody": "", "nobody-either": ""}
    assert (machine.touched(), machine.api.count("resourceclaims")) == (before, asked)


def test_prepared_claim_is_answered_from_its_record(machine):
    before, asked = machine.touched(), machine.api.count("resourceclaims")
    with machine.client() as client:
        answer = client.prepare(("claim-holder", "holder"))
    device, = answer.claims["holder"].devices
    assert (device.device_name, list(device.request_names)) == (HELD_VF, ["nic"])
    assert list(device.cdi_device_ids) == [f"{DRIVER}/vf=holder-{HELD_VF}"]
    assert machine.api.count("resourceclaims") == asked
    assert {path.name for path in machine.touched()} == {path.name for path in before}


@pytest.mark.parametrize("status, body, expected", [
    (403, b'{"kind":"Status","message":"not for you","reason":"Forbidden"}', "HTTP 403: not for you (Forbidden)"),
])
def test_api_server_refuses(machine, prepare, status, body, expected):
    machine.api.answers[f"{PATH}refused"] = status, body
    assert prepare(("refused", "u")) == {"u": f"GET {PATH}refused: {expected}"}


@pytest.mark.parametrize("body", [b"[]", b"{}", b'"claim"', b'{"metadata":{"namespace":7}}'])
def test_api_server_sends_no_claim(machine, prepare, body):
    machine.api.answers[f"{PATH}odd"] = 200, body
    assert prepare(("odd", "u")) == {"u": "metadata.namespace: missing in what the API server sent"}


def test_two_calls_for_one_claim(machine):
    """The second waits for the first, and then has a go of its own: an error would cost the pod a minute."""
    machine.api.put("resourceclaims", claim("c", "u", result(VF)))
    before, asked = machine.touched(), machine.api.count("resourceclaims/c")
    machine.api.silent.add(f"{PATH}c")
    with machine.client() as client:
        prepare = client.dra("NodePrepareResources")
        calls = [prepare.future(kubelet.request("NodePrepareResources", ("c", "u"))) for _ in range(2)]
        wait_for("a GET", lambda: machine.api.count("resourceclaims/c") > asked)
        client.unprepare(("other", "other"))  # behind both on one connection: now they have been seen
        assert machine.api.count("resourceclaims/c") == asked + 1 and not any(call.done() for call in calls)
        machine.api.speak(f"{PATH}c")
        answers = [call.result(timeout=20).claims["u"].error for call in calls]
    assert answers == [UNREAD] * 2
    assert (machine.touched(), machine.api.count("resourceclaims/c")) == (before, asked + 2)


def test_calls_for_one_claim_keep_their_order(machine):
    """A Prepare that the kubelet gave up must not set up, behind the Unprepare, what that has undone."""
    machine.api.put("resourceclaims", claim("c", "u", result(VF)))
    asked = machine.api.count("resourceclaims/c")
    machine.api.silent.add(f"{PATH}c")
    done = []
    with machine.client() as client:
        calls = {}
        for name, operation in ("first", "NodePrepareResources"), ("second", "NodePrepareResources"), \
                ("last", "NodeUnprepareResources"):
            calls[name] = client.dra(operation).future(kubelet.request(operation, ("c", "u")))
            calls[name].add_done_callback(lambda _, name=name: done.append(name))
            client.unprepare(("other", "other"))  # behind it on one connection: now it has been seen
        wait_for("a GET", lambda: machine.api.count("resourceclaims/c") > asked)
        assert not done
        machine.api.speak(f"{PATH}c")
        answers = {name: call.result(timeout=20).claims["u"].error for name, call in calls.items()}
    wait_for("all callbacks", lambda: len(done) == 3)
    assert answers == {"first": UNREAD, "second": UNREAD, "last": ""}
    assert done == ["first", "second", "last"]


@pytest.mark.parametrize("answer", [(500, b"out of order\n"), (200, b"<html>")], ids=["500", "no JSON"])
def test_api_server_out_of_order_for_a_moment(machine, answer):
    """Waited for: the kubelet would come again after a minute."""
    machine.api.put("resourceclaims", claim("c", "u", result(VF)))
    machine.api.answers[f"{PATH}c"] = answer
    asked = machine.api.count("resourceclaims/c")
    with machine.client() as client:
        call = client.dra("NodePrepareResources").future(kubelet.request("NodePrepareResources", ("c", "u")))
        wait_for("a third GET", lambda: machine.api.count("resourceclaims/c") > asked + 2)
        del machine.api.answers[f"{PATH}c"]
        assert call.result(timeout=20).claims["u"].error == UNREAD


def pod(name, uid, claim_name, phase="Pending"):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name, "uid": uid},
            "spec": {"nodeName": NODE, "resourceClaims": [{"name": "vf", "resourceClaimName": claim_name}]},
            "status": {"phase": phase}}


def reserved(*uids):
    return {"reservedFor": [{"resource": "pods", "name": uid, "uid": uid} for uid in uids]}


def test_what_was_read_for_its_pod_serves_prepare(machine, prepare):
    """One GET a claim; but each reading serves one Prepare only."""
    machine.api.put("resourceclaims", claim("early", "u-early", result(VF), **reserved("p-early")))
    machine.api.put("pods", pod("early", "p-early", "early"))
    wait_for("a GET for the pod", lambda: machine.api.count("resourceclaims/early") == 1)
    assert prepare(("early", "u-early")) == {"u-early": UNREAD}
    assert machine.api.count("resourceclaims/early") == 1
    for gets in 2, 3:
        assert prepare(("early", "u-early")) == {"u-early": UNREAD}
        assert machine.api.count("resourceclaims/early") == gets
    machine.api.delete("pods", "early", "default")


@pytest.mark.parametrize("why, change, consumers, asked", [
    ("another pod may have it by now", {}, ("p-stale", "p-unseen"), "u-stale"),
    ("it is reserved for nobody, so it may be allocated anew", {}, (), "u-stale"),
    ("its pod is finished", {"phase": "Succeeded"}, ("p-stale",), "u-stale"),
    ("it is another claim", {}, ("p-stale",), "u-other")], ids=["shared", "free", "finished", "made anew"])
def test_what_was_read_may_not_hold_any_more(machine, prepare, why, change, consumers, asked):
    machine.api.put("resourceclaims", claim("stale", "u-stale", result(VF), **reserved(*consumers)))
    before = machine.api.count("resourceclaims/stale")
    machine.api.put("pods", pod("stale", "p-stale", "stale"))
    wait_for("a GET for the pod", lambda: machine.api.count("resourceclaims/stale") > before)
    if change:
        machine.api.put("pods", pod("stale", "p-stale", "stale", **change))
        machine.api.put("pods", pod("mark", "p-mark", "mark"))
        wait_for("a GET for a later pod", lambda: machine.api.count("resourceclaims/mark") > 0)
    before = machine.api.count("resourceclaims/stale")
    prepare(("stale", asked))
    assert machine.api.count("resourceclaims/stale") == before + 1, why
    for name in ("stale", "mark") if change else ("stale",):
        machine.api.delete("pods", name, "default")
