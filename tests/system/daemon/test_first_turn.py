"""Connections whose input, or end, is there before the daemon accepts them: their first turn does all at once."""

import contextlib
import signal
import socket
import struct

import pytest
from conftest import ENGINES, listener, wait_until
from traffic import connect, noise, receive

CLIENTS = 24
REQUEST = noise(900)
BULK = 4 << 20
GET = b"GET /bytes/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % BULK


PATHS = [(engine, "") for engine in ENGINES] + [("io_uring", "-eager_io")]


@pytest.fixture(params=PATHS, ids="".join)
def early(request, start_daemon):
    """early(say, **keys) -> (daemon, connections), of which each has done say(s) before it was accepted."""
    engine, without = request.param
    features = {"features": without} if without else {}

    @contextlib.contextmanager
    def connected(say, **keys):
        daemon = start_daemon(listener("l", engine=engine, **features, **keys))
        [address] = daemon.addresses("l")
        daemon.freeze()
        with contextlib.ExitStack() as clients:
            opened = [clients.enter_context(connect(address, receive_buffer=16384)) for _ in range(CLIENTS)]
            for s in opened:
                say(s)
            daemon.process.send_signal(signal.SIGCONT)
            yield daemon, opened
        daemon.wait_closed("l", accepted=CLIENTS)
        pool = daemon.stats("l")["pool"]
        assert pool["free"] >= pool["chunks"] - 2  # http keeps its pattern and its date

    return connected


def requests_and_leaves(s):
    s.sendall(REQUEST)
    s.shutdown(socket.SHUT_WR)


def resets(s):
    s.sendall(REQUEST)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def test_a_request_and_the_end(early):
    with early(requests_and_leaves) as (_daemon, clients):
        for s in clients:
            assert receive(s, len(REQUEST)) == REQUEST
            assert s.recv(1) == b""


def test_the_end_alone(early):
    with early(lambda s: s.shutdown(socket.SHUT_WR)) as (_daemon, clients):
        assert [s.recv(1) for s in clients] == [b""] * CLIENTS


def test_a_reset(early):
    with early(resets) as (daemon, _clients):
        daemon.wait_closed("l", accepted=CLIENTS)
        with daemon.connect("l") as s:
            s.sendall(REQUEST)
            assert receive(s, len(REQUEST)) == REQUEST


@pytest.mark.parametrize("leaves", [False, True])
def test_an_answer_that_the_socket_does_not_take(early, leaves):
    """More than two sockets hold, to clients that read once all have been answered in part."""

    def say(s):
        s.sendall(GET)
        if leaves:
            s.shutdown(socket.SHUT_WR)

    with early(say, service="http") as (daemon, clients):
        wait_until(lambda: daemon.stats("l")["tx_blocked"] >= CLIENTS, "each has found its socket full")
        for s in clients:
            head = b""
            while b"\r\n\r\n" not in head:
                head += s.recv(1)
            receive(s, BULK)
            if leaves:
                assert s.recv(1) == b""


def test_silent_clients_take_no_place_in_a_small_pool(early):
    """Fewer chunks than connections, most of which say nothing: the last is served."""
    speak = []

    def say(s):
        speak.append(s)
        if len(speak) == CLIENTS:
            s.sendall(REQUEST)

    with early(say, buffers=16, buffer_size=4096) as (_daemon, clients):
        assert receive(clients[-1], len(REQUEST)) == REQUEST
        for s in clients[:-1]:
            s.sendall(REQUEST)
            assert receive(s, len(REQUEST)) == REQUEST
