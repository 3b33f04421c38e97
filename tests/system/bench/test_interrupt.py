"""Ctrl-C in nbbench compare: whenever it comes, the measured rows are shown."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import pytest
from conftest import NBBENCH, NBSERVED, TIMEOUT, listener, requires, rows_of, wait_until
from nbctl_client import relay

CONFIG = listener("echo", engine="epoll")
PYTHON = "/usr/bin/python3"
CLIENT = """
import os, signal, socket
with socket.create_connection(("127.0.0.1", {port})) as s:
    s.sendall(b"x"); s.recv(1)
again = os.path.exists({ran!r})
open({ran!r}, "w").close()
"""
ROW = re.compile(r"(?m)^  echo +epoll ")
INTERRUPTED = 128 + signal.SIGINT


@pytest.fixture
def client(daemon, tmp_path):
    return CLIENT.format(port=daemon.port("echo"), ran=str(tmp_path / "ran"))


@contextlib.contextmanager
def compare(daemon, *arguments):
    process = subprocess.Popen([str(NBBENCH), "-s", daemon.control, "compare", *map(str, arguments)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT)


def signals(process, kind):
    """A set in /proc/PID/status; bit 1 is SIGINT."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(rf"{kind}:\s*(\w+)", status).group(1), 16)


def interrupt(process):
    """Sends SIGINT when nbctl catches it, and waits until it has."""
    wait_until(lambda: signals(process, "SigCgt") & 2, "nbctl to catch SIGINT")
    process.send_signal(signal.SIGINT)
    wait_until(lambda: not signals(process, "ShdPnd") & 2, "SIGINT to arrive")


def test_during_a_command_it_ends_that(daemon, client):
    script = client + """
import sys
print("half of what I have to say", file=sys.stderr, flush=True)
if again:
    os.kill(os.getppid(), signal.SIGINT)
    signal.pause()
"""
    with compare(daemon, "echo", "--", PYTHON, "-c", script, "{port}") as process:
        shown, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == INTERRUPTED
    assert "half of" not in errors  # the user knows why it failed
    assert ROW.search(shown)


def test_a_command_that_interrupts_itself_does_not_end_nbctl(daemon):
    with compare(daemon, "--", "sh", "-c", "kill -INT $$; sleep 60") as process:
        _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == INTERRUPTED and "signal 2" in errors


def test_an_interrupt_between_two_commands_starts_no_other(daemon, client):
    """Here while nbctl waits for the daemon, which the second command has stopped."""
    script = client + f"if again: os.kill({daemon.pid}, signal.SIGSTOP)"
    stat = pathlib.Path(f"/proc/{daemon.pid}/stat")
    with compare(daemon, "echo", "--", PYTHON, "-c", script, "{port}") as process:
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        try:
            wait_until(lambda: stat.read_text().split()[2] == "T" and not children.read_text(),
                       "the second command to end")
            interrupt(process)
        finally:
            daemon.process.send_signal(signal.SIGCONT)
        shown, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == INTERRUPTED and "interrupted" in errors
    assert ROW.search(shown)


def test_the_second_kills_a_command_that_ignores_the_first(daemon, tmp_path):
    ready = tmp_path / "ready"
    with compare(daemon, "--", "sh", "-c", f"trap '' INT; : >{ready}; exec sleep 60") as process:
        wait_until(ready.exists, "the command to ignore SIGINT")
        interrupt(process)
        interrupt(process)
        _, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == INTERRUPTED and "signal 9" in errors


def test_the_second_ends_it_when_the_daemon_is_silent(daemon, tmp_path):
    ready = tmp_path / "ready"
    script = f": >{ready}; kill -STOP {daemon.pid}; exit 0"
    with compare(daemon, "--", "sh", "-c", script) as process:
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        try:
            wait_until(lambda: ready.exists() and not children.read_text(), "the command to end")
            interrupt(process)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=TIMEOUT)
        finally:
            daemon.process.send_signal(signal.SIGCONT)
    assert process.returncode == -signal.SIGINT


# ---- nbbench run ----


@pytest.fixture(autouse=True)
def no_nohup():
    """Tests that are themselves run by nohup(1) ignore SIGHUP, and what they start would, too."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def run_command(tmp_path, script, start=lambda *a, **k: subprocess.Popen(*a, **k)):
    """`--run` with a shell's script against its listener."""
    return start(
        [str(NBBENCH), "run", "echo,engine=epoll", "--repeat", "1", "--", "sh", "-c", f": {{port}}; {script}"],
        env={**os.environ, "NBSERVED_SOCKET": str(tmp_path / "control.sock")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


STUBBORN = "trap '' INT TERM HUP; sleep 999 & echo $! $$ >{0}.new; mv {0}.new {0}; while :; do sleep 0.1; done"


def stubborn(tmp_path):
    """A generator that ignores signals, with a child; and what names both once they run."""
    pids = tmp_path / "pids"

    def started():
        wait_until(pids.exists, "the generator to start")
        return [int(pid) for pid in pids.read_text().split()]

    return STUBBORN.format(pids), started


def is_alive(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[0] != "Z"
    return False


def wait_gone(pids):
    wait_until(lambda: not any(map(is_alive, pids)), "the generator and its child to end")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_two_signals_end_a_run_with_all_that_it_started(tmp_path, number):
    script, started = stubborn(tmp_path)
    with run_command(tmp_path, script) as process:
        pids = started()
        for _ in range(2):
            process.send_signal(number)
            wait_until(lambda: not signals(process, "ShdPnd") & 1 << number - 1, "the signal to arrive")
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == 128 + number
    wait_gone(pids)


def test_one_signal_ends_a_command_that_ignores_it_after_a_while(tmp_path):
    script, started = stubborn(tmp_path)
    with run_command(tmp_path, script) as process:
        pids = started()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == 128 + signal.SIGTERM
    wait_gone(pids)


def test_a_command_with_another_environment_is_killed_too(daemon):
    with compare(daemon, "--timeout", "1", "--", "env", "-i", "/bin/sh", "-c", "trap '' TERM; while :; do :; done") as process:
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == 124


def test_a_command_that_handles_a_signal_counts_as_interrupted(tmp_path):
    ready = tmp_path / "ready"
    with run_command(tmp_path, f"trap 'exit 0' TERM; : >{ready}; while :; do sleep 0.1; done") as process:
        wait_until(ready.exists, "the command to start")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == 128 + signal.SIGTERM


def test_a_terminal_that_closes_ends_a_run(tmp_path):
    script, started = stubborn(tmp_path)
    pid, terminal = os.forkpty()
    if pid == 0:
        run_command(tmp_path, script, lambda argv, env, **_: os.execve(argv[0], argv, env))
    pids = started()
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 128 + signal.SIGHUP
    wait_gone(pids)


def test_a_killed_client_leaves_nothing_behind(tmp_path):
    script, started = stubborn(tmp_path)
    with run_command(tmp_path, script) as process:
        pids = started()
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == -signal.SIGKILL
    wait_gone([*pids, *map(int, children)])


@pytest.fixture
def folder():
    """For temporary files; how a program gets it, and how to wait until it is empty again."""
    path = tempfile.mkdtemp()  # a short name: sockets are made below it
    environment = {**os.environ, "TMPDIR": path, "XDG_RUNTIME_DIR": path}
    environment.pop("NBSERVED_SOCKET", None)
    yield path, environment
    shutil.rmtree(path)


def wait_empty(path):
    wait_until(lambda: not os.listdir(path), "no file is left")


def test_a_killed_daemon_leaves_no_socket(folder):
    """The folder of its control socket is gone with it."""
    path, environment = folder
    with subprocess.Popen([str(NBSERVED), "--run", "echo,engine=epoll"], stdout=subprocess.PIPE, env=environment) as process:
        wait_until(lambda: process.stdout.readline().startswith(b"Ctrl-C"), "it to serve")
        assert [len(files) for _, _, files in os.walk(path)][-1] == 1
        process.kill()
    wait_empty(path)


@pytest.mark.parametrize("killed", ["nbbench", "nbserved", "both"])
@pytest.mark.parametrize("words", [["run", "echo", "--", "sh", "-c", ": {port}; sleep 99"], ["disk"]], ids=["run", "word"])
def test_a_killed_comparison_leaves_no_file(folder, words, killed):
    path, environment = folder
    if "disk" in words:
        requires("fio")
        words = [*words, "--html", "/dev/null"]
    with subprocess.Popen([str(NBBENCH), *words], stdout=-1, stderr=-1, env=environment) as process:
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(lambda: any("control.sock" in files for _, _, files in os.walk(path)), "a daemon to serve")
        pids = {"nbbench": [process.pid], "nbserved": [*map(int, children.read_text().split())]}
        for pid in pids.get(killed) or sum(pids.values(), []):
            with contextlib.suppress(ProcessLookupError):  # the first one's end may end the others
                os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=TIMEOUT)
    wait_empty(path)


def bridging(tmp_path):
    """Run as ssh, a bridge on this host."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f"#!/bin/sh\nexec {NBBENCH} bridge\n")
    ssh.chmod(0o755)
    return ssh


def test_a_killed_bridge_leaves_no_socket(folder, tmp_path):
    path, environment = folder
    ssh = bridging(tmp_path)
    command = [str(NBBENCH), "-H", "c1", "run", "echo", "--", "sh", "-c", ": {port}; sleep 99"]
    with subprocess.Popen(command, stdout=-1, stderr=-1, env={**environment, "NBSERVED_SSH": str(ssh)}) as process:
        wait_until(lambda: any("control.sock" in files for _, _, files in os.walk(path)), "a daemon to serve")
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        (bridge,) = [int(pid) for pid in children if "bridge" in pathlib.Path(f"/proc/{pid}/cmdline").read_text()]
        os.kill(bridge, signal.SIGKILL)
        process.communicate(timeout=TIMEOUT)
    wait_empty(path)


def test_processes_that_a_command_leaves_behind_are_killed(daemon, tmp_path):
    pids = tmp_path / "pids"
    with compare(daemon, "--", "sh", "-c", f"setsid sleep 999 & echo $! >{pids}") as process:
        process.wait(timeout=TIMEOUT)
    wait_gone([int(pids.read_text())])


HELD = """
import os, pathlib, socket
with socket.create_connection(("127.0.0.1", {port})) as s:
    s.sendall(b"x"); s.recv(1)
    pathlib.Path({pid!r} + ".new").write_text(str(os.getpid()))
    os.rename({pid!r} + ".new", {pid!r})
    while not os.path.exists({asked!r}):
        pass
"""


@pytest.fixture
def slow_link(daemon, tmp_path):
    """A socket before the daemon's.  As soon as the command runs it holds back the answers, until nbctl has
    waited for the command's end."""
    pid, asked = tmp_path / "pid", tmp_path / "asked"

    def held_back(reply):
        if pid.exists():
            asked.touch()
            wait_until(lambda: not os.path.exists(f"/proc/{pid.read_text()}"), "the command's end is seen")
        return reply

    with relay(tmp_path / "slow.sock", daemon.control, held_back):
        yield tmp_path / "slow.sock", HELD.format(port=daemon.port("echo"), pid=str(pid), asked=str(asked))


def test_the_end_of_a_command_is_seen_while_an_answer_is_awaited(slow_link):
    address, command = slow_link
    done = subprocess.run([str(NBBENCH), "-s", address, "compare", "--json", "--", PYTHON, "-c", command],
                          capture_output=True, text=True, timeout=4 * TIMEOUT)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [row["count"] for row in rows_of(json.loads(done.stdout))] == [1]


# A child of the generator's that has left its session, and a child of that.
LEFT = "setsid sh -c 'sleep 1000 & echo $$ $! >{0}.new; mv {0}.new {0}; wait' & wait"


@pytest.mark.parametrize("remote", [False, True])
def test_a_killed_nbctl_leaves_nothing_of_its_command(daemon, tmp_path, remote):
    """Nor does its bridge, which is killed with all that has its name."""
    pids, ssh = tmp_path / "pids", bridging(tmp_path)
    command = [str(NBBENCH), "-s", daemon.control, "compare", *(["--on", "c1"] if remote else []), "--",
               "sh", "-c", LEFT.format(pids)]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**os.environ, "NBSERVED_SSH": str(ssh)}) as process:  # fmt: skip
        wait_until(pids.exists, "the command to start")
        left = [int(pid) for pid in pids.read_text().split()]
        assert all(map(is_alive, left))
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for pid in [process.pid, *map(int, children)]:  # the generator, or ssh, which has become the bridge
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=TIMEOUT)
    wait_gone(left)


def test_nbctl_ends_as_usual_without_its_guard(daemon, tmp_path):
    """The guard may be killed where memory is short."""
    go, begun = tmp_path / "go", tmp_path / "begun"
    script = f"touch {begun}; until test -e {go}; do sleep 0.01; done; true"
    with subprocess.Popen([str(NBBENCH), "-s", daemon.control, "compare", "--", "sh", "-c", script],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True) as process:  # fmt: skip
        wait_until(begun.exists, "the command to start")
        (guard,) = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_guard_of(pid, process.pid)]
        os.kill(guard, signal.SIGKILL)
        wait_gone([guard])
        go.touch()
        process.communicate(timeout=TIMEOUT)
    assert process.returncode >= 0


def is_guard_of(pid, session):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text() == "guard\n" and os.getsid(pid) == session
    return False
