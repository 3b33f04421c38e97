"""Transport udp: echo and discard of datagrams over each engine, whom they answer, and from where."""

import contextlib
import os
import random
import re
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest
from conftest import NBCTL, TIMEOUT, check_config, listener, requires, run, twin_address, wait_until
from test_options import affinity_of

MINUTES = 1.7

KIB = 1024
SIZES = [0, 1, 64, 511, 512, 513, 1472, 8972, 16384, 65507]
WHOLE = {"buffers": 256}


def udp(name, **keys):
    return listener(name, transport="udp", **keys)


def client(address, source=None):
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(TIMEOUT)
    if source:
        s.bind(source)
    s.connect(address)
    return s


def stats_of(daemon, name):
    return daemon.stats(name)["udp"]


def settled(daemon, name, **wanted):
    """Waits until the counters are that; the others of them are 0."""
    lost = dict.fromkeys(["truncated", "refused", "withheld", "unsent", "overflowed", "dropped"], 0)
    lost.update(wanted)

    def told():
        found = stats_of(daemon, name)
        return all(found[key] == value for key, value in lost.items()) and found

    return wait_until(told, f"{name}: {lost}")


def nothing_comes(daemon, s, name, **wanted):
    """After what the counters tell, the queue of s is empty: nothing was sent to it."""
    settled(daemon, name, **wanted)
    s.setblocking(False)
    with pytest.raises(BlockingIOError):
        s.recv(1)
    s.settimeout(TIMEOUT)


def test_echo_of_every_size(start_daemon, engine):
    """Up to the longest of IPv4, then of IPv6, with the default buffers."""
    daemon = start_daemon(udp("echo", engine=engine, address=["127.0.0.1:0", "[::1]:0"]))
    sizes = [SIZES, [*SIZES, 65527]]
    for address, those in zip(daemon.addresses("echo"), sizes):
        with client(address) as s:
            for size in those:
                data = random.Random(size).randbytes(size)
                assert s.send(data) == size
                assert s.recv(128 * KIB) == data
            with pytest.raises(OSError):
                s.send(bytes(those[-1] + 1))
    found = settled(daemon, "echo")
    assert found["in"] == found["out"] == sum(map(len, sizes))
    stats = daemon.stats("echo")
    assert stats["bytes_in"] == stats["bytes_out"] == sum(map(sum, sizes))
    assert stats["operations"]["echo"]["count"] == sum(map(len, sizes))
    assert stats["connections"]["accepted"] == 2


def test_status_and_log_say_that_it_is_udp(start_daemon):
    daemon = start_daemon(udp("echo") + listener("stream"))
    assert "listener 'echo': echo on udp 127.0.0.1:" in daemon.log()
    text = daemon.nbctl("status").stdout
    assert "echo (udp)" in text and text.count("(udp)") == 1


def test_many_clients_with_bursts(start_daemon, engine):
    """Each datagram comes back once, in its client's order; each counts as an operation, of the one worker that its
    client stays with."""
    last = max(os.sched_getaffinity(0))
    daemon = start_daemon(udp("echo", engine=engine, workers=2, cpus=last, **WHOLE))
    assert affinity_of(daemon, "echo/") == [{last}] * 2
    address = daemon.addresses("echo")[0]
    clients = [client(address) for _ in range(64)]
    for turn in range(5):
        for i, s in enumerate(clients):
            for j in range(8):
                s.send(b"%d %d %d " % (turn, i, j) + bytes(i * j))
        for i, s in enumerate(clients):
            for j in range(8):
                assert s.recv(64 * KIB) == b"%d %d %d " % (turn, i, j) + bytes(i * j)
    found = settled(daemon, "echo")
    assert found["in"] == found["out"] == 5 * 64 * 8
    assert daemon.stats("echo")["operations"]["echo"]["count"] == 5 * 64 * 8
    assert daemon.stats("echo")["connections"]["open"] == 64
    peers = daemon.call("ListConnections")["connections"]
    assert sorted(line["peer"] for line in peers) == sorted("127.0.0.1:%d" % s.getsockname()[1] for s in clients)
    assert {line["worker"] for line in peers} == {0, 1}
    for s in clients:
        s.close()


def test_a_wildcard_answers_from_where_it_was_asked(start_daemon, engine):
    daemon = start_daemon(udp("four", engine=engine, address="0.0.0.0:0", workers=2)
                          + udp("six", engine=engine, address="[::]:0"))
    port = daemon.addresses("four")[0][1]
    for host in ["127.0.0.1", "127.0.0.2", "127.9.9.9"]:
        with client((host, port)) as s:  # connected: an answer from another address would not reach it
            s.send(b"where")
            assert s.recv(64) == b"where"
    with client(("::1", daemon.addresses("six")[0][1])) as s:
        s.send(b"where")
        assert s.recv(64) == b"where"


def test_datagrams_that_are_too_long_are_dropped_and_counted(start_daemon, engine):
    daemon = start_daemon(udp("echo", engine=engine, **{"buffer-size": "4K"}))
    with client(daemon.addresses("echo")[0]) as s:
        s.send(bytes(4097))
        nothing_comes(daemon, s, "echo", truncated=1)
        assert "1 datagram lost (longer than buffer-size)" in " ".join(daemon.nbctl("stats").stdout.split())
        s.send(bytes(4096))
        assert s.recv(64 * KIB) == bytes(4096)


def test_datagrams_dropped_by_the_kernel_are_reported(start_daemon, engine):
    daemon = start_daemon(udp("discard", engine=engine, service="discard"))
    with client(daemon.addresses("discard")[0]) as s:
        room = 2 * int(Path("/proc/sys/net/core/rmem_max").read_text())
        count = min(room, 8 << 20) // 9000 + 500
        daemon.freeze()
        for _ in range(count):
            s.send(bytes(9000))
        os.kill(daemon.pid, signal.SIGCONT)
        wait_until(lambda: sum(stats_of(daemon, "discard")[key] for key in ("in", "overflowed")) == count, "all of them")
    overflowed = stats_of(daemon, "discard")["overflowed"]
    assert overflowed > 0
    assert "lost (full queue of the socket)" in " ".join(daemon.nbctl("stats").stdout.split())


def test_the_doctor_looks_at_the_room_for_datagrams(start_daemon):
    """Only if a listener has datagrams."""
    wanted = ["net.core.rmem_max", "net.core.wmem_max"]
    for config, names in [(udp("echo"), wanted), (listener("echo"), [])]:
        checks = start_daemon(config).call("Doctor")["checks"]
        found = {c["name"]: c for c in checks if c["name"].startswith("net.core.")}
        assert sorted(found) == names
        for name, one in found.items():
            assert one["value"] == Path("/proc/sys", name.replace(".", "/")).read_text().strip()
            assert one["ok"] == (int(one["value"]) >= 4 << 20) == (one["fix"] == "")


def test_discard_answers_nothing(start_daemon, engine):
    daemon = start_daemon(udp("discard", engine=engine, service="discard"))
    with client(daemon.addresses("discard")[0]) as s:
        for size in [0, 1, 500, 8000]:
            s.send(bytes(size))
        wait_until(lambda: stats_of(daemon, "discard")["in"] == 4, "four datagrams")
        nothing_comes(daemon, s, "discard")
    assert daemon.stats("discard")["operations"]["discard"]["count"] == 4
    assert daemon.stats("discard")["bytes_in"] == 8501


def test_no_reflector_is_answered(start_daemon, engine):
    """Neither is a port of this daemon: two listeners would answer each other for ever."""
    daemon = start_daemon(udp("one", engine=engine) + udp("other", engine=engine, address=twin_address()))
    one, other = (daemon.addresses(name)[0] for name in ("one", "other"))
    with client(one, source=("127.0.0.2", other[1])) as s:
        s.send(b"loop")
        nothing_comes(daemon, s, "one", refused=1)
    assert daemon.stats("one")["connections"]["accepted"] == 0


def test_groups_of_other_sockets_are_not_received(start_daemon, engine):
    """A socket on a wildcard would get them by default, one for each worker."""
    group = "239.192.16.8"
    daemon = start_daemon(udp("echo", engine=engine, address="0.0.0.0:0", workers=2))
    port = daemon.port("echo")
    with client(("127.0.0.1", port)) as s, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as member, socket.socket(
        socket.AF_INET, socket.SOCK_DGRAM
    ) as sender:
        member.settimeout(TIMEOUT)
        member.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        member.bind((group, port))
        member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("4s4si", socket.inet_aton(group), b"", socket.if_nametoindex("lo")))
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        sender.sendto(b"for others", (group, port))
        assert member.recv(64) == b"for others"
        s.send(b"for us")
        assert s.recv(64) == b"for us"
        assert settled(daemon, "echo")["in"] == 1


def test_allow(start_daemon, engine):
    daemon = start_daemon(udp("shut", engine=engine, allow="10.0.0.0/8"))
    with client(daemon.addresses("shut")[0]) as s:
        s.send(b"please")
        nothing_comes(daemon, s, "shut", dropped=1)
    assert daemon.stats("shut")["connections"]["refused"]["denied"] == 1


def test_one_time_senders_do_not_evict_lasting_clients(start_daemon, engine):
    daemon = start_daemon(udp("echo", engine=engine, **{"max-connections": 128}))
    address = daemon.addresses("echo")[0]
    with client(address) as polite:
        end = time.monotonic() + 0.05
        while time.monotonic() < end:  # it comes again, as far as a coarse clock tells
            polite.send(b"hello")
            assert polite.recv(64) == b"hello"
        first = daemon.call("ListConnections")["connections"][0]["id"]
        for i in range(600):
            with client(address) as s:
                s.send(b"once")
                assert s.recv(64) == b"once"
            if i % 8 == 0:
                polite.send(b"%d" % i)
                assert polite.recv(64) == b"%d" % i
        mine = "127.0.0.1:%d" % polite.getsockname()[1]
        listed = daemon.call("ListConnections", limit=1000)["connections"]
        assert [c["id"] for c in listed if c["peer"] == mine] == [first]
    stats = daemon.stats("echo")
    assert stats["udp"]["evicted"] >= 400  # the kernel may choose a port that is still known
    assert stats["connections"]["open"] <= 128
    settled(daemon, "echo")


def test_senders_of_one_datagram_evict_no_client(start_daemon, engine):
    """They cannot become established, however their datagrams fall into batches and ticks of the clock."""
    # 64 places are for senders that are not established, the others for the clients.
    clients_max, probation = 130, 64
    daemon = start_daemon(udp("echo", engine=engine, max_connections=clients_max))
    address = daemon.addresses("echo")[0]
    clients = [client(address) for _ in range(clients_max - probation)]
    for _ in range(3):
        for c in clients:
            c.send(b"x")
            c.recv(1)
        time.sleep(0.01)  # a client that sends again so much later is established
    silent_s = 1.5  # an established client that was silent for a second may be evicted by another one
    end = time.monotonic() + silent_s
    sent = 0
    while time.monotonic() < end or sent < 20000:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forged:
            forged.bind((f"127.1.{sent >> 8 & 255}.{sent & 255}", 0))
            forged.sendto(b"x", address)
        sent += 1
    listed = daemon.call("ListConnections", listener="echo", limit=1000)["connections"]
    kept = {one["peer"] for one in listed}
    assert {"{}:{}".format(*c.getsockname()) for c in clients} <= kept
    for c in clients:
        c.close()


def test_a_reload_that_keeps_an_address_serves_its_new_clients(start_daemon, engine):
    """The old worker serves the clients of the address that went, for as long as they send, and reads no more at
    the one that stays."""
    server, both = "[server]\ndrain-timeout = 1h\n", ["127.0.0.1:0", "127.0.0.2:0"]
    daemon = start_daemon(server + udp("echo", engine=engine, address=both))
    stays, goes = daemon.addresses("echo")
    with client(stays) as kept, client(goes) as old:
        for s in (kept, old):
            s.send(b"active")
            assert s.recv(64) == b"active"
        daemon.write_config(server + udp("echo", engine=engine, address=both[:1]))
        daemon.call("Reload")
        for i in range(30):
            old.send(b"%d" % i)
            assert old.recv(64) == b"%d" % i
            with client(stays) as new:
                new.send(b"new %d" % i)
                assert new.recv(64) == b"new %d" % i


def test_the_age_of_a_client_begins_with_its_datagram(start_daemon, engine):
    daemon = start_daemon(udp("echo", engine=engine))
    for _ in range(2):  # the second client comes after a time without datagrams
        time.sleep(0.2)
        begin = time.monotonic()
        with client(daemon.addresses("echo")[0]) as c:
            c.send(b"x")
            c.recv(1)
            name = "{}:{}".format(*c.getsockname())
            (one,) = [one for one in daemon.call("ListConnections")["connections"] if one["peer"] == name]
            assert one["age_ns"] <= (time.monotonic() - begin) * 1e9


def test_the_command_to_try_it_sends_datagrams(start_daemon):
    services = ["echo", "discard", "chargen", "sockperf"]
    daemon = start_daemon("".join(udp(s, service=s, engine="epoll") for s in services))
    for service in services:
        example = daemon.status(service)["example"]
        assert re.search(r" UDP:| -u |sockperf ping-pong -i", example), example
        assert f":{daemon.port(service)}" in example or f"-p {daemon.port(service)}" in example


def test_reload_loses_nothing_and_keeps_the_order(start_daemon, engine):
    daemon = start_daemon(udp("echo", engine=engine, address="127.0.0.1:0", **WHOLE))
    address = daemon.addresses("echo")[0]
    config = udp("echo", engine=engine, address="127.0.0.1:%d" % address[1], **WHOLE)
    daemon.write_config(config)
    daemon.call("Reload")
    with client(address) as s:
        sent = got = 0
        for i in range(6):
            for _ in range(500):
                while sent - got < 20:
                    s.send(b"%d" % sent)
                    sent += 1
                assert s.recv(64) == b"%d" % got
                got += 1
            daemon.write_config(config.replace("buffers = 256", "buffers = %d" % (260 + i)))
            daemon.call("Reload")
        while got < sent:
            assert s.recv(64) == b"%d" % got
            got += 1


@pytest.mark.parametrize("moves", [False, True])
def test_a_refused_reload_takes_no_client(start_daemon, engine, moves):
    """New sockets, for more workers or another address, receive only after the reload has succeeded."""
    daemon = start_daemon(udp("echo", engine=engine, address="0.0.0.0:0", workers=1, **WHOLE))
    port = daemon.addresses("echo")[0][1]
    address = f"{'127.0.0.1' if moves else '0.0.0.0'}:{port}"
    config = udp("echo", engine=engine, address=address, workers=1 if moves else 4, **WHOLE)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(client(("127.0.0.1", port))) for _ in range(32)]

        def all_are_answered():
            for s in clients:
                s.send(b"x")
            assert [s.recv(8) for s in clients] == [b"x"] * len(clients)

        with socket.create_server(("127.0.0.1", 0)) as other:
            taken = listener("taken", engine=engine, address="127.0.0.1:%d" % other.getsockname()[1])
            daemon.write_config(config + taken)
            with subprocess.Popen([str(NBCTL), "-s", daemon.control, "reload", "--quiet"]) as refused:
                while refused.poll() is None:
                    all_are_answered()
            assert refused.returncode == 1
        all_are_answered()
        daemon.write_config(config)
        daemon.call("Reload")
        all_are_answered()


def test_the_configuration_refuses_what_udp_lacks(tmp_path):
    for keys, said in (({"service": "http"}, "transport = tcp"), ({"address": "unix:/tmp/x.sock"}, "IP:PORT"),
                       ({"engine": "io_uring", "zero_copy_min": "16K"}, "requires transport = tcp"),
                       ({"engine": "rdma"}, "expected one for transport udp")):
        status, errors = check_config(tmp_path, udp("x", **keys))
        assert status != 0 and said in errors


# ---- Limits ----


def own_address():
    """An address of this host that is not loopback: a client from there is not local."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("198.51.100.1", 9))  # sends nothing
        except OSError:
            pytest.skip("no route: no address but loopback")
        return s.getsockname()[0]


def test_chargen_answers_each_datagram(start_daemon, engine):
    daemon = start_daemon(udp("chargen", engine=engine, service="chargen", address="0.0.0.0:0"))
    port = daemon.addresses("chargen")[0][1]
    with client(("127.0.0.1", port)) as s:
        for size in [0, 1, 700]:
            s.send(bytes(size))
            data = s.recv(64 * KIB)
            assert len(data) == 512 and data[:4] == b' !"#'
    with client((own_address(), port)) as s:
        for size in [0, 1, 511, 512, 700]:
            s.send(bytes(size))
            assert len(s.recv(64 * KIB)) == min(size, 512)
    assert daemon.stats("chargen")["operations"]["chargen"]["count"] == 8


def test_no_service_is_an_amplifier(start_daemon, engine):
    services = ["echo", "discard", "chargen", "sockperf"]
    daemon = start_daemon("".join(udp(name, engine=engine, service=name, address="0.0.0.0:0") for name in services))
    host, seeded = own_address(), random.Random(16)
    for name in services:
        sent = 0
        for _ in range(20):
            with client((host, daemon.addresses(name)[0][1])) as s:
                for _ in range(20):
                    flags = seeded.choice([1, 2, 3, 7])
                    length = seeded.choice([14, 200, 1000, 1 << 20])
                    head = struct.pack(">QHI", 1, flags, length)
                    data = (head + seeded.randbytes(986))[: seeded.choice([0, 9, 14, 200, 1000])]
                    sent += s.send(data)
        wait_until(lambda n=name: stats_of(daemon, n)["in"] == 400, "all of it")
        assert daemon.stats(name)["bytes_in"] == sent >= daemon.stats(name)["bytes_out"]
        settled(daemon, name)


# ---- Generators ----


def sockperf(mode, *options):
    """Its output; it is run again if it had too little CPU time for a result."""
    for _ in range(10):
        text = re.sub(r"\x1b\[[0-9;]*m", "", run(requires("sockperf"), mode, "-t", "1", *options))
        if "[Total Run]" in text:
            break
    return text


@pytest.mark.parametrize("mode", ["ping-pong", "under-load", "throughput"])
def test_sockperf(start_daemon, engine, mode):
    daemon = start_daemon(udp("sockperf", engine=engine, service="sockperf", **WHOLE))
    host, port = daemon.addresses("sockperf")[0]
    options = ["--data-integrity"] if mode == "ping-pong" else ["--mps", "2000"]
    text = sockperf(mode, "-i", host, "-p", port, "-m", "600", *options)
    operations = daemon.stats("sockperf")["operations"]
    if mode == "throughput":
        assert operations["count"]["count"] > 0 and stats_of(daemon, "sockperf")["out"] == 0
        return
    received = int(re.search(r"Total Run\] .*ReceivedMessages=(\d+)", text)[1])
    assert 0 < received <= operations["pong"]["count"]
    lost = re.search(r"dropped messages = (\d+)", text)  # None: the host kept it waiting, it judges no message
    assert not lost or lost[1] == "0"


def test_messages_other_than_sockperfs_are_counted(start_daemon, engine):
    daemon = start_daemon(udp("sockperf", engine=engine, service="sockperf"))
    with client(daemon.addresses("sockperf")[0]) as s:
        for bad in [b"", bytes(13), struct.pack(">QHI", 1, 3, 15), struct.pack(">QHI", 1, 3, 0)]:
            s.send(bad)
        s.send(struct.pack(">QHI", 7, 3, 14))
        assert s.recv(64) == struct.pack(">QHI", 7, 2, 14)
    assert daemon.stats("sockperf")["operations"]["count"]["errors"] == 4


# ---- GRO and GSO ----

UDP_SEGMENT = 103


def test_merged_datagrams_come_back_one_by_one(start_daemon, engine):
    daemon = start_daemon(udp("echo", engine=engine, **WHOLE)
                          + udp("plain", engine=engine, features="-udp_gro, -udp_gso", **WHOLE))
    for name in ["echo", "plain"]:
        with client(daemon.addresses(name)[0]) as s:
            try:
                s.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1200)
            except OSError:
                pytest.skip("no UDP_SEGMENT here")
            data = random.Random(1).randbytes(40 * 1200 + 7)
            assert s.send(data) == len(data)
            for at in range(0, len(data), 1200):
                assert s.recv(64 * KIB) == data[at : at + 1200]
        found = settled(daemon, name)
        assert found["in"] == found["out"] == 41
        merges = name == "echo" and "udp_gro" in daemon.status(name)["engine_features"]
        assert (found["merged"] > 0) == (found["split"] > 0) == merges
        assert daemon.stats(name)["operations"]["echo"]["count"] == 41


# ---- A restart ----


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_datagrams_sent_during_a_restart_are_answered(start_daemon, engine, end):
    config = udp("echo", engine=engine, workers=2)
    first = start_daemon(config, env={"FDSTORE": "100"})
    address = first.addresses("echo")[0]
    first.notified()
    assert sorted(name for name, _ in first.store) == ["echo=127.0.0.1 0"] * 2
    clients = [client(address) for _ in range(20)]
    for i, s in enumerate(clients):
        s.send(b"before %d" % i)
        assert s.recv(64) == b"before %d" % i
    first.process.send_signal(end)
    first.process.wait(TIMEOUT)
    for i, s in enumerate(clients):
        s.send(b"after %d" % i)
    second = start_daemon(config, env={"FDSTORE": "100"}, inherit=first.store)
    assert second.addresses("echo") == [address]
    for i, s in enumerate(clients):
        assert s.recv(64) == b"after %d" % i
        s.close()
