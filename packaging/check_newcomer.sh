#!/usr/bin/env bash
# check_newcomer.sh SUITE [USER] : README's first commands, word by word, in a new minimal Debian: essential
# packages, apt, git and make.  Root only; needs mmdebstrap, and Debian's archive (MIRROR) as network.
#
# As root there, or as USER, for whom root runs the commands that make prints for missing packages.  The
# clone is of this tree's last commit.  The tarball of the new Debian stays in ~/.cache/nbserved-chroot.
set -euo pipefail

top=$(readlink -f "$(dirname "$0")/..")
suite=$1 user=${2-root}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/nbserved-chroot
base=$cache/$suite.tar
mirror=${MIRROR:-http://deb.debian.org/debian}

mkdir -p "$cache"
if [ ! -e "$base" ]; then
	mmdebstrap --quiet --format=tar --variant=apt --include=git,make "$suite" "$base.new" "$mirror"
	mv "$base.new" "$base"
fi
root=$(mktemp -d "$cache/$suite.XXXXXX")
trap 'rm -rf "$root"' EXIT
# The devices are this host's.
tar --extract --file "$base" --directory "$root" --exclude='./dev/*'
cp /etc/resolv.conf "$root/etc"
printf '127.0.0.1 localhost\n' >"$root/etc/hosts" # as an installation has it: it repeats tests by that name
{ apt-config dump 2>/dev/null || true; } | grep -iE '^Acquire::[a-z:]*proxy' >"$root/etc/apt/apt.conf.d/99proxy" || true
# As in images of containers: packages start no services.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"

# The page's address is that of this tree; nothing else is told to git.
git clone --quiet --bare "$top" "$root/source.git"
cat >"$root/etc/gitconfig" <<-'END'
	[url "/source.git"]
		insteadOf = https://github.com/nbserved/nbserved
	[safe]
		directory = *
END
awk '/^```/ && on { exit } on { sub(/ *#.*/, ""); print } /^```sh$/ { on = 1 }' "$top/README.md" >"$root/readme"
for line in 'sudo apt.* git make' 'git clone .*' 'make demo' 'make check'; do
	grep -qx "$line" "$root/readme" || { echo "newcomer: README.md does not begin with '$line'" >&2; exit 1; }
done

cat >"$root/newcomer" <<'END'
set -euo pipefail
user=$1
if [ "$user" != root ]; then # Debian 13's essential packages have no useradd
	echo "$user:x:1000:1000::/home/$user:/bin/bash" >>/etc/passwd
	echo "$user:x:1000:" >>/etc/group
	install -d -o 1000 -g 1000 "/home/$user"
fi
home=$(getent passwd "$user" | cut -d: -f6)
as_user() { # COMMAND: in the clone, once there is one
	(cd "$home/nbserved" 2>/dev/null || cd "$home"
	export HOME=$home
	if [ "$user" = root ]; then bash -euc "$1"; else setpriv --reuid="$user" --regid="$user" --init-groups bash -euc "$1"; fi)
}
attempt() { # COMMAND: its output is shown, and kept
	echo "newcomer: $ $1"
	as_user "$1" 2>&1 | tee /run/said
}
while read -r line; do
	[ -n "$line" ] || continue
	case $line in
	sudo*) bash -euc "sudo() { \"\$@\"; }; $line" 2>&1 | tail -n 2; continue ;;
	esac
	begin=$SECONDS installed=''
	until attempt "$line"; do
		# What make prints for a user without the right to install: root does so, once.  Else it is
		# repeated once, with the plugin by which the rest of the run repeats single tests.
		install=$(sed -n 's/^ *Debian, Ubuntu: *sudo //p' /run/said)
		if [ -z "$install" ] || [ "$install" = "$installed" ]; then
			[ -z "${PYTEST_ADDOPTS-}" ] || exit 1
			echo "newcomer: failed, once more:"
			install='apt-get install python3-pytest-rerunfailures'
			export PYTEST_ADDOPTS='--reruns 1'
		fi
		installed=$install
		bash -euc "DEBIAN_FRONTEND=noninteractive $install -y" 2>&1 | tail -n 2
	done
	echo "newcomer: $line: $((SECONDS - begin)) s"
done </readme
END

# shellcheck disable=SC2016 # expanded inside
unshare --mount --pid --ipc --uts --fork --kill-child bash -euc '
	mount --make-rprivate /
	mount --bind "$1" "$1" # / is a mount, as in a container
	mount -t proc proc "$1/proc"
	mount --rbind /dev "$1/dev"
	mount --rbind /sys "$1/sys"
	mount -t tmpfs tmpfs "$1/run"
	exec chroot "$1" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
		LC_ALL=C.UTF-8 ${TEST_JOBS:+TEST_JOBS="$TEST_JOBS"} bash /newcomer "$2"' - "$root" "$user" </dev/null &
inside=$!
trap 'kill -KILL "$inside"; exit 1' INT TERM # unshare ignores both while it waits
wait "$inside"
echo "newcomer: $suite as $user: README's commands pass"
