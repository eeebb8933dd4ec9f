# SPDX-License-Identifier: Apache-2.0
"""The verb `provision`: what it prints, how it ends, and what it leaves alone."""
import fcntl
import json
import os
import shutil
import subprocess

import pytest

import kubelet
from node import NODE, pool, pools

DRIVER = {"by": "Driver"}
VLAN = {"vlan": {"id": 100}}
UID = "c1"


class Verb:
    """`sriov-dra provision` on a machine with enp1s0 and enp2s0, of 4 VFs each."""

    def __init__(self, machine):
        self.machine = machine

    def __call__(self, *arguments, documents=None, defaults=True, shell=""):
        program = os.environ.get("SRIOV_DRA") or kubelet.build_directory() / "sriov-dra"
        if documents is not None:
            self.machine.config.write_text(pools(*documents))
        words = ["--config", self.machine.config, "--sysroot", self.machine.sysroot,
                 "--kubelet-root", self.machine.kubelet] if defaults else []
        environment = {k: v for k, v in os.environ.items() if k != "NODE_NAME"}
        done = self.machine.namespace.run(
            subprocess.run, ["sh", "-c", f"{shell} exec \"$@\"", "-", program, "provision", *map(str, words), *arguments],
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, env=environment, check=False)
        assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr
        return done

    def json(self, *arguments, **options):
        done = self(*arguments, "-o", "json", **options)
        return done.returncode, json.loads(done.stdout)

    def ports_up(self, up=True):
        """Interfaces of these names for netlink; they have no VF, whatever sysfs says."""
        for name in ("enp1s0", "enp2s0"):
            self.machine.namespace.run(subprocess.run, f"ip link add {name} type veth peer p-{name} && ip link set {name} "
                                       f"{'up' if up else 'down'}", shell=True, check=True)

    def count(self, bus="01"):
        return (self.machine.sysroot / f"sys/bus/pci/devices/0000:{bus}:00.0/sriov_numvfs").read_text().strip()


@pytest.fixture(name="verb")
def fixture_verb(machine):
    return Verb(machine)


def fewer_vfs(machine, count):
    """enp1s0 has so many."""
    with machine.sysfs.kernel("01", "enp1s0"):
        (machine.sysroot / "sys/bus/pci/devices/0000:01:00.0/sriov_numvfs").write_text(f"{count}\n")
        link = machine.sysroot / f"sys/bus/pci/devices/0000:01:00.0/virtfn{count}"
        while link.is_symlink():
            pass


def set_flags(machine, netdev, flags):
    (machine.sysroot / f"sys/class/net/{netdev}/flags").write_text(f"{flags}\n")


@pytest.mark.parametrize("arguments, said", [
    ([], "--config is missing"),
    (["--config"], "option '--config' requires an argument"),
    (["--config", "x", "more"], "unexpected argument: more"),
    (["--config", "x", "-o", "xml"], "--output must be text or json: xml"),
    (["--config", "x", "--node-label", "nic"], "--node-label must be KEY=VALUE: nic"),
    (["--config", "x", "--node-label", "n+c=fast"], "--node-label must be KEY=VALUE: n+c=fast"),
    (["--config", "x", "--driver-name", "Big"], "--driver-name must be a DNS subdomain"),
    (["--frobnicate"], "unrecognized option '--frobnicate'"),
])
def test_usage(verb, arguments, said):
    done = verb(*arguments, defaults=False)
    assert done.returncode == 2 and done.stdout == ""
    assert said in done.stderr and "usage: sriov-dra provision --config FILE" in done.stderr


def test_help(verb):
    done = verb("--help", defaults=False)
    assert done.returncode == 0
    assert done.stdout.startswith("usage: sriov-dra provision --config FILE [--dry-run]")


def test_what_can_not_be_read(verb):
    done = verb("--config", "/nowhere", defaults=False)
    assert (done.returncode, done.stderr) == (3, "sriov-dra provision: /nowhere: No such file or directory\n")
    done = verb("--sysroot", "/nowhere", documents=[])
    assert done.returncode == 3 and "opening the system root /nowhere" in done.stderr


def test_dry_run_reads_like_a_diff(verb, machine):
    fewer_vfs(machine, 0)
    set_flags(machine, "enp1s0", "0x1002")
    before = machine.touched()
    done = verb("--dry-run", documents=[
        pool("storage", "enp1s0", "Skip", provisioning={**DRIVER, "count": 4},
             settings={**VLAN, "spoofCheck": False, "maxTxRateMbps": 500}),
        pool("other", "enp2s0", provisioning={**DRIVER, "count": 4})])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == """\
enp1s0 (0000:01:00.0), pool storage
- link down
+ link up
- numvfs 0
+ numvfs 4
+ vf 0-3: vlan 100, spoof checking off, max tx rate 500
"""
    assert machine.touched() == before


def test_vfs_are_made_once(verb, machine):
    fewer_vfs(machine, 0)
    verb.ports_up()
    documents = [pool("prepared", "enp1s0", provisioning={**DRIVER, "count": 4})]
    with machine.sysfs.kernel("01", "enp1s0"):
        done = verb(documents=documents)
        assert done.returncode == 0, done.stdout
        plan, report = done.stdout.splitlines()[:-1], done.stdout.splitlines()[-1]
        assert plan == ["enp1s0 (0000:01:00.0), pool prepared", "- numvfs 0", "+ numvfs 4"]
        assert report.startswith("enp1s0: 4 VFs made, in ")
        assert verb.count() == "4"
        done = verb()
        assert (done.returncode, done.stdout) == (0, "nothing to do\n")


def test_port_is_brought_up(verb, machine):
    set_flags(machine, "enp1s0", "0x1002")
    verb.ports_up(False)
    done = verb(documents=[pool("prepared", "enp1s0", provisioning=DRIVER)])
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[:3] == ["enp1s0 (0000:01:00.0), pool prepared", "- link down", "+ link up"]
    assert done.stdout.splitlines()[3].startswith("enp1s0: link up, in ")
    shown = machine.namespace.run(subprocess.run, ["ip", "-br", "link", "show", "enp1s0"], capture_output=True,
                                  text=True, check=True).stdout
    assert ",UP," in shown


def test_kernel_that_refuses(verb, machine):
    """What it said, and on what; the port without trouble is done all the same."""
    fewer_vfs(machine, 0)
    set_flags(machine, "enp2s0", "0x1002")
    verb.ports_up(False)
    set_flags(machine, "enp1s0", "0x1003")
    status, said = verb.json(shell="trap '' XFSZ; ulimit -f 0;", documents=[
        pool("prepared", "enp1s0", provisioning={**DRIVER, "count": 4}),
        pool("other", "enp2s0", provisioning=DRIVER)])
    assert status == 3 and said["result"] == "failed"
    first, second = (pf["report"] for pf in said["pfs"])
    assert first["failures"] == [
        "making 4 VFs on PF enp1s0 (0000:01:00.0): writing \"4\" to /sys/bus/pci/devices/0000:01:00.0/sriov_numvfs: "
        "File too large"]
    assert (first["made"], second["raised"], second["failures"]) == (0, True, [])


def test_vf_of_a_claim_is_in_the_way(verb, machine):
    """By the driver's records, read beside it: the number stays, and who has the VF is said."""
    machine.write_record(UID, "0000-01-10-2")
    machine.write_record("c2", "0000-01-10-4", bootID="another")
    verb.ports_up()
    before = machine.touched()
    done = verb(documents=[pool("prepared", "enp1s0", provisioning={**DRIVER, "count": 2}),
                           pool("others", "enp2s0", "Skip", settings=VLAN)])
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "enp1s0 (0000:01:00.0), pool prepared"
    assert f"! numvfs 4 -> 2, but VF 1 (0000:01:10.2): claim default/claim-{UID} (uid {UID}) has it" in lines
    assert "c2" not in done.stdout
    assert {p: t for p, t in machine.touched().items() if p.name != "lock"} == before


def test_damaged_record_is_in_the_way_and_left_alone(verb, machine):
    machine.state.mkdir(parents=True)
    (machine.state / "x.json").write_text("")
    verb.ports_up()
    done = verb(documents=[pool("prepared", "enp1s0", provisioning={**DRIVER, "count": 2})])
    assert done.returncode == 1
    assert f"VF 0 (0000:01:10.0): it may be the VF of the damaged claim record {machine.state}/x.json" in done.stdout
    assert (machine.state / "x.json").exists() and verb.count() == "4"


def test_vf_away_is_in_the_way(verb, machine):
    for path in (machine.sysroot / "sys/bus/pci/devices/0000:01:10.4/net/enp1s0v2").iterdir():
        path.unlink()
    (machine.sysroot / "sys/bus/pci/devices/0000:01:10.4/net/enp1s0v2").rmdir()
    status, said = verb.json(documents=[pool("prepared", "enp1s0", provisioning={**DRIVER, "count": 2})])
    assert status == 1 and said["result"] == "blocked" and said["pfs"][0]["report"] is None
    assert {"step": "numvfs", "from": 4, "to": 2,
            "why": "VF 2 (0000:01:10.4): its interface is in another network namespace"} in said["pfs"][0]["obstacles"]
    assert verb.count() == "4"


def test_pools_that_disagree(verb, machine):
    done = verb(documents=[
        pool("a", "enp1s0", provisioning={**DRIVER, "count": 2}),
        pool("b", "enp1s0", "Skip", provisioning={**DRIVER, "count": 3}),
        pool("bad", "enp1s0", provisioning={"count": 3}),
        pool("labelled", "enp2s0", provisioning={**DRIVER, "count": 2},
             nodeSelector={"matchLabels": {"nic": "fast"}})])
    assert done.returncode == 1 and done.stderr == ""
    assert done.stdout.splitlines() == [
        "! pool a: provisioning.count is 2, and 3 in pool b: both have VFs of PF enp1s0, so nothing is done there",
        "! pool b: provisioning.count is 3, and 2 in pool a: both have VFs of PF enp1s0, so nothing is done there",
        "! pool labelled: it has a nodeSelector, and the node's labels aren't known: nothing is done on PF enp2s0, of "
        "which it may have VFs",
        "! pool bad: spec.provisioning.count: goes with by: Driver only; where by is External others make the VFs"]
    assert verb.count() == "4" and verb.count("02") == "4"


def test_labels_are_told(verb):
    documents = [pool("labelled", "enp2s0", provisioning={**DRIVER, "count": 2},
                      nodeSelector={"matchLabels": {"nic": "fast"}})]
    done = verb("--dry-run", "--node-label", "nic=slow", "--node-label", "a.b/c=", documents=documents)
    assert (done.returncode, done.stdout) == (0, "nothing to do\n")
    status, said = verb.json("--dry-run", "--node-label", "nic=fast")
    assert status == 1  # there is no interface for netlink here
    assert said["problems"] == [] and said["dryRun"] and said["pfs"][0]["pools"] == ["labelled"]


def test_functions_of_a_node(verb):
    """By the name that is given."""
    documents = [{**pool("p", "enp1s0"), "spec": {"provisioning": DRIVER, "functions": [
        {"pciAddress": "0000:01:10.0", "node": NODE}]}}]
    done = verb("--node-name", "another", documents=documents)
    assert (done.returncode, done.stdout) == (1, "! pool p: none of its functions is on this machine\n")
    done = verb("--node-name", NODE)
    assert (done.returncode, done.stdout) == (0, "nothing to do\n")


def test_beside_a_driver_it_only_looks(verb, machine):
    """The driver does it by itself; two that write would undo each other's work."""
    fewer_vfs(machine, 0)
    verb.ports_up()
    machine.plugin.mkdir(parents=True)
    with open(machine.plugin / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("4242\n")
        lock.flush()
        documents = [pool("prepared", "enp1s0", provisioning={**DRIVER, "count": 4})]
        done = verb(documents=documents)
        assert done.returncode == 1
        assert done.stdout.splitlines()[-1].startswith("the driver (pid 4242) serves this node")
        assert verb.count() == "0"
        status, said = verb.json()
        assert (status, said["driverPid"], said["result"]) == (1, 4242, "blocked")
        done = verb(documents=[pool("prepared", "enp2s0", provisioning={**DRIVER, "count": 4})])
        assert (done.returncode, done.stdout) == (0, "nothing to do\n")


def test_external_is_never_written(verb, machine):
    """Whatever its VFs are like, and however they are called."""
    fewer_vfs(machine, 2)
    set_flags(machine, "enp1s0", "0x1002")
    verb.ports_up(False)
    before = machine.touched()
    done = verb(documents=[pool("theirs", "enp1s0", "Skip", settings=VLAN, provisioning={"by": "External"}),
                           pool("also", "enp2s0", "Skip", settings=VLAN)])
    assert (done.returncode, done.stdout) == (0, "nothing to do\n")
    assert machine.touched() == before
    shown = machine.namespace.run(subprocess.run, ["ip", "-br", "link", "show", "enp1s0"], capture_output=True,
                                  text=True, check=True).stdout
    assert "DOWN" in shown


# ---- the unit


UNITS = kubelet.TOP / "deploy/systemd"
UNIT = UNITS / "sriov-dra-provision.service"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze isn't there")
@pytest.mark.parametrize("name", ["sriov-dra-provision.service", "sriov-dra.service"])
def test_unit_is_right(tmp_path, name):
    """With the program where it is here."""
    unit = tmp_path / name
    text = (UNITS / name).read_text().replace("/usr/local/bin/sriov-dra", "/bin/true")
    assert text != (UNITS / name).read_text()
    unit.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_privileges_of_the_unit_are_enough(verb, machine):
    """Root's files, and what CapabilityBoundingSet= leaves."""
    assert "CapabilityBoundingSet=CAP_NET_ADMIN\n" in UNIT.read_text()
    fewer_vfs(machine, 0)
    set_flags(machine, "enp1s0", "0x1002")
    verb.ports_up(False)
    machine.write_record(UID, "0000-02-10-2")
    with machine.sysfs.kernel("01", "enp1s0"):
        done = verb(documents=[pool("prepared", "enp1s0", provisioning={**DRIVER, "count": 4})],
                    shell="exec setpriv --bounding-set=-all,+net_admin --inh-caps=-all --no-new-privs \"$@\";")
        assert done.returncode == 0, done.stdout + done.stderr
    assert "enp1s0: link up, 4 VFs made, in " in done.stdout
