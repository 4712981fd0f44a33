#!/bin/sh
# deb.sh BUILD VERSION [ARCH]: builds BUILD/deb/bailiff_VERSION_ARCH.deb and bailiff-fleet_VERSION_ARCH.deb with debhelper from a copy of this tree, and has lintian
# check it. With DEB_ROOT=DIR it builds inside that root filesystem, which build_root.sh makes (requires root): the way to build for
# the other architecture.
set -eu

build=$1
version=$2
cd "$(dirname "$0")/.."

say() { echo "deb: $*" >&2; }
export BUILD_ID="${BUILD_ID:-unknown}" SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(date -d "$(sed -n 's/^ -- .*>  //p' packaging/debian/changelog | head -n 1)" +%s)}"
command -v dpkg-buildpackage >/dev/null || { say "dpkg-buildpackage is missing: apt-get install dpkg-dev debhelper lintian"; exit 1; }
arch=${3:-$(dpkg --print-architecture)}
out=$build/deb
tree=$out/$arch/bailiff-$version
[ -z "${DEB_ROOT:-}" ] || packaging/build_root.sh "$DEB_ROOT" "$arch"

rm -rf "${out:?}/$arch"
mkdir -p "$tree"
tar -c --exclude='./build*' --exclude=./.git --exclude=__pycache__ . | tar -x -C "$tree"
mv "$tree/packaging/debian" "$tree/debian"
# A version of its own (make deb VERSION=…) gets an entry of its own.
if [ "$(sed -n '1s/.*(\(.*\)).*/\1/p' "$tree/debian/changelog")" != "$version" ]; then
	{
		printf 'bailiff (%s) unstable; urgency=medium\n\n  * Built as version %s.\n\n' "$version" "$version"
		printf '%s  %s\n' "$(sed -n 's/^\( -- .*>\)  .*/\1/p' packaging/debian/changelog | head -n 1)" "$(date -uR -d "@$((SOURCE_DATE_EPOCH + 1))")"
		printf '\n'
		cat packaging/debian/changelog
	} >"$tree/debian/changelog"
fi

run() { # in the tree, in the build root where there is one
	if [ -n "${DEB_ROOT:-}" ]; then
		rm -rf "$DEB_ROOT/src"
		mkdir "$DEB_ROOT/src"
		cp -a "$tree" "$DEB_ROOT/src/tree"
		chroot "$DEB_ROOT" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C VERSION="$version" BUILD_ID="$BUILD_ID" SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" \
			sh -euc "cd /src/tree && $1" &&
			mv "$DEB_ROOT"/src/*.deb "$out/$arch/"
	else
		(cd "$tree" && env -u MAKEFLAGS -u MAKELEVEL VERSION="$version" LC_ALL=C sh -euc "$1")
	fi
}
if [ -z "${DEB_ROOT:-}" ] && ! missing=$(cd "$tree" && dpkg-checkbuilddeps -a "$arch" 2>&1); then
	say "${missing#dpkg-checkbuilddeps: }"
	say "install these (for another architecture: with :$arch after the libraries' names), or build in a root filesystem of its own:"
	say "    make deb ARCH=$arch DEB_ROOT=/var/tmp/bailiff-build-$arch    (as root, with debootstrap)"
	exit 1
fi
log=$out/build-$arch.log
run "dpkg-buildpackage --build=binary --host-arch=$arch --unsigned-changes --unsigned-buildinfo --jobs-try=$(nproc)" >"$log" 2>&1 ||
	{ tail -n 30 "$log" >&2; say "the build failed; its log is $log"; exit 1; }
mv "$out/$arch"/*.deb "$out/"
rm -rf "${out:?}/$arch"
for package in bailiff bailiff-fleet; do
	deb=$out/${package}_${version}_$arch.deb
	if command -v lintian >/dev/null; then
		lintian --fail-on error,warning --tag-display-limit 0 --allow-root "$deb" || { say "lintian complains about $deb"; exit 1; }
	else
		say "not checked: lintian is not installed"
	fi
	echo "$deb"
done
