"""NBD from the client's side, byte by byte: what no library would send."""

import socket
import struct

from wire import Wire

OPT_EXPORT_NAME, OPT_ABORT, OPT_LIST, OPT_STARTTLS, OPT_INFO, OPT_GO = 1, 2, 3, 5, 6, 7
OPT_STRUCTURED_REPLY, OPT_SET_META_CONTEXT = 8, 10
REP_ACK, REP_SERVER, REP_INFO, REP_META_CONTEXT = 1, 2, 3, 4
REP_ERR_UNSUP, REP_ERR_INVALID, REP_ERR_UNKNOWN, REP_ERR_TOO_BIG = (
    0x80000001, 0x80000003, 0x80000006, 0x80000009,
)
READ, WRITE, DISC, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS = range(8)
FUA, NO_HOLE, DF = 1, 2, 4
EPERM, EIO, EINVAL, ENOSPC = 1, 5, 22, 28
SIMPLE_MAGIC, STRUCTURED_MAGIC = 0x67446698, 0x668E33EF
DONE = 1
OFFSET_DATA, OFFSET_HOLE, REPLY_BLOCK_STATUS = 1, 2, 5


class Raw(Wire):
    """A connection after the greeting and the client's flags."""

    def __init__(self, daemon, name, flags=3):
        super().__init__(daemon.connect(name))
        assert self.read(18)[:16] == b"NBDMAGICIHAVEOPT"
        self.send(struct.pack(">I", flags))

    def option(self, option, data=b"", magic=b"IHAVEOPT", length=None):
        length = len(data) if length is None else length
        self.send(magic + struct.pack(">II", option, length) + data)

    def option_replies(self):
        """[(type, data), ...] up to the ACK or an error."""
        replies = []
        while not replies or (replies[-1][0] != REP_ACK and replies[-1][0] < 0x80000000):
            magic, _, kind, length = struct.unpack(">QIII", self.read(20))
            assert magic == 0x3E889045565A9
            replies.append((kind, self.read(length)))
        return replies

    def go(self, export=b""):
        self.option(OPT_GO, struct.pack(">I", len(export)) + export + struct.pack(">H", 0))
        replies = self.option_replies()
        assert replies[-1][0] == REP_ACK, replies
        return self

    def request(self, kind, offset=0, length=0, payload=b"", flags=0, cookie=7, magic=0x25609513):
        self.send(struct.pack(">IHHQQI", magic, flags, kind, cookie, offset, length) + payload)

    def chunk(self, magic=None):
        """(cookie, kind, data) of a structured reply of one chunk, of which the magic may have been read."""
        magic = magic or struct.unpack(">I", self.read(4))[0]
        assert magic == STRUCTURED_MAGIC, hex(magic)
        flags, kind, cookie, length = struct.unpack(">HHQI", self.read(16))
        assert flags == DONE
        return cookie, kind, self.read(length)

    def reply_of_one_piece(self, lengths):
        """(cookie, error, data) of the next reply, simple or structured; lengths of reads by their cookies."""
        (magic,) = struct.unpack(">I", self.read(4))
        if magic == SIMPLE_MAGIC:
            error, cookie = struct.unpack(">IQ", self.read(12))
            return cookie, error, b"" if error else self.read(lengths.get(cookie, 0))
        cookie, kind, data = self.chunk(magic)
        if kind == OFFSET_DATA:
            return cookie, 0, data[8:]
        return cookie, struct.unpack(">I", data[:4])[0] if kind else 0, b""

    def reply(self, length=0):
        """(error, data) of a simple reply."""
        magic, error, cookie = struct.unpack(">IIQ", self.read(16))
        assert magic == 0x67446698 and cookie == 7
        return error, self.read(length) if not error else b""


def connect(daemon, name):
    """A connection that speaks in simple replies."""
    return Raw(daemon, name).go()


def reset(client):
    """Ends a connection as a killed client with unread data would."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.socket.close()
