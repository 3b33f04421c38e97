"""Raw clients over TCP and Unix sockets for the tests: what no generator does, with every byte compared.

Everything is seeded, has a limit, and waits on sockets or on the daemon's own counters, never for
a time to pass.
"""

import random
import select
import socket
import struct
import subprocess
import threading
import time

from conftest import TIMEOUT, requires, wait_until

CHARGEN_CHARS = bytes(range(ord(" "), ord("~") + 1))
CHARGEN_LINE = 72
QUIET = 1  # second that a connection may be silent in a drain; see core/worker.h


def noise(size, seed=0):
    """Bytes that are the same in each run, and in which no part resembles another."""
    return random.Random(seed).randbytes(size)


def chargen_text(size):
    """The start of RFC 864's pattern."""
    ring = CHARGEN_CHARS * 2
    period = b"".join(ring[i : i + CHARGEN_LINE] + b"\r\n" for i in range(len(CHARGEN_CHARS)))
    return (period * (size // len(period) + 1))[:size]


def connect(address, receive_buffer=None, send_buffer=None, timeout=TIMEOUT):
    """A connection with socket buffers of a given size, which must be set before it begins."""
    local = isinstance(address, str)
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    s = socket.socket(socket.AF_UNIX if local else family, socket.SOCK_STREAM)
    try:
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if send_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        if not local:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        s.settimeout(timeout)
        s.connect(address)
    except OSError:
        s.close()
        raise
    return s


def refuses(address):
    try:
        connect(address).close()
    except ConnectionRefusedError:
        return True
    return False


def receive(s, size):
    """Exactly size bytes."""
    parts, left = [], size
    while left:
        data = s.recv(min(left, 1 << 20))
        if not data:
            raise ConnectionError(f"ended {left} bytes early")
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


def receive_all(s):
    """Everything until the peer's FIN."""
    parts = []
    while data := s.recv(1 << 20):
        parts.append(data)
    return b"".join(parts)


def echo(s, data=b"x" * 100):
    """One request, and its answer compared."""
    s.sendall(data)
    assert receive(s, len(data)) == data


def reset(s):
    """Ends the connection with a RST."""
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def is_ended(s):
    """The peer ends the connection, with a FIN or a RST; data that it had sent is dropped."""
    try:
        while s.recv(1 << 16):
            pass
    except (ConnectionResetError, BrokenPipeError):
        pass
    return True


class Exchange:
    """One connection that sends data in random pieces and reads its echo in random pieces."""

    SIZES = [1, 2, 3, 16, 100, 511, 512, 513, 1460, 4096, 16384, 16385, 70000]

    def __init__(self, s, data, seed):
        self.socket, self.data = s, data
        self.random = random.Random(seed)
        self.sent = 0
        self.received = bytearray()
        self.ended = False
        s.setblocking(False)

    def send(self):
        size = self.random.choice(self.SIZES)
        self.sent += self.socket.send(self.data[self.sent : self.sent + size])
        if self.sent == len(self.data):
            self.socket.shutdown(socket.SHUT_WR)

    def receive(self):
        data = self.socket.recv(self.random.choice(self.SIZES))
        self.received += data
        self.ended = not data

    def is_sending(self):
        return self.sent < len(self.data)


def run_exchanges(exchanges, timeout=TIMEOUT):
    """All at once, until each has got back what it sent and the daemon's FIN."""
    end = time.monotonic() + timeout
    left = {e.socket: e for e in exchanges}
    while left:
        sending = [s for s, e in left.items() if e.is_sending()]
        readable, writable, _ = select.select(left, sending, [], 1)
        for s in writable:
            left[s].send()
        for s in readable:
            left[s].receive()
            if left[s].ended:
                del left[s]
        assert time.monotonic() < end, f"{len(left)} of {len(exchanges)} did not end"
    for e in exchanges:
        assert e.sent == len(e.data)
        assert e.received == e.data


def echo_and_close(daemon, name, exchanges):
    """run_exchanges() with the listener's only clients: afterwards its counters, which are returned,
    say just that."""
    run_exchanges(exchanges)
    for e in exchanges:
        e.socket.close()
    daemon.wait_closed(name)
    stats = daemon.stats(name)
    assert stats["bytes_in"] == stats["bytes_out"] == sum(len(e.data) for e in exchanges)
    assert stats["connections"]["closed"]["peer"] == len(exchanges)
    assert stats["pool"]["free"] == stats["pool"]["chunks"]
    return stats


def echo_on_all(connections, rounds=2):
    """A request on each before any answer is read."""
    for round_ in range(rounds):
        requests = [noise(64, round_ * 10000 + i) for i in range(len(connections))]
        for s, request in zip(connections, requests):
            assert s.send(request) == len(request)
        for s, request in zip(connections, requests):
            assert receive(s, len(request)) == request


def send_until_stuck(s, data, period, limit, rest):
    """Sends data, which repeats itself every `period` bytes, again and again: until nothing more is
    taken though rest() has let the daemon do all that it would.  How much."""
    sent, before = 0, -1
    s.setblocking(False)
    while sent != before:
        before = sent
        try:
            while sent < limit:
                sent += s.send(data[sent % period :])
        except BlockingIOError:
            pass
        rest()
    assert sent < limit
    return sent


class Sender(threading.Thread):
    """Sends data and then, if asked, a FIN, while the test reads."""

    def __init__(self, s, data, fin=True):
        super().__init__(daemon=True)
        self.socket, self.data, self.fin = s, data, fin
        self.error = None
        self.start()

    def run(self):
        try:
            self.socket.sendall(self.data)
            if self.fin:
                self.socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            self.error = error

    def finish(self):
        self.join(TIMEOUT)
        assert not self.is_alive(), "the sender is stuck"
        assert self.error is None, self.error


def visit(address):
    """Connects, and is answered.  A request that comes later than a drain allows has no claim to an answer,
    and a busy machine may have stopped us."""
    begin = time.monotonic()
    with connect(address) as s:
        try:
            echo(s)
        except OSError:
            if time.monotonic() - begin < QUIET:
                raise


def together(*functions):
    """Runs them at the same time; none may fail."""
    failures = []

    def run(function):
        try:
            function()
        except Exception as failure:  # pylint: disable=broad-except
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, repr(failures[0])


class Background(threading.Thread):
    """Runs in a context, until its end sets `stopping`."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stopping = threading.Event()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.join(TIMEOUT)
        assert not self.is_alive(), f"{self} is stuck"


class Busy(Background):
    """Requests on a connection, often enough that no drain takes it for silent."""

    def __init__(self, s):
        super().__init__()
        self.socket, self.rounds, self.failure = s, 0, None

    def run(self):
        try:
            while not self.stopping.wait(0.005):
                echo(self.socket)
                self.rounds += 1
        except (OSError, AssertionError) as failure:
            self.failure = failure

    def goes_on(self, rounds=1):
        """Until as many requests that begin from now on are answered."""
        end = self.rounds + 1 + rounds
        wait_until(lambda: self.failure or self.rounds >= end, "requests are answered")
        assert not self.failure, repr(self.failure)


class Knocking(Background):
    """Tries to connect, again and again; `place` as connect() takes it."""

    def __init__(self, place):
        super().__init__()
        self.place, self.let_in, self.refused = place, 0, 0

    def run(self):
        while not self.stopping.is_set():
            with socket.socket(socket.AF_UNIX if isinstance(self.place, str) else socket.AF_INET) as s:
                if s.connect_ex(self.place) == 0:
                    self.let_in += 1
                else:
                    self.refused += 1


class Load:
    """redis-benchmark, for as long as the context lasts."""

    def __init__(self, port, connections=20):
        self.command = [*(requires("redis-benchmark"), "-h", "127.0.0.1", "-p", str(port)),
                        *("-t", "ping_mbulk", "-n", "1000000000", "-c", str(connections), "-q")]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(TIMEOUT)


class NeverReader:
    """A client that writes and never reads."""

    PIECE = bytes(64 * 1024)

    def __init__(self, address, buffer_size=64 * 1024):
        self.socket = connect(address, receive_buffer=buffer_size, send_buffer=buffer_size)
        self.socket.setblocking(False)
        self.sent = 0

    def push(self, limit=1 << 30):
        """Sends as much as the socket takes without waiting."""
        while self.sent < limit:
            try:
                self.sent += self.socket.send(self.PIECE)
            except BlockingIOError:
                return

    def peer(self):
        """The address of this client as ListConnections shows it."""
        host, port = self.socket.getsockname()[:2]
        return f"{host}:{port}"

    def close(self):
        self.socket.close()


class Erratic:
    """A client that does one thing after another at random, and ends in one of all ways."""

    DATA = noise(600 * 1024)

    def __init__(self, address, choose, is_echo):
        self.choose, self.is_echo = choose, is_echo
        self.sent = self.received = 0
        self.socket = connect(address, receive_buffer=choose.choice([None, 4096]))
        self.socket.setblocking(False)
        self.left = choose.randrange(1, 12)
        self.may_send = True

    def act(self):
        """False: it has ended."""
        size = 1 << self.choose.randrange(19)
        action = self.choose.choice(["send", "send", "receive", "receive", "shutdown"])
        self.left -= 1
        try:
            if self.left <= 0:
                self.choose.choice([reset, socket.socket.close])(self.socket)
                return False
            if action == "send" and self.may_send:
                self.sent += self.socket.send(self.DATA[self.sent :][:size])
            elif action == "receive":
                self.check(self.socket.recv(size))
            elif action == "shutdown" and self.choose.random() < 0.3:
                self.may_send = False
                self.socket.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self.socket.close()
            return False
        return True

    def check(self, data):
        end = self.received + len(data)
        if self.is_echo:
            assert end <= self.sent and data == self.DATA[self.received : end]
        self.received = end


def run_erratic(address, count, seed, is_echo, at_once=24):
    """count erratic clients, at_once at a time; all have ended."""
    choose = random.Random(seed)
    clients = []
    for _ in range(count):
        while len(clients) >= at_once:
            clients = [c for c in clients if c.act()]
        clients.append(Erratic(address, choose, is_echo))
    while clients:
        clients = [c for c in clients if c.act()]


def erratic_clients_leave_nothing(daemon, name, seed, is_echo=True, kept=0):
    """200 of them; then all descriptors are closed, and all but `kept` chunks of the pool free."""
    before = daemon.descriptors()
    run_erratic(daemon.addresses(name)[0], 200, seed, is_echo)
    daemon.wait_closed(name, accepted=200)
    stats = daemon.stats(name)
    closed = stats["connections"]["closed"]
    assert closed["peer"] + closed["reset"] == sum(closed.values()) == 200
    assert stats["pool"]["free"] >= stats["pool"]["chunks"] - kept
    wait_until(lambda: daemon.descriptors() <= before, "descriptors are closed")
