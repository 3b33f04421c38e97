"""Run by `make bench-vm`: nbserved beside the servers of rping, fio and perftest, on rxe and siw, in a VM whose one
CPU counts instructions: what else the host does is in the figures only where all wait."""
import contextlib
import json
import re
import statistics
import subprocess
import time
from pathlib import Path

import inside_rdma
from inside_rdma import device, devices, start_daemon, wait_until  # noqa: F401

inside_rdma.LIMIT = 120
ROUNDS = 3
PEER_PORT = 7999


def seconds(*words):
    start = time.monotonic()
    inside_rdma.must(*words)
    return time.monotonic() - start


FORMAT = "{:4} {:28} {:20} {:>9} {:>9}  {:11} {:>5}  {}"


def row(device, what, other_name, ours, other, unit):
    better = "> 1" if unit == "MB/s" else "< 1"
    print(FORMAT.format(device, what, other_name, f"{ours:.3f}", f"{other:.3f}", unit, f"{ours / other:.2f}", better),
          flush=True)


@contextlib.contextmanager
def peer(*words):
    """Another server, until it has one client's connection behind it."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: f":{PEER_PORT} " in inside_rdma.must("rdma", "resource", "show", "cm_id"), words[0])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def rping_words(address, port, count):
    return ["rping", "-c", "-a", address, "-p", port, "-C", count]


def rping(daemon, device):
    address, port = daemon.addresses("rping")[0]
    ours, theirs = [], []
    for _ in range(5):
        ours.append(seconds(*rping_words(address, port, 1000)))
        with peer("rping", "-s", "-a", address, "-p", str(PEER_PORT)):
            theirs.append(seconds(*rping_words(address, PEER_PORT, 1000)))
    a, b = min(ours), min(theirs)  # who waits for the host, waits by the host's clock
    row(device, "rping -C 1000", "rping -s", a, b, "s")


def fio_words(*words):
    return ["fio", "--name=f", "--thread", "--ioengine=rdma", "--iodepth=8", *words]


def fio_bandwidth(address, port, verb, size):
    total = {"4k": "8M", "64k": "64M"}[size]
    out = inside_rdma.must(*fio_words(f"--hostname={address}", f"--port={port}", f"--verb={verb}", "--rw=write",
                                      f"--bs={size}", f"--size={total}", "--output-format=json"))
    done = json.loads(out[out.index("{"):])["jobs"][0]["write"]
    assert done["io_bytes"] > 0, out
    return done["bw_bytes"] / 1e6


def fio(daemon, device):
    address, port = daemon.addresses("fio")[0]
    for verb in ("write", "read"):
        for size in ("4k", "64k"):
            ours, theirs = [], []
            for _ in range(ROUNDS):
                ours.append(fio_bandwidth(address, port, verb, size))
                with peer(*fio_words(f"--port={PEER_PORT}", "--rw=read", f"--bs={size}", "--size=1g")):
                    theirs.append(fio_bandwidth(address, PEER_PORT, verb, size))
            a, b = statistics.median(ours), statistics.median(theirs)
            row(device, f"fio verb={verb} {size}", "fio's server", a, b, "MB/s")


def perftest(daemon, device, command, count):
    address, port = daemon.addresses("perftest")[0]
    words = [command, "-F", "-R", "-d", f"{device}0", "-n", count, "-s", "4096"]

    def figure(at):
        out = inside_rdma.must(*words, "-p", at, address)
        return float(re.search(r"^ *4096 +\d+.*$", out, re.M)[0].split()[3])

    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(figure(port))
        with peer(*words, "-p", str(PEER_PORT)):
            theirs.append(figure(PEER_PORT))
    a, b = statistics.median(ours), statistics.median(theirs)
    row(device, f"{command} -s 4096", "its own server", a, b, "MB/s")


def latency(daemon, device):
    """A ping-pong beside perftest's own, one way, in the median; both sides sleep.

    Of perftest's, few: over rxe it loses an event among some hundred, and sleeps for ever."""
    address, port = daemon.addresses("echo")[0]
    words = ["ib_send_lat", "-R", "-s", "64", "-n", "50", "-d", f"{device}0", "-p", str(PEER_PORT), "-e"]
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(int(inside_rdma.must(inside_rdma.CLIENT, "latency", address, port, 64, 2000)) / 2000)
        try:
            with peer(*words):
                out = inside_rdma.must(*words, address)
        except subprocess.TimeoutExpired:
            print(f"{device:4} {' '.join(words)} did not end; nbserved: {ours[-1]:.3f} us one way", flush=True)
            return
        theirs.append(float(re.search(r"^ *64 +\d+ +\S+ +\S+ +(\S+)", out, re.M)[1]))
    a, b = statistics.median(ours), statistics.median(theirs)
    row(device, "echo 64 B, both sleep", "ib_send_lat", a, b, "us one way")


def idle(daemon, device, name, count):
    """The memory of each idle connection."""
    pid = daemon.process.pid
    with inside_rdma.holding(daemon, 4, name):
        before = memory(pid)
        with contextlib.ExitStack() as clients:
            for _ in range(count // 20):
                clients.enter_context(inside_rdma.holding(daemon, 20, name))
            wait_until(lambda: daemon.stats(name)["connections"]["open"] == count + 4, "connected")
            each = (memory(pid) - before) / count
    print(f"{device:4} idle: {each:.1f} KiB for each of {count} connections", flush=True)


def memory(pid):
    """KiB: what is resident, with the queues that the device's driver maps, and pinned."""
    status = Path(f"/proc/{pid}/status").read_text()
    return sum(int(re.search(rf"^{key}:\s+(\d+)", status, re.M)[1]) for key in ("VmRSS", "VmPin"))


def test_one_cpu(start_daemon, device):
    daemon = start_daemon("".join(inside_rdma.section(device, name, name) for name in ("rping", "fio", "echo"))
                          + inside_rdma.section(device, "perftest", "perftest"))
    print("\nOne CPU, whose clock counts instructions")
    print(FORMAT.format("", "", "beside", "nbserved", "other", "", "ratio", "better"), flush=True)
    rping(daemon, device)
    fio(daemon, device)
    perftest(daemon, device, "ib_send_bw", "600")
    perftest(daemon, device, "ib_read_bw", "300")
    latency(daemon, device)
    idle(daemon, device, "echo", 100)
