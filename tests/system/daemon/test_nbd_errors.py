"""The nbd service: what goes wrong below it, and small pools, as real clients and raw ones see it."""

import os
import struct

import pytest
from conftest import export, listener
from nbd_client import (BLOCK_STATUS, EINVAL, EIO, FLUSH, FUA, OPT_LIST, OPT_SET_META_CONTEXT, OPT_STRUCTURED_REPLY,
                        READ, REP_ACK, REP_SERVER, TRIM, WRITE, WRITE_ZEROES, Raw, connect)

KIB, MIB = 1024, 1024 * 1024


@pytest.fixture(params=["io_uring", "threads", "blocking"])
def store(request):
    return request.param


@pytest.fixture
def failing(start_daemon, engine, store, small, loop_device):
    """A device of 8 MiB that keeps the first; what it cannot keep fails when the kernel writes it
    back."""
    image = small / "image"
    with open(image, "wb") as file:
        file.truncate(8 * MIB)
        os.posix_fallocate(file.fileno(), 0, MIB)
    daemon = start_daemon(export(path=loop_device(image=image), store=store)
                          + listener("nbd", service="nbd", engine=engine, exports="disk", workers=4))
    daemon.image = image
    yield daemon
    daemon.stop()


def fill(clients, flags=0):
    """Each client writes half of its half MiB, so that no request of the kernel's is in part beyond what
    the device keeps: of that one the loop driver (seen on Linux 6.18) says that all is well."""
    for i, client in enumerate(clients):
        client.request(WRITE, i * 512 * KIB, 256 * KIB, bytes([i + 1]) * (256 * KIB), flags)
    return [client.reply()[0] for client in clients]


def test_a_failed_flush_fails_every_request_that_waits_for_it(failing):
    """The kernel reports the error to one flush only; the clients of other workers must not get a success."""
    clients = [connect(failing, "nbd") for _ in range(16)]
    assert set(fill(clients)) == {0}
    for client in clients:
        client.request(FLUSH)
    assert {client.reply()[0] for client in clients} == {EIO}
    for client in clients:
        client.request(READ, 0, 10)
    assert {client.reply(10)[0] for client in clients} == {EIO}
    (disk,) = failing.call("GetStats")["exports"]
    assert disk["state"] == "failed"
    for client in clients:
        client.socket.close()


def test_writes_acknowledged_with_fua_survive(failing):
    clients = [connect(failing, "nbd") for _ in range(16)]
    errors = fill(clients, FUA)
    assert EIO in errors
    kept = failing.image.read_bytes()
    for i, error in enumerate(errors):
        if error == 0:
            assert kept[i * 512 * KIB :][: 256 * KIB] == bytes([i + 1]) * (256 * KIB)
    for client in clients:
        client.socket.close()


def test_parts_of_a_device_s_sectors_are_zeroed(start_daemon, engine, store, tmp_path, loop_device):
    """The device does that only for whole ones."""
    image = tmp_path / "image"
    image.write_bytes(b"b" * MIB)
    daemon = start_daemon(export(path=loop_device(image=image), store=store)
                          + listener("nbd", service="nbd", engine=engine, exports="disk"))
    with connect(daemon, "nbd") as client:
        for kind in [TRIM, WRITE_ZEROES]:
            client.request(kind, 1, 99, flags=FUA)
            assert client.reply() == (0, b"")
        client.request(READ, 0, 200)
        assert client.reply(200) == (0, b"b" + bytes(99) + b"b" * 100)
    daemon.stop()


def test_contexts_are_forgotten_when_choosing_others_fails(start_daemon, engine):
    daemon = start_daemon(export(store="memory", size="1M")
                          + listener("nbd", service="nbd", engine=engine, exports="disk"))
    query = struct.pack(">II", 1, 15) + b"base:allocation"
    for other in [struct.pack(">I", 4) + b"none" + query, b"half", b"x" * 9000]:
        with Raw(daemon, "nbd") as client:
            for option, data, answer in [
                (OPT_STRUCTURED_REPLY, b"", REP_ACK),
                (OPT_SET_META_CONTEXT, struct.pack(">I", 0) + query, REP_ACK),
                (OPT_SET_META_CONTEXT, other, None),
            ]:
                client.option(option, data)
                ((kind, _),) = client.option_replies()[-1:]
                assert kind == answer if answer else kind & 0x80000000
            client.go()
            client.request(BLOCK_STATUS, 0, 4096)
            _, _, kind, _, length = struct.unpack(">IHHQI", client.read(20))
            assert kind == 0x8001 and struct.unpack(">I", client.read(length)[:4]) == (EINVAL,)


def test_the_smallest_pool_serves_many(start_daemon, engine, store, tmp_path):
    """Most of the pool may be lent to the kernel, and each client asks for more than its share."""
    daemon = start_daemon(
        export(path=tmp_path / "disk", store=store, size="8M", create="yes")
        + listener("nbd", service="nbd", engine=engine, exports="disk", buffers=16, buffer_size="4K")
    )
    clients = [connect(daemon, "nbd") for _ in range(8)]
    with Raw(daemon, "nbd") as client:
        client.option(OPT_LIST)
        assert [kind for kind, _ in client.option_replies()] == [REP_SERVER, REP_ACK]
    for i, client in enumerate(clients):
        client.request(WRITE, i * MIB, 100 * KIB, bytes([i + 1]) * (100 * KIB), FUA)
    for client in clients:
        assert client.reply() == (0, b"")
    for i, client in enumerate(clients):
        client.request(READ, i * MIB, 100 * KIB)
    for i, client in enumerate(clients):
        assert client.reply(100 * KIB) == (0, bytes([i + 1]) * (100 * KIB))
        client.socket.close()
