# SPDX-License-Identifier: Apache-2.0
"""The path without Prepare: the kubelet calls nobody, and the pod has what the slice promised."""
import pytest

from lab import wait_for
from objects import (SKIP_PF, Vf, address_of, allocated, claim, device_class, environment, in_netns, link_in_pod, look,
                     ping, pools, rpcs, skips, vf_of_claim, wait_ping, wait_seen, wait_state)


def skip_claim(name, address, settings=None, **kwargs):
    return claim(name, "vf-preprovisioned", settings, {"name": "net1", "addresses": [f"{address}/24"]}, **kwargs)


def devices_by_list(lab):
    """{skipNodeOperations: [device name]} of all slices."""
    out = {}
    for s in lab.slices():
        out.setdefault(tuple(s["spec"].get("skipNodeOperations", [])), []).extend(d["name"] for d in s["spec"]["devices"])
    return out


def attributes(lab, device):
    for s in lab.slices():
        for d in s["spec"]["devices"]:
            if d["name"] == device:
                return {k: next(iter(v.values())) for k, v in d["attributes"].items()}
    return None


def test_slices_of_both_kinds_in_one_pool(lab, started):
    lists = devices_by_list(lab)
    assert {k: len(v) for k, v in lists.items()} == {(): 7, ("*",): 4}
    slices = lab.slices()
    assert {s["spec"]["pool"]["name"] for s in slices} == {"node1"}
    assert {s["spec"]["pool"]["resourceSliceCount"] for s in slices} == {len(slices)}
    assert all(s["metadata"]["ownerReferences"][0]["kind"] == "Node" for s in slices)
    skip, prepared = attributes(lab, lists[("*",)][0]), attributes(lab, lists[()][0])
    assert (skip["mode"], skip["verified"], skip["vlan"], skip["attach"]) == ("Skip", True, 100, "NRI")
    assert (prepared["mode"], prepared["verified"]) == ("Prepare", True)
    assert skip["setupBy"] != prepared["setupBy"]
    assert skip["resource.kubernetes.io/pciBusID"] == "0000:02:10.0"
    assert skip["resource.kubernetes.io/pcieRoot"].startswith("pci0000:")
    assert set(skip) ^ set(prepared) <= {"vlan", "vlanQos", "spoofCheck", "trust"}


@pytest.mark.contract
def test_a_skip_pod_has_what_its_device_promises_and_nobody_is_called(lab, started):
    node = lab.nodes["node1"]
    vfs = {v.address: (v, v.state()) for v in (Vf(node, f"0000:02:{a}") for a in ("10.0", "10.2", "10.4", "10.6"))}
    counted, called = skips(lab), rpcs(started)
    lab.apply([skip_claim("skip", "192.0.2.1"),
               claim("same", "vf-prepared", {"vlan": {"id": 100}}, {"name": "net1", "addresses": ["192.0.2.2/24"]}),
               claim("other", "vf-prepared", {"vlan": {"id": 200}}, {"name": "net1", "addresses": ["192.0.2.3/24"]})])
    for name in ("skip", "same", "other"):
        lab.pod(name, [name])
    for name in ("skip", "same", "other"):
        lab.wait_pod(name)
    result = allocated(lab, "skip")[0]
    assert result["skipNodeOperations"] == ["*"]
    vf, before = vfs[address_of(result["device"])]
    assert link_in_pod(lab, "skip", "net1") == {"mac": before["mac"], "mtu": 1500, "up": True, "ips": ["192.0.2.1/24"]}
    wait_ping(lab, "skip", "192.0.2.2")
    assert ping(lab, "skip", "192.0.2.3") == 0
    data = wait_for(lambda: lab.get("resourceclaim", "skip")["status"].get("devices"), 10, "status.devices")[0]
    assert data["networkData"]["hardwareAddress"] == before["mac"]
    assert data["data"] == {"vf": vf.address, "pf": "0000:02:00.0", "mode": "Skip", "setupBy": "External", "vlan": 100,
                            "mtu": 1500}
    assert environment(lab, "skip", result["device"]) == {
        "PCI_ADDRESS": vf.address, "REQUEST": "vf", "MODE": "Skip", "SETUP_BY": "External", "INTERFACE": "net1",
        "MAC": before["mac"], "VLAN": "100", "MTU": "1500"}
    same = environment(lab, "same", allocated(lab, "same")[0]["device"])
    assert (same["MODE"], same["SETUP_BY"], same["VLAN"], same["INTERFACE"]) == ("Prepare", "Driver", "100", "net1")
    assert same["MAC"] == link_in_pod(lab, "same", "net1")["mac"]

    # what the pod changes doesn't stay
    in_netns(node, "skip", "ip link set net1 mtu 1300")
    lab.delete("pod", "skip")
    wait_state(vf, before)
    wait_for(lambda: started.records() == 2, 20, "the skip claim's record is gone")
    after = skips(lab)
    assert (after[0] - counted[0], after[1] - counted[1]) == (1, 1)
    prepared, unprepared = rpcs(started)
    assert (prepared - called[0], unprepared - called[1]) == (2, 0), "only the two prepare claims were called for"

    # the same VF serves the next claim
    lab.apply(skip_claim("next", "192.0.2.4", device=vf.address))
    lab.pod("next", ["next"])
    lab.wait_pod("next")
    wait_ping(lab, "next", "192.0.2.2")


@pytest.mark.contract
def test_one_device_that_does_not_skip_makes_the_kubelet_call_for_all(lab, started):
    """One device that doesn't skip is enough: the kubelet calls for all of the claim, and both are served."""
    node = lab.nodes["node1"]
    vfs = [Vf(node, "0000:01:10.0"), Vf(node, "0000:02:10.0")]
    before, counted, called = [v.state() for v in vfs], skips(lab), rpcs(started)
    mixed = claim("mixed", "vf-prepared", {"vlan": {"id": 200}}, {"name": "net1"}, device=vfs[0].address)
    devices = mixed["spec"]["devices"]
    devices["config"][0]["requests"] = ["vf"]
    other = skip_claim("other", "192.0.2.1", device=vfs[1].address)["spec"]["devices"]
    other["requests"][0]["name"] = "second"
    other["config"][0]["requests"] = ["second"]
    other["config"][0]["opaque"]["parameters"]["interface"]["name"] = "net2"
    devices["requests"] += other["requests"]
    devices["config"] += other["config"]
    lab.apply(mixed)
    lab.pod("mixed", ["mixed"])
    lab.wait_pod("mixed")
    assert [r.get("skipNodeOperations") for r in allocated(lab, "mixed")] == [None, ["*"]]
    assert link_in_pod(lab, "mixed", "net1") and link_in_pod(lab, "mixed", "net2")["ips"] == ["192.0.2.1/24"]
    assert [v.state()["vlan"] for v in vfs] == [200, 100]
    lab.delete("pod", "mixed")
    for vf, state in zip(vfs, before):
        wait_state(vf, state)
    assert skips(lab) == counted
    assert [now - then for now, then in zip(rpcs(started), called)] == [1, 1]


@pytest.mark.contract
def test_a_vf_that_differs_leaves_the_skipping_slice(lab, started):
    """Never a false promise: the VLAN is taken off one VF behind our back."""
    node = lab.nodes["node1"]
    assert len(devices_by_list(lab)[("*",)]) == 4
    node.run(f"ip link set {SKIP_PF} vf 1 vlan 0; udevadm trigger --action=change /sys/class/net/{SKIP_PF}v1")
    wait_for(lambda: "0000-02-10-2" not in devices_by_list(lab).get(("*",), []), 20, "the drifted VF leaves the list")
    lab.wait_slices(11)
    seen = attributes(lab, "0000-02-10-2")
    assert seen["verified"] is False and seen["mode"] == "Skip"
    device = next(d for s in lab.slices() for d in s["spec"]["devices"] if d["name"] == "0000-02-10-2")
    assert [(t["key"], t["effect"]) for t in device["taints"]] == [("sriov-dra.dev/drifted", "NoSchedule")]
    node.run(f"ip link set {SKIP_PF} vf 1 vlan 100; udevadm trigger --action=change /sys/class/net/{SKIP_PF}v1")
    wait_for(lambda: "0000-02-10-2" in devices_by_list(lab)[("*",)], 20, "the VF is back")


@pytest.mark.contract
def test_a_claim_that_tolerates_the_taint_is_refused_in_prepare(lab, started):
    """The scheduler gives it the VF, in a slice without a list by then, so the kubelet asks us: it isn't as promised."""
    node = lab.nodes["node1"]
    vf = Vf(node, "0000:02:10.2")
    node.run(f"ip link set {SKIP_PF} vf 1 vlan 7")
    look(node)
    wait_seen(lab, "0000-02-10-2", (False, ["NoSchedule"]))
    differs = vf.state()
    wants = skip_claim("wants", "192.0.2.1", device=vf.address)
    wants["spec"]["devices"]["requests"][0]["exactly"] |= {
        # a class of its own would do; the shipped ones select what is verified
        "deviceClassName": "any", "tolerations": [{"key": "sriov-dra.dev/drifted", "operator": "Exists"}]}
    lab.apply([device_class("any", "Skip"), wants])
    lab.pod("wants", ["wants"])
    event = lab.wait_event("wants", "isn't as pool storage promises")
    assert "vlan: 7, want 100" in event["message"] and "default/wants" in event["message"]
    assert allocated(lab, "wants")[0].get("skipNodeOperations") is None
    assert lab.get("pod", "wants")["status"]["phase"] == "Pending"
    assert vf.state() == differs, "others provision it: nothing is written"
    node.run(f"ip link set {SKIP_PF} vf 1 vlan 100")


@pytest.mark.contract
def test_a_vf_that_drifts_before_it_is_acquired_is_refused(lab, started):
    """It was as promised when it was allocated. Between that and the pod's sandbox, here with a kubelet that is held
    up, somebody changes it."""
    node = lab.nodes["node1"]
    vf = Vf(node, "0000:02:10.0")
    node.run("kill -STOP $(cat /run/lab/kubelet.pid)")
    try:
        lab.apply(skip_claim("late", "192.0.2.1", device=vf.address))
        lab.pod("late", ["late"])
        wait_for(lambda: (lab.get("resourceclaim", "late").get("status") or {}).get("allocation"), 30, "the claim is allocated")
        node.run(f"ip link set {SKIP_PF} vf 0 vlan 7")
        differs = vf.state()
    finally:
        node.run("kill -CONT $(cat /run/lab/kubelet.pid)")
    event = lab.wait_event("late", "isn't as pool storage promises")
    assert "vlan: 7, want 100" in event["message"] and "default/late" in event["message"]
    assert allocated(lab, "late")[0]["skipNodeOperations"] == ["*"]
    assert lab.get("pod", "late")["status"]["phase"] == "Pending"
    assert vf.state() == differs, "others provision it: nothing is written"
    node.run(f"ip link set {SKIP_PF} vf 0 vlan 100")


@pytest.mark.contract
def test_a_late_release_touches_nothing_of_the_next_claim(lab, started):
    """The VF has gone from one claim to the next while the driver was away, which had seen the first one only."""
    node = lab.nodes["node1"]
    vf = Vf(node, "0000:02:10.0")
    before = vf.state()
    lab.apply([skip_claim("first", "192.0.2.1", device=vf.address),
               claim("peer", "vf-prepared", {"vlan": {"id": 100}}, {"name": "net1", "addresses": ["192.0.2.2/24"]})])
    for name in ("first", "peer"):
        lab.pod(name, [name])
    for name in ("first", "peer"):
        lab.wait_pod(name)
    wait_ping(lab, "first", "192.0.2.2")
    assert started.stop() == 0
    lab.delete("pod", "first")
    lab.delete("resourceclaim", "first")
    lab.apply(skip_claim("next", "192.0.2.3", device=vf.address))
    lab.pod("next", ["next"])
    lab.wait_pod("next")
    mark = started.log_mark()
    started.start(pools())
    wait_ping(lab, "next", "192.0.2.2", timeout=60)
    wait_for(lambda: started.records() == 2, 30, "the first claim's record is gone")
    assert link_in_pod(lab, "next", "net1") == {"mac": before["mac"], "mtu": 1500, "up": True, "ips": ["192.0.2.3/24"]}
    assert "releasing claim: no pod needs it claim=default/next" not in started.log()[mark:]
    lab.delete("pod", "next")
    wait_state(vf, before)


@pytest.mark.contract
def test_a_setting_that_the_vf_has_not_is_refused(lab, started):
    lab.apply(skip_claim("wants", "192.0.2.1", {"vlan": {"id": 300}}))
    lab.pod("wants", ["wants"])
    event = lab.wait_event("wants", "vlan")
    assert "default/wants" in event["message"] and "Prepare" in event["message"]
    ours = lab.wait_event("wants", "^PodRefused: claim default/wants: .*vlan")
    assert (ours["type"], ours["reportingComponent"], ours["reportingInstance"]) == ("Warning", "sriov-dra.dev", "node1")
    assert (ours["related"]["kind"], ours["related"]["name"]) == ("ResourceClaim", "wants")
    assert lab.get("pod", "wants")["status"]["phase"] == "Pending"
    assert vf_of_claim(lab, lab.nodes["node1"], "wants").state()["home"]


@pytest.mark.contract
def test_a_pod_that_started_on_a_drifted_vf_is_reported(lab, started):
    """Nobody was there to refuse it; the driver that comes back does not mend it quietly."""
    node = lab.nodes["node1"]
    lab.apply(skip_claim("late", "192.0.2.1", device="0000:02:10.0"))
    started.stop()
    lab.pod("late", ["late"])
    wait_for(lambda: (lab.get("resourceclaim", "late").get("status") or {}).get("allocation"), 30, "the claim is allocated")
    node.run(f"ip link set {SKIP_PF} vf 0 vlan 7")
    started.start(pools())
    # whether the pod started before the driver was back or not, it is not served quietly
    started.wait_log("isn't as pool storage promises", 60)
    assert node.vf_of(SKIP_PF, 0)["vlan_list"][0]["vlan"] == 7
    node.run(f"ip link set {SKIP_PF} vf 0 vlan 100")


@pytest.mark.contract
def test_a_pod_that_started_while_the_driver_was_away_is_repaired(lab, started):
    lab.apply([skip_claim("early", "192.0.2.1"),
               claim("peer", "vf-prepared", {"vlan": {"id": 100}}, {"name": "net1", "addresses": ["192.0.2.2/24"]})])
    lab.pod("peer", ["peer"])
    lab.wait_pod("peer")
    started.stop()
    lab.pod("early", ["early"])
    lab.wait_pod("early")
    assert link_in_pod(lab, "early", "net1") is None, "NRI is fail-open: nobody was there to attach"
    started.start(pools())
    started.wait_log("had started without its VF.*: repaired", 60)
    wait_ping(lab, "early", "192.0.2.2")


@pytest.mark.contract
def test_a_pod_with_host_network_is_refused(lab, started):
    node = lab.nodes["node1"]
    lab.apply(skip_claim("host", "192.0.2.1", device="0000:02:10.0"))
    vf = Vf(node, "0000:02:10.0")
    before = vf.state()
    lab.pod("host", ["host"], hostNetwork=True)
    event = lab.wait_event("host", "hostNetwork")
    assert "default/host" in event["message"]
    assert vf.state() == before
