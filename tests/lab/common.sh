# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034 # variables of the sourcing script
# What the parts of the lab share: where things are, and processes that outlive
# the command that started them. Sourced by `lab` and by the files beside it.
#
# An instance of the lab is a directory, $RUN:
#   env            its settings, KEY=VALUE, written by `up` as its first act
#   pid/PART       the process of each part
#   log/PART.log
#   *.kubeconfig   admin (this machine), driver and one for each node (guests)
#   NODE/          the share that the guest sees as /host

CACHE=${SRIOV_DRA_CACHE:-/var/cache/sriov-dra}

say() { echo "lab: $*" >&2; }
die() { say "$@"; exit 1; }

# The identity of a process is its pid and the instance's directory on its
# command line: a pid alone may have been given to someone else.
process() { # PART: its pid, if it runs
    local pid
    pid=$(cat "$RUN/pid/$1" 2>/dev/null) && [ -n "$pid" ] &&
        grep -qsaF -- "$RUN/" "/proc/$pid/cmdline" && echo "$pid"
}

# The child leaves the session, so that the terminal's ^C doesn't reach it, and
# holds neither the instance's lock nor its starter's output.
spawn() { # PART COMMAND...
    local part=$1
    shift
    setsid "$@" >>"$RUN/log/$part.log" 2>&1 </dev/null 3>&- 9>&- &
    echo $! >"$RUN/pid/$part"
}

terminate() { # PART...: all at once, then wait for each
    local part pid
    for part; do
        ! pid=$(process "$part") || kill "$pid" 2>/dev/null || true
    done
    for part; do
        if pid=$(process "$part"); then
            timeout 10 tail --pid "$pid" -s 0.1 -f /dev/null || kill -9 "$pid" 2>/dev/null || true
        fi
        rm -f "$RUN/pid/$part"
    done
}

parts() { # all that were started
    local file
    for file in "$RUN"/pid/*; do
        [ ! -e "$file" ] || basename "$file"
    done
}

show_tail() { # FILE...
    local file
    for file; do
        [ -s "$file" ] || continue
        echo "--- $file" >&2
        tail -n 12 "$file" >&2
    done
}

all_alive() { # [PART...]: fails, and says why, if one that was started ended by itself
    local part log all=("$@")
    [ $# -gt 0 ] || mapfile -t all < <(parts)
    for part in "${all[@]}"; do
        if [ ! -e "$RUN/pid/$part" ] || process "$part" >/dev/null; then continue; fi
        say "$part ended"
        log=$RUN/log/$part.log
        show_tail "$log" "$RUN/$part/console.log"
        return 1
    done
}

await() { # SECONDS WHAT PARTS COMMAND...: until the command succeeds, while the parts run
    local end=$((SECONDS + $1)) what=$2 parts=$3
    shift 3
    until "$@" >/dev/null 2>&1; do
        # shellcheck disable=SC2086 # a list of words
        all_alive $parts || return 1
        [ $SECONDS -lt "$end" ] || { say "gave up waiting for $what; logs: $RUN/log"; return 1; }
        sleep 0.2
    done
}

kubectl() { "$KUBE" kubectl --kubeconfig "$RUN/admin.kubeconfig" "$@"; }
