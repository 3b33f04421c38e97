"""Clients that do not finish what they have begun are ended after the times in the manual pages."""

import select
import signal
import socket
import struct
import time

import pytest
from conftest import ENGINES, listener
from test_netperf import BOTH, CRR_FLAG, RECEIVE, request
from test_netperf import Client as Netperf
from traffic import echo

STEP = 10  # seconds, of the manual pages
LATE = 15  # more, on a busy machine


def silent(_daemon, _s):
    """Sends nothing at all, or nothing more."""
    return iter(())


def half_head(_daemon, s):
    s.sendall(b"GET / HTTP/1.1\r\nHo")
    return iter(())


def dripping_head(_daemon, s):
    s.sendall(b"GET / HTTP/1.1\r\nX: ")
    return iter(b"x" * 100)


def dripping_option(_daemon, s):
    """NBD_OPT_INFO, of which a byte comes now and then."""
    s.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 6, 200))
    return iter(bytes(200))


def dripping_refused_option(_daemon, s):
    """An option that there is not, whose data is skipped."""
    s.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 77, 200))
    return iter(bytes(200))


def dripping_parameters(_daemon, s):
    """iperf3's cookie, and its JSON by the byte."""
    s.sendall(b"a" * 36 + b"\0" + struct.pack(">I", 200))
    return iter(b" " * 200)


def half_request(_daemon, s):
    s.sendall(request(RECEIVE, 60)[:600])
    return iter(())


def no_data(_daemon, s):
    """A whole request, whose data connection never comes."""
    s.sendall(request(RECEIVE, 60))
    return iter(())


class Vanished:
    """netperf: the data connection of a test of which one byte has come, and no more."""

    def __init__(self, s, kind, asks=1, flags=0):
        s.sendall(request(kind, -1000, (asks, 1), flags=flags))
        port = struct.unpack(">i", s.recv(656, socket.MSG_WAITALL)[8 + 44:][:4])[0]
        self.data = socket.create_connection((s.getpeername()[0], port))
        self.data.sendall(b"q")

    def __iter__(self):
        return iter(())


def vanished_stream(_daemon, s):
    return Vanished(s, RECEIVE)


def vanished_transactions(_daemon, s):
    return Vanished(s, BOTH, asks=2)


def vanished_connections(_daemon, s):
    """TCP_CRR, after one of the 1,000 connections."""
    return Vanished(s, BOTH, flags=CRR_FLAG)


CASES = {
    "nbd": [silent, dripping_option, dripping_refused_option],
    "http": [half_head, dripping_head],
    "iperf3": [silent, dripping_parameters],
    "netperf": [silent, half_request, no_data, vanished_stream, vanished_transactions, vanished_connections],
}


class Client:
    """Alone on its worker, which no other connection wakes."""

    def __init__(self, daemon, name, behaviour):
        self.name = name
        self.socket = daemon.connect(name)
        self.began = time.monotonic()
        self.drops = behaviour(daemon, self.socket)
        self.took = None

    def drip(self):
        for byte in self.drops:
            try:
                self.socket.send(bytes([byte]))
            except OSError:
                pass
            break

    def hear(self):
        """Reads; notes when the server has ended it."""
        try:
            over = not self.socket.recv(4096) or isinstance(self.drops, Vanished)  # a result: the test is over
        except ConnectionResetError:
            over = True
        if over:
            self.took = time.monotonic() - self.began


@pytest.fixture
def clients(start_daemon):
    names = {f"{engine}-{service}-{behaviour.__name__}": (engine, service, behaviour) for engine in ENGINES
             for service, behaviours in CASES.items() for behaviour in behaviours}
    config = "[export disk]\nstore = memory\nsize = 1M\n"
    for name, (engine, service, _) in names.items():
        more = {"exports": "disk"} if service == "nbd" else {}
        config += listener(name, service, engine, workers=1, buffers=64, **more)
    daemon = start_daemon(config)
    clients = [Client(daemon, name, behaviour) for name, (_, _, behaviour) in names.items()]
    yield clients
    for client in clients:
        client.socket.close()


def test_a_client_that_drips_its_input_is_closed_in_time(clients):
    end = time.monotonic() + STEP + LATE
    waiting = {client.socket: client for client in clients}
    while waiting and time.monotonic() < end:
        for s in select.select(list(waiting), [], [], 0.5)[0]:
            waiting[s].hear()
            if waiting[s].took is not None:
                del waiting[s]
        for client in waiting.values():
            client.drip()
    assert not waiting, f"still open: {[client.name for client in waiting.values()]}"
    assert min(client.took for client in clients) > STEP - 1


def test_a_test_of_netperf_lasts_as_long_as_bytes_come(start_daemon):
    """A test with a limit of bytes and no time, behind another one of the same control connection."""
    daemon = start_daemon(listener("np", "netperf"))
    client = Netperf(daemon)
    assert client.stream(1).bytes_in == 1
    end, sent = time.monotonic() + STEP + 2, 0
    with client.data(client.ask(RECEIVE, -1000)) as data:
        while time.monotonic() < end:
            data.sendall(b"x")
            sent += 1
            assert not select.select([client.control], [], [], 0.5)[0]
        data.shutdown(socket.SHUT_WR)
        assert not data.recv(1)
    assert client.result().bytes_in == sent


@pytest.mark.parametrize("ends", ["drain", "idle"])
def test_a_request_that_came_while_the_daemon_was_stopped_is_answered(start_daemon, engine, ends):
    """The time in which it could not look is no silence of the client's."""
    daemon = start_daemon(listener("echo", engine=engine, **({"idle_timeout": "1s"} if ends == "idle" else {})))
    for _ in range(3):
        with daemon.connect("echo") as s:
            echo(s)
            if ends == "drain":
                daemon.call("Drain", listener="echo")
            daemon.freeze()
            s.sendall(b"hello")
            time.sleep(1.3)
            daemon.process.send_signal(signal.SIGCONT)
            assert s.recv(5) == b"hello"
        if ends == "drain":
            daemon.call("Resume", listener="echo")
