"""The cost of an echoed request: CPU, system calls, user instructions, latency."""

import contextlib
import functools
import json
import re
import shutil
import signal
import subprocess
import tempfile
import time

from report import ratio, show_ratio
from servers import (
    ALL_CPUS,
    CLIENT_CPU,
    SERVER_CPU,
    Bare,
    Daemon,
    Foreign,
    prepare,
    run,
    started,
)

LOADS = [(1, 1), (10, 1), (100, 1), (1000, 1), (100, 16)]  # connections, messages in flight on each
ENGINES = ["epoll", "io_uring", "io_uring-poll"]
REQUEST_BYTES = 512
SLICE_MS = 60
NOISE_MAX = 0.02  # of the control; more: measure again
ATTEMPTS = 3


def drive(bench, servers, connections, depth, *options):
    """Runs the client against the servers; its results by server name."""
    argv = [bench.program("client"), "-s", REQUEST_BYTES, "-c", connections, "-d", depth]
    out = run([*argv, *options, *(s.target() for s in servers)])
    return {s["name"]: s for s in json.loads(out)["servers"]}


def slices(bench, servers, connections, depth, rounds):
    rounds = bench.rounds(rounds)
    return drive(bench, servers, connections, depth, "-r", rounds, "-t", SLICE_MS)


def cost_ratio(results, name, base):
    return ratio(results[name]["rounds_cpu_ns"], results[base]["rounds_cpu_ns"])


def daemon(bench, name, statistics_on=True, **keys):
    """A maker of an nbserved with one echo listener."""
    keys = {"service": "echo", "engine": "epoll", **keys}
    return functools.partial(Daemon, name, bench.nbserved(statistics_on), **keys)


def bare(bench, name, program):
    return functools.partial(Bare, name, bench.program(program))


# ---- a. CPU per request


def kernel_loop(bench):
    """A maker of the echo that runs in the kernel; nothing, and the reason, where there is none."""
    argv = [bench.program("echo_bpf"), bench.build / "tests/peers/echo_bpf.bpf.o"]
    if not argv[0].exists():
        bench.say("no BPF loop: this build is without libbpf or clang")
        return []
    make = functools.partial(Bare, "BPF loop", *argv)
    try:
        make().__exit__()
    except RuntimeError:
        said = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        bench.say(f"no BPF loop: {said.stderr.strip().splitlines()[-1]}")
        return []
    return [make]


def echo_servers(bench):
    makers = [
        bare(bench, "bare epoll", "echo_epoll"),
        bare(bench, "bare epoll again", "echo_epoll"),
        bare(bench, "bare io_uring", "echo_uring"),
    ]
    makers += kernel_loop(bench)
    makers += [daemon(bench, f"nbserved {e}", engine=e) for e in ENGINES]
    return makers + [functools.partial(Foreign, n, command) for n, command in bench.foreign]


def echo_cost_at(bench, connections, depth):
    """One load; measured again while the control says that it was too noisy."""
    best, best_noise = None, None
    for _ in range(1 if bench.quick else ATTEMPTS):
        with started(*echo_servers(bench)) as servers:
            results = slices(bench, servers, connections, depth, 60 if connections == 1 else 40)
        noise = abs(cost_ratio(results, "bare epoll again", "bare epoll")["median"] - 1)
        if best is None or noise < best_noise:
            best, best_noise = results, noise
        if noise <= NOISE_MAX:
            break
        bench.say(f"  (the control is off by {noise:.1%}: measured again)")
    return best


def yardstick(name):
    return "bare io_uring" if name in ("bare io_uring", "nbserved io_uring") else "bare epoll"


def echo_cost_table(bench, results):
    rows = []
    for name, r in results.items():
        cpu, latency = r["cpu_ns_per_request"], r["latency_ns"]
        own = cost_ratio(results, name, yardstick(name))
        rows.append([
            name,
            f"{cpu['median'] / 1000:.3f} [{cpu['q1'] / 1000:.3f} {cpu['q3'] / 1000:.3f}]",
            show_ratio(cost_ratio(results, name, "bare epoll")),
            show_ratio(own) if yardstick(name) != "bare epoll" and name != "bare io_uring" else "",
            f"{r['requests_per_s']['median']:.0f}",
            f"{latency['p50'] / 1000:.1f}",
            f"{latency['p99'] / 1000:.1f}",
        ])
    bench.table(
        ["", "CPU us/request", "to bare epoll", "to bare io_uring", "req/s", "p50 us", "p99 us"], rows
    )


def echo_cost(bench):
    results = {}
    for connections, depth in LOADS:
        load = f"{connections} x {depth}"
        bench.say(f"{load} ({REQUEST_BYTES} B)")
        r = results[load] = echo_cost_at(bench, connections, depth)
        echo_cost_table(bench, r)
        for engine, base in (("epoll", "bare epoll"), ("io_uring", "bare io_uring")):
            value = cost_ratio(r, f"nbserved {engine}", base)["median"]
            bench.target(f"a. {load}: {engine} to {base}", value, 1.05)
    for load, limit in (("100 x 1", 0.95), ("1000 x 1", 0.93)):
        value = cost_ratio(results[load], "nbserved io_uring", "nbserved epoll")["median"]
        bench.target(f"a. {load}: io_uring to our epoll", value, limit)
    return results


# ---- b. System calls per request


def wait_closed(server):
    """Until the listener has closed its connections; its stats."""
    while (stats := server.stats())["connections"]["open"]:
        time.sleep(0.01)
    return stats


def syscalls_of(bench, server, connections, depth):
    """System calls per request by name; opening and closing the connections is among them."""
    before = server.stats()
    drive(bench, [server], connections, depth, "-r", 5, "-t", 100 if bench.quick else 250)
    after = wait_closed(server)
    calls = {k: v - before["cost"]["syscalls"][k] for k, v in after["cost"]["syscalls"].items()}
    requests = (after["bytes_in"] - before["bytes_in"]) / REQUEST_BYTES
    return {k: v / requests for k, v in calls.items()}


def show_calls(calls):
    return " ".join(f"{k} {v:.3f}" for k, v in calls.items() if v >= 0.0005)


def strace_counts(text):
    """{system call: count} of strace -c's table."""
    rows = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)(?:\s+\d+)?\s+(\w+)$", text, re.M)
    return {name: int(count) for count, name in rows if name != "total"}


def cross_check(bench, server):
    """The daemon's own count of its worker's calls beside strace's of that thread."""
    worker = server.threads()[1]
    with tempfile.NamedTemporaryFile("r", prefix="nbserved-bench-") as report:
        tracer = subprocess.Popen(
            ["strace", "-q", "-c", "-o", report.name, "-p", str(worker)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        try:
            path = f"/proc/{server.pid}/task/{worker}/status"
            while "TracerPid:\t0\n" in open(path, encoding="ascii").read():
                if tracer.poll() is not None:
                    return None
                time.sleep(0.01)
            before = server.syscalls()
            drive(bench, [server], 10, 1, "-r", 1, "-n", 2000)
            wait_closed(server)
            after = server.syscalls()
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(10)
        traced = strace_counts(report.read())
    counted = {k: after[k] - before[k] for k in after if after[k] != before[k]}
    return {"counted": counted, "strace": traced,
            "difference": sum(traced.values()) - sum(counted.values())}


def cross_checks(bench):
    checks = {}
    for engine in ENGINES:
        with started(daemon(bench, engine, engine=engine)) as (server,):
            check = checks[engine] = cross_check(bench, server)
        if not check:
            bench.say(f"  {engine}: strace cannot attach here")
            continue
        total = sum(check["counted"].values())
        bench.say(f"  {engine}: we count {total}, strace {total + check['difference']}"
                  f"  (ours: {check['counted']}; strace: {check['strace']})")
        share = abs(check["difference"]) / total
        bench.target(f"b. {engine}: count beside strace's, difference", share, 0.01)
    return checks


def syscalls(bench):
    results, limits = {}, {(1, 1): 1.05, (100, 1): 0.2, (1000, 1): 0.05}
    rows = []
    for engine in ENGINES:
        for load in LOADS:
            with started(daemon(bench, engine, engine=engine)) as (server,):
                calls = syscalls_of(bench, server, *load)
            total, name = sum(calls.values()), f"{load[0]} x {load[1]}"
            results[f"{engine} {name}"] = calls
            rows.append([f"{engine} {name}", f"{total:.3f}", show_calls(calls)])
            if engine == "io_uring" and load in limits:
                bench.target(f"b. {name}: io_uring, system calls per request", total, limits[load])
    bench.table(["system calls per request", "", ""], rows)
    if shutil.which("strace"):
        bench.say("strace over the same requests (its start and end may add one or two):")
        results["strace"] = cross_checks(bench)
        bench.say()
    return results


# ---- c. User instructions


@contextlib.contextmanager
def one_connection(bench, server):
    """One connection echoes while the body runs."""
    argv = [bench.program("client"), "-c", "1", "-r", "1", "-t", "60000", server.target()]
    client = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, preexec_fn=prepare((CLIENT_CPU,)))
    try:
        time.sleep(0.2)  # past connecting; the count itself waits for turns
        yield
    finally:
        client.kill()
        client.wait()


def stepped(bench, maker):
    with started(maker) as (server,), one_connection(bench, server):
        argv = [bench.program("steps"), server.threads()[-1], bench.rounds(60)]
        try:
            return json.loads(run(argv, cpus=(SERVER_CPU,), seconds=60))
        except subprocess.CalledProcessError:
            return None


def callgrind(bench, connections):
    """Instructions per echo of the epoll listener: two runs that differ in requests only."""
    totals, counts = [], (2000, 6000)
    for requests in counts:
        with tempfile.TemporaryDirectory(prefix="nbserved-bench-") as directory:
            out = f"{directory}/out"
            prefix = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}"]
            with started(daemon(bench, "callgrind", prefix=prefix)) as (server,):
                drive(bench, [server], connections, 1, "-r", 1, "-n", requests)
            with open(out, encoding="ascii") as f:
                totals.append(int(re.search(r"^summary: (\d+)", f.read(), re.M)[1]))
    return (totals[1] - totals[0]) / (2 * (counts[1] - counts[0]))  # the warm-up is as long


def instructions(bench):
    makers = {"bare epoll": bare(bench, "x", "echo_epoll"),
              "bare io_uring": bare(bench, "x", "echo_uring")}
    makers |= {f"nbserved {e}": daemon(bench, "x", engine=e) for e in ENGINES}
    results = {name: stepped(bench, maker) for name, maker in makers.items()}
    rows = [[name, f"{r['mean'] - r['clock']:.0f}", f"{r['clock']:.0f}"] if r else [name, "-", "-"]
            for name, r in results.items()]
    bench.say("One connection, so one request in a turn: the most that an echo costs.  Counted by\n"
              "single steps of the thread on this kernel, libc included.")
    bench.table(["user instructions", "", "and to read the clock"], rows)
    for engine in ("epoll", "io_uring"):
        r = results[f"nbserved {engine}"]
        bench.target(f"c. {engine}: user instructions per echo", r and r["mean"] - r["clock"], 450)
    if shutil.which("valgrind"):
        results["callgrind epoll"] = {n: callgrind(bench, n) for n in (1, 100)}
        bench.say("callgrind, epoll (it cannot run a ring): " + ", ".join(
            f"{v:.0f} at {n}" for n, v in results["callgrind epoll"].items()) + "\n")
    return results


# ---- d. sqpoll and busy-poll


def polling_case(bench, keys, connections):
    """One server alone: one that spins would disturb the others."""
    cpus = ALL_CPUS if keys.get("sqpoll") == "yes" else (SERVER_CPU,)
    with started(daemon(bench, "x", cpus=cpus, **keys)) as (server,):
        runs = [drive(bench, [server], connections, 1, "-r", 5, "-t", 200)["x"]
                for _ in range(1 if bench.quick else 3)]
        runs.sort(key=lambda r: r["latency_ns"]["p50"])
        result = runs[len(runs) // 2]
        result["syscalls"] = syscalls_of(bench, server, connections, 1)
    return result


def polling_table(bench, cases, connections):
    results, rows = {}, []
    for name, keys in cases.items():
        r = results[name] = polling_case(bench, keys, connections)
        rows.append([
            name,
            f"{r['latency_ns']['p50'] / 1000:.1f}",
            f"{r['latency_ns']['p99'] / 1000:.1f}",
            f"{r['cpu_ns_per_request']['median'] / 1000:.2f}",
            f"{r['requests_per_s']['median']:.0f}",
            f"{sum(r['syscalls'].values()):.4f}",
        ])
    bench.table([f"{connections} connection{'s' * (connections > 1)}", "p50 us", "p99 us",
                 "CPU us/request", "req/s", "system calls/request"], rows)
    return results


def polling(bench):
    spin = {"busy-poll": "100us"}
    cases = {
        "epoll": {"engine": "epoll"},
        "epoll, busy-poll": {"engine": "epoll", **spin},
        "io_uring": {"engine": "io_uring"},
        "io_uring, busy-poll": {"engine": "io_uring", **spin},
        "io_uring, sqpoll": {"engine": "io_uring", "sqpoll": "yes"},
        "io_uring, sqpoll, busy-poll": {"engine": "io_uring", "sqpoll": "yes", **spin},
    }
    bench.say(f"busy-poll = {spin['busy-poll']}; servers with sqpoll may use all {len(ALL_CPUS)} CPUs, as"
              " the kernel's thread takes one")
    many = {k: v for k, v in cases.items() if k in ("io_uring",) or "sqpoll" in k}
    results = {"100": polling_table(bench, many, 100), "1": polling_table(bench, cases, 1)}
    calls = sum(results["100"]["io_uring, sqpoll"]["syscalls"].values())
    bench.target("d. 100 x 1: sqpoll, system calls per request", calls, 0.01)
    for base, name in (("epoll", "epoll, busy-poll"), ("io_uring", "io_uring, busy-poll"),
                       ("io_uring", "io_uring, sqpoll, busy-poll")):
        p50 = {n: results["1"][n]["latency_ns"]["p50"] for n in (base, name)}
        bench.target(f"d. 1 x 1: {name}: p50 to {base}'s", p50[name] / p50[base], 1.0)
    return results


# ---- f. What statistics cost


def statistics_cost(bench):
    results, rows = {}, []
    for connections, depth in ((100, 1), (100, 16)):
        load = f"{connections} x {depth}"
        makers = [daemon(bench, "epoll again", engine="epoll")]
        for engine in ("epoll", "io_uring"):
            makers += [daemon(bench, engine, engine=engine),
                       daemon(bench, f"{engine} without", False, engine=engine)]
        with started(*makers) as servers:
            r = results[load] = slices(bench, servers, connections, depth, 60)
        rows.append([f"{load}: control", show_ratio(cost_ratio(r, "epoll again", "epoll"))])
        for engine in ("epoll", "io_uring"):
            cost = cost_ratio(r, engine, f"{engine} without")
            rows.append([f"{load}: {engine}", show_ratio(cost)])
            bench.target(f"f. {load}: {engine}, CPU with statistics to without", cost["median"], 1.02)
    bench.table(["CPU per request, to a build without statistics", ""], rows)
    return results
