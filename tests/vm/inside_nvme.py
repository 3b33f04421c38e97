"""What test_rdma.py runs in the same VM: the kernel's NVMe/TCP initiator, file systems on it, fio; what
happens to its I/O when the daemon reloads or restarts."""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/system"))
from conftest import listener, requires, start_daemon, wait_until  # noqa: E402,F401
from test_kept import KEEP, start_keeping  # noqa: E402

NQN = "nqn.2026-11.example.lab:vm"
RESET = "resetting controller due to persistent internal error"  # what a daemon that drains asks for
FIO = ["fio", "--name=v", "--bs=4k", "--direct=1", "--iodepth=8", "--verify=crc32c", "--randseed=7",
       "--output=/dev/null"]


def must(*words, status=0):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, timeout=120)
    assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}"
    return done.stdout


@pytest.fixture(autouse=True)
def kernel_log():
    """What the kernel has said of nvme since the test began; it may say nothing of errors."""
    requires("nvme")
    must("modprobe", "nvme-tcp")
    must("dmesg", "-C")

    def log():
        return [line for line in must("dmesg").splitlines() if "nvme" in line]

    yield log
    bad = [line for line in log() if RESET not in line
           and any(word in line.lower() for word in ("error", "timeout", "reconnect"))]
    assert not bad, bad


def section(tmp_path, **keys):
    lines = [f"{key} = {value}" for key, value in {"size": "64M", **keys}.items()]
    return f"[export disk]\npath = {tmp_path}/disk\ncreate = yes\n" + "\n".join(lines) + "\n"


def connect(port, *options):
    """The namespace's block device.  The VM is slow, so its host has more patience than usual."""
    must("nvme", "connect", "-t", "tcp", "-a", "127.0.0.1", "-s", port, "-n", NQN, "-i", 2, "-k", 30, *options)

    def found():
        return [path for path in Path("/sys/block").glob("nvme*n1") if int((path / "size").read_text())]

    return Path("/dev") / wait_until(found, "the namespace is there")[0].name


def disconnect():
    must("nvme", "disconnect", "-n", NQN)
    wait_until(lambda: not list(Path("/sys/block").glob("nvme*n1")), "the namespace is gone")


def test_the_kernel_finds_out_everything(start_daemon, tmp_path):
    daemon = start_daemon(section(tmp_path) + listener("nvme", "nvme", exports="disk", nqn=NQN))
    port = daemon.port("nvme")
    assert NQN in must("nvme", "discover", "-t", "tcp", "-a", "127.0.0.1", "-s", port)
    device = connect(port)
    try:
        listed = json.loads(must("nvme", "list", "-o", "json"))["Devices"][0]
        assert listed["ModelNumber"] == "nbserved" and listed["PhysicalSize"] == 64 << 20
        assert NQN in must("nvme", "id-ctrl", device)
        assert "lbads:12" in must("nvme", "id-ns", device)
        uuid = must("nvme", "ns-descs", device).split("uuid    : ")[1][:36]
        assert Path(f"/sys/block/{device.name}/uuid").read_text().strip() == uuid
        for command in ["smart-log", "effects-log", "error-log"]:
            must("nvme", command, device)
        for feature in [6, 7, 0xB, 0xF]:
            must("nvme", "get-feature", device, "-f", feature)
        assert "0x4080" in must("nvme", "io-passthru", device, "-n", 1, "-o", 2, "-r", "--cdw10=0xffffff",
                                "-l", 4096, status=1)
        must("nvme", "write-zeroes", device, "-s", 0, "-c", 255)
        must("nvme", "flush", device)
        must("blkdiscard", device)
        must("nvme", "reset", f"/dev/{device.name[:-2]}")
        must("dd", f"if={device}", "of=/dev/null", "bs=64k", "count=4", "iflag=direct")
    finally:
        disconnect()
    wait_until(lambda: daemon.stats("nvme")["connections"]["open"] == 0, "disconnected")


@pytest.mark.parametrize("engine,options", [
    ("epoll", []), ("io_uring", ["-g", "-G"]), ("io_uring-poll", ["--disable-sqflow"])])
def test_data_is_what_was_written(start_daemon, tmp_path, engine, options):
    daemon = start_daemon(section(tmp_path)
                          + listener("nvme", "nvme", engine, exports="disk", nqn=NQN, workers=2))
    device = connect(daemon.port("nvme"), *options)
    try:
        must(*FIO, f"--filename={device}", "--ioengine=libaio", "--rw=randrw", "--size=2m")
        must(*FIO, f"--filename={device}", "--ioengine=libaio", "--rw=randwrite", "--size=4m", "--bs=256k")
    finally:
        disconnect()


def test_file_systems(start_daemon, tmp_path):
    requires("mkfs.ext4")
    requires("mkfs.xfs")
    disk = tmp_path / "disk"
    daemon = start_daemon(section(tmp_path, size="320M")
                          + listener("nvme", "nvme", "io_uring", exports="disk", nqn=NQN, workers=2))
    for make, check in [(["mkfs.ext4", "-q", "-F"], ["e2fsck", "-fn"]),
                        (["mkfs.xfs", "-q", "-f"], ["xfs_repair", "-n"])]:
        device = connect(daemon.port("nvme"))
        try:
            must(*make, device)
            must("mount", device, "/mnt")
            must(*FIO, "--filename=/mnt/data", "--ioengine=libaio", "--rw=randwrite", "--size=1m")
            must("cp", "-r", "/usr/include/asm-generic", "/mnt/")
            must("fallocate", "-l", "1M", "/mnt/zeroes")
            must("fallocate", "-z", "-o", 0, "-l", "1M", "/mnt/zeroes")
            must("rm", "-r", "/mnt/asm-generic")
            must("fstrim", "/mnt")
            must("umount", "/mnt")
            must(*check, device)
        finally:
            subprocess.run(["umount", "/mnt"], stderr=subprocess.DEVNULL)
            disconnect()
        must(*check, disk)  # all of it reached the file


def under_load(device, change):
    """The longest that fio waited, in seconds, for I/O that went on while change() ran."""
    report = f"/tmp/fio-{time.monotonic()}"
    fio = subprocess.Popen([*FIO[:-1], f"--filename={device}", "--ioengine=libaio", "--rw=randwrite",
                            "--size=8m", "--time_based", "--runtime=5", "--verify=0",
                            "--output-format=json", f"--output={report}"])
    written = Path(f"/sys/block/{device.name}/stat")
    wait_until(lambda: int(written.read_text().split()[4]) > 50, "fio writes")
    change()
    assert fio.wait(120) == 0
    job = json.loads(Path(report).read_text()[Path(report).read_text().index("{"):])["jobs"][0]
    assert job["error"] == 0
    return job["write"]["clat_ns"]["max"] / 1e9


def test_a_reload_and_a_restart_under_load(start_daemon, tmp_path, kernel_log):
    """The host is told, and comes back at once: without that it would wait for ten seconds."""
    probe = listener("probe")
    port = start_daemon(probe).port("probe") + 1
    text = section(tmp_path) + listener("nvme", "nvme", "io_uring", exports="disk", nqn=NQN,
                                        address=f"127.0.0.1:{port}")
    first = start_keeping(start_daemon, text)
    device = connect(port)
    second = []

    def reload():
        first.write_config(text.replace("service = nvme\n", "service = nvme\nbuffers = 512\n"))
        first.call("Reload")

    def restart():
        first.process.send_signal(signal.SIGTERM)
        first.process.wait(60)
        first.notified()
        second.append(start_daemon(text, env=KEEP, inherit=first.store))

    try:
        for change in [reload, restart]:
            must("dmesg", "-C")
            gap = under_load(device, change)
            print(f"{change.__name__}: the longest write took {gap:.2f} s")
            assert any(RESET in line for line in kernel_log())
            assert not any("econnecting in" in line for line in kernel_log())
        must(*FIO, f"--filename={device}", "--ioengine=libaio", "--rw=randwrite", "--size=1m")
        assert second[0].stats("nvme")["connections"]["open"] > 0
    finally:
        disconnect()
        os.sync()
