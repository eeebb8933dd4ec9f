# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # $lab is the sourcing script's
# Builds what the lab runs, into $CACHE/PART-KEY. The key is a hash of all that
# the part is made from, the function that makes it included: what is there is
# right, and checkouts share it. Cold: about 12 minutes on 2 cores, most of it
# one Go build. Sourced by `lab`.

# shellcheck source=tests/lab/debian.sh
. "$lab/debian.sh"

# The driver's shared libraries, what a node runs, and what tests look with.
guest_packages=("linux-image-amd64/$release-backports" runc containernetworking-plugins udev kmod
    pciutils iproute2 ethtool nftables mount procps strace ca-certificates busybox-static tcpdump
    iputils-ping libgrpc29 libprotobuf-c1 libnl-3-200 libnl-route-3-200 libnl-genl-3-200 libpci3
    libcurl4 libjansson4 libmicrohttpd12 libyaml-0-2)

# etcd, control plane, kubelet and kubectl in one program.
make_kube() { # DIR
    local v=k8s.io/component-base/version
    cd "$lab/kube" && CGO_ENABLED=0 go build -trimpath -o "$1/kube" -ldflags \
        "-s -w -X $v.gitVersion=v1.37.2 -X $v.gitMajor=1 -X $v.gitMinor=37" .
}

make_runtime() { # DIR
    cd "$lab/runtime" && CGO_ENABLED=0 go build -trimpath -o "$1/" -ldflags "-s -w" \
        github.com/containerd/containerd/v2/cmd/{containerd,containerd-shim-runc-v2,ctr} \
        sigs.k8s.io/cri-tools/cmd/crictl
}

# The kernel goes in like any package, so that depmod runs. It comes from
# backports: 6.12 has igbvf, vfio and intel_iommu as the tests expect them.
make_rootfs() { # DIR
    local from
    from=$(mirror)
    mmdebstrap --quiet --variant=minbase --aptopt='Apt::Install-Recommends "false"' \
        --include="$(IFS=,; echo "${guest_packages[*]}")" "$release" "$1/rootfs.tar" \
        "deb $from $release main" "deb $from $release-backports main"
}

make_images() { # DIR
    /usr/bin/python3 "$lab/images.py" "$1/images.tar"
}

# Kernel, initrd and one ext4 image, which each boot uses through a throw-away
# overlay.
make_boot() { # DIR
    local root=$1/root
    mkdir "$root" && tar xf "$(built rootfs)/rootfs.tar" -C "$root"
    cp "$root"/boot/vmlinuz-* "$1/vmlinuz"
    rm -rf "${root:?}"/boot/* "$root"/usr/share/{doc,man,locale}
    install -m755 "$(built runtime)"/* "$(built kube)/kube" "$root/usr/local/bin/"
    install -m755 "$lab/guest/init" "$root/lab-init"
    make_initrd "$1" "$root"
    truncate -s "$(($(du -sm "$root" | cut -f1) + 1500))M" "$1/root.img"
    mke2fs -q -t ext4 -O ^has_journal -d "$root" "$1/root.img"
    rm -rf "$root"
}

make_initrd() { # DIR ROOT: busybox and the modules that mount the root disk
    local dir=$1/initrd root=$2 version n=0 file
    version=$(ls "$root/lib/modules")
    mkdir -p "$dir"/{bin,lib,proc,sys,dev,new}
    cp /bin/busybox "$dir/bin/busybox" && ln -s busybox "$dir/bin/sh"
    for module in ext4 virtio_blk; do
        modprobe -d "$root" -S "$version" --show-depends "$module"
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
        n=$((n + 1))
        xz -dc "$file" >"$dir/lib/$(printf %02d $n)-$(basename "${file%.xz}")"
    done
    install -m755 "$lab/guest/initrd-init" "$dir/init"
    (cd "$dir" && find . | cpio -o -H newc --quiet | gzip -1) >"$1/initrd.gz"
    rm -rf "$dir"
}

inputs() { # PART: what its key is made from
    declare -f "make_$1"
    case $1 in
    kube) go env GOVERSION && cat "$lab"/kube/{go.mod,go.sum,main.go} ;;
    runtime) go env GOVERSION && cat "$lab"/runtime/{go.mod,go.sum,tools.go} ;;
    rootfs) echo "$release ${guest_packages[*]}" ;;
    images) sha256sum /bin/busybox && cat "$lab/images.py" ;;
    boot)
        declare -f make_initrd
        key kube && key runtime && key rootfs && sha256sum /bin/busybox
        cat "$lab"/guest/{init,initrd-init}
        ;;
    esac
}

key() { inputs "$1" | sha256sum | cut -c1-16; }
built() { echo "$CACHE/$1-$(key "$1")"; } # PART: its directory

# One builder at a time: whoever waits finds the work done. A builder that was
# killed leaves .tmp.*, which the next one removes under the same lock.
build() { # [PART...]: all, if none is named
    local part dir need=()
    [ $# -gt 0 ] || set -- kube runtime rootfs images boot
    for part; do
        dir=$(built "$part")
        if [ -e "$dir" ]; then touch "$dir"; else need+=("$part"); fi
    done
    [ ${#need[@]} -gt 0 ] || return 0
    mkdir -p "$CACHE"
    (
        flock -n 8 || { say "waiting for another build"; flock 8; }
        rm -rf "$CACHE"/.tmp.*
        for part in "${need[@]}"; do make "$part"; done
        # Parts of other keys that no checkout used for two weeks.
        find "$CACHE" -mindepth 1 -maxdepth 1 -type d -mtime +14 \
            -regex '.*/\(kube\|runtime\|rootfs\|images\|boot\)-[0-9a-f]+' -exec rm -rf {} +
    ) 8>"$CACHE/lock"
}

make() { # PART
    local dir tmp log=$CACHE/$1.log start=$SECONDS pid
    dir=$(built "$1") tmp=$CACHE/.tmp.$1
    [ ! -e "$dir" ] || return 0
    say "building $1 into $dir (log: $log)"
    mkdir "$tmp"
    # In a process group of its own, so that an interrupted build ends whole.
    set -m
    (set -e && "make_$1" "$tmp") >"$log" 2>&1 9>&- &
    pid=$!
    set +m
    trap 'kill -- -$pid 2>/dev/null; wait $pid; rm -rf "$tmp"; exit 130' INT TERM
    if ! wait $pid; then
        rm -rf "$tmp"
        show_tail "$log"
        die "$1 can't be built"
    fi
    trap - INT TERM
    mv "$tmp" "$dir"
    say "built $1 in $((SECONDS - start)) s"
}
