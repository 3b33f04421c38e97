"""Run by `make bench-vm BENCH_VM=scaling`: what a request, and a connection, costs with more workers, in a VM of four
CPUs whose clock counts the instructions of all of them together.  Waiting for a lock that others hold takes
instructions, and so is in the figures; a cache line that moves between CPUs takes none, and is not."""
import platform
import subprocess
import tempfile
import time
from pathlib import Path

from virtual import BUILD

WORKERS = (1, 2, 4)
ROUNDS = 3
REQUESTS = 2000
# `allow` has each connection take admission's lock.
LISTENER = """
[listener workers{0}]
address = 127.0.0.1:710{0}
service = echo
engine = {1}
workers = {0}
allow = 127.0.0.0/8, 10.0.0.0/8
"""
LOADS = {"requests of 32 connections": 1, "connections, each for one request": 0}


def instructions(workers, keep):
    """Of the whole machine for each request: server, generator and kernel."""
    begin = time.monotonic_ns()
    subprocess.run(["redis-benchmark", "-p", f"710{workers}", "-t", "set", "-d", "64", "-c", "32", "--threads", "2", "-q",
                    "-n", str(REQUESTS), "-k", str(keep)], check=True, capture_output=True, timeout=600)  # fmt: skip
    return (time.monotonic_ns() - begin) / REQUESTS


def measure(engine, folder):
    control, config = Path(folder) / "control.sock", Path(folder) / "nbserved.ini"
    config.write_text(f"[server]\ncontrol = {control}\ncontrol-group = root\nlog-level = warning\n" + "".join(LISTENER.format(n, engine) for n in WORKERS))
    daemon = subprocess.Popen([BUILD / "nbserved", "-c", config])
    try:
        while not control.exists() and daemon.poll() is None:
            time.sleep(0.05)
        for load, keep in LOADS.items():
            for n in WORKERS:
                instructions(n, keep)  # to warm up
            least = {n: min(instructions(n, keep) for _ in range(ROUNDS)) for n in WORKERS}
            print(f"{engine:9} {load:34}" + "".join(f"{least[n]:9,.0f} ({least[n] / least[1]:.2f})" for n in WORKERS), flush=True)
    finally:
        daemon.terminate()
        assert daemon.wait(60) == 0


def test_scaling():
    print(f"\nLinux {platform.release()}: instructions of all CPUs for each, the least of {ROUNDS} rounds of {REQUESTS}, and to one worker")
    print(" " * 44 + "".join(f"{n} worker{'s' * (n > 1)}".rjust(16) for n in WORKERS))
    for engine in ("epoll", "io_uring"):
        with tempfile.TemporaryDirectory() as folder:
            measure(engine, folder)
