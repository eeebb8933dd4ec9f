# SPDX-License-Identifier: Apache-2.0
"""Requests that can't be: a clear error that names what to mend, and nothing is touched."""
import time

import pytest

from objects import (GROUP, METRICS_PORT, Vf, claim, device_class, link_in_pod, look, metric, pool, pools, provision,
                     wait_ping, wait_seen, wait_state)

DEVICE = "0000:01:10.0"


def with_settings(**settings):
    return {"apiVersion": GROUP, "kind": "VirtualFunctionConfig", "settings": settings}


def with_interface(**interface):
    return {"apiVersion": GROUP, "kind": "VirtualFunctionConfig", "interface": interface}


INVALID = [
    ({"apiVersion": GROUP, "kind": "VirtualFunctionConfig", "settings": {"vlann": 100}}, r"settings\.vlann: unknown field"),
    ({"apiVersion": "sriov-dra.dev/v9", "kind": "VirtualFunctionConfig"}, r"apiVersion"),
    (with_settings(vlan={"id": 5000}), r"settings\.vlan\.id.*4094"),
    (with_settings(macAddress="01:00:5e:00:00:01"), r"settings\.macAddress"),
    (with_settings(spoofCheck=False), r"settings\.spoofCheck.*DeviceClass"),
    (with_settings(mtu=9000), r"MTU 9000 is above the PF's, 1500"),
    (with_interface(name="vf%d"), r"interface\.name"),
]


def test_invalid_configuration(lab, started):
    """Seven at once: each pod's event names the field; no VF is touched. (Every rule has its row in the unit tests.)"""
    node = lab.nodes["node1"]
    vfs = [Vf(node, f"0000:01:1{i // 4}.{2 * (i % 4)}") for i in range(7)]
    before = [vf.state() for vf in vfs]
    lab.apply([claim(f"bad{i}", "vf-prepared", parameters=p) for i, (p, _) in enumerate(INVALID)])
    for i in range(len(INVALID)):
        lab.pod(f"bad{i}", [f"bad{i}"])
    for i, (_, expected) in enumerate(INVALID):
        event = lab.wait_event(f"bad{i}", expected)
        assert f"default/bad{i}" in event["message"] or f"bad{i}" in event["message"]
        assert lab.get("pod", f"bad{i}")["status"]["phase"] == "Pending"
    assert [vf.state() for vf in vfs] == before


def test_kernel_refuses_a_setting(lab, started):
    """igb has no link state to set, and sets the VLAN of the same request first: all of it is undone."""
    vf = Vf(lab.nodes["node1"], DEVICE)
    before = vf.state()
    lab.apply(claim("link", "vf-prepared", {"macAddress": "52:54:00:ab:cd:03", "vlan": {"id": 100}, "linkState": "enable"},
                    device=DEVICE))
    lab.pod("link", ["link"])
    event = lab.wait_event("link", "not supported")
    assert "link state" in event["message"] and "enp1s0" in event["message"] and DEVICE in event["message"]
    wait_state(vf, before)
    lab.delete("pod", "link")
    assert started.records() == 0


def test_class_settings_hold_and_are_not_overridden(lab, started):
    node = lab.nodes["node1"]
    vf = Vf(node, DEVICE)
    before = vf.state()
    lab.apply([device_class("trusted", "Prepare", {"settings": {"trust": True, "spoofCheck": False, "vlan": {"id": 100}}}),
               claim("good", "trusted", {"mtu": 1400}, {"name": "net1"}, device=DEVICE),
               claim("bad", "trusted", {"vlan": {"id": 200}}, device="0000:01:10.2")])
    lab.pod("good", ["good"])
    lab.pod("bad", ["bad"])
    lab.wait_pod("good")
    assert lab.wait_event("bad", r"vlan")
    state = vf.state()
    assert (state["trust"], state["spoofchk"], state["vlan"]) == (True, False, 100)
    assert link_in_pod(lab, "good", "net1")["mtu"] == 1400
    lab.delete("pod", "good")
    wait_state(vf, before)


def test_name_taken_in_the_pod(lab, started):
    """eth0 is the pod network's: the sandbox is refused, and the VF is home under its own name."""
    vf = Vf(lab.nodes["node1"], DEVICE)
    before = vf.state()
    lab.apply(claim("eth0", "vf-prepared", None, {"name": "eth0"}, device=DEVICE))
    lab.pod("eth0", ["eth0"])
    lab.wait_event("eth0", "an interface eth0 already")
    lab.delete("pod", "eth0")
    wait_state(vf, before)


def test_pools_with_a_mistake_stop_only_themselves(lab, drivers):
    driver = drivers()
    provision(lab.nodes["node1"])
    bad = pool("bad", "enp2s0", "Skip", "4-5", settings={"vlan": {"id": 4095}})
    driver.start([*pools(), bad])
    lab.wait_slices(11)
    driver.wait_log(r"pool isn't offered.*bad.*spec\.settings\.vlan\.id")


@pytest.mark.parametrize("by", ["Driver", "External"])
def test_a_pool_that_declares_what_the_nic_can_not_do(lab, driver, by):
    """igb has no link state to set, and the PF's MTU is 1500: offered for what it is, never as promised."""
    settings = {"linkState": "enable"} if by == "Driver" else {"mtu": 9000}
    driver.start([pool("wishes", "enp2s0", "Skip", "0-1", settings=settings, provisioning={"by": by})],
                 args=["--metrics-address", f":{METRICS_PORT}"])
    lab.wait_slices(2)
    node = lab.nodes["node1"]
    if by == "Driver":
        driver.wait_log(r"VF isn't as its pool says, and can't be set up: .*link state.*not supported.*vf=0000:02:10.0 pool=wishes")
    else:
        lab.wait_event("node1", "VFDrifted: pool wishes: 2 VFs aren't as they should be. .*mtu: 1500, want 9000")
    wait_seen(lab, "0000-02-10-0", (False, ["NoSchedule"]))
    assert not any("skipNodeOperations" in s["spec"] for s in lab.slices())
    assert metric(node, 'devices{pool="wishes",mode="Skip",verified="false"}') == 2
    mark = driver.log_mark()
    for _ in range(3):
        look(node)
        time.sleep(1)
    assert "0000:02:10" not in driver.log()[mark:], "said once"


def test_no_pools(lab, drivers):
    driver = drivers()
    driver.start()
    driver.wait_log("no pools: nothing is offered; `sriov-dra inventory`")
    assert "enp1s0" in driver.verb("inventory").stdout


def test_configuration_of_another_driver_is_ignored(lab, started):
    c = claim("both", "vf-prepared", {"vlan": {"id": 100}}, {"name": "net1", "addresses": ["192.0.2.1/24"]})
    c["spec"]["devices"]["config"].append({"opaque": {"driver": "other.example.com", "parameters": {"x": 1}}})
    lab.apply([c, claim("peer", "vf-prepared", {"vlan": {"id": 100}}, {"name": "net1", "addresses": ["192.0.2.2/24"]})])
    lab.pod("both", ["both"])
    lab.pod("peer", ["peer"])
    lab.wait_pod("both")
    lab.wait_pod("peer")
    wait_ping(lab, "both", "192.0.2.2")
