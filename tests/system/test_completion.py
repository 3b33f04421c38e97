"""bash completion of nbctl: a real bash is asked, with the installed completion file."""

import os
import pathlib
import shlex
import subprocess

import pytest
from conftest import ENGINES, NBCTL, ROOT, TIMEOUT, listener, requires, wait_until

COMPLETION = ROOT / "ctl/nbctl.bash-completion"
LIBRARY = pathlib.Path("/usr/share/bash-completion/bash_completion")
NAMES = [f"echo-{e}" for e in ENGINES]
COMMANDS = {"status", "stats", "compare", "report", "top", "connections", "drain", "resume", "log-level", "reload",
            "confirm", "config",
            "doctor", "help"}  # fmt: skip

# Runs the function as readline would, for the words of the line.
ASK = """
[ ! -e {library} ] || . {library}
. {completion}
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
COMP_LINE="${{COMP_WORDS[*]}}" COMP_POINT=${{#COMP_LINE}}
_nbctl nbctl "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}"
[ ${{#COMPREPLY[@]}} = 0 ] || printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module", params=["with bash-completion", "bare"])
def library(request):
    if request.param == "bare":
        return "/nonexistent"
    if not LIBRARY.exists():
        pytest.skip("bash-completion is not installed (make deps)")
    return LIBRARY


@pytest.fixture
def complete(start_daemon, library):
    daemon = start_daemon("".join(listener(n, engine=e) for n, e in zip(NAMES, ENGINES)))

    def ask(*words, cwd=None, socket=None):
        quoted = " ".join(shlex.quote(w) for w in ("nbctl", *words))
        script = ASK.format(library=library, completion=COMPLETION, words=quoted)
        done = subprocess.run(
            ["bash", "--norc", "-c", script],
            env=dict(
                os.environ,
                PATH=f"{NBCTL.parent}:{os.environ['PATH']}",
                NBSERVED_SOCKET=socket or daemon.control,
            ),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            cwd=cwd,
            check=True,
        )
        assert done.stderr == ""
        return set(done.stdout.split("\n")[:-1])

    ask.daemon = daemon
    return ask


def test_commands_are_those_of_help(complete):
    assert COMMANDS <= complete("")
    assert {"--socket", "--json", "--help"} <= complete("")
    assert complete("st") == {"status", "stats"}
    assert COMMANDS <= complete("help", "")
    assert complete("help", "comp") == {"compare"}


def test_every_option_of_every_command(complete):
    for command in COMMANDS - {"help"}:
        text = complete.daemon.nbctl(command, "--help").stdout
        options = {w.split("=")[0].strip("[]") for w in text.split() if w.startswith("--")}
        offered = complete(command, "--")
        assert {o for o in offered if o != "--"} <= options
        assert {"--socket", "--help", "--version"} <= offered
        assert ("--json" in offered) == (command not in ("top", "report"))
    assert complete("stats", "--w") == {"--watch"}
    assert complete("top", "--so") == {"--socket", "--sort"}


@pytest.mark.parametrize("before", [["stats"], ["compare"], ["top"], ["drain"], ["resume"], ["stats", "--watch"],
                                    ["connections", "--listener"]])  # fmt: skip
def test_listeners_of_the_live_daemon(complete, before):
    assert complete(*before, "echo") == set(NAMES)
    assert complete(*before, "echo-io_uring-") == {"echo-io_uring-poll"}


def test_the_socket_on_the_line_is_the_one_that_is_asked(complete, tmp_path):
    nowhere = str(tmp_path / "no.sock")
    assert complete("stats", "echo", socket=nowhere) == set()
    for option in ("-s", "--socket"):
        assert complete(option, complete.daemon.control, "stats", "e", socket=nowhere) == set(NAMES)
        assert complete("stats", option, complete.daemon.control, "e", socket=nowhere) == set(NAMES)


def test_without_a_daemon_the_rest_is_there(complete, tmp_path):
    nowhere = str(tmp_path / "no.sock")
    assert "--openmetrics" in complete("stats", "", socket=nowhere)


def test_values_of_options_and_arguments(complete):
    assert complete("log-level", "d") == {"debug"}
    assert {"bytes", "age", "rtt"} <= complete("connections", "--sort", "")
    assert complete("connections", "--sort", "pe") == {"peer"}
    assert {"cpu-op", "ops", "p99"} <= complete("top", "--sort", "")
    assert complete("top", "--interval", "") == set()
    assert complete("status", "ech") == set()


def test_files(complete, tmp_path):
    (tmp_path / "rows one.jsonl").write_text("")
    assert complete("compare", "--load", "rows", cwd=tmp_path) == {"rows one.jsonl"}
    assert complete("report", "rows", cwd=tmp_path) == {"rows one.jsonl"}
    assert complete("-s", "rows", cwd=tmp_path) == {"rows one.jsonl"}


def test_a_tab_in_an_interactive_bash(complete, tmp_path):
    """As a user would see it."""
    tmux = [requires("tmux"), "-S", str(tmp_path / "tmux"), "-f", "/dev/null"]
    shell = f"env PATH={NBCTL.parent}:$PATH NBSERVED_SOCKET={complete.daemon.control} bash --norc"
    subprocess.run([*tmux, "new-session", "-d", "-x", "120", "-y", "24", shell], check=True)

    def screen():
        return subprocess.run(
            [*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True
        ).stdout

    try:
        wait_until(lambda: "$" in screen() or "#" in screen(), "prompt")
        subprocess.run([*tmux, "send-keys", f". {COMPLETION}", "Enter"], check=True)
        subprocess.run([*tmux, "send-keys", "nbctl compa", "Tab", "echo-e", "Tab"], check=True)
        wait_until(lambda: "nbctl compare echo-epoll" in screen(), "completed")
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
