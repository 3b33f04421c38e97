"""Clients that read none of their answers, beside one that behaves: it waits no longer than
doc/internals/engines.md, "Waiting for memory", says."""

import contextlib
import select
import signal
import struct
import threading
import time

import pytest
from conftest import is_sanitized, listener, wait_until
from nbd_client import READ, WRITE_ZEROES, Raw
from traffic import connect as connect_to

KIB, MIB = 1024, 1024 * 1024
NO_HOLE = 2  # a flag of WRITE_ZEROES
# Seconds, of a dialogue: half a second for each of at most four waits, and as much for a busy host; a
# sanitized build is a busy host by itself.
WAIT_MAX = 12 if is_sanitized() else 4
# As many as a worker has buffers: 1,000 beside the default of 1,024 are the same at eight times the cost.
CROWD = 128


class Crowd:
    """Clients that send a message over and over, as far as they can, or only once, and never read; a
    thread of their own drives them.  A closed client connects again if asked to."""

    def __init__(self, address, count, message, once=False, returns=False):
        self.address, self.message, self.once, self.returns = address, message, once, returns
        self.poll = select.epoll()
        self.sockets, self.sent = {}, {}
        self.ending = False
        self.stopped = False  # none of them can send more
        for _ in range(count):
            self.join()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def join(self):
        s = connect_to(self.address, receive_buffer=4096)
        s.setblocking(False)
        self.sockets[s.fileno()] = s
        self.sent[s.fileno()] = 0
        self.poll.register(s, select.EPOLLOUT)

    def leave(self, fd):
        self.poll.unregister(fd)
        self.sockets.pop(fd).close()

    def push(self, fd):
        left = memoryview(self.message)[self.sent[fd] % len(self.message) :]
        with contextlib.suppress(BlockingIOError):
            self.sent[fd] += self.sockets[fd].send(left)
        if self.once and self.sent[fd] == len(self.message):
            self.poll.modify(fd, 0)

    def run(self):
        while not self.ending:
            events = self.poll.poll(0.05)
            self.stopped = not events
            for fd, event in events:
                try:
                    if event & (select.EPOLLHUP | select.EPOLLERR):
                        raise ConnectionResetError
                    self.push(fd)
                except OSError:
                    self.leave(fd)
                    if self.returns:
                        with contextlib.suppress(OSError):
                            self.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ending = True
        self.thread.join()
        for fd in list(self.sockets):
            self.leave(fd)
        self.poll.close()


def ask_echo(s):
    s.sendall(b"polite")
    assert s.recv(100) == b"polite"


def ask_http(s):
    s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert s.recv(1000).startswith(b"HTTP/1.1 200 OK")


def ask_nbd(s):
    client = Raw.__new__(Raw)
    client.socket = s
    client.read(18)
    client.send(struct.pack(">I", 3))
    client.go()
    client.request(READ, 0, 4 * KIB)
    assert client.reply(4 * KIB) == (0, bytes(4 * KIB))


POST = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + bytes(1000000)
# A client's flags, GO, and then reads of 1 MiB, of which 100 fit into 2.8 KB.
NBD = struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">IIIH", 7, 6, 0, 0)
READS = struct.pack(">IHHQQI", 0x25609513, 0, READ, 7, 0, MIB)
SERVICES = {  # what is sent, only once?, and a polite client's way
    "echo": (bytes(64 * KIB), False, ask_echo),
    "http": (POST, False, ask_http),
    "nbd": (NBD + READS * 100, True, ask_nbd),
}


def slowest(daemon, ask, rounds):
    """Seconds that the slowest of some polite clients took, each a connection of its own."""
    worst = 0
    for _ in range(rounds):
        start = time.monotonic()
        with daemon.connect("greedy") as s:
            ask(s)
        worst = max(worst, time.monotonic() - start)
    return worst


def serve(start_daemon, engine, service):
    keys = {"exports": "zero"} if service == "nbd" else {}
    return start_daemon("[export zero]\nstore = memory\nsize = 16M\n"
                        + listener("greedy", service=service, engine=engine, buffers=CROWD, **keys))


@pytest.mark.parametrize("service", SERVICES)
def test_many_clients_that_never_read_stop_no_other(start_daemon, engine, service):
    daemon = serve(start_daemon, engine, service)
    message, once, ask = SERVICES[service]
    with Crowd(daemon.addresses("greedy")[0], CROWD, message, once) as crowd:
        worst = slowest(daemon, ask, 2)
        wait_until(lambda: crowd.stopped, "all are stopped")
        worst = max(worst, slowest(daemon, ask, 2))
    assert worst < WAIT_MAX


def test_a_returning_connection_does_not_overtake_waiting_ones(start_daemon, engine):
    daemon = serve(start_daemon, engine, "http")
    with Crowd(daemon.addresses("greedy")[0], CROWD, POST, returns=True):
        assert slowest(daemon, ask_http, 10) < WAIT_MAX


def test_zeroing_delays_no_other_client_and_no_drain(start_daemon, engine):
    """100 clients, each of whom has 32 GiB of memory zeroed."""
    daemon = start_daemon("[server]\ndrain-timeout = 1s\n[export zero]\nstore = memory\nsize = 256M\n"
                          + listener("greedy", service="nbd", engine=engine, exports="zero"))
    zero = struct.pack(">IHHQQI", 0x25609513, NO_HOLE, WRITE_ZEROES, 7, 0, 256 * MIB)
    with contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(Raw(daemon, "greedy")).go().send(zero * 128)
        assert slowest(daemon, ask_nbd, 10) < WAIT_MAX
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.wait(1 + WAIT_MAX)
