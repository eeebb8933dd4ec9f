# SPDX-License-Identifier: Apache-2.0
"""A page of docs/ that is carried out as it is written.

A ```console block is carried out line by line: after `$ ` by a shell on this machine, after `NODE# ` by one on that
node; what follows is the output to be seen. A yaml or sh block whose first line is `# FILE`, or `# FILE on NODE, NODE`,
is that file (several such lines: several files). All other blocks are refused: nothing is left out.

In output, a line `...` is any number of lines and `...` in a line is anything; the amount of white space doesn't count.
A command that only looks is run again until its output is as written. Each must succeed.
"""
import re

from lab import LabError, wait_for

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
