#!/usr/bin/python3
"""Transport udp beside bare servers and those of others: CPU time and system calls per datagram.

    udp.py [--build DIR] [--rounds N] [--ms MS] [--parts echo,receive]

One generator, udp_load, visits each server in turn, and in reverse order in every other round; the
servers are pinned to one CPU and the generator to another.  CPU time is that of the server's process:
on the loopback a sender pays for the receiver's part of the kernel.  A bare server runs twice: how far
those two differ is the noise.
"""

import argparse
import contextlib
import functools
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import time

from report import alternate, quartiles, ratio, show_ratio
from servers import CLIENT_CPU, ROOT, SERVER_CPU, Bare, Daemon, Foreign, prepare, process_cpu_ns, started

ENGINES = ["epoll", "io_uring", "io_uring-poll"]
LOADS = [(1, 1), (100, 1), (100, 16)]  # peers, datagrams in flight of each
SIZE = 1400  # bytes, of what is received
MERGED = 46  # datagrams of a send, where it merges
FLOWS = 8


class Datagrams(Daemon):
    def __init__(self, name, program, engine, service="echo", **keys):
        super().__init__(name, program, engine=engine, service=service, transport="udp",
                         **{"buffer-size": "64K", "buffers": 1024, "max-connections": 10000, **keys})


class Other(Foreign):
    """Somebody else's server of datagrams."""

    def wait_port(self):
        end = time.monotonic() + 10
        while not rows_of(self.port):
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError(f"{self.name} does not start")
            time.sleep(0.05)


def rows_of(port):
    """Words of /proc/net/udp's lines of sockets of that port."""
    with open("/proc/net/udp", encoding="ascii") as f:
        rows = [line.split() for line in list(f)[1:]]
    return [row for row in rows if int(row[1].split(":")[1], 16) == port]


def load(options, mode, *words, descriptors=()):
    argv = [options.build / "bench/udp_load", *words, *(w for fd in descriptors for w in ("-F", fd)), mode]
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, preexec_fn=prepare((CLIENT_CPU,)), timeout=180,
                          check=True, pass_fds=descriptors)
    return json.loads(done.stdout)


def calls_of(server):
    return sum(server.syscalls().values()) if isinstance(server, Daemon) else 0


def show(results, base, control=None):
    """A line for each server: of each round (CPU ns per datagram, other figures to be shown)."""
    for name, rounds in results.items():
        cpu = quartiles([r[0] for r in rounds])
        versus = "" if name == base else show_ratio(ratio([r[0] for r in rounds], [r[0] for r in results[base]]))
        more = rounds[len(rounds) // 2][1]
        print(f"  {name:20} {cpu['median'] / 1000:7.3f} us CPU [{cpu['q1'] / 1000:.3f} {cpu['q3'] / 1000:.3f}]"
              f"  {versus:22} {more}{'  (the noise)' if name == control else ''}", flush=True)


# ---- echo


def echo_visit(options, peers, window, server):
    cpu, calls = process_cpu_ns(server.pid), calls_of(server)
    out = load(options, "echo", "-p", server.port, "-P", peers, "-w", window, "-t", options.ms)
    cpu, calls = process_cpu_ns(server.pid) - cpu, calls_of(server) - calls
    more = f"{out['answered'] / out['seconds']:7.0f}/s  p50 {out['p50_us']:.0f} us  lost {out['lost']}"
    if isinstance(server, Daemon):
        more += f"  {calls / out['answered']:.3f} system calls"
    return cpu / out["answered"], more


def echo(options):
    makers = [functools.partial(Bare, name, options.build / "bench/udp_echo", name.split()[0])
              for name in ("batch", "batch again", "plain")]
    makers += [functools.partial(Datagrams, f"nbserved {e}", options.build / "nbserved", e) for e in ENGINES]
    if shutil.which("sockperf"):
        makers.append(functools.partial(Other, "sockperf server", "sockperf server -i 127.0.0.1 -p {port}"))
        makers += [functools.partial(Datagrams, f"its service {e}", options.build / "nbserved", e, "sockperf")
                   for e in ENGINES[:2]]
    with started(*makers) as servers:
        for peers, window in LOADS:
            print(f"echo of 64 B, {peers} peers with {window} in flight; CPU per datagram, to `batch`:")
            results = alternate(servers, options.rounds, functools.partial(echo_visit, options, peers, window))
            show(results, "batch", "batch again")
            for base in ("plain", "sockperf server"):
                if base in results:
                    show_against(results, base)


def show_against(results, base):
    costs = {name: [r[0] for r in rounds] for name, rounds in results.items()}
    print(f"  to `{base}`: " + "; ".join(
        f"{name} {show_ratio(ratio(values, costs[base]))}" for name, values in costs.items()
        if name.startswith(("nbserved", "batch", "its")) and name != "batch again"), flush=True)


# ---- receive


class Control:
    """An iperf3 client's messages over TCP, for datagrams that udp_load sends."""

    def __init__(self, port, streams):
        while not self.accepted(port):  # iperf3's own has one test at a time
            time.sleep(0.1)
        self.send({"udp": True, "omit": 0, "time": 600, "parallel": streams, "len": SIZE, "bandwidth": 1, "pacing_timer": 1000,
                   "client_version": "3.12"})
        self.expect(10)
        self.streams = []
        for _ in range(streams):
            u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            u.settimeout(30)
            u.connect(("127.0.0.1", port))
            u.send(bytes.fromhex("39383736"))
            u.recv(4)
            u.settimeout(None)
            self.streams.append(u)
        self.expect(1, 2)

    def accepted(self, port):
        self.s = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.s.sendall(os.urandom(18).hex().encode() + b"\0")
        return self.s.recv(1) == bytes([9])

    def expect(self, *states):
        for state in states:
            got = self.s.recv(1)[0]
            assert got == state, f"state {got}, not {state}"

    def send(self, document):
        text = json.dumps(document).encode()
        self.s.sendall(struct.pack(">I", len(text)) + text)

    def results(self, packets):
        """(datagrams that have arrived, sent in all), by the server."""
        self.s.sendall(bytes([4]))
        self.expect(13)
        self.send({"cpu_util_total": 0, "cpu_util_user": 0, "cpu_util_system": 0, "sender_has_retransmits": 0, "streams": [
            {"id": i + 1 + (i > 0), "bytes": n * SIZE, "retransmits": -1, "jitter": 0, "errors": 0, "packets": n,
             "start_time": 0, "end_time": 1} for i, n in enumerate(packets)]})
        size, = struct.unpack(">I", self.s.recv(4, socket.MSG_WAITALL))
        streams = json.loads(self.s.recv(size, socket.MSG_WAITALL))["streams"]
        self.expect(14)
        self.s.sendall(bytes([16]))
        for u in self.streams:
            u.close()
        self.s.close()
        return sum(one["bytes"] for one in streams) / SIZE


def receive_iperf3(options, server, words, flows):
    control = Control(server.port, flows)
    cpu = process_cpu_ns(server.pid)
    out = load(options, "send", "-s", SIZE, "-t", options.ms, *words,
               descriptors=[u.fileno() for u in control.streams])
    time.sleep(0.2)
    cpu = process_cpu_ns(server.pid) - cpu
    return received(cpu, control.results(out["flows"]), out)


def received(cpu, count, out):
    lost = 1 - count / out["sent"]
    return cpu / max(count, 1), f"{out['sent'] / out['seconds'] / 1000:6.0f} k/s sent, {100 * lost:5.1f} % lost"


class Iperf3Twins(Daemon):
    """Control and data of one port."""

    def __init__(self, name, program, engine):
        port = twin_port()
        keys = f"engine = {engine}\nservice = iperf3\naddress = 127.0.0.1:{port}\n"
        super().__init__(name, program, sections=f"[listener control]\n{keys}", engine=engine, service="iperf3",
                         transport="udp", address=f"127.0.0.1:{port}", **{"buffer-size": "64K", "buffers": 1024})


def twin_port():
    while True:
        with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            with contextlib.suppress(OSError):
                udp.bind(tcp.getsockname())
                return tcp.getsockname()[1]


def receive(options):
    if not shutil.which("iperf3"):
        return
    base = "iperf3 -s"
    makers = [functools.partial(Foreign, base, "iperf3 -s -p {port}")]
    makers += [functools.partial(Iperf3Twins, f"iperf3 {e}", options.build / "nbserved", e) for e in ENGINES]
    with started(*makers) as servers:
        for flows in (1, FLOWS):
            for words, said in ((["-g", MERGED], f"{MERGED} merged by the sender"), ([], "one by one")):
                print(f"{SIZE} B received, {flows} flows, as many as go, {said}; CPU per datagram that arrives:")
                show(alternate(servers, options.rounds, lambda s, w=words, f=flows: receive_iperf3(options, s, w, f)), base)


PARTS = {"echo": echo, "receive": receive}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ms", type=int, default=500)
    parser.add_argument("--parts", default=",".join(PARTS))
    options = parser.parse_args()
    print(f"server on CPU {SERVER_CPU}, generator on CPU {CLIENT_CPU}; load {os.getloadavg()[0]:.1f}; medians and quartiles")
    for part in options.parts.split(","):
        PARTS[part](options)


if __name__ == "__main__":
    main()
