"""README.md: each of its commands runs somewhere, and its first screen says what a reader asks first.  Tables of
nbbench in it and in doc/ are those of rows that are kept, and the sentences of all pages are short.

`make check-newcomer` runs the first block in new minimal Debians, test_systemd.py those of the service in a
container under systemd, and this file all that the build's programs are started with.
"""

import json
import lzma
import os
import pathlib
import re
import subprocess

import pytest
from conftest import BUILD, TIMEOUT, listener, requires
from readme import COMMANDS, OF_BUILD, OF_NEWCOMER, OF_SERVICE, OF_TERMINAL, README

FIRST_LINES = 40
WORDS_MAX, WORDS_MAX_README = 25, 20  # of a sentence
TOP = pathlib.Path(__file__).resolve().parents[2]


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


DEMO, HTTP = (TOP / f"doc/rows/{what}-2026-11-28.jsonl.xz" for what in ("demo", "http"))


def unpacked(tmp_path, kept, service=None):
    """The file of rows that doc/ keeps, or of those of a service."""
    rows = tmp_path / "rows.jsonl"
    with lzma.open(kept, "rt") as file:
        rows.write_text("".join(row for row in file if service in (None, json.loads(row)["service"])))
    return rows


def show(*argv):
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    return subprocess.run([BUILD / "nbbench", "show", *argv], env=env, check=True, capture_output=True, text=True,
                          timeout=TIMEOUT).stdout  # fmt: skip


@pytest.mark.parametrize("page, kept, service", [("README.md", DEMO, "echo"), ("doc/tls.md", DEMO, "http"),
                                                 ("doc/measuring.md", DEMO, None),
                                                 ("doc/measurements.md", HTTP, None)])  # fmt: skip
def test_a_table_in_a_page_is_that_of_the_kept_rows(tmp_path, page, kept, service):
    shown = show(unpacked(tmp_path, kept, service)).splitlines()
    blocks = re.findall(r"^```\w*\n(.*?)^```$", (TOP / page).read_text(), re.M | re.S)
    (table,) = [block for block in blocks if "vs 1st" in block]
    lines = [line for line in table.splitlines() if not line.startswith(("$ ", "[...]"))]
    assert len(lines) > 4 and not [line for line in lines if line not in shown]


def test_the_picture_is_that_of_the_kept_rows(tmp_path):
    assert (TOP / "doc/compare.svg").read_text() == show("--svg", "-", unpacked(tmp_path, DEMO))


@pytest.mark.parametrize("page", ["doc/measuring.md", "doc/measurements.md"])
def test_the_command_that_shows_kept_rows_runs(tmp_path, page):
    requires("xz")
    for folder, target in (("build", BUILD), ("doc", TOP / "doc")):
        (tmp_path / folder).symlink_to(target)
    (command,) = re.findall(r"^xz -dc .*$|(?<=`)xz -dc [^`]+", (TOP / page).read_text(), re.M)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=tmp_path, check=True, capture_output=True,
                          text=True, timeout=TIMEOUT)  # fmt: skip
    assert "verdict" in done.stdout


def commands_of(page):
    """Of its blocks of sh, with continued lines joined; those with `...` or a placeholder in capitals are no commands."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (TOP / page).read_text(), re.M | re.S)
    for line in "".join(re.sub(r"\\\n\s*", " ", block) for block in blocks).splitlines():
        command = line.split(" #")[0].strip()
        if "..." not in command and "COMMAND" not in command:
            yield command


# On two hosts: test_lab.py.
ELSEWHERE = "nbbench compare --on "


def test_the_commands_of_measuring_run(start_daemon, tmp_path):
    """In their order, with fewer and shorter visits: the status is of a verdict at most."""
    for program in ("redis-benchmark", "jq", "xz"):
        requires(program)
    daemon = start_daemon(listener("echo-epoll") + listener("echo-uring", engine="io_uring"))
    env = {**os.environ, "NBSERVED_SOCKET": daemon.control, "PATH": f"{BUILD}:{os.environ['PATH']}"}
    for folder, target in (("build", BUILD), ("doc", TOP / "doc")):
        (tmp_path / folder).symlink_to(target)
    commands = [command for command in commands_of("doc/measuring.md") if not command.startswith(ELSEWHERE)]
    assert len(commands) > 8
    for command in commands:
        command = command.replace("/opt/old/", "build/").replace("--time 20", "")
        command = re.sub(r"-n \d+", "-n 1000", command).replace(" -- ", " --repeat 1 -- ")
        # What the page takes as made: rows of the other side, and a result.
        if "--save old.jsonl" in command:
            command += " && tee new.jsonl rows.jsonl <old.jsonl"
        if "--fail-if" in command:
            command = command.replace("compare ", "compare --json ") + " >result.json"
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True,
                              timeout=4 * TIMEOUT, stdin=subprocess.DEVNULL)  # fmt: skip
        expected = (0, 1) if command.startswith("jq") else (0, 5, 6, 7)
        assert done.returncode in expected, f"{command}: {done.stdout}{done.stderr}"


PAGES = sorted([*TOP.glob("*.md"), *TOP.glob("doc/**/*.md")])


def sentences(text):
    """Of a page of Markdown, without code, tables, headings and addresses of links."""
    text = re.sub(r"^```.*?^```$|<!--.*?-->|<img[^>]*>", "", text, flags=re.M | re.S)
    text = re.sub(r"^( *\||#|    ).*$", "", text, flags=re.M)
    text = re.sub(r"^ *(-|\d+\.) ", "\n\n", text, flags=re.M)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "CODE", text)
    return re.split(r"(?<=[.?!:;])[*)]*\s|\n\n", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_sentences_are_short(page):
    for sentence in sentences(page.read_text()):
        assert len(sentence.split()) <= (WORDS_MAX_README if page.name == "README.md" else WORDS_MAX), sentence
