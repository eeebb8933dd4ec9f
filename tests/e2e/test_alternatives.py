# SPDX-License-Identifier: Apache-2.0
"""What a workload may declare instead of insisting: the shipped examples, given to the real scheduler, and two of them to a
node."""
import copy

import pytest

from deployed import (DEFERRED, PREPARED, READY, UNATTENDED, device, make_node, manifests, named, scheduled, slices,
                      wait_allocated)
from objects import (PREPARE_PF, SKIP_PF, claim, link_in_pod, pools, ping, provision, shipped_class, vf_of_claim,
                     wait_ping)

by_hand = pytest.mark.lab(nodes=0)


def example(name, kind, file):
    return named(manifests(f"examples/{file}.yaml"), kind, name)


def claim_of(template, name):
    """A claim made of a template, as the controller makes one."""
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "default"},
            "spec": copy.deepcopy(template["spec"]["spec"])}


def settings_of(devices):
    return [c["opaque"]["parameters"]["settings"] for c in devices.get("config", []) if "settings" in c["opaque"]["parameters"]]


@pytest.fixture
def offered(lab):
    """A function that offers devices on a node made by hand, with all shipped classes."""
    make_node(lab)
    lab.apply(manifests("classes"))
    yield lambda devices, driver=None: lab.apply(slices(devices, *([driver] if driver else [])))
    lab.kubectl("delete", "deployments,services", "--all", "--ignore-not-found")


def deployed(lab, *objects):
    for o in objects:
        if o["kind"] == "Deployment":
            o["spec"]["template"]["spec"] |= UNATTENDED
    lab.apply(list(objects))


def pods_of(lab, **labels):
    return [p for p in lab.get("pod") if labels.items() <= p["metadata"]["labels"].items()]


def claim_of_pod(p):
    return p["status"]["resourceClaimStatuses"][0]["resourceClaimName"]


@by_hand
def test_the_next_alternative_when_the_first_is_used_up(lab, offered):
    """Two of three replicas get what was set up beforehand, the third one that is prepared with the same VLAN."""
    offered([device("ready-a", READY, vlan=100), device("ready-b", READY, vlan=100), device("ready-other", READY, vlan=10),
             device("prepared-a", PREPARED), device("deferred-a", DEFERRED)])
    deployment = example("storage", "Deployment", "fallback")
    deployment["spec"]["replicas"] = 3
    deployed(lab, example("storage", "ResourceClaimTemplate", "fallback"), deployment)
    pods = lab.wait_for(lambda: (p := [p for p in pods_of(lab, app="storage") if p["spec"].get("nodeName")]) and len(p) == 3 and p,
                        30, "all replicas are scheduled")
    got = [wait_allocated(lab, claim_of_pod(p)) for p in pods]
    assert {d["results"][0]["device"]: d["results"][0]["request"] for d in got} == {
        "ready-a": "nic/preprovisioned", "ready-b": "nic/preprovisioned", "prepared-a": "nic/prepared"}
    for d in got:
        chosen = d["results"][0]["request"]
        assert settings_of(d) == ([{"vlan": {"id": 100}}] if chosen == "nic/prepared" else [])
        assert [c["opaque"]["parameters"]["interface"] for c in d["config"] if "interface" in c["opaque"]["parameters"]] == [{"name": "net1"}]


@by_hand
def test_a_second_deployment_does_without(lab, offered):
    offered([device(f"prepared-{i}", PREPARED) for i in range(3)])
    deployed(lab, *manifests("examples/without.yaml"))

    def settled():
        placed = {n: [bool(p["spec"].get("nodeName")) for p in pods_of(lab, app="cache", nic=n)] for n in ("vf", "none")}
        return sorted(placed["vf"]) == [False, True, True, True] and placed["none"] == [True, True]
    lab.wait_for(settled, 30, "three replicas with a VF, one waiting, and two without")
    # both are behind the one Service
    selector = example("cache", "Service", "without")["spec"]["selector"]
    assert len(pods_of(lab, **selector)) == 6


@by_hand
def test_near_another_device(lab, offered):
    offered([device("far", PREPARED, __pcieRoot="pci0000:00"), device("near", PREPARED, __pcieRoot="pci0000:80"),
             device("unknown", PREPARED)])
    offered([device("gpu", {"model": "x"}, __pcieRoot="pci0000:80")], "gpu.example.com")
    lab.apply([{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.example.com"},
                "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]}},
               claim_of(example("aligned", "ResourceClaimTemplate", "aligned"), "aligned")])
    scheduled(lab, "aligned", "aligned")
    assert {r["request"]: r["device"] for r in wait_allocated(lab, "aligned")["results"]} == {"nic": "near", "gpu": "gpu"}


@by_hand
def test_two_of_one_port(lab, offered):
    offered([device("one", PREPARED), device("two", PREPARED, pfPciAddress="0000:02:00.0"),
             device("three", PREPARED, pfPciAddress="0000:03:00.0"), device("four", PREPARED, pfPciAddress="0000:02:00.0")])
    lab.apply(claim_of(example("pair", "ResourceClaimTemplate", "aligned"), "pair"))
    scheduled(lab, "pair", "pair")
    assert {r["device"] for r in wait_allocated(lab, "pair")["results"]} == {"two", "four"}


@by_hand
def test_a_pod_that_must_not_start_without(lab, offered):
    offered([device("not-honoured", READY, skipHonoured=False), device("not-attached", READY, attach="None"),
             device("right", READY)])
    lab.apply(example("fast", "ResourceClaim", "required"))
    scheduled(lab, "fast", "fast")
    assert [r["device"] for r in wait_allocated(lab, "fast")["results"]] == ["right"]


def test_alternatives_on_a_node(lab, driver):
    """One pod has a VF that was set up beforehand, the other one that was prepared: both are on the VLAN."""
    node = lab.nodes["node1"]
    provision(node)
    driver.start(manifests("examples/pools.yaml"))
    lab.apply(manifests("classes"))
    lab.wait_slices(14)
    template = example("storage", "ResourceClaimTemplate", "fallback")
    lab.apply(claim("others", "vf-preprovisioned", count=3))
    lab.pod("others", ["others"])
    wait_allocated(lab, "others")
    for i, name in enumerate(("first", "second")):
        c = claim_of(template, name)
        c["spec"]["devices"]["config"][1]["opaque"]["parameters"]["interface"]["addresses"] = [f"192.0.2.{i + 1}/24"]
        lab.apply(c)
        lab.pod(name, [name])
        wait_allocated(lab, name)
    lab.apply(claim("elsewhere", "vf-prepared", {"vlan": {"id": 200}}, {"name": "net1", "addresses": ["192.0.2.3/24"]}))
    lab.pod("elsewhere", ["elsewhere"])
    for name in ("first", "second", "elsewhere"):
        lab.wait_pod(name)
    chosen = {n: wait_allocated(lab, n)["results"][0] for n in ("first", "second")}
    assert {n: r["request"] for n, r in chosen.items()} == {"first": "nic/preprovisioned", "second": "nic/prepared"}
    assert (vf_of_claim(lab, node, "first").pf, vf_of_claim(lab, node, "second").pf) == (SKIP_PF, PREPARE_PF)
    assert vf_of_claim(lab, node, "second").state()["vlan"] == 100
    wait_ping(lab, "first", "192.0.2.2")
    assert ping(lab, "elsewhere", "192.0.2.1") == 0 and ping(lab, "elsewhere", "192.0.2.2") == 0
    # readable where it runs
    for name, alternative in (("first", "preprovisioned"), ("second", "prepared")):
        device_name = chosen[name]["device"].upper().replace("-", "_")
        assert f"SRIOV_DRA_{device_name}_ALTERNATIVE={alternative}" in lab.exec(name, "env").split()


def test_one_class_for_both_modes(lab, driver):
    """vf-spoof-checked: a VF of a pool that promises it is taken as it is, another one is made so."""
    node = lab.nodes["node1"]
    provision(node)
    driver.start(pools(spoofCheck=True))
    lab.apply(shipped_class("vf-spoof-checked"))
    lab.wait_slices(11)
    node.run(f"ip link set {PREPARE_PF} vf 0 spoofchk off")
    lab.apply([claim("prepared", "vf-spoof-checked", None, {"name": "net1"}, device="0000:01:10.0"),
               claim("ready", "vf-spoof-checked", None, {"name": "net1"}, device="0000:02:10.0")])
    for name in ("prepared", "ready"):
        lab.pod(name, [name])
        lab.wait_pod(name)
        assert vf_of_claim(lab, node, name).state()["spoofchk"] is True
        assert link_in_pod(lab, name, "net1")
    assert wait_allocated(lab, "ready")["results"][0]["skipNodeOperations"] == ["*"]
    vf = vf_of_claim(lab, node, "prepared")
    lab.delete("pod", "prepared")
    assert vf.state()["spoofchk"] is False, "what the class asked for ends with the claim"
    node.run(f"ip link set {PREPARE_PF} vf 0 spoofchk on")


def test_an_mtu_in_the_pod(lab, started):
    """vf-mtu-9000: the interface has it, where the PF's MTU allows."""
    node = lab.nodes["node1"]
    lab.apply(named(manifests("examples/classes.yaml"), "DeviceClass", "vf-mtu-9000"))
    lab.apply(claim("jumbo", "vf-mtu-9000", None, {"name": "net1"}))
    lab.pod("jumbo", ["jumbo"])
    lab.wait_event("jumbo", "FailedScheduling")
    node.run(f"ip link set {PREPARE_PF} mtu 9000")
    try:
        lab.wait_pod("jumbo")
        assert link_in_pod(lab, "jumbo", "net1")["mtu"] == 9000
        lab.delete("pod", "jumbo")
    finally:
        node.run(f"ip link set {PREPARE_PF} mtu 1500")
