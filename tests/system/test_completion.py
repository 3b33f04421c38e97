"""Completion of nbctl and nbserved: real shells are asked, with the files that are installed."""

import contextlib
import os
import pathlib
import re
import shlex
import subprocess

import pytest
from conftest import ENGINES, NBCTL, NBSERVED, ROOT, TIMEOUT, listener, requires, wait_until

COMPLETION = ROOT / "ctl/nbctl.bash-completion"
LIBRARY = pathlib.Path("/usr/share/bash-completion/bash_completion")
NAMES = [f"echo-{e}" for e in ENGINES]
COMMANDS = {"status", "stats", "top", "connections", "drain", "resume", "log-level", "reload",
            "config", "doctor", "help"}  # fmt: skip

ZSH_FILE, FISH_FILE = (ROOT / f"ctl/nbctl.{shell}-completion" for shell in ("zsh", "fish"))
INSTALLED = "/usr/share/bash-completion/completions/nbctl"
END = "(end)"

# Runs the function as readline would, for the words of each line.
ASK_FIRST = """
[ ! -e {library} ] || . {library}
. {completion}
ask()
{{
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
	COMP_LINE="${{COMP_WORDS[*]}}" COMP_POINT=${{#COMP_LINE}}
	"_$1" "$1" "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}"
	[ ${{#COMPREPLY[@]}} = 0 ] || printf '%s\\n' "${{COMPREPLY[@]}}"
	echo "{end}"
}}
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

    def ask_all(lines, cwd=None, socket=None):
        """The completions of each line (a list of words): one shell for all of them."""
        script = ASK_FIRST.format(library=library, completion=COMPLETION, end=END)
        script += "".join(f"ask {' '.join(map(shlex.quote, line))}\n" for line in lines)
        done = subprocess.run(
            ["bash", "--norc", "-c", script],
            env=dict(os.environ, PATH=f"{NBCTL.parent}:{os.environ['PATH']}", NBSERVED_SOCKET=socket
                     or daemon.control),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            cwd=cwd,
            check=True,
        )
        assert done.stderr == ""
        return [set(part.split("\n")[:-1]) for part in done.stdout.split(f"{END}\n")[:-1]]

    def ask(*words, **where):
        return ask_all([("nbctl", *words)], **where)[0]

    ask.all = ask_all
    ask.daemon = daemon
    return ask


def test_commands_are_those_of_help(complete):
    assert COMMANDS <= complete("")
    assert {"--socket", "--json", "--help"} <= complete("")
    assert complete("st") == {"status", "stats"}
    assert COMMANDS <= complete("help", "")
    assert complete("help", "conn") == {"connections"}
    ((words, compare),) = [complete.all([("nbbench", ""), ("nbbench", "help", "comp")])]
    assert {"echo", "disk", "tls", "run", "compare", "show", "list", "--json"} <= words and compare == {"compare"}


def test_every_option_of_every_command(complete):
    commands = sorted(COMMANDS - {"help"})
    for command, offered in zip(commands, complete.all([("nbctl", c, "--") for c in commands])):
        text = complete.daemon.nbctl(command, "--help").stdout
        options = {w.split("=")[0].strip("[]") for w in text.split() if w.startswith("--")}
        assert {o for o in offered if o != "--"} <= options
        assert {"--socket", "--help", "--version"} <= offered
        assert ("--json" in offered) == (command != "top")
    assert complete("stats", "--w") == {"--watch"}
    assert complete("top", "--so") == {"--socket", "--sort"}


def test_options_and_listeners_of_nbserved(complete):
    help_text = subprocess.run([NBSERVED, "--help"], capture_output=True, text=True, check=True).stdout
    options, doctor, services, keys, engines, types = complete.all([
        ("nbserved", *words) for words in (
            ("--",), ("--do",), ("--run", "ech"), ("--run", "echo,buffer"),
            ("--run", "echo,port=7,engine=io_"), ("--run", "perftest,pair-type="))])
    assert options - {"--"} == set(re.findall(r"--[a-z][a-z-]+", help_text))
    assert doctor == {"--doctor"}
    assert services == {"echo"}
    assert keys == {"echo,buffer-size=", "echo,buffers="}
    assert engines == {"echo,port=7,engine=io_uring", "echo,port=7,engine=io_uring-poll"}
    assert types == {f"perftest,pair-type={t}" for t in ("rc", "ud", "uc")}


@pytest.fixture
def shell_files(tmp_path):
    """The files for zsh and fish, with the tree's file for bash instead of the installed one."""
    files = {}
    for source, name in ((ZSH_FILE, "_nbctl"), (FISH_FILE, "nbctl.fish")):
        files[name] = tmp_path / name
        files[name].write_text(source.read_text().replace(INSTALLED, str(COMPLETION)))
    return files


def test_fish(start_daemon, shell_files):
    daemon = start_daemon("".join(listener(n, engine=e) for n, e in zip(NAMES, ENGINES)))
    lines = {"nbctl sta": {"status", "stats"}, "nbctl stats echo-e": {"echo-epoll"},
             "nbctl stats --wa": {"--watch"}, "nbserved --run ech": {"echo"},
             "nbserved --dump": {"--dump-config"}}
    script = f"source {shell_files['nbctl.fish']}\n" + "".join(
        f"complete -C '{line}'; echo '{END}'\n" for line in lines)
    done = subprocess.run(
        [requires("fish"), "--no-config", "-c", script], capture_output=True, text=True,
        timeout=TIMEOUT, check=True, env=dict(os.environ, NBSERVED_SOCKET=daemon.control,
                                              PATH=f"{NBCTL.parent}:{os.environ['PATH']}"))
    found = [set(part.split("\n")[:-1]) for part in done.stdout.split(f"{END}\n")[:-1]]
    assert dict(zip(lines, found)) == lines


@contextlib.contextmanager
def on_screen(daemon, tmp_path, shell, prompts):
    """(screen(), keys(word...)) of a shell in a terminal: as a user would see it."""
    tmux = [requires("tmux"), "-S", str(tmp_path / "tmux"), "-f", "/dev/null"]
    shell = f"env PATH={NBCTL.parent}:$PATH NBSERVED_SOCKET={daemon.control} {shell}"
    subprocess.run([*tmux, "new-session", "-d", "-x", "120", "-y", "24", shell], check=True)

    def screen():
        return subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout

    try:
        wait_until(lambda: any(prompt in screen() for prompt in prompts), "prompt")
        yield screen, lambda *words: subprocess.run([*tmux, "send-keys", *words], check=True)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)


def test_zsh(start_daemon, shell_files, tmp_path):
    """A word that completes in one way only is on the line."""
    daemon = start_daemon("".join(listener(n, engine=e) for n, e in zip(NAMES, ENGINES)))
    with on_screen(daemon, tmp_path, f"ZDOTDIR=/nonexistent {requires('zsh')} -f", "#%") as (screen, keys):
        keys(f"fpath=({shell_files['_nbctl'].parent} $fpath); autoload -Uz compinit; compinit -u -D; "
             "print rea''dy", "Enter")
        wait_until(lambda: "\nready" in screen(), "completion")
        for line, after in (("nbctl connecti", "nbctl connections"), ("nbctl stats echo-e", "echo-epoll"),
                            ("nbserved --run ech", "--run echo")):
            keys("C-u", line, "Tab")
            wait_until(lambda: after in screen(), after)


@pytest.mark.parametrize("before", [["stats"], ["top"], ["drain"], ["resume"], ["stats", "--watch"],
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
    assert {"cpu-op", "ops", "p99"} <= complete("top", "--sort", "")
    assert complete("top", "--interval", "") == set()
    assert complete("status", "ech") == set()


def test_files(complete, tmp_path):
    (tmp_path / "rows one.jsonl").write_text("")
    for line in (("nbbench", "show", "rows"), ("nbbench", "compare", "--save", "rows")):
        assert complete.all([line], cwd=tmp_path) == [{"rows one.jsonl"}]
    assert complete("-s", "rows", cwd=tmp_path) == {"rows one.jsonl"}


def test_a_tab_in_an_interactive_bash(complete, tmp_path):
    with on_screen(complete.daemon, tmp_path, "bash --norc", "$#") as (screen, keys):
        keys(f". {COMPLETION}", "Enter")
        keys("nbbench compa", "Tab", "echo-e", "Tab")
        wait_until(lambda: "nbbench compare echo-epoll" in screen(), "completed")
        keys("C-u", "nbserved --run ec", "Tab", ",engine=io_uring-", "Tab", " end")
        wait_until(lambda: " end" in screen(), "typed")
        assert "nbserved --run echo,engine=io_uring-poll end" in screen()
