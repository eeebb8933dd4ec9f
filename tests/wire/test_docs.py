# SPDX-License-Identifier: Apache-2.0
"""Code, --help and docs/reference.md agree on verbs, flags, permissions and codes."""
import pathlib
import re
import subprocess

import pytest

import kubelet

TOP = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = (TOP / "docs/reference.md").read_text()
# flags that every verb has, or that are about its output alone
PLAIN = {"help", "output", "verbose"}


def source(*names):
    return "\n".join((TOP / "driver" / name).read_text() for name in names)


def run(*arguments):
    program = kubelet.build_directory() / "sriov-dra"
    return subprocess.run([program, *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout


VERBS = [line.split()[0] for line in run("--help").splitlines()[2:-2]]


def test_verbs():
    assert {"node", "inventory", "claims", "explain", "version"} <= set(VERBS)
    for verb in VERBS:
        assert re.search(rf"`{verb}[ `]", REFERENCE), verb


@pytest.mark.parametrize("verb", [v for v in VERBS if v != "version"])
def test_flags(verb):
    """Each flag of the code is in --help and in the reference, and none is in --help alone."""
    flags = set(re.findall(r"\{\"([a-z-]+)\", (?:no|required)_argument", source(f"cmd_{verb}.c")))
    assert flags
    assert set(re.findall(r"--([a-z][a-z-]*)", run(verb, "--help"))) == flags
    assert [f for f in sorted(flags - PLAIN) if f"--{f}" not in REFERENCE] == []


@pytest.mark.parametrize("verb", ["claims", "explain"])
def test_rules(verb):
    """What a user is told to paste is what the reference says."""
    rules = re.findall(r"^    \"(- \{apiGroups.*\})\\n\"", source(f"cmd_{verb}.c"), re.M)
    assert len(rules) >= 2
    for rule in rules:
        assert rule.replace('\\"', '"') in REFERENCE, rule


def test_codes_of_what_is_missing():
    files = sorted(path.name for path in (TOP / "driver").glob("explain*.c"))
    codes = set(re.findall(r"EXPLAIN_MISSING(?: : EXPLAIN_DONE)?,\s*\"(\w+)\"", source(*files)))
    table = REFERENCE.split("What may be `Missing`:", 1)[1].split("\n\n", 2)[1]
    assert set(re.findall(r"`(\w+)`", table)) == codes
