"""What `make bench-vm` runs in the VM: nbserved beside the servers of rping and fio, in turn, on rxe and siw."""
import contextlib
import json
import statistics
import subprocess
import time

import inside_rdma
from inside_rdma import device, devices, start_daemon, wait_until  # noqa: F401

inside_rdma.LIMIT = 120
ROUNDS = 3
PEER_PORT = 7999


def seconds(*words):
    start = time.monotonic()
    inside_rdma.must(*words)
    return time.monotonic() - start


def row(device, what, ours, other, unit, ratio):
    print(f"{device:4} {what:34} {ours:10.3f} {other:10.3f} {unit:10} {ratio:5.2f}", flush=True)


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
    for _ in range(ROUNDS):
        ours.append(seconds(*rping_words(address, port, 1000)))
        with peer("rping", "-s", "-a", address, "-p", str(PEER_PORT)):
            theirs.append(seconds(*rping_words(address, PEER_PORT, 1000)))
    a, b = statistics.median(ours), statistics.median(theirs)
    row(device, "rping -C 1000, rping -s", a, b, "s", a / b)
    in_turn = sum(seconds(*rping_words(address, port, 200)) for _ in range(8))
    start = time.monotonic()
    clients = [subprocess.Popen([str(word) for word in rping_words(address, port, 200)],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(8)]
    assert [client.wait() for client in clients] == [0] * 8
    at_once = time.monotonic() - start
    row(device, "8 x rping -C 200, one by one", at_once, in_turn, "s", at_once / in_turn)


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
            row(device, f"fio verb={verb} {size}, fio's server", a, b, "MB/s", a / b)


def echo(daemon, device):
    address, port = daemon.addresses("echo")[0]
    for size, depth in ((64, 1), (64, 16)):
        before = daemon.stats("echo")["rdma"]
        few, many = (seconds(inside_rdma.CLIENT, "echo", address, port, 1, size, n, depth) for n in (100, 4100))
        daemon.wait_closed("echo")
        after = daemon.stats("echo")["rdma"]
        sends = after["posted"]["send"] - before["posted"]["send"]
        print(f"{device:4} echo {size} B, {depth:2} in flight: round trip {(many - few) / 4000 * 1e6 * depth:.1f} us "
              f"in the mean; for each message {(after['doorbells'] - before['doorbells']) / sends:.2f} doorbells, "
              f"{(after['signalled'] - before['signalled']) / sends:.3f} signalled", flush=True)


def send_latency(device, address):
    """perftest's own ping-pong: half a round trip, in the median."""
    words = ["ib_send_lat", "-R", "-s", "64", "-n", "2000", "-d", f"{device}0", "-p", str(PEER_PORT)]
    with peer(*words):
        out = inside_rdma.run(*words, address).stdout
    figures = [line.split() for line in out.splitlines() if line.split()[:1] == ["64"]]
    print(f"{device:4} ib_send_lat 64 B: round trip {2 * float(figures[0][4]):.1f} us in the median" if figures
          else f"{device:4} ib_send_lat: {out.splitlines()[-1:]}", flush=True)


def test_speed(start_daemon, device):
    address = inside_rdma.ADDRESSES[device]
    daemon = start_daemon("".join(inside_rdma.section(device, name, name) for name in ("rping", "fio", "echo")))
    print(f"\n{'':4} {'what, beside what':34} {'nbserved':>10} {'other':>10} {'':10} ratio")
    rping(daemon, device)
    fio(daemon, device)
    echo(daemon, device)
    send_latency(device, address)
