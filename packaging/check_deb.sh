#!/usr/bin/env bash
# check_deb.sh DIR VERSION : builds the source package in DIR in a minimal Debian without a network, lets
# lintian look at it, and installs, upgrades, removes and purges the packages in another, under its own
# systemd (inside_deb.sh).  Root only.
#
# SUITE is the release of Debian (bookworm).
set -euo pipefail

top=$(readlink -f "$(dirname "$0")/..")
deb=$(readlink -f "$1")
version=$2
suite=bookworm
# shellcheck source=packaging/roots.sh
. "$top/packaging/roots.sh"

satisfy() { # NAME VARIANT PACKAGES FIELD: a root with what a field of debian/control asks for
	root "$1" --variant="$2" --include="$3" --customize-hook="chroot \"\$1\" apt-get -qq -y --no-install-recommends satisfy '$4'"
}

satisfy deb-build buildd lintian "$(sed -n '/^Build-Depends:/,/^[^ ]/{s/^ //p}' "$deb/nbserved-$version/debian/control" | xargs)"
echo "check-deb: building"
in_root deb-build "$deb" "cd /here/nbserved-$version && dpkg-buildpackage -us -uc >../log 2>&1" || {
	tail -n 60 "$deb/log"
	exit 1
}
# No bug asks for it to be in Debian: it is not meant for its archive before a licence has been granted.
in_root deb-build "$deb" 'lintian --allow-root --suppress-tags initial-upload-closes-no-bugs --fail-on error,warning --info /here/*.changes'

# Dependencies of the packages and of their tests, without the packages themselves.
depends() {
	for package in "$deb"/*.deb; do dpkg-deb -f "$package" Depends; done |
		sed 's/, /\n/g' | grep -v '^nb' | sort -u
	sed -n 's/^Depends: @, //p' "$top/packaging/debian/tests/control"
}
satisfy deb-test apt systemd,dbus,procps,python3-minimal "$(depends | paste -sd,)"

echo "check-deb: installing, upgrading, purging"
cp "$top/packaging/inside_deb.sh" "$deb"
rm -rf "$deb/tests"
cp -r "$top/packaging/debian/tests" "$deb"
"$top/tests/vm/nspawn.sh" -r "$roots/$suite-deb-test" -t 300 "$deb" bash /run/nspawn/inside_deb.sh "$version-1" || {
	cat "$deb/output"
	exit 1
}
cat "$deb/output"
echo "check-deb: good"
