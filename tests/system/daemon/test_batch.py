"""Requests gather while a client has many in flight, and not when it waits for each answer."""

import pathlib
import re
import threading

import pytest
from conftest import TIMEOUT, listener, wait_until
from nbd_client import READ, connect

KIB, ANSWER = 1024, 16 + 512


@pytest.fixture
def serve(start_daemon, engine, tmp_path):
    def start(**keys):
        return start_daemon(f"[export disk]\npath = {tmp_path}/disk\ncreate = yes\nsize = 1M\n"
                            + listener("nbd", service="nbd", engine=engine, exports="disk", store="blocking", **keys))

    return start


def gathered(daemon):
    return daemon.stats("nbd")["cost"]["gathered"]


class Stream:
    """Keeps up to 64 reads in flight, each sent by itself; another thread takes the answers."""

    def __init__(self, client):
        self.client, self.over = client, False
        self.window, self.taken = threading.Semaphore(64), 0
        client.socket.settimeout(TIMEOUT)
        self.threads = [threading.Thread(target=f) for f in (self.send, self.take)]

    def send(self):
        while not self.over:
            self.window.acquire()
            self.client.request(READ, 0, 512)
        self.client.socket.shutdown(1)

    def take(self):
        while data := self.client.socket.recv(1 << 16):
            answers = self.taken // ANSWER
            self.taken += len(data)
            for _ in range(self.taken // ANSWER - answers):
                self.window.release()

    def __enter__(self):
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_):
        self.over = True
        for thread in self.threads:
            thread.join()


def test_many_requests_in_flight_are_batched(serve):
    daemon = serve()
    with connect(daemon, "nbd") as client, Stream(client):
        wait_until(lambda: gathered(daemon) > 10, "turns that gather")


def test_off_is_a_value(serve):
    daemon = serve(batch_delay="0")
    with connect(daemon, "nbd") as client, Stream(client):
        wait_until(lambda: daemon.stats("nbd")["operations"]["read"]["count"] > 2000, "reads")
    assert gathered(daemon) == 0 and daemon.stats("nbd")["cost"]["batch_delay_ns"] == 0


def test_a_client_that_waits_for_each_answer_is_not_delayed(serve):
    daemon = serve()
    requests = 3000
    with connect(daemon, "nbd") as client:
        for _ in range(requests):
            client.request(READ, 0, 4 * KIB)
            assert client.reply(4 * KIB)[0] == 0
    assert gathered(daemon) <= requests / 50


def submissions(daemon):
    """Operations that were submitted to all rings of the daemon so far."""
    rings = [fd for fd, file in daemon.files().items() if "[io_uring]" in file]
    infos = [pathlib.Path(f"/proc/{daemon.pid}/fdinfo/{fd}").read_text() for fd in rings]
    return sum(int(re.search(r"SqTail:\s*(\d+)", info)[1]) for info in infos)


def test_a_receive_serves_many_requests(start_daemon, tmp_path):
    """On a ring only the answer is submitted, also after a client that had the kernel list all lent chunks."""
    daemon = start_daemon(f"[export disk]\npath = {tmp_path}/disk\ncreate = yes\nsize = 1M\n"
                          + listener("nbd", service="nbd", engine="io_uring", exports="disk", store="blocking"))
    requests = 500
    for _ in range(2):
        with connect(daemon, "nbd") as client:
            before = submissions(daemon)
            for _ in range(requests):
                client.request(READ, 0, 512)
                assert client.reply(512)[0] == 0
            assert submissions(daemon) - before <= requests * 1.1
        daemon.wait_closed("nbd")
