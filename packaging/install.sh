#!/bin/sh
# install.sh install|uninstall BUILD, with PREFIX, DESTDIR and SETS from the environment: installs, or removes, what packaging/files
# lists. An administrator's policy and configuration are never overwritten or removed. SETS picks from the list; by default all, the
# AppArmor profile only where the parser knows the rule that it consists of.
set -eu

verb=$1
build=$2
prefix=${PREFIX:-/usr/local}
prefix=${prefix%/}
root=${DESTDIR:-}
cd "$(dirname "$0")/.."
case $verb in
install | uninstall) ;;
*) echo "usage: install.sh install|uninstall BUILD" >&2; exit 2 ;;
esac

# Units and the AppArmor profile name files below the prefix without quotes.
case $prefix in
*[!A-Za-z0-9._/+-]*) echo "$verb: PREFIX '$prefix': give a path of letters, digits and . _ + - / only" >&2; exit 2 ;;
'' | /*) ;;
*) echo "$verb: PREFIX '$prefix': give an absolute path" >&2; exit 2 ;;
esac

sets=${SETS:-program curl $([ "$verb" = install ] && [ ! -e "$build/bailiff-fleet" ] || echo nats) doc license data system config}
if [ -z "${SETS:-}" ] && { [ -e "$root/etc/apparmor.d/abi/4.0" ] || [ "$verb" = uninstall ]; }; then
	sets="$sets apparmor"
fi
# Debian's own folders where they differ from those for local software.
units=$prefix/lib/systemd/system
zsh=site-functions
if [ "$prefix" = /usr ]; then
	units=/lib/systemd/system
	zsh=vendor-completions
fi

new=
trap '[ -z "$new" ] || rm -f "$new"' EXIT
put() { # set mode source target
	if [ "$verb" = uninstall ]; then
		[ "$1" = config ] || rm -f "$root$4"
		return
	fi
	[ -f "$3" ] || { echo "install: $3 is missing: build it first (make release)" >&2; exit 1; }
	if [ "$1" = config ] && [ -e "$root$4" ]; then
		return
	fi
	# In one step: a daemon that runs executes its programs at any time.
	new=$root$4.new
	install -D -m "$2" "$3" "$new"
	case $1 in
	system | apparmor) sed -i "s|/usr/local/|$prefix/|g" "$new" ;;
	esac
	mv -f "$new" "$root$4"
}

profiles=/sys/kernel/security/apparmor/profiles
if [ -z "$root" ] && [ "$verb" = uninstall ] && [ -e /etc/apparmor.d/bailiff ] && [ -e $profiles ]; then
	apparmor_parser -R /etc/apparmor.d/bailiff 2>/dev/null || true
fi
while read -r set mode source target; do
	case $set in
	'' | '#'*) continue ;;
	esac
	case " $sets " in
	*" $set "*) ;;
	*) continue ;;
	esac
	target=$(echo "$target" | sed "s|@PREFIX@|$prefix|; s|@UNITS@|$units|; s|@ZSH@|$zsh|")
	case $source in
	@BUILD@/*) source=$build/${source#@BUILD@/} ;;
	esac
	for file in $source; do
		case $target in
		*/) put "$set" "$mode" "$file" "$target${file##*/}" ;;
		*) put "$set" "$mode" "$file" "$target" ;;
		esac
	done
done <packaging/files

[ "$verb" = install ] || rmdir "$root$prefix/libexec/bailiff" "$root$prefix/share/bailiff/schemas" "$root$prefix/share/bailiff" \
	"$root$prefix/share/doc/bailiff/setup" "$root$prefix/share/doc/bailiff" 2>/dev/null || true
# The profile counts once the kernel has it; under DESTDIR that is the package's business.
if [ -z "$root" ] && [ "$verb" = install ] && [ -e /etc/apparmor.d/bailiff ] && [ -e $profiles ]; then
	apparmor_parser -r -T -W /etc/apparmor.d/bailiff || echo "install: the AppArmor profile /etc/apparmor.d/bailiff was not loaded" >&2
fi
echo "bailiff: ${verb}ed under $root$prefix"
