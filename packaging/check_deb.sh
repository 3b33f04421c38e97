#!/usr/bin/env bash
# check_deb.sh DIR VERSION : builds the source package in DIR in a minimal Debian without a network, lets
# lintian look at it, and installs, upgrades, removes and purges the packages in another, under its own
# systemd (inside_deb.sh).  Root only; the two roots are kept in ~/.cache/nbserved-deb.
#
# SUITE is the release of Debian (bookworm).
set -euo pipefail

top=$(readlink -f "$(dirname "$0")/..")
deb=$(readlink -f "$1")
version=$2
suite=${SUITE:-bookworm}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/nbserved-deb

# The packages that a field of debian/control names, the first of alternatives that the suite has.
build_depends() {
	sed -n '/^Build-Depends:/,/^[^ ]/{s/^ //p}' "$top/packaging/debian/control" |
		sed -E 's/ *[(<][^,]*//; s/.*\| *//; s/dh-sequence.*|debhelper-compat/debhelper/; s/,$//' | sort -u
}

# $1: its name, then the variant and the packages: a root of the suite, made anew when these change.
root() {
	local directory=$cache/$suite-$1 recipe="${*:2}"
	[ "$(cat "$directory.recipe" 2>/dev/null)" != "$recipe" ] || return 0
	echo "check-deb: making a root of $suite for: $1"
	rm -rf "$directory" "$directory.recipe"
	mkdir -p "$cache"
	mmdebstrap --quiet --variant="$2" --include="$(IFS=,; echo "${*:3}")" "$suite" "$directory" \
		"${MIRROR:-http://deb.debian.org/debian}"
	echo "$recipe" >"$directory.recipe"
}

in_root() { # NAME COMMAND: over a throw-away overlay, without a network; DIR is /deb
	local options=()
	[ -d /run/systemd/system ] || options=(--keep-unit)
	systemd-nspawn --quiet --directory="$cache/$suite-$1" --volatile=overlay --private-network --register=no \
		"${options[@]}" --machine="nbserved-deb-$$" --bind="$deb:/deb" --console=pipe /bin/bash -euc "$2" </dev/null 2> >(grep -v 'Attempted to remove disk file system' >&2)
}

mapfile -t build < <(build_depends)
root build buildd "${build[@]}" lintian
root test apt systemd dbus iproute2 libnbd-bin procps python3-minimal redis-tools rdma-core liburing2 \
	libinih1 libjansson4 libncursesw6 librdmacm1 libibverbs1

echo "check-deb: building"
in_root build "cd /deb/nbserved-$version && dpkg-buildpackage -us -uc >../log 2>&1" || { tail -n 60 "$deb/log"; exit 1; }
# No bug asks for it to be in Debian: it is not meant for its archive before a licence has been granted.
in_root build 'lintian --allow-root --suppress-tags initial-upload-closes-no-bugs --fail-on error,warning --info /deb/*.changes'

echo "check-deb: installing, upgrading, purging"
cp "$top/packaging/inside_deb.sh" "$deb"
rm -rf "$deb/tests"
cp -r "$top/packaging/debian/tests" "$deb"
"$top/tests/vm/nspawn.sh" -r "$cache/$suite-test" -t 300 "$deb" bash /run/nspawn/inside_deb.sh "$version-1" || {
	cat "$deb/output"
	exit 1
}
cat "$deb/output"
echo "check-deb: good"
