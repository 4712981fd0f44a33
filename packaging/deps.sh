#!/bin/sh
# Installs the Debian packages that bailiff is built ("build") or built and tested ("check") with, or the browser of the console's
# tests ("browser"). Quick when nothing is missing; without root it uses sudo, or says what to do.
set -eu

what=${1:-check}
build="gcc libc6-dev make pkg-config libevent-dev libjansson-dev liblmdb-dev libseccomp-dev libcap-dev libmd-dev libxxhash-dev libvterm-dev libcurl4-openssl-dev libssl-dev libnats-dev python3"
test="git curl wget openssl check bubblewrap python3-jsonschema strace util-linux procps mandoc shellcheck clang clang-format libclang-rt-dev lld vim-tiny nano less tmux gdb jq nats-server libtsm-dev"
case $what in
build) packages=$build ;;
check) packages="$build $test" ;;
browser) packages="chromium fonts-dejavu-core" ;;
*) echo "usage: deps.sh build|check|browser" >&2; exit 2 ;;
esac

modules="libevent_core libevent_extra libevent_pthreads jansson lmdb libseccomp libcap libmd libxxhash vterm libcurl libcrypto"
ready() {
	[ "$what" = browser ] && { command -v chromium >/dev/null; return; }
	command -v gcc >/dev/null && command -v pkg-config >/dev/null && command -v python3 >/dev/null || return 1
	# shellcheck disable=SC2086
	pkg-config --exists $modules || return 1
	[ "$what" = build ] && return 0
	command -v git >/dev/null && command -v strace >/dev/null && command -v setpriv >/dev/null || return 1
	pkg-config --exists check && /usr/bin/python3 -c 'import jsonschema' 2>/dev/null
}

if ! command -v dpkg-query >/dev/null; then
	ready && exit 0
	echo "deps: this is not a Debian system; install the equivalents of: $packages" >&2
	exit 1
fi

missing=
for p in $packages; do
	state=$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null || true)
	[ "$state" = installed ] || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

as=
if [ "$(id -u)" != 0 ]; then
	if command -v sudo >/dev/null; then
		as=sudo
	elif ready; then
		echo "deps: optional packages are not installed:$missing" >&2
		exit 0
	else
		echo "deps: packages are missing and installing them needs root. Run as root:" >&2
		echo "    apt-get install$missing" >&2
		exit 1
	fi
fi
echo "deps: installing$missing"
$as env DEBIAN_FRONTEND=noninteractive apt-get update -qq || echo "deps: apt-get update failed; trying with the lists that are there" >&2
# shellcheck disable=SC2086
$as env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null || {
	ready || exit 1
	echo "deps: optional packages could not be installed:$missing" >&2
}
