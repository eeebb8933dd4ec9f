#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Starts what a real node runs: its physical functions, containerd and kubelet.
# shellcheck disable=SC1091 # written by node-vm.sh
. /host/env
rm -f /host/booted
mkdir -p /run/lab /etc/cni/net.d /etc/containerd /var/lib/kubelet
cp /host/10-lab.conflist /etc/cni/net.d/
cp /host/containerd.toml /etc/containerd/config.toml
sysctl -qw net.ipv4.ip_forward=1
# There is no kube-proxy: send the API service's address to the host.
nft -f - <<N
table ip lab {
    chain out { type nat hook output priority -100; ip daddr 10.96.0.1 tcp dport 443 dnat to 10.0.2.2:$API_PORT; }
    chain pre { type nat hook prerouting priority -100; ip daddr 10.96.0.1 tcp dport 443 dnat to 10.0.2.2:$API_PORT; }
    chain post { type nat hook postrouting priority 100; ip saddr 10.88.0.0/16 ip daddr 10.0.2.0/24 masquerade; }
}
N
/host/containerd start
ctr -n k8s.io images import --local /host/images.tar >/dev/null &
import=$!
/host/vfs "$VFS" && /host/kubelet start && wait $import && cut -d' ' -f1 /proc/uptime >/host/booted
echo "lab: node started at $(cut -d' ' -f1 /proc/uptime)s"
