#!/usr/bin/python3
"""The iperf3 service beside iperf3's own server: receiving in bulk.

    iperf3.py [--help]
"""

import functools
import json
import time

from report import compare, options_of
from servers import Daemon, Foreign, run, started


def visit(streams, seconds, server):
    before = server.cpu_ns()
    out = run(["iperf3", "-c", "127.0.0.1", "-p", server.port, "-J", "-t", seconds, "-P", streams])
    received = json.loads(out)["end"]["sum_received"]
    time.sleep(0.05)
    return received["bytes"] / 1e9 / received["seconds"], (server.cpu_ns() - before) / received["bytes"] * 1e9, {}


def main():
    options = options_of(__doc__, 4, 1)
    own = functools.partial(Foreign, "iperf3 -s", "iperf3 -s -p {port}")
    again = functools.partial(Foreign, "iperf3 -s again", "iperf3 -s -p {port}")
    makers = [functools.partial(Daemon, engine, options.build / "nbserved", engine=engine, service="iperf3")
              for engine in ("epoll", "io_uring", "io_uring-poll")]
    with started(own, again, *makers) as servers:
        for streams in (1, 8):
            compare(f"receiving, -P {streams}", servers, options, functools.partial(visit, streams, round(options.seconds)), "GB")


if __name__ == "__main__":
    main()
