# SPDX-License-Identifier: Apache-2.0
"""The shipped DeviceClasses select what they promise, and nothing else: each asks
the real scheduler for all of its devices, among devices of every kind."""
import pytest

from deployed import (DEFERRED, NODE, PREPARED, READY, device, documented_attributes, make_node, manifests, named, scheduled,
                      slices, wait_allocated)
from lab import DRIVER

pytestmark = pytest.mark.lab(nodes=0)

CLASSES = manifests("classes", "examples/classes.yaml")

# All with every attribute. An agentless slice has devices that nobody verified, and
# no taint; a drifted one has both, and the claims of this test tolerate it.
DEVICES = [
    device("prepared", PREPARED, __numaNode=1),
    device("prepared-blue", PREPARED, fabric="blue", linkSpeedMbps=25000, mtu=9000, rdma=True, __numaNode=0),
    device("prepared-red", PREPARED, fabric="red", attach="None", mtu=9000, linkSpeedMbps=100000, linkType="infiniband"),
    device("prepared-drifted", PREPARED, tainted=True, verified=False, mtu=9000),
    device("deferred", DEFERRED, linkSpeedMbps=0),
    device("deferred-not-honoured", DEFERRED, skipHonoured=False, mtu=8999),
    device("ready", READY),
    device("ready-100", READY, vlan=100, mtu=9000),
    device("ready-10", READY, vlan=10, mtu=9216),
    device("ready-100-not-honoured", READY, vlan=100, skipHonoured=False),
    device("ready-checked", READY, spoofCheck=True, setupBy="Driver", linkSpeedMbps=24999),
    device("ready-trusted", READY, trust=True, attach="None", cleanupBy="External", mtu=9000),
    device("ready-drifted", READY, tainted=True, verified=False, skipHonoured=False, vlan=100, spoofCheck=True, trust=True, mtu=9000),
    device("agentless", READY, verified=False, cleanupBy="External", attach="CNI", vlan=100, spoofCheck=True,
           trust=True, mtu=9000),
]
# Other drivers' devices: nothing in common, and namesakes of attributes.
FOREIGN = [device("gpu-0", {"model": "x"}), device("gpu-2", {}),
           device("gpu-1", {"mode": "Prepare", "verified": True, "mtu": 9000, f"{DRIVER}/fabric": "blue"}, __numaNode=0)]

SETTABLE = {"prepared", "prepared-blue", "prepared-red", "prepared-drifted", "deferred", "deferred-not-honoured"}
VERIFIED = {"ready", "ready-100", "ready-10", "ready-100-not-honoured", "ready-checked", "ready-trusted"}
ALL = {d["name"] for d in DEVICES}

SELECTED = {
    "vf-prepared": {"prepared", "prepared-blue", "prepared-red", "prepared-drifted"},
    "vf-deferred": {"deferred", "deferred-not-honoured"},
    "vf-preprovisioned": VERIFIED,
    "vf-skipped": VERIFIED - {"ready-100-not-honoured"},
    "vf-ends-alone": VERIFIED - {"ready-100-not-honoured"} | {"deferred", "agentless"},
    "vf-set-up-by-driver": SETTABLE | {"ready-checked"},
    "vf-set-up-externally": VERIFIED - {"ready-checked"},
    "vf-cleaned-by-driver": ALL - {"ready-trusted", "agentless"},
    "vf-attached": ALL - {"prepared-red", "ready-trusted", "agentless"},
    "vf-not-attached": {"prepared-red", "ready-trusted"},
    "vf-spoof-checked": SETTABLE | {"ready-checked"},
    "vf-trusted": SETTABLE | {"ready-trusted"},
    "vf-rdma": {"prepared-blue"},
    "vf-vlan-100": {"ready-100", "ready-100-not-honoured"},
    "vf-prepared-vlan-100": SETTABLE,
    "vf-mtu-9000": {"prepared-blue", "prepared-drifted", "ready-100", "ready-10"},
    "vf-25g": {"prepared-blue"},
    "vf-enp1s0": SETTABLE,
    "vf-numa-0": {"prepared-blue"},
    "vf-fabric-blue": {"prepared-blue"},
}


def everything_of(name):
    """A claim for all devices of a class. With admin access claims don't take
    devices from one another."""
    request = {"deviceClassName": name, "allocationMode": "All", "adminAccess": True,
               "tolerations": [{"key": f"{DRIVER}/drifted", "operator": "Exists"}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name, "namespace": "admin"},
            "spec": {"devices": {"requests": [{"name": "vf", "exactly": request}]}}}


@pytest.fixture(scope="module")
def cluster(labs):
    """The lab with all devices and classes, and a claim and pod for each class."""
    lab = labs.get((("nodes", 0),))
    make_node(lab)
    lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "admin", "labels": {"resource.kubernetes.io/admin-access": "true"}}})
    lab.wait_for(lambda: lab.get("serviceaccount", "default", "admin"), 30, "the namespace has its service account")
    lab.apply(slices(DEVICES) + slices(FOREIGN, "gpu.example.com") + CLASSES)
    for c in CLASSES:
        lab.apply(everything_of(c["metadata"]["name"]))
        scheduled(lab, c["metadata"]["name"], c["metadata"]["name"], "admin")
    yield lab
    lab.clean("admin")


def test_devices_are_as_the_driver_offers_them():
    assert set(PREPARED) == documented_attributes()


def test_every_class_is_tested():
    assert {c["metadata"]["name"] for c in CLASSES} == set(SELECTED)


@pytest.mark.contract
@pytest.mark.parametrize("name", SELECTED)
def test_a_class_selects_the_guarantee_that_it_names(cluster, name):
    devices = wait_allocated(cluster, name, "admin")
    assert {(r["driver"], r["device"]) for r in devices["results"]} == {(DRIVER, d) for d in SELECTED[name]}
    # what the class asks for comes with it
    wanted = [c["opaque"] for c in named(CLASSES, "DeviceClass", name)["spec"].get("config", [])]
    assert [c["opaque"] for c in devices.get("config", [])] == wanted


def test_taint_keeps_a_drifted_vf_from_claims(cluster):
    """Without a toleration: as many as there are are given, less the drifted one."""
    claim = everything_of("vf-prepared")
    claim["metadata"] |= {"name": "untolerated"}
    request = claim["spec"]["devices"]["requests"][0]["exactly"]
    request |= {"allocationMode": "ExactCount", "count": 3}
    del request["tolerations"]
    cluster.apply(claim)
    scheduled(cluster, "untolerated", "untolerated", "admin")
    got = {r["device"] for r in wait_allocated(cluster, "untolerated", "admin")["results"]}
    assert got == SELECTED["vf-prepared"] - {"prepared-drifted"}
    assert {r["pool"] for r in wait_allocated(cluster, "untolerated", "admin")["results"]} == {NODE}
