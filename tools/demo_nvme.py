"""NVMe for tools/demo.py: disks of this kernel's initiator, where it has one and may connect."""

import os
import pathlib
import shutil
import subprocess
import time

FABRICS = pathlib.Path("/dev/nvme-fabrics")
WAIT_S = 10  # for a namespace after its connect


def run(*words):
    return subprocess.run(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )  # fmt: skip


def missing():
    """Why there is no row of NVMe; None: there is."""
    if os.geteuid() != 0:
        return "to connect the kernel's initiator takes root"
    if not shutil.which("nvme"):
        return "nvme is not installed (make deps DEPS=vm)"
    if not shutil.which("modprobe") or run("modprobe", "nvme-tcp").returncode or not FABRICS.exists():
        return "this kernel has no module nvme-tcp"
    return None


def found(name):
    """The block device of a subsystem; None: it is not there yet."""
    for block in pathlib.Path("/sys/block").glob("nvme*n1"):
        if "c" in block.name:  # a path to a disk, as nvme0c0n1: it cannot be opened
            continue
        try:
            is_ours = (block / "device/subsysnqn").read_text().strip() == name
            if is_ours and int((block / "size").read_text()) > 0:
                return f"/dev/{block.name}"
        except OSError:  # one that goes
            continue
    return None


class Disks:
    """Those that are connected, by the words that `nbctl status` tells of their listeners."""

    def __init__(self):
        self.names = []

    def connect(self, words):
        """The disk's device; or why there is none, as ValueError."""
        name = words[words.index("-n") + 1]
        self.names.append(name)
        done = run(*words)
        deadline = time.monotonic() + WAIT_S
        while done.returncode == 0 and time.monotonic() < deadline:
            if found(name):
                return found(name)
            time.sleep(0.05)
        raise ValueError(f"{' '.join(words)}: {done.stdout.strip() or 'no disk has come'}")

    def disconnect(self):
        while self.names:
            run("nvme", "disconnect", "-n", self.names.pop())
