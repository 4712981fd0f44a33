#!/bin/sh
# install.sh install|uninstall BUILD, with PREFIX and DESTDIR from the environment. Each file goes through put, so that
# uninstall removes exactly what install brought. An administrator's policy and configuration are never overwritten or removed.
set -eu

verb=$1
build=$2
prefix=${PREFIX:-/usr/local}
root=${DESTDIR:-}
cd "$(dirname "$0")/.."

put() { # mode source target
	[ -e "$2" ] || [ "$verb" = uninstall ] || return 0
	case $verb in
	install) install -D -m "$1" "$2" "$root$3" ;;
	uninstall) rm -f "$root$3" ;;
	esac
}

put 0755 "$build/bailiffd" "$prefix/sbin/bailiffd"
put 0755 "$build/bailiff" "$prefix/bin/bailiff"
put 0755 "$build/bailiff-tool" "$prefix/libexec/bailiff/bailiff-tool"
put 0755 "$build/bailiff-spawner" "$prefix/libexec/bailiff/bailiff-spawner"
put 0755 "$build/bailiff-gateway" "$prefix/libexec/bailiff/bailiff-gateway"
put 0755 "$build/bailiff-otlp" "$prefix/libexec/bailiff/bailiff-otlp"
put 0755 "$build/bailiff-webhook" "$prefix/libexec/bailiff/bailiff-webhook"
for page in docs/man/*.[1-8]; do
	[ -e "$page" ] && put 0644 "$page" "$prefix/share/man/man${page##*.}/${page##*/}"
done
for page in docs/*.md README.md LICENSE; do
	put 0644 "$page" "$prefix/share/doc/bailiff/${page##*/}"
done
for schema in docs/schemas/*.json; do
	[ -e "$schema" ] && put 0644 "$schema" "$prefix/share/bailiff/schemas/${schema##*/}"
done
put 0644 packaging/completions/bailiff.bash "$prefix/share/bash-completion/completions/bailiff"
put 0644 packaging/completions/_bailiff "$prefix/share/zsh/site-functions/_bailiff"
put 0644 packaging/completions/bailiff.fish "$prefix/share/fish/vendor_completions.d/bailiff.fish"
put 0644 packaging/policy.json "$prefix/share/bailiff/policy.json"

# The unit names the installed daemon.
units=$prefix/lib/systemd/system
[ "$prefix" != /usr ] || units=/lib/systemd/system
for unit in packaging/*.service packaging/systemd/*.service; do
	[ -e "$unit" ] || continue
	put 0644 "$unit" "$units/${unit##*/}"
	[ "$verb" = uninstall ] || sed -i "s|@PREFIX@|$prefix|g; s|/usr/local/sbin/bailiffd|$prefix/sbin/bailiffd|g; s|/usr/sbin/bailiffd|$prefix/sbin/bailiffd|g" "$root$units/${unit##*/}"
done
users=$prefix/lib/systemd/user
for unit in packaging/user/*.service; do
	[ -e "$unit" ] || continue
	put 0644 "$unit" "$users/${unit##*/}"
	[ "$verb" = uninstall ] || sed -i "s|/usr/local/bin/bailiff|$prefix/bin/bailiff|g" "$root$users/${unit##*/}"
done

if [ "$verb" = install ] && [ -e packaging/policy.json ] && [ ! -e "$root/etc/bailiff/policy.json" ]; then
	install -D -m 0644 packaging/policy.json "$root/etc/bailiff/policy.json"
fi
echo "bailiff: ${verb}ed under $root$prefix"
