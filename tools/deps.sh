#!/usr/bin/env bash
# deps.sh GROUP... : makes sure that the packages of these groups are installed.
#
# On Debian and Ubuntu, as root, it installs what is missing.  Everywhere else it prints the one
# command that would, for each family, and stops with status 1.  It says nothing and takes a few
# milliseconds when nothing is missing.  NB_DEPS=no skips it: the tools may come from elsewhere.
set -euo pipefail

# group, then the package on Debian/Ubuntu, Fedora and Arch; `-`: nothing of its own there.
# CLANG: the version of the `clang` package.
table() {
	cat <<-'END'
	build     gcc                  gcc                       gcc
	build     libc6-dev            glibc-devel               -
	build     make                 make                      make
	build     pkg-config           pkgconf-pkg-config        pkgconf
	build     liburing-dev         liburing-devel            liburing
	build     libsystemd-dev       systemd-devel             systemd-libs
	build     libinih-dev          inih-devel                libinih
	build     libjansson-dev       jansson-devel             jansson
	build     libncurses-dev       ncurses-devel             ncurses
	build     libisal-dev          isa-l-devel               isa-l
	build     libssl-dev           openssl-devel             openssl
	build     libgnutls28-dev      gnutls-devel              gnutls
	rdma      librdmacm-dev        rdma-core-devel           rdma-core
	rdma      libibverbs-dev       rdma-core-devel           rdma-core
	demo      redis-tools          /usr/bin/redis-benchmark  valkey
	demo      fio                  fio                       fio
	demo      iperf                iperf                     iperf
	demo      iperf3               iperf3                    iperf3
	demo      wrk                  -                         wrk
	demo      sockperf             sockperf                  -
	demo      libnbd-bin           libnbd                    libnbd
	demo      qemu-utils           qemu-img                  qemu-img
	demo      -                    fio-engine-nbd            -
	demo      python3              python3                   python
	test      libcmocka-dev        libcmocka-devel           cmocka
	test      python3-pytest       python3-pytest            python-pytest
	test      python3-pytest-xdist python3-pytest-xdist      python-pytest-xdist
	test      redis-tools          /usr/bin/redis-benchmark  valkey
	test      fio                  fio                       fio
	test      iperf                iperf                     iperf
	test      iperf3               iperf3                    iperf3
	test      socat                socat                     socat
	test      sockperf             sockperf                  -
	test      curl                 curl                      curl
	test      wrk                  -                         wrk
	test      nghttp2-client       nghttp2                   nghttp2
	test      apache2-utils        httpd-tools               apache
	test      hey                  -                         -
	test      iproute2             iproute                   iproute2
	test      openssl              openssl                   openssl
	test      python3-libnbd       python3-libnbd            libnbd
	test      libnbd-bin           libnbd                    libnbd
	test      qemu-utils           qemu-img                  qemu-img
	test      nbd-client           nbd                       nbd
	test      mount                util-linux                util-linux
	test      openssh-server       openssh-server            openssh
	test      tmux                 tmux                      tmux
	test      bash-completion      bash-completion           bash-completion
	test      fish                 fish                      fish
	test      zsh                  zsh                       zsh
	test      -                    libasan                   -
	test      -                    libtsan                   -
	test      -                    libubsan                  -
	ci        python3-pytest-rerunfailures  python3-pytest-rerunfailures  -
	systemd   systemd              systemd                   systemd
	systemd   systemd-container    systemd-container         -
	vm        qemu-system-x86      qemu-system-x86-core      qemu-system-x86
	vm        apparmor             apparmor-parser           apparmor
	vm        busybox-static       busybox                   busybox
	vm        cpio                 cpio                      cpio
	vm        kmod                 kmod                      kmod
	vm        xz-utils             xz                        xz
	vm        rdma-core            rdma-core                 rdma-core
	vm        rdmacm-utils         librdmacm-utils           -
	vm        ibverbs-utils        libibverbs-utils          -
	vm        ibverbs-providers    -                         -
	vm        iproute2             iproute                   iproute2
	vm        perftest             perftest                  -
	vm        nvme-cli             nvme-cli                  nvme-cli
	vm        dmsetup              device-mapper             device-mapper
	vm        xfsprogs             xfsprogs                  xfsprogs
	monitor   prometheus           -                         prometheus
	deb       debhelper            -                         -
	deb       dpkg-dev             -                         -
	check-deb mmdebstrap           -                         -
	rpm       rpm                  rpm-build                 -
	rpm       rpmlint              rpmlint                   -
	rpm       -                    systemd-rpm-macros        -
	lint      clang                clang                     clang
	lint      clang-tidy           clang-tools-extra         clang
	lint      clang-format         clang-tools-extra         clang
	lint      cppcheck             cppcheck                  cppcheck
	lint      mandoc               mandoc                    -
	lint      man-db               man-db                    man-db
	lint      systemd              systemd                   systemd
	lint      apparmor             apparmor-parser           apparmor
	lint      shellcheck           ShellCheck                shellcheck
	lint      python3              python3                   python
	fuzz      clang                clang                     clang
	fuzz      libclang-rt-CLANG-dev  compiler-rt             compiler-rt
	fuzz      llvm                 llvm                      llvm
	bench     iperf3               iperf3                    iperf3
	bench     valgrind             valgrind                  valgrind
	bench     strace               strace                    strace
	bench     fio                  fio                       fio
	bench     nbdkit               nbdkit                    -
	bench     nbd-server           nbd                       nbd
	bench     qemu-utils           qemu-img                  qemu-img
	bench     wrk                  -                         wrk
	bench     nginx-light          nginx                     nginx
	bench     stunnel4             stunnel                   stunnel
	bench     redis-tools          /usr/bin/redis-benchmark  valkey
	bench     libnbd-bin           libnbd                    libnbd
	bench     openssl              openssl                   openssl
	bench     python3              python3                   python
	bench     libbpf-dev           libbpf-devel              libbpf
	bench     clang                clang                     clang
	END
}

die() {
	echo "deps: $*" >&2
	exit 1
}

all_groups() { table | awk '{ print $1 }' | sort -u | xargs; }

# Rows of the wanted groups, each once: "debian fedora arch".  ISA-L is not made for all machines, and
# nbserved goes without.
wanted() {
	local left_out=isal
	case $(dpkg --print-architecture 2>/dev/null || uname -m) in
	amd64 | arm64 | ppc64el | x86_64 | aarch64) left_out= ;;
	esac
	table | awk -v groups=" $* " -v left_out="$left_out" '
		left_out && $2 ~ left_out { next }
		index(groups, " " $1 " ") && !seen[$2 $3 $4]++ { print $2, $3, $4 }'
}

column() { awk -v n="$1" '$n != "-" { print $n }' | sort -u; }

# The packages named on standard input that are not installed.
missing_debian() {
	local names
	mapfile -t names
	[ ${#names[@]} -gt 0 ] || return 0
	{ dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${names[@]}" 2>/dev/null || true; } |
		awk -v all="${names[*]}" '
			$1 == "installed" { have[$2] = 1 }
			END { n = split(all, a, " "); for (i = 1; i <= n; i++) if (!have[a[i]]) print a[i] }'
}

missing_fedora() {
	while read -r name; do
		rpm -q --quiet --whatprovides "$name" 2>/dev/null || echo "$name"
	done
}

missing_arch() { xargs -r pacman -T || true; }

# The number in `clang`'s dependency on clang-NN: of the installed package, or else of the archive's.
clang_version() {
	{ dpkg-query -W -f '${Depends}\n' clang 2>/dev/null || apt-cache depends clang 2>/dev/null; } |
		grep -oE 'clang-[0-9]+' | head -n 1 | cut -d- -f2
}

# Puts the version in; drops the row where the run-time library is part of another package.
resolve_clang() {
	local line version=
	while read -r line; do
		if [[ $line == *CLANG* ]]; then
			version=${version:-$(clang_version || true)}
			line=${line//CLANG/${version:-14}}
			[ "$1" != check ] || apt-cache show "$line" >/dev/null 2>&1 || continue
		fi
		echo "$line"
	done
}

install_debian() {
	local names
	echo "deps: installing what is missing for: $*"
	apt-get -q update
	# Again: the archive may know another version of clang now.
	mapfile -t names < <(wanted "$@" | column 1 | resolve_clang check | missing_debian)
	DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${names[@]}" ||
		die "apt-get could not install: ${names[*]}"
}

print_commands() {
	local sudo=
	[ "$(id -u)" = 0 ] || sudo="sudo "
	cat >&2 <<-END
	deps: missing for $*: ${missing[*]}
	Install them, then run the same command again:
	  Debian, Ubuntu:  ${sudo}apt-get install --no-install-recommends $(
		wanted "$@" | column 1 | resolve_clang no | xargs)
	  Fedora:          ${sudo}dnf install $(wanted "$@" | column 2 | xargs)
	  Arch:            ${sudo}pacman -S --needed $(wanted "$@" | column 3 | xargs)
	(NB_DEPS=no goes on without them.)
	END
}

[ $# -gt 0 ] || die "usage: deps.sh GROUP...  (groups: $(all_groups))"
[ "${NB_DEPS:-yes}" != no ] || exit 0
for group; do
	[[ " $(all_groups) " == *" $group "* ]] || die "no group '$group' (groups: $(all_groups))"
done

if command -v dpkg-query >/dev/null; then
	mapfile -t missing < <(wanted "$@" | column 1 | resolve_clang no | missing_debian)
elif command -v rpm >/dev/null; then
	mapfile -t missing < <(wanted "$@" | column 2 | missing_fedora)
elif command -v pacman >/dev/null; then
	mapfile -t missing < <(wanted "$@" | column 3 | missing_arch)
else
	missing=("this system's packages are not known here")
fi
[ ${#missing[@]} -gt 0 ] || exit 0

if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
	install_debian "$@"
else
	print_commands "$@"
	exit 1
fi
