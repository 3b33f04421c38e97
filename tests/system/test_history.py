"""`nbctl history`: runs of compare that are kept, and what takes them by name."""

import fcntl
import json
import os
import resource
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import NBCTL, TIMEOUT, listener, wait_until
from traffic import echo

MAX = 200


@pytest.fixture
def measured(start_daemon, tmp_path):
    """nbctl with a state of its own; compare() measures what one request costs."""
    daemon = start_daemon(listener("echo"))
    state = tmp_path / "state"

    def nbctl(*words, state=state, **options):
        return subprocess.run([str(NBCTL), "-s", daemon.control, *map(str, words)], capture_output=True, text=True,
                              timeout=TIMEOUT, env={**os.environ, "XDG_STATE_HOME": str(state)}, check=False, **options)

    def compare(*options, **more):
        load = f"import socket; s = socket.create_connection(('127.0.0.1', {daemon.port('echo')})); s.send(b'x'); s.recv(1)"
        return nbctl("compare", *options, "--", "/usr/bin/python3", "-c", load, **more)

    with daemon.connect("echo") as s:
        echo(s, b"x")
    nbctl.compare, nbctl.kept = compare, state / "nbserved"
    return nbctl


def test_a_run_is_kept_with_what_made_it(measured):
    assert "No run" in measured("history").stdout
    none = measured("report", "last")
    assert none.returncode == 2 and "no run has been kept yet" in none.stderr
    done = measured.compare("--label", "it's one")
    assert done.returncode == 0 and not done.stderr, done.stderr
    (run,) = json.loads(measured("history", "--json").stdout)["runs"]
    assert run["label"] == "it's one" and run["rows"] == 1 and run["invocation"][3:6] == ["compare", "--label", "it's one"]
    table = measured("history").stdout
    assert run["name"] in table and "compare --label 'it'\\''s one' -- /usr/bin/python3 -c " in table
    rows = (measured.kept / run["name"]).read_text().splitlines()
    assert json.loads(rows[0])["conditions"]["invocation"] == run["invocation"]
    assert [path.name for path in measured.kept.iterdir()] == [run["name"]]
    for name in ("last", run["name"]):
        assert "it's one" in measured("compare", "--load", name).stdout
        page = measured("report", name).stdout
        assert "measured by" in page and "compare --label 'it'\\''s one' -- " in page


def test_last_is_the_run_before(measured):
    """Showing rows keeps no run; a run beside the last one is a run too few to be judged, and shown."""
    measured.compare()
    measured("compare", "--load", "last")
    done = measured.compare("--against", "last")
    assert done.returncode == 7 and "too few runs: 1 now, 1 then, of 5" in done.stdout
    assert len(list(measured.kept.iterdir())) == 2


def test_the_newest_are_kept(measured):
    measured.kept.mkdir(parents=True)
    for i in range(MAX + 3):
        (measured.kept / f"20000101T000000.{i:03}-0.jsonl").write_text("")
    (measured.kept / "other").write_text("of the user")
    for name, age in ((".killed.tmp", 7200), (".written.tmp", 0)):
        (measured.kept / name).write_text("")
        os.utime(measured.kept / name, (time.time() - age,) * 2)
    measured.compare()
    first, *names = sorted(path.name for path in measured.kept.iterdir())
    assert first == ".written.tmp"  # by another process, now; the other was killed an hour ago and more
    assert len(names) == MAX + 1 and "other" in names  # what is no run stays
    assert names[0] == "20000101T000000.004-0.jsonl"


def no_room(size):
    """To be called in a child: no file of its may be larger."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def test_what_cannot_be_kept_is_a_warning(measured, tmp_path):
    """No place, or no room: one line, the status stays, and nothing is left."""
    file = tmp_path / "file"
    file.write_text("")
    done = measured.compare(state=file)
    assert done.returncode == 0 and "echo" in done.stdout
    assert done.stderr.count("\n") == 1 and "Not a directory: this run is not kept" in done.stderr

    done = measured.compare(preexec_fn=no_room(100), restore_signals=False)
    assert done.returncode == 0 and done.stderr.count("\n") == 1, done.stderr
    assert "File too large: this run is not kept" in done.stderr and not list(measured.kept.iterdir())


def test_what_cannot_be_read_is_an_error(measured, tmp_path):
    """It is not the same as no run."""
    file = tmp_path / "file"
    file.write_text("")
    done = measured("history", state=file)
    assert done.returncode == 2 and f"{file}/nbserved: Not a directory" in done.stderr and not done.stdout
    done = measured("report", "last", state=file)
    assert done.returncode == 2 and "last: Not a directory" in done.stderr
    done = measured("compare", "--load", tmp_path)
    assert done.returncode == 2 and f"{tmp_path}: Is a directory" in done.stderr


def test_saved_rows_stay_whole(measured, tmp_path):
    """Rows that have no room are taken back, and runs that save to one file at a time take turns."""
    saved = tmp_path / "rows"
    assert measured.compare("--save", saved).returncode == 0
    rows = saved.read_text()
    done = measured.compare("--save", saved, preexec_fn=no_room(len(rows) + 100), restore_signals=False)
    assert done.returncode == 2 and f"{saved}: File too large" in done.stderr
    assert saved.read_text() == rows

    with open(saved) as lock, ThreadPoolExecutor() as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = f":{os.stat(saved).st_ino} "
        run = pool.submit(measured.compare, "--save", saved)
        wait_until(lambda: any("-> FLOCK" in line and waiting in line for line in open("/proc/locks")), "a run that waits")
        assert saved.read_text() == rows
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert run.result().returncode == 0
    assert len(saved.read_text().splitlines()) == 2
