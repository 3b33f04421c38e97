"""`ring-batch = no`, for comparison: a ring that is entered once for each entry."""

import signal
import socket
import threading

from conftest import listener
from test_config import check  # noqa: F401
from traffic import echo, noise, receive, receive_all

CLIENTS = 32


def enters(daemon, name):
    return daemon.stats(name)["cost"]["syscalls"]["io_uring_enter"]


def test_each_answer_is_submitted_by_a_call_of_its_own(start_daemon):
    """The requests of many clients are there when the worker looks: one call submits all answers, or as many do."""
    daemon = start_daemon(listener("no", engine="io_uring", ring_batch="no") + listener("yes", engine="io_uring"))
    made = {}
    for name in ("no", "yes"):
        clients = [daemon.connect(name) for _ in range(CLIENTS)]
        for s in clients:
            echo(s)
        before = enters(daemon, name)
        daemon.freeze()
        for s in clients:
            s.sendall(b"x" * 100)
        daemon.process.send_signal(signal.SIGCONT)
        for s in clients:
            assert receive(s, 100) == b"x" * 100
        made[name] = enters(daemon, name) - before
        for s in clients:
            s.close()
    assert made["no"] >= CLIENTS
    assert made["yes"] < CLIENTS / 2


def test_every_byte_comes_back(start_daemon):
    daemon, data = start_daemon(listener("echo", engine="io_uring", ring_batch="no")), noise(4 << 20)
    with daemon.connect("echo") as s:
        sender = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
        sender.start()
        assert receive_all(s) == data
        sender.join()


def test_the_name_says_that_it_is_for_comparison(start_daemon):
    daemon = start_daemon(listener("no", engine="io_uring", ring_batch="no") + listener("yes", engine="io_uring"))
    assert "unbatched_for_comparison" in daemon.status("no")["engine_features"]
    assert "unbatched_for_comparison" not in daemon.status("yes")["engine_features"]


def test_it_is_refused_where_it_has_no_effect(check):  # noqa: F811
    _, errors = check(listener("a", ring_batch="no"))
    assert errors == ["4: [listener a] ring-batch: requires engine = io_uring (engine is epoll)"]
    _, errors = check(listener("a", engine="io_uring", ring_batch="no", sqpoll="yes"))
    assert errors == ["4: [listener a] ring-batch: requires sqpoll = no (sqpoll is yes)"]
    _, errors = check(listener("a", engine="io_uring", ring_batch="maybe"))
    assert errors == ["4: [listener a] ring-batch: expected yes or no, got 'maybe'"]
