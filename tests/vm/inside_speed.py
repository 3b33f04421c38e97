"""Run by `make bench-vm`: nbserved beside the servers of rping, fio and perftest, on rxe and siw.

test_one_cpu() in a VM whose clock counts instructions: what else the host does is in the figures only
where all wait.  test_two_cpus() in one whose CPUs are two threads of the host: what happens at once, at
the price of noise: on a busy host who spins there waits for others' time slices."""
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


def head(title):
    print(f"\n{title}")
    print(FORMAT.format("", "", "beside", "nbserved", "other", "", "ratio", "better"), flush=True)


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


def eight_at_once(daemon, device):
    address, port = daemon.addresses("rping")[0]
    ratios = []
    for _ in range(ROUNDS):
        in_turn = sum(seconds(*rping_words(address, port, 200)) for _ in range(8))
        start = time.monotonic()
        clients = [subprocess.Popen([str(word) for word in rping_words(address, port, 200)],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(8)]
        ended = {client.wait(inside_rdma.LIMIT) for client in clients}
        assert ended <= {0, 255}, ended  # 255: rping's race at its end, see inside_remote.py
        at_once = time.monotonic() - start
        ratios.append((at_once / in_turn, at_once, in_turn))
    _, at_once, in_turn = sorted(ratios)[ROUNDS // 2]
    row(device, "8 x rping -C 200, at once", "nbserved, in turn", at_once, in_turn, "s")


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


# perftest's test, the service that is its far end, the column of the figure, its unit, and options.
PERFTEST = {"ib_send_bw": ("perftest", 4, "MB/s", "-n", "600", "-s", "4096"),
            "ib_read_bw": ("perftest", 4, "MB/s", "-n", "300", "-s", "4096"),
            "ib_send_lat": ("perftest-lat", 5, "us one way", "-n", "300", "-s", "64")}


def perftest(daemon, device, command):
    service, column, unit, *options = PERFTEST[command]
    address, port = daemon.addresses(service)[0]
    words = [command, "-F", "-R", "-d", f"{device}0", *options]

    def figure(at):
        out = inside_rdma.must(*words, "-p", at, address)
        return float(re.search(rf"^ *{options[-1]} +\d+.*$", out, re.M)[0].split()[column - 1])

    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(figure(port))
        with peer(*words, "-p", str(PEER_PORT)):
            theirs.append(figure(PEER_PORT))
    a, b = statistics.median(ours), statistics.median(theirs)
    row(device, f"{command} -s {options[-1]}", "its own server", a, b, unit)


def eight_of_perftest(daemon, device, command):
    """perftest's own server has one client at a time, so beside them are our eight in turn."""
    service, _, _, *options = PERFTEST[command]
    address, port = daemon.addresses(service)[0]
    words = [command, "-F", "-R", "-d", f"{device}0", *options, "-p", str(port), address]
    in_turn = sum(seconds(*words) for _ in range(8))
    start = time.monotonic()
    clients = [subprocess.Popen(words, stdout=subprocess.DEVNULL) for _ in range(8)]
    ended = [client.wait(inside_rdma.LIMIT) for client in clients]
    assert not any(ended), ended
    row(device, f"8 x {command}, at once", "nbserved, in turn", time.monotonic() - start, in_turn, "s")


def echo(daemon, device, name):
    address, port = daemon.addresses(name)[0]
    for depth in (1, 16):
        before = daemon.stats(name)["rdma"]
        inside_rdma.must(inside_rdma.CLIENT, "echo", address, port, 1, 64, 4000, depth)
        daemon.wait_closed(name)
        after = daemon.stats(name)["rdma"]
        sends = after["posted"]["send"] - before["posted"]["send"]
        each = {key: (after[key] - before[key]) / sends for key in ("doorbells", "signalled")}
        print(f"{device:4} echo 64 B, {depth:2} in flight: {each['doorbells']:.2f} doorbells and "
              f"{each['signalled']:.3f} signalled for each echo", flush=True)


def latency(daemon, device, name, wait, *options):
    """A ping-pong beside perftest's own, one way, in the median; both sides sleep, or both spin.

    Of perftest's, few: over rxe it loses an event among some hundred, and sleeps for ever."""
    address, port = daemon.addresses(name)[0]
    words = ["ib_send_lat", "-R", "-s", "64", "-n", "50" if options else "2000", "-d", f"{device}0",
             "-p", str(PEER_PORT), *options]
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(int(inside_rdma.must(inside_rdma.CLIENT, "latency", address, port, 64, 2000, wait)) / 2000)
        try:
            with peer(*words):
                out = inside_rdma.must(*words, address)
        except subprocess.TimeoutExpired:
            print(f"{device:4} {' '.join(words)} did not end; nbserved: {ours[-1]:.3f} us one way", flush=True)
            return
        theirs.append(float(re.search(r"^ *64 +\d+ +\S+ +\S+ +(\S+)", out, re.M)[1]))
    a, b = statistics.median(ours), statistics.median(theirs)
    row(device, f"echo 64 B, both {wait}", "ib_send_lat", a, b, "us one way")


def idle(daemon, device, name, count):
    """Idle connections: the memory of each, and the CPU time of all."""
    pid = daemon.process.pid
    with inside_rdma.holding(daemon, 4, name):
        before = memory(pid)
        with contextlib.ExitStack() as clients:
            for _ in range(count // 20):
                clients.enter_context(inside_rdma.holding(daemon, 20, name))
            wait_until(lambda: daemon.stats(name)["connections"]["open"] == count + 4, "connected")
            each = (memory(pid) - before) / count
            time.sleep(1)  # it has answered us
            start = cpu_ns(pid)
            time.sleep(5)
            used = cpu_ns(pid) - start
    print(f"{device:4} idle: {each:.1f} KiB for each of {count} connections; CPU time of all threads "
          f"in 5 s {used} ns", flush=True)


def memory(pid):
    """KiB: what is resident, with the queues that the device's driver maps, and pinned."""
    status = Path(f"/proc/{pid}/status").read_text()
    return sum(int(re.search(rf"^{key}:\s+(\d+)", status, re.M)[1]) for key in ("VmRSS", "VmPin"))


def cpu_ns(pid):
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def test_one_cpu(start_daemon, device):
    daemon = start_daemon("".join(inside_rdma.section(device, name, name) for name in ("rping", "fio", "echo"))
                          + inside_rdma.section(device, "perftest", "perftest"))
    head("One CPU, whose clock counts instructions")
    rping(daemon, device)
    fio(daemon, device)
    for command in ("ib_send_bw", "ib_read_bw"):
        perftest(daemon, device, command)
        eight_of_perftest(daemon, device, command)
    latency(daemon, device, "echo", "sleep", "-e")
    echo(daemon, device, "echo")
    idle(daemon, device, "echo", 100)


def test_two_cpus(start_daemon, device):
    daemon = start_daemon(inside_rdma.section(device, "rping", "rping", workers=2)
                          + inside_rdma.section(device, "busy-poll", "echo", busy_poll="100ms")
                          + inside_rdma.section(device, "perftest-lat", "perftest-lat", busy_poll="100ms"))
    head("Two CPUs, threads of this host")
    eight_at_once(daemon, device)
    latency(daemon, device, "busy-poll", "spin")
    perftest(daemon, device, "ib_send_lat")
