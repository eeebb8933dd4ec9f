#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""images.py FILE: the lab's two container images in one archive for `ctr images import`."""
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile

PAUSE = r"""
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void stop(int s) { (void)s; _exit(0); }
static void reap(int s) { (void)s; while (waitpid(-1, 0, WNOHANG) > 0); }
int main(void) { signal(SIGTERM, stop); signal(SIGINT, stop); signal(SIGCHLD, reap); for (;;) pause(); }
"""


def add(tar, name, data=b"", **attrs):
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o755
    for key, value in attrs.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data))


def layer(files, links):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for d in ("bin", "dev", "etc", "proc", "sys", "tmp"):
            add(tar, d, type=tarfile.DIRTYPE)
        for name, data in files.items():
            add(tar, name, data)
        for name, target in links.items():
            add(tar, name, type=tarfile.SYMTYPE, linkname=target)
    return out.getvalue()


def image(tar, tag, rootfs, config):
    """Adds an image to the archive; returns its entry of manifest.json."""
    digest = hashlib.sha256(rootfs).hexdigest()
    doc = json.dumps({"architecture": "amd64", "os": "linux", "config": config,
                      "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]}}).encode()
    name = hashlib.sha256(doc).hexdigest() + ".json"
    add(tar, name, doc)
    add(tar, digest + "/layer.tar", rootfs)
    return {"Config": name, "RepoTags": [tag], "Layers": [digest + "/layer.tar"]}


def main(out):
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run(["gcc", "-static", "-Os", "-s", "-x", "c", "-", "-o", tmp + "/pause"],
                       input=PAUSE.encode(), check=True)
        with open(tmp + "/pause", "rb") as file:
            pause = file.read()
    with open("/bin/busybox", "rb") as file:
        busybox = file.read()
    applets = subprocess.check_output(["/bin/busybox", "--list"], text=True).split()
    links = {"bin/" + a: "busybox" for a in applets if a != "busybox"}
    with tarfile.open(out, "w") as tar:
        manifest = [image(tar, "lab.local/pause:1", layer({"pause": pause}, {}), {"Entrypoint": ["/pause"]}),
                    image(tar, "lab.local/busybox:1", layer({"bin/busybox": busybox}, links),
                          {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]})]
        add(tar, "manifest.json", json.dumps(manifest).encode())


main(sys.argv[1])
