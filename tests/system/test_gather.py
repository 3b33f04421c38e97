"""Requests gather while a client has many under way, and not when it waits for each answer."""

import threading

import pytest
from conftest import TIMEOUT, listener, wait_until
from nbd_client import READ, connect

KIB, ANSWER = 1024, 16 + 512


@pytest.fixture
def serve(start_daemon, engine, tmp_path):
    def start(**keys):
        return start_daemon(
            f"[export disk]\npath = {tmp_path}/disk\ncreate = yes\nsize = 1M\n"
            + listener("nbd", service="nbd", engine=engine, exports="disk", store="blocking", **keys)
        )

    return start


def gathered(daemon):
    return daemon.stats("nbd")["cost"]["gathered"]


class Stream:
    """Keeps up to 64 reads under way, each sent by itself; another thread takes the answers."""

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


def test_many_under_way_gather(serve):
    daemon = serve()
    with connect(daemon, "nbd") as client, Stream(client):
        wait_until(lambda: gathered(daemon) > 10, "turns that gather")


def test_off_is_a_value(serve):
    daemon = serve(batch_delay="0")
    with connect(daemon, "nbd") as client, Stream(client):
        wait_until(lambda: daemon.stats("nbd")["operations"]["read"]["count"] > 2000, "reads")
    assert gathered(daemon) == 0 and daemon.stats("nbd")["cost"]["batch_delay_ns"] == 0


def test_who_waits_for_each_answer_is_not_kept_waiting(serve):
    daemon = serve()
    requests = 3000
    with connect(daemon, "nbd") as client:
        for _ in range(requests):
            client.request(READ, 0, 4 * KIB)
            assert client.reply(4 * KIB)[0] == 0
    assert gathered(daemon) <= requests / 50
