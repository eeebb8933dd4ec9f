# SPDX-License-Identifier: Apache-2.0
"""Where skipNodeOperations isn't honoured it is noticed, said once, and pods run through Prepare."""
import pytest

from objects import SAME, Vf, allocated, claim, link_in_pod, rpcs, wait_ping, wait_state

pytestmark = pytest.mark.contract
OFF, ON = "DRAOptionalNodeOperations=false", "DRAOptionalNodeOperations=true"


def run_through_prepare(lab, driver):
    """Both kinds of pod, by Prepare, with packets between them."""
    lab.apply([claim("skip", "vf-preprovisioned", None, {"name": "net1", "addresses": ["192.0.2.1/24"]}),
               claim("same", "vf-prepared", {"vlan": {"id": 100}}, {"name": "net1", "addresses": ["192.0.2.2/24"]})])
    lab.pod("skip", ["skip"])
    lab.pod("same", ["same"])
    lab.wait_pod("skip")
    lab.wait_pod("same")
    wait_ping(lab, "skip", "192.0.2.2")
    assert link_in_pod(lab, "skip", "net1")["ips"] == ["192.0.2.1/24"]
    assert rpcs(driver)[0] == 2, "the skip claim came through Prepare"
    lab.delete("pod", "skip")
    lab.delete("pod", "same")
    assert rpcs(driver) == (2, 2)


def honoured(lab):
    return {d["attributes"]["skipHonoured"]["bool"] for s in lab.slices() for d in s["spec"]["devices"]
            if d["attributes"]["mode"]["string"] == "Skip"}


def live_claim(lab, vf):
    """A pod on a Skip VF."""
    lab.apply(claim("live", "vf-preprovisioned", None, {"name": "net1", "addresses": ["192.0.2.1/24"]}, device=vf.address))
    lab.pod("live", ["live"])
    lab.wait_pod("live")
    wait_ping(lab, "live", SAME)


@pytest.mark.lab(gates=OFF)
def test_gate_off_everywhere(lab, started):
    assert not any("skipNodeOperations" in s["spec"] for s in lab.slices())
    assert honoured(lab) == {False}
    started.wait_log("doesn't declare DRAOptionalNodeOperations")
    assert started.log().count("doesn't declare DRAOptionalNodeOperations") == 1
    run_through_prepare(lab, started)


@pytest.mark.lab(kubelet_gates=OFF)
def test_gate_off_at_the_kubelet_alone(lab, started):
    assert not any("skipNodeOperations" in s["spec"] for s in lab.slices())
    assert honoured(lab) == {False}
    run_through_prepare(lab, started)


@pytest.mark.lab(gates=OFF, kubelet_gates=ON)
def test_gate_off_at_the_api_server_alone(lab, started):
    """The server drops the field without an error: only what it sends back tells."""
    started.wait_log("skipNodeOperations")
    lab.wait_for(lambda: honoured(lab) == {False}, 30, "skipHonoured is false")
    lab.wait_slices(11)
    run_through_prepare(lab, started)


@pytest.mark.lab(scheduler_gates=OFF)
def test_gate_off_at_the_scheduler_alone(lab, started):
    """It doesn't copy the list: the kubelet calls, and is served. What can be seen of it from the node is told."""
    lab.wait_for(lambda: honoured(lab) == {True}, 30, "the node declares the feature again")
    run_through_prepare(lab, started)
    started.wait_log("a claim has no copy of its device's skipNodeOperations.*default/skip", 5)
    lab.wait_event("node1", "SkipNotCopied: claim default/skip", 10)


def test_gate_turned_off_at_the_kubelet_with_claims_live(lab, started, neighbours):
    """They end as they began; what comes after runs through Prepare."""
    vf = Vf(lab.nodes["node1"], "0000:02:10.0")
    before = vf.state()
    live_claim(lab, vf)
    called, mark = rpcs(started), started.log_mark()
    lab.set_gates(kubelet_gates=OFF)
    started.wait_log("doesn't declare DRAOptionalNodeOperations", 60, mark)
    lab.wait_for(lambda: honoured(lab) == {False}, 30, "skipHonoured is false")
    # another pod of a claim that has the list isn't sent to a node that doesn't declare it
    lab.pod("second", ["live"])
    lab.wait_event("second", "FailedScheduling: 0/1 nodes")
    lab.delete("pod", "second")
    wait_ping(lab, "live", SAME)
    lab.delete("pod", "live")
    wait_state(vf, before)
    assert rpcs(started) == called, "no call for a claim that was allocated with the list"
    lab.apply(claim("late", "vf-preprovisioned", None, {"name": "net1", "addresses": ["192.0.2.2/24"]}))
    lab.pod("late", ["late"])
    lab.wait_pod("late")
    wait_ping(lab, "late", SAME)
    assert rpcs(started)[0] == called[0] + 1, "the new one came through Prepare"


def test_gate_turned_off_at_the_kubelet_before_a_pod_starts(lab, started):
    """Its claim was allocated with the list: the kubelet refuses it, and says so on the pod. Deleted and made anew it
    gets a claim without."""
    lab.nodes["node1"].service("kubelet", "stop")
    lab.apply(claim("late", "vf-preprovisioned", None, {"name": "net1", "addresses": ["192.0.2.1/24"]}))
    lab.pod("late", ["late"])
    lab.wait_for(lambda: (lab.get("resourceclaim", "late").get("status") or {}).get("allocation"), 30, "it is allocated")
    assert allocated(lab, "late")[0]["skipNodeOperations"] == ["*"]
    mark = started.log_mark()
    lab.set_gates(kubelet_gates=OFF)
    lab.wait_event("late", "DRAOptionalNodeOperations feature gate is disabled on kubelet")
    started.wait_log("doesn't declare DRAOptionalNodeOperations", 60, mark)
    lab.delete("pod", "late")
    lab.wait_slices(11)
    lab.pod("late", ["late"])
    lab.wait_pod("late")
    assert "skipNodeOperations" not in allocated(lab, "late")[0]
    assert link_in_pod(lab, "late", "net1")["ips"] == ["192.0.2.1/24"]


@pytest.mark.parametrize("gates", [{"gates": OFF, "kubelet_gates": ON, "scheduler_gates": ON}, {"scheduler_gates": OFF}],
                         ids=["api-server", "scheduler"])
def test_gate_turned_off_in_the_control_plane_with_claims_live(lab, started, neighbours, gates):
    """What is stored keeps its list, the claim's as the slice's: a live claim ends as it began. One that is allocated
    from now on gets no copy, and runs through Prepare."""
    vf = Vf(lab.nodes["node1"], "0000:02:10.0")
    before = vf.state()
    live_claim(lab, vf)
    called, mark = rpcs(started), started.log_mark()
    lab.set_gates(**gates)
    wait_ping(lab, "live", SAME)
    assert allocated(lab, "live")[0]["skipNodeOperations"] == ["*"]
    lab.apply(claim("late", "vf-preprovisioned", None, {"name": "net1", "addresses": ["192.0.2.2/24"]}))
    lab.pod("late", ["late"])
    lab.wait_pod("late")
    wait_ping(lab, "late", SAME)
    assert not allocated(lab, "late")[0].get("skipNodeOperations")
    assert rpcs(started) == (called[0] + 1, called[1]), "the new one came through Prepare"
    started.wait_log("a claim has no copy of its device's skipNodeOperations.*default/late", 5, mark)
    lab.delete("pod", "live")
    wait_state(vf, before)
    assert rpcs(started) == (called[0] + 1, called[1]), "no call for a claim that was allocated with the list"
    lab.delete("pod", "late")
    assert rpcs(started) == (called[0] + 1, called[1] + 1)
    if "gates" in gates:
        # a slice that is made anew loses its list, and that is noticed
        for one in lab.slices():
            lab.delete("resourceslice", one["metadata"]["name"], wait=False)
        started.wait_log("the API server drops skipNodeOperations", since=mark)
        lab.wait_for(lambda: honoured(lab) == {False}, 30, "skipHonoured is false")
