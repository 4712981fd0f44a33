#!/bin/sh
# Checks the man pages with mandoc.
cd "$(dirname "$0")/../.." || exit 1
command -v mandoc >/dev/null || { echo "mandoc is not installed"; exit 77; }
set -- docs/man/*.[1-8]
[ -e "$1" ] || { echo "no man pages"; exit 1; }
mandoc -T lint -W warning "$@"
