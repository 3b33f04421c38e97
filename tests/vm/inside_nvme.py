"""Run by test_vm_disks.py in a VM: the kernel's NVMe initiator over TCP and RDMA, file systems on
it, fio; what happens to its I/O when the daemon reloads or restarts."""
import contextlib
import hashlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests/system"), str(TOP / "tests/system/daemon")]
from conftest import NBBENCH, listener, requires, rows_of, start_daemon, wait_until  # noqa: E402,F401
from inside_rdma import ADDRESSES, CLIENT, devices, resources  # noqa: E402,F401
from test_fdstore import KEEP, start_keeping  # noqa: E402

NQN = "nqn.2026-11.example.lab:vm"
HOST = "nqn.2026-11.example.lab:host"
RESET = "resetting controller due to persistent internal error"  # what a daemon that drains asks for; not said by 6.1
FIO = ["fio", "--name=v", "--bs=4k", "--direct=1", "--iodepth=8", "--verify=crc32c", "--randseed=7",
       "--output=/dev/null"]
WAYS = {"tcp": ("tcp", "127.0.0.1"), "rxe": ("rdma", ADDRESSES["rxe"]), "siw": ("rdma", ADDRESSES["siw"])}


@pytest.fixture(params=list(WAYS))
def way(request):
    return request.param


def must(*words, status=0):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True, errors="replace", timeout=120)
    assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}"
    return done.stdout


@pytest.fixture(autouse=True)
def kernel_log():
    """The kernel's log lines on nvme since the test began; errors among them fail the test."""
    requires("nvme")
    must("modprobe", "-a", "nvme-tcp", "nvme-rdma")
    must("dmesg", "-C")
    expected = [RESET]

    def log(expect=None):
        expected.extend([expect] if expect else [])
        return [line for line in must("dmesg").splitlines() if "nvme" in line]

    yield log
    bad = [line for line in log() if not any(text in line for text in expected)
           and any(word in line.lower() for word in ("error", "timeout", "reconnect"))]
    assert not bad, bad


def config(tmp_path, way="tcp", engine="epoll", size="64M", port=0, **keys):
    transport, address = WAYS[way]
    engine = engine if transport == "tcp" else "rdma"
    return f"[export disk]\npath = {tmp_path}/disk\ncreate = yes\nsize = {size}\n" + listener(
        "nvme", "nvme", engine, transport=transport, address=f"{address}:{port}", exports="disk", nqn=NQN, **keys)


def where(daemon, way):
    return ["-t", WAYS[way][0], "-a", WAYS[way][1], "-s", daemon.port("nvme")]


def namespaces():
    """Their block devices.  Each path to one has another, with a c in its name; and the number after the
    n is a new one as long as something holds what was there before."""
    return [path for path in Path("/sys/block").glob("nvme*n*")
            if "c" not in path.name and int((path / "size").read_text())]


def connect(daemon, way, *options):
    """The namespace's block device.  The VM is slow, so its host has more patience than usual."""
    must("nvme", "connect", *where(daemon, way), "-n", NQN, "-q", HOST, "-i", 2, "-k", 30, *options)
    return Path("/dev") / wait_until(namespaces, "the namespace is there")[0].name


def disconnect():
    must("nvme", "disconnect", "-n", NQN)
    wait_until(lambda: not list(Path("/sys/block").glob("nvme*n*")), "the namespace is gone")


def test_the_kernel_finds_out_everything(start_daemon, tmp_path, way):
    daemon = start_daemon(config(tmp_path, way))
    found = must("nvme", "discover", *where(daemon, way))
    assert NQN in found and f"trtype:  {WAYS[way][0]}" in found and WAYS[way][1] in found
    device = connect(daemon, way, "-c", 1, "-l", 60)
    controller = f"/dev/{os.listdir('/sys/class/nvme')[0]}"
    try:
        listed = json.loads(must("nvme", "list", "-o", "json"))["Devices"][0]
        assert listed["ModelNumber"] == "nbserved" and listed["PhysicalSize"] == 64 << 20
        assert f"traddr={WAYS[way][1]}" in must("nvme", "list-subsys")
        assert NQN in must("nvme", "id-ctrl", device)
        assert "lbads:12" in must("nvme", "id-ns", device)
        assert "0x1" in must("nvme", "list-ns", device)
        uuid = must("nvme", "ns-descs", device).split("uuid    : ")[1][:36]
        assert Path(f"/sys/block/{device.name}/uuid").read_text().strip() == uuid
        for command in ["smart-log", "effects-log", "error-log", "fw-log"]:
            must("nvme", command, device)
        for feature in [6, 7, 0xB, 0xF]:
            must("nvme", "get-feature", device, "-f", feature)
        assert "0x4080" in must("nvme", "io-passthru", device, "-n", 1, "-o", 2, "-r", "--cdw10=0xffffff",
                                "-l", 4096, status=1)
        must("nvme", "io-passthru", device, "-n", 1, "-o", 2, "-r", "--cdw10=0", "-l", 4096)
        must("nvme", "write-zeroes", device, "-s", 0, "-c", 255)
        must("nvme", "flush", device)
        must("blkdiscard", device)
        must("nvme", "reset", controller)
        must("dd", f"if={device}", "of=/dev/null", "bs=64k", "count=4", "iflag=direct")
    finally:
        disconnect()
    wait_until(lambda: daemon.stats("nvme")["connections"]["open"] == 0, "disconnected")


def test_connect_all(start_daemon, tmp_path, way):
    """The command of doc/generators.md: whatever the discovery controller names."""
    daemon = start_daemon(config(tmp_path, way))
    must("nvme", "connect-all", *where(daemon, way), "-q", HOST, "-i", 1, "-k", 30)
    try:
        wait_until(namespaces, "the namespace is there")
        assert f"traddr={WAYS[way][1]}" in must("nvme", "list-subsys")
    finally:
        disconnect()


@pytest.mark.parametrize("way,engine,options", [
    ("tcp", "epoll", []), ("tcp", "io_uring", ["-g", "-G"]), ("tcp", "io_uring-poll", ["--disable-sqflow"]),
    ("rxe", "rdma", []), ("rxe", "rdma", ["--disable-sqflow"]), ("siw", "rdma", [])])
def test_data_is_what_was_written(start_daemon, tmp_path, way, engine, options):
    """4 KiB go with the command where they can, 256 KiB are fetched.  NBD has the same bytes."""
    requires("nbdcopy")
    daemon = start_daemon(config(tmp_path, way, engine, "16M", workers=2) + listener("nbd", "nbd", exports="disk"))
    device = connect(daemon, way, *options)
    try:
        must(*FIO, f"--filename={device}", "--ioengine=libaio", "--rw=randrw", "--size=2m")
        must(*FIO, f"--filename={device}", "--ioengine=libaio", "--rw=randwrite", "--size=4m", "--bs=256k")
        must("blkdiscard", "-z", "-o", 1 << 20, "-l", 1 << 20, device)
        with open(device, "rb") as disk:
            read = hashlib.file_digest(disk, "sha256").hexdigest()
        copy = must("bash", "-c", f"nbdcopy nbd://127.0.0.1:{daemon.port('nbd')}/disk - | sha256sum")
        assert copy.split()[0] == read
    finally:
        disconnect()
    errors = [op["errors"] for op in daemon.stats("nvme")["operations"].values()]
    assert not any(errors), daemon.stats("nvme")["operations"]


@pytest.mark.parametrize("way", list(ADDRESSES))
def test_more_is_read_than_a_queue_may_hold(start_daemon, tmp_path, way):
    """Then no input is wanted for long, and yet each command finds the receive that was promised for it."""
    daemon = start_daemon(config(tmp_path, way, buffers=256))
    device = connect(daemon, way)
    try:
        must(*FIO, f"--filename={device}", "--ioengine=libaio", "--rw=randread", "--verify=0", "--size=32m",
             "--bs=128k", "--iodepth=16")
        assert daemon.stats("nvme")["throttled"] > 0
    finally:
        disconnect()


@pytest.mark.parametrize("way,kinds", [("tcp", ["ext4", "xfs"]), ("rxe", ["ext4"]), ("siw", ["xfs"])])
def test_file_systems(start_daemon, tmp_path, way, kinds):
    tools = {"ext4": (["mkfs.ext4", "-q", "-F"], ["e2fsck", "-fn"]),
             "xfs": (["mkfs.xfs", "-q", "-f"], ["xfs_repair", "-n"])}
    disk = tmp_path / "disk"
    daemon = start_daemon(config(tmp_path, way, "io_uring", size="320M", workers=2))
    for make, check in [tools[kind] for kind in kinds]:
        requires(make[0])
        device = connect(daemon, way)
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


def writes(daemon):
    return daemon.stats("nvme")["operations"]["write"]["count"]


def under_load(daemon, device, change, seconds=5):
    """The longest that fio waited, in seconds, for I/O that went on while change() ran."""
    report = f"/tmp/fio-{time.monotonic()}"
    fio = subprocess.Popen([*FIO[:-1], f"--filename={device}", "--ioengine=libaio", "--rw=randwrite",
                            "--size=8m", "--time_based", f"--runtime={seconds}", "--verify=0",
                            "--output-format=json", f"--output={report}"])
    begun = writes(daemon)
    wait_until(lambda: writes(daemon) > begun + 50, "fio writes")
    change()
    assert fio.wait(120) == 0
    job = json.loads(Path(report).read_text()[Path(report).read_text().index("{"):])["jobs"][0]
    assert job["error"] == 0
    return job["write"]["clat_ns"]["max"] / 1e9


def test_a_reload_and_a_restart_under_load(start_daemon, tmp_path, kernel_log):
    """The host is told, and comes back at once: without that it would wait for ten seconds."""
    port = start_daemon(listener("probe")).port("probe") + 1
    text = config(tmp_path, engine="io_uring", port=port)
    first = start_keeping(start_daemon, text)
    device = connect(first, "tcp")
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
            gap = under_load(first, device, change)
            print(f"{change.__name__}: the longest write took {gap:.2f} s")
            assert not any("econnecting in" in line for line in kernel_log())
        must(*FIO, f"--filename={device}", "--ioengine=libaio", "--rw=randwrite", "--size=1m")
        assert second[0].stats("nvme")["connections"]["open"] > 0
    finally:
        disconnect()
        os.sync()


def test_the_word_of_bench(tmp_path):
    """Each visit connects, and leaves nothing."""
    requires("fio")
    done = subprocess.run([str(NBBENCH), "nvme", "--repeat", "1", "--json"], cwd=tmp_path, timeout=300,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = rows_of(json.loads(done.stdout))
    assert len(rows) > 1 and all(row["generator"]["name"] == "fio" and row["generator"]["requests"] for row in rows)
    wait_until(lambda: not os.listdir("/sys/class/nvme"), "the last one is gone")


# ---- Several ports of one subsystem ----

def ports(tmp_path, addresses):
    """A listener for each of these ways, all with the same disk and NQN."""
    return f"[export disk]\npath = {tmp_path}/disk\ncreate = yes\nsize = 64M\n" + "".join(
        listener(way, "nvme", "epoll" if WAYS[way][0] == "tcp" else "rdma", transport=WAYS[way][0], address=address,
                 exports="disk", nqn=NQN) for way, address in addresses.items())


def states():
    """{transport and port: state} of the host's controllers."""
    found = {}
    for controller in Path("/sys/class/nvme").glob("nvme*"):
        with contextlib.suppress(OSError):  # it goes just now
            address = (controller / "address").read_text()
            found[re.search(r"trsvcid=(\d+)", address)[1]] = (controller / "state").read_text().strip()
    return found


def test_each_port_goes_and_comes_back_under_a_verifying_load(start_daemon, tmp_path, kernel_log):
    """The kernel's multipath makes one disk of all ports, and what is written is what is read whichever is gone."""
    for expected in ("econnect", "rdma_resolve", "connect request failed", "rdma connection", "error recovery",
                     "failed to connect socket: -111"):
        kernel_log(expected)
    port = {way: str(4420 + i) for i, way in enumerate(WAYS)}  # chosen ones would be other ports for a reload
    at = {way: f"{address}:{port[way]}" for way, (_, address) in WAYS.items()}
    daemon = start_daemon(ports(tmp_path, at))
    found = must("nvme", "discover", "-t", "tcp", "-a", WAYS["tcp"][1], "-s", port["tcp"])
    assert [f"trsvcid: {number}\n" in found for number in port.values()] == [True] * 3, found
    report = tmp_path / "report"
    fio = None

    def writes(way):
        return daemon.stats(way)["operations"]["write"]["count"]

    def reload(gone=None):
        daemon.write_config(ports(tmp_path, {way: address for way, address in at.items() if way != gone}))
        daemon.call("Reload")
        begun = {way: writes(way) for way in WAYS if way != gone}
        wait_until(lambda: all(writes(way) > count + 20 for way, count in begun.items()) or fio.poll() is not None,
                   "the other ports serve" if gone else "all serve")
        assert fio.poll() is None, report.read_text()

    try:
        for way, (transport, address) in WAYS.items():
            must("nvme", "connect", "-t", transport, "-a", address, "-s", port[way], "-n", NQN, "-q", HOST, "-i", 2,
                 "-k", 30, "-c", 1, "-l", 600)
        wait_until(lambda: list(states().values()) == ["live"] * 3, "all are connected")
        (disk,) = wait_until(namespaces, "the namespace is there")
        assert len(list(Path("/sys/block").glob("nvme*c*n*"))) == 3
        (subsystem,) = Path("/sys/class/nvme-subsystem").glob("nvme-subsys*")
        (subsystem / "iopolicy").write_text("round-robin")
        fio = subprocess.Popen([*FIO[:-1], f"--filename=/dev/{disk.name}", "--ioengine=libaio", "--rw=randwrite",
                                "--size=8m", "--verify_backlog=64", "--time_based", "--runtime=600",
                                f"--output={report}", "--output-format=json"])
        for gone in WAYS:
            reload(gone)
            wait_until(lambda: states()[port[gone]] != "live", f"{gone} is gone")
            reload()
            wait_until(lambda: list(states().values()) == ["live"] * 3, f"{gone} is back")
        fio.send_signal(signal.SIGINT)
        assert fio.wait(60) == 128, report.read_text()  # it ended by the signal, and by no error
        text = report.read_text()
        job = json.loads(text[text.index("{"):text.rindex("}") + 1])["jobs"][0]
        assert job["error"] == 0 and job["read"]["total_ios"] > 100, "blocks were verified"
    finally:
        if fio:
            fio.kill()
            fio.wait()
        disconnect()


# ---- Discovery that lasts ----

@contextlib.contextmanager
def uevents():
    """wanted -> waits for an event of the kernel with that word: {name: value}."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 15) as events:  # NETLINK_KOBJECT_UEVENT
        events.bind((0, 1))
        events.settimeout(60)

        def find(wanted):
            while True:
                words = events.recv(8192).decode(errors="replace").split("\0")
                if wanted in words:
                    return dict(word.split("=", 1) for word in words if "=" in word)

        yield find


def test_a_discovery_controller_that_lasts_tells_of_ports(start_daemon, tmp_path, way):
    """udev gets what 70-nvmf-autoconnect.rules wait for, and the command of theirs finds the port by the controller.
    It connects to ports of the controller's own transport."""
    transport, address = WAYS[way]
    one = ports(tmp_path, {way: f"{address}:4420"})
    two = one + listener("other", "nvme", "epoll" if way == "tcp" else "rdma", transport=transport,
                         address=f"{address}:4421", exports="disk", nqn=NQN)
    daemon = start_daemon(one)

    def reload(text):
        daemon.write_config(text)
        daemon.call("Reload")

    def told(event):
        return [event[f"NVME_{name}"] for name in ("TRTYPE", "TRADDR", "TRSVCID")] == [transport, address, "4420"]

    reached = ["-t", transport, "-a", address, "-s", 4420, "-q", HOST, "-k", 30]
    try:
        found = must("nvme", "discover", *reached, "-p")
        assert "current discovery subsystem" in found and "explicit discovery connections" in found
        assert states() == {"4420": "live"}
        (controller,) = os.listdir("/sys/class/nvme")
        with uevents() as find:
            reload(two)
            event = find("NVME_AEN=0x70f002")
            assert told(event) and event["DEVPATH"].endswith(f"/{controller}")
            must("nvme", "connect-all", f"--device={controller}", *reached, "-i", 1)
            wait_until(lambda: states() == {"4420": "live", "4421": "live"}, "both ports")
            wait_until(namespaces, "the namespace is there")
            must("nvme", "disconnect", "-n", NQN)
            reload(one)  # the log was read, so that the next change is told, too
            assert told(find("NVME_AEN=0x70f002"))
            if way == "tcp":  # of RDMA a reload replaces no listener
                reload(one.replace("service = nvme\n", "service = nvme\nbuffers = 512\n"))
                assert told(find("NVME_EVENT=rediscover"))
    finally:
        must("nvme", "disconnect-all")
    wait_until(lambda: daemon.stats(way)["connections"]["open"] == 0, "disconnected")


def test_connect_all_keeps_its_discovery_controller(start_daemon, tmp_path, way):
    daemon = start_daemon(config(tmp_path, way))
    must("nvme", "connect-all", "--persistent", *where(daemon, way), "-q", HOST, "-i", 1, "-k", 30)
    try:
        wait_until(namespaces, "the namespace is there")
        kinds = [path.read_text().strip() for path in Path("/sys/class/nvme").glob("nvme*/cntrltype")]
        assert sorted(kinds) == ["discovery", "io"]
    finally:
        must("nvme", "disconnect-all")


# ---- RDMA's own ----

def test_an_rdma_host_comes_back_after_a_restart(start_daemon, tmp_path, kernel_log):
    """No process keeps the address meanwhile: it tries again after its reconnect delay, and nothing fails."""
    way = "rxe"
    first = start_daemon(config(tmp_path, way))
    text = config(tmp_path, way, port=first.port("nvme"))
    device = connect(first, way, "-c", 1)
    for expected in ("econnect", "rdma_resolve", "connect request failed", "rdma connection"):
        kernel_log(expected)

    def restart():
        first.process.send_signal(signal.SIGTERM)
        first.process.wait(60)
        start_daemon(text)

    try:
        gap = under_load(first, device, restart, seconds=8)
        print(f"{way}: the longest write took {gap:.2f} s")
        must(*FIO, f"--filename={device}", "--ioengine=libaio", "--rw=randwrite", "--size=1m")
    finally:
        disconnect()


def private(recfmt=0, qid=0, receives=32, commands=31):
    return struct.pack("<HHHH", recfmt, qid, receives, commands).hex().ljust(64, "0")


@pytest.mark.parametrize("way", list(ADDRESSES))
def test_the_reasons_to_refuse_a_queue(start_daemon, tmp_path, way):
    daemon = start_daemon(config(tmp_path, way))
    at = [ADDRESSES[way], daemon.port("nvme")]

    def greet(said, reads=4):
        return must(CLIENT, "greet", *at, said, reads).split()

    free = daemon.stats("nvme")["pool"]["free"]
    assert greet(private())[0] == "accepted"
    assert greet(private(qid=1, receives=128, commands=127))[1].startswith("00008000")
    refused = [(private(recfmt=1), 2), (private(qid=129), 3), (private(commands=0), 4),
               (private(commands=128), 4), (private(qid=1, commands=128), 4), (private(receives=0), 5)]
    for said, status in refused:
        assert greet(said)[1].startswith(struct.pack("<HH", 0, status).hex()), (said, status)
    assert greet(private(), reads=0)[1].startswith("00000700")
    wait_until(lambda: daemon.stats("nvme")["connections"]["open"] == 0, "disconnected")
    assert daemon.stats("nvme")["pool"]["free"] >= free - 1


def capsule(opcode=0x7F, sgl=(0, 0, 0, 0x40), fctype=1):
    """A command in hex; sgl: address, length, key, type."""
    address, length, key, kind = sgl
    descriptor = (struct.pack("<QII", address, length, 0) if kind in (0x01, 0x5A) else
                  struct.pack("<Q", address) + length.to_bytes(3, "little") + struct.pack("<IB", key, 0))
    return (struct.pack("<BBHI16x", opcode, 0x40, 7, fctype) + descriptor[:15] + bytes([kind])
            + struct.pack("<I", 0) + struct.pack("<HHI", 31, 0, 0)).ljust(64, b"\0").hex()


@pytest.mark.parametrize("way", list(ADDRESSES))
def test_errors_that_end_or_refuse_an_rdma_queue(start_daemon, tmp_path, way):
    daemon = start_daemon(config(tmp_path, way))
    at = [ADDRESSES[way], daemon.port("nvme")]
    free = daemon.stats("nvme")["pool"]["free"]
    for message, count, expected in [
        (bytes(63).hex(), 1, "ended"),
        (bytes(1).hex(), 1, "ended"),
        (bytes(65).hex(), 1, "ended"),  # longer than the receive that was promised
        (bytes(20000).hex(), 1, "ended"),
        (capsule(sgl=(4096, 1024, 0x1234, 0x40)), 1, "ended"),  # a key that the host never gave
        (capsule(sgl=(0, 1024, 0, 0x5A)), 1, 0x11),  # TCP's
        (capsule(sgl=(0, 1024, 0, 0x01)), 1, 0x16),  # data that did not come
        (capsule(sgl=(0, 1020, 0x1234, 0x40)), 1, 0x0F),
        (capsule(opcode=6), 1, 0x0C),  # not connected
        (capsule(opcode=6), 64, "flood"),  # twice as many as may be in flight: over iWARP the transport may end it
    ]:
        told = must(CLIENT, "greet", *at, private(), 4, message, count).split()
        assert told[0] == "accepted"
        if expected in ("ended", "flood"):
            assert told[2] == "ended" or expected == "flood", told
        else:
            status = struct.unpack_from("<H", bytes.fromhex(told[3]), 14)[0] >> 1
            assert (told[2], status) == ("answered", expected | 0x4000), told
    wait_until(lambda: daemon.stats("nvme")["connections"]["open"] == 0, "disconnected")
    assert daemon.stats("nvme")["pool"]["free"] >= free - 1
