#!/usr/bin/python3
"""Speed and memory of nbserved beside bare servers: `make bench`.

    bench.py [--build DIR] [--parts all|quick|a,b,...] [--server 'NAME=COMMAND {port}'] [--json FILE]

Every comparison is paired: the servers are alive at once and get slices of load in turn, in an
order that changes; a ratio is the median over the rounds of one server's cost in a round to the
other's, and stands with its quartiles.  The bare epoll server runs twice: how far those two differ
is the noise.  Timing never fails: targets are printed with what was met.
"""

import argparse
import json
import os
import pathlib
import platform
import sys
import time

import parts_cost
import parts_fair
import parts_other
from report import Bench
from servers import ALL_CPUS, CLIENT_CPU, ROOT, SERVER_CPU

PARTS = {
    "a": ("CPU per request of the echo listeners", parts_cost.echo_cost),
    "b": ("system calls per request", parts_cost.syscalls),
    "c": ("user instructions per echo", parts_cost.instructions),
    "d": ("sqpoll and busy-poll", parts_cost.polling),
    "e": ("bulk transfer beside iperf3", parts_other.bulk),
    "f": ("what statistics cost", parts_cost.statistics_cost),
    "g": ("memory, idle connections, idle daemon", parts_other.memory),
    "h": ("polite clients beside greedy ones", parts_fair.greedy),
}


def host():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        model = next((line.split(":")[1].strip() for line in f if line.startswith("model name")), "?")
    with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="ascii") as f:
        congestion = f.read().strip()
    return {
        "kernel": platform.release(),
        "cpu": model,
        "cpus": len(ALL_CPUS),
        "congestion_control": congestion,
        "load": os.getloadavg()[0],
    }


def parse_options():
    parser = argparse.ArgumentParser(description="nbserved's speed and memory beside bare servers")
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--parts", default="all", help="all, quick, or letters: a,b,...")
    parser.add_argument("--server", action="append", default=[],
                        help="another echo server for part a: 'NAME=COMMAND {port}'")
    parser.add_argument("--json", help="the result (default: DIR/bench.json)")
    options = parser.parse_args()
    names = list(PARTS) if options.parts in ("all", "quick") else options.parts.split(",")
    unknown = [n for n in names if n not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return options, names


def main():
    options, names = parse_options()
    foreign = [s.split("=", 1) for s in options.server]
    bench = Bench(options.build, options.parts == "quick", foreign)
    start = time.monotonic()
    bench.results["host"] = host()
    bench.say(f"host: {bench.results['host']}; client on CPU {CLIENT_CPU}, servers on {SERVER_CPU}")
    if bench.results["host"]["load"] > 0.5:
        bench.say("this host has other work: ratios hold, but expect wider quartiles")
    if CLIENT_CPU == SERVER_CPU:
        bench.say("one CPU only: client and server share it, and latencies mean little")
    for name in names:
        title, part = PARTS[name]
        bench.say(f"\n== {name}. {title}")
        bench.results[name] = part(bench)
    bench.say(f"\n== targets ({time.monotonic() - start:.0f} s)")
    bench.print_targets()
    bench.results["targets"] = bench.targets
    path = pathlib.Path(options.json or bench.build / "bench.json")
    path.write_text(json.dumps(bench.results, indent=1) + "\n", encoding="utf-8")
    bench.say(f"all figures: {path}")


if __name__ == "__main__":
    sys.exit(main())
