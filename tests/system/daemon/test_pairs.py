"""Every operation on a listener after every other, on every kind of listener, with a client beside it that ought to
notice none of them: a model says what is to be seen after each step.

The operations are walked in an order in which each of them follows each other once and itself once.
"""

import collections
import contextlib
import errno
import os
import random
import re
import signal
import socket
import ssl
import struct

import nvme_client
import pytest
from conftest import ENGINES, TIMEOUT, Store, listener, twin_address, wait_until
from nbd_client import READ, connect as nbd_connect
from test_iperf3 import Client as Iperf3Client
from traffic import Background, Knocking

MINUTES = 4

DISK = "[export disk]\nstore = memory\nsize = 1M\n"
NQN = "nqn.2026-01.org.example:disk"
OPERATIONS = ["drain", "resume", "reload", "hot", "cold", "other", "early", "late", "remove", "back", "restart"]


def walk(rng, operations):
    """A cyclic order in which each pair of operations is adjacent once: an Eulerian circuit of the complete graph."""
    left = {a: rng.sample(operations, len(operations)) for a in operations}
    stack, circuit = [operations[0]], []
    while stack:
        if left[stack[-1]]:
            stack.append(left[stack[-1]].pop())
        else:
            circuit.append(stack.pop())
    return circuit[::-1]


def test_a_walk_has_every_pair_once():
    steps = walk(random.Random(1), OPERATIONS)
    assert len(set(zip(steps, steps[1:]))) == len(steps) - 1 == len(OPERATIONS) ** 2


# ---- Clients: exchange() checks that what comes back is whole ----


class Stream:
    def __init__(self, kind, address):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family)
        self.socket.settimeout(TIMEOUT)
        self.socket.connect(address)
        if kind.tls:
            self.socket = kind.context.wrap_socket(self.socket)
        self.round = 0

    def exchange(self):
        self.round += 1
        data = struct.pack(">I", self.round) * 5000
        self.socket.sendall(data)
        seen = b""
        while len(seen) < len(data):
            part = self.socket.recv(65536)
            assert part, f"the connection ended after {len(seen)} of {len(data)} bytes"
            seen += part
        assert seen == data

    def close(self):
        self.socket.close()


class Datagrams:
    def __init__(self, kind, address):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(TIMEOUT)
        self.address, self.round = address, 0

    def exchange(self):
        self.round += 1
        data = struct.pack(">I", self.round) * 200
        self.socket.sendto(data, self.address)
        assert self.socket.recv(65536) == data

    def close(self):
        self.socket.close()


class At:
    """What clients of other tests take for a daemon: it connects to the address."""

    def __init__(self, address):
        self.address = address

    def connect(self, name):
        return socket.create_connection(self.address, TIMEOUT)

    def port(self, name):
        return self.address[1]


class Nbd:
    def __init__(self, kind, address):
        self.client = nbd_connect(At(address), "l")

    def exchange(self):
        self.client.request(READ, 4096, 65536)
        assert self.client.reply(65536) == (0, bytes(65536))

    def close(self):
        self.client.socket.close()


class Nvme:
    def __init__(self, kind, address):
        self.host = nvme_client.Host(At(address), "l", NQN)

    def exchange(self):
        assert self.host.read(1, 16) == bytes(65536)

    def close(self):
        self.host.close()


class Iperf3:
    """A test that runs; at its end the server has counted all that was sent."""

    def __init__(self, kind, address):
        self.client = Iperf3Client(address).run()
        self.sent = 0

    def exchange(self):
        self.client.streams[0].sendall(bytes(1000))
        self.sent += 1000

    def close(self):
        results = self.client.end({1: self.sent})
        assert results["streams"][0]["bytes"] == self.sent
        for s in [self.client.control, *self.client.streams]:
            s.close()


class Polite(Background):
    """Has a client exchange all the time, as a drain ends those that are silent for a second."""

    def __init__(self, client):
        super().__init__()
        self.client, self.rounds, self.failure = client, 0, None
        client.exchange()
        self.start()

    def run(self):
        try:
            while not self.stopping.wait(0.02):
                self.client.exchange()
                self.rounds += 1
        except Exception as error:
            self.failure = error

    def goes_on(self):
        """The client has sent and received something since the call."""
        rounds = self.rounds
        wait_until(lambda: self.failure or self.rounds > rounds + 1, "the client goes on")
        if self.failure:
            raise self.failure

    def close(self):
        self.__exit__()
        self.client.close()
        if self.failure:
            raise self.failure


# ---- Kinds of listeners ----


class Kind:
    """keys: of the listener; client: as above; given: a socket unit has its socket."""

    def __init__(self, client=Stream, service="echo", more="", given=False, twin=False, **keys):
        self.client, self.service, self.more, self.given, self.twin = client, service, more, given, twin
        self.keys = keys
        self.tls = "tls" in keys
        self.udp = keys.get("transport") == "udp"
        self.exact = keys.get("address") != "127.0.0.1:0"
        if self.tls:
            self.context = ssl.create_default_context()
            self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE


KINDS = {f"tcp-{engine}": Kind(engine=engine) for engine in ENGINES}
KINDS |= {f"udp-{engine}": Kind(Datagrams, engine=engine, transport="udp") for engine in ENGINES}
KINDS |= {f"unit-{engine}": Kind(engine=engine, given=True) for engine in ENGINES}
KINDS |= {f"iperf3-{engine}": Kind(Iperf3, "iperf3", engine=engine, twin=True) for engine in ENGINES}
KINDS |= {
    "unix-epoll": Kind(engine="epoll", address="unix:{dir}/s", workers=2),
    "unix-io_uring": Kind(engine="io_uring", address="unix:{dir}/s"),
    "abstract": Kind(engine="io_uring", address="unix:@{dir}/s"),
    "tls": Kind(engine="io_uring", tls="user"),
    "nbd": Kind(Nbd, "nbd", DISK, engine="io_uring", exports="disk"),
    "nvme": Kind(Nvme, "nvme", DISK, engine="io_uring", exports="disk", nqn=NQN),
    "range": Kind(engine="io_uring", address="{host}:{port}-{last}"),
    "port-0": Kind(engine="io_uring", address="127.0.0.1:0"),
    "workers": Kind(engine="io_uring", workers=2),
    "workers-udp": Kind(Datagrams, engine="io_uring", transport="udp", workers=2),
}  # fmt: skip


# ---- The model, and what is to be seen ----


class Walker:
    def __init__(self, kind, start_daemon, tmp_path, place):
        self.kind, self.start_daemon = kind, start_daemon
        self.host, self.port = place
        self.dir = tmp_path
        if kind.twin:
            self.port = int(twin_address().rpartition(":")[2])
            self.host = "127.0.0.1"
        self.hot = self.cold = self.other = 0
        self.present, self.drained, self.made = True, False, False
        self.generation = 1
        self.config_seen = None
        self.counts = {}
        self.daemon = None
        self.given = None
        if kind.given:
            self.given = socket.socket()
            self.given.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.given.bind((self.host, self.port))
            self.given.listen(100)

    # ---- The configuration ----

    def address(self):
        text = self.kind.keys.get("address", "{host}:{port}")
        return text.format(host=self.host, port=self.port, last=self.port + 2, dir=self.dir)

    def subject(self):
        keys = {**self.kind.keys, "address": self.address()}
        values = {"max_connections": 900 + self.hot, "buffers": [256, 512][self.cold % 2]}
        text = listener("l", self.kind.service, **keys, **values)
        if self.kind.twin:
            udp = {**keys, "transport": "udp"}
            text += listener("twin", self.kind.service, **udp, **values)
        return text

    def config(self, present=None):
        present = self.present if present is None else present
        text = "[server]\ndrain-timeout = 10min\n" + self.kind.more
        if present:
            text += self.subject()
        elif self.kind.more:
            text += listener("keeper", self.kind.service, exports="disk", address="127.0.0.1:0")
        return text + listener("b", buffers=[256, 512][self.other % 2])

    # ---- Steps ----

    def start(self):
        inherit = Store() if self.daemon is None else self.daemon.store
        if self.given:
            inherit.keep("nbserved.socket", os.dup(self.given.fileno()))
        self.daemon = self.start_daemon(self.config(), env={"FDSTORE": "100"}, inherit=inherit)
        self.generation, self.config_seen = 1, self.config()
        self.made = False

    def reload(self, text=None, refused=False):
        self.daemon.write_config(text or self.config())
        done = self.daemon.nbctl("reload", check=False)
        assert (done.returncode != 0) == refused, done.stdout
        if not refused:
            self.generation += self.config() != self.config_seen
            self.config_seen = self.config()

    def names(self):
        return ["l", "twin"] if self.kind.twin else ["l"]

    def drain(self):
        for name in self.names() if self.present else []:
            self.daemon.call("Drain", listener=name)
        self.drained = self.present

    def resume(self):
        for name in self.names() if self.present else []:
            self.daemon.call("Resume", listener=name)
        self.made &= not self.drained
        self.drained = False

    def hot_key(self):
        self.hot += 1
        self.reload()

    def cold_key(self):
        self.cold += 1
        self.made |= self.drained
        self.reload()

    def other_listener(self):
        self.other += 1
        self.reload()

    def refused_early(self):
        self.reload(self.config() + "nonsense = yes\n", refused=True)

    def refused_late(self):
        """Another listener cannot be served; the subject would be replaced, or come back."""
        self.cold += 1
        text = self.config(present=True) + listener("elsewhere", address="192.0.2.1:7")
        self.cold -= 1
        with self.nobody_is_let_in() if not self.serves() else contextlib.nullcontext():
            self.reload(text, refused=True)

    def remove(self):
        self.present = self.drained = self.made = False
        self.reload()

    def back(self):
        self.present = True
        self.reload()

    def restart(self, clients=()):
        self.daemon.process.send_signal(signal.SIGTERM)
        # The next process answers the datagrams of clients of listeners that serve.
        for client in clients if not (self.kind.udp and self.serves()) else []:
            client.goes_on()
            client.close()
        assert self.daemon.process.wait(TIMEOUT) == 0, self.daemon.log()
        while self.daemon.notified():
            pass
        self.drained = False
        self.start()

    STEPS = {"drain": drain, "resume": resume, "hot": hot_key, "cold": cold_key, "other": other_listener,
             "early": refused_early, "late": refused_late, "remove": remove, "back": back, "reload": reload}

    # ---- What is to be seen ----

    def serves(self):
        return self.present and not self.drained

    def places(self):
        """Where clients connect to."""
        if self.kind.exact and self.address().startswith("unix:"):
            return [self.address().removeprefix("unix:").replace("@", "\0", 1)]
        if self.kind.exact:
            return [(self.host, self.port)]
        return self.daemon.addresses("l")

    def client(self):
        return self.kind.client(self.kind, self.places()[0])

    @contextlib.contextmanager
    def nobody_is_let_in(self):
        """While this lasts each client is refused; none is accepted and then reset."""
        if self.kind.udp or self.kind.given or not self.kind.exact:
            yield
            return
        wait_until(self.is_gone, "nothing listens")
        with Knocking(self.places()[0]) as knocking:
            yield
        assert not knocking.let_in, f"{knocking.let_in} clients were accepted"

    def is_free(self, place):
        """The address can be bound: no socket has it."""
        if isinstance(place, str):
            return not os.path.exists(place) if place[0] != "\0" else not is_heard(place)
        with socket.socket(type=socket.SOCK_DGRAM if self.kind.udp else socket.SOCK_STREAM) as s:
            if not self.kind.udp:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(place)
            except OSError as error:
                assert error.errno == errno.EADDRINUSE
                return False
            return True

    def is_gone(self):
        self.daemon.notified()  # the service manager drops its copies
        return all(map(self.is_free, self.places()))

    def look(self, settled):
        status = self.daemon.call("GetStatus")
        assert status["generation"] == self.generation
        states = {one["name"]: one["state"] for one in status["listeners"]}
        assert states.pop("b") == "serving"
        states.pop("keeper", None)
        expected = "serving" if self.serves() else "drained"
        for name in self.names():
            state = states.pop(name, None)
            assert state == (expected if self.present else None) or (
                not settled and self.drained and state == "draining"), state  # fmt: skip
        assert not states
        with contextlib.closing(Stream(Kind(), self.daemon.addresses("b")[0])) as other:
            other.exchange()
        if self.serves():
            with contextlib.closing(self.client()) as client:
                client.exchange()
        elif settled and self.kind.exact and not self.given:
            wait_until(self.is_gone, "the address becomes free")

    def count(self):
        """Descriptors and threads are as often as the daemon was in this state before."""
        what = (self.present, self.drained, self.made)

        def counts():
            self.daemon.notified()  # or the messages wait, with a socket
            files = self.daemon.files().values()
            kinds = collections.Counter(re.sub(r":\[\d+\]$|^/.*/", "", file) for file in files)
            return {**kinds, "threads": len(os.listdir(f"/proc/{self.daemon.pid}/task"))}

        least = self.counts.setdefault(what, counts())

        def are_back():
            now = counts()
            if set(now) - set(least) or any(now[kind] > least[kind] for kind in now):
                return False
            self.counts[what] = now
            return True

        wait_until(are_back, f"it has {counts()}, and had {least}")

    def settle(self):
        def settled():
            status = self.daemon.call("GetStatus")
            return not status["leaving"] and not any(
                one["state"] == "draining" or self.open(one["name"]) for one in status["listeners"])

        wait_until(settled, "what drains has drained")

    def open(self, name):
        return 0 if self.kind.udp else self.daemon.stats(name)["connections"]["open"]


def is_heard(name):
    with socket.socket(socket.AF_UNIX) as s:
        return s.connect_ex(name) == 0


def run(walker, steps, lasting):
    """lasting: clients stay over the next operation as well, so that it finds listeners that still drain."""
    walker.start()
    clients = []
    done = []
    for i, step in enumerate(steps):
        done.append(step)
        try:
            # The clients of datagrams have no end: what drains waits a second for each.
            if walker.serves() and not (walker.kind.udp and not lasting and i % 4):
                clients.append(Polite(walker.client()))
            if step == "restart":
                last = not (walker.kind.udp and walker.serves())
                walker.restart(clients)
                clients = [] if last else clients
            else:
                walker.STEPS[step](walker)
            for client in clients:
                client.goes_on()
            walker.daemon.notified()
            walker.look(settled=False)
            while len(clients) > (1 if lasting else 0):
                clients.pop(0).close()
            if not lasting:
                walker.settle()
                walker.look(settled=True)
                walker.count()
        except BaseException as error:
            error.add_note(f"after {done}, step {i}") if hasattr(error, "add_note") else print(done, i)
            for client in clients:
                client.stopping.set()
            raise
    for client in clients:
        client.goes_on()
        client.close()
    walker.settle()
    walker.look(settled=True)


@pytest.mark.parametrize("lasting", [False, True], ids=["one by one", "overlapping"])
@pytest.mark.parametrize("name", KINDS)
def test_every_operation_after_every_other(start_daemon, tmp_path, loopback_ports, name, lasting):
    rng = random.Random(f"{name} {lasting}")
    walker = Walker(KINDS[name], start_daemon, tmp_path, loopback_ports)
    try:
        run(walker, walk(rng, OPERATIONS), lasting)
    finally:
        if walker.given:
            walker.given.close()
