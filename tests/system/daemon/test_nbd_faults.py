"""The nbd service with clients that break the protocol, break off, or are broken off; with stores
that fail; and with a daemon that is killed."""

import os
import random
import signal
import socket
import struct
import threading

import pytest
from conftest import TIMEOUT, Daemon, export, limit_locked_memory, listener, locks_memory, wait_until
from nbd_client import (BLOCK_STATUS, EINVAL, EIO, ENOSPC, EPERM, FLUSH, FUA, INFO_BLOCK_SIZE, OPT_ABORT,
                        OPT_EXPORT_NAME, OPT_GO, OPT_INFO, OPT_LIST, OPT_STARTTLS, READ, REP_ACK, REP_ERR_INVALID,
                        REP_ERR_TOO_BIG, REP_ERR_UNKNOWN, REP_ERR_UNSUP, REP_SERVER, STATUS, TRIM, WRITE,
                        WRITE_ZEROES, Raw, connect, reset)

MINUTES = 1

KIB, MIB = 1024, 1024 * 1024
SIZE = 8 * MIB
STORES = ["io_uring", "threads", "blocking"]


def nbd(engine="epoll", **keys):
    return listener("nbd", "nbd", engine, exports="disk", **keys)


@pytest.fixture(params=STORES)
def store(request):
    return request.param


@pytest.fixture
def daemon(start_daemon, engine, store, tmp_path):
    daemon = start_daemon(export(path=tmp_path / "disk", create="yes", size=SIZE, store=store)
                          + export("other", "memory", size=SIZE)
                          + listener("nbd", service="nbd", engine=engine, exports="disk, other"))
    yield daemon
    daemon.wait_closed("nbd")
    assert [one["in_flight"] for one in daemon.call("GetStats")["exports"]] == [0, 0]
    pool = daemon.stats("nbd")["pool"]
    assert pool["free"] >= pool["chunks"] - 1


@pytest.mark.parametrize("piece", [1100])
@pytest.mark.parametrize("offset", [0, 1024])
def test_part_of_a_block_is_never_written(daemon, piece, offset):
    """A payload in more pieces than one request to a store can have, of a client that is gone before its end."""
    old, new = b"old!" * 32768, b"NEW!" * 32768
    with connect(daemon, "nbd") as client:
        client.request(WRITE, 0, len(old) + 4096, old + old[:4096])
        assert client.reply() == (0, b"")
    client = connect(daemon, "nbd")
    before = daemon.stats("nbd")["bytes_in"]
    client.request(WRITE, offset, len(new))
    sent = 28 + 90 * piece
    for at in range(0, 90 * piece, piece):
        client.send(new[at:at + piece])
        wait_until(lambda end=28 + at + piece: daemon.stats("nbd")["bytes_in"] >= before + end, "a piece has come")
    client.send(new[90 * piece:90 * piece + 50])
    wait_until(lambda: daemon.stats("nbd")["bytes_in"] >= before + sent + 50, "the last piece has come")
    reset(client)
    with connect(daemon, "nbd") as client:
        client.request(READ, 0, len(old))
        error, found = client.reply(len(old))
    assert error == 0
    for at in range(4096 if offset else 0, len(old), 4096):
        assert found[at:at + 4096] in (old[:4096], new[:4096]), at
    assert offset == 0 or found[:4096] in (old[:4096], old[:offset] + new[:4096 - offset])


def works(daemon):
    """Somebody else is served as ever."""
    with connect(daemon, "nbd") as client:
        client.request(WRITE, 4096, 4, b"fine", FUA)
        assert client.reply() == (0, b"")
        client.request(READ, 4096, 4)
        assert client.reply(4) == (0, b"fine")


@pytest.mark.one("engine", "store")
def test_options_are_answered_and_the_handshake_continues(daemon):
    with Raw(daemon, "nbd") as client:
        for option, data, expected in [
            (OPT_STARTTLS, b"", REP_ERR_UNSUP),
            (77, b"", REP_ERR_UNSUP),
            (77, b"x" * 5000, REP_ERR_UNSUP),
            (OPT_LIST, b"data", REP_ERR_INVALID),
            (OPT_INFO, b"", REP_ERR_INVALID),
            (OPT_INFO, struct.pack(">I", 100) + b"short", REP_ERR_INVALID),
            (OPT_INFO, struct.pack(">I", 2**32 - 1) + b"x" * 10, REP_ERR_INVALID),
            (OPT_INFO, b"x" * 20000, REP_ERR_TOO_BIG),
            (OPT_GO, struct.pack(">I", 4) + b"none" + struct.pack(">H", 0), REP_ERR_UNKNOWN),
        ]:
            client.option(option, data)
            assert [kind for kind, _ in client.option_replies()] == [expected], option
        client.option(OPT_LIST)
        replies = client.option_replies()
        assert [data[4:] for kind, data in replies if kind == REP_SERVER] == [b"disk", b"other"]
        client.go(b"other")
        client.request(READ, 0, 10)
        assert client.reply(10) == (0, bytes(10))


@pytest.mark.one("engine", "store")
@pytest.mark.parametrize("zeroes", [0, 124], ids=["no_zeroes", "zeroes"])
def test_old_clients_choose_an_export_by_name(daemon, zeroes):
    with Raw(daemon, "nbd", flags=1 if zeroes else 3) as client:
        client.option(OPT_EXPORT_NAME, b"disk")
        size, flags = struct.unpack(">QH", client.read(10))
        assert size == SIZE and flags & 1
        assert client.read(zeroes) == bytes(zeroes)
        client.request(WRITE, 0, 5, b"hello")
        assert client.reply() == (0, b"")
    with Raw(daemon, "nbd") as client:
        client.option(OPT_EXPORT_NAME, b"no such export")
        assert client.is_closed()
    with Raw(daemon, "nbd") as client:
        client.option(OPT_ABORT)
        assert client.option_replies() == [(REP_ACK, b"")] and client.is_closed()


@pytest.mark.one("store")
@pytest.mark.parametrize("what", ["flags", "option", "huge option", "request", "half", "noise"])
def test_invalid_input_ends_its_connection_and_no_other(daemon, what):
    before = daemon.stats("nbd")["connections"]["closed"]["protocol"]
    bystander = connect(daemon, "nbd")
    if what == "flags":
        client = Raw(daemon, "nbd", flags=0xFFFF0000)
    elif what == "option":
        client = Raw(daemon, "nbd")
        client.option(OPT_LIST, magic=b"WHAT IS?")
    elif what == "huge option":
        client = Raw(daemon, "nbd")
        client.option(77, length=2**32 - 1)
    else:
        client = connect(daemon, "nbd")
        if what == "request":
            client.request(READ, 0, 10, magic=0x12345678)
        elif what == "noise":
            client.send(random.Random(4).randbytes(10000))
        else:
            client.send(struct.pack(">I", 0x25609513) + b"\0" * 5)
            client.socket.shutdown(socket.SHUT_WR)
    assert client.is_closed()
    if what != "half":  # that one has just ended
        wait_until(lambda: daemon.stats("nbd")["connections"]["closed"]["protocol"] == before + 1,
                   "the protocol error is counted")
    bystander.request(FLUSH)
    assert bystander.reply() == (0, b"")
    bystander.socket.close()
    works(daemon)


@pytest.mark.one("store")
def test_bad_requests_are_answered_and_the_connection_stays_open(daemon):
    with connect(daemon, "nbd") as client:
        for request, error in [
            ((READ, 0, 0), EINVAL),
            ((READ, SIZE - 1, 2), EINVAL),
            ((READ, 2**64 - 1, 1), EINVAL),
            ((READ, 2**64 - 10, 20), EINVAL),
            ((READ, 0, 2**32 - 1), EINVAL),
            ((WRITE, SIZE - 1, 2, b"xx"), ENOSPC),
            ((WRITE, 2**64 - 1, 2, b"xx"), ENOSPC),
            ((WRITE, 0, 33 * MIB, b"x" * (33 * MIB)), ENOSPC),
            ((WRITE, 0, 1, b"x", 0x8000), EINVAL),
            ((TRIM, SIZE, 1), EINVAL),
            ((WRITE_ZEROES, 0, SIZE + 1), ENOSPC),
            ((99, 0, 0), EINVAL),
        ]:
            client.request(*request)
            assert client.reply() == (error, b""), request[:3]
        client.request(READ, 0, 10)
        assert client.reply(10) == (0, bytes(10))


def test_a_read_only_export_is_never_written(start_daemon, engine, store, tmp_path):
    path = tmp_path / "disk"
    path.write_bytes(b"x" * (4 * MIB))
    path.chmod(0o444)
    daemon = start_daemon(export(path=path, store=store, read_only="yes") + nbd(engine))
    with connect(daemon, "nbd") as client:
        for kind, length, payload in [(WRITE, 10, b"y" * 10), (WRITE, 4 * MIB, b"y" * (4 * MIB)), (TRIM, 10, b""),
                                      (WRITE_ZEROES, 10, b"")]:
            client.request(kind, 0, length, payload)
            assert client.reply() == (EPERM, b"")
        client.request(FLUSH)
        assert client.reply() == (0, b"")
        client.request(READ, 0, 10)
        assert client.reply(10) == (0, b"x" * 10)
    assert path.read_bytes() == b"x" * (4 * MIB)


def test_a_full_file_system_is_an_error_of_the_request(start_daemon, engine, store, small):
    daemon = start_daemon(export(path=small / "disk", create="yes", size=SIZE, store=store) + nbd(engine))
    with connect(daemon, "nbd") as client:
        errors = set()
        for i in range(16):
            client.request(WRITE, i * 256 * KIB, 256 * KIB, b"f" * (256 * KIB))
            errors.add(client.reply()[0])
        assert errors == {0, ENOSPC}
        for _ in range(5):  # with more behind it than is written before the error
            client.request(WRITE, MIB, 6 * MIB, b"f" * (6 * MIB))
            assert client.reply() == (ENOSPC, b"")
        client.request(READ, 0, 5)
        assert client.reply(5) == (0, b"fffff")
        client.request(TRIM, 0, 2 * MIB)
        assert client.reply() == (0, b"")
        client.request(WRITE, 0, 4096, b"g" * 4096, FUA)
        assert client.reply() == (0, b"")
    (disk,) = daemon.call("GetStats")["exports"]
    assert disk["errors"]["ENOSPC"] > 0 and disk["state"] == "ok"
    daemon.stop()


def test_a_file_that_was_cut_is_an_error_of_the_request(daemon, tmp_path):
    with connect(daemon, "nbd") as client:
        os.truncate(tmp_path / "disk", MIB)
        client.request(READ, 2 * MIB, 4096)
        assert client.reply() == (EIO, b"")
        client.request(READ, 0, 4096)
        assert client.reply(4096) == (0, bytes(4096))
        client.request(READ, MIB - 10, 20)
        assert client.reply() == (EIO, b"")
        os.truncate(tmp_path / "disk", SIZE)


def test_acknowledged_writes_survive_a_kill(engine, store, tmp_path):
    """Blocks hold their number and version; after kill -9 none is older than the acknowledged version."""
    config = export(path=tmp_path / "disk", create="yes", size=SIZE, store=store) + nbd(engine)
    chosen = random.Random(5)
    promised = {}  # block: version
    version = 0
    for round_ in range(3):
        (tmp_path / str(round_)).mkdir()
        daemon = Daemon(config, tmp_path / str(round_))
        with connect(daemon, "nbd") as client:
            for block, wanted in promised.items():
                client.request(READ, block * 4096, 8)
                found_block, found = struct.unpack(">II", client.reply(8)[1])
                assert (found_block, found >= wanted) == (block, True)
            killer = threading.Timer(chosen.uniform(0, 0.2), daemon.process.kill)
            written, most = {}, version + chosen.randrange(50, 200)
            try:
                while True:
                    version += 1
                    if version == most:  # it has had the time to promise something
                        killer.start()
                    block = chosen.randrange(SIZE // 4096)
                    fua = chosen.random() < 0.3
                    payload = struct.pack(">II", block, version) * 512
                    client.request(WRITE, block * 4096, 4096, payload, FUA if fua else 0)
                    assert client.reply() == (0, b"")
                    (promised if fua else written)[block] = version
                    if chosen.random() < 0.1:
                        client.request(FLUSH)
                        assert client.reply() == (0, b"")
                        promised.update(written)
                        written = {}
            except (EOFError, ConnectionError):
                pass
            killer.join()
        assert daemon.process.wait(TIMEOUT) == -signal.SIGKILL
        daemon.notify.close()
    assert len(promised) > 10


def test_a_reset_while_the_store_hangs_does_not_wake_the_worker(faulty):
    """The socket of a connection that is closing stays open until its requests have ended."""
    def waits():
        return faulty.stats("nbd")["cost"]["syscalls"]["epoll_wait"]

    client = connect(faulty, "nbd")
    faulty.say("pread wait")
    client.request(READ, 0, 4096)
    wait_until(lambda: faulty.call("GetStats")["exports"][0]["in_flight"] == 1, "it is at the store")
    reset(client)
    wait_until(lambda: [c["state"] for c in faulty.call("ListConnections")["connections"]] == ["closing"],
               "it has been noticed")
    before = waits()
    for _ in range(50):  # each takes a millisecond or so, in which a worker that spins waits a thousand times
        faulty.call("GetStatus")
    assert waits() - before < 300
    faulty.say("")
    faulty.wait_closed("nbd")


def test_a_file_system_without_an_end_of_its_data_is_answered(faulty):
    """SEEK_DATA and SEEK_HOLE that tell the same offset: all is data."""
    with Raw(faulty, "nbd") as client:
        client.speak("structured").go()
        client.request(WRITE, 0, 128 * 1024, bytes(128 * 1024))
        assert client.reply_of_one_piece({}) == (7, 0, b"")
        faulty.say("lseek same")
        client.request(BLOCK_STATUS, 4096, 100 * 1024)
        assert client.message({}) == (7, True, STATUS, struct.pack(">3I", 1, 100 * 1024, 0))
    faulty.say("")


def test_block_sizes_are_told_unasked(start_daemon, loop_device):
    """A client that does not ask for them would send parts of a block, which are refused."""
    device = loop_device("--sector-size", "4096")
    daemon = start_daemon(export(path=device, direct="yes") + nbd())
    with Raw(daemon, "nbd") as client:
        client.go()
        assert struct.unpack(">III", client.infos[INFO_BLOCK_SIZE])[:2] == (4096, 4096)
        client.request(READ, 512, 512)
        assert client.reply() == (EINVAL, b"")


def test_short_transfers_are_completed(faulty):
    data = random.Random(6).randbytes(5000)
    with connect(faulty, "nbd") as client:
        faulty.say("pwrite short")
        client.request(WRITE, 100, 5000, data)
        assert client.reply() == (0, b"")
        faulty.say("pread short")
        client.request(READ, 100, 5000)
        assert client.reply(5000) == (0, data)


def test_errors_of_the_device_reach_the_client(faulty):
    with connect(faulty, "nbd") as client:
        for order, request, error in [
            ("pread EIO", (READ, 0, 4096), EIO),
            ("pwrite EIO", (WRITE, 0, 4, b"1234"), EIO),
            ("pwrite ENOSPC", (WRITE, 0, 4, b"1234"), ENOSPC),
            ("pwrite EIO", (WRITE, 0, 4, b"1234", FUA), EIO),
        ]:
            faulty.say(order)
            client.request(*request)
            assert client.reply() == (error, b""), order
        faulty.say("")
        client.request(FLUSH)
        assert client.reply() == (0, b"")
    (disk,) = faulty.call("GetStats")["exports"]
    assert disk["errors"]["EIO"] == 3 and disk["errors"]["ENOSPC"] == 1 and disk["state"] == "ok"


def test_a_failed_flush_fails_the_export_for_everybody(faulty):
    with connect(faulty, "nbd") as client, connect(faulty, "nbd") as bystander:
        client.request(WRITE, 0, 4, b"1234")
        assert client.reply() == (0, b"")
        faulty.say("fdatasync EIO")
        client.request(FLUSH)
        assert client.reply() == (EIO, b"")
        faulty.say("")
        for one in [client, bystander]:
            for request in [(FLUSH,), (READ, 0, 4), (WRITE, 0, 4, b"5678")]:
                one.request(*request)
                assert one.reply() == (EIO, b"")
    with Raw(faulty, "nbd") as late:
        late.option(OPT_GO, struct.pack(">IH", 0, 0))
        ((kind, text),) = late.option_replies()
        assert kind & 0x80000000 and b"flush" in text
    (disk,) = faulty.call("GetStats")["exports"]
    assert disk["state"] == "failed" and "flush" in disk["reason"]
    assert "flush failed" in faulty.log()


def features(daemon):
    (disk,) = daemon.call("GetStats")["exports"]
    (served,) = disk["listeners"]
    return served["features"], served.get("reason", "")


@pytest.fixture
def direct_disk(tmp_path):
    """The section of an export with direct I/O, for which buffers are registered."""
    try:
        os.close(os.open(tmp_path / "disk", os.O_RDWR | os.O_CREAT | os.O_DIRECT))
    except OSError:
        pytest.skip("the file system has no direct I/O")
    return export(path=tmp_path / "disk", create="yes", size=SIZE, direct="yes")


def test_without_direct_io_no_buffers_are_registered(start_daemon, engine, tmp_path):
    daemon = start_daemon(export(path=tmp_path / "disk", create="yes", size=SIZE) + nbd(engine))
    ring = [] if engine == "epoll" else ["unified_ring"]
    assert features(daemon) == (ring + ["registered_file"], "")
    works(daemon)


@locks_memory
def test_stats_tell_what_is_registered(start_daemon, engine, direct_disk):
    daemon = start_daemon(direct_disk + nbd(engine))
    ring = [] if engine == "epoll" else ["unified_ring"]
    assert features(daemon) == (ring + ["registered_file", "registered_buffers", "direct"], "")


def test_limited_memory_is_left_to_rings(start_daemon, engine, direct_disk):
    """Rings of a reload and of this user's other daemons. What is not registered therefore is said."""
    config = direct_disk + nbd(engine, buffers=400)
    daemon = start_daemon(config, preexec=lambda: limit_locked_memory(8 * MIB))
    daemon.write_config(config + listener("later", engine="io_uring", workers=24))
    daemon.call("Reload")
    names, reason = features(daemon)
    assert "registered_buffers" not in names and "LimitMEMLOCK" in reason
    is_said_everywhere(daemon, reason)


def is_said_everywhere(daemon, reason):
    """What is asked for and not in force, to whoever looks."""
    assert f"listener 'nbd': export 'disk': {reason}" in daemon.log()
    (disk,) = daemon.call("GetStatus")["exports"]
    assert (disk["state"], disk["reason"]) == ("ok", f"listener 'nbd': {reason}")
    for command in ("status", "exports"):
        assert f"disk: listener 'nbd': {reason}" in " ".join(daemon.nbctl(command).stdout.split())


@locks_memory  # another shortfall would be told instead
def test_files_that_cannot_be_polled_are_served_without_polling(start_daemon, engine, direct_disk):
    """Most devices have no queues for it; where this one has, it is polled for."""
    daemon = start_daemon(direct_disk.replace("direct = yes", "direct = poll") + nbd(engine))
    with connect(daemon, "nbd") as client:
        for i in range(64):
            client.request(WRITE, i * 65536, 65536, bytes([i]) * 65536)
        for _ in range(64):
            assert client.reply() == (0, b"")
        client.request(FLUSH)
        assert client.reply() == (0, b"")
        for i in range(64):  # one after the other: replies come in any order
            client.request(READ, i * 65536, 65536)
            assert client.reply(65536) == (0, bytes([i]) * 65536)
    names, reason = features(daemon)
    assert "direct" in names
    assert ("iopoll" in names) != ("poll_queues" in reason)
    if reason:
        (disk,) = daemon.call("GetStatus")["exports"]
        assert disk["reason"] == f"listener 'nbd': {reason}"


def test_a_store_that_does_not_poll_says_so(start_daemon, engine, direct_disk):
    daemon = start_daemon(direct_disk.replace("direct = yes", "direct = poll").replace("io_uring", "threads") + nbd(engine))
    names, reason = features(daemon)
    assert "iopoll" not in names and "threads cannot poll a device" in reason
    is_said_everywhere(daemon, reason)


def test_a_block_device_is_served(start_daemon, engine, store, loop_device):
    daemon = start_daemon(export(path=loop_device(), store=store) + nbd(engine))
    works(daemon)
    with connect(daemon, "nbd") as client:
        for kind, offset in [(TRIM, 64 * KIB), (WRITE_ZEROES, 128 * KIB)]:
            client.request(kind, offset, 64 * KIB, flags=FUA)
            assert client.reply() == (0, b"")
        client.request(READ, 128 * KIB, 64 * KIB)
        assert client.reply(64 * KIB) == (0, bytes(64 * KIB))
        client.request(READ, SIZE - 10, 10)
        assert client.reply(10) == (0, b"b" * 10)
    assert daemon.call("GetStats")["exports"][0]["size"] == SIZE
    daemon.stop()


def test_a_read_only_block_device_says_so(start_daemon, store, loop_device):
    daemon = start_daemon(export(path=loop_device("--read-only"), store=store) + nbd())
    assert daemon.call("GetStats")["exports"][0]["read_only"] is True
    with connect(daemon, "nbd") as client:
        client.request(WRITE, 0, 4, b"1234")
        assert client.reply() == (EPERM, b"")
        client.request(READ, 0, 4)
        assert client.reply(4) == (0, b"bbbb")
    daemon.stop()
