"""echo, discard and chargen: every byte, in order, however it is cut, over each engine."""

import contextlib
import random
import select
import socket

import pytest
from conftest import TIMEOUT, listener, wait_until
from traffic import (CHARGEN_LINE, Exchange, NeverReader, Sender, chargen_text, connect, echo, echo_and_close, noise,
                     receive, receive_all)

KIB, MIB = 1024, 1024 * 1024
BUFFER_SIZE = 16 * KIB
CONN_HELD_MAX = 512 * KIB  # bytes of one connection; see core/conn.h
TURN_BYTES_MAX = 512 * KIB  # what one turn of a reactor may receive beyond it


def operations(stats):
    (counted,) = stats["operations"].values()
    return counted


# ---- echo ----


def test_echo_at_random_splits(start_daemon, engine):
    daemon = start_daemon(listener("echo", engine=engine))
    address = daemon.addresses("echo")[0]
    exchanges = []
    for seed in range(12):
        data = noise(random.Random(seed).choice([1, 600, 20000, 300000, 2 * MIB]), seed)
        exchanges.append(Exchange(connect(address), data, seed))
    exchanges.append(Exchange(connect(address, receive_buffer=4096), noise(MIB, 99), 99))
    echo_and_close(daemon, "echo", exchanges)


@pytest.mark.parametrize("unix", [False, True])
def test_half_close_answers_everything(start_daemon, engine, unix, tmp_path):
    """More than the daemon may hold is on its way when the FIN comes, and the client reads late."""
    daemon = start_daemon(listener("echo", engine=engine, **({"address": f"unix:{tmp_path}/s"} if unix else {})))
    for size in (1, 16 * KIB, 400 * KIB, 4 * MIB):
        data = noise(size, size)
        with connect(daemon.addresses("echo")[0], receive_buffer=16 * KIB) as s:
            sender = Sender(s, data)
            wait_until(lambda: daemon.stats("echo")["bytes_in"] > 0, "input")
            assert receive_all(s) == data
            sender.finish()
    daemon.wait_closed("echo")
    closed = daemon.stats("echo")["connections"]["closed"]
    assert (closed["peer"], sum(closed.values())) == (4, 4)


def test_a_fin_alone_is_answered_with_a_fin(start_daemon, engine):
    daemon = start_daemon(listener("echo", engine=engine))
    for _ in range(20):
        with daemon.connect("echo") as s:
            s.shutdown(socket.SHUT_WR)
            assert s.recv(1) == b""


def test_one_byte_at_a_time(start_daemon, engine):
    """Neither the answer to a byte nor a byte that waits may cost a whole buffer."""
    daemon = start_daemon(listener("echo", engine=engine, buffers=16, buffer_size="4K"))
    data = noise(3000)
    with daemon.connect("echo") as s:
        for i in range(500):
            echo(s, data[i : i + 1])
        for i in range(500, len(data)):  # without waiting for the answers
            assert s.send(data[i : i + 1]) == 1
        s.shutdown(socket.SHUT_WR)
        assert receive_all(s) == data[500:]
    daemon.wait_closed("echo")
    assert daemon.stats("echo")["bytes_in"] == len(data)


def test_a_message_comes_back_in_one_piece(start_daemon, engine):
    """Each batch received is answered by one send: some generators expect a message in one receive."""
    daemon = start_daemon(listener("echo", engine=engine))
    sizes = [1, 64, 512, 1460, 4096, 16 * KIB - 1, 16 * KIB, 16 * KIB + 1, 30000]
    with daemon.connect("echo") as s:
        for i, size in enumerate(sizes * 20):
            message = noise(size, i)
            assert s.send(message) == size
            assert s.recv(MIB) == message, f"message {i} of {size} bytes was cut"
        stats = daemon.stats("echo")
    messages = 20 * len(sizes)
    assert operations(stats)["count"] == messages
    if engine != "io_uring":  # there a send is no system call
        assert stats["cost"]["syscalls"]["send"] == messages


@pytest.mark.parametrize("unix", [False, True])
def test_a_slow_reader_gets_every_byte(start_daemon, engine, unix, tmp_path):
    daemon = start_daemon(listener("echo", engine=engine, **({"address": f"unix:{tmp_path}/s"} if unix else {})))
    data = noise(12 * MIB)  # more than sockets hold
    with connect(daemon.addresses("echo")[0], receive_buffer=4 * KIB) as s:
        sender = Sender(s, data)
        wait_until(lambda: daemon.stats("echo")["throttled"] > 0, "the daemon holds too much")
        parts = []
        while part := s.recv(5000):
            parts.append(part)
        sender.finish()
    assert b"".join(parts) == data
    stats = daemon.stats("echo")
    assert stats["tx_blocked"] > 0
    assert stats["bytes_out"] == len(data)


# ---- Clients that do not read ----


def connection_of(daemon, client):
    """The client's connection as the daemon lists it, as soon as it is accepted."""

    def find():
        listed = daemon.call("ListConnections")["connections"]
        return next((c for c in listed if c["peer"] == client.peer()), None)

    return wait_until(find, f"{client.peer()} is listed")


def push_until_stuck(daemon, client, limit):
    """The daemon reads no more of it, and the kernel takes no more from it."""

    def is_stuck():
        before = client.sent
        client.push(limit)
        return client.sent == before and connection_of(daemon, client)["state"] == "throttled"

    wait_until(is_stuck, "a client that never reads is stopped")
    return connection_of(daemon, client)


def test_a_client_that_never_reads_holds_bounded_memory(start_daemon, engine):
    daemon = start_daemon(listener("echo", engine=engine))
    limit = 256 * MIB
    with daemon.connect("echo") as other:
        echo(other)
        client = NeverReader(daemon.addresses("echo")[0])
        held = push_until_stuck(daemon, client, limit)
        assert client.sent < limit / 4  # the kernel's socket buffers, and what the daemon holds
        stats = daemon.stats("echo")
        most = CONN_HELD_MAX + TURN_BYTES_MAX
        if engine == "io_uring":  # the kernel receives until a busy worker's turn: all that is lent
            most = stats["pool"]["chunks"] * BUFFER_SIZE * 3 // 4
        assert 0 < held["held_bytes"] <= most
        assert stats["tx_blocked"] > 0 and stats["throttled"] > 0
        turns = stats["cost"]["turns"]
        for i in range(200):
            echo(other, noise(1000, i))
        # The stuck connection is asleep: only the other one makes turns.
        assert daemon.stats("echo")["cost"]["turns"] - turns < 3 * 200
        client.close()
        daemon.wait_closed("echo", 1)
        stats = daemon.stats("echo")
        assert stats["pool"]["free"] == stats["pool"]["chunks"]
        echo(other)


def test_the_pool_recovers_from_many_clients_that_never_read(start_daemon, engine):
    """256 KiB of buffers, wanted by 20 clients: they stop each other, and nothing else.  A client that takes
    nothing for 5 s is closed then, and a slow machine is not always done before that."""
    daemon = start_daemon(listener("small", engine=engine, buffers=64, buffer_size="4K")
                          + listener("other", engine=engine))
    clients = [NeverReader(daemon.addresses("small")[0], 16 * KIB) for _ in range(20)]

    def all_stuck():
        before = sum(c.sent for c in clients)
        for c in clients:
            with contextlib.suppress(ConnectionError):
                c.push(64 * MIB)
        left = len(clients) - daemon.stats("small")["connections"]["closed"]["error"]
        listed = daemon.call("ListConnections", listener="small")["connections"]
        waiting = [c for c in listed if c["state"] in ("throttled", "starved")]
        return len(waiting) == left and sum(c.sent for c in clients) == before

    def nothing_is_done():
        before = daemon.stats("small")
        with daemon.connect("other") as s:
            for _ in range(500):
                echo(s)
        after = daemon.stats("small")
        turns = after["cost"]["turns"] - before["cost"]["turns"]
        return turns < 100 and after["pool"]["starved"] - before["pool"]["starved"] < 100

    wait_until(all_stuck, "all are stopped")
    assert all(c.sent < 64 * MIB for c in clients)
    wait_until(nothing_is_done, "no round and round for buffers: nothing can continue")
    for c in clients[:10]:
        c.close()
    cut_off = read_all(clients[10:])  # the rest read after all
    daemon.wait_closed("small")
    stats = daemon.stats("small")
    assert cut_off <= stats["connections"]["closed"]["error"]
    assert stats["pool"]["free"] == stats["pool"]["chunks"]
    with daemon.connect("small") as s:
        echo(s, noise(100 * KIB))


def read_all(clients):
    """All at once (each may wait for buffers that another one holds): zeros, and the FIN.  How many
    got less than they sent."""
    received = {c.socket: 0 for c in clients}
    open_sockets = set(received)
    for s in received:
        with contextlib.suppress(OSError):  # it was closed
            s.shutdown(socket.SHUT_WR)
    while open_sockets:
        readable = select.select(open_sockets, [], [], TIMEOUT)[0]
        assert readable, f"{len(open_sockets)} connections are stuck"
        for s in readable:
            data = b""
            with contextlib.suppress(ConnectionError):
                data = s.recv(1 << 16)
            assert not data.strip(b"\0")
            received[s] += len(data)
            if not data:
                open_sockets.discard(s)
    for c in clients:
        assert received[c.socket] <= c.sent
        c.close()
    return sum(received[c.socket] < c.sent for c in clients)


# ---- discard ----


def test_discard_drops_and_answers_nothing(start_daemon, engine):
    daemon = start_daemon(listener("discard", service="discard", engine=engine))
    with daemon.connect("discard") as s:
        s.sendall(noise(8 * MIB))
        s.shutdown(socket.SHUT_WR)
        assert s.recv(1) == b""
    daemon.wait_closed("discard")
    stats = daemon.stats("discard")
    assert (stats["bytes_in"], stats["bytes_out"]) == (8 * MIB, 0)
    assert 0 < operations(stats)["count"] <= 8 * MIB
    assert stats["connections"]["closed"]["peer"] == 1
    assert stats["pool"]["free"] == stats["pool"]["chunks"]


@pytest.mark.parametrize("unix", [False, True])
def test_input_that_the_kernel_drops_is_counted(start_daemon, engine, unix, tmp_path):
    options = {"address": f"unix:{tmp_path}/discard"} if unix else {}
    daemon = start_daemon(listener("discard", service="discard", engine=engine, receive="drop", **options))
    address = f"{tmp_path}/discard" if unix else daemon.addresses("discard")[0]
    for sizes in [[1], [1000] * 50, [1 * MIB] * 20, [3, 64 * KIB, 70001, 1]]:
        before = daemon.stats("discard")["bytes_in"]
        with connect(address) as s:
            for size in sizes:
                s.sendall(bytes(size))
            s.shutdown(socket.SHUT_WR)
            assert s.recv(1) == b""
        assert daemon.stats("discard")["bytes_in"] - before == sum(sizes)
    stats = daemon.stats("discard")
    assert "drop" in stats["engine_features"] and stats["connections"]["closed"]["peer"] == 4
    daemon.wait_closed("discard")
    pool = daemon.stats("discard")["pool"]
    assert pool["free"] == pool["chunks"]


def test_clients_of_all_kinds_share_a_listener_that_drops(start_daemon, engine):
    """Some end in mid-flood, some reset, some pause."""
    daemon = start_daemon(listener("discard", service="discard", engine=engine, receive="drop"))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(daemon.connect("discard")) for _ in range(20)]
        for s in clients * 5:
            s.sendall(bytes(300 * KIB))
        for s in clients[:10]:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            s.close()
        for s in clients[10:]:
            s.sendall(b"x")
            s.shutdown(socket.SHUT_WR)
            assert s.recv(1) == b""
    daemon.wait_closed("discard")
    assert daemon.stats("discard")["bytes_in"] >= 10 * (1500 * KIB + 1)


def test_a_bulk_sender_is_counted_to_the_last_byte(start_daemon, engine):
    """While one sink brings much its worker wakes for larger pieces; what is less than one arrives, too."""
    daemon = start_daemon(listener("discard", service="discard", engine=engine)
                          + listener("without", service="discard", engine=engine, features="-rcvlowat"))

    def marks(name):
        return daemon.stats(name)["cost"]["syscalls"]["other"]  # setsockopt(SO_RCVLOWAT)

    with daemon.connect("discard") as s, daemon.connect("without") as w:
        ends, sent = {"discard": s, "without": w}, 1
        for name, end in ends.items():  # the call that accepts is one of the others, too
            end.sendall(b"x")
            wait_until(lambda: daemon.stats(name)["bytes_in"] == sent, "the first is counted")
        before = {name: marks(name) for name in ends}

        def raised_and_taken_back():
            nonlocal sent
            sent += 16 * MIB + 100_000
            for name, end in ends.items():
                end.sendall(bytes(16 * MIB + 100_000))
                wait_until(lambda: daemon.stats(name)["bytes_in"] == sent, "all bytes are counted")
            return marks("discard") >= before["discard"] + 2

        wait_until(raised_and_taken_back, "the low-water mark was raised and taken back")
        assert marks("without") == before["without"]
        with daemon.connect("discard") as other:  # two share the worker: none waits for the other
            for end in (s, other, s, other):
                end.sendall(bytes(6 * MIB))
            wait_until(lambda: daemon.stats("discard")["bytes_in"] == sent + 24 * MIB, "both are counted")
    daemon.wait_closed("discard")


# ---- chargen ----


def test_chargen_with_the_smallest_buffers_sends_whole_lines(start_daemon, engine):
    """A chunk shorter than the pattern's period holds as many whole lines as fit, again and again."""
    daemon = start_daemon(listener("chargen", service="chargen", engine=engine, buffers=16, buffer_size="4K"))
    line = CHARGEN_LINE + len(b"\r\n")
    batch = chargen_text(4 * KIB // line * line)
    with daemon.connect("chargen") as s:
        assert receive(s, 50 * len(batch)) == 50 * batch


def test_chargen_sends_after_a_half_close_and_ignores_input(start_daemon, engine):
    daemon = start_daemon(listener("chargen", service="chargen", engine=engine))
    size = 8 * MIB
    with daemon.connect("chargen") as s:
        s.sendall(noise(100 * KIB))
        s.shutdown(socket.SHUT_WR)
        wait_until(lambda: daemon.stats("chargen")["bytes_in"] == 100 * KIB, "input is read")
        assert receive(s, size) == chargen_text(size)
    daemon.wait_closed("chargen")
    stats = daemon.stats("chargen")
    assert stats["bytes_out"] >= size and operations(stats)["count"] > 0


def test_chargen_clients_that_never_read_cost_nothing(start_daemon, engine):
    daemon = start_daemon(listener("chargen", service="chargen", engine=engine) + listener("echo", engine=engine))
    clients = [connect(daemon.addresses("chargen")[0], receive_buffer=4 * KIB) for _ in range(20)]
    state = {}

    def is_quiet():
        before = state.get("turns")
        with daemon.connect("echo") as s:
            for _ in range(50):
                echo(s)
        state["turns"] = daemon.stats("chargen")["cost"]["turns"]
        return daemon.stats("chargen")["tx_blocked"] >= 20 and state["turns"] == before

    wait_until(is_quiet, "a blocked source sleeps")
    for c in clients:
        c.close()
    daemon.wait_closed("chargen")


# ---- Addresses and workers ----


def test_ipv6(start_daemon, engine):
    if not socket.has_ipv6:
        pytest.skip("this Python has no IPv6")
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"this host has no ::1: {error}")
    daemon = start_daemon(listener("echo", engine=engine, address=["[::1]:0", "127.0.0.1:0"]))
    (six, four) = daemon.addresses("echo")
    assert (six[0], four[0]) == ("::1", "127.0.0.1")
    for address in (six, four):
        with connect(address) as s:
            echo(s, noise(100 * KIB))
    with connect(six) as s:
        echo(s)
        listed = daemon.call("ListConnections", listener="echo")["connections"]
        # Those before may not be gone yet.
        assert "[::1]:%d" % s.getsockname()[1] in [c["peer"] for c in listed]
    daemon.wait_closed("echo")


def test_every_port_of_a_range_serves(start_daemon, engine, loopback_ports):
    host, first = loopback_ports
    daemon = start_daemon(
        listener("echo", engine=engine, address=[f"{host}:{first}-{first + 3}", "127.0.0.1:0"], workers=2)
    )
    addresses = daemon.addresses("echo")
    assert addresses[:4] == [(host, first + i) for i in range(4)] and len(addresses) == 5
    connections = [connect(a) for a in addresses for _ in range(4)]
    for i, s in enumerate(connections):
        echo(s, noise(1000, i))
    connected = daemon.stats("echo")["connections"]
    assert connected["open"] == connected["accepted"] == 20
    for s in connections:
        s.close()
    daemon.wait_closed("echo")
    stats = daemon.stats("echo")
    assert stats["bytes_in"] == stats["bytes_out"] == 20 * 1000


def test_workers_share_connections_and_counters_add_up(start_daemon, engine):
    daemon = start_daemon(listener("echo", engine=engine, workers=4))
    connections = [daemon.connect("echo") for _ in range(80)]
    for i, s in enumerate(connections):
        echo(s, noise(500 + i, i))
    listed = daemon.call("ListConnections", listener="echo")["connections"]
    assert {c["worker"] for c in listed} == {0, 1, 2, 3}
    stats = daemon.stats("echo")
    assert stats["workers"] == 4
    assert stats["connections"]["open"] == stats["connections"]["accepted"] == 80
    assert stats["bytes_in"] == sum(500 + i for i in range(80))
    assert sum(c["bytes_in"] for c in listed) == stats["bytes_in"]
    assert operations(stats)["count"] == 80
    for s in connections:
        s.close()
    daemon.wait_closed("echo")
    stats = daemon.stats("echo")
    assert stats["bytes_out"] == stats["bytes_in"]
    assert stats["connections"]["closed"]["peer"] == 80
    assert stats["pool"]["free"] == stats["pool"]["chunks"] == 4 * 1024
