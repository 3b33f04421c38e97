"""Run by `make bench-vm`, NVMe: nbserved beside the kernel's own target, in a VM whose one CPU counts
instructions, one a nanosecond.  Nobody sleeps long under load, so 1/IOPS is all that client, server and
kernel execute for an operation, and what two servers differ by is theirs."""
import contextlib
import json
import os
from pathlib import Path

import pytest

from inside_nvme import HOST, NQN, WAYS, config, must, namespaces, where
from inside_rdma import devices, start_daemon, wait_until  # noqa: F401

TARGET = "nqn.2026-11.example.lab:kernel"
CONFIGFS = Path("/sys/kernel/config")
PORTS = {"tcp": 4520, "rxe": 4521, "siw": 4522}
SIZE = 64 << 20
SECONDS = 0.3


@pytest.fixture(scope="module")
def nvmet(tmp_path_factory):
    """The kernel's target, of a file as ours is, over TCP and RDMA; the folder of both.  It is a tmpfs, as
    the kernel takes the file's block size, and overlayfs has none."""
    must("modprobe", "-a", "nvmet-tcp", "nvmet-rdma", "nvme-tcp", "nvme-rdma", "configfs")
    if not (CONFIGFS / "nvmet").exists():
        must("mount", "-t", "configfs", "config", CONFIGFS)
    folder = tmp_path_factory.mktemp("nvmet")
    must("mount", "-t", "tmpfs", "none", folder)
    disk = folder / "kernel"
    fill(disk)
    namespace = CONFIGFS / "nvmet/subsystems" / TARGET / "namespaces/1"
    namespace.mkdir(parents=True)
    (namespace.parents[1] / "attr_allow_any_host").write_text("1")
    for key, value in {"buffered_io": "1", "device_path": str(disk), "enable": "1"}.items():
        (namespace / key).write_text(value)
    for way, number in PORTS.items():
        port = CONFIGFS / f"nvmet/ports/{number}"
        port.mkdir(parents=True)
        transport, address = WAYS[way]
        for key, value in {"trtype": transport, "adrfam": "ipv4", "traddr": address, "trsvcid": str(number)}.items():
            (port / f"addr_{key}").write_text(value)
        os.symlink(namespace.parents[1], port / "subsystems" / TARGET)
    return folder


def fill(disk):
    must("dd", "if=/dev/urandom", f"of={disk}", "bs=1M", f"count={SIZE >> 20}", "conv=notrunc")


@contextlib.contextmanager
def namespace(where, name):
    must("nvme", "connect", *where, "-n", name, "-q", HOST, "-i", 1, "-k", 30)
    try:
        yield Path("/dev") / wait_until(namespaces, "the namespace is there")[0].name
    finally:
        must("nvme", "disconnect", "-n", name)
        wait_until(lambda: not list(Path("/sys/block").glob("nvme*n*")), "the namespace is gone")


def fio(device, direction, block, depth):
    """ns for each operation"""
    out = must("fio", "--name=f", f"--filename={device}", "--ioengine=libaio", "--direct=1", f"--rw=rand{direction}",
               f"--bs={block}", f"--iodepth={depth}", "--size=32m", "--time_based", f"--runtime={SECONDS * 1000:.0f}ms",
               "--output-format=json")
    done = json.loads(out[out.index("{"):])["jobs"][0][direction]
    return done["runtime"] * 1e6 / done["total_ios"]


JOBS = [("read", "4k", 1), ("read", "4k", 32), ("write", "4k", 32), ("read", "128k", 16), ("write", "128k", 16)]


@pytest.mark.parametrize("way", list(PORTS))
def test_kernel_initiator(start_daemon, nvmet, way):
    (nvmet / "own").mkdir(exist_ok=True)
    daemon = start_daemon(config(nvmet / "own", way, "io_uring", store="io_uring"))
    fill(nvmet / "own/disk")
    transport, address = WAYS[way]
    with namespace(["-t", transport, "-a", address, "-s", PORTS[way]], TARGET) as device:
        theirs = [fio(device, *job) for job in JOBS]
    with namespace(where(daemon, way), NQN) as device:
        ours = [fio(device, *job) for job in JOBS]
    print(f"\n{f'the kernel initiator, {way}':26}{'nvmet us':>10}{'nbserved us':>12}  ratio, < 1 is better")
    for job, their, our in zip(JOBS, theirs, ours):
        print(f"  {' '.join(map(str, job)):24}{their / 1e3:10.1f}{our / 1e3:12.1f}  {our / their:.2f}", flush=True)
