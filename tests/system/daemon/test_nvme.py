"""The nvme service as its hosts see it: the order in which Linux speaks, data, several queues."""

import random
import struct

import pytest
from conftest import listener, wait_until
from nvme_client import (ABORT, AER, CAP, CC, CSTS, DISCOVERY, DNR, ENABLE, FLUSH, FUA, GET_FEATURES, GET_LOG, HOST,
                         IDENTIFY, KEEP_ALIVE, READ, SET_FEATURES, SHUT_DOWN, VS, WRITE, Host, Queue, Status)

KIB, MIB = 1024, 1024 * 1024
NQN = "nqn.2026-11.example.lab:disks"
SIZE = 8 * MIB


def config(path, engine="epoll", store="io_uring", keys="", **options):
    options = {"nqn": NQN, "exports": "disk", "workers": 2, **options}
    return (f"[export disk]\npath = {path}\ncreate = yes\nsize = {SIZE}\nstore = {store}\n{keys}"
            + listener("nvme", service="nvme", engine=engine, **options))


@pytest.fixture
def daemon(start_daemon, engine, tmp_path):
    daemon = start_daemon(config(tmp_path / "disk", engine))
    daemon.disk = tmp_path / "disk"
    yield daemon
    is_unharmed(daemon)


def is_unharmed(daemon):
    daemon.wait_closed("nvme")
    assert daemon.call("GetStats")["exports"][0]["in_flight"] == 0
    pool = daemon.stats("nvme")["pool"]
    assert pool["free"] >= pool["chunks"] - 2  # a worker may keep one


def refused(call, *arguments, **options):
    with pytest.raises(Status) as failed:
        call(*arguments, **options)
    return failed.value.args[0]


def noise(bytes_, seed=0):
    return random.Random(seed).randbytes(bytes_)


# ---- The beginning


def test_as_linux_begins(daemon):
    with Queue(daemon.connect("nvme")) as admin:
        cntlid = admin.connect(NQN, kato=15000)
        assert 1 <= cntlid <= 0xFFEF
        cap = admin.get(CAP, wide=True)
        assert cap & 0xFFFF == 127 and cap >> 16 & 1 and cap >> 37 & 1 and (cap >> 24 & 0xFF) >= 10
        assert admin.get(VS) == 0x10400
        assert admin.get(CSTS) == 0
        admin.set(CC, ENABLE & ~1)
        assert admin.get(CSTS) == 0
        admin.set(CC, ENABLE)
        assert admin.get(CSTS) == 1
        assert admin.get(CC) == ENABLE
        page = admin.identify(1)
        assert struct.unpack_from("<H", page, 78)[0] == cntlid
        assert struct.unpack_from("<I", page, 80)[0] == 0x10400
        assert page[768:1024].rstrip(b"\0").decode() == NQN
        assert struct.unpack_from("<II", page, 1792) == ((64 + 16 * KIB) // 16, 1)
        assert struct.unpack_from("<I", page, 516)[0] == 1
        assert struct.unpack_from("<H", page, 320)[0] > 0 and struct.unpack_from("<H", page, 1800)[0] == 0
        assert page[77] == 7 and page[525] == 5  # 512 KiB at a time; a write cache, which hosts flush
        assert admin.run(SET_FEATURES, cdw=[7, 3 << 16 | 3])[1] == 3 << 16 | 3
        with Queue(daemon.connect("nvme")) as queue:
            assert queue.connect(NQN, 1, cntlid, 127) == cntlid
            assert refused(admin.run, SET_FEATURES, cdw=[0xB, 1 << 31 | 0x100]) == 2 | DNR  # of a discovery controller
            assert admin.run(SET_FEATURES, cdw=[0xB, 0x1FF])[1] == 0
            assert admin.run(GET_FEATURES, cdw=[0xB])[1] == 0x1FF
            event = admin.submit(AER)
            active = struct.unpack("<1024I", admin.identify(2))
            assert active[:2] == (1, 0)
            names = admin.identify(3, nsid=1)
            assert names[:2] == bytes([3, 16]) and names[20:22] == bytes([2, 16])
            assert names[4:20] == names[24:40] and names[10] >> 4 == 8 and names[12] >> 6 == 2
            assert names[40:46] == bytes([4, 1, 0, 0, 0, 0])
            page = admin.identify(0, nsid=1)
            assert struct.unpack_from("<3Q", page) == (SIZE // 4096,) * 3
            assert page[130] == 12 and page[104:120] == names[4:20]
            assert admin.identify(6)[1] == 16
            admin.run(KEEP_ALIVE)
            assert event not in admin.done
            # As `nvme disconnect` ends.
            queue.socket.close()
            wait_until(lambda: daemon.stats("nvme")["connections"]["open"] == 1, "the queue has left")
            admin.set(CC, SHUT_DOWN)
            wait_until(lambda: admin.get(CSTS) & 0xC == 8, "shut down")


def test_disabling_a_controller_ends_its_queues_and_it_can_be_enabled_again(daemon):
    with Host(daemon, "nvme", NQN, queues=2) as host:
        host.write(0, b"a" * 4096)
        host.admin.set(CC, ENABLE & ~1)
        assert host.queues[0].is_closed() and host.queues[1].is_closed()
        wait_until(lambda: host.admin.get(CSTS) == 0, "disabled")
        with Queue(daemon.connect("nvme")) as queue:
            assert refused(queue.connect, NQN, 1, host.cntlid) == 0x0C
        host.admin.enable()
        with Queue(daemon.connect("nvme")) as queue:
            queue.connect(NQN, 1, host.cntlid)
            host.queues = [queue]
            assert host.read(0) == b"a" * 4096


def test_queues_end_with_their_admin_queue_and_not_before(daemon):
    host = Host(daemon, "nvme", NQN, queues=3)
    host.queues[0].socket.close()
    assert host.read(0, queue=1) == bytes(4096)
    host.admin.socket.close()
    assert host.queues[1].is_closed() and host.queues[2].is_closed()
    host.close()


def test_hosts_and_controllers_are_told_apart(daemon):
    other = ("nqn.2014-08.org.nvmexpress:uuid:other", b"f" * 16)
    with Host(daemon, "nvme", NQN) as one, Host(daemon, "nvme", NQN) as two, \
            Host(daemon, "nvme", NQN, host=other) as three:
        assert len({one.cntlid, two.cntlid, three.cntlid}) == 3
        for cntlid, host in [(one.cntlid, other), (three.cntlid, HOST), (0x1234 ^ one.cntlid, HOST)]:
            with Queue(daemon.connect("nvme")) as queue:
                assert refused(queue.connect, NQN, 2, cntlid, host=host) == 0x182
        with Queue(daemon.connect("nvme")) as queue:
            assert refused(queue.connect, NQN, 1, one.cntlid) == 0x181  # it has one, which may be ending
        one.write(3, b"x" * 4096)
        assert two.read(3) == three.read(3) == b"x" * 4096


def test_an_invalid_connect_is_refused_with_its_reason(daemon):
    def attempt(subnqn=NQN, **options):
        with Queue(daemon.connect("nvme")) as queue, pytest.raises(Status) as failed:
            queue.connect(subnqn, **options)
        return failed.value.args

    data = HOST[1] + struct.pack("<H", 0xFFFF) + bytes(238)
    nqn = NQN.encode().ljust(256, b"\0")
    assert attempt("nqn.2026-11.example.lab:others") == (0x182, 256 | 1 << 16)  # it may come yet
    assert attempt(recfmt=1) == (0x180 | DNR, 0)
    assert attempt(sqsize=0) == (0x182 | DNR, 44)
    assert attempt(sqsize=1024) == (0x182 | DNR, 44)
    assert attempt(cntlid=1) == (0x182 | DNR, 16 | 1 << 16)
    assert attempt(data=data + b"n" * 256 + nqn + bytes(256)) == (0x182 | DNR, 256 | 1 << 16)
    assert attempt(data=data + nqn + b"n" * 256 + bytes(256)) == (0x182 | DNR, 512 | 1 << 16)
    for control in ("\x9b2J", "\u202e", "\x1b[2J", "\n"):
        host = f"nqn.2014-08.org.nvmexpress:uuid:{control}".encode().ljust(256, b"\0")
        assert attempt(data=data + nqn + host + bytes(256)) == (0x182 | DNR, 512 | 1 << 16)
    assert attempt(data=bytes(1020))[0] == 0x0F | DNR
    with Host(daemon, "nvme", NQN) as host:
        for options, expected in [({"qid": 2, "sqsize": 128}, 0x182 | DNR), ({"qid": 129}, 0x182 | DNR)]:
            assert attempt(cntlid=host.cntlid, **options)[0] == expected
        assert refused(host.admin.connect, NQN) == 0x0C | DNR
    with Queue(daemon.connect("nvme")) as queue:
        assert refused(queue.run, IDENTIFY, cdw=[1], read=4096) == 0x0C | DNR
        queue.connect(NQN)
        assert refused(queue.identify, 1) == 0x0C | DNR  # it is not enabled
        assert refused(queue.set, CC, 0x450001) == 0x02 | DNR
        assert refused(queue.get, 0x24) == 0x02 | DNR
        queue.enable()
        queue.identify(1)


# ---- Identify data and logs


def test_discovery(daemon):
    with Queue(daemon.connect("nvme")) as queue:
        queue.connect(DISCOVERY)
        queue.enable()
        page = queue.identify(1)
        assert page[111] == 2 and page[768:1024].rstrip(b"\0").decode() == DISCOVERY
        header = queue.log(0x70, 1024)
        generation, records, recfmt = struct.unpack_from("<QQH", header)
        assert generation and records == 2 and recfmt == 0
        entry = queue.log(0x70, 1024, offset=1024)
        assert entry[:4] == bytes([3, 1, 2, 4])
        assert entry[32:64].rstrip(b" ") == str(daemon.port("nvme")).encode()
        assert entry[256:512].rstrip(b"\0").decode() == NQN
        assert entry[512:768].rstrip(b" ") == b"127.0.0.1"
        itself = queue.log(0x70, 1024, offset=2048)
        assert itself[:4] == bytes([3, 1, 3, 4]) and itself[10:12] == b"\2\0" and itself[32:64] == entry[32:64]
        assert itself[256:512].rstrip(b"\0").decode() == DISCOVERY and itself[512:768] == entry[512:768]
        assert refused(queue.identify, 0, 1) == 0x02 | DNR
        assert refused(queue.log, 2, 512) == 0x109 | DNR


def test_discovery_at_its_own_port_names_the_other(start_daemon, tmp_path):
    daemon = start_daemon(config(tmp_path / "disk", address="127.0.0.1:0, [::1]:0"))
    with Queue(daemon.connect("nvme")) as queue:
        queue.connect(DISCOVERY)
        queue.enable()
        assert queue.log(0x70, 2048)[1024 + 512:].startswith(b"127.0.0.1 ")


def test_namespaces_are_the_exports_in_order(start_daemon, tmp_path):
    sections = "".join(f"[export e{i}]\nstore = memory\nsize = {i}M\n{more}" for i, more in
                       [(1, ""), (2, "read-only = yes\n"), (3, "")])
    daemon = start_daemon(sections + listener("nvme", service="nvme", nqn=NQN, exports="e2, e1, e3", block_size=512))
    with Host(daemon, "nvme", NQN, block=512) as host:
        assert struct.unpack("<1024I", host.admin.identify(2))[:4] == (1, 2, 3, 0)
        assert struct.unpack("<1024I", host.admin.identify(2, nsid=2))[:2] == (3, 0)
        sizes = [struct.unpack_from("<Q", host.admin.identify(0, nsid))[0] * 512 // MIB for nsid in (1, 2, 3)]
        assert sizes == [2, 1, 3]
        assert len({host.admin.identify(3, nsid)[4:20] for nsid in (1, 2, 3)}) == 3
        assert [host.admin.identify(0, nsid)[99] for nsid in (1, 2)] == [1, 0]
        assert refused(host.write, 0, b"a" * 512, nsid=1) == 0x20 | DNR
        for nsid in (2, 3):
            host.write(0, bytes([nsid]) * 512, nsid=nsid)
        assert host.read(0, nsid=2) == b"\2" * 512 and host.read(0, nsid=3) == b"\3" * 512
        for nsid in (0, 4, 0xFFFFFFFF):
            assert refused(host.read, 0, nsid=nsid) == 0x0B | DNR
            assert refused(host.admin.identify, 0, nsid) == 0x0B | DNR


def test_admin_commands(daemon):
    with Host(daemon, "nvme", NQN) as host:
        admin = host.admin
        host.write(0, bytes(8 * 4096))
        assert admin.log(1, 64) == bytes(64)
        smart = admin.log(2, 512)
        assert smart[3] == 100 and len(smart) == 512
        assert admin.log(3, 512)[0] == 1
        effects = struct.unpack("<1024I", admin.log(5, 4096))
        assert effects[6] & 1 and effects[256 + 1] & 3 == 3 and effects[256 + 2] & 3 == 1
        assert admin.log(5, 100, offset=1024) == struct.pack("<25I", *effects[256:281])
        assert admin.log(2, 100 * KIB)[512:] == bytes(100 * KIB - 512)
        for lid, offset, expected in [(0x70, 0, 0x109), (4, 0, 0x109), (0x0C, 0, 0x109), (2, 3, 2), (2, 516, 2)]:
            assert refused(admin.log, lid, 512, offset) == expected | DNR
        assert refused(admin.run, GET_LOG, cdw=[2 | 127 << 16], read=64) == 0x0F | DNR
        assert admin.run(ABORT)[1] == 1
        assert refused(admin.run, 0x0D) == 0x01 | DNR
        for feature, value, expected in [(6, 0, 0x10E), (0xF, 0, 0x1A), (7, 0, 0x0C), (0x80, 0, 2),
                                         (1 << 31 | 6, 1, 0x10D)]:
            assert refused(admin.run, SET_FEATURES, cdw=[feature, value]) == expected | DNR
        assert admin.run(GET_FEATURES, cdw=[6])[1] == 1
        events = [admin.submit(AER) for _ in range(5)]
        assert refused(admin.wait, events[-1]) == 0x105 | DNR
        for cns in (0x20, 0x1C, 0x10, 7, 5, 4):
            assert refused(admin.identify, cns) == 2 | DNR
        assert refused(admin.identify, 6, 1, 2) == 2 | DNR


# ---- Data


DIGESTS = [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.parametrize("hdgst,ddgst", DIGESTS)
@pytest.mark.parametrize("sqflow,hpda", [(True, 0), (False, 31)])
def test_reads_return_the_data_written(daemon, hdgst, ddgst, sqflow, hpda):
    with Host(daemon, "nvme", NQN, hdgst=hdgst, ddgst=ddgst, sqflow=sqflow, hpda=hpda) as host:
        for blocks, capsule in [(1, True), (4, True), (1, False), (16, False), (128, False)]:
            data = noise(blocks * 4096, blocks)
            host.write(blocks, data, capsule=capsule)
            assert host.read(blocks, blocks) == data
            assert daemon.disk.read_bytes()[blocks * 4096:][:len(data)] == data


@pytest.mark.parametrize("store", ["io_uring", "threads", "blocking", "memory"])
def test_zeroes_flush_and_deallocate(start_daemon, tmp_path, store):
    path = "none" if store == "memory" else tmp_path / "disk"
    create = "" if store == "memory" else "create = yes\n"
    daemon = start_daemon(f"[export disk]\npath = {path}\nsize = {SIZE}\nstore = {store}\n{create}"
                          + listener("nvme", service="nvme", nqn=NQN, exports="disk"))
    with Host(daemon, "nvme", NQN) as host:
        host.write(0, noise(64 * 4096))
        host.flush()
        host.zero(0, 8)
        host.zero(8, 8, control=1 << 25 | FUA)
        host.deallocate((16, 8), (30, 0), (32, 8))
        assert host.read(0, 24) == bytes(24 * 4096)
        assert host.read(24, 8) == noise(64 * 4096)[24 * 4096:32 * 4096]
        host.deallocate((40, 8), capsule=False)
        # As Linux does: room for all ranges, and few of them are meant.
        data = struct.pack("<IIQ", 0, 1, 50).ljust(4096, b"\xff")
        host.queues[0].run(9, 1, [0, 4], write=data, capsule=True)
        assert host.read(50) == bytes(4096)
        host.write(60, b"f" * 4096, control=FUA)
        assert host.read(60) == b"f" * 4096
        for ranges in [((SIZE // 4096, 1),), ((0, 1), (2**64 - 1, 2))]:
            assert refused(host.deallocate, *ranges) == 0x80 | DNR
        assert host.read(60) == b"f" * 4096
        counts = {name: o["count"] for name, o in daemon.stats("nvme")["operations"].items()}
        assert counts["flush"] == 1 and counts["write_zeroes"] == 2 and counts["trim"] == 5


def test_invalid_io_commands_are_refused(daemon):
    with Host(daemon, "nvme", NQN) as host:
        q, last = host.queues[0], SIZE // 4096 - 1
        assert host.read(last) == bytes(4096)
        assert refused(host.read, last + 1) == 0x80 | DNR
        assert refused(host.read, last, 2) == 0x80 | DNR
        assert refused(host.read, 2**64 - 1) == 0x80 | DNR
        assert refused(host.write, last + 1, b"x" * 4096, capsule=True) == 0x80 | DNR
        assert refused(host.zero, last, 2) == 0x80 | DNR
        assert refused(host.read, 0, 129) == 2 | DNR  # beyond MDTS
        assert refused(host.write, 0, bytes(129 * 4096)) == 2 | DNR
        assert refused(q.run, READ, 1, [0, 0, 1], read=4096) == 0x0F | DNR
        assert refused(q.run, WRITE, 1, [0, 0, 1], write=bytes(4096), capsule=True) == 0x0F | DNR
        assert refused(q.run, 5, 1, [0, 0, 0], write=bytes(4096), capsule=True) == 0x01 | DNR
        assert refused(q.run, 0x0C, 1) == 0x01 | DNR
        assert refused(q.run, READ, 1, [0], read=4096, flags=0) == 2 | DNR
        assert refused(q.run, READ, 1, [0], read=4096, flags=0x41) == 2 | DNR
        assert refused(q.run, READ, 1, [0], read=4096, sgl=0x40) == 0x11 | DNR
        assert refused(q.run, FLUSH, 0xFFFFFFFF) == 0x0B | DNR
        host.write(0, b"ok" * 2048)
        assert host.read(0) == b"ok" * 2048
        assert daemon.stats("nvme")["operations"]["invalid"]["errors"] == 2


def test_direct_exports_have_their_alignment(start_daemon, engine, tmp_path):
    """A host may cut data into PDUs of any size."""
    daemon = start_daemon(config(tmp_path / "disk", engine, keys="direct = yes\n"))
    with Host(daemon, "nvme", NQN, ddgst=True) as host:
        assert struct.unpack_from("<I", host.admin.identify(1), 1792)[0] == (64 + 16384) // 16
        data = noise(32 * 4096)
        for size in (4096, 1000, 40000, 12):
            host.queues[0].h2c_max = size
            host.write(0, data[:5 * 4096] if size == 12 else data)
            assert host.read(0, 32) == data
            host.zero(0, 32)
            host.write(0, data)


def test_nbd_serves_the_same_bytes(start_daemon, tmp_path):
    """nbctl shows both: the command to paste, the connected hosts, and the counts of the export."""
    from nbd_client import READ as NBD_READ, connect

    daemon = start_daemon(config(tmp_path / "disk") + listener("nbd", service="nbd", exports="disk"))
    assert f"nvme connect -t tcp -a 127.0.0.1 -s {daemon.port('nvme')} -n {NQN}\n" in daemon.nbctl("status").stdout
    with Host(daemon, "nvme", NQN) as host, connect(daemon, "nbd") as client:
        host.write(7, noise(4096))
        client.request(NBD_READ, 7 * 4096, 4096)
        assert client.reply(4096) == (0, noise(4096))
        told = daemon.nbctl("connections").stdout
        for queue in (0, 1):
            assert f"{HOST[0]}, controller {host.cntlid}, queue {queue}" in told, told
        (export,) = daemon.call("GetStats")["exports"]
        assert {kind: export["operations"][kind]["count"] for kind in ("read", "write")} == {"read": 1, "write": 1}
        shown = daemon.nbctl("exports").stdout
        assert "nvme" in shown and "nbd" in shown, shown
