#!/bin/sh
# cross_tarball.sh OUT VERSION ARCH: builds the static tarball for ARCH inside the root filesystem DEB_ROOT (build_root.sh makes it; requires
# root), from a copy of this tree.
set -eu

out=$1
version=$2
arch=$3
cd "$(dirname "$0")/.."
: "${DEB_ROOT:?name a folder for the root filesystem to build in: make tarball ARCH=$arch DEB_ROOT=/var/tmp/bailiff-build-$arch}"

packaging/build_root.sh "$DEB_ROOT" "$arch"
triplet=$(chroot "$DEB_ROOT" dpkg-architecture -a "$arch" -q DEB_HOST_GNU_TYPE 2>/dev/null)
rm -rf "$DEB_ROOT/src"
mkdir -p "$DEB_ROOT/src" "$out"
tar -c --exclude='./build*' --exclude=./.git --exclude=__pycache__ . | tar -x -C "$DEB_ROOT/src"
chroot "$DEB_ROOT" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C BUILD_ID="${BUILD_ID:-unknown}" SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-0}" \
	STRIP="$triplet-strip" make -C /src -s tarball VERSION="$version" CC="$triplet-gcc" AR="$triplet-ar" PKG_CONFIG="$triplet-pkg-config" \
	>"$out/build-$arch.log" 2>&1 || { tail -n 20 "$out/build-$arch.log" >&2; exit 1; }
mv "$DEB_ROOT"/src/build/dist/*.tar.gz "$out/"
rm -rf "$DEB_ROOT/src"
echo "$out/bailiff-$version-linux-$arch.tar.gz"
