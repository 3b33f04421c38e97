"""Run by `make bench-vm BENCH_VM=floor`: echo beside bare loops, the least of which runs in the kernel.

In a VM whose clock counts instructions: CPU time is the instructions of the server's thread, in user space
and in the kernel.  System calls are counted by the kernel's tracepoint, of every server alike, in another
pass: tracing costs instructions."""
import re
import subprocess
import sys
from pathlib import Path

from virtual import BUILD, TOP

sys.path.insert(0, str(TOP / "tests/peers"))
import floor  # noqa: E402
from report import Bench, show_ratio  # noqa: E402
from servers import started  # noqa: E402

TRACING = Path("/sys/kernel/tracing")
CALLS = TRACING / "events/raw_syscalls/sys_enter"
LOADS = [(1, 1), (16, 1)]
REQUESTS = 600  # of each round, and of the one to warm up
ROUNDS = 3


def drive(bench, servers, load, rounds):
    return floor.drive(bench, servers, *load, "-r", rounds, "-n", REQUESTS)


def calls_for_each(bench, server, load):
    """System calls for each request, those for opening and closing the connections included."""
    (CALLS / "trigger").write_text("hist:keys=common_pid")
    try:
        drive(bench, [server], load, 1)
        seen = re.findall(r"common_pid: +(\d+) } hitcount: +(\d+)", (CALLS / "hist").read_text())
    finally:
        (CALLS / "trigger").write_text("!hist:keys=common_pid")
    return sum(int(count) for pid, count in seen if int(pid) == server.threads()[-1]) / (2 * REQUESTS)


def test_floor():
    bench = Bench(BUILD)
    if not CALLS.exists():
        subprocess.run(["mount", "-t", "tracefs", "tracefs", TRACING], check=True)
    makers = floor.echo_servers(bench)
    for load in LOADS:
        with started(*makers) as servers:
            costs = drive(bench, servers, load, ROUNDS)
            rows = [[server.name, f"{costs[server.name]['cpu_ns_per_request']['median']:.0f}",
                     show_ratio(floor.cost_ratio(costs, server.name, "bare epoll")),
                     f"{calls_for_each(bench, server, load):.3f}"] for server in servers]
        bench.say(f"\n{load[0]} x {load[1]}, {floor.REQUEST_BYTES} B, {REQUESTS} requests a round")
        bench.table(["", "instructions", "to bare epoll", "system calls"], rows)
