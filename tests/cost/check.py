#!/usr/bin/python3
"""The cost of an operation beside the number that the repository allows: `make bench-check`.

    check.py [--build DIR] [--kept FILE] [--only WORD,...] [--update]

User instructions (single steps of the worker's thread, without those that read the clock) and system
calls (the daemon's counters) of echo over TCP and UDP, HTTP, NBD and NVMe, one client that waits for each answer, or sends
several requests in one piece.  Both are counts, not times: they repeat on any machine, busy or not,
with the same compiler.  What is worse by more than 3 % in each of three attempts fails; who means it
changes the number in the same commit (--update does).
"""

import argparse
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
from servers import ROOT, SERVER_CPU, Daemon, prepare  # noqa: E402

import nvme_client  # noqa: E402: servers.py knows where it is

TOLERANCE = 0.03
SLACK = {"instructions": 2, "calls": 0.02}  # of small numbers 3 % is less than what a count varies by
WARM, STEPPED, COUNTED = 200, 24, 1024  # operations
ATTEMPTS = 3  # a worker that lost its CPU between two requests of a piece has made more calls for them
BLOCK, LARGE, EXPORT_BYTES = 4096, 128 * 1024, 1 << 20
READ, WRITE = 0, 1
NQN = "nqn.2014-08.org.nvmexpress:bench"
HTTP = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def receive(s, size):
    while size:
        size -= len(s.recv(size, socket.MSG_WAITALL)) or sys.exit("the server has closed the connection")


def connect(server):
    s = socket.create_connection(("127.0.0.1", server.port), 60)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


class Echo:
    service = "echo"

    def __init__(self, server, _kind):
        self.socket = connect(server)

    def go(self, depth):
        self.socket.sendall(bytes(512) * depth)
        receive(self.socket, 512 * depth)


class Udp:
    service = "echo"

    def __init__(self, server, _kind):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(60)
        self.socket.connect(("127.0.0.1", server.port))

    def go(self, depth):
        for _ in range(depth):
            self.socket.send(bytes(100))
        for _ in range(depth):
            self.socket.recv(100)


class Http:
    service = "http"

    def __init__(self, server, _kind):
        self.socket = connect(server)
        self.socket.sendall(HTTP)
        self.answer = len(self.socket.recv(65536))

    def go(self, depth):
        self.socket.sendall(HTTP * depth)
        receive(self.socket, self.answer * depth)


class Nbd:
    """Simple replies; block after block of a small file, which is in the page cache."""

    service = "nbd"

    def __init__(self, server, kind):
        self.socket = s = connect(server)
        (self.kind, self.bytes), self.block = kind, 0
        receive(s, 18)
        s.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 1, 4) + b"disk")
        receive(s, 10)

    def go(self, depth):
        out = b""
        for _ in range(depth):
            offset = self.block * self.bytes % EXPORT_BYTES
            out += struct.pack(">IHHQQI", 0x25609513, 0, self.kind, 7, offset, self.bytes)
            out += bytes(self.bytes) if self.kind == WRITE else b""
            self.block += 1
        self.socket.sendall(out)
        receive(self.socket, (16 if self.kind == WRITE else 16 + self.bytes) * depth)


class Nvme:
    """Block after block, as Nbd; 128 KiB of a write are asked for (R2T), 4 KiB come with the command."""

    service = "nvme"

    def __init__(self, server, kind):
        self.server = server
        self.host = nvme_client.Host(self, "nvme", NQN)
        (self.kind, self.bytes), self.block = kind, 0

    def connect(self, _name):
        return connect(self.server)

    def go(self, depth):
        for _ in range(depth):
            block = self.block * self.bytes % EXPORT_BYTES // BLOCK
            if self.kind == WRITE:
                self.host.write(block, bytes(self.bytes))
            else:
                self.host.read(block, self.bytes // BLOCK)
            self.block += 1


ENGINES = ("epoll", "io_uring", "io_uring-poll")
WORDS = (("read", READ), ("write", WRITE))
MEMORY = f"store = memory\nsize = {EXPORT_BYTES}\n"
CASES = {  # name: client, its argument, requests in one piece, keys
    **{f"echo {e}": (Echo, None, 1, {"engine": e}) for e in ENGINES},
    **{f"udp echo {e}": (Udp, None, 1, {"engine": e, "transport": "udp"}) for e in ENGINES},
    **{f"http {e}": (Http, None, 1, {"engine": e}) for e in ENGINES},
    # `auto` is not here: on a busy machine it may find that a call took long, and change its way.
    **{f"{make.service} {word} {e}": (make, (kind, BLOCK), 1, {"engine": e, "store": "blocking"})
       for make, engines in ((Nbd, ENGINES), (Nvme, ENGINES[:2])) for e in engines for word, kind in WORDS},
    **{f"nbd {word} {e} x 8": (Nbd, (kind, BLOCK), 8, {"engine": e, "store": store})
       for e, store in (("epoll", "blocking"), ("io_uring", "io_uring")) for word, kind in WORDS},
    **{f"{make.service} {word} 128K": (make, (kind, LARGE), 1, {"engine": "epoll", "store": "blocking"})
       for make in (Nbd, Nvme) for word, kind in WORDS},
    **{f"nbd {word} memory": (Nbd, (kind, BLOCK), 1, {"engine": "epoll", "disk": MEMORY + "fill = yes\n"})
       for word, kind in WORDS},
}


def stepped(options, server, client, depth):
    """User instructions per operation; None: this host does not allow stepping."""
    argv = [options.build / "bench/steps", str(server.threads()[-1])]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True,
                          preexec_fn=prepare((SERVER_CPU,))) as steps:
        if steps.stdout.readline() != "ready\n":
            return None
        for _ in range(0, STEPPED, depth):
            client.go(depth)
        server.asleep()
        steps.send_signal(signal.SIGTERM)
        return json.loads(steps.communicate()[0])["instructions"] / STEPPED


class Counted(Daemon):
    """A daemon with one worker: its thread is the last."""

    def threads(self):
        tasks = pathlib.Path(f"/proc/{self.pid}/task").iterdir()
        return [int(t.name) for t in tasks if (t / "comm").read_text().startswith("bench")]

    def asleep(self):
        """Until its worker waits for input in the kernel."""
        path = pathlib.Path(f"/proc/{self.pid}/task/{self.threads()[0]}/wchan")
        while path.read_text() in ("0", "", "ptrace_stop"):
            time.sleep(0.001)


def measure(options, case):
    make, kind, depth, keys = case
    with tempfile.TemporaryDirectory(dir="/dev/shm" if options.memory else options.build) as directory:
        disk = pathlib.Path(directory) / "disk"
        disk.write_bytes(bytes(EXPORT_BYTES))
        if make in (Nbd, Nvme):
            keys = {**keys, "exports": "disk"}
            keys["sections"] = "[export disk]\n" + keys.pop("disk", f"path = {disk}\n")
        if make is Nvme:
            keys["nqn"] = NQN
        with Counted("x", options.build / "nbserved", service=make.service, **keys) as server:
            client = make(server, kind)
            for _ in range(0, WARM, depth):
                client.go(depth)
            before = sum(server.syscalls().values())
            for _ in range(0, COUNTED, depth):
                client.go(depth)
            calls = (sum(server.syscalls().values()) - before) / COUNTED
            instructions = stepped(options, server, client, depth)  # which ends the server
    return {"instructions": instructions, "calls": calls}


def compiler(build):
    """With which instructions were counted: other compilers make others."""
    command = (build / "flags").read_text().split()[0]
    version = subprocess.run([command, "-dumpversion"], capture_output=True, text=True, check=True)
    return f"{pathlib.Path(command).name} {version.stdout.split('.')[0].strip()}"


def read_kept(path):
    """(compiler, {case: figures})"""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    rows = (re.fullmatch(r"(.+?) {2,}([\d.]+) +([\d.]+)", line).groups() for line in lines[1:])
    return lines[0], {name: {"instructions": float(i), "calls": float(c)} for name, i, c in rows}


def worse(seen, kept, what):
    return seen[what] > kept[what] * (1 + TOLERANCE) + SLACK[what] * (what == "calls")


def judge(name, seen, kept, countable):
    """The figures of a case that differ too much, as lines."""
    wrong = []
    for what in ("instructions", "calls"):
        if seen[what] is None or (what == "instructions" and not countable):
            continue
        if not kept:
            wrong.append(f"{name}: no {what} are kept")
        elif worse(seen, kept, what):
            wrong.append(f"{name}: {seen[what]:.3f} {what}, kept {kept[what]:.3f}: "
                         f"{seen[what] / kept[what] - 1:+.1%}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--kept", type=pathlib.Path, default=ROOT / "tests/cost/costs.txt")
    parser.add_argument("--only", default="", help="cases whose name has one of these words")
    parser.add_argument("--update", action="store_true", help="keep what is measured now")
    options = parser.parse_args()
    # Beside the server client and server race, and the calls for a piece depend on who is faster.
    os.sched_setaffinity(0, {SERVER_CPU})
    options.build = options.build.resolve()
    options.memory = pathlib.Path("/dev/shm").is_dir()
    kept_compiler, kept = read_kept(options.kept)
    this, words, wrong = compiler(options.build), options.only.split(","), []
    if this != kept_compiler:
        print(f"instructions are kept for {kept_compiler}, this build is of {this}: not compared")
    for name, case in CASES.items():
        if not any(word in name for word in words):
            continue
        faults = []
        for _ in range(ATTEMPTS):
            seen = measure(options, case)
            faults = judge(name, seen, kept.get(name), this == kept_compiler)
            if not faults:
                break
        show = "-" if seen["instructions"] is None else f"{seen['instructions']:.1f}"
        print(f"  {name:34} {show:>9} {seen['calls']:8.3f}", flush=True)
        wrong += faults
        if seen["instructions"] is not None:
            kept[name] = seen
    if options.update:  # the cases that ran
        head = [line for line in options.kept.read_text().splitlines() if line.startswith("#")]
        rows = [f"{n:34} {kept[n]['instructions']:9.1f} {kept[n]['calls']:8.3f}" for n in CASES if n in kept]
        options.kept.write_text("\n".join([*head, this, *rows]) + "\n")
        return 0
    print("\n".join(wrong) if wrong else "nothing costs more than is kept")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
