#!/bin/sh
# Every shell script, with shellcheck.
cd "$(dirname "$0")/../.." || exit 1
command -v shellcheck >/dev/null || { echo "shellcheck is not installed"; exit 77; }
scripts=$(git ls-files -co --exclude-standard | while read -r f; do
	[ -f "$f" ] && head -c 30 "$f" | head -n 1 | grep -qE '^#!/bin/(sh|bash)' && echo "$f"
done)
# shellcheck disable=SC2086
shellcheck $scripts && echo "$(echo "$scripts" | wc -l) scripts"
