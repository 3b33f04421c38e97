"""Run by test_vm_disks.py in the VM: loss of power.  dm-log-writes records what reaches the device below
an export, as what a device with a volatile cache has kept: a write is in the log when a flush that came
after it, or its own FUA, has ended.  So a prefix of the log is the device after a loss of power."""
import os
import random
import struct
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/system"))
import conftest  # noqa: E402
from conftest import listener, requires  # noqa: E402
from inside_nbd import must  # noqa: E402
from nbd_client import FLUSH, FUA, WRITE, Raw  # noqa: E402
import nvme_client  # noqa: E402

start_daemon = conftest.start_daemon
NQN = "nqn.2026-11.example.lab:power"
MIB, BLOCK = 1 << 20, 4096
DEVICE_SIZE, DISK_SIZE = 384 * MIB, 8 * MIB
BLOCKS = DISK_SIZE // BLOCK // 2  # of each client
ROUNDS, DEPTH = 6, 8
FLUSHES = 10  # a file system, which takes a second or two to mount, is looked at once in this many flushes
# dm-log-writes: <linux>/drivers/md/dm-log-writes.c
LOG_MAGIC, LOG_FLUSH, LOG_DISCARD, LOG_MARK = 0x6A736677736872, 1, 4, 8
MKFS_EXT4 = ["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,nodiscard", "-N", 64, "-J", "size=4"]
MKFS_XFS = ["mkfs.xfs", "-q", "-K"]
PLACES = {"block device": (None, ""), "block device, direct": (None, "direct = yes\n"),
          "ext4": (MKFS_EXT4, ""),
          "xfs": (MKFS_XFS, "")}


# ---- Devices ----

@pytest.fixture
def devices():
    """A device, the log of what reaches it, and one to replay that on: in memory."""
    for tool in ("dmsetup", "mkfs.ext4", "mkfs.xfs"):
        requires(tool)
    must("modprobe", "null_blk", "nr_devices=0")
    must("modprobe", "dm-log-writes")
    config = Path("/sys/kernel/config/nullb")
    if not config.exists():
        must("mount", "-t", "configfs", "config", "/sys/kernel/config")
    found = []
    for name in ("data", "log", "replay"):
        (config / name).mkdir()
        for key, value in {"size": 1024 if name == "log" else DEVICE_SIZE // MIB, "memory_backed": 1,
                           "blocksize": 512, "discard": 1, "power": 1}.items():
            (config / name / key).write_text(str(value))
        found.append(next(path for path in (Path("/dev") / name, Path("/dev") / f"nullb{len(found)}")
                          if path.exists()))  # the name's since Linux 6.1 or so
    data, log, replay = found
    must("dmsetup", "create", "power", "--noudevsync", "--table", f"0 {DEVICE_SIZE // 512} log-writes {data} {log}")
    must("dmsetup", "mknodes")
    try:
        yield Path("/dev/mapper/power"), log, replay
    finally:
        if os.path.ismount("/mnt"):
            must("umount", "/mnt")
        must("dmsetup", "remove", "--noudevsync", "power")
        for name in ("data", "log", "replay"):
            (config / name).rmdir()


def entries_of(log):
    """(flags, offset, data or its length, mark) of each entry, in the log's order."""
    with open(log, "rb", buffering=0) as file:
        magic, _, count, sector = struct.unpack("<QQQI", file.read(512)[:28])
        assert magic == LOG_MAGIC
        at = sector
        for _ in range(count):
            head = os.pread(file.fileno(), sector, at)
            first, sectors, flags, length = struct.unpack_from("<4Q", head)
            at += sector
            size = sectors * sector
            if flags & (LOG_DISCARD | LOG_MARK):
                yield flags, first * sector, size, head[32:32 + length].rstrip(b"\0").decode()
                continue
            yield flags, first * sector, os.pread(file.fileno(), size, at), None
            at += size


# ---- Clients that remember acknowledgements ----

class Client:
    """Versions of blocks: `issued` may be on the device, `stable` must be."""

    def __init__(self, first):
        self.first = first
        self.issued = dict.fromkeys(range(first, first + BLOCKS), 0)
        self.acknowledged, self.stable = dict(self.issued), dict(self.issued)
        self.flying = {}  # key: (blocks, version, fua), or what is acknowledged, of a flush

    def write(self, version, chance):
        count, fua = chance.choice([1, 1, 2, 8]), chance.random() < 0.2
        first = self.first + chance.randrange(BLOCKS - count + 1)
        blocks = range(first, first + count)
        busy = {block for job in self.flying.values() if isinstance(job, tuple) for block in job[0]}
        if busy.isdisjoint(blocks):
            data = b"".join(struct.pack("<II", block, version) * (BLOCK // 8) for block in blocks)
            self.issued.update(dict.fromkeys(blocks, version))
            self.flying[self.send_write(first, data, fua)] = (blocks, version, fua)

    def flush(self, everybody):
        """Covers all writes acknowledged to any client."""
        self.flying[self.send_flush()] = {c: dict(c.acknowledged) for c in everybody}

    def wait(self):
        job = self.flying.pop(self.receive())
        if isinstance(job, dict):
            for client, versions in job.items():
                for block, version in versions.items():
                    client.stable[block] = max(client.stable[block], version)
            return
        blocks, version, fua = job
        self.acknowledged.update(dict.fromkeys(blocks, version))
        if fua:
            self.stable.update(dict.fromkeys(blocks, version))


class Nbd(Client):
    def __init__(self, daemon, first):
        super().__init__(first)
        self.raw = Raw(daemon, "nbd").go()
        self.cookie = 0

    def send(self, *request, **options):
        self.cookie += 1
        self.raw.request(*request, cookie=self.cookie, **options)
        return self.cookie

    def send_write(self, block, data, fua):
        return self.send(WRITE, block * BLOCK, len(data), data, flags=FUA if fua else 0)

    def send_flush(self):
        return self.send(FLUSH)

    def receive(self):
        magic, error, cookie = struct.unpack(">IIQ", self.raw.read(16))
        assert (magic, error) == (0x67446698, 0)
        return cookie


class Nvme(Client):
    def __init__(self, daemon, first):
        super().__init__(first)
        self.host = nvme_client.Host(daemon, "nvme", NQN)
        self.queue = self.host.queues[0]

    def send_write(self, block, data, fua):
        return self.host.rw(nvme_client.WRITE, block, data, control=nvme_client.FUA if fua else 0)

    def send_flush(self):
        return self.queue.submit(nvme_client.FLUSH, 1)

    def receive(self):
        while not self.queue.done:
            self.queue.process()
        cid = next(iter(self.queue.done))
        self.queue.wait(cid)
        return cid


def load(daemon, mark):
    """What each mark in the log promises: [({block: stable}, {block: issued}), ...].  FUA alone has made it
    stable, and then a flush that writes of both clients overtake."""
    chance = random.Random(6)
    clients = [Nbd(daemon, 0), Nvme(daemon, BLOCKS)]
    promises, version = [], 0
    for number in range(2 * ROUNDS):
        for _ in range(12):
            version += 1
            for client in clients:
                client.write(version, chance)
                while len(client.flying) >= DEPTH:
                    client.wait()
        ending = clients
        if number % 2:
            ending = [chance.choice(clients)]
            ending[0].flush(clients)
        for client in ending:
            while client.flying:
                client.wait()
        promises.append([{block: of for client in clients for block, of in getattr(client, kind).items()}
                         for kind in ("stable", "issued")])
        mark(f"promise-{len(promises)}")
    return promises


# ---- State after a loss of power ----

def check_disk(read, stable, issued, when):
    """Checks that each block is whole, and at least as new as its last stable version."""
    for block in stable:
        data = read(block * BLOCK)
        of, version = struct.unpack_from("<II", data)
        assert data == data[:8] * (BLOCK // 8), f"{when}: block {block} is torn"
        assert of == block or version == 0, f"{when}: block {block} has the data of {of}"
        assert stable[block] <= version <= issued[block], \
            f"{when}: block {block} has {version}, {stable[block]} was promised, {issued[block]} sent"


class Image:
    """The device as the log has made it so far."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.ftruncate(self.file, DEVICE_SIZE)

    def apply(self, flags, offset, data):
        if flags & LOG_DISCARD:
            end = min(offset + data, DEVICE_SIZE)
            for at in range(offset, end, MIB):
                os.pwrite(self.file, bytes(min(MIB, end - at)), at)
        else:
            os.pwrite(self.file, data, offset)

    def copy_to(self, device):
        must("blkdiscard", device)
        at = 0
        with open(device, "r+b", buffering=0) as to:
            while True:
                try:
                    at = os.lseek(self.file, at, os.SEEK_DATA)
                except OSError:
                    break
                end = os.lseek(self.file, at, os.SEEK_HOLE)
                for at in range(at, end, MIB):
                    data = os.pread(self.file, min(MIB, end - at), at)
                    if data != bytes(len(data)):  # of XFS' log, for one
                        os.pwrite(to.fileno(), data, at)
                at = end
            os.fsync(to.fileno())


def check(image, replay, mounts, promise, when):
    if not mounts:
        check_disk(lambda at: os.pread(image.file, BLOCK, at), *promise, when)
        return
    image.copy_to(replay)
    must("mount", replay, "/mnt")
    try:
        with open("/mnt/disk", "rb", buffering=0) as disk:
            check_disk(lambda at: os.pread(disk.fileno(), BLOCK, at), *promise, when)
    finally:
        must("umount", "/mnt")


@pytest.mark.parametrize("place", PLACES)
def test_flushed_writes_survive_a_loss_of_power(devices, start_daemon, place):
    device, log, replay = devices
    mkfs, keys = PLACES[place]

    def mark(text):
        must("dmsetup", "message", "power", "0", "mark", text)

    path = device
    if mkfs:
        must(*mkfs, device)
        must("mount", device, "/mnt")
        path = "/mnt/disk"
        keys += f"create = yes\nsize = {DISK_SIZE}\n"
    daemon = start_daemon(f"[export disk]\npath = {path}\n{keys}" + listener("nbd", "nbd", exports="disk")
                          + listener("nvme", "nvme", exports="disk", nqn=NQN, block_size=BLOCK))
    mark("begin")
    promises = load(daemon, mark)
    daemon.terminate()
    if mkfs:
        must("umount", "/mnt")

    image, done, flushes, begun = Image("/dev/shm/image"), 0, 0, False
    zero = dict.fromkeys(promises[0][0], 0)
    for number, (flags, offset, data, text) in enumerate(entries_of(log)):
        begun |= text == "begin"
        if flags & LOG_MARK:
            if text.startswith("promise"):
                done += 1
                check(image, replay, mkfs, promises[done - 1], f"{place}, {text}")
            continue
        # A loss of power at a flush: the writes acknowledged before, and perhaps later ones.
        flushes += bool(flags & LOG_FLUSH)
        if flags & LOG_FLUSH and begun and done < len(promises) and (not mkfs or flushes % FLUSHES == 0):
            stable = promises[done - 1][0] if done else zero
            check(image, replay, mkfs, (stable, promises[done][1]), f"{place}, entry {number}")
        image.apply(flags, offset, data)
    assert done == len(promises) and flushes >= ROUNDS
