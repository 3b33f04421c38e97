#!/usr/bin/python3
"""Transport udp beside bare servers and those of others.

    udp.py [--help]

One generator, udp_load, visits each server.  On the loopback a sender pays for the receiver's part of the kernel.  A
bare server runs twice: how far those two differ is the noise.
"""

import contextlib
import functools
import json
import os
import shutil
import socket
import struct
import subprocess
import time

from report import compare, is_wanted, options_of
from servers import CLIENT_CPU, Bare, Daemon, Foreign, prepare, started

ENGINES = ["epoll", "io_uring", "io_uring-poll"]
LOADS = [(1, 1), (100, 1), (100, 16)]  # peers, datagrams in flight of each
SIZE = 1400  # bytes, of what is received
MERGED = 46  # datagrams of a send, where it merges
DATAGRAMS = {"transport": "udp", "buffer-size": "64K", "buffers": 1024}


class Other(Foreign):
    """Somebody else's server of datagrams."""

    def wait_port(self):
        end = time.monotonic() + 10
        while not self.is_bound():
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError(f"{self.name} does not start")
            time.sleep(0.05)

    def is_bound(self):
        with open("/proc/net/udp", encoding="ascii") as f:
            return any(int(line.split()[1].split(":")[1], 16) == self.port for line in list(f)[1:])


def load(options, mode, *words, descriptors=()):
    argv = [options.build / "bench/udp_load", "-t", round(options.seconds * 1000), *words,
            *(w for fd in descriptors for w in ("-F", fd)), mode]
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, preexec_fn=prepare((CLIENT_CPU,)), timeout=180,
                          check=True, pass_fds=descriptors)
    return json.loads(done.stdout)


# ---- echo


def echo_visit(options, peers, window, server):
    before = server.cpu_ns()
    out = load(options, "echo", "-p", server.port, "-P", peers, "-w", window)
    return (out["answered"] / out["seconds"], (server.cpu_ns() - before) / out["answered"],
            {"p50 us": out["p50_us"], "lost": out["lost"]})


def echo(options):
    makers = [functools.partial(Bare, name, options.build / "bench/udp_echo") for name in ("bare", "bare again")]
    makers += [functools.partial(Daemon, e, options.build / "nbserved", engine=e, service="echo", **DATAGRAMS) for e in ENGINES]
    if shutil.which("sockperf"):
        makers.append(functools.partial(Other, "sockperf server", "sockperf server -i 127.0.0.1 -p {port}"))
    with started(*makers) as servers:
        for peers, window in LOADS:
            compare(f"echo of 64 B, {peers} peers with {window} in flight", servers, options,
                    functools.partial(echo_visit, options, peers, window), "datagram")


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


def receive_visit(options, words, flows, server):
    control = Control(server.port, flows)
    before = server.cpu_ns()
    out = load(options, "send", "-s", SIZE, *words, descriptors=[u.fileno() for u in control.streams])
    time.sleep(0.2)
    cpu_ns, count = server.cpu_ns() - before, max(control.results(out["flows"]), 1)
    return count / out["seconds"], cpu_ns / count, {"lost %": 100 * (1 - count / out["sent"])}


def twins(name, program, engine):
    """A daemon with control and data of one port."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            with contextlib.suppress(OSError):
                udp.bind(tcp.getsockname())
                address = "127.0.0.1:%d" % tcp.getsockname()[1]
                break
    sections = f"[listener control]\nengine = {engine}\nservice = iperf3\naddress = {address}\n"
    return Daemon(name, program, sections, engine=engine, service="iperf3", address=address, **DATAGRAMS)


def receive(options):
    if not shutil.which("iperf3"):
        return
    makers = [functools.partial(Foreign, "iperf3 -s", "iperf3 -s -p {port}"),
              *(functools.partial(twins, e, options.build / "nbserved", e) for e in ENGINES)]
    with started(*makers) as servers:
        for flows in (1, 8):
            for words, said in ((["-g", MERGED], f"{MERGED} merged by the sender"), ([], "one by one")):
                compare(f"{SIZE} B received, {flows} flows, as many as go, {said}", servers, options,
                        functools.partial(receive_visit, options, words, flows), "datagram")


def main():
    options = options_of(__doc__, 5, 0.5)
    for part in (echo, receive):
        if is_wanted(part.__name__, options):
            part(options)


if __name__ == "__main__":
    main()
