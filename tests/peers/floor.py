"""Echo servers that do no more than they must, and nbserved's engines beside them: see tests/vm/inside_floor.py."""

import functools
import json
import subprocess

from report import ratio
from servers import Bare, Daemon, run

ENGINES = ["epoll", "io_uring", "io_uring-poll"]
REQUEST_BYTES = 512


def drive(bench, servers, connections, depth, *options):
    """Runs the client against the servers; its results by server name."""
    argv = [bench.program("client"), "-s", REQUEST_BYTES, "-c", connections, "-d", depth]
    out = run([*argv, *options, *(s.target() for s in servers)])
    return {s["name"]: s for s in json.loads(out)["servers"]}


def cost_ratio(results, name, base):
    return ratio(results[name]["rounds_cpu_ns"], results[base]["rounds_cpu_ns"])


def bare(bench, name, program):
    return functools.partial(Bare, name, bench.program(program))


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
    return makers + [functools.partial(Daemon, f"nbserved {e}", bench.build / "nbserved", service="echo", engine=e)
                     for e in ENGINES]
