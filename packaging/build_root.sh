#!/bin/sh
# build_root.sh DIR ARCH: makes a root filesystem in DIR that builds the package for ARCH: the release of this machine, with the
# toolchain of this machine's architecture and the libraries of ARCH (some development packages of two architectures exclude each other, so a
# machine that builds for itself cannot build for the other one). Requires root and debootstrap; about a minute and 700 MB. SUITE and
# MIRROR say from where; the default is this machine's own package source.
set -eu

dir=$1
arch=$2
top=$(cd "$(dirname "$0")/.." && pwd)

say() { echo "build_root: $*" >&2; }
[ ! -e "$dir/.bailiff-build-root-$arch" ] || exit 0
[ ! -e "$dir" ] || { say "$dir exists and is not a complete build root for $arch: remove it or name another one"; exit 1; }
[ "$(id -u)" = 0 ] || { say "requires root (debootstrap)"; exit 1; }
command -v debootstrap >/dev/null || { say "debootstrap is missing: apt-get install debootstrap"; exit 1; }
# shellcheck disable=SC1091
suite=${SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
mirror=${MIRROR:-$(apt-get indextargets --format "\$(CODENAME) \$(REPO_URI)" 'Created-By: Packages' | sed -n "s/^$suite //p" | head -n 1)}
[ -n "$mirror" ] || { say "apt has no package source for $suite: set MIRROR"; exit 1; }

say "making $dir from $mirror ($suite), for $arch"
mkdir -p "$(dirname "$dir")"
debootstrap --variant=minbase "$suite" "$dir" "$mirror" >"$dir.log" 2>&1 || { tail -n 5 "$dir.log" >&2; exit 1; }
# Packages come the way they come to this machine; nothing is started in there.
cp -n /etc/apt/apt.conf.d/* "$dir/etc/apt/apt.conf.d/" 2>/dev/null || true
cp /etc/resolv.conf "$dir/etc/resolv.conf" 2>/dev/null || true
printf '#!/bin/sh\nexit 101\n' >"$dir/usr/sbin/policy-rc.d"
chmod 755 "$dir/usr/sbin/policy-rc.d"
echo force-unsafe-io >"$dir/etc/dpkg/dpkg.cfg.d/bailiff-build-root"
mkdir -p "$dir/src"
cp -r "$top/packaging/debian" "$dir/src/debian"
chroot "$dir" env DEBIAN_FRONTEND=noninteractive sh -euc "
	cross=
	if [ $arch != \$(dpkg --print-architecture) ]; then
		dpkg --add-architecture $arch
		cross='crossbuild-essential-$arch libc6-dev:$arch'
	fi
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends build-essential \$cross
	apt-get build-dep -y -qq --no-install-recommends --host-architecture $arch /src
	apt-get clean" >>"$dir.log" 2>&1 || { tail -n 5 "$dir.log" >&2; exit 1; }
rm -rf "$dir/src"
touch "$dir/.bailiff-build-root-$arch"
