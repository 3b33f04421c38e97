"""`nbctl compare --softirq`: the kernel's work for packets, by the ports of listeners."""

import ctypes
import json
import os
import subprocess
import sys

import pytest
from conftest import NBCTL, TIMEOUT, listener

CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF = 21, 38, 39
PR_CAPBSET_DROP = 24

# A client of a TCP port, or of a UDP port, that asks and waits for the answer.
CLIENT = """
import socket, sys
host, port, kind, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
s = socket.create_connection((host, port)) if kind == "tcp" else socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(30)
if kind == "udp":
    s.connect((host, port))
for _ in range(count):
    s.send(b"x" * 100)
    s.recv(4096)
"""


def compare(daemon, *arguments, **options):
    return subprocess.run(
        [str(NBCTL), "-s", str(daemon.control), "compare", "--softirq", *map(str, arguments)],
        capture_output=True,
        check=False,
        text=True,
        timeout=TIMEOUT,
        **options,
    )


def rows_of(daemon, *arguments):
    """The rows by listener; skips the test where a kernel or a build cannot tell softirq time."""
    done = compare(daemon, "--json", *arguments)
    if done.returncode == 126:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return {row["listener"]: row for row in json.loads(done.stdout)["rows"]}


def load(address, kind, count=300):
    return [sys.executable, "-S", "-c", CLIENT, address[0], str(address[1]), kind, str(count)]


@pytest.mark.parametrize("kind", ["tcp", "tcp6", "udp"])
def test_packets_are_charged_to_their_listener(start_daemon, kind):
    address = "[::1]:0" if kind == "tcp6" else "127.0.0.1:0"
    transport = "udp" if kind == "udp" else "tcp"
    config = listener("busy", address=address, transport=transport) + listener("idle")
    daemon = start_daemon(config)
    rows = rows_of(daemon, "busy", "idle", "--", *load(daemon.addresses("busy")[0], transport))
    busy, idle = rows["busy"]["softirq"], rows["idle"]["softirq"]
    for name in ("receive_ns", "transmit_ns", "inside_ns", "peer_ns", "peer_inside_ns"):
        assert idle[name] == 0, name
    assert busy["receive_ns"] > 0 and busy["peer_ns"] > 0
    assert busy["inside_ns"] <= busy["receive_ns"] + busy["transmit_ns"]
    assert busy["peer_inside_ns"] <= busy["peer_ns"]
    charged = busy["receive_ns"] + busy["transmit_ns"] + busy["peer_ns"]
    assert charged + busy["unattributed_ns"] == busy["total_ns"] == idle["total_ns"]
    derived = rows["busy"]["derived"]["softirq_receive_ns_per_operation"]
    assert derived == pytest.approx(busy["receive_ns"] / rows["busy"]["listener_count"])


def test_visits_and_saved_rows_have_them(start_daemon, tmp_path):
    daemon = start_daemon(listener("a") + listener("b"))
    command = [sys.executable, "-S", "-c", CLIENT, "{host}", "{port}", "tcp", "100"]
    rows = rows_of(daemon, "--repeat", "2", "--save", tmp_path / "rows", "--", *command)
    assert rows["a"]["softirq"]["receive_ns"] > 0 and rows["b"]["softirq"]["receive_ns"] > 0
    saved = [json.loads(line)["softirq"] for line in (tmp_path / "rows").read_text().splitlines()]
    assert len(saved) == 4 and all(row["receive_ns"] > 0 for row in saved)
    shown = subprocess.run(
        [NBCTL, "compare", "--wide", "--notes", "--load", tmp_path / "rows"], capture_output=True, check=True, text=True
    ).stdout
    assert " peer " in shown and "rx us: softirq time of packets to the listener" in shown


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give up what root has")
def test_without_the_capabilities_it_says_so(start_daemon):
    def drop():
        for capability in (CAP_SYS_ADMIN, CAP_PERFMON, CAP_BPF):
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)

    daemon = start_daemon(listener("a"))
    done = compare(daemon, "--interval", "0.1", preexec_fn=drop)
    assert done.returncode == 126
    if "built without libbpf" in done.stderr:
        pytest.skip("built without libbpf")
    assert "--softirq needs CAP_BPF and CAP_PERFMON, or root" in done.stderr


def test_saved_rows_are_shown_without_a_measurement(tmp_path):
    done = subprocess.run([NBCTL, "compare", "--softirq", "--load", tmp_path / "no"], capture_output=True, text=True)
    assert done.returncode == 2 and "--load shows saved rows" in done.stderr
