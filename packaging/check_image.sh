#!/usr/bin/env bash
# check_image.sh IMAGE : runs the image's daemon in its own root, as its own user, under a seccomp filter
# that refuses io_uring as container runtimes do.  Root only.
set -euo pipefail

container=$(buildah from --pull-never "$1")
trap 'buildah umount "$container" >/dev/null; buildah rm "$container" >/dev/null' EXIT
root=$(buildah mount "$container")
options=()
[ -d /run/systemd/system ] || options=(--keep-unit)

# shellcheck disable=SC2016 # expanded in the container
said=$(systemd-nspawn --quiet --directory="$root" --private-network --register=no "${options[@]}" \
	--machine="nbserved-image-$$" --setenv=NBSERVED_SOCKET=/var/lib/nbserved/control.sock \
	--user=nbserved --console=pipe \
	--system-call-filter='~io_uring_setup io_uring_enter io_uring_register' \
	/bin/bash -euc '
		/usr/sbin/nbserved 2>/tmp/log &
		for ((try = 0; try < 300; try++)); do
			! nbctl status >/dev/null 2>&1 || break
			sleep 0.1
		done
		cat /tmp/log
		exec 3<>/dev/tcp/127.0.0.1/7007
		echo "over epoll" >&3
		read -r reply <&3
		echo "echo: $reply"
		echo "$(nbctl status)"
		kill $!
		wait $! && echo "it ended well"
		id -un' </dev/null 2>&1)
echo "$said"

must() {
	grep -qE -- "$1" <<<"$said" || { echo "check_image: expected: $1" >&2; exit 1; }
}
must '^echo: over epoll'
must '^echo-epoll +serving'
must '^echo-uring +unavailable'
must '^nbd-threads +serving'
must '^nbd-uring +unavailable'
must 'it ended well'
must '^nbserved'
echo "check_image: $1 is good"
