#!/usr/bin/env bash
# deps.sh GROUP... : makes sure that the packages of these groups are installed.
#
# On Debian and Ubuntu, as root, it installs what is missing.  Everywhere else it prints the one
# command that would, for each family, and stops with status 1.  It says nothing and takes a few
# milliseconds when nothing is missing.  NB_DEPS=no skips it: the tools may come from elsewhere.
#
# --commands only prints them; --libraries, what pkg-config has to find; --deb and --rpm, the packages as
# fields of debian/control and of a spec: there is one list for all.
set -euo pipefail

# group, or group:PART with a variable of the Makefile that leaves it out; then the package on
# Debian/Ubuntu, Fedora and Arch (`-`: nothing of its own there), the library that pkg-config must find,
# and the machines that it is made for, where these are few: Debian's names, then Fedora's.
# CLANG: the version of the `clang` package.  `netperf?`: where the archive has it.  `PACKAGE=PROGRAM`: not
# where the program came from another package, which may conflict with Debian's.
table() {
	cat <<-'END'
	build     gcc                  gcc                       gcc
	build     libc6-dev            glibc-devel               -
	build     make                 make                      make
	build     pkgconf              pkgconf-pkg-config        pkgconf
	build     liburing-dev         liburing-devel            liburing        liburing>=2.3
	build     libsystemd-dev       systemd-devel             systemd-libs    libsystemd
	build     libinih-dev          inih-devel                libinih         inih
	build     libjansson-dev       jansson-devel             jansson         jansson
	build     libncurses-dev       ncurses-devel             ncurses         ncursesw
	build:ISAL libisal-dev         isa-l-devel               isa-l           libisal  amd64,arm64,ppc64el,s390x x86_64,aarch64
	build:TLS libssl-dev           openssl-devel             openssl         openssl>=3.0
	build:RDMA librdmacm-dev       rdma-core-devel           rdma-core       librdmacm
	build:RDMA libibverbs-dev      rdma-core-devel           rdma-core       libibverbs
	demo      redis-tools          /usr/bin/redis-benchmark  valkey
	demo      fio                  fio                       fio
	demo      iperf3               iperf3                    iperf3
	demo      wrk                  -                         wrk
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
	test      file                 file                      file
	test      systemd              systemd                   systemd
	test      netperf?             -                         netperf
	test      iproute2             iproute                   iproute2
	test      openssl              openssl                   openssl
	test      python3-libnbd       python3-libnbd            libnbd
	test      libnbd-bin           libnbd                    libnbd
	test      qemu-utils           qemu-img                  qemu-img
	test      nbd-client           nbd                       nbd
	test      mount                util-linux                util-linux
	test      tmux                 tmux                      tmux
	test      jq                   jq                        jq
	test      xz-utils             xz                        xz
	test      strace               strace                    strace
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
	vm        ktls-utils?          ktls-utils                -
	vm        dmsetup              device-mapper             device-mapper
	vm        xfsprogs             xfsprogs                  xfsprogs
	bypass    dpdk-dev             dpdk                      dpdk
	long      openssh-server       openssh-server            openssh
	long      bash-completion      bash-completion           bash-completion
	long      fish                 fish                      fish
	long      zsh                  zsh                       zsh
	long      prometheus           -                         prometheus
	long      kubernetes-client=kubectl  -                   kubectl
	deb       debhelper            -                         -
	deb       dpkg-dev             -                         -
	check-deb mmdebstrap           -                         -
	newcomer  mmdebstrap           -                         -
	newcomer  make                 -                         -
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
	bench     fio                  fio                       fio
	bench     nbdkit               nbdkit                    -
	bench     wrk                  -                         wrk
	bench     nginx-light          nginx                     nginx
	bench     stunnel4             stunnel                   stunnel
	bench     redis-tools          /usr/bin/redis-benchmark  valkey
	bench     libnbd-bin           libnbd                    libnbd
	bench     openssl              openssl                   openssl
	bench     python3              python3                   python
	END
}

die() {
	echo "deps: $*" >&2
	exit 1
}

all_groups() { table | awk '{ sub(/:.*/, "", $1); print $1 }' | sort -u | xargs; }

# Rows of the wanted groups, each once, without the parts that this build leaves out (RDMA=no) or that
# are not made for this machine.
wanted() {
	local machine
	machine=$(dpkg --print-architecture 2>/dev/null || uname -m)
	table | awk -v groups=" $* " -v machine="$machine" '
		{ split($1, group, ":") }
		group[2] && ENVIRON[group[2]] == "no" { next }
		$6 && !index("," $6 "," $7 ",", "," machine ",") { next }
		index(groups, " " group[1] " ") && !seen[$2 $3 $4]++ { print $2, $3, $4, $5 }'
}

column() { awk -v n="$1" '$n && $n != "-" { print $n }' | sort -u; }

# The libraries of these groups, as pkg-config takes them: "liburing >= 2.3".
libraries() { wanted "$@" | awk '$4 { sub(/>=/, " >= ", $4); print $4 }'; }

# Those that it does not find, or not as new.
missing_libraries() {
	local library list
	mapfile -t list < <(libraries "$@")
	[ ${#list[@]} -gt 0 ] && ! pkg-config --exists "${list[*]}" 2>/dev/null || return 0
	for library in "${list[@]}"; do
		pkg-config --exists "$library" 2>/dev/null || echo "$library"
	done
}

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

# Puts the version in; drops the row where the run-time library is part of another package, where the
# archive does not have the package, or where its program is there.
resolve() {
	local line version=
	while read -r line; do
		if [[ $line == *CLANG* ]]; then
			version=${version:-$(clang_version || true)}
			line=${line//CLANG/${version:-14}}
			[ "$1" != check ] || apt-cache show "$line" >/dev/null 2>&1 || continue
		elif [[ $line == *\? ]]; then
			line=${line%?}
			dpkg-query -W "$line" >/dev/null 2>&1 || [ -n "$(apt-cache show "$line" 2>/dev/null)" ] || continue
		elif [[ $line == *=* ]]; then
			! command -v "${line#*=}" >/dev/null || continue
			line=${line%=*}
		fi
		echo "$line"
	done
}

print_commands() {
	local sudo='' lack
	[ "$(id -u)" = 0 ] || sudo="sudo "
	lack=$(missing_libraries "$@" | paste -sd, | sed 's/,/, /g')
	cat >&2 <<-END
	deps: missing for $*: ${missing[*]}${lack:+ (pkg-config does not find $lack)}
	Install them, then run the same command again:
	  Debian, Ubuntu:  ${sudo}apt-get install --no-install-recommends $(
		wanted "$@" | column 1 | resolve no | xargs)
	  Fedora:          ${sudo}dnf install $(wanted "$@" | column 2 | xargs)
	  Arch:            ${sudo}pacman -S --needed $(wanted "$@" | column 3 | xargs)
	RDMA=no, ISAL=no and TLS=no build without a part, NB_DEPS=no goes on without programs.
	END
}

# Debian's build-essential has the compiler, the C library and make.
print_deb() {
	table | awk -v groups=" $* " '
		{ split($1, group, ":"); split($5, library, ">="); gsub(",", " ", $6) }
		!index(groups, " " group[1] " ") || $2 ~ /^(-|gcc|libc6-dev|make)$/ { next }
		{ print " " $2 (library[2] ? " (>= " library[2] ")" : "") ($6 ? " [" $6 "]" : "") "," }'
}

print_rpm() {
	table | awk -v groups=" $* " '
		{ split($1, group, ":"); split($5, library, ">="); gsub(",", " ", $7) }
		!index(groups, " " group[1] " ") || $3 == "-" || seen[$3]++ { next }
		$7 { print "%ifarch " $7 }
		{ print "BuildRequires:  " $3 (library[2] ? " >= " library[2] : "") }
		$7 { print "%endif" }'
}

# check|no GROUP...: sets `missing`.  Of a row with a library pkg-config decides, wherever that comes from.
find_missing() {
	local clang=$1 rows lack
	shift
	rows=$(wanted "$@")
	lack=$(awk -v missing=" $(missing_libraries "$@" | sed 's/ //g' | xargs) " '$4 && index(missing, " " $4 " ")' <<<"$rows")
	rows=$(awk '!$4' <<<"$rows")
	if command -v dpkg-query >/dev/null; then
		mapfile -t missing < <(column 1 <<<"$lack"; column 1 <<<"$rows" | resolve "$clang" | missing_debian)
	elif command -v rpm >/dev/null; then
		mapfile -t missing < <(column 2 <<<"$lack"; column 2 <<<"$rows" | missing_fedora)
	elif command -v pacman >/dev/null; then
		mapfile -t missing < <(column 3 <<<"$lack"; column 3 <<<"$rows" | missing_arch)
	else
		missing=("this system's packages are not known here")
	fi
}

install_debian() {
	echo "deps: installing what is missing for: $*"
	apt-get -q update
	find_missing check "$@" # again: the archive may know another version of clang now
	DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}" ||
		die "apt-get could not install: ${missing[*]}"
}

action=install
[[ ${1-} != --* ]] || { action=${1#--}; shift; }
[ $# -gt 0 ] || die "usage: deps.sh GROUP...  (groups: $(all_groups))"
[ "${NB_DEPS:-yes} $action" != "no install" ] || exit 0
for group; do
	[[ " $(all_groups) " == *" $group "* ]] || die "no group '$group' (groups: $(all_groups))"
done

case $action in
libraries) libraries "$@" ;;
deb) print_deb "$@" ;;
rpm) print_rpm "$@" ;;
install | commands)
	find_missing no "$@"
	[ ${#missing[@]} -gt 0 ] || exit 0
	if [ "$action" = install ] && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
		install_debian "$@"
	else
		print_commands "$@"
		exit 1
	fi
	;;
*) die "no option --$action" ;;
esac
