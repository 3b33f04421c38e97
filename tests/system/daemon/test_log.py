"""The log on stderr: a reader that does not read does not stop the daemon."""

import fcntl
import os
import re
import socket

from conftest import TIMEOUT, is_ready, listener, wait_until


def fill(descriptor):
    """Writes to a pipe until it is full, through an open file of its own."""
    own = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK)
    try:
        while os.write(own, b"." * 4096):
            pass
    except BlockingIOError:
        pass
    os.close(own)


def read_all(descriptor):
    text = b""
    while is_ready(descriptor, 0):
        text += os.read(descriptor, 1 << 16)
    return text.decode()


def test_an_unread_log_pipe_does_not_stop_the_daemon(start_daemon):
    reads, writes = os.pipe()
    daemon = start_daemon(listener("echo"), preexec=lambda: os.dup2(writes, 2))
    wait_until(lambda: "serving 1 listener" in read_all(reads), "the last message of the start")
    fill(writes)
    for _ in range(3):
        daemon.call("Reload")
    assert not fcntl.fcntl(writes, fcntl.F_GETFL) & os.O_NONBLOCK  # what others share is as it was
    assert set(read_all(reads)) == {"."}
    daemon.call("Reload")
    said = wait_until(lambda: read_all(reads), "a message")
    lost = re.match(r"nbserved: (\d+) messages lost: stderr was not read\n", said)
    assert int(lost[1]) >= 3
    fill(writes)
    daemon.process.terminate()
    assert daemon.process.wait(TIMEOUT) == 0
    os.close(reads)
    os.close(writes)


def test_an_unread_journal_does_not_stop_the_daemon(start_daemon):
    """journald reads a stream socket, and takes the priority from the begin of each line."""
    reads, writes = socket.socketpair()
    stat = os.fstat(writes.fileno())
    daemon = start_daemon(listener("echo"), env={"JOURNAL_STREAM": f"{stat.st_dev}:{stat.st_ino}"},
                          preexec=lambda: os.dup2(writes.fileno(), 2))  # fmt: skip
    wait_until(lambda: re.search(r"^<6>nbserved .*serving 1 listener$", read_all(reads.fileno()), re.M), "the last message of the start")
    try:
        while writes.send(b"." * 1024, socket.MSG_DONTWAIT):
            pass
    except BlockingIOError:
        pass
    for _ in range(3):
        daemon.call("Reload")
    assert set(read_all(reads.fileno())) == {"."}
    daemon.call("Reload")
    said = wait_until(lambda: read_all(reads.fileno()), "a message")
    lost = re.match(r"<4>(\d+) messages lost: stderr was not read\n<6>", said)
    assert int(lost[1]) >= 3
    reads.close()
    writes.close()
