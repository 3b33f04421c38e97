#!/usr/bin/python3
"""The nvme service beside the nbd service on the same export and store: operations per second, latency,
CPU of the server per operation; and what digests and flow control of queues cost.

    nvme.py [--build DIR] [--file PATH] [--size BYTES] [--rounds N] [--seconds S] [--only WORD,...]
            [--peer NAME=PID:PORT:NQN]... [--json PATH]

One client, nvme_client, speaks both protocols and visits each server in turn, in reverse order in every
other round.  The first runs twice: how far the two differ is the noise.  One file, in the page cache, is
served by all.  nbdkit is there if it is installed.  A peer is another NVMe/TCP target that runs already and
polls: its client does, too, and it is stopped (SIGSTOP) while others are visited.
"""

import argparse
import functools
import json
import os
import pathlib
import shutil
import signal
import time

from nbd import NBDKIT, cpu_ns, theirs
from report import quartiles, ratio, show_ratio
from servers import ALL_CPUS, ROOT, Daemon, free_port, run, started

NQN = "nqn.2026-11.bench"
# name: service, client's options, the listener's keys
OURS = {
    "nbd": ("nbd", "-n", {}),
    "nbd again": ("nbd", "-n", {}),
    "nvme": ("nvme", "-f", {}),
    "nvme sqflow off": ("nvme", "", {}),
    "nvme digests": ("nvme", "-f -g -G", {}),
    "nvme busy-poll": ("nvme", "-b", {"busy-poll": "50us"}),
}
JOBS = {
    "read 4k, depth 1": "",
    "read 4k, depth 32": "-d 32",
    "read 4k, 4 x 32": "-q 4 -d 32",
    "read 128k, depth 16": "-s 131072 -d 16",
    "write 4k, depth 1": "-w",
    "write 4k, depth 32": "-w -d 32",
    "write 4k, 4 x 32": "-w -q 4 -d 32",
    "write 128k, depth 16": "-w -s 131072 -d 16",
}


def visit(server, job, options):
    """(operations/s, p50 ns, p99 ns, CPU ns per operation)"""
    if server.stops:
        os.kill(server.pid, signal.SIGCONT)
    before = cpu_ns(server.pid)
    out = run([options.build / "bench/nvme_client", *server.client.split(), *job.split(), "-t",
               options.seconds, "127.0.0.1", server.port, server.export], cpus=ALL_CPUS)
    time.sleep(0.05)  # the server sees its client go
    ops, p50, p99 = map(float, out.split())
    if server.stops:
        os.kill(server.pid, signal.SIGSTOP)
    return ops, p50, p99, (cpu_ns(server.pid) - before) / (ops * options.seconds)


def compare(servers, title, job, options):
    results = {server.name: [] for server in servers}
    for i in range(options.rounds):
        for server in servers if i % 2 == 0 else reversed(servers):
            results[server.name].append(visit(server, job, options))
    first = results[servers[0].name]
    print(f"{title}\n  {'':16} {'IOPS':>8} {'p50 us':>8} {'p99 us':>8} {'CPU us':>7}  IOPS and CPU to the first")
    rows = {}
    for name, values in results.items():
        iops, p50, p99, cpu = (quartiles(column)["median"] for column in zip(*values))
        versus = (show_ratio(ratio([v[i] for v in values], [f[i] for f in first])) for i in (0, 3))
        print(f"  {name:16} {iops:8.0f} {p50 / 1e3:8.1f} {p99 / 1e3:8.1f} {cpu / 1e3:7.2f}  " + "  ".join(versus),
              flush=True)
        rows[name] = {"iops": iops, "p50_ns": p50, "p99_ns": p99, "cpu_ns": cpu}
    return rows


class Visited:
    """A server with its client's options, and the name of what it serves."""

    def __init__(self, name, pid, port, client, export, stops=False):
        self.name, self.pid, self.port, self.client, self.export = name, pid, port, client, export
        self.stops = stops  # while others are visited


def peer(text):
    name, where = text.split("=", 1)
    pid, port, export = where.split(":", 2)
    return Visited(name, int(pid), port, "-b", export, stops=True)


def ours(options, rows=None):
    """(the daemon's command, the arguments of its visits without its pid): a listener for each, as a
    file belongs to one process.  Those that are not visited sleep."""
    sections, visited = f"[export disk]\npath = {options.file}\n", []
    for i, (name, (service, client, keys)) in enumerate((rows or OURS).items()):
        export = f"{NQN}:{i}" if service == "nvme" else "disk"
        keys = {"address": f"127.0.0.1:{free_port()}", "engine": options.engine, "store": options.store,
                "service": service, "exports": "disk", **keys, **({"nqn": export} if service == "nvme" else {})}
        sections += f"[listener n{i}]\n" + "".join(f"{k} = {v}\n" for k, v in keys.items())
        visited.append((name, keys["address"].split(":")[1], client, export))
    return functools.partial(Daemon, "nbserved", options.build / "nbserved", cpus=ALL_CPUS, service="echo",
                             engine="epoll", sections=sections), visited


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--file", type=pathlib.Path, help="(default: a new one in BUILD)")
    parser.add_argument("--size", type=int, default=256 << 20)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=1)
    parser.add_argument("--engine", default="io_uring")
    parser.add_argument("--store", default="io_uring")
    parser.add_argument("--only", default="", help="jobs whose name has one of these words")
    parser.add_argument("--peer", type=peer, action="append", default=[], metavar="NAME=PID:PORT:NQN")
    parser.add_argument("--json", type=pathlib.Path, help="the medians, as a file")
    options = parser.parse_args()
    options.build, options.cpus = options.build.resolve(), ALL_CPUS
    made = not options.file
    if made:
        options.file = options.build / "bench-nvme.img"
        run(["dd", "if=/dev/urandom", f"of={options.file}", "bs=1M", f"count={options.size >> 20}",
             "status=none"], cpus=ALL_CPUS)
    maker, visited = ours(options)
    makers = [maker] + ([theirs(options, "nbdkit", NBDKIT)] if shutil.which("nbdkit") else [])
    results = {}
    try:
        with started(*makers) as (daemon, *others):
            servers = [Visited(name, daemon.pid, *of) for name, *of in visited]
            servers += [Visited(other.name, other.pid, other.port, "-n", "") for other in others]
            servers += options.peer
            for name, job in JOBS.items():
                if any(word in name for word in options.only.split(",")):
                    results[name] = compare(servers, name, job, options)
    finally:
        if made:
            options.file.unlink()
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
