"""nbctl run on a daemon with an echo listener of each engine, its streams apart."""

import json
import os
import subprocess

import pytest
from conftest import ENGINES, TIMEOUT, listener, program_of

CONFIG = "".join(listener(f"echo-{e}", engine=e) for e in ENGINES)


@pytest.fixture
def daemon(start_daemon):
    return start_daemon(CONFIG)


def nbctl(daemon, *arguments, **options):
    """Runs nbctl, or nbbench for its commands, with its streams apart; socket: another one than the daemon's."""
    path = options.pop("socket", None) or daemon.control
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    environment.update(options.pop("env", {}))
    return subprocess.run(
        [str(program_of(arguments)), "-s", path, *map(str, arguments)],
        capture_output=True,
        check=False,
        text=True,
        timeout=TIMEOUT,
        env=environment,
        **options,
    )


def nbctl_json(daemon, *arguments):
    done = nbctl(daemon, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def echo(s, data):
    s.sendall(data)
    received = b""
    while len(received) < len(data):
        part = s.recv(65536)
        assert part
        received += part
    assert received == data
