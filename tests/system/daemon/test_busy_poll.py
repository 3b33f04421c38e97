"""`busy-poll` on epoll where connections come through a queue of a network card.  The near end of a veth pair with
GRO has such a queue (NAPI): the kernel polls it in one wait, and the worker does not spin."""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys

import pytest
from conftest import listener

LIBC = ctypes.CDLL(None)
CLONE_NEWNET = 0x40000000
HOST, PORT, FAR = "10.77.0.1", 7777, "10.77.0.2"
ROUND_TRIPS = 20
SIOCETHTOOL, ETHTOOL_STSO, ETHTOOL_SGRO = 0x8946, 0x1F, 0x2C

# One round trip, then on request ROUND_TRIPS more, with pauses that are longer than the worker spins.
CLIENT = f"""
import socket, sys, time
def round_trip(s):
    s.sendall(bytes(64))
    got = 0
    while got < 64:
        got += len(s.recv(64))
with socket.create_connection(("{HOST}", {PORT}), timeout=60) as s:
    round_trip(s)
    print(flush=True)
    sys.stdin.readline()
    for _ in range({ROUND_TRIPS}):
        time.sleep(0.002)
        round_trip(s)
    print(flush=True)
    sys.stdin.readline()
"""


def ethtool(name, command, value):
    data = ctypes.create_string_buffer(struct.pack("II", command, value))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, SIOCETHTOOL, struct.pack("16sP16x", name.encode(), ctypes.addressof(data)))


@contextlib.contextmanager
def far_network():
    """A process in a network of its own, for the far end."""
    process = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    process.stdout.readline()
    try:
        yield process.pid
    finally:
        process.communicate()


def near(far):
    """Runs in the process that becomes the daemon: its own network has the near end."""
    within = f"nsenter -t {far} -n"
    assert LIBC.unshare(CLONE_NEWNET) == 0
    subprocess.run("ip link add near type veth peer name far".split(), check=True)
    ethtool("near", ETHTOOL_SGRO, 1)
    for words in [
        f"ip link set far netns {far}",
        f"ip address add {HOST}/24 dev near",
        "ip link set near up",
        f"{within} ip address add {FAR}/24 dev far",
        f"{within} ip link set far up",
    ]:
        subprocess.run(words.split(), check=True)
    with open("/proc/self/ns/net", "rb") as own, open(f"/proc/{far}/ns/net", "rb") as other:
        assert LIBC.setns(other.fileno(), CLONE_NEWNET) == 0
        ethtool("far", ETHTOOL_STSO, 0)  # else the kernel passes packets on without the queue
        assert LIBC.setns(own.fileno(), CLONE_NEWNET) == 0


def served(start_daemon, **keys):
    """The engine's features, and epoll's waits for ROUND_TRIPS."""
    config = listener("echo", address=f"{HOST}:{PORT}", busy_poll="1ms", **keys)
    with far_network() as far:
        daemon = start_daemon(config, preexec=lambda: near(far))
        waits = []
        with subprocess.Popen(["nsenter", "-t", str(far), "-n", sys.executable, "-c", CLIENT], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, bufsize=0) as client:
            for _ in range(2):
                assert client.stdout.readline() == b"\n"
                found = daemon.stats("echo")
                waits.append(found["cost"]["syscalls"]["epoll_wait"])
                client.stdin.write(b"\n")
        daemon.terminate()
    return found["engine_features"], waits[1] - waits[0]


def test_the_kernel_polls_the_queue_in_one_wait(start_daemon):
    if os.geteuid() or not os.path.exists("/proc/self/ns/net"):
        pytest.skip("needs root, for networks of its own")
    features, waits = served(start_daemon)
    if "epoll_busy_poll" not in features:
        pytest.skip("needs Linux 6.9")
    assert waits < 8 * ROUND_TRIPS
    features, spins = served(start_daemon, features="-epoll_busy_poll")
    assert "epoll_busy_poll" not in features
    assert spins > 2 * waits
