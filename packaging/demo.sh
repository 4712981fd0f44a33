#!/bin/sh
# `make demo`: starts a daemon with a temporary home, runs commands and shows what bailiff does and records.
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
	printf '%s$' "$bold"
	for word; do
		case $word in
		*[!A-Za-z0-9_./:=,@-]*) printf " '%s'" "$word" ;;
		*) printf ' %s' "$word" ;;
		esac
	done
	printf '%s\n' "$plain"
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

mkdir "$BAILIFF_HOME/project" "$BAILIFF_HOME/project/.bailiff"
cd "$BAILIFF_HOME/project"
echo '{ "permissions": { "ask": ["Bash(git push:*)"] } }' >.bailiff/policy.json

title "1. A command writes in its working folder and nowhere else, and the denial is explained"
show bailiff run -- sh -c 'echo hello > mine; echo x > /etc/mine'
show cat mine

title "2. A command that policy asks about waits for an answer"
printf '%s$ bailiff run -- git push origin main &%s\n' "$bold" "$plain"
bailiff run -- git push origin main &
push=$!
tries=0
until action=$(bailiff pending | awk 'NR == 2 { print $1 }') && [ -n "$action" ]; do
	tries=$((tries + 1))
	if [ "$tries" -gt 100 ]; then
		echo "demo: the question does not come" >&2
		exit 1
	fi
	sleep 0.1
done
show bailiff pending
show bailiff deny --note "not from this machine" "$action"
wait "$push" || printf '(exit status %s)\n' "$?"

title "3. Copy-on-write: see what a command would change, then apply or discard it"
copy=$(bailiff run -d --cow -- sh -c 'echo changed > mine')
show bailiff wait "$copy"
show bailiff diff "$copy"
show bailiff discard "$copy"
show cat mine

title "4. A kill ends the whole tree, processes that left the session included, and is recorded once the tree is empty"
tree=$(bailiff run -d -- sh -c 'setsid sleep 100 & sleep 100')
show bailiff kill "$tree"
show bailiff events --process "$tree" --type process.terminated

title "5. The runtime is killed while a command runs: nothing is lost"
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

title "6. What was recorded"
show bailiff ps -a
show bailiff events --process "$process" --type 'process.*'
printf '\nThe last event of %s as JSON:\n' "$process"
bailiff events --process "$process" --type 'process.completed' --json
show bailiff store verify

title "7. What this machine enforces"
printf '%s$ bailiff doctor%s\n' "$bold" "$plain"
bailiff doctor | sed -n '/^LAYER/,$p'
printf '\nNext: make check, or README.md.\n'
