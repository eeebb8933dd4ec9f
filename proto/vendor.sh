#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copies the .proto files from the Go module cache, with the edits that README.md lists.
# The versions below are the only place that names them.
set -eu

kubelet=k8s.io/kubelet@v0.37.2
nri=github.com/containerd/nri@v0.12.3

cd "$(dirname "$0")"
cache=$(go env GOMODCACHE)
umask 022

# protoc-c refuses proto3's `optional`; a oneof of one member is what it stands for on the wire.
sed 's/^\( *\)optional string share_id = 5;$/\1oneof share_id_presence { string share_id = 5; }/' \
    "$cache/$kubelet/pkg/apis/dra/v1/api.proto" > dra_v1.proto
grep -q share_id_presence dra_v1.proto

cat "$cache/$kubelet/pkg/apis/dra/v1beta1/api.proto" > dra_v1beta1.proto
cat "$cache/$kubelet/pkg/apis/pluginregistration/v1/api.proto" > pluginregistration_v1.proto
cat "$cache/$nri/pkg/api/api.proto" > nri.proto
