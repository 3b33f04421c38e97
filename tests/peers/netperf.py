#!/usr/bin/python3
"""The netperf service beside netperf's own server, which serves one client after the other, in one process.

    netperf.py [--help]
"""

import functools
import re
import shutil
import sys
import time

from report import compare, options_of
from servers import Daemon, Foreign, run, started

# The last of five or six numbers in a line; before it there may be warnings, behind it buffer sizes.
RESULT = re.compile(r"(?m)^ *(?:[\d.]+ +){4,5}([\d.]+) *$")


def visit(kind, seconds, server):
    before = server.cpu_ns()
    out = run(["netperf", "-H", "127.0.0.1", "-p", server.port, "-t", kind, "-l", seconds, "-P", 0])
    time.sleep(0.05)
    rate = float(RESULT.search(out)[1])
    return rate, (server.cpu_ns() - before) / (rate * seconds), {}


def main():
    options = options_of(__doc__, 4, 2)
    if not shutil.which("netserver"):
        sys.exit("netserver is not installed (Debian has it in non-free)")
    makers = [functools.partial(Foreign, "netserver", "netserver -D -f -p {port} -L 127.0.0.1 -4")]
    makers += [functools.partial(Daemon, engine, options.build / "nbserved", engine=engine, service="netperf",
                                 address=["127.0.0.1:0"] * 4) for engine in ("epoll", "io_uring", "io_uring-poll")]
    with started(*makers) as servers:
        for kind in ("TCP_RR", "TCP_CRR"):
            compare(kind, servers, options, functools.partial(visit, kind, round(options.seconds)), "transaction")


if __name__ == "__main__":
    main()
