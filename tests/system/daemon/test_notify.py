"""A service manager that does not read its socket: the daemon does not wait, and it gets all messages in the end."""

import pathlib
import re
import signal
import socket

import pytest
from conftest import listener, wait_until

KEEP = {"FDSTORE": "100"}
MANY = 40  # more messages than the kernel queues: net.unix.max_dgram_qlen is 10, or 512 (systemd)


def fill(daemon):
    """Until the manager's queue has no room."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.setblocking(False)
        other.connect(daemon.notify.getsockname())
        try:
            while True:
                other.send(b"X_FILLED=1")
        except BlockingIOError:
            pass


def echo(daemon, name):
    with daemon.connect(name) as s:
        s.sendall(b"hello")
        assert s.recv(100) == b"hello"


def listening_sockets(daemon):
    """How many of its descriptors are such, with the control socket."""
    inodes = set()
    for table in ("tcp", "unix"):
        for line in pathlib.Path(f"/proc/{daemon.pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if table == "tcp" and fields[3] == "0A":
                inodes.add(fields[9])
            if table == "unix" and fields[3] == "00010000":
                inodes.add(fields[6])
    links = list(daemon.files().values())
    return sum(links.count(f"socket:[{inode}]") for inode in inodes)


def switches(daemon):
    """How often the main thread has gone to sleep."""
    status = pathlib.Path(f"/proc/{daemon.pid}/task/{daemon.pid}/status").read_text()
    return int(re.search(r"(?m)^voluntary_ctxt_switches:\s+(\d+)", status)[1])


def hear(daemon, last):
    """All messages, in order, until one has `last` in it."""
    heard = []

    def is_last_here():
        heard.extend(m for m in daemon.notified() if m != "X_FILLED=1")
        return any(last in message for message in heard)

    wait_until(is_last_here, f"the service manager hears {last}")
    return heard


def test_reloads_continue_while_the_manager_does_not_read(start_daemon):
    daemon = start_daemon(listener("echo") + listener("a"), env=KEEP)
    daemon.notified()
    fill(daemon)
    for i in range(MANY):
        daemon.write_config(listener("echo") + listener(f"l{i}"))
        assert daemon.nbctl("reload").returncode == 0
        echo(daemon, f"l{i}")
    assert daemon.nbctl("status").returncode == 0
    heard = hear(daemon, f"generation {MANY + 1}")
    told = [int(n) for n in re.findall(r"generation (\d+)", "\n".join(heard))]
    assert told == list(range(2, MANY + 2))
    states = [m.split("\n")[0] for m in heard if m.startswith(("RELOADING", "READY"))]
    assert states == ["RELOADING=1", "READY=1"] * MANY
    assert sorted(name for name, _ in daemon.store) == ["echo=127.0.0.1 0", f"l{MANY - 1}=127.0.0.1 0"]
    # Each of the two listeners has its socket, and no copy waits for the manager any more.
    wait_until(lambda: listening_sockets(daemon) == 3, "copies of sockets are closed")


def test_many_sockets_are_stored_although_the_manager_reads_late(start_daemon):
    config = "".join(listener(f"l{i}") for i in range(MANY))
    daemon = start_daemon(config, env=KEEP, ready=False)
    wait_until(lambda: "serving 40 listeners" in daemon.log(), "the daemon serves")
    echo(daemon, f"l{MANY - 1}")
    assert hear(daemon, "READY=1")[-1].startswith("READY=1")
    assert len(daemon.store) == MANY


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_are_obeyed(start_daemon, number):
    daemon = start_daemon(listener("echo"), env=KEEP)
    fill(daemon)
    daemon.process.send_signal(number)
    if number == signal.SIGHUP:
        wait_until(lambda: daemon.call("GetStatus")["reload"]["time"], "the reload is done")
        assert daemon.call("GetStatus")["reload"]["ok"]
        daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(60) == 0


def test_the_watchdog_is_fed_while_the_manager_does_not_read(start_daemon):
    daemon = start_daemon(listener("echo"), env={"WATCHDOG_USEC": "3000"})
    hear(daemon, "WATCHDOG=1")
    fill(daemon)
    before = switches(daemon)
    wait_until(lambda: switches(daemon) > before + 100, "the watchdog ticks")
    assert daemon.nbctl("status").returncode == 0
    wait_until(lambda: "X_FILLED=1" in daemon.notified(), "the queue is read")
    hear(daemon, "WATCHDOG=1")


def test_forgotten_sockets_hold_up_the_start_for_a_second_only(start_daemon):
    """The answer to the barrier may never come: the daemon waits for it a second at most."""
    stranger, other = socket.socketpair()
    with stranger, other:
        daemon = start_daemon(listener("echo"), env=KEEP, inherit=[("a=b", stranger.fileno())] * MANY, ready=False)
        wait_until(lambda: "serving 1 listener" in daemon.log(), "the daemon serves")
        echo(daemon, "echo")
        heard = hear(daemon, "READY=1")
    assert "BARRIER=1" in heard and heard[-1].startswith("READY=1")
