# SPDX-License-Identifier: Apache-2.0
"""The manifests of deploy/, and a node, devices and pods made by hand, for what
API server and scheduler decide by themselves: a pod that the scheduler has bound
has its claims allocated, whether or not a kubelet is there to start it.
"""
import re

import yaml

from lab import CHECKOUT, DRIVER, LabError

DEPLOY = CHECKOUT / "deploy"
NODE = "by-hand"


def manifests(*paths):
    """The objects of files or folders below deploy/, in the order of their names."""
    files = []
    for path in paths:
        path = DEPLOY / path
        files += sorted(p for p in path.glob("*.yaml") if p.name != "kustomization.yaml") if path.is_dir() else [path]
    return [d for f in files for d in yaml.safe_load_all(f.read_text(encoding="utf-8")) if d]


def named(objects, kind, name):
    return next(o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name))


def documented_attributes():
    """Names of the attributes that are on every device, as driver/offer.h has them."""
    text = (CHECKOUT / "driver/offer.h").read_text(encoding="utf-8")
    listed = re.search(r"Attributes, all in.*?\n(.*?)\* Only where known", text, re.S)[1]
    return {name for line in listed.splitlines() if (m := re.match(r" \*   (\w+(?:, \w+)*)(?: {2,}| \(|$)", line))
            for name in m[1].split(", ")}


# A free VF of a Prepare pool, as the driver offers one.
PREPARED = {
    "mode": "Prepare", "setupBy": "Driver", "cleanupBy": "Driver", "attach": "NRI", "verified": True,
    "skipHonoured": False, "vfIndex": 0, "pfInterface": "enp1s0", "pfPciAddress": "0000:01:00.0", "pfDriver": "igb",
    "driver": "igbvf", "vendor": "8086", "device": "10ca", "linkType": "ethernet", "linkSpeedMbps": 1000,
    "rdma": False, "vlan": 0, "spoofCheck": False, "trust": False, "mtu": 1500}
DEFERRED = {**PREPARED, "mode": "DeferCleanup", "skipHonoured": True}
# One that others set up, without a setting.
READY = {**PREPARED, "mode": "Skip", "setupBy": "External", "skipHonoured": True, "pfInterface": "enp2s0",
         "pfPciAddress": "0000:02:00.0", "mtu": 0}


def device(name, like, tainted=False, **attributes):
    """A device as in a slice. An attribute's name may have a domain: write "__" for
    "resource.kubernetes.io/"."""
    values = {}
    for key, value in {**like, **attributes}.items():
        kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
        values[key.replace("__", "resource.kubernetes.io/")] = {kind: value}
    taint = {"taints": [{"key": f"{DRIVER}/drifted", "effect": "NoSchedule"}]} if tainted else {}
    return {"name": name, "attributes": values, **taint}


def slices(devices, driver=DRIVER):
    """Slices of one pool, as a driver of NODE publishes them: by list of
    operations, which the mode and skipHonoured of a device decide."""
    lists = {}
    for d in devices:
        mode = d["attributes"].get("mode", {}).get("string")
        listed = d["attributes"].get("skipHonoured", {}).get("bool")
        skip = {"Skip": ("*",), "DeferCleanup": ("NodeUnprepareResources",)}.get(mode, ()) if listed else ()
        lists.setdefault(skip, []).append(d)
    return [{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
             "metadata": {"name": f"{NODE}-{driver.replace('.', '-')}-{i}"},
             "spec": {"driver": driver, "nodeName": NODE, "devices": some,
                      "pool": {"name": NODE, "generation": 1, "resourceSliceCount": len(lists)},
                      **({"skipNodeOperations": list(skip)} if skip else {})}}
            for i, (skip, some) in enumerate(sorted(lists.items()))]


def make_node(lab):
    """A node that takes pods; nobody runs them."""
    size = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    status, answer = lab.request("POST", "/api/v1/nodes", {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}},
        "status": {"capacity": size, "allocatable": size, "declaredFeatures": ["DRAOptionalNodeOperations"],
                   "conditions": [{"type": "Ready", "status": "True"}]}})
    if status not in (201, 409):
        raise LabError(f"node {NODE}: {status} {answer.get('message')}")


# What a pod needs to stay where it is, and to go at once.
UNATTENDED = {"terminationGracePeriodSeconds": 0, "tolerations": [{"operator": "Exists"}]}


def scheduled(lab, name, claim, namespace="default"):
    """Makes a pod that uses the claim; see wait_allocated()."""
    lab.pod(name, {"net": claim}, namespace=namespace, **UNATTENDED)


def wait_allocated(lab, name, namespace="default"):
    """The claim's status.allocation.devices."""
    def there():
        claim = lab.get("resourceclaim", name, namespace)
        return (claim.get("status") or {}).get("allocation")
    return lab.wait_for(there, 30, f"claim {name} is allocated")["devices"]
