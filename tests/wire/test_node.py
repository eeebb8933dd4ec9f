# SPDX-License-Identifier: Apache-2.0
"""The life of `sriov-dra node`: starts that can't be, what earlier runs left, the API's moods, ends."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

import kubelet
from node import claim, DRIVER, node, NODE, pool, pools, result, SLOW, wait_for

VF, SKIP_VF = "0000-01-10-0", "0000-02-10-0"
VF_ADDRESS = "0000:01:10.0"
DRIFTED, SKIP, PREPARE = (f"{NODE}-{DRIVER}-{kind}-00" for kind in ("drifted", "skip", "prepare"))
SOON = 5  # seconds: no time limit of a request, and room for a busy machine
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


def attribute(slices, device, name):
    """Of a device in any of the slices."""
    value, = (d["attributes"][name] for spec in slices.values() for d in spec["devices"] if d["name"] == device)
    return next(iter(value.values()))


# ---- how it can't be started


@pytest.mark.parametrize("arguments, said", [
    (["--node-name", ""], "--node-name is missing"),
    ([], "--node-name is missing"),
    (["--node-name", NODE, "--frobnicate"], "unrecognized option '--frobnicate'"),
    (["--node-name", NODE, "--config"], "option '--config' requires an argument"),
    (["--node-name", NODE, "more"], "unexpected argument: more"),
    (["--node-name", NODE, "--log-format", "xml"], "--log-format must be text or json: xml"),
    (["--node-name", NODE, "--driver-name", "Sriov_dra"], "--driver-name must be a DNS subdomain"),
    (["--node-name", NODE, "--kubelet-root", "relative"], "--kubelet-root must be an absolute path: relative"),
    (["--node-name", NODE, "--state-dir", "relative"], "--state-dir must be an absolute path: relative"),
    (["--node-name", NODE, "--hook-dir", "relative"], "--hook-dir must be an absolute path: relative"),
])
def test_usage(machine, arguments, said):
    driver = machine.launch(*arguments)
    assert driver.status() == 2
    assert said in driver.text() and "usage: sriov-dra node" in driver.text()


def test_help(machine):
    driver = machine.launch("--help")
    assert driver.status() == 0
    assert driver.text().startswith("usage: sriov-dra node --node-name NAME")


@pytest.mark.parametrize("text, said", [
    (None, "{}: No such file or directory"),
    ("a: [1,\n", "{}: line 2, column 1: "),
    ("{\"a\": 1", "{}: line 2, column 1: "),
    ("a: 1\na: 2\n", "{}: line 2, column 1: "),
])
def test_config_that_can_not_be_read(machine, text, said):
    machine.config.unlink()
    if text is not None:
        machine.config.write_text(text)
    assert f"driver can't go on: {said.format(machine.config)}" in machine.refuses()


@pytest.mark.parametrize("changes, said", [
    ({"config": "/"}, "/: Is a directory"),
    ({"sysroot": "/nowhere"}, "opening the system root /nowhere: No such file or directory"),
    ({"sysroot": "/proc/self"}, "listing PCI devices: /sys/bus/pci/devices: No such file or directory"),
    ({"kubeconfig": "/nowhere"}, "/nowhere: No such file or directory"),
    ({"kubeconfig": None}, "no kubeconfig given, and this is no pod: KUBERNETES_SERVICE_HOST "),
    ({"nri_socket": "/x" * 60}, "1 to 107 bytes"),
    ({"state_dir": "/proc/claims"}, "making directory /proc/claims: No such file or directory"),
])
def test_option_that_leads_nowhere(machine, changes, said):
    assert said in machine.refuses(**changes)


@pytest.mark.parametrize("where", ["service", "registration"])
@pytest.mark.parametrize("what", ["plain file", "directory", "file of another kind"])
def test_something_else_at_the_path_of_a_socket(machine, where, what):
    """It isn't ours, so it is named and left alone; and nobody registers."""
    path = getattr(machine, where)
    path.parent.mkdir(parents=True)
    {"plain file": path.touch, "directory": path.mkdir,
     "file of another kind": lambda: os.mkfifo(path)}[what]()
    assert f"driver can't go on: socket {path}: a {what} is in its place" in machine.refuses()
    assert path.exists()
    assert [p for p in (machine.service, machine.registration) if p.is_socket()] == []


def test_path_too_long_for_a_socket(machine):
    deep = machine.root / ("x" * 80)
    said = machine.refuses(kubelet_root=deep)
    assert re.search(rf"socket {deep}\S+: the path has \d+ bytes, a socket's may have 107", said)


def test_second_driver_on_the_node(machine):
    machine.api.start()
    first = machine.start()
    said = machine.refuses(node_name="other")
    assert f"another driver (pid {first.process.pid}) serves {DRIVER} on this node: it holds {machine.plugin}/lock" \
        in said
    # the same records under another name
    assert f"another driver (pid {first.process.pid}) " in machine.refuses(driver_name="b.dev", state_dir=machine.state)
    with machine.client() as client:
        assert client.unprepare("c").claims["uid-c"].error == ""


# ---- pools


def test_without_pools(machine):
    machine.api.start()
    driver = machine.start(config=None)
    driver.wait_line(r"published slices=0 devices=0")
    assert driver.lines("no pools") == [
        "warning no pools: nothing is offered; `sriov-dra inventory` shows what could be, and --config FILE offers it"]
    assert machine.slices() == {}


def test_pool_with_a_mistake_stops_only_itself(machine):
    machine.config.write_text(pools(
        pool("bad", "enp2s0", settings={"vlan": {"id": 5000}}), pool("good", "enp1s0"), {"kind": "Other"},
        pool("good", "enp2s0"), pool("elsewhere", "enp2s0", nodeSelector={"matchLabels": {"nic": "slow"}})))
    machine.api.start()
    driver = machine.start()
    driver.wait_line("published slices=1 devices=4")
    assert driver.lines("pool isn't offered") == [
        "error   pool isn't offered pool=bad why=\"spec.settings.vlan.id: must be a whole number from 0 to 4094\"",
        "error   pool isn't offered pool=\"\" why=\"document 3: apiVersion: must be sriov-dra.dev/v1alpha1\"",
        "error   pool isn't offered pool=good why=\"metadata.name: document 4 is another pool of this name; the first "
        "counts\""]


# ---- publication


def test_what_each_pool_has_is_said(machine):
    """Once, and again when it changes: nothing, or less than it selects, is mostly a mistake."""
    machine.config.write_text(pools(
        pool("first", "enp1s0", functions=[{"parent": {"interface": "enp1s0"}, "indexes": "0-1"}]),
        pool("second", "enp1s0"), pool("typo", "enp9s0"), pool("far", "enp2s0", nodeSelector={"matchLabels": {"nic": "slow"}})))
    machine.api.start()
    driver = machine.start()
    driver.wait_line("published")
    driver.wait_line("pool=far")
    assert driver.lines("pool=") == [
        "info    pool pool=first vfs=2",
        "warning pool selects VFs that a pool before it has pool=second vfs=2 others=2",
        "warning pool has no VF here: it selects none of those that `sriov-dra inventory` shows pool=typo",
        "info    pool isn't for this node: the node's labels differ pool=far"]
    machine.api.put("nodes", {**node(), "metadata": {"name": NODE, "labels": {"nic": "slow"}}})
    assert driver.wait_line("pool=far vfs=4") == "info    pool pool=far vfs=4"
    assert len(driver.lines("pool=")) == 5


def test_no_such_node(machine):
    machine.api.delete("nodes", NODE)
    machine.api.start()
    driver = machine.start()
    driver.wait_line("there is no Node object of this name: nothing is published.*node=node-1")
    machine.api.put("nodes", node())
    driver.wait_line("published")


def test_slices_that_may_not_be_read(machine):
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    machine.api.answers[slices] = 403, b'{"kind":"Status","message":"not for you"}'
    machine.api.start()
    driver = machine.start()
    driver.wait_line("warning our ResourceSlices can't be watched for now: .*HTTP 403: not for you")


def test_published(machine):
    """VFs whose state can't be read are shown, and tainted."""
    machine.api.start()
    driver = machine.start()
    assert driver.wait_line("published") == "info    published slices=1 devices=4 generation=1"
    (name, spec), = machine.slices().items()
    assert name == DRIFTED
    assert (spec["driver"], spec["nodeName"]) == (DRIVER, NODE)
    assert spec["pool"] == {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    assert [d["name"] for d in spec["devices"]] == [f"0000-01-10-{2 * i}" for i in range(4)]
    assert all(d["taints"] == [{"key": f"{DRIVER}/drifted", "effect": "NoSchedule"}] for d in spec["devices"])
    assert attribute({name: spec}, VF, "verified") is False
    owner, = machine.api.list("resourceslices")[0]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Node", machine.api.list("nodes")[0]["metadata"]["uid"])


def test_start_anew_leaves_what_a_pool_for_labelled_nodes_has(machine):
    """What is published is right before the node's labels are known, too."""
    machine.config.write_text(pools(pool("fast", "enp1s0", nodeSelector={"matchLabels": {"nic": "fast"}})))
    machine.api.start()
    first = machine.start()
    first.wait_line("published slices=1 devices=4")
    assert len(first.lines("published")) == 1, first.text()
    first.end()
    written = machine.api.count("^(POST|PUT|DELETE) .*resourceslices")
    second = machine.start()
    second.wait_line("published slices=1 devices=4 generation=1")
    second.wait_line("pool pool=fast vfs=4")
    time.sleep(0.5)  # what would be a burst's time, and a look's
    assert len(second.lines("published")) == 1, second.text()
    assert machine.api.count("^(POST|PUT|DELETE) .*resourceslices") == written


def test_other_labels_wait_for_a_look_that_works(machine):
    """Whether a VF is as promised was seen for the pool that the old labels gave it to, and says nothing of the new one."""
    machine.config.write_text(pools(
        pool("made", "enp2s0", nodeSelector={"matchLabels": {"nic": "fast"}}),
        pool("ready", "enp2s0", "Skip", settings={"vlan": {"id": 100}}, nodeSelector={"matchLabels": {"nic": "slow"}})))
    machine.write_record("u", SKIP_VF, pf="0000:02:00.0")  # in use, and so verified
    machine.api.start()
    driver = machine.start()
    driver.wait_line("published slices=2 devices=4")
    before = machine.slices()
    devices = machine.sysroot / "sys/bus/pci/devices"
    devices.rename(devices.with_name("away"))
    machine.api.put("nodes", {**node(), "metadata": {"name": NODE, "labels": {"nic": "slow"}}})
    driver.wait_line("hardware not read: tried again soon: listing PCI devices")
    time.sleep(1)  # a burst's time, and more
    assert machine.slices() == before
    devices.with_name("away").rename(devices)
    driver.wait_line("published", 2)
    assert SKIP in machine.slices() and PREPARE not in machine.slices()
    assert [attribute(machine.slices(), f"0000-02-10-{n}", "mode") for n in (0, 2, 4, 6)] == ["Skip"] * 4


def test_not_offered_before_the_kubelet_knows_us(machine):
    """A pod that comes before would fail Prepare, and the kubelet tries that again after a minute only."""
    machine.api.start()
    driver = machine.start(registered=False)
    driver.wait_line("honours skipNodeOperations")
    time.sleep(0.5)
    assert machine.slices() == {} and driver.lines("published") == []
    with kubelet.Client(machine.registration) as client:
        client.notify(True)
    driver.wait_line("published")
    assert machine.slices() != {}


def test_kubelet_that_is_silent(machine):
    """Offered all the same, after a while; and a driver that comes back to its slices doesn't wait."""
    machine.api.start()
    driver = machine.start(registered=False)
    began = time.monotonic()
    driver.wait_line("published")
    assert 3 < time.monotonic() - began < SLOW
    driver.end()
    again = machine.start(registered=False)
    began = time.monotonic()
    again.wait_line("published")
    assert time.monotonic() - began < 3


def test_kubelet_that_refuses(machine):
    """It can't run what would be offered; one that comes to accept us can."""
    machine.api.start()
    driver = machine.start(registered=False)
    with kubelet.Client(machine.registration) as client:
        client.notify(False, "not you")
        driver.wait_line("the kubelet refused the registration")
        time.sleep(6)  # longer than a silent kubelet is waited for
        assert machine.slices() == {}
        client.notify(True)
    driver.wait_line("published")


def test_kubelet_start_deletes_slices(machine):
    """They come back, once, and slices of others are left alone."""
    other = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "other"},
             "spec": {"driver": "gpu.example.com", "nodeName": NODE, "pool": {"name": NODE}, "devices": []}}
    stale = {**other, "metadata": {"name": "stale"}, "spec": {**other["spec"], "driver": DRIVER, "pool": {
        "name": "old", "generation": 7, "resourceSliceCount": 1}}}
    machine.api.put("resourceslices", other)
    machine.api.put("resourceslices", stale)
    machine.write_record("u", "0000-01-10-2")
    machine.api.start()
    driver = machine.start()
    driver.wait_line("published")
    before = machine.slices()
    assert set(before) == {"other", DRIFTED, PREPARE}
    for name in (DRIFTED, PREPARE):
        machine.api.delete("resourceslices", name)
    driver.wait_line("published", 2)
    after = machine.slices()
    assert set(after) == set(before)
    assert [after[name]["devices"] for name in sorted(after)] == [before[name]["devices"] for name in sorted(before)]
    assert re.fullmatch(r"info    others changed our ResourceSlices; putting them back slice=\S+ pauseMs=0",
                        "\n".join(driver.lines("others changed our ResourceSlices")))


@pytest.fixture(name="skipping")
def fixture_skipping(machine):
    """A machine with a Skip pool, one VF of which is known to be right: it is in use."""
    machine.config.write_text(pools(pool("skip", "enp2s0", "Skip")))
    machine.write_record("u", SKIP_VF, mode="Skip", pf="0000:02:00.0")
    return machine


def test_skip_is_promised(skipping):
    skipping.api.start()
    driver = skipping.start()
    driver.wait_line("published slices=2 devices=4")
    slices = skipping.slices()
    assert slices[SKIP]["skipNodeOperations"] == ["*"]
    assert [d["name"] for d in slices[SKIP]["devices"]] == [SKIP_VF]
    assert attribute(slices, SKIP_VF, "skipHonoured") is True
    assert "skipNodeOperations" not in slices[DRIFTED] and attribute(slices, "0000-02-10-2", "skipHonoured") is False
    assert driver.lines("warning.*(skip|Optional)") == []


def test_api_server_drops_the_promise(skipping):
    """It is noticed at the first answer and said once; the devices go out without the promise."""
    skipping.api.drops_skip = True
    skipping.api.start()
    driver = skipping.start()
    driver.wait_line("published slices=2 devices=4")
    slices = skipping.slices()
    assert set(slices) == {DRIFTED, PREPARE}
    assert [d["name"] for d in slices[PREPARE]["devices"]] == [SKIP_VF]
    assert attribute(slices, SKIP_VF, "skipHonoured") is False
    assert attribute(slices, SKIP_VF, "mode") == "Skip"
    time.sleep(0.5)  # for a second time, if there were one
    assert driver.lines("drops skipNodeOperations") == [
        "warning the API server drops skipNodeOperations: devices go out without it, and the kubelet calls us for them "
        "server=http://127.0.0.1:6443 featureGate=DRAOptionalNodeOperations"]


def test_node_without_the_feature(skipping):
    """Promised only while the node declares it, and said at each change."""
    skipping.api.put("nodes", node(features=[]))
    skipping.api.start()
    driver = skipping.start()
    driver.wait_line("published slices=2 devices=4")
    slices = skipping.slices()
    assert set(slices) == {DRIFTED, PREPARE}
    assert attribute(slices, SKIP_VF, "skipHonoured") is False
    assert len(driver.lines("doesn't declare DRAOptionalNodeOperations")) == 1
    skipping.api.put("nodes", node())
    driver.wait_line("the kubelet honours skipNodeOperations")
    wait_for(skipping.slices, lambda: set(skipping.slices()) == {DRIFTED, SKIP})
    skipping.api.put("nodes", node(features=["Other"]))
    wait_for(skipping.slices, lambda: set(skipping.slices()) == {DRIFTED, PREPARE})
    assert len(driver.lines("doesn't declare DRAOptionalNodeOperations")) == 2


def test_unprepare_for_a_claim_that_skips_it(skipping):
    """As of a kubelet that doesn't know the list: it is served, although the claim says that no call would come."""
    skipping.write_record("u", SKIP_VF, mode="Skip", pf="0000:02:00.0", byKubelet=False, unprepareComes=False)
    skipping.api.put("nodes", node(features=[]))
    skipping.api.start()
    skipping.start().wait_line("published slices=2 devices=4")
    assert skipping.records() == ["u.json"]
    with skipping.client() as client, skipping.sysfs.unplugged("0000:02:10.0"):
        assert client.unprepare(("claim-u", "u")).claims["u"].error == ""
    assert skipping.records() == []


# ---- an API server that is away, or odd


def test_api_server_away_at_start(machine):
    """Registered and serving; one word about it, for each of what is missed; Prepare waits for it."""
    driver = machine.start()
    with kubelet.Client(machine.registration) as registrar, machine.client() as client:
        assert registrar.info().endpoint == str(machine.service)
        registrar.notify(True)
        driver.wait_line("registered with the kubelet driver=sriov-dra.dev")
        assert client.unprepare("c").claims["uid-c"].error == ""
        waiting = client.dra("NodePrepareResources").future(kubelet.request("NodePrepareResources", "c"))
        time.sleep(1.5)  # some more tries of everything
        assert not waiting.done()  # an error would bring the kubelet back after a minute only
        assert len(driver.lines("the Node object can't be watched for now")) == 1
        assert len(driver.lines("pods of this node can't be watched for now")) == 1
        assert machine.slices() == {}
        machine.api.start()
        assert waiting.result(timeout=SLOW).claims["uid-c"].error == "claim default/c isn't known to the API server"
        driver.wait_line("published slices=1 devices=4")


def test_api_server_away_for_a_while(machine):
    """Node work goes on, and what changed meanwhile is seen when it is back."""
    machine.write_record("u", VF)
    machine.api.start()
    driver = machine.start()
    driver.wait_line("published")
    machine.api.stop()
    with machine.client() as client:
        assert client.prepare(("claim-u", "u")).claims["u"].error == ""
        # its PF's interface isn't found: the VF may still have the claim's settings
        assert "PF 0000:01:00.0" in client.unprepare(("claim-u", "u")).claims["u"].error
        assert machine.records() == ["u.json"]
        with machine.sysfs.unplugged(VF_ADDRESS):
            assert client.unprepare(("claim-u", "u")).claims["u"].error == ""
    assert (machine.records(), list(machine.cdi.iterdir())) == ([], [])
    machine.api.put("nodes", {**node(), "metadata": {"name": NODE, "uid": "new"}})
    driver.wait_line("the Node object can't be watched for now")
    machine.api.start()
    driver.wait_line("the Node object was made anew: slices get its uid uid=new")
    wait_for(machine.slices, lambda: len(machine.slices().get(DRIFTED, {}).get("devices", [])) == 4)
    assert PREPARE not in machine.slices()


def test_claim_made_anew_under_its_name(machine):
    """By uid, from our own records: the API object that the user deleted isn't needed (C14)."""
    machine.write_record("uid1", VF)
    machine.api.start()
    driver = machine.start()
    driver.wait_line("published")
    machine.api.put("resourceclaims", claim("claim-uid1", "uid2", result(VF)))
    with machine.client() as client:
        held = client.prepare(("claim-uid1", "uid2")).claims["uid2"].error
        assert held == f"VF 0000:01:10.0 (device {VF}) is held by claim default/claim-uid1 (uid uid1) until that is " \
            "unprepared"
        asked = machine.api.count("resourceclaims")
        with machine.sysfs.unplugged(VF_ADDRESS):
            assert client.unprepare(("claim-uid1", "uid1")).claims["uid1"].error == ""
        assert machine.api.count("resourceclaims") == asked
        assert machine.records() == []
        # now free: the old uid is refused by its name, the new one comes as far as the hardware
        assert client.prepare(("claim-uid1", "uid1")).claims["uid1"].error == \
            "claim default/claim-uid1: its uid is uid2, but uid1 was asked for; the claim was deleted and made anew " \
            "under the same name"
        assert client.prepare(("claim-uid1", "uid2")).claims["uid2"].error == \
            "reading VF 0000:01:10.0: PF 0000:01:00.0: reading interface enp1s0: No such device"


def test_text_that_no_c_string_holds(machine):
    """A NUL in some user's annotation doesn't keep the driver from seeing its pods."""
    odd = {"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": NODE},
           "metadata": {"name": "odd", "namespace": "default", "annotations": {"note": "a\0b"}}}
    machine.api.put("pods", odd)
    machine.api.put("resourceclaims", claim("c", "u", result(VF), configs=[
        {"source": "FromClaim", "opaque": {"driver": DRIVER, "parameters": {
            "apiVersion": "sriov-dra.dev/v1alpha1", "kind": "VirtualFunctionConfig",
            "interface": {"addresses": ["192.0.2.1/24\0"]}}}}]))
    machine.api.start()
    driver = machine.start()
    driver.wait_line("published")
    wait_for("watch of pods", lambda: machine.api.count(r"GET /api/v1/pods\?watch"))
    machine.api.put("pods", odd)
    time.sleep(0.3)
    assert machine.api.count("GET /api/v1/pods$") == 1
    assert driver.lines("can't be watched") == []
    with machine.client() as client:
        assert client.prepare(("c", "u")).claims["u"].error == \
            "claim default/c: configuration [0] (from the claim): interface.addresses[0]: must be a string, " \
            "without NUL characters"


def test_port_without_vfs_in_the_kernel(machine):
    """One step further: the PF's interface is there, and has no such VF; nothing is written to it."""
    machine.namespace.run(subprocess.run, ["ip", "link", "add", "enp1s0", "type", "veth", "peer", "enp1s0v0"],
                          check=True)
    machine.api.put("resourceclaims", claim("c", "u", result(VF)))
    machine.api.start()
    machine.start()

    def links():
        return machine.namespace.run(subprocess.check_output, ["ip", "-json", "address"])

    before = machine.touched(), links()
    with machine.client() as client:
        assert client.prepare(("c", "u")).claims["u"].error == \
            "reading VF 0000:01:10.0: PF enp1s0 (0000:01:00.0) reports no VF 0; its driver says 0 VFs and 0 settings"
    assert (machine.touched(), links()) == before


# ---- what an earlier run left


def test_damaged_record(machine):
    """Set aside and reported at each start; the claim of another record is known."""
    machine.write_record("good", VF)
    machine.write_record("flipped", "0000-01-10-2")
    path = machine.state / "flipped.json"
    path.write_bytes(path.read_bytes().replace(b"Prepared", b"Preparad"))
    (machine.state / "empty.json").touch()
    damaged = path.read_bytes()
    machine.api.start()
    why = {"flipped": "its checksum doesn't fit its content", "empty": "0 bytes long, without a whole header"}
    for start in range(2):
        driver = machine.start()
        assert machine.records() == ["empty.json.bad", "flipped.json.bad", "good.json"]
        assert (machine.state / "flipped.json.bad").read_bytes() == damaged
        assert [line.split(" file=")[1] for line in driver.lines("claim record damaged and set aside")] == [
            f"{machine.state}/{uid}.json.bad why=\"{'set aside earlier' if start else why[uid]}\""
            for uid in sorted(why)]
        assert driver.end()[0] == 0


def test_record_of_a_newer_version(machine):
    machine.write_record("u", VF, version=2)
    before = machine.touched()
    assert f"driver can't go on: {machine.state}/u.json: written by a newer version (2; this one reads 1)" in \
        machine.refuses()
    assert {**before, machine.state / "lock": ""}.keys() == machine.touched().keys()
    assert (machine.state / "u.json").read_bytes() == before[machine.state / "u.json"].encode()


def test_record_of_another_boot(machine):
    """Forgotten with its CDI file, since the hardware came up fresh; one of this boot is kept."""
    machine.api.start()
    machine.write_record("u", VF)
    driver = machine.start()
    driver.wait_line("published")
    assert (machine.records(), len(list(machine.cdi.iterdir()))) == (["u.json"], 1)
    assert PREPARE in machine.slices() and driver.lines("claim of an earlier run") == []
    driver.end()
    machine.write_record("u", VF, bootID="11111111-2222-3333-4444-555555555555")
    driver = machine.start()
    driver.wait_line("published")
    assert (machine.records(), list(machine.cdi.iterdir())) == ([], [])
    assert driver.lines("claim of an earlier run") == [
        "info    claim of an earlier run cleaned up claim=default/claim-u uid=u"]
    assert PREPARE not in machine.slices()


@pytest.mark.parametrize("state", ["Preparing", "Releasing"])
def test_record_of_an_unfinished_claim(machine, state):
    machine.write_record("u", VF, state=state)
    with machine.sysfs.unplugged(VF_ADDRESS):
        driver = machine.start()
    assert machine.records() == []
    assert len(driver.lines("claim of an earlier run cleaned up claim=default/claim-u uid=u")) == 1


def test_sockets_of_a_killed_driver(machine):
    machine.api.start()
    machine.start().end(signal.SIGKILL)
    assert machine.service.is_socket() and machine.registration.is_socket()
    machine.launch(*machine.arguments()).wait_line("published")  # and serving since before
    with kubelet.Client(machine.registration) as registrar, machine.client() as client:
        assert registrar.info().name == DRIVER
        assert client.unprepare("c").claims["uid-c"].error == ""


def test_prepared_claim_stays_so_when_it_can_not_be_answered(machine):
    """Prepare again while the disk is in trouble: an error, and the claim isn't forgotten."""
    machine.write_record("u", VF)
    machine.api.start()
    machine.start()
    for path in machine.cdi.iterdir():
        path.unlink()
    machine.cdi.rmdir()
    with machine.client() as client:
        assert "CDI file of claim default/claim-u: " in client.prepare(("claim-u", "u")).claims["u"].error
        assert machine.records() == ["u.json"]
        machine.api.put("resourceclaims", claim("c", "v", result(VF)))
        assert "is held by claim default/claim-u (uid u)" in client.prepare(("c", "v")).claims["v"].error
        with machine.sysfs.unplugged(VF_ADDRESS):
            assert client.unprepare(("claim-u", "u")).claims["u"].error == ""
    assert machine.records() == []


# ---- the runtime, and the end


def test_runtime_without_nri(machine):
    machine.api.start()
    driver = machine.start()
    driver.wait_line("published")
    time.sleep(1.5)  # some more tries
    assert driver.lines("NRI") == [
        f"warning no NRI connection: pods can't get their VFs socket={machine.nri} why=\"connecting to {machine.nri}: "
        "No such file or directory\""]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("api", ["there", "away", "silent"])
def test_end(machine, how, api):
    """Soon, whatever the API server does, with 0 and without sockets."""
    if api != "away":
        machine.api.start()
    if api == "silent":
        machine.api.silent.update(["/api/v1/nodes", "/api/v1/pods"])
    driver = machine.start()
    status, seconds = driver.end(how)
    assert status == 0 and seconds < SOON, driver.text()
    assert not machine.service.exists() and not machine.registration.exists()
    assert driver.lines("stopping") == [
        f"info    stopping: what is under way is finished first signal={signal.strsignal(how)}"]


def test_end_while_a_claim_is_fetched(machine):
    """Each claim of the call gets its answer, which the kubelet takes as: again later."""
    machine.api.start()
    machine.api.silent.update(f"{CLAIMS}/{name}" for name in ("a", "b"))
    driver = machine.start()
    with machine.client() as client:
        call = client.dra("NodePrepareResources").future(kubelet.request("NodePrepareResources", "a", "b"))
        wait_for("two GETs", lambda: machine.api.count("resourceclaims") == 2)
        status, seconds = driver.end()
        assert {uid: each.error for uid, each in call.result().claims.items()} == {
            "uid-a": "the driver is stopping", "uid-b": "the driver is stopping"}
    assert status == 0 and seconds < SOON, driver.text()
    assert not machine.service.exists() and not machine.registration.exists()


def test_log_for_programs(machine):
    driver = machine.start(log_format="json")
    driver.end()
    lines = [json.loads(line) for line in driver.text().splitlines()]
    assert all(isinstance(line["ts"], float) and {"level", "msg"} <= line.keys() for line in lines)
    assert lines[-1]["msg"].startswith("stopping") and lines[-1]["signal"] == "Terminated"
