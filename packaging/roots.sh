# shellcheck shell=bash
# roots.sh : minimal roots of Debian for check_*.sh, which include it.  A root stays in
# ~/.cache/nbserved-roots until what it is made of changes; what runs in one changes an overlay only.
#
# SUITE is the release of Debian, MIRROR its archive.
suite=${SUITE:-${suite:?}}
roots=${XDG_CACHE_HOME:-$HOME/.cache}/nbserved-roots

# NAME ARGUMENT...: makes the root, if need be, with these arguments of mmdebstrap.
root() {
	local directory=$roots/$suite-$1 recipe="${*:2}"
	[ "$(cat "$directory.recipe" 2>/dev/null)" != "$recipe" ] || return 0
	echo "making a root of $suite for: $1"
	rm -rf "$directory" "$directory.recipe"
	mkdir -p "$roots"
	mmdebstrap --quiet "${@:2}" "$suite" "$directory" "${MIRROR:-http://deb.debian.org/debian}"
	echo "$recipe" >"$directory.recipe"
}

# NAME DIR COMMAND: without a network; DIR is /here.
in_root() {
	local options=()
	[ -d /run/systemd/system ] || options=(--keep-unit)
	systemd-nspawn --quiet --directory="$roots/$suite-$1" --volatile=overlay --private-network --register=no \
		"${options[@]}" --capability=CAP_IPC_LOCK --machine="nbserved-$$" \
		--bind="$(readlink -f "$2"):/here" --console=pipe \
		--system-call-filter="@aio @memlock" /bin/bash -euc "$3" </dev/null \
		2> >(grep -v 'Attempted to remove disk file system' >&2)
}
