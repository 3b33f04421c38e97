"""Threads that hang, waiting for a device or making no turns: the daemon ends nevertheless, and logs which thread it
was."""

import contextlib
import ctypes
import os
import re
import signal
import threading
import time

import pytest
from conftest import TIMEOUT, failed_start, listener, wait_until
from nbd_client import READ, WRITE, connect

MINUTES = 4

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 17, 0x4206, 0x4207, 0x40000000


def ptrace(request, tid):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(ctypes.c_long(request), ctypes.c_long(tid), None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")


def thread(daemon, name):
    """Its TID."""
    return next(tid for tid, other in daemon.threads().items() if other == name)


@contextlib.contextmanager
def frozen(daemon, name):
    """Stops that one thread; its process does not end before we have seen the thread's end."""
    tid = thread(daemon, name)
    try:
        ptrace(PTRACE_SEIZE, tid)
    except OSError as error:
        pytest.skip(f"may not trace a thread here: {error}")
    ptrace(PTRACE_INTERRUPT, tid)
    os.waitpid(tid, WALL)
    try:
        yield tid
    finally:
        with contextlib.suppress(OSError):  # it may be gone
            ptrace(PTRACE_DETACH, tid)


def reaped(tid):
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(tid, os.WNOHANG | WALL)[0] == tid
    return True


def terminate_twice(daemon):
    """The second does not wait for connections; of two that are pending it would hear one."""
    daemon.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "draining" in daemon.log(), "it has heard the first")
    daemon.process.send_signal(signal.SIGTERM)


def test_connections_that_wait_for_a_hung_device_are_abandoned_at_the_end(faulty):
    with connect(faulty, "nbd") as client:
        faulty.say("pread wait")
        client.request(READ, 0, 4096)
        wait_until(lambda: faulty.call("GetStats")["exports"][0]["in_flight"], "it is in flight")
        terminate_twice(faulty)
        threading.Timer(2.5, faulty.say, [""]).start()  # the worker gives up after 2 s, the daemon 5
        faulty.stop()


def test_a_device_that_stays_hung_does_not_stop_the_daemon_from_ending(faulty):
    with connect(faulty, "nbd") as client:
        faulty.say("pwrite wait")
        client.request(WRITE, 0, 4096, bytes(4096))
        wait_until(lambda: faulty.call("GetStats")["exports"][0]["in_flight"], "it is in flight")
        worker = thread(faulty, "nbd/0")
        terminate_twice(faulty)
        faulty.may_fail = True
        assert faulty.process.wait(TIMEOUT) == 1
    (line,) = [line for line in faulty.log().splitlines() if "does not end" in line]
    assert f"listener 'nbd': worker 0 (thread {worker})" in line
    assert "export 'disk' has 1 request in flight" in line
    assert not os.path.exists(faulty.control)


def grown(daemon, tmp_path, **keys):
    """The faulty daemon's configuration with one more listener for another export."""
    config = daemon.config_path.read_text().replace(f"control = {daemon.control}\n", "")
    return config + (f"[export disk2]\npath = {tmp_path}/disk2\nsize = 8M\ncreate = yes\nstore = threads\n"
                     + listener("more", service="nbd", exports="disk2", **keys))


def has_open(daemon, name):
    return any(file.endswith(name) for file in daemon.files().values())


@contextlib.contextmanager
def fed(daemon):
    """The daemon feeds the watchdog (of 3 s, see `faulty`) again and again meanwhile, which it would not if it
    hung."""
    daemon.notified()
    yield
    assert sum("WATCHDOG=1" in message for message in daemon.notified()) >= 3


def test_file_systems_that_hang_do_not_keep_a_reload(faulty, tmp_path):
    """Opening takes for ever: refused, or unavailable; and a new start when it works again.  Three of
    them take no longer than one: not the time after which nbctl gives up."""
    disks = [f"disk{i}" for i in range(2, 5)]
    more = "".join(f"[export {disk}]\npath = {tmp_path}/{disk}\nsize = 8M\ncreate = yes\nstore = threads\n"
                   for disk in disks[1:])
    faulty.say("open wait")
    faulty.write_config(grown(faulty, tmp_path) + "exports = disk3, disk4\n" + more)
    begin = time.monotonic()
    with fed(faulty):
        done = faulty.nbctl("reload", check=False)
    assert time.monotonic() - begin < 25
    assert done.returncode == 1
    for disk in disks:
        assert f"[export {disk}]: open {tmp_path}/{disk}: no answer within 10 s" in done.stdout
    assert faulty.call("GetStatus")["generation"] == 1
    faulty.say("")
    with connect(faulty, "nbd") as client:
        client.request(READ, 0, 4096)
    faulty.nbctl("reload")
    assert faulty.status("more")["state"] == "serving"
    # An open() that was abandoned has closed its file.
    faulty.write_config(grown(faulty, tmp_path).split("[export disk2]")[0])
    faulty.nbctl("reload")
    wait_until(lambda: not has_open(faulty, "disk2"), "the file is closed again")


def test_a_file_system_that_hangs_does_not_keep_the_start(faulty, start_daemon):
    """A daemon whose file system hangs at its start logs that and ends."""
    orders = faulty.directory / "open"
    orders.write_text("open wait")
    log = failed_start(start_daemon, f"[export disk]\npath = {faulty.directory}/disk\nsize = 8M\ncreate = yes\n"
                       + listener("nbd", service="nbd", exports="disk"), env={**faulty.env, "FAULTY": str(orders)})
    assert log.count(f"open {faulty.directory}/disk: no answer within 10 s") == 1


def test_a_certificate_s_file_system_that_hangs_does_not_keep_a_reload(start_faulty, tmp_path):
    """It is refused; the listeners go on with what they have read, and the next reload reads the file.  Eight of
    them take hardly longer than one."""
    pem = pytest.importorskip("test_tls").make_certificate(tmp_path, "disk")
    names = ["web", *(f"web{i}" for i in range(2, 9))]
    daemon = start_faulty("".join(listener(n, service="http", tls="user", tls_certificate=pem) for n in names))
    daemon.say("open wait")
    begin = time.monotonic()
    with fed(daemon):
        done = daemon.nbctl("reload", check=False)
    assert time.monotonic() - begin < 20
    assert done.returncode == 1
    for name in names:
        assert f"[listener {name}]: tls-certificate: cannot read '{pem}': no answer within the 5 s" in done.stdout
    assert daemon.status("web")["state"] == "serving"
    daemon.say("")
    daemon.nbctl("reload")


@pytest.mark.parametrize("optional", ["no", "yes"])
def test_workers_that_hang_while_they_start_do_not_keep_a_reload(faulty, tmp_path, optional):
    """Their listeners stay among those that leave, as they cannot be freed.  Three of them take no
    longer than one."""
    faulty.say("again wait")
    grow = grown(faulty, tmp_path, optional=optional, workers=2, address=f"unix:{tmp_path}/socket")
    grow += "".join(listener(name, service="nbd", exports="disk2", optional=optional) for name in ["m3", "m4"])
    faulty.write_config(grow)
    begin = time.monotonic()
    with fed(faulty):
        done = faulty.nbctl("reload", check=False)
    assert time.monotonic() - begin < 40
    why = r"worker 0 \(thread \d+\) has not started within 1\d s: it waits for the file of export 'disk2'"
    if optional == "yes":
        assert done.returncode == 0
        assert re.fullmatch(why, faulty.status("more")["reason"])
    else:
        assert done.returncode == 1
        assert re.search(rf"\[listener more\]: {why}", done.stdout)
        assert faulty.call("GetStatus")["generation"] == 1
    assert {l["name"] for l in faulty.call("GetStatus")["leaving"]} == {"more", "m3", "m4"}
    assert not os.path.exists(tmp_path / "socket")
    faulty.say("")
    with connect(faulty, "nbd") as client:
        client.request(READ, 0, 4096)
    faulty.nbctl("reload")
    assert faulty.status("more")["state"] == "serving"


def test_a_worker_that_hangs_does_not_keep_the_daemon(start_daemon):
    daemon = start_daemon(listener("stuck", workers=2) + listener("fine"))
    daemon.may_fail = True
    with frozen(daemon, "stuck/1") as tid:
        terminate_twice(daemon)
        wait_until(lambda: reaped(tid), "the daemon ends with the thread stopped")
    assert daemon.process.wait(TIMEOUT) == 1
    (line,) = [line for line in daemon.log().splitlines() if "does not end" in line]
    assert f"listener 'stuck': worker 1 (thread {tid})" in line


def test_a_removed_listener_whose_worker_hangs_does_not_keep_the_control_socket(start_daemon):
    """The hung listener stays among `leaving`; the others are served, reloaded and ended."""
    fine = listener("fine")
    daemon = start_daemon(listener("stuck") + fine)
    daemon.call("Drain", listener="stuck")
    wait_until(lambda: daemon.status("stuck")["state"] == "drained", "drained")
    with frozen(daemon, "stuck/0") as tid:
        daemon.write_config(fine)
        daemon.call("Reload")
        (left,) = daemon.call("GetStatus")["leaving"]
        assert (left["name"], left["state"]) == ("stuck", "drained")
        assert f"listener 'stuck': worker 0 (thread {tid}) does not end" in daemon.log()
        with daemon.connect("fine") as client:
            client.sendall(b"fine")
            assert client.recv(4) == b"fine"
        daemon.may_fail = True
        daemon.process.send_signal(signal.SIGTERM)
        wait_until(lambda: reaped(tid), "the daemon ends with the thread stopped")
    assert daemon.process.wait(TIMEOUT) == 1


def test_a_removed_listener_that_was_stuck_is_ended_later(start_daemon):
    fine = listener("fine")
    daemon = start_daemon(listener("stuck") + fine)
    daemon.call("Drain", listener="stuck")
    wait_until(lambda: daemon.status("stuck")["state"] == "drained", "drained")
    with frozen(daemon, "stuck/0"):
        daemon.write_config(fine)
        daemon.call("Reload")
        assert daemon.call("GetStatus")["leaving"]
    assert daemon.terminate() == 0
