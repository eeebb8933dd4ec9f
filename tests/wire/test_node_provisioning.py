# SPDX-License-Identifier: Apache-2.0
"""What `sriov-dra node` makes of pools that it provisions itself. There is no VF for netlink here:
settings are for the lab."""
import re
import shutil
import subprocess
import time

import pytest

from node import claim, pool, pools, result, wait_for
from test_node_claims import pod, reserved
from test_signals import ADDRESS, metrics

DRIVER = {"by": "Driver"}
VLAN = {"vlan": {"id": 100}}
NUMVFS = "sys/bus/pci/devices/0000:{}:00.0/sriov_numvfs"


def fewer_vfs(machine, count):
    """enp1s0 has so many."""
    with machine.sysfs.kernel("01", "enp1s0"):
        (machine.sysroot / NUMVFS.format("01")).write_text(f"{count}\n")
        link = machine.sysroot / f"sys/bus/pci/devices/0000:01:00.0/virtfn{count}"
        while link.is_symlink():
            time.sleep(0.01)


def unbound(machine, count):
    """enp1s0 has so many VFs, which are free as far as can be known here: without a driver."""
    fewer_vfs(machine, count)
    for index in range(count):
        folder = machine.sysroot / f"sys/bus/pci/devices/0000:01:10.{2 * index}"
        (folder / "driver").unlink()
        shutil.rmtree(folder / "net")
        (machine.sysroot / f"sys/class/net/enp1s0v{index}").unlink()


def numvfs(machine, bus="01"):
    return (machine.sysroot / NUMVFS.format(bus)).read_text().strip()


def add_port(machine, name="enp1s0"):
    machine.namespace.run(subprocess.run, ["ip", "link", "add", name, "type", "veth", "peer", f"p-{name}"], check=True)


def configure(machine, *documents):
    machine.config.write_text(pools(*documents))
    machine.api.start()


def wait_told(machine, note):
    """An event about what can't be provisioned says this, and just one."""
    def told():
        return [o["note"] for o in machine.api.list("events") if o["reason"] == "NotProvisioned"]
    wait_for(lambda: f"an event {note}; {told()}", lambda: [n for n in told() if re.match(note, n)])
    assert len([n for n in told() if re.match(note, n)]) == 1, told()


def test_vfs_are_made_and_offered(machine):
    fewer_vfs(machine, 0)
    configure(machine, pool("prepared", "enp1s0", provisioning={**DRIVER, "count": 4}))
    with machine.sysfs.kernel("01", "enp1s0"):
        driver = machine.start()
        driver.wait_line(r"VFs made pf=enp1s0 vfs=4 ms=")
        driver.wait_line(r"published slices=1 devices=4")
        assert numvfs(machine) == "4"
        assert len(driver.lines("VFs made")) == 1


def test_a_card_that_takes_its_time_holds_up_nobody_else(machine):
    """No kernel makes the VFs, so they are waited for: meanwhile the driver registers, and serves the
    other port. A claim for a VF of the busy one waits."""
    unbound(machine, 2)
    configure(machine, pool("busy", "enp1s0", provisioning={**DRIVER, "count": 4}), pool("other", "enp2s0"))
    for name, vf in (("a", "0000-01-10-0"), ("b", "0000-02-10-0")):
        machine.api.put("resourceclaims", claim(name, f"uid-{name}", result(vf)))
    began = time.monotonic()
    driver = machine.start()
    assert time.monotonic() - began < 5
    wait_for("the number is written", lambda: numvfs(machine) == "4")
    made = began = time.monotonic()
    with machine.client() as client:
        client.prepare("b")
        assert time.monotonic() - began < 9, "the other port's claim is answered at once"
        assert driver.lines("PF not provisioned") == []
        client.prepare("a", timeout=30)
        assert time.monotonic() - made > 9.5, "that of the busy port isn't before it is done"
    driver.wait_line(r"PF not provisioned: tried again later pf=enp1s0 why=\"making 4 VFs on PF enp1s0 "
                     r"\(0000:01:00.0\): 10 s after they were made VF 0 \(0000:01:10.0\) has no driver")


def test_number_stays_while_a_claim_has_a_vf(machine):
    machine.write_record("c1", "0000-01-10-2")
    configure(machine, pool("prepared", "enp1s0", provisioning={**DRIVER, "count": 2}))
    driver = machine.start()
    driver.wait_line(r"the number of VFs stays: something is in the way pf=enp1s0 why=\".*VF 1 \(0000:01:10.2\): claim "
                     r"default/claim-c1 \(uid c1\) has it")
    driver.wait_line(r"published slices=\d devices=4")
    assert numvfs(machine) == "4"
    assert len(driver.lines("the number of VFs stays")) == 1
    wait_told(machine, r"enp1s0: .*VF 1 \(0000:01:10.2\): claim default/claim-c1 \(uid c1\) has it")


@pytest.mark.parametrize("change", [
    {"provisioning": {**DRIVER, "count": 3}}, {"provisioning": {**DRIVER, "count": 8}}])
def test_pools_that_ask_what_can_not_be(machine, change):
    """Both are offered as before, with the VFs that there are."""
    configure(machine, pool("a", "enp1s0", provisioning={**DRIVER, "count": 2}), pool("b", "enp1s0", **change))
    driver = machine.start()
    driver.wait_line(r"pool isn't provisioned pool=b why=\"provisioning.count is")
    wait_told(machine, r"b: provisioning.count is \d, and 2 in pool a: ")
    driver.wait_line("published slices=1 devices=4")
    assert numvfs(machine) == "4" and not driver.lines("VFs made")


def test_what_fails_is_tried_again(machine):
    """The port is down, and nowhere to be seen for netlink; then it is there."""
    (machine.sysroot / "sys/class/net/enp1s0/flags").write_text("0x1002\n")
    configure(machine, pool("prepared", "enp1s0", provisioning=DRIVER))
    driver = machine.start()
    driver.wait_line(r"PF not provisioned: tried again later pf=enp1s0 why=\"bringing PF enp1s0 \(0000:01:00.0\) up: ")
    began = time.monotonic()
    add_port(machine)
    driver.wait_line("PF brought up pf=enp1s0")
    assert time.monotonic() - began > 1, "not at once with each event"
    (machine.sysroot / "sys/class/net/enp1s0/flags").write_text("0x1003\n")
    shown = machine.namespace.run(subprocess.run, ["ip", "-br", "link", "show", "enp1s0"], capture_output=True,
                                  text=True, check=True).stdout
    assert ",UP" in shown
    assert len(driver.lines("PF not provisioned")) == 1
    wait_told(machine, r"enp1s0: bringing PF enp1s0 \(0000:01:00.0\) up: ")


def test_vf_that_can_not_be_set_up_is_told_once(machine):
    """And is offered for what it is."""
    configure(machine, pool("storage", "enp1s0", "Skip", provisioning=DRIVER, settings=VLAN))
    driver = machine.start()
    for vf in ("10.0", "10.2", "10.4", "10.6"):
        driver.wait_line(rf"VF isn't as its pool says, and can't be set up: tried again later: .* vf=0000:01:{vf} ")
    driver.wait_line(r"published slices=1 devices=4")
    assert len(driver.lines("can't be set up")) == 4
    wait_told(machine, "4 VFs aren't as their pools say: VF 0000:01:10.0 can't be set up: ")
    assert driver.lines("isn't offered as verified") == []
    device, = {d["attributes"]["setupBy"]["string"] for s in machine.slices().values() for d in s["devices"]}
    assert device == "Driver"


def test_external_is_never_written(machine):
    """Whatever its VFs are like; the same pools by the driver would be."""
    add_port(machine)
    (machine.sysroot / "sys/class/net/enp1s0/flags").write_text("0x1002\n")
    before = machine.touched()
    configure(machine, pool("theirs", "enp1s0", "Skip", settings=VLAN), pool("more", "enp2s0", "Skip", settings=VLAN))
    driver = machine.start()
    driver.wait_line(r"published slices=1 devices=8")
    time.sleep(0.5)
    assert {p: t for p, t in machine.touched().items() if p in before} == before
    assert not driver.lines("PF brought up|VFs made|VF set up|can't be set up")
    shown = machine.namespace.run(subprocess.run, ["ip", "-br", "link", "show", "enp1s0"], capture_output=True,
                                  text=True, check=True).stdout
    assert "DOWN" in shown


def test_external_that_never_verifies_is_said_once(machine):
    """However often it is looked at; how many there are is in the metrics."""
    configure(machine, pool("theirs", "enp1s0", "Skip", settings=VLAN))
    driver = machine.start(metrics_address=ADDRESS)
    driver.wait_line("published slices=1 devices=4")
    said, mtu = r"VF isn't offered as verified .*vf=0000:01:10\.", 1400

    def changes(devices):
        """Makes it look, until it has seen that VFs came or went."""
        nonlocal mtu
        before = len(driver.lines(f"published slices=1 devices={devices}"))
        mtu += 1
        machine.namespace.run(subprocess.run, ["ip", "link", "set", "lo", "mtu", str(mtu)], check=True)
        driver.wait_line(f"published slices=1 devices={devices}", before + 1)

    assert len(driver.lines(said)) == 4
    for _ in range(2):
        with machine.sysfs.unplugged("0000:01:10.6"):
            changes(3)
        changes(4)
    assert [len(driver.lines(said + vf)) for vf in "0246"] == [1, 1, 1, 3], "the one that went is a new one"
    seen = metrics(machine)
    assert seen['devices{pool="theirs",mode="Skip",verified="false"}'] == 4
    assert seen['devices{pool="theirs",mode="Skip",verified="true"}'] == 0
    assert seen["drift_total"] == 4 + 2
    assert [o["reason"] for o in machine.api.list("events")].count("VFDrifted") in (1, 2, 3)


def test_no_vf_goes_before_it_is_known_whose_it_is(machine):
    """A claim that the kubelet skips is in no record before its pod starts: the API server knows."""
    unbound(machine, 4)
    machine.config.write_text(pools(pool("prepared", "enp1s0", provisioning={**DRIVER, "count": 2})))
    driver = machine.launch(*machine.arguments()).wait_ready()  # and no API server
    time.sleep(3)
    assert numvfs(machine) == "4"
    with machine.sysfs.kernel("01", "enp1s0"):
        machine.api.start()
        driver.wait_line("VFs made pf=enp1s0 vfs=2")
    assert numvfs(machine) == "2"


def test_vf_that_a_pod_is_to_have_stays(machine):
    unbound(machine, 4)
    machine.api.put("pods", pod("app", "p-app", "c"))
    machine.api.put("resourceclaims", claim("c", "uid-c", result("0000-01-10-6", skipNodeOperations=["*"]),
                                            **reserved("p-app")))
    configure(machine, pool("storage", "enp1s0", "Skip", provisioning={**DRIVER, "count": 2}))
    driver = machine.start()
    driver.wait_line(r"the number of VFs stays: something is in the way pf=enp1s0 why=\"VF 3 \(0000:01:10.6\): pod "
                     r"default/app, by its claim c, has it\"")
    assert numvfs(machine) == "4"
