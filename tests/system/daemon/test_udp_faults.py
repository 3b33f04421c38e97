"""Transport udp where something is missing: memory, room to send, the client, a feature, a process."""

import contextlib
import ctypes
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, TIMEOUT, twin_address, wait_until
from test_udp import KIB, WHOLE, client, own_address, settled, stats_of, udp

CLONE_NEWNET = 0x40000000
HOST, NEIGHBOUR = "10.9.0.1", "10.9.0.2"
IP_RECVERR, IPV6_RECVERR = 11, 25


def ticks(daemon):
    """CPU time of the daemon, in 1/100 s."""
    with open(f"/proc/{daemon.pid}/stat", encoding="ascii") as f:
        return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13]))


def rests(daemon):
    """No loop is left behind: while this process uses CPU time, one would use about as much, on a busy host, too."""

    def still():
        before, end = ticks(daemon), time.process_time() + 0.5
        while time.process_time() < end:
            pass
        return ticks(daemon) - before <= 3  # a sanitizer has a thread of its own

    wait_until(still, "the daemon sleeps")


def arrived(daemon, count):
    """The daemon's figures once it has taken that many datagrams, or the kernel dropped them."""

    def told():
        found = stats_of(daemon, "echo")
        return found["in"] + found["overflowed"] == count and found

    return wait_until(told, f"{count} datagrams")


# ---- Memory ----


def test_sockets_share_a_small_pool(start_daemon, engine):
    """A worker without a buffer leaves datagrams in the socket's queue, where the kernel counts the dropped ones."""
    addresses = [f"127.0.0.{i}:0" for i in range(1, 7)] + ["[::1]:0"]
    daemon = start_daemon(udp("echo", engine=engine, address=addresses, **{"buffers": 16, "buffer-size": "4K"}))
    clients = [client(address) for address in daemon.addresses("echo")]
    daemon.freeze()
    for _ in range(100):
        for s in clients:
            s.send(bytes(1400))
    os.kill(daemon.pid, signal.SIGCONT)
    found = arrived(daemon, 100 * len(clients))
    assert found["in"] == found["out"]
    assert daemon.stats("echo")["pool"]["starved"] > 0 or engine == "io_uring"  # that one posts fewer
    for s in clients:
        s.close()
    for address in daemon.addresses("echo"):
        with client(address) as s:
            s.send(b"polite")
            assert s.recv(64) == b"polite"
    wait_until(lambda: daemon.stats("echo")["pool"]["free"] == 16, "all buffers are free")


# ---- Room to send ----


def alone():
    """In the process that becomes the daemon: a network of its own, whose neighbours do not answer for long."""
    assert ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0
    for words in ["link set lo up", "link add near type veth peer name far", "link set near up mtu 65535",
                  "link set far up mtu 65535", f"address add {HOST}/24 dev near"]:
        subprocess.run(["ip", *words.split()], check=True)
    for name, value in {"unres_qlen_bytes": 1 << 28, "retrans_time_ms": 1000 * TIMEOUT}.items():
        with open(f"/proc/sys/net/ipv4/neigh/near/{name}", "w", encoding="ascii") as f:
            f.write(str(value))


def within(daemon, words, **options):
    return subprocess.Popen(["nsenter", "-t", str(daemon.pid), "-n", *words], **options)


def forge(port, bytes_each):
    """Runs in the daemon's network: a datagram of a neighbour's for each line; then one of ours that is answered."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        datagram = struct.pack(">HHHH", 5000, port, 8 + bytes_each, 0) + bytes(bytes_each)
        head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(datagram), 0, 0, 64, socket.IPPROTO_UDP, 0,
                           socket.inet_aton(NEIGHBOUR), socket.inet_aton(HOST))
        for _ in sys.stdin:
            raw.sendto(head + datagram, (HOST, 0))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((HOST, port))
        wait_until(lambda: is_answered(s), "an answer to us")


def is_answered(s):
    """The datagram that finds out that there is no room may be lost."""
    s.send(b"polite")
    s.settimeout(0.2)
    with contextlib.suppress(TimeoutError):
        return s.recv(64) == b"polite"
    return False


def start_blocked(start_daemon, engine, server="", **keys):
    """A daemon, alone in its network, that has no room to send: answers to an absent client fill the socket.  Its
    configuration, and the process that has sent the datagrams and then asks for an answer."""
    if os.geteuid() or not os.path.exists("/proc/self/ns/net"):
        pytest.skip("needs root, for a network of its own")
    config = server + udp("echo", engine=engine, address=f"{HOST}:7", **{"buffers": 16, "buffer-size": "64K", **keys})
    daemon = start_daemon(config, preexec=alone)
    port = daemon.port("echo")
    code = f"import sys; sys.path[:0] = {[os.path.dirname(__file__), str(ROOT / 'tests/system')]!r}; import test_udp_faults as t; t.forge({port}, 60000)"
    process = within(daemon, [sys.executable, "-B", "-c", code], stdin=subprocess.PIPE, bufsize=0)

    def blocked():
        process.stdin.write(8 * b"\n")
        return daemon.stats("echo")["tx_blocked"] > 0

    wait_until(blocked, "there is no room")
    process.stdin.close()
    rests(daemon)
    return daemon, config, process


def make_room(daemon):
    """The absent client can be reached now."""
    within(daemon, ["ip", "neigh", "replace", NEIGHBOUR, "lladdr", "02:00:00:00:00:02", "dev", "near"]).wait()


def test_no_room_to_send(start_daemon, engine):
    """Nothing is read from any client until there is room.  A reload does not wait for it."""
    daemon, config, process = start_blocked(start_daemon, engine)
    daemon.write_config(config + "busy-poll = 1us\n")
    daemon.call("Reload")
    make_room(daemon)
    assert process.wait(TIMEOUT) == 0

    def told():
        found = stats_of(daemon, "echo")
        return found["in"] == found["out"] + found["unsent"] and found

    found = wait_until(told, "all are sent, but for a batch of each worker's")
    assert found["unsent"] <= (2 * 8 if engine == "io_uring" else 0)


def has_loop(daemon, look):
    """Do its workers make more turns than the looks at them, and what look() does, can explain?"""
    before, looks = daemon.stats("echo")["cost"]["turns"], 100
    for _ in range(looks):
        look()
        after = daemon.stats("echo")["cost"]["turns"]
    return after - before > 10 * looks


def test_room_behind_a_drain_is_no_loop(start_daemon, engine):
    """The socket that had no room has it when its worker neither receives nor sends any more."""
    daemon, _, process = start_blocked(start_daemon, engine, "[server]\ndrain-timeout = 200ms\n")
    process.kill()
    process.wait()
    daemon.call("Drain", listener="echo")
    wait_until(lambda: daemon.status("echo")["state"] == "drained", "it has drained")
    make_room(daemon)
    assert not has_loop(daemon, lambda: time.sleep(0.01))


def ports(daemon):
    """Those of all UDP sockets in the daemon's network."""
    with open(f"/proc/{daemon.pid}/net/udp", encoding="ascii") as f:
        return [int(line.split()[1].split(":")[1], 16) for line in f.readlines()[1:]]


def test_a_full_socket_is_closed_with_its_listener(start_daemon, engine):
    """A request to the kernel that awaits room would keep it, and its address."""
    daemon, _, process = start_blocked(start_daemon, engine, "[server]\ndrain-timeout = 200ms\n")
    process.kill()
    process.wait()
    port = daemon.port("echo")
    assert port in ports(daemon)
    daemon.call("Drain", listener="echo")
    wait_until(lambda: daemon.status("echo")["state"] == "drained", "it has drained")
    wait_until(lambda: port not in ports(daemon), "it is closed")


def client_of_daemon(daemon, code):
    """A process in the daemon's network."""
    return within(daemon, [sys.executable, "-B", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)


def test_a_drained_worker_whose_socket_was_full_rests(start_daemon, engine):
    """The other worker serves on, so the listener's sockets are still open."""
    daemon, _, process = start_blocked(start_daemon, engine, workers=2, **{"idle-timeout": "1s"})
    process.kill()
    process.wait()
    wait_until(lambda: daemon.stats("echo")["connections"]["open"] == 0, "the absent client is forgotten")
    with client_of_daemon(daemon, ANSWERED % daemon.port("echo")) as polite:
        assert polite.stdout.readline() == "found\n"
        daemon.call("Drain", listener="echo")
        make_room(daemon)

        def talk():
            polite.stdin.write("\n")
            assert polite.stdout.readline() == "answered\n"

        assert not has_loop(daemon, talk)
        polite.stdin.close()


# A client of the worker that answers: it tells "found", then says something for each line.
ANSWERED = f"""
import socket, sys
while True:
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(0.2)
    s.connect(({HOST!r}, %d))
    s.send(b"x")
    try:
        s.recv(1)
        break
    except TimeoutError:
        s.close()
print("found", flush=True)
s.settimeout({TIMEOUT})
for _ in sys.stdin:
    s.send(b"x")
    s.recv(1)
    print("answered", flush=True)
"""


# ---- The client has gone ----


def unreachable():
    """What ICMP has said to this network namespace of packets that were sent, over IPv4 and IPv6."""
    names, values = [line.split() for line in Path("/proc/net/snmp").read_text().splitlines() if line.startswith("Icmp:")]
    v6 = re.search(r"^Icmp6InDestUnreachs\s+(\d+)", Path("/proc/net/snmp6").read_text(), re.M)
    return int(dict(zip(names, values, strict=True))["InDestUnreachs"]) + int(v6[1])


@pytest.mark.parametrize("service", ["echo", "chargen", "sockperf"])
def test_answers_to_ports_that_are_closed(start_daemon, engine, service):
    """ICMP errors are counted by the host and not reported to the sockets, so they make no answer to another client
    fail."""
    daemon = start_daemon(udp(service, engine=engine, service=service, address=["127.0.0.1:0", "[::1]:0"], **WHOLE),
                          env={"FDSTORE": "100"})
    message = struct.pack(">QHI", 7, 3, 14)
    before = unreachable()
    addresses = daemon.addresses(service)
    polite = [client(address) for address in addresses]
    rounds, each = 4, 200
    for _ in range(rounds):
        daemon.freeze()
        for address in addresses:
            with client(address) as s:
                for _ in range(each):
                    s.send(message)
        os.kill(daemon.pid, signal.SIGCONT)
        for s in polite:
            s.send(message)
            assert s.recv(64 * KIB)
    found = settled(daemon, service)
    assert found["in"] == found["out"] == rounds * 2 * (each + 1)
    wait_until(lambda: unreachable() - before >= rounds * 2, "errors are counted")
    daemon.notified()
    for _, descriptor in daemon.store:
        with socket.socket(fileno=os.dup(descriptor)) as s:
            assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            level, option = ((socket.IPPROTO_IPV6, IPV6_RECVERR) if s.family == socket.AF_INET6
                             else (socket.IPPROTO_IP, IP_RECVERR))
            assert s.getsockopt(level, option) == 0
            with pytest.raises(BlockingIOError):
                s.recvmsg(64, 64, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
    rests(daemon)
    for s in polite:
        s.close()


# ---- Features ----


def test_udp_is_served_without_optional_features(start_daemon, engine):
    """All that `features` can switch off; what is left is shown."""
    off = ["udp_gro", "udp_gso"]
    if engine != "epoll":
        off += ["registered_ring", "restricted", "single_issuer", "defer_taskrun"]
    names = ", ".join("-" + name for name in off)
    daemon = start_daemon(udp("echo", engine=engine, features=names, address=["127.0.0.1:0", "[::1]:0"], **WHOLE))
    shown = daemon.status("echo")["engine_features"]
    assert not set(off) & set(shown) and {"-" + name for name in off} <= set(shown)
    assert set(shown) - {"-" + name for name in off} <= {"multishot_recvmsg", "buffer_ring"}
    sizes = (0, 64, 8000)
    for address in daemon.addresses("echo"):
        clients = [client(address) for _ in range(20)]
        for i, s in enumerate(clients):
            for size in sizes:
                s.send(b"%d " % i + bytes(size))
        for i, s in enumerate(clients):
            for size in sizes:
                assert s.recv(64 * KIB) == b"%d " % i + bytes(size)
            s.close()
    found = settled(daemon, "echo")
    assert found["merged"] == found["split"] == 0 and found["in"] == found["out"] == 120


# ---- Hostile clients ----


def forged(seeded):
    """Messages almost as a service expects them, with wrong sizes, numbers and states; or random bytes."""
    number = seeded.choice([0, 1, -1, 1 << 31, (1 << 63) - 1, -(1 << 63), seeded.getrandbits(40)])
    low, high = struct.unpack(">II", struct.pack(">Q", number & (1 << 64) - 1))[::-1]
    head = seeded.choice([
        struct.pack(">QHI", seeded.getrandbits(64), seeded.choice([1, 2, 3, 3, 7]), seeded.choice([0, 13, 14, 14, 200, 1200, 1 << 31])),
        bytes.fromhex(seeded.choice(["39383736", "36373839", "15cd5b07", "075bcd15"])),  # iperf3's first ones
        struct.pack(">IIII", low, 1, 2, high),  # data of iperf's, or its last
        struct.pack(">IIQ", 1, 2, number & (1 << 64) - 1),
        b"n", b""])
    return (head + seeded.randbytes(1200))[: seeded.choice([0, 1, 4, 12, 13, 14, 16, 56, 60, len(head), 200, 1200])]


def test_forged_datagrams_are_not_amplified(start_daemon, engine):
    """For every service, with all places taken, during reloads and a drain; and no other client is disturbed."""
    services = ["echo", "discard", "chargen", "sockperf", "iperf3", "netperf"]
    host, seeded = own_address(), random.Random(engine)
    addresses = {service: twin_address("0.0.0.0") for service in services}
    ports = {service: int(address.split(":")[1]) for service, address in addresses.items()}

    def config(buffers):
        return "".join(udp(s, engine=engine, service=s, address=addresses[s], buffers=buffers,
                           **{"buffer-size": "64K", "max-connections": 64}) for s in services)

    daemon = start_daemon(config(64))
    answered = dict.fromkeys(services, 0)
    for turn in range(2):
        for service in services:
            clients = [client((host, ports[service])) for _ in range(100)]
            sent = [sum(s.send(forged(seeded)) for _ in range(6)) for s in clients]
            if turn == 1 and service in ("chargen", "netperf"):
                daemon.write_config(config(64 + len(service)))
                daemon.call("Reload")
            with client((host, ports["echo"])) as s:
                s.send(b"polite")
                assert s.recv(64) == b"polite"
            wait_until(lambda n=service: daemon.status(n)["state"] == "serving", "it serves")
            for s, brought in zip(clients, sent):
                s.setblocking(False)
                got = 0
                while True:
                    try:
                        got += len(s.recv(64 * KIB))
                    except BlockingIOError:
                        break
                assert got <= brought, service
                answered[service] += got
                s.close()
    for service in services:
        stats = daemon.stats(service)
        assert stats["bytes_out"] <= stats["bytes_in"] and stats["connections"]["open"] <= 64
        assert (answered[service] > 0) == (service in ("echo", "chargen", "sockperf")), answered
    rests(daemon)
    with client((host, ports["echo"])) as s:
        for _ in range(200):
            s.send(bytes(1000))
        assert daemon.terminate() == 0
