# SPDX-License-Identifier: BSD-2-Clause
# Shared by the start/stop scripts. The driver sets:
#   PEER_DIR   scratch directory of this server (logs, pid files, sockets)
#   PEER_PORT  first of ten loopback ports this server may use
#   WORKERS    worker processes or threads, where the server has them
#   PROGRAMS   where the harness programs were built
#   MODULE, NGINX_BINARY   ours, and the nginx to load it
# shellcheck shell=bash
set -eu
: "${PEER_DIR:?}" "${PEER_PORT:?}" "${WORKERS:=1}" "${PROGRAMS:?}"
HERE=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$PEER_DIR"
ulimit -Sn "$(ulimit -Hn)" 2>/dev/null || true

wait_port() { # port: until something listens there, 10 s at most
    local _
    for _ in $(seq 200); do
        (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return 0
        sleep 0.05
    done
    echo "nothing listens on port $1" >&2
    return 1
}

render() { # template: fills in @PORT@ and so on
    sed -e "s|@DIR@|$PEER_DIR|g" -e "s|@PORT@|$PEER_PORT|g" -e "s|@PORT1@|$((PEER_PORT + 1))|g" \
        -e "s|@PORT2@|$((PEER_PORT + 2))|g" -e "s|@PORT3@|$((PEER_PORT + 3))|g" -e "s|@PORT4@|$((PEER_PORT + 4))|g" \
        -e "s|@PORT5@|$((PEER_PORT + 5))|g" -e "s|@WORKERS@|$WORKERS|g" -e "s|@MODULE@|${MODULE:-}|g" \
        -e "s|@GATE@|${GATE:-}|g" "$1"
}

start_nginx() { # name [template]: renders NAME.conf.in, or peers/TEMPLATE.conf.in; a daemon with NAME.pid
    mkdir -p "$PEER_DIR/tmp"
    render "${2:+$HERE/../}${2:-$HERE/$1}.conf.in" > "$PEER_DIR/$1.conf"
    "${NGINX_BINARY:-nginx}" -p "$PEER_DIR" -e "$PEER_DIR/$1.err" -c "$PEER_DIR/$1.conf"
}

stop_pids() { # file...: ends exactly the processes named there and waits for them
    local f p _
    for f in "$@"; do
        [ -s "$f" ] || continue
        for p in $(cat "$f"); do
            kill "$p" 2>/dev/null || continue
            for _ in $(seq 100); do kill -0 "$p" 2>/dev/null || break; sleep 0.05; done
            if kill -0 "$p" 2>/dev/null; then kill -9 "$p" 2>/dev/null || true; fi
        done
        rm -f "$f"
    done
}
