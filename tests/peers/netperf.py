#!/usr/bin/python3
"""The netperf service beside netperf's own server: rates, and the server's CPU time for each unit.

    netperf.py [--build DIR] [--rounds N] [--seconds S]

One client, `netperf`, visits each server in turn, and in reverse order in every other round; the
servers are pinned to one CPU and the client to another.  CPU time is that of the server's process:
netserver serves one client after the other, without a process for each.
"""

import argparse
import functools
import pathlib
import re
import shutil
import time

from report import alternate, quartiles, ratio, show_ratio
from servers import CLIENT_CPU, ROOT, SERVER_CPU, Daemon, Foreign, process_cpu_ns, run, started

ENGINES = ["epoll", "io_uring", "io_uring-poll"]
OWN = "netserver"
# The last of five or six numbers in a line; before it there may be warnings, behind it buffer sizes.
RESULT = re.compile(r"(?m)^ *(?:[\d.]+ +){4,5}([\d.]+) *$")
# The netperf test, the number of clients, the unit, and how many units the result has.
TESTS = [("TCP_RR", "transactions/s"), ("TCP_CRR", "transactions/s"), ("TCP_STREAM", "Mbit/s"), ("TCP_MAERTS", "Mbit/s")]


def visit(server, kind, seconds):
    """(rate, CPU seconds for each unit of it)"""
    before = process_cpu_ns(server.pid)
    out = run(["netperf", "-H", "127.0.0.1", "-p", server.port, "-t", kind, "-l", seconds, "-P", 0])
    time.sleep(0.05)
    rate = float(RESULT.search(out)[1])
    return rate, (process_cpu_ns(server.pid) - before) / 1e9 / (rate * seconds)


def compare(servers, kind, unit, options):
    results = alternate(servers, options.rounds, lambda s: visit(s, kind, options.seconds))
    print(kind)
    own = [cpu for _, cpu in results[OWN]]
    for name, values in results.items():
        rate = quartiles([rate for rate, _ in values])
        cpu = quartiles([cpu * 1e6 for _, cpu in values])["median"]
        versus = show_ratio(ratio([c for _, c in values], own)) if name != OWN else ""
        print(f"  {name:14} {rate['median']:9.0f} {unit} ({rate['q1']:.0f} to {rate['q3']:.0f})"
              f"  {cpu:8.2f} us CPU for each  {versus}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=2)
    options = parser.parse_args()
    if not shutil.which("netserver"):
        print("netserver is not installed (Debian has it in non-free)")
        return
    makers = [functools.partial(Foreign, OWN, "netserver -D -f -p {port} -L 127.0.0.1 -4")]
    for engine in ENGINES:
        keys = {"engine": engine, "service": "netperf", "address": ["127.0.0.1:0"] * 4}
        makers.append(functools.partial(Daemon, engine, options.build / "nbserved", **keys))
    print(f"server on CPU {SERVER_CPU}, client on CPU {CLIENT_CPU}; medians and quartiles")
    with started(*makers) as servers:
        for kind, unit in TESTS:
            compare(servers, kind, unit, options)


if __name__ == "__main__":
    main()
