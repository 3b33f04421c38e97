#!/usr/bin/env bash
# vm.sh [-t SECONDS] [-p CPUS] [-m MEBIBYTES] [-k WORDS] [-i] [-n] [-S] DIR COMMAND... : runs COMMAND as root in a VM.
#
# -i: its clock counts instructions, a nanosecond each, and follows the host's only while all wait:
#     what it measures hardly depends on what else the host does.  -S: under this host's systemd as the first process, as a unit.
# -n: with two network cards, 52:54:00:00:00:01 and :02, each at an end of one cable.
# -k: more words of the kernel's command line, in place of those that switch audit and AppArmor off.
#
# The VM's root is this host's, with whatever it changes kept in memory: what was built here runs
# there.  Its kernel comes from kernel.sh.  DIR is /vm inside; the VM's console is DIR/console, what
# COMMAND prints goes to standard output.  The status is COMMAND's, 124 when the time was over, or
# 125 when the VM died.  The CPU is emulated (TCG), so no host needs to lend its own.
set -euo pipefail

seconds=300 cpus=1 memory=1536 systemd='' threads=multi words='audit=0 apparmor=0' clock=() cards=()
while getopts t:p:m:k:inS option; do
	case $option in
	t) seconds=$OPTARG ;;
	p) cpus=$OPTARG ;;
	m) memory=$OPTARG ;;
	k) words=$OPTARG ;;
	i) threads=single clock=(-icount "shift=0,sleep=on") ;;
	n) cards=(1 2) ;;
	S) systemd=yes ;;
	*) exit 2 ;;
	esac
done
shift $((OPTIND - 1))
[ $# -ge 2 ] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
directory=$(readlink -f "$1")
shift

kernel=$("$(dirname "$0")/kernel.sh")
modules=$(echo "$kernel"/lib/modules/*)
rm -f "$directory"/{status,started,console,command}
cat >"$directory/command" <<END
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb
ulimit -l unlimited
ip link set lo up
cd $(printf %q "$PWD")
echo >/vm/started
$(printf '%q ' "$@")
echo \$? >/vm/status
sync
echo o >/proc/sysrq-trigger
sleep 60
END
if [ -z "$systemd" ]; then
	cp "$directory/command" "$directory/start"
else
	cat >"$directory/start" <<'END'
units=/etc/systemd/system
echo 0123456789abcdef0123456789abcdef >/etc/machine-id
: >/etc/fstab
touch /etc/.updated /var/.updated
rm -rf /var/log/journal
for unit in network-online.target systemd-udev-settle.service networking.service ifupdown-pre.service \
	systemd-timesyncd.service systemd-random-seed.service; do
	ln -sf /dev/null "$units/$unit"
done
ln -sf /dev/null /etc/tmpfiles.d/tmp.conf
printf '%s\n' '[Unit]' Requires=sysinit.target After=sysinit.target Wants=vm.service AllowIsolate=yes \
	>$units/vm.target
printf '%s\n' '[Unit]' 'After=systemd-tmpfiles-setup.service systemd-journald.socket' '[Service]' \
	Type=oneshot TimeoutStartSec=infinity StandardOutput=append:/dev/ttyS1 StandardError=inherit \
	LimitMEMLOCK=infinity 'ExecStart=/bin/bash /vm/command' >$units/vm.service
exec /lib/systemd/systemd --unit=vm.target systemd.show_status=0
END
fi

# A busy host makes the kernel misjudge the rate of its TSC: time ran four times as fast, and every
# timeout with it.  That of the ACPI timer, which it takes without a TSC, is known, but reading it takes
# long.  So benchmarks keep the TSC: with -i it counts nanoseconds, and with several CPUs they only
# compare.
tsc=reliable
if [ "$cpus" = 1 ] && [ ${#clock[@]} = 0 ]; then
	tsc=unstable
fi

# Emulating several CPUs, QEMU 7.2 loses one boot of many in the kernel's patching of itself: another
# attempt, but only if COMMAND was not reached.  The kernel ends `timeout`, and that QEMU, when this script
# is killed, even by a signal that it could not trap.
share() { # TAG ID PATH OPTIONS
	echo "-fsdev local,id=$2,path=$3,security_model=none,multidevs=remap$4" \
		"-device virtio-9p-pci,disable-legacy=on,fsdev=$2,mount_tag=$1"
}
# iommu_platform: of such a card the kernel gives AF_XDP the memory for its own DMA, so without a copy.
card() { # NUMBER
	echo "-netdev hubport,id=n$1,hubid=0" \
		"-device virtio-net-pci,netdev=n$1,mac=52:54:00:00:00:0$1,disable-legacy=on,iommu_platform=on"
}
status=0
for attempt in 1 2 3; do
	status=0
	# shellcheck disable=SC2046 # options
	setpriv --pdeathsig TERM timeout -k 5 "$seconds" qemu-system-x86_64 -nodefaults -no-user-config -display none \
		-no-reboot -machine q35,usb=off,hpet=off,i8042=off \
		-accel "tcg,thread=$threads,tb-size=512" "${clock[@]}" \
		-cpu max -smp "$cpus" -m "$memory" -kernel "$kernel/vmlinuz" -initrd "$kernel/initrd" \
		-append "console=ttyS0 quiet loglevel=4 panic=-1 oops=panic mitigations=off nokaslr \
nmi_watchdog=0 no_timer_check tsc=$tsc selinux=0 random.trust_cpu=on \
cryptomgr.notests raid=noautodetect rcupdate.rcu_expedited=1 \
vm_version=${modules##*/} vm_modules=$modules $words" \
		-serial "file:$directory/console" -serial stdio -device virtio-rng-pci \
		$(share root r / ,readonly=on) $(share shared s "$directory" "") \
		$(for number in "${cards[@]}"; do card "$number"; done) \
		</dev/null | stdbuf -oL tr -d '\r' || status=$?
	if [ -e "$directory/started" ] || [ "$status" = 124 ]; then
		break
	fi
	cp "$directory/console" "$directory/console.$attempt"
	echo "vm.sh: the VM died while it booted, attempt $attempt" >&2
done

if [ -s "$directory/status" ]; then
	exit "$(cat "$directory/status")"
fi
echo "vm.sh: the VM ended without a status" >&2
tail -n 20 "$directory/console" >&2
[ "$status" != 124 ] || exit 124
exit 125
