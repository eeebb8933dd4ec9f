# SPDX-License-Identifier: Apache-2.0
"""The hook: installed by the driver, named in CDI files, and run here as a container runtime would."""
import contextlib
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

import kubelet
from node import ATTACH_LOCK, DRIVER, Namespace, wait_for

VF, UID = "0000-01-10-0", "u"
NOT_HERE = "VF 0000:01:10.0: reading VF 0000:01:10.0: PF 0000:01:00.0: reading interface enp1s0: No such device"


def built():
    """Beside the driver under test."""
    program = os.environ.get("SRIOV_DRA") or kubelet.build_directory() / "sriov-dra"
    return pathlib.Path(program).parent / "sriov-dra-hook"


def cdi_file(machine, uid=UID):
    return json.loads((machine.cdi / f"{DRIVER}-vf_{uid}.json").read_text())


def hook_of(document):
    hook, = document["containerEdits"]["hooks"]
    return hook


@pytest.fixture(name="container")
def fixture_container():
    """The pid of a process in a network namespace of its own."""
    namespace = Namespace()
    process = namespace.run(subprocess.Popen, ["sleep", "1000"])
    yield process.pid
    process.kill()
    process.wait()
    namespace.end()


def state(pid, **changes):
    """What runc writes to a hook's standard input."""
    return json.dumps({"ociVersion": "1.0.2", "id": "c", "status": "creating", "pid": pid, "bundle": "/run/c",
                       "annotations": {"io.kubernetes.cri.sandbox-id": "sb"}, **changes})


def run_hook(machine, hook, text, *more):
    """As runc runs it: in the host's namespaces, args[0] only a name. Its status and what it said."""
    done = machine.namespace.run(subprocess.run, [*hook["args"], *map(str, more)], executable=hook["path"], input=text,
                                 capture_output=True, text=True, timeout=60)
    assert done.stdout == "" and not any(word in done.stderr for word in ("Sanitizer", "runtime error")), done.stderr
    return done.returncode, done.stderr


def test_installed_and_named(machine):
    """Once, and again only if another is there; a claim that was prepared before gets it at the next start."""
    installed = machine.plugin / "sriov-dra-hook"
    machine.write_record(UID, VF)
    machine.write_record("none", "0000-01-10-2")
    record = machine.state / "none.json"
    body = record.read_bytes().split(b"\n", 1)[1]
    without = json.loads(body)
    without["devices"][0]["attach"] = "None"
    machine.write_record("none", "0000-01-10-2", devices=without["devices"])
    machine.api.start()
    machine.start().end()
    assert installed.read_bytes() == built().read_bytes()
    assert installed.stat().st_mode & 0o7777 == 0o755
    assert hook_of(cdi_file(machine)) == {
        "hookName": "createRuntime", "path": str(installed), "timeout": 15,
        "args": ["sriov-dra-hook", "--state-dir", str(machine.state), "--claim", UID]}
    assert "containerEdits" not in cdi_file(machine, "none"), "nothing of it is attached"
    inode = installed.stat().st_ino
    machine.start().end()
    assert installed.stat().st_ino == inode
    installed.write_bytes(b"of another release")
    driver = machine.start()
    assert installed.read_bytes() == built().read_bytes() and not driver.lines("hook")
    assert [path.name for path in machine.plugin.iterdir() if path.name.startswith(".")] == []


def test_elsewhere(machine):
    machine.write_record(UID, VF)
    machine.api.start()
    machine.start(hook=built(), hook_dir=machine.root / "opt")
    assert hook_of(cdi_file(machine))["path"] == str(machine.root / "opt" / "sriov-dra-hook")
    assert not (machine.plugin / "sriov-dra-hook").exists()


@pytest.mark.parametrize("hook, said", [
    ("/nowhere/hook", 'warning claims go without the hook: a pod that starts while the driver is away may do so without '
                      'its VF: /nowhere/hook: No such file or directory hook=/nowhere/hook'),
    ("", "info    claims go without the hook: a pod that starts while the driver is away may do so without its VF"),
])
def test_without(machine, hook, said):
    machine.write_record(UID, VF)
    machine.api.start()
    driver = machine.start(hook=hook)
    assert driver.lines("hook") == [said]
    assert "containerEdits" not in cdi_file(machine)


@pytest.fixture(name="hook")
def fixture_hook(machine):
    """Of a prepared claim whose driver was killed."""
    machine.write_record(UID, VF)
    machine.api.start()
    machine.start().end(signal.SIGKILL)
    return hook_of(cdi_file(machine))


def test_refuses_in_one_line(machine, hook, container):
    """The claim, the VF, and what to do."""
    status, said = run_hook(machine, hook, state(container), "--sysroot", machine.sysroot)
    assert (status, said) == (1, f"sriov-dra: claim default/claim-u: {NOT_HERE}; if this stays, delete the pod so that "
                              "the claim is prepared anew\n")
    status, said = run_hook(machine, hook, state(machine.namespace.run(threading.get_native_id)))
    assert status == 1 and "can't be moved into a pod with hostNetwork" in said
    machine.write_record(UID, VF, bootID="11111111-2222-3333-4444-555555555555")
    status, said = run_hook(machine, hook, state(container))
    assert status == 1 and "prepared before the node's last start" in said
    (machine.state / f"{UID}.json").unlink()
    status, said = run_hook(machine, hook, state(container))
    assert (status, said) == (1, f"sriov-dra: claim with uid u: it isn't prepared on this node (no record in {machine.state}); "
                              "delete the pod so that the claim is prepared anew\n")
    for text in "", "{", state(0):
        status, said = run_hook(machine, hook, text)
        assert status == 1 and said.startswith("sriov-dra: claim with uid u: the container's state as the runtime told it")
        assert said.count("\n") == 1


def test_leaves_what_it_does_not_serve(machine, hook, container):
    """It changes nothing but the lock's file for a claim that it refuses."""
    before = machine.touched()
    assert run_hook(machine, hook, state(container), "--sysroot", machine.sysroot)[0] == 1
    assert machine.touched() == before


def test_nothing_to_attach(machine, hook, container):
    devices = json.loads((machine.state / f"{UID}.json").read_bytes().split(b"\n", 1)[1])["devices"]
    devices[0]["attach"] = "None"
    machine.write_record(UID, VF, devices=devices)
    assert run_hook(machine, hook, state(container)) == (0, "")


@pytest.mark.parametrize("arguments, status, said", [
    ([], 2, "--state-dir and --claim are needed"),
    (["--claim", "../x", "--state-dir", "/"], 2, 'no uid'),
    (["--what"], 2, "usage: sriov-dra-hook --state-dir DIR --claim UID"),
    (["--version"], 0, "sriov-dra-hook "),
])
def test_by_hand(arguments, status, said):
    done = subprocess.run([built(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == status and said in done.stdout + done.stderr


def test_its_own_end(machine, hook):
    """Whatever it waits for; here a runtime that doesn't end the state. Signals may be blocked as crun leaves them."""
    blocked = (f"import os, signal; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()); "
               f"os.execv({hook['path']!r}, {hook['args']!r})")
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", blocked], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    late = threading.Timer(2 * hook["timeout"], process.kill)
    late.start()
    said = process.stderr.read()
    assert process.wait() == 1
    late.cancel()
    assert 11 < time.monotonic() - began < hook["timeout"]
    assert said == ("sriov-dra: claim with uid u: its VFs weren't in the pod after 12 s; the container is tried again\n")


@contextlib.contextmanager
def at_work(machine):
    """As a hook or driver holds it that moves VFs."""
    with open(machine.state / ATTACH_LOCK, "a", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_driver_waits_for_a_hook(machine):
    """Unprepare while a hook is at work: behind it, and with the hook's own words if that takes too long."""
    machine.write_record(UID, VF)
    machine.api.start()
    machine.start()
    with machine.client() as client:
        with at_work(machine):
            call = client.dra("NodeUnprepareResources").future(kubelet.request("NodeUnprepareResources", ("claim-u", UID)))
            time.sleep(1)
            assert not call.done()
        assert NOT_HERE.split(": ", 1)[1] in call.result(timeout=20).claims[UID].error
        with at_work(machine):
            assert "another program, which holds " in client.unprepare(("claim-u", UID), timeout=20).claims[UID].error
        assert machine.records() == [f"{UID}.json"]


def test_hook_waits_for_the_driver(machine, hook, container):
    with at_work(machine):
        began = time.monotonic()
        status, said = run_hook(machine, hook, state(container), "--sysroot", machine.sysroot)
        assert status == 1 and f"which holds {machine.state}/{ATTACH_LOCK}, is still moving VFs" in said
        assert 5 < time.monotonic() - began < 12
    with at_work(machine):
        process = machine.namespace.run(subprocess.Popen, [*hook["args"], "--sysroot", machine.sysroot],
                                        executable=hook["path"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdin.write(state(container))
        process.stdin.close()
        time.sleep(1)
        assert process.poll() is None
    assert NOT_HERE in process.stderr.read()
    assert wait_for("the hook's end", lambda: process.poll() is not None) and process.returncode == 1
