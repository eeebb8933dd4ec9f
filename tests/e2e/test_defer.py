# SPDX-License-Identifier: Apache-2.0
"""DeferCleanup: set up in Prepare, ended without a call, and clean for the next claim whatever happened."""
import time

import pytest

from lab import wait_for
from objects import (CRICTL, PREPARE_PF, SAME, Vf, allocated, claim, in_netns, link_in_pod, pool, rpcs, shipped_class,
                     skips, wait_ping, wait_state)

MAC = "52:54:00:ab:cd:07"
VF = "0000:01:10.0"


def deferred():
    return [pool("deferred", PREPARE_PF, "DeferCleanup")]


def asked(name, address, mac=MAC, device=VF):
    return claim(name, "vf-deferred", {"macAddress": mac, "vlan": {"id": 100}, "mtu": 1400},
                 {"name": "net1", "addresses": [f"{address}/24"]}, device=device)


@pytest.fixture(name="driver")
def fixture_driver(lab, drivers, neighbours):
    driver = drivers()
    lab.apply(shipped_class("vf-deferred"))
    driver.start(deferred())
    slices = lab.wait_slices(7)
    assert [s["spec"].get("skipNodeOperations") for s in slices] == [["NodeUnprepareResources"]]
    return driver


def run(lab, name, address, **kwargs):
    lab.apply(asked(name, address, **kwargs))
    lab.pod(name, [name])
    lab.wait_pod(name)
    assert link_in_pod(lab, name, "net1") == {"mac": kwargs.get("mac", MAC), "mtu": 1400, "up": True,
                                              "ips": [f"{address}/24"]}
    wait_ping(lab, name, SAME)


@pytest.mark.contract
def test_a_vf_is_clean_for_the_next_claim_though_nobody_called(lab, driver):
    """No Unprepare comes: the driver sees the end itself, and the VF is clean for the next claim."""
    vf = Vf(lab.nodes["node1"], VF)
    before, counted, called = vf.state(), skips(lab), rpcs(driver)
    run(lab, "first", "192.0.2.1")
    assert allocated(lab, "first")[0]["skipNodeOperations"] == ["NodeUnprepareResources"]
    lab.delete("pod", "first")
    wait_state(vf, before)
    wait_for(lambda: driver.records() == 0, 20, "the claim's record is gone")
    after, now = skips(lab), rpcs(driver)
    assert (after[0] - counted[0], after[1] - counted[1]) == (0, 1)
    assert (now[0] - called[0], now[1] - called[1]) == (1, 0)
    run(lab, "next", "192.0.2.2", mac="52:54:00:ab:cd:08")


@pytest.mark.contract
def test_no_deferred_pod_waits_for_a_stopped_driver(lab, driver):
    """Its claim is gone from the API too by the time the driver is back, which cleans up all the same."""
    vf = Vf(lab.nodes["node1"], VF)
    before = vf.state()
    run(lab, "first", "192.0.2.1")
    assert driver.stop() == 0
    begin = time.monotonic()
    lab.delete("pod", "first", timeout=20)
    ended = time.monotonic() - begin
    lab.delete("resourceclaim", "first")
    assert vf.state()["vlan"] == 100, "nobody was there to clean up"
    mark = driver.log_mark()
    driver.start(deferred())
    wait_state(vf, before)
    driver.wait_log("releasing claim: no pod needs it.*default/first", since=mark)
    wait_for(lambda: driver.records() == 0, 20, "the claim's record is gone")
    assert ended < 12, f"the pod took {ended:.1f} s to end"


@pytest.mark.contract
def test_a_vf_that_the_old_namespace_holds_is_awaited_and_reset(lab, driver):
    """The next claim's Prepare waits for the VF, puts it back, and uses it."""
    node = lab.nodes["node1"]
    vf = Vf(node, VF)
    before = vf.state()
    run(lab, "first", "192.0.2.1")
    assert driver.stop() == 0
    # a process that outlives the pod in its network namespace, as a leaked one does
    holder = in_netns(node, "first", "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $!").strip()
    lab.delete("pod", "first")
    lab.delete("resourceclaim", "first")
    assert not vf.state()["home"]
    mark = driver.log_mark()
    driver.start(deferred())
    driver.wait_log("registered with the kubelet", since=mark)
    lab.apply(asked("next", "192.0.2.2", mac="52:54:00:ab:cd:08"))
    lab.pod("next", ["next"])
    driver.wait_log("releasing claim: no pod needs it", since=mark)
    time.sleep(3)
    assert not vf.state()["home"] and lab.get("pod", "next")["status"]["phase"] == "Pending"
    node.run(f"kill {holder}")
    lab.wait_pod("next")
    assert link_in_pod(lab, "next", "net1")["mac"] == "52:54:00:ab:cd:08"
    wait_ping(lab, "next", SAME)
    assert "claim not prepared" not in driver.log()[mark:], "it was awaited, not refused"
    lab.delete("pod", "next")
    wait_state(vf, before)


@pytest.mark.contract
def test_nothing_is_released_under_a_living_pod(lab, driver):
    """The VF comes home and its pod lives: nothing is released, and a new sandbox gets it."""
    node = lab.nodes["node1"]
    run(lab, "first", "192.0.2.1")
    called, mark = rpcs(driver), driver.log_mark()
    node.run(f"{CRICTL} stopp $({CRICTL} pods --name first -q)")
    driver.wait_log(r"VFs moved into pod.*first", 90, mark)
    lab.wait_pod("first")
    assert rpcs(driver) == called and "releasing claim" not in driver.log()[mark:]
    assert link_in_pod(lab, "first", "net1")["mac"] == MAC
    wait_ping(lab, "first", SAME)
