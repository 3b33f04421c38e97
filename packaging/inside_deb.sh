#!/usr/bin/env bash
# inside_deb.sh VERSION : runs in the container, as root, and does with the packages beside it what an
# administrator does.  The first thing that is not as it should be ends it.
set -euo pipefail
cd "$(dirname "$0")"
version=$1
old=0.0.1-1
trap 'echo "failed in line $LINENO: $BASH_COMMAND"; journalctl -b --no-pager -u "nbserved*" | tail -n 20' ERR

say() { echo "== $*"; }
active() { [ "$(systemctl is-active "$1")" = "$2" ]; }
pid() { systemctl show -P MainPID nbserved.service; }

say "An older version, whose unit and configuration differ"
mkdir -p old
for name in nbserved nbctl nbbench; do
	dpkg-deb -R "$name"_"$version"_*.deb old/$name
	sed -i "s/$version/$old/" old/$name/DEBIAN/control
done
echo '; of the older version' >>old/nbserved/etc/nbserved/nbserved.ini
rm -f old/*/DEBIAN/md5sums
for name in nbserved nbctl nbbench; do dpkg-deb -b old/$name old/$name.deb >/dev/null; done

say "Installing"
dpkg -i old/nbctl.deb old/nbserved.deb old/nbbench.deb
active nbserved.service active
id nbserved
[ "$(stat -c '%U %a' /var/lib/nbserved)" = 'nbserved 750' ]
systemctl start nbserved-metrics.service

say "Upgrading while clients come, each of which is served"
old_pid=$(pid) metrics_pid=$(systemctl show -P MainPID nbserved-metrics.service)
cat >client.py <<'END'
import socket, sys, pathlib
served = 0
while not pathlib.Path("upgraded").exists() or served < 10:
    with socket.create_connection(("127.0.0.1", 7007), timeout=30) as client:
        try:
            client.sendall(b"x")
            # An open connection may be ended by the old daemon's drain; a new one is never refused.
            assert client.recv(1) in (b"x", b"")
        except ConnectionResetError:
            pass
    served += 1
print(served, "clients came, nobody was refused")
END
python3 client.py &
client=$!
dpkg -i nbctl_"$version"_*.deb nbserved_"$version"_*.deb nbbench_"$version"_*.deb
touch upgraded
wait $client
active nbserved.service active
[ "$(pid)" != "$old_pid" ]
[ "$(systemctl show -P MainPID nbserved-metrics.service)" != "$metrics_pid" ]
active nbserved-metrics.service active
systemctl stop nbserved-metrics.service
[ "$(grep -c 'of the older version' /etc/nbserved/nbserved.ini)" = 0 ]

say "The packages' own tests"
for test in tests/*; do
	if [ -x "$test" ]; then "$test"; fi
done

say "An edited configuration stays"
echo '; edited' >>/etc/nbserved/nbserved.ini
dpkg --force-confold -i old/nbctl.deb old/nbserved.deb
grep -q '; edited' /etc/nbserved/nbserved.ini
dpkg --force-confold -i nbctl_"$version"_*.deb nbserved_"$version"_*.deb
grep -q '; edited' /etc/nbserved/nbserved.ini
active nbserved.service active

# Nobody installs as often as this: systemd refuses the sixth start within ten seconds.
systemctl reset-failed nbserved.service
say "RDMA's drop-in comes and goes"
dpkg -i nbserved-rdma_"$version"_all.deb
systemctl show -P DropInPaths nbserved.service | grep rdma.conf
active nbserved.service active
[ "$(systemctl show -P PrivateDevices nbserved.service)" = no ]
dpkg --purge nbserved-rdma
[ "$(systemctl show -P PrivateDevices nbserved.service)" = yes ]
active nbserved.service active

say "Removing, with the socket in use"
systemctl stop nbserved.service
systemctl enable --now nbserved.socket
active nbserved.socket active
dpkg --remove nbserved nbctl nbbench
active nbserved.service inactive
active nbserved.socket inactive
[ -z "$(ss -Hltn sport = :7007)" ]
[ -e /etc/nbserved/nbserved.ini ] && [ -e /var/lib/nbserved/disk0.img ]
[ ! -e /usr/sbin/nbserved ] && [ ! -e /usr/bin/nbctl ] && [ ! -e /usr/bin/nbbench ]

say "Purging"
dpkg --purge nbserved nbctl nbbench
left=$(find / -xdev \( -name '*nbserved*' -o -name '*nbctl*' -o -name '*nbbench*' \) -not -path '/run/nspawn/*' -not -path '/proc/*')
left+=$(find /run -xdev -name '*nbserved*' -not -path '/run/nspawn/*')
echo "left: ${left:-nothing}"
[ -z "$left" ]
id nbserved
