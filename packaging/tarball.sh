#!/bin/sh
# tarball.sh BUILD OUT VERSION: packs the static programs of BUILD (MODE=static) into OUT/bailiff-VERSION-linux-ARCH.tar.gz, the same
# bytes for the same programs. It is unpacked anywhere: the programs look for each other relative to themselves.
set -eu

build=$1
out=$2
version=$3
cd "$(dirname "$0")/.."

case $(LC_ALL=C ${READELF:-readelf} -h "$build/bailiffd" | sed -n 's/^ *Machine: *//p') in
*AArch64*) arch=arm64 ;;
*X86-64*) arch=amd64 ;;
*) echo "tarball: $build/bailiffd is for a machine without a name here" >&2; exit 1 ;;
esac
for program in bailiffd bailiff bailiff-tool bailiff-spawner bailiff-gateway; do
	if LC_ALL=C ${READELF:-readelf} -lW "$build/$program" | grep -q INTERP; then
		echo "tarball: $build/$program is not static: build it with MODE=static" >&2
		exit 1
	fi
done

name=bailiff-$version-linux-$arch
stage=$out/stage-$arch
rm -rf "$stage"
PREFIX=/$name DESTDIR=$stage SETS='program doc license data profile' packaging/install.sh install "$build" >/dev/null
${STRIP:-strip} --strip-unneeded "$stage/$name/bin/bailiff" "$stage/$name/sbin/bailiffd" "$stage/$name"/libexec/bailiff/*
tar -c --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@${SOURCE_DATE_EPOCH:-0}" -C "$stage" "$name" |
	gzip -9n >"$out/$name.tar.gz"
rm -rf "$stage"
echo "$out/$name.tar.gz"
