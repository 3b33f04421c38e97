"""Control clients that misbehave while data flows: no request on the data plane fails or waits for
them."""

import contextlib
import grp
import os
import pwd
import select
import signal
import socket
import subprocess
import time

import pytest
from conftest import TIMEOUT, listener, requires, wait_until
from traffic import Background, noise
from varlink_client import Connection, VarlinkError, encode

CONTROL = "org.nbserved.Control."
GET_STATS = encode({"method": CONTROL + "GetStats"})


def partial_message(connection):
    """Half a message, and no more."""
    connection.send_bytes(GET_STATS[:20])


def flood(connection):
    """A thousand calls in one piece, whose answers are not read."""
    connection.send_bytes(GET_STATS * 1000)


def never_reads(connection):
    """A stream into a socket that fills."""
    connection.send(CONTROL + "GetStats", {"interval_ms": 50}, more=True)


def garbage(connection):
    """No call at all."""
    connection.send_bytes(noise(100000) + b"\0")


def oversize(connection):
    """More than a message may have."""
    connection.send_bytes(b" " * (2 << 20))


def lists_everything(connection):
    """Methods that ask every worker."""
    connection.send_bytes(encode({"method": CONTROL + "ListConnections"}) * 100)


MISBEHAVIOURS = [partial_message, flood, never_reads, garbage, oversize, lists_everything]


class Nuisance(Background):
    """Clients of every kind, again and again; the oldest leave."""

    KEPT = 40

    def __init__(self, path):
        super().__init__()
        self.path, self.rounds = path, 0

    def run(self):
        connections = []
        while not self.stopping.is_set():
            for misbehave in MISBEHAVIOURS:
                try:
                    connection = Connection(self.path)
                except OSError:
                    continue  # as many as there may be
                connections.append(connection)
                connection.socket.setblocking(False)
                try:
                    misbehave(connection)
                except OSError:
                    pass  # the daemon has seen enough, or reads no more
            while len(connections) > self.KEPT:
                connections.pop(0).close()
            self.rounds += 1
        for connection in connections:
            connection.close()


def test_no_request_of_a_generator_fails(start_daemon, engine):
    daemon = start_daemon(listener("echo", engine=engine, workers=2))
    before, port = daemon.descriptors(), daemon.port("echo")
    requests = 20000
    with Nuisance(daemon.control) as nuisance:
        wait_until(lambda: nuisance.rounds > 3, "nuisance")
        result = subprocess.run(
            [*(requires("redis-benchmark"), "-h", "127.0.0.1", "-p", str(port)),
             *("-t", "ping_mbulk", "-n", str(requests), "-c", "20", "--csv")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
        )
        rounds = nuisance.rounds
    assert result.returncode == 0 and "rror" not in result.stdout, result.stdout
    assert rounds > 3
    # Until then the control socket may have too many clients to take us, too.
    wait_until(lambda: daemon.descriptors() <= before, "descriptors are closed")
    daemon.wait_closed("echo")
    stats = daemon.stats("echo")
    assert stats["operations"]["echo"]["count"] >= requests
    assert stats["operations"]["echo"]["errors"] == 0
    assert stats["bytes_out"] == stats["bytes_in"]
    closed = stats["connections"]["closed"]
    assert closed["reset"] == closed["error"] == 0


# As varlink.h has them.
SHARE, AHEAD_S = 0.20, 0.5


class Asker(Background):
    """A client that asks without pause."""

    def __init__(self, path):
        super().__init__()
        self.path, self.answers, self.failure = path, 0, None

    def run(self):
        try:
            with Connection(self.path) as connection:
                while not self.stopping.is_set():
                    connection.send(CONTROL + "GetStats")
                    connection.receive_reply()
                    self.answers += 1
        except (OSError, VarlinkError) as failure:
            self.failure = failure


def main_thread_cpu_s(daemon):
    with open(f"/proc/{daemon.pid}/task/{daemon.pid}/stat", encoding="ascii") as stat:
        user, system = stat.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_a_busy_control_client_takes_no_more_than_its_share(start_daemon):
    """A bound of CPU time: a busy host only makes it easier to keep."""
    daemon = start_daemon(listener("echo"))
    before, begin, seconds = main_thread_cpu_s(daemon), time.monotonic(), 4
    with Asker(daemon.control) as first, Asker(daemon.control) as second:
        time.sleep(seconds)
        taken, passed = main_thread_cpu_s(daemon) - before, time.monotonic() - begin
        daemon.call("GetStatus")  # waits for its turn, like any of this user's
    assert taken <= AHEAD_S + SHARE * passed + 0.3
    for asker in first, second:
        assert asker.failure is None and asker.answers > 0


# ---- A client that calls Doctor, which takes long ----

DOCTOR = encode({"method": CONTROL + "Doctor"})


@contextlib.contextmanager
def stopped(daemon):
    """What its clients send meanwhile is all there when it looks."""
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.process.send_signal(signal.SIGCONT)


def as_nobody(path):
    """A connection of user nobody's, made in a process that has become that."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(GROUP.gr_gid)
            os.setuid(pwd.getpwnam("nobody").pw_uid)
            with Connection(path) as connection:
                socket.send_fds(theirs, [b"x"], [connection.socket.fileno()])
        finally:
            os._exit(0)
    theirs.close()
    with ours:
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    os.waitpid(child, 0)
    connection = Connection.__new__(Connection)
    connection.socket, connection.received = socket.socket(fileno=fds[0]), b""
    connection.socket.settimeout(TIMEOUT)
    return connection


def answered(connections):
    return [c for c in connections if select.select([c.socket], [], [], 0)[0]]


GROUP = next(g for g in grp.getgrall() if g.gr_gid not in (0, pwd.getpwnam("nobody").pw_gid))
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")


# An examination of a UDP listener can be held: see faulty.c.
SERVER = f"[server]\ncontrol-group = {GROUP.gr_name}\ndrain-timeout = 60s\n" + listener(
    "udp", engine="epoll", transport="udp"
)


@pytest.fixture
def beside_doctors(start_faulty):
    """A daemon, eight clients of another user that call Doctor without pause, and root's."""
    daemon = start_faulty(SERVER + listener("echo") + listener("other", engine="epoll"))
    patients = [as_nobody(daemon.control) for _ in range(8)]
    root = Connection(daemon.control)
    yield daemon, patients, root
    daemon.say("")
    for connection in (*patients, root):
        connection.close()


@needs_root
def test_root_is_answered_while_a_doctor_of_others_takes_long(beside_doctors):
    """An examination that waits for the test: the main thread waits for none."""
    daemon, patients, root = beside_doctors
    daemon.say("sysctl wait")
    with stopped(daemon):
        for patient in patients:
            patient.send_bytes(DOCTOR * 4)
        root.send(CONTROL + "GetStatus")
    for _ in range(3):
        root.receive_reply()
        root.send(CONTROL + "GetStatus")
    root.receive_reply()
    assert not answered(patients)
    daemon.say("")
    for patient in patients:
        for _ in range(4):
            assert patient.receive_reply()[0]["passed"]


@needs_root
def test_a_reload_is_done_while_a_doctor_of_others_takes_long(beside_doctors):
    """Signals come before calls, of root as well; that SIGTERM is obeyed, too, shows the test of one that hangs."""
    daemon, patients, root = beside_doctors
    daemon.say("sysctl wait")
    daemon.write_config(SERVER + listener("new"))
    with stopped(daemon):
        for patient in patients:
            patient.send_bytes(DOCTOR * 4)
        root.send(CONTROL + "GetStatus")
        daemon.process.send_signal(signal.SIGHUP)
    assert [one["name"] for one in root.receive_reply()[0]["listeners"]] == ["udp", "new"]
    assert not answered(patients)


@needs_root
def test_a_doctor_is_about_the_configuration_in_force(beside_doctors):
    """A reload that comes meanwhile replaces it; one examination answers all who wait."""
    daemon, patients, root = beside_doctors
    with stopped(daemon):
        for patient in patients:
            patient.send_bytes(DOCTOR)
        root.send(CONTROL + "Doctor", {"text": True})
    daemon.write_config(SERVER + listener("new"))
    daemon.process.send_signal(signal.SIGHUP)
    reports = [patient.receive_reply()[0] for patient in patients]
    text = root.receive_reply()[0].pop("text")
    assert all([one["name"] for one in report["listeners"]] == ["udp", "new"] for report in reports) and "new" in text
    wait_until(lambda: "doctor" not in daemon.threads().values(), "the thread ends")


def test_a_doctor_that_hangs_does_not_make_the_end_a_failure(faulty):
    """The daemon ends its clients first, and does not wait for ever."""
    faulty.write_config(listener("udp", engine="epoll", transport="udp"))
    assert faulty.nbctl("reload").returncode == 0
    faulty.say("sysctl wait")
    with Connection(faulty.control) as client:
        client.send(CONTROL + "Doctor")
        wait_until(lambda: "doctor" in faulty.threads().values(), "it examines")
        faulty.process.send_signal(signal.SIGTERM)
        assert faulty.process.wait(TIMEOUT) == 0
    assert "exiting while a call of Doctor still hangs" in faulty.log()


@needs_root
def test_a_client_may_leave_its_doctor(beside_doctors):
    daemon, patients, root = beside_doctors
    with stopped(daemon):
        patients[0].send_bytes(DOCTOR)
        patients[1].send_bytes(DOCTOR)
    patients.pop(0).close()
    patients[0].receive_reply()
    root.send(CONTROL + "Doctor")
    assert root.receive_reply()[0]["passed"]
