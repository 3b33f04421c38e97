"""A connection whose peer has closed ends: on every engine, with every set of features, of every service,
whatever came last."""

import contextlib
import socket

import pytest
from conftest import listener, wait_until

MINUTES = 1

CLIENTS = 16
SERVICES = ["echo", "discard", "chargen", "http", "iperf3", "netperf", "sockperf"]
FEATURES = ["defer_taskrun", "multishot_recv", "buffer_ring", "incremental_buffers", "eager_io"]
SETS = {
    **{f"io_uring -{name}": ("io_uring", {"features": f"-{name}"}) for name in FEATURES},
    "io_uring sqpoll": ("io_uring", {"sqpoll": "yes"}),
    "io_uring-poll -defer_taskrun": ("io_uring-poll", {"features": "-defer_taskrun"}),
    **{engine: (engine, {}) for engine in ["epoll", "io_uring", "io_uring-poll"]},
}
URGENT = b"u"


def data_behind_an_urgent_byte(s):
    s.send(URGENT, socket.MSG_OOB)
    s.send(b"y" * 91)


def urgent_byte_behind_data(s):
    s.send(b"y" * 91)
    s.send(URGENT, socket.MSG_OOB)


def data(s):
    s.send(b"y" * 91)


def nothing(s):
    pass


LAST = [data_behind_an_urgent_byte, urgent_byte_behind_data, data, nothing]


def leave(daemon, name, last, asks, stays):
    """A client that asks something first, sends the last bytes, and ends.  One that stays sends a FIN and no
    reset.  The service may have ended the connection at the bytes before: they are in no protocol."""
    s = daemon.connect(name)
    with contextlib.suppress(ConnectionError, OSError):
        if asks:
            s.send(b"a")
        if name == "chargen" or (name == "echo" and asks):
            s.recv(1)
        last(s)
        s.shutdown(socket.SHUT_WR)
    if not stays:
        s.close()
    return s


@pytest.mark.parametrize("name", SETS)
def test_a_connection_whose_peer_has_closed_ends(start_daemon, name):
    engine, keys = SETS[name]
    daemon = start_daemon("".join(listener(service, service=service, engine=engine, **keys) for service in SERVICES))
    for service in SERVICES:
        clients = [leave(daemon, service, last, i & 1, i & 2) for last in LAST for i in range(CLIENTS)]
        if service == "chargen":  # it sends until its client has gone
            clients.clear()
        wait_until(lambda: daemon.stats(service)["connections"]["open"] == 0, f"all connections of {service} end", 10)
