"""Listeners on Unix sockets: their files, who may connect, and the same bytes as over TCP."""

import fcntl
import os
import signal
import stat
import subprocess
import tempfile

import pytest
from conftest import failed_start, is_ready, listener, requires, wait_until
from test_faults import Before
from traffic import (Busy, Exchange, Sender, connect, echo, echo_and_close, noise, receive_all)

KIB, MIB = 1024, 1024 * 1024


@pytest.fixture
def path():
    """Where a socket can be, in a directory that others may enter."""
    with tempfile.TemporaryDirectory(prefix="nbserved-test-") as directory:
        os.chmod(directory, 0o755)
        yield os.path.join(directory, "s")


def start_on(start_daemon, path, engine="epoll", **keys):
    daemon = start_daemon(listener("echo", engine=engine, address=f"unix:{path}", **keys))
    assert daemon.addresses("echo") == [path]
    return daemon


# ---- The file ----


def test_the_file_is_for_owner_and_group_and_goes_with_the_daemon(start_daemon, engine, path):
    old = os.umask(0o077)  # as in the unit
    try:
        daemon = start_on(start_daemon, path, engine)
    finally:
        os.umask(old)
    mode = os.lstat(path).st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o660
    with connect(path) as s:
        echo(s)
    assert daemon.terminate() == 0
    assert not os.path.exists(path)


def test_a_drain_removes_the_file_and_serves_open_connections_to_their_end(start_daemon, engine, path):
    daemon = start_on(start_daemon, path, engine, workers=2)
    with connect(path) as s, Busy(s) as busy:
        busy.goes_on()
        daemon.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not os.path.exists(path), "the file is removed")
        with pytest.raises(FileNotFoundError):
            connect(path)
        busy.goes_on()
    assert daemon.process.wait(60) == 0


def test_a_stale_file_is_replaced_after_a_kill(start_daemon, engine, path):
    """At once, although the rings of a killed daemon may hold the socket for a moment."""
    for _ in range(3):
        daemon = start_on(start_daemon, path, engine, workers=2)
        with connect(path) as s:
            echo(s)
        daemon.process.kill()
        daemon.process.wait()
        assert os.path.exists(path)
    start_on(start_daemon, path, engine)
    with connect(path) as s:
        echo(s)


def test_a_live_socket_is_in_use(start_daemon, path):
    daemon = start_on(start_daemon, path)
    inode = os.lstat(path).st_ino
    assert f"{path} is in use" in failed_start(start_daemon, listener("echo", address=f"unix:{path}"))
    assert os.lstat(path).st_ino == inode
    with connect(path) as s:
        echo(s)
    # The check for another server was no connection.
    assert daemon.stats("echo")["connections"]["accepted"] == 1


def test_a_file_other_than_a_socket_is_left_alone(start_daemon, path):
    with open(path, "w") as file:
        file.write("precious")
    assert f"{path} exists and is no socket" in failed_start(start_daemon, listener("echo", address=f"unix:{path}"), 1)
    with open(path) as file:
        assert file.read() == "precious"


def test_a_file_that_replaced_the_socket_is_not_removed(start_daemon, path):
    daemon = start_on(start_daemon, path)
    os.unlink(path)
    with open(path, "w") as file:
        file.write("precious")
    assert daemon.terminate() == 0
    with open(path) as file:
        assert file.read() == "precious"


def test_no_directory_no_socket(start_daemon, path):
    assert f"bind {path}/s: there is no such directory" in failed_start(start_daemon, listener("echo", address=f"unix:{path}/s"))


def test_a_lock_on_the_directory_does_not_prevent_a_start(start_daemon, path):
    """Any user who may read a directory can lock it (flock(2)); ours is a file that only we may open."""
    directory = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        daemon = start_on(start_daemon, path)
        assert os.listdir(directory) == ["s"]
    finally:
        os.close(directory)
    with connect(path) as s:
        echo(s)
    daemon.terminate()


@pytest.mark.parametrize("what", ["locked", "directory", "link"])
def test_a_lock_that_cannot_be_taken_is_named(start_daemon, path, what):
    with open(f"{path}.other", "w") as other:
        if what == "locked":
            os.rename(other.name, f"{path}.lock")
            fcntl.flock(other, fcntl.LOCK_EX)
            assert f"{path}.lock is locked: another server is starting there" in failed_start(start_daemon, listener("echo", address=f"unix:{path}"))
        elif what == "directory":
            os.mkdir(f"{path}.lock")
            assert f"{path}.lock" in failed_start(start_daemon, listener("echo", address=f"unix:{path}"), 1)
        else:
            os.symlink(other.name, f"{path}.lock")
            assert f"make {path}.lock: Too many levels of symbolic links" in failed_start(start_daemon, listener("echo", address=f"unix:{path}"), 1)
    assert not os.path.exists(path)


def test_an_optional_listener_says_why_it_is_not_there(start_daemon, path):
    daemon = start_daemon(listener("echo", address=["127.0.0.1:0", f"unix:{path}", f"unix:{path}/s"], optional="yes")
                          + listener("other"))
    status = daemon.status("echo")
    assert status["state"] == "unavailable" and "no such directory" in status["reason"]
    assert not os.path.exists(path)  # the socket bound before is removed


def test_an_abstract_name(start_daemon, engine, path):
    name = f"@nbserved-test{path}"
    config = listener("echo", engine=engine, address=f"unix:{name}", workers=2)
    daemon = start_daemon(config)
    assert daemon.status("echo")["addresses"] == [f"unix:{name}"]
    with connect(daemon.addresses("echo")[0]) as s:
        echo(s)
    assert f"bind unix:{name}: Address already in use" in failed_start(start_daemon, config)
    with connect(daemon.addresses("echo")[0]) as s:
        echo(s)


# ---- Permissions ----


def test_permissions_decide(start_daemon, path):
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    start_on(start_daemon, path)
    nobody = 65534

    def may_connect(gid):
        """As another user, in a process of its own."""
        pid = os.fork()
        if pid == 0:
            try:
                os.setgroups([])
                os.setgid(gid)
                os.setuid(nobody)
                connect(path).close()
                os._exit(0)
            except PermissionError:
                os._exit(1)
            finally:
                os._exit(2)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    group = os.lstat(path).st_gid
    assert may_connect(group) == 0
    assert may_connect(nobody) == 1


def test_allow_is_for_ip(start_daemon, engine, path):
    daemon = start_daemon(listener("echo", engine=engine, address=[f"unix:{path}", "127.0.0.1:0"], workers=2, allow="10.0.0.0/8"))
    local, remote = daemon.addresses("echo")
    with connect(local) as s:
        echo(s)
    with connect(remote) as s:
        try:
            assert s.recv(1) == b""
        except ConnectionResetError:
            pass
    assert daemon.stats("echo")["connections"]["refused"] == {"limit": 0, "denied": 1}


def test_connections_are_named_by_process_and_user(start_daemon, engine, path):
    daemon = start_on(start_daemon, path, engine)
    with connect(path) as s:
        echo(s)
        listed = daemon.call("ListConnections")["connections"][0]
        assert listed["peer"] == f"unix:pid={os.getpid()},uid={os.getuid()}"
        assert (listed["rtt_us"], listed["retransmits"], listed["unsent_bytes"]) == (0, 0, 0)
        assert listed["peer"] in daemon.nbctl("connections").stdout
    assert f"unix:{path}" in daemon.nbctl("status").stdout


# ---- The same bytes ----


def test_tcp_and_unix_in_one_listener(start_daemon, engine, path):
    daemon = start_daemon(
        listener("echo", engine=engine, workers=2,
                 address=[f"unix:{path}", "127.0.0.1:0", f"unix:{path}2", "[::1]:0"])
    )
    addresses = daemon.addresses("echo")
    assert addresses[0] == path and addresses[2] == f"{path}2"
    exchanges = [Exchange(connect(address), noise(200000, seed), seed) for seed, address in enumerate(addresses * 3)]
    echo_and_close(daemon, "echo", exchanges)


def test_all_workers_get_connections(start_daemon, engine, path):
    daemon = start_on(start_daemon, path, engine, workers=3)
    connections = []

    def workers():
        connections.append(connect(path))
        echo(connections[-1])
        listed = daemon.call("ListConnections")["connections"]
        return {c["worker"] for c in listed} == {0, 1, 2}

    wait_until(workers, "each of three workers has a connection")
    for s in connections:
        s.close()
    daemon.wait_closed("echo")


def test_a_close_with_unread_answers_is_a_reset(start_daemon, engine, path):
    daemon = start_on(start_daemon, path, engine)
    before = Before(daemon, "echo")
    for i in range(60):
        s = connect(path)
        s.sendall(noise(1 + i * 300))
        is_ready(s, 60)
        s.close()
    before.check(accepted=60)
    assert daemon.stats("echo")["connections"]["closed"]["reset"] == 60


def test_data_sent_before_a_close_is_received(start_daemon, engine, path):
    """Also from a pool that 40 clients exhaust."""
    daemon = start_daemon(
        listener("discard", service="discard", engine=engine, address=f"unix:{path}", buffers=16, buffer_size="4K")
    )
    data = noise(150 * KIB)
    senders = [Sender(connect(path), data) for _ in range(40)]
    for sender in senders:
        sender.finish()
        sender.socket.close()
    daemon.wait_closed("discard", accepted=40)
    stats = daemon.stats("discard")
    assert stats["bytes_in"] == 40 * len(data)
    closed = stats["connections"]["closed"]
    assert closed["peer"] == sum(closed.values()) == 40


def test_out_of_descriptors_accepting_pauses_and_recovers(start_daemon, engine, path):
    daemon = start_daemon(listener("echo", engine=engine, address=f"unix:{path}", workers=2), nofile=96)
    connections = [connect(path) for _ in range(120)]
    wait_until(lambda: "Too many open files" in daemon.log(), "accepting pauses")
    for s in connections[:60]:
        s.close()
    for s in connections[60:]:
        echo(s)
        s.close()
    daemon.wait_closed("echo", accepted=120)


def test_large_sends_fall_back_from_zero_copy(start_daemon, path):
    daemon = start_on(start_daemon, path, "io_uring", zero_copy_min="8K")
    if "send_zc" not in daemon.status("echo")["engine_features"]:
        pytest.skip("this kernel has no SEND_ZC")
    data = noise(2 * MIB)
    with connect(path) as s:
        sender = Sender(s, data)
        assert receive_all(s) == data
        sender.finish()
    zero_copy = daemon.stats("echo")["zero_copy"]
    assert zero_copy["sent"] == 0 and zero_copy["copied"] > 0


def test_nbd_clients_over_it(start_daemon, engine, path):
    """As many connections as nbdcopy makes: one for each of its threads, up to four."""
    nbdcopy = requires("nbdcopy")
    daemon = start_daemon(
        "[export disk0]\nstore = memory\nsize = 16M\n"
        + listener("nbd", service="nbd", engine=engine, address=f"unix:{path}", workers=2, exports="disk0")
    )
    uri, image, copy = f"nbd+unix:///disk0?socket={path}", f"{path}.image", f"{path}.copy"
    with open(image, "wb") as file:
        file.write(noise(16 * MIB))
    subprocess.run([nbdcopy, "--connections=4", image, uri], check=True, timeout=60)
    subprocess.run([nbdcopy, "--connections=4", uri, copy], check=True, timeout=60)
    with open(copy, "rb") as file:
        assert file.read() == noise(16 * MIB)
    daemon.wait_closed("nbd", accepted=2)
    closed = daemon.stats("nbd")["connections"]["closed"]
    assert closed["peer"] == sum(closed.values())
