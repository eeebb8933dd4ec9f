# SPDX-License-Identifier: Apache-2.0
"""A VF that isn't as promised: found, shown, and never handed on as it is."""
import pytest

from lab import wait_for
from objects import (PREPARE_PF, SAME, SKIP_PF, Vf, claim, classes, in_netns, link_in_pod, look, pools, provision, seen,
                     vf_of_claim, wait_ping, wait_seen, wait_state)

MAC = "52:54:00:ab:cd:0d"


@pytest.mark.contract
def test_drift_under_a_live_claim_is_shown_and_its_pod_goes_on(lab, started):
    """Tainted while it is wrong. The pod goes on: the pool doesn't say that it should end."""
    node = lab.nodes["node1"]
    vf = Vf(node, "0000:01:10.0")
    before = vf.state()
    lab.apply(claim("asked", "vf-prepared", {"vlan": {"id": 100}}, {"name": "net1"}, device=vf.address))
    lab.pod("asked", ["asked"])
    lab.wait_pod("asked")
    look(node)
    assert seen(lab, "0000-01-10-0") == (True, [])
    node.run(f"ip link set {PREPARE_PF} vf 0 vlan 7")
    look(node)
    wait_seen(lab, "0000-01-10-0", (False, ["NoSchedule"]))
    started.wait_log("isn't offered as verified.*0000:01:10.0.*vlan: 7, want 100")
    assert lab.get("pod", "asked")["metadata"].get("deletionTimestamp") is None
    node.run(f"ip link set {PREPARE_PF} vf 0 vlan 100")
    look(node)
    wait_seen(lab, "0000-01-10-0", (True, []))
    node.run(f"ip link set {PREPARE_PF} vf 0 vlan 7")
    lab.delete("pod", "asked")
    wait_state(vf, before)
    wait_seen(lab, "0000-01-10-0", (True, []))


@pytest.mark.contract
def test_drift_ends_the_pod_where_the_pool_says_so(lab, driver):
    node = lab.nodes["node1"]
    provision(node)
    lab.apply(classes())
    prepared, storage = pools()
    storage["spec"]["taintEffect"] = "NoExecute"
    driver.start([prepared, storage])
    lab.wait_slices(11)
    lab.apply(claim("skip", "vf-preprovisioned", None, {"name": "net1"}, device="0000:02:10.0"))
    lab.pod("skip", ["skip"])
    lab.wait_pod("skip")
    node.run(f"ip link set {SKIP_PF} vf 0 vlan 7")
    look(node)
    wait_for(lambda: lab.get("pod", "skip") is None, 60, "the pod is ended")
    vf = Vf(node, "0000:02:10.0")
    vf.wait_home()
    wait_seen(lab, "0000-02-10-0", (False, ["NoSchedule"]))
    assert vf.state()["vlan"] == 7, "others provision it: it isn't mended here"
    node.run(f"ip link set {SKIP_PF} vf 0 vlan 100")
    look(node)
    wait_seen(lab, "0000-02-10-0", (True, []))


@pytest.mark.contract
@pytest.mark.parametrize("mode", ["Prepare", "Skip"])
def test_what_a_pod_does_to_its_vf_ends_with_it(lab, started, neighbours, mode):
    """MTU, promiscuity, addresses, and where the kernel lets it the MAC: the next claim has none of it."""
    node = lab.nodes["node1"]
    name, address = {"Prepare": ("vf-prepared", "0000:01:10.0"), "Skip": ("vf-preprovisioned", "0000:02:10.0")}[mode]
    vf = Vf(node, address)
    before = vf.state()
    settings = {"vlan": {"id": 100}} if mode == "Prepare" else None
    lab.apply(claim("first", name, settings, {"name": "net1", "addresses": ["192.0.2.1/24"]}, device=address))
    lab.pod("first", ["first"])
    lab.wait_pod("first")
    in_netns(node, "first", f"""
        ip link set net1 mtu 1300 promisc on allmulticast on
        ip addr add 203.0.113.5/24 dev net1
        ip link set net1 down && ip link set net1 address {MAC} && ip link set net1 up""")
    assert link_in_pod(lab, "first", "net1")["mac"] == MAC
    lab.delete("pod", "first")
    wait_state(vf, before)
    flags = node.links()[before["name"]]["flags"]
    assert "PROMISC" not in flags and "ALLMULTI" not in flags
    wait_for(lambda: lab.get("resourceclaim", "first")["status"].get("allocation") is None, 20, "the claim is free")
    lab.apply(claim("next", name, settings, {"name": "net1", "addresses": ["192.0.2.2/24"]}, device=address))
    lab.pod("next", ["next"])
    lab.wait_pod("next")
    assert vf_of_claim(lab, node, "next").address == address
    assert link_in_pod(lab, "next", "net1") == {"mac": before["mac"], "mtu": before["mtu"], "up": True,
                                                "ips": ["192.0.2.2/24"]}
    wait_ping(lab, "next", SAME)


@pytest.mark.contract
def test_a_vf_that_hears_nothing_is_not_verified(lab, started):
    """Every setting reads well, and no packet would pass: its own MAC isn't the PF's entry."""
    node = lab.nodes["node1"]
    wait_seen(lab, "0000-02-10-2", (True, []))
    before = Vf(node, "0000:02:10.2").state()
    node.run(f"ip link set {SKIP_PF} vf 1 mac {MAC}")
    look(node)
    wait_seen(lab, "0000-02-10-2", (False, ["NoSchedule"]))
    started.wait_log(f"0000:02:10.2.*mac: {before['mac']} on the VF, {MAC} in the PF's list")
    node.run(f"ip link set {SKIP_PF} vf 1 mac {before['mac']}")
    look(node)
    wait_seen(lab, "0000-02-10-2", (True, []))
