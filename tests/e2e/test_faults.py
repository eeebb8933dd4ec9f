# SPDX-License-Identifier: Apache-2.0
"""The driver killed, stopped, or alone: nothing is lost, and what may end, ends."""
import time

import pytest

from lab import command, wait_for
from objects import SAME, Vf, claim, link_in_pod, pools, provision, vf_of_claim, wait_ping, wait_state

MAC = "52:54:00:ab:cd:02"


def asked(name="asked", device="0000:01:10.0"):
    return claim(name, "vf-prepared", {"macAddress": MAC, "vlan": {"id": 100}, "mtu": 1400},
                 {"name": "net1", "addresses": ["192.0.2.1/24"]}, device=device)


@pytest.mark.contract
def test_a_killed_driver_leaves_live_claims_alone(lab, started):
    node = lab.nodes["node1"]
    vf = Vf(node, "0000:01:10.0")
    before = vf.state()
    skip_claim = claim("skip", "vf-preprovisioned", None, {"name": "net1", "addresses": ["192.0.2.3/24"]}, device="0000:02:10.0")
    skip_vf = Vf(node, "0000:02:10.0")
    skip_before = skip_vf.state()
    lab.apply([asked(), skip_claim])
    for name in ("asked", "skip"):
        lab.pod(name, [name])
    for name in ("asked", "skip"):
        lab.wait_pod(name)
    wait_ping(lab, "asked", "192.0.2.3")
    started.kill()
    wait_ping(lab, "asked", "192.0.2.3")
    mark = started.log_mark()
    started.start(pools())
    started.wait_log("registered with the kubelet", since=mark)
    assert vf.state()["vlan"] == 100 and not vf.state()["home"], "a live claim is left alone"
    wait_ping(lab, "asked", "192.0.2.3")
    for name in ("asked", "skip"):
        lab.delete("pod", name)
    wait_state(vf, before)
    wait_state(skip_vf, skip_before)
    wait_for(lambda: started.records() == 0, 20, "all records are gone")


@pytest.mark.parametrize("delay", [0.0, 0.03, 0.2])
def test_killed_around_prepare(lab, started, neighbours, delay):
    """Killed at some point of Prepare and started again: the kubelet asks again, and it ends well."""
    node = lab.nodes["node1"]
    vf = Vf(node, "0000:01:10.0")
    before = vf.state()
    lab.apply(asked())
    lab.pod("asked", ["asked"])
    # from the moment when its record is there
    node.run(f"""
        for n in $(seq 2000); do
            [ $(ls {started.state} | grep -c json) -lt 1 ] || break
            sleep 0.005
        done
        sleep {delay}""")
    started.kill()
    started.start(pools())
    lab.wait_pod("asked", timeout=120)
    assert link_in_pod(lab, "asked", "net1")["mac"] == MAC
    wait_ping(lab, "asked", SAME)
    lab.delete("pod", "asked")
    wait_state(vf, before)


def kill_as_it_leaves(driver, vf, name):
    """Kills the driver as soon as the VF's interface isn't on the host any more, and starts it again."""
    driver.node.run(f"""
        while [ $SECONDS -lt 60 ]; do
            [ -d /sys/bus/pci/devices/{vf.address}/net/{name} ] || {{ kill -9 {driver.pid()}; exit 0; }}
        done
        echo "the VF never left" >&2; exit 1""", timeout=90)
    driver.kill()  # waits for the end
    driver.start(pools())


def test_killed_while_attaching(lab, started, neighbours):
    """The runtime goes on without us; the next start completes it, and tells. In a pod's second sandbox as in the
    first, whose attachment stands in the claim's status by then."""
    node = lab.nodes["node1"]
    vf = Vf(node, "0000:01:10.0")
    before = vf.state()
    lab.apply(asked())

    def completed():
        lab.wait_pod("asked", timeout=120)
        link = wait_for(lambda: (found := link_in_pod(lab, "asked", "net1")) and found["ips"] and found, 60,
                        "the attachment is completed")
        assert link == {"mac": MAC, "mtu": 1400, "up": True, "ips": ["192.0.2.1/24"]}
        wait_ping(lab, "asked", SAME)

    lab.pod("asked", ["asked"])
    kill_as_it_leaves(started, vf, before["name"])
    completed()
    device = wait_for(lambda: (lab.get("resourceclaim", "asked")["status"].get("devices") or [None])[0], 30,
                      "status.devices of the claim")
    assert device["networkData"]["hardwareAddress"] == MAC
    crictl = "crictl -t 60s -r unix:///run/containerd/containerd.sock"
    node.run(f"{crictl} stopp $({crictl} pods --name asked -q)")
    vf.wait_home()
    kill_as_it_leaves(started, vf, before["name"])
    completed()
    lab.delete("pod", "asked")
    wait_state(vf, before)


@pytest.mark.contract
def test_a_skip_pod_ends_without_the_driver_and_a_prepare_pod_waits(lab, started):
    """A skip pod ends in its grace period; a prepare pod waits for the driver."""
    node = lab.nodes["node1"]
    vf, skip_vf = Vf(node, "0000:01:10.0"), Vf(node, "0000:02:10.0")
    before, skip_before = vf.state(), skip_vf.state()
    lab.apply([asked(), claim("skip", "vf-preprovisioned", None, {"name": "net1"}, device="0000:02:10.0")])
    lab.pod("asked", ["asked"])
    lab.pod("skip", ["skip"])
    lab.wait_pod("asked")
    lab.wait_pod("skip")
    assert link_in_pod(lab, "skip", "net1")
    assert started.stop() == 0
    begin = time.monotonic()
    lab.delete("pod", "skip", wait=False)
    lab.delete("pod", "asked", wait=False)
    wait_for(lambda: lab.get("pod", "skip") is None, 15, "the skip pod ends without the driver")
    gone = time.monotonic() - begin
    time.sleep(max(0.0, 20 - gone))
    assert lab.get("pod", "asked") is not None, "the prepare pod waits for Unprepare"
    started.start(pools())
    wait_for(lambda: lab.get("pod", "asked") is None, 60, "the prepare pod ends when the driver is back")
    wait_state(vf, before)
    wait_state(skip_vf, skip_before)
    assert gone < 12, f"the skip pod took {gone:.1f} s"


def test_removed_by_force(lab, started, neighbours):
    """Killed, and its slices deleted, with a claim live: its pod goes on, new ones say what they wait for, and the verbs
    name what is left. A driver that comes back finds it all."""
    def verb(*arguments):
        done = command([started.binary, *arguments, "--kubeconfig", lab.dir / "admin.kubeconfig"], check=False)
        return done.returncode, done.stdout

    lab.apply(asked())
    lab.pod("asked", ["asked"])
    lab.wait_pod("asked")
    started.kill()
    for s in lab.slices():
        lab.delete("resourceslice", s["metadata"]["name"])
    wait_ping(lab, "asked", SAME)
    lab.apply(claim("late", "vf-preprovisioned", None, {"name": "net1", "addresses": ["192.0.2.3/24"]}))
    lab.pod("late", ["late"])
    lab.wait_event("late", "FailedScheduling: .*cannot allocate all claims")
    status, text = verb("explain", "pod/late")
    assert status == 1 and "sriov-dra.dev offers nothing: there is no slice of it. No node driver runs" in text, text
    status, text = verb("claims", "--need-driver", "--node", "node1")
    assert status == 1 and "default/asked" in text, text
    lab.delete("pod", "asked", wait=False)
    time.sleep(10)
    assert lab.get("pod", "asked") is not None, "its clean-up is the driver's"
    started.start(pools())
    lab.wait_slices(11)
    lab.wait_pod("late", timeout=90)
    wait_for(lambda: lab.get("pod", "asked") is None, 60, "the pod ends when the driver is back")
    wait_ping(lab, "late", SAME)


def test_second_driver_names_the_holder(lab, started):
    result = started.verb("node", "--node-name", "node1", "--kubeconfig", "/host/driver.kubeconfig", "--state-dir", "/tmp/other",
                          check=False)
    assert result.returncode == 3
    assert f"(pid {started.pid()})" in result.stderr
    assert started.alive()
    lab.wait_slices(11)


def test_killed_driver_leaves_a_stale_socket(lab, started):
    started.kill()
    lab.nodes["node1"].run("test -S /var/lib/kubelet/plugins/sriov-dra.dev/dra.sock")
    mark = started.log_mark()
    started.start(pools())
    started.wait_log("registered with the kubelet", since=mark)  # a pod before that waits for a minute
    lab.apply(asked())
    lab.pod("asked", ["asked"])
    lab.wait_pod("asked")
    assert link_in_pod(lab, "asked", "net1")["ips"] == ["192.0.2.1/24"]
    assert Vf(lab.nodes["node1"], "0000:01:10.0").state()["vlan"] == 100


def test_kubelet_restart_puts_the_slices_back(lab, started, neighbours):
    node = lab.nodes["node1"]
    lab.apply(asked())
    lab.pod("asked", ["asked"])
    lab.wait_pod("asked")
    uids = {s["metadata"]["uid"] for s in lab.slices()}
    node.service("kubelet", "restart")
    wait_for(lambda: not uids & {s["metadata"]["uid"] for s in lab.slices()}, 60, "the kubelet deletes the slices")
    lab.wait_slices(11, timeout=30)
    wait_ping(lab, "asked", SAME)
    lab.delete("pod", "asked", timeout=90)


def test_containerd_restart(lab, started, neighbours):
    """NRI connects again; sandboxes from before are released though containerd tells nobody of their end."""
    node = lab.nodes["node1"]
    skip_vf = Vf(node, "0000:02:10.0")
    skip_before = skip_vf.state()
    lab.apply([asked(), claim("skip", "vf-preprovisioned", None, {"name": "net1"}, device="0000:02:10.0")])
    lab.pod("skip", ["skip"])
    lab.wait_pod("skip")
    mark = started.log_mark()
    node.service("containerd", "restart")
    started.wait_log("connected to the runtime's NRI", 60, mark)
    lab.pod("asked", ["asked"])
    lab.wait_pod("asked", timeout=120)
    wait_ping(lab, "asked", SAME)
    lab.delete("pod", "skip")
    wait_state(skip_vf, skip_before)
    wait_for(lambda: started.records() == 1, 40, "the skip claim's record is gone")


def test_api_server_away_at_start(lab, drivers):
    """No API server: it serves, says so once, and publishes when the server is there."""
    driver = drivers()
    provision(lab.nodes["node1"])
    node = lab.nodes["node1"]
    node.run("sed 's/10\\.0\\.2\\.2:[0-9]*/127.0.0.1:1/' /host/driver.kubeconfig >/tmp/away.kubeconfig")
    driver.start(pools(), ["--kubeconfig", "/tmp/away.kubeconfig"])
    driver.wait_log("registered with the kubelet")
    driver.wait_log("can't be watched for now")
    assert driver.alive()
    assert driver.stop() == 0


@pytest.mark.contract
def test_a_vf_whose_record_is_damaged_is_not_verified(lab, started):
    """Set aside; VFs that look touched aren't offered as verified, and the rest goes on."""
    node = lab.nodes["node1"]
    lab.apply(asked())
    lab.pod("asked", ["asked"])
    lab.wait_pod("asked")
    vf = vf_of_claim(lab, node, "asked")
    started.kill()
    node.run(f"f=$(ls {started.state}/*.json) && truncate -s 100 $f")
    started.start(pools())
    started.wait_log("damaged and set aside")
    node.run(f"ls {started.state}/*.json.bad")
    lab.delete("pod", "asked", timeout=90)
    assert vf.wait_home()["vlan"] == 100, "its originals are lost with the record"

    def tainted():
        for s in lab.slices():
            for d in s["spec"]["devices"]:
                if d["name"] == vf.address.replace(":", "-").replace(".", "-"):
                    return d.get("taints") and d["attributes"]["verified"] == {"bool": False}
        return False
    wait_for(tainted, 30, "the touched VF is tainted")
    node.run(f"rm -f {started.state}/*.bad")
    node.vfs(7)


def test_nri_socket_absent(lab, drivers):
    driver = drivers()
    provision(lab.nodes["node1"])
    driver.start(pools(), ["--nri-socket", "/run/none.sock"])
    driver.wait_log("no NRI connection")
    driver.wait_log("registered with the kubelet")
    lab.wait_slices(11)
    assert driver.stop() == 0
