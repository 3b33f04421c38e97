"""`epoll-mode`, for comparison: epoll as other servers use it."""

import socket
import threading

import pytest

from conftest import listener, wait_until
from test_config import check  # noqa: F401
from traffic import echo, noise, receive, receive_all

CALLS = {"level": 0, "edge": 0, "oneshot": 1, "per-operation": 4}  # of epoll_ctl() for a request and its answer
OTHERS = [mode for mode in CALLS if mode != "level"]
REQUESTS = 50


@pytest.fixture(params=OTHERS)
def mode(request):
    return request.param


@pytest.mark.parametrize("keys, more", [({}, 0), ({"delay": "1us"}, 1)], ids=["at once", "delayed"])
def test_each_mode_has_its_number_of_calls(start_daemon, keys, more):
    """One more if the answer is not there yet when the worker sleeps: it waits for input, then for room."""
    daemon = start_daemon("".join(listener(m, engine="epoll", epoll_mode=m, **keys) for m in CALLS))

    def made(name):
        return daemon.stats(name)["cost"]["syscalls"]["epoll_ctl"]

    for name, calls in CALLS.items():
        with daemon.connect(name) as s:
            echo(s)
            before = made(name)
            for _ in range(REQUESTS):
                echo(s)
            # Before it sleeps the worker may arm the socket after an answer has arrived, also the first.
            wait_until(lambda: made(name) - before >= REQUESTS * calls - 4, "the calls are made")
            assert made(name) - before <= REQUESTS * (calls and calls + more) + 4, name


def test_every_byte_comes_back(start_daemon, mode):
    daemon, data = start_daemon(listener("echo", engine="epoll", epoll_mode=mode)), noise(4 << 20)
    with daemon.connect("echo") as s:
        sender = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
        sender.start()
        assert receive_all(s) == data
        sender.join()


def test_a_client_that_reads_late_gets_every_byte(start_daemon, mode):
    """Meanwhile its input is paused, and its output waits for room."""
    daemon, data = start_daemon(listener("echo", engine="epoll", epoll_mode=mode)), noise(16 << 20)
    with daemon.connect("echo") as s:
        sender = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
        sender.start()
        wait_until(lambda: daemon.stats("echo")["throttled"] > 0, "its input is paused")
        assert receive_all(s) == data
        sender.join()
    wait_until(lambda: daemon.status("echo")["connections_open"] == 0, "they have ended")


def test_many_clients_share_few_buffers(start_daemon, mode):
    daemon = start_daemon(listener("echo", engine="epoll", epoll_mode=mode, buffers=16))
    data = noise(256 << 10)
    clients = [daemon.connect("echo") for _ in range(40)]
    senders = [threading.Thread(target=s.sendall, args=(data,)) for s in clients]
    for sender in senders:
        sender.start()
    for s in clients:
        assert receive(s, len(data)) == data
        s.close()
    for sender in senders:
        sender.join()
    wait_until(lambda: daemon.status("echo")["connections_open"] == 0, "they have ended")


def test_a_client_that_resets_while_its_input_is_paused_is_dropped(start_daemon):
    daemon = start_daemon("".join(listener(m, engine="epoll", epoll_mode=m) for m in CALLS))
    for name in CALLS:
        s = daemon.connect(name)
        s.setblocking(False)
        while daemon.stats(name)["throttled"] == 0:
            try:
                s.send(b"x" * 65536)
            except BlockingIOError:
                pass
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        s.close()
        wait_until(lambda n=name: daemon.status(n)["connections_open"] == 0, "it has ended")


def test_the_name_says_that_it_is_for_comparison(start_daemon):
    daemon = start_daemon("".join(listener(m, engine="epoll", epoll_mode=m) for m in CALLS))
    for name in CALLS:
        compared = [f for f in daemon.status(name)["engine_features"] if f.endswith("_for_comparison")]
        assert compared == ([] if name == "level" else [name.replace("-", "_") + "_for_comparison"])


def test_it_is_refused_where_it_has_no_effect(check):  # noqa: F811
    _, errors = check(listener("a", engine="io_uring", epoll_mode="edge"))
    assert errors == ["4: [listener a] epoll-mode: requires engine = epoll (engine is io_uring)"]
    _, errors = check(listener("a", engine="epoll", transport="udp", epoll_mode="edge"))
    assert errors == ["5: [listener a] epoll-mode: requires transport = tcp (transport is udp)"]
    _, errors = check(listener("a", engine="epoll", epoll_mode="eager"))
    assert errors == ["4: [listener a] epoll-mode: expected level, edge, oneshot or per-operation, got 'eager'"]
