"""README.md: each of its commands runs somewhere, and its first screen says what a reader asks first.

`make check-newcomer` runs the first block in new minimal Debians, test_systemd.py those of the service in a
container under systemd, and this file all that the build's programs are started with.
"""

import os
import re
import subprocess

import pytest
from conftest import BUILD, TIMEOUT, requires
from readme import COMMANDS, OF_BUILD, OF_NEWCOMER, OF_SERVICE, OF_TERMINAL, README

FIRST_LINES = 40
WORDS_MAX = 20  # of a sentence


def test_each_command_is_run_somewhere():
    assert len(OF_BUILD) >= 6 and len(OF_SERVICE) >= 6
    assert not set(COMMANDS) - {*OF_BUILD, *OF_NEWCOMER, *OF_SERVICE, *OF_TERMINAL}


def short(command):
    """A comparison's command with one round of few requests: that it runs is what is tested."""
    if "nbbench" in command and " -- " not in command and not command.endswith("list"):
        return f"{command} --repeat 1"
    return command.replace(" -- ", " --repeat 1 -- ").replace("-n 20000", "-n 1000").replace("-n 100000", "-n 1000")


@pytest.mark.parametrize("command", OF_BUILD)
def test_a_command_of_the_build_runs(tmp_path, command):
    for program in ("redis-benchmark", "fio", "wrk", "iperf3"):
        requires(program)
    (tmp_path / "build").symlink_to(BUILD)
    env = {**os.environ, "NBSERVED_SOCKET": str(tmp_path / "control.sock")}
    done = subprocess.run(["bash", "-euc", short(command)], cwd=tmp_path, env=env, capture_output=True, text=True,
                          timeout=4 * TIMEOUT, stdin=subprocess.DEVNULL)  # fmt: skip
    # The doctor's status says that something is not there.
    assert done.returncode in ((0, 1) if "--doctor" in command else (0,)), done.stdout + done.stderr
    assert done.stdout.strip()


def test_the_first_screen_says_what_it_is_and_what_to_type():
    top = "\n".join(README.splitlines()[:FIRST_LINES])
    for what in (r"^\*\*What .*\?\*\*", r"^<img ", r"^sudo apt .*\bgit make$", r"^git clone ", r"^make demo", r"No licence has been",
                 r"^\$ build/nbbench echo +# on Linux .* \d{4}-\d\d-\d\d$", r"\d+ to \d+ % (less|more|fewer)"):  # fmt: skip
        assert re.search(what, top, re.M), what


def test_sentences_are_short():
    text = re.sub(r"^```.*?^```$", "", README, flags=re.M | re.S)
    text = re.sub(r"^(\||#).*$|<img[^>]*>", "", text, flags=re.M)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "CODE", text)
    for sentence in re.split(r"(?<=[.?!:])\s|\n\n", text):
        assert len(sentence.split()) <= WORDS_MAX, sentence
