# SPDX-License-Identifier: Apache-2.0
"""The lab from Python: a cluster, its nodes, and the driver in a node.

Used by the end-to-end tests and the demo. Standard library only. Times are in
seconds. A failed command raises LabError with its output in the text.

LAB_PATIENCE multiplies all time-outs: for a machine that does other work too.
"""
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SRIOV_DRA_BUILD", CHECKOUT / "build"))
LAB = CHECKOUT / "tests" / "lab" / "lab"
DRIVER = "sriov-dra.dev"
HOOK = "sriov-dra-hook"
FEATURE = "DRAOptionalNodeOperations"
# Sleeps, and ends at once when told to: `sleep` as a container's first process would ignore that.
IDLE = ["sh", "-c", "trap exit TERM; sleep 100000 & wait"]
PATIENCE = float(os.environ.get("LAB_PATIENCE", "1"))

# Where the API server keeps a kind. The rest goes through kubectl.
PATHS = {
    "node": "/api/v1/nodes",
    "pod": "/api/v1/namespaces/{}/pods",
    "event": "/api/v1/namespaces/{}/events",
    "resourceclaim": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
    "resourceclaimtemplate": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaimtemplates",
    "resourceslice": "/apis/resource.k8s.io/v1/resourceslices",
    "deviceclass": "/apis/resource.k8s.io/v1/deviceclasses",
}


class LabError(AssertionError):
    """Something that the lab was asked for didn't happen."""


def command(args, stdin=None, check=True, timeout=120):
    """Runs a program; returns its CompletedProcess with text output."""
    done = subprocess.run([str(a) for a in args], input=stdin, text=True, timeout=timeout * PATIENCE,
                          stdin=None if stdin is not None else subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if check and done.returncode:
        raise LabError(f"{' '.join(map(str, args))}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def wait_for(predicate, timeout, what, interval=0.25):
    """The first true value of predicate(). An exception of LabError kind counts
    as "not yet"; its text is in the error if time runs out."""
    timeout *= PATIENCE
    end = time.monotonic() + timeout
    while True:
        try:
            last = predicate()
            if last:
                return last
        except LabError as e:
            last = e
        if time.monotonic() >= end:
            raise LabError(f"after {timeout:g} s still not: {what() if callable(what) else what} (last: {last})")
        time.sleep(interval)


def documents(manifest):
    """A manifest (YAML text, one object, or several) as text for kubectl."""
    if isinstance(manifest, str):
        return manifest
    if isinstance(manifest, dict):
        manifest = [manifest]
    return "\n---\n".join(json.dumps(m) for m in manifest)


class Lab:
    """One instance of tests/lab/lab; without a name, that of LAB_NAME."""

    def __init__(self, name=None, nodes=1, vfs=7, memory=None, **gates):
        self.name = name or os.environ.get("LAB_NAME", "e2e")
        self.options = ["--nodes", str(nodes), "--vfs", str(vfs)]
        if memory is not None:
            self.options += ["--memory", str(memory)]
        self.gate_options = self._gate_options(**gates)
        self.nodes = {}
        self.dir = None
        self.env = {}
        self._opener = None

    @staticmethod
    def _gate_options(gates=None, scheduler_gates=None, kubelet_gates=None):
        flags = (("--gates", gates), ("--scheduler-gates", scheduler_gates), ("--kubelet-gates", kubelet_gates))
        return [word for flag, value in flags if value is not None for word in (flag, value)]

    def differs(self, **gates):
        """Whether set_gates() would restart anything."""
        return self._gate_options(**gates) != self.gate_options

    def set_gates(self, **gates):
        """Restarts what has other gates than these: gates, scheduler_gates, kubelet_gates."""
        options = self._gate_options(**gates)
        if options != self.gate_options:
            command([LAB, "--name", self.name, "gates", *options], timeout=400)
            self.gate_options = options
            of_kubelet = gates.get("kubelet_gates") or gates.get("gates") or ""
            on = f"{FEATURE}=false" not in of_kubelet
            # A kubelet that was restarted is Ready by its last status before it has written a new one.
            wait_for(lambda: all((FEATURE in n["status"].get("declaredFeatures", [])) == on for n in self.get("node")), 60,
                     f"the nodes declare {FEATURE}: {on}")

    def up(self):
        """Starts the lab, about 40 s, or finds it up with the same settings."""
        try:
            command([LAB, "--name", self.name, "up", *self.options, *self.gate_options], timeout=1800)
        except LabError:
            raise  # it has taken down what it started
        except BaseException:  # interrupted: subprocess has killed it
            self.down()
            raise
        status = command([LAB, "--name", self.name, "status"]).stdout
        self.dir = pathlib.Path(re.search(rf"^lab {self.name} in (.*)$", status, re.M)[1])
        for line in (self.dir / "env").read_text().splitlines():
            key, _, value = line.partition("=")
            self.env[key] = " ".join(shlex.split(value))
        context = ssl.create_default_context(cafile=self.dir / "ca.crt")
        context.load_cert_chain(self.dir / "admin.crt", self.dir / "admin.key")
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
        self.nodes = {n: Node(self, n) for n in self.env["NODES"].split()}
        return self

    def down(self):
        """Stops all of it; the logs stay in self.dir."""
        command([LAB, "--name", self.name, "down"])
        self.nodes = {}

    def alive(self):
        """Whether all its processes run: QEMU under TCG may fail an assertion."""
        return command([LAB, "--name", self.name, "status"], check=False).returncode == 0

    def __enter__(self):
        return self.up()

    def __exit__(self, *_):
        self.down()

    # -- the API ----------------------------------------------------------

    def request(self, method, path, body=None, content="application/json", timeout=30):
        """One API request as the administrator; returns (status, document)."""
        # As the server writes it: it compares the bytes of opaque parameters to see whether a specification changes.
        data = None if body is None else json.dumps(body, separators=(",", ":"), sort_keys=True).encode()
        request = urllib.request.Request(f"https://127.0.0.1:{self.env['API_PORT']}{path}", data, method=method,
                                         headers={"Content-Type": content, "Accept": "application/json"})
        try:
            with self._opener.open(request, timeout=timeout * PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as e:
            text = e.read().decode(errors="replace")
            try:
                return e.code, json.loads(text)
            except ValueError:
                return e.code, {"message": text}
        except OSError as e:
            raise LabError(f"{method} {path}: {e}") from e

    def kubectl(self, *args, stdin=None, check=True, timeout=120):
        """The text that kubectl prints."""
        return command([self.env["KUBE"], "kubectl", "--kubeconfig", self.dir / "admin.kubeconfig", *args],
                       stdin=stdin, check=check, timeout=timeout).stdout

    def must(self, method, path, *args, **kwargs):
        """request() that raises unless the answer is 2xx; returns the document."""
        status, document = self.request(method, path, *args, **kwargs)
        if status // 100 != 2:
            raise LabError(f"{method} {path}: {status} {document.get('message')}")
        return document

    def apply(self, manifest):
        """Creates or changes objects: YAML text, a dict, or a list of dicts."""
        if isinstance(manifest, dict):
            manifest = [manifest]
        if isinstance(manifest, str) or any(m["kind"].lower() not in PATHS for m in manifest):
            self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=documents(manifest))
            return
        for m in manifest:
            path = PATHS[m["kind"].lower()].format(m["metadata"].get("namespace", "default"))
            self.must("PATCH", f"{path}/{m['metadata']['name']}?fieldManager=e2e&force=true", m,
                      "application/apply-patch+yaml")

    def delete(self, kind, name, namespace="default", grace=None, wait=True, timeout=60):
        """Deletes an object of a kind in PATHS, if it exists, and waits until it
        is gone. `grace` 0 is what --force does."""
        options = {} if grace is None else {"gracePeriodSeconds": grace}
        path = f"{PATHS[kind].format(namespace)}/{name}"
        status, document = self.request("DELETE", path, options)
        if status not in (200, 202, 404):
            raise LabError(f"DELETE {path}: {status} {document.get('message')}")
        if wait:
            wait_for(lambda: self.get(kind, name, namespace) is None, timeout, f"{kind} {name} is gone")

    def get(self, kind, name=None, namespace="default", fields=None):
        """An object, or None if there is none of that name; without a name the
        list of all. `fields` is a field selector."""
        path = PATHS.get(kind)
        if path is None:
            args = ["get", kind, "-n", namespace, "-o", "json"] + ([name, "--ignore-not-found"] if name else [])
            text = self.kubectl(*args)
            document = json.loads(text) if text.strip() else None
        else:
            path = path.format(namespace) + (f"/{name}" if name else "")
            status, document = self.request("GET", path + (f"?fieldSelector={fields}" if fields else ""))
            if status == 404:
                return None
            if status != 200:
                raise LabError(f"GET {path}: {status} {document.get('message')}")
        return document if name else (document or {}).get("items", [])

    def wait_for(self, predicate, timeout, what, interval=0.25):
        """See wait_for(); here for brevity."""
        return wait_for(predicate, timeout, what, interval)

    def slices(self, driver=DRIVER, node=None):
        """The driver's ResourceSlices, of one node if asked, sorted by name."""
        found = [s for s in self.get("resourceslice") if s["spec"]["driver"] == driver
                 and (node is None or s["spec"].get("nodeName") == node)]
        return sorted(found, key=lambda s: s["metadata"]["name"])

    def wait_slices(self, count, timeout=30, driver=DRIVER, node=None):
        """The slices, once they hold `count` devices in a complete pool."""
        def complete():
            slices = self.slices(driver, node)
            devices = sum(len(s["spec"].get("devices", [])) for s in slices)
            whole = len({s["spec"]["pool"]["generation"] for s in slices}) == 1 and \
                len(slices) == slices[0]["spec"]["pool"]["resourceSliceCount"]
            return slices if devices == count and whole else None
        return wait_for(complete, timeout, f"{count} devices in the slices of {driver}")

    # -- pods -------------------------------------------------------------

    def pod(self, name, claims=(), node=None, namespace="default", start=True, **spec):
        """A busybox pod that uses the claims: {entry name: ResourceClaim name},
        or a list of ResourceClaim names. Created unless start is False.
        Other arguments go into its spec."""
        if not isinstance(claims, dict):
            claims = {c: c for c in claims}
        document = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False,
                "resourceClaims": [{"name": k, "resourceClaimName": v} for k, v in claims.items()],
                "containers": [{
                    "name": "main", "image": "lab.local/busybox:1", "imagePullPolicy": "Never",
                    "command": IDLE, "resources": {"claims": [{"name": k} for k in claims]}}],
                **({"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}), **spec}}
        if start:
            self.apply(document)
        return document

    def wait_pod(self, name, phase="Running", timeout=60, namespace="default"):
        """The pod, once it is in this phase (and ready, if Running)."""
        def there():
            pod = self.get("pod", name, namespace)
            if not pod or pod["status"].get("phase") != phase:
                return None
            states = pod["status"].get("containerStatuses", [])
            return pod if phase != "Running" or (states and all(s["ready"] for s in states)) else None
        return wait_for(there, timeout, lambda: f"pod {name} is {phase}{self._why(name, namespace)}")

    def _why(self, name, namespace):
        with contextlib.suppress(LabError):
            events = self.events_of(name, namespace)
            return "".join(f"\n  {e['reason']}: {e['message']}" for e in events[-5:])
        return ""

    def wait_event(self, name, text, timeout=60, namespace="default"):
        """The first event of the pod whose reason or message matches `text`, a
        regular expression."""
        def found():
            return next((e for e in self.events_of(name, namespace)
                         if re.search(text, f"{e['reason']}: {e['message']}")), None)
        return wait_for(found, timeout, lambda: f"an event of {name} says /{text}/{self._why(name, namespace)}")

    def events_of(self, name, namespace="default"):
        """Events that concern the object (a pod or claim) of this name, oldest first."""
        events = self.get("event", None, namespace, f"involvedObject.name={name}")
        return sorted(events, key=lambda e: e.get("eventTime") or e.get("lastTimestamp") or e["metadata"]["creationTimestamp"])

    def exec(self, pod, *args, container="main", namespace="default", check=True):
        """What a command in the pod's container prints."""
        return self.kubectl("exec", "-n", namespace, pod, "-c", container, "--", *args, check=check)

    def clean(self, namespace="default", timeout=90, slices=True):
        """Deletes pods, claims and templates of the namespace, all classes and, if
        asked, slices, and waits until pods and claims are gone."""
        for kind in ("pod", "resourceclaim", "resourceclaimtemplate", "deviceclass", *(["resourceslice"] if slices else []), "event"):
            self.must("DELETE", PATHS[kind].format(namespace), {})
        wait_for(lambda: not self.get("pod", None, namespace) and not self.get("resourceclaim", None, namespace),
                 timeout, f"pods and claims in {namespace} are gone")

    # -- what can be measured -----------------------------------------------

    def kubelet_metric(self, name, node="node1", **labels):
        """The sum of a kubelet's metric over the series with these labels; 0 if
        there is none."""
        port = int(self.env["KUBELET_PORT"]) + int(re.sub(r"\D", "", node)) - 1
        context = ssl._create_unverified_context()  # the kubelet signs its own certificate
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}),
                                             urllib.request.HTTPSHandler(context=context))
        try:
            with opener.open(f"https://127.0.0.1:{port}/metrics", timeout=30 * PATIENCE) as answer:
                text = answer.read().decode()
        except OSError as e:
            raise LabError(f"metrics of {node}'s kubelet: {e}") from e
        total = 0.0
        for line in text.splitlines():
            match = re.fullmatch(rf"{re.escape(name)}(?:\{{(.*)\}})? (\S+)", line)
            if match and all(f'{k}="{v}"' in (match[1] or "") for k, v in labels.items()):
                total += float(match[2])
        return total

    def audit_mark(self):
        """A position in the audit log, for api_requests(since=...)."""
        return (self.dir / "log" / "audit.log").stat().st_size

    def api_requests(self, user="sriov-dra", since=0):
        """The user's API requests as audit events, a watch counted once, at its
        start. The API server writes the log with a short delay: let a moment
        pass."""
        requests, seen = [], set()
        with open(self.dir / "log" / "audit.log", "rb") as log:
            log.seek(since)
            for line in log:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # a line that is being written
                if event["user"]["username"] == user and event["auditID"] not in seen:
                    seen.add(event["auditID"])
                    requests.append(event)
        return requests


class Node:
    """A node of the lab: a guest with two ports, each with its VFs."""

    def __init__(self, lab, name):
        self.lab = lab
        self.name = name
        self.share = lab.dir / name  # the guest's /host

    def run(self, script, check=True, timeout=60):
        """What a shell script in the guest prints."""
        return self.result(script, check, timeout).stdout

    def result(self, script, check=False, timeout=60):
        """Runs a shell script in the guest: returncode, stdout, stderr."""
        timeout *= PATIENCE
        job = self.share / "cmd" / f"{os.getpid()}-{time.monotonic_ns()}.{int(timeout)}"
        script = script if script.endswith("\n") else script + "\n"
        with open(f"{job}.tmp", "w", encoding="utf-8") as f:
            f.write(script)
        os.rename(f"{job}.tmp", f"{job}.sh")
        rc = pathlib.Path(f"{job}.rc")
        end = time.monotonic() + timeout + 10
        while not rc.exists():
            if time.monotonic() > end:
                raise LabError(f"{self.name}: no answer in {timeout} s to: {script}")
            time.sleep(0.03)
        texts = [pathlib.Path(f"{job}.{s}").read_text(errors="replace") for s in ("out", "err")]
        done = subprocess.CompletedProcess(script, int(rc.read_text()), *texts)
        for suffix in ("out", "err", "rc"):
            os.unlink(f"{job}.{suffix}")
        if check and done.returncode:
            raise LabError(f"{self.name}: status {done.returncode} of: {script}{done.stdout}{done.stderr}")
        return done

    def ip_json(self, *args):
        """`ip -json ARGS` in the guest, as data."""
        return json.loads(self.run(f"ip -json {' '.join(map(shlex.quote, args))}") or "[]")

    def links(self):
        """The host's network interfaces by name, VF lists and `permaddr` included."""
        return {link["ifname"]: link for link in self.ip_json("-details", "link", "show")}

    def vf_of(self, pf, index):
        """Settings of one VF as the PF lists them: address, vlan_list, spoofchk, trust, rate..."""
        link = self.ip_json("-details", "link", "show", "dev", pf)[0]
        return next(v for v in link["vfinfo_list"] if v["vf"] == index)

    def vfs(self, count):
        """Makes this many VFs on each port; they are as new."""
        self.run(f"/host/vfs 0 && /host/vfs {count}")

    def service(self, name, action):
        """kubelet or containerd: start, stop or restart."""
        self.run(f"/host/{name} {action}", timeout=90)

    def validator(self, on):
        """containerd's own check that a pod's required NRI plugins are there; it restarts."""
        self.run(f"/host/containerd validator {'on' if on else 'off'}", timeout=90)

    def reboot(self, timeout=120):
        """Reboots the guest: its disk stays, its hardware is as new."""
        booted = self.share / "booted"
        self.run("sync; setsid sh -c 'sleep 0.5; echo b >/proc/sysrq-trigger' >/dev/null 2>&1 &")
        wait_for(lambda: not booted.exists(), timeout, f"{self.name} goes down")
        wait_for(booted.exists, timeout, f"{self.name} is back")


class Driver:
    """sriov-dra in a node. Its log is NODE/log/NAME.log of the lab."""

    def __init__(self, node, name="driver", binary=None, state="/var/lib/sriov-dra"):
        self.node = node
        self.name = name
        self.binary = pathlib.Path(binary or os.environ.get("SRIOV_DRA", BUILD / "sriov-dra"))
        self.state = state
        self.path = f"/usr/local/bin/sriov-dra-{name}"
        self.pidfile = f"/run/lab/{name}.pid"
        self.log_path = node.share / "log" / f"{name}.log"
        self.pools_path = node.share / f"{name}-pools.yaml"
        self.installed = None
        self.log_from = 0

    def install(self):
        """Copies the program into the guest, if it isn't there yet, and the hook beside it."""
        files = {self.binary: self.path, self.binary.parent / HOOK: f"{os.path.dirname(self.path)}/{HOOK}"}
        stamp = [(f.stat().st_mtime_ns, f.stat().st_size) for f in files if f.exists()]
        if self.installed == stamp:
            return
        for source, target in files.items():
            if source.exists():
                shutil.copy(source, self.node.share / f"{source.name}.bin")
                self.node.run(f"install -m755 /host/{source.name}.bin {target}")
        self.installed = stamp

    def start(self, pools=None, args=(), verb="node", env=None):
        """Starts it. `pools` is the document for --config: text, a dict or a
        list; without it there is no --config. `args` are added, later flags
        win. Doesn't wait: see wait_log() and Lab.wait_slices()."""
        assert not self.alive(), f"{self.name} runs already"
        self.install()
        flags = ["--kubeconfig", "/host/driver.kubeconfig"]
        if verb == "node":
            flags = ["--node-name", self.node.name, *flags, "--state-dir", self.state]
        if pools is not None:
            self.pools_path.write_text(documents(pools), encoding="utf-8")
            flags += ["--config", f"/host/{self.pools_path.name}"]
        words = " ".join(shlex.quote(str(w)) for w in [self.path, verb, *flags, *args])
        sets = "".join(f"export {k}={shlex.quote(str(v))}; " for k, v in (env or {}).items())
        # The inner shell stays to note the exit status.
        self.node.run(f"""
            {sets}rm -f {self.pidfile} /run/lab/{self.name}.status
            setsid bash -c '"$@" & echo $! >{self.pidfile}; wait $!; echo $? >/run/lab/{self.name}.status' \\
                - {words} >>/host/log/{self.name}.log 2>&1 </dev/null &
            while [ ! -s {self.pidfile} ]; do sleep 0.05; done""")
        return self

    def pid(self):
        """Its pid in the guest, or None."""
        text = self.node.run(f"p=$(cat {self.pidfile} 2>/dev/null) && kill -0 $p 2>/dev/null && echo $p || true")
        return int(text) if text.strip() else None

    def alive(self):
        return self.pid() is not None

    def signal(self, number, wait=True, timeout=30):
        """Sends a signal and, if asked, waits for the end; then returns the
        exit status as the shell has it (128 + signal)."""
        ticks = int(timeout * PATIENCE * 10)
        text = self.node.run(f"""
            p=$(cat {self.pidfile} 2>/dev/null) || exit 0
            kill -{number} $p 2>/dev/null
            {'' if wait else 'exit 0'}
            for n in $(seq {ticks}); do
                [ ! -e /run/lab/{self.name}.status ] || {{ cat /run/lab/{self.name}.status; exit 0; }}
                sleep 0.1
            done
            echo "{self.name} doesn't end" >&2; exit 1""", timeout=timeout + 10)
        return int(text) if text.strip() else None

    def stop(self, timeout=30):
        """SIGTERM; its exit status."""
        return self.signal("TERM", timeout=timeout)

    def kill(self):
        """SIGKILL: no chance to clean up."""
        return self.signal("KILL")

    def begin_log(self):
        """What it has said so far is no longer in log()."""
        self.log_from = self.log_path.stat().st_size if self.log_path.exists() else 0

    def log(self):
        try:
            return self.log_path.read_bytes()[self.log_from:].decode(errors="replace")
        except FileNotFoundError:
            return ""

    def log_mark(self):
        """A position in the log, for wait_log(since=...)."""
        return len(self.log())

    def wait_log(self, pattern, timeout=30, since=0):
        """The match of a regular expression in the log after `since`."""
        return wait_for(lambda: re.search(pattern, self.log()[since:]), timeout,
                        lambda: f"{self.name}'s log says /{pattern}/; it says:\n" + self.tail())

    def tail(self, lines=30):
        return "\n".join(self.log().splitlines()[-lines:])

    def verb(self, *args, check=True, timeout=60):
        """Runs another verb of the program in the guest; its result."""
        self.install()
        words = " ".join(shlex.quote(str(a)) for a in args)
        return self.node.result(f"{self.path} {words}", check=check, timeout=timeout)

    def records(self):
        """How many claims it has on record."""
        return int(self.node.run(f"ls {self.state} 2>/dev/null | grep -c json || true"))

    def forget(self):
        """Ends it and removes its state from the node, as if it never ran."""
        self.kill()
        self.node.run(f"rm -rf {self.state} /run/cdi/*{DRIVER}* /var/run/cdi/*{DRIVER}* /var/lib/kubelet/plugins/{DRIVER}* "
                      f"/var/lib/kubelet/plugins_registry/{DRIVER}*")
