"""`nbbench compare` against the real daemon: a command or visits, saved rows, gates and their exit codes."""

import contextlib
import fcntl
import json
import os
import re
import resource
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import NBBENCH, NBCTL, TIMEOUT, listener, requires, rows_of, wait_until
from nbctl_client import nbctl
from traffic import echo


def redis_benchmark(daemon, name, requests=2000, connections=10):
    return [
        requires("redis-benchmark"), "-p", str(daemon.port(name)), "-t", "ping_mbulk",
        "-n", str(requests), "-c", str(connections), "-q",
    ]  # fmt: skip


@contextlib.contextmanager
def measuring(daemon, *names):
    """The rows of `compare` for what the context does, in a list that is filled at its end."""
    rows = []
    with subprocess.Popen([str(NBBENCH), "-s", daemon.control, "compare", "--json", *names, "--"]
                          + ["sh", "-c", "echo ready >&2; cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        assert process.stderr.readline() == b"ready\n"
        yield rows
        document = json.loads(process.communicate(timeout=TIMEOUT)[0])
        rows += [*rows_of(document), *document["idle"]]


def test_compare_measures_a_command(daemon):
    load = redis_benchmark(daemon, "echo-io_uring")
    done = nbctl(daemon, "compare", "--json", "--quiet", "--label", "x", "--", *load)
    assert done.returncode == 0, done.stderr
    (row,) = rows_of(json.loads(done.stdout))  # the others did nothing
    assert (row["listener"], row["label"], row["service"]) == ("echo-io_uring", "x", "echo")
    # It first asks for its server's CONFIG, 77 bytes: a row may begin when they were received, but not yet answered.
    assert row["bytes_out"] - 77 <= row["bytes_in"] <= row["bytes_out"]
    assert row["bytes_in"] >= 2000 * len("*1\r\n$4\r\nPING\r\n")
    assert 0 < row["count"] <= 2000 + 10 and row["cpu_ns"] > 0
    assert 0 < row["latency_ns"]["count"] <= row["count"]
    derived = {name: value["median"] for name, value in row["values"].items()}
    assert derived["operations_per_s"] == pytest.approx(row["count"] / row["interval_ns"] * 1e9)
    assert derived["cpu_ns_per_operation"] == pytest.approx(row["cpu_ns"] / row["count"])
    known = [derived[key] for key in ("p50_ns", "p99_ns", "p99_9_ns") if derived[key] is not None]
    assert known == sorted(known)


def test_compare_shows_a_command_s_output_unless_quiet(daemon):
    load = redis_benchmark(daemon, "echo-epoll", requests=200)
    loud = nbctl(daemon, "compare", "--", *load).stdout
    quiet = nbctl(daemon, "compare", "--quiet", "--", *load).stdout
    assert "requests per second" in loud and "requests per second" not in quiet
    for text in (loud, quiet):
        assert re.search(r"(?m)^  echo-epoll +[\d,.]+ ", text)


def test_compare_of_a_failing_command_has_its_exit_status_and_shows_its_output(daemon, tmp_path):
    done = nbctl(daemon, "compare", "--quiet", "--", "sh", "-c", "echo oops; exit 7")
    assert done.returncode == 7
    assert "oops" in done.stderr and "exit status 7" in done.stderr
    done = nbctl(daemon, "compare", "--quiet", "--", "sh", "-c", "kill -9 $$")
    assert done.returncode == 128 + 9 and "signal 9" in done.stderr
    done = nbctl(daemon, "compare", "--", "/nonexistent/command")
    assert done.returncode == 127 and "cannot run /nonexistent/command: No such" in done.stderr
    done = nbctl(daemon, "compare", "--", tmp_path)
    assert done.returncode == 126 and f"cannot run {tmp_path}: " in done.stderr


def test_compare_that_cannot_save_does_not_run_the_command(daemon, tmp_path):
    ran = tmp_path / "ran"
    rows = tmp_path / "no-such" / "rows"
    done = nbctl(daemon, "compare", "--save", rows, "--", "touch", ran)
    assert done.returncode == 2 and f"{rows}: No such file or directory" in done.stderr
    assert not ran.exists()
    with daemon.connect("echo-epoll"):
        command = ["sh", "-c", f"touch {ran}; exit 0"]
        done = nbctl(daemon, "compare", "--save", "/dev/full", "echo-epoll", "--", *command)
    assert done.returncode == 8 and ran.exists()  # there was nothing to write


def test_compare_prints_null_for_unknown_figures(daemon):
    with daemon.connect("echo-epoll") as s:
        with measuring(daemon, "echo-epoll", "echo-io_uring") as rows:
            echo(s, b"x")
            echo(s, b"x")
    row, idle = rows
    some = {name: value["median"] for name, value in row["values"].items()}
    # Two operations, and so at most two samples: no 99th percentile.
    assert some["p99_ns"] is None and some["p99_9_ns"] is None
    assert some["operations_per_s"] > 0 and some["cpu_ns_per_operation"] is not None
    assert idle == "echo-io_uring"  # it has no row


def test_saved_rows_are_added_up_and_compared_without_a_daemon(daemon, tmp_path):
    rows = tmp_path / "rows.jsonl"
    for name in ("echo-epoll", "echo-io_uring", "echo-io_uring", "echo-epoll"):
        load = redis_benchmark(daemon, name, requests=500)
        done = nbctl(daemon, "compare", "--quiet", "--label", "10 conn", "--save", rows, "--", *load)
        assert done.returncode == 0, done.stderr
    saved = [json.loads(line) for line in rows.read_text().splitlines()]
    assert len(saved) == 4
    nowhere = str(tmp_path / "no.sock")
    done = nbctl(daemon, "show", rows, "--json", socket=nowhere)
    assert done.returncode == 0, done.stderr
    loaded = {row["listener"]: row for row in rows_of(json.loads(done.stdout))}
    assert list(loaded) == ["echo-epoll", "echo-io_uring"]
    for name, row in loaded.items():
        for key in ("count", "cpu_ns", "bytes_in", "syscalls", "interval_ns"):
            assert row[key] == sum(s[key] for s in saved if s["listener"] == name)
    text = nbctl(daemon, "show", rows, socket=nowhere).stdout
    assert "echo: 10 conn\n" in text and "too few rounds: 0 of 6" in text  # other runs, other times


def test_a_generator_that_is_slow_to_say_its_version_is_the_same_setup(daemon, tmp_path):
    """As on a busy host: the version is asked of the program, and is part of the setup."""
    rows, slow = tmp_path / "rows.jsonl", tmp_path / "redis-benchmark"
    once = f"test -e {tmp_path}/asked && sleep 1.5; touch {tmp_path}/asked"
    slow.write_text(f"""#!/bin/sh\n[ "$1" != --version ] || {{ {once}; }}\nexec {requires("redis-benchmark")} "$@"\n""")
    slow.chmod(0o755)
    for _ in range(2):
        load = [slow, *redis_benchmark(daemon, "echo-epoll", requests=500)[1:]]
        done = nbctl(daemon, "compare", "--quiet", "--save", rows, "--", *load)
        assert done.returncode == 0 and "version" not in done.stderr, done.stderr
    first, second = (json.loads(line) for line in rows.read_text().splitlines())
    assert first["conditions"]["generator"] == second["conditions"]["generator"] != ""
    assert first["visit"]["setup"] == second["visit"]["setup"]


def test_compare_visits_one_listener_after_the_other(daemon, tmp_path):
    """In an order that changes from round to round; each visit is a row of the file."""
    rows = tmp_path / "rows.jsonl"
    names = ["echo-epoll", "echo-io_uring", "echo-io_uring-poll"]
    load = [requires("redis-benchmark"), "-p", "{port}", "-h", "{host}", "-t", "set", "-n", "300"]
    done = nbctl(daemon, "compare", "--repeat", "3", "--save", rows, *names, "--", *load)
    assert done.returncode == 0, done.stderr
    saved = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [row["listener"] for row in saved] == [name for name in names for _ in range(3)]
    for row in saved:
        assert row["generator"]["name"] == "redis-benchmark"
        assert row["generator"]["requests"] == 300 and row["generator"]["requests_per_s"] > 0
        assert row["cpu_user_ns"] + row["cpu_system_ns"] == row["cpu_ns"]
        assert row["machine"]["total_ns"] > 0
    assert "SET" not in done.stdout  # understood output is in the rows
    assert re.search(r"reqs .*CPU/req", done.stdout)
    loaded = nbctl(daemon, "show", rows, "--json")
    for row in rows_of(json.loads(loaded.stdout)):
        visits = [one["cpu_ns"] / one["generator"]["requests"] for one in saved if one["listener"] == row["listener"]]
        assert row["visits"] == 3 and row["values"]["cpu_ns_per_request"]["median"] == pytest.approx(sorted(visits)[1])


def test_each_second_round_goes_backwards(daemon, tmp_path):
    log = tmp_path / "log"
    command = ["sh", "-c", f"echo {{listener}} {{uri}} >>{log}; echo said {{port}}"]
    done = nbctl(daemon, "compare", "--repeat", "2", "echo-epoll", "echo-io_uring", "--", *command)
    assert done.returncode == 8, done.stderr  # nothing was measured
    visits = [line.split() for line in log.read_text().splitlines()]
    names = [name for name, _ in visits]
    assert sorted(names[:2]) == ["echo-epoll", "echo-io_uring"] and names[2:] == names[1::-1]
    for name, uri in visits:
        assert uri == f"tcp://127.0.0.1:{daemon.port(name)}/"
        assert f"{name}: said {daemon.port(name)}\n" in done.stdout  # no parser understands it


def test_compare_asks_which_listeners_if_they_differ(start_daemon):
    daemon = start_daemon(listener("echo") + listener("discard", service="discard"))
    done = nbctl(daemon, "compare", "--", "true", "{port}")
    assert done.returncode == 2 and "name those that COMMAND is to visit" in done.stderr
    done = nbctl(daemon, "compare", "no-such", "--", "true", "{port}")
    assert done.returncode == 1 and "there is no listener 'no-such'" in done.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_cpus_are_those_of_the_listener_s_own_threads(start_daemon, tmp_path):
    """Of listeners whose names begin alike, as far as the name of a thread goes."""
    cpus = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))[:2]]
    rows = tmp_path / "rows"
    daemon = start_daemon("".join(listener(f"a-long-name-{cpu}", cpus=cpu) for cpu in cpus))
    load = [requires("redis-benchmark"), "-p", "{port}", "-t", "set", "-n", "300", "-q"]
    done = nbctl(daemon, "compare", "--repeat", "1", "--save", rows, "--", *load)
    assert done.returncode == 0, done.stderr
    saved = [json.loads(line) for line in rows.read_text().splitlines()]
    assert sorted(row["conditions"]["listener_cpus"] for row in saved) == cpus


def test_rounds_are_made_until_the_time_is_over(daemon, tmp_path):
    """No fewer rounds than can decide; the output says how many were made, and each visit its number."""
    rows = tmp_path / "rows"
    load = [requires("redis-benchmark"), "-p", "{port}", "-t", "set", "-n", "300", "-q"]
    names = ["echo-epoll", "echo-io_uring"]
    done = nbctl(daemon, "compare", "--time", "1ms", "--within", "0.1", "--save", rows, *names, "--", *load)
    assert done.returncode == 0, done.stderr
    assert "12 rounds in" in done.stdout and "the limit of --time" in done.stdout
    assert "the least 12 rounds of 2 visits will take" in done.stderr
    saved = [json.loads(line) for line in rows.read_text().splitlines()]
    for name in names:
        assert [row["visit"]["round"] for row in saved if row["listener"] == name] == list(range(1, 13))
    assert len({row["visit"]["run"] for row in saved}) == 1
    assert len({(row["visit"]["round"], row["visit"]["position"]) for row in saved}) == 24
    (build,) = {row["visit"]["build"] for row in saved}
    assert re.fullmatch(r"[0-9a-f]{16,64}", build)
    assert len({row["visit"]["setup"] for row in saved}) == 2  # the listeners' keys differ
    done = nbctl(daemon, "compare", "--time", "1", "--repeat", "2", *names, "--", *load)
    assert done.returncode == 2 and "leave out --repeat" in done.stderr


def write_runs(path, saved, runs, factor, spread=0.001):
    """The saved row, as of several other runs, with `factor` of its CPU time, each by `spread` more than the last."""
    with path.open("w") as out:
        for run in range(runs):
            row = {**saved, "cpu_ns": int(saved["cpu_ns"] * factor * (1 + run * spread))}
            print(json.dumps({**row, "visit": {**saved["visit"], "run": f"{factor} {run}"}}), file=out)


def test_the_gate_tells_worse_from_undecided_and_not_comparable(daemon, tmp_path):
    rows, old, new = tmp_path / "rows", tmp_path / "old", tmp_path / "new"
    load = redis_benchmark(daemon, "echo-epoll", requests=500)
    done = nbctl(daemon, "compare", "--quiet", "--save", rows, "--against", "/dev/null", "--", *load)
    said = " ".join(done.stdout.split())
    assert done.returncode == 7 and "no saved row" in said and "1 not comparable" in said and "No change is known" not in said
    (saved,) = [json.loads(line) for line in rows.read_text().splitlines()]

    def gate(*options):
        done = nbctl(daemon, "show", new, "--against", old, *options)
        return done.returncode, " ".join(done.stdout.split())

    write_runs(old, saved, 5, 1)
    write_runs(new, saved, 5, 1.1)
    code, text = gate()
    assert code == 5 and "1 of 1 are worse, 0 better" in text
    assert re.search(r"echo-epoll [\d.]+ [\d.]+ [\d.]+ [\d.]+ \+10 % [\d.]+ to 1\d % more", text), text
    assert gate("--within", "20")[0] == 0
    write_runs(new, saved, 5, 0.5)
    code, text = gate()
    assert code == 0 and "0 of 1 are worse, 1 better" in text and " % less No change is known" in text
    document = json.loads(nbctl(daemon, "show", new, "--against", old, "--json").stdout)
    then = rows_of(document)[0]["against"]
    verdict = then["verdict"]
    assert then["now"] / then["before"] - 1 == pytest.approx(verdict["change"], abs=0.01) == pytest.approx(-0.5, abs=0.01)
    assert verdict["low"] < verdict["change"] < verdict["high"] < 0
    assert verdict["is"] == "less" and then["runs_before"] == 5
    assert document["gates"]["against"] == then["gate"] == "passed" and document["changed"] == []
    write_runs(new, saved, 5, 0.97, 0.03)
    code, text = gate()
    assert code == 6 and "1 undecided" in text, text
    write_runs(new, saved, 4, 1.1)
    code, text = gate()
    assert code == 7 and "too few runs: 4 now, 5 then, of 5" in text
    saved["visit"]["setup"] = "another"
    saved["conditions"]["host"]["kernel"] = "Linux 99"
    saved["conditions"]["host"]["cpu_flags"] += " warp"
    write_runs(new, saved, 5, 1.001)
    code, text = gate()
    assert code == 7 and "--force judges them" in text and re.search(r"Changed: kernel: .* -> Linux 99 ", text)
    assert "Changed: CPU flags: - -> warp " in text
    assert gate("--force")[0] == 0
    done = nbctl(daemon, "show", new, "--against", new)
    assert done.returncode == 7  # of itself
    saved["listener"] = "renamed"
    write_runs(new, saved, 5, 1)
    code, text = gate()
    assert code == 7 and "renamed" in text and "no saved row" in text


def test_an_empty_comparison_is_no_success(daemon, tmp_path):
    empty = tmp_path / "empty"
    empty.write_text("")
    done = nbctl(daemon, "show", empty)
    assert done.returncode == 8 and "No operations" in done.stdout
    assert nbctl(daemon, "show", empty, "--json").returncode == 8
    assert nbctl(daemon, "show", empty, "--against", empty).returncode == 7


def test_limits_decide_the_exit_status(daemon, tmp_path):
    rows = tmp_path / "rows"
    load = redis_benchmark(daemon, "echo-epoll", requests=500)
    options = ["compare", "--quiet", "--repeat", "8", "--save", rows, "--fail-if", "cost>1s"]
    done = nbctl(daemon, *options, "--", *load)
    assert done.returncode == 0 and "of 1 row and limit 1 passed" in done.stdout, done.stdout

    def limited(*limits):
        more = [word for limit in limits for word in ("--fail-if", limit)]
        done = nbctl(daemon, "show", rows, "--json", *more)
        return done.returncode, [limit["is"] for limit in json.loads(done.stdout)["limits"]]

    assert limited("cost>1ns") == (5, ["failed"])
    assert limited("rate<1G") == (5, ["failed"])
    assert limited("p99.9>1ns", "cost>1ns") == (5, ["unknown", "failed"])  # worse goes first
    assert limited("p99.9>1ns", "cost>1s") == (7, ["unknown", "passed"])
    for wrong, said in ((["--fail-if", "p98>1us"], "there is no figure 'p98'; there are cost, calls, rate"),
                        (["--fail-if", "p99>200"], "comes a time with its unit, such as 200us"),
                        (["--fail-if", "cost>1.1*first"], "judged against others by --build and --against")):  # fmt: skip
        done = nbctl(daemon, "compare", *wrong, "--", "true")
        assert done.returncode == 2 and said in done.stderr


def test_a_visit_that_fails_is_left_out_and_counted(daemon, tmp_path):
    """One of 24; the run goes on, and its exit status is that of the others."""
    rows, visits = tmp_path / "rows", tmp_path / "visits"
    load = " ".join(redis_benchmark(daemon, "echo-epoll", requests=300)).replace(str(daemon.port("echo-epoll")), "$0")
    command = f"echo >>{visits}; [ $(wc -l <{visits}) -ne 9 ] && {load}"
    names = ["echo-epoll", "echo-io_uring"]
    done = nbctl(daemon, "compare", "--repeat", "12", "--save", rows, "--json", *names, "--", "sh", "-c", command, "{port}")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert sum(row["failed"] for row in rows_of(document)) == 1
    assert len(rows.read_text().splitlines()) == 23
    assert "failed_visits" in [warning["kind"] for warning in document["warnings"]]
    assert {row["doubt"] for row in rows_of(document)} == {"none"}
    visits.write_text("")
    last = command.replace("-ne 9", "-lt 23")  # both of the last round: no good visit comes after them
    done = nbctl(daemon, "compare", "--repeat", "12", "--save", rows, "--json", *names, "--", "sh", "-c", last, "{port}")
    assert done.returncode == 0 and [row["failed"] for row in rows_of(json.loads(done.stdout))] == [1, 1]
    loaded = json.loads(nbctl(daemon, "show", rows, "--json").stdout)
    assert sum(row["failed"] for row in rows_of(loaded)) == 3  # of both runs
    visits.write_text("\n" * 100)
    done = nbctl(daemon, "compare", "--repeat", "12", *names, "--", "sh", "-c", f"echo >>{visits}; exit 3", "{port}")
    assert done.returncode == 3 and len(visits.read_text()) == 101  # in the first round it ends the run


def test_a_listener_that_changes_meanwhile_has_no_verdict(start_daemon):
    daemon = start_daemon(listener("a") + listener("b"))
    file = daemon.config_path
    change = (f"[ {{listener}} != b ] || {{ sed -i '/^max-connections/d' {file}; echo max-connections = $$ >>{file}; "
              f"{NBCTL} -s {daemon.control} reload; }}")
    load = " ".join(redis_benchmark(daemon, "a", requests=300)).replace(str(daemon.port("a")), "{port}")
    done = nbctl(daemon, "compare", "--repeat", "8", "--json", "a", "b", "--", "sh", "-c", f"{load}; {change} >&2")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [row["doubt"] for row in rows_of(document)] == ["changed", "changed"]
    assert {verdict["is"] for verdict in rows_of(document)[1]["verdicts"].values()} <= {"not_comparable", "too_few_rounds"}


def test_a_file_without_valid_rows_exits_2_with_its_line(daemon, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('\n{"listener": 1}\n')
    done = nbctl(daemon, "show", rows)
    assert done.returncode == 2 and f"{rows}:2:" in done.stderr


def test_compare_counts_a_replaced_listener_from_its_start(daemon):
    """Its counters began at zero: nothing of the listener before it may be subtracted."""
    with daemon.connect("echo-epoll") as s:
        for _ in range(100):
            echo(s, b"x" * 1000)
    config = daemon.config_path.read_text()
    replaced = config.replace("[listener echo-epoll]\n", "[listener echo-epoll]\nbuffers = 512\n")
    assert replaced != config
    with measuring(daemon, "echo-epoll") as rows:
        daemon.config_path.write_text(replaced)
        daemon.call("Reload")
        with daemon.connect("echo-epoll") as s:
            for _ in range(300):
                echo(s, b"x")
    (row,) = rows
    assert (row["count"], row["listener_count"]) == (300, 300)
    assert (row["bytes_in"], row["bytes_out"]) == (300, 300)
    assert row["syscalls"] >= 600


def no_room(size):
    """To be called in a child: no file of its may be larger."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def test_saved_rows_stay_whole(start_daemon, tmp_path):
    """Rows that have no room are taken back, and runs that save to one file at a time take turns."""
    daemon, saved = start_daemon(listener("echo")), tmp_path / "rows"

    def save(**options):
        load = f"import socket; s = socket.create_connection(('127.0.0.1', {daemon.port('echo')})); s.send(b'x'); s.recv(1)"
        return nbctl(daemon, "compare", "--save", saved, "--", "/usr/bin/python3", "-c", load, **options)

    assert save().returncode == 0
    rows = saved.read_text()
    done = save(preexec_fn=no_room(len(rows) + 100), restore_signals=False)
    assert done.returncode == 2 and f"{saved}: File too large" in done.stderr
    assert saved.read_text() == rows

    with open(saved) as lock, ThreadPoolExecutor() as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = f":{os.stat(saved).st_ino} "
        run = pool.submit(save)
        wait_until(lambda: any("-> FLOCK" in line and waiting in line for line in open("/proc/locks")), "a run that waits")
        assert saved.read_text() == rows
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert run.result().returncode == 0
    assert len(saved.read_text().splitlines()) == 2


def test_files_that_were_to_be_written_do_not_stay_empty(start_daemon, tmp_path):
    """Of a run that fails, or that Ctrl-C ends before there is a row; a file that was there before stays."""
    daemon, saved, old = start_daemon(listener("echo")), tmp_path / "rows", tmp_path / "old"
    old.write_text("")
    assert nbctl(daemon, "compare", "--save", saved, "--", "false").returncode == 1
    assert nbctl(daemon, "compare", "--save", old, "--", "false").returncode == 1
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    command = [str(NBBENCH), "-s", daemon.control, "compare", "--save", saved, "--", "sh", "-c", "echo ready >&2; exec sleep 60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT)
    assert not saved.exists()


@pytest.mark.parametrize("begin", ["", "open({!r}, 'x');"], ids=["removed", "replaced"])
def test_a_file_that_another_run_removed_is_made_again(start_daemon, tmp_path, begin):
    daemon, saved, page = start_daemon(listener("echo")), tmp_path / "rows", tmp_path / "page"
    script = f"import os, socket; os.unlink({str(saved)!r}); os.unlink({str(page)!r}); {begin.format(str(page))} s = socket.create_connection(('127.0.0.1', {daemon.port('echo')})); s.send(b'x'); s.recv(1)"
    assert nbctl(daemon, "compare", "--save", saved, "--html", page, "--", "/usr/bin/python3", "-c", script).returncode == 0
    assert len(saved.read_text().splitlines()) == 1 and "</html>" in page.read_text()
