# SPDX-License-Identifier: Apache-2.0
"""The demonstration behind tests/demo: each step is something that was seen."""
import sys
import time

from lab import Driver, Lab, LabError, wait_for
from objects import (Vf, address_of, allocated, claim, classes, link_in_pod, ping, pools, provision, rpcs, skips, wait_ping,
                     wait_state)

BOLD, DIM, RED, GREEN, END = ("\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[0m") if sys.stdout.isatty() else [""] * 5


def title(text):
    print(f"\n{BOLD}{text}{END}", flush=True)


def say(text):
    print(f"  {text}", flush=True)


def shown(text):
    for line in text.rstrip().splitlines():
        print(f"  {DIM}|{END} {line}", flush=True)


def check(what, true):
    """A step that counts."""
    print(f"  {GREEN + 'seen' + END if true else RED + 'NOT SEEN' + END}: {what}", flush=True)
    if not true:
        raise LabError(f"not seen: {what}")


def story(lab, driver):
    node = lab.nodes["node1"]

    title("1. The hardware: two PFs, seven VFs each")
    shown(driver.verb("inventory").stdout)
    say("somebody else provisions four VFs of enp2s0 beforehand: VLAN 100")
    provision(node)

    title("2. The driver offers 7 VFs to be prepared per claim, and 4 that are ready")
    driver.start(pools())
    lab.apply(classes())
    slices = lab.wait_slices(11)
    for s in slices:
        devices = s["spec"]["devices"]
        say(f"slice {s['metadata']['name']}: {len(devices)} devices, skipNodeOperations {s['spec'].get('skipNodeOperations', [])}"
            f" ({devices[0]['name']} ...)")
    lists = sorted((s["spec"].get("skipNodeOperations", []), len(s["spec"]["devices"])) for s in slices)
    check("both kinds in one pool of the node", lists == [([], 7), (["*"], 4)])

    title("3. Three pods: prepared on VLAN 100, skipped on VLAN 100, prepared on VLAN 200")
    counted, mark = skips(lab), driver.log_mark()
    mac = "52:54:00:12:34:56"
    lab.apply([claim("prepared", "vf-prepared", {"macAddress": mac, "vlan": {"id": 100}, "mtu": 1400},
                     {"name": "net1", "addresses": ["192.0.2.1/24"]}),
               claim("skipped", "vf-preprovisioned", None, {"name": "net1", "addresses": ["192.0.2.2/24"]}),
               claim("elsewhere", "vf-prepared", {"vlan": {"id": 200}}, {"name": "net1", "addresses": ["192.0.2.3/24"]})])
    names = ["prepared", "skipped", "elsewhere"]
    before = {}
    for s in slices:
        for d in s["spec"]["devices"]:
            before[d["name"]] = Vf(node, address_of(d["name"])).state()
    for name in names:
        lab.pod(name, [name])
    vfs = {}
    for name in names:
        lab.wait_pod(name, timeout=90)
        result = allocated(lab, name)[0]
        vfs[name] = Vf(node, address_of(result["device"]))
        link = link_in_pod(lab, name, "net1")
        say(f"pod {name}: VF {vfs[name].address}, net1 has MAC {link['mac']}, MTU {link['mtu']}, {', '.join(link['ips'])}; "
            f"the claim says skip {result.get('skipNodeOperations', [])}")
    link = link_in_pod(lab, "prepared", "net1")
    check("the prepared pod has the MAC, MTU and address that its claim asked for",
          link == {"mac": mac, "mtu": 1400, "up": True, "ips": ["192.0.2.1/24"]})
    check("the PF says VLAN 100 for it", vfs["prepared"].state()["vlan"] == 100)

    title("4. Packets")
    wait_ping(lab, "prepared", "192.0.2.2")
    check("prepared reaches skipped: same VLAN, over real frames between two ports",
          ping(lab, "prepared", "192.0.2.2") == 3)
    check("neither reaches VLAN 200", ping(lab, "prepared", "192.0.2.3", count=2) == 0 and
          ping(lab, "skipped", "192.0.2.3", count=2) == 0)

    title("5. Who was called")
    now = skips(lab)
    say(f"kubelet: dra_node_prepare_skips_total {counted[0]} -> {now[0]}; driver: {rpcs(driver, mark)[0]} claims prepared")
    check("one Prepare was skipped, two were made", now[0] - counted[0] == 1 and rpcs(driver, mark)[0] == 2)

    title("6. Back home")
    for name in names:
        lab.delete("pod", name, wait=False)
    for name in names:
        wait_for(lambda n=name: lab.get("pod", n) is None, 60, f"pod {name} is gone")
        device = vfs[name].address.replace(":", "-").replace(".", "-")
        wait_state(vfs[name], before[device])
        state = vfs[name].state()
        say(f"VF {vfs[name].address}: {state['name']}, MAC {state['mac']}, VLAN {state['vlan']}, MTU {state['mtu']}")
    check("all three VFs are in the host's namespace, as they were before", True)
    now = skips(lab)
    check("one Unprepare was skipped, two were made", now[1] - counted[1] == 1 and rpcs(driver, mark)[1] == 2)
    check("no claim is left on record", wait_for(
        lambda: driver.records() == 0, 20, "the records are gone"))


def main():
    keep = "--keep" in sys.argv[1:]
    begin = time.monotonic()
    lab, driver, status = Lab("demo"), None, 1
    title("A Kubernetes 1.37 node with SR-IOV VFs, emulated: about a minute (15 the first time)")
    try:
        lab.up()
        say(f"up after {time.monotonic() - begin:.0f} s")
        driver = Driver(lab.nodes["node1"])
        driver.forget()
        driver.log_path.unlink(missing_ok=True)
        story(lab, driver)
        status = 0
        print(f"\n{GREEN}Every step was seen{END}, in {time.monotonic() - begin:.0f} s.")
    except LabError as e:
        print(f"\n{RED}The story ends here:{END} {e}", file=sys.stderr)
        if driver is not None:
            print(f"The driver's log, {driver.log_path}:\n{driver.tail()}", file=sys.stderr)
    finally:
        if keep and lab.nodes:
            print("\nThe lab is up. Look around:\n"
                  "  tests/lab/lab --name demo kubectl get resourceslices\n"
                  "  tests/lab/lab --name demo run node1 ip -br link\n"
                  f"  less {driver.log_path if driver else lab.dir}\n"
                  "  tests/lab/lab --name demo down")
        else:
            lab.down()
    return status


if __name__ == "__main__":
    sys.exit(main())
