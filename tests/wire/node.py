# SPDX-License-Identifier: Apache-2.0
"""The driver's verb `node` on a machine whose kernel, API server and hardware are a test's own."""
import concurrent.futures
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import zlib

from fake_api import Api
from fake_sysfs import Sysfs
import kubelet

CLONE_NEWNET = 0x40000000
NODE, DRIVER, GROUP = "node-1", "sriov-dra.dev", "sriov-dra.dev/v1alpha1"
PORT = 6443
ATTACH_LOCK = "attach.lock"  # whoever moves VFs holds it; it stays
SLOW = 20  # seconds that nothing takes here, however busy the machine


def wait_for(what, condition, seconds=SLOW):
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"after {seconds} s still not: {what() if callable(what) else what}"
        time.sleep(0.02)
    return value


class Namespace:
    """A network namespace that lives as long as its only thread; what that starts is in it."""

    def __init__(self):
        self.thread = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self.run(self._enter)

    @staticmethod
    def _enter():
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET) < 0:
            raise PermissionError(ctypes.get_errno(), "no network namespace of our own")
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)

    def run(self, function, *arguments, **options):
        return self.thread.submit(function, *arguments, **options).result()

    def end(self):
        self.thread.shutdown()


class Driver:
    """One running `sriov-dra node`."""

    def __init__(self, machine, log, arguments):
        self.machine, self.log = machine, log
        program = os.environ.get("SRIOV_DRA") or kubelet.build_directory() / "sriov-dra"
        environment = {k: v for k, v in os.environ.items() if k not in ("NODE_NAME", "KUBERNETES_SERVICE_HOST")}
        with open(log, "wb") as errors:
            self.process = machine.namespace.run(
                subprocess.Popen, [program, "node", *map(str, arguments)], stdin=subprocess.DEVNULL,
                stdout=errors, stderr=errors, cwd=machine.root, env=environment)

    def text(self):
        return self.log.read_text(errors="replace")

    def lines(self, pattern):
        """Lines of the log that match, without their time."""
        return [line[25:] for line in self.text().splitlines() if re.search(pattern, line)]

    def wait_line(self, pattern, count=1):
        wait_for(lambda: f"{count} line(s) with {pattern} in\n{self.text()}",
                 lambda: len(self.lines(pattern)) >= count)
        return self.lines(pattern)[-1]

    def wait_ready(self):
        wait_for(lambda: f"registration socket; {self.text()}",
                 lambda: self.machine.registration.is_socket() or self.process.poll() is not None)
        assert self.process.poll() is None, self.text()
        return self

    def status(self, seconds=SLOW):
        """Waits for the end; the exit status."""
        return self.process.wait(timeout=seconds)

    def end(self, how=signal.SIGTERM):
        """Ends it; returns the exit status and the seconds that it took."""
        began = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.status(60), time.monotonic() - began

    def check(self):
        """What holds for each run, whatever it was for."""
        log = self.text()
        assert self.process.returncode in (0, 2, 3, -signal.SIGKILL), log
        assert not re.search("Sanitizer|runtime error", log), log


class Machine:
    """A node with two ports of four VFs, its API server, and drivers."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.kubelet, self.cdi, self.sysroot = self.root / "kubelet", self.root / "cdi", self.root / "host"
        self.plugin = self.kubelet / "plugins" / DRIVER
        self.state = self.plugin / "claims"
        self.service = self.plugin / "dra.sock"
        self.registration = self.kubelet / "plugins_registry" / f"{DRIVER}-reg.sock"
        self.config, self.kubeconfig = self.root / "pools.yaml", self.root / "kubeconfig"
        self.nri = self.root / "nri.sock"
        self.drivers = []
        self.namespace = Namespace()
        self.sysfs = Sysfs(self.sysroot)
        self.sysfs.add_pf("01", "enp1s0")
        self.sysfs.add_pf("02", "enp2s0")
        self.api = Api(lambda: self.namespace.run(socket.create_server, ("127.0.0.1", PORT)))
        self.api.put("nodes", node())
        self.config.write_text(pools(pool("prepare", "enp1s0")))
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{PORT}"}}],
            "users": [{"name": "u", "user": {}}]}))

    def arguments(self, **changes):
        """All options; one set to None is left away."""
        options = {"node-name": NODE, "config": self.config, "kubeconfig": self.kubeconfig,
                   "kubelet-root": self.kubelet, "cdi-dir": self.cdi, "nri-socket": self.nri,
                   "sysroot": self.sysroot, **{name.replace("_", "-"): value for name, value in changes.items()}}
        return [text for name, value in options.items() if value is not None for text in (f"--{name}", value)]

    def launch(self, *arguments):
        self.drivers.append(Driver(self, self.root / f"log-{len(self.drivers)}", arguments))
        return self.drivers[-1]

    def start(self, registered=True, **changes):
        """A driver that serves, and that the kubelet knows."""
        driver = self.launch(*self.arguments(**changes)).wait_ready()
        if registered:
            with kubelet.Client(self.registration) as client:
                client.notify(True)
        return driver

    def refuses(self, **changes):
        """A driver that can't start: its last words. It must leave no socket behind."""
        driver = self.launch(*self.arguments(**changes))
        assert driver.status() == 3, driver.text()
        return driver.lines("error")[-1]

    def client(self):
        return kubelet.Client(self.service)

    def touched(self):
        """All that a driver could have changed for a claim."""
        return {path: path.read_text() for folder in (self.sysroot, self.state, self.cdi)
                for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ATTACH_LOCK}

    def records(self):
        return sorted(path.name for path in self.state.glob("*") if path.name not in ("lock", ATTACH_LOCK))

    def write_record(self, uid, device, **changes):
        """A record as an earlier run left it, of a claim that has one device."""
        body = json.dumps(record(uid, device, **changes)).encode()
        self.state.mkdir(parents=True, exist_ok=True)
        (self.state / f"{uid}.json").write_bytes(
            b"sriov-dra claim record crc32=%08x\n%s" % (zlib.crc32(body), body))

    def slices(self):
        """Of the API: name to spec."""
        return {o["metadata"]["name"]: o["spec"] for o in self.api.list("resourceslices")}

    def end(self):
        """Ends and checks everything."""
        for driver in self.drivers:
            driver.end()
        self.api.stop()
        self.namespace.end()
        for driver in self.drivers:
            driver.check()
        assert not self.api.surprises
        shutil.rmtree(self.root)


def node(features=("DRAOptionalNodeOperations",)):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": {"nic": "fast"}},
            "status": {"declaredFeatures": list(features)}}


def pool(name, interface, mode="Prepare", **spec):
    return {"apiVersion": GROUP, "kind": "VirtualFunctionPool", "metadata": {"name": name},
            "spec": {"functions": [{"parent": {"interface": interface}}], "mode": mode, **spec}}


def pools(*documents):
    """The text of a --config file."""
    return "\n---\n".join(map(json.dumps, documents))


def result(device, request="nic", **changes):
    """An allocated device in a claim's status."""
    return {"request": request, "driver": DRIVER, "pool": NODE, "device": device, **changes}


def config(source="FromClaim", requests=("nic",), **parts):
    """Opaque configuration in a claim's status."""
    return {"source": source, "requests": list(requests), "opaque": {"driver": DRIVER, "parameters": {
        "apiVersion": GROUP, "kind": "VirtualFunctionConfig", **parts}}}


def claim(name, uid, *results, configs=(), **status):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default", "uid": uid},
            "status": {"allocation": {"devices": {"results": list(results), "config": list(configs)}}, **status}}


def boot_id():
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def record(uid, device, mode="Prepare", pf="0000:01:00.0", **changes):
    domain, bus, slot, function = device.split("-")
    return {"version": 1, "namespace": "default", "name": f"claim-{uid}", "uid": uid, "state": "Prepared",
            "bootID": boot_id(), "byKubelet": True, "pods": [],
            "devices": [{"request": "nic", "pool": NODE, "device": device, "index": int(function) // 2,
                         "vf": f"{domain}:{bus}:{slot}.{function}", "pf": pf, "poolDocument": "p",
                         "mode": mode, "attach": "NRI", "settings": {}, "interface": {}}], **changes}
