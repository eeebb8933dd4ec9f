# SPDX-License-Identifier: Apache-2.0
"""A quiet node: the driver asks the API server for nothing, and writes nothing to the kernel, while it looks."""
import time

import pytest

from objects import claim, wait_ping

pytestmark = pytest.mark.long

QUIET = 200  # s: longer than the driver's three minutes between two looks that nothing asked for
TRACE = "/sys/kernel/tracing"
# Where each way of writing ends up in the kernel: rtnetlink's requests that change something, and sysfs.
PROBES = {"setlink": "rtnl_setlink", "newlink": "rtnl_newlink", "dellink": "rtnl_dellink", "newaddr": "inet_rtm_newaddr",
          "deladdr": "inet_rtm_deladdr", "newroute": "inet_rtm_newroute", "sysfs": "kernfs_fop_write_iter",
          "dump": "rtnl_dump_ifinfo", "getlink": "rtnl_getlink"}
READS = {"dump", "getlink"}


@pytest.fixture
def trace(lab):
    """A function that says what the driver's threads did in the kernel since it was called last: {probe: times}."""
    node = lab.nodes["node1"]
    node.run(f"""
        [ -d {TRACE}/events ] || mount -t tracefs tracefs {TRACE}
        echo >{TRACE}/kprobe_events
        {' && '.join(f"echo p:vf/{name} {where} >>{TRACE}/kprobe_events" for name, where in PROBES.items())}
        echo 1 >{TRACE}/options/event-fork""")

    def done(driver):
        text = node.run(f"""
            ls /proc/{driver.pid()}/task >{TRACE}/set_event_pid
            cat {TRACE}/trace | grep -v '^#' || true
            echo >{TRACE}/trace
            echo 1 >{TRACE}/events/vf/enable""")
        return {name: count for name in PROBES if (count := text.count(f" {name}: ("))}

    yield done
    node.run(f"""
        echo 0 >{TRACE}/events/vf/enable
        echo >{TRACE}/set_event_pid
        echo 0 >{TRACE}/options/event-fork
        echo >{TRACE}/kprobe_events""")


@pytest.mark.parametrize("pods", [False, True], ids=["no_pods", "pods_run"])
def test_a_quiet_node_is_left_alone(lab, started, trace, pods):
    trace(started)
    mark = lab.audit_mark()
    lab.apply([claim("asked", "vf-prepared", {"vlan": {"id": 100}}, {"name": "net1", "addresses": ["192.0.2.1/24"]}),
               claim("found", "vf-preprovisioned", None, {"name": "net1", "addresses": ["192.0.2.2/24"]})])
    for name in ("asked", "found"):
        lab.pod(name, [name])
    for name in ("asked", "found"):
        lab.wait_pod(name)
    wait_ping(lab, "asked", "192.0.2.2")
    time.sleep(2)  # the audit log comes with a delay
    did = trace(started)
    assert did["setlink"] or did["newlink"], "no trace of what was written for the claims"
    assert {e["verb"] for e in lab.api_requests(since=mark)} - {"watch"}, "no trace of what was asked for the claims"
    if not pods:
        lab.clean(slices=False)
    time.sleep(20)  # events, statuses, the slices' last write, a look afterwards

    trace(started)
    mark = lab.audit_mark()
    time.sleep(QUIET)
    did = trace(started)
    asked = [f"{e['verb']} {e['requestURI']}" for e in lab.api_requests(since=mark) if e["verb"] != "watch"]
    assert not asked
    assert did.keys() & READS, f"in {QUIET} s it looked at nothing"
    assert not did.keys() - READS, f"written: {did}"
    if pods:
        wait_ping(lab, "asked", "192.0.2.2")
