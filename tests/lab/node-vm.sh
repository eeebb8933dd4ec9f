# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # variables shared with the sourcing script
# A Kubernetes node in QEMU with two igb ports, 7 VFs each, joined by a hub, so
# that traffic between VFs is real traffic. Sourced by `lab`.

kubelet_port() { echo $((KUBELET_PORT + ${1//[!0-9]/} - 1)); } # NODE

node_share() { # NODE: what the guest sees as /host
    local share=$RUN/$1
    mkdir -p "$share"/{cmd,log}
    cp "$lab"/guest/{node.sh,service.sh,containerd,kubelet,vfs,containerd.toml,10-lab.conflist} "$share/"
    cp "$IMAGES/images.tar" "$share/"
    cp "$RUN/$1.kubeconfig" "$share/kubelet.kubeconfig"
    cp "$RUN/driver.kubeconfig" "$share/"
    printf '%s\n' "API_PORT=$API_PORT" "VFS=$VFS" >"$share/env"
    kubelet_config "$1"
}

kubelet_config() { # NODE
    cat >"$RUN/$1/kubelet.yaml" <<K
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
clusterDNS: [10.96.0.10]
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
evictionHard: {memory.available: 50Mi, nodefs.available: "1%", imagefs.available: "1%"}
failSwapOn: false
featureGates: {${KUBELET_GATES//=/: }}
port: $(kubelet_port "$1")
K
}

# The accelerator is TCG everywhere, so that a run means the same on each
# machine. On a busy one the kernel's look at the timer interrupt, which has a few
# ticks to come, may fail and panic at boot: it is left out (no_timer_check). With
# more than 2815 MB the VFs' registers land above 4 GiB, where QEMU's igb doesn't
# answer. All nodes have the same addresses; each has a network of its own and
# reaches nothing but this machine's loopback.
#
# What an emulated CPU would spend much on, and nothing here needs: a fifth level of
# page tables, wide registers at each switch, checks at each system call.
lean=-la57,-smap,-smep,-pku,-pks,-xsave,-avx,-avx2,-fma,-f16c

node_start() { # NODE
    local share=$RUN/$1 port up
    port=$(kubelet_port "$1")
    up=user,id=up,hostfwd=tcp:127.0.0.1:$port-:$port
    node_share "$1"
    spawn "$1" qemu-system-x86_64 -name "$1" -M q35,kernel-irqchip=split -accel tcg,thread=multi \
        -cpu "max,$lean" -smp 2 -m "$MEMORY" -nodefaults -nographic -monitor none \
        -serial "file:$share/console.log" -kernel "$BOOT/vmlinuz" -initrd "$BOOT/initrd.gz" \
        -append "console=ttyS0 quiet panic=1 no_timer_check mitigations=off intel_iommu=on lab.node=$1" \
        -device intel-iommu,intremap=on \
        -drive "file=$BOOT/root.img,if=virtio,format=raw,snapshot=on" \
        -netdev "$up" -device virtio-net-pci,netdev=up,romfile= \
        -netdev hubport,id=h0,hubid=1 -device pcie-root-port,id=rp0,slot=1 \
        -device igb,netdev=h0,bus=rp0,mac=52:54:00:00:01:00,romfile= \
        -netdev hubport,id=h1,hubid=1 -device pcie-root-port,id=rp1,slot=2 \
        -device igb,netdev=h1,bus=rp1,mac=52:54:00:00:02:00,romfile= \
        -virtfs "local,path=$share,mount_tag=host,security_model=none,id=host"
}

node_is_ready() { # NODE
    [ "$(kubectl get node "$1" -o \
        'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]
}

# The boot script's mark costs nothing to look at while the guest needs the CPU.
# QEMU 10 under TCG ends with a failed assertion (iotlb_to_section) in one boot
# of many, when a CPU looks at the memory map while another CPU changes it.
node_await() { # NODE: Ready, its VFs made, its command loop answering
    local parts="${control_plane_parts[*]} $1" n
    for n in 1 2 3; do
        ! await 900 "$1's boot script" "$parts" test -e "$RUN/$1/booted" || break
        if [ $n = 3 ] || process "$1" >/dev/null || ! grep -qs Assertion "$RUN/log/$1.log"; then
            node_logs "$1"
            return 1
        fi
        say "starting $1 once more"
        node_start "$1"
    done
    { await 600 "node $1 to be Ready" "$parts" node_is_ready "$1" &&
        LAB_TIMEOUT=60 node_run "$1" <<<true; } || { node_logs "$1"; return 1; }
}

node_declares() { # NODE: what KUBELET_GATES says of the feature that skipping needs
    local declared
    declared=$(kubectl get node "$1" -o 'jsonpath={.status.declaredFeatures}')
    case $KUBELET_GATES in
    *DRAOptionalNodeOperations=true*) [[ $declared == *DRAOptionalNodeOperations* ]] ;;
    *) [[ $declared != *DRAOptionalNodeOperations* ]] ;;
    esac
}

kubelet_gates() { # NODE: its kubelet with KUBELET_GATES
    local parts="${control_plane_parts[*]} $1"
    kubelet_config "$1"
    LAB_TIMEOUT=90 node_run "$1" <<<"/host/kubelet restart"
    await 120 "the gates of $1's kubelet to show" "$parts" node_declares "$1"
    await 120 "node $1 to be Ready" "$parts" node_is_ready "$1"
}

node_logs() { # NODE
    show_tail "$RUN/log/$1.log" "$RUN/$1"/{console.log,log/containerd.log,log/kubelet.log}
}

# The guest runs every script that appears in cmd/ as ID.SECONDS.sh and leaves
# ID.SECONDS.out, .err and .rc.
node_run() { # NODE: the script is standard input; status 124 if out of time
    local seconds=${LAB_TIMEOUT:-120} job rc=124 end
    process "$1" >/dev/null || { say "$1 doesn't run"; return 1; }
    job=$RUN/$1/cmd/$BASHPID-$RANDOM.$seconds
    cat >"$job.tmp" && mv "$job.tmp" "$job.sh"
    end=$((SECONDS + seconds + 10))
    until [ -e "$job.rc" ]; do
        process "$1" >/dev/null || { say "$1 ended"; break; }
        [ $SECONDS -lt $end ] || { say "no answer from $1 in $seconds s"; break; }
        sleep 0.05
    done
    cat "$job.out" 2>/dev/null || true
    cat "$job.err" >&2 2>/dev/null || true
    [ ! -e "$job.rc" ] || rc=$(<"$job.rc")
    rm -f "$job".*
    return "$rc"
}
