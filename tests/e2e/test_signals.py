# SPDX-License-Identifier: Apache-2.0
"""What users and operators are shown on a real node: which alternative a pod got, and the driver's own state."""
import pytest

from lab import wait_for
from objects import (METRICS_PORT, address_of, allocated, claim, classes, config, environment, http, metric, pools,
                     provision)


def alternatives(name, address, *choices):
    """A claim that asks for the first of these that can be had: (name, class) or (name, class, CEL selector)."""
    subs = [{"name": sub, "deviceClassName": of, **({"selectors": [{"cel": {"expression": only[0]}}]} if only else {})}
            for sub, of, *only in choices]
    o = claim(name, None, parameters=config(None, {"name": "net1", "addresses": [f"{address}/24"]}))
    o["spec"]["devices"]["requests"] = [{"name": "vf", "firstAvailable": subs}]
    return o


def first_choice(lab, name):
    """(status, message) of the condition of the claim's device."""
    devices = wait_for(lambda: lab.get("resourceclaim", name)["status"].get("devices"), 15, f"status of claim {name}")
    condition, = (c for c in devices[0]["conditions"] if c["type"] == "FirstChoice")
    return condition["status"], condition["message"]


@pytest.mark.contract
def test_which_alternative_was_allocated_is_told(lab, driver):
    """Preprovisioned if it can be had, else prepared: told in the claim, in the container, as event and metric."""
    node = lab.nodes["node1"]
    provision(node)
    driver.start(pools(), args=["--metrics-address", f":{METRICS_PORT}"])
    lab.apply(classes())
    lab.wait_slices(11)
    wait_for(lambda: http(node, "/readyz")[0] == 200, 30, lambda: f"ready: {http(node, '/readyz')}")
    assert metric(node, 'devices{pool="storage",mode="Skip",verified="true"}') == 4
    elsewhere = 'device.attributes["sriov-dra.dev"].vlan == 300'
    lab.apply([alternatives("first", "192.0.2.1", ("pre-set", "vf-preprovisioned"), ("prepared", "vf-prepared")),
               alternatives("later", "192.0.2.2", ("pre-set", "vf-preprovisioned", elsewhere),
                            ("prepared", "vf-prepared"))])
    for name in ("first", "later"):
        lab.pod(name, [name])
    for name in ("first", "later"):
        lab.wait_pod(name)
    assert first_choice(lab, "first") == ("True", "request vf: alternative pre-set was allocated, number 1 of 2")
    assert first_choice(lab, "later") == ("False", "request vf: alternative prepared was allocated, number 2 of 2")
    seen = {name: environment(lab, name, allocated(lab, name)[0]["device"]) for name in ("first", "later")}
    assert {name: (e["ALTERNATIVE"], e["MODE"], e["REQUEST"]) for name, e in seen.items()} == {
        "first": ("pre-set", "Skip", "vf"), "later": ("prepared", "Prepare", "vf")}

    # for the one that didn't get its first choice, of the pod and of the claim, which share the name
    event = lab.wait_event("later", "AlternativeAllocated: .*alternative prepared was allocated, number 2 of 2")
    assert event["type"] == "Normal"
    wait_for(lambda: {e["involvedObject"]["kind"] for e in lab.events_of("later")
                      if e["reason"] == "AlternativeAllocated"} == {"Pod", "ResourceClaim"}, 10, "told of both")
    assert [e for e in lab.events_of("first") if e["reportingComponent"] == "sriov-dra.dev"] == []
    assert [metric(node, f'choices_total{{choice="{c}"}}') for c in ("first", "later")] == [1, 1]
    assert [metric(node, f'claims{{mode="{m}"}}') for m in ("Skip", "Prepare")] == [1, 1]
    assert metric(node, 'operations_total{operation="attach",result="ok"}') == 2
    assert metric(node, 'sandboxes_total{result="refused"}') == 0

    lab.delete("pod", "later")
    wait_for(lambda: metric(node, 'claims{mode="Prepare"}') == 0, 20, "the claim is released")
    assert metric(node, 'operations_total{operation="unprepare",result="ok"}') == 1
    driver.stop()
    vf = address_of(allocated(lab, "first")[0]["device"])
    driver.start(pools(), args=["--metrics-address", f":{METRICS_PORT}"])
    wait_for(lambda: http(node, "/readyz")[0] == 200, 30, lambda: f"ready again: {http(node, '/readyz')}")
    assert metric(node, 'claims{mode="Skip"}') == 1 and vf.startswith("0000:02:")
    assert metric(node, 'choices_total{choice="first"}') == 0, "counted when it was acquired"
