"""Input that no host should send to the nvme service: what ends a queue and with which reason, and what
is only refused."""

import socket
import struct

import pytest
import test_nvme_faults
from conftest import wait_until
from nvme_client import (AER, CAPSULE, CC, COMMAND, DNR, ENABLE, FABRICS, GET_FEATURES, H2C_DATA, H2C_TERM, ICREQ,
                         IDENTIFY, KEEP_ALIVE, LAST, R2T, READ, SET_FEATURES, TRANSPORT, VS, WRITE, Host, Queue,
                         Status, Terminated)
from test_nvme import refused
from test_nvme_faults import KIB, NQN, config, works

MINUTES = 0.5
daemon = test_nvme_faults.daemon
MAXH2CDATA = 512 * KIB  # as long as the pool is large


def terminated(queue, pdu):
    """(fes, fei) of the controller's answer; it then sends nothing more, and closes."""
    queue.send(pdu)
    with pytest.raises(Terminated) as end:
        while True:
            queue.receive()
    queue.socket.shutdown(socket.SHUT_WR)
    assert queue.is_closed()
    return end.value.args


def icreq(pfv=0, hpda=0, dgst=0, **options):
    return Queue.pdu(Queue(None, start=False), ICREQ, struct.pack("<HBBI112x", pfv, hpda, dgst, 0), **options)


# ---- What ends a connection


def test_errors_that_end_a_connection_before_it_is_a_queue(daemon):
    for pdu, expected in [
        (icreq(pfv=1), (1, 8)),
        (icreq(hpda=32), (1, 10)),
        (icreq(plen=127), (1, 4)),
        (icreq(plen=129), (1, 4)),
        (icreq(hlen=72), (1, 2)),
        (bytes([COMMAND, 0, 72, 0, 72, 0, 0, 0]) + bytes(64), (2, 0)),
        (bytes([H2C_DATA, 0, 24, 24, 28, 0, 0, 0]) + bytes(20), (2, 0)),
        *((bytes([kind, 0, 24, 0, 24, 0, 0, 0]), (1, 0)) for kind in (1, 3, 5, 7, 8, 9, 10, 255)),
        (bytes([COMMAND, 0, 71, 0, 72, 0, 0, 0]), (1, 2)),
        (bytes([COMMAND, 0, 72, 0, 71, 0, 0, 0]), (1, 4)),
        (bytes([COMMAND, 1, 72, 0, 72, 0, 0, 0]), (1, 1)),
        (bytes([H2C_DATA, 0, 24, 20, 28, 0, 0, 0]), (1, 3)),
        (bytes([H2C_DATA, 0, 24, 29, 28, 0, 0, 0]), (1, 3)),
        (bytes([H2C_DATA, 0, 24, 129, 200, 0, 0, 0]), (1, 3)),
        (bytes([H2C_DATA, 0, 25, 25, 28, 0, 0, 0]), (1, 2)),
        (bytes([H2C_TERM, 0, 24, 0, 153, 0, 0, 0]), (1, 4)),
        (bytes([H2C_TERM, 0, 24, 0, 23, 0, 0, 0]), (1, 4)),
    ]:
        with Queue(daemon.connect("nvme"), start=False) as queue:
            assert terminated(queue, pdu) == expected, pdu[:8]
    for pdu in (icreq(), Queue(None, start=False).pdu(H2C_DATA, struct.pack("<HHII4x", 0, 0, 0, 4), b"1234")):
        with Queue(daemon.connect("nvme")) as queue:
            assert terminated(queue, pdu) == (2, 0)
    with Queue(daemon.connect("nvme")) as queue:
        _, sqe = queue.sqe(FABRICS, fctype=1, length=1024, sgl=CAPSULE)
        assert terminated(queue, queue.pdu(COMMAND, sqe)) == (1, 4)
    with Queue(daemon.connect("nvme")) as queue:
        queue.send(queue.pdu(H2C_TERM, struct.pack("<HI10x", 1, 0), plen=24))
        assert queue.is_closed()
    wait_until(lambda: daemon.stats("nvme")["connections"]["closed"]["protocol"] > 20, "counted")


def test_errors_that_end_a_queue(daemon):
    """Errors in the data of a command, and in digests."""

    def io(hdgst=False, ddgst=False):
        return Host(daemon, "nvme", NQN, hdgst=hdgst, ddgst=ddgst)

    def command(queue, data=bytes(4096), length=4096, **options):
        options.setdefault("sgl", CAPSULE)
        return queue.pdu(COMMAND, queue.sqe(WRITE, 1, [0, 0, 0], length=length, **options)[1], data)

    for data, length, address, expected in [
        (bytes(4096), 4095, 0, (1, 4)),
        (b"", 4096, 0, (1, 4)),
        (bytes(4096), 4096, 64, (6, 32)),
        (bytes(20 * KIB), 20 * KIB, 0, (5, 0)),
    ]:
        with io() as host:
            q = host.queues[0]
            assert terminated(q, command(q, data, length, address=address)) == expected
    with io() as host:
        q = host.queues[0]
        assert terminated(q, command(q, sgl=TRANSPORT)) == (1, 4)
    with io(hdgst=True) as host:
        q = host.queues[0]
        assert terminated(q, q.pdu(COMMAND, q.sqe(WRITE, 1)[1], bad_header=True)) == (3, 0)
    with io(hdgst=True) as host:
        q = host.queues[0]
        assert terminated(q, q.pdu(COMMAND, q.sqe(WRITE, 1)[1], digest=False)) == (1, 1)
    for options, expected in [({"plen": 75}, (1, 4)), ({"pdo": 75}, (1, 3)), ({"pdo": 129}, (1, 3))]:
        with io(hdgst=True) as host:
            q = host.queues[0]
            data = b"" if "plen" in options else b"data"
            assert terminated(q, q.pdu(COMMAND, q.sqe(WRITE, 1)[1], data, **options)) == expected, options
    with io(ddgst=True) as host:
        q = host.queues[0]
        assert terminated(q, q.pdu(COMMAND, q.sqe(WRITE, 1, length=4, sgl=CAPSULE)[1], b"1234",
                                   digest=False)) == (1, 1)
    with io() as host:
        assert terminated(host.admin, command(host.admin, bytes(12 * KIB), 12 * KIB)) == (5, 0)


def test_errors_that_end_a_transfer(daemon):
    def asked(size=8192):
        host = Host(daemon, "nvme", NQN)
        q = host.queues[0]
        q.ignores_r2t = True
        cid = host.rw(WRITE, 0, bytes(size))
        kind, _, rest, _ = q.receive()
        assert kind == R2T
        assert struct.unpack("<HxxII4x", rest) == (cid, 0, size)
        return host, q, cid, struct.unpack_from("<H", rest, 2)[0]

    def data(cid, ttag, offset, length, payload=None, **options):
        q = Queue(None, start=False)
        return q.pdu(H2C_DATA, struct.pack("<HHII4x", cid, ttag, offset, length),
                     bytes(length) if payload is None else payload, **options)

    for make, expected in [
        (lambda c, t: data(c, t ^ 1, 0, 8192), (2, 0)),
        (lambda c, t: data(c, 0xFFFF, 0, 8192), (2, 0)),
        (lambda c, t: data(c ^ 1, t, 0, 8192), (2, 0)),
        (lambda c, t: data(c, t, 4, 4096), (4, 0)),
        (lambda c, t: data(c, t, 0, 8196), (4, 0)),
        (lambda c, t: data(c, t, 0, 0, payload=b"1234"), (1, 16)),
        (lambda c, t: data(c, t, 0, 4096, payload=bytes(4092)), (1, 16)),
        (lambda c, t: data(c, t, 0, 4096, flags=LAST), (2, 0)),
        (lambda c, t: data(c, t, 0, 4096) + data(c, t, 0, 4096), (4, 0)),
        (lambda c, t: data(c, t, 0, 8192) + data(c, t, 0, 8192), (2, 0)),
        (lambda c, t: data(c, t, 0, MAXH2CDATA + 4, payload=b"", pdo=24, plen=24 + MAXH2CDATA + 4), (5, 0)),
    ]:
        host, q, cid, ttag = asked()
        with host:
            assert terminated(q, make(cid, ttag)) == expected
    host, q, cid, ttag = asked()
    with host:  # the flag is optional
        q.send(data(cid, ttag, 0, 4096) + data(cid, ttag, 4096, 4096))
        q.wait(cid)


@pytest.mark.parametrize("capsule", [True, False])
def test_data_that_is_not_intact_is_not_written(daemon, capsule):
    with Host(daemon, "nvme", NQN, ddgst=True) as host:
        q = host.queues[0]
        host.write(0, b"old " * 2048)
        pdu = q.pdu

        def spoiled(kind, rest, data=b"", **options):
            return pdu(kind, rest, data, bad_data=len(data) > 0, **options)

        q.pdu = spoiled
        with pytest.raises(Status) as failed:
            host.write(0, b"new " * 2048, capsule=capsule)
        assert failed.value.args[0] == 0x22  # the host tries again
        q.pdu = pdu
        assert host.read(0, 2) == b"old " * 2048
        host.write(0, b"new " * 2048, capsule=capsule)
        assert host.read(0, 2) == b"new " * 2048


def test_data_with_a_command_that_takes_none_is_skipped(daemon):
    with Host(daemon, "nvme", NQN, ddgst=True) as host:
        q = host.queues[0]
        for opcode, status in [(0, 2), (READ, 2), (8, 2), (0x7A, 1)]:
            assert refused(q.run, opcode, 1, [0], write=b"data" * 1024, capsule=True) == status | DNR
        assert host.read(0) == bytes(4096)


# ---- Errors that keep the connection


@pytest.fixture
def host(start_daemon, tmp_path):
    daemon = start_daemon(config(tmp_path / "disk"))
    with Host(daemon, "nvme", NQN) as host:
        yield host
        host.write(0, b"fine" * 1024)
        assert host.read(0) == b"fine" * 1024
    works(daemon)


def test_a_controller_ignores_undefined_flags(start_daemon, tmp_path):
    """Flags that are not defined, and a host that would take several R2Ts at once."""
    daemon = start_daemon(config(tmp_path / "disk"))
    with Queue(daemon.connect("nvme"), start=False) as queue:
        queue.start(maxr2t=7)
        pdu = queue.pdu
        queue.pdu = lambda *arguments, **options: pdu(*arguments, **{"flags": 0xF0, **options})
        queue.connect(NQN)
        queue.enable()


def test_invalid_admin_commands_are_refused(host):
    admin = host.admin
    for options in ({"flags": 0}, {"flags": 0x41}, {"flags": 0x80}):
        assert refused(admin.run, KEEP_ALIVE, **options) == 2 | DNR
    for sgl in (0x00, 0x40, 0x5B):
        assert refused(admin.run, IDENTIFY, 0, [1], read=4096, sgl=sgl) == 0x11 | DNR
    assert refused(admin.run, IDENTIFY, 0, [1], read=4092) == 0x0F | DNR
    for nsid in (0xFFFFFFFE, 0xFFFFFFFF):
        assert refused(admin.identify, 2, nsid) == 0x0B | DNR
    for feature in (7 | 1 << 8, 6 | 3 << 8, 1, 0x80, 0x81, 0xC0):
        assert refused(admin.run, GET_FEATURES, cdw=[feature]) == 2 | DNR
    for asked in (0xFFFF, 0xFFFF << 16, 0xFFFFFFFF):
        assert refused(admin.run, SET_FEATURES, cdw=[7, asked]) == 2 | DNR
    for at, value in [(VS, 0), (0x24, 0), (CC, ENABLE | 1 << 4), (CC, ENABLE | 1 << 7), (CC, ENABLE | 1 << 11)]:
        assert refused(admin.set, at, value) == 2 | DNR
    assert refused(admin.get, VS, wide=True) == refused(admin.get, CC, wide=True) == 2 | DNR
    assert refused(admin.run, FABRICS, fctype=5) == 1 | DNR
    for opcode in (0, 1, 4, 5, 0x10, 0x80, 0xFF):
        assert refused(admin.run, opcode) == 1 | DNR


def test_commands_that_io_queues_refuse(host):
    q = host.queues[0]
    for opcode in (AER, KEEP_ALIVE, IDENTIFY, FABRICS):
        assert refused(q.run, opcode) == 1 | DNR
    for sgl in (0x00, 0x40, 0x4F, 0x5B):
        assert refused(host.read, 0, sgl=sgl) == 0x11 | DNR
        assert refused(host.write, 0, bytes(4096), sgl=sgl) == 0x11 | DNR
    for last, data in [(1, bytes(16)), (0, bytes(12)), (0, bytes(4112))]:
        for capsule in (False, True):
            assert refused(q.run, 9, 1, [last, 4], write=data, capsule=capsule) == 0x0F | DNR
    for nsid in (0, 2, 0xFFFFFFFF):
        assert refused(host.zero, 0, 1, nsid=nsid) == 0x0B | DNR
        assert refused(host.deallocate, (0, 1), nsid=nsid) == 0x0B | DNR


def test_which_queues_may_not_join(start_daemon, tmp_path):
    daemon = start_daemon(config(tmp_path / "disk"))
    with Host(daemon, "nvme", NQN, queues=0) as host, Queue(daemon.connect("nvme")) as discovery:
        assert host.admin.run(SET_FEATURES, cdw=[7, 1 << 16 | 1])[1] == 1 << 16 | 1
        cntlid = discovery.connect("nqn.2014-08.org.nvmexpress.discovery")
        discovery.enable()
        for qid, of, expected in [(3, host.cntlid, 0x182 | DNR), (1, cntlid, 0x182), (1, 0xFFFF, 0x182)]:
            with Queue(daemon.connect("nvme")) as queue:
                assert refused(queue.connect, NQN, qid, of) == expected
        with Queue(daemon.connect("nvme")) as queue:
            queue.connect(NQN, 2, host.cntlid)
            assert refused(host.admin.run, SET_FEATURES, cdw=[7, 0]) == 0x0C | DNR
            assert refused(queue.connect, NQN, 2, host.cntlid) == 1 | DNR
