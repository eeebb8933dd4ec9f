# SPDX-License-Identifier: Apache-2.0
"""`claims` and `explain` on a real cluster, as a user with no more than the permissions that the reference lists."""
import json
import re

import pytest

from lab import CHECKOUT, DRIVER, command, wait_for
from objects import PREPARE_PF, SKIP_PF, claim, device_class, pool, provision, vf_of_claim

RULES = "\n".join(re.findall(r"^- \{apiGroups.*\}$", (CHECKOUT / "docs/reference.md").read_text(), re.M))
USER = f"""
apiVersion: v1
kind: ServiceAccount
metadata: {{name: verbs, namespace: default}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: verbs}}
rules:
{RULES}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: verbs}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: verbs}}
subjects: [{{kind: ServiceAccount, name: verbs, namespace: default}}]
"""


@pytest.fixture(name="user")
def fixture_user(lab):
    """kubeconfigs of a user of the verbs: on this machine, and in the guest."""
    lab.apply(USER)
    token = lab.kubectl("create", "token", "verbs").strip()
    paths = []
    for model, path in ((lab.dir / "admin.kubeconfig", lab.dir / "verbs.kubeconfig"),
                        (lab.dir / "driver.kubeconfig", lab.nodes["node1"].share / "verbs.kubeconfig")):
        text = re.sub(r"user: \{[^{}]*\}", f"user: {{token: {token}}}", model.read_text())
        assert token in text
        path.write_text(text)
        paths.append(path)
    return paths


@pytest.fixture(name="driver")
def fixture_driver(lab, drivers):
    """One pool of each kind, and a pod on each."""
    driver, node = drivers(), lab.nodes["node1"]
    provision(node)
    lab.apply([device_class("vf-prepare", "Prepare"), device_class("vf-defer", "DeferCleanup")])
    for name, attach in (("vf-skip", "NRI"), ("vf-none", "None")):
        one = device_class(name, "Skip")
        one["spec"]["selectors"][0]["cel"]["expression"] += \
            f' && device.attributes["{DRIVER}"].attach == "{attach}"'
        lab.apply(one)
    driver.start([pool("prepared", PREPARE_PF, "Prepare", "0-2"), pool("deferred", PREPARE_PF, "DeferCleanup", "3-6"),
                  pool("storage", SKIP_PF, "Skip", "0-3", settings={"vlan": {"id": 100}}),
                  pool("bare", SKIP_PF, "Skip", "4-6", attach="None")])
    lab.wait_slices(14)
    settings = {"macAddress": "52:54:00:ab:cd:01", "vlan": {"id": 100}}
    lab.apply([claim("prepare", "vf-prepare", settings, {"name": "net1", "addresses": ["192.0.2.1/24"]}),
               claim("defer", "vf-defer", None, {"name": "net1"}), claim("skip", "vf-skip", None, {"name": "net1"}),
               claim("none", "vf-none")])
    for name in ("prepare", "defer", "skip", "none"):
        lab.pod(name, [name])
    for name in ("prepare", "defer", "skip", "none"):
        lab.wait_pod(name)
    for name in ("prepare", "defer", "skip"):
        wait_for(lambda n=name: lab.get("resourceclaim", n)["status"].get("devices"), 20, f"status of {name}")
    return driver


def run_here(driver, user, *arguments, status=0):
    done = command([driver.binary, *arguments, "--kubeconfig", user[0]], check=False)
    assert done.returncode == status, f"{done.stdout}{done.stderr}"
    return done.stdout


def run_there(driver, *arguments, status=0):
    done = driver.verb(*arguments, check=False)
    assert done.returncode == status, f"{done.stdout}{done.stderr}"
    return done.stdout


def explained(driver, *arguments, status=0):
    return json.loads(run_there(driver, "explain", "-o", "json", *arguments, "--kubeconfig", "/host/verbs.kubeconfig",
                                "--node-name", "node1", "--state-dir", driver.state, status=status))


def codes(document, part="Missing"):
    return [fact["code"] for fact in document["facts"] if fact["part"] == part]


@pytest.mark.contract
def test_the_driver_is_removed_only_where_nothing_needs_it(lab, driver, user):
    document = json.loads(run_here(driver, user, "claims", "-o", "json"))
    assert {c["name"]: (c["mode"], c["needs"]) for c in document["claims"]} == {
        "prepare": ("Prepare", ["Unprepare", "Attachment"]), "defer": ("DeferCleanup", ["Attachment", "CleanUp"]),
        "skip": ("Skip", ["Attachment", "CleanUp"]), "none": ("Skip", [])}
    assert {c["node"] for c in document["claims"]} == {"node1"}
    text = run_here(driver, user, "claims", "--need-driver", "--node", "node1", status=1)
    assert "default/none" not in text and "4 live claims" in text and ", 3 need the node driver" in text
    for name in ("prepare", "defer", "skip"):
        lab.delete("pod", name)
    wait_for(lambda: command([driver.binary, "claims", "--need-driver", "--kubeconfig", user[0]],
                             check=False).returncode == 0, 30, "no claim needs the driver")
    driver.stop()
    lab.delete("pod", "none", timeout=30)


def test_explained_on_the_node(lab, driver, user):
    node = lab.nodes["node1"]
    for name, end in (("prepare", "EndByCall"), ("defer", "EndDeferred"), ("skip", "EndSeen"), ("none", "EndByOthers")):
        pod = explained(driver, f"pod/{name}")
        of, = pod["claims"]
        assert (pod["fine"], of["name"], of["node"], codes(of, "End")[0]) == (True, name, "node1", end)
        assert codes(of, "Now") == ["PfEntry", "Home" if name == "none" else "InPod", "AsAsked"]
    vf = vf_of_claim(lab, node, "prepare")
    assert [c["name"] for c in explained(driver, f"vf/{vf.address}")["claims"]] == ["prepare"]
    node.run(f"ip link set {vf.pf} vf {vf.index} vlan 0")
    of = explained(driver, "claim/prepare", status=1)
    differs, = [fact["text"] for fact in of["facts"] if fact["code"] == "Differs"]
    assert differs == f"VF {vf.address} isn't as it was set for this claim: vlan: 0, want 100."
    node.run(f"ip link set {vf.pf} vf {vf.index} vlan 100")
    # with nothing but the node
    alone = json.loads(run_there(driver, "explain", "-o", "json", "claim/prepare", "--kubeconfig", "/nowhere",
                                 "--state-dir", driver.state, status=1))
    assert (codes(alone), codes(alone, "Now")) == (["NoApi"], ["PfEntry", "InPod", "AsAsked"])


def test_why_a_pod_is_pending(lab, driver, user):
    one = claim("wants", "vf-skip")
    one["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [
        {"cel": {"expression": f'device.attributes["{DRIVER}"].vlan == 7'}}]
    lab.apply(one)
    lab.pod("wants", ["wants"])
    wait_for(lambda: "cannot allocate" in run_here(driver, user, "explain", "pod/wants", status=1), 30,
             "the scheduler has said why")
    document = json.loads(run_here(driver, user, "explain", "-o", "json", "pod/wants", status=1))
    assert codes(document) == ["Scheduler"]
    assert codes(document["claims"][0]) == ["NoneMatches", "SchedulerGate"]
