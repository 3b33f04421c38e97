"""Clients that misbehave, hosts that run out, signals: nothing is lost, and no other client is disturbed.

Each storm ends where it began: the same descriptors, the same memory, all buffers free.
"""

import contextlib
import os
import resource
import select
import signal
import socket
import subprocess

import pytest
from conftest import ENGINES, TIMEOUT, failed_start, is_sanitized, listener, wait_until
from traffic import (Busy, Load, Sender, chargen_text, connect, echo, echo_on_all, erratic_clients_leave_nothing,
                     is_ended, noise, receive, receive_all, refuses, reset)
from varlink_client import Connection

KIB, MIB = 1024, 1024 * 1024
TCP_REPAIR = 19


class Before:
    """The daemon's descriptors, threads and memory, to be compared after a storm."""

    def __init__(self, daemon, name):
        self.daemon, self.name = daemon, name
        self.descriptors = daemon.descriptors()
        self.memory = daemon.memory()

    def check(self, memory=2 * MIB, connections=0, accepted=0):
        """Back where it was; a few pages of pool and allocator may stay in use."""
        daemon = self.daemon
        daemon.wait_closed(self.name, connections, accepted)
        wait_until(lambda: daemon.descriptors() <= self.descriptors, "descriptors are closed")
        stats = daemon.stats(self.name)
        assert stats["pool"]["free"] == stats["pool"]["chunks"]
        connected = stats["connections"]
        assert connected["accepted"] == connected["open"] + sum(connected["closed"].values())
        if not is_sanitized():
            assert daemon.memory() <= self.memory + memory


# ---- Clients that break off ----


def test_resets_in_mid_send(start_daemon, engine):
    """The daemon is sending, receiving, or has just accepted when the RST comes."""
    daemon = start_daemon(listener("echo", engine=engine))
    address = daemon.addresses("echo")[0]
    data = noise(300 * KIB)
    with connect(address) as other:
        echo(other)
        for warm_up in (True, False):
            for i in range(150):
                s = connect(address, receive_buffer=4 * KIB if i % 2 else None)
                s.setblocking(False)
                try:
                    if i % 3:
                        s.send(data[: 1 << (i % 18)])
                        s.send(data)
                    if i % 5 == 0:
                        s.shutdown(socket.SHUT_WR)
                except BlockingIOError:
                    pass
                reset(s)
                if i % 10 == 0:
                    echo(other)
            if warm_up:
                daemon.wait_closed("echo", 1, accepted=151)
                before = Before(daemon, "echo")
        before.check(connections=1, accepted=301)
        closed = daemon.stats("echo")["connections"]["closed"]
        assert closed["peer"] + closed["reset"] == sum(closed.values()) == 300
        assert closed["reset"] > 0
        echo(other, noise(MIB // 2))
    daemon.wait_closed("echo")


def vanish(s):
    """Closes s without a packet, as a host does that loses its power."""
    try:
        s.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
    except PermissionError:
        pytest.skip("TCP_REPAIR needs CAP_NET_ADMIN")
    s.close()


def test_clients_that_vanish_or_never_read_are_closed(start_daemon, engine):
    """`keepalive` applies to connections made after a reload as well."""

    def config(keepalive):
        services = ("echo", "chargen")
        return "".join(listener(s, service=s, engine=engine, keepalive=keepalive) for s in services)

    daemon = start_daemon(config("1h"))
    daemon.write_config(config("1s"))
    daemon.nbctl("reload")
    with daemon.connect("echo") as gone, daemon.connect("echo") as silent, daemon.connect("chargen"):
        echo(gone)
        vanish(gone)
        for name, left in (("echo", 1), ("chargen", 0)):
            daemon.wait_closed(name, left, accepted=left + 1)
            assert daemon.stats(name)["connections"]["closed"]["reset"] == 1
        echo(silent)  # it answers the kernel's probes


@pytest.mark.parametrize("service", ["echo", "discard", "chargen", "unix"])
@pytest.mark.parametrize("options", [{}, {"buffers": 16, "buffer_size": "4K"}], ids=["", "small"])
def test_erratic_clients_leave_nothing_behind(start_daemon, engine, service, options, tmp_path):
    if service == "unix":
        service, options = "echo", {"address": f"unix:{tmp_path}/s", **options}
    daemon = start_daemon(listener("any", service=service, engine=engine, **options))
    kept = service == "chargen"  # its pattern
    seed = f"{engine} {service} {options}"
    erratic_clients_leave_nothing(daemon, "any", seed, service == "echo", kept)


# ---- Admission and limits ----


def test_a_flood_beyond_the_limit_does_not_slow_admitted_clients(start_daemon, engine):
    daemon = start_daemon(listener("echo", engine=engine, max_connections=20))
    address = daemon.addresses("echo")[0]
    inside = [connect(address) for _ in range(20)]
    for s in inside:
        echo(s)
    before = Before(daemon, "echo")
    for i in range(300):
        with connect(address) as s:
            assert is_ended(s)
        if i % 30 == 0:
            for s in inside:
                echo(s, noise(1000, i))
    stats = daemon.stats("echo")["connections"]
    assert stats["refused"] == {"limit": 300, "denied": 0}
    assert (stats["open"], stats["accepted"]) == (20, 20)
    before.check(connections=20)
    inside.pop().close()
    daemon.wait_closed("echo", 19)
    with connect(address) as s:  # there is room again
        echo(s)
    for s in inside:
        echo(s)
        s.close()
    daemon.wait_closed("echo")


def test_the_limit_covers_all_workers(start_daemon, engine):
    daemon = start_daemon(listener("echo", engine=engine, max_connections=10, workers=3))
    connections = [daemon.connect("echo") for _ in range(40)]
    stats = wait_until(lambda: (lambda c: c["open"] + c["refused"]["limit"] == 40 and c)(daemon.stats("echo")["connections"]),
                       "all are in or refused")
    assert (stats["open"], stats["refused"]["limit"]) == (10, 30)
    for s in connections:
        s.close()
    daemon.wait_closed("echo")


def test_clients_not_in_the_allow_list_are_refused(start_daemon, engine):
    daemon = start_daemon(
        listener("echo", engine=engine, address="0.0.0.0:0", allow=["127.0.0.8/29, ::1", "10.0.0.0/8"])
    )
    port = daemon.port("echo")
    for source, allowed in (("127.0.0.8", True), ("127.0.0.15", True), ("127.0.0.16", False),
                            ("127.0.0.1", False), ("127.0.0.7", False)):
        with socket.create_connection(("127.0.0.1", port), TIMEOUT, (source, 0)) as s:
            s.settimeout(TIMEOUT)
            if allowed:
                echo(s)
            else:
                assert is_ended(s)
    daemon.wait_closed("echo")
    stats = daemon.stats("echo")["connections"]
    assert (stats["accepted"], stats["refused"]) == (2, {"limit": 0, "denied": 3})


def test_idle_connections_are_closed_and_active_ones_are_not(start_daemon):
    """The active one outlives idle ones that began with it and after it.  All engines at once: a
    busy machine may stop the client for a while, so the time is long."""
    daemon = start_daemon("".join(listener(e, engine=e, idle_timeout="3s") for e in ENGINES))
    with contextlib.ExitStack() as stack:
        active = [stack.enter_context(daemon.connect(e)) for e in ENGINES]
        busy = [stack.enter_context(Busy(s)) for s in active]
        for _ in range(2):
            idle = [daemon.connect(e) for e in ENGINES * 5]
            echo(idle[0])
            for s in idle:
                assert s.recv(1) == b""
                s.close()
        for e, one in zip(ENGINES, busy):
            one.goes_on()
            daemon.wait_closed(e, 1)
            assert daemon.stats(e)["connections"]["closed"]["idle"] == 10
    for e in ENGINES:
        daemon.wait_closed(e)
        assert daemon.stats(e)["connections"]["closed"]["peer"] == 1


# ---- Many at once ----


def raise_nofile(wanted):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(hard, wanted)))
        except (ValueError, OSError) as error:
            pytest.skip(f"needs {wanted} descriptors, may have {hard}: {error}")


@pytest.mark.parametrize("unix", [False, True])
def test_two_thousand_connections_are_all_answered(start_daemon, engine, unix, tmp_path):
    raise_nofile(5000)
    options = {"address": f"unix:{tmp_path}/s", "workers": 2} if unix else {}
    daemon = start_daemon(listener("echo", engine=engine, **options))
    address = daemon.addresses("echo")[0]
    before = Before(daemon, "echo")
    connections = [connect(address) for _ in range(2000)]
    echo_on_all(connections)
    assert daemon.stats("echo")["connections"]["open"] == 2000
    for i, s in enumerate(connections):
        (reset if i % 2 else socket.socket.close)(s)
    before.check(memory=6 * MIB)
    closed = daemon.stats("echo")["connections"]["closed"]
    assert closed["peer"] + closed["reset"] == sum(closed.values()) == 2000


# ---- Running out ----


NOFILE = 96  # descriptors the daemon may have
TOO_MANY = NOFILE + 8  # connections: the backlog takes those it cannot accept, all fit in two turns


def control_stats(control, name):
    control.send("org.nbserved.Control.GetStats", {"listeners": [name]})
    return control.receive_reply()[0]["listeners"][0]


def test_out_of_descriptors_accepting_pauses_and_recovers(start_daemon, engine):
    daemon = start_daemon(listener("echo", engine=engine), nofile=NOFILE)
    address = daemon.addresses("echo")[0]
    before = Before(daemon, "echo")
    with daemon.connect("echo") as s:
        for i in range(200):
            echo(s, noise(5000, i))
    daemon.wait_closed("echo")
    with Connection(daemon.control) as control:
        costs = control_stats(control, "echo")["cost"]
        connections = [connect(address) for _ in range(TOO_MANY)]
        stats = wait_until(lambda: (lambda s: s["accept_paused"] > 0 and s)(control_stats(control, "echo")), "it pauses")
        # They are read from /proc, which takes descriptors.
        assert not [k for k, v in costs.items() if isinstance(v, int) and stats["cost"][k] < v]
        inside = stats["connections"]["open"]
        assert NOFILE // 2 < inside < NOFILE
        for s in connections[:inside]:
            echo(s, noise(20 * KIB))
        assert daemon.status("echo")["state"] == "serving"  # to a new control client
        # Over the next pauses: turns only to try again.
        first = control_stats(control, "echo")
        least = first["accept_paused"] + 5
        last = wait_until(lambda: (lambda s: s["accept_paused"] >= least and s)(control_stats(control, "echo")),
                          "accepting is tried again")
        pauses = last["accept_paused"] - first["accept_paused"]
        assert last["cost"]["turns"] - first["cost"]["turns"] <= 6 * pauses
        said = [line for line in daemon.log().splitlines() if "'echo': accept: " in line]
        assert 1 <= len(said) <= 3  # looking at it takes descriptors too, for a moment
        assert "Too many open files" in said[0] and "LimitNOFILE" in said[0]
        for s in connections[:inside]:
            echo(s)
        # One leaves, one comes in.
        connections[0].close()
        echo(connections[inside])
        for s in connections[1:inside]:
            s.close()
        for s in connections[inside:]:
            echo(s, noise(1000))
            s.close()
    before.check()
    with connect(address) as s:
        echo(s)
    assert "listener 'echo': accepting again" in daemon.log()


def test_a_small_pool_serves_many_in_turn(start_daemon, engine):
    """64 KiB of buffers for 100 clients that want 20 MiB of them."""
    daemon = start_daemon(listener("echo", engine=engine, buffers=16, buffer_size="4K"))
    address = daemon.addresses("echo")[0]
    data = noise(200 * KIB)
    connections = [connect(address) for _ in range(100)]
    senders = [Sender(s, data) for s in connections]
    left = {s: bytearray() for s in connections}
    while left:
        readable = select.select(left, [], [], TIMEOUT)[0]
        assert readable, f"{len(left)} connections are stuck"
        for s in readable:
            part = s.recv(MIB)
            left[s] += part
            if not part:
                assert left.pop(s) == data
    for sender in senders:
        sender.finish()
    for s in connections:
        s.close()
    daemon.wait_closed("echo")
    stats = daemon.stats("echo")
    assert stats["bytes_in"] == stats["bytes_out"] == 100 * len(data)
    assert stats["pool"]["free"] == stats["pool"]["chunks"] == 16


# ---- Killed ----


def test_sigkill_in_mid_load_does_not_stop_the_next_start(start_daemon, engine, loopback_ports):
    host, port = loopback_ports
    sections = listener("echo", engine=engine, address=[f"{host}:{port}", "127.0.0.1:0"], workers=2)
    first = start_daemon(sections)
    with Load(first.addresses("echo")[1][1]):
        connections = [connect((host, port)) for _ in range(100)]
        for s in connections:
            echo(s)
        wait_until(lambda: first.stats("echo")["bytes_in"] > 100000, "load")
        connections[0].send(noise(100 * KIB))
        first.process.send_signal(signal.SIGKILL)
        assert first.process.wait(TIMEOUT) == -signal.SIGKILL
        # At once, as a supervisor would: the same files (the last -c counts), the same ports.
        assert os.path.exists(first.control)
        second = start_daemon(sections, options=("-c", first.config_path))
    second.control = first.control
    assert second.addresses("echo")[0] == (host, port)
    for s in connections:
        assert is_ended(s)
        s.close()
    with connect((host, port)) as s:
        echo(s, noise(MIB // 4))
    second.wait_closed("echo")


@pytest.mark.parametrize("family", ["tcp", "unix", "abstract"])
def test_an_address_that_becomes_free_is_waited_for(start_daemon, family, tmp_path, loopback_ports):
    """As the rings of a killed daemon keep its sockets: here, a socket that is in transit in another socket."""
    address = {
        "tcp": "{}:{}".format(*loopback_ports),
        "unix": f"unix:{tmp_path}/s",
        "abstract": f"unix:@{tmp_path}",
    }[family]
    at = address.removeprefix("unix:").replace("@", "\0")
    with socket.socket(socket.AF_INET if family == "tcp" else socket.AF_UNIX) as held:
        held.bind(loopback_ports if family == "tcp" else at)
        held.listen()
        ends = socket.socketpair()
        socket.send_fds(ends[0], [b"x"], [held.fileno()])
    daemon = start_daemon(listener("echo", address=address), ready=False)
    wait_until(lambda: "in use; waiting until it is free" in daemon.log() or daemon.process.poll(),
               "the daemon waits")
    for end in ends:
        end.close()  # and the socket in transit is closed
    daemon.wait_ready()
    assert len(daemon.addresses("echo")) == 1


@pytest.mark.parametrize("holder", ["listens", "is a connection", "udp"])
def test_a_port_in_use_is_refused_with_the_command_that_shows_who_has_it(start_daemon, holder, loopback_ports):
    """Also that of a connection to elsewhere, which no list of listening sockets shows."""
    udp = holder == "udp"
    with socket.create_server(("127.0.0.1", 0)) as elsewhere, \
            socket.socket(type=socket.SOCK_DGRAM if udp else socket.SOCK_STREAM) as held:
        held.bind(loopback_ports)
        if holder == "listens":
            held.listen()
        elif holder == "is a connection":
            held.connect(elsewhere.getsockname())
        host, port = loopback_ports
        log = failed_start(start_daemon, listener("echo", address=f"{host}:{port}", transport="udp" if udp else "tcp"))
        message = next(line for line in log.splitlines() if "Address already in use" in line)
        assert ("connection" in message) != udp
        command = message.split("`")[1]
        assert command == f"ss -{'u' if udp else 't'}anp sport = :{port}"
        shown = subprocess.run(command.split(), check=True, capture_output=True, text=True).stdout
        assert f"pid={os.getpid()}," in shown


# ---- Draining ----


def test_sigterm_lets_a_transfer_finish(start_daemon, engine):
    daemon = start_daemon("[server]\ndrain-timeout = 60s\n" + listener("echo", engine=engine))
    data = noise(24 * MIB)  # more than sockets hold
    with connect(daemon.addresses("echo")[0], receive_buffer=64 * KIB) as s:
        sender = Sender(s, data)
        wait_until(lambda: daemon.stats("echo")["throttled"] > 0, "the transfer is in flight")
        daemon.process.send_signal(signal.SIGTERM)
        wait_until(lambda: daemon.status("echo")["state"] == "draining", "draining")
        assert receive_all(s) == data
        sender.finish()
    assert daemon.process.wait(TIMEOUT) == 0
    assert not os.path.exists(daemon.control)


def test_sigterm_lets_requests_go_on_while_they_come(start_daemon, engine):
    daemon = start_daemon("[server]\ndrain-timeout = 60s\n" + listener("echo", engine=engine))
    with daemon.connect("echo") as s:
        with Busy(s) as busy:
            busy.goes_on()
            daemon.process.send_signal(signal.SIGTERM)
            wait_until(lambda: daemon.status("echo")["state"] == "draining", "draining")
            busy.goes_on(100)
            assert daemon.process.poll() is None
        s.shutdown(socket.SHUT_WR)
        assert s.recv(1) == b""
    assert daemon.process.wait(TIMEOUT) == 0


def test_sigterm_without_connections_ends_at_once(start_daemon, engine):
    daemon = start_daemon("[server]\ndrain-timeout = 10min\n" + listener("echo", engine=engine)
                          + listener("chargen", service="chargen", engine=engine))
    with daemon.connect("echo") as s:
        echo(s)
    daemon.wait_closed("echo")
    assert daemon.terminate() == 0


def test_a_drain_ends_at_its_timeout(start_daemon, engine):
    """A client that never stops is cut off; chargen's ends earlier, with the queued output."""
    daemon = start_daemon("[server]\ndrain-timeout = 300ms\n" + listener("echo", engine=engine)
                          + listener("chargen", service="chargen", engine=engine))
    s, source = daemon.connect("echo"), daemon.connect("chargen")
    start = receive(source, 1000)
    echo(s)
    daemon.process.send_signal(signal.SIGTERM)
    with pytest.raises(ConnectionError):
        for _ in range(1000000):
            echo(s)
    rest = start + source.recv(MIB)
    assert rest == chargen_text(len(rest))
    s.close()
    source.close()
    assert daemon.process.wait(TIMEOUT) == 0


def test_a_second_sigterm_ends_at_once(start_daemon, engine):
    daemon = start_daemon("[server]\ndrain-timeout = 10min\n" + listener("echo", engine=engine))
    s, never_reads = daemon.connect("echo"), connect(daemon.addresses("echo")[0], 4 * KIB)
    never_reads.setblocking(False)
    try:
        for _ in range(1000):
            never_reads.send(bytes(64 * KIB))
    except BlockingIOError:
        pass
    with s, never_reads, Busy(s):
        daemon.process.send_signal(signal.SIGTERM)
        wait_until(lambda: daemon.status("echo")["state"] == "draining", "draining")
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(TIMEOUT) == 0
    assert not os.path.exists(daemon.control)


def test_nbctl_drain(start_daemon, engine):
    """draining, then drained; idle connections are closed; the rest of the daemon continues."""
    daemon = start_daemon("[server]\ndrain-timeout = 60s\n" + listener("one", engine=engine, workers=2)
                          + listener("two", engine=engine))
    address = daemon.addresses("one")[0]
    idle = [daemon.connect("one") for _ in range(10)]
    other = daemon.connect("two")
    with daemon.connect("one") as s, Busy(s) as busy:
        busy.goes_on()
        echo(other)
        assert daemon.call("Drain", listener="one") == {"draining": ["one"]}
        wait_until(lambda: daemon.status("one")["state"] == "draining", "draining")
        wait_until(lambda: refuses(address), "new connections are refused")
        assert all(each.recv(1) == b"" for each in idle)
        busy.goes_on()
        assert daemon.status("one")["state"] == "draining"
        daemon.wait_closed("one", 1)
        assert daemon.stats("one")["connections"]["closed"]["drain"] == 10
    wait_until(lambda: daemon.status("one")["state"] == "drained", "drained")
    assert daemon.call("Drain", listener="one") == {"draining": []}
    echo(other)
    assert daemon.status("two")["state"] == "serving"
    assert "drained" in daemon.nbctl("status").stdout
    for s in idle + [other]:
        s.close()
    daemon.wait_closed("two")
