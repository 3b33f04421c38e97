"""Run by test_vm_clients.py in the VM: clients of perftest without -R, which agree on their queue pairs over TCP."""
import contextlib
import socket
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
import inside_far
import inside_rdma
from inside_far import BOTH_WAYS, done_by, far_end, perftest, port_of
from inside_rdma import ADDRESSES, LIMIT, add_device, doctor, listener, must, run, running, section, wait_until
from traffic import together

clean, devices, start_daemon = inside_far.clean, inside_rdma.devices, inside_rdma.start_daemon
HOST = ADDRESSES["rxe"]
PAIR_KEY = 0x11111111  # of datagrams, as perftest has it
VERSION = b"6.06".ljust(16, b"\0")
BEGINNING = [VERSION, (4096).to_bytes(4, "big"), (64).to_bytes(4, "big"), b"3\0"]


@pytest.fixture
def device():
    return "rxe"


def mapped(address):
    return bytes(10) + b"\xff\xff" + socket.inet_aton(address)


def key(number, gid=mapped(HOST), reads=1):
    fields = f"{0:04x}:{reads:04x}:{number:06x}:{0x123456:06x}:{0:08x}:{0:016x}:"
    return (fields + "".join(f"{byte:02x}:" for byte in gid) + f"{0:08x}:").encode() + b"\0"


@contextlib.contextmanager
def talking(daemon, name="r"):
    with socket.create_connection((HOST, port_of(daemon, name)), timeout=LIMIT) as connection:
        yield connection


def answer(connection, message):
    """The answer to a message, or what came of it before the end."""
    said = b""
    with contextlib.suppress(ConnectionError):
        connection.sendall(message)
        while len(said) < len(message):
            part = connection.recv(len(message) - len(said))
            if not part:
                break
            said += part
    return said


def begin(connection, *keys):
    return [answer(connection, message) for message in [*BEGINNING, *keys]]


def over_tcp(daemon, command, name="r"):
    return perftest(daemon, "rxe", command, name, manager=())


def all_gone(daemon, name="r"):
    wait_until(lambda: daemon.stats(name)["connections"]["open"] == 0, "all have left")


@pytest.mark.parametrize("service, command, operation, count", [
    *BOTH_WAYS,
    ("perftest", "ib_send_bw -n 20 -s 64 -q 8", "message", 160),
    ("perftest", "ib_send_bw -n 10 -s 16 -m 512", "message", 10),
    ("perftest", "ib_write_bw -n 100 -s 1024 -q 2", "message", 0),
    ("perftest", "ib_send_bw -n 100 -s 1024 -x 0", "message", 100),
])
def test_perftest_over_tcp(start_daemon, clean, service, command, operation, count):
    daemon = far_end(start_daemon, "rxe", service)
    over_tcp(daemon, command)
    assert done_by(daemon, operation) == (1, count)


@pytest.mark.parametrize("pair_type, service, command, operation, count", [
    ("ud", "perftest-lat", "ib_send_lat -c UD -n 100", "pong", 100),
    ("ud", "perftest", "ib_send_bw -c UD -n 300 -s 1024 -q 2", "message", None),
    ("uc", "perftest", "ib_send_bw -c UC -n 300 -s 4096", "message", None),
    ("uc", "perftest", "ib_write_bw -c UC -n 100 -s 16384", "message", 0),
])
def test_perftest_over_tcp_with_other_queue_pairs(start_daemon, clean, pair_type, service, command, operation, count):
    """None: messages may be lost, as nothing sends them again."""
    daemon = far_end(start_daemon, "rxe", service, pair_type=pair_type)
    over_tcp(daemon, command)
    tests, done = done_by(daemon, operation)
    assert tests == 1 and (done > 0 if count is None else done == count), done


def mac_of(interface):
    return bytes.fromhex(Path(f"/sys/class/net/{interface}/address").read_text().strip().replace(":", ""))


def forged(source, qp):
    """A frame to rxe0 with a datagram of perftest's for this queue pair, from `source` as it says (RoCE v2)."""
    payload = b"forged!!"
    transport = struct.pack("!BBHIIII", 0x64, 0, 0xffff, qp, 1, PAIR_KEY, 4711) + payload
    udp = struct.pack("!HHHH", 49152, 4791, 8 + len(transport) + 4, 0)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp) + len(transport) + 4, 0, 0x4000, 64, 17, 0,
                     socket.inet_aton(source), socket.inet_aton(HOST))
    total = sum(struct.unpack("!10H", ip))
    checked = ip[:10] + struct.pack("!H", 0xffff - (total + total // 0x10000) % 0x10000) + ip[12:]
    # What routers change, checksums and a reserved byte count as ones in the packet's own sum.
    masked = (b"\xff" * 8 + ip[:1] + b"\xff" + ip[2:8] + b"\xff" + ip[9:10] + b"\xff\xff" + ip[12:] + udp[:6]
              + b"\xff\xff" + transport[:4] + b"\xff" + transport[5:])
    whole = checked + udp + transport + struct.pack("<I", zlib.crc32(masked))
    return mac_of("rxe_a") + mac_of("rxe_b") + b"\x08\x00" + whole


def answer_frame(raw):
    """The next frame of UDP that rxe0 sends."""
    frame = b""
    while frame[23:24] != b"\x11" or frame[26:30] != socket.inet_aton(HOST):
        frame = raw.recv(2000)
    return frame


@pytest.fixture
def sender():
    """An address whose Ethernet address is known, so that nobody has to answer for it."""
    neighbour = ["10.9.0.77", "dev", "rxe_a"]
    must("ip", "neighbour", "replace", *neighbour, "lladdr", mac_of("rxe_b").hex(":"))
    yield neighbour[0]
    must("ip", "neighbour", "delete", *neighbour)


def test_answers_have_the_traffic_class_of_the_listener(start_daemon, clean, sender):
    """A client without -R names none; on Ethernet without VLANs no frame shows the service level."""
    daemon = far_end(start_daemon, "rxe", "perftest-lat", pair_type="ud", traffic_class=104, service_level=3)
    with talking(daemon) as connection, socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800)) as raw:
        raw.bind(("rxe_b", 0))
        raw.settimeout(LIMIT)
        number = int(begin(connection, key(4711, mapped(sender)))[-1].split(b":")[2], 16)
        raw.send(forged(sender, number))
        assert answer_frame(raw)[15] == 104
    all_gone(daemon)


def test_clients_with_the_manager_are_served_whatever_the_pair_type(start_daemon, clean):
    daemon = far_end(start_daemon, "rxe", "perftest", pair_type="ud")
    perftest(daemon, "rxe", "ib_send_bw -n 100 -s 4096")
    assert done_by(daemon, "message") == (1, 100)


def test_perftest_over_tcp_by_time(start_daemon, clean):
    daemon = far_end(start_daemon, "rxe", "perftest")
    over_tcp(daemon, "ib_send_bw -D 1 -s 2048")
    tests, messages = done_by(daemon, "message")
    assert tests == 1 and messages > 0


def test_perftest_both_ways_many_at_once(start_daemon, clean):
    """With and without -R, at one port and over two workers."""
    daemon = far_end(start_daemon, "rxe", "perftest", workers=2)
    together(*[lambda command=command, manager=manager: perftest(daemon, "rxe", command, manager=manager)
               for command in ["ib_send_bw -n 200 -s 2048", "ib_read_bw -n 100 -s 2048"] for manager in [(), ("-R",)]])
    assert done_by(daemon, "message") == (4, 400)


def test_a_key_that_comes_again_gets_the_same_answer(start_daemon, clean):
    daemon = far_end(start_daemon, "rxe", "perftest")
    with talking(daemon) as connection:
        said = begin(connection, key(0x11), key(0x12, reads=0x80), key(0x11), key(0x12, reads=0x80))
        version, _, _, mtu, first, second, *again = said
        assert version == VERSION and mtu in (b"3\0", b"2\0"), said  # of an MTU of 1500
        assert again == [first, second] and first != second
        fields = first.split(b":")
        assert len(fields) == 24 and fields[0] == b"0000" and fields[1] == b"0001"
        assert fields[6:22] == key(0).split(b":")[6:22]  # both have the address of this host
        assert daemon.stats("r")["connections"]["open"] == 3
        shown = daemon.call("ListConnections", listener="r")["connections"]
        assert sorted(c["device"]["name"] if c.get("device") else "" for c in shown) == ["", "rxe0", "rxe0"]
        report = [b"\0" * 6 + b"\x01\x00", b"\0" * 6 + b"\x02\x00", *[b"\x40" + bytes(7)] * 3]
        assert [answer(connection, value) for value in report] == [*report[:2], *[bytes(8)] * 3]
        connection.sendall(b"done\0")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    all_gone(daemon)


def test_a_client_may_vanish_in_each_phase(start_daemon, clean):
    daemon = far_end(start_daemon, "rxe", "perftest")
    over_tcp(daemon, "ib_send_bw -n 10 -s 1024")
    all_gone(daemon)
    before = daemon.descriptors()
    messages = [*BEGINNING, key(0x11), key(0x12), bytes(8)]
    for whole in range(len(messages)):
        with talking(daemon) as connection:
            for message in messages[:whole]:
                assert len(answer(connection, message)) == len(message)
            connection.sendall(messages[whole][:-1])
    with running("ib_send_bw", "-F", "-d", "rxe0", "-p", port_of(daemon), "-D", 60, HOST,
                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        seen = daemon.stats("r")["operations"]["message"]["count"]
        wait_until(lambda: daemon.stats("r")["operations"]["message"]["count"] > seen, "messages come")
    all_gone(daemon)
    wait_until(lambda: daemon.descriptors() <= before, "all are closed")
    over_tcp(daemon, "ib_send_bw -n 100 -s 1024")


def test_perftest_over_tcp_ends_what_goes_wrong(start_daemon, clean):
    """None of these harms another client, whose test runs meanwhile."""
    daemon = far_end(start_daemon, "rxe", "perftest")
    wrong = [[b"x.06".ljust(16, b"\0")], [*BEGINNING[:3], b"9\0"], [*BEGINNING, b"z" * 108],
             [*BEGINNING, key(0x11).replace(b":", b";")], [*BEGINNING, key(0x11).upper()[:-1] + b"\1"]]
    unreachable = [bytes(16), bytes(15) + b"\1", *map(mapped, ["224.0.0.1", "10.9.0.77", "203.0.113.1", "127.0.0.1",
                                                               "255.255.255.255", "10.9.0.255"]),
                   b"\xfe\x80" + bytes(13) + b"\x77"]
    with talking(daemon) as other:
        assert begin(other, key(0x10))[-1]
        for messages in wrong:
            with talking(daemon) as connection:
                *fine, last = [answer(connection, message) for message in messages]
                assert all(fine) and last == b""
        wait_until(lambda: daemon.stats("r")["connections"]["closed"]["protocol"] == len(wrong), "they have left")
        for gid in unreachable:
            with talking(daemon) as connection:
                assert begin(connection, key(0x11, gid))[-1] == b"", gid
        wait_until(lambda: daemon.stats("r")["connections"]["closed"]["error"] == len(unreachable), "they have left")
        assert "no queue pair:" in daemon.log()
        with talking(daemon) as connection:  # more than there are receives for
            said = begin(connection, *[key(number) for number in range(1, 70)])
            assert said[10] and not said[-1]
        over_tcp(daemon, "ib_send_bw -n 50 -s 1024")
        assert len(answer(other, key(0x10))) == len(key(0x10))
    all_gone(daemon)


@pytest.mark.parametrize("command, reason", [("ibv_rc_pingpong -g 1", "it uses the protocol of ibv_rc_pingpong"),
                                             ("ib_atomic_bw -F -n 10", "an atomic operation (ib_atomic_bw)")])
def test_clients_of_another_service_are_named(start_daemon, clean, command, reason):
    daemon = far_end(start_daemon, "rxe", "perftest")
    done = run("timeout", LIMIT, *command.split(), "-d", "rxe0", "-p", port_of(daemon), HOST)
    assert done.returncode not in (0, 124), done.stdout
    wait_until(lambda: reason in daemon.log(), "it is named")
    over_tcp(daemon, "ib_send_bw -n 50 -s 1024")


def test_perftest_over_tcp_has_limits(start_daemon, clean):
    daemon = start_daemon(section("rxe", service="perftest", region_size="8M", max_connections=3)
                          + section("rxe", "denied", "perftest", region_size="8M", allow="192.0.2.0/24"))
    with talking(daemon, "denied") as connection:
        assert answer(connection, VERSION) == b""
    assert daemon.stats("denied")["connections"]["refused"]["denied"] == 1
    with talking(daemon) as connection:
        assert all(begin(connection, key(0x11), key(0x12)))
        with talking(daemon) as another:
            assert answer(another, VERSION) == b""
        assert answer(connection, key(0x13)) == b""  # and its queue pairs end with it
        all_gone(daemon)
    assert "no queue pair: too many connections" in daemon.log()
    over_tcp(daemon, "ib_send_bw -n 50 -s 1024")


def test_a_silent_client_is_given_a_minute(start_daemon, clean):
    """For each message before its first key, and none for its data; another one tests every size meanwhile."""
    daemon = far_end(start_daemon, "rxe", "perftest")
    with talking(daemon) as tests, talking(daemon) as silent, talking(daemon) as late:
        assert all(begin(tests, key(0x11)))
        assert all(answer(late, message) for message in BEGINNING)
        late.sendall(key(0x12)[:50])
        over_tcp(daemon, "ib_send_bw -n 5 -a")
        assert silent.recv(1) == late.recv(1) == b""
        assert daemon.stats("r")["connections"]["closed"]["idle"] == 2
        assert len(answer(tests, key(0x11))) == len(key(0x11))
    assert done_by(daemon, "message") == (2, 5 * 23)


def test_the_address_of_the_host_may_be_of_no_device(start_daemon, clean):
    """The client's GID tells the device.  Beside siw, no port of TCP is free on a wildcard address: -R is served."""
    wildcard = listener("r", "perftest", "rdma", transport="rdma", address="0.0.0.0:0", region_size="8M")
    daemon = start_daemon(wildcard)
    assert "bind tcp 0.0.0.0:" in daemon.log()
    perftest(daemon, "rxe", "ib_send_bw -n 50 -s 1024")
    daemon.stop()
    must("rdma", "link", "delete", "siw0")
    try:
        daemon = start_daemon(wildcard)
        done = run("timeout", LIMIT, "ib_send_bw", "-F", "-d", "rxe0", "-n", 50, "-s", 1024, "-p", port_of(daemon),
                   "127.0.0.1")
        assert done.returncode == 0, done.stdout + daemon.log()
        assert done_by(daemon, "message") == (1, 50)
        daemon.stop()
    finally:
        add_device("siw")


def test_iwarp_needs_the_connection_manager(start_daemon):
    daemon = far_end(start_daemon, "siw", "perftest")
    done = run("timeout", LIMIT, "ib_send_bw", "-F", "-d", "siw0", "-n", 50, "-p", port_of(daemon), ADDRESSES["siw"])
    assert done.returncode not in (0, 124), done.stdout
    assert "bind tcp" not in daemon.log()
    perftest(daemon, "siw", "ib_send_bw -n 50 -s 1024")


@pytest.fixture
def many_addresses():
    """More than any fixed size of a table of addresses that this program has had."""
    addresses = [f"10.9.{2 + i // 250}.{1 + i % 250}/32 dev rxe_a" for i in range(300)]

    def each(word):
        must("sh", "-c", "printf '%s\\n' \"$@\" | ip -batch -", "-", *[f"address {word} {at}" for at in addresses])

    each("add")
    yield len(addresses)
    each("delete")


def test_a_port_may_have_many_addresses(start_daemon, clean, many_addresses):
    shown = doctor()
    assert shown.count("(RoCE v2)") > many_addresses, shown
    daemon = far_end(start_daemon, "rxe", "perftest")
    over_tcp(daemon, "ib_send_bw -n 50 -s 1024")
    assert done_by(daemon, "message") == (1, 50)
