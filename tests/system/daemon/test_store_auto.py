"""`store = auto`: the worker does by itself what need not wait, the store the rest."""

import os
import random
import struct

import pytest
from conftest import listener
from nbd_client import FUA, READ, WRITE, connect

MIB = 1 << 20


@pytest.fixture
def serve(start_daemon, engine):
    def start(path, keys="", **listener_keys):
        return start_daemon(f"[export disk]\npath = {path}\ncreate = yes\nsize = 8M\n{keys}\n"
                            + listener("nbd", service="nbd", engine=engine, exports="disk", **listener_keys))

    return start


def mount(daemon):
    return daemon.call("GetStats")["exports"][0]["listeners"][0]


def calls(daemon):
    return daemon.stats("nbd")["cost"]["syscalls"]


def test_cached_data_is_read_by_the_worker(serve, tmp_path):
    daemon = serve(tmp_path / "disk")
    data = random.Random(1).randbytes(MIB)
    with connect(daemon, "nbd") as client:
        client.request(WRITE, 0, MIB, data)
        assert client.reply() == (0, b"")
        before = calls(daemon)
        for offset in range(0, MIB, 4096):
            client.request(READ, offset, 4096)
            assert client.reply(4096) == (0, data[offset : offset + 4096])
    after = calls(daemon)
    assert after["pread"] - before["pread"] == MIB // 4096
    assert "inline_io" in mount(daemon)["features"] and "worker" in mount(daemon)["choice"]


def test_uncached_data_is_read_by_the_store(serve, tmp_path):
    """Parts that are in the page cache and parts that are not, in one request."""
    path, rng = tmp_path / "disk", random.Random(2)
    data = rng.randbytes(8 * MIB)
    path.write_bytes(data)
    daemon = serve(path)
    fd = os.open(path, os.O_RDWR)
    os.fsync(fd)
    with connect(daemon, "nbd") as client:
        for _ in range(40):
            drop = rng.randrange(8 * MIB)
            os.posix_fadvise(fd, drop, rng.randrange(4 * MIB), os.POSIX_FADV_DONTNEED)
            offset = rng.randrange(7 * MIB)
            length = rng.randrange(1, MIB)
            client.request(READ, offset, length)
            assert client.reply(length) == (0, data[offset : offset + length])
    os.close(fd)


def test_writes_are_whole_and_stable(serve, tmp_path):
    path, rng = tmp_path / "disk", random.Random(3)
    path.write_bytes(bytes(8 * MIB))
    daemon, mirror = serve(path), bytearray(8 * MIB)
    with connect(daemon, "nbd") as client:
        for i in range(60):
            offset, length = rng.randrange(7 * MIB), rng.randrange(1, MIB)
            data = rng.randbytes(length)
            mirror[offset : offset + length] = data
            client.request(WRITE, offset, length, data, FUA if i % 8 == 0 else 0)
            assert client.reply() == (0, b"")
    assert path.read_bytes() == mirror
    assert mount(daemon)["operations"]["write"]["errors"] == 0


def test_a_named_store_is_what_it_is(serve, tmp_path):
    daemon = serve(tmp_path / "disk", store="threads")
    assert "inline_io" not in mount(daemon)["features"] and "choice" not in mount(daemon)


def test_exports_shows_the_store_that_auto_chose(serve, tmp_path):
    daemon = serve(tmp_path / "disk")
    shown = " ".join(daemon.nbctl("exports").stdout.split())
    assert "disk: auto: the page cache answers" in shown or "disk: auto: in memory" in shown, shown


def test_requests_of_one_turn_are_submitted_by_one_call(serve, tmp_path):
    daemon = serve(tmp_path / "disk")
    if mount(daemon)["store"] != "io_uring" or "page cache" not in mount(daemon)["choice"]:
        pytest.skip("no ring here, or a file system whose reads a ring would hand to threads")
    data, count = random.Random(4).randbytes(MIB), 64
    reads = [struct.pack(">IHHQQI", 0x25609513, 0, READ, 7, i * 4096, 4096) for i in range(count)]
    with connect(daemon, "nbd") as client:
        client.request(WRITE, 0, MIB, data)
        assert client.reply() == (0, b"")
        before = calls(daemon)
        client.send(b"".join(reads))
        got = sorted(client.reply(4096) for _ in reads)
    assert got == sorted((0, data[i * 4096 : (i + 1) * 4096]) for i in range(count))
    # However the input was cut: what has nothing behind it is a single one.
    assert calls(daemon)["pread"] - before["pread"] < count // 4
