"""Run by test_vm_disks.py in the VM: the kernel's own NBD client, a file system on it, fio."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/system"))
from conftest import listener, requires, start_daemon, wait_until  # noqa: E402,F401

DEVICE = "/dev/nbd0"
FIO = ["fio", "--name=v", "--filename=/mnt/data", "--size=8M", "--bs=4k", "--rw=randwrite", "--direct=1",
       "--ioengine=libaio", "--iodepth=8", "--verify=crc32c", "--randseed=7", "--output=/dev/null"]


def must(*words):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, timeout=120)
    assert done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}"
    return done.stdout


def sectors():
    return int(Path("/sys/block/nbd0/size").read_text())


def connect(daemon):
    must("nbd-client", "127.0.0.1", daemon.port("nbd"), DEVICE, "-N", "disk", "-C", 2, "-b", 4096)
    assert sectors() * 512 == 128 << 20


def disconnect(daemon):
    must("nbd-client", "-d", DEVICE)
    wait_until(lambda: daemon.stats("nbd")["connections"]["open"] == 0, "disconnected")


@pytest.mark.parametrize("engine", ["epoll", "io_uring"])
def test_ext4_on_the_kernels_nbd(start_daemon, tmp_path, engine):
    requires("nbd-client")
    requires("mkfs.ext4")
    must("modprobe", "nbd", "nbds_max=1")
    disk = tmp_path / "disk"
    daemon = start_daemon(f"[export disk]\npath = {disk}\nsize = 128M\ncreate = yes\n"
                          + listener("nbd", "nbd", engine, exports="disk"))
    connect(daemon)
    assert daemon.stats("nbd")["connections"]["open"] == 2
    must("mkfs.ext4", "-q", DEVICE)
    must("mount", DEVICE, "/mnt")
    try:
        must(*FIO)
        os.sync()
    finally:
        must("umount", "/mnt")
    must("e2fsck", "-fn", DEVICE)
    disconnect(daemon)
    must("e2fsck", "-fn", disk)  # all of it reached the file
    connect(daemon)
    must("mount", DEVICE, "/mnt")
    try:
        must(*FIO, "--verify_only")
    finally:
        must("umount", "/mnt")
        disconnect(daemon)
    bad = [line for line in must("dmesg").splitlines() if "nbd0" in line and "error" in line.lower()]
    assert not bad, bad
