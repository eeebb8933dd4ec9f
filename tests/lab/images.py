#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the lab's two container images as archives for `ctr images import`."""
import hashlib, io, json, os, subprocess, sys, tarfile, tempfile

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


def image(path, tag, rootfs, config):
    digest = hashlib.sha256(rootfs).hexdigest()
    doc = json.dumps({"architecture": "amd64", "os": "linux", "config": config,
                      "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]}}).encode()
    name = hashlib.sha256(doc).hexdigest() + ".json"
    manifest = [{"Config": name, "RepoTags": [tag], "Layers": [digest + "/layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        add(tar, name, doc)
        add(tar, digest + "/layer.tar", rootfs)
        add(tar, "manifest.json", json.dumps(manifest).encode())


def main(out):
    os.makedirs(out + "/images", exist_ok=True)
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run(["gcc", "-static", "-Os", "-s", "-x", "c", "-", "-o", tmp + "/pause"], input=PAUSE.encode(), check=True)
        pause = open(tmp + "/pause", "rb").read()
    busybox = open("/bin/busybox", "rb").read()
    applets = subprocess.check_output(["/bin/busybox", "--list"], text=True).split()
    image(out + "/images/pause.tar", "lab.local/pause:1", layer({"pause": pause}, {}), {"Entrypoint": ["/pause"]})
    image(out + "/images/busybox.tar", "lab.local/busybox:1",
          layer({"bin/busybox": busybox}, {"bin/" + a: "busybox" for a in applets if a != "busybox"}),
          {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin"]})


main(sys.argv[1])
