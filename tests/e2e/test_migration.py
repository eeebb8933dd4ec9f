# SPDX-License-Identifier: Apache-2.0
"""docs/migration.md from start to end on two nodes, while pods send each other numbered packets."""
import json
import re
import time

import page
import pytest

from lab import CHECKOUT, HOOK, command, wait_for
from objects import PREPARE_PF, Vf, allocated, claim, rpcs, skips, vf_of_claim, wait_seen, wait_state

PAGE = CHECKOUT / "docs" / "migration.md"
# The page's names, and what stands for them here. Nothing else is changed.
HERE = {
    "worker-1": "node1",
    "worker-2": "node2",
    "image: example.com/app:1": 'image: lab.local/busybox:1\n        command: [sh, -c, "trap exit TERM; sleep 100000 & wait"]',
}
STATE = "/var/lib/kubelet/plugins/sriov-dra.dev/claims"
UNIT = CHECKOUT / "deploy/systemd/sriov-dra.service"

# What systemd makes of the unit: the nodes have none. A word in kill-at kills the driver when it logs a line with it; how
# its VFs are then is kept.
SYSTEMCTL = f"""#!/bin/bash
[ "$2" = sriov-dra ] || {{ echo "no unit $2" >&2; exit 5; }}
OPTIONS= pid=/run/lab/driver.pid unit=/etc/systemd/system/sriov-dra.service
. /etc/default/sriov-dra
relay() {{
    word=
    [ ! -e /run/lab/kill-at ] || read -r word </run/lab/kill-at
    while IFS= read -r line; do
        printf '%s\\n' "$line" >>/host/log/driver.log
        if [ -n "$word" ] && [[ $line == *"$word"* ]]; then
            read -r it <$pid && kill -9 "$it" # no process in between: it is quick
            ip -json -details link show {PREPARE_PF} >/host/killed.json
            rm /run/lab/kill-at
            word=
        fi
    done
}}
supervise() {{
    grep -q '^Restart=always' $unit || exit
    while [ ! -e /run/lab/stopped ]; do
        $(sed -n 's/^ExecStart=//p' $unit | sed "s|\\$OPTIONS|$OPTIONS|") > >(relay) 2>&1 </dev/null &
        echo $! >$pid
        wait $!
        if [ -e /run/lab/stopped ]; then rm -f $pid; exit; fi
        rm -f $pid
        sleep 1 # RestartSec
    done
}}
stop() {{
    touch /run/lab/stopped
    ! kill "$(cat $pid 2>/dev/null)" 2>/dev/null || while [ -e $pid ]; do sleep 0.05; done
}}
start() {{
    rm -f /run/lab/stopped
    export -f supervise relay
    export pid unit OPTIONS
    setsid bash -c supervise >/dev/null 2>&1 </dev/null &
    while [ ! -s $pid ]; do sleep 0.05; done
}}
case $1 in
start | stop) "$1" ;;
restart) stop && start ;;
*) exit 1 ;;
esac
"""


class Packets:
    """Two pods of one node, on two VFs that they have by claims of mode Prepare; one sends to the other."""

    def __init__(self, lab, node):
        self.lab, self.node = lab, node
        self.names = f"receive-{node.name}", f"send-{node.name}"
        self.log = {name: node.share / "log" / f"{name}.log" for name in self.names}
        self.marks = []  # (the last number before it, what was done)

    def start(self):
        receive, send = self.names
        for name, ip, words in ((receive, "198.51.100.1", ["receive", "9000"]), (send, "198.51.100.2", ["send", "198.51.100.1", "9000"])):
            self.lab.apply(claim(name, "vf-prepared", {"vlan": {"id": 100}}, {"name": "net1", "addresses": [f"{ip}/24"]}))
            pod = self.lab.pod(name, [name], node=self.node.name, start=False, volumes=[{"name": "lab", "hostPath": {"path": "/host"}}])
            pod["spec"]["containers"][0] |= {"command": ["/lab/packets", *words, f"/lab/log/{name}.log"],
                                             "volumeMounts": [{"name": "lab", "mountPath": "/lab"}]}
            self.lab.apply(pod)
        return self

    def ready(self):
        self.uids = [self.lab.wait_pod(name)["metadata"]["uid"] for name in self.names]
        wait_for(lambda: len(self.received()) > 10, 30, f"packets arrive on {self.node.name}")
        self.vfs = [vf_of_claim(self.lab, self.node, name) for name in self.names]
        self.states = [vf.state() for vf in self.vfs]

    def lines(self, name):
        text = self.log[name].read_text() if self.log[name].exists() else ""
        return [tuple(map(int, line.split())) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def received(self):
        return [line[0] for line in self.lines(self.names[0])]

    def sent(self):
        return self.lines(self.names[1])

    def mark(self, what):
        sent = self.sent()
        self.marks.append((sent[-1][0] if sent else 0, what))

    def untouched(self):
        """The pods are those of the start, and so are their VFs' settings and the calls that their claims wait for."""
        assert [vf.state() for vf in self.vfs] == self.states
        for name, uid in zip(self.names, self.uids):
            pod = self.lab.get("pod", name)
            assert pod["metadata"]["uid"] == uid and not any(s["restartCount"] for s in pod["status"]["containerStatuses"])
            assert not allocated(self.lab, name)[0].get("skipNodeOperations")

    def check(self):
        """All that were sent since the first arrival have arrived, ten a second."""
        first, last = self.received()[0], self.sent()[-1][0]
        wait_for(lambda: self.received()[-1] >= last, 30, f"packet {last} or a later one has come to {self.names[0]}")
        received = [n for n in self.received() if n <= last]
        sent = [line for line in self.sent() if first <= line[0] <= last]
        missing = sorted(set(range(first, last + 1)) - set(received))
        during = {n: next((what for mark, what in reversed(self.marks) if n > mark), "the start") for n in missing}
        # A guest that stands still makes a packet late, and none of the next: those in time say what the rate is.
        quarter = len(sent) // 4
        (n, at, *_), (m, end, *_) = (min(part, key=lambda line: line[2]) for part in (sent[:quarter], sent[-quarter:]))
        rate = (m - n) * 1e6 / (end - at)
        late = max(line[2] for line in sent) / 1000
        came = [line[2] for line in self.lines(self.names[0])]
        gap = max(b - a for a, b in zip(came, came[1:])) / 1000
        print(f"{self.node.name}: {last - first + 1} packets, {len(missing)} missing, {rate:.2f} a second, "
              f"{len(received) - len(set(received))} twice, sent at most {late:.0f} ms late, at most {gap:.0f} ms between two arrivals")
        assert not [line for line in sent if line[3]], "the kernel refused to send"
        assert not missing, f"of {last}: {during}"
        assert 9.9 < rate < 10.1, "the sender keeps to its clock"
        return last

    def stop(self):
        for name in reversed(self.names):
            self.lab.delete("pod", name)
            self.lab.delete("resourceclaim", name)


class Operator(page.Operator):
    """Notes in the streams of packets what was done when."""

    def __init__(self, lab, home):
        super().__init__(lab, home)
        self.streams = []

    def step(self, step):
        if not isinstance(step, page.File):
            for stream in self.streams:
                stream.mark(str(step))
        super().step(step)


@pytest.fixture(name="nodes")
def fixture_nodes(lab, drivers):
    """Both nodes with the program, and what stands for its unit."""
    made = {}
    for name, node in lab.nodes.items():
        driver = drivers(node=name, state=STATE)
        driver.path = "/usr/local/bin/sriov-dra"
        driver.install()
        (node.share / "systemctl").write_text(SYSTEMCTL)
        (node.share / "unit").write_text(UNIT.read_text())
        node.run(f"""
            install -m755 /host/systemctl /usr/local/bin/systemctl
            install -D -m644 /host/unit /etc/systemd/system/{UNIT.name}
            echo 'OPTIONS="--node-name {name} --kubeconfig /host/driver.kubeconfig"' >/etc/default/sriov-dra""")
        command(["gcc", "-static", "-Os", CHECKOUT / "tests/e2e/packets.c", "-o", node.share / "packets"])
        made[name] = driver
    yield made
    lab.kubectl("delete", "deployment", "storage", "--ignore-not-found")
    lab.kubectl("uncordon", *lab.nodes)
    lab.clean(slices=False)
    for node in lab.nodes.values():
        node.run(f"systemctl stop sriov-dra; rm -rf /usr/local/bin/systemctl /usr/local/bin/{HOOK} /etc/sriov-dra")
        node.vfs(7)


def of_workload(lab):
    """{(node, mode)} of the workload's claims, by their own copy of the list."""
    found = set()
    for c in lab.get("resourceclaim"):
        if c["metadata"]["name"].startswith("storage-"):
            for d in c.get("status", {}).get("allocation", {}).get("devices", {}).get("results", []):
                found.add((d["pool"], "Skip" if d.get("skipNodeOperations") == ["*"] else "Prepare"))
    return found


def vfs_of(lab, node):
    """{device: number of the VF}, of all that the workload has on the node."""
    return {d["device"] for c in lab.get("resourceclaim") if c["metadata"]["name"].startswith("storage-")
            for d in c.get("status", {}).get("allocation", {}).get("devices", {}).get("results", []) if d["pool"] == node}


def address(device):
    return re.sub(r"-(\d)$", r".\1", device).replace("-", ":")


@pytest.mark.long
@pytest.mark.lab(nodes=2)
def test_a_pool_moves_to_skip_and_back_and_no_packet_is_lost(lab, nodes, tmp_path):
    operator = Operator(lab, tmp_path)
    one, two = Packets(lab, lab.nodes["node1"]), Packets(lab, lab.nodes["node2"])
    before = {}  # the workload's VFs on node1, at the start

    def inventory():
        """The pods whose packets are counted live from here on."""
        operator.streams = [one.start(), two.start()]
        one.ready()
        two.ready()
        assert of_workload(lab) == {("node1", "Prepare"), ("node2", "Prepare")}
        before["devices"] = vfs_of(lab, "node1")
        before["calls"] = rpcs(nodes["node1"])

    def first_node():
        """Killed when the first VF was set up: the restart goes on with the others."""
        nodes["node1"].node.run("echo 'VF set up' >/run/lab/kill-at")

    def workload():
        killed = json.loads((lab.nodes["node1"].share / "killed.json").read_text())[0]["vfinfo_list"]
        vlans = [(vf.get("vlan_list") or [{}])[0].get("vlan", 0) for vf in killed]
        assert 0 in vlans, "it was killed in the middle"
        assert vlans.count(100) >= 3 + 1, "the VFs in use, and one that was free"
        assert nodes["node1"].log().count("VF set up") >= 2, "the others followed after the restart"
        assert [lab.nodes["node1"].vf_of(PREPARE_PF, n)["vlan_list"][0]["vlan"] for n in range(7)] == [100] * 7
        one.untouched()
        two.untouched()
        assert of_workload(lab) == {("node1", "Prepare"), ("node2", "Prepare")}

    def the_rest():
        """Claims of both modes live on node1; the VF of the workload's former claim there has followed."""
        assert ("node1", "Skip") in of_workload(lab)
        one.untouched()
        two.untouched()
        ended = before["calls"][1] + len(before["devices"])
        wait_for(lambda: rpcs(nodes["node1"])[1] == ended, 30, "the former claim has ended by a call")
        for device in before["devices"]:
            vf = Vf(lab.nodes["node1"], address(device))
            wait_for(lambda vf=vf: vf.state()["vlan"] == 100, 30, f"VF {vf.address} has followed")
            wait_seen(lab, device, (True, []))

    def removing():
        one.untouched()
        two.untouched()
        wait_for(lambda: {mode for _, mode in of_workload(lab)} == {"Skip"}, 30, "the workload's claims have all moved")

    def nothing_needs_it():
        two.check()
        two.stop()
        operator.streams.remove(two)
        for vf in two.vfs:
            # home, and set up as the pool says: the claims' own settings were the same, and their originals weren't
            wait_for(lambda vf=vf: (s := vf.state())["home"] and s["vlan"] == 100, 30, f"VF {vf.address} has followed")

    def way_back():
        assert not nodes["node2"].records()
        one.untouched()

    def the_other_way_round():
        one.untouched()
        before["skips"] = skips(lab)
        before["calls"] = rpcs(nodes["node1"])

    at = {"1. Inventory": inventory, "The first node": first_node, "The workload": workload, "3. Move the rest, and remove the old": the_rest,
          "Removing the driver from a node": removing, "When nothing needs it": nothing_needs_it, "The way back": way_back,
          "The old claims, the other way round": the_other_way_round}
    began = time.monotonic()
    operator.whole(PAGE, HERE, at)
    took = time.monotonic() - began

    one.untouched()
    wait_for(lambda: {mode for _, mode in of_workload(lab)} == {"Prepare"}, 30, "the workload's claims are all back")
    assert skips(lab)[1] - before["skips"][1] == 2, "the workload's claims of before ended without a call"
    count = one.check()
    one.stop()
    assert rpcs(nodes["node1"])[1] - before["calls"][1] == 2, "and those of the packets by one, as they began"
    for vf, state in zip(one.vfs, one.states):
        wait_state(vf, {**vf.wait_home(), "vlan": 0, "admin_mac": state["admin_mac"]})
    print(f"{count} packets; the page took {took:.0f} s")
