"""A small Varlink client for the tests, standard library only.

call() and stream() do what a good client does; Connection also lets a test misbehave.
"""
import json
import socket

TIMEOUT = 60  # seconds; longer than any time limit of the daemon


class VarlinkError(Exception):
    """The daemon replied with an error."""

    def __init__(self, name, parameters):
        super().__init__(f"{name} {parameters}")
        self.name = name
        self.parameters = parameters


class Connection:
    """One connection: messages in, messages out."""

    def __init__(self, path, timeout=TIMEOUT):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.received = b""
        try:
            self.socket.connect(str(path))  # waits when the backlog is full
            self.socket.settimeout(timeout)
        except OSError:
            self.socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send_bytes(self, data):
        self.socket.sendall(data)

    def send(self, method, parameters=None, **flags):
        """Sends a call; flags: more, oneway."""
        message = {"method": method, **flags}
        if parameters is not None:
            message["parameters"] = parameters
        self.send_bytes(encode(message))

    def receive_bytes(self):
        """The next message with its NUL; None when the daemon has closed the connection."""
        while b"\0" not in self.received:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                assert not self.received, f"ended within a message: {self.received!r}"
                return None
            self.received += data
        message, self.received = self.received.split(b"\0", 1)
        return message + b"\0"

    def receive(self):
        """The next message as a dict; None when the daemon has closed the connection."""
        message = self.receive_bytes()
        return None if message is None else json.loads(message[:-1])

    def receive_reply(self):
        """(parameters, continues) of the next reply; raises VarlinkError."""
        message = self.receive()
        if message is None:
            raise ConnectionError("the daemon closed the connection")
        if "error" in message:
            raise VarlinkError(message["error"], message.get("parameters", {}))
        return message.get("parameters", {}), message.get("continues", False)

    def is_ended(self):
        """Waits for the daemon to close the connection; nothing else may come."""
        try:
            return self.receive_bytes() is None
        except BrokenPipeError:
            return True


def encode(message):
    return json.dumps(message).encode() + b"\0"


def stream(path, method, parameters=None):
    """The parameters of every reply to a call with `more`."""
    with Connection(path) as c:
        c.send(method, parameters, more=True)
        continues = True
        while continues:
            reply, continues = c.receive_reply()
            yield reply


def call(path, method, parameters=None, more=False):
    """The parameters of the reply; with `more`: an iterator over those of all replies."""
    if more:
        return stream(path, method, parameters)
    with Connection(path) as c:
        c.send(method, parameters)
        reply, continues = c.receive_reply()
        assert not continues
        return reply
