# SPDX-License-Identifier: Apache-2.0
"""Fixtures: `lab` is a running lab with the settings of the test's mark, e.g.
@pytest.mark.lab(gates="DRAOptionalNodeOperations=false", nodes=2); `driver` is
a driver in node1 that isn't started yet, `started` one that is.

A lab starts with the first test that wants it. Tests are sorted so that those
of one setting come together, and one lab is up at a time.
"""
import re
import shutil
import signal

import pytest

from lab import BUILD, PATHS, Driver, Lab, LabError
from objects import Neighbours, classes, pools, provision


def pytest_addoption(parser):
    parser.addoption("--keep", action="store_true", help="leave the last lab up")


def interrupted(_number, _frame):
    """Ends the session as ^C does, tear-down included, and undisturbed."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def pytest_configure(config):
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    config.addinivalue_line("markers", "contract: a promise of docs/contract.md; broken.py has what was taken out to see it fail")
    config.addinivalue_line("markers", "long: takes many minutes; not part of the default run")
    config.addinivalue_line("markers", "lab(gates, scheduler_gates, kubelet_gates, nodes, vfs, memory): settings of the lab")


def settings(item):
    mark = item.get_closest_marker("lab")
    return tuple(sorted(mark.kwargs.items())) if mark else ()


def pytest_collection_modifyitems(items):
    order = {}
    for item in items:
        order.setdefault(settings(item), len(order))
    items.sort(key=lambda item: order[settings(item)])  # stable


class Labs:
    """The lab that is up, if any."""

    def __init__(self):
        self.settings = None
        self.lab = None
        self.running = None  # the driver that a test with `started` left, as it found it

    def get(self, wanted):
        gates = {k: v for k, v in wanted if k.endswith("gates")}
        machines = {k: v for k, v in wanted if k not in gates}
        if self.lab is not None and machines == self.settings and self.lab.alive():
            if self.lab.differs(**gates):
                self.end_running()
                self.lab.set_gates(**gates)
        else:
            self.running = None
            self.close()
            lab = Lab(**dict(wanted))
            try:
                lab.up()
            except LabError:
                lab.down()  # one with other settings, left by --keep
                lab.up()
            self.lab, self.settings = lab, machines
        return self.lab

    def end_running(self):
        if self.running is not None:
            driver, self.running = self.running, None
            driver.forget()
            # A driver that finds slices offers before the kubelet knows it, and a pod may come in between.
            self.lab.must("DELETE", PATHS["resourceslice"], {})

    def close(self):
        self.running = None
        if self.lab is not None:
            lab, self.lab = self.lab, None
            lab.down()


@pytest.fixture(scope="session")
def labs(pytestconfig):
    pool = Labs()
    yield pool
    if not pytestconfig.getoption("--keep"):
        pool.close()


@pytest.fixture
def lab(request, labs):
    wanted = labs.get(settings(request.node))
    request.node.lab_under_test = wanted
    yield wanted
    wanted.clean(slices=labs.running is None)


@pytest.fixture
def drivers(request, lab, labs):
    """A function that makes drivers: drivers(node="node1", name="driver"). All
    are ended and forgotten after the test, once its pods are gone."""
    made = []
    labs.end_running()
    request.node.drivers_under_test = made

    def make(node="node1", name="driver", **kwargs):
        driver = Driver(lab.nodes[node], name, **kwargs)
        driver.log_path.unlink(missing_ok=True)
        made.append(driver)
        return driver

    yield make
    lab.clean()  # while a driver can still answer Unprepare
    failed = getattr(request.node, "failed", True)
    for driver in made:
        driver.forget()
    if failed:  # what it left behind is not for the next test
        for node in lab.nodes.values():
            node.vfs(int(lab.env["VFS"]))


@pytest.fixture
def driver(drivers):
    return drivers()


@pytest.fixture
def neighbours(lab):
    """Hosts with the addresses SAME and OTHER."""
    hosts = Neighbours(lab.nodes["node1"])
    hosts.up()
    yield hosts
    hosts.down()


@pytest.fixture
def started(request, lab, labs):
    """The driver with the pools of most tests, offered: 7 VFs to prepare, 4 to skip. One that is as at its start
    after a test runs on and serves the next: what one claim leaves behind is the next one's to find."""
    driver = labs.running
    if driver is not None and offers_all(lab, driver):
        driver.begin_log()
    else:
        labs.end_running()
        driver = Driver(lab.nodes["node1"], "driver")
        driver.log_path.unlink(missing_ok=True)
        provision(lab.nodes["node1"])
        driver.start(pools())
        lab.wait_slices(11)
    labs.running = None
    lab.apply(classes())
    request.node.drivers_under_test = [driver]
    yield driver
    failed = getattr(request.node, "failed", True)
    lab.clean(slices=False)
    if failed or not driver.alive():
        driver.forget()
    else:
        labs.running = driver
    if failed:  # what it left behind is not for the next test
        lab.nodes["node1"].vfs(int(lab.env["VFS"]))


def offers_all(lab, driver):
    """Whether no claim is left, and all VFs are offered as verified."""
    def whole():
        slices = lab.slices()
        devices = [d for s in slices for d in s["spec"]["devices"] if d["attributes"]["verified"]["bool"]]
        return len(devices) == 11 and not driver.records() and {s["spec"]["pool"]["resourceSliceCount"] for s in slices} == {len(slices)}
    try:
        return driver.alive() and lab.wait_for(whole, 5, "the driver is as at its start")
    except LabError:
        return False


def save_logs(test, lab):
    """A copy of all logs as they are now: the next lab starts with new ones."""
    to = BUILD / "logs" / "e2e" / re.sub(r"[^\w.-]+", "-", test)
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(lab.dir / "log", to / "log")
    for name in lab.nodes:
        shutil.copytree(lab.dir / name / "log", to / name)
        shutil.copy(lab.dir / name / "console.log", to / name)
    return to


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call":
        item.failed = report.failed
    if report.failed:
        for driver in getattr(item, "drivers_under_test", []):
            report.sections.append((f"{driver.name}'s log, {driver.log_path}", driver.tail(40)))
        under_test = getattr(item, "lab_under_test", None)
        if under_test is not None:
            report.sections.append(("lab", f"logs: {save_logs(item.name, under_test)}"))
