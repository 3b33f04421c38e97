"""Bulk transfer beside iperf3; memory, idle connections and the idle daemon."""

import contextlib
import functools
import json
import os
import random
import resource
import shutil
import subprocess
import time

from report import quartiles, ratio, show_ratio
from servers import (
    CLIENT_CPU,
    Daemon,
    Foreign,
    prepare,
    process_cpu_ns,
    run,
    started,
)

ENGINES = ["epoll", "io_uring"]
IDLE_CONNECTIONS = 20000
MEMORY_CONNECTIONS = 10000
CLIENT_CONNECTIONS = 5000  # of one client process
IDLE_SECONDS = 5
MEMORY_MAX = 1536  # bytes per idle connection


# ---- e. Bulk transfer


class Iperf3(Foreign):
    def transfer(self, _bench, connections, receive):
        """(bytes, CPU ns, elapsed ns) of one run of its own client."""
        before = process_cpu_ns(self.pid)
        out = run(["iperf3", "-c", "127.0.0.1", "-p", self.port, "-J", "-t", 1, "-P", connections,
                   *(["-R"] if receive else [])])
        end = json.loads(out)["end"]["sum_received"]
        time.sleep(0.05)
        return end["bytes"], process_cpu_ns(self.pid) - before, end["seconds"] * 1e9


class Bulk(Daemon):
    def transfer(self, bench, connections, receive):
        """The same with a client of ours that makes the same calls."""
        out = json.loads(run([bench.program("bulk"), "-c", connections, "-t", 1000,
                              *(["-r"] if receive else []), self.target()]))
        return out["bytes"], out["cpu_ns"], out["elapsed_ns"]


def bulk_case(bench, connections, receive):
    service = "chargen" if receive else "discard"
    makers = [functools.partial(Iperf3, "iperf3 -s", "iperf3 -s -p {port}")]
    makers += [functools.partial(Bulk, f"{service} {e}", bench.nbserved(), engine=e, service=service)
               for e in ENGINES]
    runs = {}
    with started(*makers) as servers:
        for _ in range(bench.rounds(5) if not bench.quick else 2):
            for server in random.sample(servers, len(servers)):
                runs.setdefault(server.name, []).append(
                    server.transfer(bench, connections, receive))
    return {name: runs[name] for name in (s.name for s in servers)}


def bulk_rows(bench, runs, connections, receive):
    rows = []
    per_cpu = {name: [b / c for b, c, _ in r] for name, r in runs.items()}  # bytes per ns
    for name, values in per_cpu.items():
        relation = ratio(values, per_cpu["iperf3 -s"])
        rate = quartiles([b / t for b, _, t in runs[name]])["median"]
        rows.append([f"{connections} x {name}{' -R' * (receive and 'iperf3' in name)}",
                     f"{quartiles(values)['median']:.2f}", show_ratio(relation), f"{rate:.2f}"])
        if name != "iperf3 -s":
            bench.target(f"e. {connections} x {name}: bytes per CPU second to iperf3's",
                         relation["median"], 1.0, at_least=True)
    return rows


def bulk(bench):
    if not shutil.which("iperf3"):
        bench.say("iperf3 is not installed")
        return None
    bench.say("iperf3 has its own client; ours makes the same calls (select, ten rounds of 128 KiB\n"
              "writes to each writable socket; or select and a 128 KiB read of each readable one).")
    results, rows = {}, []
    for receive in (False, True):
        for connections in (1, 8):
            runs = bulk_case(bench, connections, receive)
            results[f"{'receive' if receive else 'send'} {connections}"] = runs
            rows += bulk_rows(bench, runs, connections, receive)
    bench.table(["connections x server", "GB/CPU s", "to iperf3", "GB/s"], rows)
    return results


# ---- g. Memory, idle connections, idle daemon


class IdleClient:
    """A process with idle connections; a context manager that ends it."""

    def __init__(self, bench, server, connections):
        self.connections = connections
        self.process = subprocess.Popen(
            [bench.program("idle"), str(server.port), str(connections)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            preexec_fn=prepare((CLIENT_CPU,)),
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def is_open(self):
        return self.process.stdout.readline() == "open\n"

    def answers(self):
        """All connections are asked; whether all have answered."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline() == f"answered {self.connections}\n"


def memory_of(pid):
    """Bytes: private (no other process has these pages), Rss and Pss."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        kib = {k.rstrip(":"): int(v) for k, v, *_ in (line.split() for line in list(f)[1:])}
    return {"private": (kib["Private_Clean"] + kib["Private_Dirty"]) * 1024,
            "rss": kib["Rss"] * 1024, "pss": kib["Pss"] * 1024}


def activity(pid):
    """All that a thread that does nothing leaves unchanged, by thread."""
    result = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        path = f"/proc/{pid}/task/{tid}"
        with open(f"{path}/stat", encoding="ascii") as f:
            ticks = f.read().rsplit(")", 1)[1].split()[11:13]
        with open(f"{path}/status", encoding="ascii") as f:
            switches = [int(line.split()[1]) for line in f if "ctxt_switches" in line]
        cpu_ns = None
        with contextlib.suppress(OSError), open(f"{path}/schedstat", encoding="ascii") as f:
            cpu_ns = int(f.read().split()[0])
        result[tid] = (*map(int, ticks), *switches, cpu_ns)
    return result


def wait_open(server, count):
    end = time.monotonic() + 30
    while (n := server.stats()["connections"]["open"]) < count:
        if time.monotonic() > end:
            raise RuntimeError(f"{server.name}: {n} of {count} connections are open")
        time.sleep(0.02)


def wait_quiet(pid):
    """Waits until the last request is complete."""
    before = None
    while (now := process_cpu_ns(pid)) != before:
        before = now
        time.sleep(0.2)


def memory_case(bench, engine, total):
    """Opens connections in steps; what they cost, whether all answer, whether the daemon sleeps."""
    result = {}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(
            Daemon(engine, bench.nbserved(), engine=engine, service="echo"))
        wait_quiet(server.pid)
        empty, clients, opened = memory_of(server.pid), [], 0
        while opened < total:
            count = min(CLIENT_CONNECTIONS, total - opened)
            clients.append(stack.enter_context(IdleClient(bench, server, count)))
            opened += count if clients[-1].is_open() else 0
            wait_open(server, opened)
            if opened == min(MEMORY_CONNECTIONS, total):
                full = memory_of(server.pid)
                result["bytes"] = {k: (full[k] - empty[k]) / opened for k in full}
        result["opened"] = opened
        result["answered"] = sum(c.connections for c in clients if c.answers())
        wait_quiet(server.pid)
        before = activity(server.pid)
        time.sleep(IDLE_SECONDS)
        after = activity(server.pid)
        result["idle"] = {"before": before, "after": after, "unchanged": before == after}
        result["total_rss"] = memory_of(server.pid)["rss"]
    return result


def memory(bench):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    total = min(IDLE_CONNECTIONS, limit - 100)
    if total < IDLE_CONNECTIONS:
        bench.say(f"RLIMIT_NOFILE allows {limit} descriptors and may not be raised here: {total} idle"
                  f" connections instead of {IDLE_CONNECTIONS}")
    results, rows = {}, []
    for engine in [*ENGINES, "io_uring-poll"]:
        r = results[engine] = memory_case(bench, engine, total)
        rows.append([
            engine,
            *(f"{r['bytes'][k]:.0f}" for k in ("private", "rss", "pss")),
            f"{r['answered']}/{r['opened']}",
            f"{r['total_rss'] / 2**20:.1f}",
            "none" if r["idle"]["unchanged"] else f"{r['idle']['before']} -> {r['idle']['after']}",
        ])
        bench.target(f"g. {engine}: bytes per idle connection", r["bytes"]["private"], MEMORY_MAX)
        bench.target(f"g. {engine}: of {total} idle connections, answered", r["answered"], total,
                     at_least=True)
        bench.target(f"g. {engine}: threads that ran in {IDLE_SECONDS} s idle",
                     sum(a != b for a, b in zip(r["idle"]["before"].values(),
                                                r["idle"]["after"].values())), 0)
    bench.table(["idle connections", "private B", "rss B", "pss B", "answer", "RSS MiB",
                 f"CPU in {IDLE_SECONDS} s"], rows)
    return results
