#!/bin/sh
# tools/netns by what it does: who reaches whom, and what is left behind.
#   usage: tests/tools/netns.sh       from the project's root; exit code 77: cannot run here
# shellcheck disable=SC2317  # functions are called through check
set -u
failed=0
mine=t$$
netns() { tools/netns "$@"; }

cleanup() {
    netns down --name "${mine}a"
    netns down --name "${mine}b"
}

check() { # TEXT COMMAND...: the command must succeed
    text=$1
    shift
    if "$@" >"$log" 2>&1; then
        echo "  ok      $text"
    else
        echo "  failed  $text"
        sed 's/^/          /' "$log"
        failed=1
    fi
}

fails() { ! "$@"; }

# Says that something does not happen, which takes as long as one is ready to wait.
patience=10
never() {
    patience=1
    ! "$@"
    result=$?
    patience=10
    return "$result"
}

exits() { # CODE COMMAND...
    code=$1
    shift
    "$@"
    [ $? = "$code" ]
}

until_there() { # FILE: until it has content, for at most ten seconds
    tries=0
    until [ -s "$1" ] || [ "$tries" -ge 200 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
}

# reaches CLUSTER FROM TO: a line there and back over TCP.
reaches() {
    rm -f "$log.server"
    tools/netns exec "$3" --name "$1" -- python3 -c '
import socket
server = socket.create_server(("0.0.0.0", 7700))
server.settimeout(30)
print("ready", flush=True)
peer = server.accept()[0]
peer.sendall(peer.recv(4).upper())' >"$log.server" 2>&1 &
    server=$!
    until_there "$log.server"
    tools/netns exec "$2" --name "$1" -- python3 -c '
import socket, sys
peer = socket.create_connection(("10.77.0." + sys.argv[1], 7700), float(sys.argv[2]))
peer.sendall(b"ping")
sys.exit(peer.recv(4) != b"PING")' $(($3 + 1)) "$patience" 2>&1
    result=$?
    kill "$server" 2>/dev/null
    wait "$server" 2>/dev/null
    return "$result"
}

# hears CLUSTER FROM TO: one of twenty datagrams arrives, which needs no answer.
hears() {
    rm -f "$log.ears"
    tools/netns exec "$3" --name "$1" -- python3 -c '
import socket, sys
ears = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ears.bind(("0.0.0.0", 7701))
ears.settimeout(float(sys.argv[1]))
print("ready", flush=True)
try:
    ears.recv(10)
except TimeoutError:
    sys.exit(1)' "$patience" >"$log.ears" 2>&1 &
    ears=$!
    until_there "$log.ears"
    tools/netns exec "$2" --name "$1" -- python3 -c '
import socket, sys, time
mouth = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(20):
    mouth.sendto(b"hello", ("10.77.0." + sys.argv[1], 7701))
    time.sleep(0.02)' $(($3 + 1)) 2>&1
    wait "$ears"
}

# What a cluster has left: no namespace, no process.
gone() { ! ip netns list | grep "^$1"; }

# Starts a run of NAME in the background that writes the pid of its command to $log.pid.
start_run() {
    rm -f "$log.pid"
    # shellcheck disable=SC2016  # for the inner shell
    tools/netns run 2 --name "$1" -- sh -c 'echo $$ >"$1"; exec sleep 100' sh "$log.pid" &
    owner=$!
    until_there "$log.pid"
}

killed_run_is_cleaned() {
    start_run "${mine}k"
    kill -9 "$owner" "$(cat "$log.pid")"
    wait "$owner" 2>/dev/null
    ip netns list | grep "^${mine}k" || return 1 # there is something to clean
    tools/netns up 1 --name "${mine}a" && gone "${mine}k" && tools/netns down --name "${mine}a"
}

stopped_run_is_cleaned() {
    start_run "${mine}s"
    kill -TERM "$owner"
    wait "$owner"
    [ $? = 143 ] && gone "${mine}s" && fails kill -0 "$(cat "$log.pid")"
}

run_tells_its_nodes() {
    # shellcheck disable=SC2016  # for the inner shell
    tools/netns run 2 --name "${mine}r" -- sh -c '
        [ "$TRIDENT_NODES" = "$TRIDENT_NETNS-0 $TRIDENT_NETNS-1" ] &&
        [ "$TRIDENT_ADDRESSES" = "10.77.0.1 10.77.0.2" ] &&
        tools/netns cut 1 && tools/netns heal 1 &&
        tools/netns exec 1 -- ip address show dev eth0' | grep -F 10.77.0.2/24
}

other_user_runs() {
    copy=$(mktemp -d) && cp tools/netns "$copy" && chmod -R a+rX "$copy"
    # shellcheck disable=SC2016  # for the inner shell
    setpriv --reuid 65534 --regid 65534 --clear-groups "$copy/netns" run 2 --rate 100mbit -- \
        sh -c '"$1" exec 1 -- ip address show dev eth0' sh "$copy/netns" | grep -F 10.77.0.2/24
    result=$?
    rm -rf "$copy"
    return "$result"
}

if [ "$(id -u)" != 0 ]; then
    # The rest of this file, as root over networks of its own.
    tools/netns run 1 --name "${mine}u" -- sh "$0"
    exit
fi
log=$(mktemp)
trap 'cleanup; rm -f "$log" "$log".*' EXIT
# Where the system itself cannot (in a chroot, say), tools/netns cannot either.
if ! { ip netns add "${mine}x" && ip netns exec "${mine}x" true; } 2>"$log"; then
    ip netns del "${mine}x" 2>/dev/null
    echo "skipped: ip netns does not work here: $(head -n 1 "$log")"
    exit 77
fi
ip netns del "${mine}x"
netns run 1 --name "${mine}p" -- true
[ $? != 77 ] || exit 77

unset TRIDENT_NETNS
check "up" netns up 3 --rate 1gbit --name "${mine}a"
check "a second cluster beside it" netns up 2 --name "${mine}b"
check "up twice is refused" exits 1 netns up 3 --name "${mine}a"
check "node 0 reaches node 1" reaches "${mine}a" 0 1
check "so it does in the other cluster" reaches "${mine}b" 0 1
check "both directions are limited" test 2 = "$({ tc -n "${mine}a-1" qdisc show dev eth0 &&
    tc -n "${mine}a-sw" qdisc show dev e1; } | grep -c 'tbf .*rate 1Gbit')"
check "cut" netns cut 1 --name "${mine}a"
check "node 0 does not reach node 1" never reaches "${mine}a" 0 1
check "nodes 0 and 2 are not concerned" reaches "${mine}a" 0 2
check "nor is the other cluster" reaches "${mine}b" 0 1
check "heal" netns heal 1 --name "${mine}a"
check "node 0 reaches node 1 again" reaches "${mine}a" 0 1
check "the limits are back" test 2 = "$({ tc -n "${mine}a-1" qdisc show dev eth0 &&
    tc -n "${mine}a-sw" qdisc show dev e1; } | grep -c 'tbf .*rate 1Gbit')"
check "cut out" netns cut 1 out --name "${mine}a"
check "node 1 is not heard" never hears "${mine}a" 1 0
check "node 1 hears" hears "${mine}a" 0 1
check "heal" netns heal 1 --name "${mine}a"
check "node 1 reaches node 0" reaches "${mine}a" 1 0
check "cut in" netns cut 1 in --name "${mine}a"
check "node 1 is heard" hears "${mine}a" 1 0
check "node 1 does not hear" never hears "${mine}a" 0 1
check "down" netns down --name "${mine}a"
check "nothing of it is left" gone "${mine}a"
check "the other is still there" reaches "${mine}b" 1 0
check "its down" netns down --name "${mine}b"
check "nothing is left" gone "$mine"
check "run tells its nodes and removes them" run_tells_its_nodes
check "run passes the exit code on" exits 7 netns run 1 --name "${mine}r" -- sh -c 'exit 7'
check "nothing is left" gone "$mine"
check "a run stopped by SIGTERM cleans up" stopped_run_is_cleaned
check "a killed run is cleaned up by the next up" killed_run_is_cleaned
check "no such node" exits 1 netns cut 5 --name "${mine}a"
check "no such command" exits 2 netns sideways
check "no nodes" exits 2 netns up 0
[ -z "$(command -v setpriv)" ] || [ -n "${TRIDENT_NODES:-}" ] ||
    check "an ordinary user runs it, too" other_user_runs
exit $failed
