"""Shared by the parts of the benchmark: their options, rounds and tables.

Each server is visited in turn, and in reverse order in every other round, so a ratio of two of them is taken within one
round.  Tables have medians; in brackets are quartiles.
"""

import argparse
import os
import pathlib
import statistics

from servers import CLIENT_CPU, ROOT, SERVER_CPU


def options_of(text, rounds, seconds):
    """Of the command line; with --real-time other programs of a busy host wait meanwhile."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seconds", type=float, default=seconds, help="of each visit")
    parser.add_argument("--only", default="", help="tables whose title has one of these words")
    parser.add_argument("--real-time", action="store_true", help="others on this host have to wait: keep it short (root)")
    options = parser.parse_args()
    if options.real_time:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    options.build = options.build.resolve()
    print(f"server on CPU {SERVER_CPU}, client on CPU {CLIENT_CPU}; load {os.getloadavg()[0]:.1f}")
    return options


def is_wanted(title, options):
    return any(word in title for word in options.only.split(","))


def quartiles(values):
    return statistics.quantiles(values * 2 if len(values) == 1 else values, n=4, method="inclusive")


def number(value):
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def show(values, form):
    q1, median, q3 = map(form, quartiles(values))
    return f"{median} [{q1} {q3}]"


def compare(title, servers, options, visit, unit="operation"):
    """visit(server) -> (units per second, CPU ns for each, {what else is shown: a number})."""
    seen = {server.name: [] for server in servers}
    for i in range(options.rounds):
        for server in servers if i % 2 == 0 else reversed(servers):
            seen[server.name].append(visit(server))
    scale, time = (1e6, "ms") if unit == "GB" else (1e3, "us")
    first = next(iter(seen.values()))
    rows = [["", f"{unit}s/s", f"CPU {time}/{unit}", "CPU to the first", "rate to the first", *first[0][2]]]
    for name, visits in seen.items():
        (rates, cpus), more = zip(*(v[:2] for v in visits)), [v[2] for v in visits]
        rows.append([name, show(rates, number), number(statistics.median(cpus) / scale),
                     *(show([a / b for a, b in zip(values, (f[i] for f in first))], "{:.3f}".format) if any(values) else "-"
                       for i, values in ((1, cpus), (0, rates))),
                     *(number(statistics.median(m[what] for m in more)) for what in more[0])])
    widths = [max(map(len, column)) for column in zip(*(row + [""] * (len(rows[0]) - len(row)) for row in rows))]
    print(f"{title} ({options.rounds} rounds)")
    for row in rows:
        print("  " + "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:]))]))
    print(flush=True)
