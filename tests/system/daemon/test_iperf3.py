"""iperf3 against its own client, over each engine, and against clients that no iperf3 would be."""

import json
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import time

import pytest
from conftest import ENGINES, TIMEOUT, is_sanitized, listener, requires, wait_until
from traffic import is_ended, receive, reset

MINUTES = 1.3

TEST_START, TEST_RUNNING, TEST_END = 1, 2, 4
PARAM_EXCHANGE, CREATE_STREAMS, SERVER_TERMINATE, CLIENT_TERMINATE = 9, 10, 11, 12
EXCHANGE_RESULTS, DISPLAY_RESULTS, IPERF_DONE = 13, 14, 16
ACCESS_DENIED, SERVER_ERROR = 255, 254
KIB, MIB = 1024, 1024 * 1024


def start(address, *options):
    host, port = address
    arguments = [requires("iperf3"), "-c", host, "-p", str(port), "-J", *options]
    return subprocess.Popen(["timeout", "-k", "5", str(TIMEOUT), *arguments], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def finish(process):
    text = process.communicate(timeout=TIMEOUT + 10)[0]
    document = json.loads(text)
    assert process.returncode == 0 and "error" not in document, text
    return document


def iperf3(daemon, *options):
    """The client's own report."""
    return finish(start(daemon.addresses("iperf3")[0], *options))


def ends(document, key=""):
    """Bytes sent and bytes received, in the sum of all streams of a direction.

    From 3.16 on a client cancels its threads, perhaps between a write and its count: a block of each stream
    is then missing in what it says that it has sent."""
    end, version = document["end"], document["start"]["version"]
    sent, received = end["sum_sent" + key]["bytes"], end["sum_received" + key]["bytes"]
    threads = tuple(map(int, version.split()[1].split(".")[:2])) >= (3, 16)
    if threads and sent < received <= sent + 128 * 1024 * len(end["streams"]):
        sent = received
    return sent, received


def in_flight_max(streams):
    """Bytes that have been sent and not received when a test ends: what sockets hold."""
    limits = [pathlib.Path(f"/proc/sys/net/ipv4/tcp_{way}mem").read_text() for way in "rw"]
    return streams * sum(int(limit.split()[2]) for limit in limits)


def has_ended(daemon, name="iperf3"):
    daemon.wait_closed(name)
    pool = daemon.stats(name)["pool"]
    # The pattern of each worker that has sent, and what it writes small things into.
    assert pool["chunks"] - pool["free"] <= 2 * daemon.status(name)["workers"]


@pytest.fixture
def daemon(start_daemon, engine):
    daemon = start_daemon(listener("iperf3", service="iperf3", engine=engine))
    yield daemon
    has_ended(daemon)


@pytest.fixture
def daemon_of_two(start_daemon, engine):
    daemon = start_daemon(listener("iperf3", service="iperf3", engine=engine, workers=2))
    yield daemon
    has_ended(daemon)


class Client:
    """One test, by hand."""

    serial = 0

    def __init__(self, address, **params):
        Client.serial += 1
        self.address = address
        self.cookie = f"{os.getpid():010d}{Client.serial:026d}".encode() + b"\0"
        self.params = {"tcp": True, "omit": 0, "time": 0, "parallel": 1, **params}
        self.streams = []
        self.control = self.connect()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for s in [self.control, *self.streams]:
            s.close()

    def connect(self):
        s = socket.create_connection(self.address, timeout=TIMEOUT)
        s.sendall(self.cookie)
        return s

    def expect(self, *states):
        assert list(receive(self.control, len(states))) == list(states)

    def send(self, state):
        self.control.sendall(bytes([state]))

    def send_json(self, document):
        text = json.dumps(document).encode()
        self.control.sendall(struct.pack(">I", len(text)) + text)

    def receive_json(self):
        return json.loads(receive(self.control, struct.unpack(">I", receive(self.control, 4))[0]))

    def set_up(self):
        self.expect(PARAM_EXCHANGE)
        self.send_json(self.params)
        return self

    def open(self):
        self.set_up().expect(CREATE_STREAMS)
        count = self.params["parallel"] * (2 if "bidirectional" in self.params else 1)
        self.streams += [self.connect() for _ in range(count)]
        return self

    def run(self):
        self.open().expect(TEST_START, TEST_RUNNING)
        return self

    def end(self, sent):
        """Ends the test; the server's results."""
        self.send(TEST_END)
        self.expect(EXCHANGE_RESULTS)
        streams = [{"id": i, "bytes": n} for i, n in sent.items()]
        self.send_json({"streams": streams})
        results = self.receive_json()
        self.expect(DISPLAY_RESULTS)
        self.send(IPERF_DONE)
        return results

    def error(self):
        """The number with which the server refuses the test."""
        state, error, _ = struct.unpack(">BII", receive(self.control, 9))
        assert state == SERVER_ERROR
        return error


# ---- The generator, with every option ----


@pytest.mark.parametrize("options", [["-n", "64M"], ["-k", "333", "-l", "100K"], ["-n", "1", "-P", "8"]])
def test_forward_all_that_is_sent_arrives(daemon, options):
    document = iperf3(daemon, *options)
    sent, received = ends(document)
    assert sent == received > 0
    for stream in document["end"]["streams"]:
        assert stream["sender"]["bytes"] == stream["receiver"]["bytes"]
    assert daemon.stats("iperf3")["operations"]["test"]["count"] == 1


@pytest.mark.parametrize(
    "options, asked, whole",
    [
        (["-n", "64M"], 64 * MIB, 64 * MIB),
        (["-n", "9M", "-P", "8"], 9 * MIB, 9 * MIB),
        (["-n", "1"], 1, 128 * KIB),
        (["-n", "1M", "-l", "3000"], MIB, 350 * 3000),
    ],
)
def test_reverse_sends_what_was_asked_for(daemon, options, asked, whole):
    """In whole blocks: a client may wait for the rest of one, or end the test without it."""
    document = iperf3(daemon, "-R", *options)
    sent, received = ends(document)
    assert sent == whole and asked <= received <= whole
    assert document["end"]["sum_sent"]["retransmits"] >= 0


def test_reverse_with_blocks(daemon):
    """The client takes each receive for a block: it ends the test after its number of blocks."""
    sent, received = ends(iperf3(daemon, "-R", "-k", "333", "-l", "100K"))
    assert 0 < received <= sent <= 333 * 100 * KIB


def test_time_and_both_directions_at_once(daemon):
    document = iperf3(daemon, "--bidir", "-t", "1", "-P", "2")
    for key in ["", "_bidir_reverse"]:
        sent, received = ends(document, key)
        assert sent >= received > 0 and sent - received <= in_flight_max(2) + MIB
    assert len(document["end"]["streams"]) == 4
    cpu = document["end"]["cpu_utilization_percent"]
    assert 0 < cpu["remote_total"] <= 110
    assert abs(cpu["remote_user"] + cpu["remote_system"] - cpu["remote_total"]) < 0.1
    operations = daemon.stats("iperf3")["operations"]
    assert operations["receive"]["count"] > 0 and operations["send"]["count"] > 0


@pytest.mark.parametrize("direction", [[], ["-R"]])
def test_omitted_seconds_do_not_count(daemon, direction):
    begin = time.monotonic()
    document = iperf3(daemon, "-t", "1", "-O", "1", "-b", "80M", *direction)
    took = time.monotonic() - begin
    # The server's own result, of about 20 MB in two seconds.
    counted = document["end"]["sum_sent" if direction else "sum_received"]
    whole = daemon.stats("iperf3")["bytes_out" if direction else "bytes_in"]
    assert 1e5 < counted["bytes"] < whole - 1e5
    assert 0 < counted["seconds"] < took - 0.9


def test_a_sender_keeps_its_rate(daemon):

    def rate(key, *options):
        end = iperf3(daemon, "-R", "-t", "1", *options)["end"][key]
        return end["bytes"] / end["seconds"]

    for _ in range(10):  # interrupted, it may have no time left to make up for it
        sent = rate("sum_sent", "-b", "40M", "-P", "2", "-l", "16K")
        assert sent < 11e6
        if sent > 9e6:
            break
    else:
        pytest.fail(f"{sent} bytes per second")
    assert rate("sum_received", "--fq-rate", "80M") < 20e6


def test_socket_options(daemon):
    available = open("/proc/sys/net/ipv4/tcp_available_congestion_control").read().split()
    for direction in [[], ["-R"]]:
        document = iperf3(daemon, "-n", "2M", "-w", "64K", "-M", "1000", "-C", "reno", "-S", "8", "-N", *direction)
        sent, received = ends(document)
        assert sent == received > 0
        assert "reno" in available and document["end"]["receiver_tcp_congestion"] == "reno"


def test_many_streams(daemon):
    document = iperf3(daemon, "-n", "32M", "-P", "128")
    assert ends(document)[0] == ends(document)[1] > 0
    assert len(document["end"]["streams"]) == 128


@pytest.mark.one("engine")
@pytest.mark.parametrize(
    "options, message",
    [(["-u"], "protocol does not exist"), (["-w", "100M"], "socket buffer size not set correctly")],
)
def test_the_client_says_why_it_is_refused(daemon, options, message):
    process = start(daemon.addresses("iperf3")[0], *options)
    text = process.communicate(timeout=TIMEOUT)[0]
    assert message in text
    wait_until(lambda: daemon.stats("iperf3")["operations"]["test"]["errors"] == 1, "the refusal is counted")


# ---- Many at once ----


def test_eight_clients_at_once(daemon_of_two):
    address = daemon_of_two.addresses("iperf3")[0]
    kinds = [["-n", "16M"], ["-R", "-n", "16M", "-P", "3"], ["-t", "1", "--bidir"], ["-n", "8M", "-P", "4"]]
    running = [start(address, *kind) for kind in kinds * 2]
    for process in running:
        sent, received = ends(finish(process))
        # Bytes that a busy host delivers later than a second after a test do not count.
        assert 0 < received <= sent
    assert daemon_of_two.stats("iperf3")["operations"]["test"]["count"] == 8


@pytest.mark.parametrize("options", [["-n", "16M"], ["-R", "-n", "16M"], ["-t", "1", "--bidir"]])
def test_streams_on_several_workers(daemon_of_two, options):
    """Eight streams: that the kernel gives all of them to one worker is one chance in 128."""
    running = start(daemon_of_two.addresses("iperf3")[0], "-P", "8", *options)
    sent, received = ends(finish(running))
    assert received > 0
    if "-n" in options:
        assert sent == received


def descriptors_settle(daemon, before):
    wait_until(lambda: daemon.descriptors() <= before, "descriptors are left over")


def test_a_thousand_tests_leave_nothing(daemon_of_two):
    daemon = daemon_of_two
    address = daemon.addresses("iperf3")[0]
    before, count = daemon.descriptors(), 200 if is_sanitized() else 1000
    memory = 0
    for i in range(count):
        block = bytes(1 + i % 3000)
        with Client(address) as client:
            client.run().streams[0].sendall(block)
            results = client.end({1: len(block)})
        assert [s["bytes"] for s in results["streams"]] == [len(block)]
        if i == count // 10:
            memory = daemon.memory()
    daemon.wait_closed("iperf3")
    descriptors_settle(daemon, before)
    operations = daemon.stats("iperf3")["operations"]
    assert operations["test"] == dict(operations["test"], count=count, errors=0)
    assert is_sanitized() or daemon.memory() < memory + 2 * MIB


# ---- By hand ----


def test_ids_and_fields(daemon):
    with Client(daemon.addresses("iperf3")[0], parallel=4) as client:
        client.run()
        for i, s in enumerate(client.streams):
            s.sendall(bytes(1000 * (i + 1)))
        results = client.end({1: 1000, 3: 2000, 4: 3000, 5: 4000})
    streams = results["streams"]
    assert [(s["id"], s["bytes"]) for s in streams] == [(1, 1000), (3, 2000), (4, 3000), (5, 4000)]
    assert results["sender_has_retransmits"] == -1
    for field in ["retransmits", "jitter", "errors", "packets", "omitted_errors", "omitted_packets"]:
        assert field in streams[0]


@pytest.mark.parametrize("skip", [0, 1])
def test_a_client_may_have_its_data_dropped(daemon, skip):
    """iperf3 --skip-rx-copy, since 3.19."""
    with Client(daemon.addresses("iperf3")[0], skip_rx_copy=skip) as client:
        client.run()
        for _ in range(100):
            client.streams[0].sendall(bytes(100 * KIB))
        (stream,) = client.end({1: 100 * 100 * KIB})["streams"]
    assert stream["bytes"] == 100 * 100 * KIB
    assert ("drop" in daemon.stats("iperf3")["engine_features"]) == bool(skip)


@pytest.mark.parametrize("options", [["-n", "64M"], ["-n", "16M", "-P", "4", "--bidir"], ["-n", "16M", "-R"]])
def test_a_listener_may_drop_what_it_receives(start_daemon, engine, options):
    daemon = start_daemon(listener("iperf3", service="iperf3", engine=engine, receive="drop"))
    sent, received = ends(iperf3(daemon, *options))
    assert sent == received > 0


def test_both_directions_find_each_other(daemon_of_two):
    """A stream's direction is known by the side that sends, not by the order of arrival."""
    with Client(daemon_of_two.addresses("iperf3")[0], parallel=2, bidirectional=True) as client:
        client.run()
        for s in client.streams[2:]:
            s.sendall(b"x" * 1000)
        for s in client.streams[:2]:
            receive(s, 100000)
        streams = client.end({1: 1000, 3: 1000})["streams"]
    assert [s["bytes"] for s in streams[:2]] == [1000, 1000]
    assert all(s["bytes"] >= 100000 and s["retransmits"] >= 0 for s in streams[2:])


def test_input_waits_while_the_client_does_not_read(daemon):
    """A client of one thread would else write ten blocks for each that it reads."""
    with Client(daemon.addresses("iperf3")[0], bidirectional=True) as client:
        client.run()
        back, forth = client.streams
        forth.setblocking(False)
        sent, most = 0, in_flight_max(2) + 16 * MIB  # all of it in sockets, or even
        while select.select([], [forth], [], 0.5)[1] and sent <= most:
            sent += forth.send(bytes(MIB))
        assert sent <= most
        end = time.monotonic() + TIMEOUT
        while not select.select([], [forth], [], 0)[1] and time.monotonic() < end:
            receive(back, MIB)
        assert forth.send(bytes(MIB)) > 0


@pytest.mark.one("engine")
@pytest.mark.parametrize(
    "params, error",
    [({"udp": True}, 131), ({"authtoken": "x"}, 142), ({"parallel": "many"}, 6), ({"time": -1}, 5)],
)
def test_parameters_that_cannot_be(daemon, params, error):
    with Client(daemon.addresses("iperf3")[0], **params) as client:
        assert client.set_up().error() == error


def test_text_that_is_none(daemon):
    for text in [b"", b"[]", b"{", b"\xff" * 100, b"[" * 8000]:
        with Client(daemon.addresses("iperf3")[0]) as client:
            client.expect(PARAM_EXCHANGE)
            client.control.sendall(struct.pack(">I", len(text)) + text)
            assert client.error() == 114
    with Client(daemon.addresses("iperf3")[0]) as client:
        client.expect(PARAM_EXCHANGE)
        client.control.sendall(struct.pack(">I", 1 << 30))
        assert client.error() == 114


def test_clients_of_another_protocol_are_closed(daemon):
    with daemon.connect("iperf3") as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n")
        assert is_ended(s)
    daemon.wait_closed("iperf3", accepted=1)
    assert daemon.stats("iperf3")["connections"]["closed"]["protocol"] == 1


@pytest.mark.skipif(is_sanitized(), reason="4,200 connections take longer than a test may wait for its parameters")
def test_one_stream_too_many(daemon):
    with Client(daemon.addresses("iperf3")[0]) as client:
        client.run()
        with client.connect() as s:
            assert receive(s, 1)[0] == ACCESS_DENIED
        client.streams[0].sendall(b"still there")
        assert client.end({1: 11})["streams"][0]["bytes"] == 11


def test_the_end_of_control_ends_streams(daemon_of_two):
    address = daemon_of_two.addresses("iperf3")[0]
    for end in ["terminate", "close", "reset", "nonsense"]:
        for params in [{}, {"reverse": True}]:
            with Client(address, parallel=4, **params) as client:
                client.run()
                if end == "terminate":
                    client.send(CLIENT_TERMINATE)
                elif end == "nonsense":
                    client.send(77)
                elif end == "reset":
                    reset(client.control)
                else:
                    client.control.close()
                assert all(is_ended(s) for s in client.streams)
                daemon_of_two.wait_closed("iperf3")


def test_a_stream_that_is_lost_before_the_start(daemon):
    with Client(daemon.addresses("iperf3")[0], parallel=3) as client:
        client.set_up().expect(CREATE_STREAMS)
        before = daemon.stats("iperf3")["bytes_in"]
        stream = client.connect()
        wait_until(lambda: daemon.stats("iperf3")["bytes_in"] == before + 37, "no cookie")
        reset(stream)
        assert client.error() == 200


def test_killed_clients(daemon_of_two):
    address = daemon_of_two.addresses("iperf3")[0]
    before = daemon_of_two.descriptors()
    kinds = [["-P", "4"], ["-R", "-P", "4"], ["--bidir"], ["-b", "1M", "-R"]]
    running = [start(address, "-t", "30", *kind) for kind in kinds]
    wait_until(lambda: daemon_of_two.stats("iperf3")["connections"]["open"] >= 5 + 5 + 3 + 2, "not all are connected")
    for process in running:
        # timeout's child, whose process group is timeout's.
        children = open(f"/proc/{process.pid}/task/{process.pid}/children").read().split()
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        process.communicate(timeout=TIMEOUT)
    daemon_of_two.wait_closed("iperf3")
    descriptors_settle(daemon_of_two, before)


def test_silent_clients_are_closed(start_daemon):
    """Clients that stop at every step without a FIN, over all engines at once: each waits 10 s."""
    daemon = start_daemon("".join(listener(e, service="iperf3", engine=e) for e in ENGINES))
    clients = []
    for engine in ENGINES:
        address = daemon.addresses(engine)[0]
        clients.append(Client(address))
        clients.append(Client(address).set_up())
        clients.append(Client(address, parallel=2, time=1).run())
        clients.append(Client(address, reverse=True, time=1).run())
        last = Client(address).run()
        last.send(TEST_END)
        last.expect(EXCHANGE_RESULTS)
        clients.append(last)
        silent = Client(address)
        silent.control.sendall(b"x")
        clients.append(silent)
    for engine in ENGINES:
        daemon.wait_closed(engine)
        closed = daemon.stats(engine)["connections"]["closed"]
        assert closed["idle"] + closed["reset"] + closed["peer"] >= 6
    for client in clients:
        client.__exit__()


def test_a_drain_lets_a_test_end(start_daemon, engine):
    daemon = start_daemon(listener("iperf3", service="iperf3", engine=engine))
    running = start(daemon.addresses("iperf3")[0], "--bidir", "-t", "2")
    wait_until(lambda: daemon.stats("iperf3")["bytes_out"] > MIB, "it does not run")
    daemon.process.send_signal(signal.SIGTERM)
    sent, received = ends(finish(running))
    assert sent >= received > 0
    assert daemon.process.wait(TIMEOUT) == 0


def test_a_drain_that_ends_tells_the_client(start_daemon, engine):
    daemon = start_daemon("[server]\ndrain-timeout = 2s\n" + listener("iperf3", service="iperf3", engine=engine))
    with Client(daemon.addresses("iperf3")[0], reverse=True) as client:
        client.run()
        receive(client.streams[0], MIB)
        daemon.process.send_signal(signal.SIGTERM)
        client.expect(SERVER_TERMINATE)
    assert daemon.process.wait(TIMEOUT) == 0


def test_streams_find_their_test_when_a_reload_has_replaced_its_listener(start_daemon, engine):
    daemon = start_daemon(listener("iperf3", service="iperf3", engine=engine))
    with Client(daemon.addresses("iperf3")[0], parallel=2) as client:
        client.set_up().expect(CREATE_STREAMS)
        client.streams.append(client.connect())
        wait_until(lambda: daemon.stats("iperf3")["connections"]["open"] == 2, "the stream does not connect")
        daemon.write_config(listener("iperf3", service="iperf3", engine=engine, buffers=256))
        assert daemon.nbctl("reload").stdout.endswith("generation 2\n")
        client.streams.append(client.connect())
        client.expect(TEST_START, TEST_RUNNING)
        for s in client.streams:
            s.sendall(bytes(MIB))
        results = client.end({1: MIB, 3: MIB})
        assert [s["bytes"] for s in results["streams"]] == [MIB, MIB]
    has_ended(daemon)


def test_a_drain_ends_a_test_without_its_streams(start_daemon, engine):
    """They could not connect."""
    daemon = start_daemon(listener("iperf3", service="iperf3", engine=engine))
    with Client(daemon.addresses("iperf3")[0]) as client:
        client.set_up().expect(CREATE_STREAMS)
        daemon.nbctl("drain", "iperf3")
        client.expect(SERVER_TERMINATE)
    wait_until(lambda: daemon.status("iperf3")["state"] == "drained", "it does not drain")
