# SPDX-License-Identifier: Apache-2.0
import contextlib
import ctypes
import os
import pathlib
import re
import signal
import stat
import struct
import subprocess
import tempfile
import time

import pytest

import kubelet
from node import Machine, SLOW
import nri


class Server:
    """tests/wire/dra_server on a kubelet root of its own."""

    def __init__(self, root, log, pod_uid=None):
        self.root, self.log = root, log
        program = os.environ.get("DRA_SERVER") or kubelet.build_directory() / "tests/wire/dra_server"
        suffix = f"-{pod_uid}" if pod_uid else ""
        self.service = root / "plugins/sriov-dra.dev" / f"dra{suffix}.sock"
        self.registration = root / "plugins_registry" / f"sriov-dra.dev{suffix}-reg.sock"
        self.errors = open(log, "ab")
        self.process = subprocess.Popen(
            [program, root, *([pod_uid] if pod_uid else [])], stdout=subprocess.PIPE,
            stderr=self.errors, text=True, env={**os.environ, "GRPC_ABORT_ON_LEAKS": "1"})
        self.lines = []

    def wait_line(self, wanted):
        """Reads what the server tells up to the line `wanted`."""
        for line in self.process.stdout:
            self.lines.append(line.strip())
            if self.lines[-1] == wanted:
                return self
        raise AssertionError(f"no \"{wanted}\" in {self.lines}; {self.log.read_text()}")

    def client(self, **options):
        return kubelet.Client(self.service, **options)

    def registrar(self):
        return kubelet.Client(self.registration)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self, how=signal.SIGTERM):
        """Ends it as a pod is ended; returns the exit status and the seconds that it took."""
        began = time.monotonic()
        if self.process.poll() is None and how:
            self.process.send_signal(how)
        rest, _ = self.process.communicate(timeout=20)
        self.lines += rest.splitlines()
        return self.process.returncode, time.monotonic() - began

    def memory(self):
        """Resident and anonymous memory in kB, and the number of threads."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            status = dict(line.split(":", 1) for line in file)
        return tuple(int(status[key].split()[0]) for key in ("VmRSS", "RssAnon", "Threads"))


@pytest.fixture(name="root")
def fixture_root():
    """Of the kubelet; short, since a socket's path has 107 bytes at most."""
    with tempfile.TemporaryDirectory(prefix="kubelet-") as folder:
        yield pathlib.Path(folder)


@pytest.fixture(name="start")
def fixture_start(root):
    """Starts servers; at the end all must end cleanly, with nothing for a sanitizer to say."""
    servers = []

    def start(pod_uid=None, ready=True):
        server = Server(root, root / f"log-{len(servers)}", pod_uid)
        servers.append(server)
        return server.wait_line("ready") if ready else server

    yield start
    for server in servers:
        killed = server.process.returncode == -signal.SIGKILL
        status, _ = server.end()
        server.errors.close()
        log = server.log.read_text()
        assert killed or status in (0, 3), log
        assert "Sanitizer" not in log and "runtime error" not in log, log


@pytest.fixture(name="server")
def fixture_server(start):
    return start()


@pytest.fixture(name="client")
def fixture_client(server):
    with server.client() as client:
        yield client


def is_socket(path):
    return path.exists() and stat.S_ISSOCK(path.stat().st_mode)


class Watch:
    """The order in which files of several directories came and went (inotify)."""

    CREATE, DELETE = 0x100, 0x200

    def __init__(self, *folders):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for folder in folders:
            assert libc.inotify_add_watch(self.fd, bytes(folder), self.CREATE | self.DELETE) >= 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def names(self):
        data, names = os.read(self.fd, 65536), []
        while data:
            length = struct.unpack_from("iIII", data)[3]
            names.append(data[16:16 + length].rstrip(b"\0").decode())
            data = data[16 + length:]
        return names


@contextlib.contextmanager
def make_machine():
    """For the driver's verb `node`; ended and checked."""
    try:
        # short, since a socket's path has 107 bytes at most
        machine = Machine(tempfile.mkdtemp(prefix="node-"))
    except PermissionError as error:
        pytest.skip(str(error))
    try:
        yield machine
    finally:
        machine.end()


@pytest.fixture(name="machine")
def fixture_machine():
    with make_machine() as machine:
        yield machine


@pytest.fixture(name="runtime_program", scope="session")
def fixture_runtime_program():
    return nri.runtime_program()


@pytest.fixture(name="verb")
def fixture_verb(machine):
    """Runs a verb that ends, on the machine; its exit status must be the expected one, and a sanitizer must have nothing to say."""
    def run(*arguments, status=0, kubeconfig=machine.kubeconfig, stdout=subprocess.PIPE, **variables):
        program = os.environ.get("SRIOV_DRA") or kubelet.build_directory() / "sriov-dra"
        environment = {k: v for k, v in os.environ.items()
                       if k not in ("NODE_NAME", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HOME")}
        environment |= {k: str(v) for k, v in variables.items()}
        option = [] if kubeconfig is None else ["--kubeconfig", str(kubeconfig)]
        done = machine.namespace.run(
            subprocess.run, [program, *arguments, *option], stdin=subprocess.DEVNULL, stdout=stdout,
            stderr=subprocess.PIPE, text=True, cwd=machine.root, env=environment, timeout=3 * SLOW, check=False)
        assert status in (None, done.returncode), (done.returncode, done.stdout, done.stderr)
        assert not re.search("Sanitizer|runtime error", done.stderr), done.stderr
        return done
    return run
