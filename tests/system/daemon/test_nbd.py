"""The nbd service with its real clients, over every engine and store."""

import json
import os
import random

import pytest
from conftest import ENGINES, export, listener, requires, run
from nbd_client import EINVAL, READ, WRITE, WRITE_ZEROES, Raw

MINUTES = 1.2

nbd = pytest.importorskip("nbd", reason="python3-libnbd is not installed (make deps)")

KIB, MIB = 1024, 1024 * 1024
SIZE = 8 * MIB
PATHS = [(engine, store) for engine in ENGINES for store in ["io_uring", "threads", "memory"]]
PATHS += [("epoll", "blocking"), ("io_uring", "blocking")]


@pytest.fixture(params=PATHS, ids="-".join)
def daemon(request, start_daemon, tmp_path):
    engine, store = request.param
    path = {} if store == "memory" else {"path": tmp_path / "disk", "create": "yes"}
    daemon = start_daemon(export(size=SIZE, store=store, **path) + listener("nbd", "nbd", engine, exports="disk", workers=2))
    yield daemon
    daemon.wait_closed("nbd")
    (disk,) = daemon.call("GetStats")["exports"]
    assert disk["state"] == "ok" and disk["in_flight"] == 0
    # Left out: the chunk of each worker that replies are written into, and chunks that are lent.
    pool = daemon.stats("nbd")["pool"]
    assert pool["free"] >= pool["chunks"] - 2


def uri(daemon):
    return "nbd://127.0.0.1:%d/disk" % daemon.port("nbd")


def stores(daemon):
    return daemon.status("nbd")["stores"]


def connect(daemon, structured=True, contexts=True):
    client = nbd.NBD()
    client.set_request_structured_replies(structured)
    client.set_strict_mode(0)
    if structured and contexts:
        client.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    client.connect_uri(uri(daemon))
    return client


def allocation(client, offset=0, length=SIZE, flags=0):
    """[(length, is a hole), ...]"""
    extents = []

    def extent(_context, _offset, entries, _error):
        extents.extend(zip(entries[::2], (entry & nbd.STATE_HOLE != 0 for entry in entries[1::2])))

    client.block_status(length, offset, extent, flags)
    return extents


@pytest.mark.one("daemon")
def test_nbdinfo_lists_the_abilities_of_the_export(daemon):
    requires("nbdinfo")
    info = json.loads(run("nbdinfo", "--json", "--list", uri(daemon)))
    assert [e["export-name"] for e in info["exports"]] == ["disk"]
    (told,) = info["exports"]
    assert told["export-size"] == SIZE and told["contexts"] == ["base:allocation"]
    for can in ["flush", "fua", "multi_conn", "trim", "zero"]:
        assert told[f"can_{can}"] is True, can
    assert told["is_read_only"] is False
    assert told["block_size_minimum"] == 1 and told["block_size_maximum"] == 64 * MIB
    for what in ["connect", "read", "write", "flush", "fua", "zero", "structured-reply"]:
        run("nbdinfo", "--can", what, uri(daemon))
    (extent,) = json.loads(run("nbdinfo", "--json", "--map", uri(daemon)))
    whole = "data" if stores(daemon) == ["memory"] else "hole,zero"
    assert extent["length"] == SIZE and extent["description"] == whole


@pytest.mark.one("daemon")
def test_nbdcopy_both_ways_keeps_every_byte(daemon, tmp_path):
    requires("nbdcopy")
    source, copy = tmp_path / "source", tmp_path / "copy"
    data = bytearray(random.Random(1).randbytes(SIZE))
    data[MIB : 3 * MIB] = bytes(2 * MIB)
    source.write_bytes(data)
    for options in [[], ["--request-size=32768", "--connections=2"], ["--request-size=4194304"]]:
        run("nbdcopy", *options, source, uri(daemon))
        run("nbdcopy", *options, uri(daemon), copy)
        assert copy.read_bytes() == data


def test_holes_are_reported_and_read_as_zeros(daemon):
    client = connect(daemon)
    client.pwrite(b"x" * 65536, MIB)
    if stores(daemon) == ["memory"]:
        assert allocation(client) == [(SIZE, False)]
    else:
        assert allocation(client) == [(MIB, True), (65536, False), (SIZE - MIB - 65536, True)]
        assert allocation(client, MIB - 4096, 8192, nbd.CMD_FLAG_REQ_ONE) == [(4096, True)]
    client.trim(65536, MIB)
    assert stores(daemon) == ["memory"] or all(hole for _, hole in allocation(client))
    assert client.pread(65536, MIB) == bytes(65536)
    client.zero(65536, 2 * MIB, nbd.CMD_FLAG_NO_HOLE)
    assert client.pread(65536, 2 * MIB) == bytes(65536)
    client.shutdown()


@pytest.mark.parametrize("store", ["io_uring", "threads"])
def test_the_part_cut_off_a_file_is_no_hole(start_daemon, engine, store, tmp_path):
    """Reading it fails, so no client may take it for zeros."""
    daemon = start_daemon(export(size=SIZE, store=store, path=tmp_path / "disk", create="yes")
                          + listener("nbd", "nbd", engine, exports="disk"))
    client = connect(daemon)
    client.pwrite(b"h" * MIB, MIB)
    for cut, left in [(3 * MIB, [(MIB, True), (MIB, False), (MIB, True)]),
                      (MIB + 65536, [(MIB, True), (65536, False)])]:
        os.truncate(tmp_path / "disk", cut)
        assert allocation(client) == left
        with pytest.raises(nbd.Error, match="EIO"):
            allocation(client, cut, SIZE - cut)
    os.truncate(tmp_path / "disk", SIZE)
    assert allocation(client, 4 * MIB, MIB) == [(MIB, True)]


def test_no_reply_is_put_into_the_data_of_another(daemon):
    """A simple reply, which is of one piece, while its data is read in parts, beside other commands."""
    content = random.Random(3).randbytes(4 * MIB)
    with Raw(daemon, "nbd") as client:
        client.go()
        client.request(WRITE, 0, len(content), content)
        assert client.reply_of_one_piece({}) == (7, 0, b"")
        for _ in range(8):
            client.request(WRITE_ZEROES, 4 * MIB, MIB, cookie=1)
            client.request(READ, 0, len(content), cookie=2)
            client.request(WRITE_ZEROES, 5 * MIB, MIB, cookie=3)
            replies = [client.reply_of_one_piece({2: len(content)}) for _ in range(3)]
            assert sorted(replies) == [(1, 0, b""), (2, 0, content), (3, 0, b"")]


def test_fio_verifies_what_it_wrote(daemon):
    fio = requires("fio")
    if "nbd" not in run(fio, "--enghelp").split():
        pytest.skip("this fio has no nbd engine")
    run(fio, "--name=x", "--ioengine=nbd", f"--uri={uri(daemon)}", "--rw=randrw", "--bs=4k", "--iodepth=32",
        f"--size={SIZE}", "--io_size=8M", "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0")


@pytest.mark.one("daemon")
def test_qemu_reads_what_it_wrote(daemon, tmp_path):
    requires("qemu-io")
    run("qemu-io", "-f", "raw", "-c", "write -P 7 -f 4k 1M", "-c", "write -z 64k 64k", "-c", "discard 512k 128k",
        "-c", "read -P 7 4k 60k", "-c", "read -P 0 64k 64k", "-c", "flush", uri(daemon))
    image = tmp_path / "image"
    run("qemu-img", "convert", "-f", "raw", "-O", "raw", uri(daemon), image)
    run("qemu-img", "compare", "-f", "raw", "-F", "raw", uri(daemon), image)
    extents = json.loads(run("qemu-img", "map", "-f", "raw", "--output=json", uri(daemon)))
    assert sum(extent["length"] for extent in extents) == SIZE
    assert extents[-1]["data"] == (stores(daemon) == ["memory"])
    run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", image, uri(daemon))
    run("qemu-img", "compare", "-f", "raw", "-F", "raw", uri(daemon), image)
    for options in ([], ["-w"]):
        told = run("qemu-img", "bench", "-f", "raw", "-n", "-d", "32", "-c", "500", *options, uri(daemon))
        assert "Run completed" in told


@pytest.mark.one("daemon")
def test_nbd_client_lists_the_exports(daemon):
    if not os.path.exists("/usr/sbin/nbd-client"):
        pytest.skip("nbd-client is not installed (make deps)")
    out = run("/usr/sbin/nbd-client", "-l", "127.0.0.1", "-p", daemon.port("nbd"))
    assert "disk" in out.split()


def test_a_request_has_up_to_64_mib(start_daemon, engine):
    daemon = start_daemon("[export disk]\nstore = memory\nsize = 72M\n"
                          + listener("nbd", service="nbd", engine=engine, exports="disk"))
    data = random.Random(3).randbytes(64 * MIB)
    with Raw(daemon, "nbd") as client:
        client.go()
        client.request(WRITE, 4096, len(data), data)
        assert client.reply() == (0, b"")
        client.request(READ, 4096, len(data))
        assert client.reply(len(data)) == (0, data)
        client.request(READ, 0, 64 * MIB + 1)
        assert client.reply() == (EINVAL, b"")
