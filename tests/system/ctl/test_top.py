"""`nbctl top` on a real terminal (tmux), against the real daemon under load."""

import contextlib
import fcntl
import os
import pathlib
import pty
import re
import shlex
import signal
import socket
import struct
import subprocess
import termios
import threading

import pytest
from conftest import ENGINES, NBCTL, TIMEOUT, Daemon, is_sanitized, listener, requires, wait_until

NAMES = [f"echo-{e}" for e in ENGINES]
CONFIG = "".join(listener(n, engine=e) for n, e in zip(NAMES, ENGINES)) + listener("quiet", service="discard")
FAST = ["--interval", "0.1"]
HELP_LINE = "q quit  < > sort: "


class Terminal:
    """A tmux of its own with one command in it."""

    def __init__(self, path, command, width=80, height=24, **environment):
        self.tmux = [requires("tmux"), "-S", str(path), "-f", "/dev/null"]
        environment = {"LC_ALL": "C.UTF-8", **environment}
        words = ["env", "-u", "NO_COLOR", *(f"{k}={v}" for k, v in environment.items()), *command]
        # The terminal's state afterwards: `stty` as a shell would find it.
        script = f"trap : INT; {shlex.join(words)}; echo exit $?; stty -a; exec sleep 1000"
        self.is_open = True
        self.run("new-session", "-d", "-x", width, "-y", height, "sh", "-c", script)

    def run(self, *arguments):
        done = subprocess.run([*self.tmux, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT,
                              check=True)
        return done.stdout

    def screen(self, *options):
        """The screen's text, seen twice: not in the middle of a drawing."""
        seen = []

        def stands():
            seen.append(self.run("capture-pane", "-p", *options))
            return len(seen) > 1 and seen[-1] == seen[-2]

        wait_until(stands, "a screen that stands still")
        return seen[-1]

    def lines(self):
        return self.screen().splitlines()

    def keys(self, *keys):
        self.run("send-keys", *keys)

    def wait(self, pattern, what=None):
        """Until a line matches; the match."""
        seen = []

        def find():
            seen[:] = [self.screen()]
            return re.search(pattern, seen[0], re.M)

        try:
            return wait_until(find, what or pattern)
        except pytest.fail.Exception:
            pytest.fail(f"no {pattern!r} on the screen:\n{seen[0]}")

    def wait_gone(self, pattern):
        wait_until(lambda: not re.search(pattern, self.screen(), re.M), f"still there: {pattern}")

    def resize(self, width, height):
        self.run("resize-window", "-x", width, "-y", height)

    def pid(self):
        """The process of nbctl, which is a child of the terminal's shell."""
        shell = int(self.run("display-message", "-p", "#{pane_pid}"))
        (child,) = open(f"/proc/{shell}/task/{shell}/children").read().split()
        return int(child)

    def kill(self):
        """The terminal goes away under it."""
        self.run("kill-server")
        self.is_open = False

    def close(self):
        """Quits first: LeakSanitizer hangs when the terminal goes away."""
        if not self.is_open:
            return
        try:
            self.keys("q")
            self.wait(r"^exit \d")
        finally:
            subprocess.run([*self.tmux, "kill-server"], capture_output=True, check=False)


@pytest.fixture
def terminal(tmp_path):
    terminals = []

    def start(daemon, *arguments, **options):
        command = [str(NBCTL), "-s", daemon.control, "top", *arguments]
        terminals.append(Terminal(tmp_path / f"tmux{len(terminals)}", command, **options))
        return terminals[-1]

    yield start
    with contextlib.ExitStack() as stack:
        for one in terminals:
            stack.callback(one.close)


@contextlib.contextmanager
def load(daemon, name, count=1):
    """Connections that ping for as long as the context lasts, and while the daemon is there."""
    stop = threading.Event()

    def ping(s):
        with s, contextlib.suppress(OSError):
            while not stop.is_set():
                s.sendall(b"x" * 100)
                if not s.recv(100, socket.MSG_WAITALL):
                    return

    threads = [threading.Thread(target=ping, args=(daemon.connect(name),)) for _ in range(count)]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join()


def rows(terminal):
    """The names in the table, from above."""
    found = [line.split()[0] for line in terminal.lines() if line]
    return [name for name in found if name in NAMES or name == "quiet"]


# ---- The table ----


@pytest.mark.parametrize("width, height", [(80, 24), (200, 50)])
def test_shows_every_listener_under_load(daemon, terminal, width, height):
    with load(daemon, "echo-io_uring", 3):
        top = terminal(daemon, width=width, height=height)
        top.wait(r"^echo-io_uring +io_uring +(?:3 +)?[1-9][\d,]* ")  # its first look may find none
        lines = top.lines()
        header = next(line for line in lines if line.startswith("listener"))
        for title in ("engine", "▼ops", "MB", "p50", "p99", "CPU/op"):
            assert title in header
        assert header.endswith("CPU") == (width == 200)
        assert re.match(r"nbserved \S+  up \S+  generation \d+  4 listeners", lines[0])
        assert re.match(r"all: [\d,.]+ ops/s", lines[1])
        assert lines[height - 1].startswith(HELP_LINE)
        assert sorted(rows(top)) == sorted([*NAMES, "quiet"])
        # In an interval of a busy host the clients may have done nothing.
        wait_until(lambda: rows(top)[:1] == ["echo-io_uring"], "the busiest listener on top")


def test_below_80x24_columns_give_way_and_tiny_is_said(daemon, terminal):
    top = terminal(daemon, width=50, height=10)
    top.wait("^quiet ")
    assert "engine" in top.screen() and "CPU/op" in top.screen() and "turn" not in top.screen()
    top.resize(30, 5)
    top.wait("^too small for nbctl")
    top.resize(80, 24)
    top.wait("^" + HELP_LINE)


@pytest.mark.parametrize("environment", [{}, {"COLUMNS": "60", "LINES": "10"}])
def test_resizes_at_once(daemon, terminal, environment):
    top = terminal(daemon, width=80, height=24, **environment)
    top.wait("^" + HELP_LINE)
    for width, height in ((200, 50), (60, 12), (132, 43)):
        top.resize(width, height)
        wait_until(lambda: len(top.lines()) == height and top.lines()[-1].startswith(HELP_LINE[:40]),
                   f"the help line in the last line of {height}")


def test_only_the_named_listeners(daemon, terminal):
    top = terminal(daemon, "quiet", "echo-epoll", *FAST, "--sort", "listener")
    top.wait("^listener ▲")
    assert rows(top) == ["echo-epoll", "quiet"]
    top.keys("r")
    top.wait("^listener ▼")


# ---- The daemon goes and comes ----


def test_survives_a_restart_of_the_daemon(daemon, terminal):
    top = terminal(daemon, *FAST)
    top.wait("^quiet ")
    daemon.process.kill()
    daemon.process.wait()
    top.wait("^unreachable, trying again: ")
    assert sorted(rows(top)) == sorted([*NAMES, "quiet"])
    for name in ("control.sock", "notify.sock"):
        (daemon.directory / name).unlink()
    again = Daemon(CONFIG, daemon.directory)
    try:
        top.wait("^the daemon was restarted|^all: ")
        with load(again, "echo-epoll"):
            top.wait("^echo-epoll +epoll +[1-9]")
            assert "unreachable" not in top.screen()
    finally:
        assert again.stop() == 0
    top.wait("^unreachable, trying again: ")


def test_a_daemon_that_does_not_answer_is_told(daemon, terminal):
    top = terminal(daemon, *FAST)
    top.wait("^quiet ")
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        top.wait(r"^no answer for \d+ s")
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    top.wait("^all: ")


def test_a_daemon_that_ends_on_another_host_is_told(daemon, terminal, tmp_path):
    """The bridge continues, and reports that the daemon is gone."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\nfor last; do :; done\nPATH={NBCTL.parent}:$PATH exec sh -c "$last"\n')
    ssh.chmod(0o755)
    top = terminal(daemon, "-H", "server1", *FAST, NBSERVED_SSH=ssh)
    top.wait("^quiet ")
    daemon.stop()
    top.wait("^unreachable, trying again: the daemon there: [A-Z]")


# ---- The terminal ----


def is_right_again(screen):
    """Line by line, with echo, as before."""
    modes = screen.split()
    return {"icanon", "echo", "isig", "icrnl", "opost", "onlcr"} <= {m.strip(";") for m in modes}


@pytest.mark.parametrize("end", ["q", "C-c", "TERM", "HUP"])
def test_quitting_restores_the_terminal(daemon, terminal, end):
    top = terminal(daemon, *FAST)
    top.wait("^quiet ")
    if end in ("q", "C-c"):
        top.keys(end)
    else:
        os.kill(top.pid(), getattr(signal, "SIG" + end))
    top.wait("^exit 0$")
    top.wait("iexten")  # the end of stty's output
    assert is_right_again(top.screen())
    assert HELP_LINE not in top.screen()
    assert top.run("display-message", "-p", "#{cursor_flag} #{alternate_on}") == "1 0\n"


@pytest.mark.parametrize("why", ["full", "stopped"])
def test_ends_although_the_terminal_does_not_read(daemon, why):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
    before = termios.tcgetattr(slave)
    os.set_blocking(slave, False)
    with contextlib.suppress(BlockingIOError):
        while why == "full":
            os.write(slave, bytes(4096))
    os.set_blocking(slave, True)
    if why == "stopped":
        termios.tcflow(slave, termios.TCOOFF)
    command = [str(NBCTL), "-s", daemon.control, "top", *FAST]
    top = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm"})
    try:
        status = pathlib.Path(f"/proc/{top.pid}/status")
        caught = re.compile(r"SigCgt:\s*(\w+)")
        wait_until(lambda: int(caught.search(status.read_text()).group(1), 16) & 1 << signal.SIGTERM - 1, "it to start")
        wait_until(lambda: "\nState:\tS" in status.read_text(), "it to wait for the terminal")
        top.terminate()
        assert top.wait(TIMEOUT) == 0 and termios.tcgetattr(slave) == before
    finally:
        top.kill()
        top.wait()
        os.close(slave)
        os.close(master)


@pytest.mark.skipif(is_sanitized(), reason="LeakSanitizer hangs then")
def test_ends_when_the_terminal_goes(daemon, terminal):
    top = terminal(daemon)
    top.wait("^quiet ")
    pid = top.pid()
    top.kill()
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "nbctl ends")


def test_ascii_where_the_locale_is_not_utf8(daemon, terminal):
    with load(daemon, "echo-epoll"):
        top = terminal(daemon, *FAST, LC_ALL="C")
        top.wait("^echo-epoll ")
        assert top.screen().isascii()


@pytest.mark.parametrize("no_color", ["", "1"])
def test_colour_unless_no_color(daemon, terminal, no_color):
    top = terminal(daemon, *FAST, NO_COLOR=no_color, TERM="screen-256color")
    top.wait("^quiet ")
    daemon.terminate()
    top.wait("^unreachable")
    assert ("\033[31m" in top.screen("-e")) == (not no_color)


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_output_other_than_a_terminal_exits_2(daemon, stream):
    master, slave = pty.openpty()
    streams = {"stdin": slave, "stdout": slave, stream: subprocess.PIPE}
    done = subprocess.run([str(NBCTL), "-s", daemon.control, "top"], **streams, stderr=subprocess.PIPE, text=True,
                          timeout=TIMEOUT, check=False)
    os.close(master)
    os.close(slave)
    assert done.returncode == 2
    assert "top needs a terminal" in done.stderr and "stats --watch" in done.stderr


@pytest.mark.parametrize(
    "arguments, status, said",
    [
        (["--sort", "byte"], 2, "did you mean 'bytes'?"),
        (["--interval", "0.01"], 2, "at least 0.05"),
        (["--interval", "x"], 2, "expected seconds"),
        (["no-such"], 1, "there is no listener 'no-such'"),
    ],
)
def test_wrong_usage_is_said_before_the_screen_is_taken(daemon, terminal, arguments, status, said):
    top = terminal(daemon, *arguments, width=120)
    top.wait(f"^exit {status}$")
    assert said in top.screen()


def test_an_unknown_terminal_and_an_absent_daemon(daemon, terminal):
    # curses leaks when it fails.
    top = terminal(daemon, TERM="no-such-terminal", ASAN_OPTIONS="detect_leaks=0")
    top.wait("^exit 2$")
    assert "TERM=no-such-terminal" in top.screen()
    daemon.terminate()
    top = terminal(daemon, width=120)
    top.wait("^exit 3$")
    assert "cannot reach the daemon" in top.screen()
