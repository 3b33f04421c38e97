"""Run by `make bench-vm BENCH_VM=bypass`: echo of UDP through the kernel's network stack, and around it.

In a VM whose clock counts instructions, with two cards on one cable: the server has one, udp_load the other, each in a
network namespace of its own.  `all` is all that the one CPU does for an echo, client and interrupts too; what it
counts as idle is what a thread of the lowest priority does meanwhile.  In parentheses is the serving thread, with the
interrupts that come while it runs; of DPDK its code alone.  An exchange with the card counts as one instruction, and
the emulator's own work as none.

The costs go to /vm/bypass.json, by which tests/peers/claims.py judges a claim."""
import contextlib
import itertools
import json
import mmap
import multiprocessing
import os
import platform
import re
import statistics
import subprocess
import time
from pathlib import Path

from virtual import BUILD

SERVER, CLIENT = "10.77.0.1", "10.77.0.2"
MACS = {SERVER: "52:54:00:00:00:01", CLIENT: "52:54:00:00:00:02"}
PEERS = "10.1.0.0/16"  # udp_load's
PORT = 7007
ROUNDS = 3
SHORT_MS, LONG_MS = 30, 130  # the difference of two visits: starting the client is in neither
LOADS = {f"{size:,} B, {count} in flight": ("-s", size, "-P", peers, "-w", count // peers)
         for size in (64, 1400) for count, peers in ((1, 1), (64, 16))}
LIMIT, START_LIMIT = 300, 20


def must(*words, **more):
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True, timeout=LIMIT,
                          **more).stdout


def inside(address, *words):
    """A command in the network namespace of that end."""
    return ["ip", "netns", "exec", address, *map(str, words)]


def until(ready, process, log):
    end = time.monotonic() + START_LIMIT
    while not ready():
        assert process.poll() is None and time.monotonic() < end, Path(log).read_text()
        time.sleep(0.05)


# ---- The network ----


def card(mac):
    return next(path for path in Path("/sys/class/net").iterdir() if (path / "address").read_text().strip() == mac)


def lay_cable():
    """The cards' PCI addresses.  Nobody need ask for an address: DPDK would not answer."""
    must("modprobe", "virtio_net")
    cards = {address: card(mac) for address, mac in MACS.items()}
    devices = [(path / "device/..").resolve().name for path in cards.values()]
    for address, other in ((SERVER, CLIENT), (CLIENT, SERVER)):
        must("ip", "netns", "add", address)
        must("ip", "link", "set", cards[address].name, "netns", address, "name", "card")
        ip = ["ip", "-n", address]
        must(*ip, "link", "set", "lo", "up")
        must(*ip, "address", "add", f"{address}/24", "dev", "card")
        must(*ip, "link", "set", "card", "up")
        must(*ip, "neighbour", "replace", other, "lladdr", MACS[other], "dev", "card")
    must("ip", "-n", SERVER, "route", "add", PEERS, "via", CLIENT)
    must("ip", "-n", CLIENT, "route", "add", "local", PEERS, "dev", "lo")
    return devices


# ---- The servers: each yields what its thread, and idling, have cost so far ----


def cpu_ns(pid):
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def count_idle(counter):
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    for n in itertools.count():
        counter[0] = n


@contextlib.contextmanager
def running(log, *words, ready):
    with open(log, "w", encoding="utf-8") as out:
        process = subprocess.Popen(inside(SERVER, *words), stdout=out, stderr=subprocess.STDOUT)
    counter = memoryview(mmap.mmap(-1, 8)).cast("Q")
    idle = multiprocessing.Process(target=count_idle, args=(counter,))
    try:
        until(ready, process, log)
        idle.start()
        yield lambda: (cpu_ns(process.pid), counter[0])
    finally:
        for one in (idle, process):
            one.terminate()
        idle.join()
        assert process.wait(LIMIT) in (0, -15), Path(log).read_text()


def program(name, *words):
    log = Path(f"/tmp/{name}.log")
    return running(log, BUILD / "bench" / name, *words, ready=lambda: "port" in log.read_text())


@contextlib.contextmanager
def daemon(keys):
    config, control, log = (Path(f"/tmp/bypass.{name}") for name in ("ini", "sock", "log"))
    config.write_text(f"[server]\ncontrol = {control}\ncontrol-group = root\nlog-level = warning\n[listener echo]\n"
                      f"address = {SERVER}:{PORT}\nservice = echo\ntransport = udp\n{keys}\n")
    with running(log, BUILD / "nbserved", "-c", config, ready=control.exists) as so_far:
        yield so_far
        (stats,) = json.loads(must(BUILD / "nbctl", "-s", control, "stats", "--json"))["listeners"]
        assert stats["udp"]["frames_in"] == (stats["udp"]["in"] if "af_xdp" in keys else 0), stats["udp"]


def xdp_keys(mode):
    return f"engine = af_xdp\nxdp-queues = card:0\nxdp-mode = {mode}"


def give_to_dpdk(pci):
    device, driver = Path("/sys/bus/pci/devices") / pci, "uio_pci_generic"
    must("modprobe", driver)
    (device / "driver/unbind").write_text(pci)
    (device / "driver_override").write_text(driver)
    Path(f"/sys/bus/pci/drivers/{driver}/bind").write_text(pci)


def words_of_testpmd(devices, size, burst):
    return ["stdbuf", "-oL", "dpdk-testpmd", "--lcores", "0@0,1@0", "-m", "200", "--no-telemetry",
            *itertools.chain(*(("-a", pci) for pci in devices)), "--", "--forward-mode=5tswap", "--port-topology=loop",
            "--total-num-mbufs=4096", "--record-core-cycles", "--tx-first", f"--burst={burst}", f"--txpkts={size}"]  # fmt: skip


def measure_dpdk(devices):
    """testpmd has both ends of the cable, and sends each datagram to and fro.  It never sleeps: so it says what its bursts
    cost that bring packets, without a client that could take the CPU in the middle of one."""
    for pci in devices:
        give_to_dpdk(pci)
    Path("/dev/hugepages").mkdir(exist_ok=True)
    must("mount", "-t", "hugetlbfs", "hugetlbfs", "/dev/hugepages")
    Path("/proc/sys/vm/nr_hugepages").write_text("128")
    log, costs = Path("/tmp/testpmd.log"), {}
    for load, (_, size, _, peers, _, window) in LOADS.items():
        with open(log, "w", encoding="utf-8") as out:
            process = subprocess.Popen(words_of_testpmd(devices, size, max(peers * window // 2, 1)), stdin=subprocess.PIPE,
                                       stdout=out, stderr=subprocess.STDOUT, text=True)
        until(lambda: "enter to exit" in log.read_text(), process, log)
        time.sleep(0.1)
        process.communicate("\n", timeout=LIMIT)
        cost, packets = re.search(r"CPU cycles/packet=([\d.]+) .* packets=(\d+)", log.read_text()).groups()
        assert int(packets) > 1000, log.read_text()
        costs[load] = [None, float(cost)]
    return costs


ROWS = (
    ("nbserved, epoll", lambda: daemon("engine = epoll")),
    ("nbserved, io_uring", lambda: daemon("engine = io_uring")),
    ("nbserved, af_xdp, copy", lambda: daemon(xdp_keys("copy"))),
    ("nbserved, af_xdp, zero-copy", lambda: daemon(xdp_keys("zero-copy"))),
    ("recvmmsg, bare", lambda: program("udp_echo", SERVER, PORT)),
    ("AF_XDP, copy, bare", lambda: program("xdp_echo", "copy", "card", PORT)),
    ("AF_XDP, zero-copy, bare", lambda: program("xdp_echo", "zero-copy", "card", PORT)),
)


# ---- Measuring ----


def visit(load, ms):
    done = json.loads(must(*inside(CLIENT, BUILD / "bench/udp_load", "-a", SERVER, "-p", PORT, "-t", ms, *load, "echo")))
    assert done["answered"] and not done["lost"], done
    return done["answered"]


def spent(so_far, work):
    """Echoes, and what they, the serving thread and idling cost."""
    before, start = so_far(), time.monotonic_ns()
    count = work()
    end, after = time.monotonic_ns(), so_far()
    return (count, end - start, *(b - a for a, b in zip(before, after)))


def per_echo(so_far, load, idle_ns):
    short, long = (spent(so_far, lambda ms=ms: visit(load, ms)) for ms in (SHORT_MS, LONG_MS))
    count, elapsed, thread, idle = (b - a for a, b in zip(short, long))
    return (elapsed - idle * idle_ns) / count, thread / count


def measure(so_far):
    _, elapsed, _, idle = spent(so_far, lambda: time.sleep(0.1) or 1)
    costs = {}
    for name, load in LOADS.items():
        visit(load, SHORT_MS)  # to warm up
        rounds = [per_echo(so_far, load, elapsed / idle) for _ in range(ROUNDS)]
        costs[name] = [statistics.median(x) for x in zip(*rounds)]
    return costs


def show(name, cells):
    print(f"{name:24}" + "".join(f"{cell:>25}" for cell in cells), flush=True)


def show_costs(name, costs):
    show(name, [(f"{every / 1000:.1f}" if every else "") + f" ({thread / 1000:.2f})" for every, thread in costs.values()])


def test_bypass():
    devices, costs = lay_cable(), {}
    print(f"\nLinux {platform.release()}: thousands of instructions for each echo, all and (the server's thread), "
          f"medians of {ROUNDS} rounds")
    show("", LOADS)
    for name, server in ROWS:
        with server() as so_far:
            costs[name] = measure(so_far)
        show_costs(name, costs[name])
    costs["DPDK"] = measure_dpdk(devices)  # the last: the kernel has no card any more
    show_costs("DPDK, its code alone", costs["DPDK"])
    Path("/vm/bypass.json").write_text(json.dumps(costs))
