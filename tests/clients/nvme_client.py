"""NVMe/TCP from the host's side, PDU by PDU, as strict as a host may be, and able to say what none would.

Source: NVM Express Base Specification 2.0, TCP Transport Specification 1.0."""

import struct

from wire import Wire

ICREQ, ICRESP, H2C_TERM, C2H_TERM, COMMAND, RSP, H2C_DATA, C2H_DATA, R2T = 0, 1, 2, 3, 4, 5, 6, 7, 9
HLEN = {ICREQ: 128, ICRESP: 128, H2C_TERM: 24, C2H_TERM: 24, COMMAND: 72, RSP: 24, H2C_DATA: 24,
        C2H_DATA: 24, R2T: 24}
HDGST, DDGST, LAST, SUCCESS = 1, 2, 4, 8
FLUSH, WRITE, READ, WRITE_ZEROES, DSM = 0, 1, 2, 8, 9
GET_LOG, IDENTIFY, ABORT, SET_FEATURES, GET_FEATURES, AER, KEEP_ALIVE, FABRICS = (2, 6, 8, 9, 10, 12, 0x18, 0x7F)
CAP, VS, CC, CSTS = 0, 8, 0x14, 0x1C
ENABLE, SHUT_DOWN = 0x460001, 0x464001
DNR = 0x4000
FUA = 1 << 30
DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
CAPSULE, TRANSPORT = 0x01, 0x5A
HOST = ("nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555", b"0123456789abcdef")


def _table():
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        yield value


_CRC = list(_table())


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283


class Status(Exception):
    """A command has failed; args[0] is its status, with DNR."""

    def __str__(self):
        return f"status {self.args[0]:#x}"


class Terminated(Exception):
    """The controller has sent a C2HTermReq: (fes, fei)."""


class Queue(Wire):
    """A connection as one queue.  Completions are checked; what arrives for a command is kept."""

    def __init__(self, connection, hdgst=False, ddgst=False, hpda=0, start=True):
        super().__init__(connection)
        self.digest = (hdgst, ddgst)
        self.hpda = hpda
        self.next_cid = 0x4001  # hosts put more than an index into it
        self.data = {}  # cid: what has arrived for it
        self.writes = {}  # cid: what it may be asked for
        self.done = {}  # cid: (status, result)
        self.wanted = {}  # cid: bytes that a read must bring
        self.ignores_r2t = False
        self.sqflow = True
        if start:
            self.start()

    # ---- PDUs

    def pdu(self, kind, rest, data=b"", flags=0, pad=0, hlen=None, pdo=None, plen=None, digest=True,
            bad_header=False, bad_data=False):
        """Bytes of a PDU whose header ends with `rest`; all that could be wrong with it can be."""
        hdgst, ddgst = self.digest if digest and kind not in (ICREQ, H2C_TERM) else (False, False)
        begin = HLEN[kind] + 4 * hdgst + pad
        ddgst = ddgst and len(data) > 0
        flags |= HDGST * hdgst | DDGST * ddgst
        header = struct.pack("<BBBBI", kind, flags, HLEN[kind] if hlen is None else hlen,
                             (begin if data else 0) if pdo is None else pdo,
                             begin + len(data) + 4 * ddgst if plen is None else plen) + rest
        out = header
        if hdgst:
            out += struct.pack("<I", crc32c(header) ^ bad_header)
        out += bytes(pad) + data
        if ddgst:
            out += struct.pack("<I", crc32c(data) ^ bad_data)
        return out

    def start(self, maxr2t=0):
        flags = self.digest[0] | self.digest[1] << 1
        self.send(self.pdu(ICREQ, struct.pack("<HBBI112x", 0, self.hpda, flags, maxr2t)))
        reply = self.read(128)
        kind, _, hlen, pdo, plen, pfv, cpda, dgst, self.h2c_max = struct.unpack_from("<BBBBIHBBI", reply)
        assert (kind, hlen, pdo, plen, pfv, cpda, dgst) == (ICRESP, 128, 0, 128, 0, 0, flags)
        assert self.h2c_max >= 4096 and self.h2c_max % 4 == 0
        assert reply[16:] == bytes(112)

    def receive(self):
        """One PDU, checked: (kind, flags, header behind the common part, data)."""
        common = self.read(8)
        kind, flags, hlen, pdo, plen = struct.unpack("<BBBBI", common)
        rest = self.read(hlen - 8)
        if kind == C2H_TERM:
            assert hlen == 24 and 24 < plen <= 152
            self.read(plen - 24)
            raise Terminated(*struct.unpack_from("<HI", rest))
        hdgst, ddgst = self.digest
        assert hlen == 24 and kind in (RSP, C2H_DATA, R2T)
        assert bool(flags & HDGST) == hdgst
        at = hlen
        if hdgst:
            assert struct.unpack("<I", self.read(4))[0] == crc32c(common + rest)
            at += 4
        if kind != C2H_DATA:
            assert plen == at and pdo == 0 and not flags & ~HDGST
            return kind, flags, rest, b""
        align = (self.hpda + 1) * 4
        assert pdo == (at + align - 1) // align * align
        assert bool(flags & DDGST) == ddgst
        assert self.read(pdo - at) == bytes(pdo - at)
        data = self.read(plen - pdo - 4 * ddgst)
        if ddgst:
            assert struct.unpack("<I", self.read(4))[0] == crc32c(data)
        return kind, flags, rest, data

    # ---- Commands

    def sqe(self, opcode, nsid=0, cdw=(), length=0, sgl=None, address=0, flags=0x40, fctype=None):
        """(cid, 64 bytes)"""
        cid = self.next_cid
        self.next_cid = cid % 0xF000 + 1
        cdw = [*cdw, *[0] * (6 - len(cdw))]
        sgl = sgl if sgl is not None else TRANSPORT if length else 0
        nsid = nsid if fctype is None else fctype
        return cid, struct.pack("<BBHI16xQI3xB6I", opcode, flags, cid, nsid, address, length, sgl, *cdw)

    def submit(self, opcode, nsid=0, cdw=(), read=0, write=b"", capsule=False, **options):
        """Sends a command that reads `read` bytes or writes `write`; its cid."""
        options.setdefault("sgl", CAPSULE if capsule and write else None)
        cid, sqe = self.sqe(opcode, nsid, cdw, read or len(write), **options)
        self.data[cid] = bytearray()
        self.wanted[cid] = read
        if write and not capsule:
            self.writes[cid] = (write, 0)
        self.send(self.pdu(COMMAND, sqe, write if capsule else b""))
        return cid

    def answer_r2t(self, cid, ttag, offset, length, last=True):
        """The data that the controller has asked for, in PDUs of the size that it takes."""
        data = self.writes[cid][0][offset:offset + length]
        for at in range(0, len(data), self.h2c_max):
            piece = data[at:at + self.h2c_max]
            end = LAST if last and at + len(piece) == len(data) else 0
            self.send(self.pdu(H2C_DATA, struct.pack("<HHII4x", cid, ttag, offset + at, len(piece)),
                               piece, flags=end))

    def process(self):
        """One PDU of the controller."""
        kind, flags, rest, data = self.receive()
        if kind == RSP:
            result, sqhd, _, cid, status = struct.unpack("<QHHHH", rest)
            assert not status & 1 and cid in self.data and cid not in self.done
            assert (sqhd == 0xFFFF) == (not self.sqflow)
            self.done[cid] = (status >> 1, result)
            assert status or len(self.data[cid]) == self.wanted[cid]
        elif kind == C2H_DATA:
            cid, offset, length = struct.unpack("<HxxII4x", rest)
            assert cid not in self.done and length == len(data) > 0
            assert offset == len(self.data[cid]), "in order, each byte once"
            self.data[cid] += data
            assert len(self.data[cid]) <= self.wanted[cid]
            assert bool(flags & LAST) == (len(self.data[cid]) == self.wanted[cid])
            if flags & SUCCESS:
                assert flags & LAST and not self.sqflow
                self.done[cid] = (0, 0)
        else:
            cid, ttag, offset, length = struct.unpack("<HHII4x", rest)
            assert cid in self.writes and cid not in self.done
            data, next_offset = self.writes[cid]
            assert offset == next_offset and 0 < length <= len(data) - offset
            self.writes[cid] = (data, offset + length)
            if not self.ignores_r2t:
                self.answer_r2t(cid, ttag, offset, length)
        return kind, cid

    def wait(self, cid):
        """(data, result) of a command; Status if it has failed."""
        while cid not in self.done:
            self.process()
        status, result = self.done.pop(cid)
        data = bytes(self.data.pop(cid))
        self.wanted.pop(cid)
        self.writes.pop(cid, None)
        if status:
            raise Status(status, result)
        return data, result

    def run(self, *arguments, **options):
        return self.wait(self.submit(*arguments, **options))

    # ---- Fabrics

    def connect(self, subnqn, qid=0, cntlid=0xFFFF, sqsize=31, kato=0, host=HOST, sqflow=True, recfmt=0,
                data=None, **options):
        """The controller's id."""
        if data is None:
            data = host[1] + struct.pack("<H", cntlid) + bytes(238)
            data += subnqn.encode().ljust(256, b"\0") + host[0].encode().ljust(256, b"\0") + bytes(256)
        self.sqflow = sqflow
        options.setdefault("capsule", True)
        _, result = self.run(FABRICS, fctype=1, write=data,
                             cdw=[recfmt | qid << 16, sqsize | (0 if sqflow else 4) << 16, kato], **options)
        return result

    def get(self, offset, wide=False):
        return self.run(FABRICS, fctype=4, cdw=[int(wide), offset])[1]

    def set(self, offset, value):
        self.run(FABRICS, fctype=0, cdw=[0, offset, value])

    def enable(self):
        self.get(CAP, wide=True)
        self.set(CC, ENABLE)
        while not self.get(CSTS) & 1:
            pass
        return self

    def identify(self, cns, nsid=0, csi=0):
        return self.run(IDENTIFY, nsid, [cns, csi << 24], read=4096)[0]

    def log(self, lid, size, offset=0):
        dwords = size // 4 - 1
        return self.run(GET_LOG, 0xFFFFFFFF, [lid | (dwords & 0xFFFF) << 16, dwords >> 16, offset], read=size)[0]


class Host:
    """A controller: its admin queue, and its I/O queues."""

    def __init__(self, daemon, name, subnqn, queues=1, host=HOST, kato=0, entries=32, block=4096,
                 sqflow=True, **terms):
        self.block = block

        def dial():
            return Queue(daemon.connect(name), **terms)

        self.admin = dial()
        self.cntlid = self.admin.connect(subnqn, kato=kato, host=host)
        self.admin.enable()
        self.queues = []
        for qid in range(1, queues + 1):
            queue = dial()
            queue.connect(subnqn, qid, self.cntlid, entries - 1, host=host, sqflow=sqflow)
            self.queues.append(queue)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for queue in [*self.queues, self.admin]:
            queue.socket.close()

    def rw(self, opcode, block, data=None, blocks=None, nsid=1, control=0, queue=0, **options):
        """Starts a read of `blocks` or a write of `data`; its cid."""
        count = blocks if data is None else len(data) // self.block
        cdw = [block & 0xFFFFFFFF, block >> 32, (count - 1) & 0xFFFF | control]
        if data is None:
            options["read"] = count * self.block
        else:
            options["write"] = data
        return self.queues[queue].submit(opcode, nsid, cdw, **options)

    def read(self, block, blocks=1, queue=0, **options):
        q = self.queues[queue]
        return q.wait(self.rw(READ, block, blocks=blocks, queue=queue, **options))[0]

    def write(self, block, data, queue=0, **options):
        q = self.queues[queue]
        return q.wait(self.rw(WRITE, block, data, queue=queue, **options))

    def zero(self, block, blocks, control=0, queue=0, nsid=1):
        cdw = [block & 0xFFFFFFFF, block >> 32, (blocks - 1) | control]
        return self.queues[queue].run(WRITE_ZEROES, nsid, cdw)

    def flush(self, queue=0, nsid=1):
        return self.queues[queue].run(FLUSH, nsid)

    def deallocate(self, *ranges, queue=0, nsid=1, capsule=True):
        data = b"".join(struct.pack("<IIQ", 0, count, block) for block, count in ranges)
        return self.queues[queue].run(DSM, nsid, [len(ranges) - 1, 4], write=data, capsule=capsule)
