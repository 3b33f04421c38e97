"""nbctl run on a daemon, its streams apart."""

import contextlib
import json
import os
import socket
import subprocess
import threading

from conftest import TIMEOUT, program_of

def nbctl(daemon, *arguments, **options):
    """Runs nbctl, or nbbench for its commands, with its streams apart; socket: another one than the daemon's."""
    path = options.pop("socket", None) or daemon.control
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    environment.update(options.pop("env", {}))
    return subprocess.run([str(program_of(arguments)), "-s", path, *map(str, arguments)], capture_output=True,
                          check=False, text=True, timeout=TIMEOUT, env=environment, **options)


def nbctl_json(daemon, *arguments):
    done = nbctl(daemon, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextlib.contextmanager
def relay(path, control, change):
    """A socket before the daemon's, for one client; change(reply) may wait, or give it another."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        listening.settimeout(TIMEOUT)

        def forward():
            with listening.accept()[0] as client, socket.socket(socket.AF_UNIX) as server:
                server.connect(control)
                while call := client.recv(65536):
                    server.sendall(call)
                    reply = b""
                    while not reply.endswith(b"\0"):
                        reply += server.recv(65536)
                    client.sendall(change(reply))

        thread = threading.Thread(target=forward)
        thread.start()
        yield
        thread.join()
