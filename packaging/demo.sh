#!/bin/sh
# `make demo`: runs commands under a daemon of its own, in a home that is removed afterwards, and shows what bailiff kept.
set -eu

build=${1:-build}
cd "$(dirname "$0")/.."
PATH=$(cd "$build" && pwd):$PATH
BAILIFF_HOME=$(mktemp -d /tmp/bailiff-demo-XXXXXX)
export PATH BAILIFF_HOME

bold=''
plain=''
if [ -t 1 ]; then
	bold=$(printf '\033[1m') plain=$(printf '\033[0m')
fi
title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
show() {
	printf '%s$ %s%s\n' "$bold" "$*" "$plain"
	"$@" || printf '(exit status %s)\n' "$?"
}

bailiffd --foreground --home "$BAILIFF_HOME" 2>"$BAILIFF_HOME/log" &
daemon=$!
cleanup() {
	kill "$daemon" 2>/dev/null || true
	wait "$daemon" 2>/dev/null || true
	rm -rf "$BAILIFF_HOME"
}
trap cleanup EXIT INT TERM
# The socket first: without one, bailiff would start a daemon of its own.
tries=0
until [ -S "$BAILIFF_HOME/control.sock" ]; do
	tries=$((tries + 1))
	if [ "$tries" -gt 100 ] || ! kill -0 "$daemon" 2>/dev/null; then
		echo "demo: the daemon does not answer:" >&2
		cat "$BAILIFF_HOME/log" >&2
		exit 1
	fi
	sleep 0.1
done
bailiff call get_health >/dev/null

cd "$BAILIFF_HOME"
title "1. A command in the foreground: output, stdin and exit status are the command's own"
show bailiff run -- sh -c 'echo "hello from pid $$ in its own pid namespace"; echo "a complaint" >&2; exit 3'
printf 'one\ntwo\nthree\n' | show bailiff run -- wc -l

title "2. A command in the background whose runtime is killed under it: nothing is lost"
# shellcheck disable=SC2016
process=$(bailiff run -d -- sh -c 'for i in 1 2 3 4 5; do echo "line $i"; sleep 0.3; done; exit 7')
echo "started $process"
for child in $(ps -o pid= --ppid "$daemon"); do
	case $(tr '\0' ' ' <"/proc/$child/cmdline" 2>/dev/null) in
	"bailiffd: runtime"*)
		echo "SIGKILL to the runtime, pid $child"
		kill -9 "$child"
		;;
	esac
done
show bailiff wait "$process"
show bailiff logs "$process"

title "3. A time limit, and the end of a whole tree"
show bailiff run --timeout 300ms -- sh -c 'sleep 100 & sleep 100'

title "4. What was recorded"
show bailiff ps -a
show bailiff events --process "$process" --type 'process.*'
printf '\nThe last fact of %s, as programs see it:\n' "$process"
bailiff events --process "$process" --type 'process.completed' --json
show bailiff store verify

title "5. What this machine enforces"
printf '%s$ bailiff doctor%s\n' "$bold" "$plain"
bailiff doctor | sed -n '/^THIS MACHINE/,$p'
printf '\nThat was the demo. Next: make check, or README.md.\n'
