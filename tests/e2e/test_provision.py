# SPDX-License-Identifier: Apache-2.0
"""VFs made and set up centrally: by `provision` before the driver, and by the driver itself."""
import json

import pytest

from lab import wait_for
from objects import (OTHER, PREPARE_PF, SAME, SKIP_PF, Neighbours, Vf, allocated, claim, classes, link_in_pod, look, ping, pool, rpcs, seen,
                     vf_of_claim, wait_ping, wait_seen, wait_state)

VFS = ["0000:02:10.0", "0000:02:10.2", "0000:02:10.4", "0000:02:10.6"]
NUMVFS = f"/sys/class/net/{SKIP_PF}/device/sriov_numvfs"
VERIFIED, DRIFTED = (True, []), (False, ["NoSchedule"])
MAC = "52:54:00:ab:cd:0e"


def storage(count=4, by="Driver", **spec):
    provisioning = {"by": by, **({"count": count} if count else {})}
    return pool("storage", SKIP_PF, "Skip", "0-3", provisioning=provisioning, settings={"vlan": {"id": 100}}, **spec)




def device(address):
    return address.replace(":", "-").replace(".", "-")


def count(node):
    return int(node.run(f"cat {NUMVFS}"))


@pytest.fixture(name="node")
def fixture_node(lab, driver):
    """The second port has no VF, and is down, as after a boot."""
    node = lab.nodes["node1"]
    driver.install()
    node.run(f"echo 0 >{NUMVFS}; ip link set {SKIP_PF} down; udevadm settle")
    hosts = Neighbours(node, ((PREPARE_PF, 5), (PREPARE_PF, 6)))
    hosts.up()
    yield node
    lab.clean()
    driver.kill()
    hosts.down()
    node.vfs(7)


@pytest.fixture(name="provision")
def fixture_provision(node, driver):
    """Runs the verb with these pools; (exit status, what it printed)."""
    def run(*documents, args=()):
        (node.share / "provision.yaml").write_text("\n---\n".join(map(json.dumps, documents)))
        done = driver.verb("provision", "--config", "/host/provision.yaml", "--state-dir", driver.state, *args, check=False)
        print(done.stdout, done.stderr)
        return done.returncode, done.stdout + done.stderr
    return run


def serve(lab, driver, *documents):
    lab.apply(classes())
    driver.start(list(documents))


def pod_on_vlan_100(lab, vf=None):
    """A pod with a VF of the pool: its packets reach the host on VLAN 100, and not the one on VLAN 200."""
    lab.apply(claim("skip", "vf-preprovisioned", None, {"name": "net1", "addresses": ["192.0.2.1/24"]}, device=vf))
    lab.pod("skip", ["skip"])
    lab.wait_pod("skip")
    wait_ping(lab, "skip", SAME)
    assert ping(lab, "skip", OTHER) == 0


def test_provisioned_at_boot_then_offered(lab, driver, node, provision):
    status, text = provision(storage(), args=["--dry-run"])
    plan = f"""\
{SKIP_PF} (0000:02:00.0), pool storage
- link down
+ link up
- numvfs 0
+ numvfs 4
+ vf 0-3: vlan 100
"""
    assert (status, text) == (0, plan)
    assert count(node) == 0
    status, text = provision(storage())
    assert status == 0
    assert text.startswith(f"{plan}{SKIP_PF}: link up, 4 VFs made, 4 VFs set up, in ")
    states = [Vf(node, address).state() for address in VFS]
    assert [(s["vlan"], s["home"], s["mac"] == s["admin_mac"]) for s in states] == [(100, True, True)] * 4
    assert provision(storage()) == (0, "nothing to do\n")

    serve(lab, driver, storage())
    lab.wait_slices(4)
    for address in VFS:
        wait_seen(lab, device(address), VERIFIED)
    assert not driver.log().count("VF set up")
    pod_on_vlan_100(lab)
    assert allocated(lab, "skip")[0]["skipNodeOperations"] == ["*"]
    assert rpcs(driver) == (0, 0)


@pytest.mark.contract
def test_a_vf_in_use_is_in_the_way_of_provisioning(lab, driver, node, provision):
    """Beside the driver, and while it is away: the number stays, nothing is touched, packets pass."""
    serve(lab, driver, storage())
    lab.wait_slices(4)
    for address in VFS:
        wait_seen(lab, device(address), VERIFIED)
    pod_on_vlan_100(lab)
    vf = vf_of_claim(lab, node, "skip")
    states = {address: Vf(node, address).state() for address in VFS}
    uid = lab.get("resourceclaim", "skip")["metadata"]["uid"]
    fewer = pool("storage", SKIP_PF, "Skip", "0-1", provisioning={"by": "Driver", "count": 2}, settings={"vlan": {"id": 100}})
    in_the_way = f"! numvfs 4 -> 2, but VF {vf.index} ({vf.address}): claim default/skip (uid {uid}) has it\n"

    status, text = provision(fewer)
    assert status == 1 and in_the_way in text
    driver.stop()
    status, text = provision(fewer)
    assert status == 1 and in_the_way in text
    # without records it is still seen to be away
    status, text = provision(fewer, args=["--state-dir", "/nowhere"])
    assert status == 1
    assert f"VF {vf.index} ({vf.address}): its interface is in another network namespace" in text
    assert count(node) == 4
    assert {address: Vf(node, address).state() for address in VFS} == states
    assert ping(lab, "skip", SAME) == 3
    driver.start([storage()])  # for the way back


@pytest.mark.contract
@pytest.mark.parametrize("by", ["Driver", "External"])
def test_drift_is_repaired_only_where_the_driver_provisions(lab, driver, node, provision, by):
    assert provision(storage())[0] == 0
    serve(lab, driver, storage(4 if by == "Driver" else None, by))
    lab.wait_slices(4)
    wait_seen(lab, device(VFS[1]), VERIFIED)
    node.run(f"ip link set {SKIP_PF} vf 1 vlan 300")
    look(node)
    if by == "Driver":
        driver.wait_log(r"VF had drifted: it is as its pool says again vf=0000:02:10.2 pool=storage "
                        r"changed=\"vlan 300 -> 100\"")
        wait_seen(lab, device(VFS[1]), VERIFIED)
        assert Vf(node, VFS[1]).state()["vlan"] == 100
    else:
        wait_seen(lab, device(VFS[1]), DRIFTED)
        driver.wait_log(r"isn't offered as verified vf=0000:02:10.2 why=\"vlan: 300, want 100\"")
        look(node)
        lab.wait_for(lambda: driver.log().count("published") and seen(lab, device(VFS[1])) == DRIFTED, 5, "it stays so")
        assert Vf(node, VFS[1]).state()["vlan"] == 300
        assert "VF set up" not in driver.log() and "had drifted" not in driver.log()


def test_deaf_vf_hears_again(lab, driver, node, provision):
    """The PF's entry was changed alone: both sides are made the same, and packets pass."""
    assert provision(storage())[0] == 0
    before = Vf(node, VFS[0]).state()
    node.run(f"ip link set {SKIP_PF} vf 0 mac {MAC}")
    status, text = provision(storage())
    assert status == 0
    assert f"~ vf 0: mac {before['mac']} on the VF -> {MAC}\n" in text
    state = Vf(node, VFS[0]).state()
    assert (state["mac"], state["admin_mac"], state["vlan"]) == (MAC, MAC, 100)
    serve(lab, driver, storage())
    lab.wait_slices(4)
    wait_seen(lab, device(VFS[0]), VERIFIED)
    pod_on_vlan_100(lab, vf=VFS[0])
    assert link_in_pod(lab, "skip", "net1")["mac"] == MAC


def test_driver_makes_vfs_and_makes_them_again(lab, driver, node):
    """From nothing; and when they are lost, as by a reset of the port."""
    serve(lab, driver, storage())
    lab.wait_slices(4)
    for address in VFS:
        wait_seen(lab, device(address), VERIFIED)
    assert driver.log().count("VF set up") == 4
    assert "isn't offered as verified vf=0000:02" not in driver.log()
    mark = driver.log_mark()
    node.run(f"echo 0 >{NUMVFS}")
    driver.wait_log("VFs made pf=enp2s0 vfs=4", 60, since=mark)
    for address in VFS:
        wait_seen(lab, device(address), VERIFIED, 60)
    assert [Vf(node, address).state()["vlan"] for address in VFS] == [100] * 4
    assert driver.log()[mark:].count("VF set up") == 4 and "had drifted" not in driver.log()
    pod_on_vlan_100(lab)


@pytest.mark.contract
def test_drift_that_nobody_saw_is_repaired_for_the_claim(lab, driver, node):
    """A foreign `ip link set PF vf` sends no message, so the claim is the first to find it."""
    serve(lab, driver, storage())
    lab.wait_slices(4)
    for address in VFS:
        wait_seen(lab, device(address), VERIFIED)
    node.run(f"ip link set {SKIP_PF} vf 2 vlan 7")
    pod_on_vlan_100(lab, vf=VFS[2])
    driver.wait_log(r"VF had drifted: it is as its pool says again vf=0000:02:10.4 pool=storage changed=\"vlan 7 -> 100\"")
    assert not [e["message"] for e in lab.events_of("skip") if e["reason"] in ("FailedCreatePodSandBox", "PodRefused")], "it was refused first"
    vf = Vf(node, VFS[2])
    lab.delete("pod", "skip")
    vf.wait_home()
    wait_for(lambda: vf.state()["vlan"] == 100, 10, "it comes home as its pool says")


@pytest.mark.contract
def test_a_vf_in_use_is_not_repaired(lab, driver, node):
    """What drifts while a pod has it is shown, and put right when the pod is gone."""
    serve(lab, driver, storage())
    lab.wait_slices(4)
    for address in VFS:
        wait_seen(lab, device(address), VERIFIED)
    vf = Vf(node, VFS[3])
    before = vf.state()
    lab.apply(claim("skip", "vf-preprovisioned", None, {"name": "net1"}, device=vf.address))
    lab.pod("skip", ["skip"])
    lab.wait_pod("skip")
    node.run(f"ip link set {SKIP_PF} vf 3 vlan 300")
    look(node)
    wait_seen(lab, device(vf.address), DRIFTED)
    assert vf.state()["vlan"] == 300
    lab.delete("pod", "skip")
    wait_state(vf, before)
    wait_seen(lab, device(vf.address), VERIFIED)
