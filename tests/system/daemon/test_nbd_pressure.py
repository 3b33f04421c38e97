"""The nbd service when its clients ask for more than its buffers hold."""

import random
import socket
import struct

import pytest
from conftest import TIMEOUT, listener, wait_until
from nbd_client import FUA, READ, TRIM, WRITE, WRITE_ZEROES, Raw, connect, reset
from traffic import together

KIB, MIB = 1024, 1024 * 1024


@pytest.fixture
def serve(start_daemon, engine, tmp_path):
    def start(depth=128, **keys):
        return start_daemon(
            f"[export disk]\npath = {tmp_path}/disk\ncreate = yes\nsize = 64M\nqueue-depth = {depth}\n"
            + listener("nbd", service="nbd", engine=engine, exports="disk", **keys)
        )

    return start


def works(daemon):
    """Somebody else reads and writes, little and much."""
    with connect(daemon, "nbd") as client:
        for size in [4, 4 * KIB, MIB]:
            data = bytes([size % 251]) * size
            client.request(WRITE, 63 * MIB, size, data, FUA)
            assert client.reply() == (0, b"")
            client.request(READ, 63 * MIB, size)
            assert client.reply(size) == (0, data)


def idle_reader(daemon):
    """A client whose socket takes little, and that never reads."""
    client = Raw.__new__(Raw)
    client.socket = socket.socket()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.socket.settimeout(TIMEOUT)
    client.socket.connect(daemon.addresses("nbd")[0])
    client.read(18)
    client.send(struct.pack(">I", 3))
    client.go()
    for _ in range(64):
        client.request(READ, 0, 512 * KIB)
    return client


def test_much_output_of_one_run_arrives_whole(serve):
    """More than is sent before the next request, than a turn sends early, and than a socket takes."""
    daemon = serve(buffers=4096)
    data = random.Random(8).randbytes(16 * MIB)
    pieces = [data[at : at + 128 * KIB] for at in range(0, len(data), 128 * KIB)]
    with connect(daemon, "nbd") as client:
        client.request(WRITE, 0, len(data), data)
        assert client.reply() == (0, b"")
        for count in [4, 12, 16, len(pieces)]:
            asked = [struct.pack(">IHHQQI", 0x25609513, 0, READ, i, i * 128 * KIB, 128 * KIB) for i in range(count)]
            client.send(b"".join(asked))
            left = set(range(count))
            while left:
                magic, error, i = struct.unpack(">IIQ", client.read(16))
                assert (magic, error) == (0x67446698, 0)
                assert client.read(128 * KIB) == pieces[i]
                left.remove(i)


def test_payloads_that_fill_the_pool_are_written_as_they_come(serve):
    """No client may wait for the rest of a part while others wait for its chunks."""
    daemon = serve()
    clients = [connect(daemon, "nbd") for _ in range(200)]
    for client in clients:
        client.request(WRITE, 0, 512 * KIB, b"a" * (20 * KIB))

    def finish(some):
        for client in some:
            client.send(b"a" * (492 * KIB))
        for client in some:
            assert client.reply() == (0, b"")

    together(lambda: works(daemon), *(lambda some=clients[i::8]: finish(some) for i in range(8)))
    assert daemon.stats("nbd")["connections"]["closed"]["protocol"] == 0
    for client in clients:
        client.socket.close()


def test_requests_that_fill_the_pool_are_served(serve):
    """Each chunk of input ends in the middle of a request."""
    daemon = serve(depth=4, buffers=32)
    clients = [connect(daemon, "nbd") for _ in range(40)]
    requests = struct.pack(">IHHQQI", 0x25609513, 0, READ, 7, 0, 4096) * 600  # 586 and a part are 16 KiB

    def read(client):
        for _ in range(600):
            assert client.reply(4096) == (0, bytes(4096))

    together(*(lambda c=c: c.send(requests) for c in clients), *(lambda c=c: read(c) for c in clients))
    for client in clients:
        client.socket.close()


@pytest.mark.parametrize("size", [100 * KIB, 512 * KIB])
def test_writes_beyond_a_client_s_share_go_on(serve, size):
    """Its input pauses while a part is written, and afterwards the rest of the next one must come."""
    daemon = serve(depth=1, buffers=64, buffer_size="4K")
    clients = [connect(daemon, "nbd") for _ in range(6)]

    def write(client):
        for i in range(40):
            client.request(WRITE, i * MIB, size, bytes([i]) * size)

    def finish(client):
        for _ in range(40):
            assert client.reply() == (0, b"")

    together(*(lambda c=c, f=f: f(c) for c in clients for f in (write, finish)))
    assert daemon.stats("nbd")["connections"]["closed"]["protocol"] == 0
    for client in clients:
        client.socket.close()


def test_clients_that_never_read_leave_memory_for_others(serve):
    daemon = serve()
    clients = [idle_reader(daemon) for _ in range(32)]
    works(daemon)
    works(daemon)
    for client in clients:
        reset(client)


@pytest.mark.parametrize("piece", [600, 1448])
def test_direct_writes_that_come_in_pieces_need_few_buffers(start_daemon, engine, loop_device, piece):
    """Each piece is a view of its own, and fewer than make an aligned block fill a connection."""
    daemon = start_daemon(
        f"[export disk]\npath = {loop_device('--sector-size', '4096')}\ndirect = yes\n"
        + listener("nbd", service="nbd", engine=engine, exports="disk", buffers=16, buffer_size="4K")
    )
    data = random.Random(8).randbytes(12 * KIB)
    with connect(daemon, "nbd") as client:
        client.request(WRITE, 4096, len(data))
        seen = daemon.stats("nbd")["bytes_in"]
        for at in range(0, len(data), piece):
            client.send(data[at : at + piece])
            seen += len(data[at : at + piece])
            wait_until(lambda: daemon.stats("nbd")["bytes_in"] >= seen, "the piece is received")
        assert client.reply() == (0, b"")
        client.request(READ, 4096, len(data))
        assert client.reply(len(data)) == (0, data)
    daemon.stop()


@pytest.mark.parametrize("kind, flags", [(TRIM, 0), (WRITE_ZEROES, 0), (WRITE_ZEROES, 2)])
def test_clearing_much_memory_lets_others_in(start_daemon, engine, kind, flags):
    """Memory is cleared a piece at a time, so a read that comes with the request is answered first."""
    daemon = start_daemon("[export ram]\nstore = memory\nsize = 64M\n"
                          + listener("nbd", service="nbd", engine=engine, exports="ram"))
    with connect(daemon, "nbd") as client:
        for offset in [0, 63 * MIB]:
            client.request(WRITE, offset, MIB, b"m" * MIB)
            assert client.reply() == (0, b"")
        client.send(struct.pack(">IHHQQI", 0x25609513, flags, kind, 1, 0, 64 * MIB)
                    + struct.pack(">IHHQQI", 0x25609513, 0, READ, 7, 63 * MIB, 4))
        assert client.reply(4) == (0, b"mmmm")
        assert struct.unpack(">IIQ", client.read(16)) == (0x67446698, 0, 1)
        for offset in [0, 63 * MIB]:
            client.request(READ, offset, MIB)
            assert client.reply(MIB) == (0, bytes(MIB))
