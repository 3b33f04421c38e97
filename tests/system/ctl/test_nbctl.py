"""nbctl against the real daemon: what every command prints, its exit codes, its JSON."""

import contextlib
import json
import os
import pty
import re
import socket
import subprocess
import threading

import pytest
from conftest import ENGINES, NBCTL, NBSERVED, TIMEOUT, as_nobody, wait_until
from nbctl_client import nbctl, nbctl_json
from traffic import echo

# The arguments that each command needs; the last ones stop a listener and start it again.
COMMANDS = {
    "status": [],
    "stats": [],
    "connections": [],
    "config": [],
    "doctor": [],
    "log-level": ["info"],
    "drain": ["--all"],
    "resume": ["--all"],
}
NO_JSON = {"top", "metrics", "bridge"}

# ---- Every command ----


@pytest.mark.parametrize("command", COMMANDS)
def test_prints_and_exits_0(daemon, command):
    done = nbctl(daemon, command, *COMMANDS[command])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout or command == "log-level"
    assert "\033" not in done.stdout  # no colour into a pipe
    assert isinstance(nbctl_json(daemon, command, *COMMANDS[command]), dict)
    done = nbctl(daemon, command, "--no-such-option")
    assert done.returncode == 2 and f"nbctl {command} --help" in done.stderr


def test_help_of_every_command_has_its_options_and_an_example(daemon):
    commands = re.findall(r"(?m)^  ([a-z-]+) ", nbctl(daemon, "--help").stdout.split("\nOptions")[0])
    assert set(COMMANDS) | {"top", "metrics"} <= set(commands)
    for command in commands:
        done = nbctl(daemon, command, "--help")
        assert done.returncode == 0
        assert done.stdout.startswith(f"Usage: nbctl {command} [OPTION...]")
        assert ("--json" in done.stdout) == (command not in NO_JSON)
        # Options of its own are in one of the examples, if there are any.
        usage, examples = done.stdout.split("\nExample:\n")
        assert re.search(rf"(?m)^  nbctl {command}", examples), command
        own = re.findall(r"(?m)^      --([a-z-]+)", usage.split("Options:\n")[1].split("-s, --")[0])
        assert nbctl(daemon, command, "-h").stdout == done.stdout
        assert not own or any(f"--{option}" in examples for option in own), command
        assert all(len(line) <= 100 for line in done.stdout.splitlines()), command
        assert nbctl(daemon, "help", command).stdout == done.stdout


def test_help_of_what_is_no_command(daemon):
    done = nbctl(daemon, "help", "stat")
    assert done.returncode == 2 and "did you mean 'status'?" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_daemon_that_is_not_there_exits_3(daemon, command, tmp_path):
    path = str(tmp_path / "no.sock")
    done = nbctl(daemon, command, *COMMANDS[command], socket=path)
    assert done.returncode == 3
    assert path in done.stderr and "systemctl status nbserved" in done.stderr
    assert done.stdout == ""


# What was removed, and a word of the message that names its replacement.
REMOVED = [
    (["compare", "--link=25G"], "driver"),
    (["compare", "--csv"], "@csv"),
    (["compare", "--nbctl=x"], "--nbbench"),
    (["compare", "--pair=a=b"], "--json has the verdict"),
    (["compare", "--undecided=pass"], "exit status 6"),
    (["compare", "--markdown"], "--html"),
    (["compare", "--notes"], "nbbench(1)"),
    (["compare", "--columns=vs"], "--wide"),
    (["compare", "--control=b"], "its row is the control"),
    (["history"], "compare --save FILE"),
    (["compare", "--stacks=folder"], "flamegraph.pl"),
    (["compare", "--layers"], "perf record -g -p $(pidof nbserved)"),
    (["tests"], "journalctl"),
    (["compare", "--softirq"], "bpftrace"),
    (["set"], "conf.d"),
    (["add"], "conf.d"),
    (["remove"], "nbctl drain"),
    (["confirm"], "--dry-run"),
    (["reload", "--confirm=30"], "--dry-run"),
    (["config", "--diff"], "nbctl config"),
]


@pytest.mark.parametrize(("arguments", "instead"), REMOVED)
def test_what_was_removed_is_refused_with_its_replacement(daemon, arguments, instead):
    done = nbctl(daemon, *arguments)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"{arguments[-1].split('=')[0]} was removed: " in done.stderr and instead in done.stderr
    assert f" {arguments[-1].split('=')[0]} " not in nbctl(daemon, arguments[0], "--help").stdout
    assert "\n  history " not in nbctl(daemon, "--help").stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_an_error(daemon, command):
    if command == "log-level":
        return  # prints nothing
    with open("/dev/full", "w") as full:
        done = subprocess.run([str(NBCTL), "-s", daemon.control, command, *COMMANDS[command]], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=TIMEOUT, check=False)
    assert done.returncode == 2 and "not all could be written" in done.stderr


# ---- Usage ----


@pytest.mark.parametrize(
    "arguments, said",
    [
        ([], "no command is given"),
        (["statuss"], "did you mean 'status'?"),
        (["xyzzy"], "there is no command 'xyzzy'"),
        (["status", "extra"], "unexpected argument 'extra'"),
        (["log-level"], "log-level LEVEL"),
        (["log-level", "verbose"], "error, warning, info or debug"),
        (["drain", "a", "b"], "unexpected argument 'b'"),
        (["drain"], "expected a LISTENER or --all"),
        (["drain", "a", "--all"], "expected a LISTENER or --all"),
        (["resume"], "expected a LISTENER or --all"),
        (["stats", "--watch=never"], "expected seconds"),
        (["stats", "--watch=0.01"], "--watch: expected seconds, at least 0.05, got '0.01'"),
        (["stats", "--watch=0.01", "--json"], "at least 0.05"),
        (["top", "--json"], "top has no --json: see `nbctl stats --watch --json`"),
        (["--json", "metrics"], "metrics has no --json: see `nbctl stats --json`"),
        (["stats", "--openmetrics", "--json"], "--openmetrics"),
        (["compare", "--interval", "1"], "sleep SECONDS"),
        (["compare", "--"], "no command after"),
        (["compare", "--", "ssh", "c1", "redis-benchmark"], "ssh would run the generator on another host"),
        (["compare", "--", "/usr/bin/clush", "-w", "c[1-3]", "wrk"], "clush would run"),
        (["compare", "--quiet"], "behind `--`"),
        (["show", "/nonexistent"], "No such file"),
        (["connections", "--sort", "bytes"], "sort_by"),
    ],
)
def test_wrong_usage_exits_2_and_says_why(daemon, arguments, said):
    done = nbctl(daemon, *arguments)
    assert done.returncode == 2
    assert said in done.stderr


@pytest.mark.parametrize("arguments", [["stats"], ["stats", "--json"], ["stats", "--watch"], ["drain"], ["resume"],
                                       ["connections", "--listener"]])
def test_an_unknown_listener_is_refused_and_a_name_that_is_nearly_right_suggested(daemon, arguments):
    for name, said in (("no-such", ""), ("echo-epol", " (did you mean 'echo-epoll'?)\n")):
        done = nbctl(daemon, *arguments, name)
        assert done.returncode == 1 and f"there is no listener '{name}'{said}" in done.stderr


@pytest.mark.parametrize("before", [[], ["stats"], ["top"]])
def test_version(daemon, before):
    for option in ("--version", "-V"):
        done = nbctl(daemon, *before, option)
        assert done.returncode == 0 and re.fullmatch(r"nbctl \d+\.\d+\.\d+\n", done.stdout)


def test_the_socket_may_come_from_the_environment(daemon):
    done = subprocess.run([str(NBCTL), "status"], capture_output=True,
                          env=dict(os.environ, NBSERVED_SOCKET=daemon.control), timeout=TIMEOUT, check=False)
    assert done.returncode == 0


# ---- Unreachable ----


def test_a_stale_socket_exits_3(daemon, tmp_path):
    path = str(tmp_path / "stale.sock")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
    done = nbctl(daemon, "status", socket=path)
    assert done.returncode == 3 and "nothing listens there" in done.stderr


@contextlib.contextmanager
def answering(path, reply):
    """A program that is not nbserved, which answers one call on this socket."""
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        s.listen()

        def answer():
            peer = s.accept()[0]
            peer.recv(4096)
            peer.sendall(reply)
            peer.close()

        thread = threading.Thread(target=answer)
        thread.start()
        yield
        thread.join()


def test_another_program_s_socket_exits_3(daemon, tmp_path):
    path = str(tmp_path / "other.sock")
    with answering(path, b"220 hello\r\n\0"):
        done = nbctl(daemon, "status", socket=path)
    assert done.returncode == 3 and "not nbserved's control socket" in done.stderr


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_hostile_answer_does_not_control_the_terminal(daemon, tmp_path, options):
    """ESC, CSI in C1, a bidirectional override: as an error, in its list, as names."""
    bad = "a\x1b[2J\x9b2J\u202eb"
    answers = [{"error": "org.nbserved.Control.Refused", "parameters": {"message": bad, "errors": [bad]}},
               {"error": f"org.nbserved.{bad}", "parameters": {}},
               {"parameters": {"listeners": [{"name": bad, "reason": bad, "state": bad}]}}]
    for number, answer in enumerate(answers):
        path = str(tmp_path / f"{number}.sock")
        with answering(path, json.dumps(answer, ensure_ascii=False).encode() + b"\0"):
            done = nbctl(daemon, "status", *options, socket=path)
        said = done.stdout + done.stderr
        assert "2J" in said and not re.search("[\x1b\x9b\u202e]", said), said


def test_a_user_without_rights_exits_3_and_is_told_the_cure(daemon):
    program, nobody = as_nobody(NBCTL, daemon.directory)
    done = subprocess.run([program, "-s", daemon.control, "status"], capture_output=True, text=True, timeout=TIMEOUT,
                          check=False, **nobody)  # fmt: skip
    assert done.returncode == 3 and "control-group" in done.stderr


# ---- status, config, doctor ----


def test_status_shows_each_listener(daemon):
    lines = nbctl(daemon, "status").stdout.splitlines()
    assert lines[0].startswith("nbserved ") and f"pid {daemon.pid}" in lines[0]
    for engine in ENGINES:
        (row,) = [line.split() for line in lines if line.startswith(f"echo-{engine} ")]
        assert row[1:4] == ["serving", "echo", engine]
        assert row[-1] == "127.0.0.1:%d" % daemon.port(f"echo-{engine}")


@pytest.mark.parametrize(("option", "command"), [("--dump-config", "config"), ("--doctor", "doctor")])
def test_the_daemon_and_its_option_print_the_same(daemon, option, command):
    """Word for word, and as JSON; but for the limit of descriptors, which the daemon raises."""

    def known(text):
        return re.sub(r"(nofile\W.*?)\d+", r"\1N", text, flags=re.S)

    for form in ((), ("--json",)):
        done = subprocess.run([NBSERVED, "-c", daemon.config_path, option, *form],
                              capture_output=True, text=True, timeout=TIMEOUT, check=True)
        if form:
            assert json.loads(known(done.stdout)) == json.loads(known(nbctl(daemon, command, *form).stdout))
        else:
            assert known(done.stdout) == known(nbctl(daemon, command).stdout)


# ---- log-level, drain ----


def test_log_level_takes_what_its_help_lists(daemon):
    help_text = nbctl(daemon, "log-level", "--help").stdout
    levels = re.search(r"`log-level`: ([a-z, ]+)\.", help_text)[1].split(", ")
    assert levels == ["error", "warning", "info", "debug"]
    for level in levels:
        done = nbctl(daemon, "log-level", level)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert f", log level {level}\n" in nbctl(daemon, "status").stdout
        assert re.search(rf"(?m)^log-level = {level} +; nbctl log-level, live$", nbctl(daemon, "config").stdout)
    assert "nbctl log-level: [server] log-level: debug -> " in nbctl(daemon, "reload").stdout


def test_drain_of_one_listener_leaves_the_others(daemon):
    done = nbctl(daemon, "drain", "echo-epoll")
    assert done.returncode == 0 and "Draining: echo-epoll." in done.stdout
    wait_until(lambda: daemon.status("echo-epoll")["state"] == "drained", "drained")
    assert re.search(r"(?m)^echo-epoll +drained ", nbctl(daemon, "status").stdout)
    with daemon.connect("echo-io_uring") as s:
        echo(s, b"still here")
    assert nbctl(daemon, "drain", "echo-epoll").stdout == "Nothing to drain.\n"


# ---- connections ----


def test_connections_are_listed(daemon):
    assert nbctl(daemon, "connections").stdout == "No connections.\n"
    with daemon.connect("echo-epoll") as a, daemon.connect("echo-io_uring") as b:
        echo(a, b"x" * 10)
        echo(b, b"y" * 5000)
        reply = nbctl_json(daemon, "connections")
        found = {c["listener"]: c for c in reply["connections"]}
        assert {name: c["bytes_in"] for name, c in found.items()} == {"echo-io_uring": 5000, "echo-epoll": 10}
        assert found["echo-io_uring"]["peer"] == "127.0.0.1:%d" % b.getsockname()[1]
        lines = nbctl(daemon, "connections", "--listener", "echo-epoll").stdout.splitlines()
        assert len(lines) == 2 and lines[1].startswith("echo-epoll ")


# ---- Terminals ----


def on_terminal(daemon, *arguments, **environment):
    """The output of nbctl on a terminal."""
    master, slave = pty.openpty()
    environment = dict(os.environ, TERM="xterm", COLUMNS="100", **environment)
    process = subprocess.Popen([str(NBCTL), "-s", daemon.control, *arguments], stdout=slave, env=environment)
    os.close(slave)
    text = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:  # EIO: the other side has closed
            break
        if not part:
            break
        text += part
    os.close(master)
    assert process.wait(TIMEOUT) == 0
    return text.decode()


@pytest.mark.parametrize("command", ["status", "stats", "config", "doctor"])
def test_colour_is_for_terminals_that_want_it(daemon, command):
    assert "\033[" in on_terminal(daemon, command, NO_COLOR="")
    assert "\033" not in on_terminal(daemon, command, NO_COLOR="1")
    assert "\033" not in on_terminal(daemon, command, "--no-color", NO_COLOR="")
    assert "\033" not in on_terminal(daemon, command, TERM_PROGRAM="x", NO_COLOR="x")


@pytest.mark.parametrize("width", [80, 100])
def test_tables_fit_the_terminal(daemon, width):
    with daemon.connect("echo-io_uring-poll") as s:
        echo(s, b"x" * 100)
        client = f"exec 3<>/dev/tcp/127.0.0.1/{daemon.port('echo-io_uring-poll')}; printf x >&3; read -rn1 <&3"
        for command in (["status"], ["stats"], ["connections"], ["compare", "--", "bash", "-c", client]):
            text = nbctl(daemon, *command, env={"COLUMNS": str(width)}).stdout
            assert "echo-io_uring-poll" in text
            # An address or a name that is longer by itself is not cut.
            too_wide = [l for l in text.splitlines() if len(l) > width and command != ["status"]]
            assert not too_wide, "\n".join(too_wide)
