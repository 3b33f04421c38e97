"""Clients that send the beginning of a message and then wait, more of them than a small pool has chunks:
all other clients are served, and these as well when they send the rest."""

import itertools
import json
import struct

import pytest
from conftest import listener, wait_until
from nbd_client import OPT_INFO, REP_ACK, WRITE, Raw, connect
from traffic import noise

CLIENTS = 24  # the pool has 16 chunks
KIB = 1024
COOKIES = itertools.count()

POST = b"POST /echo HTTP/1.1\r\nHost: localhost\r\n"
BODY = b"Content-Length: %d\r\n\r\n"
CHUNKED, CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n", b"\r\nhello\r\n0\r\n\r\n"
NBD_OK = struct.pack(">IIQ", 0x67446698, 0, 7)
OPTION_OK = struct.pack(">QIII", 0x3E889045565A9, OPT_INFO, REP_ACK, 0)


def plain(daemon, name):
    return daemon.connect(name)


def handshake(daemon, name):
    return Raw(daemon, name).socket


def served(daemon, name):
    return connect(daemon, name).socket


def introduced(daemon, name):
    """To iperf3, but for the last byte of a cookie of its own."""
    s = daemon.connect(name)
    s.sendall(b"%036d" % next(COOKIES))
    return s


def pong(payload):
    return struct.pack(">QHI", 1, 3, 14 + len(payload)) + payload


def parameters():
    text = json.dumps({"tcp": True, "time": 10, "parallel": 1, "len": KIB, "title": "t" * 4000})
    return b"\0" + struct.pack(">I", len(text)) + text.encode()


def option(count):
    """Asks about the first export, and for `count` things."""
    data = struct.pack(">IH", 0, count) + struct.pack(">H", 1) * count
    return b"IHAVEOPT" + struct.pack(">II", OPT_INFO, len(data)) + data


def write(size):
    return struct.pack(">IHHQQI", 0x25609513, 0, WRITE, 7, 0, size) + noise(size)


# service: (what it is, how its client connects, all of it, bytes that are sent at first, the end of
# the answer)
HALVES = {
    "echo": [("message", plain, noise(5000), 3000, noise(5000)[3000:])],
    "http": [
        ("head", plain, POST + b"X: %s\r\n" % (b"x" * 4000) + BODY % 5 + b"hello", 3000, b"hello"),
        ("body", plain, POST + BODY % 5000 + noise(5000), 3000, noise(5000)[3000:]),
        ("trailer", plain, POST + CHUNKED + b"5" + CHUNKS[:-2] + b"X: %s\r\n\r\n" % (b"e" * 200), 200, CHUNKS),
    ],
    "sockperf": [("header", plain, pong(noise(500)), 13, noise(500)),
                 ("payload", plain, pong(noise(5000)), 3000, noise(5000)[3000:])],
    "iperf3": [("cookie", introduced, parameters(), 0, b"\x0a"),
               ("parameters", introduced, parameters(), 3000, b"\x0a")],
    "nbd": [
        ("flags", plain, struct.pack(">I", 3) + option(1), 3, OPTION_OK),
        ("option", handshake, option(4000), 3000, OPTION_OK),
        ("request", served, write(4096), 27, NBD_OK),
        ("write", served, write(12 * KIB), 3000, NBD_OK),
    ],
    "nbd-direct": [
        ("request", served, write(4096), 27, NBD_OK),
        ("block", served, write(4096), 3000, NBD_OK),
        ("blocks", served, write(12 * KIB), 6000, NBD_OK),
    ],
}
CASES = [pytest.param(service, *case[1:], id=f"{service}-{case[0]}") for service, cases in HALVES.items()
         for case in cases]


def answered(s, end):
    """The bytes received, up to the end of the answer."""
    got = bytearray()
    while not got.endswith(end):
        data = s.recv(1 << 16)
        assert data, f"ended after {bytes(got)}"
        got += data


@pytest.fixture
def daemon(start_daemon, engine, service, loop_device):
    exports = ""
    keys = {"service": service, "engine": engine, "buffers": 16, "buffer_size": "4K"}
    if service.startswith("nbd"):
        keys.update(service="nbd", exports="disk")
        exports = "[export disk]\nstore = memory\nsize = 1M\n"
    if service == "nbd-direct":
        exports = f"[export disk]\npath = {loop_device('--sector-size', '4096')}\ndirect = yes\n"
    daemon = start_daemon(exports + listener("any", **keys))
    yield daemon
    daemon.stop()


@pytest.mark.parametrize("service, open_client, text, first, end", CASES)
def test_a_client_that_stops_midway_stops_no_other(daemon, service, open_client, text, first, end):
    def received():
        return daemon.stats("any")["bytes_in"]

    halves = [open_client(daemon, "any") for _ in range(CLIENTS)]
    before = received()
    for s in halves:
        s.sendall(text[:first])
    wait_until(lambda: received() >= before + CLIENTS * first, "all beginnings are received")
    for _ in range(2):
        with open_client(daemon, "any") as other:
            other.sendall(text)
            answered(other, end)
    for s in halves:
        s.sendall(text[first:])
    for s in halves:
        answered(s, end)
        s.close()
    daemon.wait_closed("any")
    closed = daemon.stats("any")["connections"]["closed"]
    assert closed["peer"] + closed["reset"] == CLIENTS + 2


@pytest.mark.parametrize("service, open_client, text, first, end", CASES)
def test_small_input_of_many_connections_is_packed(daemon, service, open_client, text, first, end):
    """The pieces of a client do not adjoin in memory, and a connection may hold only a few views."""
    clients = [open_client(daemon, "any") for _ in range(4)]
    seen = daemon.stats("any")["bytes_in"]
    for at in range(min(40, len(text))):
        for s in clients:
            s.sendall(text[at : at + 1])
        seen += len(clients)
        wait_until(lambda: daemon.stats("any")["bytes_in"] >= seen, "each has its byte")
    for s in clients:
        s.sendall(text[40:])
    for s in clients:
        answered(s, end)
        s.close()
