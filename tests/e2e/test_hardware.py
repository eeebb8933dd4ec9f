# SPDX-License-Identifier: Apache-2.0
"""tests/hw on the node's VFs: settings, marks, moves, refusals, and a kill at each request, without Kubernetes around it."""
import shutil

import pytest

from lab import BUILD


@pytest.fixture
def node(lab):
    node = lab.nodes["node1"]
    node.vfs(7)
    shutil.copy(BUILD / "tests" / "hw" / "test-vf-hw", node.share)
    yield node
    node.vfs(7)


# The order matters little; made_while_pf_down makes the VFs anew and runs only when named.
@pytest.mark.parametrize("only", ["", "made_while_pf_down"], ids=["all", "made_while_pf_down"])
def test_vf_hw(node, only):
    done = node.result(f"/host/test-vf-hw {only}", timeout=300)
    print(done.stdout)
    assert done.returncode == 0 and "not ok" not in done.stdout
    assert done.stdout.count("\nok ") == 12
