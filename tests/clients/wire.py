"""A connection byte by byte: the part that the raw clients of NBD and NVMe have in common."""


class Wire:
    """Owns the socket, which the end of a `with` closes."""

    def __init__(self, connection):
        self.socket = connection

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def read(self, size):
        """Exactly size bytes; EOFError if the connection ends before."""
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError(f"{len(data)} of {size} bytes")
            data += piece
        return bytes(data)

    def is_closed(self):
        """The other side has ended it, and nothing was left to read."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
