# SPDX-License-Identifier: Apache-2.0
"""NRI is fail-open: its plugin may be dead or late when a pod starts. The driver is killed or stopped here, for real,
and a container starts with its VF or not at all."""
import contextlib
import json
import time
import zlib

import pytest

from deployed import manifests
from lab import DRIVER, HOOK, IDLE, PATHS, documents, wait_for
from objects import (OTHER, SAME, Vf, claim, link_in_pod, ping, pools, vf_of_claim, wait_ping, wait_state)

MAC = "52:54:00:ab:cd:03"
ADDRESS, DEVICE, NAME = "0000:01:10.0", "0000-01-10-0", "enp1s0v0"
WHOLE = {"mac": MAC, "mtu": 1400, "up": True, "ips": ["192.0.2.1/24"]}
IMAGE = {"image": "lab.local/busybox:1", "imagePullPolicy": "Never"}
# A container that keeps what it found at its start.
REMEMBERS = ["sh", "-c", "ip addr show dev net1 >/tmp/first; trap exit TERM; sleep 100000 & wait"]


def asked(name="net1"):
    return claim("asked", "vf-prepared", {"macAddress": MAC, "vlan": {"id": 100}, "mtu": 1400},
                 {"name": name, "addresses": ["192.0.2.1/24"]}, device=ADDRESS)


@pytest.fixture
def vf(lab, started, neighbours):
    """The VF of the claim "asked", and as it was."""
    found = Vf(lab.nodes["node1"], ADDRESS)
    found.before = found.state()
    yield found
    if not started.alive():  # a test that failed: without Unprepare no pod ends
        started.start(pools())


def once_prepared(lab, driver, then):
    """Runs a script in the node as soon as the kubelet has noted that the claim "asked" is prepared, which it does
    before it makes the pod's sandbox. $driver is the driver's pid."""
    uid = lab.get("resourceclaim", "asked")["metadata"]["uid"]
    driver.node.run(f"""
        driver={driver.pid()}
        until grep -qs '{uid}-{DEVICE}' /var/lib/kubelet/dra_manager_state; do
            [ $SECONDS -lt 90 ] || {{ echo "never prepared" >&2; exit 1; }}
        done
        {then}""", timeout=110)


def has_its_vf(lab, vf):
    """Proven by packets, on its VLAN and not on the other."""
    assert link_in_pod(lab, "asked", "net1") == WHOLE
    during = vf.state()
    assert (during["vlan"], during["admin_mac"], during["home"]) == (100, MAC, False)
    wait_ping(lab, "asked", SAME)
    assert ping(lab, "asked", OTHER, count=2) == 0


def found_again(lab, driver, vf):
    """The driver is back: it knows what the hook did, tells it, and takes it home when the pod ends."""
    device = wait_for(lambda: (lab.get("resourceclaim", "asked")["status"].get("devices") or [None])[0], 60,
                      "status.devices of the claim")
    assert device["networkData"]["interfaceName"] == "net1"
    assert device["networkData"]["hardwareAddress"] == MAC
    assert device["networkData"]["ips"] == ["192.0.2.1/24"]
    assert device["conditions"][0]["status"] == "True"
    has_its_vf(lab, vf)
    lab.delete("pod", "asked", timeout=90)
    wait_state(vf, vf.before)
    uid = lab.get("resourceclaim", "asked")["metadata"]["uid"]
    driver.node.run(f"! ls {driver.state} /run/cdi | grep {uid}")


def no_repair(driver, since):
    assert "repaired" not in driver.log()[since:], "the pod was whole before the driver was back"


@contextlib.contextmanager
def stopped(driver):
    """SIGSTOP: there, connected, and deaf. NRI waits 2 s for it."""
    try:
        yield
    finally:
        driver.signal("CONT", wait=False)


# ---- the driver is gone, and the pod has its VF


@pytest.mark.contract
def test_a_driver_killed_after_prepare_costs_the_pod_nothing(lab, started, vf):
    lab.apply(asked())
    lab.pod("asked", ["asked"], containers=[{"name": "main", "command": REMEMBERS, "resources": {"claims": [{"name": "asked"}]},
                                             **IMAGE}])
    once_prepared(lab, started, "kill -9 $driver")
    lab.wait_pod("asked", timeout=120)
    assert not started.alive()
    assert "VFs moved into pod claim=default/asked" not in started.log()
    assert "192.0.2.1/24" in lab.exec("asked", "cat", "/tmp/first"), "it was there before the container's first process"
    has_its_vf(lab, vf)
    mark = started.log_mark()
    started.start(pools())
    found_again(lab, started, vf)
    no_repair(started, mark)


@pytest.mark.contract
def test_a_driver_that_hangs_as_the_sandbox_is_made_costs_the_pod_nothing(lab, started, vf):
    """NRI gives up after 2 s and goes on; the driver wakes up later, with a request that nobody waits for any more."""
    lab.apply(asked())
    lab.pod("asked", ["asked"])
    with stopped(started):
        once_prepared(lab, started, "kill -STOP $driver")
        lab.wait_pod("asked", timeout=120)
        has_its_vf(lab, vf)
        mark = started.log_mark()
    started.wait_log("connected to the runtime's NRI", 60, mark)
    found_again(lab, started, vf)
    no_repair(started, mark)


@pytest.mark.contract
def test_a_vf_lost_between_sandbox_and_container_is_there_again(lab, started, vf):
    """The VF was in the sandbox, and is taken out of it behind everybody's back: each container is looked after."""
    node = lab.nodes["node1"]
    main = {"resources": {"claims": [{"name": "asked"}]}, **IMAGE}
    lab.apply(asked())
    lab.pod("asked", ["asked"],
            initContainers=[{"name": "first", "command": ["sh", "-c", "until [ -e /tmp/go ]; do sleep 0.2; done"], **IMAGE}],
            containers=[{"name": "main", "command": REMEMBERS, **main}])
    started.wait_log("VFs moved into pod claim=default/asked", 90)
    started.kill()
    node.run("""
        for ns in /run/netns/*; do
            ip -n ${ns##*/} addr show dev net1 2>/dev/null | grep -q 192.0.2.1/24 || continue
            ip -n ${ns##*/} link set net1 netns 1 && exit
        done
        exit 1""")
    assert vf.wait_home()["vlan"] == 100
    wait_for(lambda: lab.get("pod", "asked")["status"].get("initContainerStatuses", [{}])[0].get("state", {}).get("running"), 60,
             "the init container runs")
    lab.exec("asked", "touch", "/tmp/go", container="first")
    lab.wait_pod("asked", timeout=120)
    assert not started.alive()
    assert "192.0.2.1/24" in lab.exec("asked", "cat", "/tmp/first")
    has_its_vf(lab, vf)
    mark = started.log_mark()
    started.start(pools())
    found_again(lab, started, vf)
    no_repair(started, mark)


@pytest.mark.contract
def test_a_driver_killed_while_it_attaches_costs_the_pod_nothing(lab, started, vf):
    """As the VF leaves the host: what the driver left undone is done before the container starts."""
    lab.apply(asked())
    lab.pod("asked", ["asked"], containers=[{"name": "main", "command": REMEMBERS, "resources": {"claims": [{"name": "asked"}]},
                                             **IMAGE}])
    started.node.run(f"""
        while [ $SECONDS -lt 60 ]; do
            [ -d /sys/bus/pci/devices/{ADDRESS}/net/{NAME} ] || {{ kill -9 {started.pid()}; exit 0; }}
        done
        echo "the VF never left" >&2; exit 1""", timeout=90)
    lab.wait_pod("asked", timeout=120)
    assert not started.alive()
    assert "192.0.2.1/24" in lab.exec("asked", "cat", "/tmp/first")
    has_its_vf(lab, vf)
    mark = started.log_mark()
    started.start(pools())
    found_again(lab, started, vf)
    no_repair(started, mark)


def test_each_container_of_a_pod_and_each_restart(lab, started, vf):
    """An init container, two containers, and one that restarts, without the driver: idempotent."""
    use = {"resources": {"claims": [{"name": "asked"}]}, **IMAGE}
    check = "ip addr show dev net1 | grep -q 192.0.2.1"
    lab.apply(asked())
    lab.pod("asked", ["asked"], initContainers=[{"name": "init", "command": ["sh", "-c", check], **use}],
            containers=[{"name": "main", "command": IDLE, **use},
                        {"name": "again", "command": ["sh", "-c", f"{check} && sleep 3; exit 1"], **use}])
    once_prepared(lab, started, "kill -9 $driver")

    def restarted():
        pod = lab.get("pod", "asked")
        states = {s["name"]: s for s in pod["status"].get("containerStatuses", [])}
        ended = states.get("again", {}).get("lastState", {}).get("terminated")
        return states if ended and states["again"]["restartCount"] >= 1 and states["main"]["ready"] else None
    ended = wait_for(restarted, 120, "the container restarts")["again"]["lastState"]["terminated"]
    # it ended after its sleep, so it had found the interface
    assert ended["finishedAt"] > ended["startedAt"]
    assert not started.alive()
    has_its_vf(lab, vf)
    started.start(pools())
    found_again(lab, started, vf)


@pytest.mark.contract
def test_a_new_sandbox_has_the_settings_without_the_driver(lab, started, vf):
    """The kubelet makes one for a live pod without a new Prepare: the settings are in force again."""
    node = lab.nodes["node1"]
    lab.apply(asked())
    lab.pod("asked", ["asked"])
    lab.wait_pod("asked")
    started.kill()
    node.run("id=$(crictl -t 60s -r unix:///run/containerd/containerd.sock pods --name asked -q) && "
             "crictl -t 60s -r unix:///run/containerd/containerd.sock stopp $id")
    wait_for(lambda: lab.get("pod", "asked")["status"]["containerStatuses"][0]["restartCount"] >= 1, 90,
             "the container is started again")
    lab.wait_pod("asked", timeout=120)
    assert not started.alive()
    has_its_vf(lab, vf)
    started.start(pools())
    found_again(lab, started, vf)


# ---- it can't have its VF, and the container doesn't start


def refused(lab, text):
    """The event has the hook's own words; the container hasn't run and doesn't. (The pod's phase may say Running by
    then: for the kubelet it is a container that has ended, and is tried again.)"""
    event = lab.wait_event("asked", text, timeout=120)
    assert f"sriov-dra: claim default/asked: VF {ADDRESS}: " in event["message"]
    for _ in range(8):
        container, = lab.get("pod", "asked")["status"]["containerStatuses"]
        assert not container["ready"] and not container.get("started") and "running" not in container["state"]
        for state in container["state"], container.get("lastState", {}):
            assert state.get("terminated", {"reason": "StartError"})["reason"] == "StartError"
        time.sleep(0.5)
    return event["message"]


@pytest.mark.contract
def test_a_container_that_can_not_have_its_vf_is_not_started(lab, started, vf):
    """eth0 is the pod network's: refused, and the VF is at home with the claim's settings."""
    lab.apply(asked("eth0"))
    lab.pod("asked", ["asked"])
    once_prepared(lab, started, "kill -9 $driver")
    said = refused(lab, "the pod has an interface eth0 already")
    assert "choose another interface.name in the claim" in said
    assert not started.alive()
    state = vf.state()
    assert (state["home"], state["name"], state["vlan"], state["admin_mac"]) == (True, NAME, 100, MAC)
    started.start(pools())
    lab.delete("pod", "asked", timeout=90)
    wait_state(vf, vf.before)


@pytest.mark.contract
def test_a_vf_that_another_namespace_has_is_not_taken_from_it(lab, started, vf):
    """Whoever took it keeps it; when it is back, the container that is tried again has it."""
    node = lab.nodes["node1"]
    lab.apply(asked())
    lab.pod("asked", ["asked"])
    once_prepared(lab, started, f"kill -9 $driver; ip netns add thief && ip link set {NAME} netns thief")
    try:
        said = refused(lab, "its interface is neither here nor in the pod")
        assert "a VF serves one pod at a time" in said
    finally:
        node.run(f"ip -n thief link set {NAME} netns 1; ip netns del thief", check=False)
    lab.wait_pod("asked", timeout=180)
    assert not started.alive()
    has_its_vf(lab, vf)
    started.start(pools())
    found_again(lab, started, vf)


@pytest.mark.contract
def test_the_hook_takes_no_vf_from_another_pod(lab, started, vf):
    """Its hook doesn't take the VF from the first; it gets it when that is gone."""
    lab.apply(asked())
    lab.pod("first", ["asked"])
    lab.wait_pod("first")
    wait_ping(lab, "first", SAME)
    started.kill()
    lab.pod("asked", ["asked"])
    said = refused(lab, "its interface is neither here nor in the pod")
    assert "another pod may have it" in said
    assert link_in_pod(lab, "first", "net1") == WHOLE
    wait_ping(lab, "first", SAME)
    lab.delete("pod", "first", wait=False)
    lab.wait_pod("asked", timeout=180)
    assert not started.alive()
    has_its_vf(lab, vf)
    started.start(pools())
    found_again(lab, started, vf)


# ---- the hook by itself


def record(uid, boot, original):
    """Of a prepared claim, as the driver writes it, with the VF as it is."""
    body = json.dumps({
        "version": 1, "namespace": "default", "name": "by-hand", "uid": uid, "state": "Prepared", "bootID": boot,
        "byKubelet": True, "pods": [], "devices": [{
            "request": "vf", "pool": "node1", "device": DEVICE, "index": 0, "vf": ADDRESS, "pf": "0000:01:00.0",
            "poolDocument": "p", "mode": "Prepare", "attach": "NRI", "settings": {"vlan": {"id": 100}},
            "interface": {"name": "net1", "addresses": ["192.0.2.9/24"]}, "original": original}]})
    return f"sriov-dra claim record crc32={zlib.crc32(body.encode()):08x}\n{body}"


def test_by_hand_on_the_node(lab, started):
    """In a namespace made by hand: attaches, passes, attaches what was lost, refuses the host's; and what it costs."""
    node = lab.nodes["node1"]
    vf = Vf(node, ADDRESS)
    before = vf.state()
    entry = before["admin_mac"]
    boot = node.run("cat /proc/sys/kernel/random/boot_id").strip()
    (node.share / "by-hand").write_text(record("by-hand", boot, {
        "name": NAME, "mac": before["mac"], "adminMac": entry, "vlan": 0, "vlanQos": 0, "vlanProto": 33024,
        "adminMarked": False, "mtu": before["mtu"], "up": False}), encoding="utf-8")
    text = node.run(f"""
        mkdir -p /tmp/claims && cp /host/by-hand /tmp/claims/by-hand.json
        ip netns add by-hand
        ip netns exec by-hand sleep 1000 & pod=$!
        trap 'kill $pod; ip -n by-hand link set net1 down name {NAME} netns 1; ip netns del by-hand
              ip link set enp1s0 vf 0 vlan 0; rm -rf /tmp/claims' EXIT
        sleep 0.5
        state() {{ echo '{{"pid": '$1', "annotations": {{"io.kubernetes.cri.sandbox-id": "sb"}}}}'; }}
        hook() {{ state $1 | /usr/local/bin/{HOOK} --state-dir /tmp/claims --claim by-hand; echo "status $?"; }}
        hook $pod
        ip -n by-hand addr show dev net1 | grep 192.0.2.9; cat /tmp/claims/by-hand.sandbox; echo
        ip -n by-hand link set net1 down && ip -n by-hand addr flush dev net1
        hook $pod # noted as whole: what the pod did to it is the pod's
        ip -n by-hand link set net1 netns 1
        hook $pod
        ip -n by-hand addr show dev net1 | grep 192.0.2.9
        hook $$ 2>&1
        state $pod >/tmp/state
        now() {{ read -r up _ </proc/uptime; echo ${{up/./}}; }}
        began=$(now); for n in $(seq 50); do /usr/local/bin/{HOOK} --state-dir /tmp/claims --claim by-hand </tmp/state; done
        echo "50 hooks $(($(now) - began))0 ms"
        began=$(now); for n in $(seq 50); do /bin/busybox true </tmp/state; done
        echo "50 programs that do nothing $(($(now) - began))0 ms"
        """, timeout=120)
    print(text)
    assert text.count("status 0") == 3 and text.count("status 1") == 1
    assert text.count("inet 192.0.2.9/24") == 2 and "\nsb\n" in text
    assert "can't be moved into a pod with hostNetwork" in text
    wait_state(vf, before)


# ---- Skip: the runtime's validator


@pytest.mark.contract
def test_a_guarded_skip_pod_is_not_started_without_the_driver(lab, started, neighbours):
    """No CDI without Prepare, and so no hook: the runtime refuses the container while the plugin is away. The pod has a
    label, of which the policy makes the runtime's annotation."""
    node = lab.nodes["node1"]
    mark = started.log_mark()
    node.validator(True)
    try:
        started.wait_log("connected to the runtime's NRI", 60, mark)
        lab.apply(claim("guarded", "vf-preprovisioned", None, {"name": "net1", "addresses": ["192.0.2.1/24"]}))
        pod = lab.pod("guarded", ["guarded"], start=False)
        pod["metadata"]["labels"] = {f"{DRIVER}/required": "true"}
        lab.apply(manifests("policies/required.yaml"))
        lab.wait_for(lambda: "required-plugins.noderesource.dev" in
                     lab.must("POST", PATHS["pod"].format("default") + "?dryRun=All", pod)["metadata"].get("annotations", {}), 60,
                     "the policy is in force")
        started.kill()
        lab.apply(pod)
        lab.wait_event("guarded", 'required plugin "sriov-dra" not present', timeout=90)
        for _ in range(5):
            status = lab.get("pod", "guarded")["status"]
            assert status["phase"] == "Pending" and "running" not in status["containerStatuses"][0]["state"]
            time.sleep(0.5)
        assert vf_of_claim(lab, node, "guarded").state()["home"]
        started.start(pools())
        lab.wait_pod("guarded", timeout=120)
        wait_ping(lab, "guarded", SAME)
    finally:
        lab.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=documents(manifests("policies/required.yaml")))
        node.validator(False)
