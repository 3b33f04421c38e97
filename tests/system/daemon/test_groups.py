"""Multicast groups of listeners over UDP: each datagram is answered once, to its sender alone."""

import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import struct
import subprocess

import pytest
from conftest import NBCTL, TIMEOUT, failed_start, listener, twin_address, wait_until
from test_fdstore import names, start_keeping
from test_udp import WHOLE, client, settled, sockperf, stats_of, udp

MINUTES = 1

CLONE_NEWNET = 0x40000000
GROUP, OTHER, SIX = "239.192.16.8", "239.192.16.9", "ff05::1:8"
LO = socket.if_nametoindex("lo")


def sender(by="127.0.0.1"):
    """A client whose datagrams to groups leave by the interface with that address."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(TIMEOUT)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(by))
    return s


def member(group, port):
    """A socket that hears all that is sent to the group, beside the daemon's."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind((group, port))
    mreq = struct.pack("4s4si", socket.inet_aton(group), b"", LO)
    s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, mreq)
    s.setblocking(False)
    return s


def ask(s, group, port, data=b"all of you"):
    s.sendto(data, (group, port))
    answer, source = s.recvfrom(65536)
    assert answer == data and source[1] == port
    return source[0]


def to_six(interface):
    """A client whose datagrams to groups of IPv6 leave by that interface."""
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, socket.if_nametoindex(interface))
    s.settimeout(TIMEOUT)
    return s


def has_route(daemon, interface, group):
    """The kernel adds the route of an interface some time after that is up."""
    with within(daemon):
        s = to_six(interface)
    with s:
        return s.connect_ex((group, 7007)) == 0


def shown(daemon, name="echo"):
    return daemon.status(name)["addresses"]


# ---- Whom a datagram reaches, and who is answered ----


@pytest.mark.parametrize("address", ["127.0.0.1:0", "0.0.0.0:0"])
def test_a_datagram_to_a_group_is_answered_once(start_daemon, engine, address):
    """By one worker of two, from an address of the host, to the sender and not to the group."""
    config = udp("echo", engine=engine, address=address, workers=2, groups=f"{GROUP}%lo, {OTHER}%lo")
    daemon = start_daemon(config)
    port = daemon.port("echo")
    assert shown(daemon)[1:] == [f"{GROUP}%lo:{port}", f"{OTHER}%lo:{port}"]
    with sender() as s, member(GROUP, port) as beside:
        assert ask(s, GROUP, port) == "127.0.0.1"
        assert ask(s, OTHER, port) == "127.0.0.1"
        assert ask(s, "127.0.0.1", port) == "127.0.0.1"
        found = settled(daemon, "echo")
        assert found["in"] == found["out"] == 3
        assert beside.recv(64) == b"all of you"
        with pytest.raises(BlockingIOError):
            beside.recv(64)


def test_groups_of_other_sockets_are_not_received(start_daemon, engine):
    """A socket on a wildcard would get them by default, one for each worker."""
    daemon = start_daemon(udp("echo", engine=engine, address="0.0.0.0:0", workers=2))
    port = daemon.port("echo")
    with sender() as s, member(GROUP, port) as beside:
        s.sendto(b"for others", (GROUP, port))
        ask(s, "127.0.0.1", port)
        assert settled(daemon, "echo")["in"] == 1
        assert beside.recv(64) == b"for others"


def test_each_port_has_the_groups(start_daemon):
    """Two addresses with one port have them once."""
    port = int(twin_address().split(":")[1])
    addresses = [f"127.0.0.1:{port}", f"[::1]:{port}", "127.0.0.1:0"]
    daemon = start_daemon(udp("echo", address=addresses, groups=[f"{GROUP}%lo", f"{SIX}%lo"]))
    other = daemon.addresses("echo")[2][1]
    assert shown(daemon)[3:] == [f"{GROUP}%lo:{port}", f"{GROUP}%lo:{other}",
                                 f"[{SIX}%lo]:{port}", f"[{SIX}%lo]:{other}"]
    with sender() as s:
        for at in (port, other):
            ask(s, GROUP, at)
    assert settled(daemon, "echo")["in"] == 2


# ---- Reload and restart ----


def drained(daemon, count):
    """Until that many listeners were replaced: what they have lost is served for as long as they drain."""
    wait_until(lambda: daemon.log().count(": drained") == count, "the old listener has ended")


def test_a_reload_adds_and_removes_groups(start_daemon, engine):
    """The other sockets stay: what waits in their queues is answered by the new workers."""
    keys = {"engine": engine, "workers": 2, "address": "0.0.0.0:0"}
    daemon = start_daemon(udp("echo", **keys, groups=f"{GROUP}%lo"))
    port = daemon.port("echo")
    with sender() as s, client(("127.0.0.1", port)) as polite:
        ask(s, GROUP, port)
        daemon.freeze()
        polite.send(b"waits")
        s.sendto(b"waits, too", (GROUP, port))
        daemon.write_config(udp("echo", **keys, groups=f"{GROUP}%lo, {OTHER}%lo"))
        with subprocess.Popen([str(NBCTL), "-s", daemon.control, "reload"], stdout=subprocess.PIPE) as reload:
            daemon.process.send_signal(signal.SIGCONT)
            assert reload.wait(TIMEOUT) == 0, reload.stdout.read()
        assert polite.recv(64) == b"waits" and s.recv(64) == b"waits, too"
        assert shown(daemon) == [f"0.0.0.0:{port}", f"{GROUP}%lo:{port}", f"{OTHER}%lo:{port}"]
        assert ask(s, GROUP, port) and ask(s, OTHER, port)
        daemon.write_config(udp("echo", **keys, groups=f"{OTHER}%lo"))
        daemon.nbctl("reload")
        assert shown(daemon) == [f"0.0.0.0:{port}", f"{OTHER}%lo:{port}"]
        drained(daemon, 2)
        s.sendto(b"nobody is there", (GROUP, port))
        assert ask(s, OTHER, port)
        polite.send(b"still here")
        assert polite.recv(64) == b"still here"
    assert settled(daemon, "echo")["in"] == 2


def test_a_refused_reload_changes_no_group(start_daemon):
    daemon = start_daemon(udp("echo", groups=f"{GROUP}%lo"))
    port = daemon.port("echo")
    daemon.write_config(udp("echo", groups=[f"{OTHER}%lo", f"{GROUP}%nowhere"]))
    refused = daemon.nbctl("reload", check=False)
    assert refused.returncode == 1 and "interface 'nowhere': No such device" in refused.stdout
    with sender() as s:
        s.sendto(b"nobody is there", (OTHER, port))
        ask(s, GROUP, port)
    assert settled(daemon, "echo")["in"] == 1


def test_groups_over_a_restart(start_daemon, engine):
    """The next process serves what has waited, and leaves groups that its configuration does not have."""
    config = udp("echo", engine=engine, groups=[f"{GROUP}%lo", f"{OTHER}%lo"], workers=2)
    first = start_keeping(start_daemon, config)
    port = first.port("echo")
    assert names(first)[:2] == [f"echo%1={group} {port}" for group in (GROUP, OTHER)]
    first.terminate()
    with sender() as s:
        s.sendto(b"waits", (GROUP, port))
        s.sendto(b"waits in vain", (OTHER, port))
        second = start_keeping(start_daemon, udp("echo", engine=engine, groups=f"{GROUP}%lo", workers=2),
                               inherit=first.store)
        assert s.recv(64) == b"waits"
        assert ask(s, GROUP, port)
    assert shown(second) == [f"127.0.0.1:{port}", f"{GROUP}%lo:{port}"]
    assert settled(second, "echo")["in"] == 2
    assert names(second)[0] == f"echo%1={GROUP} {port}" and len(names(second)) == 3


# ---- Interfaces, in a network of the daemon's own ----


@pytest.fixture
def alone():
    """preexec for a daemon; skips where there is no network of its own."""
    if os.geteuid() or not os.path.exists("/proc/self/ns/net"):
        pytest.skip("needs root, for a network of its own")

    def enter():
        assert ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0
        for words in ["link set lo up", "link add near type veth peer name far", "address add 10.9.0.1/24 dev near",
                      "address add 10.9.1.1/24 dev far"]:
            subprocess.run(["ip", *words.split()], check=True)

    return enter


def ip(daemon, words):
    subprocess.run(["nsenter", "-t", str(daemon.pid), "-n", "ip", *words.split()], check=True)


@contextlib.contextmanager
def within(daemon):
    """Sockets made here are in the daemon's network."""
    setns = ctypes.CDLL(None, use_errno=True).setns
    with open("/proc/thread-self/ns/net", "rb") as ours, open(f"/proc/{daemon.pid}/ns/net", "rb") as theirs:
        assert setns(theirs.fileno(), CLONE_NEWNET) == 0
        try:
            yield
        finally:
            assert setns(ours.fileno(), CLONE_NEWNET) == 0


def test_only_the_named_interface_is_served(start_daemon, engine, alone):
    """The same group on two interfaces has two sockets; one of them goes away."""
    keys = {"engine": engine, "address": "0.0.0.0:7007"}
    daemon = start_daemon(udp("echo", **keys, groups=f"{GROUP}%near, {GROUP}%far"), preexec=alone)
    for name in ("near", "far"):
        ip(daemon, f"link set {name} up")
    assert shown(daemon)[1:] == [f"{GROUP}%near:7007", f"{GROUP}%far:7007"]
    with within(daemon):
        near, far = sender("10.9.0.1"), sender("10.9.1.1")
    with near, far:
        assert ask(near, GROUP, 7007) == "10.9.0.1"
        assert ask(far, GROUP, 7007) == "10.9.1.1"
        assert settled(daemon, "echo")["in"] == 2
        daemon.write_config(udp("echo", **keys, groups=f"{GROUP}%near"))
        daemon.nbctl("reload")
        drained(daemon, 1)
        far.sendto(b"nobody is there", (GROUP, 7007))
        assert ask(near, GROUP, 7007) == "10.9.0.1"
        assert settled(daemon, "echo")["in"] == 1


@pytest.mark.parametrize("group", [SIX, "ff02::1:8"])
def test_groups_of_ipv6(start_daemon, engine, alone, group):
    """Loopback has no route to them."""

    def enter():
        alone()
        for words in ["link set near addrgenmode none", "address add fd09::1/64 dev near nodad", "link set near up",
                      "link set far up"]:
            subprocess.run(["ip", *words.split()], check=True)

    config = udp("echo", engine=engine, address="[::]:7007", workers=2, groups=f"{group}%near")
    daemon = start_daemon(config, preexec=enter)
    assert shown(daemon)[1:] == [f"[{group}%near]:7007"]
    wait_until(lambda: has_route(daemon, "near", group), "there is a route to the group")
    with within(daemon):
        s = to_six("near")
    with s:
        assert ask(s, group, 7007) == "fd09::1"
        assert settled(daemon, "echo")["in"] == 1


def test_an_interface_that_is_not_there(start_daemon, alone):
    """Is a reason to be unavailable, until a reload finds it."""
    config = udp("echo", address="0.0.0.0:7007", groups=f"{GROUP}%later", optional="yes")
    daemon = start_daemon(config + listener("other"), preexec=alone)
    status = daemon.status("echo")
    assert status["state"] == "unavailable"
    assert status["reason"] == (f"group {GROUP}%later: interface 'later': No such device; "
                                "ip link shows which this host has")
    doctor = json.loads(daemon.nbctl("doctor", "--json", check=False).stdout)
    (found,) = [item for item in doctor["listeners"] if item["name"] == "echo"]
    assert not found["available"] and found["fix"] == "ip link shows which this host has"
    ip(daemon, "link set near name later")
    ip(daemon, "link set later up")
    daemon.nbctl("reload")
    assert shown(daemon) == ["0.0.0.0:7007", f"{GROUP}%later:7007"]
    with within(daemon):
        s = sender("10.9.0.1")
    with s:
        ask(s, GROUP, 7007)


def test_a_start_without_the_interface_fails(start_daemon):
    log = failed_start(start_daemon, udp("echo", groups=f"{GROUP}%nowhere"))
    assert f": group {GROUP}%nowhere: interface 'nowhere': No such device" in log


def test_an_interface_that_is_not_named(start_daemon, alone):
    """Is the only one there is; else an error names the choice, or how to name one."""
    keys = {"address": "0.0.0.0:7007", "optional": "yes"}
    daemon = start_daemon(udp("echo", **keys, groups=GROUP), preexec=alone)

    def reason():
        daemon.nbctl("reload", check=False)
        return daemon.status("echo")["reason"]

    assert reason() == (f"group {GROUP}: no interface of this host is up and takes part in multicast; "
                        f"name one as in '{GROUP}%lo'")
    for name in ("far", "near"):
        ip(daemon, f"link set {name} up")
    found = re.fullmatch(rf"group {GROUP}: this host has several interfaces with multicast \((.*)\); "
                         rf"name one as in '{GROUP}%\w+'", reason())
    assert found and set(found[1].split(", ")) == {"near", "far"}
    ip(daemon, "link set near down")
    daemon.nbctl("reload")
    assert shown(daemon) == ["0.0.0.0:7007", f"{GROUP}%far:7007"]


def test_a_host_that_takes_no_groups(start_daemon, alone):
    def enter():
        alone()
        with open("/proc/sys/net/ipv4/igmp_max_memberships", "w", encoding="ascii") as f:
            f.write("0")

    config = udp("echo", address="0.0.0.0:7007", groups=f"{GROUP}%near", optional="yes")
    daemon = start_daemon(config, preexec=enter)
    reason = daemon.status("echo")["reason"]
    assert reason.startswith(f"bind {GROUP}%near:7007: No buffer space available; ")
    assert "sysctl net.ipv4.igmp_max_memberships" in reason


# ---- sockperf ----


@pytest.mark.parametrize("how", ["one", "feed"])
def test_sockperf_of_a_group(start_daemon, engine, tmp_path, how):
    """Over one group, and over a list of groups and an address."""
    groups = [f"{GROUP}%lo", f"{OTHER}%lo"]
    daemon = start_daemon(udp("sockperf", engine=engine, service="sockperf", workers=2, groups=groups, **WHOLE))
    port = daemon.port("sockperf")
    feed = tmp_path / "feed"
    feed.write_text("".join(f"U:{host}:{port}\n" for host in (GROUP, OTHER, "127.0.0.1")))
    to = ["-i", GROUP, "-p", str(port)] if how == "one" else ["-f", str(feed)]
    text = sockperf("ping-pong", *to, "--mc-loopback-enable", "--mc-tx-if", "127.0.0.1", "--mc-rx-if", "127.0.0.1",
                    "--data-integrity")
    received = int(re.search(r"Total Run\] .*ReceivedMessages=(\d+)", text)[1])
    pongs = daemon.stats("sockperf")["operations"]["pong"]["count"]
    assert 0 < received <= pongs <= stats_of(daemon, "sockperf")["in"]
    twice = re.search(r"duplicated messages = (\d+)", text)
    assert not twice or twice[1] == "0"
