# SPDX-License-Identifier: Apache-2.0
"""What operators are told by `sriov-dra node`: metrics, readiness, events, and the environment of containers."""
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

import kubelet
from node import claim, DRIVER, node, NODE, pool, pools, result, wait_for
from nri import Runtime

VF, SKIP_VF = "0000-01-10-0", "0000-02-10-0"
PORT = 9808
ADDRESS = f"127.0.0.1:{PORT}"
PODS = "/api/v1/namespaces/default/pods"


def get(machine, path, host="127.0.0.1"):
    """(status, text), asked in the machine's network namespace."""
    def ask():
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{host}:{PORT}{path}", timeout=10) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["Content-Type"], error.read().decode()
    status, kind, text = machine.namespace.run(ask)
    assert kind.startswith("text/plain")
    return status, text


def metrics(machine):
    """All samples by their names with labels; what isn't the format fails."""
    status, text = get(machine, "/metrics")
    assert status == 200 and text.endswith("\n")
    samples, families = {}, set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name = line.split()[2]
            assert name not in families
            families.add(name)
        elif not line.startswith("# HELP "):
            match = re.fullmatch(r"(([a-z_]+)(?:\{[a-z]+=\"[^\"\\]*\"(?:,[a-z]+=\"[^\"\\]*\")*\})?) ([0-9.]+)", line)
            assert match, line
            assert match[1] not in samples
            assert match[2] in families or re.sub("_(bucket|sum|count)$", "", match[2]) in families
            samples[match[1].removeprefix("sriov_dra_")] = float(match[3])
    return samples


def wait_metric(machine, name, value):
    wait_for(lambda: f"{name} {value}; it is {metrics(machine).get(name)}", lambda: metrics(machine).get(name) == value)


def events(machine):
    """But for the one about free VFs, none of which has a kernel behind it here."""
    return [(o["reason"], o["type"], o["regarding"]["kind"], o["regarding"]["name"])
            for o in machine.api.list("events") if o["reason"] != "VFDrifted"]


def wait_event(machine, reason, name, kind):
    """The only event of its reason on that object."""
    def found():
        return [o for o in machine.api.list("events")
                if o["reason"] == reason and (o["regarding"]["kind"], o["regarding"]["name"]) == (kind, name)]
    wait_for(lambda: f"event {reason} on {kind} {name}; {events(machine)}", found)
    event, = found()
    return event


def pod(name, claim_name=None):
    claims = {"resourceClaims": [{"name": "vf", "resourceClaimName": claim_name}]} if claim_name else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}"},
            "spec": {"nodeName": NODE, **claims}, "status": {"phase": "Pending"}}


ORIGINAL = {"name": "enp2s0v0", "mac": "52:54:00:00:00:02", "adminMac": "00:00:00:00:00:00", "vlan": 0, "mtu": 1500,
            "up": False}


def skip_device(attach):
    return {"request": "nic", "pool": NODE, "device": SKIP_VF, "index": 0, "vf": "0000:02:10.0", "pf": "0000:02:00.0",
            "poolDocument": "skip", "mode": "Skip", "setupBy": "External", "attach": attach, "original": ORIGINAL,
            "settings": {"vlan": {"id": 100, "qos": 0}}, "interface": {"name": "net1", "mtu": 1400}}


def live_claim(machine, name, attach):
    """A claim that the kubelet skipped, acquired by an earlier run, and its pod of the same name."""
    machine.write_record("u", SKIP_VF, byKubelet=False, name=name, pods=[f"uid-{name}"], devices=[skip_device(attach)])
    machine.api.put("resourceclaims", claim(name, "u", result(SKIP_VF)))
    machine.api.put("pods", pod(name, name))


@pytest.fixture(name="runtimes")
def fixture_runtimes(machine, runtime_program):
    """Starts runtimes at the machine's NRI socket; arguments are nri_runtime's."""
    started = []

    def start(*arguments):
        started.append(Runtime(runtime_program, machine.root / "runtime.log", *arguments, machine.nri))
        return started[-1]

    yield start
    for runtime in started:
        runtime.end()


@pytest.fixture(name="runtime")
def fixture_runtime(runtimes):
    return runtimes()


# ---- over HTTP


def test_nowhere_by_default(machine):
    machine.api.start()
    machine.start().wait_line("info +published")
    with pytest.raises(OSError):
        get(machine, "/healthz")


@pytest.mark.parametrize("address, hosts", [
    (ADDRESS, ["127.0.0.1"]), (f"[::1]:{PORT}", ["[::1]"]), (f":{PORT}", ["127.0.0.1", "[::1]"])])
def test_address(machine, address, hosts):
    machine.start(metrics_address=address).wait_line(f"serving metrics address={re.escape(address)}")
    for host in hosts:
        assert get(machine, "/healthz", host) == (200, "ok\n")


@pytest.mark.parametrize("address", ["9808", "localhost:9808", ":65536"])
def test_address_that_is_none(machine, address):
    assert f"driver can't go on: metrics: address \"{address}\": must be like" in \
        machine.refuses(metrics_address=address).replace("\\", "")


def test_port_taken(machine):
    """Said at the start, before anything is touched or anybody is told of the driver."""
    machine.write_record("u", VF, state="Releasing")
    before = machine.touched()
    taken = machine.namespace.run(socket.create_server, ("127.0.0.1", PORT))
    assert f"driver can't go on: metrics: listening on :{PORT}: Address already in use" in \
        machine.refuses(metrics_address=f":{PORT}")
    assert {**before, machine.state / "lock": ""}.keys() == machine.touched().keys()
    taken.close()


def test_no_such_path(machine):
    machine.start(metrics_address=ADDRESS)
    for path in ("/", "/metrics/x", "/../metrics", "/debug/pprof"):
        assert get(machine, path)[0] == 404


def test_readiness(machine, runtimes):
    """It says what is missing, and an API server that goes makes nothing unready."""
    driver = machine.start(registered=False, metrics_address=ADDRESS)
    api = ["node: the API server hasn't shown the Node object", "pods: the API server hasn't listed this node's pods",
           "slices: not published"]
    assert get(machine, "/healthz") == (200, "ok\n")
    status, text = get(machine, "/readyz")
    assert (status, text.splitlines()) == (503, [
        "kubelet: hasn't registered the driver", "runtime: NRI isn't connected", *api, "not ready"])
    with kubelet.Client(machine.registration) as registrar:
        registrar.notify(False, "no")
        assert "kubelet: hasn't registered" in get(machine, "/readyz")[1]
        registrar.notify(True)
    wait_for("kubelet: ok", lambda: get(machine, "/readyz")[1].splitlines() == [
        "kubelet: ok", "runtime: NRI isn't connected", *api, "not ready"])
    machine.api.start()
    driver.wait_line("info +published")
    wait_for("all but the runtime", lambda: get(machine, "/readyz") == (
        503, "kubelet: ok\nruntime: NRI isn't connected\nnode: ok\npods: ok\nslices: ok\nnot ready\n"))
    runtime = runtimes()
    ready = 200, "kubelet: ok\nruntime: ok\nnode: ok\npods: ok\nslices: ok\nready\n"
    wait_for("ready", lambda: get(machine, "/readyz") == ready)
    machine.api.stop()
    driver.wait_line("can't be watched for now")
    assert get(machine, "/readyz") == ready
    runtime.end()
    wait_for("not ready without the runtime", lambda: get(machine, "/readyz")[0] == 503)
    assert "runtime: NRI isn't connected" in get(machine, "/readyz")[1]


def test_ready_without_nri_where_nothing_is_moved(machine):
    machine.config.write_text(pools(pool("none", "enp1s0", attach="None")))
    machine.api.start()
    machine.start(metrics_address=ADDRESS).wait_line("info +published")
    assert get(machine, "/readyz") == (200, "kubelet: ok\nnode: ok\npods: ok\nslices: ok\nready\n")


def test_metrics(machine):
    machine.config.write_text(pools(pool("prepare", "enp1s0"), pool("skip", "enp2s0", "Skip")))
    machine.write_record("u", VF)
    machine.write_record("flipped", "0000-01-10-2")
    path = machine.state / "flipped.json"
    path.write_bytes(path.read_bytes().replace(b"Prepared", b"Preparad"))
    machine.api.put("nodes", node(features=[]))
    machine.api.start()
    driver = machine.start(metrics_address=ADDRESS)
    driver.wait_line("info +published")
    with machine.client() as client:
        assert client.prepare(("claim-u", "u")).claims["u"].error == ""
        assert "isn't known to the API server" in client.prepare("c").claims["uid-c"].error
        assert client.unprepare("c").claims["uid-c"].error == ""
    seen = metrics(machine)
    build, = (name for name in seen if name.startswith("build_info"))
    assert re.fullmatch(r'build_info\{version="\d+\.\d+\.\d+"\}', build)
    # a VF in use stays as it was offered; those whose state can't be read are drifted
    for name, value in {
            "registered": 1, "nri_connected": 0, "records_damaged": 1,
            'skip_honoured{by="kubelet"}': 0, 'skip_honoured{by="apiserver"}': 1, "taints_honoured": 1,
            'claims{mode="Prepare"}': 1, 'claims{mode="Skip"}': 0,
            'devices{pool="prepare",mode="Prepare",verified="true"}': 1,
            'devices{pool="prepare",mode="Prepare",verified="false"}': 3,
            'devices{pool="skip",mode="Skip",verified="false"}': 4,
            'operations_total{operation="prepare",result="ok"}': 1,
            'operations_total{operation="prepare",result="refused"}': 1,
            'operations_total{operation="prepare",result="failed"}': 0,
            'operations_total{operation="unprepare",result="ok"}': 1,
            'operation_duration_seconds_count{operation="prepare"}': 2,
            'operation_duration_seconds_bucket{operation="prepare",le="+Inf"}': 2,
            'operation_duration_seconds_count{operation="release"}': 0,
            "slice_writes_total": len(machine.slices()),
            'api_requests_total{verb="GET",code="4xx"}': 1}.items():
        assert seen[name] == value, name
    assert 0 < seen['operation_duration_seconds_sum{operation="prepare"}'] < 20
    machine.api.put("nodes", node())
    wait_metric(machine, 'skip_honoured{by="kubelet"}', 1)
    with machine.client() as client, machine.sysfs.unplugged("0000:01:10.0"):
        assert client.unprepare(("claim-u", "u")).claims["u"].error == ""
    seen = metrics(machine)
    assert seen['operations_total{operation="release",result="ok"}'] == 1
    assert seen['claims{mode="Prepare"}'] == 0


def test_scrapes_cost_nothing_that_stays(machine, monkeypatch):
    """Memory after many is what it was after some."""
    # what a sanitizer keeps of what was freed, to find who uses it, is bounded soon
    monkeypatch.setenv("ASAN_OPTIONS", "quarantine_size_mb=1:thread_local_quarantine_size_kb=64")
    machine.api.start()
    driver = machine.start(metrics_address=ADDRESS)
    driver.wait_line("info +published")

    def resident():
        with open(f"/proc/{driver.process.pid}/smaps_rollup", encoding="ascii") as file:
            return int(re.search(r"^Anonymous: +(\d+) kB", file.read(), re.M)[1])

    for _ in range(100):
        metrics(machine)
    before = resident()
    for _ in range(300):
        metrics(machine)
    assert resident() - before < 300  # kB, so not 1 of each


# ---- events


def test_call_that_fails(machine):
    """Told of the claim and of its pods here, once, and not again for each try of the kubelet."""
    machine.api.put("resourceclaims", claim("c", "u", result("0000-01-1f-0")))
    for name in ("first", "second"):
        machine.api.put("pods", pod(name, "c"))
    machine.api.put("pods", pod("other", "d"))
    machine.api.put("pods", {**pod("done", "c"), "status": {"phase": "Failed"}})
    machine.api.start()
    driver = machine.start(metrics_address=ADDRESS)
    driver.wait_line("info +published")
    wait_for("GET of the claim for its pods", lambda: machine.api.count("resourceclaims/d"))
    with machine.client() as client:
        for _ in range(3):
            assert "there is no VF" in client.prepare(("c", "u")).claims["u"].error
    event = wait_event(machine, "PrepareFailed", "c", "ResourceClaim")
    assert event["note"].startswith("claim default/c: request nic: device 0000-01-1f-0: there is no VF at 0000:01:1f.0")
    assert {key: event[key] for key in ("type", "action", "reportingController", "reportingInstance", "regarding")} == {
        "type": "Warning", "action": "Prepare", "reportingController": DRIVER, "reportingInstance": NODE,
        "regarding": {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "namespace": "default", "name": "c",
                      "uid": "u"}}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", event["eventTime"])
    for name in ("first", "second"):
        on_pod = wait_event(machine, "PrepareFailed", name, "Pod")
        assert on_pod["regarding"]["uid"] == f"uid-{name}" and on_pod["related"] == event["regarding"]
        assert on_pod["note"] == event["note"]
    wait_metric(machine, 'events_total{result="written"}', 4)  # and the one about free VFs
    assert len(events(machine)) == 3 and metrics(machine)['operations_total{operation="prepare",result="refused"}'] == 3


def test_what_the_node_is_told(machine):
    """Mistakes of the start, known before the API server, are told when it is there."""
    machine.config.write_text(pools(pool("skip", "enp2s0", "Skip"), pool("bad", "enp1s0", settings={"vlan": {"id": 5000}})))
    machine.write_record("flipped", VF)
    path = machine.state / "flipped.json"
    path.write_bytes(path.read_bytes().replace(b"Prepared", b"Preparad"))
    machine.api.put("nodes", node(features=[]))
    machine.start()
    time.sleep(0.5)
    machine.api.start()
    uid = machine.api.list("nodes")[0]["metadata"]["uid"]
    for reason, part in {"PoolInvalid": "\"bad\" of .*pools.yaml isn't offered: spec.settings.vlan.id: ",
                         "RecordDamaged": r"flipped\.json\.bad \(its checksum doesn't fit",
                         "SkipNotHonoured": "the kubelet doesn't declare DRAOptionalNodeOperations"}.items():
        event = wait_event(machine, reason, NODE, "Node")
        assert re.search(part, event["note"]) and event["type"] == "Warning"
        assert event["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": uid}
        assert event["metadata"]["namespace"] == "default"
    assert len(events(machine)) == 3


def test_server_that_drops_the_list(machine):
    machine.config.write_text(pools(pool("skip", "enp2s0", "Skip")))
    machine.write_record("u", SKIP_VF, mode="Skip", pf="0000:02:00.0")
    machine.api.drops_skip = True
    machine.api.start()
    machine.start(metrics_address=ADDRESS).wait_line("info +published")
    assert "the API server drops skipNodeOperations" in wait_event(machine, "SkipNotHonoured", NODE, "Node")["note"]
    assert metrics(machine)['skip_honoured{by="apiserver"}'] == 0


def test_lists_that_are_not_copied(machine):
    """The scheduler's gate can't be seen; that the kubelet calls for a claim which should have a list can."""
    machine.config.write_text(pools(pool("skip", "enp2s0", "Skip"), pool("defer", "enp1s0", "DeferCleanup")))
    machine.api.start()
    driver = machine.start(metrics_address=ADDRESS)
    driver.wait_line("the kubelet honours skipNodeOperations")
    skip, defer = {"skipNodeOperations": ["*"]}, {"skipNodeOperations": ["NodeUnprepareResources"]}
    cases = [("copied", result(SKIP_VF, **skip), 0), ("deferred", result(VF, **defer), 0), ("lacks", result(SKIP_VF), 1),
             ("half", result(SKIP_VF, **defer), 2), ("lacks-too", result(VF), 3), ("unknown", result(VF, skipNodeOperations=["x"]), 4)]
    with machine.client() as client:
        for name, device, count in cases:
            machine.api.put("resourceclaims", claim(name, f"uid-{name}", device))
            client.prepare(name)  # there is no kernel behind these VFs
            assert metrics(machine)["lists_not_copied_total"] == count, name
    event = wait_event(machine, "SkipNotCopied", NODE, "Node")
    assert event["note"].startswith("claim default/lacks, and maybe others, has no copy of the skipNodeOperations")
    assert len(driver.lines("warning a claim has no copy of its device's skipNodeOperations")) == 1


def test_server_that_drops_taints(machine):
    machine.api.drops_taints = True
    machine.api.start()
    machine.start(metrics_address=ADDRESS).wait_line("info +published slices=0")
    assert "DRADeviceTaints" in wait_event(machine, "TaintsNotHonoured", NODE, "Node")["note"]
    assert metrics(machine)["taints_honoured"] == 0 and metrics(machine)['skip_honoured{by="apiserver"}'] == 1


def test_server_that_takes_no_events(machine):
    """Said once; and nothing else waits for it."""
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    machine.api.answers[path] = 403, b'{"kind":"Status","code":403,"message":"not for you"}'
    machine.api.start()
    driver = machine.start(metrics_address=ADDRESS)
    with machine.client() as client:
        for name in ("a", "b"):
            client.prepare(name)
    wait_metric(machine, 'events_total{result="dropped"}', 3)
    assert len(driver.lines("event not written: .*not for you")) == 1
    driver.wait_line("info +published")


def test_good_day_without_events(machine, runtime):
    """A claim that is prepared, its container, its end: nobody is told of anything."""
    live_claim(machine, "web", "None")
    machine.api.start()
    driver = machine.start(metrics_address=ADDRESS)
    driver.wait_line("info +published")
    runtime.event("synchronized")
    assert "error" not in runtime.do("run", id="web", name="web")
    assert "error" not in runtime.do("create", id="web", name="web")
    with machine.client() as client:
        assert client.unprepare("other").claims["uid-other"].error == ""
    time.sleep(0.3)
    assert events(machine) == []
    assert [name for name, value in metrics(machine).items() if name.startswith("sandboxes_total") and value] == []


# ---- pods


def test_environment_where_the_kubelet_skips(machine, runtime):
    """The container has by NRI what CDI would have given it."""
    live_claim(machine, "web", "None")
    machine.api.put("pods", pod("plain"))
    machine.api.start()
    machine.start().wait_line("info +published")
    runtime.event("synchronized")
    assert "error" not in runtime.do("run", id="web", name="web")
    prefix = "SRIOV_DRA_0000_02_10_0_"
    assert runtime.do("create", id="web", name="web")["env"] == [f"{prefix}{rest}" for rest in (
        "PCI_ADDRESS=0000:02:10.0", "REQUEST=nic", "MODE=Skip", "SETUP_BY=External", "MAC=52:54:00:00:00:02",
        "VLAN=100", "MTU=1500")]
    assert "env" not in runtime.do("create", id="plain", name="plain")


def test_no_second_source_of_the_environment(machine, runtime):
    """A claim that the kubelet had prepared has its environment by CDI, in the containers that use it."""
    live_claim(machine, "web", "None")
    machine.write_record("u", SKIP_VF, byKubelet=True, name="web", pods=["uid-web"], devices=[skip_device("None")])
    machine.api.start()
    machine.start().wait_line("info +published")
    runtime.event("synchronized")
    assert "env" not in runtime.do("create", id="web", name="web")
    text, = (path.read_text() for path in machine.cdi.iterdir())
    assert "SRIOV_DRA_0000_02_10_0_SETUP_BY=External" in text


def test_pod_that_is_refused(machine, runtime):
    live_claim(machine, "web", "NRI")
    machine.api.start()
    machine.start(metrics_address=ADDRESS).wait_line("info +published")
    runtime.event("synchronized")
    for _ in range(3):
        assert "hostNetwork" in runtime.do("run", id="web", name="web")["error"]
    event = wait_event(machine, "PodRefused", "web", "Pod")
    assert event["note"].startswith("claim default/web: the VF's interface can't be moved into a pod with hostNetwork")
    assert event["related"] == {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "namespace": "default",
                                "name": "web", "uid": "u"}
    assert metrics(machine)['sandboxes_total{result="refused"}'] == 3
    assert len(events(machine)) == 1


@pytest.mark.parametrize("patience", ["2s", "1s"])  # longer and shorter than what the API server gets
def test_pod_that_is_let_go(machine, runtimes, patience):
    """Told of the node, not of each pod: mostly they have no claim."""
    runtime = runtimes("-request-timeout", patience)
    machine.api.silent.add(f"{PODS}/unknown")
    machine.api.start()
    machine.start(metrics_address=ADDRESS).wait_line("info +published")
    runtime.event("synchronized")
    assert "error" not in runtime.do("run", id="unknown", name="unknown")
    assert "whether it has a claim of this driver" in wait_event(machine, "PodsUnchecked", NODE, "Node")["note"]
    assert metrics(machine)['sandboxes_total{result="unknown"}'] == 1
    machine.api.speak(f"{PODS}/unknown")


def test_pod_that_comes_late(machine, runtimes):
    """That it has a claim is known by the record, but the API server doesn't tell of the pod in the runtime's time."""
    live_claim(machine, "web", "None")
    machine.api.put("pods", pod("holder", "web"))  # so that the claim isn't released
    machine.api.delete("pods", "web", "default")
    machine.api.silent.add(f"{PODS}/web")
    machine.api.start()
    runtime = runtimes("-request-timeout", "1s")
    machine.start(metrics_address=ADDRESS).wait_line("info +published")
    runtime.event("synchronized")
    said = "the pod's claims weren't known within the runtime's time; tried again"
    assert said in runtime.do("run", id="web", name="web")["error"]
    assert wait_event(machine, "PodRefused", "web", "Pod")["note"] == said
    seen = metrics(machine)
    assert (seen['sandboxes_total{result="late"}'], seen['sandboxes_total{result="refused"}']) == (1, 0)
    machine.api.speak(f"{PODS}/web")


def test_release_that_fails_pauses_and_is_said_once(machine):
    """Each change that the kernel tells makes the driver look, and that alone is no reason to try again at once."""
    machine.write_record("u", VF, state="Releasing")
    machine.api.start()
    driver = machine.start(metrics_address=ADDRESS)
    driver.wait_line("info +published")
    end, mtu = time.monotonic() + 7, 1400
    while time.monotonic() < end:
        mtu += 1
        machine.namespace.run(subprocess.run, ["ip", "link", "set", "lo", "mtu", str(mtu)], check=True)
        time.sleep(0.2)
    assert metrics(machine)['operations_total{operation="release",result="refused"}'] == 2, "at once, and after 5 s"
    assert len(driver.lines("claim not released yet: tried again: .*reading interface enp1s0: No such device")) == 1
    assert not driver.lines("releasing claim"), "that was told by who began it"
    with machine.client() as client, machine.sysfs.unplugged("0000:01:10.0"):
        assert client.unprepare(("claim-u", "u")).claims["u"].error == "", "who asks isn't kept waiting"
