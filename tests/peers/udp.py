#!/usr/bin/python3
"""Transport udp beside bare servers and those of others: CPU time and system calls per datagram.

    udp.py [--build DIR] [--rounds N] [--ms MS] [--parts echo,receive,loss,flood]

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

from report import quartiles, ratio, show_ratio
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


def drops_at(port):
    return sum(int(row[-1]) for row in rows_of(port))


def load(options, mode, *words, descriptors=()):
    argv = [options.build / "bench/udp_load", *words, *(w for fd in descriptors for w in ("-F", fd)), mode]
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, preexec_fn=prepare((CLIENT_CPU,)), timeout=180,
                          check=True, pass_fds=descriptors)
    return json.loads(done.stdout)


def calls_of(server):
    return sum(server.syscalls().values()) if isinstance(server, Daemon) else 0


def alternate(servers, rounds, visit):
    """{name: [visit's result of each round]}"""
    results = {server.name: [] for server in servers}
    for i in range(rounds):
        for server in servers if i % 2 == 0 else reversed(servers):
            results[server.name].append(visit(server))
    return results


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
    out = load(options, "send", "-s", SIZE, "-t", options.ms, "-i", 3, *words,
               descriptors=[u.fileno() for u in control.streams])
    time.sleep(0.2)
    cpu = process_cpu_ns(server.pid) - cpu
    return received(cpu, control.results(out["flows"]), out)


def receive_iperf2(options, server, words, flows):
    """A server of iperf 2, whose sockets' drops the kernel tells; or discard, which counts what it has got."""
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(flows)]
        for u in streams:
            u.connect(("127.0.0.1", server.port))
            u.send(struct.pack(">IIII", 0, 1, 1, 0).ljust(SIZE, b"x"))
            time.sleep(0.05)  # each becomes a thread of iperf's
        ours = isinstance(server, Daemon)
        before = server.stats()["udp"]["in"] if ours else -drops_at(server.port)
        cpu = process_cpu_ns(server.pid)
        out = load(options, "send", "-s", SIZE, "-t", options.ms, "-i", 2, *words, descriptors=[u.fileno() for u in streams])
        time.sleep(0.2)
        cpu = process_cpu_ns(server.pid) - cpu
        count = server.stats()["udp"]["in"] - before if ours else out["sent"] - (drops_at(server.port) + before)
        for u in streams:  # the end of it
            for _ in range(3):
                u.send(struct.pack(">iIII", -(1 << 31) + 1, 1, 1, 0xffffffff).ljust(SIZE, b"x"))
    return received(cpu, count, out)


def received(cpu, count, out):
    lost = 1 - count / out["sent"]
    return cpu / max(count, 1), f"{out['sent'] / out['seconds'] / 1000:6.0f} k/s sent, {100 * lost:5.1f} % lost", lost


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


def receivers(options):
    """{name of theirs: (makers, visit)}"""
    program, found = options.build / "nbserved", {}
    if shutil.which("iperf3"):
        found["iperf3 -s"] = ([functools.partial(Foreign, "iperf3 -s", "iperf3 -s -p {port}")] + [
            functools.partial(Iperf3Twins, f"iperf3 {e}", program, e) for e in ENGINES], receive_iperf3)
    if shutil.which("iperf"):
        found["iperf -s -u"] = ([functools.partial(Other, "iperf -s -u", "iperf -s -u -p {port}")] + [
            functools.partial(Datagrams, f"discard {e}", program, e, "discard") for e in ENGINES], receive_iperf2)
    return found


def receive(options):
    for base, (makers, visit) in receivers(options).items():
        with started(*makers) as servers:
            for flows in options.flows:
                for words, said in ((["-g", MERGED], f"{MERGED} merged by the sender"), ([], "one by one")):
                    print(f"{SIZE} B received, {flows} flows, as many as go, {said}; CPU per datagram that arrives:")
                    show(alternate(servers, options.rounds, lambda s, w=words, f=flows, v=visit: v(options, s, w, f)), base)


def loss(options):
    for makers, visit in receivers(options).values():
        with started(*makers) as servers:
            for rate in (50_000, 100_000, 200_000):
                results = alternate(servers, options.rounds, lambda s, r=rate, v=visit: v(options, s, ["-r", r], 1))
                print(f"{SIZE} B, {rate} datagrams/s offered, one by one; lost of them, median and worst:")
                for name, rounds in results.items():
                    lost = [r[2] for r in rounds]
                    print(f"  {name:20} {100 * quartiles(lost)['median']:6.2f} %  {100 * max(lost):6.2f} %", flush=True)


# ---- flood


def memory_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith("Private_"))


def first_of_all(pid):
    """Otherwise other work of the host is measured."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError):
            os.sched_setscheduler(int(tid), os.SCHED_FIFO, os.sched_param(1))


def polite(options, server, ms):
    """A client that sends a datagram each millisecond, until the end is read from it."""
    argv = [options.build / "bench/udp_load", "-p", server.port, "-t", ms, "-G", 1000, "echo"]
    process = subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE, preexec_fn=prepare((CLIENT_CPU,)))
    first_of_all(process.pid)
    return process


def told_by(process):
    return json.loads(process.communicate(timeout=120)[0])


def flood_of(options, server):
    """Rounds without the flood, then with the next of its sources."""
    first_of_all(server.pid)
    each, rounds = options.sources // options.slices, []
    told_by(polite(options, server, 1000))
    before, cpu = memory_kib(server.pid), process_cpu_ns(server.pid)
    for i in range(options.slices):
        quiet = told_by(polite(options, server, 900 * each // options.flood))
        beside = polite(options, server, 900 * each // options.flood)
        out = load(options, "forge", "-p", server.port, "-P", each, "-f", i * each, "-r", options.flood)
        rounds.append((quiet, told_by(beside), out))
    cpu, after = process_cpu_ns(server.pid) - cpu, memory_kib(server.pid)
    more = ""
    if isinstance(server, Daemon):
        udp = server.stats()["udp"]
        more = f"; evicted {udp['evicted']}, overflowed {udp['overflowed']}"
    print(f"  {server.name:14} private memory {before} KiB, then {after} KiB; {cpu / options.sources / 1000:.2f} us CPU for each"
          f" source{more}; lost {sum(q['lost'] for q, _, _ in rounds)}, beside it {sum(d['lost'] for _, d, _ in rounds)}")
    for figure in ("p50_us", "p99_us"):
        apart, beside = ([r[i][figure] for r in rounds] for i in (0, 1))
        print(f"    {figure[:3]} {quartiles(apart)['median']:.0f} us, beside it {quartiles(beside)['median']:.0f} us,"
              f" {show_ratio(ratio(beside, apart))}", flush=True)


def flood(options):
    print(f"{options.sources} sources that send a datagram each to echo, {options.flood} a second, and how long one who"
          " sends each ms waits:")
    makers = [functools.partial(Bare, "batch", options.build / "bench/udp_echo", "batch")]
    makers += [functools.partial(Datagrams, e, options.build / "nbserved", e) for e in ENGINES]
    for maker in makers:
        with started(maker) as (server,):
            flood_of(options, server)


PARTS = {"echo": echo, "receive": receive, "loss": loss, "flood": flood}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ms", type=int, default=500)
    parser.add_argument("--flood", type=int, default=50_000, help="forged datagrams per second")
    parser.add_argument("--sources", type=int, default=1_000_000)
    parser.add_argument("--slices", type=int, default=10, help="in which they come, each beside a client")
    parser.add_argument("--flows", type=int, nargs="+", default=[1, FLOWS])
    parser.add_argument("--parts", default=",".join(PARTS))
    options = parser.parse_args()
    print(f"server on CPU {SERVER_CPU}, generator on CPU {CLIENT_CPU}; load {os.getloadavg()[0]:.1f}; medians and quartiles")
    for part in options.parts.split(","):
        PARTS[part](options)


if __name__ == "__main__":
    main()
