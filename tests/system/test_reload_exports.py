"""Reloads that take an export away while its clients have requests in flight."""

import random
import threading

import pytest
from conftest import listener, wait_until
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
