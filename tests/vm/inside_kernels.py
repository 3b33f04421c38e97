"""Run by `make bench-kernels` in a VM of each kernel, whose clock counts instructions: what a request costs over
each engine.  The rows of `nbbench compare` go to /vm/KERNEL.jsonl, with the same labels on each, so that one kernel
can be held against another; what they call CPU time are instructions of the listener's thread, a nanosecond each, in
user space and in the kernel."""
import os
import platform
import subprocess
from pathlib import Path

BUILD = Path(os.environ["NBSERVED_BUILD"])
ROUNDS = "7"  # as many as a verdict takes
FIO = ("fio --name=f --thread --ioengine=nbd --uri={uri} --rw=randread --bs=4k --size=1m --time_based --runtime=50ms "
       "--output-format=json --iodepth=1")
LOADS = (  # name, listeners, generator
    ("echo, 1 client", "echo", "redis-benchmark -p {port} -t set -d 512 -c 1 -n 600 -q"),
    ("NBD, reads of 4 KiB", "nbd", FIO),
    ("UDP, 64 bytes", "echo,transport=udp", f"{BUILD}/bench/udp_load -p {{port}} -t 50 echo"),
    ("echo, 16 clients", "echo", "redis-benchmark -p {port} -t set -d 512 -c 16 -n 1200 -q"),
)


def test_kernels():
    kernel = platform.release()
    rows = Path(f"/vm/{kernel}.jsonl")
    rows.unlink(missing_ok=True)
    for name, listeners, generator in LOADS:
        subprocess.run([BUILD / "nbbench", "run", f"{listeners},engine=all", "--repeat", ROUNDS, "--wide", "--quiet",
                        "--save", rows, "--label", name, "--", *generator.split()], check=True)
