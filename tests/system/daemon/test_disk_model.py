"""Everything that clients of NBD and NVMe read is what a model of the disk says: in each form of the protocol,
many requests in flight on several connections, some of which are cut off."""

import concurrent.futures
import os
import queue
import random
import struct
import threading
import time

import nvme_client
import pytest
from conftest import ENGINES, TIMEOUT, listener, wait_until
from disk_model import Disk
from nbd_client import (BLOCK_STATUS, DISC, ERROR, FLUSH, FUA, INFO_BLOCK_SIZE, NO_HOLE, NONE, OFFSET_DATA, READ,
                        STATUS, TRIM, WRITE, WRITE_ZEROES, Raw, reset)

MINUTES = 1

KIB, MIB = 1024, 1024 * 1024
SIZE = 40 * MIB
IN_CAPSULE = 16 * KIB
NQN = "nqn.2026-11.example.lab:model"
SECONDS = 1  # of each case, and what it has begun by then
FORMS = ["simple", "structured"]
POOLS = [{}, {"buffers": 64, "buffer_size": "16K"}]
PATHS = [(engine, store) for engine in ENGINES for store in ["io_uring", "threads", "memory", "direct"]]
PATHS += [("epoll", "blocking"), ("io_uring", "blocking")]


class Posted:
    """Sends by a thread of its own, so that a client that waits for room reads meanwhile, as real ones do."""

    posts = None

    def post(self):
        self.posts = queue.Queue()
        threading.Thread(target=self._work, daemon=True).start()
        return self

    def _work(self):
        for data in iter(self.posts.get, None):
            try:
                self.socket.sendall(data)
            except OSError:
                return  # it has ended, which the reader notices

    def send(self, data):
        if self.posts:
            self.posts.put(data)
        else:
            super().send(data)


class Request:
    """`data`: what a write brings, or what of a read has arrived."""

    def __init__(self, kind, offset, length, data=b""):
        self.kind, self.offset, self.length, self.data = kind, offset, length, data
        self.missing = length  # of a read, bytes


class Client:
    """One connection: chooses requests, sends them, and puts the answers beside the model."""

    def __init__(self, disk, seed, depth, count):
        self.disk, self.random, self.depth, self.count = disk, random.Random(seed), depth, count
        self.flying = {}  # cookie: Request
        self.sent = 0
        self.may_be_ended = False  # by the server
        self.cut = count if self.random.random() < 0.5 else self.random.randrange(count)  # after that many
        self.bytes = 20 * MIB  # once they are used up, requests are short

    def choose(self, align, longest):
        """A range, of any size: short ones are the most."""
        most = self.random.choice([4 * KIB, 32 * KIB, 700 * KIB, 2 * MIB, 2 * MIB, longest])
        most = min(most, longest, max(self.bytes, 4 * KIB))
        length = self.random.randrange(1, most // align + 1) * align
        self.bytes -= length
        return self.random.randrange((SIZE - length) // align + 1) * align, length

    def begin(self, cookie, request, writes):
        if not self.disk.begin((self, cookie), request.offset, request.length, writes):
            return False
        self.flying[cookie] = request
        return True

    def end(self, cookie):
        """The request has succeeded."""
        request = self.flying.pop(cookie)
        self.settle(request, certain=True)
        self.disk.end((self, cookie))

    def settle(self, request, certain):
        if request.kind == READ:
            assert request.missing == 0
            self.disk.check(request.offset, request.data)
        elif request.kind == WRITE:
            self.disk.write(request.offset, request.data, certain)
        elif request.kind in (WRITE_ZEROES, TRIM):
            certain = certain and request.kind == WRITE_ZEROES
            self.disk.write(request.offset, bytes(request.length), certain)

    def give_up(self):
        """The connection has ended, on the server's side as well."""
        for cookie in list(self.flying):
            request = self.flying.pop(cookie)
            if request.kind not in (READ, BLOCK_STATUS):
                self.settle(request, certain=False)
            self.disk.end((self, cookie))

    def run(self):
        try:
            while self.sent < self.cut or (self.flying and self.cut == self.count):
                self.step()
            if self.cut == self.count:
                self.leave()
            else:
                self.break_off()
        except (EOFError, ConnectionError):
            if not self.may_be_ended:
                raise
        finally:
            self.wire.posts.put(None)

    def step(self):
        if self.sent < self.cut and len(self.flying) < self.depth:
            self.sent += self.submit()
        # Most replies are awaited with the queue full.
        if self.flying and (len(self.flying) == self.depth or self.sent == self.cut or self.random.random() < 0.1):
            self.receive()


# ---- NBD


class NbdWire(Posted, Raw):
    pass


class NbdClient(Client):
    def __init__(self, daemon, disk, form, *terms):
        super().__init__(disk, *terms)
        self.wire = NbdWire(daemon, "disk").speak(form).go().post()
        self.form, self.cookie = form, 0
        (self.align,) = struct.unpack_from(">I", self.wire.infos.get(INFO_BLOCK_SIZE, b"\0\0\0\1"))

    def submit(self):
        kinds = [READ] * 8 + [WRITE] * 8 + [WRITE_ZEROES, TRIM, FLUSH] + [BLOCK_STATUS] * (self.form != "simple")
        kind = self.random.choice(kinds)
        offset, length = (0, 0) if kind == FLUSH else self.choose(self.align, 32 * MIB)
        flags = {
            WRITE: self.random.choice([0, 0, FUA]),
            WRITE_ZEROES: self.random.choice([0, NO_HOLE]),
        }.get(kind, 0)
        data = self.random.randbytes(length) if kind == WRITE else bytearray(length if kind == READ else 0)
        self.cookie += 1
        if not self.begin(self.cookie, Request(kind, offset, length, data), kind in (WRITE, WRITE_ZEROES, TRIM)):
            return False
        self.wire.request(kind, offset, length, data if kind == WRITE else b"", flags, self.cookie)
        return True

    def receive(self):
        lengths = {cookie: r.length for cookie, r in self.flying.items() if r.kind == READ}
        cookie, last, kind, data = self.wire.message(lengths)
        request = self.flying[cookie]
        assert not kind & ERROR, (request.kind, data)
        if kind == STATUS:
            self.check_extents(request, data)
        elif request.kind == READ and (kind != NONE or self.form == "simple"):
            self.take(request, kind, data)
        if last:
            self.end(cookie)

    def take(self, request, kind, data):
        """Each byte must come once."""
        offset = request.offset
        if kind != NONE:
            (offset,) = struct.unpack_from(">Q", data)
            data = data[8:]
        assert kind in (NONE, OFFSET_DATA)
        assert request.offset <= offset and offset + len(data) <= request.offset + request.length
        request.data[offset - request.offset:offset - request.offset + len(data)] = data
        request.missing -= len(data)

    def check_extents(self, request, data):
        """What is said to be zeros is."""
        at = request.offset
        for length, state in struct.iter_unpack(">II", data[4:]):
            if state & 2:
                self.disk.check(at, bytes(min(length, request.offset + request.length - at)))
            at += length

    def leave(self):
        self.wire.request(DISC)
        assert self.wire.is_closed()
        self.wire.socket.close()

    def break_off(self):
        """Sometimes within a write."""
        offset, length = self.choose(self.align, MIB)
        data = self.random.randbytes(length)
        if self.begin(0, Request(WRITE, offset, length, data), True):
            header = struct.pack(">IHHQQI", 0x25609513, 0, WRITE, 0, offset, length)
            self.wire.send(header + data[:self.random.randrange(length)])
        if self.random.random() < 0.5:
            time.sleep(self.random.random() / 100)  # some of it is carried out, no matter how much
        reset(self.wire)


# ---- NVMe


class NvmeQueue(Posted, nvme_client.Queue):
    def __init__(self, connection, **terms):
        super().__init__(connection, start=False, **terms)
        self.post().start()


class NvmeClient(Client):
    """An I/O queue."""

    def __init__(self, disk, host, wire, *terms):
        super().__init__(disk, *terms)
        self.wire, self.align = wire, host.block
        self.longest = 4096 << host.admin.identify(1)[77]  # MDTS

    def submit(self):
        kind = self.random.choice([READ] * 8 + [WRITE] * 8 + [WRITE_ZEROES, TRIM, FLUSH])
        offset, length = (0, 0) if kind == FLUSH else self.choose(self.align, self.longest)
        data = self.random.randbytes(length) if kind == WRITE else b""
        cid = self.wire.next_cid
        if not self.begin(cid, Request(kind, offset, length, data), kind in (WRITE, WRITE_ZEROES, TRIM)):
            return False
        block, blocks = offset // self.align, length // self.align
        cdw = [block, 0, max(blocks - 1, 0)]
        if kind == READ:
            self.wire.submit(nvme_client.READ, 1, cdw, read=length)
        elif kind == WRITE:
            cdw[2] |= self.random.choice([0, 0, nvme_client.FUA])
            capsule = length <= IN_CAPSULE and self.random.random() < 0.7
            self.wire.submit(nvme_client.WRITE, 1, cdw, write=data, capsule=capsule)
        elif kind == TRIM:
            self.wire.submit(nvme_client.DSM, 1, [0, 4], write=struct.pack("<IIQ", 0, blocks, block),
                             capsule=self.random.random() < 0.5)
        else:
            self.wire.submit(nvme_client.FLUSH if kind == FLUSH else nvme_client.WRITE_ZEROES, 1, cdw)
        return True

    def receive(self):
        _, cid = self.wire.process()
        if cid in self.wire.done:
            request = self.flying[cid]
            data, _ = self.wire.wait(cid)
            if request.kind == READ:
                request.data, request.missing = data, 0
            self.end(cid)

    def leave(self):
        self.wire.socket.close()

    def break_off(self):
        """Perhaps within a PDU."""
        if self.random.random() < 0.5:
            self.wire.send(self.wire.pdu(nvme_client.COMMAND, bytes(64), bytes(4096))[:self.random.randrange(4000)])
        reset(self.wire)


# ---- Tests


def start(start_daemon, tmp_path, loop_device, engine, store, **keys):
    path = f"path = {tmp_path}/disk\ncreate = yes\nsize = {SIZE}\n"
    if store == "memory":
        path = f"size = {SIZE}\n"
    elif store == "direct":
        image = tmp_path / "image"
        image.touch()
        os.truncate(image, SIZE)
        path, store = f"path = {loop_device('--sector-size', '4096', image=image)}\ndirect = yes\n", "io_uring"
    return start_daemon(
        f"[export disk]\nstore = {store}\nqueue-depth = 64\n{path}"
        + listener("disk", engine=engine, exports="disk", workers=2, **random.SystemRandom().choice(POOLS), **keys)
    )


def rounds(forms):
    """(form, seed): each of the forms, and more until the time is over; a report of a failure shows the last."""
    source, end = random.SystemRandom(), time.monotonic() + SECONDS
    todo = list(forms)
    while todo or time.monotonic() < end:
        form, seed = todo.pop() if todo else source.choice(forms), source.randrange(1 << 32)
        print("form", form, "seed", seed)
        yield form, random.Random(seed)


def together(clients, meanwhile=lambda: None):
    with concurrent.futures.ThreadPoolExecutor(len(clients)) as threads:
        ends = [threads.submit(client.run) for client in clients]
        meanwhile()
        for end in ends:
            end.result(TIMEOUT)


def nothing_is_left(daemon):
    """Of clients that were cut off."""
    daemon.wait_closed("disk")
    assert daemon.call("GetStats")["exports"][0]["in_flight"] == 0
    pool = daemon.stats("disk")["pool"]
    assert pool["free"] >= pool["chunks"] - 2  # each worker has one that it writes into


@pytest.mark.parametrize("engine, store", PATHS)
def test_nbd_agrees_with_a_model(start_daemon, tmp_path, loop_device, engine, store):
    daemon = start(start_daemon, tmp_path, loop_device, engine, store, service="nbd")
    disk = Disk(SIZE, 4096)
    for form, chosen in rounds(FORMS):
        clients = [NbdClient(daemon, disk, form, chosen.random(), chosen.choice([1, 2, 4, 64]), 60) for _ in range(3)]
        together(clients)
        daemon.wait_closed("disk")
        for client in clients:
            client.give_up()
    with Raw(daemon, "disk") as reader:
        reader.go()
        for offset in range(0, SIZE, 8 * MIB):
            reader.request(READ, offset, 8 * MIB)
            disk.check(offset, reader.reply(8 * MIB)[1])
    nothing_is_left(daemon)


def be_reset(host, clients, after):
    """The host disables its controller after so many requests.  Once that is done, nothing more is written."""

    def disable():
        wait_until(lambda: sum(client.sent for client in clients) >= min(after, sum(client.cut for client in clients)),
                   "the clients are at work")
        for client in clients:
            client.may_be_ended = True
        host.admin.set(nvme_client.CC, 0)

    together(clients, disable)
    while host.admin.get(nvme_client.CSTS) & 1:
        pass


@pytest.mark.parametrize("engine, store", PATHS)
def test_nvme_agrees_with_a_model(start_daemon, tmp_path, loop_device, engine, store):
    daemon = start(start_daemon, tmp_path, loop_device, engine, store, service="nvme", nqn=NQN, block_size=512)
    disk = Disk(SIZE, 4096 if store == "direct" else 512)
    for digests, chosen in rounds([(False, False), (True, True)]):
        host = nvme_client.Host(daemon, "disk", NQN, queues=0, block=disk.block)
        clients = []
        for qid in range(1, 4):
            wire = NvmeQueue(daemon.connect("disk"), hdgst=digests[0], ddgst=digests[1], hpda=chosen.choice([0, 31]))
            wire.connect(NQN, qid, host.cntlid, 63, sqflow=chosen.random() < 0.5)
            clients.append(NvmeClient(disk, host, wire, chosen.random(), chosen.choice([1, 2, 8, 60]), 60))
        if chosen.random() < 0.5:
            together(clients)
            host.close()
            daemon.wait_closed("disk")
        else:
            be_reset(host, clients, chosen.randrange(1, 120))
        for client in clients:
            client.give_up()
        host.close()
    with nvme_client.Host(daemon, "disk", NQN, block=disk.block) as reader:
        blocks = 64 * KIB // reader.block
        for block in range(0, SIZE // reader.block, blocks):
            disk.check(block * reader.block, reader.read(block, blocks))
    nothing_is_left(daemon)


