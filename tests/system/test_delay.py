"""Answers that are held back (`delay`, `stall`): in order, never before their time, and not for ever."""

import socket
import struct
import time

import pytest
from conftest import TIMEOUT, is_sanitized, listener, wait_until
from nbd_client import READ as NBD_READ
from nbd_client import connect as nbd_connect
from nvme_client import Host
from test_config import check  # noqa: F401
from test_reload import reload
from test_sockperf import PONG_REQUEST, message
from test_udp import client as udp_client
from test_udp import settled
from traffic import is_ended, noise, receive, receive_all, reset

NS_PER_MS = 1000 * 1000
KIB, MIB = 1024, 1024 * 1024
NEVER = "10s"  # longer than any test


@pytest.fixture
def serve(start_daemon, engine, tmp_path):
    """serve(service, keys of the listener) -> the daemon; the listener has the service's name."""

    def start(service="echo", server="", **keys):
        exports = {"nbd": {"exports": "disk"}, "nvme": {"exports": "disk", "nqn": "nqn.2026-11.example:d"}}
        export = f"[export disk]\npath = {tmp_path}/disk\ncreate = yes\nsize = 1M\n"

        def config(**keys):
            return (f"[server]\n{server}\n" + (export if service in exports else "")
                    + listener(service, service=service, engine=engine, **exports.get(service, {}), **keys))

        daemon = start_daemon(config(**keys))
        daemon.config = config
        return daemon

    yield start


def answered(daemon, name="echo"):
    return sum(o["count"] for o in daemon.stats(name)["operations"].values())


def held(daemon):
    return sum(c["held_bytes"] for c in daemon.call("ListConnections")["connections"])


def begin(daemon, data=b"hello"):
    """A connection whose request has been answered, to be held back."""
    before = answered(daemon)
    s = daemon.connect("echo")
    s.sendall(data)
    wait_until(lambda: answered(daemon) > before, "the request has been answered")
    return s


def lateness(exchange):
    """Milliseconds that it takes."""
    begin = time.monotonic_ns()
    exchange()
    return (time.monotonic_ns() - begin) / NS_PER_MS


# ---- When


@pytest.mark.parametrize("delay,least", [("3ms", 3), ("uniform 2ms 20ms", 2), ("exponential 5ms", 0)])
def test_answers_keep_their_order_and_do_not_come_early(serve, delay, least):
    daemon, count, size = serve(delay=delay, workers=2), 60, 100
    data = noise(count * size)
    with daemon.connect("echo") as s:
        sent = []
        for i in range(0, len(data), size):
            sent.append(time.monotonic_ns())
            s.sendall(data[i : i + size])
        for i, at in enumerate(sent):
            assert receive(s, size) == data[i * size : (i + 1) * size]
            assert time.monotonic_ns() - at >= least * NS_PER_MS
    feature = daemon.status("echo")["engine_features"]
    assert "delay" in feature and "stall" not in feature


def test_stalls_begin_at_the_same_time_for_all_workers(serve):
    """A request within a stall has no answer before its end."""
    length, period = 70, 100  # ms
    daemon = serve(stall=f"{length}ms every {period}ms", workers=4)
    clients = [daemon.connect("echo") for _ in range(8)]
    stalled = 0
    while stalled < 10:
        for s in clients:
            at = time.monotonic_ns()
            phase = at % (period * NS_PER_MS)
            s.sendall(b"x")
            assert s.recv(1) == b"x"
            if phase < length * NS_PER_MS:
                stalled += 1
                assert time.monotonic_ns() >= at - phase + length * NS_PER_MS
    for s in clients:
        s.close()
    assert "stall" in daemon.status("echo")["engine_features"]


def http(daemon):
    with daemon.connect("http") as s:
        return lateness(lambda: (s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"), s.recv(1)))


def nbd(daemon):
    with nbd_connect(daemon, "nbd") as client:

        def read():
            client.request(NBD_READ, 0, 512)
            assert client.reply(512)[-1] == bytes(512)

        return lateness(read)


def nvme(daemon):
    with Host(daemon, "nvme", "nqn.2026-11.example:d") as host:
        return lateness(lambda: host.read(0))


def sockperf(daemon):
    with daemon.connect("sockperf") as s:
        return lateness(lambda: (s.sendall(message(1 | PONG_REQUEST, bytes(50))), s.recv(1)))


@pytest.mark.parametrize("ask", [http, nbd, nvme, sockperf], ids=lambda f: f.__name__)
def test_each_service_answers_late(serve, ask):
    daemon = serve(ask.__name__, delay="5ms")
    assert ask(daemon) >= 5
    daemon.wait_closed(ask.__name__)


def test_percentiles_include_the_delay(serve):
    daemon = serve(delay="2ms")

    def latency():
        return daemon.stats("echo")["operations"]["echo"]["latency_ns"]

    with daemon.connect("echo") as s:
        while latency()["count"] < 5:
            for _ in range(20):
                s.sendall(b"x")
                assert s.recv(1) == b"x"
    assert latency()["min"] >= 2 * NS_PER_MS


def test_a_worker_sleeps_while_answers_are_due_later(serve):
    def calls():
        return sum(daemon.stats("echo")["cost"]["syscalls"].values())

    daemon = serve(server="drain-timeout = 100ms", delay=NEVER)
    clients = [begin(daemon) for _ in range(20)]
    before = calls()
    time.sleep(0.3)  # the time in which it could spin
    assert calls() - before < 20
    for s in clients:
        reset(s)


# ---- Reload, drain, ends


def test_a_reload_changes_it(serve):
    daemon = serve(server="drain-timeout = 100ms", delay=NEVER)
    begin(daemon).close()
    reload(daemon, config=daemon.config())
    with daemon.connect("echo") as s:
        s.sendall(b"x")
        assert s.recv(1) == b"x"
    assert "delay" not in daemon.status("echo")["engine_features"]


def test_a_drain_gives_out_what_is_held_back(serve):
    daemon = serve(delay="500ms")
    with begin(daemon) as s:
        daemon.nbctl("drain", "echo")
        assert receive_all(s) == b"hello"


def test_a_drain_ends_with_its_timeout(serve):
    daemon = serve(server="drain-timeout = 100ms", delay=NEVER)
    with begin(daemon) as s:
        daemon.nbctl("drain", "echo")
        assert is_ended(s)
    daemon.wait_closed("echo")
    assert daemon.stats("echo")["connections"]["closed"]["drain"] == 1


def test_a_client_that_is_killed_leaves_nothing(serve):
    daemon = serve(delay=NEVER)
    for _ in range(3):
        reset(begin(daemon, noise(100 * KIB)))
    daemon.wait_closed("echo", accepted=3)
    pool = daemon.stats("echo")["pool"]
    assert pool["free"] == pool["chunks"]


def test_half_close_is_answered_late(serve):
    daemon, data = serve(delay="50ms"), noise(300 * KIB)
    with daemon.connect("echo") as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        assert receive_all(s) == data
    daemon.wait_closed("echo", accepted=1)
    assert daemon.stats("echo")["connections"]["closed"]["peer"] == 1


@pytest.mark.parametrize("last", [b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", b"nonsense\r\n\r\n"])
def test_the_last_answer_is_late_and_complete(serve, last):
    daemon = serve("http", delay="50ms")
    with daemon.connect("http") as s:
        s.sendall(b"GET /bytes/1000000 HTTP/1.1\r\nHost: x\r\n\r\n" + last)
        answer = receive_all(s)
    assert answer.count(b"HTTP/1.1 ") == 2
    assert len(answer) > 1000000
    assert answer.endswith(b"\r\n\r\nnbserved\n" if b"GET" in last else b"Bad Request\n")


# ---- Bounds


def test_a_client_that_never_reads_is_bounded_and_harms_nobody(serve):
    daemon = serve(delay="1ms")
    data, other = noise(8 * MIB), daemon.connect("echo")
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
        s.connect(daemon.addresses("echo")[0])
        s.settimeout(TIMEOUT)
        s.setblocking(False)
        sent = 0
        while daemon.stats("echo")["throttled"] == 0 or held(daemon) < 64 * KIB:
            try:
                sent += s.send(data[sent : sent + 64 * KIB])
            except BlockingIOError:
                pass
        assert held(daemon) <= 2 * MIB
        other.sendall(b"x")
        assert other.recv(1) == b"x"
        s.settimeout(TIMEOUT)
        assert receive(s, sent) == data[:sent]
    other.close()


def test_what_is_held_back_is_bounded(serve):
    """Delayed answers count as output that the client does not read: input waits, too."""
    daemon = serve("http", server="drain-timeout = 100ms", delay=NEVER)
    with daemon.connect("http") as s:
        s.setblocking(False)
        requests = b"GET /bytes/100000 HTTP/1.1\r\nHost: x\r\n\r\n" * 2000
        while daemon.stats("http")["throttled"] == 0:
            try:
                s.send(requests)
            except BlockingIOError:
                pass
        assert 256 * KIB <= held(daemon) <= 2 * MIB


def test_many_small_answers_are_bounded(serve):
    """Each is due at a time of its own; a stream of them comes out whole, in order."""
    daemon, count = serve(delay="uniform 1ms 100ms"), 500 if is_sanitized() else 6000
    data = noise(count)
    with daemon.connect("echo") as s:
        for i in range(count):
            s.sendall(data[i : i + 1])
        s.shutdown(socket.SHUT_WR)
        assert receive_all(s) == data


# ---- Datagrams


def held_datagrams(daemon, count, size=100):
    """A client that has sent `count` datagrams, each of which was answered or dropped."""
    s = udp_client(daemon.addresses("echo")[0])
    for i in range(1, count + 1):
        s.send(bytes(size))
        if i % 32 == 0 or i == count:  # the socket's queue has room for these
            wait_until(lambda: daemon.stats("echo")["udp"]["in"] >= i, f"datagram {i} has come")
    return s


def test_datagrams_keep_their_order_and_do_not_come_early(serve):
    """Empty ones, too, which have no bytes by which they could be told apart."""
    daemon = serve(transport="udp", delay="uniform 3ms 20ms")
    with udp_client(daemon.addresses("echo")[0]) as s:
        sent = []
        for i in range(60):
            sent.append(time.monotonic_ns())
            s.send(b"" if i % 3 else b"%d" % i)
        for i, at in enumerate(sent):
            assert s.recv(100) == (b"" if i % 3 else b"%d" % i)
            assert time.monotonic_ns() - at >= 3 * NS_PER_MS
    settled(daemon, "echo")


def test_sockperf_answers_datagrams_late(serve):
    daemon = serve("sockperf", transport="udp", stall="70ms every 100ms")
    stalled = 0
    with udp_client(daemon.addresses("sockperf")[0]) as s:
        while stalled < 5:
            at = time.monotonic_ns()
            phase = at % (100 * NS_PER_MS)
            s.send(message(1 | PONG_REQUEST, bytes(50)))
            assert len(s.recv(1000)) > 50
            if phase < 70 * NS_PER_MS:
                stalled += 1
                assert time.monotonic_ns() >= at - phase + 70 * NS_PER_MS


def test_a_drain_gives_out_datagrams_that_are_held_back(serve):
    daemon = serve(transport="udp", delay="500ms")
    with held_datagrams(daemon, 3) as s:
        daemon.nbctl("drain", "echo")
        assert [s.recv(1000) for _ in range(3)] == [bytes(100)] * 3


def test_datagrams_of_a_client_that_are_held_back_are_bounded(serve):
    """What is beyond is dropped; another client is still answered.  Each takes a chunk of the pool."""
    daemon = serve(server="drain-timeout = 100ms", transport="udp", delay=NEVER, buffers=64)
    with held_datagrams(daemon, 200, size=4000), held_datagrams(daemon, 1):
        counted = daemon.stats("echo")["udp"]
        answers = answered(daemon)
        assert counted["in"] == answers + counted["dropped"] == 201
        assert 2 <= answers <= 48
        by_client = sorted(c["held_bytes"] for c in daemon.call("ListConnections")["connections"])
        assert by_client == [100, (answers - 1) * 4000]
        daemon.nbctl("drain", "echo")
        settled(daemon, "echo", dropped=counted["dropped"], unsent=answers)
        pool = daemon.stats("echo")["pool"]
        assert pool["free"] == pool["chunks"]


# ---- Values

DELAY = ("expected a duration up to 10s, `uniform LEAST GREATEST` of such, or `exponential MEAN` up to 1s, got ")
STALL = ("expected `LENGTH every PERIOD`, LENGTH less than PERIOD, up to 1h, or no, got ")


@pytest.mark.parametrize("key,values,error", [
    ("delay", ["1", "x", "11s", "uniform 1ms", "uniform 3ms 2ms", "uniform 1ms 2ms 3ms", "exponential", "2ms 3ms",
               "exponential 2s", "normal 1ms 1ms", "uniform 1ms 20s", "-1ms"], DELAY),
    ("stall", ["1", "yes", "100ms", "100ms each 1s", "1s every 1s", "0 every 1s", "1ms every 2h", "1ms every",
               "1ms every 1s 2s"], STALL),
])
def test_bad_values_are_explained(check, key, values, error):  # noqa: F811
    for value in values:
        status, errors = check(listener("echo", **{key: value}))
        assert status != 0
        assert errors == [f"4: [listener echo] {key}: {error}'{value}'"]


@pytest.mark.parametrize("key,value", [("delay", "1ms"), ("stall", "1ms every 1s")])
def test_it_is_refused_where_it_has_no_effect(check, key, value):  # noqa: F811
    _, errors = check(listener("echo", transport="rdma", engine="auto", **{key: value}))
    assert [e.split(f"{key}: ")[1] for e in errors] == ["requires transport = tcp or udp (transport is rdma)"]
    _, errors = check(listener("discard", service="discard", **{key: value}))
    assert [e.split(f"{key}: ")[1] for e in errors] == ["requires a service that answers requests (service is discard)"]


def test_values_are_printed_as_they_are_read(start_daemon):
    keys = {"delay": "uniform 1ms 2500us", "stall": "100ms every 1s"}
    daemon = start_daemon(listener("echo", **keys))
    shown = daemon.call("GetConfig")["listeners"][0]["keys"]
    assert {key: shown[key]["value"] for key in keys} == keys
