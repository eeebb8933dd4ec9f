# SPDX-License-Identifier: Apache-2.0
"""The runtime's side of NRI, by NRI's own code: nri_runtime, built and driven."""
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("SRIOV_DRA_CACHE", "/var/cache/sriov-dra"))


def runtime_program():
    """nri_runtime, built once for each state of its sources."""
    if not shutil.which("go"):
        pytest.skip("no go")
    source = HERE / "nri_runtime"
    key = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        key.update((source / name).read_bytes())
    program = CACHE / f"nri-runtime-{key.hexdigest()[:16]}"
    if not program.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        new = CACHE / f"{program.name}.{os.getpid()}.new"
        # nri_no_wasm: its WebAssembly engine is most of what there is to compile
        subprocess.run(["go", "build", "-tags", "nri_no_wasm", "-o", new, "."], cwd=source, check=True)
        new.rename(program)
    return program


class Process:
    """A child whose stdout is read line by line."""

    def __init__(self, args, log, **options):
        self.log = log
        self.errors = open(log, "ab")
        self.process = subprocess.Popen([str(a) for a in args], stdout=subprocess.PIPE,
                                        stderr=self.errors, **options)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.lines, self.rest = [], b""

    def read(self):
        try:
            self.rest += os.read(self.process.stdout.fileno(), 65536)
        except BlockingIOError:
            pass
        *whole, self.rest = self.rest.split(b"\n")
        self.lines += [line.decode() for line in whole]

    def wait(self, wanted, skip=True, timeout=15):
        """The first line that `wanted` is true of; it is taken, and with `skip` those before it."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            self.read()
            for i, line in enumerate(self.lines):
                if wanted(line):
                    del self.lines[0 if skip else i:i + 1]
                    return line
            time.sleep(0.005)
        raise AssertionError(f"not told in {timeout} s; {self.lines}; {self.log.read_text()}")

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        status = self.process.wait(20)
        self.errors.close()
        return status


class Runtime(Process):
    def __init__(self, program, log, *args):
        super().__init__([program, *args], log, stdin=subprocess.PIPE)
        self.event("listening")

    def event(self, name):
        return json.loads(self.wait(lambda line: json.loads(line)["event"] == name, skip=False))

    def send(self, op, **arguments):
        self.process.stdin.write(json.dumps({"op": op, **arguments}).encode() + b"\n")
        self.process.stdin.flush()

    def do(self, op, **arguments):
        self.send(op, **arguments)
        return self.event(op)
