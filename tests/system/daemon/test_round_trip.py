"""The time that the daemon tells for an operation is part of the round trip that its client measures: of each
engine, transport and service."""

import time

import pytest
from conftest import ENGINES, listener
from test_sockperf import message
from test_udp import client as udp_client

MINUTES = 0.5

ROUNDS = 600  # on a ring one turn in 32 is timed
PAUSE_S = 0.003  # much longer than an operation takes
HTTP = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
PING = message(3, bytes(50))
REQUESTS = {
    ("tcp", "echo"): bytes(64),
    ("tcp", "http"): HTTP,
    ("tcp", "sockperf"): PING,
    ("udp", "echo"): bytes(64),
    ("udp", "sockperf"): PING,
}
OPERATIONS = {"echo": "echo", "http": "get", "sockperf": "pong"}


def connect(daemon, name, transport):
    if transport == "tcp":
        return daemon.connect(name)
    return udp_client(daemon.addresses(name)[0])


CASES = {f"{transport}-{service}-{engine}": (transport, service, engine)
         for transport, service in REQUESTS for engine in ENGINES}
SQPOLL = {f"{transport}-echo": (transport, "echo", "io_uring") for transport in ("tcp", "udp")}


@pytest.mark.parametrize(("cases", "keys"), [(CASES, {}), (SQPOLL, {"sqpoll": "yes"})], ids=["plain", "sqpoll"])
def test_the_told_time_is_part_of_the_round_trip(start_daemon, cases, keys):
    """The client asks some milliseconds apart: a time that were read behind the worker's sleep would be those."""
    daemon = start_daemon("".join(listener(name, transport=transport, service=service, engine=engine, **keys)
                                  for name, (transport, service, engine) in cases.items()))
    clients = {name: connect(daemon, name, case[0]) for name, case in cases.items()}
    trips = {name: [] for name in cases}
    for _ in range(ROUNDS):
        time.sleep(PAUSE_S)
        for name, client in clients.items():
            begin = time.monotonic_ns()
            client.send(REQUESTS[cases[name][:2]])
            client.recv(65536)
            trips[name].append(time.monotonic_ns() - begin)
    for name, (_, service, _) in cases.items():
        latency = daemon.stats(name)["operations"][OPERATIONS[service]]["latency_ns"]
        assert latency["count"] > 5, name
        # The timed operations are a part of all, which may be slower ones by chance.
        assert latency["p50"] <= sorted(trips[name])[ROUNDS * 9 // 10], name
        clients[name].close()
