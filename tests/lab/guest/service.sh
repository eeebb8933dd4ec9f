# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # $command is the sourcing script's
# start, stop and restart of one daemon in the guest. Sourced by the scripts
# named after the daemons, which set `command` and may define `ready`.

name=$(basename "$0")
pidfile=/run/lab/$name.pid
ready() { :; }

running() { kill -0 "$(cat "$pidfile" 2>/dev/null)" 2>/dev/null; }

start() {
    ! running || return 0
    mkdir -p /run/lab
    setsid "${command[@]}" >>"/host/log/$name.log" 2>&1 </dev/null &
    echo $! >"$pidfile"
    local n
    for ((n = 0; n < 300; n++)); do
        if ready; then return 0; fi
        running || { echo "$name ended: /host/log/$name.log" >&2; return 1; }
        sleep 0.2
    done
    echo "$name isn't ready after 60 s" >&2
    return 1
}

stop() { # containers go on, as on a real node
    running || return 0
    local pid n
    pid=$(cat "$pidfile")
    kill "$pid"
    for ((n = 0; n < 200; n++)); do
        running || { rm "$pidfile"; return 0; }
        sleep 0.1
    done
    kill -9 "$pid"
    rm "$pidfile"
}

service() {
    case ${1:-} in
    start | stop) "$1" ;;
    restart) stop && start ;;
    *) echo "usage: $name start|stop|restart" >&2 && exit 2 ;;
    esac
}
