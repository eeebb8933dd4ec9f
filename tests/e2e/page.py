# SPDX-License-Identifier: Apache-2.0
"""A page of docs/ that is carried out as it is written.

A ```console block is carried out line by line: after `$ ` by a shell on this machine, after `NODE# ` by one on that
node; what follows is the output to be seen. A yaml or sh block whose first line is `# FILE`, or `# FILE on NODE, NODE`,
is that file (several such lines: several files). All other blocks are refused: nothing is left out.

In output, a line `...` is any number of lines and `...` in a line is anything; the amount of white space doesn't count.
A command that only looks is run again until its output is as written. Each must succeed.
"""
import os
import re
import subprocess
import time

from lab import BUILD, CHECKOUT, LabError, wait_for

LOOKS = re.compile(r"(sh vfs|kubectl get|sriov-dra claims|sriov-dra provision .*--dry-run)\b")


class Command:
    def __init__(self, node, text):
        self.node, self.text, self.output = node, text, []

    def __str__(self):
        return f"{self.node or ''}{'# ' if self.node else '$ '}{self.text}"


class File:
    def __init__(self, node, path, text):
        self.node, self.path, self.text = node, path, text


def parse(text):
    """[(heading, [Command or File])] in the order of the page."""
    sections = [("", [])]
    for heading, kind, body in re.findall(r"^(?:#+ ([^\n]*)|```(\w*)\n(.*?)^```)$", text, re.M | re.S):
        if heading:
            sections.append((heading, []))
        elif kind == "console":
            sections[-1][1].extend(commands(body))
        elif kind in ("yaml", "sh"):
            sections[-1][1].extend(files(body))
        else:
            raise LabError(f"a block of {heading!r} that can't be carried out: {body}")
    return sections


def commands(body):
    found = []
    for line in body.splitlines():
        prompt = re.match(r"(?:\$|([\w-]+)#) (.*)", line)
        if prompt:
            found.append(Command(prompt[1], prompt[2]))
        else:
            found[-1].output.append(line)
    return found


def files(body):
    found = []
    lines = body.splitlines()
    while named := re.fullmatch(r"# (\S+)(?: on ([\w, -]+))?", lines[0]):
        for node in named[2].split(", ") if named[2] else [None]:
            found.append((node, named[1]))
        lines.pop(0)
    if not found:
        raise LabError(f"a block without its file's name: {body}")
    return [File(node, path, "\n".join(lines) + "\n") for node, path in found]


def matches(expected, output):
    """Whether the output is what is written."""
    def pattern(line):
        return r"[^\n]*".join(re.escape(part) for part in re.sub(r"\s+", " ", line.strip()).split("..."))

    text = "".join(re.sub(r"[ \t]+", " ", line).strip() + "\n" for line in output.splitlines())
    whole = "".join(r"(?:[^\n]*\n)*?" if line.strip() == "..." else pattern(line) + r"\n" for line in expected)
    return re.fullmatch(whole, text) is not None


def carry_out(command, run, timeout=90):
    """`run(command)` returns (status, output). Returns the output that was as written."""
    last = [None, ""]

    def once():
        last[:] = run(command)
        if last[0] != 0 and not LOOKS.search(command.text):
            raise LabError(f"{command}: status {last[0]}\n{last[1]}")
        return last[0] == 0 and (not command.output or matches(command.output, last[1]))

    def why():
        return f"{command}\nsays\n" + "\n".join(command.output) + f"\nit ended with {last[0]} and said\n{last[1]}"

    if LOOKS.search(command.text):
        wait_for(once, timeout, why, interval=0.5)
    elif not once():
        raise LabError(f"not so: {why()}")
    return last[1]


class Operator:
    """Carries pages out, in a folder of its own: with `deploy` of the checkout, and kubectl and sriov-dra set to the lab."""

    def __init__(self, lab, home):
        self.lab, self.home = lab, home
        (home / "deploy").symlink_to(CHECKOUT / "deploy")
        bin_dir = home / "bin"
        bin_dir.mkdir()
        (bin_dir / "kubectl").write_text(f'#!/bin/sh\nexec {lab.env["KUBE"]} kubectl "$@"\n')
        (bin_dir / "kubectl").chmod(0o755)
        (bin_dir / "sriov-dra").symlink_to(os.environ.get("SRIOV_DRA", BUILD / "sriov-dra"))
        self.env = {**os.environ, "PATH": f"{bin_dir}:{os.environ['PATH']}", "KUBECONFIG": str(lab.dir / "admin.kubeconfig")}

    def run(self, command):
        """(status, output)"""
        if command.node:
            done = self.lab.nodes[command.node].result(f"exec 2>&1\ncd /root\n{command.text}", timeout=90)
        else:
            done = subprocess.run(["bash", "-c", f"exec 2>&1\n{command.text}"], cwd=self.home, env=self.env, text=True, timeout=300,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False)
        return done.returncode, done.stdout

    def step(self, step):
        if not isinstance(step, File):
            began = time.monotonic()
            output = carry_out(step, self.run)
            print(f"[{time.monotonic() - began:.1f} s] {step}\n{output}", end="")
        elif step.node:
            node = self.lab.nodes[step.node]
            (node.share / "page-file").write_text(step.text)
            node.run(f"install -D -m644 /host/page-file {step.path}")
        else:
            (self.home / step.path).parent.mkdir(exist_ok=True)
            (self.home / step.path).write_text(step.text)

    def whole(self, path, here, at):
        """A page from start to end. `here`: what stands for its names. `at`: what is done as a section begins, by its
        heading."""
        at = dict(at)
        text = path.read_text(encoding="utf-8")
        for name, ours in here.items():
            assert name in text, f"{path} has no {name!r} any more"
            text = text.replace(name, ours)
        for heading, steps in parse(text):
            at.pop(heading, lambda: None)()
            for step in steps:
                self.step(step)
        assert not at, "headings that the page no longer has"
