# shellcheck shell=bash
# What the guest's checks are written with. A check is
#
#     check NAME STATUS PATTERN... -- COMMAND...
#
# which runs COMMAND (with a limit) and demands its exit status and that every PATTERN (extended regular expression) matches a
# line of its output; STATUS "any" demands none. The result is a line `check NAME AS pass|explained|fail|skip DETAIL`, and
# the output is kept in $OUT/NAME.AS.
#
#     explained_if CONDITION PATTERN      (right before check) where CONDITION (a shell word list) is true the kernel or the
#                                         set-up does not permit what the check does: then the output must have PATTERN,
#                                         the documented explanation, and the result is "explained".

# shellcheck source=/dev/null
. /opt/vm/cell
OUT=${OUT:-/run/vm/out}
AS=${AS:-root}
LIMIT=${LIMIT:-300}
explanation=

report() { # name state detail
	echo "check $1 $AS $2 $(echo "$3" | tr '\n' ' ' | cut -c1-240)"
	[ "$2" != fail ] || [ ! -e "$OUT/$1.$AS" ] || tail -n 30 "$OUT/$1.$AS" | sed 's/^/    | /'
}

explained_if() { # pattern: the next check must explain itself; called as `CONDITION && explained_if PATTERN`
	explanation=$1
}

check() {
	local name=$1 status=$2 wanted=() pattern got log explains=$explanation
	explanation=
	shift 2
	while [ "$1" != -- ]; do
		wanted+=("$1")
		shift
	done
	shift
	log=$OUT/$name.$AS
	timeout -k 5 "$LIMIT" "$@" >"$log" 2>&1 </dev/null
	got=$?
	if [ "$status" = any ] || [ "$got" = "$status" ]; then
		for pattern in "${wanted[@]}"; do
			grep -Eq -- "$pattern" "$log" || { got="status $got, no line with \"$pattern\""; break; }
		done
		case $got in *line*) ;; *) report "$name" pass; return 0 ;; esac
	else
		got="status $got instead of $status"
	fi
	if [ -n "$explains" ] && grep -Eq -- "$explains" "$log"; then
		report "$name" explained "$(grep -E -m 1 -- "$explains" "$log")"
		return 0
	fi
	[ -z "$explains" ] || got="$got, nor the explanation \"$explains\""
	report "$name" fail "$got; last line: $(tail -n 1 "$log")"
	return 1
}

skip() { # name reason
	report "$1" skip "$2"
}

until_true() { # seconds command...: waits for a condition
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { echo "timeout while waiting for: $*"; return 1; }
		sleep 0.2
	done
}

health() { # member of get_health
	bailiff call get_health | jq -r ".$1"
}
