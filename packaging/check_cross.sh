#!/usr/bin/env bash
# check_cross.sh DIR [NAME...] : builds the sources in DIR/tree, a line of the table below after the
# other, in a minimal Debian without a network, and runs the unit tests there, those of other machines
# under an emulator; the system tests once.  Root only.
#
# SUITE is the release of Debian (trixie).
set -euo pipefail

top=$(readlink -f "$(dirname "$0")/..")
suite=trixie
# shellcheck source=packaging/roots.sh
. "$top/packaging/roots.sh"
directory=$1
shift

# Its name, what it is made for (- for this machine), the tests, and what make is told.
table() {
	cat <<-'END'
	gcc        -                    units,system  CC=gcc WERROR=1
	gcc-lto    -                    units         CC=gcc OPT='-O3 -flto=auto'
	clang      -                    units         CC=clang WERROR=1
	clang-lto  -                    units         CC=clang OPT='-O3 -flto' AR=llvm-ar LDFLAGS=-fuse-ld=lld
	s390x      s390x-linux-gnu      units         RUN=qemu-s390x WERROR=1
	arm64      aarch64-linux-gnu    units         RUN=qemu-aarch64 WERROR=1
	armhf      arm-linux-gnueabihf  units         RUN=qemu-arm WERROR=1
	END
}

# shellcheck disable=SC2016 # expanded by mmdebstrap
native() { # what `make deps` installs there
	root tests --variant=apt --customize-hook=": $(md5sum <"$top/tools/deps.sh")" --customize-hook="copy-in '$top/tools/deps.sh' /root" \
		--customize-hook='NB_DEPS=yes chroot "$1" /root/deps.sh build test' --include=clang,lld,llvm
}

foreign() { # ARCH TRIPLET
	local package packages=gcc-$2,make,pkg-config,qemu-user
	for package in libc6 liburing libsystemd libinih libjansson libncurses libcmocka librdmacm libibverbs libssl libisal; do
		# Where a Debian's machine has no ISA-L, digests are computed without it.
		[ "$package $1" = 'libisal armhf' ] || packages+=,$package-dev:$1
	done
	root "$1" --variant=apt --architectures="$(dpkg --print-architecture),$1" --include="$packages"
}

while read -r name triplet tests how; do
	[ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue
	begin=$SECONDS where=tests
	if [ "$triplet" = - ]; then
		native
	else
		foreign "$name" "$triplet"
		where=$name
		how="CC=$triplet-gcc $how"
	fi
	in_root "$where" "$directory" "cd /here/tree
		[ $triplet = - ] || export PKG_CONFIG_LIBDIR=/usr/lib/$triplet/pkgconfig:/usr/share/pkgconfig
		make -s -j$(nproc) NB_DEPS=no BUILD=/tmp/build $how ${tests//,/ } >/here/$name.log 2>&1" || {
		tail -n 60 "$directory/$name.log"
		echo "check-cross: $name failed: $directory/$name.log"
		exit 1
	}
	# A skipped test stands in its file's list a second time.
	awk -v name="$name" -v seconds=$((SECONDS - begin)) '
		/^== / { files++ } / OK \] / { ok++ } / SKIPPED \] / && !/listed below/ { skipped += 0.5 } /^skipped: / { why[$0] }
		END { printf "check-cross: %s: %d files of units, %d tests passed, %d skipped, %d s\n", name, files, ok, skipped, seconds
		      for (reason in why) print "  " reason }' "$directory/$name.log"
	grep -E '^=+ .*(passed|failed).* =+$' "$directory/$name.log" || true
done < <(table)
