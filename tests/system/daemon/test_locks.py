"""Files of exports are locked: no two processes write to one."""

import fcntl
import os
import signal
import socket
import struct

import pytest
from conftest import failed_start, listener, wait_until
from nbd_client import READ, WRITE, Raw, connect

MIB = 1 << 20


def disk(path, name="disk", **keys):
    lines = [f"[export {name}]", f"path = {path}"]
    lines += [f"{key.replace('_', '-')} = {value}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def serve(path, **keys):
    return listener("nbd", service="nbd", exports="disk") + disk(path, **keys)


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "image"
    path.write_bytes(bytes(MIB))
    return path


@pytest.mark.parametrize("how", ["same", "hard link", "symbolic link"])
def test_a_second_daemon_is_failed_start(start_daemon, image, how):
    first = start_daemon(serve(image))
    other = image.with_name("other")
    if how == "hard link":
        other.hardlink_to(image)
    elif how == "symbolic link":
        other.symlink_to(image)
    else:
        other = image
    log = failed_start(start_daemon, serve(other))
    assert f"{other} is in use: another process has locked it (as root, `lsof {other}` shows which); end that" in log
    assert "is in use" in failed_start(start_daemon, serve(other, read_only="yes"))
    first.terminate()
    start_daemon(serve(other))


def test_read_only_users_share_the_file(start_daemon, image):
    for _ in range(2):
        start_daemon(serve(image, read_only="yes"))
    assert "is in use" in failed_start(start_daemon, serve(image))


def test_a_block_device_is_locked(start_daemon, loop_device):
    device = loop_device()
    first = start_daemon(serve(device))
    assert f"{device} is in use: " in failed_start(start_daemon, serve(device))
    assert first.process.poll() is None


@pytest.mark.parametrize("keys", [{}, {"fill": "yes"}])
def test_nothing_is_written_to_a_file_that_another_process_has(start_daemon, tmp_path, keys):
    """An empty file, which both would make."""
    path = tmp_path / "made"
    with open(path, "x+b") as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        log = failed_start(start_daemon, serve(path, create="yes", size="1M", **keys))
    assert f"{path} is in use: " in log
    assert path.stat().st_size == 0


def test_one_file_is_two_exports_one_of_which_only_reads(start_daemon, tmp_path):
    """Also when it is not there yet."""
    path = tmp_path / "made"
    daemon = start_daemon(listener("nbd", service="nbd", exports="reads, writes")
                          + disk(path, "reads", read_only="yes") + disk(path, "writes", create="yes", size="1M"))
    with Raw(daemon, "nbd") as writer, Raw(daemon, "nbd") as reader:
        writer.go(b"writes")
        reader.go(b"reads")
        writer.request(WRITE, 4096, 4096, b"x" * 4096)
        assert writer.reply()[0] == 0
        reader.request(READ, 4096, 4096)
        assert reader.reply(4096)[1] == b"x" * 4096


def test_two_exports_do_not_write_to_one_file(start_daemon, image):
    other = image.with_name("other")
    other.hardlink_to(image)
    config = listener("nbd", service="nbd", exports="a, b") + disk(image, "a") + disk(other, "b")
    assert f"{other} is the file of export 'a', too" in failed_start(start_daemon, config)


def test_a_reload_keeps_the_lock_as_long_as_it_writes(start_daemon, image):
    """Old and new generation have the file open; then the new one only reads."""
    daemon = start_daemon(serve(image))
    with connect(daemon, "nbd") as client:
        for _ in range(32):  # a silent client is closed after a second, one that has not read is not
            client.request(READ, 0, MIB)
        daemon.write_config(serve(image, read_only="yes"))
        daemon.nbctl("reload")
        assert "is in use" in failed_start(start_daemon, serve(image, read_only="yes"))
    wait_until(lambda: not daemon.call("GetStatus")["leaving"], "the old one is gone")
    start_daemon(serve(image, read_only="yes")).terminate()
    daemon.write_config(serve(image))
    daemon.nbctl("reload")
    assert "is in use" in failed_start(start_daemon, serve(image))


def test_a_daemon_that_drains_keeps_the_file_as_long_as_clients_may_write(start_daemon, image):
    drain = "[server]\ndrain-timeout = 10min\n"
    first = start_daemon(drain + serve(image) + listener("other", service="chargen"))
    with first.connect("other"):  # a silent client is closed after a second, one that has not read is not
        wait_until(lambda: first.stats("other")["tx_blocked"], "its socket is full: a drain gives chargen no more to send")
        with connect(first, "nbd") as client:
            for _ in range(32):
                client.request(READ, 0, MIB)
            first.process.send_signal(signal.SIGTERM)
            wait_until(lambda: first.status("nbd")["state"] == "draining", "it drains")
            assert "is in use" in failed_start(start_daemon, serve(image))
        wait_until(lambda: first.status("nbd")["state"] == "drained", "its clients are gone")
        start_daemon(serve(image))
        assert first.process.poll() is None


def test_a_lock_that_is_released_is_waited_for(start_daemon, image):
    """As the rings of a killed daemon keep it: here, a file that is in transit in a socket."""
    whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    ends = socket.socketpair()
    with open(image, "r+b") as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, whole)
        socket.send_fds(ends[0], [b"x"], [file.fileno()])
    daemon = start_daemon(serve(image), ready=False)
    wait_until(lambda: str(image) in daemon.files().values() or daemon.process.poll(), "it wants the lock")
    for end in ends:
        end.close()
    daemon.wait_ready()
