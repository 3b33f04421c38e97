#!/usr/bin/env bash
# nspawn.sh [-p COMMAND] [-r ROOT] [-t SECONDS] DIR COMMAND... : boots the systemd of this host, or of
# another ROOT, as PID 1 over a throw-away overlay, runs COMMAND there as a unit and powers off.
# Root only.
#
# Its status is COMMAND's, or 125 when it did not get that far.  DIR is /run/nspawn inside; what
# COMMAND prints is DIR/output, what the boot prints is DIR/console.  -p runs a shell command on the
# host first, with ROOT set to the container's root: to install what is to be tested.
set -euo pipefail

prepare=:
lower=/
seconds=60
while getopts p:r:t: option; do
	case $option in
	p) prepare=$OPTARG ;;
	r) lower=$(readlink -f "$OPTARG") ;;
	t) seconds=$OPTARG ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
directory=$(readlink -f "$1")
shift

scratch=$(mktemp -d /run/nspawn.XXXXXX)
ROOT=$scratch/root
trap 'umount -R "$ROOT" && umount "$scratch" && rmdir "$scratch"' EXIT
mount -t tmpfs -o mode=0755 nspawn "$scratch"
mkdir "$scratch/upper" "$scratch/work" "$ROOT"
mount -t overlay overlay \
	-o "lowerdir=$lower,upperdir=$scratch/upper,workdir=$scratch/work" "$ROOT"

# A host without its own services and without first-boot work, whose only job is COMMAND.
units=$ROOT/etc/systemd/system
mkdir -p "$units" "$ROOT/etc/tmpfiles.d" "$ROOT/run/nspawn"
echo 0123456789abcdef0123456789abcdef >"$ROOT/etc/machine-id"
: >"$ROOT/etc/fstab"
touch "$ROOT/etc/.updated" "$ROOT/var/.updated"
ln -sf /dev/null "$ROOT/etc/tmpfiles.d/tmp.conf" # COMMAND may be below /tmp
ln -sf /dev/null "$units/network-online.target"  # --private-network: never
rm -rf "$ROOT"/var/log/journal
cat >"$units/nspawn.target" <<END
[Unit]
Requires=sysinit.target
After=sysinit.target
Wants=nspawn.service
AllowIsolate=yes
END
cat >"$units/nspawn.service" <<END
[Unit]
After=systemd-tmpfiles-setup.service systemd-journald.socket

[Service]
Type=oneshot
TimeoutStartSec=infinity
WorkingDirectory=/run/nspawn
Environment=HOME=/root LC_ALL=C.UTF-8 TERM=dumb SYSTEMD_COLORS=0 SYSTEMD_PAGER=cat
StandardOutput=append:/run/nspawn/output
StandardError=inherit
ExecStart=/bin/bash /run/nspawn/command
ExecStopPost=/bin/systemctl --force --force poweroff
END
rm -f "$directory/status"
: >"$directory/output"
printf '%q ' "$@" >"$directory/command"
# shellcheck disable=SC2016 # expanded in the container
printf '\necho $? >/run/nspawn/status\n' >>"$directory/command"

export ROOT
bash -euo pipefail -c "$prepare" >&2

# Without systemd as the host's PID 1 nobody could make a scope for the container.  nspawn's own
# filter refuses io_uring and mlock: that is for the service's unit to judge.
options=()
[ -d /run/systemd/system ] || options=(--keep-unit)
machine=nspawn-$$
SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 SYSTEMD_NSPAWN_TMPFS_TMP=0 \
	timeout -k 5 "$seconds" systemd-nspawn --quiet --directory="$ROOT" \
	--machine="$machine" --register=no "${options[@]}" --link-journal=no --private-network \
	--system-call-filter="@aio @memlock" \
	--bind="$directory:/run/nspawn" --console=pipe \
	/lib/systemd/systemd --unit=nspawn.target systemd.unified_cgroup_hierarchy=1 \
	</dev/null >"$directory/console" 2>&1 || true
rmdir "/run/systemd/nspawn/propagate/$machine" 2>/dev/null || true

if [ -s "$directory/status" ]; then
	exit "$(cat "$directory/status")"
fi
tail -n 20 "$directory/console" >&2
exit 125
