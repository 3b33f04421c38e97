#!/usr/bin/python3
"""The nbd service beside other NBD servers: operations per second, latency, CPU per operation.

    nbd.py [--build DIR] [--file PATH] [--size BYTES] [--rounds N] [--seconds S] [--only WORD,...]
           [--pin] [--real-time]

One file, in the page cache, is served by all of them at once.  One client, fio with its nbd engine,
visits each server in turn, and in reverse order in every other round.  The first server runs twice: how
far the two differ is the noise.  Servers and client share all CPUs, or have the last and the first (--pin); on a busy host they can go before all others
(--real-time, as root: keep it short).  CPU time is that of the server's process and of its threads in the
kernel.  The limit, "fio-alone", is fio with
its io_uring engine on the file itself, without a server.
"""

import argparse
import functools
import json
import os
import pathlib
import shutil
import subprocess
import time

from report import alternate, quartiles, ratio, show_ratio
from servers import (
    ALL_CPUS, CLIENT_CPU, ROOT, SERVER_CPU, Daemon, Foreign, free_port, process_cpu_ns, run, started,
)

OURS = {
    "nbd-uring": {"engine": "io_uring", "store": "io_uring"},
    "nbd-auto": {"engine": "epoll"},
    "nbd-uring-auto": {"engine": "io_uring"},
    "nbd-epoll": {"engine": "epoll", "store": "io_uring"},
    "nbd-threads": {"engine": "epoll", "store": "threads"},
    "nbd-blocking": {"engine": "epoll", "store": "blocking"},
    "nbd-busy-poll": {"engine": "io_uring", "store": "io_uring", "busy-poll": "50us"},
}
NBDKIT = "nbdkit -f -p {port} -i 127.0.0.1 file FILE"
JOBS = {  # what, bytes, requests in flight, connections
    "randread 4k, depth 1": ("randread", "4k", 1, 1),
    "randread 4k, depth 32": ("randread", "4k", 32, 1),
    "randread 4k, 4 x 32": ("randread", "4k", 32, 4),
    "randwrite 4k, depth 1": ("randwrite", "4k", 1, 1),
    "randwrite 4k, depth 32": ("randwrite", "4k", 32, 1),
    "randwrite 4k, 4 x 32": ("randwrite", "4k", 32, 4),
    "read 128k, depth 16": ("read", "128k", 16, 1),
    "write 128k, depth 16": ("write", "128k", 16, 1),
}
kept = {}  # title: name: figures


class Alone:
    """No server: the speed of fio and the file without one."""

    name = "fio-alone"
    pid = None

    def __init__(self, path):
        # It would begin by throwing the file out of the page cache, for all that follow.
        self.target_options = ["--ioengine=io_uring", "--invalidate=0", f"--filename={path}"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def drive(server, job, options):
    """(operations/s, operations, p50 ns, p99 ns)"""
    what, size, depth, connections = job
    out = run(
        ["fio", "--name=x", *server.target_options,
         "--output-format=json", "--group_reporting", "--time_based",
         f"--runtime={round(options.seconds * 1000)}ms", f"--size={options.size}", "--randrepeat=0",
         f"--rw={what}", f"--bs={size}", f"--iodepth={depth}", f"--numjobs={connections}"],
        cpus=options.client_cpus,
    )
    side = json.loads(out[out.index("{"):])["jobs"][0]["write" if "write" in what else "read"]
    percentile = side["clat_ns"]["percentile"]
    return side["iops"], side["total_ios"], percentile["50.000000"], percentile["99.000000"]


def visit(server, job, options):
    """(operations/s, p50 ns, p99 ns, CPU ns per operation)"""
    before = process_cpu_ns(server.pid) if server.pid else 0
    iops, count, p50, p99 = drive(server, job, options)
    time.sleep(0.1)  # the server sees its clients go
    cpu = process_cpu_ns(server.pid) - before if server.pid else 0
    return iops, p50, p99, cpu / count


def compare(servers, title, job, options):
    results = alternate(servers, options.rounds, lambda s: visit(s, job, options))
    first = results[servers[0].name]
    print(f"{title} (load {os.getloadavg()[0]:.1f})")
    print(f"  {'':16} {'IOPS':>8} {'p50 us':>8} {'p99 us':>8} {'CPU us':>7}  IOPS and CPU to the first")
    for name, values in results.items():
        iops, p50, p99, cpu = (quartiles(column)["median"] for column in zip(*values))
        columns = (0, 3) if cpu else (0,)
        versus = (show_ratio(ratio([v[i] for v in values], [f[i] for f in first])) for i in columns)
        print(
            f"  {name:16} {iops:8.0f} {p50 / 1e3:8.1f} {p99 / 1e3:8.1f} "
            + (f"{cpu / 1e3:7.2f}" if cpu else f"{'-':>7}") + "  " + "  ".join(versus),
            flush=True,
        )
        kept.setdefault(title, {})[name] = {"iops": iops, "p50_ns": p50, "p99_ns": p99, "cpu_ns": cpu}


class Listener:
    """One of the daemon's, as a server of its own: the others sleep while it is visited."""

    def __init__(self, name, pid, port):
        self.name, self.pid = name, pid
        self.target_options = ["--ioengine=nbd", f"--uri=nbd://127.0.0.1:{port}/disk"]


def ours(options):
    """(what starts the daemon, [(name, port)]): a listener for each, as a file belongs to one process."""
    sections, visited = f"[export disk]\npath = {options.file}\n", []
    for name, keys in [*OURS.items(), ("nbd-uring again", OURS["nbd-uring"])]:
        keys = {"address": f"127.0.0.1:{free_port()}", "service": "nbd", "exports": "disk", **keys}
        sections += f"[listener {name.replace(' ', '-')}]\n" + "".join(f"{k} = {v}\n" for k, v in keys.items())
        visited.append((name, keys["address"].split(":")[1]))
    return functools.partial(Daemon, "nbserved", options.build / "nbserved", cpus=options.cpus, service="echo",
                             engine="epoll", sections=sections), visited


def compare_jobs(options):
    """The jobs that were asked for."""
    jobs = {name: job for name, job in JOBS.items() if any(word in name for word in options.only.split(","))}
    options.cpus, options.client_cpus = ({SERVER_CPU}, {CLIENT_CPU}) if options.pin else (ALL_CPUS, ALL_CPUS)
    maker, visited = ours(options)
    others = [functools.partial(Alone, options.file)]
    if shutil.which("nbdkit"):
        others.insert(0, functools.partial(Foreign, "nbdkit", NBDKIT.replace("FILE", str(options.file)), cpus=options.cpus))
    with started(maker, *others) as (daemon, *servers):
        for server in servers:
            if server.pid:
                server.target_options = ["--ioengine=nbd", f"--uri=nbd://127.0.0.1:{server.port}/"]
        servers = [Listener(name, daemon.pid, port) for name, port in visited] + servers
        for name, job in jobs.items():
            compare(servers, name, job, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--file", type=pathlib.Path, help="(default: a new one in BUILD)")
    parser.add_argument("--size", type=int, default=256 << 20)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--only", default="", help="jobs whose name has one of these words")
    parser.add_argument("--pin", action="store_true", help="a CPU for the servers, one for the client")
    parser.add_argument("--real-time", action="store_true", help="others on this host have to wait")
    options = parser.parse_args()
    if options.real_time:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    options.build = options.build.resolve()
    options.file = options.file and options.file.resolve()
    made = not options.file
    if made:
        options.file = options.build / "bench-nbd.img"
    if not options.file.exists():
        subprocess.run(
            ["dd", "if=/dev/urandom", f"of={options.file}", "bs=1M",
             f"count={options.size >> 20}", "status=none"],
            check=True,
        )
    try:
        compare_jobs(options)
    finally:
        if made:
            options.file.unlink()
    path = options.build / "bench-nbd.json"
    path.write_text(json.dumps({"options": {k: str(v) for k, v in vars(options).items()}, "medians": kept},
                               indent=1) + "\n")


if __name__ == "__main__":
    main()
