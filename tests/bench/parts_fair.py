"""What greedy clients, who send and read as fast as goes, take from polite ones."""

import contextlib
import json
import subprocess
import time

from parts_cost import ENGINES, daemon, drive
from report import quartiles, ratio, show_ratio
from servers import CLIENT_CPU, prepare, process_cpu_ns, started

POLITE, GREEDY = 50, 4
SLICE_MS = 100
START_SECONDS = 0.1
ALONE_SECONDS = 0.5


@contextlib.contextmanager
def greedy_clients(bench, server, count):
    """The report of those that ran meanwhile: a dictionary, filled at the end."""
    report = {}
    with subprocess.Popen(
        [bench.program("greedy"), str(count), str(server.port)], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=prepare((CLIENT_CPU,)),
    ) as process:
        time.sleep(START_SECONDS)
        yield report
        report.update(json.loads(process.communicate()[0]))


def polite(bench, server, connections, greedy):
    """The server's CPU time for each of POLITE clients' requests, and their p99, in ns."""
    with greedy_clients(bench, server, greedy):
        result = drive(bench, [server], connections, 1, "-r", 4, "-t", SLICE_MS)[server.name]
    return (result["cpu_ns_per_request"]["median"] * connections / POLITE,
            result["latency_ns"]["p99"])


def alone(bench, server):
    """Bytes per second and CPU seconds per gigabyte of one greedy client."""
    before = process_cpu_ns(server.pid)
    with greedy_clients(bench, server, 1) as report:
        time.sleep(ALONE_SECONDS)
    cpu = process_cpu_ns(server.pid) - before
    return report["bytes"] / report["elapsed_ns"], cpu / report["bytes"]


def greedy(bench):
    """All share a CPU with the server's worker at work: its time is what they compete for."""
    rows, results = [], {}
    loads = [(POLITE, 0), (POLITE + GREEDY, 0), (POLITE, 1), (POLITE, GREEDY)]
    with started(*(daemon(bench, engine, engine=engine) for engine in ENGINES)) as servers:
        for server in servers:
            rounds = [[polite(bench, server, *load) for load in loads]
                      for _ in range(bench.rounds(5))]
            single = [alone(bench, server) for _ in range(bench.rounds(5))]
            cost, p99 = ([[r[i][j] for r in rounds] for i in range(len(loads))] for j in (0, 1))
            more = [r[1][0] - r[0][0] for r in rounds]
            results[server.name] = {"cost_ns": cost, "p99_ns": p99, "alone": single}
            for i, (count, others) in enumerate(loads):
                rows.append([f"{server.name}, {count} polite, {others} greedy",
                             f"{quartiles(cost[i])['median'] / 1e3:.1f}",
                             show_ratio(ratio(cost[i], cost[0])),
                             f"{quartiles(p99[i])['median'] / 1e6:.2f}"])
            rows.append([f"{server.name}, 1 greedy alone",
                         f"{quartiles([b for b, _ in single])['median']:.2f} GB/s",
                         f"{quartiles([c for _, c in single])['median']:.3f} CPU s/GB", ""])
            bench.target(f"h. {server.name}: {GREEDY} greedy clients cost {POLITE} polite ones as "
                         f"much as {GREEDY} polite ones would, twice at the most",
                         quartiles(cost[3])["median"] / quartiles(cost[0])["median"],
                         1 + 2 * GREEDY / POLITE)
            results[server.name]["more_polite_ns"] = more
    bench.table(["clients", "server CPU us/request of 50", "to none greedy", "p99 ms"], rows)
    return results
