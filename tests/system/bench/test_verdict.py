"""nbbench compare as a whole, on a daemon of known costs: how often does it call equal listeners different, and
how often does it find a difference?

NBSERVED_GROUPS=400 makes as many comparisons for each noise, which takes some minutes; CI makes a few.
"""

import collections
import concurrent.futures
import json
import math
import os
import random
import socket
import subprocess
import threading
import time

import pytest
from conftest import NBBENCH, TIMEOUT, rows_of

MINUTES = 1
GROUPS = int(os.environ.get("NBSERVED_GROUPS", 8))
OPERATIONS, COST_NS = 10000, 5000
SPREAD = 0.03  # the standard deviation of a visit's cost


# ---- Noises: the factor of the next visit of a listener ----


def independent(_state, rng):
    return math.exp(rng.gauss(0, SPREAD))


def drifting(state, rng):
    """The machine slows down and recovers over many visits; both listeners share it."""
    state["drift"] = 0.98 * state["drift"] + rng.gauss(0, 0.01)
    return math.exp(state["drift"] + rng.gauss(0, SPREAD))


def heavy_tailed(_state, rng):
    return math.exp(rng.gauss(0, SPREAD)) * (1.3 if rng.random() < 0.1 else 1)


def bimodal(_state, rng):
    return math.exp(rng.gauss(0, SPREAD / 3) + rng.choice([-0.04, 0.04]))


def ordered(state, rng):
    """Each first visit of a round costs 5 % more."""
    state["visits"] += 1
    return math.exp(rng.gauss(0, SPREAD)) * (1.05 if state["visits"] % 2 else 1)


NOISES = [independent, drifting, heavy_tailed, bimodal, ordered]


class Fake:
    """A control socket whose listeners cost what they are told to: a visit is a datagram with its name."""

    def __init__(self, path, noise, factors, seed):
        self.noise, self.rng = noise, random.Random(seed)
        self.state = collections.defaultdict(float)
        self.factors = factors  # listener: its cost beside COST_NS
        self.cpu_ns = dict.fromkeys(factors, 0.0)
        self.count = dict.fromkeys(factors, 0)
        self.started = time.monotonic_ns()
        self.visits = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.visits.bind(("127.0.0.1", 0))
        self.visits.setblocking(False)
        self.port = self.visits.getsockname()[1]
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(path)
        self.listening.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listening.close()
        self.visits.close()

    def accept(self):
        while True:
            try:
                connection = self.listening.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=[connection], daemon=True).start()

    def serve(self, connection):
        data = b""
        with connection:
            while piece := connection.recv(65536):
                data += piece
                while b"\0" in data:
                    call, data = data.split(b"\0", 1)
                    reply = self.answer(json.loads(call))
                    connection.sendall(json.dumps({"parameters": reply}).encode() + b"\0")

    def count_visits(self):
        while True:
            try:
                name = self.visits.recv(100).decode().strip()
            except BlockingIOError:
                return
            self.count[name] += OPERATIONS
            self.cpu_ns[name] += OPERATIONS * COST_NS * self.factors[name] * self.noise(self.state, self.rng)

    def answer(self, call):
        self.count_visits()
        method, now = call["method"].rsplit(".", 1)[1], time.monotonic_ns()
        document = {"pid": os.getpid(), "started_ns": self.started, "uptime_ns": now - self.started,
                    "version": "0", "build": "", "exports": []}
        if method == "GetConfig":
            return {"listeners": [{"name": name, "keys": {}} for name in self.factors], "exports": []}
        names = call.get("parameters", {}).get("listeners") or list(self.factors)
        return {**document, "listeners": [self.listener(name) for name in names]}

    def listener(self, name):
        latency = {"count": 0, "sum": 0, "min": 0, "max": 0, "buckets": []}
        return {
            "name": name, "transport": "tcp", "engine": "epoll", "engine_features": [], "service": "http",
            "batches": [], "stores": [], "addresses": [f"127.0.0.1:{self.port}"], "state": "serving", "workers": 1,
            "since_ns": 0, "bytes_in": self.count[name], "bytes_out": self.count[name],
            "connections": {"open": 0, "accepted": self.count[name], "refused": {}, "closed": {}},
            "operations": {"GET": {"count": self.count[name], "errors": 0, "latency_ns": latency}},
            "cost": {"cpu_user_ns": round(self.cpu_ns[name]), "cpu_system_ns": 0, "turns": 1, "syscalls": {}},
        }  # fmt: skip


def compare(path, noise, factors, seed):
    """The verdicts on all listeners but the first."""
    fake = Fake(str(path), noise, factors, seed)
    command = f"echo {{listener}} >/dev/udp/127.0.0.1/{fake.port} # {{port}}"
    try:
        done = subprocess.run(
            [NBBENCH, "-s", path, "compare", "--seed", str(seed), "--json", *factors, "--", "bash", "-c", command],
            capture_output=True, text=True, timeout=4 * TIMEOUT, stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    finally:
        fake.close()
    assert done.returncode == 0, done.stderr
    return [row["verdicts"]["cost"]["is"] for row in rows_of(json.loads(done.stdout))[1:]]


def all_verdicts(tmp_path, noise, factors):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        groups = pool.map(lambda i: compare(tmp_path / f"{i}.sock", noise, factors, i), range(GROUPS))
        return [verdict for group in groups for verdict in group]


def most_by_chance(groups, share):
    """The number of wrong groups that is exceeded in one of a thousand runs of this test."""
    total, k = 0.0, -1
    while total < 0.999:
        k += 1
        total += math.comb(groups, k) * share**k * (1 - share) ** (groups - k)
    return k


@pytest.mark.parametrize("noise", NOISES)
def test_equal_listeners_are_seldom_called_different(tmp_path, noise):
    found = all_verdicts(tmp_path, noise, {"a": 1.0, "b": 1.0})
    assert len(found) == GROUPS
    wrong = [verdict for verdict in found if verdict in ("less", "more")]
    assert len(wrong) <= most_by_chance(GROUPS, 0.05), collections.Counter(found)


def test_a_difference_of_five_percent_is_found(tmp_path):
    found = collections.Counter(all_verdicts(tmp_path, independent, {"a": 1.0, "b": 1.05}))
    missed = GROUPS - found["more"]
    assert missed <= most_by_chance(GROUPS, 0.2), found
    assert found["less"] == 0
