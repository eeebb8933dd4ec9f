# SPDX-License-Identifier: Apache-2.0
"""Figures of the driver on one lab node, each beside its floor and its budget.

    tests/run bench          or, with what is built: tests/bench/run [-o json]

Clocks mean nothing by themselves here: all is emulated. So what is timed is
timed in the guest, in turns with its floor, and the medians are compared. The
table is information: over budget isn't a failure, a figure that couldn't be
taken is. All samples are in bench.json of the build directory.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from lab import BUILD, DRIVER, Driver, Lab, LabError, wait_for  # noqa: E402
from objects import SKIP_PF, claim, device_class, pools, provision  # noqa: E402

REGISTRATION = f"/var/lib/kubelet/plugins_registry/{DRIVER}-reg.sock"
PROGRAMS = ("bench-floor", "bench-start", "bench-prepare", "bench-attach")
DEVICES = 11           # of pools(): 7 prepared, 4 skipped
START_ROUNDS = 5
PREPARE_ROUNDS = 15
POD_ROUNDS = 5         # each a prepare pod and a skip pod
BATCH = (6, 4)         # prepare and skip pods at once; with the rounds above 20 claims
PAUSE_MS = 400         # until the driver has looked at what changed
SETTLE_MS = 1500       # until a program is idle
BARE_VF = 6            # of SKIP_PF, in no pool
FLOOR_DRIVER = "floor.sriov-dra.dev"
SETTINGS = {"macAddress": "52:54:00:be:ef:02", "vlan": {"id": 100, "qos": 3}, "mtu": 1400}
CLASS_SETTINGS = {"settings": {"spoofCheck": False, "trust": True}}
DRA_CALLS = "dra_grpc_operations_duration_seconds"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


class Bench:
    """One run: a lab, a driver, and what was measured."""

    def __init__(self, lab):
        self.lab = lab
        self.node = lab.nodes["node1"]
        self.driver = Driver(self.node)
        self.samples = {}

    def add(self, name, value):
        self.samples.setdefault(name, []).append(value)

    def extend(self, name, values):
        self.samples.setdefault(name, []).extend(values)

    def median(self, name):
        return statistics.median(self.samples[name])

    def guest(self, program, *args, timeout=120):
        """Runs one of our programs in the guest; what it printed, parsed."""
        words = " ".join(f"'{a}'" for a in args)
        return json.loads(self.node.run(f"/usr/local/bin/{program} {words}", timeout=timeout))

    def prepare(self, fresh):
        """A node as new, with our programs."""
        self.driver.forget()
        self.driver.log_path.unlink(missing_ok=True)
        self.driver.install()
        self.lab.clean()
        if not fresh:
            self.node.vfs(int(self.lab.env["VFS"]))
        provision(self.node)
        for program in PROGRAMS:
            shutil.copy(BUILD / "tests" / "bench" / program, self.node.share / program)
            self.node.run(f"install -m755 /host/{program} /usr/local/bin/{program}")
        self.lab.apply([device_class("vf-prepared", "Prepare", CLASS_SETTINGS), device_class("vf-preprovisioned", "Skip")])

    # -- start and idle -----------------------------------------------------

    def start(self):
        """The driver, and beside it the floor, from exec to idle."""
        self.driver.pools_path.write_text("\n---\n".join(map(json.dumps, pools())), encoding="utf-8")
        program = [self.driver.path, "node", "--node-name", self.node.name, "--kubeconfig", "/host/driver.kubeconfig",
                   "--state-dir", self.driver.state, "--config", f"/host/{self.driver.pools_path.name}"]
        floor = ["/usr/local/bin/bench-floor", "/host/driver.kubeconfig", "/run/bench-floor.sock"]
        watch = ["--kubeconfig", "/host/driver.kubeconfig", "--slices"]
        for n in range(START_ROUNDS + 1):  # the first loads what is on disk, and tells the floor what to publish
            self.lab.must("DELETE", SLICES, {})
            got = self.guest("bench-start", *watch, DRIVER, "--devices", DEVICES, "--line", "registered with the kubelet",
                             "--settle", SETTLE_MS, "--register", REGISTRATION, "--", *program)
            if n == 0:
                floor += self.floor_slices()
            else:
                self.add("start.registered", got["registered with the kubelet"])
                self.add("start.slices", got["slices"])
                self.add("idle.rss", got["rss"])
                self.add("idle.anon", got["anon"])
            self.lab.must("DELETE", SLICES, {})
            got = self.guest("bench-start", *watch, FLOOR_DRIVER, "--devices", DEVICES, "--line", "initialised",
                             "--line", "published", "--settle", SETTLE_MS, "--", *floor)
            if n > 0:
                self.add("floor.initialised", got["initialised"])
                self.add("floor.published", got["published"])
                self.add("floor.slices", got["slices"])
                self.add("floor.rss", got["rss"])
                self.add("floor.anon", got["anon"])
        self.lab.must("DELETE", SLICES, {})

    def floor_slices(self):
        """What the driver published, as files that publish the same under another name."""
        names = []
        for n, published in enumerate(self.lab.slices()):
            spec = {**published["spec"], "driver": FLOOR_DRIVER}
            document = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
                        "metadata": {"generateName": "floor-"}, "spec": spec}
            (self.node.share / f"bench-slice-{n}.json").write_text(json.dumps(document), encoding="utf-8")
            names.append(f"/host/bench-slice-{n}.json")
        return names

    # -- Prepare ------------------------------------------------------------

    def allocate(self, name, device):
        """A claim allocated by hand, as the scheduler would: no pod takes part. Its uid."""
        request = claim(name, "vf-prepared", SETTINGS)
        self.lab.apply(request)
        config = [{"source": "FromClass", "requests": ["vf"], **self.opaque("vf-prepared")},
                  {"source": "FromClaim", "requests": ["vf"], **request["spec"]["devices"]["config"][0]}]
        allocation = {"devices": {"results": [{"request": "vf", "driver": DRIVER, "pool": self.node.name, "device": device}],
                                  "config": config},
                      "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                          {"key": "metadata.name", "operator": "In", "values": [self.node.name]}]}]}}
        done = self.lab.must("PATCH", f"{CLAIMS}/{name}/status", {"status": {"allocation": allocation}},
                             "application/merge-patch+json")
        return done["metadata"]["uid"]

    def opaque(self, class_name):
        return self.lab.get("deviceclass", class_name)["spec"]["config"][0]

    def prepare_calls(self):
        """Prepare by our own call on the driver's socket, in turns with the same requests bare."""
        device = next(d["name"] for s in self.lab.slices() for d in s["spec"]["devices"]
                      if not s["spec"].get("skipNodeOperations"))
        uid = self.allocate("bench-calls", device)
        mark = self.driver.log_mark()
        got = self.guest("bench-prepare", "/host/driver.kubeconfig", "default/bench-calls", uid,
                         f"/var/lib/kubelet/plugins/{DRIVER}/dra.sock", SKIP_PF, BARE_VF, "/var/lib/bench", PREPARE_ROUNDS,
                         PAUSE_MS, timeout=300)
        self.extend("prepare.bare", got["bare"])
        self.extend("prepare.call", got["prepare"])
        self.extend("unprepare.call", got["unprepare"])
        time.sleep(0.5)  # the log comes over the share
        log = self.driver.log()[mark:]
        for name in ("prepare", "unprepare"):
            inside = [float(ms) for ms in re.findall(rf"claim {name}d .*{uid}.* ms=([\d.]+)", log)]
            if len(inside) != PREPARE_ROUNDS + 1:
                raise LabError(f"{len(inside)} lines of {name}d claims in the log, not {PREPARE_ROUNDS + 1}")
            self.extend(f"{name}.inside", inside[1:])
        self.lab.delete("resourceclaim", "bench-calls")

    # -- pods ---------------------------------------------------------------

    def kubelet_calls(self, method):
        """(seconds, calls) that the kubelet has spent in this method of the driver."""
        return tuple(self.lab.kubelet_metric(f"{DRA_CALLS}_{what}", driver_name=DRIVER,
                                             method_name=f"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/{method}")
                     for what in ("sum", "count"))

    def pods(self, tag, prepared, skipped):
        """So many pods at once, from their claims to the last VF home; notes requests and times."""
        lab = self.lab
        names = {f"p{tag}-{n}": "prepare" for n in range(prepared)} | {f"s{tag}-{n}": "skip" for n in range(skipped)}
        mark, audit = self.driver.log_mark(), lab.audit_mark()
        calls = self.kubelet_calls("NodePrepareResources")
        for n, (name, kind) in enumerate(names.items()):
            mac = {"macAddress": f"52:54:00:be:ef:{16 + n:02x}"}
            interface = {"name": "net1", "addresses": [f"192.0.2.{n + 1}/24"]}
            lab.apply(claim(name, "vf-prepared", {**SETTINGS, **mac}, interface) if kind == "prepare" else
                      claim(name, "vf-preprovisioned", None, interface))
        for name in names:
            lab.pod(name, [name])
        for name in names:
            lab.wait_pod(name, timeout=120)
        for name in names:
            wait_for(lambda c=name: (lab.get("resourceclaim", c)["status"].get("devices")), 20, f"status.devices of {name}")
        for name in names:
            lab.delete("pod", name, wait=False)
        for name in names:
            wait_for(lambda p=name: lab.get("pod", p) is None, 90, f"pod {name} is gone")
        wait_for(lambda: self.node.run(f"ls {self.driver.state} | grep -c json || true").strip() == "0", 60,
                 "the claims' records are gone")
        time.sleep(1)  # the audit log and the driver's come with a delay
        if prepared:
            now = self.kubelet_calls("NodePrepareResources")
            if now[1] - calls[1] != prepared:
                raise LabError(f"the kubelet counts {now[1] - calls[1]:g} calls of Prepare, not {prepared}")
            if prepared == 1:
                self.add("prepare.kubelet", (now[0] - calls[0]) * 1000)
        log = self.driver.log()[mark:]
        for name, kind in names.items():
            found = re.search(rf"VFs moved into pod claim=default/{name} .*ms=([\d.]+)", log)
            if not found:
                raise LabError(f"no line of the log says that {name}'s VF was moved")
            if len(names) == 2:
                self.add(f"attach.{kind}", float(found[1]))
        self.count_requests(audit, names)
        for name in names:
            lab.delete("resourceclaim", name)

    def count_requests(self, since, names):
        """The driver's requests by claim; what is for no claim or pod of ours is kept apart."""
        counts = {name: {"GET": 0, "PATCH": 0, "other": 0} for name in names}
        for event in self.lab.api_requests(since=since):
            about = event.get("objectRef", {})
            verb = {"get": "GET", "patch": "PATCH"}.get(event["verb"], "other")
            if about.get("resource") in ("resourceclaims", "pods") and about.get("name") in counts:
                counts[about["name"]][verb] += 1
            elif event["verb"] != "watch":
                self.add("requests.elsewhere", f"{event['verb']} {event['requestURI']}")
        for name, kind in names.items():
            for verb, n in counts[name].items():
                self.add(f"requests.{kind}.{verb}", n)
            self.add(f"requests.{kind}.all", sum(counts[name].values()))

    def memory(self, name):
        text = self.node.run(f"cat /proc/{self.driver.pid()}/status")
        for key, field in (("rss", "VmRSS"), ("anon", "RssAnon")):
            self.add(f"{name}.{key}", int(re.search(rf"{field}:\s+(\d+) kB", text)[1]))

    def rounds(self):
        """Pods one by one, in turns with a bare attachment; then many at once."""
        for n in range(POD_ROUNDS):
            self.extend("attach.bare", self.guest("bench-attach", SKIP_PF, BARE_VF, 2, PAUSE_MS))
            self.pods(n, 1, 1)
        self.pods("x", *BATCH)
        time.sleep(SETTLE_MS / 1000)
        self.memory("after")

    def run(self, say, fresh):
        began = time.monotonic()

        def step(text):
            say(f"[{time.monotonic() - began:4.0f} s] {text}")
        step("the node is made ready")
        self.prepare(fresh)
        step(f"start, {START_ROUNDS} times the driver and its floor in turns")
        self.start()
        self.driver.start(pools())
        self.lab.wait_slices(DEVICES)
        self.driver.wait_log("registered with the kubelet")
        step(f"Prepare, {PREPARE_ROUNDS} times the driver and the bare requests in turns")
        self.prepare_calls()
        step(f"pods: {POD_ROUNDS} rounds with one of each kind, then {sum(BATCH)} at once")
        self.rounds()
        step("done")


# -- the table ----------------------------------------------------------------

MIB = 1024  # KiB


class Row:
    """One line: a figure, its floor, and its budget (None: there is none)."""

    def __init__(self, what, value, floor=None, budget=None, unit="ms", note=""):
        self.what, self.value, self.floor, self.budget, self.unit, self.note = what, value, floor, budget, unit, note

    @property
    def verdict(self):
        return "" if self.budget is None else "ok" if self.value <= self.budget else "over"

    def cells(self):
        def show(v):
            return "" if v is None else f"{v:.1f} {self.unit}" if self.unit else f"{v:g}"
        ratio = f"{self.value / self.floor:.2f}" if self.floor and self.unit else ""
        return [self.what, show(self.value), show(self.floor), ratio, show(self.budget), self.verdict, self.note]

    def document(self):
        return {"what": self.what, "value": self.value, "floor": self.floor, "budget": self.budget, "unit": self.unit,
                "verdict": self.verdict or None, "note": self.note}


def rows(b):
    m = b.median
    rss, anon = m("floor.rss") / MIB, m("floor.anon") / MIB
    own, api = m("floor.initialised"), m("floor.published") - m("floor.initialised")
    bare = m("prepare.bare")
    out = []
    for when, name in (("idle, both pools", "idle"), (f"after {2 * POD_ROUNDS + sum(BATCH)} claims", "after")):
        out.append(Row(f"resident, {when}", m(f"{name}.rss") / MIB, rss, min(rss + 4, 26), "MiB", "floor + 4, at most 26"))
        out.append(Row(f"anonymous, {when}", m(f"{name}.anon") / MIB, anon, 6, "MiB"))
    out += [
        Row("start to served registration", m("start.registered"), own, note="floor: libraries initialised"),
        Row("start to slices seen", m("start.slices"), m("floor.slices"), 1.5 * own + api,
            note=f"1.5 x {own:.0f} own start + {api:.0f} of API"),
        Row("Prepare, in the driver", m("prepare.inside"), bare, 1.5 * bare, note="floor: the same requests bare"),
        Row("Prepare, as called in the guest", m("prepare.call"), bare),
        Row("Prepare, as the kubelet sees it", m("prepare.kubelet"), bare, note=f"{len(b.samples['prepare.kubelet'])} pods"),
        Row("Unprepare, in the driver", m("unprepare.inside")),
        Row("attach to a prepare pod", m("attach.prepare"), m("attach.bare"), 2000, note="budget: the runtime's patience"),
        Row("attach to a skip pod", m("attach.skip"), m("attach.bare"), 2000, note="acquires first: GET, state, journal"),
    ]
    for kind in ("prepare", "skip"):
        parts = ", ".join(f"{verb} {statistics.mean(b.samples[f'requests.{kind}.{verb}']):g}" for verb in ("GET", "PATCH", "other"))
        out.append(Row(f"API requests, {kind} claim", statistics.mean(b.samples[f"requests.{kind}.all"]), None, 2, "", parts))
    claims = 2 * POD_ROUNDS + sum(BATCH)
    out.append(Row(f"API requests, elsewhere, {claims} claims", len(b.samples.get("requests.elsewhere", [])), unit="",
                   note=summary(b.samples.get("requests.elsewhere", []))))
    return out


def summary(requests):
    kinds = {}
    for r in requests:
        verb, path = r.split(" ", 1)
        resource = re.search(r"/(?:v1|v1beta\d)/(?:namespaces/[^/]+/)?([^/?]+)", path)
        key = f"{verb} {resource[1] if resource else path}"
        kinds[key] = kinds.get(key, 0) + 1
    return ", ".join(f"{n} {k}" for k, n in sorted(kinds.items()))


def table(lines):
    head = ["", "driver", "floor", "ratio", "budget", "", ""]
    cells = [head] + [r.cells() for r in lines]
    widths = [max(len(c[i]) for c in cells) for i in range(len(head))]
    for c in cells:
        text = "  ".join(v.ljust(w) if i in (0, 5, 6) else v.rjust(w) for i, (v, w) in enumerate(zip(c, widths)))
        print(text.rstrip())


def load():
    return f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("-o", choices=["text", "json"], default="text", dest="form", help="what to print")
    parser.add_argument("--keep", action="store_true", help="leave the lab up")
    options = parser.parse_args()
    before, lab, driver = load(), Lab("bench"), None

    def say(text):
        print(text, file=sys.stderr if options.form == "json" else sys.stdout, flush=True)
    try:
        fresh = not lab.alive()
        lab.up()
        b = Bench(lab)
        driver = b.driver
        b.run(say, fresh)
        lines = rows(b)
    except (LabError, KeyError, ValueError) as e:
        say(f"not measured: {type(e).__name__}: {e}")
        if driver is not None:
            say(f"the driver's log, {driver.log_path}:\n{driver.tail()}")
        return 1
    finally:
        if driver is not None:
            with contextlib.suppress(LabError):
                driver.forget()
        if not options.keep:
            lab.down()
    document = {"machine": {"before": before, "after": load()}, "rows": [r.document() for r in lines], "samples": b.samples}
    (BUILD / "bench.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    if options.form == "json":
        print(json.dumps(document, indent=1))
    else:
        print(f"\nMedians, one node under emulation; {before} before, {load()} after\n")
        table(lines)
        print(f"\nall samples: {BUILD / 'bench.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
