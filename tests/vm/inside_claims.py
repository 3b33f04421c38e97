"""What `make claims-vm` runs: the published claims that need a device of known latency, or RDMA.

In a VM whose clock counts instructions: CPU time is instructions, waiting is the device's.  Writes
/vm/claims-vm.json, which tests/bench/claims.py reads: {claim: {"verdict", "seen"}}."""
import json
import statistics
import sys
import tempfile
import traceback
from pathlib import Path

import inside_rdma
from inside_rdma import CLIENT, must
from conftest import Daemon, listener  # noqa: E402 (inside_rdma has set the path)

HOLDS, FAILS, OPEN = "holds", "does not hold", "not decidable here"
LATENCY_NS = 200000  # of each request of null_blk
ROUNDS = 3


def cpu_ns(daemon, name):
    cost = daemon.stats(name)["cost"]
    return cost["cpu_user_ns"] + cost["cpu_system_ns"]


def started(config):
    return Daemon(config, tempfile.mkdtemp(prefix="claims-"))


# ---- Storage on a device of known latency ----


def fio_nbd(daemon, name, job):
    out = must("fio", "--name=x", "--ioengine=nbd", f"--uri=nbd://127.0.0.1:{daemon.port(name)}/disk",
               f"--rw={job}", "--bs=64k", "--iodepth=100", "--size=6400k", "--time_based", "--runtime=2",
               "--output-format=json")
    side = json.loads(out[out.index("{"):])["jobs"][0]["write" if "write" in job else "read"]
    return side["iops"]


def null_blk():
    must("modprobe", "null_blk", "nr_devices=1", "gb=1", "irqmode=2", f"completion_nsec={LATENCY_NS}",
         "hw_queue_depth=256", "queue_mode=2")
    export = "[export disk]\npath = /dev/nullb0\ndirect = yes\n"
    stores = ("threads", "io_uring")
    daemon = started(export + "".join(
        listener(s, "nbd", "io_uring", store=s, exports="disk") for s in stores))
    ratios = {}
    try:
        for job in ("randread", "randwrite"):
            rates = {s: statistics.median(fio_nbd(daemon, s, job) for _ in range(ROUNDS)) for s in stores}
            ratios[job] = rates["io_uring"] / rates["threads"], rates["io_uring"]
    finally:
        daemon.stop()
    good = ratios["randread"][0] >= 2.7 and ratios["randwrite"][0] >= 1.5
    return HOLDS if good else FAILS, (
        f"null_blk, {LATENCY_NS // 1000} us each, 64 KiB, 100 at once, 16 threads: " + ", ".join(
            f"{job} {ratio:.2f} of the rate ({rate:,.0f}/s)" for job, (ratio, rate) in ratios.items()))


# ---- RDMA ----


def devices():
    made = inside_rdma.devices.__wrapped__()  # the fixture's function: up to its yield
    next(made)


def one_sided():
    """CPU time of the server's threads for each block: a client's writes and reads against messages."""
    daemon = started(inside_rdma.section("rxe", "fio", "fio"))
    address, port = daemon.addresses("fio")[0]
    seen, one, two = [], [], []
    try:
        for size, total in (("4k", "4M"), ("64k", "16M")):
            each = {}
            for verb in ("write", "read", "send"):
                costs = []
                for _ in range(ROUNDS):
                    before = cpu_ns(daemon, "fio")
                    must("fio", "--name=f", "--thread", "--ioengine=rdma", "--iodepth=8", f"--verb={verb}",
                         f"--hostname={address}", f"--port={port}", "--rw=write", f"--bs={size}", f"--size={total}")
                    blocks = int(total[:-1]) * 1024 / int(size[:-1])
                    costs.append((cpu_ns(daemon, "fio") - before) / blocks)
                each[verb] = statistics.median(costs)
            one += [each["write"], each["read"]]
            two.append(each["send"])
            seen.append(f"{size}: " + ", ".join(f"{verb} {ns / 1000:.1f} us" for verb, ns in each.items()))
    finally:
        daemon.stop()
    return (HOLDS if max(one) < 0.5 * min(two) else FAILS,
            f"CPU of the server's threads for a block, rxe (whose kernel does what a NIC would): {'; '.join(seen)}")


def ud():
    """Echo of 64 bytes, one after the other, by 8 clients; and what an idle one holds."""
    daemon = started(inside_rdma.section("rxe", "rc", "echo")
                     + listener("ud", "echo", "rdma", transport="rdma", qp_type="ud", address="10.9.0.1:0"))
    costs = {}
    try:
        for name, words in (("rc", (CLIENT, "echo")), ("ud", (str(Path(CLIENT).parent / "datagram_client"), "echo"))):
            address, port = daemon.addresses(name)[0]
            found = []
            for _ in range(ROUNDS):
                before = cpu_ns(daemon, name)
                tail = (8, 64, 400, 1) if name == "rc" else (8, 64, 400)
                must(*words, address, port, *tail)
                found.append((cpu_ns(daemon, name) - before) / 3200)
            costs[name] = statistics.median(found)
    finally:
        daemon.stop()
    ratio = costs["ud"] / costs["rc"]
    return (HOLDS if ratio <= 1.05 else FAILS,
            f"CPU of the server's threads for an echo, rxe, 8 clients: UD {costs['ud'] / 1000:.1f} us, RC "
            f"{costs['rc'] / 1000:.1f} us ({ratio:.2f})")


def loss():
    return OPEN, ("because both ends of a software device on one host exchange their packets inside the driver or over "
                  "lo, where netem does not see those of rxe, and rxe has one network namespace (Linux 6.12)")


def main():
    found = {}
    for name, measure in (("null_blk", null_blk), ("rdma", devices), ("one_sided", one_sided), ("ud", ud),
                          ("loss", loss)):
        try:
            result = measure()
        except BaseException as error:  # what the others found counts all the same
            traceback.print_exc()
            result = OPEN, f"because it could not be measured: {str(error).splitlines()[0]}"
        if result:
            found[name] = {"verdict": result[0], "seen": result[1]}
            print(name, *result, flush=True)
    Path("/vm/claims-vm.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
