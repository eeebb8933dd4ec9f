# SPDX-License-Identifier: Apache-2.0
"""The path with Prepare: what was asked is in force, and gone afterwards."""
import pytest

from lab import IDLE, wait_for
from objects import (Vf, address_of, allocated, claim, link_in_pod, ping, rpcs, vf_of_claim,
                     wait_ping, wait_state)

MAC = "52:54:00:ab:cd:01"


def vlan_claim(name, vlan, address, **kwargs):
    return claim(name, "vf-prepared", {"vlan": {"id": vlan}}, {"name": "net1", "addresses": [f"{address}/24"]}, **kwargs)


@pytest.mark.contract
def test_what_a_claim_asks_is_in_force_and_gone_afterwards(lab, started):
    node = lab.nodes["node1"]
    lab.apply([claim("asked", "vf-prepared",
                     {"macAddress": MAC.upper(), "vlan": {"id": 100, "qos": 3}, "mtu": 1400},
                     {"name": "net1", "addresses": ["192.0.2.1/24", "2001:db8::1/64"],
                      "routes": [{"to": "198.51.100.0/24", "via": "192.0.2.254"}]}, device="0000:01:10.0"),
               vlan_claim("same", 100, "192.0.2.2", device="0000:01:10.2"),
               vlan_claim("other", 200, "192.0.2.3", device="0000:01:10.4")])
    vf = Vf(node, "0000:01:10.0")
    before = vf.state()
    assert before["home"] and before["vlan"] == 0 and before["mac"] == before["admin_mac"]
    for name in ("asked", "same", "other"):
        lab.pod(name, [name])
    for name in ("asked", "same", "other"):
        lab.wait_pod(name)
    assert link_in_pod(lab, "asked", "net1") == {
        "mac": MAC, "mtu": 1400, "up": True, "ips": ["192.0.2.1/24", "2001:db8::1/64"]}
    assert "198.51.100.0/24 via 192.0.2.254 dev net1" in lab.exec("asked", "ip", "route")
    during = vf.state()
    assert during == {"admin_mac": MAC, "vlan": 100, "qos": 3, "spoofchk": before["spoofchk"],
                      "trust": before["trust"], "home": False}
    wait_ping(lab, "asked", "192.0.2.2")
    assert ping(lab, "asked", "192.0.2.2", size=1300) == 3
    assert ping(lab, "asked", "192.0.2.3") == 0, "VLAN 200 must not be reached from VLAN 100"
    assert ping(lab, "other", "192.0.2.1") == 0

    device = wait_for(lambda: (lab.get("resourceclaim", "asked")["status"].get("devices") or [None])[0], 10,
                      "status.devices of the claim")
    assert device["device"] == "0000-01-10-0"
    assert device["networkData"]["interfaceName"] == "net1"
    assert device["networkData"]["hardwareAddress"] == MAC
    assert sorted(device["networkData"]["ips"]) == ["192.0.2.1/24", "2001:db8::1/64"]

    for name in ("asked", "same", "other"):
        lab.delete("pod", name)
    wait_state(vf, before)
    node.run("test -z \"$(ls /var/run/cdi/*sriov-dra* 2>/dev/null)\"")
    assert node.run(f"ls {started.state} | grep -v lock || true").strip() == ""

    # the next claim gets a clean VF
    lab.apply([claim("next", "vf-prepared", {"vlan": {"id": 200}}, {"name": "net1", "addresses": ["192.0.2.9/24"]},
                     device="0000:01:10.0"), vlan_claim("peer", 200, "192.0.2.8", device="0000:01:10.6")])
    lab.pod("next", ["next"])
    lab.pod("peer", ["peer"])
    lab.wait_pod("next")
    lab.wait_pod("peer")
    assert link_in_pod(lab, "next", "net1")["mac"] == before["mac"]
    assert link_in_pod(lab, "next", "net1")["mtu"] == before["mtu"]
    wait_ping(lab, "next", "192.0.2.8")


def test_nothing_asked_writes_nothing(lab, started):
    lab.apply(claim("plain", "vf-prepared"))
    lab.pod("plain", ["plain"])
    lab.wait_pod("plain")
    vf = vf_of_claim(lab, lab.nodes["node1"], "plain")
    entry = vf.state()
    assert entry["vlan"] == 0 and not entry["home"]
    names = lab.exec("plain", "ls", "/sys/class/net").split()
    assert len([n for n in names if n.startswith("enp1s0v")]) == 1, "the VF keeps its own name"
    lab.delete("pod", "plain")
    after = vf.wait_home()
    assert after["admin_mac"] == entry["admin_mac"] == after["mac"]


def test_containers_that_share_the_claim(lab, started):
    """An init container, two containers, and one that restarts: the VF is there for each."""
    lab.apply(vlan_claim("shared", 100, "192.0.2.1"))
    use = {"image": "lab.local/busybox:1", "imagePullPolicy": "Never", "resources": {"claims": [{"name": "shared"}]}}
    lab.pod("many", ["shared"],
            initContainers=[{"name": "init", "command": ["sh", "-c", "ip addr show dev net1 | grep -q 192.0.2.1"], **use}],
            containers=[{"name": "main", "command": IDLE, **use},
                        {"name": "again", "command": ["sh", "-c", "ip addr show dev net1 | grep -q 192.0.2.1 && sleep 3; exit 1"],
                         **use}])

    def restarted():
        pod = lab.get("pod", "many")
        states = {s["name"]: s for s in pod["status"].get("containerStatuses", [])}
        again = states.get("again")
        ended = (again or {}).get("lastState", {}).get("terminated")
        return again and again["restartCount"] >= 1 and ended and states
    states = wait_for(restarted, 90, "the container restarts")
    ended = states["again"]["lastState"]["terminated"]
    assert states["main"]["ready"]
    # it ended after its sleep, so it had found the interface
    assert ended["finishedAt"] > ended["startedAt"]
    assert link_in_pod(lab, "many", "net1")["ips"] == ["192.0.2.1/24"]


@pytest.mark.contract
def test_a_new_sandbox_has_the_settings_without_a_new_prepare(lab, started):
    """The kubelet makes a new sandbox without a new Prepare: VLAN and MAC are in force again."""
    node = lab.nodes["node1"]
    lab.apply([claim("asked", "vf-prepared", {"macAddress": MAC, "vlan": {"id": 100}, "mtu": 1400},
                     {"name": "net1", "addresses": ["192.0.2.1/24"]}), vlan_claim("same", 100, "192.0.2.2")])
    lab.pod("asked", ["asked"])
    lab.pod("same", ["same"])
    lab.wait_pod("asked")
    lab.wait_pod("same")
    wait_ping(lab, "asked", "192.0.2.2")
    prepared = rpcs(started)
    mark = started.log_mark()
    node.run("id=$(crictl -t 60s -r unix:///run/containerd/containerd.sock pods --name asked -q) && "
             "crictl -t 60s -r unix:///run/containerd/containerd.sock stopp $id")
    started.wait_log(r"VFs moved into pod.*asked", 90, mark)
    wait_for(lambda: lab.get("pod", "asked")["status"]["containerStatuses"][0]["restartCount"] >= 1, 60,
             "the container is started again")
    lab.wait_pod("asked")
    assert rpcs(started) == prepared, "no new Prepare"
    assert link_in_pod(lab, "asked", "net1") == {"mac": MAC, "mtu": 1400, "up": True, "ips": ["192.0.2.1/24"]}
    vf = vf_of_claim(lab, node, "asked")
    assert vf.state()["vlan"] == 100 and vf.state()["admin_mac"] == MAC
    wait_ping(lab, "asked", "192.0.2.2")


@pytest.mark.contract
def test_a_vf_serves_one_pod_at_a_time(lab, started):
    """A VF serves one pod at a time: the second is refused, and gets it when the first is gone."""
    lab.apply([vlan_claim("shared", 100, "192.0.2.1"), vlan_claim("peer", 100, "192.0.2.2")])
    lab.pod("peer", ["peer"])
    lab.pod("first", ["shared"])
    lab.wait_pod("first")
    lab.wait_pod("peer")
    lab.pod("second", ["shared"])
    event = lab.wait_event("second", "in use by another pod")
    assert "default/shared" in event["message"]
    assert lab.get("pod", "second")["status"]["phase"] == "Pending"
    wait_ping(lab, "first", "192.0.2.2")
    lab.delete("pod", "first")
    lab.wait_pod("second", timeout=120)
    wait_ping(lab, "second", "192.0.2.2")


def test_three_vfs_in_one_claim(lab, started):
    lab.apply(claim("three", "vf-prepared", {"vlan": {"id": 100}}, count=3))
    lab.pod("three", ["three"])
    lab.wait_pod("three")
    names = [n for n in lab.exec("three", "ls", "/sys/class/net").split() if n.startswith("enp1s0v")]
    assert len(names) == 3
    devices = wait_for(lambda: (d := lab.get("resourceclaim", "three")["status"].get("devices")) and len(d) == 3 and d, 10,
                       "three devices in the claim's status")
    assert len({d["networkData"]["hardwareAddress"] for d in devices}) == 3
    assert {d["networkData"]["interfaceName"] for d in devices} == set(names)
    assert all(d["conditions"][0]["status"] == "True" for d in devices)
    vfs = [address_of(r["device"]) for r in allocated(lab, "three")]
    assert len(set(vfs)) == 3
