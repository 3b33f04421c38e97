#!/usr/bin/env bash
# kernel.sh : makes the kernel of the VM if it is not in the cache, and prints its folder.
#
# It is Debian's own, from its archive, with the modules that the tests load; siw, which Debian does
# not build, is built from Debian's source.  Nothing is installed.  The folder holds vmlinuz, initrd
# and lib/modules/VERSION; its name has the kernel's version and a hash of what makes it, so that a
# change there makes a new one.  Remove it to get a newer kernel.  NBSERVED_VM_SUITE=bookworm, or
# another of Debian's, has its kernel instead of the one that is tested; without siw where that cannot
# be built here.
#
# Status 77, with the reason on standard error: this host cannot.
set -euo pipefail

cannot() {
	echo "$*" >&2
	exit 77
}

MODULES="virtio_pci virtio_console virtio_rng virtio_net uio_pci_generic 9p 9pnet_virtio overlay veth dummy sch_netem
	null_blk rdma_rxe ib_uverbs rdma_ucm ib_umad iw_cm nbd nvme_tcp nvme_rdma nvmet_tcp nvmet_rdma ext4 xfs configfs dm_log_writes
	tls gcm ctr ghash_generic aesni_intel ghash_clmulni_intel chacha20poly1305 chacha_generic chacha_x86_64
	poly1305_generic poly1305_x86_64
	libcrc32c crc32_generic crc32_pclmul crc32c_generic crc32c_intel"
EARLY="virtio_pci virtio_console virtio_rng 9p 9pnet_virtio overlay"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/nbserved-vm
here=$(dirname "$(readlink -f "$0")")
hash=$(cat "$here/kernel.sh" "$here/init.sh" - <<<"${NBSERVED_VM_SUITE:-}" | sha256sum | cut -c1-12)
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
for ready in "$cache"/*-"$hash"/initrd; do
	if [ -s "$ready" ]; then
		dirname "$ready"
		exit
	fi
done

# ---- Packages: an archive of our own choice, without touching the host's lists -------------------
# shellcheck source=/dev/null
. /etc/os-release
[ "${ID:-}" = debian ] || cannot "the VM's kernel is made from Debian's packages, and this is ${ID:-unknown}"
[ "$(dpkg --print-architecture)" = amd64 ] || cannot "the VM is made for amd64"
suite=$VERSION_CODENAME
[ "$suite" != bookworm ] || suite=bookworm-backports # 6.1 is older than what is tested
suite=${NBSERVED_VM_SUITE:-$suite}
# shellcheck disable=SC2016 # apt's own $
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $VERSION_CODENAME" |
	head -n 1)
[ -n "$mirror" ] || cannot "apt knows no archive of $VERSION_CODENAME"

work=$(mktemp -d "$cache/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p lists/partial cache/archives/partial packages image headers source
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >list
apt=(-qq -o "Dir::Etc::sourcelist=$work/list" -o Dir::Etc::sourceparts=/dev/null
	-o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache"
	-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null
	-o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=3)
apt-get "${apt[@]}" update >&2 || cannot "no Debian archive can be reached for the VM's kernel"
image=$(apt-cache "${apt[@]}" show linux-image-amd64 |
	sed -n 's/^Depends: \(.*, \)\?\(linux-image-[^ ,]*\).*/\2/p' | head -n 1)
[ -n "$image" ] || cannot "$suite has no linux-image-amd64"
version=${image#linux-image-}
series=$(cut -d. -f1,2 <<<"$version")
kbuild=$(apt-cache "${apt[@]}" show "linux-headers-$version" |
	sed -n 's/^Depends: .*\(linux-kbuild-[^ ,]*\).*/\1/p' | head -n 1)
split=() # of newer kernels: what was all in one
for package in binary modules base; do
	package=linux-$package-$version
	[ -z "$(apt-cache "${apt[@]}" show "$package" 2>/dev/null)" ] || split+=("$package")
done
(cd packages && apt-get "${apt[@]}" download "$image" "${split[@]}" "linux-headers-$version" \
	"linux-headers-${version%-amd64}-common" "$kbuild" \
	"linux-source-$series" >&2) || cannot "the kernel's packages cannot be had from $mirror"

# ---- The tree ------------------------------------------------------------------------------------
for package in "$image" "${split[@]}"; do
	dpkg-deb -x packages/"$package"_*.deb image
done
[ -d image/lib/modules ] || ln -s usr/lib image/lib
for package in packages/linux-headers-*.deb packages/linux-kbuild-*.deb; do
	dpkg-deb -x "$package" headers
done
siw=drivers/infiniband/sw/siw
dpkg-deb --fsys-tarfile packages/linux-source-*.deb |
	tar -xO "./usr/src/linux-source-$series.tar.xz" | xz -dc |
	tar -x -C source --strip-components=1 --wildcards "*/$siw/*"
tree=$work/headers/usr/src/linux-headers-$version
sed -i "s#include /usr/src#include $work/headers/usr/src#" "$tree/Makefile"
if ! make -s -C "$tree" M="$work/source/$siw" CONFIG_RDMA_SIW=m CONFIG_DEBUG_INFO_BTF_MODULES= modules >&2; then
	echo "kernel.sh: siw of $version cannot be built here (a newer kernel wants gcc 14 and a newer libc" \
		"than Debian 12 has): this kernel is without it, so nothing of it tests iWARP" >&2
	[ -n "${NBSERVED_VM_SUITE:-}" ]
fi

# The files of these modules and of all that they need, in the order in which they are loaded.
files_of() {
	local module
	depmod -b image "$version"
	for module; do
		modprobe -d image -S "$version" -D "$module" 2>/dev/null |
			awk '$1 == "insmod" { print $2 }' || true
	done | awk '!seen[$0]++'
}

name=$version-$hash
modules=$name/lib/modules/$version
mkdir -p "$modules/extra" early/{bin,modules,proc,sys,dev,host,over,root}
cp image/boot/vmlinuz-* "$name/vmlinuz" 2>/dev/null || cp "image/lib/modules/$version/vmlinuz" "$name/"
cp image/lib/modules/"$version"/modules.{builtin,builtin.modinfo,order} "$modules/"
plain() { # FILE TO: a module, without its compression
	case $1 in
	*.xz) xz -dc "$1" >"$2" ;;
	*) cp "$1" "$2" ;;
	esac
}
# shellcheck disable=SC2086 # lists of words
files_of $MODULES | while read -r file; do
	to=$modules/${file#*"/lib/modules/$version/"}
	mkdir -p "$(dirname "$to")"
	plain "$file" "${to%.xz}"
done
[ ! -e "source/$siw/siw.ko" ] || cp "source/$siw/siw.ko" "$modules/extra/"
depmod -b "$name" "$version"

# ---- The initrd: busybox, and just what mounts the root ------------------------------------------
# shellcheck disable=SC2086
files_of $EARLY | while read -r file; do
	module=$(basename "${file%.xz}")
	plain "$file" "early/modules/$module"
	echo "$module" >>early/modules/order
done
cp "$(command -v busybox)" early/bin/busybox
install -m 755 "$here/init.sh" early/init
(cd early && find . | cpio -o -H newc --quiet) | gzip -1 >"$name/initrd"
rm -rf "${cache:?}/$name"
mv "$name" "$cache/$name"
echo "$cache/$name"
