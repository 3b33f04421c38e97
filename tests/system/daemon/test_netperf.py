"""netperf: its own client where it is installed (Debian has it in non-free), and one of ours that says
what that one says, over each engine; and what neither would say."""

import errno
import os
import shutil
import signal
import socket
import struct

import pytest
from conftest import TIMEOUT, listener, run, twin_address, wait_until
from traffic import is_ended, receive, reset, together

MINUTES = 1

MESSAGE = 656
OMNI, CRR_FLAG, CPU_FLAG = 97, 0x4, 0x8
SEND, RECEIVE, BOTH = 2, 4, 6  # as the server sees it
PORTS = 6


def request(direction, length, sizes=(-1, -1), flags=0, port=0, kind=OMNI, stream=1, send=-1, cpu=-1, tos=-1):
    words = [0] * 38
    words[0] = words[6] = words[7] = -1
    words[1], words[5], words[11] = send, *sizes
    words[12], words[14], words[20] = flags | 0x20, length, port
    words[21], words[22], words[23], words[24] = 4, stream, 6 if stream == 1 else 17, direction
    words[36], words[37] = -1, tos
    return struct.pack(">ii38i", kind, cpu, *words).ljust(MESSAGE, b"\0")


def drain(s):
    count = 0
    while data := s.recv(1 << 20):
        count += len(data)
    return count


class Result:
    def __init__(self, message):
        words = struct.unpack(">164i", message)
        unsigned = struct.unpack(">164I", message)
        assert words[1] == 0
        self.bytes_in = unsigned[2] << 32 | unsigned[3]
        self.bytes_out = unsigned[6] << 32 | unsigned[7]
        self.receives = unsigned[4]
        self.buffers = words[5], words[9]  # SO_RCVBUF, SO_SNDBUF
        self.transactions = words[11]
        self.elapsed, self.cpu = struct.unpack(">2f", message[8 + 40:8 + 48])
        self.cpus = words[2 + 19]
        self.congestion = message[276:292].rstrip(b"\0").decode()


class Client:
    def __init__(self, daemon, at=0, name="np"):
        self.address = daemon.addresses(name)[at]
        self.control = socket.create_connection(self.address, timeout=TIMEOUT)

    def ask(self, *words, **keys):
        """The port for its data, or minus the error."""
        self.control.sendall(request(*words, **keys))
        answer = struct.unpack(">164i", receive(self.control, MESSAGE))
        return -answer[1] if answer[1] else answer[2 + 11]

    def data(self, port):
        assert port > 0, os.strerror(-port)
        return socket.create_connection((self.address[0], port), timeout=TIMEOUT)

    def result(self):
        return Result(receive(self.control, MESSAGE))

    def stream(self, size):
        with self.data(self.ask(RECEIVE, -size)) as s:
            s.sendall(b"x" * size)
            s.shutdown(socket.SHUT_WR)
            assert drain(s) == 0
        return self.result()

    def transactions(self, count, asks, answers, burst=1):
        with self.data(self.ask(BOTH, 60, (asks, answers))) as s:
            for _ in range(count // burst):
                s.sendall(b"q" * asks * burst)
                receive(s, answers * burst)
            s.shutdown(socket.SHUT_WR)
            assert drain(s) == 0
        return self.result()

    def connections(self, length, count, answers=3):
        port = self.ask(BOTH, length, (1, answers), flags=CRR_FLAG)
        for _ in range(count):
            with self.data(port) as s:
                s.sendall(b"q")
                assert drain(s) == answers
        return self.result()

    def datagrams(self, sizes, length=-1):
        """UDP_STREAM, of these sizes."""
        with self.socket(self.ask(RECEIVE, length, stream=2)) as s:
            for size in sizes:
                s.send(b"x" * size)
            for _ in range(3):
                s.send(b"")
            return self.result()

    def datagram_transactions(self, count, asks, answers, burst=1):
        with self.socket(self.ask(BOTH, 60, (asks, answers), stream=2)) as s:
            for _ in range(count // burst):
                for _ in range(burst):
                    s.send(b"q" * asks)
                for _ in range(burst):
                    assert len(s.recv(1 << 17)) == answers
            for _ in range(3):
                s.send(b"")
            return self.result()

    def socket(self, port):
        assert port > 0, os.strerror(-port)
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(TIMEOUT)
        s.connect((self.address[0], port))
        return s


def ranged(service_engine, **keys):
    """A listener on ports that the kernel chose, one by one."""
    return listener("np", service="netperf", engine=service_engine, address=["127.0.0.1:0"] * PORTS, **keys)


@pytest.fixture
def daemon(start_daemon, engine):
    daemon = start_daemon(ranged(engine))
    yield daemon
    daemon.wait_closed("np")
    pool = daemon.stats("np")["pool"]
    assert pool["chunks"] - pool["free"] <= 2  # what senders send, and what messages are written to


# ---- Tests as they should be ----


def test_stream_counts_every_byte(daemon):
    result = Client(daemon).stream(3_000_001)
    assert (result.bytes_in, result.bytes_out) == (3_000_001, 0)
    assert result.congestion and 0 < result.elapsed < TIMEOUT
    assert daemon.stats("np")["operations"]["receive"]["count"] > 0


def test_maerts_sends_what_was_asked_for_and_ends(daemon):
    client = Client(daemon)
    with client.data(client.ask(SEND, -5_000_001)) as s:
        assert drain(s) == 5_000_001
    assert client.result().bytes_out == 5_000_001


def test_maerts_ends_by_time(daemon):
    client = Client(daemon)
    with client.data(client.ask(SEND, 1, flags=CPU_FLAG)) as s:
        got = len(s.recv(1))
        result = client.result()  # netperf reads no more when its own time is over, and waits for the result
        assert result.bytes_out == got + drain(s) > 1
    assert 0.9 < result.elapsed < TIMEOUT
    assert 0 < result.cpu <= 100 and result.cpus == os.cpu_count()


@pytest.mark.parametrize("asks, answers, burst", [(1, 1, 1), (1, 1, 20), (64, 300_000, 2), (30_000, 7, 5),
                                                  (600_001, 1, 1)])
def test_every_request_is_answered(daemon, asks, answers, burst):
    result = Client(daemon).transactions(40, asks, answers, burst)
    assert (result.transactions, result.bytes_in, result.bytes_out) == (40, 40 * asks, 40 * answers)
    assert daemon.stats("np")["operations"]["transaction"]["count"] == 40


@pytest.mark.parametrize("length", [-50, 1])  # by their number, and by time
def test_a_connection_for_each_request(daemon, length):
    result = Client(daemon).connections(length, 50)
    assert (result.transactions, result.bytes_in, result.bytes_out) == (50, 50, 150) and result.elapsed < TIMEOUT


def test_many_at_once_find_their_own_data(start_daemon, engine):
    """More than there are ports, from one address, over two workers: each has its own counts."""
    daemon = start_daemon(ranged(engine, workers=2))

    def run(index):
        client = Client(daemon, index % PORTS)
        if index % 2:
            assert client.connections(-10, 10, index).bytes_out == 10 * index
        else:
            assert client.transactions(20, 5, 100 + index).bytes_out == 20 * (100 + index)
            assert client.stream(10_000 + index).bytes_in == 10_000 + index

    together(*(lambda i=i: run(i) for i in range(16)))  # as many control clients as a user may have
    daemon.wait_closed("np")


def test_a_thousand_tests_leave_nothing(daemon):
    before = daemon.descriptors()
    for _ in range(500):
        client = Client(daemon)
        assert client.transactions(1, 1, 1).transactions == 1
        assert client.stream(10).bytes_in == 10
        client.control.close()
    daemon.wait_closed("np")
    wait_until(lambda: daemon.descriptors() <= before, "descriptors are closed")
    test = daemon.stats("np")["operations"]["test"]
    assert (test["count"], test["errors"]) == (1000, 0)


# ---- Datagrams ----


def twins(engine, **keys):
    """Listeners of both transports at ports of which each is free for both."""
    addresses = [twin_address() for _ in range(3)]
    return (listener("np", service="netperf", engine=engine, address=addresses, **keys)
            + listener("udp", service="netperf", engine=engine, address=addresses, transport="udp",
                       buffers=256, **keys))


@pytest.fixture
def both(start_daemon, engine):
    daemon = start_daemon(twins(engine))
    yield daemon
    daemon.wait_closed("np")


def test_datagrams_are_counted(both):
    result = Client(both).datagrams([1, 1472, 65507] * 20)
    assert (result.bytes_in, result.receives) == (20 * (1 + 1472 + 65507), 60)
    assert min(result.buffers) > 65507
    assert both.stats("udp")["operations"]["receive"]["count"] == 60
    assert both.stats("np")["operations"]["test"]["count"] == 1


def test_every_datagram_is_answered(both):
    """Although it is longer: a client with a TCP connection is no forger."""
    client = Client(both)
    for asks, answers, burst in [(1, 1, 1), (1, 65507, 1), (1472, 7, 5)]:
        result = client.datagram_transactions(40, asks, answers, burst)
        assert (result.transactions, result.bytes_in, result.bytes_out) == (40, 40 * asks, 40 * answers)
    assert both.stats("udp")["operations"]["transaction"]["count"] == 120
    assert both.stats("udp")["udp"]["withheld"] == 0


def test_datagrams_have_the_traffic_class_that_was_asked_for(both):
    for tos, expected in ((0xb8, 0xb8), (-1, 0)):
        client = Client(both)
        with client.socket(client.ask(BOTH, 60, (1, 1), stream=2, tos=tos)) as s:
            s.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
            s.send(b"q")
            _, control, _, _ = s.recvmsg(100, 64)
            assert control[0][:2] == (socket.IPPROTO_IP, socket.IP_TOS) and control[0][2][0] == expected
            for _ in range(3):
                s.send(b"")
            client.result()


def test_datagrams_fit_the_listeners_buffers(start_daemon):
    """A request that would be cut is refused before the test, not dropped in it."""
    daemon = start_daemon(twins("epoll").replace("transport = udp", "transport = udp\nbuffer-size = 4K"))
    client = Client(daemon)
    for sizes in [(4097, 1), (1, 4097)]:
        assert client.ask(BOTH, 1, sizes, stream=2) == -errno.EMSGSIZE
    assert client.datagram_transactions(2, 4096, 4096).transactions == 2


def test_the_end_of_datagrams_may_be_lost(start_daemon):
    """The test ends by its time, or when no more datagrams come."""
    daemon = start_daemon(twins("epoll"))

    def run(index):
        client = Client(daemon)
        with client.socket(client.ask(RECEIVE, index or -1, stream=2)) as s:
            s.send(b"x" * 100)
            result = client.result()
            assert (result.bytes_in, result.receives) == (100, 1) and result.elapsed < TIMEOUT

    together(*(lambda i=i: run(i) for i in range(2)))


def test_datagrams_of_no_session_are_refused(both):
    client = Client(both)
    port = client.ask(BOTH, 60, (1, 1), stream=2)
    with client.socket(port) as known, client.socket(port) as stranger:
        stranger.send(b"")
        wait_until(lambda: both.stats("udp")["udp"]["refused"] == 1, "it ends no test")
        known.send(b"q")
        assert known.recv(10) == b"n"
        stranger.send(b"q")
        wait_until(lambda: both.stats("udp")["udp"]["refused"] == 2, "it is in no test")
        client.control.close()
        wait_until(lambda: both.stats("udp")["connections"]["open"] < 2, "its test is over")


def test_many_tests_of_datagrams_at_once(start_daemon, engine):
    daemon = start_daemon(twins(engine, workers=2))

    def run(index):
        client = Client(daemon, index % 3)
        assert client.datagram_transactions(20, 5, 100 + index).bytes_out == 20 * (100 + index)
        assert client.datagrams([index + 1] * 10).bytes_in == 10 * (index + 1)
        assert client.stream(10_000 + index).bytes_in == 10_000 + index

    together(*(lambda i=i: run(i) for i in range(12)))
    daemon.wait_closed("np")


def test_a_reload_takes_the_twin(start_daemon):
    config = twins("epoll")
    daemon = start_daemon(config)
    assert Client(daemon).datagrams([10]).bytes_in == 10
    daemon.write_config(config[:config.index("[listener udp]")])
    daemon.nbctl("reload")
    assert Client(daemon).ask(RECEIVE, 1, stream=2) == -errno.EPROTONOSUPPORT
    assert "no listener with `transport = udp`" in daemon.log()


# ---- Unsupported requests and misbehaving clients ----


@pytest.mark.one("engine")
@pytest.mark.parametrize("error, words, keys", [
    (errno.EPROTONOSUPPORT, (RECEIVE, 1), {"stream": 2}),
    (errno.EOPNOTSUPP, (RECEIVE, 1), {"kind": 300}),
    (errno.EOPNOTSUPP, (RECEIVE, 1), {"kind": 1}),  # debugging
    (errno.EOPNOTSUPP, (RECEIVE, 1), {"kind": 4}),  # who are you?
    (errno.EOPNOTSUPP, (RECEIVE, 1), {"kind": 5}),  # what is your CPU worth?
    (errno.EOPNOTSUPP, (RECEIVE, 1), {"kind": 6}),  # netperf -Z: a passphrase
    (errno.EOPNOTSUPP, (RECEIVE, 1), {"kind": 10}),  # TCP_STREAM of netperf 2.4
    (errno.EOPNOTSUPP, (0, 1), {"flags": CRR_FLAG}),
    (errno.EINVAL, (BOTH, 1, (0, 1)), {}),
    (errno.EINVAL, (RECEIVE, 0), {}),
    (errno.EADDRNOTAVAIL, (RECEIVE, 1), {"port": 1}),
])
def test_refusals_have_an_error(daemon, error, words, keys):
    client = Client(daemon)
    assert client.ask(*words, **keys) == -error
    assert client.stream(10).bytes_in == 10  # and that was all
    assert daemon.stats("np")["operations"]["test"]["errors"] == 1


def test_options_without_effect_on_the_server_are_ignored(daemon):
    """netperf -T, -a, -A, -F: the server's CPU, the alignment of its memory, and a file to send, which it never opens."""
    client = Client(daemon)
    asked = bytearray(request(RECEIVE, -10, cpu=1))
    struct.pack_into(">3i", asked, 8 + 4 * 2, -1, 1 << 30, 1 << 30)
    struct.pack_into(">3i", asked, 8 + 4 * 8, 1 << 30, -1, 1 << 30)
    struct.pack_into("32s", asked, 8 + 4 * 38 + 16, b"/etc/passwd")
    client.control.sendall(asked)
    with client.data(struct.unpack(">164i", receive(client.control, MESSAGE))[2 + 11]) as s:
        s.sendall(b"x" * 10)
        s.shutdown(socket.SHUT_WR)
        assert drain(s) == 0
    assert client.result().bytes_in == 10


def test_a_request_may_come_by_the_byte(daemon):
    client = Client(daemon)
    client.control.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    whole = request(RECEIVE, -10)
    for n in range(12):
        client.control.sendall(whole[n:n + 1])
        wait_until(lambda n=n: daemon.stats("np")["bytes_in"] == n + 1, "it has come")
    client.control.sendall(whole[12:])
    assert struct.unpack(">2i", receive(client.control, MESSAGE)[:8])[1] == 0


def test_requests_that_are_never_complete_hold_no_memory(start_daemon, engine):
    daemon = start_daemon(listener("np", service="netperf", engine=engine, buffers=64, buffer_size="16K"))
    silent = []
    for _ in range(16):
        client = Client(daemon)
        silent.append((client, client.data(client.ask(BOTH, 60, (1 << 20, 1)))))
        silent[-1][1].sendall(b"q" * ((1 << 20) - 1))
    assert Client(daemon).transactions(10, 300_000, 1).transactions == 10
    for client, data in silent:
        data.sendall(b"q")
        assert receive(data, 1)
        client.control.close()
        data.close()


def test_requests_that_come_together_are_served_in_turn(daemon):
    client = Client(daemon)
    client.control.sendall(request(RECEIVE, 1, kind=5) + request(RECEIVE, -10) + request(RECEIVE, 0))
    assert struct.unpack(">2i", receive(client.control, MESSAGE)[:8])[1] == errno.EOPNOTSUPP
    with client.data(struct.unpack(">164i", receive(client.control, MESSAGE))[2 + 11]) as s:
        s.sendall(b"x" * 10)
        s.shutdown(socket.SHUT_WR)
        assert drain(s) == 0
    assert client.result().bytes_in == 10
    assert struct.unpack(">2i", receive(client.control, MESSAGE)[:8])[1] == errno.EINVAL


@pytest.mark.parametrize("size", [7, MESSAGE - 1])
def test_a_request_that_is_cut_short_is_none(daemon, size):
    with socket.create_connection(daemon.addresses("np")[0], timeout=TIMEOUT) as s:
        s.sendall(request(RECEIVE, 1)[:size])
        s.shutdown(socket.SHUT_WR)
        assert drain(s) == 0
    daemon.wait_closed("np")
    test = daemon.stats("np")["operations"]["test"]
    assert (test["count"], test["errors"]) == (0, 0)


@pytest.mark.parametrize("direction", [RECEIVE, BOTH, SEND])
def test_data_that_is_reset_ends_its_test(daemon, direction):
    """Its control connection has the counts so far, and the next test."""
    client = Client(daemon)
    s = client.data(client.ask(direction, 60, (10, 10)))
    if direction != SEND:
        s.sendall(b"x" * 10)
        wait_until(lambda: daemon.stats("np")["bytes_in"] == MESSAGE + 10, "it has come")
    else:
        receive(s, 1)
    reset(s)
    assert client.result().bytes_in == (0 if direction == SEND else 10)
    assert client.stream(10).bytes_in == 10


@pytest.mark.parametrize("junk", [b"x" * 700, b"\0" * 700, request(RECEIVE, 1, kind=5000), b"\0\0\0\x61" + b"7" * 652])
def test_unexpected_data_connections_are_closed(daemon, junk):
    with socket.create_connection(daemon.addresses("np")[0], timeout=TIMEOUT) as s:
        s.sendall(junk)
        assert is_ended(s)
    daemon.wait_closed("np")
    assert daemon.stats("np")["connections"]["closed"]["protocol"] == 1


@pytest.mark.parametrize("direction, flags", [(RECEIVE, 0), (SEND, 0), (BOTH, 0), (BOTH, CRR_FLAG)])
def test_data_ends_with_its_control(daemon, direction, flags):
    client = Client(daemon)
    s = client.data(client.ask(direction, 60, (1, 1), flags=flags))
    if direction != SEND:
        s.sendall(b"x")
    if direction == SEND or direction == BOTH:
        assert receive(s, 1)
    else:
        wait_until(lambda: daemon.stats("np")["bytes_in"] > MESSAGE, "it is data")
    client.control.close()
    assert is_ended(s)
    s.close()


def test_a_client_that_vanishes_between_control_and_data(daemon):
    client = Client(daemon)
    port = client.ask(RECEIVE, 60)
    client.control.close()
    wait_until(lambda: daemon.stats("np")["connections"]["open"] == 0, "control is gone")
    with client.data(port) as s:
        s.sendall(b"x" * 100)
        assert is_ended(s)


def test_data_finds_its_test_when_a_reload_has_replaced_the_listener(start_daemon, engine):
    daemon = start_daemon(ranged(engine))
    client = Client(daemon)
    port = client.ask(RECEIVE, -1000)
    daemon.write_config(ranged(engine, buffers=256))
    assert daemon.nbctl("reload").stdout.endswith("generation 2\n")
    with client.data(port) as s:
        s.sendall(b"x" * 1000)
        s.shutdown(socket.SHUT_WR)
        assert drain(s) == 0
    assert client.result().bytes_in == 1000


def test_a_drain_waits_for_a_test(start_daemon, engine):
    daemon = start_daemon(ranged(engine))
    client = Client(daemon)
    s = client.data(client.ask(BOTH, 60, (1, 1)))
    s.sendall(b"q")
    receive(s, 1)
    os.kill(daemon.pid, signal.SIGTERM)
    for _ in range(10):
        s.sendall(b"q")
        receive(s, 1)
    s.shutdown(socket.SHUT_WR)
    assert drain(s) == 0
    assert client.result().transactions == 11
    s.close()


def test_a_drain_waits_for_a_silent_test(start_daemon):
    """A client that gets no CPU; an idle connection, opened later, shows how long the drain waits for one."""
    daemon = start_daemon(ranged("epoll"))
    client = Client(daemon)
    with client.data(client.ask(BOTH, 60, (1, 1))) as s:
        s.sendall(b"q")
        receive(s, 1)
        with socket.create_connection(client.address, timeout=TIMEOUT) as idle:
            wait_until(lambda: daemon.stats("np")["connections"]["open"] == 3, "it is accepted")
            os.kill(daemon.pid, signal.SIGTERM)
            assert idle.recv(1) == b""
        s.sendall(b"q")
        receive(s, 1)
        s.shutdown(socket.SHUT_WR)
        assert drain(s) == 0
    assert client.result().transactions == 2
    assert daemon.process.wait(TIMEOUT) == 0


# ---- netperf itself ----


@pytest.mark.skipif(not shutil.which("netperf"), reason="netperf is not installed: Debian has it in non-free")
@pytest.mark.parametrize("words", [
    "TCP_STREAM -C", "TCP_MAERTS -C", "TCP_RR -C", "TCP_CRR -C", "TCP_RR -- -r 64,1024 -b 8", "TCP_RR -T 0,1",
    "TCP_STREAM -- -m 1000 -s 100000 -S 100000", "TCP_CRR -- -r 100,20000", "omni -- -d rr -k all",
    "UDP_STREAM -C -- -m 1472", "UDP_STREAM", "UDP_RR -C", "UDP_RR -- -r 1,9000 -b 4"])
def test_netperf(both, words):
    host, port = both.addresses("np")[0]
    kind, *options = words.split()
    told = run("netperf", "-H", host, "-p", port, "-l", "1", "-P", "0", "-t", kind, *options)
    assert "error" not in told
    if kind == "omni":
        assert "TRANSACTION_RATE=" in told
    else:
        assert float(told.split()[4 + (kind.endswith("RR") or kind == "UDP_STREAM")]) > 0, told
