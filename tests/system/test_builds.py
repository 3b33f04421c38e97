"""Comparing builds: nbbench run --build, --seed; and a new daemon for each round."""

import json
import os
import shutil
import subprocess

import pytest
from conftest import NBBENCH, NBCTL, NBSERVED, TIMEOUT, requires, rows_of

WORSE, UNDECIDED, INCOMPARABLE = 5, 6, 7


def redis(requests=300):
    return [requires("redis-benchmark"), "-p", "{port}", "-t", "set", "-n", str(requests), "-q"]


def run(tmp_path, *arguments, program=NBBENCH):
    env = {**os.environ, "NBSERVED_SOCKET": str(tmp_path / "control.sock")}
    return subprocess.run([str(program), *map(str, arguments)], env=env, capture_output=True, text=True,
                          timeout=4 * TIMEOUT, stdin=subprocess.DEVNULL)


@pytest.fixture
def other(tmp_path):
    """Another nbserved: a copy elsewhere."""
    path = tmp_path / "other"
    path.mkdir()
    for program in (NBSERVED, NBCTL):
        shutil.copy(program, path)
    return path / NBSERVED.name


def test_each_round_has_a_new_daemon(tmp_path):
    """Each visit is of another process; none is left, and no file."""
    pids = tmp_path / "pids"
    command = f"{' '.join(redis())} >/dev/null; {NBCTL} -s {tmp_path}/control.sock status --json | grep '\"pid\"' >>{pids}"
    done = run(tmp_path, "run", "echo,engine=epoll", "echo,engine=epoll", "--repeat", 3, "--quiet",
               "--", "sh", "-c", command + " # {port}")
    assert done.returncode == 0, done.stderr
    seen = pids.read_text().split("\n")[:-1]
    assert len(seen) == 6 and len(set(seen)) == 3 and all(seen[i] == seen[i + 1] for i in (0, 2, 4))
    for line in set(seen):
        assert not os.path.exists(f"/proc/{line.split(':')[1].strip(' ,')}")
    assert [path.name for path in tmp_path.iterdir()] == ["pids"]


def test_a_daemon_that_fails_in_a_later_round_ends_the_run(tmp_path):
    """What was measured is shown, and saved is nothing."""
    disk, rows = tmp_path / "disk", tmp_path / "rows"
    command = f"test -e {tmp_path}/ran && rm {disk} && mkdir {disk}; touch {tmp_path}/ran; {{nbdinfo}} {{uri}}"
    command = command.replace("{nbdinfo}", requires("nbdinfo"))
    done = run(tmp_path, "run", f"nbd,engine=epoll,export={disk},size=1M", "--repeat", 9, "--save", rows, "--",
               "sh", "-c", command)
    assert done.returncode == 1 and str(disk) in done.stderr
    assert "nothing saved" in done.stderr and not rows.exists()


def test_builds_are_compared_listener_by_listener(tmp_path, other):
    rows = tmp_path / "rows"
    done = run(tmp_path, "run", "echo,engine=epoll", "echo,engine=io_uring-poll", "--build", f"old={other}",
               "--build", f"new={NBSERVED}", "--repeat", 8, "--json", "--save", rows, "--within", "100%", "--",
               *redis(3000))  # fewer may take no tick of the generator's CPU time
    assert done.returncode in (0, UNDECIDED), done.stderr
    assert "Against the first of each pair 0 of " in done.stderr
    document = json.loads(done.stdout)
    by_name = {row["listener"]: row for row in rows_of(document)}
    names = {"echo-epoll", "echo-io_uring-poll-2"}
    assert set(by_name) == {f"{name} ({build})" for name in names for build in ("old", "new")}
    for name in names:
        assert by_name[f"{name} (old)"]["verdicts"] == {}
        assert by_name[f"{name} (new)"]["verdicts"]["cost"]["rounds"] == 8
    for group in document["groups"]:
        assert group["comparisons"] == 2 and group["pair"] in names
        assert group["same_work"]  # so the generator's CPU time tells the machine's speed
    saved = [json.loads(line) for line in rows.read_text().splitlines()]
    assert {row["pair"] for row in saved} == names
    shown = run(tmp_path, "show", rows, "--json", program=NBBENCH)

    def chances(rows):
        return {row["listener"]: {what: verdict["low"] for what, verdict in row["verdicts"].items()} for row in rows}

    assert chances(by_name.values()) == chances(rows_of(json.loads(shown.stdout)))


def test_too_few_rounds_decide_nothing(tmp_path):
    done = run(tmp_path, "run", "echo,engine=epoll", "--build", f"a={NBSERVED}", "--build", f"b={NBSERVED}",
               "--repeat", 2, "--", *redis())
    assert done.returncode == INCOMPARABLE and "1 not comparable" in " ".join(done.stdout.split())


def test_a_seed_gives_the_same_order(tmp_path):
    def order(seed):
        rows = tmp_path / f"rows{seed}"
        words = ["run", *4 * ["echo,engine=epoll"]]
        assert run(tmp_path, *words, "--repeat", 4, "--seed", seed, "--save", rows, "--", *redis(50)).returncode == 0
        saved = [json.loads(line) for line in rows.read_text().splitlines()]
        rows.unlink()
        assert all(row["visit"]["seed"] == seed for row in saved)
        return sorted((row["visit"]["round"], row["visit"]["position"], row["listener"]) for row in saved)

    assert order(1) == order(1)
    assert order(1) != order(2)


@pytest.mark.parametrize("arguments, why", [
    (["--build", f"a={NBSERVED}"], "expected two"),
    (["--build", "a", "--build", "b"], "NAME=PATH"),
    (["--build", "a=/nonexistent/nbserved", "--build", f"b={NBSERVED}"], "/nonexistent/nbserved: No such file"),
    (["--build", f"a={NBSERVED}", "--build", f"a={NBSERVED}"], "two of the name 'a'"),
    (["--seed", "x"], "--seed: expected a number"),
])  # fmt: skip
def test_wrong_usage_is_refused(tmp_path, arguments, why):
    done = run(tmp_path, "run", "echo,engine=epoll", *arguments, "--repeat", 1, "--", *redis())
    assert done.returncode == 2 and why in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())
