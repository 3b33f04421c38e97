#!/usr/bin/python3
"""The nbd service beside nbdkit: fio's nbd engine, 4 KiB, 32 requests in flight.

    nbd.py [--help]

One file, in the page cache, is served by all of them at once.  The last of ours runs twice: how far the two differ is
the noise.  The limit, "fio-alone", is fio with its io_uring engine on the file itself, without a server.
"""

import functools
import json
import shutil
import subprocess
import time

from report import compare, is_wanted, options_of
from servers import Daemon, Foreign, free_port, run, started

OURS = {"epoll, auto": "epoll", "io_uring, auto": "io_uring", "io_uring, auto again": "io_uring"}
BYTES = 256 << 20


class Target:
    """What fio is told; `server`: whose CPU time it costs.  Of the daemon's listeners the others sleep meanwhile."""

    def __init__(self, name, server, port=None, path="disk", options=None):
        self.name, self.cpu_ns = name, server.cpu_ns if server else lambda: 0
        self.options = options or ["--ioengine=nbd", f"--uri=nbd://127.0.0.1:{port}/{path}"]


def visit(what, seconds, target):
    before = target.cpu_ns()
    out = run(["fio", "--name=x", *target.options, "--output-format=json", "--time_based", f"--runtime={round(seconds * 1000)}ms",
               f"--size={BYTES}", "--randrepeat=0", f"--rw=rand{what}", "--bs=4k", "--iodepth=32"])
    time.sleep(0.1)  # the server sees its client go
    cpu_ns, side = target.cpu_ns() - before, json.loads(out[out.index("{"):])["jobs"][0][what]
    percentile = side["clat_ns"]["percentile"]
    return side["iops"], cpu_ns / side["total_ios"], {f"p{p} us": percentile[f"{p}.000000"] / 1e3 for p in (50, 99)}


def main():
    options = options_of(__doc__, 4, 1)
    path, ports = options.build / "bench-nbd.img", {name: free_port() for name in OURS}
    subprocess.run(["dd", "if=/dev/urandom", f"of={path}", "bs=1M", f"count={BYTES >> 20}", "status=none"], check=True)
    # A listener for each, as a file belongs to one process.
    sections = f"[export disk]\npath = {path}\n" + "".join(
        f"[listener l{port}]\naddress = 127.0.0.1:{port}\nservice = nbd\nexports = disk\nengine = {OURS[name]}\n"
        for name, port in ports.items())
    makers = [functools.partial(Daemon, "nbserved", options.build / "nbserved", sections)]
    if shutil.which("nbdkit"):
        makers.append(functools.partial(Foreign, "nbdkit", f"nbdkit -f -p {{port}} -i 127.0.0.1 file {path}"))
    try:
        with started(*makers) as (daemon, *others):
            targets = [Target(other.name, other, other.port, "") for other in others]
            targets += [Target(name, daemon, port) for name, port in ports.items()]
            # Else fio would begin by throwing the file out of the page cache, for all that follow.
            targets.append(Target("fio-alone", None, options=["--ioengine=io_uring", "--invalidate=0", f"--filename={path}"]))
            for what in ("read", "write"):
                if is_wanted(what, options):
                    compare(f"{what}s of 4 KiB, 32 in flight", targets, options, functools.partial(visit, what, options.seconds))
    finally:
        path.unlink()


if __name__ == "__main__":
    main()
