"""NBD from the client's side, byte by byte: what no library would send."""

import socket
import struct

from wire import Wire

OPT_EXPORT_NAME, OPT_ABORT, OPT_LIST, OPT_STARTTLS, OPT_INFO, OPT_GO = 1, 2, 3, 5, 6, 7
OPT_STRUCTURED_REPLY, OPT_SET_META_CONTEXT = 8, 10
REP_ACK, REP_SERVER, REP_INFO, REP_META_CONTEXT = 1, 2, 3, 4
REP_ERR_UNSUP, REP_ERR_INVALID, REP_ERR_UNKNOWN, REP_ERR_TOO_BIG = (0x80000001, 0x80000003, 0x80000006, 0x80000009)
INFO_BLOCK_SIZE = 3
READ, WRITE, DISC, FLUSH, TRIM, WRITE_ZEROES, BLOCK_STATUS = 0, 1, 2, 3, 4, 6, 7
FUA, NO_HOLE = 1, 2
EPERM, EIO, EINVAL, ENOSPC = 1, 5, 22, 28
DONE = 1
NONE, OFFSET_DATA, STATUS, ERROR = 0, 1, 5, 0x8000


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
        *infos, last = self.option_replies()
        assert last[0] == REP_ACK, last
        self.infos = {struct.unpack(">H", data[:2])[0]: data[2:] for _, data in infos}
        return self

    def speak(self, form):
        """Chooses the form of requests and replies, "simple" or "structured", and of extents."""
        if form == "simple":
            return self
        self.option(OPT_STRUCTURED_REPLY)
        assert self.option_replies() == [(REP_ACK, b"")]
        context = b"base:allocation"
        self.option(OPT_SET_META_CONTEXT, struct.pack(">III", 0, 1, len(context)) + context)
        assert [kind for kind, _ in self.option_replies()] == [REP_META_CONTEXT, REP_ACK]
        return self

    def request(self, kind, offset=0, length=0, payload=b"", flags=0, cookie=7, magic=None):
        header = struct.pack(">IHHQQI", magic or 0x25609513, flags, kind, cookie, offset, length)
        self.send(header + payload)

    def message(self, lengths):
        """(cookie, is it the last?, kind, data) of the next chunk of a reply.  A simple reply is one of kind NONE or
        ERROR, with the data of a read, whose length `lengths` has by its cookie."""
        (magic,) = struct.unpack(">I", self.read(4))
        if magic == 0x67446698:
            error, cookie = struct.unpack(">IQ", self.read(12))
            if error:
                return cookie, True, ERROR, struct.pack(">I", error)
            return cookie, True, NONE, self.read(lengths.get(cookie, 0))
        assert magic == 0x668E33EF, hex(magic)
        flags, kind, cookie = struct.unpack(">HHQ", self.read(12))
        (length,) = struct.unpack(">I", self.read(4))
        return cookie, flags == DONE, kind, self.read(length)

    def reply_of_one_piece(self, lengths):
        """(cookie, error, data) of the next reply, in whatever form."""
        cookie, last, kind, data = self.message(lengths)
        assert last
        if kind & ERROR:
            return cookie, struct.unpack(">I", data[:4])[0], b""
        return cookie, 0, data[8:] if kind == OFFSET_DATA else data

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
