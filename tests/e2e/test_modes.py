# SPDX-License-Identifier: Apache-2.0
"""A pool's mode is changed while claims live on its VFs: each ends as it began, and the VF follows when it is free."""
import json

import pytest

from lab import command
from objects import (PREPARE_PF, SKIP_PF, Vf, allocated, claim, link_in_pod, pool, rpcs, shipped_class, skips, wait_ping,
                     wait_seen)

MAC = "52:54:00:ab:cd:0a"
PREPARED, DEFERRED, SKIPPED = "0000:01:10.0", "0000:01:10.6", "0000:02:10.0"
DRIVER_SETS_UP = {"provisioning": {"by": "Driver"}, "settings": {"vlan": {"id": 100}}}
BEFORE = [pool("one", PREPARE_PF, "Prepare", "0-2"), pool("two", PREPARE_PF, "DeferCleanup", "3-4"),
          pool("three", SKIP_PF, "Skip", "0-1", **DRIVER_SETS_UP)]
# A provisioner's VLAN stays on a VF until somebody says otherwise, which the pool does.
AFTER = [pool("one", PREPARE_PF, "Skip", "0-2", **DRIVER_SETS_UP), pool("two", PREPARE_PF, "Prepare", "3-4"),
         pool("three", SKIP_PF, "Prepare", "0-1", settings={"vlan": {"id": 0}})]


def devices(lab):
    """{name: (mode, list)} of the pool, which is one, and complete in one generation."""
    slices = lab.wait_slices(7)
    return {d["name"]: (d["attributes"]["mode"]["string"], s["spec"].get("skipNodeOperations", []))
            for s in slices for d in s["spec"]["devices"]}


@pytest.fixture(name="driver")
def fixture_driver(lab, drivers):
    """A pod of each mode, all on VLAN 100."""
    driver = drivers()
    lab.apply([shipped_class(name) for name in ("vf-prepared", "vf-deferred", "vf-preprovisioned")])
    driver.start(BEFORE)
    lab.wait_slices(7)
    wait_seen(lab, "0000-02-10-0", (True, []))
    vlan = {"vlan": {"id": 100}}
    lab.apply([claim("prepare", "vf-prepared", {"vlan": {"id": 100, "qos": 3}, "macAddress": MAC}, {"name": "net1", "addresses": ["192.0.2.1/24"]},
                     device=PREPARED),
               claim("defer", "vf-deferred", vlan, {"name": "net1", "addresses": ["192.0.2.2/24"]}, device=DEFERRED),
               claim("skip", "vf-preprovisioned", None, {"name": "net1", "addresses": ["192.0.2.3/24"]}, device=SKIPPED)])
    for name in ("prepare", "defer", "skip"):
        lab.pod(name, [name])
    for name in ("prepare", "defer", "skip"):
        lab.wait_pod(name)
    yield driver
    lab.clean()
    driver.kill()
    lab.nodes["node1"].vfs(7)


def change(lab, driver):
    driver.stop()
    driver.start(AFTER)
    lab.wait_for(lambda: devices(lab)["0000-01-10-2"] == ("Skip", ["*"]), 40, "the free VFs have followed")


@pytest.mark.contract
def test_a_change_of_mode_strands_no_claim(lab, driver):
    node = lab.nodes["node1"]
    vfs = {address: Vf(node, address) for address in (PREPARED, DEFERRED, SKIPPED)}
    during = {address: vf.state() for address, vf in vfs.items()}
    called, skipped = rpcs(driver), skips(lab)
    change(lab, driver)
    assert {address: vf.state() for address, vf in vfs.items()} == during, "VFs in use are left as their claims have them"
    wait_ping(lab, "prepare", "192.0.2.2")
    wait_ping(lab, "prepare", "192.0.2.3")
    listed = json.loads(command([driver.binary, "claims", "-o", "json", "--kubeconfig", lab.dir / "admin.kubeconfig"]).stdout)
    assert {c["name"]: c["mode"] for c in listed["claims"]} == {"prepare": "Prepare", "defer": "DeferCleanup", "skip": "Skip"}
    for name in ("prepare", "defer", "skip"):
        lab.delete("pod", name)
    assert [now - then for now, then in zip(rpcs(driver), called)] == [0, 1], "Unprepare for the one that has no list"
    assert [now - then for now, then in zip(skips(lab), skipped)] == [0, 2]

    # and the VFs have followed: the first is now what its pool promises, and the others are as the next claim asks
    for device in ("0000-01-10-0", "0000-01-10-6", "0000-02-10-0"):
        wait_seen(lab, device, (True, []), 40)
    found = devices(lab)
    assert found["0000-01-10-0"] == ("Skip", ["*"]) and found["0000-01-10-6"] == found["0000-02-10-0"] == ("Prepare", [])
    lab.apply([claim("now-skip", "vf-preprovisioned", None, {"name": "net1", "addresses": ["192.0.2.4/24"]}, device=PREPARED),
               claim("now-prepare", "vf-prepared", None, {"name": "net1"}, device=SKIPPED),
               claim("peer", "vf-prepared", {"vlan": {"id": 100}}, {"name": "net1", "addresses": ["192.0.2.5/24"]},
                     device=DEFERRED)])
    for name in ("now-skip", "now-prepare", "peer"):
        lab.pod(name, [name])
    for name in ("now-skip", "now-prepare", "peer"):
        lab.wait_pod(name)
    wait_ping(lab, "now-skip", "192.0.2.5")
    assert link_in_pod(lab, "now-skip", "net1")["mac"] != MAC
    assert vfs[SKIPPED].state()["vlan"] == 0


@pytest.mark.contract
def test_a_vf_is_one_device_whatever_its_mode(lab, driver):
    """So it can't be allocated twice: the next claim for it waits, in whichever mode it is offered by then."""
    before = devices(lab)
    generation = {s["spec"]["pool"]["generation"] for s in lab.slices()}
    change(lab, driver)
    after = devices(lab)
    assert set(after) == set(before) and after["0000-01-10-0"][0] != before["0000-01-10-0"][0]
    assert max(generation) < min(s["spec"]["pool"]["generation"] for s in lab.slices())
    lab.apply(claim("next", "vf-preprovisioned", None, {"name": "net1", "addresses": ["192.0.2.4/24"]}, device=PREPARED))
    lab.pod("next", ["next"])
    lab.wait_event("next", "FailedScheduling.*cannot allocate all claims")
    assert not lab.get("resourceclaim", "next").get("status", {}).get("allocation")
    vf = Vf(lab.nodes["node1"], PREPARED)
    assert (vf.state()["vlan"], vf.state()["admin_mac"]) == (100, MAC)
    lab.delete("pod", "prepare")
    lab.wait_pod("next", timeout=90)
    assert allocated(lab, "next")[0]["skipNodeOperations"] == ["*"]
    wait_ping(lab, "next", "192.0.2.3")
    lab.delete("pod", "next")
    state = vf.wait_home()
    assert state["vlan"] == 100 and state["mac"] != MAC


@pytest.mark.contract
def test_a_vf_promised_beforehand_is_not_given_under_another_mode(lab, driver):
    """It was allocated before the change, and its pod starts after it: what the pool says today isn't what was promised."""
    vf = Vf(lab.nodes["node1"], "0000:02:10.2")
    wait_seen(lab, "0000-02-10-2", (True, []))
    before = vf.state()
    driver.stop()
    lab.apply(claim("late", "vf-preprovisioned", None, {"name": "net1"}, device=vf.address))
    lab.pod("late", ["late"])
    lab.wait_pod("late")  # the kubelet skips, and the runtime goes on without the plugin
    assert allocated(lab, "late")[0]["skipNodeOperations"] == ["*"]
    driver.start(AFTER)
    lab.wait_event("late", "VFMissing: .*was allocated as one that is set up beforehand, and its pool three has mode Prepare by now")
    assert vf.state() == before
    assert link_in_pod(lab, "late", "net1") is None
    lab.delete("pod", "late")
