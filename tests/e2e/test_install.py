# SPDX-License-Identifier: Apache-2.0
"""docs/install.md from start to end: the image of deploy/image/build, installed from deploy/ as a user does."""
import json
import shutil
import tarfile

import page
import pytest

from lab import CHECKOUT, DRIVER, wait_for
from objects import PREPARE_PF, SKIP_PF, Vf, skips, wait_state

PAGE = CHECKOUT / "docs" / "install.md"
ARCHIVE = CHECKOUT / "build" / "sriov-dra-image.tar"
BUSYBOX = 'image: lab.local/busybox:1\n    command: [sh, -c, "trap exit TERM; sleep 100000 & wait"]'
# The page's names, and what stands for them here. Nothing else is changed.
HERE = {"worker-1": "node1", "image: example.com/app:1": BUSYBOX}
IMAGE = "registry.example.com/sriov-dra:0.1.0"
USER = "system:serviceaccount:sriov-dra:sriov-dra"
MAX_UNPACKED = 36e6


@pytest.fixture
def operator(lab, drivers, tmp_path):
    """With the checkout's own build script, and nothing of a driver on the node."""
    node = lab.nodes["node1"]
    drivers().forget()
    node.vfs(7)
    made = page.Operator(lab, tmp_path)
    yield made
    lab.clean(slices=False)  # while the driver can still end claims
    if (tmp_path / "site").exists():
        made.run(page.Command(None, "kubectl delete -k site --ignore-not-found --timeout=60s"))
    lab.must("DELETE", "/apis/resource.k8s.io/v1/resourceslices", {})
    node.run(f"ctr -n k8s.io images rm {IMAGE} >/dev/null; rm -rf /var/lib/kubelet/plugins/{DRIVER}")


def has_no_more_than_it_says(lab, node):
    """What the driver's process is allowed, as the kernel says."""
    pod = next(p for p in lab.get("pod", namespace="sriov-dra") if p["spec"]["nodeName"] == node.name)
    pid = node.run("pidof -s /usr/bin/sriov-dra").strip()
    status = dict(line.split(":\t", 1) for line in node.run(f"cat /proc/{pid}/status").splitlines() if ":\t" in line)
    assert int(status["CapBnd"], 16) == int(status["CapEff"], 16) == 1 << 12 | 1 << 21, "NET_ADMIN and SYS_ADMIN"
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    mounts = [line.split() for line in node.run(f"cat /proc/{pid}/mounts").splitlines()]
    assert "ro" in next(m[3] for m in mounts if m[1] == "/").split(",")
    assert node.run(f"readlink /proc/{pid}/ns/pid") != node.run("readlink /proc/1/ns/pid"), "it sees no process of the host"
    return pod


def writes_its_own_node_only(lab, operator):
    """As whoever has the token of node1's driver."""
    slices = lab.slices()
    mine = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "forged"}, "spec": slices[0]["spec"]}
    theirs = {**mine, "spec": {**mine["spec"], "nodeName": "other", "pool": {**mine["spec"]["pool"], "name": "other"}}}

    def create(body, extra):
        (operator.home / "slice.json").write_text(json.dumps(body))
        return operator.run(page.Command(None, f"kubectl create --dry-run=server -f slice.json --as {USER} {extra}"))

    bound = "--as-user-extra authentication.kubernetes.io/node-name=node1"
    status, said = create(mine, bound)
    assert status == 0, said
    status, said = create(theirs, bound)
    assert status and "the driver of node 'node1' can't write a slice of node 'other'" in said
    status, said = create(mine, "")
    assert status and "isn't bound to a pod on a node" in said


def test_the_install_page(lab, operator):
    node = lab.nodes["node1"]
    before, called = {}, skips(lab)

    def pools():
        """The image is built: into the node, as with no registry at hand."""
        with tarfile.open(ARCHIVE) as archive:
            index = json.load(archive.extractfile("index.json"))
        assert index["manifests"][0]["annotations"]["io.containerd.image.name"] == IMAGE
        with open(ARCHIVE.with_suffix(".spdx.json"), encoding="utf-8") as file:
            parts = {p["name"] for p in json.load(file)["packages"]}
        assert {"sriov-dra", "libc6", "libgrpc29", "libpci3", "pci.ids"} <= parts
        shutil.copy(ARCHIVE, node.share / "image.tar")
        node.run("ctr -n k8s.io images import /host/image.tar && rm /host/image.tar", timeout=120)
        root = node.run(f"ctr -n k8s.io images mount --platform linux/amd64 {IMAGE} /mnt >/dev/null && du -sb /mnt | cut -f1;"
                        " ctr -n k8s.io images unmount --rm /mnt >/dev/null")
        assert int(root) < MAX_UNPACKED

    def first_pods():
        wait_for(lambda: node.vf_of(SKIP_PF, 3)["vlan_list"][0]["vlan"] == 100, 10, "the driver has set up the pool of mode Skip")
        for pf in (PREPARE_PF, SKIP_PF):
            for link in node.run(f"for l in /sys/class/net/{pf}/device/virtfn*; do basename $(readlink -f $l); done").split():
                before[link] = Vf(node, link).state()
        has_no_more_than_it_says(lab, node)
        writes_its_own_node_only(lab, operator)

    def what_it_may_do():
        """The pods are gone, and their VFs as they were."""
        for address, state in before.items():
            wait_state(Vf(node, address), state)
        prepares, unprepares = (now - then for now, then in zip(skips(lab), called))
        assert (prepares, unprepares) == (1, 1), "of two claims the kubelet called for one"
        assert node.run(f"ls /var/lib/kubelet/plugins/{DRIVER}/claims | grep json || true") == ""

    operator.whole(PAGE, HERE, {"What to offer": pools, "The first pods": first_pods, "What it may do": what_it_may_do})
