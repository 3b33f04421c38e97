"""Reloads that take an export away while its clients have requests in flight."""

import contextlib
import errno
import os
import random
import re
import subprocess
import threading

import pytest
from conftest import TIMEOUT, listener, requires, wait_until
from nbd_client import DISC, FLUSH, READ, TRIM, WRITE, WRITE_ZEROES, connect, reset

MIB = 1 << 20
KEPT = "[export kept]\nstore = memory\nsize = 1M\n" + listener("kept", "nbd", exports="kept")
PATHS = [("epoll", "io_uring"), ("epoll", "threads"), ("io_uring", "io_uring"),
         ("io_uring", "blocking"), ("io_uring", "memory")]


class Clients:
    """Each asks for much, and takes the answers or is killed; again and again."""

    def __init__(self, daemon, count):
        self.daemon, self.ended = daemon, threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(seed,)) for seed in range(count)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()

    def run(self, seed):
        rng = random.Random(seed)
        while not self.ended.wait(0.01):
            try:
                self.visit(rng)
            except (OSError, EOFError, pytest.fail.Exception):
                pass  # the listener is away, or has cut us off

    def visit(self, rng):
        with connect(self.daemon, "disk") as client:
            client.socket.settimeout(5)
            for _ in range(64):
                kind, at = rng.choice([READ, WRITE, FLUSH, TRIM, WRITE_ZEROES]), rng.randrange(30) * MIB
                if kind == WRITE:
                    client.request(WRITE, at, 65536, bytes(65536))
                else:
                    client.request(kind, at, {FLUSH: 0, READ: MIB}.get(kind, 30 * MIB))
            if rng.random() < 0.5:
                reset(client)
                return
            client.request(DISC)
            while client.socket.recv(MIB):
                pass


@pytest.mark.parametrize("engine, store", PATHS)
def test_an_export_is_removed_while_clients_use_it(start_daemon, tmp_path, engine, store):
    place = "" if store == "memory" else f"path = {tmp_path}/disk\ncreate = yes\n"
    without = "[server]\ndrain-timeout = 1s\n" + KEPT
    config = without + f"[export disk]\n{place}size = 64M\nstore = {store}\n"
    config += listener("disk", "nbd", engine, exports="disk")
    daemon = start_daemon(config)

    def exports():
        return {export["name"]: export for export in daemon.call("GetStats")["exports"]}

    with connect(daemon, "kept") as kept:
        with Clients(daemon, 4):
            for _ in range(5):
                wait_until(lambda: exports()["disk"]["in_flight"], "requests are in flight")
                daemon.write_config(without)
                daemon.call("Reload")
                assert "disk" not in exports()
                daemon.write_config(config)
                daemon.call("Reload")
                daemon.notified()
        wait_until(lambda: not daemon.call("GetStatus")["leaving"], "the old listeners have gone")
        wait_until(lambda: not exports()["disk"]["in_flight"], "nothing is in flight")
        with connect(daemon, "disk") as client:
            client.request(READ, 0, 512)
            assert client.reply(512)[0] == 0
        kept.request(READ, 0, 512)
        assert kept.reply(512) == (0, bytes(512))


def test_a_refused_reload_leaves_no_file_of_its_size(start_daemon, tmp_path):
    """The next configuration may want another one; a file that was served keeps its size."""
    def disk(name, size):
        return (f"[export {name}]\npath = {tmp_path}/{name}\ncreate = yes\nsize = {size}\n"
                + listener(name, "nbd", exports=name))

    def reload(text):
        daemon.write_config(text)
        return daemon.nbctl("reload", check=False)

    served = disk("served", "1M")
    daemon = start_daemon(served)
    with connect(daemon, "served") as client:
        client.request(WRITE, 0, 4, b"data")
        assert client.reply() == (0, b"")
    wrong = listener("wrong", address="192.0.2.1:7")
    assert reload(served + disk("new", "2M") + wrong).returncode == 1
    assert (tmp_path / "new").stat().st_size == 0
    assert reload(served + disk("new", "3M")).returncode == 0
    assert (tmp_path / "new").stat().st_size == 3 * MIB
    assert reload(served).returncode == 0
    daemon.wait_closed("served")
    daemon.stop()
    assert (tmp_path / "new").stat().st_size == 3 * MIB
    assert (tmp_path / "served").read_bytes()[:4] == b"data"


# ---- A reload opens an export again that has failed, or whose file is another one ----


@contextlib.contextmanager
def flushes_fail(daemon):
    """fdatasync(2) fails while strace is attached."""
    command = [requires("strace"), "-f", "-qq", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO"]
    tracer = subprocess.Popen([*command, "-o", "/dev/null", "-p", str(daemon.pid)], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: tracer.poll() is not None
               or not any(daemon.of_threads(lambda task: "TracerPid:\t0\n" in (task / "status").read_text()).values()),
               "strace is attached")
    if tracer.poll() is not None:
        pytest.skip(f"strace cannot attach: {tracer.stderr.read()}")
    try:
        yield
    finally:
        tracer.terminate()
        tracer.communicate(timeout=TIMEOUT)


def disk(path, **keys):
    lines = ["[export disk]", f"path = {path}", *(f"{key} = {value}" for key, value in keys.items())]
    return "\n".join(lines) + "\n" + listener("disk", "nbd", exports="disk", store="threads")


def state(daemon):
    return next(e for e in daemon.call("GetStatus")["exports"] if e["name"] == "disk")


def written(daemon):
    """The error of a write and of a flush of a new client."""
    with connect(daemon, "disk") as client:
        client.request(WRITE, 0, 512, b"x" * 512)
        error = client.reply()[0]
        client.request(FLUSH)
        return error, client.reply()[0]


@pytest.fixture
def failed(start_daemon, tmp_path):
    """A daemon whose export has failed; the cause is gone."""
    daemon = start_daemon(KEPT + disk(tmp_path / "disk", create="yes", size="1M"))
    with flushes_fail(daemon):
        assert written(daemon) == (0, errno.EIO)
    assert state(daemon)["state"] == "failed"
    with pytest.raises(AssertionError, match="a flush of this export failed"):
        written(daemon)
    return daemon


def test_a_reload_opens_an_export_again_that_has_failed(failed):
    with connect(failed, "kept") as kept:
        said = failed.nbctl("reload").stdout
        assert re.search(r"\[export disk\]: opened again: a flush failed: Input/output error", said)
        kept.request(READ, 0, 512)
        assert kept.reply(512)[0] == 0
    assert state(failed)["state"] == "ok"
    assert written(failed) == (0, 0)
    assert "no change" in failed.nbctl("reload").stdout.lower()


def test_a_listener_that_serves_again_serves_its_export(failed):
    failed.nbctl("drain", "disk")
    failed.nbctl("resume", "disk")
    assert written(failed) == (0, 0)
    assert "export 'disk': opened again: a flush failed" in failed.log()


def test_a_resume_opens_no_export_of_other_listeners(failed):
    failed.nbctl("drain", "kept")
    failed.nbctl("resume", "kept")
    assert state(failed)["state"] == "failed"


@pytest.mark.parametrize("how", ["grown", "cut", "replaced"])
def test_a_reload_opens_a_file_again_that_has_changed(start_daemon, tmp_path, how):
    path = tmp_path / "disk"
    path.write_bytes(bytes(MIB))
    daemon = start_daemon(disk(path))
    if how == "replaced":
        path.rename(tmp_path / "old")
        path.write_bytes(b"y" * MIB)
    else:
        os.truncate(path, 2 * MIB if how == "grown" else MIB // 2)
    said = daemon.nbctl("reload").stdout
    assert f"[export disk]: opened again: {path} " in said
    assert state(daemon)["size"] == path.stat().st_size
    with connect(daemon, "disk") as client:
        client.request(READ, path.stat().st_size - 512, 512)
        assert client.reply(512)[1] == (b"y" if how == "replaced" else b"\0") * 512
    assert "no change" in daemon.nbctl("reload").stdout.lower()


def test_a_file_that_was_removed_is_served_on(start_daemon, tmp_path):
    daemon = start_daemon(disk(tmp_path / "disk", create="yes", size="1M"))
    with connect(daemon, "disk") as client:
        client.request(WRITE, 0, 512, b"z" * 512)
        assert client.reply()[0] == 0
    (tmp_path / "disk").unlink()
    assert "no change" in daemon.nbctl("reload").stdout.lower()
    with connect(daemon, "disk") as client:
        client.request(READ, 0, 512)
        assert client.reply(512)[1] == b"z" * 512
