"""The share that greedy clients, which send and read as fast as they can, take from polite ones."""

import contextlib
import functools
import json
import subprocess
import time

from parts_cost import ENGINES, bare, daemon, drive
from report import quartiles, ratio, show_ratio
from servers import CLIENT_CPU, Foreign, prepare, process_cpu_ns, started

POLITE, GREEDY = 50, 4
LOADS = [(POLITE + GREEDY, 0), (POLITE, 0), (POLITE, 1), (POLITE, GREEDY)]  # the first is the control
SLICE_MS = 100
START_SECONDS = 0.1
ALONE_SECONDS = 0.5
LAST_PRIORITY = 19
FACTOR_MAX = 2


@contextlib.contextmanager
def greedy_clients(bench, server, count, niceness):
    """The report of those that ran meanwhile: a dictionary, filled at the end."""
    report = {}
    with subprocess.Popen(
        [bench.program("greedy"), str(count), str(server.port)], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        preexec_fn=prepare((CLIENT_CPU,), niceness),
    ) as process:
        time.sleep(START_SECONDS)
        yield report
        report.update(json.loads(process.communicate()[0]))


def polite(bench, server, connections, greedy):
    """How many requests a second POLITE of the polite clients get answered, and their p99 in ns.
    Both kinds share a CPU, where the polite ones come first: what they lose is the server's doing."""
    with greedy_clients(bench, server, greedy, LAST_PRIORITY):
        result = drive(bench, [server], connections, 1, "-r", 4, "-t", SLICE_MS)[server.name]
    return (result["requests_per_s"]["median"] * POLITE / connections, result["latency_ns"]["p99"])


def beside_greedy(bench, server):
    """Rows of a table, and the figures of each round by load."""
    rounds = [[polite(bench, server, *load) for load in LOADS] for _ in range(bench.rounds(5))]
    rates, p99 = ([[r[i][j] for r in rounds] for i in range(len(LOADS))] for j in (0, 1))
    rows = [[f"{server.name}, {count} polite, {others} greedy",
             f"{quartiles(rates[i])['median']:.0f}", show_ratio(ratio(rates[0], rates[i])),
             f"{quartiles(p99[i])['median'] / 1e6:.2f}", show_ratio(ratio(p99[i], p99[0]))]
            for i, (count, others) in enumerate(LOADS)]
    for what, value in (("slow", ratio(rates[0], rates[-1])), ("late (p99)", ratio(p99[-1], p99[0]))):
        bench.target(f"h. {server.name}: {POLITE} polite clients are as {what} beside {GREEDY} greedy"
                     f" ones as beside {GREEDY} polite ones, {FACTOR_MAX} times at the most",
                     value["median"], FACTOR_MAX)
    return rows, {"requests_per_s": rates, "p99_ns": p99}


def alone(bench, server):
    """CPU seconds per gigabyte of one greedy client, and gigabytes per second."""
    before = process_cpu_ns(server.pid)
    with greedy_clients(bench, server, 1, -15) as report:
        time.sleep(ALONE_SECONDS)
    cpu = process_cpu_ns(server.pid) - before
    return cpu / report["bytes"], report["bytes"] / report["elapsed_ns"]


def greedy(bench):
    """Servers of others (--server), of an older build perhaps, serve one greedy client."""
    rows, single, results = [], {}, {}
    makers = [daemon(bench, engine, engine=engine) for engine in ENGINES]
    makers += [bare(bench, "bare epoll", "echo_epoll")]
    makers += [functools.partial(Foreign, name, command) for name, command in bench.foreign]
    with started(*makers) as servers:
        for server in servers[: len(ENGINES)]:
            more, results[server.name] = beside_greedy(bench, server)
            rows += more
        for i in range(bench.rounds(5)):
            for server in servers if i % 2 == 0 else reversed(servers):
                single.setdefault(server.name, []).append(alone(bench, server))
    bench.table(["clients", "requests/s of 50", "control to it", "p99 ms", "to the control"], rows)
    cpu = {name: [c for c, _ in values] for name, values in single.items()}
    bench.table(["one greedy client alone", "CPU s/GB", "to bare epoll", "GB/s"],
                [[name, f"{quartiles(cpu[name])['median']:.3f}",
                  show_ratio(ratio(cpu[name], cpu["bare epoll"])),
                  f"{quartiles([rate for _, rate in values])['median']:.2f}"]
                 for name, values in single.items()])
    return {**results, "alone": single}
