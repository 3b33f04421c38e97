"""`nbbench compare --layers`: which layer the CPU time of a listener is spent in."""

import ctypes
import json
import os
import subprocess
import sys

import pytest
from conftest import NBBENCH, TIMEOUT, listener

CAP_SYS_ADMIN, CAP_PERFMON = 21, 38
PR_CAPBSET_DROP = 24

# Asks and waits for the answer, so often that the listener uses some 0.1 s of CPU time however busy the machine is.
CLIENT = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
for _ in range(4000):
    s.sendall(b"x" * 65536)
    got = 0
    while got < 65536:
        got += len(s.recv(65536))
"""


def compare(daemon, *arguments, **options):
    return subprocess.run([str(NBBENCH), "-s", str(daemon.control), "compare", "--layers", *map(str, arguments)],
                          capture_output=True, check=False, text=True, timeout=4 * TIMEOUT, **options)


LOAD = [sys.executable, "-S", "-c", CLIENT, "{host}", "{port}"]


def succeeded(done):
    """Skips the test where perf events cannot be had: in a container, or not as root."""
    if done.returncode == 126:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return done


def test_the_layers_of_each_listener(start_daemon, tmp_path):
    daemon = start_daemon(listener("a", engine="epoll") + listener("b", engine="epoll", workers=2))
    saved = tmp_path / "rows"
    done = succeeded(compare(daemon, "--json", "--repeat", "3", "--save", saved, "--", *LOAD))
    (group,) = json.loads(done.stdout)["layers"]
    assert [row["listener"] for row in group["listeners"]] == ["a", "b"]
    for row in group["listeners"]:
        times = {name: layer["ns"] for name, layer in row["layers"].items()}
        assert sum(times.values()) == pytest.approx(row["cost"], rel=0.02)  # all CPU time is in a layer
        assert row["samples"] > 0 and sum(layer["share"] for layer in row["layers"].values()) == pytest.approx(1)
        assert times.get("tcp_ip", 0) + times.get("copying", 0) > 0, times
        assert set(row["layers"]) <= {
            "service", "engine", "store", "core", "system_calls", "io_uring", "epoll", "sockets", "tcp_ip", "netfilter",
            "network_device", "copying", "memory", "files", "block", "rdma", "scheduler", "other",
        }  # fmt: skip
        assert ("verdict" in row["layers"]["tcp_ip"]) == (row["listener"] == "b")
    rows = [json.loads(line) for line in saved.read_text().splitlines()]
    assert sum("layers" in row for row in rows) == 6
    table = subprocess.run([NBBENCH, "show", saved], capture_output=True, check=True, text=True).stdout
    for line in ("CPU per operation by layer", "TCP, UDP, IP", "vs 1st", "% of its CPU time", "lost"):
        assert line in table


def test_without_the_capability_it_says_what_to_do(start_daemon):
    if os.geteuid() != 0:
        pytest.skip("needs root, to give up what root has")

    def drop():
        for capability in (CAP_SYS_ADMIN, CAP_PERFMON):
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)

    with open("/proc/sys/kernel/perf_event_paranoid") as paranoid:
        if int(paranoid.read()) < 1:
            pytest.skip("kernel.perf_event_paranoid allows it to everybody")
    daemon = start_daemon(listener("a"))
    done = compare(daemon, "--", "false", preexec_fn=drop)
    assert done.returncode == 126 and not done.stdout
    assert "--layers: CPUs may not be sampled" in done.stderr and "kernel.perf_event_paranoid=0" in done.stderr
    assert "false" not in done.stderr  # nothing was run


def test_saved_rows_are_shown_without_a_measurement(tmp_path):
    done = subprocess.run([NBBENCH, "show", "--layers", tmp_path / "no"], capture_output=True, text=True)
    assert done.returncode == 2 and "unrecognized option '--layers'" in done.stderr
