# SPDX-License-Identifier: Apache-2.0
"""Manifests that the end-to-end tests and the demo share, and looking at VFs.

VFs of enp1s0 are prepared per claim; the first four of enp2s0 are set up
beforehand on VLAN 100 and skipped. The two ports are joined by a hub.
"""
import json
import re
import shlex

from deployed import manifests, named
from lab import DRIVER, wait_for

GROUP = "sriov-dra.dev/v1alpha1"
PREPARE_PF, SKIP_PF = "enp1s0", "enp2s0"
SKIP_VFS = range(4)
METRICS_PORT = 9808


def pool(name, pf, mode, indexes=None, **spec):
    function = {"parent": {"interface": pf}}
    if indexes:
        function["indexes"] = indexes
    return {"apiVersion": GROUP, "kind": "VirtualFunctionPool", "metadata": {"name": name},
            "spec": {"functions": [function], "mode": mode, **spec}}


def pools(**skip_settings):
    """The pools of most tests: 7 VFs to prepare, 4 to skip."""
    settings = {"vlan": {"id": 100}, **skip_settings}
    return [pool("prepared", PREPARE_PF, "Prepare"),
            pool("storage", SKIP_PF, "Skip", "0-3", settings=settings)]


def provision(node, vlan=100):
    """What a central provisioner does: the skip pool's settings on its VFs."""
    node.run("\n".join(f"ip link set {SKIP_PF} vf {i} vlan {vlan}" for i in SKIP_VFS))


def device_class(name, mode, parameters=None):
    spec = {"selectors": [{"cel": {"expression":
            f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].mode == "{mode}"'}}]}
    if parameters:
        spec["config"] = [{"opaque": {"driver": DRIVER, "parameters": config(**parameters)}}]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def shipped_class(name):
    return named(manifests("classes"), "DeviceClass", name)


def classes():
    return [shipped_class("vf-prepared"), shipped_class("vf-preprovisioned")]


def config(settings=None, interface=None):
    document = {"apiVersion": GROUP, "kind": "VirtualFunctionConfig"}
    if settings:
        document["settings"] = settings
    if interface:
        document["interface"] = interface
    return document


def claim(name, class_name, settings=None, interface=None, count=1, parameters=None, device=None):
    """A ResourceClaim. `parameters` replaces the configuration made of settings
    and interface; `device` asks for one VF by its PCI address."""
    request = {"name": "vf", "exactly": {"deviceClassName": class_name, "count": count}}
    if device:
        request["exactly"]["selectors"] = [{"cel": {"expression":
            f'device.attributes["resource.kubernetes.io"].pciBusID == "{device}"'}}]
    devices = {"requests": [request]}
    if settings or interface or parameters is not None:
        devices["config"] = [{"opaque": {"driver": DRIVER, "parameters":
                              parameters if parameters is not None else config(settings, interface)}}]
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}}


def allocated(lab, name):
    """The results of an allocated claim."""
    c = lab.get("resourceclaim", name)
    return c["status"]["allocation"]["devices"]["results"]


def address_of(device):
    """'0000-01-10-0' -> '0000:01:10.0'"""
    domain, bus, slot, function = device.split("-")
    return f"{domain}:{bus}:{slot}.{function}"


class Vf:
    """A VF of a node, seen from the host."""

    def __init__(self, node, address):
        self.node, self.address = node, address
        pf, index = node.run(f"""
            d=/sys/bus/pci/devices/{address}
            basename $d/physfn/net/*
            for l in $d/physfn/virtfn*; do
                [ "$(basename "$(readlink -f $l)")" != {address} ] || echo "${{l##*virtfn}}"
            done""").split()
        self.pf, self.index = pf, int(index)

    def state(self):
        """Both sides: the PF's entry, and the VF's own if it is in the host's namespace."""
        entry = self.node.vf_of(self.pf, self.index)
        vlan = (entry.get("vlan_list") or [{}])[0]
        state = {"admin_mac": entry["address"], "vlan": vlan.get("vlan", 0), "qos": vlan.get("qos", 0),
                 "spoofchk": entry.get("spoofchk"), "trust": entry.get("trust"), "home": False}
        name = self.node.run(f"ls /sys/bus/pci/devices/{self.address}/net 2>/dev/null || true").strip()
        link = self.node.links().get(name)  # it may be renamed between the two looks
        if link:
            state |= {"home": True, "name": name, "mac": link["address"], "mtu": link["mtu"],
                      "altnames": link.get("altnames", [])}
        return state

    def wait_home(self, timeout=30):
        return wait_for(lambda: (s := self.state())["home"] and s, timeout, f"VF {self.address} is home")


def vf_of_claim(lab, node, name):
    return Vf(node, address_of(allocated(lab, name)[0]["device"]))


def wait_state(vf, wanted, timeout=30):
    """Waits until the VF is as it was."""
    last = {}

    def same():
        last.clear()
        last.update(vf.state())
        return last == wanted
    wait_for(same, timeout, lambda: f"VF {vf.address} is {wanted}; it is {last}")


def seen(lab, name):
    """(verified, effects of its taints) of a device as published; None: it isn't."""
    d = next((d for s in lab.slices() for d in s["spec"]["devices"] if d["name"] == name), None)
    return d and (d["attributes"]["verified"]["bool"], [t["effect"] for t in d.get("taints", [])])


def wait_seen(lab, name, wanted, timeout=20):
    wait_for(lambda: seen(lab, name) == wanted, timeout, lambda: f"{name} is {wanted}; it is {seen(lab, name)}")


def look(node):
    """A foreign tool's `ip link set PF vf N` sends no message; a uevent makes the driver look now."""
    node.run(f"udevadm trigger --action=change /sys/class/net/{PREPARE_PF}")


def link_in_pod(lab, pod, name, container="main"):
    """What the pod sees: {'mac', 'mtu', 'up', 'ips'}; None if there is no such interface."""
    text = lab.exec(pod, "ip", "addr", "show", "dev", name, container=container, check=False)
    if not text:
        return None
    return {"mac": re.search(r"link/ether (\S+)", text)[1], "mtu": int(re.search(r"mtu (\d+)", text)[1]),
            "up": "UP" in re.search(r"<(.*?)>", text)[1].split(","),
            "ips": sorted(re.findall(r"inet6? (\S+)(?= .*scope global)", text))}


CRICTL = "crictl -t 60s -r unix:///run/containerd/containerd.sock"
# The main container's pid, in $pid.
FIND_PID = f"""
    id=$({CRICTL} ps --label io.kubernetes.pod.name=POD --name main -q)
    pid=$({CRICTL} inspect $id | sed -n 's/^    "pid": \\([0-9]\\+\\),.*/\\1/p')
    [ -n "$pid" ] || {{ echo "no container of POD" >&2; exit 1; }}"""


def in_netns(node, pod, script):
    """Runs a shell script in the pod's network namespace, as root of the node: what a pod with NET_ADMIN can do."""
    return node.run(f"{FIND_PID.replace('POD', pod)}\nnsenter -t $pid -n sh -ec {shlex.quote(script)}")


# Hosts on the wire that the driver has nothing to do with, on VLAN 100 and on VLAN 200.
SAME, OTHER = "192.0.2.9", "192.0.2.8"


class Neighbours:
    """VFs of no pool, each in a network namespace of its own: up in no time, unlike a pod. By default the last two of
    SKIP_PF, which most pools leave alone."""

    def __init__(self, node, vfs=((SKIP_PF, 5), (SKIP_PF, 6))):
        self.node = node
        self.hosts = list(zip(vfs, (100, 200), (SAME, OTHER)))

    def up(self):
        self.down()
        self.node.run("udevadm settle\n" + "\n".join(f"""
            ip link set {pf} vf {index} vlan {vlan}
            dev=$(ls /sys/class/net/{pf}/device/virtfn{index}/net)
            ip netns add vlan{vlan}
            ip link set "$dev" netns vlan{vlan}
            ip -n vlan{vlan} link set "$dev" up
            ip -n vlan{vlan} addr add {address}/24 dev "$dev" """ for (pf, index), vlan, address in self.hosts))

    def down(self):
        """The VFs are home, as they were."""
        self.node.run("\n".join(f"""
            if ip netns list | grep -qw vlan{vlan}; then
                for dev in $(ip -n vlan{vlan} -o link show type ether | sed 's/^[0-9]*: \\([^:@]*\\).*/\\1/'); do
                    ip -n vlan{vlan} link set "$dev" down netns 1
                done
                ip netns del vlan{vlan}
                ip link set {pf} vf {index} vlan 0
            fi""" for (pf, index), vlan, _ in self.hosts))


def environment(lab, pod, device, container="main"):
    """The device's variables in a container, without what their names have in common."""
    prefix = f"SRIOV_DRA_{device.upper().replace('-', '_')}_"
    variables = (line.partition("=") for line in lab.exec(pod, "env", container=container).splitlines())
    return {name.removeprefix(prefix): value for name, _, value in variables if name.startswith(prefix)}


def ping(lab, pod, address, count=3, container="main", size=56, timeout=2):
    """How many of the packets were answered."""
    text = lab.exec(pod, "ping", "-c", str(count), "-W", str(timeout), "-s", str(size), address,
                    container=container, check=False)
    found = re.search(r"(\d+) packets received", text)
    return int(found[1]) if found else 0


def wait_ping(lab, pod, address, timeout=20, **kwargs):
    """Until a packet is answered: a VF's carrier takes a moment."""
    wait_for(lambda: ping(lab, pod, address, count=1, **kwargs) == 1, timeout, f"{pod} reaches {address}")


def skips(lab, node="node1"):
    """The kubelet's counts of (Prepare, Unprepare) calls that it skipped."""
    return tuple(int(lab.kubelet_metric(f"dra_node_{op}_skips_total", node, driver_name=DRIVER))
                 for op in ("prepare", "unprepare"))


def rpcs(driver, since=0):
    """How many claims the driver was asked to prepare and unprepare."""
    log = driver.log()[since:]
    return (len(re.findall(r"claim (?:not )?prepared", log)), len(re.findall(r"claim (?:not )?unprepared", log)))


def http(node, path):
    """(status, body) of the driver's own server."""
    text = node.run(f"""
        exec 3<>/dev/tcp/127.0.0.1/{METRICS_PORT}
        printf 'GET {path} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3
        cat <&3""")
    head, _, body = text.replace("\r\n", "\n").partition("\n\n")
    return int(head.split()[1]), body


def metric(node, name):
    lines = dict(line.rsplit(" ", 1) for line in http(node, "/metrics")[1].splitlines() if not line.startswith("#"))
    return int(lines[f"sriov_dra_{name}"])


def pretty(document):
    return json.dumps(document, indent=1)
