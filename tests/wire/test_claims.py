# SPDX-License-Identifier: Apache-2.0
"""`sriov-dra claims`: what is listed, what needs the node driver, and that the guard never says "none" too soon."""
import json
import re
import time

import pytest

from node import DRIVER, node, NODE, result

GROUP = "/apis/resource.k8s.io/v1"
CLAIMS, SLICES, NODES = f"{GROUP}/resourceclaims", f"{GROUP}/resourceslices", "/api/v1/nodes"
SKIP, DEFER = ["*"], ["NodeUnprepareResources"]
HOUR = 3600


def claim(name, *results, namespace="default", age=3 * HOUR, pods=("p",), on=NODE, **status):
    """A live claim, as the scheduler allocated it."""
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - age))
    selector = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": created},
            "status": {"allocation": {"nodeSelector": selector, "devices": {"results": list(results)}},
                       "reservedFor": [{"resource": "pods", "name": p, "uid": f"uid-{p}"} for p in pods], **status}}


def device(name, skip=None, **changes):
    return result(name, **({"skipNodeOperations": skip} if skip else {}), **changes)


def told(name):
    """status.devices of a claim whose VF the driver has attached."""
    return [{"driver": DRIVER, "pool": NODE, "device": name, "conditions": [],
             "networkData": {"interfaceName": "net1"}}]


def slice_of(attach, *devices, pool=NODE, driver=DRIVER):
    return {"metadata": {"name": f"{pool}-{driver}-{attach}"},
            "spec": {"driver": driver, "nodeName": pool,
                     "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
                     "devices": [{"name": d, "attributes": {"attach": {"string": attach}}} for d in devices]}}


def fill(api):
    """One claim of each kind."""
    api.put("nodes", {**node(), "metadata": {"name": "node-2"}})
    api.put("resourceslices", slice_of("NRI", "p0", "s0", "d0", "m0", "m1"))
    api.put("resourceslices", slice_of("CNI", "c0", pool="node-2"))
    api.put("resourceslices", slice_of("None", "x0", pool="node-2", driver="other.example.com"))
    for c in (
            claim("prepared", device("p0"), devices=told("p0"), pods=("app",)),
            claim("skipped", device("s0", SKIP), age=90, devices=told("s0"), pods=("a", "b")),
            claim("deferred", device("d0", DEFER), namespace="apps", age=50 * HOUR),
            claim("mixed", device("m0", SKIP), device("m1"), pods=()),
            claim("agentless", device("c0", SKIP, pool="node-2"), age=20, on="node-2"),
            claim("odd", device("o0", ["*", "Foo"], pool="node-2"), on="node-2"),
            claim("foreign", {**device("x0", pool="node-2"), "driver": "other.example.com"}, on="node-2")):
        api.put("resourceclaims", c)
    waiting = claim("waiting")
    del waiting["status"]
    api.put("resourceclaims", waiting)


TABLE = """\
NODE    CLAIM              MODE          DEVICE  PODS  AGE  NEEDS
node-1  apps/deferred      DeferCleanup  d0      p     2d   Prepare, Attachment, CleanUp
node-1  default/mixed      Skip          m0      -     3h   Prepare, Unprepare, Attachment
                           Prepare       m1
node-1  default/prepared   Prepare       p0      app   3h   Unprepare, Attachment
node-1  default/skipped    Skip          s0      a,b   90s  Attachment, CleanUp
node-2  default/agentless  Skip          c0      p     20s  -
node-2  default/odd        ["*","Foo"]   o0      p     3h   Unknown
"""
WHY = "\ndefault/odd: no slice lists device o0 of pool node-2 any more, so the driver may have attached it.\n"


def without_seconds(text):
    """Ages in seconds move while a test runs."""
    return re.sub(r"\b(90|9[1-9]|1[01]\d|20|2[1-9]|[3-9]\d)s\b", lambda m: "90s" if int(m[1]) >= 90 else "20s", text)


def test_table(machine, verb):
    machine.api.start()
    fill(machine.api)
    done = verb("claims")
    assert without_seconds(done.stdout) == \
        f"{TABLE}{WHY}6 live claims of {DRIVER}, 5 need the node driver.\n"
    assert done.stderr == ""


def test_only_what_needs_it(machine, verb):
    machine.api.start()
    fill(machine.api)
    text = without_seconds(verb("claims", "--need-driver", status=1).stdout)
    lines = [line for line in TABLE.splitlines(True) if "agentless" not in line]
    assert [line.split() for line in text.splitlines()[:len(lines)]] == [line.split() for line in lines]
    assert "agentless" not in text
    assert text.endswith(f"{WHY}6 live claims of {DRIVER}, 5 need the node driver.\n")


def test_on_one_node(machine, verb):
    machine.api.start()
    fill(machine.api)
    text = verb("claims", "--node", "node-2").stdout
    assert [line.split()[1] for line in text.splitlines()[1:3]] == ["default/agentless", "default/odd"]
    assert text.endswith(f"2 live claims of {DRIVER} on node node-2, 1 needs the node driver.\n")
    machine.api.delete("resourceclaims", "odd", "default")
    text = verb("claims", "--node", "node-2", "--need-driver").stdout
    assert text == f"1 live claim of {DRIVER} on node node-2, 0 need the node driver.\n"
    assert verb("claims", "--node", NODE, "--need-driver", status=1).stdout.endswith(", 4 need the node driver.\n")


def test_json(machine, verb):
    machine.api.start()
    fill(machine.api)
    document = json.loads(verb("claims", "-o", "json", "--node", NODE).stdout)
    claims = {c.pop("name"): c for c in document.pop("claims")}
    assert document == {"driver": DRIVER, "node": NODE, "live": 4, "needDriver": 4}
    created = claims["mixed"].pop("created")
    assert claims["mixed"] == {
        "namespace": "default", "uid": "uid-mixed", "node": NODE, "beingDeleted": False, "mode": "Skip+Prepare",
        "calls": {"prepare": True, "unprepare": True},
        "devices": [{"request": "nic", "pool": NODE, "device": "m0", "mode": "Skip", "skipNodeOperations": ["*"],
                     "attach": "NRI", "attached": False},
                    {"request": "nic", "pool": NODE, "device": "m1", "mode": "Prepare", "skipNodeOperations": [],
                     "attach": "NRI", "attached": False}],
        "reservedFor": [], "needsDriver": True, "needs": ["Prepare", "Unprepare", "Attachment"],
        "why": claims["mixed"]["why"]}
    assert claims["mixed"]["why"].startswith("the kubelet calls NodePrepareResources before its pod starts; ")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", created)
    assert claims["skipped"]["reservedFor"] == [{"resource": "pods", "name": p, "uid": f"uid-{p}"} for p in "ab"]
    document = json.loads(verb("claims", "-o", "json", "--need-driver", status=1).stdout)
    assert [c["name"] for c in document["claims"]] == ["deferred", "mixed", "prepared", "skipped", "odd"]
    assert (document["node"], document["live"], document["needDriver"]) == (None, 6, 5)


def test_none(machine, verb):
    machine.api.start()
    assert verb("claims").stdout == f"0 live claims of {DRIVER}, 0 need the node driver.\n"
    assert verb("claims", "--need-driver").returncode == 0
    assert json.loads(verb("claims", "-o", "json").stdout)["claims"] == []
    # no more is read than is asked for
    assert machine.api.count(f"GET {CLAIMS}$") == 3
    assert machine.api.count(f"GET ({SLICES}|{NODES})$") == 0


def test_another_driver(machine, verb):
    machine.api.start()
    fill(machine.api)
    text = verb("claims", "--driver-name", "other.example.com").stdout
    assert [line.split()[1] for line in text.splitlines()[1:2]] == ["default/foreign"]
    assert "1 live claim of other.example.com, 1 needs" in text


# ---- the guard fails closed


def test_a_kubelet_that_does_not_know_the_list(machine, verb):
    machine.api.start()
    fill(machine.api)
    machine.api.delete("resourceclaims", "odd", "default")
    assert verb("claims", "--need-driver", "--node", "node-2").returncode == 0
    machine.api.put("nodes", {**node(()), "metadata": {"name": "node-2"}})
    assert "Prepare, Unprepare" in verb("claims", "--need-driver", "--node", "node-2", status=1).stdout
    machine.api.delete("nodes", "node-2")
    text = verb("claims", "--need-driver", "--node", "node-2", status=1).stdout
    assert "default/agentless: there is no Node object node-2, so it isn't known what its kubelet skips." in text


def test_a_slice_that_is_gone(machine, verb):
    machine.api.start()
    fill(machine.api)
    machine.api.delete("resourceclaims", "odd", "default")
    machine.api.delete("resourceslices", f"node-2-{DRIVER}-CNI")
    text = verb("claims", "--need-driver", "--node", "node-2", status=1).stdout
    assert "default/agentless: no slice lists device c0 of pool node-2 any more, so the driver may have" in text


def agentless(machine, count):
    for i in range(count):
        machine.api.put("resourceclaims", claim(f"c{i}", device(f"v{i}", SKIP)))
    machine.api.put("resourceslices", slice_of("CNI", *(f"v{i}" for i in range(count))))


def test_many_pages(machine, verb):
    machine.api.start()
    agentless(machine, 1203)
    machine.api.put("resourceclaims", claim("zz-last", device("p0")))
    assert "1204 live claims" in verb("claims").stdout
    assert machine.api.count(f"GET {CLAIMS}$") == 3
    text = verb("claims", "--need-driver", status=1).stdout
    assert text.splitlines()[1].split()[1] == "default/zz-last"


@pytest.mark.parametrize("path", [CLAIMS, SLICES, NODES])
@pytest.mark.parametrize("page, said", [
    (403, "403"), (404, "404"), (500, "500"),
    (lambda d: {**d, "items": None if d["items"] else []} | {"metadata": {}}, "no whole list: no resourceVersion"),
    (lambda d: {"metadata": d["metadata"]}, "no whole list: no items"),
    (lambda d: {**d, "items": d["items"] + ["x"]}, "no whole list: an item is no object"),
    (lambda d: {**d, "metadata": {**d["metadata"], "continue": 7}}, "no whole list: `continue` is no text"),
    (lambda d: {**d, "metadata": {"resourceVersion": "1", "remainingItemCount": 3}}, "it ends before its end"),
])
def test_a_page_that_is_none(machine, verb, path, page, said):
    """Of each list, in its first page; what came before is no answer either."""
    machine.api.start()
    agentless(machine, 1)
    assert verb("claims", "--need-driver").returncode == 0
    machine.api.pages[path] = [page] * 9
    done = verb("claims", "--need-driver", status=3)
    assert said in done.stderr and path in done.stderr
    assert done.stdout == ""
    assert ("verbs: [list]" in done.stderr) == (page == 403)


@pytest.mark.parametrize("page", [403, 500, lambda d: {"metadata": {"resourceVersion": "1"}}])
def test_an_error_in_the_middle(machine, verb, page):
    machine.api.start()
    agentless(machine, 700)
    machine.api.pages[CLAIMS] = [None] + [page] * 9
    assert verb("claims", "--need-driver", status=3).stdout == ""


def test_history_that_is_gone_in_the_middle(machine, verb):
    """The list begins anew, and nothing of the first attempt is left in it."""
    machine.api.start()
    agentless(machine, 700)
    machine.api.pages[CLAIMS] = [None, 410]
    assert "700 live claims" in verb("claims", "--need-driver").stdout
    assert machine.api.count(f"GET {CLAIMS}$") == 4
    machine.api.pages[CLAIMS] = [None, 410] * 9
    done = verb("claims", "--need-driver", status=3)
    assert "HTTP 410" in done.stderr
    machine.api.pages[CLAIMS] = [410]  # no history was asked for
    assert "HTTP 410" in verb("claims", "--need-driver", status=3).stderr


def test_pages_that_are_too_big(machine, verb):
    """They are asked for in smaller parts."""
    machine.api.start()
    for i in range(40):
        big = claim(f"c{i}", device(f"v{i}", SKIP))
        big["metadata"]["annotations"] = {"x": "y" * 1_000_000}
        machine.api.put("resourceclaims", big)
    machine.api.put("resourceslices", slice_of("CNI", *(f"v{i}" for i in range(40))))
    assert "40 live claims" in verb("claims", "--need-driver").stdout


@pytest.mark.parametrize("broken, said", [
    ({"allocation": []}, "claim default/c0: status.allocation is no object"),
    ({"allocation": {"devices": {"results": [{"request": "nic"}]}}}, "claim default/c0: a device without a driver"),
])
def test_a_claim_that_can_not_be_read(machine, verb, broken, said):
    machine.api.start()
    agentless(machine, 2)
    machine.api.put("resourceclaims", {**claim("c0"), "status": broken})
    assert said.replace("claim default/c0: status", "status") in verb("claims", "--need-driver", status=3).stderr


def test_a_server_that_selects_no_pools(machine, verb):
    """As older ones don't; then all slices are read."""
    machine.api.start()
    agentless(machine, 1)
    machine.api.put("resourceslices", slice_of("NRI", "v0", pool="node-2"))
    machine.api.pages[SLICES] = [400]
    assert verb("claims", "--need-driver", "--node", NODE).returncode == 0
    assert machine.api.count(f"GET {SLICES}$") == 2


def test_a_node_that_is_not_there(machine, verb):
    """A name with a typing error in it has no claims either."""
    machine.api.start()
    agentless(machine, 1)
    said = verb("claims", "--need-driver", "--node", "nod-1", status=3).stderr
    assert said == "sriov-dra claims: there is no node \"nod-1\", and no live claim that was on it\n"


def test_a_driver_that_nobody_knows(machine, verb):
    """Nor does such a driver's name have any. The default one may have been removed already."""
    machine.api.start()
    agentless(machine, 1)
    machine.api.put("nodes", {**node(), "metadata": {"name": "node-2"}})
    machine.api.put("resourceslices", slice_of("NRI", "v0", pool="node-2", driver="idle.example.com"))
    named = ("claims", "--need-driver", "--driver-name")
    said = verb(*named, "sriov-dra.dve", status=3)
    assert said.stdout == ""
    assert said.stderr.startswith('sriov-dra claims: nothing in the cluster knows a driver "sriov-dra.dve": ')
    assert verb(*named, "sriov-dra.dve", "--node", NODE, status=3).stdout == ""
    assert verb(*named, "idle.example.com").stdout == "0 live claims of idle.example.com, 0 need the node driver.\n"
    assert verb(*named, DRIVER, "--node", "node-2").returncode == 0, "its claims are elsewhere"
    assert verb("claims", "--driver-name", "sriov-dra.dve").returncode == 0, "a list is no guard"
    machine.api.delete("resourceslices", f"{NODE}-{DRIVER}-CNI")
    machine.api.delete("resourceclaims", "c0", "default")
    assert verb("claims", "--need-driver").returncode == 0
    assert verb(*named, DRIVER, status=3).stdout == ""


def test_no_server(machine, verb):
    said = verb("claims", "--need-driver", status=3).stderr
    assert re.match(rf"sriov-dra claims: GET {CLAIMS}: http://127.0.0.1:6443: ", said)


def test_no_kubeconfig(machine, verb):
    said = verb("claims", "--need-driver", status=3, kubeconfig=None, HOME=machine.root).stderr
    assert f"no --kubeconfig given: kubeconfig: {machine.root}/.kube/config: No such file or directory" in said
    said = verb("claims", status=3, kubeconfig=None, KUBECONFIG="/a:/b").stderr
    assert "$KUBECONFIG lists several files (/a:/b): name one of them with --kubeconfig" in said
    machine.api.start()
    assert verb("claims", kubeconfig=None, KUBECONFIG=machine.kubeconfig).returncode == 0
    (machine.root / ".kube").mkdir()
    (machine.root / ".kube/config").write_text(machine.kubeconfig.read_text())
    assert verb("claims", kubeconfig=None, HOME=machine.root).returncode == 0


def test_standard_output_that_is_full(machine, verb):
    machine.api.start()
    with open("/dev/full", "wb") as full:
        said = verb("claims", "--need-driver", status=3, stdout=full).stderr
    assert "sriov-dra claims: standard output: No space left on device" in said


@pytest.mark.parametrize("arguments, said", [
    (["--frobnicate"], "unrecognized option '--frobnicate'"),
    (["more"], "unexpected argument: more"),
    (["--output", "xml"], "--output must be text or json: xml"),
    (["--node"], "option '--node' requires an argument"),
    (["--node", ""], "--node must be a node's name: "),
    (["--need-driver", "--node", "a b"], "--node must be a node's name: a b"),
    (["--driver-name", ""], "--driver-name must be a DNS subdomain"),
    (["--driver-name", "Sriov_dra"], "--driver-name must be a DNS subdomain"),
])
def test_usage(verb, arguments, said):
    done = verb("claims", *arguments, status=2, kubeconfig=None)
    assert said in done.stderr and "usage: sriov-dra claims" in done.stderr and done.stdout == ""
