#!/usr/bin/python3
"""The iperf3 service beside iperf3's own server: throughput and CPU time per gigabyte.

    iperf3.py [--build DIR] [--rounds N] [--seconds S]

One client, `iperf3`, visits each server in turn, and in reverse order in every other round; the
servers are pinned to one CPU and the client to another.  CPU time is that of the server's process.
"""

import argparse
import functools
import json
import pathlib
import time

from report import alternate, quartiles, ratio, show_ratio
from servers import CLIENT_CPU, ROOT, SERVER_CPU, Daemon, Foreign, process_cpu_ns, run, started

ENGINES = ["epoll", "io_uring", "io_uring-poll"]
OWN = "iperf3 -s"


def visit(server, streams, reverse, seconds):
    """(bytes/s, CPU seconds per gigabyte)"""
    before = process_cpu_ns(server.pid)
    out = run(
        ["iperf3", "-c", "127.0.0.1", "-p", server.port, "-J", "-t", seconds, "-P", streams]
        + (["-R"] if reverse else [])
    )
    received = json.loads(out)["end"]["sum_received"]
    time.sleep(0.05)
    cpu = (process_cpu_ns(server.pid) - before) / 1e9
    return received["bytes"] / received["seconds"], cpu / received["bytes"] * 1e9


def compare(servers, streams, reverse, options):
    results = alternate(servers, options.rounds, lambda s: visit(s, streams, reverse, options.seconds))
    print(f"{'-R, the server sends' if reverse else 'the server receives'}, -P {streams}")
    own = [cpu for _, cpu in results[OWN]]
    for name, values in results.items():
        speed = quartiles([speed / 1e9 for speed, _ in values])
        cpu = quartiles([cpu * 1e3 for _, cpu in values])["median"]
        versus = show_ratio(ratio([c for _, c in values], own)) if name != OWN else ""
        print(
            f"  {name:14} {speed['median']:6.2f} GB/s ({speed['q1']:.2f} to {speed['q3']:.2f})"
            f"  {cpu:6.1f} ms CPU/GB  {versus}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=1)
    options = parser.parse_args()
    makers = [functools.partial(Foreign, OWN, "iperf3 -s -p {port}")]
    for engine in ENGINES:
        program = options.build / "nbserved"
        keys = {"engine": engine, "service": "iperf3"}
        makers.append(functools.partial(Daemon, engine, program, **keys))
    print(f"server on CPU {SERVER_CPU}, client on CPU {CLIENT_CPU}; medians and quartiles")
    with started(*makers) as servers:
        for reverse in [False, True]:
            for streams in [1, 8]:
                compare(servers, streams, reverse, options)


if __name__ == "__main__":
    main()
