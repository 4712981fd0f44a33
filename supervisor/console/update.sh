#!/bin/sh
# update.sh DIR: `make ui` fetches the packages of package.json into DIR with npm and copies what the page uses to vendor/,
# unmodified, with licences and checksums. To update a library, change its version in package.json first.
set -eu
cd "$(dirname "$0")"
dir=$1
mkdir -p "$dir"
cp package.json "$dir/"
npm install --prefix "$dir" --no-audit --no-fund --no-package-lock --ignore-scripts --loglevel=error
from=$dir/node_modules
rm -rf vendor
mkdir vendor
# htm's file contains preact 10 with hooks.
cp "$from/htm/preact/standalone.module.js" vendor/preact.js
cp "$from/@xterm/xterm/lib/xterm.mjs" vendor/xterm.js
cp "$from/@xterm/xterm/css/xterm.css" vendor/xterm.css
cp "$from/@xterm/addon-fit/lib/addon-fit.mjs" vendor/xterm-fit.js
cp "$from/@xterm/addon-search/lib/addon-search.mjs" vendor/xterm-search.js
cp "$from/uplot/dist/uPlot.iife.min.js" vendor/uplot.js
cp "$from/uplot/dist/uPlot.min.css" vendor/uplot.css
for file in $(cd vendor && ls); do
	case $file in
	preact.js) packages="htm preact" ;;
	xterm.*) packages="@xterm/xterm" ;;
	xterm-fit.js) packages="@xterm/addon-fit" ;;
	xterm-search.js) packages="@xterm/addon-search" ;;
	uplot.*) packages="uplot" ;;
	esac
	for package in $packages; do
		[ "$package" = preact ] && version="10, as built into htm's file" || version=$(sed -n 's/^[[:space:]]*"version": "\(.*\)",*$/\1/p' "$from/$package/package.json" | head -n 1)
		echo "==== $file: $package $version"
		echo
		cat "$from/$package/LICENSE"
		echo
	done
done > LICENSES.new
mv LICENSES.new vendor/LICENSES
(cd vendor && sha256sum -- * > ../SHA256SUMS.new)
mv SHA256SUMS.new vendor/SHA256SUMS
chmod 644 vendor/*
