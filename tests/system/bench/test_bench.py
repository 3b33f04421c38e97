"""nbbench WORD: one word to start."""

import errno
import json
import os
import re
import subprocess

import pytest
from conftest import NBBENCH, NBSERVED, TIMEOUT, requires, rows_of

WORDS = {"echo", "disk", "tls", "bulk", "http", "nbd", "nvme", "netperf", "discard", "sockperf", "udp"}


def bench(tmp_path, *arguments, path=None, check=0, preexec=None, environment=None):
    env = {**os.environ, "NBSERVED_SOCKET": str(tmp_path / "control.sock"), **(environment or {})}
    if path is not None:
        env["PATH"] = str(path)
    done = subprocess.run([str(NBBENCH), *map(str, arguments)], cwd=tmp_path, env=env, capture_output=True,
                          text=True, timeout=4 * TIMEOUT, stdin=subprocess.DEVNULL, preexec_fn=preexec)  # fmt: skip
    assert done.returncode == check, done.stdout + done.stderr
    return done


def only(tmp_path, *programs):
    """A folder for $PATH with these programs alone."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in programs:
        (folder / program).symlink_to(requires(program))
    return folder


def test_a_word_measures_and_writes_a_page(tmp_path):
    """The command that it prints pins generator and server to different cores."""
    requires("redis-benchmark")
    done = bench(tmp_path, "echo", "--repeat", 1, "--json")
    assert f"The page: {os.path.realpath(tmp_path)}/nbserved-echo.html\n" in done.stderr
    assert "<html" in (tmp_path / "nbserved-echo.html").read_text()
    rows = rows_of(json.loads(done.stdout))
    assert rows and all(row["listener_count"] > 0 for row in rows)
    assert {row["label"] for row in rows} == {"redis-benchmark, 512 bytes, 50 connections, 16 deep"}
    if len(os.sched_getaffinity(0)) > 1:
        for row in rows:
            assert row["generator"]["shared_cpus"] == 0
            assert row["conditions"]["listener"]["cpus"] != row["conditions"]["generator_cpus"]
    (command,) = re.findall(r"^nbbench run (echo,engine=all.*)$", done.stderr, re.M)
    assert " --html nbserved-echo.html -- " in command and "redis-benchmark -h {host} -p {port}" in command


def test_a_page_of_the_users_choice(tmp_path):
    requires("redis-benchmark")
    done = bench(tmp_path, "echo", "--repeat", 1, "--html", "my page.html", "--label", "mine")
    assert f"The page: {os.path.realpath(tmp_path)}/my page.html\n" in done.stderr
    assert " --label mine --html 'my page.html' -- " in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["my page.html"]


@pytest.mark.parametrize("no_io_uring", [errno.ENOSYS], ids=["absent"], indirect=True)
@pytest.mark.parametrize("word, program", [("echo", "fio"), ("http", "wrk"), ("http", "h2load"), ("http", "ab"),
                                           ("tls", "wrk"), ("tls", "h2load"), ("disk", "fio"),
                                           ("disk", "qemu-img"), ("nbd", "fio"), ("nbd", "qemu-img"),
                                           ("bulk", "iperf3"),
                                           ("discard", "fio"), ("sockperf", "sockperf"),
                                           ("udp", "sockperf"), ("netperf", "netperf")])  # fmt: skip
def test_every_generator_measures_its_word(tmp_path, no_io_uring, word, program):
    """The one that is installed is taken.  One engine is enough."""
    done = bench(tmp_path, word, "--repeat", 1, "--json", path=only(tmp_path, program, "taskset", "timeout"), preexec=no_io_uring)
    assert f" {program} " in done.stderr.split("\n")[0]
    for row in rows_of(json.loads(done.stdout)):
        assert row["generator"]["name"] == program and row["listener_count"] > 0


def test_a_disk_is_one_file_that_is_gone_afterwards(tmp_path):
    """Listeners that differ in the store share it."""
    requires("fio")
    done = bench(tmp_path, "disk", "--repeat", 1, "--json", "--html", "/dev/null", environment={"TMPDIR": str(tmp_path)})
    assert len(set(re.findall(f"export=({tmp_path}/[^,]*[.]img)", done.stderr))) == 1
    rows = rows_of(json.loads(done.stdout))
    assert {row["listener"] for row in rows} >= {"nbd-threads", "nbd-blocking"}
    assert all(row["listener_count"] > 0 for row in rows) and not list(tmp_path.iterdir())


def test_the_file_of_a_disk_is_in_no_folder_that_cannot_be_told(tmp_path):
    requires("fio")
    for folder in ("a b", "a,size=1M"):
        (tmp_path / folder).mkdir()
        done = bench(tmp_path, "disk", check=1, environment={"TMPDIR": str(tmp_path / folder)})
        assert done.stderr.startswith("nbbench: TMPDIR: expected an absolute path"), done.stderr
        assert not list((tmp_path / folder).iterdir())


def test_an_empty_tmpdir_is_none(tmp_path):
    """The printed command has the name of the file, which nobody can foresee."""
    requires("fio")
    done = bench(tmp_path, "disk", "--repeat", 1, "--html", "/dev/null", environment={"TMPDIR": ""})
    (path,) = set(re.findall("export=(/[^,]*[.]img)", done.stderr))
    assert re.fullmatch("(/var)?/tmp/nbserved-[A-Za-z0-9]{6}[.]img", path) and not os.path.exists(path)


def test_several_words_have_one_page(tmp_path):
    requires("redis-benchmark")
    requires("iperf3")
    done = bench(tmp_path, "echo", "bulk", "--repeat", 1, "--save", "rows")
    assert f"The page: {os.path.realpath(tmp_path)}/nbserved-bench.html\n" in done.stderr
    page = (tmp_path / "nbserved-bench.html").read_text()
    assert "redis-benchmark, 512 bytes" in page and "iperf3, receiving in bulk" in page
    services = {json.loads(line)["service"] for line in (tmp_path / "rows").read_text().splitlines()}
    assert services == {"echo", "iperf3"} and len(list(tmp_path.iterdir())) == 2


def test_help_of_a_word_is_that_of_all_words():
    texts = [subprocess.run([str(NBBENCH), *words], check=True, capture_output=True, text=True).stdout
             for words in (("help", "echo"), ("echo", "--help"))]  # fmt: skip
    assert texts[0] == texts[1] and texts[0].startswith("Usage: nbbench WORD...")


def test_the_old_form_warns_and_works(tmp_path):
    requires("redis-benchmark")
    for words in (("--bench",), ("--bench", "echo"), ("--bench=echo",)):
        done = subprocess.run([str(NBSERVED), *words, "--repeat", "1", "--json"], cwd=tmp_path, capture_output=True,
                              text=True, timeout=4 * TIMEOUT, env={**os.environ, "NBSERVED_SOCKET": str(tmp_path / "s")})
        assert done.returncode == 0 and done.stderr.startswith("nbserved: `--bench WORD` is `nbbench WORD` now"), done.stderr
        assert {row["service"] for row in rows_of(json.loads(done.stdout))} == {"echo"}
    assert subprocess.run([str(NBSERVED), "--bench", "help"], capture_output=True, text=True).stdout.startswith("echo ")


def test_without_a_generator_it_says_how_to_get_one(tmp_path):
    done = bench(tmp_path, "http", path=only(tmp_path), check=1)
    assert "http: no load generator for it is installed" in done.stderr
    assert "wrk: apt install wrk; dnf install wrk" in done.stderr and "ab: apt install apache2-utils" in done.stderr
    assert not list(tmp_path.glob("*.html"))


def test_the_list_is_a_line_for_each_word(tmp_path):
    lines = bench(tmp_path, "list", path=only(tmp_path, "wrk")).stdout.splitlines()
    assert {line.split()[0] for line in lines} == WORDS
    assert [line for line in lines if line.startswith("http")][0].endswith(": wrk")
    assert "not here: redis-benchmark, valkey-benchmark, fio" in lines[0]


@pytest.mark.skipif(os.access("/dev/nvme-fabrics", os.W_OK), reason="this kernel can connect")
def test_nvme_says_that_the_kernel_is_its_client(tmp_path):
    done = bench(tmp_path, "nvme", path=only(tmp_path, "fio"), check=1)
    assert "fio nvme /dev/nvme-fabrics: apt install fio nvme-cli, then `modprobe nvme-tcp` as root" in done.stderr


def test_an_unknown_word(tmp_path):
    done = bench(tmp_path, "http", "htp", check=2)
    assert "there is no 'htp' (did you mean 'http'?); `nbbench list` lists the words" in done.stderr


def test_a_generator_is_no_word(tmp_path):
    done = bench(tmp_path, "iperf3", check=2)
    assert "'iperf3' is a load generator; `nbbench bulk` runs it" in done.stderr
