#!/usr/bin/python3
"""How often does `nbbench compare` call two equal listeners different?  `make bench-equal`, some five minutes.

    equal.py [--build DIR] [--runs N] [--seconds N]

Starts a daemon for each run, with two listeners of the same keys, and compares them with redis-benchmark.  Of
40 runs 5 % are 2; more than 4 come by chance in one of twenty such tests.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys

from servers import ALL_CPUS, CLIENT_CPU, ROOT, Daemon

LISTENER = "[listener first]\naddress = 127.0.0.1:0\nservice = echo\nengine = epoll\n"


def verdict(build, seconds):
    with Daemon("equal", build / "nbserved", service="echo", engine="epoll",
                sections=LISTENER) as daemon:
        done = subprocess.run(
            [build / "nbbench", "-s", daemon.control, "compare", "--json", "--time", str(seconds), "first", "bench", "--",
             "taskset", "-c", str(CLIENT_CPU), "redis-benchmark", "-p", "{port}", "-t", "ping_mbulk", "-n", "20000",
             "-c", "50", "-q"], capture_output=True, text=True, check=True)
    row = json.loads(done.stdout)["groups"][0]["rows"][1]["verdicts"]["cost"]
    return row["is"], row["change"], row["low"], row["high"], row["rounds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=8)
    options = parser.parse_args()
    if len(ALL_CPUS) < 2:
        sys.exit("equal.py: needs two CPUs")
    found = collections.Counter()
    for run in range(options.runs):
        is_, change, low, high, rounds = verdict(options.build.resolve(), options.seconds)
        found[is_] += 1
        print(f"{run + 1:3}: {is_:10} {change:+.1%} ({low:+.1%} to {high:+.1%}), {rounds} rounds", flush=True)
    different = found["less"] + found["more"]
    print(f"{different} of {options.runs} called different; {dict(found)}")
    sys.exit(different > options.runs // 10)


main()
