"""The nvme service with hosts that break off, or are broken off; with stores that fail or hang; and with a
daemon that drains, reloads, or is killed.  See test_nvme_bad.py for hosts that break the protocol."""

import random
import signal
import socket
import struct
import threading
import time

import pytest
from conftest import TIMEOUT, Daemon, listener, wait_until
from nvme_client import AER, CAPSULE, COMMAND, DNR, FUA, H2C_DATA, KEEP_ALIVE, LAST, WRITE, Host, Queue, Status
from test_nvme import NQN, SIZE, config

MINUTES = 1.2
KIB, MIB = 1024, 1024 * 1024
EVENT = 0x00010300


@pytest.fixture
def daemon(start_daemon, engine, tmp_path):
    daemon = start_daemon(config(tmp_path / "disk", engine))
    yield daemon
    works(daemon)
    daemon.wait_closed("nvme")
    assert daemon.call("GetStats")["exports"][0]["in_flight"] == 0


def works(daemon):
    """Somebody else is served as ever."""
    with Host(daemon, "nvme", NQN, host=("nqn.2014-08.org.nvmexpress:uuid:else", b"e" * 16)) as host:
        host.write(99, b"fine" * 1024, capsule=True)
        assert host.read(99) == b"fine" * 1024


def reset(queue):
    """Ends a connection as a killed host with unread data would."""
    queue.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    queue.socket.close()


# ---- Input of all kinds


def test_single_bytes_are_as_good(daemon):
    with Queue(daemon.connect("nvme"), start=False) as slow:
        send = slow.send

        def drip(data):
            for at in range(len(data)):
                send(data[at:at + 1])

        slow.send = drip
        slow.digest = (True, True)
        slow.start()
        slow.connect(NQN)
        slow.enable()
        slow.identify(1)


def test_more_commands_than_the_queue_has_room_for_wait(daemon):
    with Host(daemon, "nvme", NQN, entries=4) as host:
        cids = [host.rw(WRITE, i, bytes([i]) * 4096, capsule=True) for i in range(64)]
        for cid in cids:
            host.queues[0].wait(cid)
        assert host.read(0, 64) == b"".join(bytes([i]) * 4096 for i in range(64))


# ---- Time


def test_a_host_that_is_silent_is_given_up(start_daemon, tmp_path):
    daemon = start_daemon(config(tmp_path / "disk"))
    with Host(daemon, "nvme", NQN, kato=300) as silent, Host(daemon, "nvme", NQN, kato=2000) as alive, \
            Host(daemon, "nvme", NQN) as other:
        begun = time.monotonic()
        while not daemon.stats("nvme")["connections"]["closed"]["idle"]:
            alive.admin.run(KEEP_ALIVE)
            assert time.monotonic() < begun + TIMEOUT
        assert silent.admin.is_closed() and silent.queues[0].is_closed()
        alive.read(0)
        other.read(0)


def test_any_command_keeps_alive(start_daemon, tmp_path):
    """A command on an I/O queue keeps alive as well (Traffic Based Keep Alive)."""
    daemon = start_daemon(config(tmp_path / "disk"))
    with Host(daemon, "nvme", NQN, kato=2000) as host:
        end = time.monotonic() + 4.5
        while time.monotonic() < end:
            host.read(0)
            time.sleep(0.05)
        assert daemon.stats("nvme")["connections"]["closed"]["idle"] == 0


# ---- Stores


@pytest.fixture
def faulty_nvme(faulty, tmp_path):
    """The daemon of the fixture with a listener for hosts."""
    faulty.write_config(config(tmp_path / "disk", store="threads"))
    faulty.call("Reload")
    faulty.notified()
    yield faulty
    faulty.say("")


def test_errors_of_the_device_reach_the_host(faulty_nvme):
    with Host(faulty_nvme, "nvme", NQN) as host:
        for order, call, expected in [
            ("pread EIO", lambda: host.read(0), 0x281),
            ("pwrite EIO", lambda: host.write(0, bytes(4096)), 0x280),
            ("pwrite ENOSPC", lambda: host.write(0, bytes(4096), capsule=True), 0x81),
            ("pwrite EIO", lambda: host.write(0, bytes(4096), control=FUA), 0x280),
        ]:
            faulty_nvme.say(order)
            with pytest.raises(Status) as failed:
                call()
            assert failed.value.args[0] == expected | DNR, order
        faulty_nvme.say("pread short")
        host.read(0, 16)
        faulty_nvme.say("fdatasync EIO")
        with pytest.raises(Status) as failed:
            host.flush()
        assert failed.value.args[0] == 0x280 | DNR
        faulty_nvme.say("")
        for call in (host.flush, lambda: host.read(0), lambda: host.write(0, bytes(4096))):
            with pytest.raises(Status) as failed:
                call()
            assert failed.value.args[0] & DNR  # the export fails until it is opened again


def test_a_host_comes_back_when_its_old_writes_have_ended(faulty_nvme):
    """Otherwise an old write might land after it was repeated and newer data was written."""
    faulty_nvme.say("pwrite wait")
    old = Host(faulty_nvme, "nvme", NQN)
    old.rw(WRITE, 0, b"old!" * 1024, capsule=True)
    wait_until(lambda: faulty_nvme.call("GetStats")["exports"][0]["in_flight"] == 1, "it is in flight")
    old.close()
    other = Host(faulty_nvme, "nvme", NQN, host=("nqn.2014-08.org.nvmexpress:uuid:other", b"o" * 16))
    found = []

    def come_back():
        with Host(faulty_nvme, "nvme", NQN) as new:
            new.write(0, b"new!" * 1024, capsule=True)
            found.append(new.read(0))

    # The old queues have ended, as far as they can, when the daemon has counted that.
    wait_until(lambda: {c["state"] for c in connections(faulty_nvme)} == {"open", "closing"}, "they end")
    thread = threading.Thread(target=come_back)
    thread.start()
    wait_until(lambda: len(connections(faulty_nvme)) == 4, "it has come")
    other.admin.run(KEEP_ALIVE)
    assert not found
    faulty_nvme.say("")
    thread.join()
    assert found == [b"new!" * 1024]
    other.close()


def connections(daemon):
    return daemon.call("ListConnections", listener="nvme")["connections"]


# ---- Blocks


def asked(host, block, size):
    """A queue that was asked for the data of a write, the command's id and the transfer tag."""
    q = host.queues[0]
    q.ignores_r2t = True
    cid = host.rw(WRITE, block, bytes(size))
    _, _, rest, _ = q.receive()
    return q, cid, struct.unpack_from("<H", rest, 2)[0]


def data_pdu(q, cid, ttag, offset, data, **options):
    return q.pdu(H2C_DATA, struct.pack("<HHII4x", cid, ttag, offset, len(data)), data, **options)


@pytest.mark.parametrize("bytes_sent", [2048, 4096 + 2048])
def test_half_of_a_block_is_never_written(daemon, bytes_sent):
    """A host that sends the requested data in PDUs of half a block, and then vanishes: AWUPF is one block."""
    old = b"old!" * 2048
    with Host(daemon, "nvme", NQN) as host:
        host.write(0, old)
    host = Host(daemon, "nvme", NQN)
    q, cid, ttag = asked(host, 0, 8192)
    for offset in range(0, bytes_sent, 2048):
        q.send(data_pdu(q, cid, ttag, offset, b"NEW!" * 512))
    wait_until(lambda: daemon.stats("nvme")["bytes_in"] > 8192 + bytes_sent, "received")
    reset(q)
    host.close()
    with Host(daemon, "nvme", NQN) as host:
        found = host.read(0, 2)
        blocks = {found[:4096], found[4096:]}
    assert blocks <= {b"old!" * 1024, b"NEW!" * 1024} and found[4096:] == b"old!" * 1024


@pytest.mark.parametrize("count", [16, 40])
def test_commands_that_begin_blocks_hold_up_no_other(daemon, count):
    """A host may send the data of its commands by turns, and commands between: no rest is waited for."""
    with Host(daemon, "nvme", NQN, entries=64) as host:
        commands = [asked(host, block, 4096) for block in range(count)]
        for block, (q, cid, ttag) in enumerate(commands):
            q.send(data_pdu(q, cid, ttag, 0, bytes([block]) * 2048))
        host.flush()
        results = []
        for block, (q, cid, ttag) in enumerate(commands):
            q.send(data_pdu(q, cid, ttag, 2048, bytes([block]) * 2048, flags=LAST))
            try:
                q.wait(cid)
                results.append(0)
            except Status as failed:
                results.append(failed.args[0])
        assert results == [0] * 16 + [0x21] * (count - 16)  # interrupted, without DNR: there is no more memory
        host.queues[0].ignores_r2t = False
        for block in range(16, count):
            host.write(block, bytes([block]) * 4096)
        assert host.read(0, count) == b"".join(bytes([block]) * 4096 for block in range(count))


@pytest.mark.parametrize("piece", [300, 1000])
def test_data_in_many_pieces_is_verified_before_it_is_written(daemon, piece):
    old = b"old!" * 16384
    with Host(daemon, "nvme", NQN, ddgst=True) as host:
        host.write(0, old)
        q, cid, ttag = asked(host, 0, len(old))
        spoiled = data_pdu(q, cid, ttag, 0, b"NEW!" * 16384, bad_data=True, flags=LAST)
        before = daemon.stats("nvme")["bytes_in"]
        for at in range(0, 60 * piece, piece):
            q.send(spoiled[at:at + piece])
            wait_until(lambda end=at + piece: daemon.stats("nvme")["bytes_in"] >= before + end, "a piece has come")
        q.send(spoiled[60 * piece:])
        with pytest.raises(Status) as failed:
            q.wait(cid)
        assert failed.value.args[0] == 0x22  # a transient transport error
        assert host.read(0, 16) == old
        q, cid, ttag = asked(host, 0, len(old))
        good = data_pdu(q, cid, ttag, 0, b"NEW!" * 16384, flags=LAST)
        for at in range(0, 60 * piece, piece):
            q.send(good[at:at + piece])
        q.send(good[60 * piece:])
        q.wait(cid)
        assert host.read(0, 16) == b"NEW!" * 16384


# ---- Drain, reload, restart


def test_no_queue_joins_a_controller_of_another_configuration(start_daemon, engine, tmp_path):
    """A namespace's number means another export there: writes would go to the wrong disk."""
    def exports(first, second):
        text = "".join(f"[export {name}]\npath = {tmp_path}/{name}\ncreate = yes\nsize = {SIZE}\n" for name in "ab")
        return text + listener("nvme", service="nvme", engine=engine, nqn=NQN, exports=f"{first}, {second}", workers=2)

    first = exports("a", "b")
    daemon = start_daemon(first)
    address = daemon.addresses("nvme")[0]
    host = Host(daemon, "nvme", NQN)
    host.admin.submit(AER)
    daemon.write_config(exports("b", "a").replace("127.0.0.1:0", f"{address[0]}:{address[1]}"))
    daemon.call("Reload")
    daemon.notified()
    with Queue(daemon.connect("nvme")) as late, pytest.raises(Status) as refused:
        late.connect(NQN, 2, host.cntlid)
    assert refused.value.args[0] == 0x182  # the controller is not here; no DNR: the host connects again
    host.close()
    with Host(daemon, "nvme", NQN) as host:
        host.write(0, b"is b" * 1024)
        host.flush()
    assert (tmp_path / "b").read_bytes()[:4096] == b"is b" * 1024


def test_a_reload_moves_hosts_at_once(start_daemon, engine, tmp_path):
    first = config(tmp_path / "disk", engine)
    daemon = start_daemon(first)
    host = Host(daemon, "nvme", NQN)
    event = host.admin.submit(AER)
    host.write(0, b"1" * 4096)
    address = daemon.addresses("nvme")[0]
    daemon.write_config(first.replace("127.0.0.1:0", f"{address[0]}:{address[1]}")
                        .replace("workers = 2", "workers = 1"))
    daemon.call("Reload")
    daemon.notified()
    assert host.admin.wait(event)[1] == EVENT
    # As Linux does then: it continues until it has disabled the controller, and comes again.
    host.write(1, b"2" * 4096)
    again = host.admin.submit(AER)
    assert host.admin.get(0x1C) == 1
    host.queues[0].socket.close()
    host.admin.set(0x14, 0x460000)
    wait_until(lambda: host.admin.get(0x1C) == 0, "disabled")
    assert again not in host.admin.done
    host.close()
    with Host(daemon, "nvme", NQN) as new:
        assert new.cntlid != host.cntlid
        assert new.read(0, 2) == b"1" * 4096 + b"2" * 4096
    wait_until(lambda: len(daemon.call("GetStatus")["listeners"]) == 1, "the old one has drained")


def test_a_drain_leaves_quiet_hosts_their_time(start_daemon, tmp_path):
    """A host that ignores the drain's events stays until drain-timeout, however quiet it is."""
    daemon = start_daemon("[server]\ndrain-timeout = 2s\n" + config(tmp_path / "disk"))
    host = Host(daemon, "nvme", NQN)
    begun = time.monotonic()
    daemon.process.send_signal(signal.SIGTERM)
    assert host.queues[0].is_closed()
    assert time.monotonic() - begun > 1.5
    host.close()
    assert daemon.process.wait(TIMEOUT) == 0


def test_acknowledged_writes_survive_a_kill(engine, tmp_path):
    rng, promised, version = random.Random(7), {}, 0
    for round_ in range(2):
        (tmp_path / str(round_)).mkdir()
        daemon = Daemon(config(tmp_path / "disk", engine), tmp_path / str(round_))
        with Host(daemon, "nvme", NQN) as host:
            for block, wanted in promised.items():
                found_block, found = struct.unpack_from("<II", host.read(block))
                assert found_block == block and found >= wanted
            killer = threading.Timer(rng.uniform(0, 0.1), daemon.process.kill)
            most = version + rng.randrange(50, 100)
            try:
                while True:
                    version += 1
                    if version == most:
                        killer.start()
                    block = rng.randrange(SIZE // 4096)
                    host.write(block, struct.pack("<II", block, version) * 512, control=FUA, capsule=True)
                    promised[block] = version
            except (EOFError, ConnectionError):
                pass
            killer.join()
        assert daemon.process.wait(TIMEOUT) == -signal.SIGKILL
        daemon.notify.close()
    assert len(promised) > 10


# ---- Small pools


@pytest.mark.parametrize("ddgst", [False, True])
def test_hosts_in_a_small_pool(start_daemon, engine, tmp_path, ddgst):
    """Some never answer what they are asked for, some never read, some send half of a PDU."""
    daemon = start_daemon(config(tmp_path / "disk", engine, workers=1, buffers=64, max_connections=0))
    bad = []
    for i in range(10):
        host = Host(daemon, "nvme", NQN, ddgst=ddgst, host=(f"nqn.2014-08.org.nvmexpress:uuid:{i}", bytes(16)))
        q = host.queues[0]
        q.ignores_r2t = True
        for _ in range(8):
            host.rw(WRITE, 0, bytes(64 * KIB))
        _, sqe = q.sqe(WRITE, 1, [0, 0, 3], length=16 * KIB, sgl=CAPSULE)
        q.send(q.pdu(COMMAND, sqe, bytes(16 * KIB))[:8 * KIB])
        bad.append(host)
    with Host(daemon, "nvme", NQN, queues=2, ddgst=ddgst) as host:
        data = random.Random(1).randbytes(64 * KIB)
        for i in range(16):
            host.write(16 * i, data, queue=i % 2)
            assert host.read(16 * i, 16, queue=i % 2) == data
    for host in bad:
        host.close()
    daemon.wait_closed("nvme")


def test_two_hundred_controllers(start_daemon, tmp_path):
    daemon = start_daemon(config(tmp_path / "disk", buffers=64))
    hosts = [Host(daemon, "nvme", NQN, host=(f"nqn.2014-08.org.nvmexpress:uuid:{i}", bytes(16)), sqflow=False)
             for i in range(200)]
    assert len({host.cntlid for host in hosts}) == 200
    for i, host in enumerate(hosts):
        host.write(i, bytes([i]) * 4096, capsule=i % 2)
    for i, host in enumerate(hosts):
        assert host.read(199 - i) == bytes([199 - i]) * 4096
    for host in hosts:
        host.close()
    daemon.wait_closed("nvme")
