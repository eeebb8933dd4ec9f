# SPDX-License-Identifier: Apache-2.0
"""The runtime's calls, by NRI's own code (nri_runtime), on our plugin (nri_plugin.c)."""
import signal
import time

import pytest

import kubelet
from nri import Process, Runtime

RUN_LINE = "run default/{name} uid uid-p1 id p1 netns /run/netns/p1 pid 4711 timeout {timeout}"


class Plugin(Process):
    def told(self, text):
        """Waits for a line with this text, the milliseconds in front left out."""
        return self.wait(lambda line: line.split(" ", 1)[1].startswith(text))


class Sides:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.started = []

    def __call__(self, *args, plugin_first=False, state=None):
        plugin = self.plugin() if plugin_first else None
        if plugin_first:
            plugin.told("down connecting to")
        runtime = self.again(*args)
        if state:
            runtime.do("state", **state)
        return runtime, plugin or self.plugin()

    def again(self, *args):
        """Another runtime on the same socket."""
        self.started.append(Runtime(self.program, self.folder / "runtime.log", *args,
                                    self.folder / "nri.sock"))
        return self.started[-1]

    def plugin(self):
        program = kubelet.build_directory() / "tests/wire/nri_plugin"
        self.started.append(Plugin([program, self.folder / "nri.sock"], self.folder / "plugin.log"))
        return self.started[-1]


@pytest.fixture(name="sides")
def fixture_sides(runtime_program, tmp_path):
    """Starts a runtime and a plugin; the plugin must end cleanly."""
    sides = Sides(runtime_program, tmp_path)
    yield sides
    for process in reversed(sides.started):
        status = process.end()
        log = process.log.read_text()
        if isinstance(process, Plugin):
            assert status == 0, log
            assert "Sanitizer" not in log and "runtime error" not in log, log


def pod(name="web", **more):
    return {"id": "p1", "name": name, "netns": "/run/netns/p1", **more}


def test_life_of_a_pod(sides):
    runtime, plugin = sides("-request-timeout", "3s")
    assert plugin.told("up").endswith("up testing v1.2.3, NRI v0.12.3")
    plugin.told("synchronize pods 0 netns 0 containers 0 running 0")
    assert "error" not in runtime.event("synchronized")
    line = RUN_LINE.format(name="web", timeout=3000)
    assert "error" not in runtime.do("run", **pod())
    plugin.told(line)
    created = runtime.do("create", **pod())
    assert "error" not in created and "env" not in created
    plugin.told(line.replace("run", "create", 1) + " container main")
    assert "error" not in runtime.do("stop", **pod())
    plugin.told(line.replace("run", "stop", 1))
    assert "error" not in runtime.do("remove", **pod())
    plugin.told(line.replace("run", "remove", 1))


def test_host_network(sides):
    runtime, plugin = sides()
    runtime.event("synchronized")
    runtime.do("run", **pod(netns=""))
    plugin.told("run default/web uid uid-p1 id p1 netns host")


def test_refusal_reaches_the_runtime(sides):
    runtime, plugin = sides()
    runtime.event("synchronized")
    for op in ("run", "create", "stop"):
        error = runtime.do(op, **pod("refuse-VF 0000:02:10.0 isn't home"))["error"]
        assert error == "rpc error: code = Unknown desc = VF 0000:02:10.0 isn't home"
    # and the plugin is still there
    assert "error" not in runtime.do("run", **pod())
    plugin.told(RUN_LINE.format(name="web", timeout=2000))


def test_environment(sides):
    runtime, _ = sides()
    runtime.event("synchronized")
    assert runtime.do("create", **pod("env"))["env"] == ["SLOT=0000:02:10.0"]


def test_long_answers(sides):
    """Of several frames: the Go side reads a conn through a buffer of 4096 bytes."""
    runtime, _ = sides()
    runtime.event("synchronized")
    for size in (4000, 4070, 4080, 4086, 4096, 5000, 8192, 20000):
        error = runtime.do("run", **pod("refuse-" + "x" * size))["error"]
        assert error.endswith(" " + "x" * size)


def test_invalid_utf8_in_a_request_is_not_sent(sides):
    runtime, plugin = sides()
    runtime.event("synchronized")
    assert "error" not in runtime.do("run", **pod("ünï-\u0000-x"))
    plugin.told("run default/")


@pytest.mark.parametrize("pods, containers, padding", [(40, 200, 100), (2000, 8000, 1500)])
def test_synchronize(sides, pods, containers, padding):
    """The second state has 15 MB: the runtime splits it, and gives us 2 s for all parts."""
    runtime, plugin = sides(state={"pods": pods, "containers": containers, "padding": padding})
    told = runtime.event("synchronized")
    assert "error" not in told, told
    plugin.told(f"synchronize pods {pods} netns 0 containers {containers} running {containers}")
    assert "error" not in runtime.do("run", **pod())
    plugin.told("run")


def test_late_answer(sides):
    """The runtime closes a plugin that is late and goes on as if it had agreed; we come back."""
    runtime, plugin = sides("-request-timeout", "300ms")
    runtime.event("synchronized")
    assert "error" not in runtime.do("run", **pod("slow-1000"))
    plugin.told("down the runtime closed the connection")
    plugin.told("up")
    runtime.event("synchronized")
    time.sleep(1)  # the late answer, to a connection that is gone
    assert "error" not in runtime.do("run", **pod())
    plugin.told("run default/web")


def test_slow_but_in_time(sides):
    runtime, _ = sides()
    runtime.event("synchronized")
    done = runtime.do("run", **pod("slow-600"))
    assert "error" not in done and 600 <= done["ms"] < 2000


def test_runtime_restarts(sides):
    """Killed, so that it can't say good-bye: adaptation.Stop() doesn't either."""
    runtime, plugin = sides()
    for _ in range(3):
        runtime.event("synchronized")
        assert "error" not in runtime.do("run", **pod())
        plugin.told("run")
        runtime.end(signal.SIGKILL)
        plugin.told("down the runtime closed the connection")
        runtime = sides.again()
        plugin.told("up")


def test_runtime_restarts_during_a_call(sides):
    runtime, plugin = sides()
    runtime.event("synchronized")
    runtime.send("run", **pod("slow-400"))
    plugin.told("run")
    runtime.end(signal.SIGKILL)
    plugin.told("down the runtime closed the connection")
    time.sleep(0.3)  # the answer comes while there is no connection
    runtime = sides.again()
    plugin.told("up")
    runtime.event("synchronized")
    assert "error" not in runtime.do("run", **pod())


def test_plugin_first(sides):
    runtime, plugin = sides(plugin_first=True)
    plugin.told("up")
    assert "error" not in runtime.event("synchronized")


def test_runtime_before_0_12(sides):
    """Pod events by StateChange, no time-out told, Configure before the registration's answer."""
    runtime, plugin = sides("-old")
    assert plugin.told("up").endswith("up old v1.7.0, NRI of unknown version")
    runtime.event("synchronized")
    line = RUN_LINE.format(name="web", timeout=2000)
    for op in ("run", "stop", "remove"):
        assert "error" not in runtime.do(op, **pod())
        plugin.told(line.replace("run", op, 1))
    assert "error" not in runtime.do("create", **pod())
    plugin.told(line.replace("run", "create", 1) + " container main")
    assert runtime.do("run", **pod("refuse-no"))["error"] == "rpc error: code = Unknown desc = no"
    # what we didn't ask for
    assert "error" not in runtime.do("start", **pod())
    assert runtime.do("update", **pod())["error"] == \
        "rpc error: code = Unimplemented desc = method UpdateContainer"
