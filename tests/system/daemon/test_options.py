"""The keys that tune a listener: each is accepted, moves every byte, and the statistics say what is
really in use."""

import os
import struct
import threading

import nbd_client
import pytest
from conftest import check_config, limit_locked_memory, listener, locks_memory, wait_until
from traffic import (Exchange, NeverReader, chargen_text, connect, echo, echo_and_close,
                     erratic_clients_leave_nothing, noise, receive, reset)

KIB, MIB = 1024, 1024 * 1024
SQPOLL = {"engine": "io_uring", "sqpoll": "yes"}


def exercise(daemon, name, size=MIB):
    """Data at random splits over several connections; the counters when it is over."""
    address = daemon.addresses(name)[0]
    exchanges = [Exchange(connect(address), noise(size >> i, i), i) for i in range(4)]
    return echo_and_close(daemon, name, exchanges)


# ---- sqpoll ----


def test_a_low_limit_of_descriptors_takes_no_feature(start_daemon):
    """Linux refuses to register more files than the limit."""
    both = [start_daemon(listener("echo", engine="io_uring"), nofile=limit) for limit in (1024, 19000)]
    few, many = [daemon.status("echo")["engine_features"] for daemon in both]
    assert few == many
    exercise(both[0], "echo", 64 * KIB)


def test_sqpoll(start_daemon):
    """The kernel's thread submits, and its CPU time is the listener's."""
    daemon = start_daemon(listener("echo", **SQPOLL) + listener("plain", engine="io_uring"))
    stats = exercise(daemon, "echo")
    assert "sqpoll" in stats["engine_features"]
    assert "defer_taskrun" not in stats["engine_features"]  # they exclude each other
    kernel = stats["cost"]["kernel_threads"]
    assert kernel["count"] >= 1 and kernel["cpu_ns"] > 0
    assert kernel["cpu_ns"] <= stats["cost"]["cpu_user_ns"] + stats["cost"]["cpu_system_ns"]
    plain = exercise(daemon, "plain")
    assert "sqpoll" not in plain["engine_features"]
    assert plain["cost"]["kernel_threads"] == {"count": 0, "cpu_ns": 0}


def test_sqpoll_sleeps_when_nothing_is_to_do(start_daemon):
    """Neither the kernel's thread nor the worker spins longer than a second."""
    daemon = start_daemon(listener("echo", **SQPOLL) + listener("other", engine="epoll"))
    with daemon.connect("echo") as s:
        for i in range(200):
            echo(s, noise(1000, i))

    def cpu_ns():
        cost = daemon.stats("echo")["cost"]
        return cost["cpu_user_ns"] + cost["cpu_system_ns"]

    def is_asleep():
        before = cpu_ns()
        with daemon.connect("other") as s:
            for _ in range(300):
                echo(s)
        return cpu_ns() == before

    wait_until(is_asleep, "the listener uses no CPU time")
    with daemon.connect("echo") as s:  # and wakes
        echo(s, noise(100 * KIB))
    daemon.wait_closed("echo")


def test_sqpoll_on_a_cpu_with_several_workers(start_daemon):
    cpu = max(os.sched_getaffinity(0))
    daemon = start_daemon(listener("echo", engine="io_uring", sqpoll=cpu, workers=2))
    stats = exercise(daemon, "echo")
    assert stats["cost"]["kernel_threads"]["count"] == 2


# ---- features ----


SWITCHES = ("registered_ring", "restricted", "single_issuer", "defer_taskrun", "multishot_accept", "multishot_recv",
            "buffer_ring", "incremental_buffers", "min_left", "recv_bundle", "silent_send", "eager_io", "rcvlowat")


def test_each_feature_can_be_left_out(start_daemon):
    """Alone and as many as a line can name: every byte moves, and the statistics say what is not used."""
    most = [name for name in SWITCHES if name != "defer_taskrun"]  # it needs single_issuer
    without = {name: (name,) for name in SWITCHES} | {"most": most}
    daemon = start_daemon("".join(listener(name, engine="io_uring", features=",".join(f"-{f}" for f in off)) for name,
                                  off in without.items()) + listener("plain", engine="io_uring"))
    assert not [f for f in daemon.stats("plain")["engine_features"] if f.startswith("-")]
    for name, off in without.items():
        features = exercise(daemon, name, 256 * KIB)["engine_features"]
        assert {f for f in features if f.startswith("-")} == {f"-{f}" for f in off}
        assert not set(off) & set(features)
        assert daemon.status(name)["engine_features"] == features
    assert daemon.status("most")["engine_features"] == [f for f in features if f.startswith("-")]


def test_daemon_and_kernel_agree_when_a_buffer_is_used_up(start_daemon):
    """With min_left it is when less than a quarter is left: a byte more or less shows as wrong bytes, or as
    buffers that are missing in the end."""
    daemon = start_daemon(listener("echo", engine="io_uring", buffer_size="16K", buffers=64,
                                   features="-eager_io,-recv_bundle"))
    if "min_left" not in daemon.stats("echo")["engine_features"]:
        pytest.skip("this kernel has no min_left")
    with connect(daemon.addresses("echo")[0]) as client:
        for size in (12288, 4096, 12289, 12287, 1, 4096, 12287, 4097) * 40:
            echo(client, noise(size, size))
        assert daemon.stats("echo")["pool"]["starved"] == 0


def test_bulk_that_comes_back_is_the_same(start_daemon):
    """A completion of a bundle may be of two receives, and says nothing of buffers that are not full in between."""
    daemon = start_daemon(listener("http", "http", engine="io_uring"))
    body = struct.pack(">1250000I", *range(1250000))
    head = b"POST /echo HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body)
    for _ in range(20):
        with daemon.connect("http") as s:
            sender = threading.Thread(target=s.sendall, args=[head + body])
            sender.start()
            back = bytearray()
            while part := s.recv(1 << 20):
                back += part
            sender.join()
            assert back.endswith(body)


def test_a_feature_that_is_no_more_used_is_seen_in_calls(start_daemon):
    """Without silent sends each send wakes a sleeping worker: more than one call for an echo."""
    daemon = start_daemon(listener("plain", engine="io_uring")
                          + listener("loud", engine="io_uring", features="-silent_send"))
    calls = {}
    for name in ("plain", "loud"):
        with daemon.connect(name) as s:
            before = daemon.stats(name)["cost"]["syscalls"]["io_uring_enter"]
            for _ in range(400):
                echo(s)
            calls[name] = daemon.stats(name)["cost"]["syscalls"]["io_uring_enter"] - before
    assert calls["loud"] > 1.5 * calls["plain"]


def test_receives_with_buffers_of_their_own_wait_for_one(start_daemon):
    """More connections than buffers, and than parts of those that are shared: a connection without one is served
    when another has ended, and the worker sleeps meanwhile."""
    daemon = start_daemon(listener("echo", engine="io_uring", buffers=16, buffer_size="4K",
                                   features="-buffer_ring") + listener("other", engine="epoll"))
    clients = [daemon.connect("echo") for _ in range(100)]
    for s in clients:
        s.sendall(b"x")
    wait_until(lambda: daemon.stats("echo")["pool"]["starved"] > 0, "some wait")
    with daemon.connect("other") as o:
        before = daemon.stats("echo")["cost"]["turns"]
        for _ in range(200):
            echo(o)
        assert daemon.stats("echo")["cost"]["turns"] - before < 100
    for s in clients:  # in the order in which they came: the first have buffers
        assert s.recv(1) == b"x"
        s.close()
    daemon.wait_closed("echo")


@pytest.mark.parametrize(("transport", "engine", "features", "error"), [
    ("tcp", "io_uring", "-multishot_rec", "got '-multishot_rec' (did you mean '-multishot_recv'?)"),
    ("tcp", "io_uring", "-buffer_ring, +sqpoll", "got '-buffer_ring, +sqpoll' ('+sqpoll')"),
    ("tcp", "io_uring-poll", "-buffer_ring", "engine io_uring-poll has no buffer_ring to do without"),
    ("tcp", "epoll", "-multishot_accept", "engine epoll has no multishot_accept to do without"),
    ("udp", "io_uring", "-buffer_ring", "engine io_uring has no buffer_ring to do without"),
    ("udp", "auto", "-buffer_ring", "engine auto has no buffer_ring to do without"),
])
def test_unknown_features_are_errors_with_the_list(tmp_path, transport, engine, features, error):
    status, said = check_config(tmp_path, listener("echo", engine=engine, transport=transport, features=features))
    assert status == 1 and error in said
    assert "expected" not in said or all(f"-{name}" in said for name in SWITCHES)


# ---- busy-poll ----


def await_sleep(daemon, name):
    """Until the listener makes no turn and no call while another one is busy."""

    def is_asleep():
        before = daemon.stats(name)["cost"]
        with daemon.connect("other") as o:
            for _ in range(100):
                echo(o)
        after = daemon.stats(name)["cost"]
        return (after["turns"], after["syscalls"]) == (before["turns"], before["syscalls"])

    wait_until(is_asleep, "the worker sleeps")


def test_busy_poll_ends_in_sleep(start_daemon, engine):
    daemon = start_daemon(listener("echo", engine=engine, busy_poll="100us") + listener("other", engine="epoll"))
    with daemon.connect("echo") as s:
        echo(s)
        await_sleep(daemon, "echo")
        echo(s)
    daemon.wait_closed("echo")
    assert "busy_poll" in daemon.status("echo")["engine_features"]
    cost = daemon.stats("echo")["cost"]
    assert 0 < cost["spins_in_vain"] <= cost["spins"]


def test_busy_poll_auto(start_daemon, engine):
    """The worker spins, and no longer once clients are slow.  The figures are those of core/spin.h."""
    daemon = start_daemon(listener("echo", engine=engine, busy_poll="auto") + listener("other", engine="epoll"))
    assert "busy_poll" in daemon.status("echo")["engine_features"]
    with daemon.connect("echo") as s:
        for _ in range(300):
            echo(s)
            daemon.stats("echo")
        await_sleep(daemon, "echo")
        cost = daemon.stats("echo")["cost"]
    assert cost["spins"] > 0
    in_vain = cost["spins_in_vain"]
    earned_us = (cost["spins"] - in_vain) * 50 / 8 + cost["turns"] * 100 / 128
    assert in_vain * 50 <= 16 * 50 + earned_us
    daemon.wait_closed("echo")


# ---- zero-copy-min ----


def test_zero_copy_is_counted_and_intact(start_daemon):
    """Sends below the limit are ordinary ones. On loopback the kernel copies zero-copy sends, and reports that."""
    daemon = start_daemon(listener("echo", engine="io_uring", zero_copy_min="8K"))
    with daemon.connect("echo") as s:
        for i in range(20):
            echo(s, noise(8 * KIB - 1, i))
        assert daemon.stats("echo")["zero_copy"] == {"sent": 0, "copied": 0}
        for i in range(20):
            echo(s, noise(8 * KIB, i))
    daemon.wait_closed("echo")
    zero_copy = daemon.stats("echo")["zero_copy"]
    assert zero_copy["sent"] + zero_copy["copied"] == 20

    daemon = start_daemon(listener("echo", engine="io_uring", zero_copy_min="1"))
    stats = exercise(daemon, "echo", 4 * MIB)
    assert sum(stats["zero_copy"].values()) > 0


@locks_memory
def test_zero_copy_is_in_force(start_daemon):
    daemon = start_daemon(listener("echo", engine="io_uring", zero_copy_min="8K"))
    assert "send_zc" in daemon.stats("echo")["engine_features"]


def test_zero_copy_of_chargen(start_daemon):
    daemon = start_daemon(listener("chargen", service="chargen", engine="io_uring", zero_copy_min="8K"))
    size = 4 * MIB
    for receive_buffer in (4 * KIB, None):
        with connect(daemon.addresses("chargen")[0], receive_buffer=receive_buffer) as s:
            assert receive(s, size >> 2) == chargen_text(size >> 2)
    daemon.wait_closed("chargen")
    stats = daemon.stats("chargen")
    assert sum(stats["zero_copy"].values()) > 0
    assert stats["pool"]["free"] >= stats["pool"]["chunks"] - 1


@pytest.mark.parametrize("service", ["echo", "chargen"])
def test_zero_copy_clients_that_never_read_can_be_closed(start_daemon, service):
    """The kernel gives lent buffers back when they are acknowledged, or the connection is broken."""
    daemon = start_daemon("[server]\ndrain-timeout = 100ms\n"
                          + listener("idle", service, engine="io_uring", zero_copy_min="1", idle_timeout="2s")
                          + listener("drain", service, engine="io_uring", zero_copy_min="1"))
    clients = [NeverReader(daemon.addresses(name)[0]) for name in ("idle", "drain")]
    for client in clients:
        client.push(MIB)
    wait_until(lambda: daemon.stats("idle")["connections"]["closed"]["idle"] == 1, "closed")
    stats = daemon.stats("idle")
    assert stats["pool"]["free"] >= stats["pool"]["chunks"] - 1
    wait_until(lambda: daemon.stats("drain")["bytes_out"] > 0, "bytes are lent")
    assert daemon.terminate() == 0
    assert "ending with connections open" not in daemon.log()
    for client in clients:
        client.close()


# ---- Buffers ----


@pytest.mark.parametrize("buffer_size, buffers", [("4K", 16), ("4K", 32768), ("64K", 17), ("1M", 16), ("1M", 1024)])
def test_buffers_of_every_size(start_daemon, engine, buffer_size, buffers):
    daemon = start_daemon(listener("echo", engine=engine, buffer_size=buffer_size, buffers=buffers)
                          + listener("chargen", "chargen", engine=engine, buffer_size=buffer_size, buffers=buffers))
    stats = exercise(daemon, "echo", 2 * MIB)
    assert stats["pool"]["chunks"] == buffers
    with daemon.connect("chargen") as s:
        start = receive(s, 200 * 74)
        assert start[: 50 * 74] == chargen_text(50 * 74)
    daemon.wait_closed("chargen")


# ---- Threads ----


def affinity_of(daemon, name):
    """The CPU affinity of each thread whose name begins with `name`."""
    return [os.sched_getaffinity(tid) for tid, other in daemon.threads().items() if other.startswith(name)]


def test_workers_and_cpus(start_daemon, engine):
    cpus = os.sched_getaffinity(0)
    last = max(cpus)
    daemon = start_daemon(listener("bound", engine=engine, workers=3, cpus=last)
                          + listener("auto", engine=engine, workers="auto")
                          + listener("both", engine=engine, workers="auto", cpus=last))
    assert daemon.stats("bound")["workers"] == 3
    assert daemon.stats("auto")["workers"] == len(cpus)
    assert daemon.stats("both")["workers"] == 1
    assert affinity_of(daemon, "bound/") == [{last}] * 3
    assert affinity_of(daemon, "auto/") == [cpus] * len(cpus)
    for name in ("bound", "auto", "both"):
        exercise(daemon, name)


@pytest.mark.parametrize("engine", ["io_uring", "epoll"])
def test_the_kernels_threads_stay_on_the_workers_cpus(start_daemon, tmp_path, engine):
    last = max(os.sched_getaffinity(0))
    daemon = start_daemon(f"[export disk]\npath = {tmp_path}/disk\ncreate = yes\nsize = 1M\nstore = io_uring\n"
                          + listener("nbd", "nbd", engine=engine, exports="disk", cpus=last))
    with nbd_client.connect(daemon, "nbd") as client:
        client.request(nbd_client.FLUSH)  # io_uring has a thread do that
        assert client.reply() == (0, b"")
        assert affinity_of(daemon, "iou-wrk-") == [{last}]


# ---- Features in use ----


def test_features_are_those_of_the_engine(start_daemon):
    daemon = start_daemon(listener("epoll", engine="epoll") + listener("io_uring", engine="io_uring")
                          + listener("io_uring-poll", engine="io_uring-poll"))
    features = {name: daemon.stats(name)["engine_features"] for name in ("epoll", "io_uring", "io_uring-poll")}
    assert features["epoll"] == ["rcvlowat"]
    assert {"multishot_accept", "multishot_recv", "buffer_ring"} <= set(features["io_uring"])
    assert {"multishot_accept", "multishot_poll"} <= set(features["io_uring-poll"])
    assert "multishot_recv" not in features["io_uring-poll"] and "send_zc" not in features["io_uring"]
    for name, found in features.items():
        assert daemon.status(name)["engine_features"] == found
        assert len(set(found)) == len(found)


# ---- And clients that misbehave ----


@pytest.mark.parametrize("options", [{}, SQPOLL], ids=["plain", "sqpoll"])
def test_a_drain_ends_although_data_arrives(start_daemon, options):
    """The kernel may hear of the data and of our end of the connection at once."""
    options = {"engine": "io_uring", **options}
    daemon = start_daemon("[server]\ndrain-timeout = 0\n" + listener("any", "discard", **options))
    address = daemon.addresses("any")[0]
    clients = [connect(address) for _ in range(30)]
    for i, s in enumerate(clients[5:]):
        s.setblocking(False)
        s.send(bytes(50000))
        if i % 2:
            reset(s)
    assert daemon.terminate() == 0
    assert "ending with connections open" not in daemon.log()
    for s in clients:
        s.close()


def test_limited_memory_is_not_taken_by_sends(start_daemon):
    """A peer that acknowledges nothing would keep it from rings. Such sends are copied, and counted as that."""
    config = listener("any", service="chargen", engine="io_uring", zero_copy_min="1")
    daemon = start_daemon(config, preexec=lambda: limit_locked_memory(8 * MIB))
    assert "send_zc" not in daemon.stats("any")["engine_features"]
    clients = [daemon.connect("any") for _ in range(100)]
    for s in clients:
        left = 200 * KIB
        while left > 0:
            data = s.recv(64 * KIB)
            assert data
            left -= len(data)
        s.close()
    stats = daemon.stats("any")
    assert stats["connections"]["closed"]["error"] == 0
    assert stats["zero_copy"]["copied"] > stats["zero_copy"]["sent"] == 0


@pytest.mark.parametrize("service", ["echo", "discard", "chargen"])
@pytest.mark.parametrize(
    "options",
    [
        {"zero_copy_min": "1"},
        {"sqpoll": "yes"},
        {"sqpoll": "yes", "zero_copy_min": "4K", "workers": 2},
        {"busy_poll": "50us", "buffers": 32, "buffer_size": "64K"},
    ],
    ids=lambda options: "+".join(options),
)
def test_erratic_clients_leave_nothing_behind(start_daemon, service, options):
    daemon = start_daemon(listener("any", service=service, engine="io_uring", **options))
    kept = options.get("workers", 1) if service == "chargen" else 0  # the pattern
    seed = f"{service} {options}"
    erratic_clients_leave_nothing(daemon, "any", seed, service == "echo", kept)
