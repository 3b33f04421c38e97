#!/bin/busybox sh
# shellcheck shell=dash disable=SC2013
# The VM's first process: its root is the host's, read-only over 9p, with an overlay in memory;
# /vm is the folder that host and VM share.  Runs /vm/command there and powers off.
/bin/busybox --install -s /bin
PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do
	insmod "/modules/$module" || echo "cannot load $module"
done </modules/order
for word in $(cat /proc/cmdline); do
	case $word in
	vm_*) export "${word?}" ;;
	esac
done

options=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o "$options,ro,cache=loose" root /host || poweroff -f
mount -t tmpfs -o size=75% over /over
mkdir -p /over/upper /over/work
mount -t overlay -o lowerdir=/host,upperdir=/over/upper,workdir=/over/work overlay /root ||
	poweroff -f
cd /root || poweroff -f
mkdir -p proc sys dev run tmp vm "lib/modules/${vm_version:?}"
mount -t 9p -o "$options,rw,cache=none" shared vm
mount -o bind "/host${vm_modules:?}" "lib/modules/$vm_version"
mount --move /proc proc
mount --move /sys sys
mount --move /dev dev
mkdir -p dev/pts dev/shm
mount -t devpts -o ptmxmode=666 pts dev/pts
mount -t tmpfs shm dev/shm
mount -t tmpfs run run
mount -t cgroup2 cgroup sys/fs/cgroup
mount -t configfs config sys/kernel/config 2>/dev/null
mount -t debugfs debug sys/kernel/debug 2>/dev/null
exec switch_root /root /bin/bash /vm/start </dev/null >dev/ttyS1 2>&1
